/* Results side by side: --vs. See bench.h.
 *
 * Reads what `llama-bench -o json` (one array) or `-o jsonl` (an object a line) writes, what our own
 * --json writes, and any number of these one after another, so that `cat` joins files. An
 * object is a result when it has a speed (samples_ts, else avg_ts) and says what was run: n_prompt,
 * n_gen, and where they exist n_depth, n_threads and n_sessions. Others (our lines about the
 * machine, a prompt and its continuation timed as one) are passed over. ik_llama.cpp's "tg64@pp900"
 * is a depth of 900.
 */
#include "base/mem.h"
#include "bench/bench.h"
#include "common/jval.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static int whole(const struct jval *o, const char *key, int32_t absent, int32_t *value)
{
    const struct jval *v = jval_get(o, key);
    int64_t n = jval_whole(v);
    *value = v ? (int32_t)n : absent;
    return !v || (jval_is(v, JVAL_INTEGER) && n >= 0 && n <= INT32_MAX);
}

static int truthy(const struct jval *o, const char *key)
{
    const struct jval *v = jval_get(o, key);
    return jval_is(v, JVAL_TRUE) || jval_whole(v) > 0;
}

/* Median of samples_ts, or avg_ts; 0 when there is neither or it is not a speed. */
static double rate_of(const struct jval *o)
{
    const struct jval *list = jval_get(o, "samples_ts");
    struct series s = {.n = 0};
    for (size_t i = 0; i < jval_size(list); i++) {
        double sample = jval_number(jval_at(list, i));
        if (sample <= 0)
            return 0;
        series_add(&s, sample);
    }
    double rate = s.n ? series_median(&s) : jval_number(jval_get(o, "avg_ts"));
    return isfinite(rate) && rate > 0 ? rate : 0;
}

/* Bytes of a string that may go to a terminal. */
static const char *plain_number(const struct jval *o, const char *key, char *buf, size_t cap)
{
    const char *text = jval_text(jval_get(o, key));
    size_t n = 0;
    for (; text && *text && n + 1 < cap; text++)
        buf[n++] = *text >= 32 && *text < 127 ? *text : '?';
    buf[n] = 0;
    return buf;
}

static void label_of(const struct jval *o, struct vs_row *row)
{
    char type[64], isa[16];
    plain_number(o, "model_type", type, sizeof type);
    plain_number(o, "isa", isa, sizeof isa);
    snprintf(row->label, sizeof row->label, "%s%s%s%s%s", *type ? type : "?", *isa ? " " : "", isa,
             truthy(o, "flash_attn") ? " fa" : "", truthy(o, "repack") ? " repack" : "");
}

/* What was run. 0: not a test of one kind. */
static int kind_of(const struct jval *o, int32_t n_prompt, int32_t n_gen, struct vs_row *row)
{
    const char *kind = jval_text(jval_get(o, "kind"));
    const char *test = jval_text(jval_get(o, "test"));
    int generates = kind && strcmp(kind, "generate") == 0;
    if (n_prompt > 0 && n_gen > 0 && test && strncmp(test, "tg", 2) == 0 &&
        strstr(test, "@pp") != NULL) {
        row->depth = n_prompt;
        n_prompt = 0;
    }
    if ((n_prompt > 0) == (n_gen > 0))
        return 0;
    row->kind = n_prompt > 0 ? TEST_PREFILL : TEST_DECODE;
    if (generates)
        row->kind = TEST_GENERATE;
    row->n = n_prompt + n_gen;
    return 1;
}

static int bench_vs_refuse(const char *path, const char *what, size_t number)
{
    cli_note("%s: result %zu: %s", path, number, what);
    return EXIT_REFUSED;
}

static int read_object(const char *path, const struct jval *o, size_t number, struct vs_row **rows)
{
    struct vs_row row = {.n_sessions = 1};
    int32_t n_prompt, n_gen;
    if (!jval_is(o, JVAL_OBJECT))
        return bench_vs_refuse(path, "expected an object", number);
    if (!jval_get(o, "n_prompt") && !jval_get(o, "n_gen")) {
        if (jval_get(o, "kind")) /* a line of ours that is not about a test */
            return EXIT_OK;
        return bench_vs_refuse(path, "neither n_prompt nor n_gen: is this llama-bench's JSON?",
                               number);
    }
    if (!whole(o, "n_prompt", 0, &n_prompt) || !whole(o, "n_gen", 0, &n_gen) ||
        !whole(o, "n_depth", 0, &row.depth) || !whole(o, "n_threads", 0, &row.n_threads) ||
        !whole(o, "n_sessions", 1, &row.n_sessions))
        return bench_vs_refuse(path, "n_prompt, n_gen, n_depth, n_threads must be whole numbers",
                               number);
    row.rate = rate_of(o);
    row.n_params = jval_number(jval_get(o, "model_n_params"));
    if (row.rate <= 0)
        return bench_vs_refuse(path, "no speed: expected samples_ts or avg_ts", number);
    label_of(o, &row);
    if (!kind_of(o, n_prompt, n_gen, &row) || arr_push(*rows, row))
        return EXIT_OK;
    cli_note("out of memory: the results of %s", path);
    return EXIT_FULL;
}

