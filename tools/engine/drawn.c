/* The numbers of drawn tokens. See drawn.h. */
#include "engine/drawn.h"

#include "base/mem.h"
#include "engine/token_json.h"

int drawn_add(struct drawn *d, int32_t token, const mgpt_sampler *sampler, const float *logits,
              size_t n, size_t n_choices)
{
    size_t n_top = arr_len(d->top), k = d->n_top < n ? d->n_top : n;
    d->n_top = k;
    if (!arr_push(d->tokens, token) || !arr_push(d->logprobs, mgpt_logprob(logits, n, token)) ||
        !arr_push(d->probs, mgpt_draw_prob(sampler, logits, n_choices, token)) ||
        !arr_reserve(d->top, n_top + k))
        return 0;
    if (k > 0)
        arr_set_len(d->top, n_top + mgpt_top(logits, n, d->top + n_top, k));
    return 1;
}

static void print_reals(struct json_out *out, const char *name, const double *values, size_t n)
{
    fprintf(out->to, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putc(',', out->to);
        json_out_real(out, values[i]);
    }
    putc(']', out->to);
}

void drawn_print(const struct drawn *d, struct json_out *out, const mgpt_model *model)
{
    size_t n = arr_len(d->tokens);
    fputs(",\"logprobs\":{\"ids\":", out->to);
    token_json_ids(out, d->tokens, n);
    fputs(",\"tokens\":[", out->to);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putc(',', out->to);
        token_json_text(out, model, d->tokens[i]);
    }
    putc(']', out->to);
    print_reals(out, "token_logprobs", d->logprobs, n);
    print_reals(out, "draw_probs", d->probs, n);
    for (size_t i = 0; i < n && d->n_top > 0; i++) {
        fputs(i ? "," : ",\"top_logprobs\":[", out->to);
        token_json_top(out, model, d->top + i * d->n_top, d->n_top);
    }
    fputs(n > 0 && d->n_top > 0 ? "]}" : "}", out->to);
}

void drawn_cut(struct drawn *d, size_t n)
{
    if (arr_len(d->tokens) <= n)
        return;
    arr_set_len(d->tokens, n);
    arr_set_len(d->logprobs, n);
    arr_set_len(d->probs, n);
    if (d->top)
        arr_set_len(d->top, n * d->n_top);
}

void drawn_clear(struct drawn *d)
{
    drawn_cut(d, 0);
}

void drawn_free(struct drawn *d)
{
    arr_free(d->tokens);
    arr_free(d->logprobs);
    arr_free(d->probs);
    arr_free(d->top);
}
