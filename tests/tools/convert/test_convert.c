/* tools/convert: what comes out of the readers, through the writer, in a GGUF file.
 *
 * Every layout in tests/fixtures/convert holds the same weights, so each must give the same tensors,
 * to the bit, as the .want file that tests/cli/make_convert.py computed. What must be refused is in
 * test_convert_bad.c, the command line around the readers in tests/cli/convert.sh.
 */
#include "convert/families/llama2c.h"
#include "support/convert_want.h"
#include "support/unit.h"

#define MICROGPT_SIZES                                                                             \
    {                                                                                              \
        .given = OPT_EMBD | OPT_LAYERS | OPT_CONTEXT | OPT_HEADS, .n_embd = 4, .n_layer = 2,       \
        .n_ctx = 3, .n_head = 4                                                                    \
    }
#define HEADS4                                                                                     \
    {                                                                                              \
        .given = OPT_HEADS, .n_head = 4                                                            \
    }
#define RELU2                                                                                      \
    {                                                                                              \
        .given = OPT_ACTIVATION, .activation = "relu2"                                             \
    }

static const struct ckpt_options heads4 = HEADS4;

static void assert_uint(const struct gguf *g, const char *key, uint64_t expected)
{
    uint64_t v = 0;
    mgpt_error err;
    if (gguf_uint(g, key, UINT32_MAX, &v, &err) != 1 || v != expected)
        fail_msg("%s: %llu, expected %llu", key, (unsigned long long)v,
                 (unsigned long long)expected);
}

static void assert_text(const struct gguf *g, const char *key, const char *expected)
{
    struct gguf_str s;
    assert_int_equal(gguf_string(g, key, &s, NULL), 1);
    assert_int_equal(s.n, strlen(expected));
    assert_memory_equal(s.p, expected, s.n);
}

static void assert_flag(const struct gguf *g, const char *key, int expected)
{
    int v = -1;
    assert_int_equal(gguf_bool(g, key, &v, NULL), 1);
    assert_int_equal(v, expected);
}

/* The strings of an array, joined by '|'. */
static void assert_texts(const struct gguf *g, const char *key, const char *expected)
{
    const struct gguf_kv *kv;
    char all[256] = "";
    size_t n = 0;
    assert_int_equal(gguf_array(g, key, GGUF_STRING, &kv, NULL), 1);
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    for (uint64_t i = 0; i < kv->n; i++) {
        struct gguf_str s = gguf_next_string(&c);
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%.*s", i ? "|" : "", (int)s.n, s.p);
    }
    assert_string_equal(all, expected);
}

/* ---- what must come out ------------------------------------------------------------------------ */

static const struct {
    const char *file, *want;
    struct ckpt_options options;
    const char *activation;
    int bos, heads;
} json_layouts[] = {
    {"flat.json", "microgpt.want", HEADS4, "relu", 4, 4},
    {"wrapped.json", "microgpt.want", {0}, "relu", 4, 2},
    {"state_dict.json", "microgpt.want", HEADS4, "relu", 4, 4},
    {"params.json", "microgpt.want", {0}, "relu", 4, 2},
    {"list.json", "microgpt.want", MICROGPT_SIZES, "relu", -1, 4},
    {"matrices.json", "microgpt.want", HEADS4, "relu", -1, 4},
    {"shaped.json", "microgpt.want", HEADS4, "relu", 4, 4},
    {"nested.json", "microgpt.want", HEADS4, "relu", 4, 4},
    {"first.json", "microgpt.want", RELU2, "relu2", 0, 2},
    {"tied.json", "tied.want", HEADS4, "relu", 4, 4},
    {"bigram.json", "bigram.want", HEADS4, "relu", 4, 4},
};

