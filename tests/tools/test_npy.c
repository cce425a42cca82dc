/* NumPy's arrays at the level of bytes: every version of the header, its limits to the byte, elements
 * of every type, and what is wrong with the place where it is wrong. */
#include "base/error.h"
#include "base/mem.h"
#include "common/npy.h"
#include "support/ref_file.h"
#include "support/unit.h"

#include <math.h>

#define F4 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"

/* A header of any version around a dictionary that is padded with spaces to n bytes. */
static struct bytes versioned(int version, const char *dictionary, size_t n)
{
    struct bytes b = {0};
    uint8_t head[12] = {0x93,
                        'N',
                        'U',
                        'M',
                        'P',
                        'Y',
                        (uint8_t)version,
                        0,
                        (uint8_t)n,
                        (uint8_t)(n >> 8),
                        (uint8_t)(n >> 16),
                        (uint8_t)(n >> 24)};
    add(&b, head, version == 1 ? 10 : 12);
    add(&b, dictionary, strlen(dictionary));
    for (size_t i = strlen(dictionary); i < n; i++)
        add(&b, " ", 1);
    return b;
}

static void assert_header(const struct bytes *b, const char *text, uint64_t offset)
{
    struct npy npy;
    mgpt_error err = {0};
    assert_int_equal(npy_header(&npy, b->data, arr_len(b->data), &err), MGPT_EFILE);
    assert_string_equal(err.text, text);
    assert_int_equal(err.offset, offset);
}

TEST(versions_are_read)
{
    for (int version = 1; version <= 3; version++) {
        struct npy npy;
        mgpt_error err = {0};
        struct bytes b = versioned(version, F4, 300);
        assert_int_equal(npy_header(&npy, b.data, arr_len(b.data), &err), MGPT_OK);
        assert_int_equal(npy.header, arr_len(b.data));
        assert_int_equal(npy.kind, 'f');
        assert_int_equal(npy.width, 4);
        assert_int_equal(npy.n_dims, 2);
        assert_int_equal(npy.dims[1], 3);
        assert_int_equal(npy.n_bytes, 24);
        assert_int_equal(npy_plain(&npy, &err), MGPT_OK);
        drop(&b);
    }
}

TEST(bad_versions_and_lengths)
{
    static const struct {
        int version;
        size_t n, cut; /* bytes of the dictionary, bytes that are missing at the end */
        const char *text;
        uint64_t offset;
    } bad[] = {
        {0, 80, 0, "npy version 0.0, expected 1.0 to 3.0", 6},
        {4, 80, 0, "npy version 4.0, expected 1.0 to 3.0", 6},
        {1, 80, 1, "npy header: says 80 bytes, 79 are there (at most 4096 are read)", 10},
        {2, 80, 80, "npy header: says 80 bytes, 0 are there (at most 4096 are read)", 12},
        {1, 80, 81, "npy header: says 0 bytes, 1 are there (at most 4096 are read)", 8},
        {1, 80, 83, "npy header: says 0 bytes, 0 are there (at most 4096 are read)", 7},
        {1, 80, 85, "not a .npy array: no \\x93NUMPY at its beginning", 0},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct bytes b = versioned(bad[i].version, F4, bad[i].n);
        struct npy npy;
        mgpt_error err = {0};
        size_t n = arr_len(b.data) - bad[i].cut;
        assert_int_equal(npy_header(&npy, b.data, n, &err), MGPT_EFILE);
        assert_string_equal(err.text, bad[i].text);
        assert_int_equal(err.offset, bad[i].offset);
        drop(&b);
    }
}

