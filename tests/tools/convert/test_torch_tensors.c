/* Tensors of PyTorch: the calls that make them, wrong ones, and storages of files from before 1.6. */
#include "support/torch_archive.h"
#include "support/unit.h"

#include "base/mem.h"

/* ---- tensors --------------------------------------------------------------------------------- */

/* A tensor of storage 0, four floats. */
#define OF_FOUR(offset, size, stride) TENSOR(STORAGE("\4"), offset, size, stride)

#define HUGE "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f" /* 2^63 - 1 */
#define WIDE(rows, columns) rows columns "\x86"

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
        {BYTES(TENSOR(STORAGE("\3"), "K\0", "K\4\x85", "K\1\x85")), /* the file holds four */
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
        {BYTES(OF_FOUR("K\0", WIDE(HUGE, "K\4"), "K\0K\0\x86")), "its shape is too large"},
        {BYTES(OF_FOUR("K\0", WIDE("K\4", "K\1"), WIDE(HUGE, "K\1"))), "its shape is too large"},
        {BYTES(OF_FOUR("K\0", WIDE("K\3", "K\3"), WIDE(HUGE, HUGE))), "its shape is too large"},
        {BYTES(OF_FOUR("K\0", WIDE("M\x01\x01", "M\x01\x01"), "K\0K\0\x86")),
         "more values than its storage holds"},
        {BYTES(OF_FOUR("K\0", WIDE("K\0", "K\4"), WIDE("K\1", HUGE))), NULL},
        {BYTES(TENSOR("N", "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR("K\1Q", "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("K\1", "K\4"), "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "N"), "K\0", "K\1\x85", "K\1\x85")), "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "J\xff\xff\xff\xff"), "K\0", "K\1\x85", "K\1\x85")),
         "it has no storage"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "K\1"), "K\0", "K\1\x85", "K\1\x85")),
         "storage a is not in the file"},
        {BYTES(TENSOR(STORAGE_OF("U\1a", "K\0"), "K\0", "K\0\x85", "K\1\x85")), NULL},
        {BYTES(TENSOR(STORAGE_OF("U\0500123456789012345678901234567890123456789", "K\4"), "K\0",
                      "K\1\x85", "K\1\x85")),
         "storage 0123456789012345678901234567890123456789 is not in the file"},
        {BYTES("\x80\x02}K\1" TENSOR_OF(STORAGE("\4"), "K\0", "K\1\x85", "K\1\x85") "s."),
         "its name is not text"},
        {BYTES("\x80\x02}U\1wctorch._utils\n_rebuild_tensor_v3\n((U\7storagectorch.storage\n"
               "UntypedStorage\nU\0010U\3cpuK\21tQK\0K\2K\2\x86K\2K\1\x86\x89}ctorch\n"
               "float32\ntRs."),
         "17 elements of U8, the file holds 16 bytes"},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        const struct zip_part m[] = {{"a/data.pkl", all[i].pickle, 0, 0, 0},
                                     {"a/data/0", sixteen, 0, 0, 0}};
        archive_with(m, 2, all[i].text);
    }
}

/* The stride of a dimension of one may be anything in a file; later it is that of a contiguous tensor. */
TEST(idle_strides)
{
    struct checkpoint c;
    struct state s;
    ckpt_init(&c);
    state_init(&s, &c);
    state_add(&s, "w", 1,
              (struct state_tensor){.type = STATE_F32,
                                    .n_dims = 3,
                                    .shape = {1, 2, 1},
                                    .strides = {77, 1, 99},
                                    .bytes = sixteen});
    assert_true(s.tensors[0].strides[0] == 2 && s.tensors[0].strides[1] == 1 &&
                s.tensors[0].strides[2] == 1);
    state_free(&s);
    ckpt_free(&c);
}

/* A matrix of rows of several tensors has their type, F32 where they have several; zeros are of any. */
TEST(types_of_stacks)
{
    static const enum state_type types[][3] = {{STATE_F16, STATE_F16, STATE_F16},
                                               {STATE_BF16, STATE_OTHER, STATE_BF16},
                                               {STATE_F16, STATE_BF16, STATE_F32},
                                               {STATE_BF16, STATE_F32, STATE_F32},
                                               {STATE_F32, STATE_F16, STATE_F32}};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct checkpoint c;
        struct state_tensor t[2];
        struct state_part parts[2];
        ckpt_init(&c);
        for (size_t k = 0; k < 2; k++) {
            t[k] = (struct state_tensor){.name = "w",
                                         .type = types[i][k],
                                         .n_dims = 2,
                                         .shape = {1, 2},
                                         .strides = {2, 1},
                                         .bytes = sixteen};
            parts[k] = (struct state_part){.tensor = types[i][k] == STATE_OTHER ? NULL : &t[k],
                                           .n_rows = 1};
        }
        state_put(&c, "x", 2, parts, 2, 0);
        assert_ptr_equal(c.tensors[0].type, state_dtype(types[i][2]));
        ckpt_free(&c);
    }
}