TEST(json_layouts)
{
    for (size_t i = 0; i < COUNT(json_layouts); i++) {
        struct result r;
        struct file f = fixture(json_layouts[i].file);
        print_message("%s\n", json_layouts[i].file);
        convert(&r, (struct span){f.data, f.size}, &json_layouts[i].options, NULL);
        check_tensors(&r.g, FIXTURES, json_layouts[i].want);
        assert_text(&r.g, "general.architecture", "microgpt");
        assert_text(&r.g, "mgpt.activation", json_layouts[i].activation);
        assert_flag(&r.g, "mgpt.embedding_norm", 1);
        assert_flag(&r.g, "mgpt.final_norm", 0);
        assert_uint(&r.g, "microgpt.vocab_size", 5);
        assert_uint(&r.g, "microgpt.context_length", 3);
        assert_uint(&r.g, "microgpt.embedding_length", 4);
        assert_uint(&r.g, "microgpt.feed_forward_length", 16);
        assert_uint(&r.g, "microgpt.block_count", i + 1 < 11 ? 2 : 0);
        assert_uint(&r.g, "microgpt.attention.head_count", (uint64_t)json_layouts[i].heads);
        if (json_layouts[i].bos >= 0)
            assert_uint(&r.g, "tokenizer.ggml.bos_token_id", (uint64_t)json_layouts[i].bos);
        else
            assert_null(gguf_find(&r.g, "tokenizer.ggml.tokens"));
        file_close(&f);
        result_free(&r);
    }
}

TEST(character_vocabulary)
{
    struct result r;
    struct file f = fixture("flat.json");
    convert(&r, (struct span){f.data, f.size}, &heads4, NULL);
    assert_text(&r.g, "tokenizer.ggml.model", "gpt2");
    assert_text(&r.g, "tokenizer.ggml.pre", "gpt-2");
    /* é is C3 A9, € is E2 82 AC; bytes 82 and A0 downwards move to U+0121 onwards: 82 is U+0124 */
    assert_texts(&r.g, "tokenizer.ggml.tokens", "a|b|Ã©|âĤ¬|<BOS>");
    assert_texts(&r.g, "tokenizer.ggml.merges", "Ã ©|â Ĥ|âĤ ¬");
    assert_uint(&r.g, "tokenizer.ggml.eos_token_id", 4);
    assert_flag(&r.g, "tokenizer.ggml.add_bos_token", 1);
    assert_flag(&r.g, "tokenizer.ggml.add_eos_token", 0);
    file_close(&f);
    result_free(&r);
}

static const struct {
    const char *file, *want, *format;
} llama_files[] = {
    {"v0.bin", "llama.want", "llama2.c .bin version 0"},
    {"v0-own-head.bin", "llama-own-head.want", "llama2.c .bin version 0"},
    {"v1.bin", "llama.want", "llama2.c .bin version 1"},
    {"v1-own-head.bin", "llama-own-head.want", "llama2.c .bin version 1"},
    {"v2.bin", "v2.want", "llama2.c .bin version 2 (int8)"},
};

TEST(llama2c_versions)
{
    for (size_t i = 0; i < COUNT(llama_files); i++) {
        struct result r;
        struct file f = fixture(llama_files[i].file);
        print_message("%s\n", llama_files[i].file);
        convert(&r, (struct span){f.data, f.size}, NULL, NULL);
        check_tensors(&r.g, FIXTURES, llama_files[i].want);
        assert_string_equal(r.c.format, llama_files[i].format);
        assert_int_equal(has_note(&r.c, "int8 weights in groups of"), i + 1 == COUNT(llama_files));
        assert_text(&r.g, "general.architecture", "llama");
        assert_uint(&r.g, "llama.attention.head_count_kv", 1);
        assert_uint(&r.g, "llama.rope.dimension_count", 2);
        assert_uint(&r.g, "llama.context_length", 5);
        assert_text(&r.g, "tokenizer.ggml.model", "llama");
        assert_texts(&r.g, "tokenizer.ggml.tokens", "<unk>|<s>|</s>|<0x41>|▁|a|▁a▁a");
        const struct gguf_kv *kv = gguf_find(&r.g, "tokenizer.ggml.token_type");
        const int32_t types[] = {2, 3, 3, 6, 1, 1, 1};
        assert_int_equal(kv->value_bytes, sizeof types);
        assert_memory_equal(kv->value, types, sizeof types);
        const float scores[] = {0, 0, 0, 0, -1e9f, -1.5f, -2.25f};
        kv = gguf_find(&r.g, "tokenizer.ggml.scores");
        assert_memory_equal(kv->value, scores, sizeof scores);
        file_close(&f);
        result_free(&r);
    }
}

