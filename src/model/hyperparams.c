/* Hyper-parameters: numbers in the file. Each is range-checked, because the sizes of all later
 * allocations depend on them. */
#include "model/hyperparams.h"
#include "model/slots.h"

#include "base/error.h"
#include "model/known_keys.h"

const char *hyper_key(const mgpt_model *m, const char *key, struct key *full)
{
    text_format(full->text, sizeof full->text, "%s.%s", m->arch->name, key);
    return full->text;
}

uint64_t hyper_offset(const mgpt_model *m, const char *key)
{
    const struct gguf_kv *kv = gguf_find(&m->gguf, key);
    return kv ? kv->offset : 0;
}

int hyper_size(const mgpt_model *m, const char *name, uint64_t min, uint64_t max, int64_t absent,
               size_t *to, mgpt_error *err)
{
    struct key full;
    const char *key = hyper_key(m, name, &full);
    uint64_t v = 0;
    int found = gguf_uint(&m->gguf, key, UINT64_MAX, &v, err);
    if (found < 0)
        return found;
    if (!found && absent < 0)
        return err_set(err, MGPT_EFILE, 0, "key %s: missing", key);
    if (!found)
        v = (uint64_t)absent;
    if (v < min || v > max)
        return err_set(err, MGPT_EFILE, hyper_offset(m, key), "key %s: %llu, expected %llu to %llu",
                       key, (unsigned long long)v, (unsigned long long)min,
                       (unsigned long long)max);
    *to = (size_t)v;
    return MGPT_OK;
}

int hyper_real(const mgpt_model *m, const char *name, double min, double max, double *to,
               mgpt_error *err)
{
    struct key full;
    const char *key = hyper_key(m, name, &full);
    double v = *to;
    int found = gguf_float(&m->gguf, key, &v, err);
    if (found < 0)
        return found;
    if (found && !(v >= min && v <= max))
        return err_set(err, MGPT_EFILE, hyper_offset(m, key), "key %s: %g, expected %g to %g", key,
                       v, min, max);
    *to = v;
    return MGPT_OK;
}

/* attention.head_count_kv as a list: one number for the layers that are attention, 0 for those that
 * are short convolutions. Returns 1, 0 if the key is absent or a number, or negative. */
static int hyper_convolutions(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    struct key full;
    const char *key = hyper_key(m, "attention.head_count_kv", &full);
    const struct gguf_kv *list = gguf_find(&m->gguf, key);
    if (!(m->arch->knows & KNOWS_CONVOLUTIONS) || !list || list->type != GGUF_ARRAY)
        return 0;
    enum gguf_type element = list->element == GGUF_U32 ? GGUF_U32 : GGUF_I32;
    if (gguf_array(&m->gguf, key, element, &list, err) < 0)
        return MGPT_EFILE;
    if (list->n != s->n_layer)
        return err_set(err, MGPT_EFILE, list->offset, "key %s: %llu entries for %zu layers", key,
                       (unsigned long long)list->n, s->n_layer);
    struct kv_shape *kept = bind_own(m, s->n_layer, sizeof *kept, "the kinds of layers", err);
    struct cursor c = cursor_over(list->value, list->value_bytes);
    for (size_t i = 0; kept && i < s->n_layer; i++) {
        int32_t n = cursor_i32(&c);
        if (n < 0 || n > MAX_HEADS || (n > 0 && s->n_head_kv > 0 && (size_t)n != s->n_head_kv))
            return err_set(err, MGPT_EFILE, list->offset,
                           "key %s: entry %zu is %d, expected 0 or one number of all layers", key,
                           i, n);
        s->n_head_kv = n > 0 ? (size_t)n : s->n_head_kv;
        kept[i].rows = n > 0 ? 0 : s->n_embd;
        s->n_conv |= n == 0;
    }
    m->kept = kept;
    s->n_head_kv = s->n_head_kv ? s->n_head_kv : s->n_head;
    if (kept && s->n_conv &&
        hyper_size(m, "shortconv.l_cache", 1, MODEL_CONV_MOST, -1, &s->n_conv, err) < 0)
        return MGPT_EFILE;
    return kept ? 1 : MGPT_EMEM;
}

