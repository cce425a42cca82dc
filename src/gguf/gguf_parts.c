/* Split files: the parts of a model, NAME-00001-of-00003.gguf and so on, as llama.cpp's gguf-split
 * and gguf-py write them. Each part is a GGUF file. The first has the metadata, and may have no
 * tensors; the others have the keys split.* and tensors. The parts are read as one file, whose
 * layout file.h describes. Any part's path names the model.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "gguf/gguf_impl.h"

#include <stdlib.h>

#define SUFFIX "-00001-of-00001.gguf"
enum { SUFFIX_BYTES = sizeof SUFFIX - 1, NUMBER_AT = 1, COUNT_AT = 10, NUMBER_DIGITS = 5 };

/* ---- names ----------------------------------------------------------------------------------- */

/* Five digits; 0: something else. */
static size_t read_number(const char *at)
{
    size_t n = 0;
    for (int i = 0; i < NUMBER_DIGITS; i++) {
        if (at[i] < '0' || at[i] > '9')
            return 0;
        n = n * 10 + (size_t)(at[i] - '0');
    }
    return n;
}

size_t gguf_named_parts(const char *path)
{
    size_t length = strlen(path);
    const char *end = path + length - SUFFIX_BYTES;
    if (length <= SUFFIX_BYTES || end[0] != '-' || strcmp(end + 15, ".gguf") != 0 ||
        memcmp(end + 6, "-of-", 4) != 0)
        return 1;
    size_t part = read_number(end + NUMBER_AT), n = read_number(end + COUNT_AT);
    return part && part <= n ? n : 1;
}

char *gguf_part_path(const char *path, size_t i)
{
    size_t length = strlen(path);
    char *copy = malloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, path, length + 1);
    i++;
    for (int k = NUMBER_DIGITS - 1; k >= 0; k--, i /= 10)
        copy[length - SUFFIX_BYTES + NUMBER_AT + (size_t)k] = (char)('0' + i % 10);
    return copy;
}

/* ---- opening --------------------------------------------------------------------------------- */

static char *path_of_part(void *user, size_t i)
{
    return gguf_part_path(user, i);
}

/* 1: the file says that it is a part of several. A file may have such a name and be whole. Negative:
 * it cannot be read. */
static int says_split(const struct file *file, mgpt_error *err)
{
    static const char key[] = "split.count";
    enum { KEY = sizeof key - 1, PIECE = 1 << 13, MOST = 64 << 20 };
    char piece[KEY + PIECE] = {0};
    size_t end = file->size < MOST ? file->size : MOST;
    for (size_t at = 0; at < end; at += PIECE) {
        size_t n = end - at < PIECE ? end - at : PIECE;
        int status = file_read(file, at, n, piece + KEY, err);
        if (status < 0)
            return status;
        for (size_t i = 0; i + KEY <= n + KEY; i++)
            if (piece[i] == key[0] && memcmp(piece + i, key, KEY) == 0)
                return 1;
        memmove(piece, piece + n, KEY);
    }
    return 0;
}

int gguf_open_file(struct file *file, const char *path, size_t n, mgpt_error *err)
{
    size_t n_parts = gguf_named_parts(path);
    if (n_parts == 1)
        return file_open_partly(file, path, n, err);
    int status = file_open_unread(file, path, err);
    if (status == MGPT_OK)
        status = says_split(file, err);
    file_close(file);
    if (status <= 0)
        return status < 0 ? status : file_open_partly(file, path, n, err);
    if (n_parts > GGUF_MAX_PARTS)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%zu parts, the limit is %d", n_parts,
                       GGUF_MAX_PARTS);
    return file_open_parts(file, path_of_part, (void *)(uintptr_t)path, n_parts, n, err);
}

/* ---- parsing --------------------------------------------------------------------------------- */

struct gguf_split {
    struct gguf *g;          /* the whole, with the metadata of the first part */
    const struct file *file; /* or NULL: bytes in memory */
    uint64_t n, i;           /* parts, and the one that is read */
    mgpt_error *err;
};

/* "part 2 of 3: " before an error of a part. */
static int fail_part(const struct gguf_split *p, const mgpt_error *why)
{
    return err_set(p->err, why->status, why->offset, "part %llu of %llu: %s",
                   (unsigned long long)p->i + 1, (unsigned long long)p->n, why->text);
}

