/* The KV cache of one session.
 *
 * For every layer and KV head two stb_ds arrays, which grow by doubling as tokens arrive.
 * Elements are floats or IEEE halves, one type for the whole cache:
 *
 *     keys    panels of 16 tokens, element-major inside (kernels.h)
 *             key element j of token t: k[(t / 16) * d * 16 + j * 16 + t % 16]
 *     values  token after token: value element j of token t: v[t * d + j]
 *
 * Both begin at a multiple of 64, the first in their array, so a line of a panel
 * never crosses a cache line.
 *
 * The session knows how many tokens are valid, so rewinding costs nothing. Growing copies, it never
 * recomputes. Writing a panel's first token fills the whole panel, with zeros or (on the fused
 * path) with that token's key. Lanes after the last token are ignored, but always initialised.
 */
#ifndef MGPT_KV_H
#define MGPT_KV_H

#include "kernels/kernels.h"
#include "mgpt.h"

#include <stddef.h>

struct kv {
    size_t n_layer, n_head_kv, head_dim;
    enum kv_type type;
    size_t each;      /* bytes per element */
    size_t cap;       /* tokens that fit without growing */
    uint8_t **k, **v; /* [n_layer * n_head_kv] first keys and values, multiples of 64 */
    uint8_t **arrays; /* [2][n_layer * n_head_kv] stb_ds arrays that hold them */
};

/* MGPT_OK or MGPT_EMEM. Call kv_free after a failure too. */
int kv_init(struct kv *kv, size_t n_layer, size_t n_head_kv, size_t head_dim, enum kv_type type,
            mgpt_error *err);
void kv_free(struct kv *kv);

/* Makes room for n tokens in all; at least doubles when it grows. MGPT_OK or MGPT_EMEM; on failure
 * the content is unchanged. */
int kv_reserve(struct kv *kv, size_t n, mgpt_error *err);

/* Tokens [t, t + n) of one KV head of a layer. */
struct kv_part {
    size_t layer, head, t, n;
};

/* Writes the keys and values of a part. k and v are those of all heads of the layer,
 * [n][n_head_kv * head_dim]. Threads may write different heads. */
void kv_put(struct kv *kv, const struct kernels *kernels, struct kv_part part, const float *k,
            const float *v);

/* Copies a part as float32, [n][head_dim]; k or v may be NULL. Component i of a key is stored
 * component order[i], or i when order is NULL. */
void kv_get(const struct kv *kv, struct kv_part part, const uint32_t *order, float *k, float *v);

/* Copies the first n tokens of `from` to `to`, which has the same shape. MGPT_OK or MGPT_EMEM. */
int kv_copy(struct kv *to, const struct kv *from, size_t n, mgpt_error *err);

/* The bytes of the first n tokens as blocks, i < kv_n_blocks: the keys of a KV head, whole panels,
 * then its values, for every head of every layer. Session files have them in this order. */
struct kv_block {
    uint8_t *at;
    size_t n_bytes;
};
size_t kv_n_blocks(const struct kv *kv);
struct kv_block kv_block(const struct kv *kv, size_t i, size_t n);

/* Zeros the lanes after token n - 1 in its panels: equal tokens then have equal blocks. */
void kv_clear_lanes(struct kv *kv, size_t n);

static inline const void *kv_keys(const struct kv *kv, size_t layer, size_t head)
{
    return kv->k[layer * kv->n_head_kv + head];
}

/* Address of element j of the value of token t. */
static inline const void *kv_values(const struct kv *kv, size_t layer, size_t head, size_t t,
                                    size_t j)
{
    return kv->v[layer * kv->n_head_kv + head] + (t * kv->head_dim + j) * kv->each;
}

#endif
