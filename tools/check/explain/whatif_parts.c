/* Points, norms, masks, inputs of products and kinds of layers that differ. See
 * whatif.h. */
#include "check/explain/whatif_impl.h"

#include "dtype/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- points ------------------------------------------------------------------------------------ */

static void take_softmax(double *row, size_t n, enum whatif_row how)
{
    double most = -INFINITY, sum = 0, mean = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, row[i]);
    for (size_t i = 0; i < n; i++) {
        sum += exp(row[i] - most);
        mean += row[i] / (double)n;
    }
    double less = how == ROW_LESS_MEAN ? mean : most;
    less += how == ROW_LOGARITHMS || how == ROW_LOGARITHMS_2 ? log(sum) : 0;
    for (size_t i = 0; i < n; i++) {
        row[i] = how == ROW_PROBABILITIES ? exp(row[i] - most) / sum : row[i] - less;
        row[i] /= how == ROW_LOGARITHMS_2 ? log(2) : 1;
    }
}

/* transformers' RepetitionPenaltyLogitsProcessor: each token counts once. */
static void take_repetition(const struct whatif *w, size_t pos, double *row, size_t n,
                            double *scratch)
{
    double x = w->edit.columns->x;
    memcpy(scratch, row, n * sizeof *row);
    for (size_t t = 0; t <= pos && t < w->n; t++) {
        size_t token = (size_t)w->tokens[t];
        if (token < n)
            row[token] = scratch[token] < 0 ? scratch[token] * x : scratch[token] / x;
    }
}

static void whole_row(const struct whatif *w, size_t pos, double *row, size_t n, double *scratch)
{
    const struct whatif_columns *c = w->edit.columns;
    int64_t theirs = (int64_t)pos - w->offset;
    int is_added = theirs >= 0 && (uint64_t)theirs < c->n_added;
    if (c->how == ROW_REPETITION)
        take_repetition(w, pos, row, n, scratch);
    else if (c->how != ROW_PLUS && c->how != ROW_DIVIDED)
        take_softmax(row, n, c->how);
    for (size_t i = 0; i < n && c->how == ROW_DIVIDED; i++)
        row[i] /= c->x;
    for (size_t i = 0; i < n && c->how == ROW_PLUS && is_added; i++)
        row[i] += c->added[theirs];
}

void whatif_columns_at(const struct whatif *w, struct whatif_place at, double *row, size_t n,
                       double *scratch)
{
    const struct whatif_columns *c = w->edit.columns;
    if (w->base)
        whatif_columns_at(w->base, at, row, n, scratch);
    if (!c || c->tensor[0] || c->point != at.point || c->layer != at.layer)
        return;
    if (c->how)
        whole_row(w, at.pos, row, n, scratch);
    if (c->how || c->n != n)
        return;
    memcpy(scratch, row, n * sizeof *row);
    for (size_t i = 0; i < n; i++)
        row[i] = c->times[i] * scratch[c->from[i]];
}

/* ---- matrices ------------------------------------------------------------------------------------ */

/* Values in steps of a `most`-th of the largest of each group. */
static void round_groups(float *row, size_t n, size_t group, float most)
{
    for (size_t i = 0; i < n; i += group) {
        float largest = 0;
        for (size_t k = i; k < i + group; k++)
            largest = fmaxf(largest, fabsf(row[k]));
        for (size_t k = i; k < i + group && largest > 0; k++)
            row[k] = rintf(row[k] / (largest / most)) * (largest / most);
    }
}

/* A matrix's row as blocks of a shorter type have it. */
void whatif_quantise(const struct whatif_edit *e, float *row, size_t n)
{
    int bits = -e->a;
    const struct dtype *type = bits > 0 ? NULL : dtype_find((uint32_t)e->a);
    size_t each = type ? type->block : e->x > 0 ? (size_t)e->x : n;
    char block[1024];
    if (n % each)
        return;
    if (!type)
        round_groups(row, n, each, (float)((1 << (bits - 1)) - 1));
    if (!type || !type->from_float)
        return;
    for (size_t i = 0; i < n; i += type->block) {
        type->from_float(row + i, block, type->block);
        type->to_float(block, row + i, type->block);
    }
}

