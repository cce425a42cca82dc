/* Tests: the float64 oracle of a toy. See oracle.h.
 *
 * The pass itself is tools/check/oracle/oracle.c, which the shipped tool uses as well; here is what
 * the tests know: a toy described from its specification and the table of architectures
 * (toy_arch.h), nothing of it from src/. */
#include "support/toy_oracle.h"

#include "check/oracle/oracle.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct oracle_job {
    const struct toy *m;
    struct trace *trace;
    oracle_patch *patch;
    void *user;
};

/* ---- numbers ---- */

static enum oracle_tensor find(void *user, const char *name)
{
    const struct toy_tensor *t = toy_find(user, name);
    if (!t)
        return ORACLE_ABSENT;
    return t->blocks && t->type != TOY_NVFP4 ? ORACLE_INTEGERS : ORACLE_FLOATS;
}

static int read_values(void *user, const char *name, size_t row, size_t n, float *out,
                       mgpt_error *err)
{
    const struct toy_tensor *t = toy_find(user, name);
    (void)err;
    assert_non_null(t);
    assert_true((row + 1) * n <= t->n);
    memcpy(out, t->values + row * n, n * sizeof *out);
    return MGPT_OK;
}

/* Tensors of roles, as published files of most architectures call them. */
static const char *const stems[N_ORACLE_ROLES] = {[MGPT_W_E] = "token_embd",
                                                  [MGPT_W_POS] = "position_embd",
                                                  [MGPT_LN_EMBD] = "token_embd_norm",
                                                  [MGPT_LN_FINAL] = "output_norm",
                                                  [MGPT_W_U] = "output",
                                                  [MGPT_SMEAR_GATE] = "smear_gate",
                                                  [MGPT_W_HEAD] = "cls",
                                                  [MGPT_LN_HEAD] = "cls.norm",
                                                  [MGPT_LN1] = "attn_norm",
                                                  [MGPT_W_Q] = "attn_q",
                                                  [MGPT_W_K] = "attn_k",
                                                  [MGPT_W_V] = "attn_v",
                                                  [ORACLE_W_QKV] = "attn_qkv",
                                                  [MGPT_Q_NORM] = "attn_q_norm",
                                                  [MGPT_K_NORM] = "attn_k_norm",
                                                  [MGPT_VALUE_EMBD] = "attn_value_embd",
                                                  [MGPT_VALUE_GATE] = "attn_value_gate",
                                                  [MGPT_CONV] = "shortconv.conv",
                                                  [MGPT_SINKS] = "attn_sinks",
                                                  [MGPT_HEAD_GATE] = "attn_gate",
                                                  [MGPT_W_O] = "attn_output",
                                                  [MGPT_LN1_POST] = "post_attention_norm",
                                                  [MGPT_LN_MID] = "attn_output_norm",
                                                  [MGPT_LN2] = "ffn_norm",
                                                  [MGPT_W_GATE] = "ffn_gate",
                                                  [MGPT_W_UP] = "ffn_up",
                                                  [MGPT_W_DOWN] = "ffn_down",
                                                  [MGPT_W_ROUTER] = "ffn_gate_inp",
                                                  [MGPT_EXPERTS_GATE] = "ffn_gate_exps",
                                                  [MGPT_EXPERTS_UP] = "ffn_up_exps",
                                                  [MGPT_EXPERTS_DOWN] = "ffn_down_exps",
                                                  [ORACLE_SHARED_W_GATE] = "ffn_gate_shexp",
                                                  [ORACLE_SHARED_W_UP] = "ffn_up_shexp",
                                                  [ORACLE_SHARED_W_DOWN] = "ffn_down_shexp",
                                                  [MGPT_SHARED_GATE] = "ffn_gate_inp_shexp",
                                                  [MGPT_LN2_POST] = "post_ffw_norm",
                                                  [MGPT_LN_POST] = "layer_output_norm",
                                                  [MGPT_EXPERT_BIAS] = "exp_probs_b.bias",
                                                  [MGPT_W_Q_DOWN] = "attn_q_a",
                                                  [MGPT_Q_DOWN_NORM] = "attn_q_a_norm",
                                                  [MGPT_W_KV_DOWN] = "attn_kv_a_mqa",
                                                  [MGPT_KV_DOWN_NORM] = "attn_kv_a_norm",
                                                  [MGPT_W_KV_UP] = "attn_kv_b",
                                                  [MGPT_W_K_UP] = "attn_k_b",
                                                  [MGPT_W_V_UP] = "attn_v_b",
                                                  [MGPT_INPUT_EMBD] = "per_layer_token_embd",
                                                  [MGPT_INPUT_PROJ] = "per_layer_model_proj",
                                                  [MGPT_INPUT_NORM] = "per_layer_proj_norm",
                                                  [MGPT_INPUT_GATE] = "inp_gate",
                                                  [MGPT_INPUT_OUT] = "proj",
                                                  [MGPT_LN_INPUT] = "post_norm"};

