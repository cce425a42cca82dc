/* Running tokens: step, feed, sync, rewind, and one step of many sessions. feed.c has the passes;
 * here are the calls and the direct way of small models into the fused path. */
#include "base/error.h"
#include "base/mem.h"
#include "page/fused.h"
#include "run/session.h"

#include <string.h>

/* 1 if n tokens can run without further checks or memory: fused path, no tap, valid tokens, room in
 * the session. A token takes some hundred nanoseconds then; feed_runs adds a fifth. */
static int is_ready(const mgpt_session *s, const int32_t *tokens, size_t n)
{
    size_t pos = arr_len(s->tokens), end = pos + n;
    if (s->tap.points != 0 || session_stop_asked(s) || !takes_fused_path(s, 0) || s->in_use ||
        s->kv.interleaved != s->model->fused->interleaved || n > s->n_ctx - pos ||
        end > s->kv.own->cap || end > arr_cap(s->tokens))
        return 0;
    size_t valid = 0;
    while (valid < n && tokens[valid] >= 0 && (size_t)tokens[valid] < s->model->shape.n_vocab)
        valid++;
    return valid == n;
}

int mgpt_feed(mgpt_session *s, const int32_t *tokens, size_t n, mgpt_error *err)
{
    if (!s || (!tokens && n))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_feed: NULL argument");
    if (session_free_for(s, "mgpt_feed", err) < 0)
        return MGPT_EARG;
    if (n == 0)
        return MGPT_OK;
    size_t pos = arr_len(s->tokens);
    if (is_ready(s, tokens, n) && pos + n <= s->scratch.score_stride) {
        fused_tokens(s, tokens, n);
        memmove(s->tokens + pos, tokens, n * sizeof *tokens); /* they may be the session's own */
        feed_commit(s, n);
        return MGPT_OK;
    }
    const mgpt_run run = {.session = s, .tokens = tokens, .n = n};
    const struct feed_call feed = {.call = "mgpt_feed", .runs = &run, .n = 1};
    return feed_runs(&feed, err);
}

const float *mgpt_step(mgpt_session *s, int32_t token, mgpt_error *err)
{
    if (s && is_ready(s, &token, 1) && arr_len(s->tokens) < s->scratch.score_stride) {
        fused_one(s, token);
        s->tokens[arr_len(s->tokens)] = token;
        feed_commit(s, 1);
        return s->logits;
    }
    return mgpt_feed(s, &token, 1, err) == MGPT_OK ? s->logits : NULL;
}

void mgpt_stop(mgpt_session *s)
{
    if (s)
        atomic_store_explicit(&s->stop, 1, memory_order_relaxed);
}

static int rewind_tokens(mgpt_session *s, size_t pos, mgpt_error *err)
{
    if (!s || pos > arr_len(s->tokens))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_rewind: position %zu, %zu tokens held",
                       pos, mgpt_pos(s));
    if (session_free_for(s, "mgpt_rewind", err) < 0)
        return MGPT_EARG;
    if (pos == arr_len(s->tokens))
        return MGPT_OK;
    arr_set_len(s->tokens, pos);
    s->has_logits = 0;
    return MGPT_OK;
}

int mgpt_rewind(mgpt_session *s, size_t pos, mgpt_error *err)
{
    int status = rewind_tokens(s, pos, err);
    if (status == MGPT_OK)
        atomic_store_explicit(&s->stop, 0, memory_order_relaxed);
    return status;
}

int mgpt_sync(mgpt_session *s, const int32_t *tokens, size_t n, mgpt_error *err)
{
    if (!s || (!tokens && n))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_sync: NULL argument");
    if (n > s->n_ctx)
        return err_set(err, MGPT_EFULL, MGPT_NO_OFFSET, "context full: %zu tokens, room for %zu", n,
                       s->n_ctx);
    size_t held = arr_len(s->tokens), same = 0;
    while (same < n && same < held && tokens[same] == s->tokens[same])
        same++;
    if (same == n && (n < held || !s->has_logits) && n > 0)
        same = n - 1; /* the last token's logits are not stored: run it again */
    int status = rewind_tokens(s, same, err);
    return status == MGPT_OK ? mgpt_feed(s, tokens + same, n - same, err) : status;
}

/* 1 if every session of a batch is ready (is_ready) and none is in it twice. */
static int are_ready(mgpt_session *const *sessions, const int32_t *tokens, size_t n)
{
    const mgpt_session *lead = sessions[0];
    size_t marked = 0;
    for (; marked < n; marked++) {
        mgpt_session *s = sessions[marked];
        if (!s || s->model != lead->model || s->in_use || !is_ready(s, tokens + marked, 1) ||
            arr_len(s->tokens) >= lead->scratch.score_stride)
            break;
        s->in_use = 1;
    }
    for (size_t i = 0; i < marked; i++)
        sessions[i]->in_use = 0;
    return marked == n;
}

int mgpt_step_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n, mgpt_error *err)
{
    const struct feed_call feed = {"mgpt_step_many", NULL, sessions, tokens, n};
    if (n == 0)
        return MGPT_OK;
    if (!sessions || !tokens || !sessions[0])
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_step_many: NULL argument");
    if (!are_ready(sessions, tokens, n))
        return feed_runs(&feed, err);
    fused_many(sessions, tokens, n);
    for (size_t i = 0; i < n; i++) {
        sessions[i]->tokens[arr_len(sessions[i]->tokens)] = tokens[i];
        feed_commit(sessions[i], 1);
    }
    return MGPT_OK;
}
