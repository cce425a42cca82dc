/* What can be changed in the model that the oracle computes. See whatif.h. */
#include "check/explain/whatif.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The layers of an edit. */
#define EACH_LAYER(w, l, layer)                                                                    \
    for (struct oracle_layer *l = (w)->layers + ((layer) < 0 ? 0 : (layer)),                       \
                             *l##_end = (layer) < 0 ? (w)->layers + (w)->spec.n_layer : l + 1;     \
         l < l##_end; l++)

/* ---- members ----------------------------------------------------------------------------------- */

static int set_number(void *base, const struct whatif_edit *e)
{
    double *at = (double *)(void *)((char *)base + e->member);
    int changed = fabs(*at - e->x) > 1e-6 * fabs(e->x);
    *at = e->x;
    return changed;
}

static int negate(void *base, const struct whatif_edit *e)
{
    int *at = (int *)(void *)((char *)base + e->member);
    *at = !*at;
    return 1;
}

int edit_spec(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    return set_number(&w->spec, e);
}

int edit_layers(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer) changed |= set_number(l, e);
    return changed;
}

int flip_spec(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    return negate(&w->spec, e);
}

int flip_layers(struct whatif *w, const struct whatif_edit *e, int layer)
{
    EACH_LAYER(w, l, layer) negate(l, e);
    return w->spec.n_layer > 0;
}

int edit_activation(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    {
        changed |= strcmp(l->activation, e->names) != 0;
        l->activation = e->names;
    }
    return changed;
}

int edit_window(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    if (l->window) {
        changed = 1;
        l->window = e->a ? (size_t)((int64_t)l->window + e->a) : 0;
    }
    return changed;
}

int edit_kv_heads(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e;
    EACH_LAYER(w, l, layer) l->kv_interleaved = 1;
    return w->spec.n_head_kv > 1 && w->spec.n_head_kv < w->spec.n_head;
}

/* ---- tensors ----------------------------------------------------------------------------------- */

static int has(const struct whatif *w, const char *name, size_t n, const char *kind)
{
    mgpt_tensor t;
    char full[80];
    text_format(full, sizeof full, "blk.0.%.*s%s", (int)n, name, kind);
    return oracle_tensor_find(w->model, full + 6, &t) || oracle_tensor_find(w->model, full, &t);
}

static int has_matrix(const struct whatif *w, const char *stem)
{
    return has(w, stem, strcspn(stem, " ="), ".weight");
}

static int part_of_qkv(const char *stem)
{
    return whatif_lists("attn_q attn_k attn_v", stem, strlen(stem));
}

/* Whether the tensors of the edit exist. */
static int edit_applies(const struct whatif *w, const struct whatif_edit *e)
{
    switch (e->change) {
    case TENSORS_SWAPPED:
        if (has_matrix(w, "attn_qkv") && part_of_qkv(e->names) && part_of_qkv(e->other))
            return w->spec.n_head == w->spec.n_head_kv || strcmp(e->names, "attn_q") != 0;
        return has_matrix(w, e->names) && has_matrix(w, e->other);
    case TENSOR_HIDDEN:
        return has(w, e->names, strlen(e->names), "");
    case LAYERS_MOVED:
        return w->spec.n_layer > 1;
    case GAINS_SHIFTED:
        return has_matrix(w, "attn_norm") || has_matrix(w, "output_norm");
    case TENSORS_TRANSPOSED:
    case ORDER_ROW_NEXT:
    case ORDER_ROW_PREVIOUS:
        return has_matrix(w, e->names);
    case ORDER_QKV_BY_HEAD:
    case ORDER_QKV_NEXT:
    case ORDER_QKV_PREVIOUS:
        return has_matrix(w, "attn_qkv");
    case ORDER_TO_PAIRS:
    case ORDER_FROM_PAIRS:
        return w->spec.n_layer > 0 && w->spec.n_rot > 2;
    default:
        return w->spec.n_layer > 0 && w->spec.n_head > 1;
    }
}

