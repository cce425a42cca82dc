/* Reading the structure of GGUF files. See gguf.h; look-ups and typed values: gguf_get.c.
 *
 * All bytes are read through one cursor. Every count, length and size is compared with the bytes
 * left before anything is allocated or walked, so for any file memory is a small multiple of its
 * size and time is O(n log n) in it. After gguf_parse every tensor is inside the file. In errors,
 * err.offset is the byte of the wrong field (or entry).
 *
 * A tensor with 0 dims is a scalar: one value. The only key interpreted here is the one that
 * changes how a file is read: general.alignment. Parts of a split file: gguf_parts.c.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/gguf_impl.h"

#include <stdlib.h>

#define MIN_KV_BYTES 14   /* key length, 1 byte of key, type, 1 byte of value */
#define MIN_INFO_BYTES 24 /* name length, n_dims, type, offset */
#define CLIP 60           /* bytes of a name that an error message shows */

struct parse {
    struct gguf *g;
    struct cursor c;
    mgpt_error *err;
    const char *kind;     /* of the entry being read: "key" or "tensor" */
    struct gguf_str name; /* its name, once known */
    uint64_t i;           /* its number */
    char text[96];
};

/* The entry being read, for error messages: "key general.name", "tensor number 3". */
static const char *subject(struct parse *p)
{
    int n = p->name.n < CLIP ? (int)p->name.n : CLIP;
    if (n > 0)
        text_format(p->text, sizeof p->text, "%s %.*s", p->kind, n, p->name.p);
    else
        text_format(p->text, sizeof p->text, "%s number %llu", p->kind, (unsigned long long)p->i);
    return p->text;
}

static int truncated(struct parse *p)
{
    return err_set(p->err, MGPT_EFILE, p->c.where, "%s: truncated, the file ends at byte %zu",
                   subject(p), p->c.size);
}

