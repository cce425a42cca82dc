/* What a change does to the next token. Two distributions side by side, in float64: how far apart
 * they are, and those tokens that are among the likeliest of either. */
#include "base/mem.h"
#include "check/compare/compare.h"
#include "common/text.h"
#include "repl/repl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 5 }; /* likeliest tokens of each that are shown */

struct pair {
    const float *before, *after;
    size_t n;
};

/* In nats; NaN when a logit is not finite. */
static int divergence(const struct pair *p, double *kl)
{
    double *reference = mem_new(p->n, sizeof *reference);
    if (!reference)
        return 0;
    for (size_t i = 0; i < p->n; i++)
        reference[i] = (double)p->before[i];
    const struct compare_bounds bounds = {.max_abs = INFINITY};
    *kl = compare_row(reference, &(struct ref_row){.n = p->n}, p->after, p->n, -1, &bounds).kl;
    free(reference);
    return 1;
}

static void print_row(const struct repl *r, const struct pair *p, int32_t token)
{
    double before = exp(mgpt_logprob(p->before, p->n, token));
    double after = exp(mgpt_logprob(p->after, p->n, token));
    printf("%5zu %5zu %7d     %.6f  %.6f  %+.6f  ", repl_rank(p->before, p->n, token),
           repl_rank(p->after, p->n, token), (int)token, before, after, after - before);
    text_print_token(stdout, r->engine.model, token);
    putchar('\n');
}

/* The likeliest after the change, then those of before that are not among them. */
static void print_rows(const struct repl *r, const struct pair *p)
{
    mgpt_candidate top[TOP];
    size_t n = mgpt_top(p->after, p->n, top, TOP);
    for (size_t i = 0; i < n; i++)
        print_row(r, p, top[i].token);
    n = mgpt_top(p->before, p->n, top, TOP);
    for (size_t i = 0; i < n; i++)
        if (repl_rank(p->after, p->n, top[i].token) > TOP)
            print_row(r, p, top[i].token);
}

void repl_print_effect(const struct repl *r, const char *name_before, const float *before,
                       const char *name_after, const float *after)
{
    const struct pair p = {before, after, repl_n_logits(r)};
    double kl;
    if (memcmp(before, after, p.n * sizeof *before) == 0) {
        puts("the next token's logits are the same, to the bit");
        return;
    }
    if (!divergence(&p, &kl)) {
        repl_no_memory();
        return;
    }
    printf("KL(%s || %s) %.6f nats\n", name_before, name_after, kl);
    puts("  was   now      id  probability     now    change  token");
    print_rows(r, &p);
}
