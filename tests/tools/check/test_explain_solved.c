/* Tests of what --explain solves for: vectors, matrices, orders, factors and numbers that no list holds,
 * planted in toys or in the reference's pass, one at a time; with all inner values, without those of norms
 * (most programs record none), and from the logits alone. What cannot be told must not be claimed. */
#include "support/planted.h"
#include "support/sanitized.h"
#include "support/toy_oracle.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

enum { N = 14, N_MOST = 24 };

/* ---- in the file -------------------------------------------------------------------------------- */

static struct toy_tensor *tensor(struct toy *m, const char *name)
{
    struct toy_tensor *t = toy_find(m, name);
    assert_non_null(t);
    return t;
}

static void fill(struct toy *m, const char *name, float value)
{
    struct toy_tensor *t = tensor(m, name);
    for (size_t i = 0; i < t->n; i++)
        t->values[i] = value;
}

static void bug_bias_zero(struct toy *m)
{
    fill(m, "blk.0.ffn_up.bias", 0);
}

static void bug_bias_missing(struct toy *m)
{
    toy_drop_tensor(m, "blk.1.attn_output.bias");
}

static void bug_bias_other(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "blk.1.ffn_down.bias");
    for (size_t i = 0; i < t->n; i += 3)
        t->values[i] += 0.5F;
}

static void bug_norm_bias(struct toy *m)
{
    fill(m, "blk.1.attn_norm.bias", 0);
}

static void bug_gain_ones(struct toy *m)
{
    fill(m, "blk.1.attn_norm.weight", 1);
}

static void bug_gain_other(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "blk.0.ffn_norm.weight");
    for (size_t i = 0; i < 5; i++)
        t->values[i] *= 1.5F;
}

static void bug_final_gain(struct toy *m)
{
    fill(m, "output_norm.weight", 1);
}

static void bug_norm_whole(struct toy *m)
{
    fill(m, "blk.0.ffn_norm.weight", 1);
    fill(m, "blk.0.ffn_norm.bias", 0);
}

static void bug_tied(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "output.weight");
    memcpy(t->values, tensor(m, "token_embd.weight")->values, t->n * sizeof *t->values);
}

/* Row r becomes what was row from[r]. */
static void order(struct toy *m, const char *name, const size_t *from)
{
    struct toy_tensor *t = tensor(m, name);
    size_t n = t->n_dims > 1 ? (size_t)t->dims[1] : t->n, width = t->n / n;
    float *copy = malloc(t->n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, t->values, t->n * sizeof *copy);
    for (size_t r = 0; r < n; r++)
        memcpy(t->values + r * width, copy + from[r] * width, width * sizeof *copy);
    free(copy);
}

static void bug_rows_rolled(struct toy *m)
{
    size_t from[16];
    for (size_t i = 0; i < 16; i++)
        from[i] = (i + 13) % 16; /* what should be row i stands at i + 3 */
    order(m, "blk.1.ffn_down.weight", from);
}

static void bug_two_rows(struct toy *m)
{
    static const size_t from[8] = {0, 1, 2, 7, 4, 5, 6, 3};
    order(m, "blk.0.attn_v.weight", from);
}

