/* The KV cache of one session.
 *
 * For every layer and KV head two stb_ds arrays. As tokens arrive they grow by doubling, from 1 MiB
 * on by an eighth. Elements are floats, IEEE halves, or int8 in blocks of 32 (kv_q8.c); one type for
 * the whole cache. Floats and halves:
 *
 *     keys    panels of 16 tokens, element-major inside (kernels.h)
 *             key element j of token t: k[(t / 16) * d * 16 + j * 16 + t % 16]
 *     values  token after token: value element j of token t: v[t * d + j]
 *
 * Blocks: keys and values are both panels of 16 tokens, kv.panel bytes each.
 *
 * A layer that is a short convolution keeps no keys but a row of floats per token, for any type of
 * cache, as the values of its head 0: element j of token t: v[t * rows + j]. Its other heads are empty,
 * and so are those that a layer has less than another one. Layers may have heads of different widths,
 * and values of another width than keys.
 *
 * Interleaved, for the fused path (fused_attend_tmpl.h), if a multiple of four heads has floats: in
 * every 16 floats of the arrays of four heads, quad (four floats) q of head h is exchanged with quad
 * h of head q. So 16 floats are an element of four keys of four heads, or four elements of a value of
 * four heads.
 *
 * Both begin at a multiple of 64, the first in their array, so a line of a panel never crosses a
 * cache line; from 2 MiB on at a multiple of that, a huge page.
 *
 * A fork shares the whole panels of its origin and copies the rest: its first n_prefix tokens are
 * in a store that several sessions read and none writes. A session that is rewound and then writes
 * there copies first, and so does the owner of a shared store when it grows.
 *
 * The session knows how many tokens are valid, so rewinding costs nothing. Growing copies, it never
 * recomputes. Making room zeros new panels; the fused path fills them with their first token's
 * key. Lanes after the last token are ignored, but always initialised.
 */
#ifndef MGPT_KV_H
#define MGPT_KV_H

#include "kernels/kernels.h"
#include "mgpt.h"

#include <stdatomic.h>
#include <stddef.h>

struct kv_store {
    atomic_size_t n_users;  /* its owner, while it has one, and those that read it as prefix */
    atomic_size_t n_shared; /* tokens that those read */
    size_t cap;             /* tokens that fit without growing */
    uint8_t **k, **v;       /* [n_layer * n_head_kv] first keys and values, multiples of 64 */
    uint8_t **arrays;       /* [2][n_layer * n_head_kv] stb_ds arrays that hold them */
};

struct kv {
    size_t n_layer, n_head_kv, head_dim; /* the most heads of a layer, the widest */
    enum kv_type type;
    size_t panel;                  /* bytes of the keys, or values, of 16 tokens of a widest head */
    const struct kv_shape *shapes; /* [n_layer], or NULL: all have these heads, of one width */
    struct kv_store *prefix;       /* of tokens [0, n_prefix), whole panels; NULL: 0 */
    size_t n_prefix;
    struct kv_store *own; /* of the tokens after them */
    int interleaved;
};

/* `shapes` must outlive it. MGPT_OK or MGPT_EMEM. Call kv_free after a failure too. */
int kv_init(struct kv *kv, size_t n_layer, size_t n_head_kv, size_t head_dim, enum kv_type type,
            const struct kv_shape *shapes, mgpt_error *err);
void kv_free(struct kv *kv);

/* Prepares writing tokens [pos, pos + n): makes room, by an eighth at least when it grows, and
 * leaves what other sessions read. MGPT_OK or MGPT_EMEM; on failure the content is unchanged. */
int kv_reserve(struct kv *kv, size_t pos, size_t n, mgpt_error *err);

/* Tokens [t, t + n) of one KV head of a layer. */
struct kv_part {
    size_t layer, head, t, n;
};

/* Writes the keys and values of a part. k and v are those of all heads of the layer,
 * [n][heads * width]. Threads may write different heads. */
void kv_put(struct kv *kv, const struct kernels *kernels, struct kv_part part, const float *k,
            const float *v);

/* Interleaves the first n tokens, or ends that; nothing if it is done already. There is no prefix.
 * Only kv_get, kv_copy, kv_fork and kv_reserve know interleaved caches, as `from` or as the cache. */
void kv_interleave(struct kv *kv, size_t n, int interleaved);

/* Writes tokens [t, t + n) of layers [0, n_layers), which `from`, of the same shape and type, has.
 * `to` is not interleaved. */
void kv_copy(struct kv *to, const struct kv *from, size_t n_layers, size_t t, size_t n);

/* Copies a part as float32, [n][head_dim] and [n][value_dim]; k or v may be NULL. Component i of a key is stored
 * component order[i], or i when order is NULL. */
void kv_get(const struct kv *kv, struct kv_part part, const uint32_t *order, float *k, float *v);

/* Makes the empty `to`, which has the same shape, hold the first n tokens of `from`. `shares`: not
 * always as a copy; the fused path reads no prefix. MGPT_OK or MGPT_EMEM. */
int kv_fork(struct kv *to, const struct kv *from, size_t n, int shares, mgpt_error *err);

/* The bytes of the first n tokens as blocks, i < kv_n_blocks: the keys of a KV head, whole panels,
 * then its values, for every head of every layer. Session files have them in this order. */
size_t kv_n_blocks(const struct kv *kv);
size_t kv_block_bytes(const struct kv *kv, size_t i, size_t n);

/* Bytes of the keys and values of tokens [0, n), whole panels, where all layers have the same. */
static inline uint64_t kv_bytes(const struct kv *kv, size_t n)
{
    return (uint64_t)kv_n_blocks(kv) * kv->panel * panels_of(n);
}

/* The bytes of block i for tokens [t, end), end <= n, which lie together; t is 0 or an `end`. */
struct kv_block {
    uint8_t *at;
    size_t n_bytes, end;
};
struct kv_block kv_block(const struct kv *kv, size_t i, size_t t, size_t n);

/* Zeros the lanes after token n - 1 in its panel, after kv_reserve(kv, n, 0): equal tokens then
 * have equal blocks. */
void kv_clear_lanes(struct kv *kv, size_t n);

/* Tokens [first, end) of a KV head, whose keys and values lie together. */
struct kv_run {
    uint8_t *keys, *values; /* of token `first`, a multiple of PANEL */
    size_t first, end;      /* SIZE_MAX: all that there are */
};

/* The run that token t belongs to. */
static inline struct kv_run kv_run_at(const struct kv *kv, size_t layer, size_t head, size_t t)
{
    size_t at = layer * kv->n_head_kv + head;
    if (t < kv->n_prefix)
        return (struct kv_run){kv->prefix->k[at], kv->prefix->v[at], 0, kv->n_prefix};
    return (struct kv_run){kv->own->k[at], kv->own->v[at], kv->n_prefix, SIZE_MAX};
}

/* The row of token t in a layer that keeps rows. */
static inline float *kv_row(const struct kv *kv, size_t layer, size_t t)
{
    struct kv_run run = kv_run_at(kv, layer, 0, t);
    return (float *)(void *)run.values + (t - run.first) * kv->shapes[layer].rows;
}

#endif
