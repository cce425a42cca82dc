/* See pairs.h. */
#include "patch/pairs.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/splitmix.h"
#include "common/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

static int cut_lines(struct pairs *p, size_t which, size_t n_bytes)
{
    char *at = p->bytes[which], *end = at + n_bytes;
    const char *nul = memchr(at, 0, n_bytes);
    if (nul) {
        cli_note("%s: byte %zu is NUL, expected text", p->files[which], (size_t)(nul - at));
        return EXIT_REFUSED;
    }
    while (at < end) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        char *next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        *stop = 0; /* cli_read puts a NUL after the last byte */
        if (stop > at && stop[-1] == '\r')
            stop[-1] = 0;
        if (!arr_push(p->lines[which], at)) {
            cli_note("out of memory: the lines of %s", p->files[which]);
            return EXIT_FULL;
        }
        at = next;
    }
    return EXIT_OK;
}

int pairs_read(struct pairs *p)
{
    mgpt_error err;
    for (size_t i = 0; i < PAIRS_TEXTS; i++) {
        size_t n_bytes;
        if (!p->files[i])
            continue;
        p->bytes[i] = cli_read_limited(p->files[i], (struct cli_limits){0}, &n_bytes, &err);
        if (!p->bytes[i])
            return cli_fail(p->files[i], &err);
        int code = cut_lines(p, i, n_bytes);
        if (code != EXIT_OK)
            return code;
        size_t n = arr_len(p->lines[i]), first = arr_len(p->lines[0]);
        if (n == 0 || n != first) {
            cli_note("%s has %zu lines: expected %s", p->files[i], n,
                     n == 0 ? "a prompt a line" : "as many as the clean prompts");
            return EXIT_USAGE;
        }
    }
    return EXIT_OK;
}

size_t pairs_lines(const struct pairs *p)
{
    return arr_len(p->lines[0]);
}

/* ---- values ---- */

size_t pairs_known(const struct pairs *p)
{
    return arr_len(p->runs[0]);
}

int pairs_add(struct pairs *p, const struct sweep_grid *grids, const double *runs, size_t line,
              mgpt_error *err)
{
    const struct pairs_grid none = {.values = NULL};
    size_t n = pairs_known(p), done = 1;
    while (arr_len(p->grids) < arr_len(grids))
        if (!arr_push(p->grids, none))
            return err_memory(err, "the values", sizeof *p->grids);
    for (size_t i = 0; i < arr_len(grids); i++) {
        size_t size = sweep_size(&grids[i]), had = arr_len(p->grids[i].values);
        if (n > 0 && had != n * size)
            return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                           "line %zu has another number of tokens than line 1: give --positions "
                           "that all have, such as -1",
                           line);
        done = done && arr_reserve(p->grids[i].values, had + size);
        for (size_t k = 0; k < size && done; k++)
            arr_put(p->grids[i].values, grids[i].values[k]);
    }
    for (size_t i = 0; i < 2 && done; i++)
        done = arr_push(p->runs[i], runs[i]);
    return done ? MGPT_OK : err_memory(err, "the values", sizeof *runs);
}

/* ---- statistics ---- */

/* The sum with the signs of a number, or at random: a bit each, from the lowest on. */
static double flipped(const double *d, size_t n, uint64_t flip, uint64_t *rng)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (n > PAIRS_EXACT && i % 64 == 0)
            flip = splitmix_next(rng);
        sum += flip >> i % 64 & 1 ? -d[i] : d[i];
    }
    return sum;
}

static double permutation_p(const double *d, size_t n)
{
    size_t n_flips = n > PAIRS_EXACT ? PAIRS_FLIPS : (size_t)1 << n, as_far = 1;
    uint64_t rng = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += d[i];
    if (isnan(sum))
        return NAN;
    for (size_t i = 1; i < n_flips; i++) /* the first are their own signs */
        as_far += fabs(flipped(d, n, i, &rng)) >= fabs(sum) * (1 - 1e-12);
    return (double)as_far / (double)n_flips;
}

/* d: room for a change of each pair. Returns the mean change. */
static double site_statistics(const struct pairs *p, struct pairs_grid *g, size_t size, size_t at,
                              const double *base, double *d)
{
    size_t n = pairs_known(p);
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        d[i] = g->values[i * size + at] - base[i];
        mean += d[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        squares += (d[i] - mean) * (d[i] - mean);
    g->stderrs[at] = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : NAN;
    g->p[at] = permutation_p(d, n);
    return mean;
}

static double mean_of(const double *values, size_t n)
{
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += values[i] / (double)n;
    return mean;
}

int pairs_end(struct pairs *p, struct sweep_grid *grids, double *runs, int into, mgpt_error *err)
{
    size_t n = pairs_known(p);
    double *d = mem_new(n, sizeof *d);
    int done = d != NULL;
    for (int i = 0; i < 2; i++)
        runs[i] = mean_of(p->runs[i], n);
    for (size_t i = 0; i < arr_len(grids) && done; i++) {
        struct pairs_grid *g = &p->grids[i];
        size_t size = sweep_size(&grids[i]);
        g->stderrs = mem_new(size, sizeof *g->stderrs);
        g->p = mem_new(size, sizeof *g->p);
        done = g->stderrs && g->p;
        for (size_t k = 0; k < size && done; k++)
            grids[i].values[k] = runs[into] + site_statistics(p, g, size, k, p->runs[into], d);
    }
    free(d);
    return done ? MGPT_OK : err_memory(err, "the values", n * sizeof *d);
}

void pairs_free(struct pairs *p)
{
    for (size_t i = 0; i < PAIRS_TEXTS; i++) {
        arr_free(p->lines[i]);
        free(p->bytes[i]);
    }
    for (size_t i = 0; i < 2; i++)
        arr_free(p->runs[i]);
    for (size_t i = 0; i < arr_len(p->grids); i++) {
        arr_free(p->grids[i].values);
        free(p->grids[i].stderrs);
        free(p->grids[i].p);
    }
    arr_free(p->grids);
}
