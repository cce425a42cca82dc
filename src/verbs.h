/* Floor 5. The verbs of the page: what forward.c is written in.
 *
 * Each works on all rows of a pass and splits its work over the session's threads, matrices by output
 * rows (linear.c), the rest by rows or elements (verbs.c), so that no number depends on how many threads
 * there are. Absent parts do nothing.
 */
#ifndef MGPT_VERBS_H
#define MGPT_VERBS_H

#include "session.h"

/* x = token rows (+ position rows), and the rope angles of all rows. The first of a pass: calls the
 * threads if it is worth it. */
void embed(struct run *r);

/* y = norm(x) for n rows of norm->width; a norm that is absent copies (or does nothing when y is x). */
void normalize(struct run *r, const struct norm *norm, float *y, const float *x, size_t n);

/* x = keep x + blend x0 for a layer that asks for it; x0 is what the first layer began with. */
void blend(struct run *r, const struct layer *l);

/* y = l x (+ bias) for n rows; y is [n][l->n_out]. */
void linear(struct run *r, const struct linear *l, float *y, const float *x, size_t n);

/* The same for up to three matrices that read the same x, in one go. */
struct product {
    const struct linear *l;
    float *y;
};
void linears(struct run *r, const struct product *p, size_t count, const float *x, size_t n);

/* The first half of the MLP, from h: gate = act(gate h) * (up h), or act(up h) without a gate. Taps
 * MGPT_MLP_PRE and MGPT_MLP_PRE_LINEAR. */
void expand(struct run *r, size_t layer);

/* q, k and v to [-clamp, clamp] where the model has a clamp. */
void clamp_qkv(struct run *r);

/* q and k by their norms, then rotated where the layer has a rope. */
void position_qk(struct run *r, const struct layer *l);

/* Appends k and v of all rows to their sessions' caches. */
void remember(struct run *r, size_t layer);

/* x += y, E values a row, if it is time: with side-by-side branches attention's part waits for the
 * MLP's. */
void residual(struct run *r, const float *y, int now);

/* logits = cap tanh(logits / cap) where the model has a cap. */
void softcap(struct run *r);

/* Final norm and head on n rows of x: the rows that get logits. h is scratch for them. */
void gather_out(struct run *r, float *h);

#endif
