/* Log-probabilities of many texts. See score_texts.h. */
#include "score/score_texts.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <stdlib.h>
#include <string.h>

/* A pass over this number of tokens takes about as long as one over a single token. */
enum { SHORT = 16 };

/* These logits are what the model expects in the place of scored token i. */
static void score_texts_note(struct scored_text *text, size_t i, const float *logits,
                             size_t n_vocab)
{
    int32_t token = text->tokens[text->n_context + i];
    double logprob = mgpt_logprob(logits, n_vocab, token);
    text->nll -= logprob;
    if (text->is_greedy)
        text->is_greedy = mgpt_sample(&(mgpt_sampler){0}, logits, n_vocab) == token;
    if (text->logprobs)
        text->logprobs[i] = logprob;
    if (text->top)
        mgpt_top(logits, n_vocab, text->top + i * text->n_top, text->n_top);
}

/* The number of tokens that the model runs: nothing is expected after the last. */
static size_t score_n_run(const struct scored_text *text)
{
    return text->n_context + text->n_scored - 1;
}

/* ---- one text ---- */

struct scoring {
    struct engine *engine;
    struct scored_text *text;
    mgpt_error refused;
};

static int score_logits(const mgpt_value *value, void *user)
{
    struct scoring *scoring = user;
    struct scored_text *text = scoring->text;
    for (size_t i = 0; i < (size_t)value->rows; i++) {
        const float *logits = value->data + i * value->stride;
        size_t seen = (size_t)value->pos + i + 1;
        if (engine_check(scoring->engine, logits, seen - 1, &scoring->refused) < 0)
            return 1;
        if (seen >= text->n_context)
            score_texts_note(text, seen - text->n_context, logits, (size_t)value->cols);
    }
    return 0;
}

