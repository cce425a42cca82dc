/* See values.h. */
#include "patch/values.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static int values_add(struct run_values *v, const struct hook *hook, int32_t n_layer,
                      mgpt_error *err)
{
    mgpt_point p = hook->point;
    uint64_t dims[4], n, all;
    if (!hook_shape(hook, v->n_tokens, dims, &n) || !ck_mul(n, (uint64_t)n_layer, &all))
        return err_memory(err, hook->name, SIZE_MAX);
    v->cols[p] = (size_t)(n / v->n_tokens);
    v->n_heads[p] = hook->n_dims < 3 ? 0 : (size_t)dims[hook_is_attention(p) ? 0 : 1];
    v->width[p] = v->n_heads[p] ? v->cols[p] / v->n_heads[p] : v->cols[p];
    v->at[p] = mem_new((size_t)all, sizeof **v->at);
    return v->at[p] ? MGPT_OK : err_memory(err, hook->name, (size_t)all * sizeof **v->at);
}

int values_new(struct run_values *v, const struct hook *hooks, uint64_t points, int32_t n_layer,
               size_t n_tokens, mgpt_error *err)
{
    int status = MGPT_OK;
    *v = (struct run_values){.n_tokens = n_tokens, .points = points};
    for (size_t i = 0; i < arr_len(hooks) && status == MGPT_OK; i++)
        if (points & MGPT_POINT_BIT(hooks[i].point) && !v->at[hooks[i].point])
            status = values_add(v, &hooks[i], n_layer, err);
    return status;
}

void values_free(struct run_values *v)
{
    for (int p = 0; p < MGPT_N_POINTS; p++)
        free(v->at[p]);
    *v = (struct run_values){0};
}

float *values_row(const struct run_values *v, mgpt_point point, int32_t layer, size_t pos,
                  size_t head, size_t *n)
{
    *n = hook_is_attention(point) ? pos + 1 : v->width[point];
    return v->at[point] + ((size_t)layer * v->n_tokens + pos) * v->cols[point] +
           head * v->width[point];
}

int values_keep(const mgpt_value *value, void *user)
{
    struct run_values *v = user;
    int heads = hook_is_attention(value->point);
    size_t n;
    for (size_t i = 0; v->at[value->point] && i < (size_t)value->rows; i++) {
        size_t pos = (size_t)value->pos + (heads ? 0 : i);
        float *row = values_row(v, value->point, value->layer, pos, heads ? i : 0, &n);
        memcpy(row, value->data + i * value->stride, (size_t)value->cols * sizeof *row);
    }
    return 0;
}
