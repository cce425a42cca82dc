/* Tests of what --explain solves for: vectors, matrices, orders, factors and numbers that no list
 * holds, planted in toys or in the reference's pass, one at a time; with all inner values, without
 * those of norms (most programs record none), and from the logits alone. What cannot be told must
 * not be claimed. */
#include "check/oracle/oracle.h"
#include "support/planted.h"
#include "support/said.h"
#include "support/sanitized.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

SAID_IN("tests/tools/check/explain_solved.said")

#include <math.h>

/* ---- in the reference --------------------------------------------------------------------------- */

static void ref_scaled(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)user;
    for (size_t i = 0; i < n && point == MGPT_MLP_OUT && layer == 1; i++)
        row[i] *= 2.5;
}

static void ref_negated(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)user;
    for (size_t i = 0; i < n && point == MGPT_ATTN_OUT && layer == 0; i++)
        row[i] = -row[i];
}

static void ref_attn_cap(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)layer, (void)user;
    for (size_t i = 0; i < n && point == MGPT_SCORES; i++)
        row[i] = isfinite(row[i]) ? 2.75 * tanh(row[i] / 2.75) : row[i];
}

static void ref_embd_scale(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)layer, (void)user;
    for (size_t i = 0; i < n && point == MGPT_EMBD; i++)
        row[i] *= 3;
}

static void ref_logarithms(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    double sum = 0;
    (void)layer, (void)user;
    for (size_t i = 0; i < n && point == MGPT_LOGITS; i++)
        sum += exp(row[i]);
    for (size_t i = 0; i < n && point == MGPT_LOGITS; i++)
        row[i] -= log(sum);
}

/* Controls: nothing that could be named. */
static void ref_bent(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)user;
    for (size_t i = 0; i < n && point == MGPT_MLP_OUT && layer == 0; i++)
        row[i] += 0.2 * sin(7 * row[i]) + 0.1 * row[i] * row[i];
}

/* One column only, so that it looks like a row of the matrix before it. */
static void ref_bent_column(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)user;
    if (n > 3 && point == MGPT_ATTN_OUT && layer == 0)
        row[3] += 0.3 * row[3] * row[3] + 0.1;
}

static void ref_noise(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    for (size_t i = 0; i < n && point == MGPT_Q && layer == 1; i++)
        row[i] += 0.1 * toy_normal(user);
}

static void ref_logits_bent(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)layer, (void)user;
    for (size_t i = 0; i < n && point == MGPT_LOGITS; i++)
        row[i] += 0.1 * row[i] * row[i];
}

/* As a program writes them that runs in float16: far from exact, within the bound. */
static void ref_logits_rounded(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)layer, (void)user;
    for (size_t i = 0; i < n && point == MGPT_LOGITS; i++) {
        int power;
        double digits = frexp(row[i], &power);
        row[i] = ldexp(rint(ldexp(digits, 11)), power - 11);
    }
}

/* Less than the bound, more than a hundredth of what a soft cap of 3 does. */
static void ref_logits_near(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)layer;
    for (size_t i = 0; i < n && point == MGPT_LOGITS; i++)
        row[i] *= 1 + 0.05 * toy_normal(user);
}

/* ---- in the reference's description -------------------------------------------------------------- */

/* s (x + f(x)) for x + s f(x). */
static void sums_scaled(struct oracle_spec *spec, struct oracle_layer *layers)
{
    for (size_t i = 0; i < spec->n_layer; i++)
        layers[i].attn_more = layers[i].mlp_more = spec->residual_scale - 1;
}

static void mlp_replaces(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)spec;
    layers[0].mlp_more = -1;
}

static void three_switches(struct oracle_spec *spec, struct oracle_layer *layers)
{
    spec->logit_scale = spec->residual_scale = 1;
    for (size_t i = 0; i < spec->n_layer; i++)
        layers[i].activation = "gelu_tanh";
}

static void no_multipliers(struct oracle_spec *spec, struct oracle_layer *layers)
{
    spec->logit_scale = spec->residual_scale = spec->embd_scale = 1;
    for (size_t i = 0; i < spec->n_layer; i++)
        layers[i].attn_scale = 1 / sqrt((double)spec->head_dim);
}