/* Where an architecture's files call it otherwise. "": it has none, and the name is another's. */
static const char *stem_in(const struct toy_spec *s, int layer, int role)
{
    const char *last = s->row->last_norm, *mlp = s->row->mlp_norm;
    int conv = layer >= 0 && toy_convolves(s, layer);
    if (role == MGPT_LN_FINAL && last)
        return last;
    if (role == MGPT_EXPERTS_UP && s->stacked)
        return "ffn_gate_up_exps";
    if (role == MGPT_W_Q && s->n_q_latent)
        return "attn_q_b";
    if (role == MGPT_LN2 && mlp)
        return mlp;
    if ((role == MGPT_LN_EMBD && last && strcmp(last, stems[role]) == 0) ||
        ((role == MGPT_LN1_POST || role == MGPT_LN_MID) && mlp && strcmp(mlp, stems[role]) == 0))
        return "";
    if (s->two_norms && (role == MGPT_LN1 || role == MGPT_LN2))
        return role == MGPT_LN1 ? "attn_norm_2" : "attn_norm";
    if (conv && (role == ORACLE_W_QKV || role == MGPT_W_O))
        return role == MGPT_W_O ? "shortconv.out_proj" : "shortconv.in_proj";
    return stems[role];
}

static void toy_tensor_name(void *user, int layer, int role, const char *kind,
                            char name[ORACLE_NAME])
{
    const struct toy *m = user;
    const char *stem = stem_in(&m->spec, layer, role);
    if (role < MGPT_LN1)
        snprintf(name, ORACLE_NAME, "%s%s", stem, kind);
    else
        snprintf(name, ORACLE_NAME, "blk.%d.%s%s", layer, stem, kind);
}

/* All heads of all points: patched, then stored. */
static int keep(mgpt_point point, int layer, size_t pos, size_t head, double *row, size_t n,
                void *user)
{
    struct oracle_job *job = user;
    size_t heads = trace_is_attention(point) ? (size_t)toy_heads(&job->m->spec, layer) : 1;
    if (job->patch)
        job->patch(point, layer, row, n, job->user);
    assert_true(trace_put(job->trace, point, layer, pos, head, heads, row, n));
    return 0;
}

/* ---- the description ---- */

static int has(const struct toy *m, int layer, const char *stem)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, stem);
    return toy_find(m, name) != NULL;
}

/* Returns the columns of a matrix (1 of a tensor with one number), or 0 if there is no such
 * tensor. */
static size_t columns_of(const struct toy *m, int layer, int role)
{
    char name[ORACLE_NAME];
    toy_tensor_name((void *)(uintptr_t)m, layer, role, ".weight", name);
    const struct toy_tensor *t = toy_find(m, name);
    return t ? (size_t)t->dims[0] : 0;
}

static double number_of(const struct toy *m, const char *name)
{
    const struct toy_tensor *t = toy_find(m, name);
    return t ? (double)t->values[0] : 0;
}

/* Gains exist where the table of architectures says that there are norms, and nowhere else. */
static void check_gains(const struct toy *m, int layer)
{
    const struct toy_arch *row = m->spec.row;
    int behind = row->norms == NORMS_AFTER || row->norms == NORMS_AROUND;
    int qk =
        row->qk == QK_PER_HEAD || row->qk == QK_WHOLE || m->spec.head_gains || m->spec.qk_norms;
    int named = row->mlp_norm && strcmp(row->mlp_norm, "post_attention_norm") == 0;
    assert_int_equal(has(m, layer, "post_attention_norm"), behind || named);
    assert_int_equal(has(m, layer, "post_ffw_norm"), behind);
    int conv = toy_convolves(&m->spec, layer);
    assert_int_equal(has(m, layer, "attn_q_norm"), qk && !conv);
    assert_int_equal(has(m, layer, "attn_k_norm"), qk && !conv && !toy_shares(&m->spec, layer));
}

