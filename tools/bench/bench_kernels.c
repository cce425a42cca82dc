/* mgpt bench --kernels: every entry of every ISA level's kernel table, one thread. See bench.h.
 *
 * The entries are those that the tests hold to the scalar ISA level bit for bit, called through the
 * same table (bench_cases.h). They are measured a few at a time, in rounds that also measure the
 * limits.
 */
#include "bench/bench_cases.h"
#include "common/text.h"

#include <stdio.h>
#include <string.h>

static const double sample_seconds = 0.004;

/* What is to be measured, and how. */
struct kernel_request {
    const char *isa, *word; /* NULL: all */
    int rounds, json;
    int faults; /* set when a share is one */
};

/* Drops cases whose name lacks the word. */
static void bench_kernels_keep(struct case_list *list, const char *word)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (!word || strstr(list->c[i].name, word))
            list->c[n++] = list->c[i];
    list->n = n;
}

static void call_often(void *ctx, size_t times)
{
    const struct kernel_case *c = ctx;
    for (size_t i = 0; i < times; i++)
        c->call(c);
}

static int bench_kernels_measure(struct case_list *list, struct limits *l, int rounds)
{
    for (int round = -1; round < rounds; round++) { /* the first is not counted */
        if (round == 0)
            l->read.n = l->dram.n = l->fma.n = l->int8.n = 0;
        limits_sample(l);
        for (size_t i = 0; i < list->n; i++) {
            struct kernel_case *c = &list->c[i];
            bank_refresh(c->bank);
            double seconds = bench_time(call_often, c, sample_seconds, &c->times);
            if (round < 0)
                continue;
            series_add(&c->seconds, seconds);
            if (c->peak && c->peak->n > round)
                series_add(&c->peak_share, c->ops / seconds / c->peak->v[round]);
            if (c->read && c->read->n > round)
                series_add(&c->read_share, c->bytes / seconds / c->read->v[round]);
        }
    }
    return EXIT_OK;
}

static int line_json(const struct kernel_case *c)
{
    double seconds = series_median(&c->seconds);
    struct jtext *o =
        jtext("{s:s, s:s, s:s, s:s, s:f, s:f}", "kind", "kernel", "isa", c->k->isa, "kernel",
              c->name, "shape", c->shape, "seconds", seconds, "spread", series_spread(&c->seconds));
    if (c->ops > 0)
        jtext_add(o, "s:f", "gop_per_s", c->ops / seconds / 1e9);
    if (c->peak_share.n > 0)
        jtext_add(o, "s:f", "share_of_peak", series_median(&c->peak_share));
    if (c->bytes > 0)
        jtext_add(o, "s:f", "gb_per_s", c->bytes / seconds / 1e9);
    if (c->read_share.n > 0)
        jtext_add(o, "s:f", "share_of_read", series_median(&c->read_share));
    if (share_faults(&c->peak_share, &c->read_share))
        jtext_add(o, "s:b", "share_fault", 1);
    return text_json_line(o);
}

/* "%8.2f", or "-" for what was not asked. */
static void cell(double value)
{
    if (value > 0)
        printf(" %8.2f", value);
    else
        printf(" %8s", "-");
}

static void line(const struct kernel_case *c)
{
    char share[32];
    double seconds = series_median(&c->seconds);
    printf("%-10s %-14s %-27s %10.2f", c->k->isa, c->name, c->shape, 1e6 * seconds);
    cell(c->ops / seconds / 1e9);
    printf(" %9s", bench_share(share, sizeof share, &c->peak_share));
    cell(c->bytes / seconds / 1e9);
    printf(" %9s\n", bench_share(share, sizeof share, &c->read_share));
}

static int run_list(struct case_list *list, struct limits *l, struct kernel_request *q)
{
    int code = EXIT_OK;
    bench_kernels_keep(list, q->word);
    if (list->n == 0)
        return EXIT_OK;
    bench_progress("%s: %s", list->c[0].k->isa, list->c[0].name);
    code = bench_kernels_measure(list, l, q->rounds);
    bench_progress("%s", "");
    for (size_t i = 0; i < list->n && code == EXIT_OK; i++) {
        q->faults |= share_faults(&list->c[i].peak_share, &list->c[i].read_share);
        if (q->json)
            code = line_json(&list->c[i]);
        else
            line(&list->c[i]);
    }
    if (code == EXIT_OK && fflush(stdout) != 0)
        return EXIT_IO; /* the other kernels would take minutes for nothing */
    return code;
}

static int run_isa_level(const struct kernels *k, struct bank *bank, const struct machine *m,
                         struct kernel_request *q)
{
    struct limits l;
    struct case_list list;
    int code = EXIT_OK;
    if (!limits_open(&l, m, k->isa, 1, bank->n_small)) {
        cli_note("out of memory: measuring the machine");
        return EXIT_FULL;
    }
    for (int type = 0; type < WEIGHT_N_TYPES && code == EXIT_OK; type++) {
        cases_linear(&list, k, bank, &l, type, q->word);
        code = run_list(&list, &l, q);
    }
    for (int type = 0; type < KV_N_TYPES && code == EXIT_OK; type++) {
        cases_attention(&list, k, bank, &l, type);
        code = run_list(&list, &l, q);
    }
    for (size_t at = 0; at < N_ROW_ENTRIES && code == EXIT_OK;) {
        cases_row(&list, k, bank, &at);
        code = run_list(&list, &l, q);
    }
    limits_close(&l);
    return code;
}

int bench_kernels(const char *isa, const char *word, int rounds, int json)
{
    struct kernel_request q = {isa, word, rounds, json, 0};
    struct machine m;
    struct bank bank;
    struct kernels k;
    const char *name;
    mgpt_error err;
    int runs, code = EXIT_OK;
    memset(&k, 0, sizeof k);
    if (isa && !kernels_init(&k, isa)) {
        mgpt_close(mgpt_open_bytes("", 0, &(mgpt_model_params){.isa = isa}, &err)); /* says why */
        return cli_fail("--isa", &err);
    }
    isa = isa ? k.isa : NULL; /* without :N */
    machine_look(&m);
    if (!bank_open(&bank, &m)) {
        cli_note("out of memory: buffers for the kernels");
        code = EXIT_FULL;
    }
    if (code == EXIT_OK && !json)
        printf("%s, one thread, medians of %d\n\n%-10s %-14s %-27s %10s %8s %9s %8s %9s\n", m.cpu,
               rounds, "isa", "kernel", "size", "us/call", "G/s", "of peak", "GB/s", "of read");
    for (size_t i = 0; code == EXIT_OK && (name = mgpt_isa(i, &runs)) != NULL; i++) {
        memset(&k, 0, sizeof k);
        if (runs && (!isa || strcmp(isa, name) == 0) && kernels_init(&k, name))
            code = run_isa_level(&k, &bank, &m, &q);
    }
    if (code == EXIT_OK && !json)
        printf(
            "\nG/s: multiplications and additions of matrices, else values; of peak: FMA, or 8-bit "
            "products\nfor quantised types; GB/s: bytes of the matrix, of read: from memory or "
            "from L2, as its size;\n:1, :2, :3: read in other ways (--help)\n");
    if (code == EXIT_OK && !json && q.faults)
        bench_fault_note();
    bank_free(&bank);
    return code;
}
