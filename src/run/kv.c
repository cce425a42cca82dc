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
    *kv = (struct kv){n_layer, n_head_kv, head_dim, type, each, 0, NULL, NULL};
    kv->k = mem_new(n_layer * n_head_kv, sizeof *kv->k);
    kv->v = mem_new(n_layer * n_head_kv, sizeof *kv->v);
    if (kv->k && kv->v)
        return MGPT_OK;
    return err_memory(err, "the KV cache", 2 * n_layer * n_head_kv * sizeof *kv->k);
}

void kv_free(struct kv *kv)
{
    for (size_t i = 0; kv->k && kv->v && i < kv->n_layer * kv->n_head_kv; i++) {
        arr_free(kv->k[i]);
        arr_free(kv->v[i]);
    }
    free(kv->k);
    free(kv->v);
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

/* Sets the array's length to its whole room, unused bytes before the aligned address included. Then
 * stb_ds copies all of it when it grows. kv_put and the fused step do not set it. */
static void set_room(uint8_t *array, size_t bytes)
{
    arr_set_len(array, (size_t)(kv_align(array) - array) + bytes);
}

/* Makes room for n bytes from the aligned address; moves the content when that changes. */
static int kv_grow(uint8_t **array, size_t n)
{
    size_t before = (size_t)(kv_align(*array) - *array), used = arr_len(*array);
    used = used > before ? used - before : 0;
    if (!arr_reserve(*array, n + ALIGN))
        return 0;
    memmove(kv_align(*array), *array + before, used);
    set_room(*array, n);
    return 1;
}

int kv_reserve(struct kv *kv, size_t n, mgpt_error *err)
{
    if (n <= kv->cap)
        return MGPT_OK;
    size_t want = n > 2 * kv->cap ? n : 2 * kv->cap;
    size_t n_k = key_bytes(kv, want), n_v = value_bytes(kv, want);
    for (size_t i = 0; i < kv->n_layer * kv->n_head_kv; i++)
        if (!kv_grow(&kv->k[i], n_k) || !kv_grow(&kv->v[i], n_v))
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

void kv_put(struct kv *kv, const struct kernels *kernels, size_t layer, size_t h, size_t t,
            size_t n, const float *k, const float *v)
{
    size_t d = kv->head_dim, row = kv->n_head_kv * d, panel_bytes = PANEL * d * kv->each;
    uint8_t *keys = kv->k[layer * kv->n_head_kv + h], *values = kv->v[layer * kv->n_head_kv + h];
    for (size_t i = 0; i < n; i++) {
        uint8_t *panel = kv_align(keys) + (t + i) / PANEL * panel_bytes;
        if ((t + i) % PANEL == 0)
            memset(panel, 0, panel_bytes);
        put_key(kv, kernels, panel, (t + i) % PANEL, k + i * row + h * d);
        put_value(kv, kernels, kv_align(values) + (t + i) * d * kv->each, v + i * row + h * d);
    }
}

static float kv_stored_element(const struct kv *kv, const void *p, size_t i)
{
    return kv->type == KV_F16 ? f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

void kv_get(const struct kv *kv, size_t layer, size_t head, size_t t, size_t n,
            const uint32_t *order, float *k, float *v)
{
    if (n == 0)
        return;
    const void *keys = kv_keys(kv, layer, head), *values = kv_values(kv, layer, head, 0, 0);
    size_t d = kv->head_dim;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++) {
            size_t panel = (t + i) / PANEL, lane = (t + i) % PANEL;
            if (k)
                k[i * d + j] = kv_stored_element(
                    kv, keys, (panel * d + (order ? order[j] : j)) * PANEL + lane);
            if (v)
                v[i * d + j] = kv_stored_element(kv, values, (t + i) * d + j);
        }
}

int kv_copy(struct kv *to, const struct kv *from, size_t n, mgpt_error *err)
{
    if (kv_reserve(to, n, err) < 0)
        return MGPT_EMEM;
    size_t n_k = key_bytes(from, n), n_v = value_bytes(from, n);
    for (size_t i = 0; n && i < from->n_layer * from->n_head_kv; i++) {
        memcpy(kv_align(to->k[i]), kv_align(from->k[i]), n_k);
        memcpy(kv_align(to->v[i]), kv_align(from->v[i]), n_v);
    }
    return MGPT_OK;
}
