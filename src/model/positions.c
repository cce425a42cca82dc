/* Hyper-parameters of position: rotary frequencies and their scaling, sliding windows, and the
 * layers that use them. */
#include "base/check.h"
#include "base/dmath.h"
#include "base/error.h"
#include "base/mem.h"
#include "model/hyperparams.h"

double rope_least_divisor(const mgpt_model *m, double freq)
{
    double least = freq * (double)m->shape.n_ctx * 0x1p-30;
    return least > 1e-3 ? least : 1e-3;
}

/* How rope.scaling.* change frequencies. */
struct scaling {
    int yarn;
    double factor, scale; /* of positions: divided by; of cos and sin */
    double low, high;     /* YaRN: pairs up to low are not divided, those from high on are */
};

/* The pair that turns `beta` times in the original context, as a real number. */
static double turning_pair(const mgpt_model *m, double beta, double context)
{
    const double tau = 6.283185307179586;
    return (double)m->shape.n_rot * d_log(context / (beta * tau)) / (2 * d_log(m->rope_base));
}

/* DeepSeek's YaRN: queries and keys, not only what is rotated of them, are multiplied by `all`. Files
 * have a tenth of mscale_all_dim. */
static int scale_scores(mgpt_model *m, double all)
{
    struct key full;
    if (!gguf_find(&m->gguf, hyper_key(m, "attention.scale", &full)))
        m->attn_scale = (float)(1 / __builtin_sqrt((double)m->shape.head_dim) * all * all);
    return MGPT_OK;
}

/* YaRN (Peng et al. 2023): fast pairs keep their frequency, slow ones are divided by the factor. */
static int yarn(mgpt_model *m, struct scaling *s, mgpt_error *err)
{
    double fast = 32, slow = 1, last = (double)m->shape.n_rot - 1, less = 0;
    int whole = 1; /* bounds are whole pairs */
    size_t context;
    if (hyper_size(m, "rope.scaling.original_context_length", 1, MAX_CTX, -1, &context, err) < 0 ||
        hyper_real(m, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, &fast, err) < 0 ||
        hyper_real(m, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, &slow, err) < 0 ||
        hyper_real(m, "rope.scaling.yarn_log_multiplier", 0, 1e3, &less, err) < 0 ||
        gguf_bool(&m->gguf, "mgpt.rope.yarn_truncate", &whole, err) < 0)
        return MGPT_EFILE;
    if (!(m->rope_base > 1 && s->factor >= 1))
        return err_set(err, MGPT_EFILE, 0, "YaRN with rope base %g and factor %g", m->rope_base,
                       s->factor);
    double low = turning_pair(m, fast, (double)context);
    double high = turning_pair(m, slow, (double)context);
    low = whole ? __builtin_floor(low) : low;
    high = whole ? __builtin_ceil(high) : high;
    s->low = low > 0 ? low : 0;
    s->high = high < last ? high : last;
    s->high += s->high == s->low ? 1e-3 : 0;
    s->yarn = 1;
    if (m->shape.n_latent && less > 0)
        return scale_scores(m, 1 + less * d_log(s->factor));
    s->scale *= (1 + 0.1 * d_log(s->factor)) / (1 + 0.1 * less * d_log(s->factor));
    return MGPT_OK;
}

/* How much of YaRN llama.cpp mixes in: all with type yarn, else nothing where the key is absent or -1.
 * Without a factor it has no effect. */
static int check_ext_factor(mgpt_model *m, const struct scaling *s, int is_yarn, mgpt_error *err)
{
    struct key full;
    double mix = -1;
    if (hyper_real(m, "rope.scaling.yarn_ext_factor", -1, 1e6, &mix, err) < 0)
        return MGPT_EFILE;
    if (mix < 0 || mix == is_yarn || s->factor == 1)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE,
                   hyper_offset(m, hyper_key(m, "rope.scaling.yarn_ext_factor", &full)),
                   "key %s: %g is not supported, only %d", full.text, mix, is_yarn);
}

