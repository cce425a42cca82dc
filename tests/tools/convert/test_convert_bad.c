/* tools/convert: what the readers must refuse, and what hostile bytes must not do.
 *
 * Every fixture is cut at its lengths and its bytes are flipped: a reader must refuse or describe,
 * never crash; what it describes is read to the last value, and inputs lie in blocks of exactly their
 * size, so that ASan and valgrind see every access.
 */
#include "support/convert_input.h"
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
#define BIGRAM5 "{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"lm_head\":" ROWS5 ",\"n_head\":1"

TEST(bos)
{
    struct ckpt_options bos1 = {.given = OPT_BOS, .bos = 1}, bos5 = {.given = OPT_BOS, .bos = 5};
    assert_json(BIGRAM5 ",\"chars\":\"abcd\"}", &bos1, NULL);
    assert_json(BIGRAM5 ",\"chars\":\"abcd\"}", &bos5, "BOS id is 5, the model has 5");
    assert_json(BIGRAM5 ",\"chars\":\"abcde\"}", NULL, NULL);
    assert_json(BIGRAM5 ",\"chars\":\"abc\"}", NULL, "vocabulary of 3 entries, the model has 5");
    assert_json(BIGRAM5 ",\"chars\":\"abcdef\"}", NULL, "vocabulary of 6 entries");
    assert_json(BIGRAM5 ",\"chars\":\"abca\"}", NULL, "'a' occurs twice, as entries 0 and 3");
    assert_json(BIGRAM5 ",\"chars\":[\"a\",\"b\",\"cc\",\"d\"]}", NULL,
                "entry 2 \"cc\" is not one character");
    assert_json(BIGRAM5 ",\"chars\":[\"a\",\"b\",\"\",\"d\"]}", NULL, "entry 2 \"\" is not one");
    assert_json(BIGRAM5 ",\"chars\":[\"<BOS>\",\"b\",\"c\",\"d\"]}", NULL, "BOS among them");
    assert_json(BIGRAM5 ",\"chars\":[\"a\",1]}", NULL, "expected a list of characters");
    assert_json(BIGRAM5 ",\"chars\":true}", NULL, "chars: expected the characters");
    assert_json(BIGRAM5 ",\"stoi\":{\"a\":0,\"b\":0}}", NULL, "occurs twice");
    assert_json(BIGRAM5 ",\"stoi\":{\"a\":0,\"b\":9}}", NULL, "not one of 0 to 1");
    assert_json(BIGRAM5 ",\"itos\":{\"x\":\"a\"}}", NULL, "not one of 0 to 0");
    assert_json(BIGRAM5 ",\"itos\":{\"\":\"a\"}}", NULL, "not one of 0 to 0");
    assert_json(BIGRAM5
                ",\"itos\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\",\"3\":\"d\",\"4\":\"e\",\"5\":"
                "\"f\",\"6\":\"g\",\"7\":\"h\",\"8\":\"i\",\"9\":\"j\",\"10\":\"k\"}}",
                NULL, "vocabulary of 11 entries, the model has 5");
    assert_json(BIGRAM5 ",\"itos\":{\"/:\":\"a\"}}", NULL, "not one of 0 to 0");
    assert_json(BIGRAM5 ",\"itos\":{\"000000001\":\"b\",\"2\":\"c\",\"3\":\"d\",\"0\":\"a\"}}",
                NULL, NULL);
    assert_json(BIGRAM5 ",\"itos\":{\"0000000000\":\"a\"}}", NULL, "not one of 0 to 0");
    assert_json(BIGRAM5 ",\"chars\":[\"a\",[]]}", NULL, "a list of characters, found a list");
    assert_json(BIGRAM5 ",\"vocab\":{\"itos\":{\"0\":\"a\"}}}", NULL,
                "vocabulary of 1 entries, the model has 5");
    assert_json(BIGRAM5 ",\"vocab\":{\"stoi\":{\"a\":0,\"b\":1}}}", NULL,
                "vocabulary of 2 entries, the model has 5");
    assert_json(BIGRAM5 ",\"BOS\":-1}", NULL, "BOS: expected a whole number");
    assert_json(BIGRAM5 ",\"BOS\":1,\"_bos_id\":2}", NULL, "_bos_id is 2 here and 1 elsewhere");
    assert_json(BIGRAM5 ",\"BOS\":\"<s>\",\"config\":3}", NULL,
                NULL); /* of no such kind: ignored */
}

