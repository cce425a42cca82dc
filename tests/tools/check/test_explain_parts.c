/* Causes of --explain that are a change of one part of the model: of one norm, or of what one product
 * reads. Each is planted in each part alone and must be named with it, so that no part stands for
 * another. */
#include "check/oracle/oracle.h"
#include "support/planted.h"
#include "support/said.h"
#include "support/sanitized.h"
#include "support/unit.h"

SAID_IN("tests/tools/check/explain_parts.said")

/* clang-format off */
static const struct toy_spec llama = {
    .label = "llama", .arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 31};
static const struct toy_spec qwen3 = {
    .label = "qwen3", .arch = "qwen3", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 33};
static const struct toy_spec gemma2 = {
    .label = "gemma2", .arch = "gemma2", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .window = 4, .attn_softcap = 3, .logit_softcap = 4, .seed = 37};
static const struct toy_spec bloom = {
    .label = "bloom", .arch = "bloom", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 64,
    .n_ctx = 40, .n_vocab = 60, .biases = 1, .seed = 38};
static const struct toy_spec mixture = {
    .label = "mixture", .arch = "qwen3moe", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2, .n_ff = 24,
    .n_expert = 6, .n_expert_used = 2, .n_ctx = 40, .n_vocab = 60, .seed = 40};

struct changed_part {
    const struct toy_spec *spec;
    int which;        /* bits of enum oracle_norm_where, or of enum oracle_raw */
    const char *hook; /* the first bad one */
    const char *text;
};

static const struct changed_part norms[] = {
    {&gemma2, ORACLE_NORM_FINAL, "ln_final.hook_normalized", "(the final norm)"},
    {&gemma2, ORACLE_NORM_ATTN | ORACLE_NORM_MLP, "blocks.0.ln1.hook_normalized", "(norms of layers)"},
    {&gemma2, ORACLE_NORM_ATTN, "blocks.0.ln1.hook_normalized", "(the norm before attention)"},
    {&gemma2, ORACLE_NORM_MLP, "blocks.0.ln2.hook_normalized", "(the norm before the MLP)"},
    {&gemma2, ORACLE_NORM_POST_ATTN | ORACLE_NORM_POST_MLP, "blocks.0.hook_attn_out", "(norms after branches)"},
    {&gemma2, ORACLE_NORM_POST_ATTN, "blocks.0.hook_attn_out", "(the norm after attention)"},
    {&gemma2, ORACLE_NORM_POST_MLP, "blocks.0.hook_mlp_out", "(the norm after the MLP)"},
    {&qwen3, ORACLE_NORM_Q | ORACLE_NORM_K, "blocks.0.attn.hook_rot_q", "(norms of q and k)"},
    {&qwen3, ORACLE_NORM_Q, "blocks.0.attn.hook_rot_q", "(norm of q)"},
    {&qwen3, ORACLE_NORM_K, "blocks.0.attn.hook_rot_k", "(norm of k)"},
    {&bloom, ORACLE_NORM_EMBD, "ln_embed.hook_normalized", "(the norm after the embedding)"},
};
static const struct changed_part products[] = {
    {&llama, ORACLE_RAW_Q, "blocks.0.attn.hook_q", "products of q read"},
    {&llama, ORACLE_RAW_K, "blocks.0.attn.hook_k", "products of k read"},
    {&llama, ORACLE_RAW_V, "blocks.0.attn.hook_v", "products of v read"},
    {&llama, ORACLE_RAW_Q | ORACLE_RAW_K, "blocks.0.attn.hook_q", "products of q and k read"},
    {&llama, ORACLE_RAW_Q | ORACLE_RAW_V, "blocks.0.attn.hook_q", "products of q and v read"},
    {&llama, ORACLE_RAW_GATE, "blocks.0.mlp.hook_pre", "products of gate read"},
    {&llama, ORACLE_RAW_UP, "blocks.0.mlp.hook_pre_linear", "products of up read"},
    {&mixture, ORACLE_RAW_ROUTER, "blocks.0.mlp.hook_router_scores", "products of the router of experts read"},
};
/* clang-format on */

