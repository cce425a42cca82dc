/* The structure of a safetensors file. See safetensors.h.
 *
 * Sorted by offset, each tensor must begin where the previous one ends. This excludes overlaps,
 * gaps and hidden bytes, and bounds every size by the file's.
 */
#include "convert/containers/safetensors.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/jval.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HEADER 100000000u
#define MAX_ENTRIES 32768u /* a JSON tree takes over a kilobyte for one */
#define START 8u           /* of the header */

/* Bits of an element. */
static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {
    {"F32", 32},        {"F16", 16},        {"BF16", 16}, {"F64", 64},    {"I64", 64},
    {"I32", 32},        {"I16", 16},        {"I8", 8},    {"U64", 64},    {"U32", 32},
    {"U16", 16},        {"U8", 8},          {"BOOL", 8},  {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64},  {"F8_E8M0", 8}, {"F6_E2M3", 6},
    {"F6_E3M2", 6},     {"F4", 4},
};

/* ---- one entry ------------------------------------------------------------------------------- */

/* Where an entry came from, for its error lines. */
struct st_entry {
    const char *name;
    const struct jval *value;
    mgpt_error *err;
};

static int safetensors_bad(const struct st_entry *e, const char *what)
{
    return err_set(e->err, MGPT_EFILE, START, "tensor %.*s: %s",
                   CKPT_CLIP(e->name, strlen(e->name)), what);
}

static int whole(const struct jval *v, uint64_t *to)
{
    if (!jval_is(v, JVAL_INTEGER) || jval_whole(v) < 0)
        return 0;
    *to = (uint64_t)jval_whole(v);
    return 1;
}

static int safetensors_read_shape(const struct st_entry *e, struct st_tensor *t)
{
    const struct jval *shape = jval_get(e->value, "shape");
    size_t n = jval_size(shape);
    if (!jval_is(shape, JVAL_ARRAY))
        return safetensors_bad(e, "shape: expected a list of numbers");
    if (n > ST_MAX_DIMS)
        return err_set(e->err, MGPT_EFILE, START, "tensor %.*s: %zu dimensions, the limit is %d",
                       CKPT_CLIP(e->name, strlen(e->name)), n, ST_MAX_DIMS);
    t->n_dims = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (!whole(jval_at(shape, i), &t->dims[i]))
            return safetensors_bad(e, "shape: expected whole numbers");
    return MGPT_OK;
}

/* The bytes that dtype and shape imply; 0 when they overflow or are not a whole number. */
static int safetensors_size_of(const struct st_tensor *t, unsigned bits, uint64_t *bytes)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] == 0) {
            *bytes = 0;
            return 1;
        }
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!ck_mul(n, t->dims[i], &n))
            return 0;
    if (!ck_mul(n, bits, &n) || n % 8)
        return 0;
    *bytes = n / 8;
    return 1;
}

static int safetensors_read_entry(const struct st_entry *e, struct st_tensor *t)
{
    const struct jval *offsets = jval_get(e->value, "data_offsets");
    const char *dtype = jval_text(jval_get(e->value, "dtype"));
    uint64_t bytes;
    unsigned bits = 0;
    *t = (struct st_tensor){.name = e->name};
    if (!jval_is(e->value, JVAL_OBJECT))
        return safetensors_bad(e, "expected an object of dtype, shape and data_offsets");
    if (!dtype)
        return safetensors_bad(e, "dtype: expected a name");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, dtype) == 0) {
            t->dtype = dtypes[i].name;
            bits = dtypes[i].bits;
        }
    if (!t->dtype)
        return err_set(e->err, MGPT_EFILE, START, "tensor %.*s: unknown dtype %.24s",
                       CKPT_CLIP(e->name, strlen(e->name)), dtype);
    if (safetensors_read_shape(e, t) < 0)
        return MGPT_EFILE;
    if (jval_size(offsets) != 2 || !whole(jval_at(offsets, 0), &t->begin) ||
        !whole(jval_at(offsets, 1), &t->end) || t->begin > t->end)
        return safetensors_bad(e, "data_offsets: expected two whole numbers in order");
    if (!safetensors_size_of(t, bits, &bytes))
        return safetensors_bad(e, "its shape does not give a whole number of bytes below 2^64");
    if (bytes != t->end - t->begin)
        return err_set(e->err, MGPT_EFILE, START,
                       "tensor %.*s: data_offsets hold %llu bytes, dtype and shape imply %llu",
                       CKPT_CLIP(e->name, strlen(e->name)), (unsigned long long)(t->end - t->begin),
                       (unsigned long long)bytes);
    return MGPT_OK;
}

/* ---- all entries ----------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name); /* empty tensors: any order, but always the same */
}

