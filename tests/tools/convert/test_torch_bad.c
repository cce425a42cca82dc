/* PyTorch files with wrong sizes, offsets and names: archives built here, and damaged fixtures. */
#include "support/torch_input.h"
#include "support/unit.h"

#include "convert/containers/torch.h"

#include <limits.h>

/* ---- a zip archive --------------------------------------------------------------------------- */

struct zip_part {
    const char *name;
    struct span bytes;
    int method;
    int64_t shift; /* added to the offset in the directory */
    int64_t more;  /* added to the sizes in the directory */
};

struct archive {
    uint8_t bytes[8192];
    size_t n;
};

static void put_zip_bytes(struct archive *a, const void *p, size_t n)
{
    assert_true(a->n + n <= sizeof a->bytes);
    if (n)
        memcpy(a->bytes + a->n, p, n);
    a->n += n;
}

struct zip_field {
    uint64_t value;
    size_t n_bytes;
};

static void put_fields(struct archive *a, const struct zip_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < fields[i].n_bytes; k++)
            put_zip_bytes(a, &(uint8_t){(uint8_t)(k < 8 ? fields[i].value >> (8 * k) : 0)}, 1);
}

/* Little-endian numbers: {value, bytes}, ... */
#define PUT(a, ...)                                                                                \
    put_fields(a, (const struct zip_field[]){__VA_ARGS__},                                         \
               COUNT(((const struct zip_field[]){__VA_ARGS__})))

/* As PyTorch writes it: flags 0x0808, no CRC and sizes here. */
static void put_local(struct archive *a, const struct zip_part *m)
{
    size_t n = strlen(m->name);
    PUT(a, {0x04034b50, 4}, {0, 2}, {0x0808, 2}, {(uint64_t)m->method, 2}, {0, 16}, {n, 2}, {0, 2});
    put_zip_bytes(a, m->name, n);
    put_zip_bytes(a, m->bytes.data, m->bytes.size);
}

static void put_entry(struct archive *a, const struct zip_part *m, size_t offset)
{
    uint64_t size = (uint64_t)((int64_t)m->bytes.size + m->more);
    size_t n = strlen(m->name);
    PUT(a, {0x02014b50, 4}, {0, 4}, {0x0808, 2}, {(uint64_t)m->method, 2}, {0, 8}, {size, 4},
        {size, 4}, {n, 2}, {0, 12}, {(uint64_t)((int64_t)offset + m->shift), 4});
    put_zip_bytes(a, m->name, n);
}

/* The end record of a directory of n entries that ends here. */
static void put_end(struct archive *a, size_t n, size_t directory)
{
    size_t size = a->n - directory;
    PUT(a, {0x06054b50, 4}, {0, 4}, {n, 2}, {n, 2}, {size, 4}, {directory, 4}, {0, 2});
}

static struct span make_archive(struct archive *a, const struct zip_part *members, size_t n)
{
    size_t offsets[16];
    a->n = 0;
    for (size_t i = 0; i < n; i++) {
        offsets[i] = a->n;
        put_local(a, &members[i]);
    }
    size_t directory = a->n;
    for (size_t i = 0; i < n; i++)
        put_entry(a, &members[i], offsets[i]);
    put_end(a, n, directory);
    return (struct span){a->bytes, a->n};
}

/* Opens the archive, and describes all tensors of the dict in it. */
static int read_archive(struct span bytes, mgpt_error *err)
{
    struct torch_file f;
    struct checkpoint c;
    struct state s;
    int status = torch_open(&f, bytes, err);
    if (status < 0)
        return status;
    ckpt_init(&c);
    state_init(&s, &c);
    status = torch_state(&f, f.pickle.root, &s, err);
    state_free(&s);
    ckpt_free(&c);
    torch_close(&f);
    return status;
}

