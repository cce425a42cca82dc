/* What the machine and the model are, and arithmetic on samples. See bench.h. */
#include "bench/bench.h"
#include "dtype/dtype.h"
#include "engine/layers.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- samples ---- */

void series_add(struct series *s, double value)
{
    if (s->n < MAX_ROUNDS)
        s->v[s->n++] = value;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The quantile q of the samples, between two of them by proportion. */
static double quantile(const struct series *s, double q)
{
    double v[MAX_ROUNDS];
    if (s->n == 0)
        return 0;
    memcpy(v, s->v, (size_t)s->n * sizeof *v);
    qsort(v, (size_t)s->n, sizeof *v, by_size);
    double at = q * (s->n - 1);
    int below = (int)at;
    double above = below + 1 < s->n ? v[below + 1] : v[below];
    return v[below] + (at - below) * (above - v[below]);
}

double series_median(const struct series *s)
{
    return quantile(s, 0.5);
}

double series_spread(const struct series *s)
{
    double median = series_median(s);
    return median > 0 ? (quantile(s, 0.75) - quantile(s, 0.25)) / median : 0;
}

double series_mean(const struct series *s)
{
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->v[i];
    return s->n ? sum / s->n : 0;
}

double series_deviation(const struct series *s)
{
    double mean = series_mean(s), sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += (s->v[i] - mean) * (s->v[i] - mean);
    return s->n > 1 ? sqrt(sum / (s->n - 1)) : 0;
}

int share_faults(const struct series *a, const struct series *b)
{
    return series_median(a) >= 1.0005 || series_median(b) >= 1.0005;
}

/* ---- time ---- */

double bench_time(bench_fn *fn, void *ctx, double min_seconds, size_t *times)
{
    for (*times = *times ? *times : 1;; *times *= 2) {
        double start = cli_seconds();
        fn(ctx, *times);
        double seconds = cli_seconds() - start;
        if (seconds >= min_seconds || *times > SIZE_MAX / 4)
            return seconds / (double)*times;
    }
}

/* ---- the machine ---- */

static size_t cache_size(int index, int *level)
{
    char path[96], type[32] = "";
    unsigned long kib = 0;
    *level = 0;
    static const char *const names[] = {"level", "type", "size"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index,
                 names[i]);
        FILE *f = fopen(path, "r");
        int got = 0;
        if (!f)
            return 0;
        if (i == 0)
            got = fscanf(f, "%d", level);
        else if (i == 1)
            got = fscanf(f, "%31s", type);
        else
            got = fscanf(f, "%luK", &kib);
        fclose(f);
        if (got != 1)
            return 0;
    }
    return strcmp(type, "Instruction") != 0 ? kib * 1024 : 0;
}

/* The value of a line "model name : ..." of /proc/cpuinfo. */
static void cpu_name(char *name, size_t cap)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(name, cap, "unknown processor");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        for (char *p = value; *p; p++)
            *p = isprint((unsigned char)*p) ? *p : '?';
        snprintf(name, cap, "%.90s", value);
        break;
    }
    if (f)
        fclose(f);
}

void machine_look(struct machine *m)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    *m = (struct machine){.n_cpus = n > 0 ? (int)n : 1};
    cpu_name(m->cpu, sizeof m->cpu);
    for (int i = 0, level; i < 8; i++) {
        size_t size = cache_size(i, &level);
        if (level == 1 && size)
            m->l1 = size;
        if (level == 2 && size)
            m->l2 = size;
        if (level >= 3 && size > m->l3)
            m->l3 = size;
    }
    m->l2 = m->l2 ? m->l2 : (size_t)512 << 10; /* a system that does not say */
    m->l3 = m->l3 ? m->l3 : 4 * m->l2;
}

const char *machine_level(const struct machine *m, size_t n_bytes, int n_threads)
{
    size_t each = n_bytes / (size_t)n_threads;
    if (each <= m->l1 / 4 * 3)
        return "L1";
    if (each <= m->l2 / 4 * 3)
        return "L2";
    return n_bytes <= m->l3 / 4 * 3 ? "L3" : "DRAM";
}

uint64_t machine_peak_memory(void)
{
    /* getrusage's number is inherited from the process that started this one; the other is not. */
    char line[128];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kib == 0 && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    if (f)
        fclose(f);
    struct rusage usage;
    if (kib == 0 && getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0)
        kib = (unsigned long)usage.ru_maxrss;
    return (uint64_t)kib * 1024;
}

/* ---- the model ---- */

/* 1 when the kernels multiply this type as integers. */
static int is_integer(const char *type)
{
    const struct dtype *d = dtype_named(type);
    return d && weight_is_integer(d->weight);
}

void work_of(struct work *w, const mgpt_model *model, const mgpt_info *info)
{
    *w = (struct work){.is_integer = is_integer(info->type)};
    mgpt_tensor t;
    for (int role = MGPT_LN1; role < MGPT_N_ROLES; role++)
        for (int32_t l = 0; l < info->n_layer; l++)
            if (mgpt_find_role(model, (mgpt_role)role, l, MGPT_WEIGHT, &t, NULL) == MGPT_OK &&
                t.n_dims > 1)
                w->layers += 2.0 * (double)t.dims[0] * (double)t.dims[1];
    if (mgpt_find_role(model, MGPT_W_U, 0, MGPT_WEIGHT, &t, NULL) == MGPT_OK)
        w->head = 2.0 * (double)t.dims[0] * (double)t.dims[1];
    /* A key is multiplied with the query and its value added, by each head. */
    for (int32_t i = 0; i < info->n_layer; i++) {
        mgpt_layer l = engine_layer(model, i);
        w->attended += 2.0 * (double)l.n_head * (double)(l.head_dim + l.value_dim);
    }
}

/* ---- for reports ---- */

/* Four digits before a prefix of thousands: "22.93 GB/s", "608.2 Gop/s". */
void bench_rate(char *buf, size_t cap, double per_second, const char *unit)
{
    double giga = per_second / 1e9;
    snprintf(buf, cap, "%.*f G%s", giga < 100 ? 2 : 1, giga, unit);
}

const char *bench_share(char *buf, size_t cap, const struct series *s)
{
    if (s->n == 0)
        snprintf(buf, cap, "-");
    else
        snprintf(buf, cap, "%.1f%%%s", 100 * series_median(s), share_faults(s, s) ? "!" : "");
    return buf;
}

void bench_fault_note(void)
{
    printf("!: above 100 %% is a fault of the measurement: something slowed the limit down but not "
           "the test.\nMeasure again on a quiet machine, with more rounds (-r)\n");
}

void bench_progress(const char *fmt, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list ap;
    va_start(ap, fmt);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fflush(stderr);
}