/* ---- what must be refused ---------------------------------------------------------------------- */

#define NESTED5(open, inner, close) open open open open open inner close close close close close

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

/* Heads that share keys, a list of layers under one name, and numbers that the file states. */
TEST(layers_json)
{
    struct ckpt_options heads1 = {.given = OPT_HEADS, .n_head = 1};
    struct ckpt_options chars = {.given = OPT_CHARS};
    assert_json(HEADS4("[[1,2,3,4],[1,2,3,4]]") ",\"wpe\":[[1,2,3,4]],\"n_head\":4}", NULL, NULL);
    assert_json(HEADS4("[[1,2,3,4],[1,2,3,4],[1,2,3,4]]") ",\"wpe\":[[1,2,3,4]],\"n_head\":2}",
                NULL, "attn_wk has 3 rows, which 2 heads of 2 cannot share");
    assert_json(HEADS4("[[1,2,3,4],[1,2,3,4],[1,2,3,4]]") ",\"wpe\":[[1,2,3,4]],\"n_head\":4}",
                NULL, "attn_wk has 3 rows, which 4 heads of 1 cannot share");
    assert_json("{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"head_dim\":3}", NULL,
                "head_dim is 3, it must divide n_embd = 2");
    assert_json("{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"head_dim\":0}", NULL,
                "head_dim is 0, it must divide n_embd = 2");
    assert_json("{\"wte\":" ROWS5 ",\"wpe\":[[1,2]],\"n_head\":0}", NULL,
                "n_head is 0, it must divide n_embd = 2");
    assert_json("{\"wte\":" ROWS5 ",\"wpe\":[[1,2]]}", NULL,
                NULL); /* without a layer nothing has heads */
    assert_json(HEADS4(SQUARE4) ",\"wpe\":[[1,2,3,4]]}", NULL, "depend on it: set --heads N");
    assert_json(HEADS4(SQUARE4) ",\"wpe\":[[1,2,3,4]],\"ln_f\":[1,2,3,4],\"nHeads\":\"2\"}", NULL,
                "depend on it: set --activation NAME (relu, relu2, ...), --eps X");
    assert_json(HEADS4(SQUARE4) ",\"wpe\":[[1,2,3,4]],\"heads\":2,\"bos\":0}", NULL,
                "set --activation NAME"); /* relu2 in the first version */
    assert_json(HEADS4(SQUARE4) ",\"wpe\":[[1,2,3,4]],\"heads\":2,\"lr\":1,\"eps\":1e-8}", NULL,
                "set --eps X (\"eps\" may be the optimizer's)");
    assert_json(HEADS4(SQUARE4) ",\"wpe\":[[1,2,3,4]],\"heads\":2,\"norm\":\"layernorm\"}", NULL,
                "the norm is stated as layernorm: a microgpt's is RMSNorm");
    assert_json(HEADS4(SQUARE4) ",\"wpe\":[[1,2,3,4]],\"heads\":2,\"softcap\":15}", NULL,
                "softcap is stated: the logits of a microgpt have no limit");
    assert_json(HEADS4(SQUARE4) ",\"wpe\":[[1,2,3,4]],\"heads\":2,\"num_kv_heads\":1}", NULL,
                "1 KV heads are stated, attn_wk has 4 rows for heads of 2");
    assert_json(BIGRAM5 ",\"head_dim\":1}", &heads1, NULL); /* the user knows better */
    assert_json(BIGRAM5 "}", &chars, "--chars: no such file");
}

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
    assert_json("{\"wte\":" SQUARE4 "}", &half, "tensor rms_final: missing");
    assert_json(HEADS4(SQUARE4) "}", &half, "tensor layer0.mlp_gate: missing");
    assert_json("{\"wte\":" ROWS5 ",\"rms_final\":[1,1],\"n_head\":1,\"n_ctx\":0}", &half,
                "block_size is 0, expected 1 to");
}

