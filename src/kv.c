/* Floor 5. The KV cache. See kv.h. */
#include "kv.h"

#include "error.h"
#include "kernels.h"
#include "mem.h"

#include <stdlib.h>
#include <string.h>

int kv_init(struct kv *kv, size_t n_layer, size_t n_head_kv, size_t head_dim, mgpt_error *err)
{
    *kv = (struct kv){n_layer, n_head_kv, head_dim, 0, NULL, NULL};
    kv->k = mem_new(n_layer * n_head_kv, sizeof *kv->k);
    kv->v = mem_new(n_layer * n_head_kv, sizeof *kv->v);
    if (kv->k && kv->v)
        return MGPT_OK;
    kv_free(kv);
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

int kv_reserve(struct kv *kv, size_t n, mgpt_error *err)
{
    if (n <= kv->cap)
        return MGPT_OK;
    size_t want = n > 2 * kv->cap ? n : 2 * kv->cap;
    size_t n_k = panels_of(want) * PANEL * kv->head_dim, n_v = want * kv->head_dim;
    for (size_t i = 0; i < kv->n_layer * kv->n_head_kv; i++)
        if (!arr_reserve(kv->k[i], n_k) || !arr_reserve(kv->v[i], n_v))
            return err_memory(err, "the KV cache", (n_k + n_v) * sizeof(float));
    kv->cap = want;
    return MGPT_OK;
}

void kv_put(struct kv *kv, size_t layer, size_t t, const float *k, const float *v)
{
    size_t d = kv->head_dim;
    for (size_t h = 0; h < kv->n_head_kv; h++) {
        size_t i = layer * kv->n_head_kv + h;
        float *panel = kv->k[i] + t / PANEL * PANEL * d;
        if (t % PANEL == 0)
            memset(panel, 0, PANEL * d * sizeof *panel);
        for (size_t j = 0; j < d; j++)
            panel[j * PANEL + t % PANEL] = k[h * d + j];
        memcpy(kv->v[i] + t * d, v + h * d, d * sizeof *v);
        arr_set_len(kv->k[i], (t / PANEL + 1) * PANEL * d);
        arr_set_len(kv->v[i], (t + 1) * d);
    }
}

int kv_copy(struct kv *to, const struct kv *from, size_t n, mgpt_error *err)
{
    if (kv_reserve(to, n, err) < 0)
        return MGPT_EMEM;
    size_t n_k = panels_of(n) * PANEL * from->head_dim, n_v = n * from->head_dim;
    for (size_t i = 0; n && i < from->n_layer * from->n_head_kv; i++) {
        memcpy(to->k[i], from->k[i], n_k * sizeof(float));
        memcpy(to->v[i], from->v[i], n_v * sizeof(float));
        arr_set_len(to->k[i], n_k);
        arr_set_len(to->v[i], n_v);
    }
    return MGPT_OK;
}
