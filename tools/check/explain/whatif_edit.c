/* What can be changed in the model that the oracle computes. See whatif.h. */
#include "check/explain/whatif_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- members ----------------------------------------------------------------------------------- */

int whatif_has(const struct whatif *w, const char *word, size_t n, const char *kind)
{
    mgpt_tensor t;
    char name[ORACLE_NAME], ending[16];
    size_t n_word = strcspn(word, ".") < n ? strcspn(word, ".") : n;
    int role = oracle_role_of_word(word, n_word);
    int experts = role >= MGPT_W_GATE && role <= MGPT_W_DOWN && w->spec.n_expert > 0;
    text_format(ending, sizeof ending, "%.*s%s", (int)(n - n_word), word + n_word, kind);
    for (int i = 0; role >= 0 && i <= experts; i++, role += MGPT_EXPERTS_GATE - MGPT_W_GATE) {
        oracle_model_name(w->model, whatif_attention_layer(w), role, ending, name);
        if (oracle_tensor_find(w->model, name, &t))
            return 1;
    }
    return 0;
}

static int set_number(void *base, const struct whatif_edit *e)
{
    double *at = (double *)(void *)((char *)base + e->member);
    int changed = fabs(*at - e->x) > 1e-6 * fabs(e->x);
    *at = e->x;
    return changed;
}

int whatif_negate(void *base, const struct whatif_edit *e)
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
    return whatif_negate(&w->spec, e);
}

int choose_spec(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int *at = (int *)(void *)((char *)&w->spec + e->member), changed = *at != e->a;
    (void)layer;
    *at = e->a;
    return changed && w->spec.n_layer > 0;
}

int edit_all_keys(struct whatif *w, const struct whatif_edit *e, int layer)
{
    w->n += w->n_more;
    w->n_more = 0;
    return choose_spec(w, e, layer);
}

int flip_experts(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return w->spec.n_expert > 0 && flip_spec(w, e, layer);
}

int flip_gates(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return w->spec.n_gate > 0 && flip_spec(w, e, layer);
}

/* In place of the sparse mixer. */
int edit_plain_softmax(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int mixed = w->spec.expert_jitter > 0;
    (void)layer;
    w->spec.expert_jitter = 0;
    w->spec.expert_norm = e->a;
    return mixed;
}

int edit_experts_used(struct whatif *w, const struct whatif_edit *e, int layer)
{
    size_t was = w->spec.n_expert_used;
    (void)layer;
    w->spec.n_expert_used = e->a ? (size_t)((int64_t)was + e->a) : w->spec.n_expert;
    return w->spec.n_expert_used > 0 && w->spec.n_expert_used <= w->spec.n_expert &&
           w->spec.n_expert_used != was;
}

int flip_qk_norm(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    return w->spec.qk_norm != ORACLE_QK_PLAIN && whatif_negate(&w->spec, e);
}

int flip_layers(struct whatif *w, const struct whatif_edit *e, int layer)
{
    EACH_LAYER(w, l, layer) whatif_negate(l, e);
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

int edit_act_late(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e;
    EACH_LAYER(w, l, layer) l->act_late = 1;
    return w->spec.gated;
}

int edit_rope_values(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e, (void)layer;
    w->spec.rope_v = 1;
    return w->spec.n_rot > 0;
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

int edit_window_size(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    if (l->window) {
        changed |= l->window != (size_t)e->x;
        l->window = (size_t)e->x;
    }
    return changed;
}

int edit_scale_by_layer(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e, (void)layer;
    for (size_t i = 1; i < w->spec.n_layer; i++)
        w->layers[i].attn_scale /= (double)(i + 1);
    return w->spec.n_layer > 1;
}

int edit_layer_skipped(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->begins = e->a;
    w->layers[e->a].no_attention = e->x <= 0; /* both where x is 0 */
    w->layers[e->a].no_mlp = e->x >= 0;
    return 1;
}

int edit_layers_cut(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->begins = e->a;
    for (size_t i = (size_t)e->a; i < w->spec.n_layer; i++)
        w->layers[i].no_attention = w->layers[i].no_mlp = 1;
    return 1;
}

int edit_rounded(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->spec.type = (enum oracle_type)e->a;
    w->spec.rounded = (enum oracle_rounded)e->b;
    int rms = w->spec.rounded == ORACLE_SQUARES || w->spec.rounded == ORACLE_VARIANCE;
    return !rms || !w->spec.layer_norm;
}

int edit_kv_heads(struct whatif *w, const struct whatif_edit *e, int layer)
{
    EACH_LAYER(w, l, layer)
    {
        l->kv = (enum oracle_kv)e->a;
        l->kv_of = e->b;
    }
    int first = e->a == ORACLE_KV_FIRST; /* which many heads of one key each may read, too */
    return w->spec.n_head_kv > 1 && (first || w->spec.n_head_kv < w->spec.n_head);
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

/* Heads of width a, as many as the rows of q and k make. With a change, the rows of q and k, which a
 * converter reordered for heads of the width that the file states, are read as if it had known. */
int edit_head_width(struct whatif *w, const struct whatif_edit *e, int layer)
{
    struct oracle_spec *o = &w->spec;
    size_t d = (size_t)e->a;
    int per_head = o->qk_norm == ORACLE_QK_PER_HEAD && whatif_has_matrix(w, "q_norm");
    (void)layer;
    if (o->n_layer == 0 || o->layers[0].n_head || o->n_latent || per_head || !widen_rope(w, d))
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

int edit_padded(struct whatif *w, const struct whatif_edit *e, int layer)
{
    size_t n = (size_t)e->a, context = (size_t)w->info.n_ctx;
    (void)layer;
    if (n > PADDING_MOST || e->b < 0 || n >= context)
        return 0;
    w->n = w->n + n > context ? context - n : w->n;
    for (size_t i = 0; i < n; i++)
        w->storage[i] = e->b;
    memcpy(w->storage + n, w->tokens, w->n * sizeof *w->storage);
    w->tokens = w->storage;
    w->n += n;
    w->offset += e->a;
    return 1;
}

int edit_first_token(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    if (w->n < 1 || e->b < 0 || e->b == w->tokens[0])
        return 0;
    memcpy(w->storage, w->tokens, w->n * sizeof *w->storage);
    w->storage[0] = e->b;
    w->tokens = w->storage;
    return 1;
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

int whatif_apply(struct whatif *w, const struct whatif_edit *e, int layer)
{
    whatif_fn *const of_all_alike[] = {
        edit_head_width,   edit_rotated,      edit_rope_base,      edit_rope_factor,
        edit_rope_linear,  edit_rope_ntk,     edit_rope_llama3,    edit_rope_yarn,
        edit_rope_other,   edit_rope_factors, edit_rope_unscaled,  edit_rope_everywhere,
        edit_layers_alike, edit_turn_one,     edit_layers_pattern, edit_layers_kinds};
    int differ = w->spec.n_layer > 0 && w->layers[0].head_dim > 0;
    for (size_t i = 0; differ && i < sizeof of_all_alike / sizeof *of_all_alike; i++)
        if (e->apply == of_all_alike[i])
            return 0;
    return e->apply(w, e, layer);
}
