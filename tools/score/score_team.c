/* Texts for all threads. See score_texts.h.
 *
 * Threads inside a pass pay for large models. For others each thread has a scorer of its own: it takes one batch after the
 * other, or, of a small model, a part of the texts (score_walk.h). What a text's numbers are does not depend on it.
 */
#include "score/score_texts.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "score/score_walk.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Bytes of weights that each core's caches hold about: such a model is faster with a batch for each thread. */
enum { WORTH_A_SCORER = 32 << 20 };

/* ---- windows ---- */

int score_rolls(const struct score_team *s, const struct scored_text *text)
{
    return text->text && text->n_scored > s->windows.window;
}

/* Stores the windows of a text. Returns their number. */
static size_t cut_windows(const struct score_team *s, const struct scored_text *t,
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

/* ---- threads ---- */

size_t score_n_scorers(const struct engine *e)
{
    if (e->info.bytes_per_token >= WORTH_A_SCORER || e->check_finite)
        return 1;
    return (size_t)(e->n_threads > 0 ? e->n_threads : pool_cores(NULL, 0));
}

/* Sessions of a thread. With several threads they have one each; the engine's has as many as were asked for. */
static int open_scorer(struct score_team *s, size_t i, mgpt_error *err)
{
    struct scorer *own = &s->scorers[i];
    mgpt_session *base = s->engine->session;
    own->engine = s->engine;
    own->base = base;
    if (s->n > 1) {
        mgpt_session_params params = {.n_ctx = s->engine->n_ctx, .n_threads = 1};
        engine_read_kv(s->engine, &params.kv_type);
        base = mgpt_session_new(s->engine->model, &params, err);
        own->base = base ? engine_fork(s->engine, base, err) : NULL;
    }
    if (base != s->engine->session)
        mgpt_session_free(base);
    if (!own->base)
        return err->status;
    if (walk_fits(s->engine) && !(s->walks[i] = walk_open(s->engine, own->base, s->n, err)))
        return err->status;
    return MGPT_OK;
}

static int open_team(struct score_team *s, mgpt_error *err)
{
    int status = MGPT_OK;
    s->n = score_n_scorers(s->engine);
    s->pool = s->n > 1 ? pool_new((int)s->n, err) : NULL;
    if (s->n > 1 && !s->pool && s->engine->n_threads > 0)
        return err->status;
    s->n = s->pool ? s->n : 1;
    s->scorers = mem_new(s->n, sizeof *s->scorers);
    s->walks = mem_new(s->n, sizeof *s->walks);
    if (!s->scorers || !s->walks)
        return err_memory(err, "the texts", s->n * sizeof *s->scorers);
    for (size_t i = 0; i < s->n && status == MGPT_OK; i++)
        status = open_scorer(s, i, err);
    return status;
}

struct score_deal {
    struct score_team *team;
    struct scored_text **order;
    size_t n, n_batches;
    struct score_deal_batch {
        size_t from, n, prefix;
    } * batches;
    atomic_size_t n_taken;
    atomic_int failed; /* a status; the others stop too */
};

void score_show(const struct score_shown *s, size_t n_done, size_t n_all)
{
    if (s->line && n_all > 0)
        progress_show(s->line, s->from + (s->to - s->from) * n_done / n_all, s->all);
}

static void take_batches(void *deal, int worker, int n_workers)
{
    struct score_deal *d = deal;
    struct scorer *own = &d->team->scorers[worker];
    size_t i;
    (void)n_workers;
    while (!atomic_load(&d->failed) && (i = atomic_fetch_add(&d->n_taken, 1)) < d->n_batches) {
        const struct score_deal_batch *b = &d->batches[i];
        int status = score_batch(own, d->order + b->from, b->n, b->prefix);
        if (status < 0)
            atomic_store(&d->failed, status);
        if (worker == 0)
            score_show(&d->team->shown, i + 1, d->n_batches);
    }
}

static void take_texts(void *deal, int worker, int n_workers)
{
    struct score_deal *d = deal;
    size_t from, to;
    pool_split(d->n, worker, n_workers, &from, &to);
    int status = walk_texts(d->team->walks[worker], d->order + from, to - from,
                            worker == 0 ? &d->team->shown : NULL, &d->team->scorers[worker].err);
    if (status < 0)
        atomic_store(&d->failed, status);
}

/* Divides the sorted texts into batches. 0: out of memory. */
static int cut_batches(struct score_deal *d)
{
    qsort(d->order, d->n, sizeof *d->order, score_compare);
    for (size_t i = 0; i < d->n;) {
        struct score_deal_batch b = {.from = i};
        b.n = score_batch_size(d->order + i, d->n - i, &b.prefix);
        if (!arr_push(d->batches, b))
            return 0;
        i += b.n;
    }
    d->n_batches = arr_len(d->batches);
    return 1;
}

/* Runs texts and windows, which it sorts. Returns an exit code. */
static int score_order(struct score_team *s, struct scored_text **order, size_t n)
{
    struct score_deal d = {.team = s, .order = order, .n = n};
    mgpt_error err;
    int status = s->n > 0 ? MGPT_OK : open_team(s, &err);
    for (size_t i = 0; i < s->n && status == MGPT_OK; i++)
        s->scorers[i].err.status = MGPT_OK;
    if (status == MGPT_OK && !s->walks[0] && !cut_batches(&d))
        status = err_memory(&err, "the batches", n * sizeof *d.batches);
    if (status == MGPT_OK) {
        pool_run(s->pool, s->walks[0] ? take_texts : take_batches, &d);
        status = atomic_load(&d.failed);
        for (size_t i = s->n; i > 0 && i--;)
            err = s->scorers[i].err.status < 0 ? s->scorers[i].err : err;
    }
    arr_free(d.batches);
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

int score_texts(struct score_team *s, struct scored_text *texts, size_t n)
{
    size_t n_order = 0, n_parts = 0;
    mgpt_error err;
    for (size_t i = 0; i < n; i++) {
        texts[i].nll = 0;
        texts[i].is_done = texts[i].n_scored == 0;
        texts[i].n_windows = texts[i].n_scored > 0;
        if (score_rolls(s, &texts[i]))
            texts[i].n_windows = windows_count(&s->windows, texts[i].n_scored);
        n_parts += score_rolls(s, &texts[i]) ? texts[i].n_windows : 0;
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
        code = score_order(s, order, n_order);
    for (size_t i = 0, k = 0; i < n && order && parts; i++)
        if (score_rolls(s, &texts[i])) {
            join_windows(&texts[i], parts + k, texts[i].n_windows);
            k += texts[i].n_windows;
        }
    free(parts);
    free(order);
    return code;
}

void score_close(struct score_team *s)
{
    for (size_t i = 0; i < s->n && s->scorers && s->walks; i++) {
        walk_close(s->walks[i]);
        scorer_close(&s->scorers[i]);
        if (s->scorers[i].base != s->engine->session)
            mgpt_session_free(s->scorers[i].base);
    }
    free(s->scorers);
    free(s->walks);
    pool_free(s->pool);
    *s = (struct score_team){0};
}
