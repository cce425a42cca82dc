/* Tests of models that must be refused, for what the newer architectures bring: norms of q and k, norms
 * behind branches, windows, scaled positions, lambdas, q/k/v in one tensor or three. As in
 * test_model_files, the structure of the file is sound and the model is wrong. */
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

enum { GGUF_U32_TYPE = 4, GGUF_BOOL_TYPE = 7 };

static struct toy *build(size_t zoo)
{
    struct toy_spec spec = toy_zoo[zoo];
    spec.seed = 60 + zoo;
    return toy_build(&spec);
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

/* Biases are optional, but for those of q, k and v in qwen2. */
static int may_lack(const struct toy_spec *s, const char *name)
{
    static const char *const optional[] = {"output.weight", "rope_freqs.weight", "resid_lambdas",
                                           "x0_lambdas", NULL};
    for (size_t i = 0; optional[i]; i++)
        if (strcmp(name, optional[i]) == 0)
            return strcmp(name, "output.weight") != 0 || strcmp(s->arch, "nanochat") != 0;
    int qkv = strstr(name, ".attn_q.") || strstr(name, ".attn_k.") || strstr(name, ".attn_v.");
    return strstr(name, ".bias") && !(qkv && s->row->qkv_biases);
}

/* Every tensor of every architecture is needed, but for those whose absence means something. */
TEST(missing_tensors)
{
    const size_t chosen[] = {ZOO_GPT2_NEO,    ZOO_QWEN2,          ZOO_QWEN3,   ZOO_GEMMA3_FLAGS,
                             ZOO_GPTNEOX,     ZOO_GPTNEOX_SERIAL, ZOO_PHI2,    ZOO_PHI2_SEPARATE,
                             ZOO_OLMO,        ZOO_OLMO2,          ZOO_SMOLLM3, ZOO_NANOCHAT_2026,
                             ZOO_LLAMA_SCALED};
    for (size_t c = 0; c < COUNT(chosen); c++) {
        struct toy *whole = build(chosen[c]);
        for (size_t i = 0; i < whole->n_tensors; i++) {
            const char *name = whole->tensors[i].name;
            struct toy *m = build(chosen[c]);
            toy_drop_tensor(m, name);
            if (!may_lack(&m->spec, name)) { /* a third of q, k, v is named as the whole */
                char stem[16];
                snprintf(stem, sizeof stem, "%.11s", name);
                toy_check_refused(m, stem, "missing", NULL);
                continue;
            }
            mgpt_close(toy_open(m, NULL));
            toy_free(m);
        }
        toy_free(whole);
    }
}

/* One tensor or three; not some of each, not both. */
TEST(q_k_v)
{
    const size_t fused[] = {ZOO_GPT2, ZOO_GPTNEOX, ZOO_PHI2};
    static const char *const parts[] = {"q", "k", "v"};
    for (size_t i = 0; i < 3; i++) {
        struct toy *both = build(fused[i]);
        int E = both->spec.n_embd;
        for (size_t j = 0; j < 3; j++) {
            char name[80];
            snprintf(name, sizeof name, "blk.1.attn_%s.weight", parts[j]);
            toy_add(both, name, TOY_F32, E, E, 0, 0.2);
            struct toy *m = build(fused[i]);
            toy_add(m, name, TOY_F32, E, E, 0, 0.2);
            toy_check_refused(m, "blk.1.attn_", NULL, NULL);
            m = build(fused[i]);
            toy_drop_tensor(m, "blk.1.attn_qkv.weight");
            toy_add(m, name, TOY_F32, E, E, 0, 0.2);
            toy_check_refused(m, "blk.1.attn_", NULL, NULL);
            m = build(fused[i]);
            snprintf(name, sizeof name, "blk.1.attn_%s.bias", parts[j]);
            toy_add(m, name, TOY_F32, E, 0, 0, 0.2);
            toy_check_refused(m, "blk.1.attn_", NULL, NULL);
        }
        toy_check_refused(both, "blk.1.attn_", NULL, NULL);
    }
}

TEST(wrong_shapes)
{
    const struct {
        size_t zoo;
        const char *name;
        uint64_t size;
        const char *found, *expected;
    } cases[] = {{ZOO_QWEN3, "blk.1.attn_q_norm.weight", 7, "[7]", NULL},
                 {ZOO_QWEN3, "blk.1.attn_k_norm.weight", 9, "[9]", NULL},
                 {ZOO_OLMO2, "blk.1.attn_q_norm.weight", 31, "[31]", "[32]"},
                 {ZOO_OLMO2, "blk.1.attn_k_norm.weight", 32, "[32]", "[16]"},
                 {ZOO_OLMO2, "blk.0.post_attention_norm.weight", 19, "[19]", "[20]"},
                 {ZOO_GEMMA3_PERIOD, "blk.2.post_ffw_norm.weight", 21, "[21]", "[20]"},
                 {ZOO_QWEN2, "blk.0.attn_k.bias", 24, "[24]", "[12]"},
                 {ZOO_PHI2, "output.bias", 64, "[64]", "[65]"},
                 {ZOO_GPTNEOX_Q4_K, "blk.0.attn_qkv.bias", 96, "[96]", "[48]"},
                 {ZOO_LLAMA_SCALED, "rope_freqs.weight", 6, "[6]", "[5]"},
                 {ZOO_NANOCHAT_2026, "resid_lambdas", 3, "[3]", "[4]"},
                 {ZOO_NANOCHAT_2026, "x0_lambdas", 5, "[5]", "[4]"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct toy *m = build(cases[i].zoo);
        toy_find(m, cases[i].name)->dims[0] = cases[i].size;
        toy_check_refused(m, cases[i].name, cases[i].found, cases[i].expected);
    }
    struct toy *m = build(ZOO_NANOCHAT_2026);
    struct toy_tensor *t = toy_find(m, "resid_lambdas");
    t->n_dims = 2;
    t->dims[1] = 2;
    toy_check_refused(m, "resid_lambdas", "[4, 2]", "[4]");
}

/* Tensors that belong to another architecture are not passed over. */
TEST(tensors_of_others)
{
    const struct {
        size_t zoo;
        const char *name;
        int n;
    } cases[] = {{ZOO_LLAMA, "resid_lambdas", 1},
                 {ZOO_LLAMA, "blk.0.post_ffw_norm.weight", 16},
                 {ZOO_LLAMA, "blk.0.ffn_norm.bias", 16},
                 {ZOO_QWEN2, "blk.0.attn_q_norm.weight", 6},
                 {ZOO_QWEN2, "rope_freqs.weight", 3},
                 {ZOO_GEMMA3_FLAGS, "blk.0.ffn_norm.bias", 12},
                 {ZOO_PHI2, "blk.0.ffn_norm.weight", 20},
                 {ZOO_OLMO, "output_norm.weight", 24},
                 {ZOO_OLMO, "blk.0.attn_norm.weight", 24},
                 {ZOO_OLMO2, "blk.0.attn_norm.weight", 20},
                 {ZOO_OLMO2, "blk.0.ffn_norm.weight", 20},
                 {ZOO_NANOCHAT_2025, "output_norm.weight", 24},
                 {ZOO_NANOCHAT_2025, "blk.0.attn_q_norm.weight", 12},
                 {ZOO_NANOCHAT_2025, "value_embeds.1", 12},
                 {ZOO_NANOCHAT_2025, "smear_lambda", 1},
                 {ZOO_GPTNEOX, "position_embd.weight", 24}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct toy *m = build(cases[i].zoo);
        toy_add(m, cases[i].name, TOY_F32, cases[i].n, 0, 1, 0.1);
        toy_check_refused(m, cases[i].name, "unknown", m->spec.arch);
    }
}

static struct toy *with_divisor(float v)
{
    struct toy *m = build(ZOO_LLAMA_SCALED);
    struct toy_tensor *t = toy_find(m, "rope_freqs.weight");
    t->values[t->n - 1] = v;
    return m;
}

/* The model runs to its last position, and no logit is infinite or NaN. */
static void check_runs(struct toy *m, int32_t n_ctx)
{
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *s = mgpt_session_new(model, NULL, NULL);
    int32_t tokens[4096];
    assert_non_null(s);
    toy_tokens(m, 1, tokens, (size_t)n_ctx);
    assert_int_equal(mgpt_feed(s, tokens, (size_t)n_ctx, NULL), MGPT_OK);
    for (int i = 0; i < m->spec.n_vocab; i++)
        assert_true(isfinite(mgpt_logits(s)[i]));
    mgpt_session_free(s);
    mgpt_close(model);
    toy_free(m);
}

TEST(divisors)
{
    const float wrong[] = {0, -1, 1e-30f, 9e-4f, 1.1e6f, 1e30f, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(wrong); i++)
        toy_check_refused(with_divisor(wrong[i]), "rope_freqs.weight: value ",
                          "expected 0.001 to 1e+06", NULL);
    check_runs(with_divisor(1.1e-3f), 16);
    check_runs(with_divisor(9e5f), 16);
}

/* Angles stay below 2^30: what divides a frequency is larger for a longer context. */
TEST(largest_angle)
{
    struct toy *m = build(ZOO_QWEN2_SCALED);
    toy_put_f32(m, "qwen2.rope.scaling.factor", 0.249f);
    toy_put_u32(m, "qwen2.context_length", 1 << 28);
    toy_check_refused(m, "qwen2.rope.scaling.factor: 0.249", "expected 0.25 to 1e+06", NULL);
    m = build(ZOO_QWEN2_SCALED);
    toy_put_f32(m, "qwen2.rope.scaling.factor", 0.251f);
    toy_put_u32(m, "qwen2.context_length", 1 << 28);
    check_runs(m, 16);
    m = build(ZOO_LLAMA_SCALED);
    toy_find(m, "rope_freqs.weight")->values[0] = 0.002f;
    toy_put_u32(m, "llama.context_length", 1 << 28);
    toy_check_refused(m, "rope_freqs.weight: value 0 is 0.002", "expected 0.", NULL);
}

/* ---- keys --------------------------------------------------------------------------------------
 */

static struct toy *with_number(size_t zoo, const char *name, double v, char key[80])
{
    struct toy *m = build(zoo);
    snprintf(key, 80, "%s.%s", m->spec.arch, name);
    toy_put_f32(m, key, (float)v);
    return m;
}

/* Every number that reaches arithmetic has a range; what is outside is refused with key, value and range. */
TEST(numbers)
{
    static const struct {
        size_t zoo;
        const char *name;
        double min, max;
        const char *expected;
        int none; /* 0 is allowed: none */
    } keys[] = {{ZOO_GEMMA3_FLAGS, "final_logit_softcapping", 1e-6, 1e6, "1e-06 to 1e+06", 1},
                {ZOO_OLMO, "attention.clamp_kqv", 1e-6, 1e6, "1e-06 to 1e+06", 1},
                {ZOO_NANOCHAT_2026, "attention.scale", 1e-6, 1e6, "expected 1e-06 to 1e+06", 0},
                {ZOO_GEMMA3_PERIOD, "rope.freq_base", 1, 1e12, "expected 1 to 1e+12", 0},
                {ZOO_GEMMA3_PERIOD, "rope.freq_base_swa", 1, 1e12, "expected 1 to 1e+12", 0},
                {ZOO_GEMMA3_PERIOD, "rope.scaling.factor", 1e-3, 1e6, "expected 0.001 to 1e+06", 0},
                {ZOO_QWEN2, "rope.scale_linear", 1e-3, 1e6, "expected 0.001 to 1e+06", 0},
                {ZOO_QWEN3, "attention.layer_norm_rms_epsilon", 1e-30, 1, "expected 1e-30 to 1", 0},
                {ZOO_PHI2, "attention.layer_norm_epsilon", 1e-30, 1, "expected 1e-30 to 1", 0}};
    for (size_t i = 0; i < COUNT(keys); i++) {
        const double wrong[] = {
            NAN, INFINITY, -INFINITY, -1, 0.9 * keys[i].min, 1.1 * keys[i].max, 1e-40, 0};
        const double right[] = {1.1 * keys[i].min, 0.9 * keys[i].max, 0};
        char key[80];
        for (int j = 0; j < 8 - keys[i].none; j++) {
            struct toy *m = with_number(keys[i].zoo, keys[i].name, wrong[j], key);
            toy_check_refused(m, key, "expected", wrong[j] < 0 ? NULL : keys[i].expected);
        }
        for (int j = 0; j < 2 + keys[i].none; j++)
            check_runs(with_number(keys[i].zoo, keys[i].name, right[j], key), 16);
        struct toy *m = with_number(keys[i].zoo, keys[i].name, 0, key);
        toy_put_string(m, key, "much");
        toy_check_refused(m, key, "float", "string");
    }
    struct toy *bigram =
        build(ZOO_MICROGPT_BIGRAM); /* without a norm eps may be 0: nothing reads it */
    toy_put_f32(bigram, "microgpt.attention.layer_norm_rms_epsilon", 0);
    toy_put_bool(bigram, "mgpt.embedding_norm", 1);
    toy_check_refused(bigram, "rms_epsilon: 0", "expected 1e-30 to 1", NULL);
    bigram = build(ZOO_MICROGPT_BIGRAM);
    toy_put_f32(bigram, "microgpt.attention.layer_norm_rms_epsilon", 0);
    toy_put_bool(bigram, "mgpt.embedding_norm", 0);
    toy_put_bool(bigram, "mgpt.final_norm", 0);
    check_runs(bigram, 8);
    static const float wrong[] = {NAN, INFINITY, 1.1e6f, -1.1e6f};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct toy *m = build(ZOO_NANOCHAT_2026);
        toy_find(m, "resid_lambdas")->values[1] = wrong[i];
        toy_check_refused(m, "resid_lambdas: value 1 is ", "expected -1e+06 to 1e+06", NULL);
    }
}

/* Physics that is not known here: refused unless the value means that there is none. */
TEST(unknown_physics)
{
    static const struct {
        const char *key;
        float neutral;
    } keys[] = {{"attn_logit_softcapping", 0},
                {"logit_scale", 1},
                {"embedding_scale", 1},
                {"residual_scale", 1}};
    for (size_t i = 0; i < COUNT(keys); i++) {
        char key[80];
        snprintf(key, sizeof key, "qwen2.%s", keys[i].key);
        struct toy *m = build(ZOO_QWEN2);
        toy_put_f32(m, key, keys[i].neutral);
        mgpt_close(toy_open(m, NULL));
        toy_put_f32(m, key, 12);
        toy_check_refused(m, key, "not supported", NULL);
        m = build(ZOO_QWEN2);
        toy_put_f32(m, key, NAN);
        toy_check_refused(m, key, "not supported", NULL);
    }
}

TEST(words)
{
    static const char *const kinds[] = {"yarn", "longrope", "llama3", "", "Linear"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct toy *m = build(ZOO_QWEN2_SCALED);
        toy_put_string(m, "qwen2.rope.scaling.type", kinds[i]);
        toy_check_refused(m, "rope.scaling.type", kinds[i], NULL);
    }
    struct toy *m = build(ZOO_GPTNEOX);
    toy_put_u32(m, "gptneox.use_parallel_residual", 1);
    toy_check_refused(m, "use_parallel_residual", "bool", NULL);
    m = build(ZOO_GPTNEOX);
    toy_put_u32(m, "gptneox.rope.dimension_count", 3);
    toy_check_refused(m, "rope.dimension_count", "3", NULL);
    m = build(ZOO_GPTNEOX);
    toy_put_u32(m, "gptneox.rope.dimension_count", 10);
    toy_check_refused(m, "rope.dimension_count", "10", "8");
}

TEST(widths_of_heads)
{
    struct toy *m = build(ZOO_QWEN3);
    toy_put_u32(m, "qwen3.attention.value_length", 4);
    toy_check_refused(m, "value_length", "4", "8");
    m = build(ZOO_QWEN3);
    toy_put_u32(m, "qwen3.attention.key_length", 0);
    toy_put_u32(m, "qwen3.attention.value_length", 0);
    toy_check_refused(m, "width 0", NULL, NULL);
    m = build(ZOO_GEMMA3_PERIOD); /* without the keys heads would be 10 wide, the tensors say 12 */
    toy_drop_key(m, "gemma3.attention.key_length");
    toy_drop_key(m, "gemma3.attention.value_length");
    toy_drop_key(m, "gemma3.rope.dimension_count");
    toy_check_refused(m, "blk.0.attn_", "[20, 24]", "[20, 20]");
}

TEST(windows)
{
    const int32_t windows[5] = {6, -1, 32, 0, 1};
    struct toy *m = build(ZOO_NANOCHAT_2026);
    toy_put_windows(m, windows, 4);
    toy_check_refused(m, "mgpt.attention.windows", "negative", NULL);
    const size_t lengths[] = {0, 3, 5};
    for (size_t i = 0; i < 3; i++) {
        m = build(ZOO_NANOCHAT_2026);
        toy_put_windows(m, windows + 5 - lengths[i], lengths[i]);
        toy_check_refused(m, "windows", "4 layers", NULL);
    }
    m = build(ZOO_NANOCHAT_2026);
    toy_put_array(m, "mgpt.attention.windows", GGUF_U32_TYPE, 4, windows, 16);
    toy_check_refused(m, "mgpt.attention.windows", "i32", "u32");
    m = build(ZOO_NANOCHAT_2026);
    toy_put_u32(m, "mgpt.attention.windows", 6);
    toy_check_refused(m, "mgpt.attention.windows", "array", NULL);
}

TEST(patterns)
{
    const char *key = "gemma3.attention.sliding_window_pattern";
    const uint8_t flags[4] = {1, 0, 1, 0};
    for (size_t n = 0; n <= 4; n++) {
        struct toy *m = build(ZOO_GEMMA3_FLAGS);
        toy_put_array(m, key, GGUF_BOOL_TYPE, n, flags, n);
        if (n != 3) {
            toy_check_refused(m, "windows", "3 layers", NULL);
            continue;
        }
        mgpt_close(toy_open(m, NULL));
        toy_free(m);
    }
    struct toy *m = build(ZOO_GEMMA3_FLAGS);
    toy_put_array(m, key, GGUF_U32_TYPE, 1, flags, 4);
    toy_check_refused(m, "sliding_window_pattern", "bool", NULL);
    m = build(ZOO_GEMMA3_FLAGS);
    toy_put_string(m, key, "wfw");
    toy_check_refused(m, "sliding_window_pattern", NULL, NULL);
    m = build(ZOO_GEMMA3_FLAGS);
    toy_drop_key(m, "gemma3.attention.sliding_window");
    toy_check_refused(m, "sliding_window", "missing", NULL);
    m = build(ZOO_GEMMA3_FLAGS);
    toy_put_u32(m, "gemma3.attention.sliding_window", UINT32_MAX);
    toy_check_refused(m, "sliding_window", "4294967295", NULL);
}
