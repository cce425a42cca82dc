/* Scores texts after a context, and draws one. See choices.h. */
#include "generate/choices.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/unescape.h"
#include "engine/token_json.h"
#include "run/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int choices_add(struct choices *c, const char *text, size_t n, mgpt_error *err)
{
    struct choice one = {.text = malloc(n + 1), .n = n};
    if (n == 0) {
        free(one.text);
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "choice %zu is empty: expected a text",
                       arr_len(c->list) + 1);
    }
    if (!one.text || !arr_push(c->list, one)) {
        free(one.text);
        return err_memory(err, "the choices", n);
    }
    memcpy(one.text, text, n);
    return MGPT_OK;
}

/* Bytes before the comma that ends the first choice of a list. */
static size_t choice_length(const char *list)
{
    size_t n = 0;
    while (list[n] && list[n] != ',')
        n += list[n] == '\\' && list[n + 1] ? 2 : 1;
    return n;
}

int choices_read(struct choices *c, const char *list, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t length; status == MGPT_OK; list += length + 1) {
        length = choice_length(list);
        status = choices_add(c, list, length, err);
        if (status < 0)
            break;
        struct choice *last = &c->list[arr_len(c->list) - 1];
        int64_t n = text_unescape(last->text, length);
        if (n < 0)
            status = err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                             "choice %zu: a backslash begins \\n, \\t, \\r, \\\", \\\\, \\,, \\xHH "
                             "or \\u{HHHH}, found '%.*s'",
                             arr_len(c->list), (int)(length < 60 ? length : 60), list);
        last->n = n < 0 ? 0 : (size_t)n;
        if (!list[length])
            break;
    }
    return status;
}

static void forget_tokens(struct choices *c)
{
    for (size_t i = 0; i < arr_len(c->list); i++) {
        free(c->list[i].tokens);
        c->list[i].tokens = NULL;
    }
}

void choices_close(struct choices *c)
{
    forget_tokens(c);
    for (size_t i = 0; i < arr_len(c->list); i++)
        free(c->list[i].text);
    arr_free(c->list);
    c->list = NULL;
}

/* ---- tokens ---- */

/* The text of a context, and how it is read. */
struct context {
    const struct engine *engine;
    const int32_t *tokens;
    size_t n_tokens;
    int32_t bos;
    unsigned flags;
    char *text; /* stb_ds array */
};

/* Appends the text of a token: the bytes that it adds, or a control token's name. 0: out of memory. */
static int add_token_text(struct context *x, mgpt_stream *stream, int32_t token)
{
    const mgpt_model *model = x->engine->model;
    size_t n, n_text = arr_len(x->text);
    mgpt_piece(model, token, &n);
    if (n == 0) {
        const char *name = mgpt_token_text(model, token, &n);
        x->flags |= MGPT_PARSE_SPECIAL;
        return arr_append(&x->text, name, n);
    }
    size_t room = 3 * n + 9;
    if (!arr_reserve(x->text, n_text + room))
        return 0;
    arr_set_len(x->text, n_text + mgpt_stream_put(stream, model, token, x->text + n_text, room));
    return 1;
}

/* Encodes the context's text and n bytes after it; NULL: the bytes alone. Returns a status. */
static int encode_after(struct context *x, int with_text, const char *bytes, size_t n,
                        int32_t **tokens, size_t *n_tokens, mgpt_error *err)
{
    size_t n_text = with_text ? arr_len(x->text) : 0;
    if (!arr_reserve(x->text, arr_len(x->text) + n + 1))
        return err_memory(err, "the choices", n);
    if (n > 0)
        memcpy(x->text + arr_len(x->text), bytes, n);
    return engine_try_encode(x->engine, x->text + arr_len(x->text) - n_text, n_text + n,
                             MGPT_NO_SPECIAL_TOKENS | (with_text ? x->flags : 0),
                             with_text ? x->bos : -1, tokens, n_tokens, err);
}

