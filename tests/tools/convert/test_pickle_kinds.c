/* Every opcode of pickles that takes objects, with every kind of object in every place: which are refused, and how.
 *
 * pickle_kinds.txt has a line for each opcode and the kind of its last object: OPCODE KIND HASH. MGPT_SOURCE_ROOT=$PWD
 * MGPT_WRITE=1 build/tests/test_pickle_kinds writes it again. */
#include "base/xxh64.h"
#include "support/made_rows.h"
#include "support/torch_input.h"
#include "support/unit.h"

#include "convert/containers/pickle_impl.h"

/* A part of a pickle; in a table, where BYTES is no constant. */
#define PART(s)                                                                                    \
    {                                                                                              \
        (const uint8_t *)(s), sizeof(s) - 1                                                        \
    }

/* clang-format off */
/* Pickles of one object. */
static const struct {
    const char *name;
    struct span bytes;
} kinds[] = {{"none", PART("N")},
             {"true", PART("\x88")},
             {"one", PART("K\1")},
             {"long", PART("\x8a\1\3")},
             {"real", PART("G?\xf0\0\0\0\0\0\0")},
             {"text", PART("X\1\0\0\0a")},
             {"bytes", PART("B\1\0\0\0a")},
             {"empty", PART(")")},
             {"tuple", PART("K\2\x85")},
             {"pair", PART("K\2X\1\0\0\0b\x86")},
             {"list", PART("]K\1a")},
             {"dict", PART("}X\1\0\0\0aK\1s")},
             {"ordered", PART("ccollections\nOrderedDict\n")},
             {"value", PART("c__main__\nValue\n")},
             {"mark", PART("(")},
             {"storage", PART("ctorch\nFloatStorage\n")},
             {"rebuild", PART("ctorch._utils\n_rebuild_tensor_v2\n")},
             {"parameter", PART("ctorch._utils\n_rebuild_parameter\n")},
             {"array", PART("cnumpy.core.multiarray\n_reconstruct\n")},
             {"encode", PART("c_codecs\nencode\n")},
             {"object", PART("c__main__\nValue\n)\x81")}};

static const struct {
    const char *name;
    struct span bytes;
} opcodes[] = {{"SETITEM", PART("s")},      {"SETITEMS", PART("u")},
               {"APPEND", PART("a")},       {"APPENDS", PART("e")},
               {"REDUCE", PART("R")},       {"NEWOBJ", PART("\x81")},
               {"BUILD", PART("b")},        {"STACK_GLOBAL", PART("\x93")},
               {"TUPLE1", PART("\x85")},    {"TUPLE2", PART("\x86")},
               {"TUPLE3", PART("\x87")},    {"TUPLE", PART("t")},
               {"BINPERSID", PART("Q")},    {"POP", PART("0")},
               {"POP_MARK", PART("1")},     {"DUP", PART("2")},
               {"DICT", PART("d")},         {"LIST", PART("l")},
               {"OBJ", PART("o")},          {"INST", PART("i__main__\nValue\n")},
               {"BINPUT", PART("q\1")},     {"BINGET", PART("h\0")},
               {"MEMOIZE", PART("\x94")},   {"ADDITEMS", PART("\x90")},
               {"FROZENSET", PART("\x91")}, {"NEWOBJ_EX", PART("\x92")}};

/* clang-format on */

static size_t put_span(uint8_t *to, size_t at, struct span bytes)
{
    memcpy(to + at, bytes.data, bytes.size);
    return at + bytes.size;
}

/* Three objects, the opcode, the end. */
static void hash_pickle(struct xxh64 *h, const size_t at[3], struct span opcode)
{
    uint8_t bytes[256];
    size_t n = put_span(bytes, 0, BYTES("\x80\x04"));
    for (size_t i = 0; i < 3; i++)
        n = put_span(bytes, n, kinds[at[i]].bytes);
    n = put_span(bytes, n, opcode);
    n = put_span(bytes, n, BYTES("."));
    struct span copy = exact_copy((struct span){bytes, n});
    struct pickle p;
    mgpt_error err = {.text = ""};
    if (pickle_read(&p, copy, &err) == MGPT_OK)
        pickle_free(&p);
    xxh64_add(h, err.text, strlen(err.text) + 1);
    xxh64_add(h, &err.offset, sizeof err.offset);
    free_copy(copy);
}

TEST(opcodes_and_kinds)
{
    FILE *made = made_begin();
    for (size_t k = 0; k < COUNT(opcodes) * COUNT(kinds); k++) {
        struct xxh64 h;
        xxh64_begin(&h);
        for (size_t i = 0; i < COUNT(kinds) * COUNT(kinds); i++)
            hash_pickle(&h, (size_t[]){i / COUNT(kinds), i % COUNT(kinds), k % COUNT(kinds)},
                        opcodes[k / COUNT(kinds)].bytes);
        fprintf(made, "%s %s %08x\n", opcodes[k / COUNT(kinds)].name, kinds[k % COUNT(kinds)].name,
                (unsigned)(xxh64_end(&h) >> 32));
    }
    made_end(made, "tests/tools/convert/pickle_kinds.txt");
}
