/* tools/convert: microgpt as people keep it. Every file of tests/fixtures/wild must give the tensors that
 * the JSON of the same weights gives, to the bit; damaged ones are refused and never crash.
 *
 * The fixtures are made by tests/fixtures/wild/make_wild.py, which also says what each one is.
 */
#include "convert/families/microgpt.h"
#include "support/convert_want.h"
#include "support/hostile.h"
#include "support/torch_input.h"
#include "support/unit.h"

#define WILD "wild"
#define SIZES OPT_EMBD | OPT_LAYERS | OPT_CONTEXT | OPT_HEADS
#define VALUES .n_embd = 4, .n_layer = 2, .n_ctx = 3, .n_vocab = 5, .n_head = 4
#define HEADS4                                                                                     \
    {                                                                                              \
        .given = OPT_HEADS, .n_head = 4                                                            \
    }
/* What a fork has that no published program has. */
#define FORK OPT_ACTIVATION | OPT_EPS
#define ROTATES(how)                                                                               \
    {                                                                                              \
        .given = FORK | OPT_POSITIONS | OPT_ROPE, .activation = "silu", .eps = 1e-5,               \
        .positions = how, .rope_base = 1e4                                                         \
    }

struct wild_layout {
    const char *file, *directory, *want;
    struct ckpt_options options;
    int heads, bos; /* bos -1: no vocabulary */
};

static const struct wild_layout layouts[] = {
    {"values.pkl", FIXTURES, "microgpt.want", HEADS4, 4, -1},
    {"wrapped.pkl", FIXTURES, "microgpt.want", {0}, 2, 4},
    {"rows.pkl", FIXTURES, "microgpt.want", HEADS4, 4, 4},
    {"itos.pkl", FIXTURES, "microgpt.want", HEADS4, 4, 4},
    {"params.pkl", FIXTURES, "microgpt.want", {0}, 2, 4},
    {"matrices.pkl", FIXTURES, "microgpt.want", HEADS4, 4, -1},
    {"arrays.pkl", FIXTURES, "microgpt.want", {0}, 2, -1},
    {"arrays2.pkl", FIXTURES, "microgpt.want", {0}, 2, -1},
    {"object.npy", FIXTURES, "microgpt.want", HEADS4, 4, -1},
    {"flat32.npy", FIXTURES, "microgpt.want", {.given = SIZES, VALUES}, 4, -1},
    {"flat64.npy", FIXTURES, "microgpt.want", {.given = SIZES | OPT_HEAD_LAST, VALUES}, 4, -1},
    {"stored.npz", FIXTURES, "microgpt.want", HEADS4, 4, -1},
    {"deflated.npz", FIXTURES, "microgpt.want", {0}, 2, 4},
    {"wrapped.npz", FIXTURES, "microgpt.want", {0}, 2, 4},
    {"positional.npz", FIXTURES, "microgpt.want", HEADS4, 4, -1},
    {"params.npz", FIXTURES, "microgpt.want", {0}, 2, -1},
    {"raw.f32",
     FIXTURES,
     "microgpt.want",
     {.given = SIZES | OPT_VOCAB_SIZE | OPT_RAW, VALUES, .raw = "f32"},
     4,
     -1},
    {"raw.f64",
     FIXTURES,
     "microgpt.want",
     {.given = SIZES | OPT_RAW | OPT_HEAD_LAST | OPT_VOCAB_SIZE, VALUES, .raw = "f64"},
     4,
     -1},
    {"microgpt.bin", FIXTURES, "microgpt.want", {0}, 2, 4},
    {"microgpt-c.model", FIXTURES, "microgpt.want", {.given = SIZES, VALUES}, 4, -1},
    {"microgpt-c.float", FIXTURES, "microgpt.want", {.given = SIZES, VALUES}, 4, -1},
    {"microgpt-c.ckpt", FIXTURES, "microgpt.want", {.given = SIZES, VALUES}, 4, -1},
    {"base64.json", FIXTURES, "microgpt.want", {0}, 2, 4},
    {"nout.json", FIXTURES, "microgpt.want", {0}, 2, 4},
    {"rotated.json", WILD, "rotated.want", ROTATES("half"), 2, 4},
    {"rotated.npz", WILD, "rotated.want", ROTATES("half"), 2, -1},
    {"rotated.json", WILD, "kept.want", ROTATES("adjacent"), 2, 4},
    {"rotated.json", WILD, "kept.want", ROTATES("none"), 2, 4},
    {"gains.json", WILD, "gains.want", {.given = FORK, .activation = "relu", .eps = 1e-5}, 2, -1},
};

