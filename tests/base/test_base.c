/* Error lines, checked arithmetic, cursor, memory, the hash, names of temporary files.
 * Files: test_files.c. Threads: test_pool.c. */
#include "base/check.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/outfile_name.h"
#include "base/xxh64.h"
#include "support/unit.h"

#include <limits.h>
#include <math.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* ---- error lines ---- */

TEST(format_conversions)
{
    char buf[192];
    text_format(buf, sizeof buf, "%s|%.*s|%c|%%", "text", 3, "abcdef", 'x');
    assert_string_equal(buf, "text|abc|x|%");
    text_format(buf, sizeof buf, "%d %d %d", 0, INT_MAX, INT_MIN);
    assert_string_equal(buf, "0 2147483647 -2147483648");
    text_format(buf, sizeof buf, "%u %zu %llu", UINT_MAX, (size_t)7, ULLONG_MAX);
    assert_string_equal(buf, "4294967295 7 18446744073709551615");
    text_format(buf, sizeof buf, "%lld %lld", LLONG_MIN, LLONG_MAX);
    assert_string_equal(buf, "-9223372036854775808 9223372036854775807");
    text_format(buf, sizeof buf, "%g %g %g %g %g %g", 0.0, 1.0, -100.0, 0.5, 999999.0, 999999.7);
    assert_string_equal(buf, "0 1 -100 0.5 999999 1e+06");
    text_format(buf, sizeof buf, "%g %g %g %g %g", 0.0012345678, 0.0001, 1e-5, 1.25e-30, 3.5e38);
    assert_string_equal(buf, "0.00123457 0.0001 1e-05 1.25e-30 3.5e+38");
    text_format(buf, sizeof buf, "%g %g %g %g", 5e-324, 1e300, (double)INFINITY, -(double)INFINITY);
    assert_string_equal(buf, "4.94066e-324 1e+300 inf -inf");
    text_format(buf, sizeof buf, "%g %g", (double)NAN, 123.4567);
    assert_string_equal(buf, "nan 123.457");
    text_format(buf, sizeof buf, "%x %x", 0u, 0xDEADBEEFu);
    assert_string_equal(buf, "0 deadbeef");
    size_t n = text_format(buf, sizeof buf, "[%.*s]", 0, "never read");
    assert_string_equal(buf, "[]");
    assert_int_equal(n, 2);
}

TEST(format_controls)
{
    char buf[64];
    text_format(buf, sizeof buf, "%s", "a\nb\033[31m\x7f\t\r\xC3\xA9");
    assert_string_equal(buf, "a?b?[31m???\xC3\xA9");
    text_format(buf, sizeof buf, "%.*s", 3, "x\0y");
    assert_string_equal(buf, "x?y");
    /* C1, the override of the writing direction, a line separator, a stray byte, half a character
     */
    text_format(buf, sizeof buf, "%s",
                "1\xC2\x9B"
                "2\xE2\x80\xAE"
                "3\xE2\x80\xA8"
                "4\xFF"
                "5");
    assert_string_equal(buf, "1?2?3?4?5");
    text_format(buf, sizeof buf, "%.2s|%.*s", "x\xC3\xA9", 1, "\xC3\xA9");
    assert_string_equal(buf, "x?|?");
}

TEST(format_truncates)
{
    char buf[10];
    memset(buf, 0x41, sizeof buf);
    assert_int_equal(text_format(buf, 8, "%s", "1234567"), 7);
    assert_string_equal(buf, "1234567");
    assert_int_equal(text_format(buf, 8, "%s", "123456789"), 7);
    assert_string_equal(buf, "1234567");
    assert_int_equal(buf[8], 0x41);
    assert_int_equal(text_format(buf, 1, "%d", 12), 0);
    assert_string_equal(buf, "");
}

/* A cut never leaves half a character, independent of what the buffer held before. */
TEST(format_truncates_utf8)
{
    const char *text = "12345\xE2\x82\xAC!"; /* the euro sign at bytes 5 to 7 */
    for (int before = 0; before < 256; before += 0x55) {
        for (size_t cap = 6; cap <= 10; cap++) {
            char buf[16];
            memset(buf, before, sizeof buf);
            size_t n = text_format(buf, cap, "%s", text), want = cap - 1;
            if (want > 5 && want < 8)
                want = 5;
            assert_int_equal(n, want);
            assert_int_equal(strlen(buf), want);
            assert_memory_equal(buf, text, want);
        }
    }
}

