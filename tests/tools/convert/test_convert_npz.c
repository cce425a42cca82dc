/* tools/convert: .npz and .npy of a microgpt, made here: numbers of every type, texts, and shapes that
 * no matrix has. */
#include "convert/containers/npy_state.h"
#include "support/convert_input.h"
#include "support/ref_file.h"

struct entry {
    const char *name, *descr, *shape; /* descr NULL: bytes that are not arrays */
    const void *data;
    size_t n;
};

#define LITERAL(s) s, sizeof s - 1

static const float rows5[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, row1[] = {1, 2};

/* The entries up to the one without a name, as an archive in memory. */
static struct bytes archive(const char *path, const struct entry *entries)
{
    struct bytes parts[8];
    size_t n = 0;
    struct zip_made zip = {0};
    for (; entries[n].name; n++) {
        parts[n] =
            entries[n].descr ? npy_of(entries[n].descr, entries[n].shape) : (struct bytes){NULL};
        add(&parts[n], entries[n].data, entries[n].n);
        add_entry(&zip, entries[n].name, &parts[n], n % 2);
    }
    write_archive(path, &zip);
    for (size_t i = 0; i < n; i++)
        drop(&parts[i]);
    return read_file(path);
}

/* Reads a file; expected NULL: it must be taken, and the caller frees c. */
static void read_it(struct checkpoint *c, const struct bytes *b, const struct ckpt_options *o,
                    const char *expected)
{
    static const struct convert_sides no_sides;
    static const struct ckpt_options none;
    mgpt_error err = {.text = ""};
    int status =
        read_bytes(c, (struct span){b->data, arr_len(b->data)}, o ? o : &none, &no_sides, &err);
    must_say("npz", status, &err, expected);
}

/* A bigram model with one head and with one entry more. */
static void read_bigram(struct checkpoint *c, const char *path, struct entry head,
                        struct entry more, const char *expected)
{
    const struct entry entries[] = {{"wte.npy", "<f4", "(5, 2)", rows5, sizeof rows5},
                                    {"wpe.npy", "<f4", "(1, 2)", row1, sizeof row1},
                                    head,
                                    more,
                                    {NULL, NULL, NULL, NULL, 0}};
    struct bytes b = archive(path, entries);
    read_it(c, &b, NULL, expected);
    drop(&b);
}

static const struct entry nothing = {NULL, NULL, NULL, NULL, 0};
static const struct entry one_head = {"n_head.npy", "|u1", "()", LITERAL("\1")};

/* n_head in each of NumPy's types and shapes of one number. */
TEST_ON_FILE(numbers)
{
    static const struct {
        struct entry head;
        const char *expected;
    } rows[] = {
        {{"n_head.npy", "<i8", "()", LITERAL("\2\0\0\0\0\0\0\0")}, NULL},
        {{"n_head.npy", "<i4", "(1,)", LITERAL("\2\0\0\0")}, NULL},
        {{"n_head.npy", "<u2", "(1, 1)", LITERAL("\2\0")}, NULL},
        {{"n_head.npy", "<f2", "()", LITERAL("\0\x40")}, NULL},
        {{"n_head.npy", "<f4", "()", LITERAL("\0\0\0\x40")}, NULL},
        {{"n_head.npy", "<f8", "()", LITERAL("\0\0\0\0\0\0\0\x40")}, NULL},
        {{"n_head.npy", "<f8", "()", LITERAL("\0\0\0\0\0\0\xf8\x3f")},
         "n_head: expected a whole number"},
        {{"n_head.npy", "|i1", "()", LITERAL("\xff")}, "n_head: expected a whole number"},
        {{"n_head.npy", "|i1", "()", LITERAL("\x7f")}, "n_head is 127, it must divide"},
        {{"n_head.npy", "|u1", "()", LITERAL("\xff")}, "n_head is 255, it must divide n_embd = 2"},
        {{"n_head.npy", "<f1", "()", LITERAL("\1")}, "element type '<f1'"},
        {{"n_head.npy", "<U1", "()", LITERAL("2\0\0\0")}, NULL},
        {{"n_head.npy", "<U1", "()", LITERAL("3\0\0\0")}, "n_head is 3, it must divide"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct checkpoint c;
        read_bigram(&c, *state, rows[i].head, nothing, rows[i].expected);
        if (!rows[i].expected)
            assert_int_equal(c.hp.n_head, 2);
        ckpt_free(&c);
    }
}

TEST_ON_FILE(flags)
{
    for (int on = 0; on < 2; on++) {
        struct checkpoint c;
        const struct entry norm = {"final_norm.npy", "|b1", "()", on ? "\1" : "\0", 1};
        read_bigram(&c, *state, one_head, norm, NULL);
        assert_int_equal(c.hp.final_norm, on);
        ckpt_free(&c);
    }
}

/* Values of entries in turn, each from where nothing has been read yet. */
TEST_ON_FILE(in_turn)
{
    const struct entry entries[] = {{"wte.npy", "<f4", "(5, 2)", rows5, sizeof rows5},
                                    {"wpe.npy", "<f4", "(1, 2)", row1, sizeof row1},
                                    one_head,
                                    nothing};
    struct checkpoint c;
    struct bytes b = archive(*state, entries);
    float v;
    read_it(&c, &b, NULL, NULL);
    const struct ckpt_tensor *wte = &c.tensors[0], *wpe = &c.tensors[1];
    assert_true(wte->n_values == 10 && wpe->n_values == 2);
    for (uint64_t i = 0; i < 2; i++) {
        ckpt_values(wpe, i, 1, &v);
        assert_true(v == row1[i]);
        ckpt_values(wte, 3 * i + 5, 1, &v);
        assert_true(v == rows5[3 * i + 5]);
    }
    assert_true(c.failed.status == MGPT_OK);
    ckpt_free(&c);
    drop(&b);
}

/* Sizes and offsets in zip64 fields, and the longest comment that an archive has. */
TEST(zip64_and_comment)
{
    enum { COMMENT = 65535 };
    static const uint8_t comment[COMMENT];
    struct zip_made zip = {0};
    struct bytes wte = npy_of("<f4", "(5, 2)"), wpe = npy_of("<f4", "(1, 2)"),
                 head = npy_of("|u1", "()");
    struct checkpoint c;
    float v[10];
    add(&wte, rows5, sizeof rows5);
    add(&wpe, row1, sizeof row1);
    add(&head, "\1", 1);
    add_entry(&zip, "wpe.npy", &wpe, ZIP_FAR);
    add_entry(&zip, "wte.npy", &wte, ZIP_FAR | ZIP_DEFLATE);
    add_entry(&zip, "n_head.npy", &head, 0);
    end_archive(&zip);
    memset(zip.file.data + arr_len(zip.file.data) - 2, 0xff, 2);
    add(&zip.file, comment, COMMENT);
    read_it(&c, &zip.file, NULL, NULL);
    ckpt_values(&c.tensors[0], 0, 10, v);
    assert_memory_equal(v, rows5, sizeof rows5);
    ckpt_free(&c);
    drop(&zip.file);
    drop(&wte);
    drop(&wpe);
    drop(&head);
}

/* Characters are UTF-32 there. */
TEST_ON_FILE(texts)
{
    static const struct {
        struct entry chars;
        const char *expected;
    } good[] = {
        {{"chars.npy", "<U1", "(4,)", LITERAL("A\0\0\0\xe9\0\0\0\xac\x20\0\0\0\xf6\1\0")}, NULL},
        {{"chars.npy", "<U4", "()", LITERAL("A\0\0\0\xe9\0\0\0\xac\x20\0\0\0\xf6\1\0")}, NULL},
        {{"chars.npy", "<U6", "()",
          LITERAL("A\0\0\0\xe9\0\0\0\xac\x20\0\0\0\xf6\1\0\0\0\0\0\0\0\0\0")},
         NULL},
        {{"chars.npy", "<U2", "(4,)",
          LITERAL("A\0\0\0\0\0\0\0\xe9\0\0\0\0\0\0\0\xac\x20\0\0\0\0\0\0\0\xf6\1\0\0\0\0\0")},
         NULL},
        {{"chars.npy", "<U1", "(3,)", LITERAL("A\0\0\0B\0\0\0C\0\0\0")},
         "vocabulary of 3 entries, the model has 5"},
        {{"chars.npy", "<i4", "()", LITERAL("\6\0\0\0")},
         "vocab_size is stated as 6, the tensors say 5"},
    };
    struct checkpoint c;
    for (size_t i = 0; i < COUNT(good); i++) {
        read_bigram(&c, *state, one_head, good[i].chars, good[i].expected);
        if (!good[i].expected) {
            assert_int_equal(arr_len(c.vocab.tokens), 5);
            assert_memory_equal(c.vocab.tokens[0].p, "A", 1);
            assert_memory_equal(c.vocab.tokens[1].p, "\u00c3\u00a9", 4); /* bytes of U+00E9 */
            assert_int_equal(c.vocab.tokens[2].n, 6);                    /* three of U+20AC */
            assert_int_equal(c.vocab.tokens[3].n, 8);
            assert_memory_equal(c.vocab.tokens[3].p, "\u00f0\u0141\u013a\u0122", 8); /* U+1F600 */
            assert_int_equal(c.vocab.bos, 4);
        }
        ckpt_free(&c);
    }
    read_bigram(&c, *state, one_head,
                (struct entry){"activation.npy", "<U5", "()",
                               LITERAL("r\0\0\0e\0\0\0l\0\0\0u\0\0\0"
                                       "2\0\0\0")},
                NULL);
    assert_string_equal(c.hp.activation, "relu2");
    ckpt_free(&c);
    read_bigram(&c, *state, one_head,
                (struct entry){"activation.npy", "<U1", "(1,)", LITERAL("x\0\0\0")}, NULL);
    assert_string_equal(c.hp.activation, "relu"); /* a list is not a name */
    ckpt_free(&c);
}

TEST_ON_FILE(matrices)
{
    static const double wide[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const struct {
        struct entry more;
        const char *expected, *note;
    } rows[] = {
        {{"lm_head.npy", "<f8", "(5, 2)", wide, sizeof wide}, NULL, ""},
        {{"lm_head.npy", "<f4", "(5, 2, 1)", rows5, sizeof rows5},
         "tensor lm_head: 3 dimensions, expected 1 or 2",
         ""},
        {{"scale.npy", "<f4", "()", rows5, 4}, NULL, "ignored: scale (element type <f4)"},
        {{"lm_head.npy", "<f4", "()", rows5, 4},
         "tensor lm_head: element type <f4, expected a matrix",
         ""},
        {{"lm_head.npy", "<f4", "(2, 5)", rows5, sizeof rows5},
         "tensor lm_head: shape [2, 5], expected [5, 2]",
         ""},
        {{"lm_head.npy", "<f4", "(5, 2)", rows5, 36},
         "lm_head: the header says 40 bytes of data, 36 are there",
         ""},
        {{"lm_head.npy", "<f4", "(0, 2)", NULL, 0}, "tensor lm_head: it has no values", ""},
        {{"lm_head.npy", "<f4", "(10,)", rows5, sizeof rows5},
         "lm_head: a list of 10 numbers, expected a matrix",
         ""},
        {{"rms_final.npy", "<f4", "(2,)", row1, sizeof row1}, "depend on it: set --eps X", ""},
        {{"steps.npy", "<i4", "(1,)", LITERAL("\1\0\0\0")},
         NULL,
         "ignored: steps (element type <i4)"},
        {{"readme.txt", NULL, NULL, LITERAL("hello")}, NULL, "readme.txt"},
        {{".npy", NULL, NULL, LITERAL("hello")}, NULL, ".npy"},
        {{"other.npy", NULL, NULL, LITERAL("hello")}, "other", ""},
        {{"params.npy", "<f4", "(2,)", row1, sizeof row1}, "tensor params: no microgpt has it", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct checkpoint c;
        read_bigram(&c, *state, one_head, rows[i].more, rows[i].expected);
        if (*rows[i].note && !has_note(&c, rows[i].note))
            fail_msg("no note of %s", rows[i].note);
        ckpt_free(&c);
    }
}

/* The names of modules: the second entry is deflated. */
TEST_ON_FILE(modules)
{
    const struct entry entries[] = {
        {"token_embedding_table.weight.npy", "<f4", "(5, 2)", rows5, sizeof rows5},
        {"lm_head.weight.npy", "<f4", "(5, 2)", rows5, sizeof rows5},
        nothing};
    struct checkpoint c;
    struct bytes b = archive(*state, entries);
    float v;
    read_it(&c, &b, NULL, NULL);
    assert_string_equal(c.format, "ng-video-lecture bigram (.npz)");
    assert_string_equal(c.tensors[1].name, "output.weight");
    for (uint64_t i = 0; i < 10; i++) {
        ckpt_values(&c.tensors[1], i, 1, &v);
        assert_true(v == rows5[i]);
    }
    ckpt_free(&c);
    drop(&b);
}

/* A deflated entry whose stated size its data do not have, or which has fewer bytes or none. */
TEST_ON_FILE(wrong_size)
{
    static const struct {
        uint32_t packed, more; /* packed: that many bytes are left, 0xFF: all */
    } wrong[] = {{0xFF, UINT32_MAX}, {0xFF, 1}, {0xFF, 1 << 30}, {0, 0},
                 {0, 1 << 30},       {1, 0},    {9, 0}};
    const struct entry entries[] = {{"wpe.npy", "<f4", "(1, 2)", row1, sizeof row1},
                                    {"wte.npy", "<f4", "(5, 2)", rows5, sizeof rows5},
                                    nothing};
    struct bytes b = archive(*state, entries);
    uint8_t *sizes = NULL; /* packed and not, of the last entry of the directory */
    uint32_t right[2];
    for (size_t i = 0; i + 4 < arr_len(b.data); i++)
        if (memcmp(b.data + i, "PK\1\2", 4) == 0)
            sizes = b.data + i + 20;
    assert_non_null(sizes);
    memcpy(right, sizes, sizeof right);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct checkpoint c;
        const uint32_t now[2] = {wrong[i].packed < 0xFF ? wrong[i].packed : right[0],
                                 right[1] + wrong[i].more};
        memcpy(sizes, now, sizeof now);
        read_it(&c, &b, NULL, "zip: wte.npy: its data do not inflate to");
        ckpt_free(&c);
    }
    drop(&b);
}

/* In Fortran's order the columns come first. */
TEST_ON_FILE(fortran)
{
    struct bytes wte = header_of("{'descr': '<f4', 'fortran_order': True, 'shape': (5, 2), }");
    struct checkpoint c;
    add(&wte, rows5, sizeof rows5);
    const struct entry entries[] = {{"wpe.npy", "<f4", "(1, 2)", row1, sizeof row1},
                                    {"wte.npy", NULL, NULL, wte.data, arr_len(wte.data)},
                                    one_head,
                                    nothing};
    struct bytes b = archive(*state, entries);
    float v[10];
    read_it(&c, &b, NULL, NULL);
    ckpt_values(&c.tensors[0], 0, 10, v);
    for (size_t i = 0; i < 10; i++)
        assert_true(v[i] == (float)(i / 2 + i % 2 * 5 + 1));
    ckpt_free(&c);
    drop(&b);
    drop(&wte);
}

/* Options for parameters without names. */
static const struct ckpt_options sizes = {.given = OPT_EMBD | OPT_LAYERS | OPT_CONTEXT | OPT_HEADS,
                                          .n_embd = 1,
                                          .n_layer = 0,
                                          .n_ctx = 2,
                                          .n_head = 1};

/* numpy.savez without names: arr_0, arr_1, ... */
TEST_ON_FILE(unnamed)
{
    static const struct {
        struct entry entries[3];
        const char *expected;
    } rows[] = {
        {{{"arr_0.npy", "<f4", "(10,)", rows5, sizeof rows5}}, NULL},
        {{{"arr_0.npy", "<f4", "(5, 2)", rows5, sizeof rows5}},
         "parameter list: a matrix, expected all numbers in one list"},
        {{{"arr_0.npy", "<i4", "(10,)", rows5, sizeof rows5}},
         "tensor params: element type '<i4', expected <f4, <f8 or <f2"},
        {{{"arr_0.npy", "|V2", "(20,)", rows5, sizeof rows5}},
         "tensor params: element type '|V2', expected <f4, <f8 or <f2"},
        {{{"arr_0.npy", "<f4", "(5, 2)", rows5, sizeof rows5},
          {"arr_1.npy", "<f4", "(1, 2)", row1, sizeof row1}},
         "parameter list: 2 matrices, expected 3 and 6 for each layer"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct checkpoint c;
        struct bytes b = archive(*state, rows[i].entries);
        read_it(&c, &b, &sizes, rows[i].expected);
        if (!rows[i].expected)
            assert_true(c.hp.n_vocab == 4 && c.hp.n_ctx == 2 && arr_len(c.tensors) == 3);
        ckpt_free(&c);
        drop(&b);
    }
}

/* One .npy: all parameters in a list, of any float. */
TEST(npy)
{
    static const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400};
    struct checkpoint c;
    struct bytes b = npy_of("<f2", "(4,)");
    float v;
    add(&b, halves, sizeof halves);
    read_it(&c, &b, &sizes, NULL);
    ckpt_values(&c.tensors[1], 0, 1, &v);
    assert_true(c.hp.n_vocab == 1 && v == 2);
    ckpt_free(&c);
    drop(&b);
    b = npy_of("<f4", "(1, 2, 1)");
    add(&b, row1, sizeof row1);
    read_it(&c, &b, &sizes, "3 dimensions");
    ckpt_free(&c);
    drop(&b);
    b = npy_of("|O", "()");
    add(&b, "\x80\2}.", 4);
    read_it(&c, &b, &sizes, "npy: an array of objects without them");
    ckpt_free(&c);
    drop(&b);
}

/* By the end of its first name, whose length has two bytes. */
TEST(sniffing)
{
    enum { HEADER = 30, NAME = 0x104 };
    uint8_t bytes[HEADER + NAME] = "PK\3\4";
    const struct span all = {bytes, sizeof bytes}, cut = {bytes, sizeof bytes - 1};
    bytes[26] = NAME & 255;
    bytes[27] = NAME >> 8;
    memset(bytes + HEADER, 'a', NAME - 4);
    memcpy(bytes + HEADER + NAME - 4, ".npy", 4);
    assert_int_equal(npz_sniff(all), MATCH_YES);
    assert_int_equal(npz_sniff(cut), MATCH_NO);
    bytes[sizeof bytes - 1] = 'z';
    assert_int_equal(npz_sniff(all), MATCH_NO);
}

/* An array in Fortran's order has NumPy's strides: the product of the sizes before. */
TEST(strides_of_both_orders)
{
    const uint64_t c[] = {60, 20, 5, 1}, fortran[] = {1, 2, 6, 24};
    for (unsigned n = 1; n <= 4; n++) {
        struct npy npy = {.kind = 'f', .width = 4, .n_dims = n, .dims = {2, 3, 4, 5}};
        struct state_tensor t = npy_tensor(&npy, (struct span){0});
        for (unsigned i = 0; n == 4 && i < n; i++)
            assert_true(t.strides[i] == c[i]);
        npy.fortran = 1;
        t = npy_tensor(&npy, (struct span){0});
        for (unsigned i = 0; i < n; i++)
            assert_true(t.shape[i] == npy.dims[i] && t.strides[i] == fortran[i]);
    }
}

/* bfloat16, which NumPy has no name for, is |V2; other bytes are no numbers. */
TEST(types_of_arrays)
{
    static const struct {
        char kind;
        unsigned width;
        enum state_type type;
    } rows[] = {{'V', 2, STATE_BF16},   {'V', 1, STATE_OTHER}, {'V', 4, STATE_OTHER},
                {'f', 2, STATE_F16},    {'f', 4, STATE_F32},   {'f', 8, STATE_F64},
                {'f', 16, STATE_OTHER}, {'i', 4, STATE_OTHER}};
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(npy_type(&(struct npy){.kind = rows[i].kind, .width = rows[i].width}),
                         rows[i].type);
}
