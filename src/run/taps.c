/* Taps: callbacks on the engine's own buffers, and the names of the points. */
#include "base/check.h"
#include "base/error.h"
#include "base/xxh64.h"
#include "run/session.h"

#include <string.h>

/* Names of TransformerLens. "blocks.N" precedes those that begin with '.'. */
static const char *const names[] = {
    [MGPT_EMBD] = "hook_embed",
    [MGPT_POS_EMBD] = "hook_pos_embed",
    [MGPT_EMBD_NORM] = "ln_embed.hook_normalized",
    [MGPT_RESID_PRE] = ".hook_resid_pre",
    [MGPT_ATTN_IN] = ".ln1.hook_normalized",
    [MGPT_Q] = ".attn.hook_q",
    [MGPT_K] = ".attn.hook_k",
    [MGPT_V] = ".attn.hook_v",
    [MGPT_ROT_Q] = ".attn.hook_rot_q",
    [MGPT_ROT_K] = ".attn.hook_rot_k",
    [MGPT_SCORES] = ".attn.hook_attn_scores",
    [MGPT_WEIGHTS] = ".attn.hook_pattern",
    [MGPT_GATES] = ".attn.hook_gate",
    [MGPT_HEADS] = ".attn.hook_z",
    [MGPT_ATTN_OUT] = ".hook_attn_out",
    [MGPT_RESID_MID] = ".hook_resid_mid",
    [MGPT_MLP_IN] = ".ln2.hook_normalized",
    [MGPT_MLP_PRE] = ".mlp.hook_pre",
    [MGPT_MLP_PRE_LINEAR] = ".mlp.hook_pre_linear",
    [MGPT_MLP_POST] = ".mlp.hook_post",
    [MGPT_ROUTER_SCORES] = ".mlp.hook_router_scores",
    [MGPT_EXPERT_WEIGHTS] = ".mlp.hook_expert_weights",
    [MGPT_MLP_OUT] = ".hook_mlp_out",
    [MGPT_RESID_POST] = ".hook_resid_post",
    [MGPT_FINAL] = "ln_final.hook_normalized",
    [MGPT_HEAD_IN] = "mlm_head.ln.hook_normalized",
    [MGPT_LOGITS] = "logits",
};
_Static_assert(sizeof names / sizeof *names == MGPT_N_POINTS, "points and their names");

static int is_qk(mgpt_point point)
{
    return point == MGPT_Q || point == MGPT_K || point == MGPT_ROT_Q || point == MGPT_ROT_K;
}

/* Reorders the components of each head of q or k: from the stored order to that of mgpt.h, or with
 * `back` the reverse. `head` is scratch for one head. */
static void reorder(const mgpt_model *m, const mgpt_value *value, int back, float *head)
{
    const uint32_t *order = m->qk_order;
    size_t d = m->shape.head_dim, n_heads = (size_t)value->cols / d;
    for (size_t i = 0; i < (size_t)value->rows * n_heads; i++) {
        float *x = value->data + i / n_heads * value->stride + i % n_heads * d;
        for (size_t j = 0; j < d; j++)
            head[back ? order[j] : j] = x[back ? j : order[j]];
        memcpy(x, head, d * sizeof *x);
    }
}

/* Keys and values of latent attention are copies for the tap: the pass reads the latents. */
static int is_copied(const pass *p, mgpt_point point)
{
    return p->model->shape.n_latent && (point == MGPT_K || point == MGPT_V || point == MGPT_ROT_K);
}

static uint64_t hash_of(const mgpt_value *value)
{
    return xxh64(value->data, (size_t)value->rows * (size_t)value->cols * sizeof *value->data);
}

