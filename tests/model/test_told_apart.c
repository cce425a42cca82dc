/* The tolerances of agree.h notice a slightly different model, else test_forward would prove
 * little. One change for every field that a model can have, as small as mistakes are: a window off
 * by one, the other GELU, a rope base off by a thousandth. */
#include "support/agree.h"
#include "support/toy_oracle.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

enum { N_TOKENS = 50 };

static void use_tanh(struct toy *m)
{
    m->spec.activation = "gelu_tanh";
}

static void use_one_base(struct toy *m)
{
    m->spec.window_base = m->spec.rope_base;
}

static void see_one_key_more(struct toy *m)
{
    m->spec.window++;
}

static void see_one_key_more_in_a_layer(struct toy *m)
{
    static const int32_t windows[] = {6, 18, 32, 0};
    m->spec.windows = windows;
}

static void window_another_layer(struct toy *m)
{
    m->spec.full_every--;
}

static void run_branches_in_order(struct toy *m)
{
    m->spec.parallel = TOY_NO;
}

static void rotate_fewer(struct toy *m)
{
    m->spec.rope_dims -= 2;
}

static void lengthen_yarn(struct toy *m)
{
    m->spec.yarn *= 3;
}

/* ---- fields of the architecture's row ---- */

static struct toy_arch other_row;

static struct toy_arch *copy_row(struct toy *m)
{
    other_row = *m->spec.row;
    m->spec.row = &other_row;
    return &other_row;
}

static void pair_neighbours(struct toy *m)
{
    copy_row(m)->place = PLACE_ADJACENT;
}

static void rotate_all_layers(struct toy *m)
{
    copy_row(m)->no_rope_every = 0;
}

static void rotate_full_layers(struct toy *m)
{
    copy_row(m)->rope_windowed = 0;
}

static void normalise_before_rope(struct toy *m)
{
    copy_row(m)->rope_first = 0;
}

static void do_not_scale_embeddings(struct toy *m)
{
    copy_row(m)->embd_root = 0;
}

static void do_not_normalise_q_and_k(struct toy *m)
{
    copy_row(m)->qk = QK_PLAIN;
}

static void do_not_remove_the_mean(struct toy *m)
{
    copy_row(m)->layer_norm = 0;
}

static void smear_more(struct toy *m)
{
    toy_find(m, "smear_lambda")->values[0] *= 1.001f;
}

static void back_out_more(struct toy *m)
{
    toy_find(m, "backout_lambda")->values[0] *= 1.001f;
}

/* A number of the spec or the second value of a tensor is multiplied, or a function makes the
 * change. */
#define NUMBER(field, by) offsetof(struct toy_spec, field), NULL, by, NULL
#define TENSOR(name, by) 0, name, by, NULL
#define BY(function) 0, NULL, 0, function

