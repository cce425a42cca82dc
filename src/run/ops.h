/* The operations that page.inc calls, for any model, on the session's threads.
 *
 * Each operation works on all rows of a pass. Matrix products are split by output rows (matmul.c),
 * the rest by rows or elements (ops.c), so results do not depend on the number of threads. A part
 * that the model lacks does nothing.
 */
#ifndef MGPT_OPS_H
#define MGPT_OPS_H

#include "run/session.h"

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* x = the tokens' embeddings. First in a pass: wakes the threads if the pass is large. */
void token_rows(pass *p, mat x);

/* y = the embeddings of the rows' positions. Returns y, or {NULL} for a model without position
 * embeddings. Also computes the rope angles of all rows. */
mat position_rows(pass *p, mat y);

/* y = norm(x). Returns y. A norm of kind NORM_NONE copies x. */
mat norm(pass *p, mat y, const struct norm *norm, mat x);

/* y = residual_scale norm(y): what a branch adds to the residual. In models whose residual is scaled by depth,
 * for the k-th branch: y = y / sqrt(k + 1), x = x sqrt(k / (k + 1)). */
void post_norm(pass *p, const struct norm *norm, mat y);

/* x += smear_scale sigmoid(smear_gate x) x of the token before, if the model has that. mix_in.c. */
void smear(pass *p, mat x);

/* p->v = p->k if the layer has no matrix of values; its norm, if there is one; += the value embeddings of
 * the rows' tokens times their gates, if the layer has them; gates read h. mix_in.c. */
void add_token_values(pass *p, const struct layer *l, mat h);

/* o *= sigmoid(head_gate h), a factor for each head or for each value, if the layer has such a gate. Tap
 * MGPT_GATES. mix_in.c. */
void gate_heads(pass *p, const struct layer *l);

/* After the middle layer: keeps x. After the last: subtracts backout times it. mix_in.c. */
void back_out(pass *p);

/* x = l->x_scale x + l->x0_scale x0 in models with such factors. x0 is x before the first layer. */
void mix_in_x0(pass *p, const struct layer *l);

/* The segments that begin in this layer join the pass with their x. forward.c. */
void join_rows(pass *p);

/* before_layer does what precedes the branches of a layer: mix_in_x0, join_rows. after_layer does what follows
 * them: the norm of the residual, the layer's input, its factor, back_out. inputs.c. */
void before_layer(pass *p, const struct layer *l);
void after_layer(pass *p, const struct layer *l);

/* The inputs of layers for a segment that joins the pass, if layers have some. inputs.c. */
void join_inputs(pass *p, const struct segment *seg);

/* y = the embedding of the token at a position, as the page makes it. mix_in.c. */
void embed_token(const pass *p, const struct segment *seg, size_t pos, float *y);

/* y = l x (+ bias); y is [x.n][l->n_out]. Nothing if l has no weights. */
void matmul(pass *p, mat y, const struct linear *l, mat x);

/* y = l x for rows [row, row + n) of the input of a job. */
struct matmul_product {
    const struct linear *l;
    float *y;
    size_t row, n;
    size_t at; /* matmul.c */
};

/* One job of products of experts with rows of x. are_up: they are pairs of gate and up of the same
 * rows; y of the gate becomes act(gate x) * (up x). */
void expert_products(pass *p, struct matmul_product *products, size_t count, mat x, int are_up);

/* Returns the rows that the head multiplies: norm(act(head_dense h)); h in models without head_dense. */
mat head_input(pass *p, mat h);

/* Memory for the jobs of matmul with one token on n_threads > 1. NULL when out of memory. */
struct matmul_slots *matmul_slots_new(const mgpt_model *m, size_t n_threads);
void matmul_slots_free(struct matmul_slots *slots);

/* y = l x for one token where only the largest logits are needed. Returns 0 if matmul must compute y: l
 * has no screen, or all logits are needed. screen.c. */
int screened_matmul(pass *p, mat y, const struct linear *l, mat x);

/* p->q, k, v = the projections of h (+ bias), clamped if the model has a clamp, q and k only if no norm
 * follows; C, B and x of a layer that is a short convolution. */
void qkv_matmul(pass *p, const struct layer *l, mat h);

/* Applies the norms of q and k, clamped if the model has a clamp, then the rotation if the layer has a
 * rope; or the reverse. */
void qk_norm_rope(pass *p, const struct layer *l);

/* Writes k and v of all rows to their sessions' caches; their product if the layer is a short
 * convolution. */
void kv_append(pass *p);

/* After the keys and values of the last layer: segments keep their last n_last rows. forward.c. */
void drop_rows(pass *p);

/* n scores of a query of a head with ALiBi and the soft cap, if the model has them; the first is of
 * the key `back` positions before the query. scores.c. */
void adjust_row(const pass *p, float *s, size_t n, size_t head, size_t back);

/* The weights of n keys from their scores, for a query of a head; s[n] may be overwritten. scores.c. */
void weigh_keys(const pass *p, size_t head, float *s, size_t n);

/* Latent attention. latent.c. */

/* q, and the row of what the cache keeps of each token. */
void latent_project(pass *p, const struct layer *l, mat h);

/* Computes keys and values of all heads, which the pass itself does not need, for taps. */
void latent_show(pass *p, const struct layer *l);

/* Before attention: queries whose products with rows of the cache are the scores. After it: the outputs of
 * heads from the mixtures of such rows. */
void latent_queries(pass *p, const struct layer *l);
void latent_outputs(pass *p, const struct layer *l);

/* mgpt_read_kv of a head. */
int latent_read(const mgpt_session *s, struct kv_part part, float *k, float *v, mgpt_error *err);

/* The rows of n_kept heads that kv_append stores as keys, and as values. */
static inline float *kept_keys(const pass *p)
{
    return p->model->shape.n_latent ? p->s->latent : p->s->k;
}

static inline float *kept_values(const pass *p)
{
    return p->model->shape.n_latent ? p->s->latent : p->s->v;
}

/* o = softmax attention of q over the sessions' caches. attention.c. */
void attend(pass *p);

/* What kv_append and attend do in a layer that is a short convolution. convolution.c. */
void convolution_append(pass *p);
void convolve(pass *p);

/* f = act(gate h) * (up h), or act(up h) without a gate. Taps MGPT_MLP_PRE, MGPT_MLP_PRE_LINEAR. */
void mlp_up(pass *p, const struct layer *l, mat h);

/* Mixtures of experts: p->m, the output of the shared expert if there is one, becomes
 *     m = g m + sum of w_e expert_e(h)    over the experts e whose weight w_e is not 0
 * Taps MGPT_ROUTER_SCORES, MGPT_EXPERT_WEIGHTS. experts.c. */
void add_experts(pass *p, const struct layer *l, mat h);

/* x = sigmoid(x), n values. mix_in.c. */
void sigmoid_row(const struct kernels *kernels, float *x, size_t n);

/* y = by y. */
void scale_rows(pass *p, mat y, float by);

/* x += y, unless y is {NULL}. */
void add_rows(pass *p, mat x, mat y);

/* Copies the rows of x whose logits p->logits has to consecutive rows of p->h. Returns them; none if the
 * pass is stopped. */
mat logit_rows(pass *p);

/* logits = logit_scale logits, then cap tanh(logits / cap) if the model has a cap. */
void scale_and_cap(pass *p);

#endif
