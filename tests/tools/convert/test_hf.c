/* Hugging Face models: which values of config.json are refused, by which words.
 *
 * The golden models are the good ones, with one value changed the bad ones (tests/cli/convert_hf.sh: logits).
 */
#include "support/hf_dir.h"
#include "support/unit.h"

#include <math.h>

/* ---- config.json ------------------------------------------------------------------------------- */

/* Removes a key. */
static void drop_key(struct dir *d, const char *key)
{
    json_t *root = get_config(d);
    assert_int_equal(json_object_del(root, key), 0);
    set_config(d, root);
    json_decref(root);
}

static const struct config_case {
    const char *model, *key, *json, *expected;
} config_cases[] = {
#include "tools/convert/hf_config_cases.inc"
};

TEST(config)
{
    for (size_t i = 0; i < COUNT(config_cases); i++) {
        const struct config_case *k = &config_cases[i];
        char what[160];
        struct dir d = golden(k->model);
        snprintf(what, sizeof what, "%s with %s %.60s", k->model, k->key, k->json);
        set_key(&d, k->key, k->json);
        assert_read(&d, "config.json", what, k->expected);
        dir_free(&d);
    }
}

/* Keys that a file leaves out have the value of the class, which few share with others, or are asked for. */
TEST(absent)
{
    static const struct {
        const char *model, *key, *expected;
        float scale; /* of the experts, where the file is read */
    } cases[] = {
        {"deepseek_v3", "routed_scaling_factor", NULL, 2.5F},
        {"axk1", "routed_scaling_factor", NULL, 2.5F},
        {"exaone_moe", "routed_scaling_factor", NULL, 2.5F},
        {"sarvam_moe", "routed_scaling_factor", NULL, 2.5F},
        {"glm4_moe_lite", "routed_scaling_factor", NULL, 1.8F},
        {"glm4_moe", "routed_scaling_factor", NULL, 1},
        {"hy_v3", "router_scaling_factor", NULL, 2.826F},
        {"deepseek_v3", "n_group", "n_group: missing", 0},
        {"deepseek_v3", "topk_group", "topk_group: missing", 0},
        {"axk1", "n_group", "n_group: missing", 0},
        {"axk1", "topk_group", "topk_group: missing", 0},
        {"flint", "norm_topk_prob", "norm_topk_prob: missing", 0},
        {"mellum", "norm_topk_prob", "norm_topk_prob: missing", 0},
        {"mellum", "rope_parameters", "rope_parameters: missing", 0},
        {"phi3_longrope", "original_max_position_embeddings", "4096 beside them", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        struct checkpoint c;
        mgpt_error err;
        drop_key(&d, cases[i].key);
        int status = read_dir(&c, &d, "config.json", &err);
        if (status < 0 && !(cases[i].expected && strstr(err.text, cases[i].expected)))
            fail_msg("%s without %s: %s", cases[i].model, cases[i].key, err.text);
        assert_true((status < 0) == (cases[i].expected != NULL));
        assert_true(status < 0 || c.hp.expert_scale == cases[i].scale);
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* Beam has three plain layers unless a list says otherwise, or all where it has fewer. */
TEST(beam_of_one_layer)
{
    struct dir d = golden("beam");
    struct checkpoint c;
    drop_key(&d, "mlp_layer_types");
    drop_key(&d, "layer_types");
    set_key(&d, "num_hidden_layers", "1");
    set_key(&d, "num_nextn_predict_layers", "3"); /* the others */
    must_read(&c, &d, "beam");
    assert_int_equal(c.hp.n_dense, 1);
    ckpt_free(&c);
    set_key(&d, "num_hidden_layers", "4");
    assert_read(&d, "config.json", "four layers", "layers.1.mlp.gate_proj.weight: missing");
    dir_free(&d);
}

/* The scale is a key where the architecture would take another: of 46 layers it is that of Gemma 2's largest. */
TEST(gemma_scale)
{
    struct dir d = golden("gemma2");
    struct checkpoint c;
    mgpt_error err;
    set_key(&d, "query_pre_attn_scalar", "8"); /* as wide as a head */
    for (int layers = 45; layers <= 46; layers++) {
        set_key(&d, "num_hidden_layers", layers == 45 ? "45" : "46");
        assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_EFILE); /* of the tensors */
        assert_true(c.hp.attn_scale == (layers == 45 ? 0 : (float)(1 / sqrt(8))));
        ckpt_free(&c);
    }
    dir_free(&d);
}

/* Which layers are rotated, and from which bases. */
TEST(rotated_layers)
{
    static const struct {
        const char *list;
        float base, local;
        uint8_t roped[4];
    } cases[] = {
        {"[0,500,500,500]", 500, 0, {0, 1, 1, 1}},
        {"[600,0,0,0]", 600, 0, {1, 0, 0, 0}},
        {"[600,500,0,500]", 600, 500, {1, 1, 0, 1}},
        {"[0,0,0,0]", 10000, 0, {0, 0, 0, 0}},
    };
    struct dir d = golden("granite_swa");
    struct checkpoint c;
    for (size_t i = 0; i < COUNT(cases); i++) {
        set_key(&d, "layer_rope_theta", cases[i].list);
        must_read(&c, &d, cases[i].list);
        assert_true(c.hp.rope_base == cases[i].base && c.hp.rope_base_local == cases[i].local);
        assert_memory_equal(c.hp.roped, cases[i].roped, 4);
        ckpt_free(&c);
    }
    dir_free(&d);
    d = golden("smollm3");
    drop_key(&d, "no_rope_layers");
    for (uint32_t every = 2; every <= 4; every += 2) {
        set_key(&d, "no_rope_layer_interval", every == 2 ? "2" : "4");
        must_read(&c, &d, "smollm3");
        assert_int_equal(c.hp.no_rope_every, every == 2 ? 2 : 0);
        ckpt_free(&c);
    }
    dir_free(&d);
}

/* The base of "dynamic" with alpha is alpha^(d / (d - 2)) times as large: heads of width 2 have none. */
TEST(dynamic_base)
{
    struct dir d = golden("hunyuan");
    struct checkpoint c;
    set_key(&d, "rope_parameters", "{\"rope_type\":\"dynamic\",\"alpha\":4,\"rope_theta\":1e4}");
    must_read(&c, &d, "hunyuan");
    double width = (double)(c.hp.head_dim ? c.hp.head_dim : c.hp.n_embd / c.hp.n_head);
    assert_true(fabs(c.hp.rope_base / (1e4 * pow(4, width / (width - 2))) - 1) < 1e-6);
    ckpt_free(&c);
    set_key(&d, "head_dim", "2");
    assert_read(&d, "config.json", "heads of 2", "alpha: heads of width 2 have no such base");
    dir_free(&d);
}

/* A window matters only where it is in use, and smaller than the context. */
TEST(qwen_window)
{
    struct dir d = golden("qwen3");
    set_key(&d, "layer_types", "null");
    set_key(&d, "sliding_window", "8");
    assert_read(&d, "config.json", "a window that is not in use", NULL);
    set_key(&d, "use_sliding_window", "true");
    set_key(&d, "max_window_layers", "1");
    struct checkpoint c;
    mgpt_error err;
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
    assert_int_equal(c.hp.window, 8);
    assert_int_equal(c.hp.windows[0], 0);
    assert_int_equal(c.hp.windows[1], 8);
    ckpt_free(&c);
    drop_key(&d, "max_window_layers"); /* 28: the model has fewer layers */
    must_read(&c, &d, "without max_window_layers");
    assert_int_equal(c.hp.window, 0);
    ckpt_free(&c);
    dir_free(&d);
}

/* Mistral's window applies to all layers. It is 4096 where the key is absent, none where it is
 * null, and none that matters where the context is shorter. */
TEST(mistral_window)
{
    static const struct {
        const char *window, *context;
        uint32_t expected;
    } cases[] = {{"9", "64", 9}, {"64", "64", 0}, {"null", "9000", 0}, {NULL, "9000", 4096}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("mistral_yarn");
        struct checkpoint c;
        mgpt_error err;
        set_key(&d, "max_position_embeddings", cases[i].context);
        set_key(&d, "sliding_window", cases[i].window ? cases[i].window : "null");
        if (!cases[i].window)
            drop_key(&d, "sliding_window");
        assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
        assert_int_equal(c.hp.window, cases[i].expected);
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* MiMo's class reads bases and the rotated part from rope_parameters. A third of a head of 12 is 4. */
TEST(mimo_ropes)
{
#define OF_KINDS(full) "{\"full_attention\":{" full "},\"sliding_attention\":{\"rope_theta\":1e4}}"
#define MIMO_YARN                                                                                  \
    "\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":16,\"rope_theta\":"  \
    "5e6"
    static const char alone[] = "reads rope_parameters alone, and without it has 5e6, 10000";
    static const char accepted[] = "self_attn.q_proj.weight: shape"; /* heads of 10 */
    static const struct {
        const char *ropes, *key, *json, *expected;
    } cases[] = {
        {"null", "rope_theta", "1e4", alone},
        {"null", "swa_rope_theta", "5e6", alone},
        {"null", "partial_rotary_factor", "0.334", accepted},
        {"null", "partial_rotary_factor", "0.5", alone},
        {OF_KINDS("\"rope_theta\":1e4"), "partial_rotary_factor", "0.5", alone},
        {OF_KINDS("\"rope_theta\":1e4,\"partial_rotary_factor\":0.5"), "partial_rotary_factor",
         "0.5", alone},
        {OF_KINDS("\"rope_theta\":1e4,\"partial_rotary_factor\":0.5"), "head_dim", "12", accepted},
        {OF_KINDS(MIMO_YARN), "head_dim", "12", "partial_rotary_factor: missing"},
        {OF_KINDS(MIMO_YARN ",\"partial_rotary_factor\":0.334"), "head_dim", "12", accepted},
    };
#undef MIMO_YARN
#undef OF_KINDS
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("mimo_v2_flash");
        set_key(&d, "head_dim", "12");
        set_key(&d, "rope_parameters", cases[i].ropes);
        set_key(&d, cases[i].key, cases[i].json);
        assert_read(&d, "config.json", cases[i].ropes, cases[i].expected);
        dir_free(&d);
    }
}

/* Each type of rope_parameters scales LFM3's frequencies once: by a key, or by divisors, the first and the last of which are here. */
TEST(lfm3_ropes)
{
#define OF_FULL(type)                                                                              \
    "{\"full_attention\":{\"rope_theta\":1e6,\"factor\":4," type                                   \
    "},\"sliding_attention\":{\"rope_theta\":1e4,\"rope_type\":\"default\"}}"
    static const struct {
        const char *ropes;
        float factor, first, last; /* first 0: no divisors */
    } cases[] = {
        {OF_FULL("\"rope_type\":\"linear\""), 4, 0, 0},
        {OF_FULL("\"rope_type\":\"yarn\",\"original_max_position_embeddings\":16"), 4, 0, 0},
        {OF_FULL("\"rope_type\":\"default\""), 0, 1, 1},
        {OF_FULL("\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.5"), 0, 4, 1e30F},
        {OF_FULL("\"rope_type\":\"llama3\",\"low_freq_factor\":1,\"high_freq_factor\":2,"
                 "\"original_max_position_embeddings\":16"),
         0, 1, 4},
    };
#undef OF_FULL
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("lfm3");
        struct checkpoint c;
        mgpt_error err;
        set_key(&d, "rope_parameters", cases[i].ropes);
        assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
        float found[2] = {0, 0};
        for (size_t t = 0; t < arr_len(c.tensors); t++)
            if (strcmp(c.tensors[t].name, "rope_freqs.weight") == 0) {
                assert_true(found[0] == 0); /* once */
                ckpt_values(&c.tensors[t], 0, 1, &found[0]);
                ckpt_values(&c.tensors[t], c.tensors[t].n_values - 1, 1, &found[1]);
            }
        assert_true(c.hp.rope_factor == cases[i].factor);
        assert_true(found[0] == cases[i].first && found[1] == cases[i].last);
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* The key truncate is read beside the objects for kinds of layers, not inside them. */
TEST(truncate)
{
#define YARN_OF(more)                                                                              \
    "\"rope_type\":\"yarn\",\"rope_theta\":1e4,\"factor\":4,\"original_max_position_embeddings\":" \
    "16" more
#define OF_FULL(more, beside)                                                                      \
    "{\"full_attention\":{" YARN_OF(more) "},\"sliding_attention\":{\"rope_theta\":1e4}" beside "}"
    static const struct {
        const char *model, *ropes;
        int exact;
    } cases[] = {
        {"llama", "{" YARN_OF(",\"truncate\":false") "}", 1},
        {"llama", "{" YARN_OF(",\"truncate\":true") "}", 0},
        {"mellum", OF_FULL(",\"truncate\":false", ""), 0},
        {"mellum", OF_FULL("", ",\"truncate\":false"), 1},
    };
#undef OF_FULL
#undef YARN_OF
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        struct checkpoint c;
        mgpt_error err;
        set_key(&d, "rope_parameters", cases[i].ropes);
        assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
        assert_int_equal(c.hp.yarn_exact, cases[i].exact);
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* Which layers have a window is said for each, also where they are those of Command-R7B, whose row this type is like. */
TEST(cohere2_moe_windows)
{
    struct dir d = golden("cohere2_moe");
    struct checkpoint c;
    mgpt_error err;
    set_key(
        &d, "layer_types",
        "[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\"]");
    set_key(&d, "prefix_dense_sliding_window_pattern", "1");
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
    assert_non_null(c.hp.windowed);
    assert_memory_equal(c.hp.windowed, ((const uint8_t[]){1, 1, 1, 0}), 4);
    ckpt_free(&c);
    dir_free(&d);
}

/* The first files of LFM2 state the layers of attention and the width of the MLP in other keys. */
TEST(lfm2_first_files)
{
    struct dir d = golden("lfm2");
    struct checkpoint c;
    mgpt_error err;
    drop_key(&d, "layer_types");
    drop_key(&d, "intermediate_size");
    drop_key(&d, "tie_word_embeddings");
    set_key(&d, "full_attn_idxs", "[1]");
    set_key(&d, "block_ff_dim", "34");
    set_key(&d, "block_ffn_dim_multiplier", "1.12");
    set_key(&d, "tie_embedding", "true");
    set_key(&d, "block_use_swiglu", "true");
    set_key(&d, "conv_use_xavier_init", "true");
    set_key(&d, "use_pos_enc", "true");
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
    assert_int_equal(c.hp.n_ff, 24); /* 2/3 of 34 is 22, times 1.12 is 24, in whole sixes */
    assert_int_equal(c.hp.n_conv, 3);
    for (uint32_t i = 0; i < c.hp.n_layer; i++)
        assert_int_equal(c.hp.kv_heads[i], i == 1 ? 1 : 0);
    ckpt_free(&c);
    set_key(&d, "full_attn_idxs", "[1,3]");
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_EFILE);
    assert_non_null(strstr(err.text, "layers.3.self_attn.q_proj.weight: missing"));
    ckpt_free(&c);
    dir_free(&d);
}

/* The factors for short texts, unless --context asks for a longer one than them; each with its attention factor. */
TEST(longrope_context)
{
#define FACTORS(more)                                                                              \
    "{\"rope_type\":\"longrope\",\"rope_theta\":1e4,\"partial_rotary_factor\":0.75,"               \
    "\"long_factor\":[1,3,6],\"short_factor\":[1,1.25,1.5]," more                                  \
    "\"original_max_position_embeddings\":32}"
    static const char both[] = FACTORS("\"short_mscale\":2,\"long_mscale\":3,"),
                      one[] = FACTORS("\"attention_factor\":1.5,");
#undef FACTORS
    static const struct {
        const char *factors;
        int asked;
        uint32_t n_ctx;
        float attn;
        const char *said;
    } cases[] = {
        {both, 0, 32, 2, NULL},
        {both, 32, 32, 2, NULL},
        {both, 33, 33, 3, NULL},
        {both, 64, 64, 3, NULL},
        {one, 0, 32, 1.5F, NULL},
        {one, 33, 33, 1.5F, NULL},
        {both, 65, 0, 0, "--context 65: the model has 64 positions"},
    };
    struct dir d = golden("phi3_longrope");
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ckpt_options o = {.given = OPT_NO_TOKENIZER | (cases[i].asked ? OPT_CONTEXT : 0),
                                 .n_ctx = cases[i].asked};
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        set_key(&d, "rope_parameters", cases[i].factors);
        struct ckpt_input in = {
            *file_in(&d, "config.json"), "model", &o, find_in_dir, &d, "directory", NULL};
        ckpt_init(&c);
        must_say(cases[i].factors, ckpt_read(&c, &in, &err), &err, cases[i].said);
        if (!cases[i].said) {
            assert_int_equal(c.hp.n_ctx, cases[i].n_ctx);
            assert_true(c.hp.rope_attn_factor == cases[i].attn);
            assert_int_equal(c.hp.rope_context, 32);
            assert_string_equal(c.hp.rope_scaling, "longrope");
        }
        ckpt_free(&c);
    }
    dir_free(&d);
}

/* Spellings before Transformers 5 give the same model. */
TEST(old_spelling)
{
    struct dir d = golden("llama3_rope");
    struct checkpoint a, b;
    mgpt_error err;
    assert_int_equal(read_dir(&a, &d, "config.json", &err), MGPT_OK);
    set_key(&d, "rope_parameters", "null");
    set_key(&d, "rope_theta", "500000");
    set_key(&d, "rope_scaling",
            "{\"type\":\"llama3\",\"factor\":32,\"low_freq_factor\":1,\"high_freq_factor\":4.0,"
            "\"original_max_position_embeddings\":64}");
    assert_int_equal(read_dir(&b, &d, "config.json", &err), MGPT_OK);
    assert_true(a.hp.rope_base == b.hp.rope_base);
    const struct ckpt_tensor *x = &a.tensors[arr_len(a.tensors) - 1];
    const struct ckpt_tensor *y = &b.tensors[arr_len(b.tensors) - 1];
    float u[6], v[6];
    assert_string_equal(x->name, "rope_freqs.weight");
    assert_string_equal(y->name, "rope_freqs.weight");
    assert_int_equal(x->n_values, 6);
    ckpt_values(x, 0, 6, u);
    ckpt_values(y, 0, 6, v);
    assert_memory_equal(u, v, sizeof u);
    assert_true(u[0] == 1 && u[5] == 32); /* the fastest is kept, the slowest divided */
    ckpt_free(&a);
    ckpt_free(&b);
    dir_free(&d);
}

TEST(json)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\"model_type\":\"llama\",\"model_type\":\"llama\"}", "config.json: line 1"},
        {"{\"model_type\":\"llama\"} x", "end of file expected"},
        {"{\"model_type\":\"llama\"", "config.json: line 1"},
        {"{\"model_type\":\"some_vl\",\"text_config\":{}}", "model_type: missing"},
        {"{\"model_type\" :\n\"bert\"}", "model_type bert is not supported"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("llama");
        set_file(&d, "config.json", copy_of(cases[i].text, strlen(cases[i].text)));
        assert_read(&d, "config.json", cases[i].text, cases[i].expected);
        dir_free(&d);
    }
}