enum { N_LAYOUTS = COUNT(layouts) };

static void check_arch(const struct result *r, const struct wild_layout *l)
{
    int rotated = strncmp(l->file, "rotated", 7) == 0 &&
                  !(l->options.positions && strcmp(l->options.positions, "none") == 0);
    struct gguf_str arch;
    assert_int_equal(gguf_string(&r->g, "general.architecture", &arch, NULL), 1);
    assert_int_equal(arch.n, rotated ? 5 : 8);
    assert_memory_equal(arch.p, rotated ? "llama" : "microgpt", arch.n);
    assert_int_equal(gguf_find(&r->g, "llama.rope.freq_base") != NULL, rotated);
}

TEST(layouts)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        const struct wild_layout *l = &layouts[i];
        struct result r;
        struct file f = fixture_in(WILD, l->file);
        print_message("%s\n", l->file);
        convert(&r, (struct span){f.data, f.size}, &l->options, NULL);
        check_tensors(&r.g, l->directory, l->want);
        check_arch(&r, l);
        assert_int_equal(r.c.hp.n_head, l->heads);
        assert_int_equal(r.c.vocab.bos, l->bos);
        assert_int_equal(gguf_find(&r.g, "tokenizer.ggml.tokens") != NULL, l->bos >= 0);
        file_close(&f);
        result_free(&r);
    }
}

/* What gains and gates say about the dialect. */
TEST(dialects)
{
    static const struct ckpt_options none = {.given = FORK, .activation = "relu", .eps = 1e-5};
    static const struct ckpt_options half = ROTATES("half");
    static const struct convert_sides no_sides;
    struct checkpoint c;
    mgpt_error err;
    struct file gains = fixture_in(WILD, "gains.json"), gate = fixture_in(WILD, "rotated.json");
    assert_int_equal(read_bytes(&c, (struct span){gains.data, gains.size}, &none, &no_sides, &err),
                     MGPT_OK);
    assert_true(has_note(&c, "embedding_norm = false"));
    assert_true(!c.hp.embedding_norm && c.hp.final_norm && c.hp.n_head_kv == 1);
    assert_string_equal(c.hp.activation, "relu");
    ckpt_free(&c);
    assert_int_equal(read_bytes(&c, (struct span){gate.data, gate.size}, &half, &no_sides, &err),
                     MGPT_OK);
    assert_true(c.hp.n_rot == 4 && c.hp.n_ctx == 16 && c.hp.n_head_kv == 1);
    assert_null(c.hp.activation); /* llama's own */
    ckpt_free(&c);
    file_close(&gains);
    file_close(&gate);
}