TEST(err_set)
{
    mgpt_error err = {0};
    char text[512];
    memset(text, 'x', sizeof text);
    assert_int_equal(err_set(&err, MGPT_EFILE, 12, "%.*s", 512, text), MGPT_EFILE);
    assert_int_equal(err.status, MGPT_EFILE);
    assert_int_equal(err.offset, 12);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(err_set(NULL, MGPT_EIO, 0, "err is NULL"), MGPT_EIO);
    assert_int_equal(err_memory(&err, "the page", 4096), MGPT_EMEM);
    assert_string_equal(err.text, "out of memory: 4096 bytes for the page");
    assert_true(err.offset == MGPT_NO_OFFSET);
}

/* ---- checked arithmetic ---- */

TEST(ck)
{
    uint64_t v = 0;
    size_t size = 0;
    assert_true(ck_add(UINT64_MAX - 1, 1, &v) && v == UINT64_MAX);
    assert_false(ck_add(UINT64_MAX, 1, &v));
    assert_true(ck_mul(UINT64_C(1) << 32, UINT32_MAX, &v) && v == (uint64_t)UINT32_MAX << 32);
    assert_false(ck_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &v));
    assert_true(ck_mul(0, UINT64_MAX, &v) && v == 0);
    assert_true(ck_align(0, 64, &v) && v == 0);
    assert_true(ck_align(1, 64, &v) && v == 64);
    assert_true(ck_align(64, 64, &v) && v == 64);
    assert_true(ck_align(UINT64_MAX - 63, 64, &v) && v == UINT64_MAX - 63);
    assert_false(ck_align(UINT64_MAX - 62, 64, &v));
    assert_true(ck_size(SIZE_MAX, &size) && size == SIZE_MAX);
    assert_true(ck_bytes(3, 5, &size) && size == 15);
    assert_false(ck_bytes(UINT64_MAX / 2, 3, &size));
}

/* ---- cursor ---- */

TEST(cursor_widths)
{
    static const uint8_t bytes[] = {
        0x01, 0x02, 0x83, 0x04, 0x05, 0x06, 0x87, 0x08, 0x09, 0x0A, 0x0B, 0x0C,
        0x0D, 0x0E, 0x8F, 0xFE, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0x80, 0xBF, 0x55,
    };
    struct cursor c = cursor_over(bytes, sizeof bytes);
    assert_int_equal(cursor_left(&c), sizeof bytes);
    assert_int_equal(cursor_u8(&c), 0x01);
    assert_int_equal(cursor_u16(&c), 0x8302);
    assert_int_equal(cursor_u32(&c), 0x87060504);
    assert_true(cursor_u64(&c) == UINT64_C(0x8F0E0D0C0B0A0908));
    assert_int_equal(cursor_i32(&c), -2);
    assert_true(cursor_f32(&c) == -1.0f);
    assert_int_equal(cursor_left(&c), 1);
    assert_int_equal(*cursor_take(&c, 1), 0x55);
    assert_false(c.failed);
    assert_non_null(cursor_take(&c, 0));
    c.pos = 0;
    assert_int_equal(cursor_uint(&c, 3), 0x830201);
}

TEST(cursor_fails_for_good)
{
    static const uint8_t bytes[5] = {1, 2, 3, 4, 5};
    struct cursor c = cursor_over(bytes, sizeof bytes);
    cursor_u16(&c);
    assert_int_equal(cursor_u32(&c), 0);
    assert_true(c.failed);
    assert_int_equal(c.where, 2);
    assert_int_equal(cursor_left(&c), 0);
    assert_int_equal(cursor_u8(&c), 0); /* though 3 bytes would be there */
    assert_null(cursor_take(&c, 0));
    assert_int_equal(c.where, 2);
    c = cursor_over(bytes, sizeof bytes);
    assert_null(cursor_take(&c, UINT64_MAX));
    assert_int_equal(c.where, 0);
    c = cursor_over(bytes, 0);
    assert_int_equal(cursor_u8(&c), 0);
    assert_true(c.failed);
}

/* ---- memory ---- */

TEST(arr_grows)
{
    uint32_t *a = NULL;
    assert_int_equal(arr_len(a), 0);
    assert_true(arr_reserve(a, 0));
    for (uint32_t i = 0; i < 10000; i++)
        assert_true(arr_push(a, i * 7));
    assert_int_equal(arr_len(a), 10000);
    assert_true(arr_cap(a) >= 10000 && arr_cap(a) <= 20000);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(a[i], i * 7);
    const uint32_t *before = a;
    assert_true(arr_reserve(a, arr_cap(a)));
    assert_ptr_equal(a, before);
    arr_free(a);
    assert_null(a);
}

TEST(arr_refuses_overflow)
{
    uint64_t *a = NULL;
    assert_true(arr_push(a, 42));
    const uint64_t *before = a;
    size_t cap = arr_cap(a);
    assert_false(arr_reserve(a, SIZE_MAX));
    assert_false(arr_reserve(a, SIZE_MAX / sizeof *a));
    assert_ptr_equal(a, before);
    assert_int_equal(arr_len(a), 1);
    assert_int_equal(arr_cap(a), cap);
    assert_true(a[0] == 42);
    arr_free(a);
    char *bytes = NULL;
    assert_false(arr_reserve(bytes, SIZE_MAX));
    assert_null(bytes);
}