static int planted; /* `which` of the part */

static void sum_not_mean(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->norm_how = ORACLE_NORM_SUM;
    spec->norm_where = planted;
}

static void reads_residual(struct oracle_spec *spec, struct oracle_layer *layers)
{
    for (size_t i = 0; i < spec->n_layer; i++)
        layers[i].raw = planted;
}

static size_t parts_missed(const struct changed_part *parts, size_t n, toy_differs *differs)
{
    size_t missed = 0;
    for (size_t i = 0; i < n; i += SANITIZED ? 3 : 1) {
        const struct changed_part *p = &parts[i];
        const struct bug bug = {p->text,   p->spec,           NULL, p->hook, p->text,
                                BY_LOGITS, .differs = differs};
        planted = p->which;
        missed += planted_missed(&bug, 0);
    }
    return missed;
}

TEST(norms)
{
    assert_int_equal(parts_missed(norms, COUNT(norms), sum_not_mean), 0);
}

TEST(products_of_the_residual)
{
    assert_int_equal(parts_missed(products, COUNT(products), reads_residual), 0);
}

static void in_bfloat16(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->type = ORACLE_BF16;
    spec->rounded = ORACLE_ALL;
}

static void round_weights(struct toy *m)
{
    for (size_t i = 0; i < m->n_tensors; i++)
        for (size_t k = 0; k < m->tensors[i].n; k++) {
            uint32_t bits;
            memcpy(&bits, &m->tensors[i].values[k], sizeof bits);
            bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
            memcpy(&m->tensors[i].values[k], &bits, sizeof bits);
        }
}

/* A whole pass in bfloat16 rounds all weights: embeddings, gains and biases, too. */
TEST(a_pass_in_bfloat16)
{
    int32_t tokens[PLANTED_N];
    struct toy *m = toy_build(&bloom);
    struct trace *t[3];
    toy_tokens(m, 1, tokens, PLANTED_N);
    for (int i = 0; i < 3; i++) { /* exact; in bfloat16; the same with such weights */
        m->differs = i ? in_bfloat16 : NULL;
        if (i == 2)
            round_weights(m);
        t[i] = oracle_run(m, tokens, PLANTED_N, NULL, NULL);
    }
    const struct trace_value *exact = trace_at(t[0], MGPT_LOGITS, -1),
                             *all = trace_at(t[1], MGPT_LOGITS, -1),
                             *rounded = trace_at(t[2], MGPT_LOGITS, -1);
    size_t size = PLANTED_N * all->cols * sizeof *all->data;
    assert_memory_equal(all->data, rounded->data, size);
    assert_int_not_equal(memcmp(all->data, exact->data, size), 0);
    for (int i = 0; i < 3; i++)
        trace_free(t[i]);
    toy_free(m);
}

static const struct toy_spec three_heads = {.label = "3 heads",
                                            .arch = "llama",
                                            .n_layer = 2,
                                            .n_embd = 12,
                                            .n_head = 3,
                                            .n_ff = 16,
                                            .n_ctx = 40,
                                            .n_vocab = 40,
                                            .seed = 47};

/* Heads and components in the wrong order: one is not the other where their numbers differ. */
TEST(rows_of_heads)
{
    static const struct bug bugs[] = {
        {"components", &three_heads, "rows blk.*.attn_v.weight 1 0 4 8 1 5 9 2 6 10 3 7 11",
         "blocks.0.attn.hook_v", "stored component by component", BY_LOGITS},
        {"heads", &three_heads, "rows blk.*.attn_v.weight 1 0 3 6 9 1 4 7 10 2 5 8 11",
         "blocks.0.attn.hook_v", "stored head by head", BY_LOGITS}};
    for (size_t i = 0; i < COUNT(bugs); i++)
        assert_int_equal(planted_missed(&bugs[i], 0), 0);
}