TEST(bad_json)
{
    struct ckpt_options heads3 = {.given = OPT_HEADS, .n_head = 3};
    struct ckpt_options embd3 = {.given = OPT_EMBD, .n_embd = 3};
    struct ckpt_options gelu = {.given = OPT_ACTIVATION, .activation = "gelu"};
    struct ckpt_options tokenizer = {.given = OPT_TOKENIZER};
    assert_json("{}", NULL, "not a microgpt");
    assert_json("[]", NULL, "parameter list: it is empty");
    assert_json("{\"wte\":", NULL, "JSON: line 1");
    assert_json("{\"wte\":[[NaN]]}", NULL, "NaN or Infinity");
    assert_json("{\"wte\":[[1,-Infinity]]}", NULL, "NaN or Infinity");
    assert_json("{\"wte\":[[1]],\"wte\":[[1]]}", NULL, "duplicate object key");
    assert_json("{\"wte\":[[null]]}", NULL, "row 0, column 0: expected a number, found null");
    assert_json("{\"wte\":[[1,2],[1,null]]}", NULL,
                "row 1, column 1: expected a number, found null");
    assert_json("\t {\"extra\":[[1]],\"weights\":" BIGRAM5 "}}", NULL,
                NULL); /* around them: ignored */
    assert_json("{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":[[1]]}}}}}}}}}",
                NULL, "tensor x.x.x.x.x.x.x.x.x: not part of a microgpt");
    assert_json("{\"wte\":[[1,2],[3]]}", NULL, "tensor wte: row 1 has 1 numbers, row 0 has 2");
    assert_json("{\"wte\":[[1,2],3]}", NULL, "tensor wte: row 1: expected a list of numbers");
    assert_json("{\"wte\":[[]]}", NULL, "row 0 is empty");
    assert_json("{\"wte\":[]}", NULL, "it has no rows");
    assert_json("{\"wte\":{\"shape\":[2,2],\"data\":[1,2,3]}}", NULL,
                "shape is [2, 2], data has 3");
    assert_json("{\"wte\":{\"shape\":[9223372036854775807,2],\"data\":[1]}}", NULL, "data has 1");
    assert_json("{\"wte\":{\"shape\":[1],\"data\":[1]},\"wpe\":[[1]]}", NULL, "expected a matrix");
    assert_json("{\"wte\":{\"shape\":[1,1],\"data\":\"AAAA\"}}", NULL, "base64 needs a dtype");