TEST(mem_new)
{
    for (size_t n = 0; n < 300; n++) {
        uint8_t *p = mem_new(n, 3);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < n * 3; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xFF, n * 3);
        free(p);
    }
    assert_null(mem_new(SIZE_MAX, 1));
    assert_null(mem_new(SIZE_MAX / 2, 3));
}

#ifdef __SANITIZE_ADDRESS__
/* AddressSanitizer sees an access past n * each, though the block is longer. */
TEST(mem_padding)
{
    for (size_t n = 0; n < 300; n++) {
        char *blocks[] = {mem_new(n, 3), mem_large(n, 3)};
        for (size_t i = 0; i < 2; i++) {
            assert_null(__asan_region_is_poisoned(blocks[i], n * 3));
            assert_true(__asan_address_is_poisoned(blocks[i] + n * 3));
            free(blocks[i]);
        }
    }
    size_t large = 2 * MEM_HUGE_PAGE + 1;
    char *block = mem_large(large, 1);
    assert_null(__asan_region_is_poisoned(block, large));
    assert_true(__asan_address_is_poisoned(block + large));
    free(block);
}
#endif

/* ---- the hash ---- */

/* Known values: the first is in the specification, the others come from xxhsum's own tests. */
TEST(hash)
{
    assert_true(xxh64("", 0) == UINT64_C(0xEF46DB3751D8E999));
    assert_true(xxh64("a", 1) == UINT64_C(0xD24EC4F1A98C6E5B));
    assert_true(xxh64("abc", 3) == UINT64_C(0x44BC2CF5AD770999));
    assert_true(xxh64("Nobody inspects the spammish repetition", 39) ==
                UINT64_C(0xFBCEA83C8A378BF1));
}

/* Every length up to 100 in one number, which xxhash 4.1.0 of PyPI gives, too. */
TEST(hash_of_every_length)
{
    uint8_t bytes[101];
    uint64_t all = 0;
    for (size_t n = 0; n < sizeof bytes; n++) {
        all = all * 31 + xxh64(bytes, n);
        bytes[n] = (uint8_t)(n * n + 3);
    }
    assert_true(all == UINT64_C(0x65CAF9B48043BDBD));
}

TEST(hash_of_pieces)
{
    uint8_t bytes[200];
    struct xxh64 h;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i + 3);
    for (size_t n = 0; n <= sizeof bytes; n++)
        for (size_t piece = 1; piece <= 70; piece++) {
            xxh64_begin(&h);
            for (size_t at = 0; at < n; at += piece)
                xxh64_add(&h, bytes + at, n - at < piece ? n - at : piece);
            assert_true(xxh64_end(&h) == xxh64(bytes, n));
        }
}

/* ---- names of temporary files ---- */

/* What is made for a name is known as its temporary file, and fits in 255 bytes. */
static void check_temporary(const char *folder, const char *name, size_t n_stem)
{
    char path[600];
    text_format(path, sizeof path, "%s%s", folder, name);
    char *made = outfile_temporary(path, strlen(folder)), *entry = made + strlen(folder);
    assert_non_null(made);
    assert_memory_equal(made, folder, strlen(folder));
    assert_int_equal(strlen(entry), 1 + n_stem + strlen(".abcdef.tmp"));
    assert_true(strlen(entry) <= 255 && entry[0] == '.' && strncmp(entry + 1, name, n_stem) == 0);
    assert_false(outfile_is_temporary(entry, name)); /* it has no letters yet */
    char before[600];
    for (unsigned i = 0; i < OUTFILE_ATTEMPTS; i++) {
        text_format(before, sizeof before, "%s", made);
        outfile_put_letters(made, 12345, i);
        assert_true(outfile_is_temporary(entry, name));
        assert_string_not_equal(before, made);
    }
    free(made);
}

TEST(temporary_names)
{
    static const char e_acute[] = "\xc3\xa9", kanji[] = "\xe6\x97\xa5";
    char name[300] = "";
    check_temporary("", "file", 4);
    check_temporary("a/b.c/", "file", 4);
    for (int i = 0; i < 200; i++)
        strcat(name, "x");
    check_temporary("a/", name, 200);
    strcpy(name + 199, e_acute); /* a character is whole or left out */
    check_temporary("a/", name, 199);
    strcpy(name + 198, e_acute);
    check_temporary("a/", name, 200);
    strcpy(name + 198, kanji);
    strcat(name, "file");
    check_temporary("a/", name, 198);
}
