/* Running tokens: step, feed, sync, rewind, and one step of many sessions. feed.c has the passes;
 * here are the calls and the direct way of small models into the fused path. */
#include "base/error.h"
#include "base/mem.h"
#include "run/session.h"

int mgpt_feed(mgpt_session *s, const int32_t *tokens, size_t n, mgpt_error *err)
{
    if (!s || (!tokens && n))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_feed: NULL argument");
    if (session_free_for(s, "mgpt_feed", err) < 0)
        return MGPT_EARG;
    const mgpt_run run = {.session = s, .tokens = tokens, .n = n};
    const struct feed_call feed = {.call = "mgpt_feed", .runs = &run, .n = 1};
    return n ? feed_runs(&feed, err) : MGPT_OK;
}

/* 1 if the token can run without further checks or memory: fused path, no tap, valid token, room in
 * the session. A token takes some hundred nanoseconds then; mgpt_feed adds a fifth. */
static int is_ready(const mgpt_session *s, int32_t token)
{
    size_t pos = arr_len(s->tokens);
    return s->tap.points == 0 && takes_fused_path(s, 0) && !s->in_use && token >= 0 &&
           (size_t)token < s->model->shape.n_vocab && pos < s->n_ctx && pos < s->kv.own->cap &&
           pos < arr_cap(s->tokens);
}

const float *mgpt_step(mgpt_session *s, int32_t token, mgpt_error *err)
{
    if (s && is_ready(s, token) && arr_len(s->tokens) < s->scratch.score_stride) {
        fused_one(s, token);
        s->tokens[arr_len(s->tokens)] = token;
        feed_commit(s, 1);
        return s->logits;
    }
    return mgpt_feed(s, &token, 1, err) == MGPT_OK ? s->logits : NULL;
}

int mgpt_rewind(mgpt_session *s, size_t pos, mgpt_error *err)
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
    int status = mgpt_rewind(s, same, err);
    return status == MGPT_OK ? mgpt_feed(s, tokens + same, n - same, err) : status;
}

/* 1 if every session of a batch is ready (is_ready) and none is in it twice. */
static int are_ready(mgpt_session *const *sessions, const int32_t *tokens, size_t n)
{
    const mgpt_session *lead = sessions[0];
    size_t marked = 0;
    for (; marked < n; marked++) {
        mgpt_session *s = sessions[marked];
        if (!s || s->model != lead->model || s->in_use || !is_ready(s, tokens[marked]) ||
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