int edit_tensors(struct whatif *w, const struct whatif_edit *e, int layer)
{
    w->edit = *e;
    w->layer = layer;
    return edit_applies(w, e);
}

int edit_given(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->edit = *e;
    return 1;
}

/* ---- rotation and positions -------------------------------------------------------------------- */

int edit_pairs(struct whatif *w, const struct whatif_edit *e, int layer)
{
    EACH_LAYER(w, l, layer)
    {
        negate(l, e);
        if (l->stored == ORACLE_PAIRS)
            l->stored = ORACLE_AS_SHOWN; /* rows that rotate as halves are stored as halves */
    }
    return w->spec.n_rot > 2;
}

int edit_as_stored(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = w->spec.n_rot > 2 && w->layers[0].stored == ORACLE_PAIRS;
    (void)e;
    EACH_LAYER(w, l, layer) l->stored = ORACLE_AS_SHOWN;
    return changed;
}

/* Frequency of pair i for a base, without scaling or divisors. */
static double plain_freq(const struct whatif *w, double base, size_t i)
{
    return pow(base, -2 * (double)i / (double)w->spec.n_rot);
}

/* Each frequency becomes what `freq` makes of it. */
static int edit_freq(struct whatif *w, double x, int layer,
                     double freq(const struct whatif *w, double x, size_t i, double now))
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    for (size_t i = 0; l->freq && i < w->spec.n_rot / 2; i++) {
        double *at = w->freq + (size_t)(l - w->layers) * (w->spec.n_rot / 2) + i, was = *at;
        *at = freq(w, x, i, was);
        changed |= fabs(*at - was) > 1e-9 * fabs(was);
    }
    return changed;
}

static double freq_base(const struct whatif *w, double x, size_t i, double now)
{
    return now * plain_freq(w, x / (double)w->info.rope_base, i);
}

static double freq_divided(const struct whatif *w, double x, size_t i, double now)
{
    (void)w, (void)i;
    return now / x;
}

static double freq_plain(const struct whatif *w, double x, size_t i, double now)
{
    (void)x, (void)now;
    return plain_freq(w, (double)w->info.rope_base, i);
}

/* Llama 3.1: wavelengths above 8192 are divided by x, those below 8192 / 4 stay, between them a
 * mix. */
static double freq_llama3(const struct whatif *w, double x, size_t i, double now)
{
    const double pi = acos(-1), context = 8192, low = 1, high = 4;
    double length = 2 * pi / now, mix = (context / length - low) / (high - low);
    (void)w, (void)i;
    mix = fmin(1, fmax(0, mix));
    return now * (mix + (1 - mix) / x);
}

int edit_rope_base(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return edit_freq(w, e->x, layer, freq_base);
}

int edit_rope_factor(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return edit_freq(w, e->x, layer, freq_divided);
}

int edit_rope_llama3(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return edit_freq(w, e->x, layer, freq_llama3);
}

int edit_rope_unscaled(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return edit_freq(w, e->x, layer, freq_plain);
}

int edit_no_rope(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = 0;
    (void)e;
    EACH_LAYER(w, l, layer)
    {
        changed |= l->freq != NULL;
        l->freq = NULL;
    }
    return changed;
}

int edit_positions(struct whatif *w, const struct whatif_edit *e, int layer)
{
    mgpt_tensor t;
    (void)layer;
    w->spec.shift = e->a;
    if (!oracle_tensor_find(w->model, "position_embd.weight", &t))
        return e->a < 0; /* RoPE sees distances only: all but the positions that stay at 0 */
    return e->a < 0 || w->n + (size_t)e->a <= t.dims[1];
}

/* ---- heads ------------------------------------------------------------------------------------- */

/* Frequencies of heads of width d. In all models without divisors they fall by one factor from pair
 * to pair. 0: n_rot does not scale to an even number. */
