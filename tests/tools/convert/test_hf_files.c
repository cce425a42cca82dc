/* Hugging Face models: files that are missing or disagree, tensors that are not what they should be,
 * and what hostile bytes must not do.
 *
 * The golden models are the good directories; with one thing changed they are the bad ones.
 */
#include "convert/containers/json_read.h"
#include "convert/containers/safetensors.h"
#include "convert/containers/state_open.h"
#include "convert/families/hf.h"
#include "support/hf_dir.h"
#include "support/run.h"
#include "support/unit.h"

/* ---- config.json: Apertus, Granite 4, SmolLM3 --------------------------------------------------- */

TEST(later_families)
{
    static const struct {
        const char *model, *key, *json, *expected;
    } cases[] = {
        {"apertus", "hidden_act", "\"relu2\"", "mlp.act_fn.alpha_n: no apertus"},
        {"arcee", "hidden_act", "\"xielu\"", "hidden_act: xielu is not supported"},
        {"granite_4", "num_local_experts", "4", "layers.0.mlp.gate.weight: missing"},
        {"granite_4", "position_embedding_type", "null", "position_embedding_type: only rope is"},
        {"granite_4", "layer_types", "[\"mamba\",\"attention\"]",
         "layer_types: expected attention in every"},
        {"granite_4", "layer_types", "[\"attention\"]", "layer_types: expected attention in every"},
        {"granite_4", "layer_types", "[\"attention\",\"attention\"]", NULL},
        {"granite_4", "mlp_bias", "true", NULL}, /* which shared_mlp does not read */
        {"granite_4", "shared_intermediate_size", "34", "input_linear.weight: shape [66, 24]"},
        {"dots1", "n_group", "4", "n_group: 4 groups of 6 experts"},
        {"dots1", "num_experts_per_tok", "4", "topk_group: fewer experts than"},
        {"dots1", "topk_group", "3", "topk_group is 3, expected 1 to 2"},
        {"dots1", "norm_topk_prob", "null", "norm_topk_prob: missing"},
        {"glm4_moe", "num_hidden_layers", "2", NULL}, /* the third predicts further tokens */
        {"glm4_moe", "n_shared_experts", "3", "shared_experts.gate_proj.weight: shape"},
        {"glm4_moe", "use_qk_norm", "false", "_norm.weight: no glm4_moe of 3 layers has it"},
        {"ernie4_5_moe", "use_bias", "true", "use_bias: true is not supported"},
        {"ernie4_5_moe", "moe_intermediate_size", "[8,9,8,8]", "another number for each layer"},
        {"ernie4_5_moe", "moe_layer_interval", "1", "layers.2.mlp.gate.weight: missing"},
        {"hunyuan_moe", "moe_topk", "[2,2]", NULL},
        {"hunyuan_moe", "moe_topk", "[2]", "moe_topk: expected 1 to 4 for every layer"},
        {"lfm2_moe", "num_dense_layers", "2", "tensor layers.1.feed_forward.w1.weight: missing"},
        {"smollm3", "no_rope_layer_interval", "0",
         "no_rope_layer_interval is 0, expected 1 to 1024"},
        {"smollm3", "no_rope_layer_interval", "2", "no_rope_layers: entry 1: only a 0 in"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        set_key(&d, cases[i].key, cases[i].json);
        assert_read(&d, "config.json", cases[i].key, cases[i].expected);
        dir_free(&d);
    }
}

/* All layers after the last one that predict further tokens are left out. */
TEST(further_layers)
{
    struct dir d = golden("glm4_moe");
    set_key(&d, "num_hidden_layers", "1");
    assert_read(&d, "config.json", "one further", "layers.2.");
    set_key(&d, "num_nextn_predict_layers", "2");
    assert_read(&d, "config.json", "two further", NULL);
    dir_free(&d);
}

/* ---- files ------------------------------------------------------------------------------------- */

TEST(missing_files)
{
    struct dir d = golden("llama");
    remove_file(&d, "model.safetensors");
    assert_read(&d, "config.json", "no weights", "no weights: looked for model.safetensors");
    dir_free(&d);
    d = golden("llama");
    remove_file(&d, "config.json");
    assert_read(&d, "model.safetensors", "no config", "side file config.json");
    dir_free(&d);
    d = golden("llama");
    set_file(&d, "config.json", copy_of("[]", 2));
    assert_read(&d, "model.safetensors", "no object", "config.json: expected an object");
    dir_free(&d);
    d = golden("llama");
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    set_file(&d, "model.safetensors", copy_of(pointer, sizeof pointer - 1));
    assert_read(&d, "config.json", "LFS", "model.safetensors: a pointer of Git LFS");
    dir_free(&d);
}

/* The index with every `from` replaced by `to`. */
static void edit_index(struct dir *d, const char *from, const char *to)
{
    const struct span *s = file_in(d, "model.safetensors.index.json");
    size_t n = 0, n_from = strlen(from), n_to = strlen(to);
    char *text = malloc(s->size * 3);
    assert_non_null(text);
    for (size_t i = 0; i < s->size;) {
        if (s->size - i >= n_from && memcmp(s->data + i, from, n_from) == 0) {
            memcpy(text + n, to, n_to);
            n += n_to;
            i += n_from;
        } else {
            text[n++] = (char)s->data[i++];
        }
    }
    set_file(d, "model.safetensors.index.json", copy_of(text, n));
    free(text);
}

TEST(index)
{
    static const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"x", "x", NULL},
        {"model-00001", "../model-00001", "expected the plain name of a file, found ../model"},
        {"model-00001", "/model-00001", "plain name of a file"},
        {"model-00001", "a\\\\b", "plain name of a file"},
        {"model-00001", "a\\u0001b", "plain name of a file"},
        {"\"model-00001-of-00002.safetensors\"", "\"..\"", "plain name of a file"},
        {"\"model-00001-of-00002.safetensors\"", "\"\"", "plain name of a file"},
        {"\"model-00001-of-00002.safetensors\"", "7", "plain name of a file, found none"},
        {"model-00001", "model-00009", "side file model-00009-of-00002.safetensors"},
        {"model-00001", "model-00002", "missing from model-00002-of-00002.safetensors"},
        {"model.norm.weight", "model.nrm.weight", "norm.weight: in the file, but not by"},
        {"\"model.norm.weight\": \"model-00002", "\"model.norm.weight\": \"model-00001",
         "norm.weight: in the file, but not by"},
        {"\"weight_map\": {", "\"weight_map\": {\"x\":\"model-00001-of-00002.safetensors\",",
         "tensor x: missing from model-00001-of-00002.safetensors"},
        {"\"weight_map\": {", "\"weight_map\": [], \"other\": {", "expected an object of tensors"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("qwen2_sharded");
        edit_index(&d, cases[i].from, cases[i].to);
        assert_read(&d, "config.json", cases[i].to, cases[i].expected);
        assert_read(&d, "model.safetensors.index.json", cases[i].to, cases[i].expected);
        dir_free(&d);
    }
    struct dir d = golden("qwen2_sharded");
    struct span *shard = file_in(&d, "model-00002-of-00002.safetensors");
    shard->size--;
    assert_read(&d, "config.json", "a short shard", "model-00002-of-00002.safetensors: tensor");
    dir_free(&d);
}

