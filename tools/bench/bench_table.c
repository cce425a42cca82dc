/* The report for people. See bench.h. */
#include "bench/bench.h"

#include <stdio.h>

static void print_opened(const struct bench *b)
{
    const struct engine *e = &b->engine;
    const mgpt_info *info = &e->info;
    printf("machine  %s, %d processor%s, isa %s\n", b->machine.cpu, b->machine.n_cpus,
           b->machine.n_cpus == 1 ? "" : "s", info->isa);
    printf("model    %s: %s %s, %.4g million parameters, %.4g MB read per token and %.4g kB per "
           "position\n",
           e->path, info->arch, info->type, (double)info->n_params / 1e6,
           (double)info->bytes_per_token / 1e6, b->kv_bytes / 1e3);
    streaming_line(e->model);
    printf("threads  %s\n", b->threads_why);
    printf("opened   %.3f s, first token after %.3f s, peak memory %.1f MB\n\n", b->open_seconds,
           b->first_seconds, (double)b->peak_bytes / 1e6);
}

static void limit_line(const char *name, int n_threads, const struct series *s, const char *unit)
{
    char rate[32];
    if (s->n == 0)
        return;
    bench_rate(rate, sizeof rate, series_median(s), unit);
    printf("%-36s %7d %16s %7.1f%%\n", name, n_threads, rate, 100 * series_spread(s));
}

static void print_limits(const struct bench *b)
{
    char name[64];
    printf("%-36s %7s %16s %8s\n", "limit of the machine", "threads", "", "spread");
    for (size_t i = 0; i < b->n_limits; i++) {
        const struct limits *l = &b->limits[i];
        snprintf(name, sizeof name, "read %.4g MB (%s)", (double)l->bytes / 1e6, l->level);
        limit_line(name, l->n_threads, &l->read, "B/s");
        limit_line("read from DRAM", l->n_threads, &l->dram, "B/s");
        limit_line(limits_fma_name(l), l->n_threads, &l->fma, "FLOP/s");
        if (limits_int8_name(l))
            limit_line(limits_int8_name(l), l->n_threads, &l->int8, "op/s");
    }
    printf("\n");
}

static void test_line(const struct test *t)
{
    char name[64], share[32];
    double rate = series_median(&t->rate), tokens = (double)t->n * t->n_sessions;
    printf("%-18s %7d %12.1f %7.1f%% %11.3f", test_name(t, name, sizeof name), t->limits->n_threads,
           rate, 100 * series_spread(&t->rate), 1e6 / rate);
    if (t->step_bytes > 0)
        printf(" %8.2f", t->step_bytes * rate / t->n_sessions / 1e9);
    else
        printf(" %8s", "-");
    printf(" %8s", bench_share(share, sizeof share, &t->read_share));
    printf(" %8.1f", (t->linear_ops + t->attention_ops) / tokens * rate / 1e9);
    printf(" %8s\n", bench_share(share, sizeof share, &t->peak_share));
}

void bench_table(const struct bench *b)
{
    int faults = 0;
    print_opened(b);
    print_limits(b);
    printf("%-18s %7s %12s %8s %11s %8s %8s %8s %8s\n", "test", "threads", "tokens/s", "spread",
           "us/token", "GB/s", "of read", "Gop/s", "of peak");
    for (size_t i = 0; i < b->n_tests; i++) {
        test_line(&b->tests[i]);
        faults |= share_faults(&b->tests[i].read_share, &b->tests[i].peak_share);
    }
    printf("\nmedians of %d round%s; spread is the interquartile range. of read, of peak: share of "
           "the\nlimits above (%s), same threads, same rounds\n",
           b->rounds, b->rounds == 1 ? "" : "s",
           b->work.is_integer ? "8-bit products, attention in floats" : "FMA");
    if (faults)
        bench_fault_note();
}