static int widen_rope(struct whatif *w, size_t d)
{
    size_t old = w->spec.n_rot / 2, n_rot = w->spec.n_rot * d / w->spec.head_dim;
    if (w->spec.n_rot == 0)
        return 1;
    if (n_rot < 2 || n_rot % 2 || n_rot * w->spec.head_dim != w->spec.n_rot * d)
        return 0;
    double *freq = mem_new(w->spec.n_layer * n_rot / 2, sizeof *freq), *to = freq;
    if (!freq)
        return 0;
    EACH_LAYER(w, l, -1)
    {
        if (!l->freq)
            continue;
        double ratio = pow((double)w->info.rope_base, -2 / (double)n_rot);
        if (old > 1)
            ratio = pow(l->freq[1] / l->freq[0], (double)w->spec.n_rot / (double)n_rot);
        for (size_t i = 0; i < n_rot / 2; i++)
            to[i] = l->freq[0] * pow(ratio, (double)i);
        l->freq = to;
        to += n_rot / 2;
    }
    free(w->freq);
    w->freq = freq;
    w->spec.n_rot = n_rot;
    return 1;
}

/* As many heads of width a as the rows of q and k make. With a change, the rows of q and k, which a
 * converter reordered for heads of the width that the file states, are read as if it had known. */
int edit_head_width(struct whatif *w, const struct whatif_edit *e, int layer)
{
    struct oracle_spec *o = &w->spec;
    size_t d = (size_t)e->a;
    int per_head = o->qk_norm == ORACLE_QK_PER_HEAD && has_matrix(w, "attn_q_norm");
    (void)layer;
    if (o->n_layer == 0 || per_head || !widen_rope(w, d))
        return 0;
    w->block = o->head_dim;
    w->edit = *e;
    o->n_head = o->n_head * w->block / d;
    o->n_head_kv = o->n_head_kv * w->block / d;
    o->head_dim = d;
    EACH_LAYER(w, l, -1)
    if (w->block == 1 || l->attn_scale != 1) /* GPT-Neo's is 1 for all widths */
        l->attn_scale *= sqrt((double)w->block / (double)d);
    return 1;
}

/* ---- tokens ------------------------------------------------------------------------------------ */

int edit_bos_added(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e, (void)layer;
    if (w->n + 1 > (size_t)w->info.n_ctx)
        w->n--;
    w->storage[0] = w->info.bos;
    memcpy(w->storage + 1, w->tokens, w->n * sizeof *w->storage);
    w->tokens = w->storage;
    w->n++;
    w->offset += 1;
    return w->info.bos >= 0;
}

int edit_first_dropped(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e, (void)layer;
    if (w->n < 3)
        return 0;
    w->tokens++;
    w->n--;
    w->offset -= 1;
    return 1;
}

int edit_rows_shifted(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->offset += e->a;
    return w->n > 2;
}

/* The reference names the tokens one place too far (a 1) or too early (a -1): the last one comes
 * first, or (b) BOS does. */
int edit_tokens_moved(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    if (w->n < 3 || (e->b && w->info.bos < 0))
        return 0;
    if (e->a > 0) {
        memcpy(w->storage, w->tokens + 1, (w->n - 1) * sizeof *w->storage);
        w->storage[w->n - 1] = w->tokens[w->n_more ? w->n : 0];
    } else {
        memcpy(w->storage + 1, w->tokens, (w->n - 1) * sizeof *w->storage);
        w->storage[0] = e->b ? w->info.bos : w->tokens[w->n + w->n_more - 1];
    }
    w->tokens = w->storage;
    return 1;
}

int edit_ids_shifted(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    for (size_t i = 0; i < w->n; i++) {
        int64_t id = (int64_t)w->tokens[i] + e->a, n = (int64_t)w->spec.n_vocab;
        w->storage[i] = (int32_t)((id + n) % n);
    }
    w->tokens = w->storage;
    return 1;
}
