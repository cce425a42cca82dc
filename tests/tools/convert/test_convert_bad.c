/* tools/convert: what the readers must refuse, and what hostile bytes must not do.
 *
 * Every fixture is cut at its lengths and its bytes are flipped: a reader must refuse or describe,
 * never crash; what it describes is read to the last value, and inputs lie in blocks of exactly their
 * size, so that ASan and valgrind see every access.
 */
#include "support/hostile.h"
#include "support/run.h"
#include "support/unit.h"

/* Reads JSON that must be refused, or must not (expected NULL). */
static void assert_json(const char *json, const struct ckpt_options *options, const char *expected)
{
    static const struct ckpt_options none = {0};
    static const struct convert_sides no_sides;
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    int status = read_bytes(&c, text(json), options ? options : &none, &no_sides, &err);
    must_say(json, status, &err, expected);
    ckpt_free(&c);
}

#define ROWS5 "[[1,2],[3,4],[5,6],[7,8],[9,10]]"

/* A character that BOS's text begins with is not BOS. */
TEST(bos_by_its_text)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    const char *json = "{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"lm_head\":" ROWS5
                       ",\"vocab\":[\"<\",\"a\",\"b\",\"<BOS>\",\"B\"],\"bos\":\"<BOS>\"}";
    read_bytes(&c, text(json), &(struct ckpt_options){0}, &(struct convert_sides){0}, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(c.vocab.bos, 3);
    ckpt_free(&c);
}

/* ---- what must be refused ---------------------------------------------------------------------- */

/* Facts by other names, in other places, and of kinds that do not count. */
TEST(odd_json)
{
    static const struct ckpt_options none = {0};
    static const struct convert_sides no_sides;
    static const char *const texts[] = {
        "{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"lm_head\":" ROWS5 ",\"head_dim\":1,\"activation\":3}",
        "{\"model\":{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"lm_head\":" ROWS5 "},\"hparams\":"
        "{\"n_heads\":2,\"n_layers\":0,\"activation\":\"relu2\"},\"vocab\":null}",
        "{\"wte\":{\"shape\":[5,2],\"dtype\":\"f16\",\"data\":\"ADwAQAA8AEAAPABAADwAQAA8AEA=\"},"
        "\"wpe\":[[1,2]],\"lm_head\":" ROWS5 ",\"n_head\":2,\"vocab\":5}",
        "{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"lm_head\":null,\"x\":null,\"n_head\":2}",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        struct span bytes = {(const uint8_t *)texts[i], strlen(texts[i])};
        if (read_bytes(&c, bytes, &none, &no_sides, &err) != MGPT_OK)
            fail_msg("%s", err.text);
        assert_int_equal(c.hp.n_head, 2);
        assert_int_equal(c.hp.n_layer, 0);
        assert_int_equal(c.hp.n_vocab, 5);
        assert_string_equal(c.hp.activation, i == 1 ? "relu2" : "relu");
        assert_int_equal(arr_len(c.tensors), i == 3 ? 2 : 3); /* null is absent: a tied head */
        float row[2];
        ckpt_values(&c.tensors[0], 0, 2, row);
        assert_true(row[0] == 1 && row[1] == 2);
        ckpt_free(&c);
    }
}

#define SQUARE4 "[[1,2,3,4],[1,2,3,4],[1,2,3,4],[1,2,3,4]]"
#define HEADS4(keys)                                                                               \
    "{\"wte\":" SQUARE4 ",\"attn_wq\":[" SQUARE4 "],\"attn_wk\":[" keys "],\"attn_wv\":[" keys     \
    "],\"attn_wo\":[" SQUARE4 "],\"fc1\":[[[1,2,3,4]]],\"fc2\":[[[1],[1],[1],[1]]]"

