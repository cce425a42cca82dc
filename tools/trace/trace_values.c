/* See trace_values.h. Attention comes one query at a time, with a row for each head: heads are the
 * strands of its array, and what a query does not see is filled up. */
#include "trace/trace_values.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE SIZE_MAX

/* ---- the plan ---- */

static size_t *place_of(const struct trace_values *v, mgpt_point point, int32_t layer)
{
    return &v->arrays[(size_t)(layer + 1) * MGPT_N_POINTS + (size_t)point];
}

static int add_hook(struct trace_values *v, const struct hook *hook, enum trace_type type,
                    mgpt_error *err)
{
    uint64_t dims[4], n;
    if (!hook_shape(hook, v->n_tokens, dims, &n))
        return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "%s is too large for any file", hook->name);
    *place_of(v, hook->point, hook->layer) = arr_len(v->out.arrays);
    return trace_file_add(&v->out, hook->name, type, hook->n_dims, dims,
                          hook_is_attention(hook->point) ? (size_t)dims[0] : 1, err);
}

int trace_values_plan(struct trace_values *v, const struct hook *hooks, int32_t n_layer,
                      size_t n_tokens, enum trace_format format, enum trace_type type,
                      mgpt_error *err)
{
    uint64_t length = n_tokens;
    size_t n_places = ((size_t)n_layer + 1) * MGPT_N_POINTS;
    *v = (struct trace_values){.n_tokens = n_tokens};
    trace_file_new(&v->out, format);
    v->row = mem_new(n_tokens, sizeof *v->row);
    v->arrays = mem_new(n_places, sizeof *v->arrays);
    if (!v->row || !v->arrays)
        return err_memory(err, "the plan of the trace", n_places * sizeof *v->arrays);
    for (size_t i = 0; i < n_places; i++)
        v->arrays[i] = NOWHERE;
    int status = trace_file_add(&v->out, "tokens", TRACE_I64, 1, &length, 1, err);
    for (size_t i = 0; i < arr_len(hooks) && status == MGPT_OK; i++)
        status = add_hook(v, &hooks[i], type, err);
    return status < 0 ? status : trace_file_plan(&v->out, err);
}

int trace_values_open(struct trace_values *v, const char *path, const int32_t *tokens,
                      mgpt_error *err)
{
    int status = trace_file_open(&v->out, path, err);
    if (status == MGPT_OK)
        trace_file_put_ids(&v->out, 0, tokens, v->n_tokens);
    return status;
}

/* ---- the values ---- */

/* One query's rows, a head each: what it does not see is filled up. */
static void store_heads(struct trace_values *v, size_t array, const mgpt_value *value)
{
    size_t n = (size_t)value->cols;
    float unseen = value->point == MGPT_SCORES ? -INFINITY : 0.0f;
    for (size_t i = n; i < v->n_tokens; i++)
        v->row[i] = unseen;
    for (size_t h = 0; h < (size_t)value->rows; h++) {
        memcpy(v->row, value->data + h * value->stride, n * sizeof *v->row);
        trace_file_put(&v->out, array, h, v->row, v->n_tokens);
    }
}

static void store_rows(struct trace_values *v, size_t array, const mgpt_value *value)
{
    size_t rows = (size_t)value->rows, cols = (size_t)value->cols;
    if (value->stride == cols) { /* as one piece */
        cols *= rows;
        rows = 1;
    }
    for (size_t i = 0; i < rows; i++)
        trace_file_put(&v->out, array, 0, value->data + i * value->stride, cols);
}

int trace_values_store(const mgpt_value *value, void *user)
{
    struct trace_values *v = user;
    size_t array = *place_of(v, value->point, value->layer);
    if (array != NOWHERE && hook_is_attention(value->point))
        store_heads(v, array, value);
    else if (array != NOWHERE)
        store_rows(v, array, value);
    return trace_file_failed(&v->out);
}

/* ---- the end ---- */

int trace_values_commit(struct trace_values *v, mgpt_error *err)
{
    return trace_file_commit(&v->out, err);
}

void trace_values_discard(struct trace_values *v)
{
    trace_file_discard(&v->out);
    free(v->arrays);
    free(v->row);
    *v = (struct trace_values){.n_tokens = 0};
}

int trace_format_of(const char *path, enum trace_format *format)
{
    const char *end = strrchr(path, '.');
    *format = end && strcmp(end, ".safetensors") == 0 ? TRACE_SAFETENSORS : TRACE_NPZ;
    return end && end > path && (*format == TRACE_SAFETENSORS || strcmp(end, ".npz") == 0);
}