/* Latent attention: widths of the latents. In llama.cpp's newer files head_count_kv, key_length and
 * value_length are of what the cache keeps, and keys of their own have those of heads. */
static int hyper_latent(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    if (!(m->arch->knows & KNOWS_LATENT) || !s->n_layer)
        return MGPT_OK;
    s->n_head_kv = s->n_head;
    if (hyper_size(m, "attention.kv_lora_rank", 1, MAX_WIDTH, -1, &s->n_latent, err) < 0 ||
        hyper_size(m, "attention.q_lora_rank", 0, MAX_WIDTH, 0, &s->n_q_latent, err) < 0 ||
        hyper_size(m, "attention.key_length_mla", 1, MAX_WIDTH, (int64_t)s->head_dim, &s->head_dim,
                   err) < 0 ||
        hyper_size(m, "attention.value_length_mla", 1, MAX_WIDTH, (int64_t)s->value_dim,
                   &s->value_dim, err) < 0 ||
        hyper_size(m, "rope.dimension_count", 2, s->head_dim, -1, &s->n_rot, err) < 0)
        return MGPT_EFILE;
    if (s->n_rot < s->head_dim && s->value_dim > 0)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, 0, "keys of %zu, %zu of them rotated, and values of %zu",
                   s->head_dim, s->n_rot, s->value_dim);
}

/* Sizes of attention. head_dim is n_embd / n_head unless the file has attention.key_length. */
static int hyper_heads(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    int64_t absent = s->n_layer ? -1 : 1;
    if (hyper_widest(m, "attention.head_count", 1, MAX_HEADS, absent, &s->n_head, err) < 0)
        return MGPT_EFILE;
    int listed = hyper_convolutions(m, err);
    if (listed < 0)
        return listed;
    if (!listed && hyper_widest(m, "attention.head_count_kv", 1, MAX_HEADS, (int64_t)s->n_head,
                                &s->n_head_kv, err) < 0)
        return MGPT_EFILE;
    if (s->n_head % s->n_head_kv)
        return err_set(err, MGPT_EFILE, 0, "%zu query heads are not a multiple of %zu KV heads",
                       s->n_head, s->n_head_kv);
    int64_t even_share = (int64_t)(s->n_embd / s->n_head);
    if (hyper_size(m, "attention.key_length", 0, MAX_WIDTH, even_share, &s->head_dim, err) < 0 ||
        hyper_size(m, "attention.value_length", 0, MAX_WIDTH,
                   m->arch->knows & KNOWS_LATENT ? even_share : (int64_t)s->head_dim, &s->value_dim,
                   err) < 0 ||
        hyper_latent(m, err) < 0)
        return MGPT_EFILE;
    if (s->value_dim != s->head_dim && !s->n_latent && !(m->arch->knows & KNOWS_VALUES))
        return err_set(err, MGPT_EFILE, 0,
                       "attention.value_length %zu differs from key_length %zu: not supported",
                       s->value_dim, s->head_dim);
    struct key full;
    int given = gguf_find(&m->gguf, hyper_key(m, "attention.key_length", &full)) != NULL;
    if (s->n_layer && !given && s->n_embd % s->n_head)
        return err_set(err, MGPT_EFILE, 0, "embedding_length %zu is not a multiple of %zu heads",
                       s->n_embd, s->n_head);
    if (s->n_layer && s->head_dim == 0)
        return err_set(err, MGPT_EFILE, 0, "heads of width 0");
    if (s->n_head > SIZE_MAX / 8 / MAX_WIDTH)
        return err_set(err, MGPT_EFILE, 0, "%zu heads are too many for this machine", s->n_head);
    s->n_q = s->n_layer ? s->n_head * s->head_dim : 0;
    s->n_kv = s->n_layer ? s->n_head_kv * s->head_dim : 0;
    s->n_v = s->n_layer ? s->n_head_kv * s->value_dim : 0;
    s->n_z = s->n_layer ? s->n_head * s->value_dim : 0;
    const size_t rows[] = {[GATES_OF_HEADS] = s->n_head,
                           [GATES_OF_VALUES] = s->n_z,
                           [GATES_OF_EITHER] = 1}; /* at least: shapes.c */
    s->n_gate = rows[m->arch->gates];
    s->n_kept = s->n_latent ? 1 : s->n_head_kv;
    s->kept_dim = s->n_latent ? s->n_latent + s->n_rot : s->head_dim;
    s->kept_value = s->n_latent ? s->kept_dim : s->value_dim;
    s->n_kv_most = s->n_conv ? s->n_q : s->n_kv > s->n_v ? s->n_kv : s->n_v;
    if (s->n_conv && s->n_q != s->n_embd)
        return err_set(
            err, MGPT_EFILE, 0,
            "%zu heads of %zu are not as wide as embedding_length %zu: not supported with "
            "short convolutions",
            s->n_head, s->head_dim, s->n_embd);
    return MGPT_OK;
}