/* A microgpt that rotates: without gains its norms have ones; the numbers are those of the file. */
TEST(rotated_json)
{
    static const struct convert_sides no_sides;
    static const struct ckpt_options half = {.given = OPT_POSITIONS, .positions = "half"};
    static const char bare[] =
        HEADS4(SQUARE4) ",\"mlp_gate\":[[[1,2,3,4]]],\"rms_final\":[1,2,3,4],"
                        "\"rms_eps\":1e-6,\"rope_base\":500,\"n_head\":2,\"act\":\"silu\","
                        "\"n_ctx\":8}";
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    size_t n_ones = 0;
    if (read_bytes(&c, text(bare), &half, &no_sides, &err) != MGPT_OK)
        fail_msg("%s", err.text);
    assert_true(c.hp.norm_eps == 1e-6f && c.hp.rope_base == 500 && c.hp.n_ctx == 8);
    for (size_t i = 0; i < arr_len(c.tensors); i++) {
        float v[4];
        ckpt_values(&c.tensors[i], 0, 4, v);
        n_ones += v[0] == 1 && v[1] == 1 && v[2] == 1 && v[3] == 1 && c.tensors[i].n_dims == 1;
    }
    assert_int_equal(n_ones, 2); /* attn_norm, ffn_norm */
    ckpt_free(&c);
}

/* Flags as JSON and Python write them, and as the texts of safetensors' metadata. */
TEST(flags_json)
{
    static const char *const spellings[][2] = {{"false", "true"},
                                               {"0", "1"},
                                               {"\"false\"", "\"true\""},
                                               {"\"False\"", "\"True\""},
                                               {"\"0\"", "\"1\""}};
    for (size_t i = 0; i < 4 * COUNT(spellings); i++) {
        const int on = i % 2, is_final = i / 2 % 2;
        char json[200];
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        snprintf(json, sizeof json, "{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"n_head\":1,\"%s\":%s}",
                 is_final ? "final_norm" : "embedding_norm", spellings[i / 4][on]);
        if (read_bytes(&c, text(json), &(struct ckpt_options){0}, &(struct convert_sides){0},
                       &err) != MGPT_OK)
            fail_msg("%s: %s", json, err.text);
        if ((is_final ? c.hp.final_norm : c.hp.embedding_norm) != on)
            fail_msg("%s: not %d", json, on);
        ckpt_free(&c);
    }
}

/* ---- microgpt_json.txt ---- */

struct json_rows {
    char names[16][16], texts[16][512]; /* "let" */
    size_t n;
};

/* The text with its $NAMEs replaced. */
static void expand(const struct json_rows *r, const char *text, char to[4096])
{
    size_t n = 0;
    while (*text && n < 3500) {
        size_t length =
            *text == '$' ? strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0;
        size_t i = 0;
        while (length && i < r->n &&
               (strlen(r->names[i]) != length || strncmp(r->names[i], text + 1, length) != 0))
            i++;
        assert_true(!length || i < r->n);
        n += length ? (size_t)snprintf(to + n, 4096 - n, "%s", r->texts[i]) : 1;
        if (!length)
            to[n - 1] = *text;
        text += 1 + length;
    }
    to[n] = 0;
}

/* The option "--name=value" or "--name"; what follows it. */
static const char *take_option(const char *text, struct ckpt_options *o)
{
    static char name[32], value[16];
    int n = sscanf(text, "%31[^= ]=%15[^ ]", name, value);
    for (size_t i = 0; i < ckpt_n_option_rows; i++)
        if (strcmp(ckpt_option_rows[i].name, name) == 0)
            o->given = ckpt_option_rows[i].option;
    assert_true(n > 0 && o->given);
    o->activation = o->positions = value;
    o->n_head = o->n_embd = o->bos = atoi(value);
    return strchr(text, ' ') + 1;
}

static void take_row(char *line, void *user)
{
    struct json_rows *r = user;
    struct ckpt_options options = {0};
    char json[4096], *expected = strstr(line, " => ");
    const char *text = line + strspn(line, " ");
    if (sscanf(line, "let %15s", r->names[r->n]) == 1) {
        expand(r, line + 5 + strlen(r->names[r->n]), json);
        snprintf(r->texts[r->n++], sizeof *r->texts, "%.511s", json);
        return;
    }
    assert_non_null(expected);
    *expected = 0;
    expected += 4;
    if (strncmp(text, "--", 2) == 0)
        text = take_option(text, &options);
    expand(r, text, json);
    assert_json(json, &options, strcmp(expected, "ok") == 0 ? NULL : expected);
}

