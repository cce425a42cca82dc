/* Floor 5. The KV cache of one session.
 *
 * For every layer and KV head two stb_ds arrays, which grow by doubling as tokens arrive.
 * Elements are floats or IEEE halves, one type for the whole cache:
 *
 *     keys    panels of 16 tokens, element-major inside (kernels.h)
 *             key element j of token t: k[(t / 16) * d * 16 + j * 16 + t % 16]
 *     values  token after token: value element j of token t: v[t * d + j]
 *
 * Both begin at the first address of their array that is a multiple of 64, so that no panel line
 * straddles two of the cache's.
 *
 * The cache holds what was written; how many of its tokens count is the session's business, so
 * rewinding costs nothing. Growing copies, it never recomputes. A panel is filled when its first
 * token is written, with zeros or (in a batch of a narrow model) with that token's key: lanes
 * behind the last token are ignored, and never what the allocator left there.
 */
#ifndef MGPT_KV_H
#define MGPT_KV_H

#include "kernels/kernels.h"
#include "mgpt.h"

#include <stddef.h>

struct kv {
    size_t n_layer, n_head_kv, head_dim;
    enum kv_type type;
    size_t each;      /* bytes of an element */
    size_t cap;       /* tokens that fit without growing */
    uint8_t **k, **v; /* [n_layer * n_head_kv] arrays */
};

/* After a failure, too, there is something to free. */
int kv_init(struct kv *kv, size_t n_layer, size_t n_head_kv, size_t head_dim, enum kv_type type,
            mgpt_error *err);
void kv_free(struct kv *kv);

/* Makes room for n tokens in all, at least doubling when it must grow. On failure some arrays
 * may be larger, which changes nothing. */
int kv_reserve(struct kv *kv, size_t n, mgpt_error *err);

/* Writes the keys and values of tokens [t, t + n) of KV head h of a layer. k and v are those of
 * all its heads, [n][n_head_kv * head_dim]. Threads may write different heads. */
void kv_put(struct kv *kv, const struct kernels *kernels, size_t layer, size_t h, size_t t,
            size_t n, const float *k, const float *v);

/* Reads tokens [t, t + n) of one head back, as float32, [n][head_dim]; either may be NULL. Component i of
 * a key is the stored one order[i], or with order NULL the stored one i. */
void kv_get(const struct kv *kv, size_t layer, size_t head, size_t t, size_t n,
            const uint32_t *order, float *k, float *v);

/* Makes `to` (initialised alike) hold the first n tokens of `from`. */
int kv_copy(struct kv *to, const struct kv *from, size_t n, mgpt_error *err);

/* NULL, where nothing is cached yet, stays NULL. */
static inline uint8_t *kv_align(uint8_t *p)
{
    return (uint8_t *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
}

static inline const void *kv_keys(const struct kv *kv, size_t layer, size_t head)
{
    return kv_align(kv->k[layer * kv->n_head_kv + head]);
}

/* Element j of the value of token t, and what follows it. */
static inline const void *kv_values(const struct kv *kv, size_t layer, size_t head, size_t t,
                                    size_t j)
{
    return kv_align(kv->v[layer * kv->n_head_kv + head]) + (t * kv->head_dim + j) * kv->each;
}

#endif