/* Other calls that make a tensor: parameters of a module, torch.Size, subclasses, storages of
 * bytes. */
TEST(spellings)
{
#define SQUARE TENSOR_OF(STORAGE("\4"), "K\0", "K\2K\2\x86", "K\2K\1\x86")
#define PARAMETER "ctorch._utils\n_rebuild_parameter\n("
#define WITH_STATE "ctorch._utils\n_rebuild_parameter_with_state\n("
#define WRAPPED(from, more) from more "\x88}tR"
#define TYPED(function)                                                                            \
    "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n" function                             \
    "\nctorch\nTensor\n(" STORAGE("\4") "K\0K\2K\2\x86K\2K\1\x86\x89}t}tR"
#define BYTES_OF(dtype)                                                                            \
    "ctorch._utils\n_rebuild_tensor_v3\n((U\7storagectorch.storage\nUntypedStorage\nU\001"         \
    "0U\3cpuK\20tQK\0K\2K\2\x86K\2K\1\x86\x89}ctorch\n" dtype "\ntR"
    const struct {
        struct span pickle;
        uint32_t n_dims; /* 0: not a tensor */
    } all[] = {
#define ROW(tensor, n_dims) {BYTES("\x80\x02" tensor "."), n_dims}
        ROW(SQUARE, 2),
        ROW(WRAPPED(PARAMETER, SQUARE), 2),
        ROW(WRAPPED(WITH_STATE, SQUARE), 2),
        ROW(WRAPPED(PARAMETER, WRAPPED(WITH_STATE, WRAPPED(PARAMETER, SQUARE))), 2),
        ROW(WRAPPED(PARAMETER, WRAPPED(PARAMETER, WRAPPED(PARAMETER, WRAPPED(PARAMETER, SQUARE)))),
            0),
        ROW(WRAPPED(PARAMETER, "N"), 0),
        ROW(TYPED("_rebuild_tensor_v2"), 2),
        ROW(TYPED("_rebuild_parameter"), 0),
        ROW(BYTES_OF("float32"), 2),
        ROW(TENSOR_OF(STORAGE("\4"), "K\0", "ctorch\nSize\nK\2K\2\x86\x85R", "K\2K\1\x86"), 2),
#undef ROW
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        const struct zip_part m[] = {{"a/data.pkl", all[i].pickle, 0, 0, 0},
                                     {"a/data/0", sixteen, 0, 0, 0}};
        struct archive a;
        struct torch_file f;
        struct state_tensor t = {.n_dims = 0};
        mgpt_error err = {.text = ""};
        if (torch_open(&f, make_archive(&a, m, 2), &err) < 0)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(torch_is_tensor(&f, f.pickle.root), all[i].n_dims > 0);
        int found = torch_tensor(&f, f.pickle.root, &t, &err);
        if (found != (all[i].n_dims > 0) || t.n_dims != all[i].n_dims)
            fail_msg("row %zu: %d, %u dimensions: %s", i, found, t.n_dims, err.text);
        if (found)
            assert_true(t.type == STATE_F32 && memcmp(t.bytes.data, sixteen.data, 16) == 0);
        torch_close(&f);
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
        {BYTES(VERSION LITTLE OBJECT(FOUR)), P2("]U\0a." FOUR_FLOATS),
         "storage  is listed but not used"},
        {BYTES(VERSION LITTLE "\x80\x02}."), P2("]U\0010a." FOUR_FLOATS),
         "storage 0 is listed but not used"},
        {BYTES(VERSION LITTLE "\x80\x02}."), P2("]."), NULL},
        {BYTES(VERSION LITTLE OBJECT("(K\1ctorch\nFloatStorage\nU\0010U\3cpuK\4NtQ")), P2("]."),
         "a reference that is not to a storage"},
        {BYTES(VERSION LITTLE OBJECT(STORAGE_OF("K\0", "K\4N"))), P2("]."),
         "a reference that is not to a storage"},
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

/* ---- notes ------------------------------------------------------------------------------------ */

/* What is not a tensor is noted, but not without end. */
TEST(many_notes)
{
    struct pickle p = good(P2("}(X\4\0\0\0noneNX\4\0\0\0alsoK\1u."));
    struct torch_file f = {.container = "pickle", .pickle = p};
    struct checkpoint c;
    struct state s;
    mgpt_error err;
    ckpt_init(&c);
    state_init(&s, &c);
    for (int i = 0; i < 150; i++)
        assert_int_equal(run_torch_state(&f, &s, &err), MGPT_OK);
    assert_int_equal(arr_len(c.notes), 200);
    assert_string_equal(c.notes[0], "ignored: none (None)");
    assert_string_equal(c.notes[199], "further notes are left out");
    state_free(&s);
    ckpt_free(&c);
    torch_close(&f);
}
