/* GGUF, what is accepted and what is written. What is refused: test_gguf_bad.c. */
#include "base/mem.h"
#include "gguf/gguf_impl.h"
#include "support/gguf_bytes.h"
#include "support/place.h"
#include "support/unit.h"

#include <math.h>
#include <time.h>

/* ---- reading: the file of gguf_bytes.h with every type ---- */

static struct gguf_image everything;
static struct gguf parsed; /* of `everything` */

static int make_everything(void **state)
{
    put_everything(&everything);
    int status = place_make(state);
    *state = &parsed;
    return status < 0 ? status : gguf_parse(&parsed, everything.p, everything.n, NULL);
}

static int free_everything(void **state)
{
    gguf_free(&parsed);
    gguf_free(&parsed); /* a second time is allowed */
    return place_remove(state);
}

TEST(structure)
{
    const struct gguf *g = *state;
    assert_int_equal(g->version, 3);
    assert_int_equal(g->alignment, 16);
    assert_int_equal(arr_len(g->kv), 26);
    assert_int_equal(arr_len(g->tensors), 3);
    assert_null(gguf_find(g, "scalar"));
    assert_null(gguf_find(g, "scalar.AA"));
    assert_null(gguf_find(g, ""));
    assert_null(gguf_tensor(g, "matri"));
    const struct gguf_tensor *t = gguf_tensor(g, "brain");
    assert_ptr_equal(t, &g->tensors[2]);
    assert_string_equal(t->type->name, "BF16");
    assert_int_equal(t->n_dims, 3);
    assert_true(t->dims[0] == 4 && t->dims[1] == 1 && t->dims[2] == 2 && t->dims[3] == 1);
    assert_int_equal(t->n_values, 8);
    assert_int_equal(t->size, 16);
    assert_int_equal(t->offset, g->size - 16);
    assert_int_equal(t->data[15], 15);
    float row[6];
    memcpy(row, gguf_tensor(g, "matrix")->data, sizeof row);
    assert_true(row[0] == 0.0f && row[5] == 5.0f);
}

TEST(uint)
{
    const struct gguf *g = *state;
    static const char *const integers[] = {"scalar.A", "scalar.B", "scalar.C", "scalar.D",
                                           "scalar.E", "scalar.F", "scalar.K", "scalar.L"};
    mgpt_error err;
    uint64_t v;
    for (size_t i = 0; i < 8; i++) {
        v = 7;
        assert_int_equal(gguf_uint(g, integers[i], 1, &v, &err), 1);
        assert_true(v == 1);
    }
    assert_int_equal(gguf_uint(g, "absent", 9, &v, &err), 0);
    assert_int_equal(gguf_uint(g, "scalar.E", 0, &v, &err), MGPT_EFILE);
    assert_true(err.offset == gguf_find(g, "scalar.E")->offset);
    static const char *const refused[][2] = {
        {"scalar.E", "1, the limit is 0"},
        {"scalar.I", "expected an unsigned integer, found a string"},
        {"scalar.H", "expected an unsigned integer, found a bool"},
        {"array.G", "expected an unsigned integer, found an array of f32"},
        {"array.E", "expected one value, or an array of equal ones"}}; /* 0, 1, 0 */
    for (size_t i = 0; i < COUNT(refused); i++) {
        char line[100];
        snprintf(line, sizeof line, "key %s: %s", refused[i][0], refused[i][1]);
        assert_int_equal(gguf_uint(g, refused[i][0], 0, &v, &err), MGPT_EFILE);
        assert_string_equal(err.text, line);
    }
    assert_int_equal(gguf_uint(g, "scalar.I", 9, &v, NULL), MGPT_EFILE);
}

