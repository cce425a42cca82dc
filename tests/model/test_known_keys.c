/* What a file leaves unsaid because llama.cpp knows it: a key that is absent has the bits of the
 * value that the published program uses, and other bits than another value. */
#include "model/arch.h"
#include "model/numbers.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

enum { N_TOKENS = 24 };

static const struct toy_spec gemma3_27b = {.label = "gemma3 of 62 layers",
                                           .arch = "gemma3",
                                           TOY_SIZES(62, 16, 2, 8, 40, 27),
                                           .head_dim = 6,
                                           .window = 5,
                                           .tied = 1};
static const struct toy_spec gemma2_27b = {.label = "gemma2 of 46 layers",
                                           .arch = "gemma2",
                                           TOY_SIZES(46, 16, 2, 8, 40, 27),
                                           .head_dim = 6,
                                           .window = 5,
                                           .attn_softcap = 1.5,
                                           .logit_softcap = 2,
                                           .tied = 1};
static const struct toy_spec olmo3 = {.label = "olmo2 with windows and YaRN",
                                      .arch = "olmo2",
                                      TOY_SIZES(4, 16, 2, 20, 40, 27),
                                      .windows = (const int32_t[]){5, 5, 5, 0},
                                      .window = 5,
                                      .rope_factor = 4,
                                      .yarn = 10};

/* Both toys have 2 layers of width 20. */
#define MINICPM_UNSAID(arch)                                                                       \
    "no_key " arch ".embedding_scale; no_key " arch ".residual_scale; no_key " arch ".logit_scale"
#define MINICPM_SCALES_ARE(arch, embd)                                                             \
    "f32 " arch ".embedding_scale " embd "; f32 " arch ".residual_scale 0.98994949366; "           \
    "f32 " arch ".logit_scale 0.078125"

static const struct {
    const struct toy_spec *spec; /* NULL: the model is number `zoo` of the zoo */
    size_t zoo;
    const char *unsaid, *same, *other;
} rows[] = {
    {NULL, ZOO_GEMMA2, "no_key gemma2.attn_logit_softcapping",
     "f32 gemma2.attn_logit_softcapping 50", "f32 gemma2.attn_logit_softcapping 0"},
    {NULL, ZOO_GEMMA2, "no_key gemma2.final_logit_softcapping",
     "f32 gemma2.final_logit_softcapping 30", "f32 gemma2.final_logit_softcapping 0"},
    {NULL, ZOO_GEMMA4, "no_key gemma4.final_logit_softcapping",
     "f32 gemma4.final_logit_softcapping 30", "f32 gemma4.final_logit_softcapping 0"},
    {&gemma3_27b, 0, "no_key gemma3.attention.scale", "f32 gemma3.attention.scale 0.35355339059",
     "f32 gemma3.attention.scale 0.40824829046"},
    {&gemma2_27b, 0, "no_key gemma2.attention.scale", "f32 gemma2.attention.scale 0.35355339059",
     "f32 gemma2.attention.scale 0.40824829046"},
    {NULL, ZOO_GEMMA3_FLAGS, "no_key gemma3.attention.scale",
     "f32 gemma3.attention.scale 0.40824829046", "f32 gemma3.attention.scale 0.35355339059"},
    {NULL, ZOO_GRANITE, "bool granite.rope.scaling.finetuned 0",
     "u32 mgpt.attention.no_rope_every 1", "bool granite.rope.scaling.finetuned 1"},
    {NULL, ZOO_GPT_OSS, "no_key gpt-oss.swiglu_limit", "f32 gpt-oss.swiglu_limit 7",
     "f32 gpt-oss.swiglu_limit 0.5"},
    {NULL, ZOO_GPT_OSS, "no_key gpt-oss.swiglu_offset", "f32 gpt-oss.swiglu_offset 1",
     "f32 gpt-oss.swiglu_offset 2"},
    {NULL, ZOO_GPT_OSS, "bool mgpt.rope.yarn_truncate 1", "no_key mgpt.rope.yarn_truncate",
     "bool mgpt.rope.yarn_truncate 0"},
    {NULL, ZOO_MINICPM, MINICPM_UNSAID("minicpm"), MINICPM_SCALES_ARE("minicpm", "12"),
     MINICPM_SCALES_ARE("minicpm", "11.9")},
    {NULL, ZOO_MINICPM3, MINICPM_UNSAID("minicpm3"), MINICPM_SCALES_ARE("minicpm3", "12"),
     MINICPM_SCALES_ARE("minicpm3", "11.9")},
    {&olmo3, 0, "no_key olmo2.rope.freq_base_swa", "f32 olmo2.rope.freq_base_swa 10000",
     "f32 olmo2.rope.freq_base_swa 10001"},
};