TEST(llama2c_no_tokenizer)
{
    static const struct ckpt_options ids_only = {.given = OPT_NO_TOKENIZER};
    struct result r;
    struct file f = fixture("v0.bin");
    convert(&r, (struct span){f.data, f.size}, &ids_only, NULL);
    assert_null(gguf_find(&r.g, "tokenizer.ggml.tokens"));
    assert_true(has_note(&r.c, "no vocabulary: the model will run on token ids only"));
    file_close(&f);
    result_free(&r);
}

/* Equal input, equal bytes; and GGUF to GGUF changes nothing unless asked. */
TEST(reproducible)
{
    struct result a, b, again;
    struct file f = fixture("flat.json");
    convert(&a, (struct span){f.data, f.size}, &heads4, NULL);
    convert(&b, (struct span){f.data, f.size}, &heads4, NULL);
    assert_int_equal(a.file.size, b.file.size);
    assert_memory_equal(a.file.data, b.file.data, a.file.size);
    convert(&again, (struct span){a.file.data, a.file.size}, NULL, NULL);
    assert_int_equal(a.file.size, again.file.size);
    assert_memory_equal(a.file.data, again.file.data, a.file.size);
    file_close(&f);
    result_free(&a);
    result_free(&b);
    result_free(&again);
}

TEST(change_of_type)
{
    static const char *const types[] = {"f16", "bf16"};
    for (size_t i = 0; i < 2; i++) {
        struct result a, b, c;
        struct file f = fixture("flat.json");
        convert(&a, (struct span){f.data, f.size}, &heads4, NULL);
        convert(&b, (struct span){f.data, f.size}, &heads4, types[i]);
        convert(&c, (struct span){a.file.data, a.file.size}, NULL, types[i]);
        assert_int_equal(b.file.size, c.file.size); /* in one step or in two */
        assert_memory_equal(b.file.data, c.file.data, b.file.size);
        assert_uint(&b.g, "general.file_type", i ? 32 : 1);
        assert_string_equal(gguf_tensor(&b.g, "position_embd.weight")->type->name, "F32");
        const struct gguf_tensor *t = gguf_tensor(&b.g, "blk.1.ffn_up.weight");
        const struct gguf_tensor *of = gguf_tensor(&a.g, t->name);
        assert_string_equal(t->type->name, i ? "BF16" : "F16");
        for (uint64_t v = 0; v < t->n_values; v++) {
            float x;
            uint16_t found;
            memcpy(&x, of->data + 4 * v, 4);
            memcpy(&found, t->data + 2 * v, 2);
            assert_int_equal(found, i ? bf16_from_f32(x) : f16_from_f32(x));
        }
        assert_int_equal(has_note(&b.c, "token_embd.weight: 2 values are too large"), i == 0);
        file_close(&f);
        result_free(&a);
        result_free(&b);
        result_free(&c);
    }
}

/* NaN is copied as it is and counted. */
TEST(not_finite)
{
    struct result r;
    struct file f = fixture("v0.bin");
    uint8_t *copy = malloc(f.size);
    assert_non_null(copy);
    memcpy(copy, f.data, f.size);
    memcpy(copy + 28, "\x01\x00\xc0\x7f", 4);
    convert(&r, (struct span){copy, f.size}, NULL, NULL);
    assert_true(has_note(&r.c, "token_embd.weight: 1 of 28 values are NaN or infinite"));
    assert_memory_equal(gguf_tensor(&r.g, "token_embd.weight")->data, copy + 28, 4);
    free(copy);
    file_close(&f);
    result_free(&r);
}

/* ---- vocabularies ------------------------------------------------------------------------------ */

#define ROWS5 "[[1,2],[3,4],[5,6],[7,8],[9,10]]"
#define BIGRAM5 "{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"lm_head\":" ROWS5 ",\"n_head\":1"