/* Other kinds are refused. Llama 3's scaling is not a key but the tensor rope_freqs.weight, and
 * LongRoPE's factors are tensors. */
static int scaling(mgpt_model *m, struct scaling *s, mgpt_error *err)
{
    struct key full;
    struct gguf_str type = {"linear", 6}; /* the default when only a factor is given */
    size_t context;
    if (gguf_string(&m->gguf, hyper_key(m, "rope.scaling.type", &full), &type, err) < 0)
        return MGPT_EFILE;
    int is_yarn = gguf_str_is(type, "yarn"), is_long = gguf_str_is(type, "longrope");
    if (!is_yarn && !is_long && !gguf_str_is(type, "linear") && !gguf_str_is(type, "none"))
        return err_set(err, MGPT_EFILE, hyper_offset(m, full.text),
                       "rope.scaling.type '%.*s' is not supported",
                       (int)(type.n < 40 ? type.n : 40), type.p);
    double least = rope_least_divisor(m, 1);
    if (hyper_real(m, "rope.scaling.attn_factor", 1e-3, 1e3, &s->scale, err) < 0 ||
        hyper_size(m, "rope.scaling.original_context_length", 1, MAX_CTX, (int64_t)m->shape.n_ctx,
                   &context, err) < 0)
        return MGPT_EFILE;
    m->rope_short = m->shape.n_ctx <= context;
    m->query_context = context;
    const char *factors = m->rope_short ? "rope_factors_short.weight" : "rope_factors_long.weight";
    if (is_long && !gguf_tensor(&m->gguf, factors))
        return err_set(err, MGPT_EFILE, 0, "tensor %s: missing (LongRoPE)", factors);
    if (gguf_str_is(type, "none") || is_long)
        return MGPT_OK;
    if (hyper_real(m, "rope.scale_linear", least, 1e6, &s->factor, err) < 0 ||
        hyper_real(m, "rope.scaling.factor", least, 1e6, &s->factor, err) < 0 ||
        check_ext_factor(m, s, is_yarn, err) < 0)
        return MGPT_EFILE;
    m->rope_factor = s->factor;
    return is_yarn ? yarn(m, s, err) : MGPT_OK;
}

/* freq[i] = base^(-2i / n_rot) / factor; with YaRN between that and the undivided one. */
static int make_rope(mgpt_model *m, int which, size_t n_rot, double base, struct scaling s,
                     mgpt_error *err)
{
    size_t n = n_rot / 2;
    double *freq = model_own(m, mem_new(n, sizeof *freq));
    if (!freq)
        return err_memory(err, "rope frequencies", n * sizeof *freq);
    for (size_t i = 0; i < n; i++) {
        double plain = d_exp(-2.0 * (double)i / (double)n_rot * d_log(base));
        double slow = s.yarn ? ((double)i - s.low) / (s.high - s.low) : 1;
        freq[i] = plain / s.factor;
        if (slow < 1)
            freq[i] = slow > 0 ? freq[i] * slow + plain * (1 - slow) : plain;
    }
    m->ropes[which] = (struct rope){freq, n_rot, m->n_cs, s.scale};
    m->n_cs += n_rot;
    return MGPT_OK;
}

/* Sets qk_order, the order in which taps show the components of q and k, if files have another. */
static int make_qk_order(mgpt_model *m, mgpt_error *err)
{
    size_t n = m->shape.head_dim;
    if (m->arch->same_order || (m->arch->pairs != ROPE_ADJACENT && !m->arch->halves_exchanged))
        return MGPT_OK;
    uint32_t *order = model_own(m, mem_new(n, sizeof *order));
    if (!order)
        return err_memory(err, "the order of components", n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)arch_stored_component(m->arch, m->shape.n_rot, i);
    m->qk_order = order;
    return MGPT_OK;
}

