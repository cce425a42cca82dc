/* Layers that differ: in heads, in the width of the MLP, in whose keys and values they read (Gemma 4).
 * Files have lists of a number for each layer, and numbers of layers with a window (..._swa). */
#include "base/error.h"
#include "model/hyperparams.h"
#include "model/slots.h"

/* The key, if this architecture has a list there; NULL: a number, or absent. */
static const struct gguf_kv *layer_list(const mgpt_model *m, const char *name)
{
    struct key full;
    const struct gguf_kv *kv = gguf_find(&m->gguf, hyper_key(m, name, &full));
    return kv && kv->type == GGUF_ARRAY && m->arch->knows & KNOWS_LAYER_SHAPES ? kv : NULL;
}

int hyper_widest(const mgpt_model *m, const char *name, uint64_t min, uint64_t max, int64_t absent,
                 size_t *to, mgpt_error *err)
{
    const struct gguf_kv *kv = layer_list(m, name);
    double v, most = 0;
    if (!kv)
        return hyper_size(m, name, min, max, absent, to, err);
    if (kv->n != m->shape.n_layer && kv->n != m->shape.n_layer + m->shape.n_further)
        return err_set(err, MGPT_EFILE, kv->offset, "key %s.%s: %llu entries for %zu layers",
                       m->arch->name, name, (unsigned long long)kv->n, m->shape.n_layer);
    for (size_t i = 0; i < kv->n; i++) {
        if (!gguf_number(kv, i, &v) || !(v >= (double)min && v <= (double)max) ||
            v != __builtin_floor(v))
            return err_set(err, MGPT_EFILE, kv->offset, "key %s.%s: entry %zu is not %llu to %llu",
                           m->arch->name, name, i, (unsigned long long)min,
                           (unsigned long long)max);
        most = v > most ? v : most;
    }
    *to = (size_t)most;
    return MGPT_OK;
}

/* The entry of a layer in a list that hyper_widest has checked; `usual` where there is none. */
static size_t layer_entry(const mgpt_model *m, const char *name, size_t layer, size_t usual)
{
    const struct gguf_kv *kv = layer_list(m, name);
    double v = 0;
    return kv && gguf_number(kv, layer, &v) ? (size_t)v : usual;
}

/* The numbers of layers with a window that are not those of the others. */
struct windowed {
    size_t head_dim, value_dim, n_shared;
};

static int read_windowed(const mgpt_model *m, struct windowed *w, mgpt_error *err)
{
    const struct model_shape *s = &m->shape;
    int apart = (m->arch->knows & KNOWS_VALUES) != 0;
    if (hyper_size(m, "attention.key_length_swa", 1, MAX_WIDTH, (int64_t)s->head_dim, &w->head_dim,
                   err) < 0 ||
        hyper_size(m, "attention.value_length_swa", 1, MAX_WIDTH,
                   (int64_t)(apart ? s->value_dim : w->head_dim), &w->value_dim, err) < 0 ||
        hyper_size(m, "attention.shared_kv_layers", 0, s->n_layer, 0, &w->n_shared, err) < 0)
        return MGPT_EFILE;
    if (w->value_dim != w->head_dim && !apart)
        return err_set(err, MGPT_EFILE, 0,
                       "attention.value_length_swa %zu differs from key_length_swa %zu: not "
                       "supported",
                       w->value_dim, w->head_dim);
    if (w->head_dim != s->head_dim && !m->arch->unscaled)
        return err_set(err, MGPT_EFILE, 0,
                       "attention.key_length_swa %zu differs from key_length %zu: not supported",
                       w->head_dim, s->head_dim);
    return MGPT_OK;
}

/* Rows of the gates of heads: the tensor says whether heads have one each, or their values. */
static size_t gate_rows(const mgpt_model *m, size_t i, const struct model_shape *s)
{
    const struct tensor_slot *slot;
    const struct gguf_tensor *t = bind_find(m, (int)i, MGPT_HEAD_GATE, MGPT_WEIGHT, &slot);
    if (m->arch->gates != GATES_OF_EITHER)
        return s->n_gate;
    return t && t->dims[1] == s->n_z ? s->n_z : s->n_head;
}