/* Finds the text of the context. *is_own: its tokens are those of that text. Returns a status. */
static int read_context(struct context *x, int *is_own, mgpt_error *err)
{
    const struct engine *e = x->engine;
    int32_t front[ENGINE_FRONT], *again = NULL;
    size_t n_front = engine_front(e, e->info.bos, front), n_again;
    mgpt_stream stream = {.started = 0};
    if (engine_n_common(front, n_front, x->tokens, x->n_tokens) != n_front)
        n_front = 0;
    x->bos = n_front > 0 ? e->info.bos : -1;
    for (size_t i = n_front; i < x->n_tokens; i++)
        if (!add_token_text(x, &stream, x->tokens[i]))
            return err_memory(err, "the context", x->n_tokens);
    int status = encode_after(x, 1, "", 0, &again, &n_again, err);
    *is_own = status == MGPT_OK && n_again == x->n_tokens &&
              engine_n_common(again, n_again, x->tokens, x->n_tokens) == n_again;
    free(again);
    return status == MGPT_EMEM ? status : MGPT_OK;
}

/* The tokens of the context and a choice. Returns a status. */
static int encode_choice(struct context *x, struct choice *k, int is_own, mgpt_error *err)
{
    int status = encode_after(x, is_own, k->text, k->n, &k->tokens, &k->n_tokens, err);
    if (status < 0 || is_own)
        return status;
    int32_t *both = malloc((x->n_tokens + k->n_tokens + 1) * sizeof *both);
    if (!both)
        return err_memory(err, "the choices", k->n_tokens * sizeof *both);
    memcpy(both, x->tokens, x->n_tokens * sizeof *both);
    memcpy(both + x->n_tokens, k->tokens, k->n_tokens * sizeof *both);
    free(k->tokens);
    k->tokens = both;
    k->n_tokens += x->n_tokens;
    return MGPT_OK;
}

/* Tells which choice an error is of. */
static int refuse_choice(size_t i, mgpt_error *err)
{
    mgpt_error why = *err;
    return err_set(err, why.status, why.offset, "choice %zu: %s", i + 1, why.text);
}

static int encode_choices(struct choices *c, struct context *x, int is_fixed, mgpt_error *err)
{
    int is_own = 0;
    size_t n_ctx = mgpt_n_ctx(x->engine->session);
    int status = is_fixed ? MGPT_OK : read_context(x, &is_own, err);
    c->n_common = x->n_tokens;
    forget_tokens(c);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(c->list); i++) {
        struct choice *k = &c->list[i];
        if (encode_choice(x, k, is_own, err) < 0)
            return refuse_choice(i, err);
        if (k->n_tokens > n_ctx)
            return err_set(err, MGPT_EFULL, MGPT_NO_OFFSET,
                           "choice %zu: %zu tokens with the text before it, but the context holds "
                           "%zu",
                           i + 1, k->n_tokens, n_ctx);
        c->n_common = engine_n_common(k->tokens, k->n_tokens, x->tokens, c->n_common);
        for (size_t j = 0; j < i; j++)
            if (c->list[j].n_tokens == k->n_tokens &&
                engine_n_common(c->list[j].tokens, k->n_tokens, k->tokens, k->n_tokens) ==
                    k->n_tokens)
                return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                               "choice %zu is choice %zu again: their tokens are the same", i + 1,
                               j + 1);
    }
    for (size_t i = 0; status == MGPT_OK && i < arr_len(c->list); i++)
        if (c->n_common == 0 || c->list[i].n_tokens == c->n_common)
            return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET, "choice %zu: %s", i + 1,
                           c->n_common ? "has no token of its own after the text before it"
                                       : "changes the first token, before which nothing is");
    return status;
}

/* ---- scores ---- */

static int compare_choices(const void *a, const void *b)
{
    const struct choice *x = *(struct choice *const *)a, *y = *(struct choice *const *)b;
    size_t n = engine_n_common(x->tokens, x->n_tokens, y->tokens, y->n_tokens);
    if (n == x->n_tokens || n == y->n_tokens)
        return (x->n_tokens > y->n_tokens) - (x->n_tokens < y->n_tokens);
    return x->tokens[n] < y->tokens[n] ? -1 : 1;
}

