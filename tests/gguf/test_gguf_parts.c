/* Split files in memory: parts that follow each other, each from a multiple of FILE_PART_ALIGN on.
 * Files, and what is refused of them: tests/cli/split.py. */
#include "base/mem.h"
#include "support/gguf_bytes.h"
#include "support/place.h"
#include "support/unit.h"

enum { N_PARTS = 3 };

/* A part of n with one tensor of two values, i and i + 0.5. The first part has key k of 7, and so have
 * the later ones with the given value, unless it is 0. */
static void put_split(struct gguf_image *b, uint32_t n, uint32_t i, const char *name, uint32_t k)
{
    const uint64_t dims[] = {2};
    float values[] = {(float)i, (float)i + 0.5F};
    put_header(b, 1, i && !k ? 3 : 4);
    if (i == 0 || k)
        put_kv_u32(b, "k", i ? k : 7);
    put_kv_u32(b, "split.no", i);
    put_kv_u32(b, "split.count", n);
    put_kv_u32(b, "split.tensors.count", n);
    put_info(b, name, 1, dims, 0, 0);
    b->n += (0 - b->n) % 32;
    put_raw(b, values, sizeof values);
}

/* The image of n_parts; *n: its size. */
static uint8_t *put_splits(uint32_t n_parts, uint32_t k, size_t *n)
{
    static const char *const names[] = {"b", "a", "c"};
    struct gguf_image b;
    *n = 0;
    uint8_t *bytes = calloc(n_parts, FILE_PART_ALIGN);
    for (uint32_t i = 0; i < n_parts; i++) {
        put_split(&b, n_parts, i, names[i], k);
        memcpy(bytes + i * FILE_PART_ALIGN, b.p, b.n);
        *n = i * FILE_PART_ALIGN + b.n;
    }
    return bytes;
}

TEST(parts_in_memory)
{
    size_t n;
    struct gguf g;
    uint8_t *bytes = put_splits(N_PARTS, 0, &n);
    assert_int_equal(gguf_parse(&g, bytes, n, NULL), MGPT_OK);
    assert_int_equal(g.n_parts, N_PARTS);
    assert_int_equal(arr_len(g.tensors), 3);
    assert_int_equal(g.end, n);
    for (uint32_t i = 0; i < N_PARTS; i++) {
        const struct gguf_tensor *t = &g.tensors[i];
        float first;
        memcpy(&first, t->data, sizeof first);
        assert_true(first == (float)i);
        assert_true(t->data == bytes + t->offset && t->offset / FILE_PART_ALIGN == i);
    }
    assert_ptr_equal(gguf_tensor(&g, "a"), &g.tensors[1]);
    assert_ptr_equal(gguf_tensor(&g, "c"), &g.tensors[2]);
    uint64_t k = 0;
    assert_int_equal(gguf_uint(&g, "k", 10, &k, NULL), 1);
    assert_int_equal(k, 7);
    gguf_free(&g);
    free(bytes);
}

/* Two is the least number of parts. */
TEST(two_parts_in_memory)
{
    size_t n;
    struct gguf g;
    uint8_t *bytes = put_splits(2, 0, &n);
    assert_int_equal(gguf_parse(&g, bytes, n, NULL), MGPT_OK);
    assert_int_equal(arr_len(g.tensors), 2);
    gguf_free(&g);
    free(bytes);
}

/* A later part may say what the first one says, and nothing else. */
TEST(parts_with_the_same_key)
{
    size_t n;
    struct gguf g;
    uint8_t *same = put_splits(N_PARTS, 7, &n);
    assert_int_equal(gguf_parse(&g, same, n, NULL), MGPT_OK);
    assert_int_equal(arr_len(g.tensors), N_PARTS);
    gguf_free(&g);
    free(same);
    mgpt_error err = {0};
    uint8_t *other = put_splits(N_PARTS, 8, &n);
    assert_int_equal(gguf_parse(&g, other, n, &err), MGPT_EFILE);
    assert_non_null(strstr(err.text, "part 2 of 3: key k: not the value of the first part"));
    free(other);
}

/* Every cut is refused, and reads nothing past it. */
TEST(parts_cut)
{
    size_t n;
    uint8_t *bytes = put_splits(N_PARTS, 0, &n);
    for (size_t size = 0; size<n; size += size % FILE_PART_ALIGN> 400 ? 4001 : 1) {
        struct gguf g;
        uint8_t *exact = malloc(size ? size : 1);
        memcpy(exact, bytes, size);
        assert_int_equal(gguf_parse(&g, exact, size, NULL), MGPT_EFILE);
        free(exact);
    }
    free(bytes);
}

/* Every byte of the headers is damaged: refused, or the parts say something else. */
TEST(parts_damaged)
{
    size_t n, n_opened = 0;
    uint8_t *bytes = put_splits(N_PARTS, 0, &n);
    for (size_t i = 0; i < n; i += i % FILE_PART_ALIGN == 400 ? FILE_PART_ALIGN - 400 : 1)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct gguf g;
            bytes[i] ^= (uint8_t)(1U << bit);
            if (gguf_parse(&g, bytes, n, NULL) == MGPT_OK) {
                n_opened++;
                gguf_free(&g);
            }
            bytes[i] ^= (uint8_t)(1U << bit);
        }
    assert_true(n_opened > 100); /* values, names */
    free(bytes);
}

TEST(part_names)
{
    static const struct {
        const char *path;
        size_t n;
    } names[] = {{"m-00001-of-00003.gguf", 3},    {"/a/b-00003-of-00003.gguf", 3},
                 {"m-00004-of-00003.gguf", 1},    {"m-00000-of-00003.gguf", 1},
                 {"m-0001-of-00003.gguf", 1},     {"m-00001-of-00003.gguf2", 1},
                 {"-00001-of-00003.gguf", 1},     {"m-00001_of-00003.gguf", 1},
                 {"m-0000a-of-00003.gguf", 1},    {"m.gguf", 1},
                 {"m-00001-of-00001.gguf", 1},    {"", 1},
                 {"m-00001-of-99999.gguf", 99999}};
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(gguf_named_parts(names[i].path), names[i].n);
    char *path = gguf_part_path("/a/m-00002-of-00012.gguf", 11);
    assert_string_equal(path, "/a/m-00012-of-00012.gguf");
    free(path);
}