TEST(bad_json)
{
    static struct json_rows rows;
    assert_true(unit_rows("tests/tools/convert/microgpt_json.txt", take_row, &rows) > 115);
    assert_json("\xEF\xBB\xBF{}", NULL, "not a microgpt");
    struct checkpoint c;
    mgpt_error err;
    assert_int_equal(read_bytes(&c, text("\xEF\xBB\xBF{]"), &(struct ckpt_options){0},
                                &(struct convert_sides){0}, &err),
                     MGPT_EFILE);
    assert_int_equal(err.offset, 4); /* in the file */
    ckpt_free(&c);
    assert_json("\t {\"extra\":[[1]],\"weights\":{\"wte\":" ROWS5 ",\"wpe\":[[1,2]]}}", NULL, NULL);
}

static size_t put_matrix(char *to, size_t cap, const char *name, int layer, int rows, int columns)
{
    size_t n = (size_t)snprintf(to, cap, ",\"layer%d.%s\":[", layer, name);
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < columns; k++)
            n += (size_t)snprintf(to + n, cap - n, "%s1%s",
                                  k   ? ","
                                  : r ? ",["
                                      : "[",
                                  k == columns - 1 ? "]" : "");
    return n + (size_t)snprintf(to + n, cap - n, "]");
}

/* The second layer's matrices have the shapes of the first's. */
TEST(shapes_of_layers)
{
    static const char *const names[] = {"attn_wq", "attn_wk", "attn_wv",
                                        "attn_wo", "mlp_fc1", "mlp_fc2"};
    for (size_t wrong = 0; wrong <= 2 * COUNT(names); wrong++) {
        char json[4096], name[40];
        size_t n =
            (size_t)snprintf(json, sizeof json, "{\"n_head\":1,\"wpe\":[[1,2]],\"wte\":" ROWS5);
        for (size_t i = 0; i < 2 * COUNT(names); i++) {
            int is_wrong = i >= COUNT(names) && i % COUNT(names) == wrong / 2;
            n += put_matrix(json + n, sizeof json - n, names[i % COUNT(names)], i >= COUNT(names),
                            2 + (is_wrong && wrong % 2 == 0), 2 + (is_wrong && wrong % 2 == 1));
        }
        snprintf(json + n, sizeof json - n, "}");
        snprintf(name, sizeof name, "layer1.%s", wrong < 12 ? names[wrong / 2] : "");
        assert_json(json, NULL, wrong < 12 ? name : NULL);
    }
}

/* ---- llama2.c ---- */

static void assert_bin(const struct span bytes, struct span tokenizer, const char *expected)
{
    assert_refused(bytes, NULL, &(struct convert_sides){tokenizer, {NULL, 0}}, expected);
}

/* A copy of a fixture with one i32 changed. */
static uint8_t *changed(const struct file *f, size_t at, int32_t v)
{
    uint8_t *copy = malloc(f->size);
    assert_non_null(copy);
    memcpy(copy, f->data, f->size);
    memcpy(copy + at, &v, sizeof v);
    return copy;
}

