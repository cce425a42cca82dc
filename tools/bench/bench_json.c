/* The report for programs: JSON Lines, with llama-bench's names for what it has as well. See
 * bench.h. */
#include "bench/bench.h"
#include "common/text.h"

#include <stdio.h>

static struct jtext *samples(const struct series *s, double each)
{
    struct jtext *list = jtext("[]");
    for (int i = 0; i < s->n; i++)
        jtext_add(list, "f", s->v[i] * each);
    return list;
}

/* Adds a member when there is something to say. */
static void put_median(struct jtext *object, const char *key, const struct series *s, double each)
{
    if (s->n > 0)
        jtext_add(object, "s:f", key, series_median(s) * each);
}

static struct jtext *machine_line(const struct bench *b)
{
    const mgpt_info *info = &b->engine.info;
    return jtext("{s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:o, s:s}",
                 "kind", "model", "cpu_info", b->machine.cpu, "n_cpus", b->machine.n_cpus, "isa",
                 info->isa, "model_filename", b->engine.path, "arch", info->arch, "type",
                 info->type, "model_n_params", (int64_t)info->n_params, "file_bytes",
                 (int64_t)info->file_bytes, "bytes_per_token", (int64_t)info->bytes_per_token,
                 "kv_bytes", (int64_t)b->kv_bytes, "open_seconds", b->open_seconds,
                 "first_token_seconds", b->first_seconds, "peak_memory_bytes",
                 (int64_t)b->peak_bytes, "streaming", streaming_json(b->engine.model),
                 "threads_why", b->threads_why);
}

static int limit_line(const struct limits *l, const char *limit, const char *how,
                      const struct series *s)
{
    if (s->n == 0)
        return EXIT_OK;
    return text_json_line(jtext("{s:s, s:s, s:s, s:i, s:f, s:f, s:o}", "kind", "limit", "limit",
                                limit, "how", how, "n_threads", l->n_threads, "median_per_s",
                                series_median(s), "spread", series_spread(s), "samples_per_s",
                                samples(s, 1)));
}

static int limits_lines(const struct limits *l)
{
    char how[64];
    snprintf(how, sizeof how, "%zu bytes (%s)", l->bytes, l->level);
    int code = limit_line(l, "read", how, &l->read);
    if (code == EXIT_OK)
        code = limit_line(l, "read_dram", "memory", &l->dram);
    if (code == EXIT_OK)
        code = limit_line(l, "fma", limits_fma_name(l), &l->fma);
    if (code == EXIT_OK && limits_int8_name(l))
        code = limit_line(l, "int8", limits_int8_name(l), &l->int8);
    return code;
}

static int test_line(const struct bench *b, const struct test *t)
{
    static const char *const kinds[] = {
        [TEST_PREFILL] = "prefill", [TEST_DECODE] = "decode", [TEST_GENERATE] = "generate"};
    const mgpt_info *info = &b->engine.info;
    char name[64], type[96];
    double rate = series_median(&t->rate), tokens = (double)t->n * t->n_sessions;
    snprintf(type, sizeof type, "%.32s %.32s (mgpt)", info->arch, info->type);
    struct jtext *o = jtext(
        "{s:s, s:s, s:s, s:s, s:I, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:o}", "kind",
        kinds[t->kind], "test", test_name(t, name, sizeof name), "model_filename", b->engine.path,
        "model_type", type, "model_n_params", (int64_t)info->n_params, "isa", info->isa, "n_prompt",
        t->kind == TEST_PREFILL ? t->n : 0, "n_gen", t->kind == TEST_PREFILL ? 0 : t->n, "n_depth",
        t->depth, "n_threads", t->limits->n_threads, "n_sessions", t->n_sessions, "median_ts", rate,
        "avg_ts", series_mean(&t->rate), "stddev_ts", series_deviation(&t->rate), "spread",
        series_spread(&t->rate), "samples_ts", samples(&t->rate, 1));
    if (t->step_bytes > 0)
        jtext_add(o, "s:f", "gb_per_s", t->step_bytes * rate / t->n_sessions / 1e9);
    put_median(o, "share_of_read", &t->read_share, 1);
    jtext_add(o, "s:f", "gop_per_s", (t->linear_ops + t->attention_ops) / tokens * rate / 1e9);
    put_median(o, "share_of_peak", &t->peak_share, 1);
    if (share_faults(&t->read_share, &t->peak_share))
        jtext_add(o, "s:b", "share_fault", 1);
    return text_json_line(o);
}

int bench_json(const struct bench *b)
{
    int code = text_json_line(machine_line(b));
    for (size_t i = 0; code == EXIT_OK && i < b->n_limits; i++)
        code = limits_lines(&b->limits[i]);
    for (size_t i = 0; code == EXIT_OK && i < b->n_tests; i++)
        code = test_line(b, &b->tests[i]);
    return code;
}