TEST(uint_signs_and_arrays)
{
    struct gguf_image b;
    struct gguf g;
    mgpt_error err;
    uint64_t v = 0;
    put_header(&b, 0, 5);
    put_key(&b, "minus", GGUF_I16);
    put_uint(&b, 0x8000, 2);
    put_key(&b, "plus", GGUF_I16);
    put_uint(&b, 0x7FFF, 2);
    put_key(&b, "top", GGUF_U64);
    put_uint(&b, UINT64_MAX, 8);
    put_array(&b, "equal", GGUF_U16, 3);
    for (int i = 0; i < 3; i++)
        put_uint(&b, 513, 2);
    put_array(&b, "none", GGUF_U16, 0);
    assert_int_equal(gguf_parse(&g, b.p, b.n, &err), MGPT_OK);
    assert_int_equal(gguf_uint(&g, "minus", UINT64_MAX, &v, &err), MGPT_EFILE);
    assert_string_equal(err.text, "key minus: expected an unsigned integer, found a negative one");
    assert_true(gguf_uint(&g, "plus", UINT64_MAX, &v, &err) == 1 && v == 0x7FFF);
    double d = 0;
    assert_true(gguf_number(gguf_find(&g, "minus"), 0, &d) && d == -0x8000);
    assert_true(gguf_number(gguf_find(&g, "plus"), 0, &d) && d == 0x7FFF);
    assert_false(gguf_number(gguf_find(&g, "equal"), 3, &d));
    assert_true(gguf_uint(&g, "top", UINT64_MAX, &v, &err) == 1 && v == UINT64_MAX);
    assert_true(gguf_uint(&g, "equal", 1000, &v, &err) == 1 && v == 513);
    assert_int_equal(gguf_uint(&g, "none", 1000, &v, &err), MGPT_EFILE);
    gguf_free(&g);
}

TEST(other_getters)
{
    const struct gguf *g = *state;
    mgpt_error err;
    double d = 0;
    int b = 7;
    struct gguf_str s;
    assert_int_equal(gguf_float(g, "scalar.G", &d, &err), 1); /* bits 1: the smallest f32 */
    assert_true(d == 0x1p-149);
    assert_int_equal(gguf_float(g, "scalar.M", &d, &err), 1);
    assert_true(d == 0x1p-1074);
    assert_int_equal(gguf_float(g, "absent", &d, &err), 0);
    assert_int_equal(gguf_float(g, "scalar.E", &d, &err), MGPT_EFILE);
    assert_string_equal(err.text, "key scalar.E: expected a float, found a u32");
    assert_int_equal(gguf_bool(g, "scalar.H", &b, &err), 1);
    assert_int_equal(b, 1);
    assert_int_equal(gguf_bool(g, "absent", &b, &err), 0);
    assert_int_equal(gguf_bool(g, "scalar.A", &b, &err), MGPT_EFILE);
    assert_string_equal(err.text, "key scalar.A: expected a bool, found a u8");
    assert_int_equal(gguf_string(g, "scalar.I", &s, &err), 1);
    assert_true(s.n == 3 && memcmp(s.p, "one", 3) == 0);
    assert_int_equal(gguf_string(g, "absent", &s, &err), 0);
    assert_int_equal(gguf_string(g, "array.I", &s, &err), MGPT_EFILE);
    assert_string_equal(err.text, "key array.I: expected a string, found an array of strings");
}

