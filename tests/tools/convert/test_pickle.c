/* The pickle machine: every opcode, and what comes out. What must not is in test_pickle_bad.c.
 *
 * Pickles are written here as bytes, so that a test says what it is about; the fixtures of
 * tests/fixtures/torch are what Python writes.
 */
#include "support/torch_input.h"
#include "support/unit.h"

#include <math.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static int64_t int_of(const struct pickle *p, pickle_id id)
{
    int64_t v = -12345;
    assert_true(pickle_int(p, id, &v));
    return v;
}

static double real_of(const struct pickle *p, pickle_id id)
{
    double v = NAN;
    assert_true(pickle_real(p, id, &v));
    return v;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

/* Protocols 2 to 5 begin with their number, and an opcode follows. */
TEST(beginnings)
{
    static const struct {
        const char *bytes;
        int is_pickle;
    } rows[] = {{"\x80\1}", 0}, {"\x80\2}", 1}, {"\x80\5}", 1},
                {"\x80\6}", 0}, {"\x81\2}", 0}, {"\x80\2\1", 0}};
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t n = 2; n < 4; n++)
            assert_int_equal(pickle_sniff((struct span){(const uint8_t *)rows[i].bytes, n}),
                             n == 3 && rows[i].is_pickle);
}

TEST(numbers)
{
    const struct {
        struct span bytes;
        int64_t value;
    } ints[] = {
        {P2("K\xff."), 255},
        {P2("M\xfe\xff."), 65534},
        {P2("J\xff\xff\xff\xff."), -1},
        {P2("J\x00\x00\x00\x80."), INT32_MIN},
        {P2("\x8a\x00."), 0},
        {P2("\x8a\x01\xff."), -1},
        {P2("\x8a\x05\x00\x00\x00\x00\x01."), (int64_t)1 << 32},
        {P2("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), INT64_MAX},
        {P2("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), INT64_MIN},
        {P2("\x88."), 1},
        {P2("\x89."), 0},
    };
    for (size_t i = 0; i < COUNT(ints); i++) {
        struct pickle p = good(ints[i].bytes);
        assert_true(int_of(&p, p.root) == ints[i].value);
        pickle_free(&p);
    }
    struct pickle p = good(P2("G\xc0\x09\x21\xfb\x54\x44\x2d\x18."));
    assert_true(real_of(&p, p.root) == -3.141592653589793);
    pickle_free(&p);
    p = good(P2("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.")); /* 2^64 */
    assert_int_equal(pickle_at(&p, p.root).kind, PICKLE_LONG);
    int64_t v;
    assert_false(pickle_int(&p, p.root, &v));
    pickle_free(&p);
    p = good(P2("N."));
    assert_int_equal(pickle_at(&p, p.root).kind, PICKLE_NONE);
    pickle_free(&p);
}

TEST(texts)
{
    const struct {
        struct span bytes;
        enum pickle_kind kind;
    } texts[] = {
        {P2("X\x03\x00\x00\000abc."), PICKLE_TEXT},
        {P4("\x95\x06\x00\x00\x00\x00\x00\x00\x00\x8c\003abc."), PICKLE_TEXT},
        {P4("\x8d\x03\x00\x00\x00\x00\x00\x00\000abc."), PICKLE_TEXT},
        {P2("U\003abc."), PICKLE_TEXT},
        {P2("T\x03\x00\x00\000abc."), PICKLE_TEXT},
        {P3("C\003abc."), PICKLE_BYTES},
        {P3("B\x03\x00\x00\000abc."), PICKLE_BYTES},
        {P4("\x8e\x03\x00\x00\x00\x00\x00\x00\000abc."), PICKLE_BYTES},
        {P5("\x96\x03\x00\x00\x00\x00\x00\x00\000abc."), PICKLE_BYTES},
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct pickle p = good(texts[i].bytes);
        struct pickle_node n = pickle_at(&p, p.root);
        assert_int_equal(n.kind, texts[i].kind);
        assert_int_equal(n.n, 3);
        assert_memory_equal(n.as.text, "abc", 3);
        assert_int_equal(pickle_is_text(&p, p.root, "abc"), texts[i].kind == PICKLE_TEXT);
        assert_false(pickle_is_text(&p, p.root, "ab"));
        pickle_free(&p);
    }
}

TEST(containers)
{
    const struct span tuples[] = {
        P2("(K\x01K\x02K\x03t."),   P2("K\x01K\x02K\x03\x87."),      P2("](K\x01K\x02K\003e."),
        P2("]K\001aK\002aK\003a."), P4("\x8f(K\x01K\x02K\x03\x90."),
    };
    for (size_t i = 0; i < COUNT(tuples); i++) {
        struct pickle p = good(tuples[i]);
        int64_t want = 1;
        for (struct pickle_iter it = pickle_items(&p, p.root); pickle_next(&it); want++)
            assert_true(int_of(&p, it.value) == want);
        assert_true(want == 4);
        assert_true(int_of(&p, pickle_item(&p, p.root, 2)) == 3);
        assert_int_equal(pickle_item(&p, p.root, 3), 0);
        pickle_free(&p);
    }
    const struct span empty[] = {P2(")."), P2("]."), P2("}."), P2("(t.")};
    for (size_t i = 0; i < COUNT(empty); i++) {
        struct pickle p = good(empty[i]);
        assert_int_equal(pickle_at(&p, p.root).n, 0);
        pickle_free(&p);
    }
    /* {"a": 1, "b": None, "a": 2}: the last one counts, as in Python */
    struct pickle p = good(P2("}(U\001aK\x01U\001bNuU\001aK\x02s."));
    assert_int_equal(pickle_at(&p, p.root).n, 6);
    assert_true(int_of(&p, pickle_get(&p, p.root, "a")) == 2);
    assert_int_equal(pickle_at(&p, pickle_get(&p, p.root, "b")).kind, PICKLE_NONE);
    assert_int_equal(pickle_get(&p, p.root, "c"), 0);
    assert_int_equal(pickle_item(&p, p.root, 0), 0); /* it is no list */
    pickle_free(&p);
}

/* A file of random opcodes that fill one container with numbers, and the numbers. */
struct filled {
    uint8_t bytes[4000];
    int64_t want[1000];
    size_t size, n;
};

static void filled_add(struct filled *f, const char *bytes, size_t n)
{
    memcpy(f->bytes + f->size, bytes, n);
    f->size += n;
}

/* A number of its own, the memo's, or one that is repeated; then nothing, a put, a frame. */
static void add_number(struct filled *f, uint32_t *random)
{
    uint32_t kind = next_random(random) % 16, v = next_random(random) % 128;
    const char own[] = {'K', (char)v}, wide[] = {'J', (char)v, 0, 0, 0};
    if (kind == 0)
        filled_add(f, "h\0", 2);
    else if (kind < 4)
        filled_add(f, wide, 5);
    else
        filled_add(f, own, 2);
    f->want[f->n++] = kind ? (int64_t)v : 200;
    if (kind == 4)
        filled_add(f, "q\1", 2);
    if (kind == 5)
        filled_add(f, "\x95\0\0\0\0\0\0\0", 9);
}

/* Ids, ranges of the input, and runs of both come out as they went in. */
TEST(runs)
{
    uint32_t random = 3;
    for (int round = 0; round < 300; round++) {
        struct filled f = {.size = 0};
        int is_dict = round % 3 == 0, is_tuple = round % 3 == 1, is_long;
        filled_add(&f, "\x80\4K\xc8q\0", 6);
        filled_add(&f, is_dict ? "}" : is_tuple ? "(" : "]", 1);
        for (size_t k = next_random(&random) % 6; k > 0; k--) {
            size_t n = (is_long = next_random(&random) % 2) ? next_random(&random) % 30 : 1;
            filled_add(&f, "(", !is_tuple && is_long);
            for (n <<= is_dict; n > 0; n--)
                add_number(&f, &random);
            filled_add(&f, is_long ? is_dict ? "u" : "e" : is_dict ? "s" : "a", !is_tuple);
        }
        filled_add(&f, is_tuple ? "t\x86." : "\x86.", is_tuple ? 3 : 2);
        struct pickle p = good((struct span){f.bytes, f.size});
        pickle_id id = pickle_item(&p, p.root, 1);
        size_t n = 0;
        assert_int_equal(pickle_at(&p, id).n, f.n);
        for (struct pickle_iter i = pickle_items(&p, id); pickle_next(&i);) {
            if (is_dict)
                assert_true(int_of(&p, i.key) == f.want[n++]);
            assert_true(int_of(&p, i.value) == f.want[n++]);
        }
        assert_int_equal(n, f.n);
        pickle_free(&p);
    }
}

TEST(memo)
{
    const struct span twice[] = {
        P2("K\x07q\x00h\x00\x86."),
        P2("K\x07r\x00\x00\x00\x00j\x00\x00\x00\x00\x86."),
        P4("K\x07\x94h\x00\x86."),
    };
    for (size_t i = 0; i < COUNT(twice); i++) {
        struct pickle p = good(twice[i]);
        assert_int_equal(pickle_item(&p, p.root, 0), pickle_item(&p, p.root, 1));
        assert_true(int_of(&p, pickle_item(&p, p.root, 1)) == 7);
        pickle_free(&p);
    }
    struct pickle p = good(P2("]q\x00h\000a.")); /* a list that holds itself */
    assert_int_equal(pickle_item(&p, p.root, 0), p.root);
    pickle_free(&p);
    refused(P2("h\x00."), "memo index that was not stored");
    refused(P2("Nq\x01h\x00\x86."), "memo index that was not stored");
    refused(P2("Nr\xff\xff\xff\x7f."), "memo index without order");
    refused(P2("q\x00."), "stack is empty");
}

TEST(objects)
{
    /* __main__.Value with the states that Python writes: a dict; slots; both */
    const struct span values[] = {
        P2("c__main__\nValue\n)\x81}U\004dataK\x05sb."),
        P2("c__main__\nValue\n)\x81N}U\004dataK\x05s\206b."),
        P2("c__main__\nValue\n)\x81}}U\004dataK\x05s\206b."),
        P4("\x8c\x08__main__\x8c\x05Value\x93)\x81}\x8c\004dataK\x05sb."),
        P2("cmicrograd.engine\nValue\n)\x81}U\004dataK\x05sb."),
    };
    for (size_t i = 0; i < COUNT(values); i++) {
        struct pickle p = good(values[i]);
        assert_int_equal(pickle_at(&p, p.root).kind, PICKLE_OBJECT);
        assert_true(int_of(&p, pickle_get(&p, p.root, "data")) == 5);
        assert_int_equal(pickle_get(&p, p.root, "grad"), 0);
        pickle_free(&p);
    }
    struct pickle p = good(P2("c__main__\nValue\n)\x81NN}U\004dataK\x05s\207b."));
    assert_int_equal(pickle_get(&p, p.root, "data"),
                     0); /* three parts are not a state of Python's */
    pickle_free(&p);
    p = good(P2("ctorch\ndevice\nU\003cpu\x85R."));
    assert_true(pickle_is_call(&p, p.root, "torch", "device"));
    assert_false(pickle_is_call(&p, p.root, "torch", "Size"));
    assert_true(pickle_is_text(&p, pickle_arg(&p, p.root, 0), "cpu"));
    assert_int_equal(pickle_arg(&p, p.root, 1), 0);
    pickle_free(&p);
    p = good(P2("cbuiltins\nset\nK\x05\x85R."));
    assert_int_equal(pickle_at(&p, p.root).kind, PICKLE_LIST); /* of what is none: empty */
    assert_int_equal(pickle_item(&p, p.root, 0), 0);
    pickle_free(&p);
    p = good(P2("K\x09Q."));
    assert_int_equal(pickle_at(&p, p.root).kind, PICKLE_PERSISTENT);
    assert_true(int_of(&p, pickle_item(&p, p.root, 0)) == 9);
    pickle_free(&p);
}

/* OrderedDict in the forms of Python 2 and 3, with a state, which means nothing. */
TEST(dict_calls)
{
    const struct span dicts[] = {
        P2("ccollections\nOrderedDict\n)RU\001aK\x01s."),
        P2("ccollections\nOrderedDict\n)RU\001aK\x01s}U\x09_metadataNsb."),
        P2("ccollections\nOrderedDict\n]]U\001aaK\001aa\x85R."),
        P2("ccollections\nOrderedDict\n]U\001aK\x01\206a\x85R."),
        P2("ccollections\nCounter\n}U\001aK\x01s\x85R."),
    };
    for (size_t i = 0; i < COUNT(dicts); i++) {
        struct pickle p = good(dicts[i]);
        assert_int_equal(pickle_at(&p, p.root).kind, PICKLE_DICT);
        assert_true(int_of(&p, pickle_get(&p, p.root, "a")) == 1);
        pickle_free(&p);
    }
    refused(P2("ccollections\nOrderedDict\n]Na\x85R."), "pair without two items");
    refused(P2("ccollections\nOrderedDict\n]K\x01\205a\x85R."), "pair without two items");
    struct pickle p = good(P2("]U\001bK\x02\206accollections\nOrderedDict\n)R\206."));
    assert_int_equal(pickle_at(&p, pickle_item(&p, p.root, 1)).n, 0); /* not the list's pair */
    pickle_free(&p);
    const struct span sets[] = {P2("c__builtin__\nset\n]K\001a\x85R."),
                                P2("cbuiltins\nfrozenset\nK\001\x85\x85R.")};
    for (size_t i = 0; i < COUNT(sets); i++) { /* of a list, of a tuple */
        p = good(sets[i]);
        assert_true(int_of(&p, pickle_item(&p, p.root, 0)) == 1);
        pickle_free(&p);
    }
}

/* ---- numpy ----------------------------------------------------------------------------------- */

#define DTYPE(name) "cnumpy\ndtype\nU\x02" name "\x89\x88\x87R"

TEST(numpy)
{
    struct pickle p = good(P3("cnumpy._core.multiarray\nscalar\n" DTYPE(
        "f8") "C\x08\x00\x00\x00\x00\x00\x00\x04\x40\x86R."));
    assert_true(real_of(&p, p.root) == 2.5);
    pickle_free(&p);
    p = good(P3("cnumpy.core.multiarray\nscalar\n" DTYPE("i2") "C\x02\xfe\xff\x86R."));
    assert_true(int_of(&p, p.root) == -2 && real_of(&p, p.root) == -2.0);
    pickle_free(&p);
    p = good(P3("cnumpy.core.multiarray\nscalar\n" DTYPE("u1") "C\x01\xfe\x86R."));
    assert_true(int_of(&p, p.root) == 254);
    pickle_free(&p);
    p = good(P3("cnumpy.core.multiarray\nscalar\n" DTYPE("f4") "C\x01\xfe\x86R."));
    double v;
    assert_false(pickle_real(&p, p.root, &v)); /* one byte is not a float32 */
    pickle_free(&p);

    struct checkpoint c;
    struct state_tensor t;
    mgpt_error err;
    ckpt_init(&c);
    struct file f = torch_fixture("microgpt/arrays2.pkl"); /* bytes as latin1 text */
    p = good(span_of(&f));
    assert_int_equal(pickle_ndarray(&p, pickle_get(&p, p.root, "wte"), &c, &t, &err), 1);
    assert_true(t.type == STATE_F32 && t.n_dims == 2 &&
                t.bytes.size == 4 * t.shape[0] * t.shape[1]);
    assert_int_equal(pickle_ndarray(&p, p.root, &c, &t, &err), 0);
    pickle_free(&p);
    file_close(&f);
    f = torch_fixture("microgpt/arrays5.pkl"); /* first index fastest, bytes in place */
    p = good(span_of(&f));
    assert_int_equal(pickle_ndarray(&p, pickle_get(&p, p.root, "wpe"), &c, &t, &err), 1);
    assert_true(t.strides[0] == 1 && t.strides[1] == t.shape[0]);
    assert_true(t.bytes.data > f.data && t.bytes.data < f.data + f.size);
    pickle_free(&p);
    file_close(&f);
    ckpt_free(&c);
}

#define DTYPE3(name) "cnumpy\ndtype\nU\3" name "\x89\x88\x87R"
#define SCALAR(dtype, value) "\x80\3cnumpy.core.multiarray\nscalar\n" dtype value "\x86R."
#define LATIN1(text) "c_codecs\nencode\n" text "U\6latin1\x86R"

/* Numbers of numpy's: which bytes are one, and which are none. */
TEST(numpy_scalars)
{
    const struct {
        struct span bytes;
        double value; /* NAN: none */
        int is_int;
    } rows[] = {
        {BYTES(SCALAR(DTYPE3("<f4"), "C\4\0\0\x20\x40")), 2.5, 0},
        {BYTES(SCALAR(DTYPE3("=i8"), "C\x08\xff\xff\xff\xff\xff\xff\xff\xff")), -1, 1},
        {BYTES(SCALAR(DTYPE3("|b1"), "C\1\1")), 1, 1},
        {BYTES(SCALAR(DTYPE3("|i1"), "C\1\x80")), -128, 1},
        {BYTES(SCALAR(DTYPE("i4"), LATIN1("X\4\0\0\0\1\2\0\0"))), 513, 1},
        {BYTES(SCALAR(DTYPE("u1"), LATIN1("X\2\0\0\0\xc3\xbf"))), 255, 1},
        {BYTES(SCALAR(DTYPE("f2"), "C\2\0\x3c")), NAN, 0}, /* no fact is a half */
        {BYTES(SCALAR(DTYPE3(">f4"), "C\4\x40\x20\0\0")), NAN, 0},
        {BYTES(SCALAR(DTYPE3("f16"), "C\4\0\0\x20\x40")), NAN, 0},
        {BYTES(SCALAR(DTYPE("c8"), "C\4\0\0\x20\x40")), NAN, 0},
        {BYTES(SCALAR("cnumpy\ndtype\nK\1\x85R", "C\1\1")), NAN, 0},
        {BYTES(SCALAR("cnumpy\ndtype\nU\2f4\x85R(K\3U\1>Ntb", "C\4\x40\x20\0\0")), NAN, 0},
        {BYTES(SCALAR("N", "C\1\1")), NAN, 0},
        {BYTES(SCALAR(DTYPE("u1"), "N")), NAN, 0},
        {BYTES(SCALAR(DTYPE("f8"), "C\x09\0\0\0\0\0\0\0\0\0")), NAN, 0},
        {BYTES(SCALAR(DTYPE("u1"), LATIN1("X\2\0\0\0\xc4\x80"))), NAN, 0}, /* U+0100 */
        {BYTES(SCALAR(DTYPE("f8"), LATIN1("X\x09\0\0\0\1\1\1\1\1\1\1\1\1"))), NAN, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pickle p = good(rows[i].bytes);
        double v = 0;
        int64_t integer;
        if (pickle_real(&p, p.root, &v) != !isnan(rows[i].value) ||
            (!isnan(rows[i].value) && (v < rows[i].value || v > rows[i].value)))
            fail_msg("row %zu: %g, expected %g", i, v, rows[i].value);
        assert_int_equal(pickle_int(&p, p.root, &integer), rows[i].is_int);
        pickle_free(&p);
    }
}

#define ARRAY(type, shape, bytes)                                                                  \
    "\x80\3cnumpy.core.numeric\n_frombuffer\n(" bytes type shape "U\1CtR."

TEST(bad_arrays)
{
    const struct {
        struct span bytes;
        const char *expected;
    } rows[] = {
        {BYTES(ARRAY(DTYPE("f4"), "K\1", "C\4\0\0\0\0")),
         "of a shape or type that is not supported"},
        {BYTES(ARRAY(DTYPE("f4"), "U\1x\x85", "C\4\0\0\0\0")),
         "of a shape or type that is not supported"},
        {BYTES(ARRAY(DTYPE("f4"), "J\xff\xff\xff\xff\x85", "C\4\0\0\0\0")), "of a shape or type"},
        {BYTES(ARRAY(DTYPE("f4"), "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "C\4\0\0\0\0")),
         "of a shape or type"},
        {BYTES(ARRAY("N", "K\1\x85", "C\4\0\0\0\0")), "of a shape or type that is not supported"},
        {BYTES(ARRAY(DTYPE("f4"), "K\1\x85", "N")), "a numpy array without bytes"},
        {BYTES(ARRAY(DTYPE("f4"), "K\1\x85", LATIN1("X\2\0\0\0\xc4\x80"))),
         "bytes that are not latin1"},
        {BYTES(ARRAY(DTYPE("f4"), "K\1\x85", "cbuiltins\nbytearray\nC\4\0\0\0\0\x85R")), NULL},
        {BYTES(ARRAY(DTYPE("u1"), "K\2\x85", LATIN1("X\3\0\0\0a\xc3\xbf"))), NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pickle p = good(rows[i].bytes);
        struct state_tensor t;
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        ckpt_init(&c);
        int status = pickle_ndarray(&p, p.root, &c, &t, &err);
        assert_int_equal(status, rows[i].expected ? MGPT_EFILE : 1);
        if (rows[i].expected && !strstr(err.text, rows[i].expected))
            fail_msg("row %zu: '%s', expected '%s'", i, err.text, rows[i].expected);
        if (!rows[i].expected)
            assert_int_equal(t.bytes.size, i == 7 ? 4 : 2);
        ckpt_free(&c);
        pickle_free(&p);
    }
}