static void bug_two_rows_q(struct toy *m)
{
    static const size_t from[16] = {0, 1, 2, 5, 4, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    order(m, "blk.0.attn_q.weight", from);
}

static void bug_heads(struct toy *m)
{
    static const size_t heads[4] = {2, 0, 3, 1};
    size_t from[16];
    for (size_t i = 0; i < 16; i++)
        from[i] = heads[i / 4] * 4 + i % 4;
    order(m, "blk.1.attn_q.weight", from);
}

/* q, k and v of a tensor that holds all three, in the order a, b, c. */
static void parts(struct toy *m, size_t a, size_t b, size_t c)
{
    size_t from[48], block[3] = {a, b, c};
    for (size_t i = 0; i < 48; i++)
        from[i] = block[i / 16] * 16 + i % 16;
    order(m, "blk.0.attn_qkv.weight", from);
    order(m, "blk.0.attn_qkv.bias", from);
}

static void bug_qk(struct toy *m)
{
    parts(m, 1, 0, 2);
}

static void bug_kv(struct toy *m)
{
    parts(m, 0, 2, 1);
}

static void bug_kvq(struct toy *m)
{
    parts(m, 1, 2, 0);
}

static void bug_softcap(struct toy *m)
{
    toy_drop_key(m, "llama.final_logit_softcapping");
}

static void bug_eps(struct toy *m)
{
    toy_put_f32(m, "llama.attention.layer_norm_rms_epsilon", 0.02F);
}

static void bug_base(struct toy *m)
{
    toy_put_f32(m, "llama.rope.freq_base", 12345);
}

static void bug_far_out(struct toy *m)
{
    tensor(m, "blk.0.ffn_down.weight")->values[100] = -5;
}

/* ---- in the reference --------------------------------------------------------------------------- */

static void ref_scaled(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)user;
    for (size_t i = 0; i < n && point == MGPT_MLP_OUT && layer == 1; i++)
        row[i] *= 2.5;
}

static void ref_turned(mgpt_point point, int layer, double *row, size_t n, void *user)
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

/* The tokens' names, one place too far. */
static void rolled(int32_t *tokens, size_t n)
{
    int32_t last = tokens[n - 1];
    memmove(tokens + 1, tokens, (n - 1) * sizeof *tokens);
    tokens[0] = last;
}

/* ---- the cases ---------------------------------------------------------------------------------- */

static const struct toy_spec llama = {.label = "llama",
                                      .arch = "llama",
                                      .n_layer = 2,
                                      .n_embd = 16,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .n_ff = 24,
                                      .n_ctx = 40,
                                      .n_vocab = 40,
                                      .seed = 21};
static const struct toy_spec capped = {.label = "llama with a cap",
                                       .arch = "llama",
                                       .n_layer = 2,
                                       .n_embd = 16,
                                       .n_head = 4,
                                       .n_ff = 24,
                                       .n_ctx = 40,
                                       .n_vocab = 40,
                                       .softcap = 2.3,
                                       .seed = 22};
static const struct toy_spec gpt2 = {.label = "gpt2",
                                     .arch = "gpt2",
                                     .n_layer = 2,
                                     .n_embd = 16,
                                     .n_head = 4,
                                     .n_ff = 32,
                                     .n_ctx = 40,
                                     .n_vocab = 40,
                                     .biases = 1,
                                     .seed = 23};
static const struct toy_spec micro = {.label = "microgpt",
                                      .arch = "microgpt",
                                      .n_layer = 2,
                                      .n_embd = 16,
                                      .n_head = 4,
                                      .n_ff = 32,
                                      .n_ctx = 40,
                                      .n_vocab = 27,
                                      .seed = 24};
static const struct toy_spec micro_tied = {.label = "microgpt, tied",
                                           .arch = "microgpt",
                                           .n_layer = 2,
                                           .n_embd = 16,
                                           .n_head = 4,
                                           .n_ff = 32,
                                           .n_ctx = 40,
                                           .n_vocab = 27,
                                           .tied = 1,
                                           .seed = 25};

struct solved {
    struct bug bug;
    const char *bare; /* first bad hook where norms are not recorded; NULL: the same */
    oracle_patch *patch;
    void (*name)(int32_t *tokens, size_t n); /* what the reference calls its tokens */
    size_t n;                                /* positions, 0: N */
    double embd;                             /* embeddings were recorded before this factor; 0: 1 */
    int pairs; /* q and k were recorded with the components of a pair side by side */
};

#define ONES " is another in the reference (here all ones)"
#define ZEROS " is another in the reference (here all zeros)"

