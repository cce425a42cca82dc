/* Floor 4. Hyper-parameters: numbers of the file, each range-checked, because the sizes of all later
 * allocations derive from them. */
#include "ck.h"
#include "dmath.h"
#include "error.h"
#include "mem.h"
#include "model.h"

enum { MAX_LAYERS = 1024, MAX_WIDTH = 1 << 20, MAX_HEADS = 1 << 16, MAX_CTX = 1 << 30 };

/* "<arch>.<key>" */
struct key {
    char text[96];
};

static const char *key_of(const mgpt_model *m, const char *key, struct key *full)
{
    text_format(full->text, sizeof full->text, "%s.%s", m->arch->name, key);
    return full->text;
}

static uint64_t offset_of(const mgpt_model *m, const char *key)
{
    const struct gguf_kv *kv = gguf_find(&m->gguf, key);
    return kv ? kv->offset : 0;
}

/* An integer in [min, max]. absent < 0: the key is required. */
static int size_key(const mgpt_model *m, const char *name, uint64_t min, uint64_t max,
                    int64_t absent, size_t *to, mgpt_error *err)
{
    struct key full;
    const char *key = key_of(m, name, &full);
    uint64_t v = 0;
    int found = gguf_uint(&m->gguf, key, UINT64_MAX, &v, err);
    if (found < 0)
        return found;
    if (!found && absent < 0)
        return err_set(err, MGPT_EFILE, 0, "key %s: missing", key);
    if (!found)
        v = (uint64_t)absent;
    if (v < min || v > max)
        return err_set(err, MGPT_EFILE, offset_of(m, key), "key %s: %llu, expected %llu to %llu",
                       key, (unsigned long long)v, (unsigned long long)min,
                       (unsigned long long)max);
    *to = (size_t)v;
    return MGPT_OK;
}

/* A finite number in [min, max]; keeps *to when the key is absent. */
static int real_key(const mgpt_model *m, const char *name, double min, double max, double *to,
                    mgpt_error *err)
{
    struct key full;
    const char *key = key_of(m, name, &full);
    double v = *to;
    int found = gguf_float(&m->gguf, key, &v, err);
    if (found < 0)
        return found;
    if (found && !(v >= min && v <= max))
        return err_set(err, MGPT_EFILE, offset_of(m, key), "key %s: out of range", key);
    *to = v;
    return MGPT_OK;
}

/* Attention's sizes: head_dim is independent of n_embd / n_head when the file says so. */
static int heads(mgpt_model *m, mgpt_error *err)
{
    struct shape *s = &m->shape;
    int64_t absent = s->n_layer ? -1 : 1;
    size_t value_length;
    if (size_key(m, "attention.head_count", 1, MAX_HEADS, absent, &s->n_head, err) < 0 ||
        size_key(m, "attention.head_count_kv", 1, MAX_HEADS, (int64_t)s->n_head, &s->n_head_kv,
                 err) < 0)
        return MGPT_EFILE;
    if (s->n_head % s->n_head_kv)
        return err_set(err, MGPT_EFILE, 0, "%zu query heads are not a multiple of %zu KV heads",
                       s->n_head, s->n_head_kv);
    int64_t even_share = (int64_t)(s->n_embd / s->n_head);
    if (size_key(m, "attention.key_length", 0, MAX_WIDTH, even_share, &s->head_dim, err) < 0 ||
        size_key(m, "attention.value_length", 0, MAX_WIDTH, (int64_t)s->head_dim, &value_length,
                 err) < 0)
        return MGPT_EFILE;
    if (value_length != s->head_dim)
        return err_set(err, MGPT_EFILE, 0,
                       "attention.value_length %zu differs from key_length %zu: not supported",
                       value_length, s->head_dim);
    struct key full;
    int given = gguf_find(&m->gguf, key_of(m, "attention.key_length", &full)) != NULL;
    if (s->n_layer && !given && s->n_embd % s->n_head)
        return err_set(err, MGPT_EFILE, 0, "embedding_length %zu is not a multiple of %zu heads",
                       s->n_embd, s->n_head);
    if (s->n_layer && s->head_dim == 0)
        return err_set(err, MGPT_EFILE, 0, "heads of width 0");
    if (s->n_head > SIZE_MAX / 8 / MAX_WIDTH)
        return err_set(err, MGPT_EFILE, 0, "%zu heads are too many for this machine", s->n_head);
    s->n_q = s->n_layer ? s->n_head * s->head_dim : 0;
    s->n_kv = s->n_layer ? s->n_head_kv * s->head_dim : 0;
    return MGPT_OK;
}

static int scaling(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    struct gguf_str type = {"", 0};
    int found = gguf_string(&m->gguf, key_of(m, "rope.scaling.type", &full), &type, err);
    if (found < 0)
        return found;
    int linear = type.n == 6 && memcmp(type.p, "linear", 6) == 0;
    int none = type.n == 0 || (type.n == 4 && memcmp(type.p, "none", 4) == 0);
    if (!linear && !none)
        return err_set(err, MGPT_EFILE, offset_of(m, full.text),
                       "rope.scaling.type '%.*s' is not supported",
                       (int)(type.n < 40 ? type.n : 40), type.p);
    m->rope_factor = 1;
    if (real_key(m, "rope.scale_linear", 1e-6, 1e6, &m->rope_factor, err) < 0)
        return MGPT_EFILE;
    return linear ? real_key(m, "rope.scaling.factor", 1e-6, 1e6, &m->rope_factor, err) : MGPT_OK;
}