TEST(bad_dictionaries)
{
    static const struct {
        const char *dictionary, *text;
        uint64_t offset;
    } bad[] = {
        {"", "npy header: expected '{'", 10},
        {" \n", "npy header: expected '{'", 12},
        {"{'descr': '<f4' 'shape'", "npy header: expected ',' or '}'", 26},
        {"{descr: 1}", "npy header: expected a key", 11},
        {"{'descr", "npy header: expected a key", 11},
        {"{'fortran_order_': 1}", "npy header: expected each of descr, fortran_order, shape once",
         11},
        {"{'fortran_order___': 1}", "npy header: expected a key", 11},
        {"{'shape': (1,), 'shape': (1,)}",
         "npy header: expected each of descr, fortran_order, shape once", 26},
        {"{'descr' '<f4'}", "npy header: expected ':'", 19},
        {"{'descr': 'fffffffffffffff'}",
         "npy header: element type 'fffffffffffffff', expected <f2 <f4 <f8 <i4 <i8", 20},
        {"{'descr': 'ffffffffffffffff'}",
         "npy header: expected a simple element type such as '<f4'", 20},
        {"{'descr': \"\"}", "npy header: element type '', expected <f2 <f4 <f8 <i4 <i8", 20},
        {"{'descr': '<'}", "npy header: element type '<', expected <f2 <f4 <f8 <i4 <i8", 20},
        {"{'descr': '<f4x'}", "npy header: element type '<f4x', expected <f2 <f4 <f8 <i4 <i8", 20},
        {"{'descr': '<fx'}", "npy header: element type '<fx', expected <f2 <f4 <f8 <i4 <i8", 20},
        {"{'descr': '<U1048577'}",
         "npy header: element type '<U1048577', expected <f2 <f4 <f8 <i4 <i8", 20},
        {"{'shape': (18446744073709551616,)}", "npy header: expected a dimension below 2^64", 40},
        {"{'shape': (99999999999999999999,)}", "npy header: expected a dimension below 2^64", 40},
        {"{'descr': '<f4', 'fortran_order': False}",
         "npy header: expected descr, fortran_order and shape", 50},
        {"{'descr': '<f4', 'shape': (1,)}", "npy header: expected descr, fortran_order and shape",
         41},
        {"{'fortran_order': False, 'shape': (1,)}",
         "npy header: expected descr, fortran_order and shape", 49},
        {"{}", "npy header: expected descr, fortran_order and shape", 12},
        {"{'fortran_order': Fals}", "npy header: expected False", 28},
        {"{'fortran_order': F", "npy header: expected False", 28},
        {"{'shape': (1, 2", "npy header: expected ',' or ')'", 25},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
         "npy header: the shape overflows", 10},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct bytes b = versioned(1, bad[i].dictionary, strlen(bad[i].dictionary));
        assert_header(&b, bad[i].text, bad[i].offset);
        drop(&b);
    }
}

/* ---- elements ---- */

TEST(elements_of_every_type)
{
    static const struct {
        const char *descr;
        size_t width;
        uint8_t bytes[16]; /* two elements, little-endian */
        double reals[2];
    } cases[] = {
        {"<f2", 2, {0x00, 0x3C, 0x01, 0x80}, {1, -0x1p-24}},
        {"<f4", 4, {0, 0, 0x20, 0xC0, 0xDB, 0x0F, 0x49, 0x40}, {-2.5, 0x1.921fb6p1}},
        {"<f8",
         8,
         {0x18, 0x2D, 0x44, 0x54, 0xFB, 0x21, 0x09, 0x40, 1},
         {0x1.921fb54442d18p1, 0x1p-1074}},
        {"<i4", 4, {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0x80}, {-1, -2147483648.0}},
        {"<i8",
         8,
         {0, 0, 0, 0, 1, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
         {4294967296.0, -2}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct npy npy;
        struct bytes b = npy_of(cases[i].descr, "(2,)");
        assert_int_equal(npy_parse(&npy, b.data, arr_len(b.data), NULL), MGPT_OK);
        assert_int_equal(npy.n_bytes, 2 * cases[i].width);
        for (size_t k = 0; k < 2; k++) {
            assert_true(npy_real(&npy, cases[i].bytes, k) == cases[i].reals[k]);
            if (npy.kind == 'i')
                assert_true((double)npy_integer(&npy, cases[i].bytes, k) == cases[i].reals[k]);
        }
        drop(&b);
    }
}

TEST(other_types_have_a_width)
{
    static const struct {
        const char *descr;
        uint64_t n_bytes; /* of three */
    } cases[] = {{"<U5", 60}, {"|S7", 21},           {"|b1", 3}, {"<u2", 6}, {"|O", 0},
                 {"<U0", 0},  {"|S1048576", 3 << 20}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct npy npy;
        mgpt_error err = {0};
        struct bytes b = npy_of(cases[i].descr, "(3,)");
        assert_int_equal(npy_header(&npy, b.data, arr_len(b.data), &err), MGPT_OK);
        assert_int_equal(npy.n_bytes, cases[i].n_bytes);
        assert_int_equal(npy_parse(&npy, b.data, arr_len(b.data), &err), MGPT_EFILE);
        assert_non_null(strstr(err.text, cases[i].descr));
        drop(&b);
    }
}

/* What follows a header is not read as a part of it. */
TEST(data_is_no_header)
{
    struct bytes b = versioned(1, "{'descr': '<f4'", 15);
    add(&b, "}", 1);
    assert_header(&b, "npy header: expected ',' or '}'", 25);
    drop(&b);
    b = versioned(1, "{'shape': (1, 2", 15);
    add(&b, ")", 1);
    assert_header(&b, "npy header: expected ',' or ')'", 25);
    drop(&b);
}
