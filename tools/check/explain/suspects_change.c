/* What each of the usual suspects changes in the model to be computed. See suspects.h. */
#include "check/explain/suspects_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers that a change is made in. */
static size_t first_of(int layer)
{
    return layer < 0 ? 0 : (size_t)layer;
}

static size_t end_of(const struct whatif *w, int layer)
{
    return layer < 0 ? w->spec.n_layer : (size_t)layer + 1;
}

#define EACH_LAYER(w, l, layer)                                                                    \
    for (struct oracle_layer *l = (w)->layers + first_of(layer);                                   \
         l < (w)->layers + end_of(w, layer); l++)

static double *freq_of(struct whatif *w, const struct oracle_layer *l)
{
    return w->freq + (size_t)(l - w->layers) * (w->spec.n_rot / 2);
}

static int has(const struct whatif *w, const char *name)
{
    mgpt_tensor t;
    char full[80];
    text_format(full, sizeof full, "blk.0.%s", name);
    return oracle_tensor_find(w->model, name, &t) || oracle_tensor_find(w->model, full, &t);
}

static int has_stem(const struct whatif *w, const char *stem)
{
    char name[64];
    text_format(name, sizeof name, "%s.weight", stem);
    return has(w, name);
}

/* ---- positions --------------------------------------------------------------------------------- */

int suspect_pairs(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s;
    EACH_LAYER(w, l, layer)
    {
        l->halves = !l->halves;
        if (l->stored == ORACLE_PAIRS)
            l->stored = ORACLE_AS_SHOWN; /* rows that turn as halves stand as halves */
    }
    return w->spec.n_rot > 2;
}

int suspect_stored(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = w->spec.n_rot > 2 && w->layers[0].stored == ORACLE_PAIRS;
    (void)s;
    EACH_LAYER(w, l, layer) l->stored = ORACLE_AS_SHOWN;
    return changed;
}

int suspect_order(struct whatif *w, const struct suspect *s, int layer)
{
    w->order = (enum whatif_order)s->a;
    w->a = (int)s->x / 1024;
    w->b = (int)s->x % 1024;
    w->ordered = s->s;
    w->layer = layer;
    if (s->a >= ORDER_ROW_NEXT)
        return has_stem(w, s->s);
    return s->a < ORDER_QKV_BY_HEAD || has_stem(w, "attn_qkv");
}

int suspect_base(struct whatif *w, const struct suspect *s, int layer)
{
    double old = (double)w->info.rope_base, by = s->x / old;
    EACH_LAYER(w, l, layer)
    for (size_t i = 0; l->freq && i < w->spec.n_rot / 2; i++)
        freq_of(w, l)[i] *= pow(by, -2 * (double)i / (double)w->spec.n_rot);
    return fabs(by - 1) > 1e-6;
}

int suspect_factor(struct whatif *w, const struct suspect *s, int layer)
{
    EACH_LAYER(w, l, layer)
    for (size_t i = 0; l->freq && i < w->spec.n_rot / 2; i++)
        freq_of(w, l)[i] /= s->x;
    return 1;
}

/* The base's own frequencies: no scaling, no divisors. */
int suspect_unscaled(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    for (size_t i = 0; l->freq && i < w->spec.n_rot / 2; i++) {
        double f = pow((double)w->info.rope_base, -2 * (double)i / (double)w->spec.n_rot);
        changed |= fabs(freq_of(w, l)[i] - f) > 1e-9 * f;
        freq_of(w, l)[i] = f;
    }
    (void)s;
    return changed;
}

/* Llama 3.1's: wavelengths above 8192 / 1 turn x times slower, those below 8192 / 4 as before, between
 * them a mixture. */
int suspect_llama3(struct whatif *w, const struct suspect *s, int layer)
{
    const double pi = acos(-1), context = 8192, low = 1, high = 4;
    EACH_LAYER(w, l, layer)
    for (size_t i = 0; l->freq && i < w->spec.n_rot / 2; i++) {
        double f = freq_of(w, l)[i], length = 2 * pi / f;
        double mix = (context / length - low) / (high - low);
        mix = fmin(1, fmax(0, mix));
        freq_of(w, l)[i] = f * (mix + (1 - mix) / s->x);
    }
    return 1;
}

int suspect_no_rope(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s;
    EACH_LAYER(w, l, layer) l->freq = NULL;
    return 1;
}

int suspect_shift(struct whatif *w, const struct suspect *s, int layer)
{
    mgpt_tensor t;
    (void)layer;
    w->spec.shift = s->a;
    if (!oracle_tensor_find(w->model, "position_embd.weight", &t))
        return s->a < 0; /* rope knows distances only: all but what is held at 0 */
    return s->a < 0 || w->n + (size_t)s->a <= t.dims[1];
}

