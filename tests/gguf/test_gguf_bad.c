/* what the GGUF reader refuses, one tiny file each, with the error line and the byte it names;
 * and what the writer refuses, leaving the target file as it was. */
#include "base/file.h"
#include "support/gguf_bytes.h"
#include "support/unit.h"

#include <unistd.h>

#define TENSOR "tensor t: "

static void refused_bytes(const void *bytes, size_t n, uint64_t offset, const char *text)
{
    uint8_t *exact = malloc(n ? n : 1);
    struct gguf g;
    mgpt_error err = {0};
    memcpy(exact, bytes, n);
    assert_int_equal(gguf_parse(&g, exact, n, &err), MGPT_EFILE);
    assert_int_equal(err.status, MGPT_EFILE);
    assert_string_equal(err.text, text);
    assert_int_equal(err.offset, offset);
    assert_int_equal(gguf_parse(&g, exact, n, NULL), MGPT_EFILE);
    assert_true(!g.kv && !g.tensors && !g.names && !g.kv_sorted && !g.tensors_sorted);
    free(exact);
}

static void refused(const struct bytes *b, uint64_t offset, const char *text)
{
    refused_bytes(b->p, b->n, offset, text);
}

/* ---- header (limits 1 and 2) ------------------------------------------------------------------ */

TEST(not_gguf)
{
    const char *text = "not a GGUF file: it does not begin with \"GGUF\"";
    refused_bytes("", 0, 0, text);
    refused_bytes("GGU", 3, 0, text);
    refused_bytes("PK\3\4 a zip archive, longer than a header", 40, 0, text);
    refused_bytes("GGUF", 4, 4, "the file ends at byte 4, a header is 24");
    refused_bytes("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 23, 16,
                  "the file ends at byte 23, a header is 24");
}

TEST(versions)
{
    struct bytes b;
    put_header(&b, 0, 0);
    b.p[4] = 1;
    refused(&b, 4, "GGUF version 1, expected 2 or 3");
    b.p[4] = 4;
    refused(&b, 4, "GGUF version 4, expected 2 or 3");
    b.p[4] = 0;
    refused(&b, 4, "GGUF version 0, expected 2 or 3");
    b.p[7] = 3;
    refused(&b, 4, "big-endian GGUF file, expected little-endian");
}

TEST(counts)
{
    struct bytes b;
    static uint8_t large[24 + 65537 * 24];
    put_header(&b, 0, 1);
    refused(&b, 16, "header: 1 metadata entries, the file has 0 more bytes");
    put_header(&b, 0, 3);
    put_raw(&b, large, 41); /* an entry has 14 bytes or more */
    refused(&b, 16, "header: 3 metadata entries, the file has 41 more bytes");
    put_header(&b, 2, 0);
    put_raw(&b, large, 47); /* an info has 24 bytes or more */
    refused(&b, 8, "header: 2 tensors, the file has 47 more bytes");
    put_header(&b, 0, UINT64_MAX);
    refused(&b, 16, "header: 18446744073709551615 metadata entries, the limit is 65536");
    put_header(&b, UINT64_C(1) << 63, 0);
    refused(&b, 8, "header: 9223372036854775808 tensors, the limit is 65536");
    put_header(&b, 0, 65537);
    memcpy(large, b.p, 24);
    refused_bytes(large, sizeof large, 16, "header: 65537 metadata entries, the limit is 65536");
    put_header(&b, 65537, 0);
    memcpy(large, b.p, 24);
    refused_bytes(large, sizeof large, 8, "header: 65537 tensors, the limit is 65536");
}

/* ---- metadata (limits 3 to 6) ----------------------------------------------------------------- */

TEST(strings)
{
    struct bytes b;
    put_header(&b, 0, 1);
    put_uint(&b, 7, 8);
    put_raw(&b, "length", 6);
    refused(&b, 24, "key number 0: string of 7 bytes, the file has 6 more");
    put_header(&b, 0, 1);
    put_uint(&b, UINT64_MAX, 8);
    put_raw(&b, "length", 6);
    refused(&b, 24, "key number 0: string of 18446744073709551615 bytes, the limit is 1073741824");
    put_header(&b, 0, 1);
    put_key(&b, "k", GGUF_STRING);
    put_uint(&b, (UINT64_C(1) << 30) + 1, 8);
    refused(&b, 37, "key k: string of 1073741825 bytes, the limit is 1073741824");
    put_header(&b, 0, 1);
    put_key(&b, "k", GGUF_STRING);
    put_uint(&b, UINT64_C(1) << 30, 8);
    refused(&b, 37, "key k: string of 1073741824 bytes, the file has 0 more");
}