static int ropes(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    const struct scaling none = {.factor = 1, .scale = 1};
    struct scaling global = none;
    double local = m->arch->local_base;
    size_t local_rot = 0;
    m->rope_base = 10000;
    m->rope_factor = 1;
    if (hyper_size(m, "rope.dimension_count", 0, s->head_dim, (int64_t)s->head_dim, &s->n_rot,
                   err) < 0 ||
        hyper_real(m, "rope.freq_base", 1, 1e12, &m->rope_base, err) < 0 ||
        hyper_real(m, "rope.freq_base_swa", 1, 1e12, &local, err) < 0)
        return MGPT_EFILE;
    int apart = (m->arch->knows & KNOWS_LAYER_SHAPES) != 0;
    local_rot = s->n_rot;
    if (apart && hyper_size(m, "rope.dimension_count_swa", 0, MAX_WIDTH, (int64_t)s->n_rot,
                            &local_rot, err) < 0)
        return MGPT_EFILE;
    if (s->n_rot % 2 || local_rot % 2)
        return err_set(err, MGPT_EFILE, 0, "rope.dimension_count %zu is odd",
                       s->n_rot % 2 ? s->n_rot : local_rot);
    if (scaling(m, &global, err) < 0)
        return MGPT_EFILE;
    if (m->arch->local_unscaled && !(local > 0))
        local = m->rope_base;
    m->rope_first = m->arch->rope_first == 1 || (m->arch->rope_first && global.scale != 1);
    int status = make_rope(m, ROPE_GLOBAL, s->n_rot, m->rope_base, global, err);
    if (status == MGPT_OK && local > 0 && m->window) /* scaling applies to full layers only */
        status = make_rope(m, ROPE_LOCAL, local_rot, local, none, err);
    m->n_cs += m->query_beta > 0 || m->query_power > 0;
    return status == MGPT_OK ? make_qk_order(m, err) : status;
}

/* attention.sliding_window counts the keys that a query sees, its own included. */
static int windows(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    const char *key = hyper_key(m, "attention.sliding_window_pattern", &full);
    const struct gguf_kv *pattern = gguf_find(&m->gguf, key);
    m->full_every = m->arch->full_every;
    if (hyper_size(m, "attention.sliding_window", 0, MAX_CTX, 0, &m->window, err) < 0)
        return MGPT_EFILE;
    if (m->full_every && m->window == 0 && !m->arch->window_optional)
        return err_set(err, MGPT_EFILE, 0, "key %s.attention.sliding_window: missing",
                       m->arch->name);
    if (!pattern || pattern->type == GGUF_ARRAY) /* an array is read in model_layers */
        return MGPT_OK;
    return hyper_size(m, "attention.sliding_window_pattern", 1, MAX_LAYERS, 1, &m->full_every, err);
}

/* ALiBi's slopes (Press et al. 2022): 2^-alibi to the powers 1/n, 2/n, ... 1, for the largest power
 * of two n of heads; heads beyond those have the powers between. */
static float alibi_slope(double alibi, size_t n_head, size_t head)
{
    size_t n = 1;
    while (n * 2 <= n_head)
        n *= 2;
    double power = head < n ? (double)(head + 1) : (double)(2 * (head - n) + 1) / 2;
    return (float)d_exp(-alibi * power / (double)n * d_log(2));
}

static int make_alibi_slopes(mgpt_model *m, mgpt_error *err)
{
    size_t n = m->shape.n_head;
    float *slopes = model_own(m, mem_new(n, sizeof *slopes));
    if (!slopes)
        return err_memory(err, "ALiBi slopes", n * sizeof *slopes);
    for (size_t i = 0; i < n; i++)
        slopes[i] = alibi_slope((double)m->alibi, n, i);
    m->alibi_slopes = slopes;
    return MGPT_OK;
}