/* Layers with a window may have a base of their own, and then know no scaling. */
static int is_local(const struct toy_spec *s, int layer)
{
    return (s->window_base != 0 || s->row->window_base != 0) && toy_window(s, layer);
}

/* YaRN's part of a frequency that is not divided: 1 for pairs that turn more than 32 times in the
 * original context, 0 for those that turn less than once, with bounds at whole pairs
 * unless yarn_exact. */
static double unscaled_part(const struct toy_spec *s, double i)
{
    double by = s->rope_dims / (2 * log((double)(float)s->rope_base)), tau = 8 * atan(1);
    double low = by * log(s->yarn / (32 * tau)), high = by * log(s->yarn / tau);
    low = fmax(0, s->yarn_exact ? low : floor(low));
    high = fmin(s->rope_dims - 1, s->yarn_exact ? high : ceil(high));
    return 1 - fmax(0, fmin(1, (i - low) / fmax(high - low, 1e-3)));
}

static double rope_scale(const struct toy_spec *s, int layer)
{
    double scale = s->rope_attn != 0 ? (double)(float)s->rope_attn : 1;
    if (is_local(s, layer))
        return 1;
    if (s->n_latent && s->yarn_less != 0) /* scores are multiplied */
        return scale;
    double octaves = 0.1 * log(s->yarn ? (double)(float)s->rope_factor : 1);
    return scale * (1 + octaves) / (1 + (double)(float)s->yarn_less * octaves);
}

/* Radians that pair i turns from one position to the next. */
static double frequency(const struct toy *m, int layer, size_t i)
{
    const struct toy_spec *s = &m->spec;
    int is_long = s->longrope && s->n_ctx > s->longrope;
    const struct toy_tensor *divisors = toy_find(m, !s->longrope ? "rope_freqs.weight"
                                                    : is_long    ? "rope_factors_long.weight"
                                                                 : "rope_factors_short.weight");
    double own = s->window_base != 0 ? s->window_base : s->row->window_base;
    double exponent = -2 * (double)i / (double)toy_rope_dims(s, layer);
    if (is_local(s, layer))
        return pow((double)(float)own, exponent);
    double f = pow((double)(float)s->rope_base, exponent);
    double kept = s->yarn ? unscaled_part(s, (double)i) : 0;
    if (s->rope_factor != 0)
        f *= kept + (1 - kept) / (double)(float)s->rope_factor;
    return divisors ? f / (double)divisors->values[i] : f;
}

static int is_chosen(enum toy_choice choice, int row)
{
    return choice == TOY_DEFAULT ? row : choice == TOY_YES;
}

/* Files for adjacent pairs are written from programs that rotate halves, whose order is the one
 * shown. */
static enum oracle_components is_stored(const struct toy_arch *row)
{
    if (row->place == PLACE_ADJACENT && !row->as_shown)
        return ORACLE_PAIRS;
    return row->exchanged ? ORACLE_EXCHANGED : ORACLE_AS_SHOWN;
}

/* DeepSeek's YaRN multiplies scores, by the square of what others multiply rotations with. */
static double usual_scale(const struct toy_spec *s)
{
    double all = 1;
    if (s->row->unscaled)
        return 1;
    if (s->n_latent && s->yarn)
        all += (double)(float)s->yarn_less * log((double)(float)s->rope_factor);
    return all * all / sqrt(s->head_dim);
}

static double out_scale(const struct toy *m, int layer)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.layer_output_scale.weight", layer);
    return number_of(m, name);
}

