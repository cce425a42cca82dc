/* Texts and counts of a story. See story_count.h. */
#include "lab/story_count.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

static int count_no_memory(const char *what, size_t n)
{
    mgpt_error err;
    err_memory(&err, what, n);
    return cli_fail(NULL, &err);
}

/* ---- texts ---- */

/* A line as a text; its tokens as mgpt score has them. Returns a status. */
static int add_line(struct story_texts *texts, const struct engine *e, const char *line, size_t n,
                    mgpt_error *err)
{
    struct scored_text t = {.text = line, .n_bytes = n, .n_context = 1};
    size_t n_tokens;
    int status = engine_try_encode(e, line, n, MGPT_NO_SPECIAL_TOKENS, e->info.bos, &t.tokens,
                                   &n_tokens, err);
    if (status < 0) {
        free(t.tokens);
        return status;
    }
    if (e->info.eos >= 0)
        t.tokens[n_tokens++] = e->info.eos;
    t.n_scored = n_tokens > 0 ? n_tokens - 1 : 0;
    t.logprobs = mem_new(t.n_scored, sizeof *t.logprobs);
    if (!t.logprobs || !arr_push(texts->list, t)) {
        free(t.tokens);
        free(t.logprobs);
        return err_memory(err, "the texts", arr_len(texts->list) * sizeof t);
    }
    texts->n_tokens += t.n_scored;
    return MGPT_OK;
}

int story_read(struct story_texts *texts, const struct engine *e, const char *path)
{
    const struct cli_limits limits = {.all = MOST_BYTES};
    mgpt_error err;
    char what[96];
    size_t n;
    int status = MGPT_OK;
    texts->bytes = cli_read_limited(path, limits, &n, &err);
    if (!texts->bytes)
        return cli_fail(path, &err);
    const char *at = texts->bytes, *end = at + n, *line;
    for (size_t number = 1; at < end && status == MGPT_OK; number++) {
        size_t length = text_cut_line(&at, end, &line);
        if (length > 0)
            status = add_line(texts, e, line, length, &err);
        if (status < 0)
            snprintf(what, sizeof what, "%.*s: line %zu", TEXT_CLIP(path, strlen(path)), number);
    }
    return status < 0 ? cli_fail(what, &err) : EXIT_OK;
}

void story_texts_free(struct story_texts *texts)
{
    for (size_t i = 0; i < arr_len(texts->list); i++) {
        free(texts->list[i].tokens);
        free(texts->list[i].logprobs);
    }
    arr_free(texts->list);
    free(texts->bytes);
    *texts = (struct story_texts){0};
}

/* ---- counts ---- */

/* A token and the one before it; of single tokens the one before is 0. */
static uint64_t pair_of(const struct scored_text *t, size_t i, int pairs)
{
    return (pairs ? (uint64_t)(uint32_t)t->tokens[i] << 32 : 0) | (uint32_t)t->tokens[i + 1];
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* How many of the sorted numbers are below this one. */
static size_t n_below(const uint64_t *sorted, size_t n, uint64_t x)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (sorted[middle] < x)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* -log of the share of a pair among those with the same first token. */
static double nats_of(const uint64_t *sorted, size_t n, uint64_t pair, size_t n_vocab)
{
    uint64_t first = pair >> 32 << 32;
    size_t from = n_below(sorted, n, first), to = n_below(sorted, n, first + (1ULL << 32));
    size_t at = n_below(sorted, n, pair), after = n_below(sorted, n, pair + 1);
    return log((double)(to - from + n_vocab)) - log((double)(after - at + 1));
}

int story_count(const struct story_texts *texts, const struct story_texts *held, size_t n_vocab,
                int pairs, double *nats)
{
    double sum = 0;
    *nats = NAN;
    if (texts->n_tokens == 0 || held->n_tokens == 0)
        return EXIT_OK;
    uint64_t *sorted = mem_new(texts->n_tokens, sizeof *sorted);
    if (!sorted)
        return count_no_memory("the counts", texts->n_tokens * sizeof *sorted);
    size_t n = 0;
    for (size_t t = 0; t < arr_len(texts->list); t++)
        for (size_t i = 0; i < texts->list[t].n_scored; i++)
            sorted[n++] = pair_of(&texts->list[t], i, pairs);
    qsort(sorted, n, sizeof *sorted, by_number);
    for (size_t t = 0; t < arr_len(held->list); t++)
        for (size_t i = 0; i < held->list[t].n_scored; i++)
            sum += nats_of(sorted, n, pair_of(&held->list[t], i, pairs), n_vocab);
    free(sorted);
    *nats = sum / (double)held->n_tokens;
    return EXIT_OK;
}

/* ---- whether a text is one of them ---- */

static int compare_bytes(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int order = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return order ? order : (n_a > n_b) - (n_a < n_b);
}

static int by_text(const void *a, const void *b)
{
    const struct scored_text *x = a, *y = b;
    return compare_bytes(x->text, x->n_bytes, y->text, y->n_bytes);
}

void story_sort(struct story_texts *texts)
{
    if (texts->list)
        qsort(texts->list, arr_len(texts->list), sizeof *texts->list, by_text);
}

int story_knows(const struct story_texts *texts, const char *text)
{
    const struct scored_text want = {.text = text, .n_bytes = strlen(text)};
    return texts->list && bsearch(&want, texts->list, arr_len(texts->list), sizeof want, by_text);
}
