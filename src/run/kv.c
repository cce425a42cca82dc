/* The KV cache. See kv.h. */
#include "run/kv.h"

#include "base/error.h"
#include "base/mem.h"
#include "dtype/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, SOME = 64 /* elements converted to f16 at a time */ };

int kv_init(struct kv *kv, size_t n_layer, size_t n_head_kv, size_t head_dim, enum kv_type type,
            mgpt_error *err)
{
    size_t each = type == KV_F16 ? sizeof(uint16_t) : sizeof(float);
    size_t n = n_layer * n_head_kv;
    *kv = (struct kv){n_layer, n_head_kv, head_dim, type, each, 0, NULL, NULL, NULL};
    kv->k = mem_new(4 * n, sizeof *kv->k);
    if (!kv->k)
        return err_memory(err, "the KV cache", 4 * n * sizeof *kv->k);
    kv->v = kv->k + n;
    kv->arrays = kv->v + n;
    return MGPT_OK;
}

void kv_free(struct kv *kv)
{
    for (size_t i = 0; kv->k && i < 2 * kv->n_layer * kv->n_head_kv; i++)
        arr_free(kv->arrays[i]);
    free(kv->k);
    *kv = (struct kv){0};
}

/* Bytes of the keys of n tokens of one head: whole panels. */
static size_t key_bytes(const struct kv *kv, size_t n)
{
    return panels_of(n) * PANEL * kv->head_dim * kv->each;
}

static size_t value_bytes(const struct kv *kv, size_t n)
{
    return n * kv->head_dim * kv->each;
}

/* The next multiple of 64; NULL stays NULL. */
static uint8_t *kv_align(uint8_t *p)
{
    return (uint8_t *)(((uintptr_t)p + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

/* Makes room for n bytes from *at, an aligned address in the array; moves the content when its
 * distance from the array's start changes. The array's length is set to all of its room, because
 * stb_ds copies only that when it grows; kv_put and the fused step do not set it. */
static int kv_grow(uint8_t **array, uint8_t **at, size_t n)
{
    size_t before = (size_t)(*at - *array), used = arr_len(*array) - before;
    if (!arr_reserve(*array, n + ALIGN))
        return 0;
    *at = kv_align(*array);
    memmove(*at, *array + before, used);
    arr_set_len(*array, (size_t)(*at - *array) + n);
    return 1;
}

int kv_reserve(struct kv *kv, size_t n, mgpt_error *err)
{
    if (n <= kv->cap)
        return MGPT_OK;
    size_t want = n > 2 * kv->cap ? n : 2 * kv->cap;
    size_t n_k = key_bytes(kv, want), n_v = value_bytes(kv, want);
    size_t heads = kv->n_layer * kv->n_head_kv;
    for (size_t i = 0; i < heads; i++)
        if (!kv_grow(&kv->arrays[i], &kv->k[i], n_k) ||
            !kv_grow(&kv->arrays[heads + i], &kv->v[i], n_v))
            return err_memory(err, "the KV cache", n_k + n_v);
    kv->cap = want;
    return MGPT_OK;
}

/* Writes one token's key to its lane of a panel. */
static void put_key(const struct kv *kv, const struct kernels *kernels, void *panel, size_t lane,
                    const float *key)
{
    size_t d = kv->head_dim;
    if (kv->type == KV_F32) {
        float *to = (float *)panel + lane;
        for (size_t j = 0; j < d; j++)
            to[j * PANEL] = key[j];
        return;
    }
    for (size_t j = 0; j < d; j += SOME) {
        uint16_t halves[SOME], *to = (uint16_t *)panel + j * PANEL + lane;
        size_t n = d - j < SOME ? d - j : SOME;
        kernels->to_f16(halves, key + j, n);
        for (size_t i = 0; i < n; i++)
            to[i * PANEL] = halves[i];
    }
}

static void put_value(const struct kv *kv, const struct kernels *kernels, void *to, const float *v)
{
    if (kv->type == KV_F16)
        kernels->to_f16(to, v, kv->head_dim);
    else
        memcpy(to, v, kv->head_dim * sizeof *v);
}

void kv_put(struct kv *kv, const struct kernels *kernels, struct kv_part part, const float *k,
            const float *v)
{
    size_t d = kv->head_dim, row = kv->n_head_kv * d, panel_bytes = PANEL * d * kv->each;
    size_t at = part.layer * kv->n_head_kv + part.head;
    for (size_t i = 0; i < part.n; i++) {
        size_t t = part.t + i, from = i * row + part.head * d;
        uint8_t *panel = kv->k[at] + t / PANEL * panel_bytes;
        if (t % PANEL == 0)
            memset(panel, 0, panel_bytes);
        put_key(kv, kernels, panel, t % PANEL, k + from);
        put_value(kv, kernels, kv->v[at] + t * d * kv->each, v + from);
    }
}

static float kv_stored_element(const struct kv *kv, const void *p, size_t i)
{
    return kv->type == KV_F16 ? f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

void kv_get(const struct kv *kv, struct kv_part part, const uint32_t *order, float *k, float *v)
{
    if (part.n == 0)
        return;
    const void *keys = kv_keys(kv, part.layer, part.head);
    const void *values = kv_values(kv, part.layer, part.head, 0, 0);
    size_t d = kv->head_dim;
    for (size_t i = 0; i < part.n; i++)
        for (size_t j = 0; j < d; j++) {
            size_t t = part.t + i, from = order ? order[j] : j;
            if (k)
                k[i * d + j] =
                    kv_stored_element(kv, keys, (t / PANEL * d + from) * PANEL + t % PANEL);
            if (v)
                v[i * d + j] = kv_stored_element(kv, values, t * d + j);
        }
}

int kv_copy(struct kv *to, const struct kv *from, size_t n, mgpt_error *err)
{
    if (kv_reserve(to, n, err) < 0)
        return MGPT_EMEM;
    size_t n_k = key_bytes(from, n), n_v = value_bytes(from, n);
    for (size_t i = 0; n && i < from->n_layer * from->n_head_kv; i++) {
        memcpy(to->k[i], from->k[i], n_k);
        memcpy(to->v[i], from->v[i], n_v);
    }
    return MGPT_OK;
}

size_t kv_n_blocks(const struct kv *kv)
{
    return 2 * kv->n_layer * kv->n_head_kv;
}

struct kv_block kv_block(const struct kv *kv, size_t i, size_t n)
{
    if (i % 2 == 0)
        return (struct kv_block){kv->k[i / 2], key_bytes(kv, n)};
    return (struct kv_block){kv->v[i / 2], value_bytes(kv, n)};
}

void kv_clear_lanes(struct kv *kv, size_t n)
{
    size_t lane = n % PANEL, d = kv->head_dim;
    for (size_t i = 0; lane > 0 && i < kv->n_layer * kv->n_head_kv; i++) {
        uint8_t *end = kv->k[i] + key_bytes(kv, n), *line = end - d * PANEL * kv->each;
        for (; line < end; line += PANEL * kv->each)
            memset(line + lane * kv->each, 0, (PANEL - lane) * kv->each);
    }
}
