/* Measures what is fastest on this machine, when a large model is opened. Results are the same bits
 * for every choice.
 *
 * One thread multiplies slices of the layers' `up` matrices by a vector of zeros, each slice once,
 * because it comes from memory only the first time. The alternatives alternate; the median rate of
 * each counts: some slices are still in a cache, so the best rates tell nothing. All slices together
 * are at most 16 MB, 1 to 2 ms.
 */
#include "base/mem.h"
#include "model/model.h"

#include <stdlib.h>
#include <time.h>

enum { SLICE_BYTES = 1 << 18, MOST_ROUNDS = 16, LEAST_ROUNDS = 3 };

struct tuning {
    const mgpt_model *m;
    void *x;
    float *y;
    size_t panels, n_slices; /* of a slice; of a matrix */
};

static double tune_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes per second of slice i, counted through all layers. */
static double slice_rate(const struct tuning *t, size_t i, size_t streaming)
{
    const struct linear *l = &t->m->layers[i / t->n_slices].up;
    size_t p0 = i % t->n_slices * t->panels;
    const struct matmul job = {.y = t->y,
                               .ldy = l->n_out,
                               .w = l->w,
                               .x = t->x,
                               .n = 1,
                               .n_in = l->n_in,
                               .n_out = l->n_out,
                               .p0 = p0,
                               .p1 = p0 + t->panels,
                               .streaming = streaming};
    double start = tune_now();
    t->m->kernels.matmul[l->type](&job);
    return (double)(t->panels * l->panel_bytes) / (tune_now() - start);
}

/* Layers from the first on whose `up` matrices are alike and can be measured. */
static size_t alike_layers(const mgpt_model *m)
{
    size_t n = 0;
    for (; n < m->shape.n_layer; n++) {
        const struct linear *l = &m->layers[n].up, *first = &m->layers[0].up;
        if (!l->w || !weight_is_integer(l->type) || l->type != first->type ||
            l->n_in != first->n_in || l->n_out != first->n_out)
            break;
    }
    return n;
}

static int rates_in_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_streamings(const struct tuning *t, size_t n_slices, double median[N_STREAMINGS])
{
    enum weight_type type = t->m->layers[0].up.type;
    size_t kinds = 0, slice = 0;
    for (size_t s = 0; s < N_STREAMINGS; s++)
        kinds += (size_t)streaming_differs(type, s);
    size_t rounds = n_slices / kinds < MOST_ROUNDS ? n_slices / kinds : MOST_ROUNDS;
    double rates[N_STREAMINGS][MOST_ROUNDS] = {{0}};
    for (size_t i = 0; i < rounds; i++)
        for (size_t s = 0; s < N_STREAMINGS; s++)
            if (streaming_differs(type, s))
                rates[s][i] = slice_rate(t, slice++, s);
    for (size_t s = 0; rounds >= LEAST_ROUNDS && s < N_STREAMINGS; s++) {
        qsort(rates[s], rounds, sizeof *rates[s], rates_in_order);
        median[s] = rates[s][rounds / 2];
    }
}

void model_tune(mgpt_model *m)
{
    size_t layers = alike_layers(m), *choice = &m->kernels.streaming;
    if (m->kernels.streaming_is_fixed || m->packed_bytes < TUNE_LEAST || layers == 0)
        return;
    const struct linear *l = &m->layers[0].up;
    struct tuning t = {.m = m, .panels = SLICE_BYTES / l->panel_bytes / 4 * 4};
    t.panels = t.panels ? t.panels : 4;
    t.n_slices = panels_of(l->n_out) / t.panels;
    t.x = mem_new(m->x_bytes, 1);
    t.y = mem_new(l->n_out, sizeof *t.y);
    if (t.x && t.y)
        measure_streamings(&t, layers * t.n_slices, m->streaming_rate);
    for (size_t s = 1; s < N_STREAMINGS; s++)
        if (m->streaming_rate[s] > m->streaming_rate[*choice])
            *choice = s;
    free(t.x);
    free(t.y);
}