/* ---- tensors ----------------------------------------------------------------------------------- */

#define NORM0 "model.layers.0.input_layernorm.weight"
#define Q0 "model.layers.0.self_attn.q_proj.weight"

TEST(names)
{
    static const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {NORM0, "model.layers.0.norm", "tensor layers.0.input_layernorm.weight: missing"},
        {Q0, "model.layers.0.x.rotary_emb.inv_freq", "self_attn.q_proj.weight: missing"},
        {NORM0, "layers.0.input_layernorm.weight", NULL},
        {NORM0, "module.model.layers.0.input_layernorm.weight", NULL},
        {NORM0, "model.module.layers.0.input_layernorm.weight",
         "tensor layers.0.input_layernorm.weight: missing"},
        {"model.norm.weight", "layers.0.input_layernorm.weight", "the name occurs twice"},
        {NORM0, "transformer.h.0.ln_1.weight",
         "input_layernorm.weight: missing; transformer.h.0.ln_1.weight is a name of "},
        {NORM0, "gpt_neox.layers.0.attention.query_key_value.weight",
         "missing; gpt_neox.layers.0.attention.query_key_value.weight is a name of gpt_neox"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("llama");
        json_t *header = header_of(&d);
        rename_tensor(header, cases[i].from, cases[i].to);
        set_header(&d, header);
        assert_read(&d, "config.json", cases[i].to, cases[i].expected);
        assert_read(&d, "model.safetensors", cases[i].to, cases[i].expected);
        json_decref(header);
        dir_free(&d);
    }
}