static const struct solved cases[] = {
    {.bug = {"bias zero", &gpt2, bug_bias_zero, "blocks.0.mlp.hook_pre", "blk.0.ffn_up.bias" ZEROS,
             1}},
    {.bug = {"bias missing", &gpt2, bug_bias_missing, "blocks.1.hook_attn_out",
             "blk.1.attn_output.bias is another in the reference (here missing)", 1}},
    {.bug = {"another bias", &gpt2, bug_bias_other, "blocks.1.hook_mlp_out",
             "blk.1.ffn_down.bias is another in the reference", 1}},
    {.bug = {"bias of a norm", &gpt2, bug_norm_bias, "blocks.1.ln1.hook_normalized",
             "blk.1.attn_norm.bias" ZEROS, 1},
     .bare = "blocks.1.attn.hook_q"},
    {.bug = {"gain of ones", &llama, bug_gain_ones, "blocks.1.ln1.hook_normalized",
             "blk.1.attn_norm.weight" ONES, 1},
     .bare = "blocks.1.attn.hook_q"},
    {.bug = {"another gain", &llama, bug_gain_other, "blocks.0.ln2.hook_normalized",
             "blk.0.ffn_norm.weight is another in the reference", 1},
     .bare = "blocks.0.mlp.hook_pre"},
    {.bug = {"final gain", &llama, bug_final_gain, "ln_final.hook_normalized",
             "output_norm.weight" ONES, 1},
     .bare = "logits"},
    {.bug = {"gain and bias", &gpt2, bug_norm_whole, "blocks.0.ln2.hook_normalized",
             "blk.0.ffn_norm.weight" ONES ", and its bias", 0},
     .bare = "blocks.0.mlp.hook_pre"},
    {.bug = {"tied", &llama, bug_tied, "logits",
             "tied head: output.weight equals token_embd.weight", 0}},
    {.bug = {"tied, solved", &micro, bug_tied, "logits", "output.weight is another matrix", 1},
     .n = N_MOST},
    {.bug = {"rows rolled", &gpt2, bug_rows_rolled, "blocks.1.hook_mlp_out", "rows shifted by 3",
             0}},
    {.bug = {"two rows", &llama, bug_two_rows, "blocks.0.attn.hook_v",
             "blk.0.attn_v.weight: rows 3 and 7 exchanged", 0}},
    {.bug = {"two rows of q", &llama, bug_two_rows_q, "blocks.0.attn.hook_q",
             "blk.0.attn_q.weight: rows 3 and 5 exchanged", 0}},
    {.bug = {"recorded in pairs", &llama, NULL, "blocks.0.attn.hook_q",
             "q and k recorded as GGUF and llama2.c have them", 0},
     .pairs = 1},
    {.bug = {"order of heads", &llama, bug_heads, "blocks.1.attn.hook_q",
             "blk.1.attn_q.weight: heads stand in another order here: 1 3 0 2", 0}},
    {.bug = {"q and k in one", &gpt2, bug_qk, "blocks.0.attn.hook_q", "q and k exchanged", 1}},
    {.bug = {"k and v in one", &gpt2, bug_kv, "blocks.0.attn.hook_k", "k and v exchanged", 1}},
    {.bug = {"k, v, q", &gpt2, bug_kvq, "blocks.0.attn.hook_q", "k, v, q in attn_qkv", 1}},
    {.bug = {"cap of logits", &capped, bug_softcap, "logits", "a soft cap of 2.3 on the logits",
             1}},
    {.bug = {"cap of scores", &llama, NULL, "blocks.0.attn.hook_attn_scores",
             "a soft cap of 2.75 on attention scores", 1},
     .patch = ref_attn_cap},
    {.bug = {"embeddings", &llama, NULL, "blocks.0.hook_resid_pre", "embeddings times 3", 1},
     .patch = ref_embd_scale,
     .embd = 3},
    {.bug = {"epsilon", &llama, bug_eps, "blocks.0.ln1.hook_normalized", "epsilon of norms 1e-05",
             1},
     .bare = "blocks.0.attn.hook_q"},
    {.bug = {"rope base", &llama, bug_base, "blocks.0.attn.hook_rot_q", "rope base 10000", 1}},
    {.bug = {"one weight", &llama, bug_far_out, "blocks.0.hook_mlp_out", "blk.0.ffn_down.weight",
             1}},
    {.bug = {"scaled", &gpt2, NULL, "blocks.1.hook_mlp_out", "blk.1.ffn_down.weight: times 2.5", 0},
     .patch = ref_scaled},
    {.bug = {"other sign", &gpt2, NULL, "blocks.0.hook_attn_out",
             "attn_output.weight: the other sign", 0},
     .patch = ref_turned},
    {.bug = {"probabilities", &llama, NULL, "logits", "logarithms of probabilities", 1},
     .patch = ref_logarithms},
    {.bug = {"tokens rolled", &llama, NULL, "hook_embed", "token n is the one named n + 1", 1},
     .name = rolled},
    {.bug = {"bent", &gpt2, NULL, "blocks.0.hook_mlp_out", NULL, 1}, .patch = ref_bent},
    {.bug = {"noise", &llama, NULL, "blocks.1.attn.hook_q", NULL, 1}, .patch = ref_noise},
    {.bug = {"bent logits", &llama, NULL, "logits", NULL, 1}, .patch = ref_logits_bent},
    {.bug = {"bent logits, tied", &micro_tied, NULL, "logits", NULL, 1},
     .patch = ref_logits_bent,
     .n = N_MOST},
};
enum { N_CASES = COUNT(cases) };