int edit_given(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->edit = *e;
    w->begins = e->columns || !w->spec.n_layer ? 0 : (int)w->spec.n_layer - 1;
    for (const struct whatif_tensor *t = e->given; t; t = t->next) {
        const char *stem;
        int layer_of = oracle_layer_of(t->name, &stem), first = layer_of < 0 ? 0 : layer_of;
        int role = oracle_role_of(w->model, layer_of, stem, strcspn(stem, "."));
        int after = role == MGPT_W_U || role == MGPT_LN_FINAL || role == MGPT_W_HEAD ||
                    role == MGPT_LN_HEAD; /* the layers */
        w->begins = after || first > w->begins ? w->begins : first;
    }
    return 1;
}

/* ---- what a query sees ---------------------------------------------------------------------------- */

int edit_window_all(struct whatif *w, const struct whatif_edit *e, int layer)
{
    size_t n = (size_t)e->a;
    int changed = e->b && w->spec.mask != ORACLE_CHUNKS;
    EACH_LAYER(w, l, layer)
    {
        changed |= !l->window || l->window > n;
        l->window = n;
    }
    if (e->b)
        w->spec.mask = ORACLE_CHUNKS;
    return changed && n > 0 && n < w->n;
}

int edit_mask_adds(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->n += w->n_more;
    w->n_more = 0;
    w->spec.cap_at = ORACLE_MASK_ADDS;
    w->spec.mask_adds = e->x;
    return w->spec.n_layer > 0;
}

int edit_zero_keys(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->spec.zero_from = (size_t)e->a;
    w->spec.zero_to = (size_t)e->b;
    return e->a < e->b && w->spec.n_layer > 0;
}

int edit_first_keys(struct whatif *w, const struct whatif_edit *e, int layer)
{
    size_t windows = 0;
    EACH_LAYER(w, l, layer) windows += l->window > 0;
    w->spec.first_keys = (size_t)e->a;
    return windows > 0;
}

int edit_prefix(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    size_t prefix = (size_t)e->a, all = w->n + w->n_more, n = prefix < all ? prefix : all;
    w->n = n > w->n ? n : w->n;
    w->n_more = all - w->n;
    w->spec.prefix = prefix;
    return e->a > 1 && w->spec.n_layer > 0;
}

/* ---- norms, inputs ------------------------------------------------------------------------------- */

/* Whether the model has one of the norms. */
static int has_norms(const struct whatif *w, int where)
{
    static const struct {
        int where;
        const char *word;
    } norms[] = {{ORACLE_NORM_POST_ATTN, "ln1_post"},
                 {ORACLE_NORM_POST_MLP, "ln2_post"},
                 {ORACLE_NORM_EMBD, "ln_embd"}};
    const struct oracle_layer *l = w->spec.n_layer ? w->layers : NULL;
    int qk = where & (ORACLE_NORM_Q | ORACLE_NORM_K) && w->spec.qk_norm != ORACLE_QK_PLAIN;
    for (size_t i = 0; i < 3; i++)
        qk |= where & norms[i].where && whatif_has_matrix(w, norms[i].word);
    return qk || (where & ORACLE_NORM_FINAL && w->spec.final_norm) ||
           (where & ORACLE_NORM_ATTN && l && l->attn_norm) ||
           (where & ORACLE_NORM_MLP && l && l->mlp_norm);
}

int edit_norms(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->spec.norm_how = e->a;
    w->spec.norm_where = e->b;
    w->spec.norm_eps = e->x;
    return has_norms(w, e->b);
}

int edit_alibi(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = fabs(w->spec.alibi - e->x) > 1e-9 || e->b || e->a;
    (void)layer;
    w->spec.alibi_heads = (size_t)e->a;
    w->spec.alibi_even = e->b == ALIBI_EVEN;
    w->spec.alibi_back = e->b == ALIBI_BACK;
    w->spec.alibi_times = e->b == ALIBI_TIMES ? e->x : e->b == ALIBI_NEGATIVE ? -1 : 1;
    w->spec.alibi = e->b == ALIBI_TIMES ? w->spec.alibi : e->x;
    return changed && w->spec.n_layer > 0 && (size_t)e->a != w->spec.n_head;
}

int edit_lost_head(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->begins = e->b > 0 ? e->b : 0;
    EACH_LAYER(w, l, e->b) l->lost_head = (size_t)e->a + 1;
    return (size_t)e->a < w->spec.n_head;
}