/* The numbers of microgpt-bin begin at a multiple of 8, which may be where the characters end. */
TEST(padding)
{
    static const struct convert_sides no_sides;
    for (uint8_t n = 7; n <= 9; n++) {
        uint8_t bytes[400] = "MGPT\1";
        const uint8_t sizes[] = {1, 1, 1, 1, (uint8_t)(n + 1), n};
        size_t at = (32u + n + 7u) / 8 * 8, n_numbers = 2 * (n + 1u) + 1 + 12;
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        float first;
        for (size_t i = 0; i < sizeof sizes; i++)
            bytes[8 + 4 * i] = sizes[i];
        for (uint8_t i = 0; i < n; i++)
            bytes[32 + i] = (uint8_t)('a' + i);
        memcpy(bytes + at, &(double){0.5}, 8);
        if (read_bytes(&c, (struct span){bytes, at + 8 * n_numbers}, &(struct ckpt_options){0},
                       &no_sides, &err) < 0)
            fail_msg("%d characters: %s", n, err.text);
        ckpt_values(&c.tensors[0], 0, 1, &first);
        assert_true(first == 0.5F);
        assert_int_equal(arr_len(c.vocab.tokens), n + 1);
        ckpt_free(&c);
    }
}

/* ---- what must be refused ---------------------------------------------------------------------- */

/* A fixture with the first `from` replaced by `to`, of the same length. */
static void assert_changed(const char *name, const char *from, const char *to, const char *expected)
{
    static const struct ckpt_options options = {.given = SIZES, VALUES};
    struct file f = fixture_in(WILD, name);
    uint8_t *copy = malloc(f.size);
    size_t n = strlen(from), at = 0;
    assert_non_null(copy);
    memcpy(copy, f.data, f.size);
    while (at + n <= f.size && memcmp(copy + at, from, n) != 0)
        at++;
    assert_true(at + n <= f.size && n == strlen(to));
    memcpy(copy + at, to, n);
    int needs_sizes = strstr(name, ".npy") || strstr(name, "microgpt-c");
    assert_refused((struct span){copy, f.size}, needs_sizes ? &options : NULL, NULL, expected);
    free(copy);
    file_close(&f);
}

TEST(bad_contents)
{
    assert_changed("flat32.npy", "(436,)", "(435,)", "says 1740 bytes of data, 1744 are there");
    assert_changed("flat32.npy", "(436,)", "(4,10)", "says 160 bytes");
    assert_changed("flat32.npy", "<f4", "<i4", "element type '<i4', expected <f4, <f8 or <f2");
    assert_changed("flat32.npy", "<f4", ">f4", "element type '>f4'");
    assert_changed("flat32.npy", "NUMPY", "NUMPX", "not a checkpoint");
    assert_changed("object.npy", "\x80\4\x95", "\x80\7\x95", "pickle");
    assert_changed("object.npy", "layer0.attn_wq", "layer0.attn_wx",
                   "layer0.attn_wx: no microgpt has it");
    assert_changed("object.npy", "layer0.attn_wq", "layer1.attn_wq",
                   "has a name of the same meaning");
    assert_changed("values.pkl", "__main__\x94\x8c\x05Value",
                   "builtins\x94\x8c\x04"
                   "eval\x94",
                   "builtins.eval");
    assert_changed("arrays.pkl", "\x8c\2f4", "\x8c\2V4",
                   "numpy array of a shape or type that is not");
    assert_changed("rows.pkl", "layer1.mlp_fc1", "layer1.mlp_fcX",
                   "layer1.mlp_fcX: no microgpt has it");
    assert_changed("stored.npz", "(4, 16)", "(4, 15)", "layer0.mlp_fc2.npy: its checksum is");
    assert_changed("base64.json", "\"f32\"", "\"q32\"", "base64 needs a dtype");
    assert_changed("base64.json", "\"shape\":[5,4]", "\"shape\":[4,5]", "tensor ");
    assert_changed("base64.json", "\"shape\":[5,4]", "\"shape\":[5,3]", "data has 80 bytes of 4");
    assert_changed("base64.json", "\"shape\":[5,4]", "\"shape\":[0,4]", "numbers above 0");
    assert_changed("base64.json", "AACAPwAAAIA", "AACAPw!AAIA", "tensor wte: data: not base64");
    assert_changed("base64.json", "AACAPwAAAIA", "AACAPw=AAIA", "tensor wte: data: not base64");
    assert_changed("nout.json", "\"nout\":5", "\"nout\":6", "data has 5 rows of 4");
    assert_changed("microgpt.bin", "abcd", "abca", "'a' occurs twice");
    assert_changed("microgpt.bin", "MGPT\1", "MGPT\2", "not a checkpoint");
    assert_changed("rotated.json", "layer1.mlp_gate", "layer1.mlp_gaxx",
                   "mlp_gaxx: no microgpt has it");
    assert_changed("rotated.json", "layer1.rms_1", "layer1.rms_x", "rms_x: no microgpt has it");
    assert_changed("rotated.json", "rms_final", "rms_fiXXX", "rms_fiXXX: no microgpt has it");
    assert_changed("gains.json", "\"ln_f\":[1.0292", "\"ln_f\":[1,\"02\"", "ln_f: ");
    assert_changed("gains.json", "\"wpe\"", "\"wpx\"", "wpx: no microgpt has it");
}