/* ---- gpt-oss ---- */

static const struct toy_spec gpt_oss = {.label = "gpt-oss",
                                        .arch = "gpt-oss",
                                        .n_layer = 2,
                                        .n_embd = 32,
                                        .n_head = 4,
                                        .n_head_kv = 2,
                                        .n_ff = 24,
                                        .n_ctx = 40,
                                        .n_vocab = 60,
                                        .n_expert = 4,
                                        .n_expert_used = 2,
                                        .window = 4,
                                        .glu_limit = 1,
                                        .seed = 46};

static enum oracle_tensor (*first_find)(void *user, const char *name);

static enum oracle_tensor find_but_sinks(void *user, const char *name)
{
    return strstr(name, "sinks") ? ORACLE_ABSENT : first_find(user, name);
}

static void no_sinks(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    first_find = spec->source.find;
    spec->source.find = find_but_sinks;
}

static void no_limit(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->glu_limit = 0;
}

static void up_alone(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->up_more = 0;
}

static void alpha_of_1(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)spec;
    layers[0].activation = layers[1].activation = "silu";
}

static void windows_exchanged(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)spec;
    layers[1].window = layers[0].window;
    layers[0].window = 0;
}

static const struct toy_spec gated = {.label = "gates of heads",
                                      .arch = "afmoe",
                                      .n_layer = 2,
                                      .n_embd = 32,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .n_ff = 24,
                                      .n_ctx = 40,
                                      .n_vocab = 60,
                                      .window = 4,
                                      .seed = 47};

static void no_gates(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->no_gates = 1;
}

/* Layer 0 has four heads and sees all keys, layer 1 has six and a window. */
static const struct toy_spec laguna = {.label = "other heads",
                                       .arch = "laguna",
                                       .n_layer = 2,
                                       .n_embd = 32,
                                       .n_head = 4,
                                       .n_head_w = 6,
                                       .n_head_kv = 2,
                                       .head_dim = 12,
                                       .n_ff = 24,
                                       .n_ctx = 40,
                                       .n_vocab = 60,
                                       .window = 4,
                                       .pattern = "fw",
                                       .seed = 48};

static const struct toy_spec phimoe = {.label = "sparse mixer",
                                       .arch = "phimoe",
                                       .n_layer = 2,
                                       .n_embd = 32,
                                       .n_head = 4,
                                       .n_head_kv = 2,
                                       .n_ff = 24,
                                       .n_ctx = 40,
                                       .n_vocab = 60,
                                       .n_expert = 5,
                                       .n_expert_used = 2,
                                       .n_ff_expert = 12,
                                       .expert_jitter = 0.3,
                                       .seed = 49};

static const struct toy_spec inputs = {.label = "inputs of layers",
                                       .arch = "gemma4",
                                       .logit_softcap = 30,
                                       .n_layer = 2,
                                       .n_embd = 32,
                                       .n_head = 4,
                                       .n_head_kv = 2,
                                       .n_ff = 24,
                                       .n_ctx = 40,
                                       .n_vocab = 60,
                                       .n_input = 6,
                                       .seed = 50};

static const struct toy_spec values = {.label = "factor of values",
                                       .arch = "mimo2",
                                       .n_layer = 2,
                                       .n_embd = 32,
                                       .n_head = 4,
                                       .n_head_kv = 2,
                                       .head_dim = 12,
                                       .value_dim = 8,
                                       .n_ff = 24,
                                       .n_ctx = 40,
                                       .n_vocab = 60,
                                       .value_scale = 0.7,
                                       .seed = 51};

static void sigmoids(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->softplus_gates = 0;
}

static void softplus(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->softplus_gates = 1;
}

static void plain_softmax(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->expert_jitter = 0;
    spec->expert_norm = 0;
}

static void chosen_softmax(struct oracle_spec *spec, struct oracle_layer *layers)
{
    plain_softmax(spec, layers);
    spec->expert_norm = 1;
}