TEST(arrays)
{
    const struct gguf *g = *state;
    static const char *const strings[] = {"", "b", "ccc"};
    const struct gguf_kv *kv;
    mgpt_error err;
    assert_int_equal(gguf_array(g, "array.I", GGUF_STRING, &kv, &err), 1);
    assert_int_equal(kv->n, 3);
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    for (size_t i = 0; i < 3; i++) {
        struct gguf_str s = gguf_next_string(&c);
        assert_int_equal(s.n, i == 2 ? 3 : i);
        assert_memory_equal(s.p, strings[i], s.n);
    }
    assert_true(!c.failed && cursor_left(&c) == 0);
    assert_int_equal(gguf_next_string(&c).n, 0);
    assert_true(c.failed);
    assert_int_equal(gguf_array(g, "array.empty", GGUF_STRING, &kv, &err), 1);
    assert_true(kv->n == 0 && kv->value_bytes == 0);
    assert_int_equal(gguf_array(g, "absent", GGUF_I32, &kv, &err), 0);
    assert_int_equal(gguf_array(g, "array.I", GGUF_I32, &kv, &err), MGPT_EFILE);
    assert_string_equal(err.text,
                        "key array.I: expected an array of i32, found an array of strings");
    assert_int_equal(gguf_array(g, "scalar.F", GGUF_I32, &kv, &err), MGPT_EFILE);
    assert_string_equal(err.text, "key scalar.F: expected an array of i32, found an i32");
}

/* Everything but the data is checked: a file may be read as far as its tensors' infos. */
TEST(header_alone)
{
    struct gguf g;
    mgpt_error err;
    size_t n = everything.n - gguf_tensor(&parsed, "brain")->size;
    assert_int_equal(gguf_parse(&g, everything.p, n, &err), MGPT_EFILE);
    assert_int_equal(gguf_parse_header(&g, everything.p, n, &err), MGPT_OK);
    assert_int_equal(arr_len(g.kv), 26);
    assert_int_equal(arr_len(g.tensors), 3);
    gguf_free(&g);
    assert_int_equal(gguf_parse_header(&g, everything.p, 40, &err), MGPT_EFILE);
    assert_null(g.kv);
}

/* Version 2, no alignment key, a scalar tensor, infinities, a name that needs all of 63 bytes, and
 * a last tensor that is not padded. */
TEST(accepts_the_unusual)
{
    struct gguf_image b;
    struct gguf g;
    double d;
    char name[64];
    memset(name, 'n', 63);
    name[63] = 0;
    put_header(&b, 2, 1);
    b.p[4] = 2;
    put_key(&b, "k", GGUF_F32);
    put_uint(&b, 0x7F800000, 4);
    put_info(&b, "scalar", 0, NULL, 0, 0);
    put_info(&b, name, 4, (const uint64_t[]){1, 1, 1, 1}, 1, 32);
    put_padding(&b, 32, 0xEE);
    put_raw(&b, "data", 4);
    put_padding(&b, 32, 0xEE); /* only its length matters */
    put_raw(&b, "hf", 2);
    assert_int_equal(gguf_parse(&g, b.p, b.n, NULL), MGPT_OK);
    assert_int_equal(g.version, 2);
    assert_int_equal(g.alignment, 32);
    assert_int_equal(g.tensors[0].n_dims, 0);
    assert_int_equal(g.tensors[0].n_values, 1);
    assert_memory_equal(g.tensors[0].data, "data", 4);
    assert_memory_equal(gguf_tensor(&g, name)->data, "hf", 2);
    assert_true(gguf_float(&g, "k", &d, NULL) == 1 && isinf(d));
    gguf_free(&g);
    put_header(&b, 0, 0); /* nothing at all, and no data section */
    assert_int_equal(gguf_parse(&g, b.p, b.n, NULL), MGPT_OK);
    assert_null(gguf_find(&g, "k"));
    assert_null(gguf_tensor(&g, "t"));
    gguf_free(&g);
}

/* As many keys as a file may have, in falling order. A quadratic reader would take minutes. */
TEST(many_keys)
{
    enum { N = 65536, ENTRY = 8 + 5 + 4 + 1 };
    uint8_t *file = calloc(1, 24 + N * ENTRY), *p = file + 24;
    char key[6];
    int v;
    struct gguf g;
    memcpy(file, "GGUF\3", 5);
    file[18] = 1; /* n_kv = 65536 */
    for (unsigned i = 0; i < N; i++, p += ENTRY) {
        snprintf(key, sizeof key, "%05u", N - i);
        p[0] = 5;
        memcpy(p + 8, key, 5);
        p[13] = GGUF_BOOL;
        p[17] = i & 1;
    }
    clock_t before = clock();
    assert_int_equal(gguf_parse(&g, file, 24 + N * ENTRY, NULL), MGPT_OK);
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%05u", N - i);
        assert_int_equal(gguf_bool(&g, key, &v, NULL), 1);
        assert_int_equal(v, i & 1);
    }
    assert_true((clock() - before) / CLOCKS_PER_SEC < 20); /* takes 0.1 s, under valgrind 4 s */
    gguf_free(&g);
    free(file);
}