/* A number that every part must have, and its value. */
static int check_number(const struct gguf *part, const char *key, uint64_t expected,
                        mgpt_error *err)
{
    uint64_t v;
    int found = gguf_uint(part, key, UINT64_MAX, &v, err);
    if (found == 0)
        return err_set(err, MGPT_EFILE, part->header_bytes, "key %s: missing", key);
    if (found > 0 && v != expected)
        return err_set(err, MGPT_EFILE, gguf_find(part, key)->offset, "key %s: %llu, expected %llu",
                       key, (unsigned long long)v, (unsigned long long)expected);
    return found < 0 ? found : MGPT_OK;
}

static int key_begins(struct gguf_str s, const char *with)
{
    return s.n >= strlen(with) && memcmp(s.p, with, strlen(with)) == 0;
}

static int same_value(const struct gguf_kv *a, const struct gguf_kv *b)
{
    return a->type == b->type && a->element == b->element && a->value_bytes == b->value_bytes &&
           memcmp(a->value, b->value, a->value_bytes) == 0;
}

static const struct gguf_kv *find_same_key(const struct gguf *g, struct gguf_str key)
{
    for (size_t i = 0; i < arr_len(g->kv); i++)
        if (g->kv[i].key.n == key.n && memcmp(g->kv[i].key.p, key.p, key.n) == 0)
            return &g->kv[i];
    return NULL;
}

/* A later part says nothing about the model that the first does not say. */
static int check_keys(const struct gguf *g, const struct gguf *part, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(part->kv); i++) {
        const struct gguf_kv *kv = &part->kv[i], *first;
        if (key_begins(kv->key, GGUF_SPLIT_PREFIX) || key_begins(kv->key, GGUF_ALIGNMENT_KEY))
            continue;
        first = find_same_key(g, kv->key);
        if (!first || !same_value(first, kv))
            return err_set(err, MGPT_EFILE, kv->offset,
                           "key %.*s: %s the first part: parts of different models",
                           (int)(kv->key.n < 60 ? kv->key.n : 60), kv->key.p,
                           first ? "not the value of" : "not in");
    }
    return MGPT_OK;
}

/* Appends the tensors of a part whose bytes begin at `offset` of the whole. */
static int split_add(struct gguf *g, struct gguf *part, uint64_t offset, mgpt_error *err)
{
    size_t n = arr_len(g->tensors), more = arr_len(part->tensors), each = GGUF_MAX_NAME + 1;
    if (n + more > GGUF_MAX_ENTRIES)
        return err_set(err, MGPT_EFILE, 8, "header: with it %zu tensors, the limit is %u", n + more,
                       GGUF_MAX_ENTRIES);
    if (more && !arr_reserve(g->tensors, n + more))
        return err_memory(err, "tensor infos", more * sizeof *g->tensors);
    if (more && !arr_reserve(g->names, (n + more) * each))
        return err_memory(err, "tensor infos", more * each);
    for (size_t i = 0; i < more; i++) {
        struct gguf_tensor t = part->tensors[i];
        memcpy(g->names + (n + i) * each, t.name, each);
        t.offset += offset;
        arr_put(g->tensors, t);
    }
    if (more)
        arr_set_len(g->names, (n + more) * each);
    return MGPT_OK;
}

/* Bytes in memory, or a file with another name, that are not all parts. */
static int fail_incomplete(const struct gguf_split *p, uint64_t have)
{
    return err_set(p->err, MGPT_EFILE, gguf_find(p->g, "split.count")->offset,
                   "key split.count: part %llu of %llu, alone; the others are found by the name "
                   "NAME-00001-of-0000N.gguf",
                   (unsigned long long)have + 1, (unsigned long long)p->n);
}

/* Where part p->i begins and how many bytes it has at most. */
static int split_find(const struct gguf_split *p, struct file_part *at)
{
    if (p->file) {
        *at = p->file->parts[p->i];
        return MGPT_OK;
    }
    if (!ck_align(p->g->end, FILE_PART_ALIGN, &at->offset) || at->offset >= p->g->size)
        return fail_incomplete(p, p->i - 1);
    at->size = p->g->size - (size_t)at->offset;
    return MGPT_OK;
}

