/* See held.h. */
#include "repl/held.h"

#include "base/mem.h"
#include "repl/repl.h"

struct tokens_held held_new(const struct engine *e, struct sampling *sampling,
                            const int32_t *tokens, size_t n, size_t n_top)
{
    size_t n_vocab = (size_t)e->info.n_vocab;
    return (struct tokens_held){.drawn = {.n_top = n_top < n_vocab ? n_top : n_vocab},
                                .tokens = tokens,
                                .n = n,
                                .n_vocab = n_vocab,
                                .n_choices = engine_n_choices(e),
                                .sampling = sampling};
}

int held_see(const mgpt_value *value, void *user)
{
    struct tokens_held *h = user;
    for (size_t i = 0; i < (size_t)value->rows && !h->is_full; i++) {
        size_t next = (size_t)value->pos - h->first + i + 1;
        const float *logits = value->data + i * value->stride;
        mgpt_sampler sampler = h->sampling->sampler;
        if (next >= h->n)
            break;
        h->is_full =
            chooser_prepare(&h->sampling->chooser, &sampler, h->tokens, next, NULL) < 0 ||
            !drawn_add(&h->drawn, h->tokens[next], &sampler, logits, h->n_vocab, h->n_choices) ||
            !arr_push(h->ranks, repl_rank(logits, h->n_vocab, h->tokens[next]));
    }
    return 0; /* a stop would be taken for Ctrl-C */
}

double held_sum(const struct tokens_held *h, size_t from)
{
    double sum = 0;
    for (size_t i = from > 0 ? from - 1 : 0; i + 1 < h->n; i++)
        sum += h->drawn.logprobs[i];
    return sum;
}

void held_free(struct tokens_held *h)
{
    drawn_free(&h->drawn);
    arr_free(h->ranks);
    h->ranks = NULL;
}
