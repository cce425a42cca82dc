/* Measures what is fastest on this machine, when a large model is opened. Results are the same bits
 * for every choice.
 *
 * One thread multiplies slices of the layers' `up` matrices by a vector of zeros, each slice once,
 * because it comes from memory only the first time. The alternatives alternate; the best time of
 * each counts. All slices together are 6 MB, 0.3 to 0.6 ms.
 */
#include "base/mem.h"
#include "model/model.h"

#include <stdlib.h>
#include <time.h>

enum { SLICE_BYTES = 1 << 18, ROUNDS = 6, LEAST_ROUNDS = 3 };

static const double worth = 1.03; /* a choice other than the default must be this much faster */

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

static void measure_streamings(const struct tuning *t, size_t rounds, double rates[N_STREAMINGS])
{
    int bytes = t->m->layers[0].up.type == WEIGHT_Q8_0;
    for (size_t i = 0; i < rounds * N_STREAMINGS; i++) {
        size_t s = i % N_STREAMINGS;
        double rate = bytes || streamings[s].panels == 1 ? slice_rate(t, i, s) : 0;
        rates[s] = rate > rates[s] ? rate : rates[s];
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
    size_t rounds = layers * t.n_slices / N_STREAMINGS;
    t.x = mem_new(m->x_bytes, 1);
    t.y = mem_new(l->n_out, sizeof *t.y);
    if (t.x && t.y && rounds >= LEAST_ROUNDS)
        measure_streamings(&t, rounds < ROUNDS ? rounds : ROUNDS, m->streaming_rate);
    for (size_t s = 1; s < N_STREAMINGS; s++)
        if (m->streaming_rate[s] > m->streaming_rate[*choice] * (*choice ? 1 : worth))
            *choice = s;
    free(t.x);
    free(t.y);
}
