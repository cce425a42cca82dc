/* The machine's limits, measured with as many threads as the tests they are held against. See
 * bench.h.
 *
 * Reading is measured over as many bytes as the model's step has to read, so in the same level of
 * the memory hierarchy, and for a model that stays in a cache also from memory. The bytes are on
 * the pages that weights are on (mem_large). Arithmetic is that of the ISA level the model runs on.
 */
#include "base/mem.h"
#include "base/threads.h"
#include "bench/bench.h"
#include "bench/bench_peak.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WORKERS = 256 };

static const double sample_seconds = 0.01;
static const size_t largest = (size_t)512 << 20; /* behaves as anything larger does */

/* One measurement: what every thread does. */
enum limit_what { READ_ALL, FMA, INT8 };

struct limit_job {
    const struct peak_loops *arithmetic, *reading;
    struct pool *pool;
    char *data;
    size_t data_bytes, dram_bytes; /* dram_bytes 0: `read` is from memory already */
    enum limit_what what;
    size_t bytes; /* of the buffer that this measurement reads */
    int way;
    size_t times;                               /* set for the workers */
    size_t read_times, dram_times, op_times[2]; /* remembered repetitions */
    uint64_t sink[MAX_WORKERS][8];              /* a cache line each */
};

static void worker(void *ctx, int index, int n_workers)
{
    struct limit_job *j = ctx;
    uint64_t *sink = j->sink[index % MAX_WORKERS];
    size_t first, last;
    pool_split(j->bytes / PEAK_READ_UNIT, index, n_workers, &first, &last);
    if (j->what == FMA)
        *sink += (uint64_t)j->arithmetic->fma(j->times);
    else if (j->what == INT8)
        *sink += (uint64_t)j->arithmetic->int8(j->times);
    else
        for (size_t i = 0; i < j->times; i++)
            *sink += j->reading->read(j->data + first * PEAK_READ_UNIT,
                                      (last - first) * PEAK_READ_UNIT, j->way);
}

static void all_workers(void *ctx, size_t times)
{
    struct limit_job *j = ctx;
    j->times = times;
    pool_run(j->pool, worker, j);
}

/* Bytes per second; the fastest loop counts. */
static double measure_read(struct limit_job *j, size_t bytes, size_t *times)
{
    double best = 0;
    j->what = READ_ALL;
    j->bytes = bytes;
    for (j->way = 0; j->way < PEAK_READ_WAYS; j->way++) {
        double rate = (double)bytes / bench_time(all_workers, j, sample_seconds / 2, times);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Operations per second of all threads. */
static double measure_ops(struct limit_job *j, enum limit_what what, size_t ops, size_t *times)
{
    j->what = what;
    *times = *times ? *times : 1024;
    double seconds = bench_time(all_workers, j, sample_seconds, times);
    return (double)ops * pool_size(j->pool) / seconds;
}

/* The best ISA level that runs here reads, also when the model is held to another. */
static const struct peak_loops *reader(void)
{
    const char *name, *best = "scalar";
    int runs;
    for (size_t i = 0; (name = mgpt_isa(i, &runs)) != NULL; i++)
        best = runs ? name : best;
    return peak_find(best);
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

int limits_open(struct limits *l, const struct machine *m, const char *isa, int n_threads,
                size_t bytes)
{
    size_t unit = (size_t)n_threads * PEAK_READ_UNIT;
    struct limit_job *j = calloc(1, sizeof *j);
    *l = (struct limits){.n_threads = n_threads, .level = machine_level(m, bytes, n_threads)};
    if (!j)
        return 0;
    l->job = j;
    l->bytes = round_up(bytes < largest ? bytes : largest, unit);
    if (strcmp(l->level, "DRAM") != 0)
        j->dram_bytes = round_up(4 * m->l3 < largest ? 4 * m->l3 : largest, unit);
    j->data_bytes = l->bytes > j->dram_bytes ? l->bytes : j->dram_bytes;
    j->arithmetic = peak_find(isa);
    j->reading = reader();
    j->data = mem_large(j->data_bytes, 1);
    j->pool = n_threads > 1 ? pool_new(n_threads, NULL) : NULL;
    if (!j->data || (n_threads > 1 && !j->pool)) {
        limits_close(l);
        return 0;
    }
    memset(j->data, 1, j->data_bytes);
    limits_sample(l);
    l->read.n = l->dram.n = l->fma.n = l->int8.n = 0;
    return 1;
}

void limits_sample(struct limits *l)
{
    struct limit_job *j = l->job;
    series_add(&l->read, measure_read(j, l->bytes, &j->read_times));
    if (j->dram_bytes)
        series_add(&l->dram, measure_read(j, j->dram_bytes, &j->dram_times));
    series_add(&l->fma, measure_ops(j, FMA, j->arithmetic->fma_ops, &j->op_times[0]));
    if (j->arithmetic->int8_ops)
        series_add(&l->int8, measure_ops(j, INT8, j->arithmetic->int8_ops, &j->op_times[1]));
}

void limits_close(struct limits *l)
{
    if (!l->job)
        return;
    pool_free(l->job->pool);
    free(l->job->data);
    free(l->job);
    l->job = NULL;
}

const char *limits_fma_name(const struct limits *l)
{
    return l->job->arithmetic->fma_name;
}

const char *limits_int8_name(const struct limits *l)
{
    return l->job->arithmetic->int8_name;
}

double limits_seconds(const struct limits *l, int i, const struct work *w, double linear_ops,
                      double attention_ops)
{
    const struct series *linear = w->is_integer ? &l->int8 : &l->fma;
    if (i >= linear->n || i >= l->fma.n)
        return 0;
    return linear_ops / linear->v[i] + attention_ops / l->fma.v[i];
}