/* About what the base 1000 gives, which no base gives. */
static void odd_frequencies(struct oracle_spec *spec, struct oracle_layer *layers)
{
    static double freq[4];
    static const double times[4] = {1, 1.006, 0.994, 1};
    for (size_t i = 0; i < 4; i++)
        freq[i] = pow(1e3, -(double)i / 4) * times[i];
    for (size_t i = 0; i < spec->n_layer; i++)
        layers[i].freq = freq;
}

/* The tokens' names, one place too far. */
static void rolled(int32_t *tokens, size_t n)
{
    int32_t last = tokens[n - 1];
    memmove(tokens + 1, tokens, (n - 1) * sizeof *tokens);
    tokens[0] = last;
}

/* ---- the cases ---------------------------------------------------------------------------------- */

/* clang-format off */
static const struct toy_spec llama = {
    .label = "llama", .arch = "llama", .n_layer = 2, .n_embd = 16, .n_head = 4, .n_head_kv = 2,
    .n_ff = 24, .n_ctx = 40, .n_vocab = 40, .seed = 21};
static const struct toy_spec capped = {
    .label = "llama with a cap", .arch = "llama", .n_layer = 2, .n_embd = 16, .n_head = 4,
    .n_ff = 24, .n_ctx = 40, .n_vocab = 40, .logit_softcap = 2.3, .seed = 22};
static const struct toy_spec gpt2 = {
    .label = "gpt2", .arch = "gpt2", .n_layer = 2, .n_embd = 16, .n_head = 4, .n_ff = 32,
    .n_ctx = 40, .n_vocab = 40, .biases = 1, .seed = 23};
static const struct toy_spec gpt2_small = {
    .label = "gpt2, one layer", .arch = "gpt2", .n_layer = 1, .n_embd = 16, .n_head = 4, .n_ff = 24,
    .n_ctx = 40, .n_vocab = 40, .biases = 1, .seed = 27};
static const struct toy_spec llama_biases = {
    .label = "llama with biases", .arch = "llama", .n_layer = 2, .n_embd = 16, .n_head = 2, .n_head_kv = 1,
    .n_ff = 24, .n_ctx = 40, .n_vocab = 40, .biases = 1, .seed = 28};
static const struct toy_spec granite = {
    .label = "granite", .arch = "granite", .n_layer = 2, .n_embd = 16, .n_head = 4, .n_ff = 24,
    .n_ctx = 40, .n_vocab = 40, .embd_scale = 5, .attn_scale = 0.1, .residual_scale = 0.4,
    .logit_scale = 3, .seed = 41};
static const struct toy_spec turning = {
    .label = "llama, heads of 8", .arch = "llama", .n_layer = 1, .n_embd = 16, .n_head = 2, .n_ff = 16,
    .n_ctx = 40, .n_vocab = 24, .seed = 43};
static const struct toy_spec based = {
    .label = "llama, another base", .arch = "llama", .n_layer = 1, .n_embd = 16, .n_head = 2, .n_ff = 16,
    .n_ctx = 40, .n_vocab = 40, .rope_base = 7.3e6, .seed = 43};
static const struct toy_spec qwen3 = {
    .label = "qwen3", .arch = "qwen3", .n_layer = 2, .n_embd = 16, .n_head = 4, .n_head_kv = 2,
    .n_ff = 24, .n_ctx = 40, .n_vocab = 40, .seed = 26};
static const struct toy_spec micro = {
    .label = "microgpt", .arch = "microgpt", .n_layer = 2, .n_embd = 16, .n_head = 4, .n_ff = 32,
    .n_ctx = 40, .n_vocab = 27, .seed = 24};
static const struct toy_spec micro_tied = {
    .label = "microgpt, tied", .arch = "microgpt", .n_layer = 2, .n_embd = 16, .n_head = 4,
    .n_ff = 32, .n_ctx = 40, .n_vocab = 27, .tied = 1, .seed = 25};