int model_positions(mgpt_model *m, mgpt_error *err)
{
    if (m->shape.n_layer == 0)
        return MGPT_OK;
    if (m->alibi > 0 && make_alibi_slopes(m, err) < 0)
        return MGPT_EMEM;
    if (windows(m, err) < 0)
        return MGPT_EFILE;
    struct key full;
    int rotates = m->arch->rope;
    const char *key = hyper_key(m, "rope.scaling.finetuned", &full);
    if (m->arch->rope_finetuned && gguf_bool(&m->gguf, key, &rotates, err) < 0)
        return MGPT_EFILE;
    return rotates ? ropes(m, err) : MGPT_OK;
}

/* ---- per layer ---- */

/* Sets each layer's window from a period, a bool per layer (1: windowed), or a window per layer. */
int model_windows(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    const struct gguf_kv *each = NULL, *flags = NULL;
    const char *key = hyper_key(m, "attention.sliding_window_pattern", &full);
    size_t n = m->shape.n_layer;
    if (gguf_array(&m->gguf, "mgpt.attention.windows", GGUF_I32, &each, err) < 0)
        return MGPT_EFILE;
    const struct gguf_kv *pattern = gguf_find(&m->gguf, key);
    int are_ints = pattern && (pattern->element == GGUF_I32 || pattern->element == GGUF_U32);
    if (pattern && pattern->type == GGUF_ARRAY &&
        gguf_array(&m->gguf, key, are_ints ? pattern->element : GGUF_BOOL, &flags, err) < 0)
        return MGPT_EFILE;
    if ((each && each->n != n) || (flags && flags->n != n && flags->n != n + m->shape.n_further))
        return err_set(err, MGPT_EFILE, (each ? each : flags)->offset,
                       "%llu entries of attention windows for %zu layers",
                       (unsigned long long)(each ? each : flags)->n, n);
    struct cursor c = cursor_over(each ? each->value : NULL, each ? each->value_bytes : 0);
    for (size_t i = 0; i < n; i++) {
        int is_full = m->full_every && (i + 1) % m->full_every == m->arch->full_first;
        double flag = 0;
        if (flags)
            is_full = gguf_number(flags, i, &flag) && flag == 0;
        int32_t window = each ? cursor_i32(&c) : 0;
        if (flags && !is_full && !m->window && m->arch->sinks) /* llama.cpp: it sees no key */
            return err_set(err, MGPT_EFILE, flags->offset,
                           "key %s.attention.sliding_window: missing, layer %zu has a window",
                           m->arch->name, i);
        if (window < 0)
            return err_set(err, MGPT_EFILE, each->offset,
                           "key mgpt.attention.windows: entry %zu is negative", i);
        m->layers[i].window = is_full ? 0 : m->window;
        if (each)
            m->layers[i].window = (size_t)window;
    }
    return MGPT_OK;
}

/* Whether layer i is rotated, if the model is. flags: a bool for each layer, or NULL. */
static int is_roped(const mgpt_model *m, size_t i, size_t skip, const struct gguf_kv *flags)
{
    const struct layer *l = &m->layers[i];
    int full =
        m->arch->rope_windowed && m->window && !l->window && !(m->arch->plain_roped && !l->experts);
    return !l->conv && !full && !(skip && (i + 1) % skip == 0) && (!flags || flags->value[i]);
}

static int layer_ropes(mgpt_model *m, mgpt_error *err)
{
    uint64_t skip = m->arch->no_rope_every;
    const struct gguf_kv *flags = NULL;
    struct key full;
    const char *key = hyper_key(m, "attention.rope_pattern", &full);
    if (gguf_uint(&m->gguf, "mgpt.attention.no_rope_every", MAX_LAYERS, &skip, err) < 0 ||
        gguf_array(&m->gguf, key, GGUF_BOOL, &flags, err) < 0)
        return MGPT_EFILE;
    if (flags && flags->n != m->shape.n_layer)
        return err_set(err, MGPT_EFILE, flags->offset, "key %s: %llu entries for %zu layers", key,
                       (unsigned long long)flags->n, m->shape.n_layer);
    int rotates = m->ropes[ROPE_GLOBAL].freq != NULL;
    for (size_t i = 0; rotates && i < m->shape.n_layer; i++) {
        struct layer *l = &m->layers[i];
        int local = m->ropes[ROPE_LOCAL].freq && l->window;
        const struct rope *rope = &m->ropes[local ? ROPE_LOCAL : ROPE_GLOBAL];
        l->rope = is_roped(m, i, skip, flags) && rope->n_rot > 0 ? rope : NULL;
    }
    return MGPT_OK;
}