static void fire(pass *p, const struct segment *seg, mgpt_value value)
{
    const struct tap *tap = &seg->session->tap;
    if (!(seg->points & MGPT_POINT_BIT(value.point)) || p->stopped || pass_stop_asked(p) ||
        (value.layer >= 0 && seg->begin > (size_t)value.layer + 1))
        return;
    int ordered = is_qk(value.point) && p->model->qk_order;
    if (ordered)
        reorder(p->model, &value, 0, p->s->o); /* o is written after the last of these points */
    value.copied = is_copied(p, value.point);
    uint64_t before = value.copied ? hash_of(&value) : 0;
    p->s->copy_changed = 0;
    int stops = tap->fn(&value, tap->user) != 0;
    if (value.copied && !stops && hash_of(&value) != before)
        stops = p->s->copy_changed = 1;
    if (stops) {
        p->stopped = 1;
        p->points = 0;
    }
    if (ordered)
        reorder(p->model, &value, 1, p->s->o);
}

static int has_point(const pass *p, mgpt_point point)
{
    const mgpt_model *m = p->model;
    switch (point) {
    case MGPT_POS_EMBD:
        return m->position_embd != NULL;
    case MGPT_EMBD_NORM:
        return m->embd_norm.kind != NORM_NONE;
    case MGPT_K:
    case MGPT_V:
        return m->layers[p->il].kv_from == p->il;
    case MGPT_ROT_K:
        if (m->layers[p->il].kv_from != p->il)
            return 0;
        return m->arch->rope && !m->layers[p->il].conv;
    case MGPT_ROT_Q:
        return m->arch->rope && !m->layers[p->il].conv;
    case MGPT_RESID_MID:
        return m->branches == BRANCHES_SEQUENTIAL;
    case MGPT_MLP_POST:
        return m->layers[p->il].up.w != NULL;
    case MGPT_FINAL:
        return m->final_norm.kind != NORM_NONE;
    case MGPT_HEAD_IN:
        return m->head_dense.w != NULL;
    default:
        return 1;
    }
}

void tap_rows(pass *p, mgpt_point point, mat y)
{
    int is_out = (OUT_POINTS & MGPT_POINT_BIT(point)) != 0, in_layer = names[point][0] == '.';
    int embeds = !in_layer && !is_out;
    for (size_t i = 0; has_point(p, point) && i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        struct out_rows rows = {seg->row, seg->n, 0};
        if (is_out)
            rows = out_rows(p, seg);
        if (rows.n == 0 || (embeds && seg->begin > 0))
            continue;
        fire(p, seg,
             (mgpt_value){.point = point,
                          .layer = in_layer ? (int32_t)p->il : -1,
                          .pos = (int32_t)(seg->pos + seg->n - rows.n - rows.after),
                          .rows = (int32_t)rows.n,
                          .cols = (int32_t)y.cols,
                          .stride = y.cols,
                          .data = y.at + rows.at * y.cols});
    }
}

void tap_heads(pass *p, const struct segment *seg, mgpt_point point, size_t layer, size_t pos,
               float *data, size_t stride)
{
    fire(p, seg,
         (mgpt_value){.point = point,
                      .layer = (int32_t)layer,
                      .pos = (int32_t)pos,
                      .rows = (int32_t)p->model->layers[layer].shape->n_head,
                      .cols = (int32_t)pos + 1,
                      .stride = stride,
                      .data = data});
}

int mgpt_tap(mgpt_session *s, uint64_t points, mgpt_tap_fn *fn, void *user, mgpt_error *err)
{
    if (!s || (points && !fn) || points >= MGPT_POINT_BIT(MGPT_N_POINTS))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_tap: no session, callback or point");
    if (session_free_for(s, "mgpt_tap", err) < 0)
        return MGPT_EARG;
    s->tap = (struct tap){points, fn, user};
    return MGPT_OK;
}

size_t mgpt_point_name(mgpt_point point, int32_t layer, char *buf, size_t cap)
{
    char name[64] = "";
    size_t n = 0;
    if ((unsigned)point < MGPT_N_POINTS && names[point][0] == '.')
        n = text_format(name, sizeof name, "blocks.%d%s", layer, names[point]);
    else if ((unsigned)point < MGPT_N_POINTS)
        n = text_format(name, sizeof name, "%s", names[point]);
    if (cap > 0 && buf)
        text_format(buf, cap, "%s", name);
    return n;
}