TEST(keys)
{
    struct bytes b;
    static uint8_t large[24 + 8 + 65536 + 8];
    put_header(&b, 0, 1);
    put_key(&b, "", GGUF_U32);
    put_uint(&b, 0, 4);
    refused(&b, 24, "key number 0: a key of 0 bytes, expected 1 to 65535");
    put_header(&b, 0, 1);
    put_uint(&b, 65536, 8);
    memcpy(large, b.p, b.n);
    refused_bytes(large, sizeof large, 24,
                  "key number 0: a key of 65536 bytes, expected 1 to 65535");
    put_header(&b, 0, 3);
    put_kv_u32(&b, "twin", 1);
    put_kv_u32(&b, "other", 1);
    put_kv_u32(&b, "twin", 2);
    refused(&b, 65, "key twin: occurs twice");
    put_header(&b, 0, 1); /* names from the file are clipped and cleaned */
    put_key(&b, "a\033[31m very long key with a line\nbreak that goes on and on and on and on", 99);
    put_raw(&b, "....", 4);
    refused(&b, 24 + 8 + 72,
            "key a?[31m very long key with a line?break that goes on and on a: "
            "unknown value type 99");
}

TEST(values)
{
    struct bytes b;
    put_header(&b, 0, 1);
    put_key(&b, "long", GGUF_U64);
    put_uint(&b, 1, 4);
    refused(&b, 36, "key long: a value of 1 x 8 bytes, the file has 4 more");
    put_header(&b, 0, 1);
    put_text(&b, "sixth.");
    refused(&b, 38, "key sixth.: the file ends at byte 38 inside it");
    put_header(&b, 0, 1);
    put_key(&b, "k", 13);
    put_uint(&b, 0, 4);
    refused(&b, 33, "key k: unknown value type 13");
    put_header(&b, 0, 1);
    put_array(&b, "k", 13, 0);
    refused(&b, 37, "key k: unknown value type 13");
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_ARRAY, 0);
    refused(&b, 37, "key k: an array of arrays is not supported");
    put_header(&b, 0, 1);
    put_key(&b, "k", GGUF_BOOL);
    put_uint(&b, 2, 1);
    refused(&b, 37, "key k: bool is 2, expected 0 or 1");
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_BOOL, 3);
    put_raw(&b, "\1\0\377", 3);
    refused(&b, 51, "key k: bool is 255, expected 0 or 1");
}

TEST(array_sizes)
{
    struct bytes b;
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_U8, (UINT64_C(1) << 30) + 1);
    refused(&b, 41, "key k: array of 1073741825 elements, the limit is 1073741824");
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_U8,
              UINT64_C(1) << 30); /* the limit itself: only its bytes are missing */
    refused(&b, 37, "key k: a value of 1073741824 x 1 bytes, the file has 0 more");
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_F64, UINT64_C(1) << 61); /* x 8 is 0 modulo 2^64 */
    refused(&b, 41, "key k: array of 2305843009213693952 elements, the limit is 1073741824");
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_F64, 2);
    put_raw(&b, "fifteen bytes..", 15);
    refused(&b, 37, "key k: a value of 2 x 8 bytes, the file has 15 more");
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_STRING, 2);
    put_raw(&b, "fifteen bytes..", 15);
    refused(&b, 37, "key k: a value of 2 x 8 bytes, the file has 15 more");
    put_header(&b, 0, 1);
    put_array(&b, "k", GGUF_STRING, 2);
    put_text(&b, "too much");
    refused(&b, 65, "key k: the file ends at byte 65 inside it");
}