/* Sets the kind and width of each layer's norms. */
static void layer_norms(mgpt_model *m)
{
    const struct arch *a = m->arch;
    for (size_t i = 0; i < m->shape.n_layer; i++) {
        struct layer *l = &m->layers[i];
        l->ffn_norm.kind = a->no_input ? NORM_NONE : a->norm;
        l->attn_norm.kind = a->dense_head && i == 0 ? NORM_NONE : l->ffn_norm.kind;
        l->attn_norm.width = l->ffn_norm.width = m->shape.n_embd;
        if (a->norm_2_first && l->ffn_norm.gain) {
            struct norm first = l->ffn_norm;
            l->ffn_norm = l->attn_norm;
            l->attn_norm = first;
        }
        if (m->branches == BRANCHES_PARALLEL && !l->ffn_norm.gain)
            l->ffn_norm = l->attn_norm; /* Phi: one norm feeds both */
        if (l->post_attn_norm.gain)
            l->post_attn_norm.kind = a->norm;
        if (l->post_ffn_norm.gain)
            l->post_ffn_norm.kind = a->norm;
        l->post_attn_norm.width = l->post_ffn_norm.width = m->shape.n_embd;
        l->mid_norm.kind = l->mid_norm.gain ? a->norm : NORM_NONE;
        l->end_norm.kind = l->end_norm.gain ? a->norm : NORM_NONE;
        l->mid_norm.width = l->end_norm.width = m->shape.n_embd;
        if (a->qk_norm || l->q_norm.gain)
            l->q_norm.kind = l->k_norm.kind = a->norm;
        if (l->kv_from != i)
            l->k_norm.kind = NORM_NONE;
        l->q_norm.width = l->q_norm.width ? l->q_norm.width : l->shape->head_dim;
        l->k_norm.width = l->k_norm.width ? l->k_norm.width : l->shape->head_dim;
        l->v_norm =
            (struct norm){.kind = a->v_norm ? a->norm : NORM_NONE, .width = l->shape->head_dim};
        l->input_norm.kind = l->input_norm.gain ? a->norm : NORM_NONE;
        l->input_norm.width = m->shape.n_embd;
    }
    m->input_norm.kind = m->input_norm.gain ? a->norm : NORM_NONE;
    m->input_norm.width = m->shape.n_input;
    m->head_norm = (struct norm){a->norm, m->head_norm.gain, m->head_norm.bias, m->shape.n_embd, 0};
}

/* A model with one norm for both branches (Phi) cannot run them sequentially. */
static int check_input_norms(const mgpt_model *m, mgpt_error *err)
{
    const struct arch *a = m->arch;
    for (size_t i = 0; !a->no_gain && !a->no_input && i < m->shape.n_layer; i++)
        if (!m->layers[i].ffn_norm.gain)
            return err_set(
                err, MGPT_EFILE, 0,
                "tensor blk.%d.ffn_norm.weight: missing (use_parallel_residual is false)", (int)i);
    return MGPT_OK;
}

int model_layers(mgpt_model *m, mgpt_error *err)
{
    layer_norms(m);
    int status = check_input_norms(m, err);
    if (status == MGPT_OK)
        status = model_windows(m, err);
    if (status == MGPT_OK)
        status = model_activation(m, err);
    return status == MGPT_OK ? layer_ropes(m, err) : status;
}
