/* The GGUF reader on tens of thousands of damaged files.
 *
 * The start is a valid file with every value type and three tensors. Each change must be refused
 * with an error line, or accepted with all tensors inside the file and every typed getter
 * answering. The input is a heap block of exactly its size, so that ASan and valgrind, which also
 * find leaks as well, see any read beyond it. Out of memory is never an answer to a file of 2 KB;
 * one test gives the process 1 MiB of address space more and no further (not possible under those
 * two tools).
 */
#include "base/mem.h"
#include "support/build_model.h"
#include "support/gguf_bytes.h"
#include "support/sanitized.h"
#include "support/unit.h"

#include <sys/resource.h>
#include <unistd.h>

struct count {
    size_t accepted, refused;
};

/* ---- one file ---- */

static void ask(const struct gguf *g, const struct gguf_kv *kv, const char *key)
{
    uint64_t u;
    double f;
    int b;
    struct gguf_str s;
    const struct gguf_kv *array;
    assert_ptr_equal(gguf_find(g, key), kv);
    if (gguf_uint(g, key, 1000, &u, NULL) > 0)
        assert_true(u <= 1000);
    if (gguf_bool(g, key, &b, NULL) > 0)
        assert_true(b == 0 || b == 1);
    if (gguf_string(g, key, &s, NULL) > 0)
        assert_true(s.n + 8 == kv->value_bytes);
    assert_int_equal(gguf_float(g, key, &f, NULL) > 0,
                     kv->type == GGUF_F32 || kv->type == GGUF_F64);
    if (gguf_array(g, key, kv->element, &array, NULL) <= 0)
        return;
    struct cursor c = cursor_over(array->value, array->value_bytes);
    for (uint64_t k = 0; kv->element == GGUF_STRING && k < array->n; k++)
        gguf_next_string(&c);
    assert_false(c.failed);
}

static void assert_usable(const struct gguf *g)
{
    for (size_t i = 0; i < arr_len(g->kv); i++) {
        const struct gguf_kv *kv = &g->kv[i];
        char key[4097];
        if (memchr(kv->key.p, 0, kv->key.n))
            continue; /* legal, but no C string can ask for it */
        memcpy(key, kv->key.p, kv->key.n);
        key[kv->key.n] = 0;
        ask(g, kv, key);
    }
    for (size_t i = 0; i < arr_len(g->tensors); i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        assert_ptr_equal(gguf_tensor(g, t->name), t);
        assert_true(t->offset <= g->size && t->size <= g->size - t->offset);
        assert_ptr_equal(t->data, g->data + t->offset);
        assert_true(t->offset % g->alignment == 0);
        assert_true(t->n_values / t->type->block * t->type->block_bytes == t->size);
        assert_true(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3] == t->n_values);
    }
}

static void try_file(const uint8_t *bytes, size_t n, struct count *count)
{
    uint8_t *exact = malloc(n ? n : 1);
    struct gguf g;
    mgpt_error err = {0};
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    int status = gguf_parse(&g, exact, n, &err);
    if (status == MGPT_OK) {
        assert_usable(&g);
        gguf_free(&g);
        count->accepted++;
    } else {
        assert_int_equal(status, MGPT_EFILE);
        assert_int_equal(err.status, MGPT_EFILE);
        assert_true(err.offset <= n);
        assert_true(strlen(err.text) > 10);
        assert_null(g.kv);
        count->refused++;
    }
    free(exact);
}

static void print_count(const char *what, const struct count *count)
{
    print_message("           %s: %zu accepted, %zu refused\n", what, count->accepted,
                  count->refused);
}

/* ---- changes ---- */

TEST(start_is_valid)
{
    struct gguf_image *b = *state;
    struct count count = {0};
    try_file(b->p, b->n, &count);
    assert_int_equal(count.accepted, 1);
}

TEST(truncations)
{
    struct gguf_image *b = *state;
    struct count count = {0};
    for (size_t n = 0; n < b->n; n++)
        try_file(b->p, n, &count);
    assert_int_equal(count.accepted, 0); /* the last tensor's data ends with the file */
    assert_int_equal(count.refused, b->n);
}

TEST(byte_changes)
{
    struct gguf_image *b = *state;
    struct count count = {0};
    for (size_t i = 0; i < b->n; i++) {
        const uint8_t old = b->p[i];
        const uint8_t changes[] = {old ^ 0x01, old ^ 0x80, 0x00, 0xFF};
        for (size_t k = 0; k < sizeof changes; k++) {
            b->p[i] = changes[k];
            try_file(b->p, b->n, &count);
        }
        b->p[i] = old;
    }
    print_count("byte changes", &count);
    assert_true(count.accepted > 100 && count.refused > 1000);
}

static void change_fields(struct gguf_image *b, struct count *count)
{
    static const uint64_t values[] = {
        0,          1,     UINT64_MAX,        INT32_MAX, UINT64_C(1) << 31,
        UINT32_MAX, 65535, UINT64_C(1) << 62, INT64_MAX, UINT64_C(1) << 63,
        65536,      65537, UINT64_C(1) << 30, 13,        UINT64_MAX - 7,
    };
    for (size_t i = 0; i < b->n_fields; i++) {
        uint8_t *at = b->p + b->fields[i].at, old[8];
        const unsigned width = b->fields[i].width;
        memcpy(old, at, width);
        for (size_t k = 0; k < COUNT(values); k++) {
            for (unsigned j = 0; j < width; j++)
                at[j] = (uint8_t)(values[k] >> (8 * j));
            try_file(b->p, b->n, count);
        }
        memcpy(at, old, width);
    }
}

TEST(field_changes)
{
    struct count count = {0};
    change_fields(*state, &count);
    print_count("field changes", &count);
    assert_true(count.accepted > 100 && count.refused > 1000);
}

/* Several changes at once get past checks that stop each of them alone. Same seed, same files. */
TEST(random_changes)
{
    const struct gguf_image *b = *state;
    struct count count = {0};
    uint64_t x = 2;
    for (int round = 0; round < 20000; round++) {
        uint8_t copy[sizeof b->p];
        memcpy(copy, b->p, b->n);
        for (uint64_t n = 1 + toy_random(&x) % 4; n > 0; n--) {
            uint64_t r = toy_random(&x);
            if (r & 1) {
                copy[(r >> 8) % b->n] = (uint8_t)(r >> 48);
            } else { /* fields hold small numbers: so do these */
                size_t field = (r >> 8) % b->n_fields;
                copy[b->fields[field].at] = (uint8_t)((r >> 48) % 20);
            }
        }
        size_t n = toy_random(&x) % 8 ? b->n : (size_t)(toy_random(&x) % b->n);
        try_file(copy, n, &count);
    }
    print_count("random changes", &count);
    assert_true(count.accepted > 100 && count.refused > 1000);
}

/* ---- memory ---- */

/* Address space of this process in bytes; 0 when the system does not tell. */
static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

TEST(memory_is_bounded)
{
    const char *preload = getenv("LD_PRELOAD");
    struct count count = {0};
    struct rlimit old, small;
    size_t now = address_space();
    if (SANITIZED || now == 0 || (preload && strstr(preload, "vgpreload")))
        skip();
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    small = old;
    small.rlim_cur = now + (1 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    change_fields(*state, &count);
    setrlimit(RLIMIT_AS, &old);
    assert_true(count.refused > 1000);
}

static int make_start(void **state)
{
    struct gguf_image *b = calloc(1, sizeof *b);
    if (b)
        put_everything(b);
    *state = b;
    return b ? 0 : -1;
}

static int free_start(void **state)
{
    free(*state);
    return 0;
}

GROUP(make_start, free_start)