/* Frequencies of heads that are `times` as wide, from those that there are: in all models that state no
 * divisors they fall by one factor from pair to pair. 0: there are no such. */
static int widen_rope(struct whatif *w, size_t d)
{
    size_t old = w->spec.n_rot / 2, n_rot = w->spec.n_rot * d / w->spec.head_dim;
    if (w->spec.n_rot == 0)
        return 1;
    if (n_rot < 2 || n_rot % 2 || n_rot * w->spec.head_dim != w->spec.n_rot * d)
        return 0;
    double *freq = mem_new(w->spec.n_layer * n_rot / 2, sizeof *freq);
    if (!freq)
        return 0;
    for (size_t il = 0; il < w->spec.n_layer; il++) {
        struct oracle_layer *l = &w->layers[il];
        if (!l->freq)
            continue;
        double ratio = pow((double)w->info.rope_base, -2 / (double)n_rot);
        if (old > 1)
            ratio = pow(l->freq[1] / l->freq[0], (double)w->spec.n_rot / (double)n_rot);
        double *to = freq + il * n_rot / 2;
        for (size_t i = 0; i < n_rot / 2; i++)
            to[i] = l->freq[0] * pow(ratio, (double)i);
        l->freq = to;
    }
    free(w->freq);
    w->freq = freq;
    w->spec.n_rot = n_rot;
    return 1;
}

/* Heads of another width d = a, as many as the rows of q and k make. With b the rows of q and k, which a
 * converter reordered for heads of the width that is stated, are read as if it had known. */
int suspect_heads(struct whatif *w, const struct suspect *s, int layer)
{
    struct oracle_spec *o = &w->spec;
    size_t d = (size_t)s->a, was = o->head_dim;
    mgpt_tensor t;
    (void)layer;
    if ((o->qk_norm == ORACLE_QK_PER_HEAD &&
         oracle_tensor_find(w->model, "blk.0.attn_q_norm.weight", &t)) ||
        !widen_rope(w, d))
        return 0;
    o->n_head = o->n_head * was / d;
    o->n_head_kv = o->n_head_kv * was / d;
    o->head_dim = d;
    for (size_t i = 0; i < o->n_layer; i++) {
        int by_width = was == 1 || w->layers[i].attn_scale != 1; /* GPT-Neo's is 1 for all widths */
        w->layers[i].attn_scale *= by_width ? sqrt((double)was / (double)d) : 1;
    }
    w->order = (enum whatif_order)s->b;
    w->ordered = "attn_q attn_k";
    w->block = was;
    return 1;
}

int suspect_window(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    {
        changed |= l->window != 0;
        if (l->window)
            l->window = s->a ? (size_t)((int64_t)l->window + s->a) : 0;
    }
    return changed;
}

/* ---- tokens ------------------------------------------------------------------------------------ */

int suspect_bos_added(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s, (void)layer;
    if (w->n + 1 > (size_t)w->info.n_ctx)
        w->n--;
    w->storage[0] = w->info.bos;
    memcpy(w->storage + 1, w->tokens, w->n * sizeof *w->storage);
    w->tokens = w->storage;
    w->n++;
    w->offset = 1;
    return w->info.bos >= 0;
}

int suspect_first_dropped(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s, (void)layer;
    if (w->n < 3)
        return 0;
    w->tokens++;
    w->n--;
    w->offset = -1;
    return 1;
}

int suspect_rows_shifted(struct whatif *w, const struct suspect *s, int layer)
{
    (void)layer;
    w->offset = s->a;
    return w->n > 2;
}

/* The reference names the tokens one place too far (a = 1) or too early: rolled around, or (b) with BOS in
 * the place that is left. */
int suspect_tokens_moved(struct whatif *w, const struct suspect *s, int layer)
{
    (void)layer;
    if (w->n < 3 || (s->b && w->info.bos < 0))
        return 0;
    if (s->a > 0) {
        memcpy(w->storage, w->tokens + 1, (w->n - 1) * sizeof *w->storage);
        w->storage[w->n - 1] = w->tokens[w->n_behind ? w->n : 0];
    } else {
        memcpy(w->storage + 1, w->tokens, (w->n - 1) * sizeof *w->storage);
        w->storage[0] = s->b ? w->info.bos : w->tokens[w->n + w->n_behind - 1];
    }
    w->tokens = w->storage;
    return 1;
}

