/* Repl: the tokens of a timeline, with what the model says of each. */
#include "repl/held.h"
#include "repl/view.h"

#include "base/mem.h"
#include "common/text.h"

#include <math.h>

enum { TEXT = 12 }; /* columns of a token, if the likeliest follow */

static const char title[] = " pos     id    logprob     drawn  rank  token";

static void print_numbers(const struct tokens_held *h, size_t pos)
{
    if (pos == 0)
        printf("%28s", "");
    else
        printf("%11.4f  %.6f %5zu", h->drawn.logprobs[pos - 1], h->drawn.probs[pos - 1],
               h->ranks[pos - 1]);
}

static void print_held(const struct view *v, const struct tokens_held *h, size_t pos)
{
    const struct drawn *d = &h->drawn;
    char text[HEAT_LABEL];
    printf("%4zu: %6d", pos, (int)h->tokens[pos]);
    print_numbers(h, pos);
    fputs("  ", stdout);
    if (pos == 0 || d->n_top == 0) {
        text_print_token(stdout, v->repl->engine.model, h->tokens[pos]);
        putchar('\n');
        return;
    }
    view_token(v->repl, h->tokens[pos], TEXT, text);
    printf("%s%*s", text, (int)(TEXT - screen_columns(text)), "");
    view_print_tops(v->repl, d->top + (pos - 1) * d->n_top, d->n_top);
}

static void print_ahead(const struct view *v)
{
    const int32_t *ahead = v->repl->branches[v->repl->current].ahead;
    for (size_t i = 0; i < arr_len(ahead); i++) {
        printf("%4zu: %6d%30s", v->n_pos + i, (int)ahead[i], "");
        text_print_token(stdout, v->repl->engine.model, ahead[i]);
        puts("  ahead");
    }
}

static void view_tokens_put(struct view *v, const struct tokens_held *h)
{
    if (!view_file_open(v,
                        "position, id, log-probability, probability of a draw, rank; of the %zu "
                        "likeliest id and log-probability",
                        h->drawn.n_top))
        return;
    for (size_t pos = 0; pos < h->n; pos++) {
        view_file_put(v, "%zu\t%d", pos, (int)h->tokens[pos]);
        if (pos == 0)
            view_file_put(v, "\tnan\tnan\tnan");
        else
            view_file_put(v, "\t%.17g\t%.17g\t%zu", h->drawn.logprobs[pos - 1],
                          h->drawn.probs[pos - 1], h->ranks[pos - 1]);
        for (size_t k = 0; k < h->drawn.n_top; k++) {
            const mgpt_candidate *c = pos ? &h->drawn.top[(pos - 1) * h->drawn.n_top + k] : NULL;
            view_file_put(v, "\t%d\t%.17g", c ? (int)c->token : -1, c ? c->logprob : NAN);
        }
        view_file_put(v, "\n");
    }
    view_file_close(v);
}

int repl_held(struct repl *r, size_t n_top, struct tokens_held *h)
{
    const mgpt_session *s = r->engine.session;
    *h = held_new(&r->engine, &r->sampling, mgpt_tokens(s), mgpt_pos(s), n_top);
    if (h->n < 2)
        return 1;
    int done = repl_replay(r, MGPT_POINT_BIT(MGPT_LOGITS), held_see, h);
    if (done && h->is_full)
        repl_no_memory();
    if (!done || h->is_full)
        held_free(h);
    return done && !h->is_full;
}

void view_tokens(struct repl *r, struct repl_args *args)
{
    struct view v = view_of(r, args);
    struct tokens_held h;
    if (!repl_held(r, (size_t)args->count, &h))
        return;
    if (v.path) {
        view_tokens_put(&v, &h);
    } else {
        if (h.n > 0)
            puts(title);
        for (size_t pos = 0; pos < h.n; pos++)
            print_held(&v, &h, pos);
        print_ahead(&v);
        repl_print_place(r);
    }
    held_free(&h);
}