/* A layer's own shape. w: the numbers of layers with a window. */
static int shape_layer(mgpt_model *m, size_t i, const struct windowed *w, struct model_shape *s,
                       mgpt_error *err)
{
    *s = m->shape;
    if (m->layers[i].window) {
        s->head_dim = s->kept_dim = w->head_dim;
        s->value_dim = s->kept_value = w->value_dim;
    }
    s->n_head = layer_entry(m, "attention.head_count", i, s->n_head);
    s->n_head_kv = layer_entry(m, "attention.head_count_kv", i, s->n_head_kv);
    s->n_ff = layer_entry(m, "feed_forward_length", i, s->n_ff);
    s->n_q = s->n_head * s->head_dim;
    s->n_z = s->n_head * s->value_dim;
    s->n_kv = s->n_head_kv * s->head_dim;
    s->n_v = s->n_head_kv * s->value_dim;
    s->n_gate = gate_rows(m, i, s);
    s->n_kept = s->n_head_kv;
    m->layers[i].shape = s;
    const struct rope *rope = &m->ropes[m->layers[i].window ? ROPE_LOCAL : ROPE_GLOBAL];
    if (s->n_head % s->n_head_kv)
        return err_set(err, MGPT_EFILE, 0,
                       "layer %zu: %zu query heads are not a multiple of %zu KV heads", i,
                       s->n_head, s->n_head_kv);
    if (rope->freq && rope->n_rot > s->head_dim)
        return err_set(err, MGPT_EFILE, 0, "layer %zu: rope turns %zu components of heads of %zu",
                       i, rope->n_rot, s->head_dim);
    return MGPT_OK;
}

/* The last of the first n layers that has a window as layer i does, or none as it; n: there is none. */
static size_t last_like(const mgpt_model *m, size_t i, size_t n)
{
    for (size_t k = n; k > 0; k--)
        if (!m->layers[k - 1].window == !m->layers[i].window)
            return k - 1;
    return n;
}

/* The last n_shared layers read the keys and values of a layer before them. */
static int share_layers(mgpt_model *m, size_t n_shared, mgpt_error *err)
{
    size_t n = m->shape.n_layer - n_shared;
    for (size_t i = n; i < m->shape.n_layer; i++) {
        size_t from = m->layers[i].kv_from = last_like(m, i, n);
        const struct model_shape *a = m->layers[i].shape, *b = m->layers[from].shape;
        if (from == n || a->n_kv != b->n_kv || a->head_dim != b->head_dim)
            return err_set(err, MGPT_EFILE, 0,
                           "key %s.attention.shared_kv_layers: no layer before has the keys of "
                           "layer %zu",
                           m->arch->name, i);
    }
    return MGPT_OK;
}

static void widen(size_t *most, size_t n)
{
    *most = n > *most ? n : *most;
}

/* Sets what sessions keep of each layer. The model's shape becomes the largest of the layers'. */
static int keep_layers(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    if (!m->kept)
        m->kept = bind_own(m, s->n_layer, sizeof *m->kept, "the kinds of layers", err);
    if (!m->kept)
        return MGPT_EMEM;
    for (size_t i = 0; i < s->n_layer; i++) {
        const struct model_shape *l = m->layers[i].shape;
        int own = m->layers[i].kv_from == i;
        m->kept[i] =
            (struct kv_shape){own ? l->n_kept : 0, l->kept_dim, l->kept_value, m->kept[i].rows};
        widen(&s->head_dim, l->head_dim);
        widen(&s->value_dim, l->value_dim);
        widen(&s->kept_dim, l->kept_dim);
        widen(&s->n_q, l->n_q);
        widen(&s->n_z, l->n_z);
        widen(&s->n_gate, l->n_gate);
        widen(&s->n_kv, l->n_kv);
        widen(&s->n_v, l->n_v);
        widen(&s->n_kv_most, s->n_kv);
        widen(&s->n_kv_most, s->n_v);
    }
    return MGPT_OK;
}

/* Gives each layer a shape of its own. */
static int shape_layers(mgpt_model *m, mgpt_error *err)
{
    struct windowed w = {0};
    size_t n = m->shape.n_layer;
    struct model_shape *shapes = bind_own(m, n, sizeof *shapes, "the shapes of layers", err);
    int status = shapes ? model_windows(m, err) : MGPT_EMEM;
    if (status == MGPT_OK)
        status = read_windowed(m, &w, err);
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        status = shape_layer(m, i, &w, &shapes[i], err);
    return status == MGPT_OK ? share_layers(m, w.n_shared, err) : status;
}

int model_shapes(mgpt_model *m, mgpt_error *err)
{
    int differ = (m->arch->knows & KNOWS_LAYER_SHAPES) != 0;
    for (size_t i = 0; i < m->shape.n_layer; i++) {
        m->layers[i].shape = &m->shape;
        m->layers[i].kv_from = i;
    }
    int status = differ ? shape_layers(m, err) : MGPT_OK;
    return status == MGPT_OK && (differ || m->kept) ? keep_layers(m, err) : status;
}