static void assert_chars(const char *chars, const char *tokens, int bos)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    struct ckpt_options options = {.given = OPT_CHARS};
    struct convert_sides sides = {{NULL, 0}, text(chars)};
    if (read_bytes(&c, text(BIGRAM5 "}"), &options, &sides, &err) < 0) {
        assert_null(tokens);
        assert_non_null(strstr(err.text, "chars.txt: "));
        ckpt_free(&c);
        return;
    }
    char all[64] = "";
    for (size_t i = 0, n = 0; i < arr_len(c.vocab.tokens); i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s|", c.vocab.tokens[i].p);
    assert_non_null(tokens);
    assert_string_equal(all, tokens);
    assert_int_equal(c.vocab.bos, bos);
    assert_int_equal(c.vocab.add_bos, bos >= 0);
    ckpt_free(&c);
}

/* BOS may have an id between those of the characters, which have the other ids in order. */
TEST(bos_between_characters)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    struct ckpt_options options = {.given = OPT_BOS, .bos = 2};
    if (read_bytes(&c, text(BIGRAM5 ",\"chars\":\"abcd\"}"), &options, &(struct convert_sides){0},
                   &err) < 0)
        fail_msg("%s", err.text);
    static const char *const tokens[] = {"a", "b", "<BOS>", "c", "d"};
    for (size_t i = 0; i < COUNT(tokens); i++)
        assert_string_equal(c.vocab.tokens[i].p, tokens[i]);
    assert_int_equal(c.vocab.bos, 2);
    ckpt_free(&c);
}