/* Runs the tokens of sorted choices, which begin alike, once each. Returns a status. */
static int run_choices(const struct choices *c, struct choice *const *sorted, struct engine *e,
                       mgpt_session *fork, mgpt_error *err)
{
    size_t n = arr_len(c->list);
    for (size_t i = 0; i < n; i++) {
        const struct choice *k = sorted[i];
        size_t at = c->n_common;
        if (i > 0) /* the last token of a choice has not been run */
            at = engine_n_common(sorted[i - 1]->tokens, sorted[i - 1]->n_tokens - 1, k->tokens,
                                 k->n_tokens) +
                 1;
        for (; at < k->n_tokens; at++) {
            int is_there = mgpt_pos(fork) == at && mgpt_logits(fork), status = MGPT_OK;
            if (!is_there)
                status = mgpt_rewind(fork, at - 1, err);
            if (!is_there && status == MGPT_OK)
                status = engine_feed(e, fork, k->tokens + at - 1, 1, NULL, err);
            if (status < 0)
                return status;
            const float *logits = mgpt_logits(fork);
            double all = logits_log_sum(logits, (size_t)e->info.n_vocab);
            for (size_t j = i; j < n && engine_n_common(sorted[j]->tokens, sorted[j]->n_tokens,
                                                        k->tokens, at) == at;
                 j++)
                if (sorted[j]->n_tokens > at)
                    sorted[j]->logprob += (double)logits[sorted[j]->tokens[at]] - all;
        }
    }
    return MGPT_OK;
}

int choices_score(struct choices *c, struct engine *e, const mgpt_session *context, int is_fixed,
                  mgpt_error *err)
{
    struct context x = {e, mgpt_tokens(context), mgpt_pos(context), -1, 0, NULL};
    size_t n = arr_len(c->list);
    struct choice **sorted = mem_new(n, sizeof *sorted);
    int status = sorted ? encode_choices(c, &x, is_fixed, err)
                        : err_memory(err, "the choices", n * sizeof *sorted);
    mgpt_session *fork = status == MGPT_OK ? engine_fork(e, context, err) : NULL;
    for (size_t i = 0; fork && i < n; i++) {
        c->list[i].logprob = 0;
        sorted[i] = &c->list[i];
    }
    if (fork) {
        qsort(sorted, n, sizeof *sorted, compare_choices);
        status = run_choices(c, sorted, e, fork, err);
    } else if (status == MGPT_OK) {
        status = err->status;
    }
    mgpt_session_free(fork);
    arr_free(x.text);
    free(sorted);
    return status;
}

/* ---- drawing ---- */

static double best_logprob(const struct choices *c)
{
    double best = -INFINITY;
    for (size_t i = 0; i < arr_len(c->list); i++)
        best = fmax(best, c->list[i].logprob);
    return best;
}

int choices_draw(const struct choices *c, mgpt_sampler *sampler, mgpt_error *err)
{
    size_t n = arr_len(c->list);
    double best = best_logprob(c);
    float *scores = mem_new(n, sizeof *scores);
    if (!scores)
        return err_memory(err, "the choices", n * sizeof *scores);
    for (size_t i = 0; i < n; i++)
        scores[i] = (float)(c->list[i].logprob - best);
    int taken = mgpt_sample(sampler, scores, n);
    free(scores);
    return taken;
}

void choices_print(const struct choices *c, int taken, struct json_out *out)
{
    double best = best_logprob(c), sum = 0;
    for (size_t i = 0; i < arr_len(c->list); i++)
        sum += exp(c->list[i].logprob - best);
    fprintf(out->to, ",\"choice\":%d,\"choices\":[", taken);
    for (size_t i = 0; i < arr_len(c->list); i++) {
        const struct choice *k = &c->list[i];
        fputs(i ? ",{\"text\":" : "{\"text\":", out->to);
        json_out_string(out, k->text, k->n);
        fputs(",\"tokens\":", out->to);
        token_json_ids(out, k->tokens + c->n_common, k->n_tokens - c->n_common);
        fputs(",\"logprob\":", out->to);
        json_out_real(out, k->logprob);
        fputs(",\"prob\":", out->to);
        json_out_real(out, exp(k->logprob - best) / sum);
        putc('}', out->to);
    }
    putc(']', out->to);
}