TEST(bad_options)
{
    struct file f = fixture_in(WILD, "rotated.json"), flat = fixture("flat.json");
    struct file raw = fixture_in(WILD, "raw.f32");
    struct span forked = {f.data, f.size}, plain = {flat.data, flat.size};
    struct span magic = {(const uint8_t *)"\x93NUMPY", 6};
    struct ckpt_options spiral = {.given = OPT_POSITIONS, .positions = "spiral"};
    struct ckpt_options half = ROTATES("half"), norm = half, eight = half;
    norm.given |= OPT_EMBEDDING_NORM;
    eight.given |= OPT_HEADS;
    eight.n_head = 8;
    assert_refused(
        forked, NULL, NULL,
        "set --positions half, adjacent or none (no wpe), --rope BASE, --activation NAME "
        "(Llama: silu), --eps X");
    struct ckpt_options f32 = {.given = OPT_RAW, .raw = "f32"}, q8 = f32;
    q8.raw = "q8";
    assert_refused(magic, NULL, NULL, "npy header: says 0 bytes, 0 are there");
    assert_refused(forked, &spiral, NULL, "--positions: expected half, adjacent or none");
    assert_refused(forked, &norm, NULL, "--embedding-norm: not with rotated q and k");
    assert_refused(forked, &eight, NULL, "heads of 1 values cannot be rotated");
    assert_refused(plain, &half, NULL, "the model has a table of positions");
    assert_refused(plain, &f32, NULL, "are not a whole number of f32");
    assert_refused((struct span){raw.data, raw.size}, &q8, NULL, "--raw: expected f32, f64 or f16");
    assert_refused((struct span){raw.data, raw.size}, &f32, NULL,
                   "436 numbers do not fit n_embd 16");
    file_close(&f);
    file_close(&flat);
    file_close(&raw);
}

/* A dict that holds itself under 60 keys: small to read, endless to walk. */
TEST(endless_pickle)
{
    char bytes[400] = "\x80\2}q";
    size_t n = 5; /* with the index 0 */
    bytes[n++] = '(';
    for (int i = 0; i < 60; i++) {
        memcpy(bytes + n, (const char[]){'U', 1, (char)(' ' + i), 'h', 0}, 5);
        n += 5;
    }
    memcpy(bytes + n, "u.", 2);
    assert_refused((struct span){(const uint8_t *)bytes, n + 2}, NULL, NULL,
                   "more members than the file can hold");
}

#define MATRIX "](](K\1K\2e](K\3K\4ee"
#define CONFIG(state)                                                                              \
    P2("}(U\3wte" MATRIX "U\3wpe" MATRIX "U\7lm_head" MATRIX                                       \
       "U\6configc__main__\nConfig\n)\x81" state "bu.")