/* An entry of a vocabulary may have the name of a fact. */
TEST(bos_in_a_vocabulary)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    if (read_bytes(&c, text(BIGRAM5 ",\"vocab\":{\"bos\":0,\"b\":1,\"c\":2,\"d\":3,\"a\":4}}"),
                   &(struct ckpt_options){0}, &(struct convert_sides){0}, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(arr_len(c.vocab.tokens), 5);
    assert_string_equal(c.vocab.tokens[4].p, "a");
    assert_int_equal(c.vocab.bos, 0);
    ckpt_free(&c);
}

TEST(chars_option)
{
    assert_chars("dcba\n", "d|c|b|a|<BOS>|", 4); /* in order */
    assert_chars("dcba\r\n", "d|c|b|a|<BOS>|", 4);
    assert_chars("dcbae", "d|c|b|a|e|", -1);                  /* all tokens are characters */
    assert_chars("bad\n cab \r\nda d\n", "Ġ|a|b|c|d|", -1);   /* the inner space counts */
    assert_chars("bad\n cab \r\ndad\n", "a|b|c|d|<BOS>|", 4); /* lines, stripped */
    assert_chars("bad\r\fcab\v\rdad\n", "a|b|c|d|<BOS>|", 4);
    assert_chars("aab\ncc dd", "Ġ|a|b|c|d|", -1);
    assert_chars("aab\ncc\n", "Ċ|a|b|c|<BOS>|", 4); /* fits only with the newline */
    assert_chars("aab\n", NULL, 0);
    assert_chars("aa\xff", NULL, 0);
    assert_chars("", NULL, 0);
}

/* An id that is stated counts before a text that is. */
TEST(bos_by_id_and_text)
{
    static const struct {
        const char *facts;
        int bos;
    } cases[] = {{"\"bos\":4", 4},
                 {"\"bos_token\":\"b\"", 1},
                 {"\"bos_token\":\"a\"", 0},
                 {"\"bos\":4,\"bos_token\":\"b\"", 4}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        char json[300];
        snprintf(json, sizeof json, BIGRAM5 ",\"chars\":\"abcd%s\",%s}",
                 cases[i].bos < 4 ? "e" : "", cases[i].facts);
        if (read_bytes(&c, text(json), &(struct ckpt_options){0}, &(struct convert_sides){0},
                       &err) < 0)
            fail_msg("%s: %s", json, err.text);
        assert_int_equal(c.vocab.bos, cases[i].bos);
        assert_int_equal(c.vocab.add_bos, 1);
        ckpt_free(&c);
    }
}

struct tokens_run {
    struct checkpoint *c;
    struct span file;
    uint64_t n;
};

static void read_tokens(void *arg)
{
    const struct tokens_run *run = arg;
    llama2c_vocabulary(run->c, run->file, "t", run->n);
}

/* llama2.c's tokenizer.bin: what each text becomes, and which specials are called otherwise. */
TEST(llama2c_tokens)
{
    static const struct {
        const char *text, *expected;
        int type;
    } tokens[] = {
        {"\n<unk>\n", "<unk>", TOKEN_UNKNOWN},
        {"<S>", "<s>", TOKEN_CONTROL},
        {"</s>", "</s>", TOKEN_CONTROL},
        {"<0x09>", "<0x09>", TOKEN_BYTE},
        {"<0xAF>", "<0xAF>", TOKEN_BYTE},
        {"<0x:0>", "<0x:0>", TOKEN_NORMAL},
        {"<0x0/>", "<0x0/>", TOKEN_NORMAL},
        {"<0x@0>", "<0x@0>", TOKEN_NORMAL},
        {"<0x0G>", "<0x0G>", TOKEN_NORMAL},
        {"<0x00 ", "<0x00\u2581", TOKEN_NORMAL},
        {"<0x000>", "<0x000>", TOKEN_NORMAL},
        {"<1x00>", "<1x00>", TOKEN_NORMAL},
        {"   ", "\u2581\u2581\u2581", TOKEN_NORMAL},
        {"a b", "a\u2581b", TOKEN_NORMAL},
    };
    enum { N = COUNT(tokens) };
    uint8_t file[512] = {0}, *p = file + 4;
    for (int i = 0; i < N; i++) {
        float score = (float)-i;
        uint32_t n = (uint32_t)strlen(tokens[i].text);
        memcpy(p, &score, 4);
        memcpy(p + 4, &n, 4);
        memcpy(p + 8, tokens[i].text, n);
        p += 8 + n;
    }
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    ckpt_init(&c);
    c.vocab.unknown = -1;
    c.vocab.add_eos = 1;
    struct tokens_run run = {&c, {file, (size_t)(p - file)}, N};
    if (ckpt_run(&c, read_tokens, &run, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < N; i++) {
        assert_int_equal(c.vocab.tokens[i].n, strlen(tokens[i].expected));
        assert_memory_equal(c.vocab.tokens[i].p, tokens[i].expected, c.vocab.tokens[i].n);
        assert_int_equal(c.vocab.types[i], tokens[i].type);
        assert_true(c.vocab.scores[i] == (float)-i);
    }
    assert_int_equal(arr_len(c.notes), 1);
    assert_string_equal(c.notes[0], "inferred: token 1 is <s> (the tokenizer calls it otherwise)");
    assert_true(c.vocab.unknown == 0 && c.vocab.bos == 1 && c.vocab.eos == 2);
    assert_true(c.vocab.add_bos == 1 && c.vocab.add_eos == 0 && c.vocab.add_space_prefix == 1);
    ckpt_free(&c);
}

/* ---- what llama.cpp ignores ---- */

static void told_elsewhere(const char *key, struct checkpoint *c)
{
    const int told = strncmp(key, "mgpt.", 5) == 0 && strcmp(key, "mgpt.tokenizer.nfc") != 0;
    const size_t n = arr_len(c->notes);
    ckpt_note_elsewhere(c);
    if (arr_len(c->notes) != n + (size_t)told || (told && !strstr(c->notes[n], key)))
        fail_msg("%s: %s", key, told ? "not told" : "told");
}

/* It knows no key of ours; of "nfc" elsewhere.c says more. */
TEST(own_keys_are_told)
{
    struct checkpoint c;
    struct gguf_str text = {"x", 1};
    int32_t ids[1] = {1};
    double doubles[1] = {1};
    ckpt_init(&c);
    c.hp.arch = "llama";
    const struct ckpt_vocab none = c.vocab;
#define SOME_ID 1
#define SOME_CHOICE 1
#define SOME_SWITCH 1
#define SOME_REAL 1
#define SOME_TEXT text
#define SOME_BYTES text
#define SOME_IDS ids
#define SOME_DOUBLES doubles
#define TELL(kind, type, field, usual, key, note)                                                  \
    c.vocab.field = SOME_##kind;                                                                   \
    told_elsewhere(key, &c);                                                                       \
    c.vocab = none;
    VOCAB_KEYS(TELL)
    ckpt_free(&c);
}