static int read_entries(struct safetensors *st, mgpt_error *err)
{
    size_t n = jval_members(st->header);
    if (n > ST_MAX_TENSORS)
        return err_set(err, MGPT_EFILE, START, "safetensors header: %zu tensors, the limit is %d",
                       n, ST_MAX_TENSORS);
    if (!arr_reserve(st->tensors, n))
        return err_memory(err, "the list of tensors", n * sizeof *st->tensors);
    for (struct jval_iter i = jval_begin(st->header); jval_next(&i);) {
        struct st_tensor t;
        struct st_entry e = {i.key, i.value, err};
        if (strcmp(i.key, "__metadata__") == 0)
            continue;
        if (safetensors_read_entry(&e, &t) < 0)
            return MGPT_EFILE;
        arr_put(st->tensors, t);
    }
    if (arr_len(st->tensors))
        qsort(st->tensors, arr_len(st->tensors), sizeof *st->tensors, by_place);
    return MGPT_OK;
}

/* Checks that tensors cover the data without gaps or overlaps. */
static int tile(struct safetensors *st, struct span data, uint64_t start, mgpt_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < arr_len(st->tensors); i++) {
        struct st_tensor *t = &st->tensors[i];
        if (t->begin != at)
            return err_set(err, MGPT_EFILE, START,
                           "tensor %.*s: begins at byte %llu of the data, expected %llu (%s)",
                           CKPT_CLIP(t->name, strlen(t->name)), (unsigned long long)t->begin,
                           (unsigned long long)at, t->begin < at ? "an overlap" : "a gap");
        if (t->end > data.size)
            return err_set(err, MGPT_EFILE, start + t->begin,
                           "tensor %.*s: ends at byte %llu of the data, the file has %zu of them",
                           CKPT_CLIP(t->name, strlen(t->name)), (unsigned long long)t->end,
                           data.size);
        t->data = data.data + t->begin;
        at = t->end;
    }
    if (at != data.size)
        return err_set(err, MGPT_EFILE, start + at, "%llu bytes after the last tensor",
                       (unsigned long long)(data.size - at));
    return MGPT_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int header_length(struct span bytes, uint64_t *n, mgpt_error *err)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    *n = cursor_u64(&c);
    if (c.failed)
        return err_set(err, MGPT_EFILE, 0, "safetensors: %zu bytes, a file has 8 and a header",
                       bytes.size);
    if (*n > MAX_HEADER)
        return err_set(err, MGPT_EFILE, 0, "safetensors header: %llu bytes, the limit is %u",
                       (unsigned long long)*n, MAX_HEADER);
    if (*n > cursor_left(&c))
        return err_set(err, MGPT_EFILE, 0,
                       "safetensors header: %llu bytes, %zu are left in the file",
                       (unsigned long long)*n, cursor_left(&c));
    if (*n == 0 || bytes.data[START] != '{')
        return err_set(err, MGPT_EFILE, START, "safetensors header: it does not begin with '{'");
    return MGPT_OK;
}

/* Counts before the JSON is parsed: each entry has a brace, and so has the header. */
static int count_entries(struct span text, mgpt_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '{' && n++ > MAX_ENTRIES)
            return err_set(err, MGPT_EFILE, START + i,
                           "safetensors header: more than %u entries, the limit", MAX_ENTRIES);
    return MGPT_OK;
}

static int parse_header(struct safetensors *st, struct span text, mgpt_error *err)
{
    struct jval_error e;
    if (count_entries(text, err) < 0)
        return MGPT_EFILE;
    st->header = jval_read(text.data, text.size, 0, NULL, &e);
    if (st->header)
        return MGPT_OK;
    if (jval_no_memory(&e, text.size, err))
        return MGPT_EMEM;
    return err_set(err, MGPT_EFILE, START + e.offset, "safetensors header: %.100s", e.text);
}

int st_sniff(struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    uint64_t n = cursor_u64(&c);
    return !c.failed && n <= MAX_HEADER && bytes.size > START && bytes.data[START] == '{';
}

int st_parse(struct safetensors *st, struct span bytes, mgpt_error *err)
{
    uint64_t n = 0;
    *st = (struct safetensors){0};
    int status = header_length(bytes, &n, err);
    if (status < 0)
        return status;
    struct span text = {bytes.data + START, (size_t)n};
    struct span data = {text.data + n, bytes.size - START - (size_t)n};
    status = parse_header(st, text, err);
    if (status == MGPT_OK)
        status = read_entries(st, err);
    if (status == MGPT_OK)
        status = tile(st, data, START + n, err);
    if (status < 0)
        st_free(st);
    return status;
}

void st_free(struct safetensors *st)
{
    jval_free(st->header);
    arr_free(st->tensors);
    *st = (struct safetensors){0};
}