static const struct change {
    const char *what;
    size_t zoo, number;
    const char *tensor;
    double factor;
    void (*function)(struct toy *m);
} changes[] = {
    {"GELU by tanh", ZOO_GPT2_ERF, BY(use_tanh)},
    {"epsilon", ZOO_MICROGPT_DEEP, NUMBER(eps, 2)},
    {"rope base", ZOO_LLAMA, NUMBER(rope_base, 1.001)},
    {"rope base, halves", ZOO_QWEN3, NUMBER(rope_base, 1.001)},
    {"rope base of full layers", ZOO_GEMMA3_PERIOD, NUMBER(rope_base, 1.001)},
    {"rope base of windowed layers", ZOO_GEMMA3_PERIOD, NUMBER(window_base, 1.001)},
    {"rope base of flagged layers", ZOO_LLAMA_TWO_BASES, NUMBER(window_base, 1.001)},
    {"one rope base", ZOO_GEMMA3, BY(use_one_base)},
    {"rope factor", ZOO_LLAMA_SCALED, NUMBER(rope_factor, 1.001)},
    {"rope factor of full layers", ZOO_GEMMA3_PERIOD, NUMBER(rope_factor, 1.001)},
    {"attention scale", ZOO_GEMMA3, NUMBER(attn_scale, 1.001)},
    {"YaRN's context", ZOO_QWEN3_YARN, BY(lengthen_yarn)},
    {"rope's factor of cosines", ZOO_PHI3, NUMBER(rope_attn, 1.001)},
    {"LongRoPE for short texts", ZOO_PHI3, TENSOR("rope_factors_short.weight", 1.001f)},
    {"LongRoPE for long texts", ZOO_PHI3_LONG, TENSOR("rope_factors_long.weight", 1.001f)},
    {"embedding scale", ZOO_GRANITE, NUMBER(embd_scale, 1.001)},
    {"residual scale", ZOO_GRANITE, NUMBER(residual_scale, 1.001)},
    {"logit scale", ZOO_GRANITE, NUMBER(logit_scale, 1.001)},
    {"soft cap of scores", ZOO_GEMMA2, NUMBER(attn_softcap, 1.001)},
    {"rope in windowed layers only", ZOO_COHERE2, BY(rotate_full_layers)},
    {"the first of two norms", ZOO_FALCON_TWO_NORMS, TENSOR("blk.0.attn_norm_2.weight", 1.01f)},
    {"the second of two norms", ZOO_FALCON_TWO_NORMS, TENSOR("blk.0.attn_norm.weight", 1.01f)},
    {"ALiBi", ZOO_MPT, NUMBER(alibi, 1.001)},
    {"a gain of embeddings", ZOO_BLOOM, TENSOR("token_embd_norm.weight", 1.001f)},
    {"clamp", ZOO_OLMO, NUMBER(qkv_clamp, 1.001)},
    {"soft cap", ZOO_NANOCHAT_2026, NUMBER(logit_softcap, 1.001)},
    {"window", ZOO_LLAMA_WINDOW, BY(see_one_key_more)},
    {"window of a layer", ZOO_NANOCHAT_2026, BY(see_one_key_more_in_a_layer)},
    {"period of full layers", ZOO_LLAMA_PATTERN, BY(window_another_layer)},
    {"sequential branches", ZOO_GPTNEOX, BY(run_branches_in_order)},
    {"partial rope", ZOO_GPTNEOX, BY(rotate_fewer)},
    {"pairs of rope", ZOO_QWEN2, BY(pair_neighbours)},
    {"a layer without rope", ZOO_SMOLLM3, BY(rotate_all_layers)},
    {"root of n_embd", ZOO_GEMMA3, BY(do_not_scale_embeddings)},
    {"gainless norms of q and k", ZOO_NANOCHAT_2025, BY(do_not_normalise_q_and_k)},
    {"LayerNorm without gain", ZOO_OLMO, BY(do_not_remove_the_mean)},
    {"a weight", ZOO_LLAMA, TENSOR("blk.0.ffn_down.weight", 1.01f)},
    {"a weight of Q4_K", ZOO_QWEN3_Q4_K, TENSOR("blk.0.ffn_down.weight", 1.01f)},
    {"a divisor", ZOO_LLAMA_SCALED, TENSOR("rope_freqs.weight", 1.001f)},
    {"a residual lambda", ZOO_NANOCHAT_2026, TENSOR("resid_lambdas", 1.001f)},
    {"an x0 lambda", ZOO_NANOCHAT_2026, TENSOR("x0_lambdas", 1.001f)},
    {"a gain of q", ZOO_QWEN3, TENSOR("blk.0.attn_q_norm.weight", 1.001f)},
    {"a gain of all of q", ZOO_OLMO2, TENSOR("blk.0.attn_q_norm.weight", 1.001f)},
    {"a gain after a branch", ZOO_OLMO2, TENSOR("blk.0.post_ffw_norm.weight", 1.001f)},
    {"a bias of the head", ZOO_PHI2, TENSOR("output.bias", 1.001f)},
    {"a bias of v", ZOO_QWEN2, TENSOR("blk.1.attn_v.bias", 1.001f)},
    {"rope before the norms of q and k", ZOO_HUNYUAN, BY(normalise_before_rope)},
    {"the norm before the MLP", ZOO_SEED_OSS, TENSOR("blk.0.post_attention_norm.weight", 1.01f)},
    {"a smear gate", ZOO_NANOCHAT_SMEAR, TENSOR("smear_gate.weight", 1.01f)},
    {"a value embedding", ZOO_NANOCHAT_SMEAR, TENSOR("blk.2.attn_value_embd.weight", 1.01f)},
    {"a value gate", ZOO_NANOCHAT_VALUES, TENSOR("blk.1.attn_value_gate.weight", 1.01f)},
    {"the scale of value gates", ZOO_NANOCHAT_VALUES, NUMBER(value_gate_scale, 1.001)},
    {"the scale of values", ZOO_MIMO2, NUMBER(value_scale, 1.001)},
    {"smear of another scale", ZOO_NANOCHAT_SMEAR, BY(smear_more)},
    {"more backout", ZOO_NANOCHAT_SMEAR, BY(back_out_more)},
    {"growth of queries", ZOO_MISTRAL3, NUMBER(query_beta, 1.001)},
    {"YaRN's own divisor", ZOO_MISTRAL3, NUMBER(yarn_less, 1.001)},
};

static void make_change(struct toy *m, const struct change *c)
{
    if (c->function)
        c->function(m);
    else if (c->tensor)
        toy_find(m, c->tensor)->values[1] *= (float)c->factor;
    else
        *(double *)(void *)((char *)&m->spec + c->number) *= c->factor;
}

TEST(every_change_is_noticed)
{
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct toy_spec spec = toy_zoo[changes[i].zoo];
        spec.seed = 700 + i;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        int32_t tokens[N_TOKENS];
        char what[256];
        toy_tokens(m, 5, tokens, N_TOKENS);
        struct trace *ours = agree_run(model, &m->spec, tokens, N_TOKENS);
        struct trace *same = agree_oracle(m, ours, tokens, N_TOKENS);
        if (!agree(&m->spec, ours, same, what, sizeof what))
            fail_msg("before the change: %s", what);
        make_change(m, &changes[i]);
        struct trace *other = agree_oracle(m, ours, tokens, N_TOKENS);
        if (agree(&m->spec, ours, other, what, sizeof what))
            fail_msg("%s: another %s is not noticed", m->spec.label, changes[i].what);
        trace_free(ours);
        trace_free(same);
        trace_free(other);
        mgpt_close(model);
        toy_free(m);
    }
}