TEST(bad_headers)
{
    static const struct {
        const char *file;
        size_t at;
        int32_t v;
        const char *expected;
    } cases[] = {
        {"v1.bin", 4, 3, "expected version 1 or 2"},
        {"v1.bin", 4, 0, "expected version 1 or 2"},
        {"v1.bin", 8, INT32_MAX, "dim is 2147483647"},
        {"v1.bin", 8, 1 << 24, "expected 67554"}, /* the largest that is looked at: no overflow */
        {"v1.bin", 16, 1 << 20, "n_layers is 1048576"},
        {"v1.bin", 20, 3, "does not give 3 heads"},
        {"v1.bin", 20, 4, "dim 4 does not give 4 heads of an even width"},
        {"v1.bin", 24, 3, "n_kv_heads 3 does not divide"},
        {"v1.bin", 32, INT32_MIN, "seq_len is -2147483648"},
        {"v1.bin", 28, 8, "expected 1424 bytes, found 1408"},
        {"v2.bin", 37, 0, "group size 0"},
        {"v2.bin", 37, -1, "group size -1"},
        {"v2.bin", 37, 3, "group size 3 does not divide"},
        {"v0.bin", 24, 6, "seq 6: expected 1228 bytes, found 1220"},
        {"v0.bin", 0, INT32_MAX, "not a checkpoint"},
        {"v0.bin", 20, INT32_MIN, "not a checkpoint"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct file f = fixture(cases[i].file);
        uint8_t *copy = changed(&f, cases[i].at, cases[i].v);
        assert_bin((struct span){copy, f.size}, (struct span){NULL, 0}, cases[i].expected);
        free(copy);
        file_close(&f);
    }
    static const struct {
        const char *name;
        int32_t min, max;
    } numbers[] = {{"dim", 1, 1 << 24},     {"hidden_dim", 1, 1 << 24}, {"n_layers", 0, 1024},
                   {"n_heads", 1, 1 << 24}, {"n_kv_heads", 1, 1 << 24}, {"vocab_size", 1, 1 << 24},
                   {"seq_len", 1, 1 << 24}};
    for (size_t i = 0; i < 2 * COUNT(numbers); i++) { /* just outside of the range */
        struct file f = fixture("v1.bin");
        int32_t min = numbers[i / 2].min, max = numbers[i / 2].max, v = i % 2 ? max + 1 : min - 1;
        char expected[120];
        uint8_t *copy = changed(&f, 8 + 4 * (i / 2), v);
        snprintf(expected, sizeof expected, "header: %s is %d, expected %d to %d",
                 numbers[i / 2].name, v, min, max);
        assert_bin((struct span){copy, f.size}, (struct span){NULL, 0}, expected);
        free(copy);
        file_close(&f);
    }
    assert_bin(text("24ka"), (struct span){NULL, 0},
               "ends at byte 4 inside its header"); /* no more than its mark */
}

TEST(bad_tokenizers)
{
    struct file model = fixture("v0.bin"), f = fixture("tokenizer.bin");
    struct span bytes = {model.data, model.size};
    uint8_t longer[128] = {0};
    memcpy(longer, f.data, f.size);
    assert_bin(bytes, (struct span){NULL, 0}, "neither tok7.bin nor tokenizer.bin is next to it");
    assert_bin(bytes, (struct span){longer, f.size + 8}, "holds 8 tokens, the model has 7");
    assert_bin(bytes, (struct span){longer, f.size + 9}, "token 8 at byte 96 does not fit");
    assert_bin(bytes, (struct span){longer, 17}, "holds 1 tokens, the model has 7");
    for (int32_t lie = -1; lie < 2; lie++) { /* lengths near 2^32, 0 and the file's own size */
        uint8_t *copy = changed(&f, 8, lie ? lie * (int32_t)f.size : 0);
        assert_bin(bytes, (struct span){copy, f.size}, "tokenizer tokenizer.bin");
        free(copy);
    }
    uint8_t *copy = changed(&f, 4, 0x7fc00000);
    assert_bin(bytes, (struct span){copy, f.size}, "token 0 at byte 4: its score is not a number");
    free(copy);
    file_close(&f);
    file_close(&model);
}

/* ---- llm.c ---- */

static void assert_llmc(const char *file, size_t at, int32_t v, struct span tokenizer,
                        const char *expected)
{
    struct file f = fixture_in("llmc", file);
    uint8_t *copy = changed(&f, at, v);
    assert_bin((struct span){copy, f.size}, tokenizer, expected);
    free(copy);
    file_close(&f);
}

/* Of each number of the header: the largest and the smallest that are read, and those next to them. */
TEST(llmc_headers)
{
    static const struct {
        const char *name;
        int32_t max;
        const char *largest; /* what is wrong with it then */
    } numbers[] = {{"max_seq_len", 1 << 24, "its header implies"},
                   {"vocab_size", 1 << 24, "padded_vocab_size is 264"},
                   {"num_layers", 1024, "its header implies"},
                   {"num_heads", 1 << 24, "it must divide channels"},
                   {"channels", 1 << 24, "its header implies"},
                   {"padded_vocab_size", 1 << 24, "its header implies"}};
    const struct span none = {NULL, 0};
    char expected[80];
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const int32_t max = numbers[i].max, bad[] = {INT32_MIN, 0, max + 1, INT32_MAX};
        assert_llmc("v3.bin", 8 + 4 * i, max, none, numbers[i].largest);
        for (size_t k = 0; k < COUNT(bad); k++) {
            snprintf(expected, sizeof expected, "llm.c: %s is %d, expected 1 to %d",
                     numbers[i].name, bad[k], max);
            assert_llmc("v3.bin", 8 + 4 * i, bad[k], none, expected);
        }
    }
    assert_llmc("v1.bin", 4, 0, none, "version is 0, expected 1 to 5");
    assert_llmc("v5.bin", 4, 6, none, "version is 6, expected 1 to 5");
    assert_llmc("v3.bin", 20, 3, none, "num_heads is 3, it must divide channels");
    assert_llmc("v3.bin", 28, 260, none, "padded_vocab_size is 260, vocab_size is 261");
    struct file f = fixture_in("llmc", "v1.bin");
    assert_bin((struct span){f.data, 1023}, none, "the header needs 1024 bytes");
    assert_bin((struct span){f.data, 1024}, none, "has 1024 bytes, its header implies 7312");
    file_close(&f);
}

