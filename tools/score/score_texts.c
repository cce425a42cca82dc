/* Log-probabilities of many texts. See score_texts.h. */
#include "score/score_texts.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <stdlib.h>
#include <string.h>

/* A batch ends at BATCH_ROWS rows of contexts or at REST_ROWS rows of what follows contexts that several texts have:
 * other threads take the next batch. A beginning that contexts share has passes of its own if that saves SHARED rows. */
enum { BATCH_ROWS = 768, REST_ROWS = BATCH_ROWS, SHARED = 16 };

void score_note_choice(struct scored_text *text, size_t i, const float *logits, size_t n_vocab)
{
    int32_t token = text->tokens[text->n_context + i];
    if (text->is_greedy)
        text->is_greedy = mgpt_sample(&(mgpt_sampler){0}, logits, n_vocab) == token;
    if (text->top)
        mgpt_top(logits, n_vocab, text->top + i * text->n_top, text->n_top);
}

/* These logits are what the model expects in the place of scored token i. */
static void score_texts_note(struct scored_text *text, size_t i, const float *logits,
                             size_t n_vocab)
{
    double logprob = mgpt_logprob(logits, n_vocab, text->tokens[text->n_context + i]);
    text->nll -= logprob;
    if (text->logprobs)
        text->logprobs[i] = logprob;
    score_note_choice(text, i, logits, n_vocab);
}

/* The number of tokens that the model runs: nothing is expected after the last. */
static size_t score_n_run(const struct scored_text *text)
{
    return text->n_context + text->n_scored - 1;
}

/* ---- passes ---- */

static int score_logits(const mgpt_value *value, void *user)
{
    const struct score_job *job = user;
    size_t n_context = (*job->texts)->n_context;
    for (size_t i = 0; i < (size_t)value->rows; i++) {
        const float *logits = value->data + i * value->stride;
        size_t seen = (size_t)value->pos + i + 1;
        if (engine_check(job->scorer->engine, logits, seen - 1, &job->scorer->refused) < 0)
            return 1;
        for (size_t t = 0; t < job->n && seen >= n_context; t++)
            score_texts_note(job->texts[t], seen - n_context, logits, (size_t)value->cols);
    }
    return 0;
}

/* Runs the jobs in common passes, with scratch and threads of the base. Returns a status. */
static int run_jobs(struct scorer *s)
{
    s->runs[0] = (mgpt_run){.session = s->base};
    int status = s->n_jobs ? engine_feed_many(s->engine, s->runs, s->n_runs + 1, &s->err) : MGPT_OK;
    if (status == MGPT_ESTOP && s->refused.status < 0) {
        s->err = s->refused;
        status = s->err.status;
    }
    s->n_jobs = s->n_runs = s->n_rows = 0;
    return status;
}

static void add_score_run(struct scorer *s, mgpt_session *session, const int32_t *tokens, size_t n)
{
    s->runs[++s->n_runs] = (mgpt_run){.session = session, .tokens = tokens, .n = n};
    s->n_rows += n;
}

static int holds(const mgpt_session *session, const int32_t *tokens, size_t n)
{
    return session && mgpt_pos(session) >= n &&
           memcmp(mgpt_tokens(session), tokens, n * sizeof *tokens) == 0;
}

/* Tokens [n_held, end) of n texts that are equal so far, in a session that becomes a fork of `from`
 * at n_held. The logits of the context's last token and of all after it are looked at. */
static int add_job(struct scorer *s, mgpt_session **session, const mgpt_session *from,
                   struct scored_text **texts, size_t n, size_t n_held, size_t end)
{
    const int32_t *tokens = texts[0]->tokens;
    struct score_job *job = &s->jobs[s->n_jobs++];
    if (!holds(*session, tokens, n_held)) {
        mgpt_session_free(*session);
        *session = engine_fork(s->engine, from, &s->err);
    }
    *job = (struct score_job){.scorer = s, .texts = texts, .n = n};
    job->watcher = (struct watcher){MGPT_POINT_BIT(MGPT_LOGITS), score_logits, job, NULL};
    if (!*session || mgpt_rewind(*session, n_held, &s->err) < 0 ||
        engine_watch(s->engine, *session, &job->watcher, &job->steering, &s->err) < 0)
        return s->err.status;
    size_t looked = texts[0]->n_context - 1 > n_held ? texts[0]->n_context - 1 : n_held;
    if (looked > n_held) {
        add_score_run(s, *session, tokens + n_held, looked - n_held);
        s->runs[s->n_runs].untapped = !engine_watches(s->engine);
    }
    add_score_run(s, *session, tokens + looked, end - looked);
    return MGPT_OK;
}

/* ---- batches ---- */

/* By the tokens of their contexts, so that neighbours also share what theirs begin with. */
int score_compare(const void *left, const void *right)
{
    const struct scored_text *a = *(struct scored_text *const *)left;
    const struct scored_text *b = *(struct scored_text *const *)right;
    for (size_t i = 0; i < a->n_context && i < b->n_context; i++)
        if (a->tokens[i] != b->tokens[i])
            return a->tokens[i] < b->tokens[i] ? -1 : 1;
    return (a->n_context > b->n_context) - (a->n_context < b->n_context);
}