/* ---- writing ---- */

/* The whole file, by hand from the specification. */
/* clang-format off */
static const uint8_t golden[] = {
    /*   0 */ 'G', 'G', 'U', 'F', 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
    /*  16 */ 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    /*  32 */ 's', 8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 'h', 'i', 1,
    /*  48 */ 0, 0, 0, 0, 0, 0, 0, 'a', 9, 0, 0, 0, 5, 0, 0, 0,
    /*  64 */ 1, 0, 0, 0, 0, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 17, 0, 0, 0,
    /*  80 */ 0, 0, 0, 0, 'g', 'e', 'n', 'e', 'r', 'a', 'l', '.', 'a', 'l', 'i', 'g',
    /*  96 */ 'n', 'm', 'e', 'n', 't', 4, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0,
    /* 112 */ 0, 0, 0, 0, 0, 'm', 2, 0, 0, 0, 2, 0, 0, 0, 0, 0,
    /* 128 */ 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0,
    /* 144 */ 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'v', 1,
    /* 160 */ 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32,
    /* 176 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 192 */ 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 208 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 224 */ 9, 10, 11, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 240 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};
/* clang-format on */

TEST(golden)
{
    static const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (size_t piece = 1; piece <= sizeof data; piece++) { /* any pieces, the same bytes */
        struct gguf_writer w;
        struct file file;
        assert_int_equal(gguf_create(&w, place.path, NULL), MGPT_OK);
        gguf_put_string(&w, "s", "hi", 2);
        gguf_put_i32s(&w, "a", &(int32_t){-2}, 1);
        gguf_put_tensor(&w, "m", dtype_find(DTYPE_F16), 4, (const uint64_t[]){2, 2, 1, 1});
        gguf_put_tensor(&w, "v", dtype_find(DTYPE_F32), 2, (const uint64_t[]){1, 1});
        for (size_t at = 0; at < sizeof data; at += piece)
            gguf_data(&w, data + at, piece < sizeof data - at ? piece : sizeof data - at);
        assert_int_equal(gguf_commit(&w, NULL), MGPT_OK);
        assert_int_equal(file_open(&file, place.path, NULL), MGPT_OK);
        assert_int_equal(file.size, sizeof golden);
        assert_memory_equal(file.data, golden, sizeof golden);
        file_close(&file);
    }
}

static void assert_same_kv(const struct gguf_kv *a, const struct gguf_kv *b)
{
    assert_int_equal(a->key.n, b->key.n);
    assert_memory_equal(a->key.p, b->key.p, a->key.n);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->element, b->element);
    assert_true(a->n == b->n);
    assert_int_equal(a->value_bytes, b->value_bytes);
    assert_memory_equal(a->value, b->value, a->value_bytes);
}