static void no_inputs(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->n_input = 0;
}

static void whole_values(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->value_scale = 1;
}

/* Where layers have other numbers of heads, patterns of all are compared and heads of each are moved. */
TEST(parts_of_newer_models)
{
    static const char gates[] = "blocks.0.attn.hook_gate",
                      weights[] = "blocks.0.mlp.hook_expert_weights";
    static const struct bug bugs[] = {
        {"sigmoids", &laguna, NULL, gates, "are sigmoids, not softplus", BY_LOGITS,
         .differs = sigmoids},
        {"softplus", &gated, NULL, gates, "are softplus, not sigmoids", BY_LOGITS,
         .differs = softplus},
        {"rolled", &laguna, "rows blk.0.attn_q.weight 12 1 2 3 0", "blocks.0.attn.hook_q",
         "heads shifted by 1", BY_HOOKS},
        {"all scores", &phimoe, NULL, weights, "softmax over all scores", BY_LOGITS,
         .differs = plain_softmax},
        {"chosen scores", &phimoe, NULL, weights, "softmax over the chosen scores", BY_LOGITS,
         .differs = chosen_softmax},
        {"factor of values", &values, NULL, "blocks.0.attn.hook_v",
         "values are not multiplied by their factor", BY_LOGITS, .differs = whole_values},
        {"inputs", &inputs, NULL, "blocks.0.hook_resid_post", "the inputs of layers", BY_LOGITS,
         .differs = no_inputs}};
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(bugs); i++)
        missed += planted_missed(&bugs[i], 0);
    assert_int_equal(missed, 0);
}

TEST(sinks_gates_and_limits)
{
    static const char mlp[] = "blocks.0.hook_mlp_out";
    static const struct bug bugs[] = {
        {"no sinks", &gpt_oss, NULL, "blocks.0.attn.hook_pattern",
         "sinks of attention are left out", BY_LOGITS, .differs = no_sinks},
        {"no gates", &gated, NULL, "blocks.0.attn.hook_z", "gates of heads are left out", BY_LOGITS,
         .differs = no_gates},
        {"no limit", &gpt_oss, NULL, mlp, "up are not limited", BY_LOGITS, .differs = no_limit},
        {"up alone", &gpt_oss, NULL, mlp, "what is added to it", BY_LOGITS, .differs = up_alone},
        {"alpha", &gpt_oss, NULL, mlp, "activation silu", BY_LOGITS, .differs = alpha_of_1},
        {"windows", &gpt_oss, NULL, "blocks.0.attn.hook_attn_scores", "window", BY_LOGITS,
         .differs = windows_exchanged}};
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(bugs); i++)
        missed += planted_missed(&bugs[i], 0);
    assert_int_equal(missed, 0);
}

/* ---- one matrix of gate and up --------------------------------------------------------------- */

/* The file is changed: what the reference does to its rows is the other way round. */

/* clang-format off */
static const struct bug joined[] = {
    {"experts in turn", &mixture, "halves blk.*.ffn_gate_exps.weight blk.*.ffn_up_exps.weight", "blocks.0.hook_mlp_out",
     "row by row in turn", BY_LOGITS},
    {"experts by halves", &mixture, "in_turn blk.*.ffn_gate_exps.weight blk.*.ffn_up_exps.weight", "blocks.0.hook_mlp_out",
     "half by half", BY_LOGITS},
    {"in turn", &llama, "halves blk.*.ffn_gate.weight blk.*.ffn_up.weight", "blocks.0.mlp.hook_pre", "row by row in turn", BY_LOGITS},
    {"by halves", &llama, "in_turn blk.*.ffn_gate.weight blk.*.ffn_up.weight", "blocks.0.mlp.hook_pre", "half by half", BY_LOGITS},
};
/* clang-format on */

TEST(rows_of_gate_and_up)
{
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(joined); i++)
        missed += planted_missed(&joined[i], 0);
    assert_int_equal(missed, 0);
}