/* What Python writes of an object's attributes: a dict; slots; both. */
TEST(attributes)
{
    static const struct ckpt_options none;
    static const struct convert_sides no_sides;
    const struct span files[] = {CONFIG("}U\6n_headK\2s"), CONFIG("N}U\6n_headK\2s\x86"),
                                 CONFIG("}U\6n_headK\2sN\x86")};
    for (size_t i = 0; i < COUNT(files); i++) {
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        must_say("pickle", read_bytes(&c, files[i], &none, &no_sides, &err), &err, NULL);
        assert_int_equal(c.hp.n_head, 2);
        ckpt_free(&c);
    }
}

/* A NaN is copied, and named. */
TEST(not_a_number)
{
    struct ckpt_options options = {.given = SIZES | OPT_RAW, VALUES, .raw = "f32"};
    struct file f = fixture_in(WILD, "raw.f32");
    struct result r;
    uint8_t *copy = malloc(f.size);
    assert_non_null(copy);
    memcpy(copy, f.data, f.size);
    memcpy(copy + 4 * 20, "\0\0\xc0\x7f", 4);
    convert(&r, (struct span){copy, f.size}, &options, NULL);
    assert_true(has_note(&r.c, "position_embd.weight: 1 of 12 values are NaN or infinite"));
    result_free(&r);
    free(copy);
    file_close(&f);
}

/* ---- hostile bytes ----------------------------------------------------------------------------- */

static int read_layout(struct span bytes, void *user)
{
    static const struct convert_sides no_sides;
    const struct wild_layout *l = user;
    return read_whole(bytes, &l->options, &no_sides);
}

TEST(damaged)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        struct file f = fixture_in(WILD, layouts[i].file);
        struct wild_layout l = layouts[i];
        hostile_cuts(&f, 1 + f.size / 400, read_layout, &l);
        assert_true(hostile_flips(&f, 300, 200, read_layout, &l) > 0 || l.options.given & OPT_RAW);
        file_close(&f);
    }
}

/* A file has at most 200 notes, of which the last says that there are more. */
TEST(notes_have_an_end)
{
    for (size_t n = 198; n <= 202; n++) {
        struct checkpoint c;
        char last[20];
        ckpt_init(&c);
        for (size_t i = 0; i < n; i++)
            ckpt_note(&c, "note %zu", i);
        size_t plain = n < 200 ? n : 199;
        snprintf(last, sizeof last, "note %zu", plain - 1);
        assert_string_equal(c.notes[plain - 1], last);
        assert_int_equal(arr_len(c.notes), n < 200 ? n : 200);
        if (n >= 200)
            assert_string_equal(c.notes[199], "further notes are left out");
        ckpt_free(&c);
    }
}

/* As people write them; a word that is none is not guessed. */
TEST(activations)
{
    static const char *const words[][2] = {
        {"relu", "relu"},
        {"ReLU", "relu"},
        {"nn.ReLU()", "relu"},
        {"torch.nn.functional.relu", "relu"},
        {"relu\u00B2", "relu2"},
        {"F.relu\u00B2", "relu2"},
        {"squared_relu", "relu2"},
        {"ReluSquared", "relu2"},
        {"SwiGLU", "silu"},
        {"swish", "silu"},
        {"gelu", "gelu_erf"},
        {"gelu_new", "gelu_tanh"},
        {"gelu_pytorch_tanh", "gelu_tanh"},
        {"GELU(approximate='tanh')", "gelu_tanh"},
        {"GELU(approximate='none')", "gelu_erf"},
        {"quick_gelu", "gelu_quick"},
        {"sigmoid", "sigmoid"},
        {"tanh", NULL},
        {"", NULL},
        {"relu3", NULL},
        {"2", NULL},
        {"relurelurelurelurelurelurelurelurelurelurelurelurelurelurelurelurelu", NULL},
    };
    for (size_t i = 0; i < COUNT(words); i++) {
        const char *found = mg_activation(words[i][0]), *want = words[i][1];
        if (!found != !want || (want && strcmp(found, want) != 0))
            fail_msg("%s: %s", words[i][0], found ? found : "none");
    }
}
