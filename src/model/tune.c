/* Measures what is fastest on this machine, when a large model is opened. Results are the same bits
 * for every choice.
 *
 * The threads that will read multiply matrices of the MLPs, or slices of them, by a vector of zeros,
 * each slice once, because it comes from memory only the first time. A slice is long, because the
 * hardware prefetcher begins anew in each. The alternatives alternate, and the median of a round's
 * ratios to the default counts: other programs slow down all of a round. The slices of a thread are
 * at most 56 MB, 3 to 6 ms.
 */
#include "base/mem.h"
#include "base/threads.h"
#include "model/model.h"

#include <stdlib.h>
#include <time.h>

enum { SLICE_BYTES = 2 << 20, MOST_ROUNDS = 7, LEAST_ROUNDS = 3 };

/* A wrong choice costs two threads up to 10 %, so what differs less from the default is noise. */
static const double worth_choosing = 1.05;

struct tuning {
    const mgpt_model *m;
    struct pool *pool;
    void *x;
    float *y;                /* [threads][rows of a matrix] */
    size_t panels, n_slices; /* of a slice; of a matrix */
    size_t slice, streaming; /* what the threads read now: slices from this one on, and how */
};

static double tune_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Matrix i of those that are measured: `up` of every layer, then `gate`, which may be absent. */
static const struct linear *tuned_matrix(const mgpt_model *m, size_t i)
{
    const struct layer *l = &m->layers[i % m->shape.n_layer];
    return i < m->shape.n_layer ? &l->up : &l->gate;
}

static void read_slice(void *ctx, int worker, int n_workers)
{
    const struct tuning *t = ctx;
    size_t i = t->slice + (size_t)worker, p0 = i % t->n_slices * t->panels;
    const struct linear *l = tuned_matrix(t->m, i / t->n_slices);
    const struct matmul job = {.y = t->y + (size_t)worker * l->n_out,
                               .ldy = l->n_out,
                               .w = l->w,
                               .x = t->x,
                               .n = 1,
                               .n_in = l->n_in,
                               .n_out = l->n_out,
                               .p0 = p0,
                               .p1 = p0 + t->panels,
                               .streaming = t->streaming};
    (void)n_workers;
    t->m->kernels.matmul[l->type](&job);
}

/* Bytes per second of the next slices, one for each thread. */
static double slices_rate(struct tuning *t, size_t streaming)
{
    size_t n = (size_t)pool_size(t->pool);
    t->streaming = streaming;
    double start = tune_now();
    pool_run(t->pool, read_slice, t);
    double seconds = tune_now() - start;
    t->slice += n;
    return (double)(n * t->panels * t->m->layers[0].up.panel_bytes) / seconds;
}

/* Matrices from the first on that are alike and can be measured. */
static size_t alike_matrices(const mgpt_model *m)
{
    size_t n = 0;
    for (; n < 2 * m->shape.n_layer; n++) {
        const struct linear *l = tuned_matrix(m, n), *first = tuned_matrix(m, 0);
        if (!l->w || l->type != first->type || l->n_in != first->n_in || l->n_out != first->n_out)
            break;
    }
    return n;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *v, size_t n)
{
    qsort(v, n, sizeof *v, compare_doubles);
    return v[n / 2];
}

static void measure_streamings(struct tuning *t, size_t n_slices, double rate[N_STREAMINGS])
{
    enum weight_type type = t->m->layers[0].up.type;
    size_t kinds = 0;
    for (size_t s = 0; s < N_STREAMINGS; s++)
        kinds += (size_t)streaming_differs(type, s);
    size_t rounds = n_slices / (size_t)pool_size(t->pool) / kinds;
    rounds = rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS;
    if (rounds < LEAST_ROUNDS || kinds == 1)
        return;
    double ratios[N_STREAMINGS][MOST_ROUNDS] = {{0}}, defaults[MOST_ROUNDS];
    for (size_t i = 0; i < rounds; i++) {
        defaults[i] = slices_rate(t, 0);
        ratios[0][i] = 1;
        for (size_t s = 1; s < N_STREAMINGS; s++)
            if (streaming_differs(type, s))
                ratios[s][i] = slices_rate(t, s) / defaults[i];
    }
    double usual = median_of(defaults, rounds);
    for (size_t s = 0; s < N_STREAMINGS; s++)
        rate[s] = usual * median_of(ratios[s], rounds);
}

/* The default, or the fastest way if that is worth it. */
static size_t choose_streaming(const double rate[N_STREAMINGS])
{
    size_t best = 0;
    for (size_t s = 1; s < N_STREAMINGS; s++)
        if (rate[s] > rate[best] && rate[s] > worth_choosing * rate[0])
            best = s;
    return best;
}

void model_tune(mgpt_model *m, int n_threads)
{
    size_t n = alike_matrices(m);
    if (m->kernels.streaming_is_fixed || m->packed_bytes < TUNE_LEAST || n == 0)
        return;
    const struct linear *l = &m->layers[0].up;
    struct tuning t = {.m = m, .panels = SLICE_BYTES / l->panel_bytes / 4 * 4};
    size_t all = panels_of(l->n_out);
    t.panels = t.panels > all ? all : t.panels;
    t.n_slices = t.panels ? all / t.panels : 0;
    t.pool = pool_new(n_threads > 0 ? n_threads : m->n_cores, NULL); /* NULL: one thread */
    t.x = mem_new(weight_is_integer(l->type) ? m->x_bytes : l->n_in * sizeof(float), 1);
    t.y = mem_new(l->n_out, (size_t)pool_size(t.pool) * sizeof *t.y);
    if (t.x && t.y)
        measure_streamings(&t, n * t.n_slices, m->streaming_rate);
    __atomic_store_n(&m->kernels.streaming, choose_streaming(m->streaming_rate), __ATOMIC_RELAXED);
    pool_free(t.pool);
    free(t.x);
    free(t.y);
}