#define OTHER " differs in the reference"
#define ONES OTHER " (here all ones)"
#define ZEROS OTHER " (here all zeros)"
#define PARTS(order) "rows blk.0.attn_qkv.weight 16 " order "; rows blk.0.attn_qkv.bias 16 " order

/* Label, toy, edits of the file, first bad hook, cause. */
static const struct bug cases[] = {
    {"bias zero", &gpt2, "value blk.0.ffn_up.bias all 0", "blocks.0.mlp.hook_pre",
     "blk.0.ffn_up.bias" ZEROS, BY_LOGITS},
    {"biases zero in all layers", &gpt2, "value blk.*.ffn_up.bias all 0", "blocks.0.mlp.hook_pre",
     "ffn_up.bias differs in the reference, in 2 layers (here all zeros)", BY_HOOKS},
    {"two biases zero in all layers", &gpt2,
     "value blk.*.attn_qkv.bias all 0; value blk.*.ffn_down.bias all 0", "blocks.0.attn.hook_q",
     "attn_qkv.bias, ffn_down.bias differ in the reference, 4 tensors (here all zeros)", BY_HOOKS},
    {"the MLP's biases in all layers", &gpt2, "value blk.*.ffn_up.bias all 0; value blk.*.ffn_down.bias all 0",
     "blocks.0.mlp.hook_pre", "ffn_up.bias, ffn_down.bias differ in the reference, 4 tensors (here all zeros)",
     BY_LOGITS, .n = PLANTED_MOST},
    {"all biases but those of norms", &gpt2_small,
     "value blk.*.attn_qkv.bias all 0; value blk.*.attn_output.bias all 0; value blk.*.ffn_up.bias all 0; "
     "value blk.*.ffn_down.bias all 0", "blocks.0.attn.hook_q",
     "attn_output.bias, ffn_up.bias, ffn_down.bias and others differ in the reference, 4 tensors (here all zeros)",
     BY_LOGITS, .n = PLANTED_MOST},
    {"attention's biases in all layers", &llama_biases,
     "value blk.*.attn_q.bias all 0; value blk.*.attn_k.bias all 0; value blk.*.attn_v.bias all 0; "
     "value blk.*.attn_output.bias all 0", "blocks.0.attn.hook_q",
     "attn_k.bias, attn_v.bias, attn_output.bias and others differ in the reference, 8 tensors (here all zeros)", BY_LOGITS,
     .n = PLANTED_MOST},
    {"gains of q in all layers", &qwen3, "value blk.*.attn_q_norm.weight all 1", "blocks.0.attn.hook_rot_q",
     "attn_q_norm.weight differs in the reference, in 2 layers (here all ones)", BY_LOGITS, .n = PLANTED_MOST},
    {"a bias and a matrix", &gpt2, "value output_norm.bias all 0; transpose blk.*.attn_output.weight",
     "blocks.0.hook_attn_out", "transposed: attn_output; output_norm.bias" ZEROS, BY_LOGITS},
    {"matrices of all layers", &micro,
     "plus blk.*.attn_q.weight 3 .5; plus blk.*.attn_q.weight 40 .5; plus blk.*.attn_v.weight 9 .5; "
     "plus blk.*.attn_v.weight 71 .5; plus blk.*.attn_v.weight 201 .5", "blocks.0.attn.hook_q",
     "attn_q.weight, attn_v.weight are different matrices in the reference, 4 tensors", BY_HOOKS,
     .n = PLANTED_MOST},
    {"bias missing", &gpt2, "drop blk.1.attn_output.bias", "blocks.1.hook_attn_out",
     "blk.1.attn_output.bias" OTHER " (here missing)", BY_LOGITS},
    {"another bias", &gpt2,
     "plus blk.1.ffn_down.bias 0 .5; plus blk.1.ffn_down.bias 3 .5; plus blk.1.ffn_down.bias 9 .5",
     "blocks.1.hook_mlp_out", "blk.1.ffn_down.bias" OTHER, BY_LOGITS},
    {"bias of a norm", &gpt2, "value blk.1.attn_norm.bias all 0", "blocks.1.ln1.hook_normalized",
     "blk.1.attn_norm.bias" ZEROS, BY_LOGITS, .bare = "blocks.1.attn.hook_q"},
    {"gain of ones", &llama, "value blk.1.attn_norm.weight all 1", "blocks.1.ln1.hook_normalized",
     "blk.1.attn_norm.weight" ONES, BY_LOGITS, .bare = "blocks.1.attn.hook_q"},
    {"another gain", &llama,
     "times blk.0.ffn_norm.weight 0 1.5; times blk.0.ffn_norm.weight 1 1.5; "
     "times blk.0.ffn_norm.weight 4 1.5",
     "blocks.0.ln2.hook_normalized", "blk.0.ffn_norm.weight" OTHER, BY_LOGITS,
     .bare = "blocks.0.mlp.hook_pre"},
    {"final gain", &llama, "value output_norm.weight all 1", "ln_final.hook_normalized",
     "output_norm.weight" ONES, BY_LOGITS, .bare = "logits"},
    {"gain and bias", &gpt2, "value blk.0.ffn_norm.weight all 1; value blk.0.ffn_norm.bias all 0",
     "blocks.0.ln2.hook_normalized", "blk.0.ffn_norm.weight" ONES ", and its bias",
     .bare = "blocks.0.mlp.hook_pre"},
    {"tied", &llama, "copy output.weight token_embd.weight", "logits",
     "tied head: output.weight equals token_embd.weight", BY_HOOKS},
    {"tied, solved", &micro, "copy output.weight token_embd.weight", "logits",
     "output.weight is a different matrix", BY_LOGITS, .n = PLANTED_MOST},
    {"tied, in few digits", &micro, "copy output.weight token_embd.weight", "logits",
     "output.weight is a different matrix", BY_LOGITS, .patch = ref_logits_rounded, .bound = 1e-5, .n = PLANTED_MOST},
    {"tied by absence", &gpt2_small, "drop output.weight", "logits",
     "output.weight is a different matrix in the reference (tied head: output.weight is not there)",
     BY_LOGITS, .n = PLANTED_MOST},
    {"rows rolled", &gpt2, "roll blk.1.ffn_down.weight 3", "blocks.1.hook_mlp_out",
     "rows shifted by 3", BY_HOOKS},
    {"two rows", &llama, "rows blk.0.attn_v.weight 1 0 1 2 7 4 5 6 3", "blocks.0.attn.hook_v",
     "blk.0.attn_v.weight: rows 3 and 7 exchanged", BY_HOOKS},
    {"two rows of q", &llama, "rows blk.0.attn_q.weight 1 0 1 2 5 4 3 6 7 8 9 10 11 12 13 14 15",
     "blocks.0.attn.hook_q", "blk.0.attn_q.weight: rows 3 and 5 exchanged", BY_HOOKS},
    {"recorded in pairs", &llama, NULL, "blocks.0.attn.hook_q",
     "q and k recorded as GGUF and llama2.c have them", .pairs = 1},
    {"order of heads", &llama, "rows blk.1.attn_q.weight 4 2 0 3 1", "blocks.1.attn.hook_q",
     "blk.1.attn_q.weight: heads are in another order here: 1 3 0 2", BY_HOOKS},
    {"q and k in one", &gpt2, PARTS("1 0 2"), "blocks.0.attn.hook_q",
     "q and k exchanged", BY_LOGITS},
    {"k and v in one", &gpt2, PARTS("0 2 1"), "blocks.0.attn.hook_k",
     "k and v exchanged", BY_LOGITS},
    {"k, v, q", &gpt2, PARTS("1 2 0"), "blocks.0.attn.hook_q", "k, v, q in attn_qkv", BY_LOGITS},
    {"cap of logits", &capped, "no_key llama.final_logit_softcapping -", "logits",
     "a soft cap of 2.3 on the logits", BY_LOGITS},
    {"cap of scores", &llama, NULL, "blocks.0.attn.hook_attn_scores",
     "a soft cap of 2.75 on attention scores", BY_LOGITS, .patch = ref_attn_cap},
    {"embeddings", &llama, NULL, "blocks.0.hook_resid_pre", "embeddings times 3", BY_LOGITS,
     .patch = ref_embd_scale, .embd = 3},
    {"epsilon", &llama, "f32 llama.attention.layer_norm_rms_epsilon 0.02",
     "blocks.0.ln1.hook_normalized", "epsilon of norms 1e-05", BY_LOGITS,
     .bare = "blocks.0.attn.hook_q"},
    {"rope base", &llama, "f32 llama.rope.freq_base 12345", "blocks.0.attn.hook_rot_q",
     "rope base 10000", BY_LOGITS},
    {"rope base of no list", &based, "f32 llama.rope.freq_base 500000", "blocks.0.attn.hook_rot_q",
     "rope base 7.3e+06, not 500000", BY_LOGITS, .bound = 1e-4},
    {"nearly a base", &turning, NULL, "blocks.0.attn.hook_rot_q", NULL, BY_LOGITS,
     .differs = odd_frequencies, .n = 8, .bound = 1e-4},
    {"sums scaled", &granite, NULL, "blocks.0.hook_resid_mid", "s (x + f(x)), not of the branch", BY_LOGITS,
     .differs = sums_scaled},
    {"three switches", &granite, NULL, "blocks.0.hook_attn_out",
     "activation gelu_tanh; logits not multiplied by their scale; branches times 1", BY_LOGITS,
     .differs = three_switches},
    {"no multipliers", &granite, NULL, "hook_embed", "no multiplier of embeddings", BY_LOGITS,
     .differs = no_multipliers},
    {"one weight", &llama, "value blk.0.ffn_down.weight 100 -5", "blocks.0.hook_mlp_out",
     "blk.0.ffn_down.weight", BY_LOGITS},
    {"one weight of k in one", &gpt2, "plus blk.0.attn_qkv.weight 309 0.5", "blocks.0.attn.hook_k",
     "blk.0.attn_qkv.weight row 19 column 5", BY_HOOKS},
    {"scaled", &gpt2, NULL, "blocks.1.hook_mlp_out", "blk.1.ffn_down.weight: times 2.5",
     .patch = ref_scaled},
    {"other sign", &gpt2, NULL, "blocks.0.hook_attn_out", "attn_output.weight: the other sign",
     .patch = ref_negated},
    {"probabilities", &llama, NULL, "logits", "logarithms of probabilities", BY_LOGITS,
     .patch = ref_logarithms},
    {"tokens rolled", &llama, NULL, "hook_embed", "token n is the one named n + 1", BY_LOGITS,
     .rename = rolled},
    {"bent", &gpt2, NULL, "blocks.0.hook_mlp_out", NULL, BY_LOGITS, .patch = ref_bent},
    {"bent column", &llama, NULL, "blocks.0.hook_attn_out", NULL, BY_LOGITS,
     .patch = ref_bent_column, .n = 5},
    {"noise", &llama, NULL, "blocks.1.attn.hook_q", NULL, BY_LOGITS, .patch = ref_noise},
    {"bent logits", &llama, NULL, "logits", NULL, BY_LOGITS, .patch = ref_logits_bent},
    {"a cap and more", &llama, "f32 llama.final_logit_softcapping 3", "logits", NULL, BY_LOGITS,
     .patch = ref_logits_near, .bound = 8e-3},
    {"only the residual", &llama, NULL, "blocks.1.hook_resid_pre",
     "the MLP's output replaces the residual, it is not added, in layer 0 only", BY_HOOKS,
     .differs = mlp_replaces, .only = MGPT_POINT_BIT(MGPT_RESID_PRE)},
    {"bent logits, tied", &micro_tied, NULL, "logits", NULL, BY_LOGITS, .patch = ref_logits_bent,
     .n = PLANTED_MOST},
};
/* clang-format on */

/* With all hooks, without norms, from the logits alone. Sanitizers look at memory, not at causes,
 * and take minutes: a third of the cases is enough for them. */
TEST(solved)
{
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(cases); i += SANITIZED ? 3 : 1)
        missed += planted_missed(&cases[i], 1);
    assert_int_equal(missed, 0);
}
