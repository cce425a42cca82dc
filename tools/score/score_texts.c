/* Log-probabilities of many texts. See score_texts.h. */
#include "score/score_texts.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <stdlib.h>
#include <string.h>

/* A batch ends at this number of rows. A beginning that contexts share has passes of its own if that
 * saves this number of rows. */
enum { BATCH_ROWS = 768, SHARED = 16 };

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

/* Runs the jobs in common passes, with scratch and threads of the engine's session. */
static int run_jobs(struct scorer *s)
{
    mgpt_error err;
    s->runs[0] = (mgpt_run){.session = s->engine->session};
    int status = s->n_jobs ? engine_feed_many(s->engine, s->runs, s->n_runs + 1, &err) : MGPT_OK;
    if (status == MGPT_ESTOP && s->refused.status < 0)
        err = s->refused;
    s->n_jobs = s->n_runs = s->n_rows = 0;
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
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
    mgpt_error err;
    if (!holds(*session, tokens, n_held)) {
        mgpt_session_free(*session);
        *session = engine_fork(s->engine, from, &err);
    }
    *job = (struct score_job){.scorer = s, .texts = texts, .n = n};
    job->watcher = (struct watcher){MGPT_POINT_BIT(MGPT_LOGITS), score_logits, job, NULL};
    if (!*session || mgpt_rewind(*session, n_held, &err) < 0 ||
        engine_watch(s->engine, *session, &job->watcher, &job->steering, &err) < 0)
        return cli_fail(NULL, &err);
    size_t looked = texts[0]->n_context - 1 > n_held ? texts[0]->n_context - 1 : n_held;
    if (looked > n_held) {
        add_score_run(s, *session, tokens + n_held, looked - n_held);
        s->runs[s->n_runs].untapped = !engine_watches(s->engine);
    }
    add_score_run(s, *session, tokens + looked, end - looked);
    return EXIT_OK;
}

/* ---- batches ---- */

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

/* The number of tokens that two arrays begin with in common. */
static size_t n_common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

static size_t n_shared(const struct scored_text *a, const struct scored_text *b)
{
    return n_common(a->tokens, a->n_context, b->tokens, b->n_context);
}

/* The number of texts that have the context of the first one. */
static size_t group_size(struct scored_text **texts, size_t n)
{
    size_t n_group = 1;
    while (n_group < n && compare_contexts(&texts[0], &texts[n_group]) == 0)
        n_group++;
    return n_group;
}

/* How far a group's context is run with what follows it: to the end of a text that is alone. */
static size_t first_end(struct scored_text *const *group, size_t n)
{
    return n == 1 ? score_n_run(*group) : group[0]->n_context;
}

/* The number of texts whose contexts are run together: groups that share about the same number of
 * tokens, *prefix. A single one has its passes alone up to what it shares with the next. */
static size_t batch_size(struct scored_text **texts, size_t n, size_t *prefix)
{
    size_t end = group_size(texts, n), rows = first_end(texts, end), n_groups = 1;
    *prefix = end < n ? n_shared(texts[0], texts[end]) : 0;
    for (size_t more; end < n && n_groups < SCORE_SLOTS; end += more, n_groups++) {
        size_t shared = n_shared(texts[end - 1], texts[end]);
        more = group_size(texts + end, n - end);
        rows += first_end(texts + end, more);
        if (shared > *prefix + SHARED || *prefix > shared + SHARED ||
            rows > BATCH_ROWS + (n_groups + 1) * *prefix)
            break;
    }
    if (n_groups == 1 && texts[0]->n_context > *prefix + BATCH_ROWS)
        *prefix = texts[0]->n_context - 1; /* passes of engine_sync can be interrupted everywhere */
    return end;
}

/* The number of a context's tokens that the engine's session holds, without its last. */
static size_t n_held(const struct scorer *s, const struct scored_text *text)
{
    const mgpt_session *base = s->engine->session;
    return n_common(mgpt_tokens(base), mgpt_pos(base), text->tokens, text->n_context - 1);
}

/* Scores what follows the context in groups of more than one text. */
static int score_rests(struct scorer *s, struct scored_text **texts, size_t n)
{
    int code = EXIT_OK;
    for (size_t i = 0, n_group, k = 0; i < n && code == EXIT_OK; i += n_group, k++) {
        n_group = group_size(texts + i, n - i);
        size_t held = texts[i]->n_context;
        for (size_t t = i; n_group > 1 && t < i + n_group && code == EXIT_OK; t++) {
            if (score_n_run(texts[t]) > held)
                code = add_job(s, &s->slots[s->n_jobs], s->contexts[k], texts + t, 1, held,
                               score_n_run(texts[t]));
            if (code == EXIT_OK && (s->n_jobs == SCORE_SLOTS || s->n_rows >= BATCH_ROWS))
                code = run_jobs(s);
        }
    }
    return code == EXIT_OK ? run_jobs(s) : code;
}