static int split_read(struct gguf_split *p, const struct file_part *at, uint64_t n_tensors)
{
    struct gguf part;
    mgpt_error why;
    int status = gguf_parse_part(&part, p->g->data + at->offset, at->size, &why);
    if (status < 0)
        return fail_part(p, &why);
    if (part.header_bytes > p->g->header_bytes)
        p->g->header_bytes = part.header_bytes;
    p->g->end = at->offset + part.end;
    status = check_number(&part, "split.count", p->n, &why);
    if (status == MGPT_OK)
        status = check_number(&part, "split.no", p->i, &why);
    if (status == MGPT_OK)
        status = check_number(&part, "split.tensors.count", n_tensors, &why);
    if (status == MGPT_OK)
        status = check_keys(p->g, &part, &why);
    if (status == MGPT_OK)
        status = split_add(p->g, &part, at->offset, &why);
    gguf_free(&part);
    return status < 0 ? fail_part(p, &why) : MGPT_OK;
}

/* The tensors of all parts: their number, and each once. */
static int check_tensors(struct gguf *g, uint64_t n_tensors, mgpt_error *err)
{
    size_t n = arr_len(g->tensors), twice;
    for (size_t i = 0; i < n; i++)
        g->tensors[i].name = g->names + i * (GGUF_MAX_NAME + 1);
    free(g->tensors_sorted);
    if (!gguf_sort_names(g, &twice))
        return err_memory(err, "tensor infos", n * sizeof *g->tensors_sorted);
    if (twice < n)
        return err_set(err, MGPT_EFILE, g->tensors[twice].offset, "tensor %s: occurs twice",
                       g->tensors[twice].name);
    if (n != n_tensors)
        return err_set(err, MGPT_EFILE, gguf_find(g, "split.tensors.count")->offset,
                       "key split.tensors.count: %llu, the parts have %zu",
                       (unsigned long long)n_tensors, n);
    return MGPT_OK;
}

static int split_read_all(struct gguf_split *p)
{
    struct gguf *g = p->g;
    uint64_t n_tensors;
    const struct gguf_kv *count = gguf_find(g, "split.count");
    if (p->n > GGUF_MAX_PARTS)
        return err_set(p->err, MGPT_EFILE, count->offset,
                       "key split.count: %llu parts, the limit is %d", (unsigned long long)p->n,
                       GGUF_MAX_PARTS);
    if (p->file && p->n != p->file->n_parts)
        return err_set(p->err, MGPT_EFILE, count->offset,
                       "key split.count: %llu, the file's name says %zu parts",
                       (unsigned long long)p->n, p->file->n_parts);
    uint64_t first = 0;
    if (!p->file && gguf_uint(g, "split.no", UINT64_MAX, &first, NULL) > 0 && first > 0)
        return fail_incomplete(p, first);
    if (check_number(g, "split.no", 0, p->err) < 0)
        return MGPT_EFILE;
    int found = gguf_uint(g, "split.tensors.count", GGUF_MAX_ENTRIES, &n_tensors, p->err);
    if (found == 0)
        err_set(p->err, MGPT_EFILE, g->header_bytes, "key split.tensors.count: missing");
    if (found <= 0)
        return MGPT_EFILE;
    for (p->i = 1; p->i < p->n; p->i++) {
        struct file_part at = {0};
        int status = split_find(p, &at);
        if (status == MGPT_OK)
            status = split_read(p, &at, n_tensors);
        if (status < 0)
            return status;
    }
    return check_tensors(g, n_tensors, p->err);
}

/* file NULL: in memory. */
static int parse_parts(struct gguf *g, const void *data, size_t size, const struct file *file,
                       mgpt_error *err)
{
    struct gguf_split p = {.g = g, .file = file && file->parts ? file : NULL, .n = 1, .err = err};
    int status = gguf_parse_part(g, data, p.file ? file->parts[0].size : size, err);
    if (status < 0)
        return status;
    g->size = size;
    if (gguf_uint(g, "split.count", UINT32_MAX, &p.n, err) < 0)
        status = MGPT_EFILE;
    else if (p.n > 1)
        status = split_read_all(&p);
    g->n_parts = (uint32_t)p.n;
    if (status < 0)
        gguf_free(g);
    return status;
}

int gguf_parse(struct gguf *g, const void *data, size_t size, mgpt_error *err)
{
    return parse_parts(g, data, size, NULL, err);
}

int gguf_parse_file(struct gguf *g, const struct file *file, mgpt_error *err)
{
    return parse_parts(g, file->data, file->size, file, err);
}
