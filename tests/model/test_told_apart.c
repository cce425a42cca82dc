/* Tests of the tolerances: the oracle of a slightly different model must be told from the engine, else
 * test_forward would prove little. One change for every field that a model can have, each as small as it
 * is ever made by mistake: a window off by one, the other GELU, a rope base off by a thousandth. */
#include "support/agree.h"
#include "support/toy_oracle.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

enum { N_TOKENS = 50 };

static const float thousandth = 1.001f;

/* ---- words and numbers -------------------------------------------------------------------------
 */

static void use_tanh(struct toy *m)
{
    m->spec.activation = "gelu_tanh";
}

static void use_other_eps(struct toy *m)
{
    m->spec.eps *= 2;
}

static void use_other_base(struct toy *m)
{
    m->spec.rope_base *= 1.001;
}

static void use_other_window_base(struct toy *m)
{
    m->spec.window_base *= 1.001;
}

static void use_one_base(struct toy *m)
{
    m->spec.window_base = m->spec.rope_base;
}

static void use_other_factor(struct toy *m)
{
    m->spec.rope_factor *= 1.001;
}

static void use_other_scale(struct toy *m)
{
    m->spec.attn_scale *= 1.001;
}

static void use_other_clamp(struct toy *m)
{
    m->spec.clamp *= 1.001;
}

static void use_other_cap(struct toy *m)
{
    m->spec.softcap *= 1.001;
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

static void run_in_turn(struct toy *m)
{
    m->spec.parallel = TOY_NO;
}

static void rotate_fewer(struct toy *m)
{
    m->spec.rope_dims -= 2;
}

/* ---- what the architecture's row says ----------------------------------------------------------
 */

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

/* ---- weights -----------------------------------------------------------------------------------
 */

static void nudge(struct toy *m, const char *name, float by)
{
    toy_find(m, name)->values[1] *= by;
}

static void nudge_a_weight(struct toy *m)
{
    nudge(m, "blk.0.ffn_down.weight", 1.01f);
}

static void nudge_a_divisor(struct toy *m)
{
    nudge(m, "rope_freqs.weight", thousandth);
}

static void nudge_resid_lambda(struct toy *m)
{
    nudge(m, "resid_lambdas", thousandth);
}

static void nudge_x0_lambda(struct toy *m)
{
    nudge(m, "x0_lambdas", thousandth);
}

static void nudge_q_norm(struct toy *m)
{
    nudge(m, "blk.0.attn_q_norm.weight", thousandth);
}

static void nudge_post_norm(struct toy *m)
{
    nudge(m, "blk.0.post_ffw_norm.weight", thousandth);
}

static void nudge_head_bias(struct toy *m)
{
    nudge(m, "output.bias", thousandth);
}

static void nudge_v_bias(struct toy *m)
{
    nudge(m, "blk.1.attn_v.bias", thousandth);
}

/* ------------------------------------------------------------------------------------------------
 */

static const struct {
    const char *what;
    size_t zoo;
    void (*change)(struct toy *m);
} changes[] = {
    {"GELU by tanh", ZOO_GPT2_ERF, use_tanh},
    {"epsilon", ZOO_MICROGPT_DEEP, use_other_eps},
    {"rope base", ZOO_LLAMA, use_other_base},
    {"rope base, halves", ZOO_QWEN3, use_other_base},
    {"rope base of full layers", ZOO_GEMMA3_PERIOD, use_other_base},
    {"rope base of windowed layers", ZOO_GEMMA3_PERIOD, use_other_window_base},
    {"rope base of flagged layers", ZOO_LLAMA_TWO_BASES, use_other_window_base},
    {"one rope base", ZOO_GEMMA3, use_one_base},
    {"rope factor", ZOO_LLAMA_SCALED, use_other_factor},
    {"rope factor of full layers", ZOO_GEMMA3_PERIOD, use_other_factor},
    {"attention scale", ZOO_GEMMA3, use_other_scale},
    {"clamp", ZOO_OLMO, use_other_clamp},
    {"soft cap", ZOO_NANOCHAT_2026, use_other_cap},
    {"window", ZOO_LLAMA_WINDOW, see_one_key_more},
    {"window of a layer", ZOO_NANOCHAT_2026, see_one_key_more_in_a_layer},
    {"period of full layers", ZOO_LLAMA_PATTERN, window_another_layer},
    {"branches in turn", ZOO_GPTNEOX, run_in_turn},
    {"partial rope", ZOO_GPTNEOX, rotate_fewer},
    {"pairs of rope", ZOO_QWEN2, pair_neighbours},
    {"a layer without rope", ZOO_SMOLLM3, rotate_all_layers},
    {"root of n_embd", ZOO_GEMMA3, do_not_scale_embeddings},
    {"gainless norms of q and k", ZOO_NANOCHAT_2025, do_not_normalise_q_and_k},
    {"LayerNorm without gain", ZOO_OLMO, do_not_remove_the_mean},
    {"a weight", ZOO_LLAMA, nudge_a_weight},
    {"a weight of Q4_K", ZOO_QWEN3_Q4_K, nudge_a_weight},
    {"a divisor", ZOO_LLAMA_SCALED, nudge_a_divisor},
    {"a residual lambda", ZOO_NANOCHAT_2026, nudge_resid_lambda},
    {"an x0 lambda", ZOO_NANOCHAT_2026, nudge_x0_lambda},
    {"a gain of q", ZOO_QWEN3, nudge_q_norm},
    {"a gain of all of q", ZOO_OLMO2, nudge_q_norm},
    {"a gain behind a branch", ZOO_OLMO2, nudge_post_norm},
    {"a bias of the head", ZOO_PHI2, nudge_head_bias},
    {"a bias of v", ZOO_QWEN2, nudge_v_bias},
};

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
        changes[i].change(m);
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