static struct oracle_layer describe_layer(const struct toy *m, int layer, double *freq)
{
    const struct toy_spec *s = &m->spec;
    const struct toy_arch *row = s->row;
    const struct toy_tensor *keep = toy_find(m, "resid_lambdas");
    const struct toy_tensor *mix = toy_find(m, "x0_lambdas");
    int every = s->no_rope_every ? s->no_rope_every : row->no_rope_every;
    int plain = row->plain_roped && (s->dense >> layer & 1) != 0;
    int skip = (every && (layer + 1) % every == 0) || (s->roped && s->roped[layer] == 'n') ||
               (row->rope_windowed && s->window && !toy_window(s, layer) && !plain);
    int before = row->norms != NORMS_AFTER && row->norms != NORMS_RESIDUAL;
    check_gains(m, layer);
    for (int i = 0; i < toy_rope_dims(s, layer) / 2; i++)
        freq[i] = row->place <= PLACE_ALIBI ? 0 : frequency(m, layer, (size_t)i);
    return (struct oracle_layer){
        .freq = row->place <= PLACE_ALIBI || skip ? NULL : freq,
        .rope_scale = rope_scale(s, layer),
        .window = (size_t)toy_window(s, layer),
        .conv = toy_convolves(s, layer) ? (size_t)s->n_conv : 0,
        .activation = s->activation ? s->activation : row->activation,
        .xielu = {log1p(exp((double)toy_xielu_alpha(layer, 0))),
                  TOY_XIELU_BETA + log1p(exp((double)toy_xielu_alpha(layer, 1))), TOY_XIELU_BETA,
                  TOY_XIELU_EPS},
        .attn_scale = s->attn_scale != 0 ? (double)(float)s->attn_scale : usual_scale(s),
        .n_head = s->n_latent ? 0 : (size_t)toy_heads(s, layer),
        .n_gate = (size_t)toy_gates(s, layer),
        .n_head_kv = s->n_latent ? 0 : (size_t)toy_heads_kv(s, layer),
        .head_dim = s->n_latent ? 0 : (size_t)toy_head_dim(s, layer),
        .value_dim = (size_t)toy_value_dim(s, layer),
        .n_rot = row->place <= PLACE_ALIBI ? 0 : (size_t)toy_rope_dims(s, layer),
        .n_ff = (size_t)toy_n_ff(s, layer),
        .others_keys = toy_shares(s, layer),
        .out_scale = has(m, layer, "layer_output_scale") ? out_scale(m, layer) : 1,
        .keep = keep ? (double)keep->values[layer] : 1,
        .mix_in_x0 = mix ? (double)mix->values[layer] : 0,
        .value_gate = columns_of(m, layer, MGPT_VALUE_GATE),
        .halves = row->place == PLACE_HALVES,
        .stored = is_stored(row),
        .attn_norm = before && (layer > 0 || !row->dense_head),
        .mlp_norm = before,
        .shared_norm = row->norms == NORMS_SHARED && !s->two_norms,
        .parallel = is_chosen(s->parallel, row->parallel)};
}

static enum oracle_qk toy_qk_norm(const struct toy_spec *s)
{
    if (s->row->qk == QK_WHOLE || s->head_gains)
        return ORACLE_QK_WHOLE;
    return s->row->qk == QK_PLAIN && !s->qk_norms ? ORACLE_QK_PLAIN : ORACLE_QK_PER_HEAD;
}

/* A number of the file, or what its absence means. */
static double or_else(double value, double absent)
{
    return value != 0 ? (double)(float)value : absent;
}

static size_t widest_gates(const struct toy_spec *s)
{
    int most = 0;
    for (int i = 0; i < s->n_layer; i++)
        most = toy_gates(s, i) > most ? toy_gates(s, i) : most;
    return (size_t)most;
}

