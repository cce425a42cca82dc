/* See values.h. */
#include "patch/values.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Widens the rows of a point for those of this hook. */
static int values_widen(struct run_values *v, const struct hook *hook, mgpt_error *err)
{
    uint64_t dims[4], n;
    if (!hook_shape(hook, v->n_tokens, dims, &n))
        return err_memory(err, hook->name, SIZE_MAX);
    size_t cols = (size_t)(n / v->n_tokens);
    if (v->cols[hook->point] < cols)
        v->cols[hook->point] = cols;
    return MGPT_OK;
}

int values_new(struct run_values *v, const struct hook *hooks, uint64_t points, int32_t n_layer,
               size_t n_tokens, mgpt_error *err)
{
    int status = MGPT_OK;
    *v = (struct run_values){.n_tokens = n_tokens, .points = points, .hooks = hooks};
    for (size_t i = 0; i < arr_len(hooks) && status == MGPT_OK; i++)
        if (points & MGPT_POINT_BIT(hooks[i].point))
            status = values_widen(v, &hooks[i], err);
    for (int p = 0; p < MGPT_N_POINTS && status == MGPT_OK; p++) {
        uint64_t n = v->cols[p];
        if (n == 0)
            continue;
        if (ck_mul(n, (uint64_t)n_layer * n_tokens, &n))
            v->at[p] = mem_new((size_t)n, sizeof **v->at);
        if (!v->at[p])
            status = err_memory(err, "values", (size_t)n * sizeof **v->at);
    }
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
    const struct hook *hook = hooks_find(v->hooks, point, layer);
    size_t width = hook_is_attention(point) ? v->n_tokens
                   : hook                   ? (size_t)hook->dims[hook->n_dims - 1]
                                            : 0;
    *n = hook_is_attention(point) ? pos + 1 : width;
    return v->at[point] + ((size_t)layer * v->n_tokens + pos) * v->cols[point] + head * width;
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