/* ---- running ------------------------------------------------------------------------------------ */

static void to_pairs(const struct trace_value *v, size_t n, size_t d)
{
    double *head = toy_alloc(d, sizeof *head);
    for (size_t i = 0; i < n * v->cols; i += d) {
        memcpy(head, v->data + i, d * sizeof *head);
        for (size_t j = 0; j < d; j++)
            v->data[i + j] = head[j / 2 + j % 2 * (d / 2)];
    }
    free(head);
}

/* The reference's pass. */
static struct trace *run_reference(const struct solved *c, const struct toy *good,
                                   const int32_t *tokens, size_t n)
{
    uint64_t rng = 99;
    struct trace *trace = oracle_run(good, tokens, n, c->patch, &rng);
    const struct trace_value *embd = trace_at(trace, MGPT_EMBD, -1);
    for (size_t i = 0; c->embd > 0 && i < n * embd->cols; i++)
        embd->data[i] /= c->embd;
    for (int layer = 0; c->pairs && layer < good->spec.n_layer; layer++)
        for (int p = MGPT_Q; p <= MGPT_ROT_K; p++)
            if (p != MGPT_V)
                to_pairs(trace_at(trace, (mgpt_point)p, layer), n, (size_t)good->spec.head_dim);
    return trace;
}

/* With all hooks, without norms, from the logits alone: how many of the three were right. */
static void run_case(const struct solved *c, size_t *wrong)
{
    const uint64_t norms =
        MGPT_POINT_BIT(MGPT_ATTN_IN) | MGPT_POINT_BIT(MGPT_MLP_IN) | MGPT_POINT_BIT(MGPT_FINAL);
    size_t n = c->n ? c->n : N;
    int32_t tokens[N_MOST];
    struct toy *good = toy_build(c->bug.spec), *broken = toy_build(c->bug.spec);
    struct told told;
    toy_tokens(good, 5, tokens, n);
    struct trace *trace = run_reference(c, good, tokens, n);
    if (c->name)
        c->name(tokens, n);
    if (c->bug.plant)
        c->bug.plant(broken);
    mgpt_model *model = toy_open(broken, NULL);
    struct answer a = told_answer(&told, trace, good, tokens, n, 0);
    *wrong += !planted_found(&c->bug, model, &a, c->bug.hook);
    told_forget(&told);
    a = told_answer(&told, trace, good, tokens, n, norms);
    *wrong += !planted_found(&c->bug, model, &a, c->bare ? c->bare : c->bug.hook);
    a.n_hooks = 0;
    if (c->bug.logits)
        *wrong += !planted_found(&c->bug, model, &a, "logits");
    mgpt_close(model);
    told_free(&told);
    toy_free(good);
    toy_free(broken);
}

TEST(solved)
{
    size_t wrong = 0;
    size_t every =
        SANITIZED ? 3 : 1; /* sanitizers look at memory, not at causes, and take minutes */
    for (size_t i = 0; i < N_CASES; i += every)
        run_case(&cases[i], &wrong);
    assert_int_equal(wrong, 0);
}