int suspect_ids_shifted(struct whatif *w, const struct suspect *s, int layer)
{
    (void)layer;
    for (size_t i = 0; i < w->n; i++) {
        int64_t id = (int64_t)w->tokens[i] + s->a, n = (int64_t)w->spec.n_vocab;
        w->storage[i] = (int32_t)((id + n) % n);
    }
    w->tokens = w->storage;
    return 1;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

int suspect_attn_scale(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    {
        changed |= fabs(l->attn_scale - s->x) > 1e-6 * s->x;
        l->attn_scale = s->x;
    }
    return changed;
}

int suspect_eps(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = fabs(w->spec.eps - s->x) > 1e-5 * s->x;
    (void)layer;
    w->spec.eps = s->x;
    return changed;
}

int suspect_embd_scale(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = fabs(w->spec.embd_scale - s->x) > 1e-5 * s->x;
    (void)layer;
    w->spec.embd_scale = s->x;
    return changed;
}

int suspect_softcap(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = w->spec.softcap != s->x;
    (void)layer;
    w->spec.softcap = s->x;
    return changed;
}

int suspect_attn_cap(struct whatif *w, const struct suspect *s, int layer)
{
    (void)layer;
    w->spec.attn_cap = s->x;
    return 1;
}

int suspect_unclamped(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = w->spec.clamp != 0;
    (void)s, (void)layer;
    w->spec.clamp = 0;
    return changed;
}

/* ---- parts ------------------------------------------------------------------------------------- */

int suspect_activation(struct whatif *w, const struct suspect *s, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    {
        changed |= strcmp(l->activation, s->s) != 0;
        l->activation = s->s;
    }
    return changed;
}

static int part_of_qkv(const char *stem)
{
    return whatif_lists("attn_q attn_k attn_v", stem, strlen(stem));
}

int suspect_swapped(struct whatif *w, const struct suspect *s, int layer)
{
    w->swap[0] = s->s;
    w->swap[1] = s->t;
    w->layer = layer;
    if (has_stem(w, "attn_qkv") && part_of_qkv(s->s) && part_of_qkv(s->t))
        return w->spec.n_head == w->spec.n_head_kv || strcmp(s->s, "attn_q") != 0;
    return has_stem(w, s->s) && has_stem(w, s->t);
}

int suspect_turned(struct whatif *w, const struct suspect *s, int layer)
{
    w->turn = s->s;
    w->layer = layer;
    return has_stem(w, s->t);
}

int suspect_hidden(struct whatif *w, const struct suspect *s, int layer)
{
    w->hide = s->s;
    w->layer = layer;
    return has(w, s->s);
}

int suspect_final_norm(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s, (void)layer;
    w->spec.final_norm = !w->spec.final_norm;
    return 1;
}

int suspect_embd_norm(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s, (void)layer;
    w->spec.embd_norm = !w->spec.embd_norm;
    return 1;
}

int suspect_norm_kind(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s, (void)layer;
    w->spec.layer_norm = !w->spec.layer_norm;
    return 1;
}

int suspect_branch_norms(struct whatif *w, const struct suspect *s, int layer)
{
    EACH_LAYER(w, l, layer)
    {
        l->attn_norm ^= s->a & 1;
        l->mlp_norm ^= s->a >> 1;
    }
    return 1;
}

int suspect_qk_norms(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s, (void)layer;
    w->spec.qk_norm = w->spec.qk_norm == ORACLE_QK_PLAIN ? ORACLE_QK_PER_HEAD : ORACLE_QK_PLAIN;
    return 1;
}

int suspect_gains(struct whatif *w, const struct suspect *s, int layer)
{
    (void)layer;
    w->gain = s->x;
    return has_stem(w, "attn_norm") || has_stem(w, "output_norm");
}

int suspect_branches(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s;
    EACH_LAYER(w, l, layer) l->parallel = !l->parallel;
    return 1;
}

int suspect_kv_heads(struct whatif *w, const struct suspect *s, int layer)
{
    (void)s;
    EACH_LAYER(w, l, layer) l->kv_interleaved = 1;
    return w->spec.n_head_kv > 1 && w->spec.n_head_kv < w->spec.n_head;
}

int suspect_layers(struct whatif *w, const struct suspect *s, int layer)
{
    (void)layer;
    w->layer_step = s->a == 0 ? -(int)w->spec.n_layer : s->a;
    return w->spec.n_layer > 1;
}

/* ---- solved for -------------------------------------------------------------------------------- */

int suspect_given(struct whatif *w, const struct suspect *s, int layer)
{
    (void)layer;
    w->given = s->given;
    w->columns = s->columns;
    return 1;
}
