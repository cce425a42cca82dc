/* PyTorch files with wrong sizes, offsets and names: archives built here, and damaged fixtures. */
#include "support/torch_archive.h"
#include "support/unit.h"

#include "convert/core/readers.h"

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
        {"a/c/d/data.pkl", BYTES("x"), 0, 0, 0},
        {"a/z/data.pkl", BYTES("x"), 0, 0, 0}};
    archive_with(deeper, 5, NULL);
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

static int no_side(void *user, enum ckpt_option option, const char *const *candidates, size_t n,
                   struct ckpt_side *side, mgpt_error *err)
{
    (void)user, (void)option, (void)candidates, (void)n, (void)side, (void)err;
    return 0;
}

/* What people save instead of model.state_dict(). */
TEST(no_weights)
{
    static const struct ckpt_options none;
    const struct {
        struct span pickle;
        const char *text;
    } all[] = {
        {P2("]."), "PyTorch zip: no state dict in it: it holds a list"},
        {P2("}U\4stepK\1s."), "PyTorch zip: no state dict in it: it holds a dict"},
        {P2("c__main__\nGPT\n)\x81}b."), "; save model.state_dict(), not the model"},
        {BYTES(GOOD), "tensor w: not a name of a model that mgpt knows"},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        const struct zip_part m[] = {{"a/data.pkl", all[i].pickle, 0, 0, 0},
                                     {"a/data/0", sixteen, 0, 0, 0}};
        struct archive a;
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        const struct ckpt_input in = {
            .bytes = make_archive(&a, m, 2), .name = "x", .options = &none, .side = no_side};
        ckpt_init(&c);
        int status = ckpt_read(&c, &in, &err);
        must_say("archive", status, &err, all[i].text);
        ckpt_free(&c);
    }
}

/* An end record and nothing else; and less than an end record. */
TEST(empty_archive)
{
    struct zip_dir z;
    mgpt_error err;
    assert_int_equal(zip_dir_open(&z, BYTES("PK\3\4"), &err), MGPT_EFILE);
    assert_non_null(strstr(err.text, "there is no end record"));
    assert_int_equal(zip_dir_open(&z, BYTES("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), &err),
                     MGPT_EFILE);
    assert_non_null(strstr(err.text, "the archive is empty"));
}

/* A member is found by the parts of its name, wherever it is cut, and nothing else is. */
TEST(members_by_name)
{
    const struct zip_part m[] = {
        {"archive/data/1", sixteen, 0, 0, 0},  {"a", sixteen, 0, 0, 0},
        {"archive/data/10", sixteen, 0, 0, 0}, {"archive", sixteen, 0, 0, 0},
        {"archive/", sixteen, 0, 0, 0},        {"b", sixteen, 0, 0, 0},
        {"archive/data.pkl", sixteen, 0, 0, 0}};
    struct archive a;
    struct zip_dir z;
    assert_int_equal(zip_dir_open(&z, make_archive(&a, m, COUNT(m)), NULL), MGPT_OK);
    for (size_t i = 0; i < COUNT(m); i++)
        for (size_t n = strlen(m[i].name), cut = 0; cut <= n; cut++) {
            const struct zip_member *found = zip_dir_find(
                &z, (struct gguf_str){m[i].name, cut}, (struct gguf_str){m[i].name + cut, n - cut});
            assert_true(found && found->n_name == n && memcmp(found->name, m[i].name, n) == 0);
            assert_null(
                zip_dir_find(&z, (struct gguf_str){m[i].name, cut}, (struct gguf_str){"zz", 2}));
        }
    zip_dir_close(&z);
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

/* An entry whose numbers are in its zip64 field, after a field of another kind: as zip tools write
 * entries of more than 4 GiB. */
TEST(zip64_entries)
{
    const struct span pickle = BYTES(GOOD);
    const struct zip_part m[] = {{"a/data.pkl", pickle, 0, 0, 0}, {"a/data/0", sixteen, 0, 0, 0}};
    for (int lie = 0; lie < 3; lie++) {
        struct archive a = {.n = 0};
        put_local(&a, &m[0]);
        size_t second = a.n, n = strlen(m[1].name);
        put_local(&a, &m[1]);
        size_t directory = a.n;
        put_entry(&a, &m[0], 0);
        PUT(&a, {0x02014b50, 4}, {0, 4}, {0x0808, 2}, {0, 2}, {0, 8}, {0xFFFFFFFF, 4}, {16, 4},
            {n, 2}, {5 + 20, 2}, {0, 10}, {0xFFFFFFFF, 4});
        put_zip_bytes(&a, m[1].name, n);
        PUT(&a, {0x5455, 2}, {1, 2}, {0, 1});
        PUT(&a, {lie == 1 ? 2 : 1, 2}, {lie == 2 ? 17 : 16, 2}, {16, 8}, {second, 8});
        put_end(&a, 2, directory);
        if (lie)
            refuses_archive((struct span){a.bytes, a.n}, "a/data/0: its data are not where");
        else
            accepts((struct span){a.bytes, a.n});
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
    a.bytes[s.size - 10]--; /* its size */
    refuses_archive(s, "the directory is damaged");
    a.bytes[s.size - 10]++;
    a.bytes[s.size - 4] = 1; /* the directory is after the end */
    refuses_archive(s, "the directory does not fit");
}

/* Any number of references to one storage are one entry of the list, in a legacy file. */
TEST(references)
{
    enum { N = 3000 };
    static const char reference[] = "(U\7storagectorch\nFloatStorage\nU\1aU\3cpuK\2NtQ";
    static const char other[] = "(U\7storagectorch\nHalfStorage\nU\1aU\3cpuK\2NtQ";
    const struct span head = BYTES("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                   "\x80\2M\xe9\3.\x80\2}.\x80\2(");
    const struct span tail = BYTES("t.\x80\2]U\1aa.\2\0\0\0\0\0\0\0abcdefgh");
    uint8_t *bytes = malloc(head.size + N * sizeof reference + tail.size);
    assert_non_null(bytes);
    for (int two = 0; two < 2; two++) {
        struct torch_file f;
        mgpt_error err;
        size_t n = head.size, each = sizeof reference - 1;
        memcpy(bytes, head.data, n);
        for (int i = 0; i < N; i++, n += each) {
            each = two && i == N / 2 ? sizeof other - 1 : sizeof reference - 1;
            memcpy(bytes + n, two && i == N / 2 ? other : reference, each);
        }
        memcpy(bytes + n, tail.data, tail.size);
        int status = torch_open(&f, (struct span){bytes, n + tail.size}, &err);
        if (two) {
            assert_file_refused(status, &err, "a storage with two element types");
            continue;
        }
        assert_int_equal(status, MGPT_OK);
        assert_int_equal(arr_len(f.storages), 1);
        assert_in_range(arr_cap(f.storages), 1, 8);
        torch_close(&f);
    }
    free(bytes);
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
