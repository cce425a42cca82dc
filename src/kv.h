/* Floor 5. The KV cache of one session.
 *
 * For every layer and KV head two stb_ds arrays, which grow by doubling as tokens arrive:
 *
 *     keys    panels of 16 tokens, element-major inside (kernels.h): a score is a linear
 *             key element j of token t: k[(t / 16) * d * 16 + j * 16 + t % 16]
 *     values  token after token: value element j of token t: v[t * d + j]
 *
 * The cache holds what was written; how many of its tokens count is the session's business, so
 * rewinding costs nothing. Growing copies, it never recomputes. A panel is zeroed when its first token
 * is written: lanes behind the last token are finite and ignored.
 */
#ifndef MGPT_KV_H
#define MGPT_KV_H

#include "mgpt.h"

#include <stddef.h>

struct kv {
    size_t n_layer, n_head_kv, head_dim;
    size_t cap;     /* tokens that fit without growing */
    float **k, **v; /* [n_layer * n_head_kv] arrays */
};

int kv_init(struct kv *kv, size_t n_layer, size_t n_head_kv, size_t head_dim, mgpt_error *err);
void kv_free(struct kv *kv);

/* Makes room for n tokens in all, at least doubling when it must grow. On failure some arrays may be larger, which changes nothing. */
int kv_reserve(struct kv *kv, size_t n, mgpt_error *err);

/* Writes token t's key and value of all KV heads of a layer ([n_head_kv * head_dim] each). */
void kv_put(struct kv *kv, size_t layer, size_t t, const float *k, const float *v);

/* Makes `to` (initialised alike) hold the first n tokens of `from`. */
int kv_copy(struct kv *to, const struct kv *from, size_t n, mgpt_error *err);

static inline const float *kv_keys(const struct kv *kv, size_t layer, size_t head)
{
    return kv->k[layer * kv->n_head_kv + head];
}

static inline const float *kv_values(const struct kv *kv, size_t layer, size_t head)
{
    return kv->v[layer * kv->n_head_kv + head];
}

#endif