static int bench_vs_read_value(const char *path, const struct jval *value, size_t *number,
                               struct vs_row **rows)
{
    const struct jval *list = jval_is(value, JVAL_ARRAY) ? value : jval_get(value, "results");
    int code = EXIT_OK;
    if (!jval_is(list, JVAL_ARRAY))
        return read_object(path, value, ++*number, rows);
    for (size_t i = 0; code == EXIT_OK && i < jval_size(list); i++)
        code = read_object(path, jval_at(list, i), ++*number, rows);
    return code;
}

int vs_read(const char *path, struct vs_row **rows)
{
    mgpt_error err;
    size_t n, at = 0, number = 0;
    char *text = cli_read(path, &n, &err);
    int code = EXIT_OK;
    if (!text)
        return cli_fail(path, &err);
    while (code == EXIT_OK && (at += strspn(text + at, " \t\r\n")) < n) {
        struct jval_error bad;
        size_t end = 0;
        const struct jval *value = jval_read(text + at, n - at, JVAL_FIRST, &end, &bad);
        if (value) {
            code = bench_vs_read_value(path, value, &number, rows);
        } else if (jval_no_memory(&bad, n - at, &err)) {
            code = cli_fail(path, &err);
        } else {
            cli_note("%s: %s (byte %zu)", path, bad.text, at + bad.offset);
            code = EXIT_REFUSED;
        }
        at += end;
        jval_free(value);
    }
    free(text);
    if (code == EXIT_OK && arr_len(*rows) == 0) {
        cli_note("%s: no results in it", path);
        code = EXIT_REFUSED;
    }
    return code;
}

int vs_ours(const struct bench *b, struct vs_row **rows)
{
    const mgpt_info *info = &b->engine.info;
    for (size_t i = 0; i < b->n_tests; i++) {
        const struct test *t = &b->tests[i];
        struct vs_row row = {.kind = t->kind,
                             .n = t->n,
                             .depth = t->depth,
                             .n_threads = t->limits->n_threads,
                             .n_sessions = t->n_sessions,
                             .rate = series_median(&t->rate),
                             .n_params = (double)info->n_params};
        snprintf(row.label, sizeof row.label, "%.32s %.32s (mgpt) %.16s", info->arch, info->type,
                 info->isa);
        if (!arr_push(*rows, row)) {
            cli_note("out of memory: the results");
            return EXIT_FULL;
        }
    }
    return EXIT_OK;
}

/* ---- comparing ---- */

static int same_test(const struct vs_row *a, const struct vs_row *b)
{
    return a->kind == b->kind && a->n == b->n && a->depth == b->depth &&
           a->n_threads == b->n_threads && a->n_sessions == b->n_sessions;
}

/* Models of another size compare badly; a tied head is counted once or twice. */
static int same_model(const struct vs_row *a, const struct vs_row *b)
{
    return a->n_params <= 0 || b->n_params <= 0 ||
           fabs(a->n_params - b->n_params) <= 0.35 * a->n_params;
}

static int fastest_first(const void *a, const void *b)
{
    double x = ((const struct vs_row *)a)->rate, y = ((const struct vs_row *)b)->rate;
    return (x < y) - (x > y);
}

static int pair_line(const struct vs_row *ours, const struct vs_row *theirs, int json)
{
    char name[64];
    struct test t = {
        .kind = ours->kind, .n = ours->n, .depth = ours->depth, .n_sessions = ours->n_sessions};
    test_name(&t, name, sizeof name);
    if (json)
        return text_json_line(jtext("{s:s, s:s, s:i, s:f, s:f, s:f, s:s}", "kind", "comparison",
                                    "test", name, "n_threads", ours->n_threads, "ours_ts",
                                    ours->rate, "theirs_ts", theirs->rate, "ratio",
                                    ours->rate / theirs->rate, "theirs", theirs->label));
    printf("%-18s %7d %12.1f %12.1f %8.3f  %s\n", name, ours->n_threads, ours->rate, theirs->rate,
           ours->rate / theirs->rate, theirs->label);
    return EXIT_OK;
}

int vs_report(const struct vs_row *ours, const struct vs_row *theirs, int json)
{
    size_t n_theirs = arr_len(theirs), n_pairs = 0, n_other = 0;
    struct vs_row *sorted = malloc((n_theirs + 1) * sizeof *sorted);
    int code = EXIT_OK;
    if (!sorted) {
        cli_note("out of memory: a comparison of %zu results", n_theirs);
        return EXIT_FULL;
    }
    memcpy(sorted, theirs, n_theirs * sizeof *sorted);
    qsort(sorted, n_theirs, sizeof *sorted, fastest_first);
    if (!json)
        printf("\n%-18s %7s %12s %12s %8s  %s\n", "test", "threads", "ours", "theirs", "ratio",
               "theirs, fastest first");
    for (size_t i = 0; i < arr_len(ours); i++)
        for (size_t k = 0; code == EXIT_OK && k < n_theirs; k++)
            if (same_test(&ours[i], &sorted[k])) {
                code = pair_line(&ours[i], &sorted[k], json);
                n_other += !same_model(&ours[i], &sorted[k]);
                n_pairs++;
            }
    free(sorted);
    if (n_pairs == 0)
        cli_note("--vs: none of its %zu results is for the same test and threads", n_theirs);
    if (n_other > 0)
        cli_note("--vs: %zu of the results are of a model of another size", n_other);
    return code;
}
