/* Repl commands that look at the next token. They change nothing, except that
 * asking an empty session for its next token feeds it BOS first. */
#include "base/mem.h"
#include "common/text.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t repl_rank(const float *logits, size_t n, int32_t token)
{
    size_t rank = 1, at = (size_t)token;
    for (size_t i = 0; i < n; i++)
        rank += logits[i] > logits[at] || (logits[i] == logits[at] && i < at);
    return rank;
}

double repl_entropy(const float *logits, size_t n, const mgpt_candidate *top)
{
    double z = (double)top->logit - top->logprob, h = 0;
    for (size_t i = 0; i < n; i++) {
        double logprob = (double)logits[i] - z;
        h -= exp(logprob) > 0 ? exp(logprob) * logprob : 0;
    }
    return h;
}

static void print_candidate(const struct repl *r, size_t rank, int32_t token, double logprob,
                            float logit)
{
    printf("%5zu %7d     %.6f  %9.4f   ", rank, (int)token, exp(logprob), (double)logit);
    text_print_token(stdout, r->engine.model, token);
    putchar('\n');
}

void repl_run_top(struct repl *r, struct repl_args *args)
{
    const float *logits = repl_logits(r);
    size_t cap = args->count ? (size_t)args->count : 10;
    if (!logits)
        return;
    cap = cap < repl_n_logits(r) ? cap : repl_n_logits(r);
    mgpt_candidate *top = mem_new(cap, sizeof *top);
    if (!top) {
        repl_no_memory();
        return;
    }
    size_t n_top = mgpt_top(logits, repl_n_logits(r), top, cap);
    if (r->with) {
        repl_with_top(r, logits, top, n_top);
        free(top);
        return;
    }
    puts(" rank      id  probability      logit   token");
    for (size_t i = 0; i < n_top; i++)
        print_candidate(r, i + 1, top[i].token, top[i].logprob, top[i].logit);
    if (n_top > 0) {
        double h = repl_entropy(logits, repl_n_logits(r), top);
        printf("entropy %.4f nats, %.4f bits\n", h, h / log(2.0));
    }
    free(top);
}

void repl_run_p(struct repl *r, struct repl_args *args)
{
    const float *logits = repl_logits(r);
    size_t n = repl_n_logits(r);
    if (!logits)
        return;
    puts(" rank      id  probability      logit   token");
    print_candidate(r, repl_rank(logits, n, args->token), args->token,
                    mgpt_logprob(logits, n, args->token), logits[args->token]);
}
