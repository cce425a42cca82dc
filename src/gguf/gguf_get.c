/* Names and typed values of a parsed GGUF file. See gguf.h.
 *
 * Names are sorted once, when the file is parsed, to find duplicates and for binary search. Values
 * are decoded on each call, since bytes of the file are unaligned and little-endian. The caller
 * checks ranges that depend on the meaning of a key.
 */
#include "base/error.h"
#include "base/mem.h"
#include "gguf/gguf_impl.h"

#include <stdlib.h>

const struct gguf_type_info gguf_types[] = {
    [GGUF_U8] = {1, 'u', "a u8", "u8"},
    [GGUF_I8] = {1, 'i', "an i8", "i8"},
    [GGUF_U16] = {2, 'u', "a u16", "u16"},
    [GGUF_I16] = {2, 'i', "an i16", "i16"},
    [GGUF_U32] = {4, 'u', "a u32", "u32"},
    [GGUF_I32] = {4, 'i', "an i32", "i32"},
    [GGUF_F32] = {4, 'f', "an f32", "f32"},
    [GGUF_BOOL] = {1, 'b', "a bool", "bools"},
    [GGUF_STRING] = {8, 's', "a string", "strings"},
    [GGUF_ARRAY] = {12, 'a', "an array", "arrays"},
    [GGUF_U64] = {8, 'u', "a u64", "u64"},
    [GGUF_I64] = {8, 'i', "an i64", "i64"},
    [GGUF_F64] = {8, 'f', "an f64", "f64"},
};
_Static_assert(sizeof gguf_types / sizeof *gguf_types == GGUF_N_TYPES, "a row for each type");

/* ---- order of names -------------------------------------------------------------------------- */

typedef struct gguf_str name_fn(const struct gguf *g, uint32_t i);

static struct gguf_str key_at(const struct gguf *g, uint32_t i)
{
    return g->kv[i].key;
}

static struct gguf_str name_at(const struct gguf *g, uint32_t i)
{
    return (struct gguf_str){g->tensors[i].name, strlen(g->tensors[i].name)};
}

static void sift_down(const struct gguf *g, uint32_t *heap, size_t root, size_t n, name_fn *name)
{
    uint32_t v = heap[root];
    for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
        if (child + 1 < n && gguf_str_compare(name(g, heap[child]), name(g, heap[child + 1])) < 0)
            child++;
        if (gguf_str_compare(name(g, v), name(g, heap[child])) >= 0)
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = v;
}

/* A new array of the indices 0 to n-1 sorted by name; NULL when out of memory. Heapsort: no
 * input makes it quadratic, it needs no memory, and unlike qsort it takes a context. */
static uint32_t *sorted_indices(const struct gguf *g, size_t n, name_fn *name)
{
    uint32_t *heap = mem_new(n, sizeof *heap);
    if (!heap)
        return NULL;
    for (size_t i = 0; i < n; i++)
        heap[i] = (uint32_t)i;
    for (size_t i = n / 2; i > 0; i--)
        sift_down(g, heap, i - 1, n, name);
    for (size_t left = n; left > 1; left--) {
        uint32_t largest = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = largest;
        sift_down(g, heap, 0, left - 1, name);
    }
    return heap;
}

static size_t find_duplicate(const struct gguf *g, const uint32_t *sorted, size_t n, name_fn *name)
{
    for (size_t i = 1; i < n; i++)
        if (gguf_str_compare(name(g, sorted[i - 1]), name(g, sorted[i])) == 0)
            return sorted[i - 1] > sorted[i] ? sorted[i - 1] : sorted[i];
    return n;
}

int gguf_sort_keys(struct gguf *g, size_t *twice)
{
    size_t n = arr_len(g->kv);
    g->kv_sorted = sorted_indices(g, n, key_at);
    *twice = g->kv_sorted ? find_duplicate(g, g->kv_sorted, n, key_at) : n;
    return g->kv_sorted != NULL;
}

int gguf_sort_names(struct gguf *g, size_t *twice)
{
    size_t n = arr_len(g->tensors);
    g->tensors_sorted = sorted_indices(g, n, name_at);
    *twice = g->tensors_sorted ? find_duplicate(g, g->tensors_sorted, n, name_at) : n;
    return g->tensors_sorted != NULL;
}

/* ---- look-ups -------------------------------------------------------------------------------- */

struct name_key {
    const struct gguf *g;
    name_fn *name;
    struct gguf_str wanted;
};

static int compare_key(const void *key, const void *index)
{
    const struct name_key *k = key;
    return gguf_str_compare(k->wanted, k->name(k->g, *(const uint32_t *)index));
}

/* The index of the entry with that name, or n. */
static size_t search_name(const struct gguf *g, const uint32_t *sorted, size_t n, name_fn *name,
                          const char *wanted)
{
    const struct name_key key = {g, name, {wanted, strlen(wanted)}};
    const uint32_t *found = n ? bsearch(&key, sorted, n, sizeof *sorted, compare_key) : NULL;
    return found ? *found : n;
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    size_t n = arr_len(g->kv), i = search_name(g, g->kv_sorted, n, key_at, key);
    return i < n ? &g->kv[i] : NULL;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    size_t n = arr_len(g->tensors), i = search_name(g, g->tensors_sorted, n, name_at, name);
    return i < n ? &g->tensors[i] : NULL;
}