static void assert_same_tensor(const struct gguf_tensor *a, const struct gguf_tensor *b)
{
    assert_string_equal(a->name, b->name);
    assert_ptr_equal(a->type, b->type);
    assert_int_equal(a->n_dims, b->n_dims);
    assert_memory_equal(a->dims, b->dims, sizeof a->dims);
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

static void parse_written(struct gguf_writer *w, struct file *file, struct gguf *g)
{
    assert_int_equal(gguf_commit(w, NULL), MGPT_OK);
    assert_int_equal(file_open(file, place.path, NULL), MGPT_OK);
    assert_int_equal(gguf_parse(g, file->data, file->size, NULL), MGPT_OK);
}

/* read(write(x)) = x for every value type and several tensors. */
TEST(round_trip)
{
    const struct gguf *in = *state;
    struct gguf out;
    struct gguf_writer w;
    struct file file;
    assert_int_equal(gguf_create(&w, place.path, NULL), MGPT_OK);
    for (size_t i = 0; i < arr_len(in->kv); i++)
        gguf_put_kv(&w, &in->kv[i]);
    struct gguf_kv longer = in->kv[0]; /* begins as the key that the writer puts itself */
    longer.key = (struct gguf_str){"general.alignments", 18};
    gguf_put_kv(&w, &longer);
    for (size_t i = 0; i < arr_len(in->tensors); i++)
        gguf_put_tensor(&w, in->tensors[i].name, in->tensors[i].type, in->tensors[i].n_dims,
                        in->tensors[i].dims);
    for (size_t i = 0; i < arr_len(in->tensors); i++)
        gguf_data(&w, in->tensors[i].data, in->tensors[i].size);
    parse_written(&w, &file, &out);
    assert_int_equal(out.version, 3);
    assert_int_equal(out.alignment, 32); /* the writer's own, last of the keys as it was */
    assert_int_equal(file.size % 32, 0);
    assert_int_equal(arr_len(out.kv), arr_len(in->kv) + 1);
    for (size_t i = 0; i + 1 < arr_len(in->kv); i++)
        assert_same_kv(&in->kv[i], &out.kv[i]);
    assert_int_equal(arr_len(out.tensors), arr_len(in->tensors));
    for (size_t i = 0; i < arr_len(in->tensors); i++)
        assert_same_tensor(&in->tensors[i], &out.tensors[i]);
    gguf_free(&out);
    file_close(&file);
}

TEST(puts)
{
    struct gguf_writer w;
    struct gguf g;
    struct file file;
    const struct gguf_kv *kv;
    uint64_t u;
    double d;
    int b;
    assert_int_equal(gguf_create(&w, place.path, NULL), MGPT_OK);
    gguf_put_u32(&w, "u", UINT32_MAX);
    gguf_put_f32(&w, "f", -0.15625f);
    gguf_put_bool(&w, "b", 256); /* any non-zero int is true */
    gguf_put_strings(&w, "ss", (const struct gguf_str[]){{"a\0b", 3}, {NULL, 0}}, 2);
    gguf_put_f32s(&w, "ff", (const float[]){1.0f, 2.0f}, 2);
    gguf_put_i32s(&w, "empty", NULL, 0);
    gguf_put_tensor(&w, "scalar", dtype_find(DTYPE_F32), 0, NULL);
    gguf_data(&w, "1234", 4);
    parse_written(&w, &file, &g);
    assert_true(gguf_uint(&g, "u", UINT64_MAX, &u, NULL) == 1 && u == UINT32_MAX);
    assert_true(gguf_float(&g, "f", &d, NULL) == 1 && d == -0.15625);
    assert_true(gguf_bool(&g, "b", &b, NULL) == 1 && b == 1);
    assert_int_equal(gguf_array(&g, "ss", GGUF_STRING, &kv, NULL), 1);
    assert_int_equal(kv->value_bytes, 8 + 3 + 8);
    assert_memory_equal(kv->value + 8, "a\0b", 3);
    assert_int_equal(gguf_array(&g, "ff", GGUF_F32, &kv, NULL), 1);
    assert_memory_equal(kv->value, "\0\0\x80\x3F\0\0\0\x40", 8);
    assert_true(gguf_array(&g, "empty", GGUF_I32, &kv, NULL) == 1 && kv->n == 0);
    assert_true(g.tensors[0].n_dims == 1 && g.tensors[0].dims[0] == 1);
    gguf_free(&g);
    file_close(&file);
}

GROUP(make_everything, free_everything)