#define BASE64(shape, data)                                                                        \
    "{\"wte\":{\"shape\":" shape ",\"dtype\":\"f32\",\"data\":\"" data "\"}}"
    assert_json(BASE64("[1,1]", "AAAAA"), NULL, "data: not base64");
    assert_json(BASE64("[1,1]", "AA="), NULL, "data: not base64");
    assert_json(BASE64("[1,2]", "AAAAAA=="), NULL, "shape is [1, 2], data has 4 bytes of 4 each");
    assert_json(BASE64("[4294967296,4294967296]", "AAAAAA"), NULL, "data has 4 bytes of 4 each");
    assert_json(BASE64("[4611686018427387905,1]", "AAAAAA"), NULL, "data has 4 bytes of 4 each");
    assert_json("{\"wte\":{\"shape\":[],\"data\":[1]}}", NULL, "expected two numbers above 0");
    assert_json("{\"wte\":{\"shape\":[1,1,1],\"data\":[1]}}", NULL, "expected two numbers above 0");
    assert_json("{\"wte\":{\"shape\":[1,0],\"data\":[1]}}", NULL, "expected two numbers above 0");
    assert_json("{\"wte\":{\"shape\":[1,2],\"data\":[1,2,3,4]}}", NULL,
                "shape is [1, 2], data has 4 numbers");
    assert_json("{\"wte\":{\"shape\":[1,2],\"data\":[1,\"a\"]}}", NULL,
                "number 1: expected a number, found a string");
    assert_json("{\"wte\":{\"shape\":[1,2],\"data\":[[1,2,3]]}}", NULL,
                "shape is [1, 2], data has 1 rows of 3 numbers");
    assert_json("{\"wte\":{\"data\":[1]}}", NULL, "wte.data: not part of a microgpt");
    assert_json("{\"wte\":7}", NULL, "tensor wte: a number, expected a matrix");
    assert_json("{\"wte\":" ROWS5 ",\"wpe\":{}}", NULL, "tensor wpe: an object, expected a matrix");
    assert_json("{\"wte\":" ROWS5 ",\"lm_head\":\"x\"}", NULL,
                "tensor lm_head: a string, expected a matrix");
    assert_json(BIGRAM5 ",\"rms_final\":[1,2,3]}", NULL,
                "tensor rms_final: shape [3], expected [2]");
    assert_json(BIGRAM5 ",\"rms_final\":[[1,2],[3,4]]}", NULL,
                "tensor rms_final: shape [2, 2], expected [2]");
    assert_json(BIGRAM5 ",\"layer00001.wq\":[[1]]}", NULL, "layer00001.wq: not part of");
    assert_json(BIGRAM5 ",\"wq_1x\":[[1]]}", NULL, "wq_1x: not part of");
    assert_json(BIGRAM5 ",\"" NESTED5("0123456789", "0123456789", "0123456789") "\":[[1]]}", NULL,
                "not part of a microgpt");
    assert_json("{\"wte\":[[Infinity]]}", NULL, "NaN or Infinity");
    assert_json(BIGRAM5 ",\"rms_1\":[1,2]}", NULL, "tensor rms_1: not part of a microgpt");
    assert_json(BIGRAM5 ",\"mlp_gate\":[[1]]}", NULL, "tensor mlp_gate: not part of a microgpt");
    assert_json(BIGRAM5 ",\"layer0.wq\":[[1,2],[3,4]]}", NULL, "layer0.attn_wk: missing");
    assert_json(BIGRAM5 ",\"layer9999.wq\":[[1]]}", NULL, "layer9999.wq: not part of");
    assert_json(BIGRAM5 ",\"layer0.wq\":[[1]],\"attn_wq_0\":[[1]]}", NULL, "same matrix as layer0");
    assert_json("{\"wte\":" ROWS5 "}", NULL, "tensor wpe: missing");
    assert_json("{\"wte\":" ROWS5 ",\"wpe\":[[1]]}", NULL, "wpe: shape [1, 1], expected [1, 2]");
    assert_json(BIGRAM5 ",\"n_embd\":3}", NULL, "n_embd is stated as 3, the matrices say 2");
    assert_json(BIGRAM5 "}", &embd3, "n_embd is stated as 3");
    assert_json(BIGRAM5 "}", &heads3, "n_head is 3, it must divide n_embd = 2");
    assert_json(BIGRAM5 ",\"head_dim\":1}", NULL, "n_head 1 times head_dim 1 is not n_embd = 2");
    assert_json(BIGRAM5 "}", &gelu, "activation gelu: expected relu");
    assert_json(BIGRAM5 "}", &tokenizer, "--tokenizer does not apply to microgpt JSON");
    assert_json("\xEF\xBB\xBF{}", NULL, "not a microgpt");
    assert_json("{\"wte\":{\"shape\":[2,2],\"data\":true}}", NULL,
                "data: expected a list of numbers or base64, found true");
    assert_json("{\"x\":" NESTED5("{\"x\":", NESTED5("{\"x\":", "[[1]]", "}"), "}") "}", NULL,
                "nested too deeply");
    assert_json("{\"weights\":{\"wte\":[[1]]},\"config\":{\"rms_eps\":-1}}", NULL,
                "rms_eps: out of range");
    assert_json("{\"weights\":{\"wte\":[[1]]},\"config\":{\"rms_eps\":1e-5,\"norm_eps\":1e-6}}",
                NULL, "norm_eps is stated twice, differently");
    assert_json(BIGRAM5 ",\"rope_base\":10,\"rope_theta\":10.5}", NULL,
                "rope_theta is stated twice, differently");
    assert_json(BIGRAM5 ",\"n_layer\":0.5}", NULL, "n_layer: expected a whole number from 0 to");
    assert_json(BIGRAM5 ",\"n_layer\":-1}", NULL, "n_layer: expected a whole number from 0 to");
    assert_json(BIGRAM5 ",\"bos\":2147483648}", NULL, "bos: expected a whole number from 0 to");
    assert_json(BIGRAM5 ",\"n_heads\":2}", NULL, "n_heads is 2 here and 1 elsewhere");
    assert_json(BIGRAM5 ",\"activation\":\"tanh\"}", NULL, "tanh");
    assert_json(BIGRAM5 ",\"wq\":7,\"layer0.wq\":[[1,2],[3,4]],\"weights\":3}", NULL,
                "attn_wk: missing");
    assert_json("[1,2,3]", NULL, "3 numbers do not fit");
    assert_json("[1,\"a\"]", NULL, "number 1: expected a number, found a string");
    assert_json("[[[1]],[[1]]]", NULL, "2 matrices, expected 3 and 6");
}

