/* Floor 5. The page: the whole model, for one token or many, every architecture, traced or not.
 *
 * x is the residual stream; h its normalised copy; q, k, v, o the paper's. Left: the paper. Right: what
 * can be observed and changed (mgpt.h, "looking inside"). What a model lacks does nothing: a norm, bias,
 * gate or table that the file does not have is the identity inside its verb (verbs.c, attend.c).
 *
 *   Vaswani et al. 2017 (attention), Radford et al. 2019 (pre-norm GPT), Zhang & Sennrich 2019
 *   (RMSNorm), Su et al. 2021 (rope), Shazeer 2020 (gated MLP), Ainslie et al. 2023 (grouped heads)
 */
#include "verbs.h"

static void attention(struct run *r, size_t il)
{
    const struct layer *l = &r->model->layers[il];
    const struct shape *d = &r->model->shape;
    struct scratch *s = r->s;
    normalize(r, &l->attn_norm, s->h, s->x, r->n);
    TAP(r, MGPT_ATTN_IN, il, s->h, d->n_embd);
    const struct product qkv[3] = {{&l->q, s->q}, {&l->k, s->k}, {&l->v, s->v}};
    linears(r, qkv, 3, s->h, r->n);
    clamp_qkv(r);
    TAP(r, MGPT_Q, il, s->q, d->n_q);
    TAP(r, MGPT_K, il, s->k, d->n_kv);
    TAP(r, MGPT_V, il, s->v, d->n_kv);
    position_qk(r, l);
    if (r->model->arch->rope) {
        TAP(r, MGPT_ROT_Q, il, s->q, d->n_q);
        TAP(r, MGPT_ROT_K, il, s->k, d->n_kv);
    }
    remember(r, il);
    attend(r, il); /* taps MGPT_SCORES and MGPT_WEIGHTS */
    TAP(r, MGPT_HEADS, il, s->o, d->n_q);
    linear(r, &l->o, s->a, s->o, r->n);
    normalize(r, &l->post_attn_norm, s->a, s->a, r->n);
    TAP(r, MGPT_ATTN_OUT, il, s->a, d->n_embd);
    int in_turn = r->model->branches == BRANCHES_IN_TURN;
    residual(r, s->a, in_turn);
    if (in_turn)
        TAP(r, MGPT_RESID_MID, il, s->x, d->n_embd);
}

static void mlp(struct run *r, size_t il)
{
    const struct layer *l = &r->model->layers[il];
    const struct shape *d = &r->model->shape;
    struct scratch *s = r->s;
    normalize(r, &l->ffn_norm, s->h, s->x, r->n);
    TAP(r, MGPT_MLP_IN, il, s->h, d->n_embd);
    expand(r, il); /* gate = act(gate h) * (up h); taps MGPT_MLP_PRE and MGPT_MLP_PRE_LINEAR */
    TAP(r, MGPT_MLP_POST, il, s->gate, d->n_ff);
    linear(r, &l->down, s->h, s->gate, r->n);
    normalize(r, &l->post_ffn_norm, s->h, s->h, r->n);
    TAP(r, MGPT_MLP_OUT, il, s->h, d->n_embd);
    residual(r, s->h, 1);
    residual(r, s->a, r->model->branches == BRANCHES_SIDE_BY_SIDE);
}

static void unembed(struct run *r)
{
    const struct shape *d = &r->model->shape;
    float *h = r->s->h;
    gather_out(r, h);
    normalize(r, &r->model->final_norm, h, h, r->n_out);
    if (TAPPED(r, MGPT_FINAL) && r->model->final_norm.kind != NORM_NONE)
        tap_rows(r, MGPT_FINAL, -1, h, d->n_embd, 1);
    linear(r, &r->model->head, r->logits, h, r->n_out);
    softcap(r);
    if (TAPPED(r, MGPT_LOGITS))
        tap_rows(r, MGPT_LOGITS, -1, r->logits, d->n_vocab, 1);
}

void forward(struct run *r)
{
    const mgpt_model *m = r->model;
    float *x = r->s->x;
    embed(r); /* taps MGPT_EMBD and MGPT_POS_EMBD */
    normalize(r, &m->embd_norm, x, x, r->n);
    if (m->embd_norm.kind != NORM_NONE)
        TAP(r, MGPT_EMBD_NORM, -1, x, m->shape.n_embd);
    for (size_t il = 0; il < m->shape.n_layer && !r->stopped; il++) {
        blend(r, &m->layers[il]);
        TAP(r, MGPT_RESID_PRE, il, x, m->shape.n_embd);
        attention(r, il);
        mlp(r, il);
        TAP(r, MGPT_RESID_POST, il, x, m->shape.n_embd);
    }
    unembed(r);
}