static int rope(mgpt_model *m, mgpt_error *err)
{
    struct shape *s = &m->shape;
    if (!m->arch->rope || s->n_layer == 0)
        return MGPT_OK;
    m->rope_base = 10000;
    if (size_key(m, "rope.dimension_count", 0, s->head_dim, (int64_t)s->head_dim, &s->n_rot, err) <
            0 ||
        real_key(m, "rope.freq_base", 1e-3, 1e12, &m->rope_base, err) < 0 || scaling(m, err) < 0)
        return MGPT_EFILE;
    if (s->n_rot % 2)
        return err_set(err, MGPT_EFILE, 0, "rope.dimension_count %zu is odd", s->n_rot);
    m->rope_freq = mem_new(s->n_rot / 2, sizeof *m->rope_freq);
    if (!m->rope_freq)
        return err_memory(err, "rope frequencies", s->n_rot / 2 * sizeof *m->rope_freq);
    for (size_t i = 0; i < s->n_rot / 2; i++)
        m->rope_freq[i] =
            d_exp(-2.0 * (double)i / (double)s->n_rot * d_log(m->rope_base)) / m->rope_factor;
    return MGPT_OK;
}

/* Dialect keys of ours: what the standard keys cannot say. */
static int dialect(mgpt_model *m, mgpt_error *err)
{
    struct gguf_str act;
    m->act = m->arch->act;
    int found = gguf_string(&m->gguf, "mgpt.activation", &act, err);
    if (found > 0 && !act_find(act.p, act.n, &m->act))
        return err_set(err, MGPT_EFILE, offset_of(m, "mgpt.activation"),
                       "key mgpt.activation: '%.*s' is not one of relu relu2 silu gelu_tanh "
                       "gelu_erf",
                       (int)(act.n < 40 ? act.n : 40), act.p);
    int embd_norm = m->arch->embd_norm;
    int final_norm = m->arch->final_norm || gguf_tensor(&m->gguf, "output_norm.weight") != NULL;
    if (found < 0 || gguf_bool(&m->gguf, "mgpt.embedding_norm", &embd_norm, err) < 0 ||
        gguf_bool(&m->gguf, "mgpt.final_norm", &final_norm, err) < 0)
        return MGPT_EFILE;
    m->embd_norm.kind = embd_norm ? m->arch->norm : NORM_NONE;
    m->final_norm.kind = final_norm ? m->arch->norm : NORM_NONE;
    return MGPT_OK;
}

static int refuse_unknown_physics(const mgpt_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < arch_n_refused; i++) {
        struct key full;
        const char *key = key_of(m, arch_refused[i].key, &full);
        const struct gguf_kv *kv = gguf_find(&m->gguf, key);
        if (!kv)
            continue;
        double v = arch_refused[i].neutral + 1;
        uint64_t u;
        if (kv->type == GGUF_F32 || kv->type == GGUF_F64)
            gguf_float(&m->gguf, key, &v, NULL);
        else if (gguf_uint(&m->gguf, key, UINT32_MAX, &u, NULL) == 1)
            v = (double)u;
        if (!(v == arch_refused[i].neutral))
            return err_set(err, MGPT_EFILE, kv->offset, "key %s is not supported", key);
    }
    return MGPT_OK;
}

static int norm_eps(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    double eps = m->arch->eps;
    const char *key = key_of(m, m->arch->eps_key, &full);
    if (eps == 0 && !gguf_find(&m->gguf, key))
        return err_set(err, MGPT_EFILE, 0, "key %s: missing", key);
    int status = real_key(m, m->arch->eps_key, 0, 1, &eps, err);
    m->eps = (float)eps;
    return status;
}

int model_hyper(mgpt_model *m, mgpt_error *err)
{
    struct shape *s = &m->shape;
    if (refuse_unknown_physics(m, err) < 0 ||
        size_key(m, "block_count", 0, MAX_LAYERS, -1, &s->n_layer, err) < 0 ||
        size_key(m, "embedding_length", 1, MAX_WIDTH, -1, &s->n_embd, err) < 0 ||
        size_key(m, "context_length", 1, MAX_CTX, -1, &s->n_ctx, err) < 0 ||
        size_key(m, "feed_forward_length", 0, (uint64_t)MAX_WIDTH * 8, s->n_layer ? -1 : 0,
                 &s->n_ff, err) < 0 ||
        heads(m, err) < 0)
        return MGPT_EFILE;
    if (s->n_layer == 0)
        s->n_ff = 0;
    if (norm_eps(m, err) < 0 || dialect(m, err) < 0)
        return MGPT_EFILE;
    m->attn_scale = s->head_dim ? (float)(1.0 / __builtin_sqrt((double)s->head_dim)) : 1.0f;
    return rope(m, err);
}