static void refuses_archive(struct span bytes, const char *text)
{
    mgpt_error err;
    struct span copy = exact_copy(bytes);
    int status = read_archive(copy, &err);
    free_copy(copy);
    if (status >= 0)
        fail_msg("accepted, expected '%s'", text);
    assert_int_equal(status, MGPT_EFILE);
    if (!strstr(err.text, text))
        fail_msg("'%s' does not hold '%s'", err.text, text);
}

static void accepts(struct span bytes)
{
    mgpt_error err;
    if (read_archive(bytes, &err) < 0)
        fail_msg("refused: %s", err.text);
}

/* ---- archives -------------------------------------------------------------------------------- */

#define STORAGE_OF(key, count) "(U\7storagectorch\nFloatStorage\n" key "U\3cpu" count "tQ"
#define STORAGE(count)                                                                             \
    "(U\7storagectorch\nFloatStorage\nU\1"                                                         \
    "0U\3"                                                                                         \
    "cpuK" count "tQ"
#define TENSOR(storage, offset, size, stride)                                                      \
    "\x80\x02}U\1w"                                                                                \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset size stride "\x89}tRs."

/* {"w": a tensor [2, 2] of a storage, or of storage 0 */
#define OBJECT(storage) TENSOR(storage, "K\0", "K\2K\2\x86", "K\2K\1\x86")
#define GOOD OBJECT(STORAGE("\4"))

static const struct span sixteen = {(const uint8_t *)"0123456789abcdef", 16};

static void archive_with(const struct zip_part *members, size_t n, const char *text)
{
    struct archive a;
    if (text)
        refuses_archive(make_archive(&a, members, n), text);
    else
        accepts(make_archive(&a, members, n));
}

TEST(archives)
{
    const struct span pickle = BYTES(GOOD), empty = {(const uint8_t *)"", 0};
    struct zip_part m[] = {{"a/data.pkl", pickle, 0, 0, 0},
                           {"a/data/0", sixteen, 0, 0, 0},
                           {"a/version", BYTES("3\n"), 0, 0, 0}};
    archive_with(m, 3, NULL);
    const struct zip_part deeper[] = {
        {"a/b/data.pkl", BYTES("x"), 0, 0, 0}, /* the one on top counts */
        {"a/data.pkl", pickle, 0, 0, 0},
        {"a/data/0", sixteen, 0, 0, 0},
        {"a/c/d/data.pkl", BYTES("x"), 0, 0, 0}};
    archive_with(deeper, 4, NULL);
    m[0].name = "data.pkl", m[1].name = "data/0";
    archive_with(m, 3, NULL);
    m[1].name = "b/data/0";
    archive_with(m, 3, "storage 0 is not in the file");
    m[0].name = "a/data.pkl", m[1].name = "a/data/0", m[2].name = "a/data/0";
    archive_with(m, 3, "a/data/0 occurs twice");
    m[2] = (struct zip_part){"a/byteorder", BYTES("big"), 0, 0, 0};
    archive_with(m, 3, "big-endian");
    m[2].bytes = BYTES("little");
    archive_with(m, 3, NULL);
    m[2].name = "a/constants.pkl";
    archive_with(m, 3, "TorchScript");
    m[2].name = "a/x";
    m[1].method = 8;
    archive_with(m, 3, "a/data/0 is compressed");
    m[1].method = 0, m[0].method = 8;
    archive_with(m, 3, "a/data.pkl is compressed");
    m[0].method = 0;
    m[0].name = "a/data.pk1";
    archive_with(m, 3, "no data.pkl");
    m[0].name = "a/data.pkl";
    m[1].bytes = empty;
    archive_with(m, 3, "4 elements of F32, the file holds 0 bytes");
}