/* Feeds what the session lacks of a text that it holds the first tokens of. */
static int feed_rest(struct engine *e, mgpt_session *session, struct scored_text *text)
{
    struct scoring scoring = {.engine = e, .text = text};
    struct watcher watcher = {MGPT_POINT_BIT(MGPT_LOGITS), score_logits, &scoring, NULL};
    mgpt_error err;
    size_t pos = mgpt_pos(session);
    int status =
        engine_feed(e, session, text->tokens + pos, score_n_run(text) - pos, &watcher, &err);
    if (status == MGPT_ESTOP && scoring.refused.status < 0)
        err = scoring.refused;
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

/* ---- short texts, side by side ---- */

/* One pass: a token of each text at work. A slot whose text has ended changes place with the last. */
static int step_slots(struct scorer *s)
{
    size_t n_vocab = (size_t)s->engine->info.n_vocab;
    int32_t tokens[SCORE_SLOTS];
    mgpt_error err;
    for (size_t i = 0; i < s->n_live; i++)
        tokens[i] = s->at_work[i]->tokens[mgpt_pos(s->slots[i])];
    if (engine_step_many(s->engine, s->slots, tokens, s->n_live, &err) < 0)
        return cli_fail(NULL, &err);
    for (size_t i = s->n_live; i-- > 0;) {
        struct scored_text *text = s->at_work[i];
        mgpt_session *session = s->slots[i];
        size_t pos = mgpt_pos(session);
        if (pos >= text->n_context)
            score_texts_note(text, pos - text->n_context, mgpt_logits(session), n_vocab);
        if (pos < score_n_run(text))
            continue;
        s->n_live--;
        s->at_work[i] = s->at_work[s->n_live];
        s->slots[i] = s->slots[s->n_live];
        s->slots[s->n_live] = session;
    }
    return EXIT_OK;
}

static int advance(struct scorer *s)
{
    if (interrupted())
        return EXIT_INTERRUPTED;
    return s->n_live > 1 ? step_slots(s) : feed_rest(s->engine, s->slots[--s->n_live], *s->at_work);
}

static int holds(const mgpt_session *session, const int32_t *tokens, size_t n)
{
    return session && mgpt_pos(session) >= n &&
           memcmp(mgpt_tokens(session), tokens, n * sizeof *tokens) == 0;
}

/* Puts a text into a slot whose session holds its first n tokens, as the engine's session does. */
static int score_begin(struct scorer *s, struct scored_text *text, size_t n)
{
    mgpt_error err;
    int code = EXIT_OK;
    while (s->n_live == SCORE_SLOTS && code == EXIT_OK)
        code = advance(s);
    if (code != EXIT_OK)
        return code;
    mgpt_session **slot = &s->slots[s->n_live];
    if (!holds(*slot, text->tokens, n)) {
        mgpt_session_free(*slot);
        *slot = engine_fork(s->engine, s->engine->session, &err);
    }
    if (!*slot || mgpt_rewind(*slot, n, &err) < 0)
        return cli_fail(NULL, &err);
    s->at_work[s->n_live++] = text;
    return EXIT_OK;
}

/* ---- texts with the same context ---- */

/* Runs the context of a group and notes what is expected after it for each text. */
static int run_context(struct scorer *s, struct scored_text **texts, size_t n)
{
    struct engine *e = s->engine;
    int code = engine_sync(e, e->session, texts[0]->tokens, texts[0]->n_context);
    for (size_t i = 0; i < n && code == EXIT_OK; i++)
        score_texts_note(texts[i], 0, mgpt_logits(e->session), (size_t)e->info.n_vocab);
    return code;
}

/* A short context that few texts have is run with each of them: its own pass would take longer. */
static int score_group(struct scorer *s, struct scored_text **texts, size_t n)
{
    mgpt_session *session = s->engine->session;
    size_t from = n * texts[0]->n_context >= SHORT ? texts[0]->n_context : 0;
    int code = from ? run_context(s, texts, n) : EXIT_OK;
    for (size_t i = 0; i < n && code == EXIT_OK; i++) {
        size_t left = score_n_run(texts[i]) - from;
        if (left == 0)
            continue;
        mgpt_rewind(session, from, NULL);
        code = left <= SHORT ? score_begin(s, texts[i], from)
                             : feed_rest(s->engine, session, texts[i]);
    }
    return code;
}

/* ---- all of them ---- */

/* By the tokens of their contexts, so that neighbours also share what theirs begin with. */
static int compare_contexts(const void *left, const void *right)
{
    const struct scored_text *a = *(struct scored_text *const *)left;
    const struct scored_text *b = *(struct scored_text *const *)right;
    for (size_t i = 0; i < a->n_context && i < b->n_context; i++)
        if (a->tokens[i] != b->tokens[i])
            return a->tokens[i] < b->tokens[i] ? -1 : 1;
    return (a->n_context > b->n_context) - (a->n_context < b->n_context);
}

static int score_groups(struct scorer *s, struct scored_text **order, size_t n)
{
    int code = EXIT_OK;
    qsort(order, n, sizeof *order, compare_contexts);
    for (size_t i = 0, n_group; i < n && code == EXIT_OK; i += n_group) {
        n_group = 1;
        while (i + n_group < n && compare_contexts(&order[i], &order[i + n_group]) == 0)
            n_group++;
        code = score_group(s, order + i, n_group);
    }
    while (s->n_live > 0 && code == EXIT_OK)
        code = advance(s);
    s->n_live = 0;
    return code;
}

int score_texts(struct scorer *s, struct scored_text *texts, size_t n)
{
    size_t n_order = 0;
    mgpt_error err;
    if (n == 0)
        return EXIT_OK;
    struct scored_text **order = mem_new(n, sizeof *order);
    if (!order) {
        err_memory(&err, "the texts", n * sizeof *order);
        return cli_fail(NULL, &err);
    }
    for (size_t i = 0; i < n; i++) {
        texts[i].nll = 0;
        if (texts[i].n_scored > 0)
            order[n_order++] = &texts[i];
    }
    int code = score_groups(s, order, n_order);
    free(order);
    return code;
}

void score_close(struct scorer *s)
{
    for (size_t i = 0; i < SCORE_SLOTS; i++)
        mgpt_session_free(s->slots[i]);
    *s = (struct scorer){0};
}
