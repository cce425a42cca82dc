/* Sums of mgpt score. See score_totals.h. */
#include "score/score_totals.h"

#include "base/utf8.h"
#include "common/text.h"

#include <math.h>

void totals_add_bytes(struct score_totals *t, const char *bytes, size_t n, int ends)
{
    t->n_bytes += n;
    for (size_t i = 0; i < n;) {
        uint32_t code = (unsigned char)bytes[i];
        i += code < 0x80 ? 1 : utf8_next(bytes + i, n - i, &code);
        int is_word = !text_is_space(code);
        t->n_words += is_word && !t->in_word;
        t->in_word = is_word;
    }
    t->in_word = t->in_word && !ends;
}

static void print_per(const struct score_totals *t, const char *unit, size_t n)
{
    double mean = t->nll / (double)n;
    printf("nll/%-8s%.12f nats\n", unit, mean);
    printf("bits/%-7s%.12f\n", unit, mean / log(2.0));
}

static void print_definition(const struct score_totals *t, const struct score_windows *w,
                             int is_document)
{
    if (is_document || t->n_rolled > 0) {
        printf("windows     %zu of %zu tokens, stride %zu\n", t->n_windows, w->window, w->stride);
        printf("definition  %s: loglikelihood_rolling of lm-evaluation-harness, context_len %zu\n",
               is_document ? "the file is one text" : "a longer text", w->window - w->stride + 1);
    } else {
        puts("definition  a line is a text; each token is predicted from all before it");
    }
}

void totals_print(const struct score_totals *t, const struct score_windows *windows,
                  int is_document)
{
    printf("texts       %zu\n", t->n_texts);
    printf("tokens      %zu\n", t->n_tokens);
    print_per(t, "token", t->n_tokens);
    printf("perplexity  %.12f\n", exp(t->nll / (double)t->n_tokens));
    printf("bytes       %zu\n", t->n_bytes);
    if (t->n_bytes > 0)
        print_per(t, "byte", t->n_bytes);
    printf("words       %zu\n", t->n_words);
    if (t->n_words > 0)
        print_per(t, "word", t->n_words);
    print_definition(t, windows, is_document);
}
