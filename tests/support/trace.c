/* Tests: traces of forward passes. See trace.h. */
#include "support/trace.h"

#include "support/build_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace *trace_new(int n_layer, size_t n_tokens)
{
    struct trace *t = toy_alloc(1, sizeof *t);
    t->n_layer = n_layer;
    t->n_tokens = n_tokens;
    t->values = toy_alloc((size_t)(n_layer + 1) * MGPT_N_POINTS, sizeof *t->values);
    return t;
}

void trace_free(struct trace *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < (size_t)(t->n_layer + 1) * MGPT_N_POINTS; i++) {
        free(t->values[i].data);
        free(t->values[i].seen);
    }
    free(t->values);
    free(t);
}

struct trace_value *trace_at(const struct trace *t, mgpt_point point, int layer)
{
    return &t->values[(size_t)(layer + 1) * MGPT_N_POINTS + point];
}

int trace_is_attention(mgpt_point point)
{
    return point == MGPT_SCORES || point == MGPT_WEIGHTS;
}

/* Rows that are never stored keep what they begin with: the value of a masked entry, or NaN. */
static void begin(const struct trace *t, struct trace_value *v, mgpt_point point, size_t cols,
                  size_t n_rows)
{
    v->cols = cols;
    v->data = toy_alloc(t->n_tokens * cols, sizeof *v->data);
    v->seen = toy_alloc(t->n_tokens * n_rows, 1);
    double empty = NAN;
    if (point == MGPT_SCORES)
        empty = -INFINITY;
    if (point == MGPT_WEIGHTS)
        empty = 0;
    for (size_t i = 0; i < t->n_tokens * cols; i++)
        v->data[i] = empty;
}

int trace_put(struct trace *t, mgpt_point point, int layer, size_t pos, size_t row, size_t n_rows,
              const double *data, size_t n)
{
    int attention = trace_is_attention(point);
    if (layer < -1 || layer >= t->n_layer || pos >= t->n_tokens || (attention && n != pos + 1))
        return 0;
    struct trace_value *v = trace_at(t, point, layer);
    size_t cols = attention ? n_rows * t->n_tokens : n;
    if (!v->data)
        begin(t, v, point, cols, n_rows);
    if (v->cols != cols)
        return 0;
    memcpy(v->data + pos * cols + row * t->n_tokens, data, n * sizeof *data);
    v->seen[pos * n_rows + row]++;
    return 1;
}

static void put_row(struct trace *t, const mgpt_value *value, size_t i, double *row)
{
    size_t n = (size_t)value->cols, pos = (size_t)value->pos;
    const float *from = value->data + i * value->stride;
    for (size_t j = 0; j < n; j++)
        row[j] = (double)from[j];
    int attention = trace_is_attention(value->point), stored;
    if (attention)
        stored = trace_put(t, value->point, value->layer, pos, i, (size_t)value->rows, row, n);
    else
        stored = trace_put(t, value->point, value->layer, pos + i, 0, 1, row, n);
    if (!stored && !t->fault[0])
        snprintf(t->fault, sizeof t->fault, "point %d, layer %d, pos %d, row %zu: %d x %d",
                 (int)value->point, (int)value->layer, (int)value->pos, i, (int)value->rows,
                 (int)value->cols);
}

int trace_tap(const mgpt_value *value, void *user)
{
    struct trace *t = user;
    if (value->rows < 1 || value->cols < 1 || value->pos < 0 ||
        value->stride < (size_t)value->cols || (unsigned)value->point >= MGPT_N_POINTS) {
        snprintf(t->fault, sizeof t->fault, "point %d: %d x %d, stride %zu, pos %d",
                 (int)value->point, (int)value->rows, (int)value->cols, value->stride,
                 (int)value->pos);
        return 0;
    }
    double *row = toy_alloc((size_t)value->cols, sizeof *row);
    for (size_t i = 0; i < (size_t)value->rows; i++)
        put_row(t, value, i, row);
    free(row);
    return 0;
}

static int value_equal(const struct trace *t, const struct trace_value *a,
                       const struct trace_value *b, size_t *row)
{
    *row = 0;
    if (!a->data || !b->data)
        return a->data == b->data;
    if (a->cols != b->cols)
        return 0;
    for (*row = 0; *row < t->n_tokens; ++*row) {
        size_t first = *row * a->cols;
        if (memcmp(a->data + first, b->data + first, a->cols * sizeof *a->data) != 0)
            return 0;
    }
    return 1;
}

int trace_equal(const struct trace *a, const struct trace *b, char *where, size_t cap)
{
    for (int layer = -1; layer < a->n_layer; layer++) {
        for (int p = 0; p < MGPT_N_POINTS; p++) {
            mgpt_point point = (mgpt_point)p;
            size_t row;
            if (value_equal(a, trace_at(a, point, layer), trace_at(b, point, layer), &row))
                continue;
            snprintf(where, cap, "point %d, layer %d, row %zu", p, layer, row);
            return 0;
        }
    }
    return 1;
}