/* The keys mgpt.*: facts that the standard keys of GGUF cannot express. */
static int hyper_dialect(mgpt_model *m, mgpt_error *err)
{
    struct gguf_str act;
    m->act = m->arch->act;
    int found = gguf_string(&m->gguf, "mgpt.activation", &act, err);
    if (found > 0 && !act_find(act.p, act.n, &m->act))
        return err_set(err, MGPT_EFILE, hyper_offset(m, "mgpt.activation"),
                       "key mgpt.activation: '%.*s' is not one of" ACTIVATION_NAMES,
                       (int)(act.n < 40 ? act.n : 40), act.p);
    int embd_norm = m->arch->embd_norm;
    const struct tensor_slot *slot;
    int final_norm =
        m->arch->final_norm || bind_find(m, -1, MGPT_LN_FINAL, MGPT_WEIGHT, &slot) != NULL;
    if (found < 0 || gguf_bool(&m->gguf, "mgpt.embedding_norm", &embd_norm, err) < 0 ||
        gguf_bool(&m->gguf, "mgpt.final_norm", &final_norm, err) < 0)
        return MGPT_EFILE;
    m->embd_norm.width = m->final_norm.width = m->shape.n_embd;
    m->embd_norm.kind = embd_norm ? m->arch->norm : NORM_NONE;
    m->final_norm.kind = final_norm ? m->arch->norm : NORM_NONE;
    return MGPT_OK;
}

static int hyper_norm_eps(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    double eps = m->arch->eps;
    const char *key = hyper_key(m, m->arch->eps_key, &full);
    if (eps == 0 && !gguf_find(&m->gguf, key))
        return err_set(err, MGPT_EFILE, 0, "key %s: missing", key);
    int used =
        m->shape.n_layer || m->embd_norm.kind != NORM_NONE || m->final_norm.kind != NORM_NONE;
    int status = hyper_real(m, m->arch->eps_key, used ? 1e-30 : 0, 1, &eps, err);
    m->eps = (float)eps;
    return status;
}

/* ---- the rows of numbers.h ---- */

enum number_kind { NUMBER_FACTOR, NUMBER_LIMIT, NUMBER_CAP, NUMBER_OWN };

/* The key and the range of a number. */
struct number_row {
    const char *key;
    enum number_kind kind;
    double least, most;
};

/* A number of the row, which keeps *to if the key is absent. */
static int hyper_number(const mgpt_model *m, const struct number_row *row, double *to,
                        mgpt_error *err)
{
    struct key full;
    const char *key = hyper_key(m, row->key, &full);
    int found = gguf_float(&m->gguf, key, to, err), may_be_0 = row->kind > NUMBER_FACTOR;
    if (found < 0)
        return found;
    if (!found || (may_be_0 && *to == 0) || (*to >= row->least && *to <= row->most))
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, hyper_offset(m, key), "key %s: %g, expected %s%g to %g", key,
                   *to, may_be_0 ? "0 or " : "", row->least, row->most);
}