TEST(special_keys)
{
    struct bytes b;
    static const struct {
        uint32_t alignment;
        const char *text;
    } bad[] = {
        {0, "key general.alignment: 0, expected a power of two from 8 to 65536"},
        {4, "key general.alignment: 4, expected a power of two from 8 to 65536"},
        {24, "key general.alignment: 24, expected a power of two from 8 to 65536"},
        {131072, "key general.alignment: 131072, expected a power of two from 8 to 65536"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        put_header(&b, 0, 1);
        put_kv_u32(&b, "general.alignment", bad[i].alignment);
        refused(&b, 24, bad[i].text);
    }
    put_header(&b, 0, 1);
    put_key(&b, "general.alignment", GGUF_U64);
    put_uint(&b, 32, 8);
    refused(&b, 24, "key general.alignment: expected a u32, found a u64");
    put_header(&b, 0, 2);
    put_kv_u32(&b, "k", 1);
    put_key(&b, "split.count", GGUF_U16);
    put_uint(&b, 3, 2);
    refused(&b, 41, "key split.count: one of 3 parts of a split file; merge them first");
    put_header(&b, 0, 1);
    put_key(&b, "split.count", GGUF_F32);
    put_uint(&b, 3, 4);
    refused(&b, 24, "key split.count: expected an unsigned integer, found an f32");
}

/* ---- tensors (limits 6 to 10) ----------------------------------------------------------------- */

static const uint64_t four[] = {4};

/* A file of one tensor "t" with its info as given and 64 bytes of data. The info is at byte 24, its
 * n_dims at 33, the dims from 37 on. */
static struct bytes one_tensor(uint32_t n_dims, const uint64_t *dims, uint32_t type,
                               uint64_t offset)
{
    struct bytes b;
    put_header(&b, 1, 0);
    put_info(&b, "t", n_dims, dims, type, offset);
    put_padding(&b, 32, 0);
    put_raw(&b, (const uint8_t[64]){0}, 64);
    return b;
}

TEST(names)
{
    struct bytes b;
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    put_header(&b, 1, 0);
    put_info(&b, name, 1, four, 0, 0);
    refused(&b, 24, "tensor number 0: a name of 64 bytes, expected 1 to 63");
    put_header(&b, 1, 0);
    put_info(&b, "", 1, four, 0, 0);
    refused(&b, 24, "tensor number 0: a name of 0 bytes, expected 1 to 63");
    put_header(&b, 1, 0);
    put_info(&b, "a\nb", 1, four, 0, 0);
    refused(&b, 33, "tensor a?b: control character in the name");
    put_header(&b, 1, 0);
    put_info(&b, "a0b", 1, four, 0, 0);
    b.p[33] = 0;
    refused(&b, 33, "tensor a?b: control character in the name");
    put_header(&b, 1, 0); /* C1, and what turns the direction of writing */
    put_info(&b,
             "a\xC2\x9B"
             "b",
             1, four, 0, 0);
    refused(&b, 33, "tensor a?b: control character in the name");
    put_header(&b, 1, 0);
    put_info(&b, "ab\xE2\x80\xAE", 1, four, 0, 0);
    refused(&b, 34, "tensor ab?: control character in the name");
    put_header(&b, 1, 0);
    put_info(&b, "a\xFF", 1, four, 0, 0);
    refused(&b, 33, "tensor a?: control character in the name");
    put_header(&b, 3, 0);
    put_info(&b, "twin", 1, four, 0, 0);
    put_info(&b, "t", 1, four, 0, 32);
    put_info(&b, "twin", 1, four, 0, 64);
    refused(&b, 93, "tensor twin: occurs twice");
}

TEST(shapes)
{
    struct bytes b = one_tensor(5, (const uint64_t[]){1, 1, 1, 1, 1}, 0, 0);
    refused(&b, 33, TENSOR "5 dimensions, the limit is 4");
    b = one_tensor(2, (const uint64_t[]){4, 0}, 0, 0);
    refused(&b, 45, TENSOR "dimension 1 is 0");
    b = one_tensor(2, (const uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32}, 0, 0);
    refused(&b, 45, TENSOR "dimension 1 is 4294967296: too many values");
    b = one_tensor(2, (const uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 31}, 0, 0);
    refused(&b, 45, TENSOR "dimension 1 is 2147483648: too many values");
    b = one_tensor(1, (const uint64_t[]){INT64_MAX}, 0, 0);
    refused(&b, 45, TENSOR "9223372036854775807 values of F32 are too many bytes");
    b = one_tensor(3, (const uint64_t[]){4, 1, 1}, 0, 0);
    b.n = 58;
    refused(&b, 53, TENSOR "the file ends at byte 58 inside it");
}

TEST(types)
{
    struct bytes b = one_tensor(1, four, 1000, 0);
    refused(&b, 45, TENSOR "element type unknown (1000) cannot be read");
    b = one_tensor(1, four, 4, 0); /* withdrawn */
    mgpt_error err;
    struct gguf g;
    assert_int_equal(gguf_parse(&g, b.p, b.n, &err), MGPT_EFILE);
    assert_int_equal(err.offset, 45);
    assert_non_null(strstr(err.text, "(4) cannot be read"));
}

TEST(offsets)
{
    struct bytes b = one_tensor(1, four, 0, 16);
    refused(&b, 49, TENSOR "data at 16, not a multiple of alignment 32");
    b = one_tensor(1, four, 0, 32); /* a gap */
    refused(&b, 49, TENSOR "data at 32 of the data section, expected 0");
    put_header(&b, 2, 0); /* an overlap */
    put_info(&b, "a", 1, four, 0, 0);
    put_info(&b, "t", 1, four, 0, 0);
    refused(&b, 82, TENSOR "data at 0 of the data section, expected 32");
    b = one_tensor(1, (const uint64_t[]){17}, 0, 0);
    refused(&b, 24, TENSOR "data ends at byte 132, the file has 128");
    b = one_tensor(1, (const uint64_t[]){16}, 0, 0);
    b.n = 127;
    refused(&b, 24, TENSOR "data ends at byte 128, the file has 127");
    b.n = 58; /* no data section at all */
    refused(&b, 24, TENSOR "data ends at byte 128, the file has 58");
    const uint64_t quarter = UINT64_C(1) << 60, huge = quarter * 4 - 16; /* x 4 bytes wraps */
    put_header(&b, 2, 0);
    put_info(&b, "a", 1, (const uint64_t[]){huge}, 0, 0);
    put_info(&b, "t", 1, (const uint64_t[]){16}, 0, huge * 4);
    refused(&b, 82, TENSOR "the data section exceeds 2^64 bytes");
    put_header(&b, 1, 0);
    put_info(&b, "t", 1, (const uint64_t[]){huge}, 0, 0);
    refused(&b, 24, TENSOR "data ends at byte 18446744073709551615, the file has 57");
}

/* ---- the writer ------------------------------------------------------------------------------- */

struct target {
    char path[300];
    struct gguf_writer w;
};

static int make_target(void **state)
{
    struct target *t = calloc(1, sizeof *t);
    const char *tmp = getenv("TMPDIR");
    snprintf(t->path, sizeof t->path, "%s/mgpt-gguf-XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(t->path);
    *state = t;
    return fd < 0 || write(fd, "old", 3) != 3 || close(fd) < 0 ? -1 : 0;
}

static int remove_target(void **state)
{
    struct target *t = *state;
    int status = unlink(t->path);
    free(t);
    return status;
}

static struct gguf_writer *begin(struct target *t)
{
    assert_int_equal(gguf_create(&t->w, t->path, NULL), MGPT_OK);
    return &t->w;
}

/* The commit fails with this line, and the file that was there still is. */
static void fails(struct target *t, const char *text)
{
    mgpt_error err = {0};
    struct file file;
    assert_int_equal(gguf_commit(&t->w, &err), MGPT_EARG);
    assert_string_equal(err.text, text);
    assert_true(err.offset == MGPT_NO_OFFSET);
    gguf_discard(&t->w); /* allowed after the end */
    assert_int_equal(file_open(&file, t->path, NULL), MGPT_OK);
    assert_int_equal(file.size, 3);
    assert_memory_equal(file.data, "old", 3);
    file_close(&file);
}

TEST_WITH(writer_refuses_header, make_target, remove_target)
{
    struct target *t = *state;
    const struct dtype *f32 = dtype_find(DTYPE_F32);
    struct gguf_writer *w = begin(t);
    gguf_put_u32(w, "twin", 1);
    gguf_put_u32(w, "twin", 2);
    fails(t, "key twin: occurs twice");
    w = begin(t);
    gguf_put_u32(w, "general.alignment", 32);
    fails(t, "key general.alignment: occurs twice");
    w = begin(t);
    gguf_put_tensor(w, "a\tb", f32, 1, four);
    gguf_data(w, "ignored", 7);
    fails(t, "tensor a?b: control character in the name");
    w = begin(t);
    gguf_put_tensor(w, "t", f32, 2, (const uint64_t[]){4, 0});
    gguf_put_tensor(w, "second failure", NULL, 1, four);
    fails(t, "tensor t: its type or shape cannot be stored, or it comes after data");
    w = begin(t);
    gguf_put_tensor(w, "t", NULL, 1, four);
    fails(t, "tensor t: its type or shape cannot be stored, or it comes after data");
    w = begin(t);
    gguf_put_tensor(w, "t", f32, 5, (const uint64_t[]){1, 1, 1, 1, 2});
    fails(t, "tensor t: its type or shape cannot be stored, or it comes after data");
}

TEST_WITH(writer_refuses_data, make_target, remove_target)
{
    struct target *t = *state;
    const struct dtype *f32 = dtype_find(DTYPE_F32);
    struct gguf_writer *w = begin(t);
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "fifteen bytes..", 15);
    fails(t, "tensor 1 of 1 got 15 of its 16 bytes");
    w = begin(t);
    gguf_put_tensor(w, "t", f32, 1, four);
    fails(t, "tensor 1 of 1 got 0 of its 16 bytes");
    w = begin(t);
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "seventeen bytes..", 17);
    fails(t, "1 bytes of data after the last of 1 tensors");
    w = begin(t);
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "x", 1);
    gguf_put_u32(w, "late", 1);
    fails(t, "key late: put after tensor data");
    w = begin(t);
    gguf_put_tensor(w, "t", f32, 1, four);
    gguf_data(w, "x", 1);
    gguf_put_tensor(w, "late", f32, 1, four);
    fails(t, "tensor late: its type or shape cannot be stored, or it comes after data");
    w = begin(t);
    gguf_discard(w);
    assert_int_equal(gguf_create(w, "/nowhere/at/all", NULL), MGPT_EIO);
    gguf_discard(w);
}