/* beta, 0.5, in the place of xIELU's epsilon. */
TEST(xielu_range)
{
    struct dir d = golden("apertus");
    json_t *header = header_of(&d);
#define XIELU "model.layers.1.mlp.act_fn."
    rename_tensor(header, XIELU "eps", "x");
    rename_tensor(header, XIELU "beta", XIELU "eps");
    rename_tensor(header, "x", XIELU "beta");
    set_header(&d, header);
    assert_read(&d, "config.json", "epsilon",
                "tensor layers.1.mlp.act_fn.eps: 0.5, expected -1 to 0");
    json_decref(header);
    dir_free(&d);
}

TEST(entries)
{
    static const struct {
        const char *tensor, *key, *json, *expected;
    } cases[] = {
        {Q0, "dtype", "\"I32\"", "q_proj.weight: element type I32, expected F32"},
        {Q0, "dtype", "\"U32\"", "q_proj.weight: element type U32, expected F32"},
        {Q0, "shape", "[576]", "q_proj.weight: shape [576], expected [24, 24]"},
        {Q0, "shape", "[12,48]", "q_proj.weight: shape [12, 48], expected [24, 24]"},
        {Q0, "shape", "[24,24,1]", "q_proj.weight: shape [24, 24, 1], expected [24, 24]"},
        {NORM0, "shape", "[1,24]", "shape [1, 24], expected [24]"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("llama");
        json_t *header = header_of(&d), *entry = json_object_get(header, cases[i].tensor);
        json_object_set_new(entry, cases[i].key, json_loads(cases[i].json, JSON_DECODE_ANY, NULL));
        set_header(&d, header);
        assert_read(&d, "config.json", cases[i].json, cases[i].expected);
        json_decref(header);
        dir_free(&d);
    }
}

/* A tensor beyond those of the model: a buffer is skipped, anything else refused. */
TEST(extra)
{
    static const struct {
        const char *model, *name, *expected;
    } cases[] = {
        {"gpt2", "transformer.h.0.attn.bias", NULL},
        {"gpt2", "h.1.attn.masked_bias", NULL},
        {"gpt2", "h.2.attn.c_attn.weight", "tensor h.2.attn.c_attn.weight: no gpt2"},
        {"gpt2", "lm_head.weight", "tensor lm_head.weight: shape [0, 5], expected [33, 18]"},
        {"gpt2", "model.layers.11.self_attn.q_proj.weight",
         "no gpt2 of 2 layers has it; model.layers.11.self_attn.q_proj.weight is a name of "},
        {"gpt2", "trf_blocks.0.att.W_query.weight", "W_query.weight is a name of LLMs-from-"},
        {"llama", "model.layers.0.attention.wq.weight", "wq.weight is a name of Meta's Llama"},
        {"opt", "transformer.h.0.attn.qkv.weight", "attn.qkv.weight is a name of LitGPT"},
        {"llama", "blocks.0.attn.W_Q", "blocks.0.attn.W_Q is a name of TransformerLens"},
        {"gpt2", "score.weight", "tensor score.weight: no gpt2 of 2 layers has it"},
        {"llama", "model.layers.0.self_attn.rotary_emb.inv_freq", NULL},
        {"llama", "model.layers.0.self_attn.q_proj.bias", "q_proj.bias: no llama"},
        {"gpt_neox", "gpt_neox.layers.0.attention.bias", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        json_t *header = header_of(&d);
        json_object_set_new(header, cases[i].name,
                            json_pack("{s:s,s:[i,i],s:[i,i]}", "dtype", "BOOL", "shape", 0, 5,
                                      "data_offsets", 0, 0));
        set_header(&d, header);
        assert_read(&d, "model.safetensors", cases[i].name, cases[i].expected);
        json_decref(header);
        dir_free(&d);
    }
}

/* A bias that the model has not, next to a packed matrix, is skipped if it is zeros, all of them. */
TEST(biases_of_packed_matrices)
{
    enum { N = 64 };
    for (int wrong = -1; wrong < N; wrong += wrong < 0 ? 1 : N - 1) {
        struct dir d = golden("gptq_8bit");
        float values[N] = {0};
        if (wrong >= 0)
            values[wrong] = 0x1p-149F; /* one bit */
        append_tensor(&d, "model.layers.0.self_attn.q_proj.bias", 1, N, values);
        assert_read(&d, "config.json", "a bias", wrong < 0 ? NULL : "q_proj.bias: no llama");
        dir_free(&d);
    }
    struct dir d = golden("llama");
    append_tensor(&d, "model.layers.0.self_attn.q_proj.bias", 1, N, (float[N]){0});
    assert_read(&d, "config.json", "a bias of no packed matrix", "q_proj.bias: no llama");
    dir_free(&d);
}

/* Reads model.safetensors with the tensor of the input's name as a view of every second row, as torch.save may keep it. */
static void read_view(struct checkpoint *c, const struct ckpt_input *in)
{
    struct state *s = state_new(c);
    state_open(s, in->bytes);
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (strcmp(s->tensors[i].name, in->name) == 0)
            s->tensors[i].strides[0] *= 2;
    hf_read_state(c, in, s);
}

TEST(views)
{
    static const struct ckpt_options options = {.given = OPT_NO_TOKENIZER};
    static const struct {
        const char *model, *tensor, *expected;
    } cases[] = {
        {"gptq_sym", "model.layers.0.mlp.down_proj.qweight", "qweight: a view that is not contig"},
        {"gptq_sym", "model.layers.0.mlp.down_proj.scales",
         "scales: a view that is not contiguous"},
        {"granitemoe", "model.layers.0.block_sparse_moe.input_linear.weight",
         "input_linear.weight: expected a contiguous ["},
        {"granitemoe", "model.layers.0.input_layernorm.weight", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        struct ckpt_input in = {*file_in(&d, "model.safetensors"),
                                cases[i].tensor,
                                &options,
                                find_in_dir,
                                &d,
                                "directory",
                                NULL};
        ckpt_init(&c);
        must_say(cases[i].tensor, run_read(read_view, &c, &in, &err), &err, cases[i].expected);
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* Old GPT-2 files have no "transformer." in front: the same tensors come out. */
TEST(without_prefix)
{
    struct dir old = golden("gpt2"), d = golden("gpt2");
    struct checkpoint a, b;
    json_t *header = header_of(&d), *bare = json_object(), *entry;
    const char *name;
    mgpt_error err;
    assert_int_equal(read_dir(&a, &old, "config.json", &err), MGPT_OK);
    json_object_foreach(header, name, entry)
    {
        size_t skip = strncmp(name, "transformer.", 12) == 0 ? 12 : 0;
        json_object_set(bare, name + skip, entry);
    }
    set_header(&d, bare);
    assert_int_equal(read_dir(&b, &d, "config.json", &err), MGPT_OK);
    assert_int_equal(arr_len(a.tensors), arr_len(b.tensors));
    for (size_t i = 0; i < arr_len(a.tensors); i++) {
        float u[18], v[18];
        assert_string_equal(a.tensors[i].name, b.tensors[i].name);
        ckpt_values(&a.tensors[i], 0, 18, u);
        ckpt_values(&b.tensors[i], 0, 18, v);
        assert_memory_equal(u, v, sizeof u);
    }
    ckpt_free(&a);
    ckpt_free(&b);
    json_decref(header);
    json_decref(bare);
    dir_free(&old);
    dir_free(&d);
}

/* ---- hostile bytes ----------------------------------------------------------------------------- */

/* Reads; when that succeeds, every value as well. */
static void exercise_directory(struct dir *d, const char *input)
{
    struct checkpoint c;
    mgpt_error err = {0};
    int status = read_dir(&c, d, input, &err);
    assert_true(status == MGPT_OK || (err.text[0] && err.status == status));
    for (size_t i = 0; status == MGPT_OK && i < arr_len(c.tensors); i++) {
        float v[64];
        uint64_t n = c.tensors[i].n_values;
        for (uint64_t first = 0; first < n; first += 64)
            ckpt_values(&c.tensors[i], first, n - first < 64 ? (size_t)(n - first) : 64, v);
    }
    ckpt_free(&c);
}

/* Every byte of the file's first `limit` replaced by some others, and the file cut there. */
static void damage(const char *model, const char *file, size_t limit)
{
    static const uint8_t others[] = {0, '"', '}', ',', '9', 0xff};
    struct dir d = golden(model);
    struct span *s = file_in(&d, file);
    uint8_t *p = (uint8_t *)(uintptr_t)s->data;
    size_t size = s->size;
    for (size_t i = 0; i < size && i < limit; i++) {
        uint8_t was = p[i];
        for (size_t k = 0; k < sizeof others; k++) {
            p[i] = others[k];
            exercise_directory(&d, "config.json");
        }
        p[i] = was;
        s->size = i;
        exercise_directory(&d, "config.json");
        s->size = size;
    }
    dir_free(&d);
}

/* The bytes of a tensor, and another element type for it of the same size. */
static uint8_t *retyped(struct dir *d, const char *name, const char *type)
{
    json_t *header = header_of(d), *entry = json_object_get(header, name);
    size_t at =
        (size_t)json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    json_object_set_new(entry, "dtype", json_string(type));
    set_header(d, header);
    json_decref(header);
    const struct span *s = file_in(d, "model.safetensors");
    uint64_t n_header = s->data[0] + 256u * s->data[1];
    return (uint8_t *)(uintptr_t)s->data + 8 + n_header + at;
}

static void fill_halves(uint8_t *p, size_t n, uint16_t bits)
{
    for (size_t i = 0; i < n; i++, p += 2) {
        p[0] = (uint8_t)bits;
        p[1] = (uint8_t)(bits >> 8);
    }
}

/* Biases that half precision cannot hold: the matrix has the values as F32, not blocks of GGUF. */
TEST(mlx_biases_beyond_half)
{
    enum { COLUMNS = 32, GROUPS = 32, TINY = 0x2F01 /* 2^-33 (1 + 1 / 128) */ };
    struct dir d = golden("mlx");
    struct checkpoint c;
    float row[COLUMNS];
    fill_halves(retyped(&d, "model.layers.0.self_attn.k_proj.scales", "BF16"), GROUPS, 0x3F00);
    fill_halves(retyped(&d, "model.layers.0.self_attn.k_proj.biases", "BF16"), GROUPS, TINY);
    const uint8_t *words = retyped(&d, "model.layers.0.self_attn.k_proj.weight", "U32");
    must_read(&c, &d, "biases of 2^-33");
    const struct ckpt_tensor *t = tensor_of(&c, "blk.0.attn_k.weight");
    assert_string_equal(t->type->name, "F32");
    ckpt_values(t, 0, COLUMNS, row);
    for (size_t i = 0; i < COLUMNS; i++) {
        float q = (float)(words[i / 2] >> i % 2 * 4 & 15);
        assert_true(row[i] == 0.5f * q + 0x1.02p-33f);
    }
    ckpt_free(&c);
    dir_free(&d);
}

/* No memory holds the tree of so large a text, of which nothing is read. */
TEST(lack_of_memory_is_no_bad_config)
{
    json_error_t where;
    mgpt_error err = {0};
    assert_null(json_read("{}", SIZE_MAX, 0, &where));
    assert_true(json_read_no_memory(&where, 2, &err));
    assert_int_equal(err.status, MGPT_EMEM);
    assert_null(json_read("{", 1, 0, &where));
    assert_false(json_read_no_memory(&where, 1, &err));
}

TEST(damaged)
{
    damage("llama3_rope", "config.json", 4096);
    damage("gemma3", "config.json", 4096);
    damage("gpt_neox_serial", "model.safetensors", 600);
    damage("qwen2_sharded", "model.safetensors.index.json", 400);
}
