/* Floor 5. The page's operations (page.inc) on panels and threads.
 *
 * Each works on all rows of a pass and splits its work over the session's threads, matrices by output
 * rows (matmul.c), the rest by rows or elements (ops.c), so that no number depends on how many threads
 * there are. Absent parts do nothing.
 */
#ifndef MGPT_VERBS_H
#define MGPT_VERBS_H

#include "run/session.h"

/* x = the tokens' embeddings. The first of a pass: calls the threads if it is worth it. */
void token_rows(pass *p, mat x);

/* y = the embeddings of the rows' positions, which is returned; without a table for them {NULL}. Also finds the
 * rope angles of all rows. */
mat position_rows(pass *p, mat y);

/* y = norm(x), which is returned; a norm that is absent copies (or does nothing when y is x). */
mat norm(pass *p, mat y, const struct norm *norm, mat x);
void post_norm(pass *p, const struct norm *norm, mat y);

/* x = keep x + blend x0 for a layer that asks for it; x0 is what the first layer began with. */
void mix_in_x0(pass *p, const struct layer *l);

/* y = l x (+ bias); y is [x.n][l->n_out]. */
void matmul(pass *p, mat y, const struct linear *l, mat x);

/* p->q, k, v from h in one go, and to [-clamp, clamp] where the model has a clamp. */
void qkv_matmul(pass *p, const struct layer *l, mat h);

/* q and k by their norms, then rotated where the layer has a rope. */
void qk_norm_rope(pass *p, const struct layer *l);

/* Appends k and v of all rows to their sessions' caches. */
void kv_append(pass *p);

/* Softmax attention of the rows over their caches: q to o. attention.c. */
void attend(pass *p);

/* f = act(gate h) * (up h), or act(up h) without a gate. Taps MGPT_MLP_PRE and MGPT_MLP_PRE_LINEAR. */
void mlp_up(pass *p, const struct layer *l, mat h);

/* x += y, unless y is {NULL}. */
void add_rows(pass *p, mat x, mat y);

/* h = the rows of x that need logits, packed together. */
mat logit_rows(pass *p);

/* logits = cap tanh(logits / cap) where the model has a cap. */
void softcap(pass *p);

#endif