int edit_layer_again(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->begins = e->a;
    w->layers[e->a].again = 1;
    return 1;
}

int edit_no_multipliers(struct whatif *w, const struct whatif_edit *e, int layer)
{
    const struct oracle_spec was = w->spec;
    const double usual = 1 / sqrt((double)was.head_dim);
    int n = (was.embd_scale != 1) + (was.residual_scale != 1) + (was.logit_scale != 1);
    (void)e;
    w->spec.embd_scale = w->spec.residual_scale = w->spec.logit_scale = 1;
    EACH_LAYER(w, l, layer)
    {
        n += l == w->layers && fabs(l->attn_scale - usual) > 1e-6 * usual;
        l->attn_scale = usual;
    }
    return layer < 0 && n > 1;
}

int edit_residual_sum(struct whatif *w, const struct whatif_edit *e, int layer)
{
    const double s = e->x > 0 ? e->x : w->spec.residual_scale;
    w->spec.residual_scale = s;
    EACH_LAYER(w, l, layer)
    {
        l->mlp_more = s - 1;
        l->attn_more = l->parallel ? 0 : s - 1; /* one sum */
    }
    return layer < 0 && fabs(s - 1) > 1e-6;
}

int edit_raw(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int mixture = e->a & ORACLE_RAW_ROUTER, gate = e->a & ORACLE_RAW_GATE;
    EACH_LAYER(w, l, layer) l->raw = e->a;
    return w->spec.n_layer > 0 && (!mixture || w->spec.n_expert > 0) && (!gate || w->spec.gated);
}

int choose_layers(struct whatif *w, const struct whatif_edit *e, int layer)
{
    EACH_LAYER(w, l, layer) * (int *)(void *)((char *)l + e->member) = e->a;
    return w->spec.n_layer > 0;
}

int flip_qk_bias(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e, (void)layer;
    w->spec.qk_bias_late = 1;
    return w->spec.n_rot > 0 &&
           (whatif_has(w, "W_Q", 3, ".bias") || whatif_has(w, "W_QKV", 5, ".bias"));
}

/* ---- kinds of layers --------------------------------------------------------------------------- */

/* A layer takes the window and the rotation of another one. Whether that changes it. */
static int take_kind(struct oracle_layer *l, const struct oracle_layer *other)
{
    int changed = l->window != other->window || !l->freq != !other->freq;
    l->window = other->window;
    l->freq = other->freq;
    l->rope_scale = other->rope_scale;
    return changed;
}

int edit_layers_pattern(struct whatif *w, const struct whatif_edit *e, int layer)
{
    size_t n = w->spec.n_layer;
    int changed = 0;
    (void)layer;
    for (size_t i = 0; i < n; i++) {
        size_t other = (e->a > 0 ? i + 1 : i + n - 1) % n;
        changed |= take_kind(&w->layers[i], &w->base->layers[other]);
    }
    return changed;
}

/* Layers without a window, where some have one, or else those with RoPE. */
static int is_first_kind(const struct whatif *w, const struct oracle_layer *l)
{
    int windows = 0;
    for (size_t i = 0; i < w->spec.n_layer; i++)
        windows |= w->layers[i].window > 0;
    return windows ? l->window == 0 : l->freq != NULL;
}

int edit_layers_kinds(struct whatif *w, const struct whatif_edit *e, int layer)
{
    const struct oracle_layer *base = w->base->layers, *like[2] = {NULL, NULL};
    size_t n = w->spec.n_layer, b = (size_t)e->b;
    int changed = 0;
    (void)layer;
    for (size_t i = n; i > 0 && i--;)
        like[is_first_kind(w->base, &base[i])] = &base[i];
    struct oracle_layer no_window = n ? base[0] : (struct oracle_layer){0};
    no_window.window = 0;
    if (n && base[0].window && !like[1])
        like[1] = &no_window;
    for (size_t i = 0; i < n && like[0] && like[1]; i++) {
        int chosen = e->a ? i % (size_t)e->a == b : i >= b;
        changed |= take_kind(&w->layers[i], like[chosen == (e->layers == LAYERS_GLOBAL)]);
    }
    return changed;
}