static size_t n_shared(const struct scored_text *a, const struct scored_text *b)
{
    return engine_n_common(a->tokens, a->n_context, b->tokens, b->n_context);
}

/* The number of texts that are scored after one run of the first one's context: those that have it, up to
 * REST_ROWS tokens, or more if the context is as long. */
static size_t group_size(struct scored_text **texts, size_t n)
{
    size_t n_group = 1, most = REST_ROWS + texts[0]->n_context, rows = texts[0]->n_scored;
    while (n_group < n && rows < most && score_compare(&texts[0], &texts[n_group]) == 0)
        rows += texts[n_group++]->n_scored;
    return n_group;
}

/* The number of rows that run after the context of a group. */
static size_t rest_rows(struct scored_text *const *group, size_t n)
{
    size_t rows = 0;
    for (size_t i = 0; n > 1 && i < n; i++)
        rows += group[i]->n_scored;
    return rows;
}

/* How far a group's context is run with what follows it: to the end of a text that is alone. */
static size_t first_end(struct scored_text *const *group, size_t n)
{
    return n == 1 ? score_n_run(*group) : group[0]->n_context;
}

/* The number of texts whose contexts are run together: groups that share about the same number of
 * tokens, *prefix. A single one has its passes alone up to what it shares with the next. */
size_t score_batch_size(struct scored_text **texts, size_t n, size_t *prefix)
{
    size_t end = group_size(texts, n), rows = first_end(texts, end), n_groups = 1;
    size_t rests = rest_rows(texts, end);
    *prefix = end < n ? n_shared(texts[0], texts[end]) : 0;
    for (size_t more; end < n && n_groups < SCORE_SLOTS; end += more, n_groups++) {
        size_t shared = n_shared(texts[end - 1], texts[end]);
        more = group_size(texts + end, n - end);
        rows += first_end(texts + end, more);
        rests += rest_rows(texts + end, more);
        if (rests > REST_ROWS || shared > *prefix + SHARED || *prefix > shared + SHARED ||
            rows > BATCH_ROWS + (n_groups + 1) * *prefix)
            break;
    }
    if (n_groups == 1 && texts[0]->n_context > *prefix + BATCH_ROWS)
        *prefix = texts[0]->n_context - 1; /* passes of engine_feed can be interrupted everywhere */
    return end;
}

/* The number of a context's tokens that the engine's session holds, without its last. */
static size_t n_held(const struct scorer *s, const struct scored_text *text)
{
    const mgpt_session *base = s->base;
    return engine_n_common(mgpt_tokens(base), mgpt_pos(base), text->tokens, text->n_context - 1);
}

/* Scores what follows the context in groups of more than one text. */
static int score_rests(struct scorer *s, struct scored_text **texts, size_t n)
{
    int status = MGPT_OK;
    for (size_t i = 0, n_group, k = 0; i < n && status == MGPT_OK; i += n_group, k++) {
        n_group = group_size(texts + i, n - i);
        size_t held = texts[i]->n_context;
        for (size_t t = i; n_group > 1 && t < i + n_group && status == MGPT_OK; t++) {
            if (score_n_run(texts[t]) > held)
                status = add_job(s, &s->slots[s->n_jobs], s->contexts[k], texts + t, 1, held,
                                 score_n_run(texts[t]));
            if (status == MGPT_OK && (s->n_jobs == SCORE_SLOTS || s->n_rows >= BATCH_ROWS))
                status = run_jobs(s);
        }
    }
    return status == MGPT_OK ? run_jobs(s) : status;
}

int score_batch(struct scorer *s, struct scored_text **texts, size_t n, size_t prefix)
{
    size_t held = n_held(s, texts[0]);
    int status = MGPT_OK;
    if (prefix >= held + SHARED)
        status = mgpt_rewind(s->base, held, &s->err) < 0
                     ? s->err.status
                     : engine_feed(s->engine, s->base, texts[0]->tokens + held, prefix - held, NULL,
                                   &s->err);
    for (size_t i = 0, n_group; i < n && status == MGPT_OK; i += n_group) {
        n_group = group_size(texts + i, n - i);
        status = add_job(s, &s->contexts[s->n_jobs], s->base, texts + i, n_group,
                         n_held(s, texts[i]), first_end(texts + i, n_group));
    }
    if (status == MGPT_OK)
        status = run_jobs(s);
    if (status == MGPT_OK)
        status = score_rests(s, texts, n);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        texts[i]->is_done = 1;
    return status;
}

void scorer_close(struct scorer *s)
{
    for (size_t i = 0; i < SCORE_SLOTS; i++)
        mgpt_session_free(s->slots[i]), mgpt_session_free(s->contexts[i]);
}