/* 1 / sqrt(head_dim), the usual scale of scores; of n_embd / n_head in models of wide_scale. */
static double root_of_width(const mgpt_model *m)
{
    const struct model_shape *s = &m->shape;
    size_t wide = m->arch->wide_scale;
    size_t width = wide && s->n_layer == wide ? s->n_embd / s->n_head : s->head_dim;
    return m->arch->unscaled ? 1.0 : width ? 1.0 / __builtin_sqrt((double)width) : 1.0;
}

/* The published MiniCPM models have these factors. llama.cpp's MiniCPM3 files, and its first MiniCPM files,
 * have no keys for them. */
static double minicpm_scale(const struct arch *a, double published)
{
    return a->knows & MINICPM_SCALES ? published : 1;
}

/* Reads the multipliers and limits. */
static int hyper_numbers(mgpt_model *m, mgpt_error *err)
{
    const struct model_shape *s = &m->shape;
    const struct arch *a = m->arch;
#define NUMBER_ROW(field, absent, kind, key, least, most, ...) {key, NUMBER_##kind, least, most},
#define NUMBER_ABSENT(field, absent, ...) .field = absent,
    static const struct number_row rows[] = {MODEL_NUMBERS(NUMBER_ROW)};
    union {
        struct {
            MODEL_NUMBERS(NUMBER_DOUBLE)
        };
        double all[sizeof rows / sizeof *rows];
    } read = {{MODEL_NUMBERS(NUMBER_ABSENT)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind != NUMBER_OWN && hyper_number(m, &rows[i], &read.all[i], err) < 0)
            return MGPT_EFILE;
    if (a->divides_logits)
        read.logit_scale = 1 / read.logit_scale;
#define NUMBER_STORE(field, ...) m->field = (float)read.field;
    MODEL_NUMBERS(NUMBER_STORE)
    return MGPT_OK;
}

/* Inputs of layers: a row of n_input for each. */
static int hyper_inputs(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    if (m->arch->knows & KNOWS_LAYER_SHAPES &&
        hyper_size(m, "embedding_length_per_layer_input", 0, MAX_WIDTH, 0, &s->n_input, err) < 0)
        return MGPT_EFILE;
    s->n_inputs = s->n_input * s->n_layer;
    return MGPT_OK;
}

static int hyper_branches(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    int parallel = m->arch->branches == BRANCHES_PARALLEL;
    if (gguf_bool(&m->gguf, hyper_key(m, "use_parallel_residual", &full), &parallel, err) < 0)
        return MGPT_EFILE;
    m->branches = parallel ? BRANCHES_PARALLEL : BRANCHES_SEQUENTIAL;
    return MGPT_OK;
}

/* block_count counts layers that predict further tokens, too. */
static int hyper_layers(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    if (hyper_size(m, "block_count", 0, MAX_LAYERS, -1, &s->n_layer, err) < 0 ||
        hyper_size(m, "nextn_predict_layers", 0, s->n_layer, 0, &s->n_further, err) < 0)
        return MGPT_EFILE;
    s->n_layer -= s->n_further;
    return MGPT_OK;
}

int model_hyper(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    if (model_check_keys(m, err) < 0 || hyper_layers(m, err) < 0 ||
        hyper_size(m, "embedding_length", 1, MAX_WIDTH, -1, &s->n_embd, err) < 0 ||
        hyper_size(m, "context_length", 1, MAX_CTX, -1, &s->n_ctx, err) < 0 ||
        hyper_widest(m, "feed_forward_length", 0, (uint64_t)MAX_WIDTH * 8, s->n_layer ? -1 : 0,
                     &s->n_ff, err) < 0 ||
        hyper_heads(m, err) < 0)
        return MGPT_EFILE;
    if (s->n_layer == 0)
        s->n_ff = 0;
    if (model_experts(m, err) < 0 || hyper_inputs(m, err) < 0)
        return MGPT_EFILE;
    if (hyper_dialect(m, err) < 0 || hyper_norm_eps(m, err) < 0)
        return MGPT_EFILE;
    if (hyper_numbers(m, err) < 0 || hyper_branches(m, err) < 0)
        return MGPT_EFILE;
    return model_positions(m, err);
}