static struct oracle_spec describe(const struct toy *m, const struct oracle_layer *layers)
{
    const struct toy_spec *s = &m->spec;
#define NUMBER_OF_SPEC(field, absent, kind, ...) .field = or_else(s->field, NUMBER_NEUTRAL_##kind),
    struct oracle_spec spec = {
        .source = {find, read_values, (void *)(uintptr_t)m, NULL, toy_tensor_name},
        .layers = layers,
        .n_layer = (size_t)s->n_layer,
        .n_embd = (size_t)s->n_embd,
        .n_head = (size_t)(s->n_head_w > s->n_head ? s->n_head_w : s->n_head),
        .n_head_kv = (size_t)s->n_head_kv,
        .head_dim = (size_t)s->head_dim,
        .n_gate = widest_gates(s),
        .softplus_gates = s->row->softplus_gates,
        .value_dim = (size_t)s->value_dim,
        .n_latent = (size_t)s->n_latent,
        .n_q_latent = (size_t)s->n_q_latent,
        .rot_first = s->n_latent ? (size_t)(s->head_dim - s->rope_dims) : 0,
        .n_ff = (size_t)s->n_ff,
        .n_vocab = (size_t)s->n_vocab,
        .n_rot = s->row->place <= PLACE_ALIBI ? 0 : (size_t)s->rope_dims,
        .eps = (double)(float)s->eps,
        MODEL_NUMBERS(NUMBER_OF_SPEC).n_expert = (size_t)s->n_expert,
        .n_expert_used = (size_t)s->n_expert_used,
        .n_ff_expert = (size_t)s->n_ff_expert,
        .n_ff_shared = (size_t)s->n_ff_shared,
        .expert_norm = is_chosen(s->expert_norm, s->row->expert_norm),
        .expert_sigmoid = s->expert_sigmoid,
        .expert_scale = or_else(s->expert_scale, 1),
        .expert_more = s->row->expert_more,
        .bias_of_scores = s->row->bias_of_scores,
        .half_shared = s->row->half_shared,
        .residual_by_depth = s->row->residual_by_depth,
        .expert_groups = (size_t)s->n_group,
        .expert_groups_used = (size_t)s->n_group_used,
        .query_context = (size_t)(s->yarn ? s->yarn : s->n_ctx),
        .smear_scale = number_of(m, "smear_lambda"),
        .smear_gate = columns_of(m, -1, MGPT_SMEAR_GATE),
        .backout = number_of(m, "backout_lambda"),
        .v_norm = s->row->v_norm,
        .n_input = s->n_input,
        .layer_norm = s->row->layer_norm,
        .dense_head = s->row->dense_head,
        .head_act = s->activation ? s->activation : s->row->activation,
        .embd_norm = is_chosen(s->embedding_norm, s->row->embd_norm),
        .final_norm = is_chosen(s->final_norm, s->row->final_norm),
        .gated = s->row->gated,
        .qk_norm = toy_qk_norm(s),
        .qk_norm_other = s->head_gains, /* statistics of each head */
        .qk_norm_late = s->row->rope_first || (s->row->qk == QK_BARE && s->yarn),
        .int8_inputs = 1};
    spec.embd_scale = or_else(s->embd_scale, s->row->embd_root ? sqrt(s->n_embd) : 1);
    spec.alibi = or_else(s->alibi, s->row->alibi);
    spec.glu_limit = or_else(s->glu_limit, s->row->glu_limit);
    spec.up_more = or_else(s->up_more, s->row->up_more);
    spec.query_power = or_else(s->query_power, s->row->query_power);
    spec.expert_jitter = or_else(s->expert_jitter, s->row->expert_jitter);
    if (s->row->divides_logits)
        spec.logit_scale = 1 / spec.logit_scale;
    return spec;
}

struct trace *oracle_run(const struct toy *m, const int32_t *tokens, size_t n, oracle_patch *patch,
                         void *user)
{
    size_t n_layer = (size_t)m->spec.n_layer,
           n_freq = (size_t)(m->spec.rope_dims + m->spec.rope_dims_w) / 2 + 1;
    struct oracle_layer *layers = toy_alloc(n_layer, sizeof *layers);
    double *freq = toy_alloc(n_layer * n_freq, sizeof *freq);
    for (size_t i = 0; i < n_layer; i++)
        layers[i] = describe_layer(m, (int)i, freq + i * n_freq);
    struct oracle_spec spec = describe(m, layers);
    if (m->differs)
        m->differs(&spec, layers);
    struct oracle_job job = {m, trace_new(m->spec.n_layer, n), patch, user};
    mgpt_error err;
    if (oracle_pass(&spec, tokens, n, keep, &job, &err) != MGPT_OK)
        fail_msg("%s: %s", m->spec.label, err.text);
    free(layers);
    free(freq);
    return job.trace;
}