/* ---- typed values ---------------------------------------------------------------------------- */

static int wrong_type(const struct gguf_kv *kv, const char *key, const char *expected,
                      mgpt_error *err)
{
    int array = kv->type == GGUF_ARRAY;
    return err_set(err, MGPT_EFILE, kv->offset, "key %s: expected %s, found %s%s", key, expected,
                   array ? "an array of " : "",
                   array ? gguf_types[kv->element].many : gguf_types[kv->element].one);
}

/* 1: all entries of a non-empty array are equal: the array equals itself shifted by one. */
static int all_equal(const struct gguf_kv *kv)
{
    size_t each = gguf_types[kv->element].size;
    return kv->n > 0 && memcmp(kv->value, kv->value + each, kv->value_bytes - each) == 0;
}

int gguf_uint(const struct gguf *g, const char *key, uint64_t max, uint64_t *v, mgpt_error *err)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return 0;
    char kind = gguf_types[kv->element].kind;
    if (kind != 'u' && kind != 'i')
        return wrong_type(kv, key, "an unsigned integer", err);
    if (!all_equal(kv))
        return err_set(err, MGPT_EFILE, kv->offset,
                       "key %s: expected one value, or an array of equal ones", key);
    unsigned width = gguf_types[kv->element].size;
    struct cursor c = cursor_over(kv->value, width);
    uint64_t found = cursor_uint(&c, width);
    if (kind == 'i' && found >> (8 * width - 1))
        return err_set(err, MGPT_EFILE, kv->offset,
                       "key %s: expected an unsigned integer, found a negative one", key);
    if (found > max)
        return err_set(err, MGPT_EFILE, kv->offset, "key %s: %llu, the limit is %llu", key,
                       (unsigned long long)found, (unsigned long long)max);
    *v = found;
    return 1;
}

int gguf_number(const struct gguf_kv *kv, uint64_t i, double *v)
{
    unsigned width = gguf_types[kv->element].size;
    char kind = gguf_types[kv->element].kind;
    if (kind == 's' || i >= kv->n)
        return 0;
    struct cursor c = cursor_over(kv->value + i * width, width);
    uint64_t bits = cursor_uint(&c, width);
    if (kv->element == GGUF_F32) {
        *v = (double)f32_from_bits((uint32_t)bits);
    } else if (kv->element == GGUF_F64) {
        *v = d_from_bits(bits);
    } else if (kind == 'i' && bits >> (8 * width - 1)) {
        *v = -(double)((~bits & (UINT64_MAX >> (64 - 8 * width))) + 1);
    } else {
        *v = (double)bits;
    }
    return 1;
}

int gguf_float(const struct gguf *g, const char *key, double *v, mgpt_error *err)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->type != GGUF_F32 && kv->type != GGUF_F64)
        return wrong_type(kv, key, "a float", err);
    gguf_number(kv, 0, v);
    return 1;
}

int gguf_bool(const struct gguf *g, const char *key, int *v, mgpt_error *err)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->type != GGUF_BOOL)
        return wrong_type(kv, key, "a bool", err);
    *v = kv->value[0];
    return 1;
}

int gguf_string(const struct gguf *g, const char *key, struct gguf_str *v, mgpt_error *err)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->type != GGUF_STRING)
        return wrong_type(kv, key, "a string", err);
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    *v = gguf_next_string(&c);
    return 1;
}

int gguf_array(const struct gguf *g, const char *key, enum gguf_type element,
               const struct gguf_kv **kv, mgpt_error *err)
{
    const struct gguf_kv *found = gguf_find(g, key);
    if (!found)
        return 0;
    if (found->type != GGUF_ARRAY || found->element != element) {
        char expected[40];
        text_format(expected, sizeof expected, "an array of %s", gguf_types[element].many);
        return wrong_type(found, key, expected, err);
    }
    *kv = found;
    return 1;
}

struct gguf_str gguf_next_string(struct cursor *c)
{
    uint64_t n = cursor_u64(c);
    const uint8_t *p = cursor_take(c, n);
    return (struct gguf_str){(const char *)p, p ? (size_t)n : 0};
}

/* ---- strings --------------------------------------------------------------------------------- */

int gguf_str_is(struct gguf_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

int gguf_str_in(struct gguf_str s, const char *words)
{
    for (const char *p = words + 1; *p; p += strcspn(p, " ") + 1)
        if (strcspn(p, " ") == s.n && memcmp(p, s.p, s.n) == 0)
            return 1;
    return 0;
}

int gguf_str_compare(struct gguf_str a, struct gguf_str b)
{
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return c ? c : (a.n > b.n) - (a.n < b.n);
}