static int read_string(struct parse *p, struct gguf_str *s)
{
    size_t at = p->c.pos;
    uint64_t n = cursor_u64(&p->c);
    if (p->c.failed)
        return truncated(p);
    if (n > GGUF_MAX_STRING)
        return err_set(p->err, MGPT_EFILE, at, "%s: string of %llu bytes, the limit is %llu",
                       subject(p), (unsigned long long)n, (unsigned long long)GGUF_MAX_STRING);
    if (n > cursor_left(&p->c))
        return err_set(p->err, MGPT_EFILE, at, "%s: string of %llu bytes, the file has %zu more",
                       subject(p), (unsigned long long)n, cursor_left(&p->c));
    s->p = (const char *)cursor_take(&p->c, n);
    s->n = (size_t)n;
    return MGPT_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static int read_elements(struct parse *p, struct gguf_kv *kv)
{
    size_t start = p->c.pos;
    kv->value = p->c.data + start;
    if (kv->element == GGUF_STRING) {
        struct gguf_str s;
        for (uint64_t i = 0; i < kv->n; i++)
            if (read_string(p, &s) < 0)
                return MGPT_EFILE;
    } else {
        cursor_take(&p->c, kv->n * gguf_types[kv->element].size);
    }
    kv->value_bytes = p->c.pos - start;
    for (size_t i = 0; kv->element == GGUF_BOOL && i < kv->value_bytes; i++)
        if (kv->value[i] > 1)
            return err_set(p->err, MGPT_EFILE, start + i, "%s: bool is %u, expected 0 or 1",
                           subject(p), kv->value[i]);
    return MGPT_OK;
}

static int read_kv_value(struct parse *p, struct gguf_kv *kv)
{
    size_t at = p->c.pos;
    uint32_t type = cursor_u32(&p->c), element = type;
    kv->n = 1;
    if (type == GGUF_ARRAY) {
        at = p->c.pos;
        element = cursor_u32(&p->c);
        kv->n = cursor_u64(&p->c);
    }
    if (p->c.failed)
        return truncated(p);
    if (element >= GGUF_N_TYPES)
        return err_set(p->err, MGPT_EFILE, at, "%s: unknown value type %u", subject(p), element);
    if (element == GGUF_ARRAY)
        return err_set(p->err, MGPT_EFILE, at, "%s: an array of arrays is not supported",
                       subject(p));
    if (kv->n > GGUF_MAX_ELEMENTS)
        return err_set(p->err, MGPT_EFILE, at + 4, "%s: array of %llu elements, the limit is %llu",
                       subject(p), (unsigned long long)kv->n,
                       (unsigned long long)GGUF_MAX_ELEMENTS);
    if (kv->n > cursor_left(&p->c) / gguf_types[element].size)
        return err_set(p->err, MGPT_EFILE, at,
                       "%s: a value of %llu x %u bytes, the file has %zu more", subject(p),
                       (unsigned long long)kv->n, gguf_types[element].size, cursor_left(&p->c));
    kv->type = (enum gguf_type)type;
    kv->element = (enum gguf_type)element;
    return read_elements(p, kv);
}

static int read_kv(struct parse *p)
{
    struct gguf_kv kv = {.offset = p->c.pos};
    p->name = (struct gguf_str){NULL, 0};
    if (read_string(p, &kv.key) < 0)
        return MGPT_EFILE;
    if (kv.key.n == 0 || kv.key.n > GGUF_MAX_KEY)
        return err_set(p->err, MGPT_EFILE, kv.offset, "%s: a key of %zu bytes, expected 1 to %u",
                       subject(p), kv.key.n, GGUF_MAX_KEY);
    p->name = kv.key;
    if (read_kv_value(p, &kv) < 0)
        return MGPT_EFILE;
    arr_put(p->g->kv, kv);
    return MGPT_OK;
}

/* ---- tensor infos ---------------------------------------------------------------------------- */

/* Reads the name, checks it and copies it to its slot in g->names. */
static int read_name(struct parse *p, struct gguf_tensor *t)
{
    size_t at = p->c.pos;
    struct gguf_str s;
    p->name = (struct gguf_str){NULL, 0};
    if (read_string(p, &s) < 0)
        return MGPT_EFILE;
    if (s.n == 0 || s.n > GGUF_MAX_NAME)
        return err_set(p->err, MGPT_EFILE, at, "%s: a name of %zu bytes, expected 1 to %u",
                       subject(p), s.n, GGUF_MAX_NAME);
    p->name = s;
    for (size_t i = 0, length; i < s.n; i += length) {
        uint32_t code;
        length = utf8_next(s.p + i, s.n - i, &code);
        if (utf8_dangerous(code))
            return err_set(p->err, MGPT_EFILE, at + 8 + i, "%s: control character in the name",
                           subject(p));
    }
    t->name = p->g->names + p->i * (GGUF_MAX_NAME + 1);
    memcpy(t->name, s.p, s.n); /* the slot is zeroed, which gives the terminator */
    return MGPT_OK;
}

static int read_dims(struct parse *p, struct gguf_tensor *t)
{
    size_t at = p->c.pos;
    t->n_dims = cursor_u32(&p->c);
    t->n_values = 1;
    if (!p->c.failed && t->n_dims > GGUF_MAX_DIMS)
        return err_set(p->err, MGPT_EFILE, at, "%s: %u dimensions, the limit is %u", subject(p),
                       t->n_dims, GGUF_MAX_DIMS);
    for (uint32_t d = 0; d < GGUF_MAX_DIMS; d++) {
        at = p->c.pos;
        t->dims[d] = d < t->n_dims ? cursor_u64(&p->c) : 1;
        if (p->c.failed)
            return truncated(p);
        if (t->dims[d] == 0)
            return err_set(p->err, MGPT_EFILE, at, "%s: dimension %u is 0", subject(p), d);
        if (!ck_mul(t->n_values, t->dims[d], &t->n_values) || t->n_values > INT64_MAX)
            return err_set(p->err, MGPT_EFILE, at, "%s: dimension %u is %llu: too many values",
                           subject(p), d, (unsigned long long)t->dims[d]);
    }
    return MGPT_OK;
}

static int read_type(struct parse *p, struct gguf_tensor *t)
{
    size_t at = p->c.pos;
    uint32_t id = cursor_u32(&p->c);
    if (p->c.failed)
        return truncated(p);
    t->type = dtype_find(id);
    if (!t->type)
        return err_set(p->err, MGPT_EFILE, at, "%s: element type %s (%u) cannot be read",
                       subject(p), dtype_name(id), id);
    if (t->dims[0] % t->type->block)
        return err_set(p->err, MGPT_EFILE, at, "%s: rows of %llu values, %s needs a multiple of %u",
                       subject(p), (unsigned long long)t->dims[0], t->type->name, t->type->block);
    if (!ck_bytes(t->n_values / t->type->block, t->type->block_bytes, &t->size))
        return err_set(p->err, MGPT_EFILE, at, "%s: %llu values of %s are too many bytes",
                       subject(p), (unsigned long long)t->n_values, t->type->name);
    return MGPT_OK;
}

/* *used: bytes of the data section so far. Tensors must follow each other without gaps, as ggml
 * requires; this excludes overlaps. t->offset is the offset of the info until place_data. */
static int read_info(struct parse *p, uint64_t *used)
{
    struct gguf_tensor t = {.offset = p->c.pos};
    if (read_name(p, &t) < 0 || read_dims(p, &t) < 0 || read_type(p, &t) < 0)
        return MGPT_EFILE;
    size_t at = p->c.pos;
    uint64_t offset = cursor_u64(&p->c);
    if (p->c.failed)
        return truncated(p);
    if (offset % p->g->alignment)
        return err_set(p->err, MGPT_EFILE, at, "%s: data at %llu, not a multiple of alignment %u",
                       subject(p), (unsigned long long)offset, p->g->alignment);
    if (offset != *used)
        return err_set(p->err, MGPT_EFILE, at,
                       "%s: data at %llu of the data section, expected %llu", subject(p),
                       (unsigned long long)offset, (unsigned long long)*used);
    if (!ck_add(*used, t.size, used) || !ck_align(*used, p->g->alignment, used))
        return err_set(p->err, MGPT_EFILE, at, "%s: the data section exceeds 2^64 bytes",
                       subject(p));
    arr_put(p->g->tensors, t);
    return MGPT_OK;
}

/* Replaces the offsets of infos by offsets of data. */
static int place_data(struct parse *p)
{
    uint64_t at, end, padded;
    p->g->header_bytes = p->g->end = p->c.pos;
    if (!ck_align(p->c.pos, p->g->alignment, &at))
        return err_set(p->err, MGPT_EFILE, p->c.pos, "the header is too long");
    for (size_t i = 0; i < arr_len(p->g->tensors); i++) {
        struct gguf_tensor *t = &p->g->tensors[i];
        if (!ck_add(at, t->size, &end))
            end = UINT64_MAX;
        if (end > p->c.size)
            return err_set(p->err, MGPT_EFILE, t->offset,
                           "tensor %s: data ends at byte %llu, the file has %zu", t->name,
                           (unsigned long long)end, p->c.size);
        t->offset = at;
        t->data = p->c.data + at;
        at = ck_align(end, p->g->alignment, &padded) ? padded : end;
        p->g->end = end;
    }
    return MGPT_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int read_gguf_header(struct parse *p, uint64_t *n_tensors, uint64_t *n_kv)
{
    const uint8_t *magic = cursor_take(&p->c, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return err_set(p->err, MGPT_EFILE, 0, "not a GGUF file: it does not begin with \"GGUF\"");
    uint32_t version = cursor_u32(&p->c);
    *n_tensors = cursor_u64(&p->c);
    *n_kv = cursor_u64(&p->c);
    if (p->c.failed)
        return err_set(p->err, MGPT_EFILE, p->c.where, "the file ends at byte %zu, a header is %u",
                       p->c.size, GGUF_HEADER_BYTES);
    if (version && (version & 0xFFFF) == 0)
        return err_set(p->err, MGPT_EFILE, 4, "big-endian GGUF file, expected little-endian");
    if (version != 2 && version != GGUF_VERSION)
        return err_set(p->err, MGPT_EFILE, 4, "GGUF version %u, expected 2 or 3", version);
    p->g->version = version;
    return MGPT_OK;
}

/* Checks a count of entries of at least `each` bytes before memory is allocated for them. */
static int check_count(struct parse *p, const char *what, uint64_t n, size_t each, uint64_t offset)
{
    if (n > GGUF_MAX_ENTRIES)
        return err_set(p->err, MGPT_EFILE, offset, "header: %llu %s, the limit is %u",
                       (unsigned long long)n, what, GGUF_MAX_ENTRIES);
    if (n > cursor_left(&p->c) / each)
        return err_set(p->err, MGPT_EFILE, offset, "header: %llu %s, the file has %zu more bytes",
                       (unsigned long long)n, what, cursor_left(&p->c));
    return MGPT_OK;
}

static int read_metadata(struct parse *p, uint64_t n)
{
    struct gguf *g = p->g;
    p->kind = "key";
    if (!arr_reserve(g->kv, (size_t)n))
        return err_memory(p->err, "metadata", (size_t)n * sizeof *g->kv);
    for (p->i = 0; p->i < n; p->i++)
        if (read_kv(p) < 0)
            return MGPT_EFILE;
    size_t twice;
    if (!gguf_sort_keys(g, &twice))
        return err_memory(p->err, "metadata", (size_t)n * sizeof *g->kv_sorted);
    if (twice == n)
        return MGPT_OK;
    p->name = g->kv[twice].key;
    return err_set(p->err, MGPT_EFILE, g->kv[twice].offset, "%s: occurs twice", subject(p));
}

/* Applies the keys that change how the rest is read. */
static int apply_metadata(struct parse *p)
{
    struct gguf *g = p->g;
    const struct gguf_kv *kv = gguf_find(g, GGUF_ALIGNMENT_KEY);
    g->alignment = 32;
    if (kv && kv->type != GGUF_U32)
        return err_set(p->err, MGPT_EFILE, kv->offset,
                       "key general.alignment: expected a u32, found %s", gguf_types[kv->type].one);
    if (kv) {
        struct cursor c = cursor_over(kv->value, kv->value_bytes);
        uint32_t a = g->alignment = cursor_u32(&c);
        if (a < GGUF_MIN_ALIGNMENT || a > GGUF_MAX_ALIGNMENT || (a & (a - 1)))
            return err_set(p->err, MGPT_EFILE, kv->offset,
                           "key general.alignment: %u, expected a power of two from %u to %u", a,
                           GGUF_MIN_ALIGNMENT, GGUF_MAX_ALIGNMENT);
    }
    return MGPT_OK;
}

static int read_tensors(struct parse *p, uint64_t n)
{
    struct gguf *g = p->g;
    uint64_t used = 0;
    p->kind = "tensor";
    size_t n_names = (size_t)n * (GGUF_MAX_NAME + 1);
    if (n && (!arr_reserve(g->names, n_names) || !arr_reserve(g->tensors, (size_t)n)))
        return err_memory(p->err, "tensor infos", (size_t)n * sizeof *g->tensors);
    if (n) {
        memset(g->names, 0, n_names);
        arr_set_len(g->names, n_names);
    }
    for (p->i = 0; p->i < n; p->i++)
        if (read_info(p, &used) < 0)
            return MGPT_EFILE;
    size_t twice;
    if (!gguf_sort_names(g, &twice))
        return err_memory(p->err, "tensor infos", (size_t)n * sizeof *g->tensors_sorted);
    if (twice == n)
        return MGPT_OK;
    return err_set(p->err, MGPT_EFILE, g->tensors[twice].offset, "tensor %s: occurs twice",
                   g->tensors[twice].name);
}

static int parse_structure(struct parse *p)
{
    uint64_t n_tensors = 0, n_kv = 0;
    int status = read_gguf_header(p, &n_tensors, &n_kv);
    if (status == MGPT_OK)
        status = check_count(p, "metadata entries", n_kv, MIN_KV_BYTES, 16);
    if (status == MGPT_OK)
        status = check_count(p, "tensors", n_tensors, MIN_INFO_BYTES, 8);
    if (status == MGPT_OK)
        status = read_metadata(p, n_kv);
    if (status == MGPT_OK)
        status = apply_metadata(p);
    return status == MGPT_OK ? read_tensors(p, n_tensors) : status;
}

int gguf_parse_header(struct gguf *g, const void *data, size_t size, mgpt_error *err)
{
    *g = (struct gguf){.data = data, .size = size};
    struct parse p = {.g = g, .c = cursor_over(data, size), .err = err};
    int status = parse_structure(&p);
    if (status < 0)
        gguf_free(g);
    return status;
}

int gguf_parse_part(struct gguf *g, const void *data, size_t size, mgpt_error *err)
{
    *g = (struct gguf){.data = data, .size = size};
    struct parse p = {.g = g, .c = cursor_over(data, size), .err = err};
    int status = parse_structure(&p);
    if (status == MGPT_OK)
        status = place_data(&p);
    if (status < 0)
        gguf_free(g);
    return status;
}

void gguf_free(struct gguf *g)
{
    arr_free(g->kv);
    arr_free(g->tensors);
    arr_free(g->names);
    free(g->kv_sorted);
    free(g->tensors_sorted);
    *g = (struct gguf){0};
}
