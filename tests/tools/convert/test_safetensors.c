/* safetensors: a good file is described exactly, everything else is refused by name.
 *
 * Files are built from the text of their header, in blocks of exactly their size, so that ASan and
 * valgrind see a read after the end.
 */
#include "base/mem.h"
#include "convert/containers/safetensors.h"
#include "support/convert.h"
#include "support/unit.h"

/* A file with this header and n_data bytes 0, 1, 2, ... after it. */
static struct span build(const char *header, size_t n_data)
{
    size_t n = strlen(header);
    uint8_t *p = malloc(8 + n + n_data);
    assert_non_null(p);
    for (size_t i = 0; i < 8; i++)
        p[i] = (uint8_t)(n >> 8 * i);
    memcpy(p + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        p[8 + n + i] = (uint8_t)i;
    return (struct span){p, 8 + n + n_data};
}

static void destroy(struct span s)
{
    free((void *)(uintptr_t)s.data);
}

static int parse(struct span bytes, mgpt_error *err)
{
    struct safetensors st;
    int status = st_parse(&st, bytes, err);
    if (status == MGPT_OK)
        st_free(&st);
    else
        assert_true(status == err->status && err->text[0] && !st.header && !st.tensors);
    return status;
}

/* expected NULL: it must be read. */
static void assert_header(const char *header, size_t n_data, const char *expected)
{
    struct span s = build(header, n_data);
    mgpt_error err = {.text = ""};
    int status = parse(s, &err);
    must_say(header, status, &err, expected);
    destroy(s);
}

/* ---- good files ------------------------------------------------------------------------------ */

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"                          \
    "\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"                               \
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[20,20]},"                       \
    "\"nil\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[20,20]}}   "

TEST(good)
{
    struct span s = build(GOOD, 20);
    struct safetensors st;
    mgpt_error err;
    assert_true(st_sniff(s));
    assert_int_equal(st_parse(&st, s, &err), MGPT_OK);
    assert_int_equal(arr_len(st.tensors), 4);
    const struct st_tensor *a = &st.tensors[0], *b = &st.tensors[1], *none = &st.tensors[3];
    assert_string_equal(a->name, "a");
    assert_string_equal(a->dtype, "I64");
    assert_int_equal(a->n_dims, 0);
    assert_ptr_equal(a->data, s.data + s.size - 20);
    assert_string_equal(b->name, "b");
    assert_string_equal(b->dtype, "BF16");
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dims[0], 2);
    assert_int_equal(b->dims[1], 3);
    assert_ptr_equal(b->data, s.data + s.size - 12);
    assert_int_equal(none->end - none->begin, 0);
    assert_string_equal(
        none->name,
        "none"); /* tensors that begin at the same byte are in the order of their names */
    st_free(&st);
    destroy(s);
    assert_header("{}", 0, NULL);
    assert_header("{\"__metadata__\":{}}", 0, NULL);
    assert_header("{\"x\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, NULL);
}

/* ---- bad headers ----------------------------------------------------------------------------- */

TEST(length)
{
    static const struct {
        uint8_t bytes[9];
        size_t n;
        const char *expected;
    } cases[] = {
        {{0}, 0, "0 bytes, a file has 8 and a header"},
        {{2, 0, 0, 0, 0, 0, 0}, 7, "7 bytes, a file has"},
        {{0, 0, 0, 0, 0, 0, 0, 0}, 8, "does not begin with '{'"},
        {{1, 0, 0, 0, 0, 0, 0, 0, 'x'}, 9, "does not begin with '{'"},
        {{1, 0, 0, 0, 0, 0, 0, 0, '{'}, 9, "safetensors header: "},
        {{2, 0, 0, 0, 0, 0, 0, 0, '{'}, 9, "header: 2 bytes, 1 are left in the file"},
        {{0, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{'}, 9, "100000000 bytes, 1 are left in the file"},
        {{1, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{'}, 9, "100000001 bytes, the limit is 100000000"},
        {{255, 255, 255, 255, 255, 255, 255, 255, '{'}, 9, "the limit is 100000000"},
        {{248, 255, 255, 255, 255, 255, 255, 127, '{'}, 9, "the limit is 100000000"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t *p = malloc(cases[i].n + !cases[i].n);
        mgpt_error err = {.text = ""};
        assert_non_null(p);
        memcpy(p, cases[i].bytes, cases[i].n);
        assert_int_equal(parse((struct span){p, cases[i].n}, &err), MGPT_EFILE);
        if (!strstr(err.text, cases[i].expected))
            fail_msg("case %zu: expected '%s', found '%s'", i, cases[i].expected, err.text);
        free(p);
    }
}

TEST(json)
{
    assert_header("[]", 0, "does not begin with '{'");
    assert_header(" {}", 0, "does not begin with '{'");
    assert_header("{\"a\":", 0, "safetensors header: ");
    assert_header("{} {}", 0, "expected the end of the text");
    assert_header("{\"a\":{},\"a\":{}}", 0, "duplicate object key");
    assert_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "duplicate object key");
    assert_header("{\"a\\u0000b\":{}}", 0, "\\u0000");
    assert_header("{\"\xff\":{}}", 0, "not UTF-8: byte");
}

/* One tensor with this dtype, shape and offsets. */
static void assert_entry(const char *dtype, const char *shape, const char *offsets, size_t n_data,
                         const char *expected)
{
    char header[400];
    snprintf(header, sizeof header, "{\"x\":{\"dtype\":%s,\"shape\":%s,\"data_offsets\":%s}}",
             dtype, shape, offsets);
    assert_header(header, n_data, expected);
}

TEST(entries)
{
    assert_header("{\"x\":1}", 0, "tensor x: expected an object of dtype");
    assert_header("{\"x\":{}}", 0, "tensor x: dtype: expected a name");
    assert_entry("\"F32\"", "[1]", "[0,4]", 4, NULL);
    assert_entry("\"F32\"", "[1,1,1,1,1,1,1,1]", "[0,4]", 4, NULL);
    assert_entry("5", "[1]", "[0,4]", 4, "tensor x: dtype: expected a name");
    assert_entry("\"Q4_0\"", "[1]", "[0,4]", 4, "tensor x: unknown dtype Q4_0");
    assert_entry("\"f32\"", "[1]", "[0,4]", 4, "unknown dtype f32");
    assert_entry("\"F32\"", "{}", "[0,4]", 4, "shape: expected a list");
    assert_entry("\"F32\"", "null", "[0,4]", 4, "shape: expected a list");
    assert_entry("\"F32\"", "[1.0]", "[0,4]", 4, "shape: expected whole numbers");
    assert_entry("\"F32\"", "[-1]", "[0,4]", 4, "shape: expected whole numbers");
    assert_entry("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]", 4, "9 dimensions, the limit is 8");
    assert_entry("\"F32\"", "[1]", "null", 4, "data_offsets: expected two whole numbers");
    assert_entry("\"F32\"", "[1]", "[0]", 4, "data_offsets: expected two");
    assert_entry("\"F32\"", "[1]", "[0,4,8]", 4, "data_offsets: expected two");
    assert_entry("\"F32\"", "[1]", "[-4,0]", 4, "data_offsets: expected two");
    assert_entry("\"F32\"", "[1]", "[4,0]", 4, "data_offsets: expected two whole numbers in order");
    assert_entry("\"F32\"", "[1]", "[0,4.0]", 4, "data_offsets: expected two");
}

/* The header's brace and one of each entry. */
TEST(many_entries)
{
    enum { LIMIT = 32768 };
    char *braces = calloc(LIMIT + 3, 1);
    assert_non_null(braces);
    memset(braces, '{', LIMIT + 1);
    assert_header(braces, 0, "expected a key in quotes");
    braces[LIMIT + 1] = '{';
    assert_header(braces, 0, "more than 32768 entries, the limit");
    free(braces);
}

TEST(sizes)
{
    assert_entry("\"F32\"", "[2]", "[0,4]", 4,
                 "data_offsets hold 4 bytes, dtype and shape imply 8");
    assert_entry("\"F16\"", "[]", "[0,4]", 4, "hold 4 bytes, dtype and shape imply 2");
    assert_entry("\"F32\"", "[0]", "[0,4]", 4, "hold 4 bytes, dtype and shape imply 0");
    assert_entry("\"F6_E2M3\"", "[3]", "[0,2]", 2, "does not give a whole number of bytes");
    /* 2^62 and 2^63 - 1 values of 4 bytes; products that wrap around to a plausible size */
    assert_entry("\"F32\"", "[4611686018427387904]", "[0,0]", 0, "whole number of bytes below");
    assert_entry("\"F32\"", "[9223372036854775807]", "[0,4]", 4, "whole number of bytes below");
    assert_entry("\"F32\"", "[4294967296,4294967296]", "[0,0]", 0, "whole number of bytes below");
    assert_entry("\"F32\"", "[4294967296,4294967296,0]", "[0,0]", 0, NULL);
    assert_entry("\"F32\"", "[9223372036854775808]", "[0,4]", 4, "expected whole numbers");
}

/* Eight elements are as many bytes as an element has bits. */
TEST(types)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {
        {"F32", 32},        {"F16", 16},        {"BF16", 16}, {"F64", 64},    {"I64", 64},
        {"I32", 32},        {"I16", 16},        {"I8", 8},    {"U64", 64},    {"U32", 32},
        {"U16", 16},        {"U8", 8},          {"BOOL", 8},  {"F8_E4M3", 8}, {"F8_E5M2", 8},
        {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64},  {"F8_E8M0", 8}, {"F6_E2M3", 6},
        {"F6_E3M2", 6},     {"F4", 4},
    };
    for (size_t i = 0; i < COUNT(types); i++) {
        char name[32], offsets[32];
        snprintf(name, sizeof name, "\"%s\"", types[i].name);
        snprintf(offsets, sizeof offsets, "[0,%u]", types[i].bits);
        assert_entry(name, "[8]", offsets, types[i].bits, NULL);
    }
}

#define F32(name, begin, end)                                                                      \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" #begin "," #end "]}"

TEST(tiling)
{
    assert_header("{" F32("b", 4, 8) "," F32("a", 0, 4) "}", 8, NULL);
    assert_header(
        "{" F32("b", 0, 4) ",\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 4,
        NULL);
    assert_header(
        "{\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}," F32("b", 0, 4) "}", 4,
        NULL);
    assert_header("{" F32("a", 0, 4) "," F32("b", 0, 4) "}", 4, "expected 4 (an overlap)");
    assert_header("{" F32("a", 0, 4) "," F32("b", 2, 6) "}", 6, "tensor b: begins at byte 2");
    assert_header("{" F32("a", 0, 4) "," F32("b", 8, 12) "}", 12, "expected 4 (a gap)");
    assert_header("{" F32("a", 4, 8) "}", 8, "begins at byte 4 of the data, expected 0 (a gap)");
    assert_header("{" F32("a", 0, 4) "}", 3, "ends at byte 4 of the data, the file has 3");
    assert_header("{" F32("a", 0, 4) "}", 5, "1 bytes after the last tensor");
    assert_header("{}", 1, "1 bytes after the last tensor");
    assert_header("{" F32("a", 9223372036854775803, 9223372036854775807) "}", 4, "(a gap)");
}

/* ---- hostile bytes --------------------------------------------------------------------------- */

TEST(truncated)
{
    struct span s = build(GOOD, 20);
    for (size_t n = 0; n < s.size; n++) {
        uint8_t *p = malloc(n + !n);
        mgpt_error err = {.text = ""};
        assert_non_null(p);
        memcpy(p, s.data, n);
        st_sniff((struct span){p, n});
        assert_int_equal(parse((struct span){p, n}, &err), MGPT_EFILE);
        free(p);
    }
    destroy(s);
}

/* By a header of up to 100,000,000 bytes that begins an object. */
TEST(sniffed)
{
    static const struct {
        const char *bytes;
        size_t n;
        int is;
    } rows[] = {{"\x00\xe1\xf5\x05\0\0\0\0{", 9, 1},
                {"\x01\xe1\xf5\x05\0\0\0\0{", 9, 0},
                {"\x00\xe1\xf5\x05\0\0\0\0[", 9, 0},
                {"\x00\xe1\xf5\x05\0\0\0\0{", 8, 0}};
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(st_sniff((struct span){(const uint8_t *)rows[i].bytes, rows[i].n}),
                         rows[i].is);
}

/* Every byte of the file replaced by some others: refused or described, never a crash. */
TEST(changed)
{
    static const uint8_t others[] = {0, '"', '{', '}', '[', ']', ',', '0', '9', '-', 0x80, 0xff};
    struct span s = build(GOOD, 20);
    uint8_t *p = (uint8_t *)(uintptr_t)s.data;
    size_t n_read = 0;
    for (size_t i = 0; i < s.size; i++) {
        uint8_t was = p[i];
        for (size_t k = 0; k < sizeof others; k++) {
            mgpt_error err = {.text = ""};
            p[i] = others[k];
            n_read += parse(s, &err) == MGPT_OK;
        }
        p[i] = was;
    }
    assert_true(n_read >= 20 * sizeof others); /* the data may be anything */
    destroy(s);
}