/* Hash of the bits of all logits of a text. */
static uint64_t logits_hash(const struct toy_spec *spec, const char *edits)
{
    struct toy *m = toy_build(spec);
    if (edits)
        toy_edit(m, edits);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = subject_session(model, 0, 1);
    int32_t tokens[N_TOKENS];
    uint64_t hash = 0;
    toy_tokens(m, 1, tokens, N_TOKENS);
    for (size_t i = 0; i < N_TOKENS; i++) {
        const float *logits = mgpt_step(session, tokens[i], NULL);
        assert_non_null(logits);
        for (int k = 0; k < spec->n_vocab; k++) {
            uint32_t bits;
            memcpy(&bits, &logits[k], sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3U;
        }
    }
    mgpt_session_free(session);
    mgpt_close(model);
    toy_free(m);
    return hash;
}

TEST(unsaid_keys)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct toy_spec spec = rows[i].spec ? *rows[i].spec : toy_zoo[rows[i].zoo];
        spec.seed = 90 + i;
        uint64_t unsaid = logits_hash(&spec, rows[i].unsaid);
        print_message("%s: %s\n", spec.label, rows[i].unsaid);
        assert_int_equal(unsaid, logits_hash(&spec, rows[i].same));
        assert_int_not_equal(unsaid, logits_hash(&spec, rows[i].other));
    }
}

/* A number of model/numbers.h changes the logits of a model that reads it; others refuse it. */
TEST(numbers)
{
#define NUMBER_KEY(field, absent, kind, key, least, most, knows, ...) {key, knows},
    static const struct expected_number {
        const char *key;
        unsigned knows;
    } numbers[] = {MODEL_NUMBERS(NUMBER_KEY)};
    for (const struct expected_number *n = numbers; n < numbers + COUNT(numbers); n++) {
        int n_changed = 0, n_refused = 0;
        for (const struct toy_spec *spec = toy_zoo; spec < toy_zoo + ZOO_SIZE; spec++) {
            unsigned knows = arch_find(spec->arch, strlen(spec->arch))->knows | KNOWS_ALL;
            char edit[120];
            snprintf(edit, sizeof edit, "f32 %s.%s 0.37", spec->arch, n->key);
            if (n->knows & knows && !n_changed && spec->n_layer && spec->n_ctx >= N_TOKENS)
                n_changed = logits_hash(spec, edit) != logits_hash(spec, NULL);
            if (n->knows & knows || n_refused++)
                continue;
            struct toy *m = toy_build(spec);
            toy_edit(m, edit);
            toy_check_refused(m, n->key, ": 0.37 is not supported, only ", NULL);
        }
        assert_true(n_changed && (n_refused || n->knows == KNOWS_ALL));
    }
}

/* block_count counts layers that predict further tokens, which are left out. */
TEST(further_layers)
{
    const struct toy_spec *spec = &toy_zoo[ZOO_GLM4MOE];
    const char *const edit = "u32 glm4moe.nextn_predict_layers 1";
    mgpt_info info;
    struct toy *m = toy_build(spec);
    toy_edit(m, edit);
    mgpt_model *model = toy_open(m, NULL);
    assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
    assert_int_equal(info.n_layer, 2);
    assert_int_equal(info.n_further, 1);
    mgpt_close(model);
    toy_free(m);
    uint64_t hash = logits_hash(spec, edit);
    assert_true(hash != logits_hash(spec, NULL));
    assert_true(hash == logits_hash(spec, "u32 glm4moe.nextn_predict_layers 1;"
                                          "roll blk.2.attn_q.weight 1"));
    assert_true(hash != logits_hash(spec, "u32 glm4moe.nextn_predict_layers 1;"
                                          "roll blk.1.attn_q.weight 1"));
    m = toy_build(spec);
    toy_edit(m, "u32 glm4moe.nextn_predict_layers 4");
    toy_check_refused(m, "nextn_predict_layers", NULL, NULL);
}

/* Keys of what llama.cpp computes and mgpt does not: only the value that changes nothing is read. */
TEST(only_one_value)
{
    static const struct {
        const char *key, *only;
    } keys[] = {
        {"embedding_length_out", "0"},
        {"embedding_length_per_layer_input", "0"},
        {"router_logit_softcapping", "0"},
        {"n_deepstack_layers", "0"},
        {"swin_norm", "0"},
        {"rescale_every_n_layers", "0"},
        {"attention.causal", "1"},
        {"attention.q_lora_rank", "0"},
        {"attention.kv_lora_rank", "0"},
        {"attention.shared_kv_layers", "0"},
        {"attention.temperature_length", "0"},
        {"attention.temperature_scale", "0"},
        {"shortconv.l_cache", "0"},
        {"rope.dimension_sections", "0"},
        {"rope.scaling.yarn_log_multiplier", "0"},
        {"rope.scaling.yarn_attn_factor", "1"},
        {"rope.scaling.alpha", "0"},
        {"swiglu_clamp_exp", "0"},
        {"swiglu_clamp_shexp", "0"},
    };
    for (size_t i = 0; i < COUNT(keys); i++) {
        char edit[96], text[64];
        struct toy *m = toy_build(&toy_zoo[ZOO_LLAMA_DEEP]);
        snprintf(edit, sizeof edit, "f32 llama.%s %s", keys[i].key, keys[i].only);
        toy_edit(m, edit);
        mgpt_close(toy_open(m, NULL));
        snprintf(edit, sizeof edit, "f32 llama.%s 3", keys[i].key);
        snprintf(text, sizeof text, "%s: 3 is not supported, only %s", keys[i].key, keys[i].only);
        toy_edit(m, edit);
        toy_check_refused(m, keys[i].key, text, NULL);
    }
}