static void assert_bin(const struct span bytes, struct span tokenizer, const char *expected)
{
    static const struct ckpt_options none = {0};
    struct convert_sides sides = {tokenizer, {NULL, 0}};
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    if (read_bytes(&c, bytes, &none, &sides, &err) == MGPT_OK || !strstr(err.text, expected))
        fail_msg("expected '%s', found '%s'", expected, err.text);
    ckpt_free(&c);
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
        {"v1.bin", 8, -4, "dim is -4"},
        {"v1.bin", 8, 1 << 24, "expected 67554"}, /* the largest that is looked at: no overflow */
        {"v1.bin", 12, 0, "hidden_dim is 0"},
        {"v1.bin", 16, 1 << 20, "n_layers is 1048576"},
        {"v1.bin", 20, 3, "does not give 3 heads"},
        {"v1.bin", 24, 3, "n_kv_heads 3 does not divide"},
        {"v1.bin", 28, -7, "vocab_size is -7"},
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
}

TEST(bad_tokenizers)
{
    struct file model = fixture("v0.bin"), f = fixture("tokenizer.bin");
    struct span bytes = {model.data, model.size};
    uint8_t longer[128] = {0};
    memcpy(longer, f.data, f.size);
    assert_bin(bytes, (struct span){NULL, 0}, "neither tok7.bin nor tokenizer.bin is beside it");
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

/* ---- hostile bytes ----------------------------------------------------------------------------- */

/* Reads; when that succeeds, every value as well. */
static int exercise(struct span bytes, const struct convert_sides *sides)
{
    static const struct ckpt_options none = {0}, heads = {.given = OPT_HEADS, .n_head = 4};
    struct checkpoint c;
    mgpt_error err = {0};
    int is_json = bytes.size && bytes.data[0] == '{';
    int status = read_bytes(&c, bytes, is_json ? &heads : &none, sides, &err);
    if (status < 0)
        assert_true(err.text[0] && err.status == status);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(c.tensors); i++) {
        float v[64];
        uint64_t n = c.tensors[i].n_values;
        for (uint64_t first = 0; first < n; first += 64)
            ckpt_values(&c.tensors[i], first, n - first < 64 ? (size_t)(n - first) : 64, v);
    }
    ckpt_free(&c);
    return status;
}

static const char *const samples[] = {"flat.json",   "params.json",     "shaped.json",
                                      "bigram.json", "v0-own-head.bin", "v1.bin",
                                      "v2.bin",      "tokenizer.bin"};

/* One sample as the model, or as the tokenizer of a good one; in a block of exactly its size. */
static int exercise_sample(const char *name, const uint8_t *data, size_t n, const struct file *good,
                           const struct file *tokenizer)
{
    uint8_t *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, data, n);
    int is_tokenizer = strcmp(name, "tokenizer.bin") == 0;
    struct span bytes = {exact, n}, model = {good->data, good->size};
    struct convert_sides sides = {
        is_tokenizer ? bytes : (struct span){tokenizer->data, tokenizer->size}, {NULL, 0}};
    int status = exercise(is_tokenizer ? model : bytes, &sides);
    free(exact);
    return status;
}

TEST(truncated)
{
    struct file good = fixture("v0.bin"), tokenizer = fixture("tokenizer.bin");
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct file f = fixture(samples[i]);
        size_t step = f.size > 1000 ? 7 : 1, whole = f.size;
        while (whole > 0 && f.data[whole - 1] == '\n') /* a JSON text is whole without it */
            whole--;
        for (size_t n = 0; n < whole; n += step)
            assert_int_not_equal(exercise_sample(samples[i], f.data, n, &good, &tokenizer),
                                 MGPT_OK);
        assert_int_equal(exercise_sample(samples[i], f.data, f.size, &good, &tokenizer), MGPT_OK);
        file_close(&f);
    }
    file_close(&good);
    file_close(&tokenizer);
}

TEST(flipped)
{
    struct file good = fixture("v0.bin"), tokenizer = fixture("tokenizer.bin");
    uint64_t x = 1;
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct file f = fixture(samples[i]);
        uint8_t *copy = malloc(f.size);
        assert_non_null(copy);
        int n_ok = 0, n_bad = 0;
        for (int round = 0; round < 400; round++) {
            memcpy(copy, f.data, f.size);
            for (int k = 0; k < 1 + round % 3; k++) {
                x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                copy[(x >> 33) % (round % 2 && f.size > 64 ? 64 : f.size)] ^= (uint8_t)(x >> 24);
            }
            int status = exercise_sample(samples[i], copy, f.size, &good, &tokenizer);
            n_ok += status == MGPT_OK;
            n_bad += status < 0;
        }
        assert_int_equal(n_ok + n_bad, 400);
        assert_true(n_bad > 0);
        free(copy);
        file_close(&f);
    }
    file_close(&good);
    file_close(&tokenizer);
}
