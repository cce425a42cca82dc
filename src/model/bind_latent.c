/* The matrices of latent attention (DeepSeek-AI 2024). Keys and values of a head are products of the
 * latent c: k = [W_k c; rotated part], v = W_v c. The cache keeps c, so a pass needs the products with
 * W_k' for queries and with W_v for what the head has mixed:
 *     q . k = (W_k' q) . c + rotated parts      sum_j w_j v_j = W_v (sum_j w_j c_j)
 *
 * Files have W_k and W_v of all heads in one tensor, attn_kv_b, or apart as they are used here: W_k'
 * in attn_k_b, W_v in attn_v_b. Both become floats: rounding c as an input of integer products would
 * change keys and values that transformers computes from c itself.
 */
#include "base/error.h"
#include "base/mem.h"
#include "dtype/dtype.h"
#include "model/slots.h"

#include <stdlib.h>
#include <string.h>

/* W_k of each head, transposed, and W_v from [H][nope + value_dim][R]. */
static void part_kv_up(const struct model_shape *s, const float *kv, float *k, float *v)
{
    size_t R = s->n_latent, nope = s->head_dim - s->n_rot, n_v = s->value_dim * R;
    for (size_t h = 0; h < s->n_head; h++, kv += nope * R + n_v, k += nope * R, v += n_v) {
        for (size_t i = 0; i < nope; i++)
            for (size_t j = 0; j < R; j++)
                k[j * nope + i] = kv[i * R + j];
        memcpy(v, kv + nope * R, n_v * sizeof *v);
    }
}

/* Matrices of heads: a field of struct latent_head, [n_head][n_out][n_in]. */
struct head_matrices {
    size_t field, n_in, n_out;
    const float *values;
};

static int plan_heads(mgpt_model *m, struct layer *l, const struct head_matrices *w,
                      const struct gguf_tensor *t, mgpt_error *err)
{
    size_t H = m->shape.n_head, n = w->n_in * w->n_out * H;
    if (!l->heads)
        l->heads = bind_own(m, H, sizeof *l->heads, "heads", err);
    struct gguf_tensor *made = l->heads ? bind_own(m, 1, sizeof *made, t->name, err) : NULL;
    if (!made)
        return MGPT_EMEM;
    *made = (struct gguf_tensor){.name = t->name,
                                 .type = dtype_of_weight(WEIGHT_F32),
                                 .n_dims = 3,
                                 .dims = {w->n_in, w->n_out, H, 1},
                                 .n_values = n,
                                 .offset = GGUF_MADE,
                                 .size = n * sizeof(float),
                                 .data = (const uint8_t *)w->values};
    for (size_t h = 0; h < H; h++) {
        void *linear = (char *)&l->heads[h] + w->field;
        if (pack_plan(m, linear, made, h * w->n_out, w->n_out, err) < 0)
            return MGPT_EMEM;
    }
    return MGPT_OK;
}

int bind_latent_up(mgpt_model *m, struct layer *l, mgpt_role role, const struct gguf_tensor *t,
                   mgpt_error *err)
{
    const struct model_shape *s = &m->shape;
    size_t nope = s->head_dim - s->n_rot, n = (size_t)t->n_values;
    size_t n_k = s->n_head * s->n_latent * nope, n_v = s->n_head * s->n_latent * s->value_dim;
    int has_k = role != MGPT_W_V_UP, has_v = role != MGPT_W_K_UP;
    if ((has_k && l->k_up) || (has_v && l->v_up))
        return err_set(err, MGPT_EFILE, t->offset, "tensor %.60s: present together with attn_kv_b",
                       t->name);
    float *k = has_k ? bind_own(m, n_k, sizeof *k, t->name, err) : NULL;
    float *v = has_v ? bind_own(m, n_v, sizeof *v, t->name, err) : NULL;
    float *kv = has_k && has_v ? mem_new(n, sizeof *kv) : NULL;
    int ok = (k || !has_k) && (v || !has_v) && (kv || !has_k || !has_v);
    if (ok && t->data) /* model_check of a header: absent */
        t->type->to_float(t->data, kv ? kv : k ? k : v, n);
    if (ok && kv)
        part_kv_up(s, kv, k, v);
    free(kv);
    if (!ok)
        return err_memory(err, t->name, n * sizeof *k);
    l->k_up = has_k ? k : l->k_up;
    l->v_up = has_v ? v : l->v_up;
    const struct head_matrices keys = {offsetof(struct latent_head, k), nope, s->n_latent, k};
    const struct head_matrices values = {offsetof(struct latent_head, v), s->n_latent, s->value_dim,
                                         v};
    int status = has_k ? plan_heads(m, l, &keys, t, err) : MGPT_OK;
    return status == MGPT_OK && has_v ? plan_heads(m, l, &values, t, err) : status;
}