/* An end record and nothing else. */
TEST(empty_archive)
{
    struct zip_dir z;
    mgpt_error err;
    assert_int_equal(zip_dir_open(&z, BYTES("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), &err),
                     MGPT_EFILE);
    assert_non_null(strstr(err.text, "the archive is empty"));
}

/* The directory names members in another order than theirs. */
TEST(other_order)
{
    const struct span pickle = BYTES(GOOD);
    const struct zip_part m[] = {{"a/data.pkl", pickle, 0, 0, 0}, {"a/data/0", sixteen, 0, 0, 0}};
    struct archive a = {.n = 0};
    put_local(&a, &m[0]);
    size_t second = a.n;
    put_local(&a, &m[1]);
    size_t directory = a.n;
    put_entry(&a, &m[1], second);
    put_entry(&a, &m[0], 0);
    put_end(&a, 2, directory);
    accepts((struct span){a.bytes, a.n});
}

/* The directory as zip64 says: where an archive has grown beyond 4 GiB, or 65,535 entries. */
TEST(zip64)
{
    const struct span pickle = BYTES(GOOD);
    struct zip_part m[] = {{"a/data.pkl", pickle, 0, 0, 0}, {"a/data/0", sixteen, 0, 0, 0}};
    for (int lie = 0; lie < 5; lie++) {
        struct archive a;
        mgpt_error err = {0};
        make_archive(&a, m, 2);
        a.n -= 22; /* the end record */
        size_t directory = a.bytes[a.n + 16] | (size_t)a.bytes[a.n + 17] << 8, end64 = a.n;
        PUT(&a, {lie == 1 ? 0x06064b51 : 0x06064b50, 4}, {44, 8}, {45, 2}, {45, 2}, {0, 8}, {2, 8},
            {lie == 2 ? 3 : 2, 8}, {lie == 3 ? end64 : end64 - directory, 8},
            {lie == 4 ? directory + 1 : directory, 8});
        size_t locator = a.n;
        PUT(&a, {0x07064b50, 4}, {0, 4}, {end64, 8}, {1, 4});
        PUT(&a, {0x06054b50, 4}, {0, 4}, {0xFFFF, 2}, {0xFFFF, 2}, {0xFFFFFFFF, 4}, {0xFFFFFFFF, 4},
            {0, 2});
        int status = read_archive((struct span){a.bytes, a.n}, &err);
        assert_int_equal(status, lie ? MGPT_EFILE : MGPT_OK);
        if (lie == 1) {
            assert_non_null(strstr(err.text, "the zip64 end record is not where it should be"));
            assert_int_equal(err.offset, locator);
        }
    }
}

/* 1 a checkpoint, 0 none, -1 a zip that cannot be read: that reader says why, then. */
TEST(sniffing)
{
    const struct span pickle = BYTES(GOOD);
    static struct archive a;
    struct zip_part m[] = {{"a/data.pkl", pickle, 0, 0, 0}, {"a/data/0", sixteen, 0, 0, 0}};
    struct span bytes = make_archive(&a, m, 2);
    assert_int_equal(torch_sniff(bytes), 1);
    bytes.size -= 1;
    assert_int_equal(torch_sniff(bytes), -1);
    assert_int_equal(torch_sniff((struct span){a.bytes, 3}), 0);
    static const char *const others[] = {"a/data.pkx", "xdata.pkl", "ata.pkl"};
    for (size_t i = 0; i < 3; i++) {
        m[0].name = others[i];
        assert_int_equal(torch_sniff(make_archive(&a, m, 2)), 0);
    }
    m[0].name = "data.pkl";
    assert_int_equal(torch_sniff(make_archive(&a, m, 2)), 1);
}

TEST(directories_that_lie)
{
    const struct span pickle = BYTES(GOOD);
    const struct zip_part good[] = {{"a/data.pkl", pickle, 0, 0, 0},
                                    {"a/data/0", sixteen, 0, 0, 0}};
    static const struct {
        size_t member;
        int64_t shift, more;
        const char *text;
    } lies[] = {
        {1, 1, 0, "a/data/0: its data are not where"},
        {1, -1, 0, "a/data/0: its data are not where"},
        {1, 1 << 20, 0, "a/data/0: its data are not where"},
        {1, INT32_MAX, 0, "a/data/0: its data are not where"},
        {1, 0, 1 << 20, "a/data/0: its data are not where"},
        {1, 0, -1, "4 elements of F32, the file holds 15"},
        {0, 0, 1, "a/data.pkl and a/data/0 overlap"},
        {0, 0, -1, "pickle: the data ends"},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        struct zip_part m[2] = {good[0], good[1]};
        m[lies[i].member].shift = lies[i].shift;
        m[lies[i].member].more = lies[i].more;
        archive_with(m, 2, lies[i].text);
    }
    struct archive a;
    struct span s = make_archive(&a, good, 2);
    a.bytes[s.size - 12] = 3; /* entries: one more than there are */
    refuses_archive(s, "");
    a.bytes[s.size - 12] = 2;
    a.bytes[s.size - 4] = 1; /* the directory is after the end */
    refuses_archive(s, "the directory does not fit");
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* A tensor of storage 0, four floats. */
#define OF_FOUR(offset, size, stride) TENSOR(STORAGE("\4"), offset, size, stride)

TEST(tensors_that_lie)
{
    const struct {
        struct span pickle;
        const char *text;
    } all[] = {
        {BYTES(TENSOR(STORAGE("\5"), "K\0", "K\2\x85", "K\1\x85")),
         "5 elements of F32, the file holds 16 bytes"},
        {BYTES(TENSOR(STORAGE_OF("U\0010", "\x8a\x08\0\0\0\0\0\0\0\x40"), "K\0", "K\1\x85",
                      "K\1\x85")), /* its bytes are 2^64 */
         "4611686018427387904 elements of F32, the file holds 16 bytes"},
        {BYTES(OF_FOUR("K\1", "K\4\x85", "K\1\x85")),
         "tensor w: its last element is number 3, its storage holds 3"},
        {BYTES(OF_FOUR("K\5", "K\1\x85", "K\1\x85")), "its offset"},
        {BYTES(OF_FOUR("J\xff\xff\xff\xff", "K\1\x85", "K\1\x85")), "its offset"},
        {BYTES(OF_FOUR("\x8a\x08\0\0\0\0\0\0\0\x40", "K\1\x85",
                       "K\1\x85")), /* its bytes are 2^64, too */
         "its offset"},
        {BYTES(OF_FOUR("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "K\1\x85", "K\1\x85")),
         "its offset"},
        {BYTES(OF_FOUR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85")), "its size and stride"},
        {BYTES(OF_FOUR("K\0", "K\1\x85", "K\1K\1\x86")), "its size and stride"},
        {BYTES(OF_FOUR("K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t")),
         "its size and stride"},
        {BYTES(OF_FOUR("K\0", "NN\x86", "K\1K\1\x86")), "its size and stride"},
        {BYTES(TENSOR("N", "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR("K\1Q", "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("K\1", "K\4"), "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "N"), "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "J\xff\xff\xff\xff"), "K\0", "K\1\x85", "K\1\x85")),
         "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "K\1"), "K\0", "K\1\x85", "K\1\x85")),
         "storage a is not in the file"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "K\0"), "K\0", "K\0\x85", "K\1\x85")), NULL},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        const struct zip_part m[] = {{"a/data.pkl", all[i].pickle, 0, 0, 0},
                                     {"a/data/0", sixteen, 0, 0, 0}};
        archive_with(m, 2, all[i].text);
    }
}

/* An error says where in the pickle the value is that is wrong. */
TEST(where_a_tensor_lies)
{
    const struct span none = BYTES(TENSOR("N", "K\0", "K\1\x85", "K\1\x85"));
    struct archive a;
    mgpt_error err;
    assert_int_equal(
        read_archive(make_archive(&a, &(struct zip_part){"a/data.pkl", none, 0, 0, 0}, 1), &err),
        MGPT_EFILE);
    assert_int_equal(err.offset,
                     sizeof "\x80\x02}U\1wctorch._utils\n_rebuild_tensor_v2\n(" - 1); /* of N */
}

/* ---- files from before 1.6 ------------------------------------------------------------------- */

#define MAGIC "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."
#define VERSION "\x80\x02M\xe9\x03."
#define LITTLE "\x80\x02}."
#define FOUR STORAGE_OF("U\0010", "K\4N")
#define FOUR_FLOATS                                                                                \
    "\4\0\0\0\0\0\0\0"                                                                             \
    "0123456789abcdef"

TEST(storages_of_old_files)
{
    const struct {
        struct span head, keys; /* up to the object; the list of keys and what follows */
        const char *text;
    } all[] = {
        {BYTES(VERSION LITTLE OBJECT(FOUR)), P2("]U\0010a." FOUR_FLOATS), NULL},
        {BYTES(VERSION LITTLE OBJECT(FOUR)), P2("]."), "storage 0 is missing"},
        {BYTES(VERSION LITTLE OBJECT(FOUR)), P2("]K\0a."), "a key of a storage that is not text"},
        {BYTES(VERSION LITTLE OBJECT(FOUR)), P2("](U\0010U\0010e." FOUR_FLOATS FOUR_FLOATS),
         "storage 0 is listed twice"},
        {BYTES(VERSION LITTLE OBJECT(FOUR)), P2("](U\0010U\0011e." FOUR_FLOATS FOUR_FLOATS),
         "storage 1 is listed but not used"},
        {BYTES(VERSION LITTLE OBJECT(FOUR)),
         P2("]U\0010a.\5"
            "\0\0\0\0\0\0\0"
            "0123456789abcdef"),
         "storage 0 of 5 elements at byte"},
        {BYTES(VERSION LITTLE OBJECT(FOUR)), P2("]U\0010a.\0\0\0\0\0\0\0\1000123456789abcdef"),
         "storage 0 of 4611686018427387904 elements at byte"},
        {BYTES(VERSION LITTLE OBJECT(STORAGE_OF("U\0010", "K\4]"))), P2("]U\0010a." FOUR_FLOATS),
         "a view of a storage"},
        {BYTES(VERSION LITTLE OBJECT("NQ")), P2("]."), "a reference that is not to a storage"},
        {P2("M\xe8\x03." LITTLE OBJECT(FOUR)), P2("]U\0010a." FOUR_FLOATS),
         "its version is not 1001"},
        {BYTES(VERSION "\x80\x02}U\x0dlittle_endianK\0s." OBJECT(FOUR)),
         P2("]U\0010a." FOUR_FLOATS), "big-endian"},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        struct archive a = {.n = 0};
        put_zip_bytes(&a, MAGIC, sizeof MAGIC - 1);
        put_zip_bytes(&a, all[i].head.data, all[i].head.size);
        put_zip_bytes(&a, all[i].keys.data, all[i].keys.size);
        if (all[i].text)
            refuses_archive((struct span){a.bytes, a.n}, all[i].text);
        else
            accepts((struct span){a.bytes, a.n});
    }
}

/* ---- damage ---------------------------------------------------------------------------------- */

TEST(truncated)
{
    static const char *const names[] = {"views/views.pt", "views/legacy.pt"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct file f = torch_fixture(names[i]);
        for (size_t n = 4; n < f.size; n++)
            refuses_archive((struct span){f.data, n}, "");
        file_close(&f);
    }
}

TEST(flipped)
{
    static const char *const names[] = {"views/views.pt", "views/legacy.pt", "mingpt/model.pt"};
    uint32_t random = 7;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct file f = torch_fixture(names[i]);
        struct span copy = exact_copy(span_of(&f));
        uint8_t *bytes = (uint8_t *)(uintptr_t)copy.data;
        for (int k = 0; k < 3000; k++) {
            mgpt_error err = {0};
            size_t at = next_random(&random) % copy.size;
            bytes[at] ^= (uint8_t)(1u << next_random(&random) % 8);
            if (read_archive(copy, &err) < 0)
                assert_true(err.status == MGPT_EFILE && strlen(err.text) > 0);
            bytes[at] = f.data[at];
        }
        free_copy(copy);
        file_close(&f);
    }
}