TEST(llmc_tokens)
{
    static const struct {
        size_t at;
        int32_t v;
        const char *expected;
    } cases[] = {
        {0, 1, "its header is not one of"},  {4, 0, "its header is not one of"},
        {4, 3, "its header is not one of"},  {8, 0, "its header is not one of"},
        {8, -1, "its header is not one of"}, {8, (1 << 24) + 1, "its header is not one of"},
        {8, 1 << 24, "ends inside a token"}, {8, 262, "it ends inside a token"},
        {12, 261, "it has no end of text"},  {12, -1, "it has no end of text"}};
    struct file tokens = fixture_in("llmc", "gpt2_tokenizer.bin");
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t *copy = changed(&tokens, cases[i].at, cases[i].v);
        assert_llmc("v1.bin", 4, 1, (struct span){copy, tokens.size}, cases[i].expected);
        free(copy);
    }
    assert_llmc("v1.bin", 4, 1, (struct span){tokens.data, 1023}, "its header is not one of");
    assert_llmc("v1.bin", 4, 1, (struct span){tokens.data, tokens.size - 1}, "ends inside a token");
    file_close(&tokens);
}

/* ---- hostile bytes ----------------------------------------------------------------------------- */

struct sample {
    struct file model, tokenizer;
    int is_tokenizer; /* the bytes that are damaged are those of the tokenizer */
};

static int read_sample(struct span bytes, void *user)
{
    static const struct ckpt_options none = {0}, heads = {.given = OPT_HEADS, .n_head = 4};
    const struct sample *s = user;
    const struct span model = {s->model.data, s->model.size};
    struct convert_sides sides = {{s->tokenizer.data, s->tokenizer.size}, {NULL, 0}};
    int is_json = bytes.size && bytes.data[0] == '{';
    if (s->is_tokenizer)
        sides.tokenizer = bytes;
    return read_whole(s->is_tokenizer ? model : bytes, is_json ? &heads : &none, &sides);
}

/* The limit counts, not what follows: no byte beyond the first is looked at. */
TEST(too_long)
{
    static const struct ckpt_options none;
    const struct ckpt_input in = {.bytes = {(const uint8_t *)"{}  ", ((size_t)512 << 20) + 1},
                                  .options = &none};
    struct checkpoint c;
    mgpt_error err;
    ckpt_init(&c);
    assert_int_equal(run_read(microgpt_json_read, &c, &in, &err), MGPT_EFILE);
    assert_string_equal(err.text, "JSON of 536870913 bytes, the limit is 536870912");
    ckpt_free(&c);
}

TEST(damaged)
{
    static const char *const samples[] = {"flat.json",   "params.json",     "shaped.json",
                                          "bigram.json", "v0-own-head.bin", "v1.bin",
                                          "v2.bin",      "tokenizer.bin"};
    struct sample s = {.model = fixture("v0.bin"), .tokenizer = fixture("tokenizer.bin")};
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct file f = fixture(samples[i]);
        s.is_tokenizer = strcmp(samples[i], "tokenizer.bin") == 0;
        hostile_cuts(&f, f.size > 1000 ? 7 : 1, read_sample, &s);
        assert_true(hostile_flips(&f, 400, 64, read_sample, &s) > 0);
        file_close(&f);
    }
    file_close(&s.model);
    file_close(&s.tokenizer);
}