static int score_batch(struct scorer *s, struct scored_text **texts, size_t n, size_t prefix)
{
    struct engine *e = s->engine;
    int code = EXIT_OK;
    if (prefix >= n_held(s, texts[0]) + SHARED)
        code = engine_sync(e, e->session, texts[0]->tokens, prefix);
    for (size_t i = 0, n_group; i < n && code == EXIT_OK; i += n_group) {
        n_group = group_size(texts + i, n - i);
        code = add_job(s, &s->contexts[s->n_jobs], e->session, texts + i, n_group,
                       n_held(s, texts[i]), first_end(texts + i, n_group));
    }
    if (code == EXIT_OK)
        code = run_jobs(s);
    return code == EXIT_OK ? score_rests(s, texts, n) : code;
}

/* ---- windows ---- */

int score_rolls(const struct scorer *s, const struct scored_text *text)
{
    return text->text && text->n_scored > s->windows.window;
}

/* Stores the windows of a text. Returns their number. */
static size_t cut_windows(const struct scorer *s, const struct scored_text *t,
                          struct scored_text *parts)
{
    size_t n = 0;
    for (size_t done = 0; done < t->n_scored; n++) {
        struct score_window w = windows_next(&s->windows, done, t->n_scored - done);
        parts[n] = (struct scored_text){.tokens = t->tokens + w.first,
                                        .n_context = w.n_seen,
                                        .n_scored = w.n_scored,
                                        .logprobs = t->logprobs + done,
                                        .top = t->top ? t->top + done * t->n_top : NULL,
                                        .n_top = t->n_top};
        done += w.n_scored;
    }
    return n;
}

/* Adds up the numbers of a text whose n windows have theirs. */
static void join_windows(struct scored_text *t, const struct scored_text *parts, size_t n)
{
    t->is_done = 1;
    for (size_t i = 0; i < n; i++)
        t->is_done &= parts[i].is_done;
    for (size_t i = 0; i < t->n_scored && t->is_done; i++)
        t->nll -= t->logprobs[i];
}

/* ---- all of them ---- */

/* Runs texts and windows, which it sorts. */
static int score_sorted(struct scorer *s, struct scored_text **order, size_t n)
{
    int code = EXIT_OK;
    qsort(order, n, sizeof *order, compare_contexts);
    for (size_t i = 0, some, prefix; i < n && code == EXIT_OK; i += some) {
        some = batch_size(order + i, n - i, &prefix);
        code = score_batch(s, order + i, some, prefix);
        for (size_t k = i; k < i + some && code == EXIT_OK; k++)
            order[k]->is_done = 1;
    }
    return code;
}

int score_texts(struct scorer *s, struct scored_text *texts, size_t n)
{
    size_t n_order = 0, n_parts = 0;
    mgpt_error err;
    for (size_t i = 0; i < n; i++) {
        texts[i].nll = 0;
        texts[i].is_done = texts[i].n_scored == 0;
        texts[i].n_windows = texts[i].n_scored > 0;
        if (score_rolls(s, &texts[i]))
            texts[i].n_windows = windows_count(&s->windows, texts[i].n_scored);
        n_parts += texts[i].n_windows;
    }
    struct scored_text **order = mem_new(n + n_parts + 1, sizeof *order);
    struct scored_text *parts = mem_new(n_parts + 1, sizeof *parts);
    int code = order && parts ? EXIT_OK : EXIT_FULL;
    if (code == EXIT_FULL) {
        err_memory(&err, "the texts", (n + n_parts + 1) * sizeof *order);
        cli_fail(NULL, &err);
    }
    for (size_t i = 0, k = 0; i < n && code == EXIT_OK; i++) {
        size_t end = k + (score_rolls(s, &texts[i]) ? cut_windows(s, &texts[i], parts + k) : 0);
        if (end == k && texts[i].n_scored > 0)
            order[n_order++] = &texts[i];
        while (k < end)
            order[n_order++] = &parts[k++];
    }
    if (code == EXIT_OK)
        code = score_sorted(s, order, n_order);
    for (size_t i = 0, k = 0; i < n && order && parts; i++)
        if (score_rolls(s, &texts[i])) {
            join_windows(&texts[i], parts + k, texts[i].n_windows);
            k += texts[i].n_windows;
        }
    free(parts);
    free(order);
    return code;
}

void score_close(struct scorer *s)
{
    for (size_t i = 0; i < SCORE_SLOTS; i++)
        mgpt_session_free(s->slots[i]), mgpt_session_free(s->contexts[i]);
    *s = (struct scorer){0};
}
