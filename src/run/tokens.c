/* Running tokens: step, feed, sync, rewind, and one step of many sessions.
 *
 * Every call does the same steps: check the arguments; reserve all memory that the call needs,
 * which can fail and then has changed nothing; run the page over uncommitted rows; commit. Nothing
 * allocates after the reservation.
 */
#include "base/error.h"
#include "base/mem.h"
#include "run/session.h"

#include <string.h>

static int check_token(const mgpt_session *s, int32_t token, size_t i, mgpt_error *err)
{
    if (token >= 0 && (size_t)token < s->model->shape.n_vocab)
        return MGPT_OK;
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                   "token %d (number %zu) is not in the vocabulary of %zu", token, i,
                   s->model->shape.n_vocab);
}

/* Rows of scores needed: a block for each thread, or all heads of one query (of a block of queries
 * when a tap reads scores or weights), whichever is more. */
static size_t score_rows(const mgpt_session *s, size_t queries)
{
    size_t blocks = (size_t)s->n_threads * BLOCK_ROWS, watched = 1;
    if (s->tap.points & ATTENTION_POINTS)
        watched = queries < BLOCK_ROWS ? queries : BLOCK_ROWS;
    size_t rows = s->model->shape.n_head * watched;
    return rows > blocks ? rows : blocks;
}

/* Reserves scores for `queries` queries of a session over n keys. The stride is an odd number of
 * panels: with a power of two the rows of a block would map to the same cache lines. */
static int reserve_scores(mgpt_session *s, size_t queries, size_t n, mgpt_error *err)
{
    struct scratch *sc = &s->scratch;
    if (session_ready(s, err) < 0)
        return MGPT_EMEM;
    size_t rows = score_rows(s, queries), stride = sc->score_stride;
    if (n <= stride && rows <= sc->score_rows)
        return MGPT_OK;
    rows = rows > sc->score_rows ? rows : sc->score_rows;
    if (n > stride)
        stride = (panels_of(n > 2 * stride ? n : 2 * stride) | 1) * PANEL;
    if (!arr_reserve(sc->scores, rows * stride))
        return err_memory(err, "attention scores", rows * stride * sizeof(float));
    sc->score_rows = rows;
    sc->score_stride = stride;
    return MGPT_OK;
}

/* Reserves memory for n more tokens. */
static int prepare_session(mgpt_session *s, size_t n, mgpt_error *err)
{
    size_t pos = arr_len(s->tokens);
    if (n > s->n_ctx - pos)
        return err_set(err, MGPT_EFULL, MGPT_NO_OFFSET,
                       "context full: %zu tokens held and %zu more, room for %zu", pos, n,
                       s->n_ctx);
    if (!arr_reserve(s->tokens, pos + n))
        return err_memory(err, "tokens", (pos + n) * sizeof *s->tokens);
    size_t n_angles = (pos + n) * s->model->n_cs;
    if (!arr_reserve(s->angles, n_angles))
        return err_memory(err, "rope angles", n_angles * sizeof *s->angles);
    return kv_reserve(&s->kv, pos, n, err);
}

/* Reserves `rows` rows of logits in the scratch. A single row goes to the spare buffer instead. */
static int reserve_logits(mgpt_session *s, size_t rows, mgpt_error *err)
{
    size_t n = rows * s->model->shape.n_vocab;
    if (rows > 1 && !arr_reserve(s->scratch.logits, n))
        return err_memory(err, "logits", n * sizeof(float));
    return MGPT_OK;
}

static int wants_all_logits(const mgpt_session *s)
{
    return (s->tap.points & (MGPT_POINT_BIT(MGPT_FINAL) | MGPT_POINT_BIT(MGPT_LOGITS))) != 0;
}

/* Chooses between the two compilations of the page (session.h); no other place does. */
static int takes_fused_path(const mgpt_session *s)
{
    return s->model->fused && s->kv.type == KV_F32 && s->tap.points == 0;
}

/* Runs one pass over the segments in lead's scratch. Writes each segment's last logits to its
 * session's spare buffer. Returns 0 when a tap has asked to stop. */
static int run_pass(mgpt_session *lead, const int32_t *tokens, size_t n, size_t n_segments)
{
    struct scratch *sc = &lead->scratch;
    pass r = {.model = lead->model,
              .kernels = &lead->model->kernels,
              .pool = lead->pool,
              .s = sc,
              .tokens = tokens,
              .n = n,
              .segments = sc->segments,
              .n_segments = n_segments};
    int fused = 1;
    for (size_t i = 0; i < n_segments; i++) {
        fused = fused && takes_fused_path(sc->segments[i].session);
        r.points |= sc->segments[i].session->tap.points;
        sc->segments[i].out = r.n_out;
        r.n_out += sc->segments[i].n_out;
    }
    if (fused) {
        fused_forward(&r);
        return 1;
    }
    size_t V = lead->model->shape.n_vocab;
    r.logits = (mat){r.n_out > 1 ? sc->logits : sc->segments[0].session->spare, r.n_out, V};
    panel_forward(&r);
    for (size_t i = 0; r.n_out > 1 && i < n_segments; i++) {
        const struct segment *seg = &sc->segments[i];
        if (seg->n_out)
            memcpy(seg->session->spare, sc->logits + (seg->out + seg->n_out - 1) * V,
                   V * sizeof(float));
    }
    return !r.stopped;
}

/* Appends the tokens to the session and swaps its logits with the spare ones. */
static void commit(mgpt_session *s, const int32_t *tokens, size_t n)
{
    size_t pos = arr_len(s->tokens);
    if (n == 1)
        s->tokens[pos] = *tokens;
    else
        memmove(s->tokens + pos, tokens, n * sizeof *tokens); /* they may be the session's own */
    arr_set_len(s->tokens, pos + n);
    float *logits = s->spare;
    s->spare = s->logits;
    s->logits = logits;
    s->has_logits = 1;
}

static int stopped(mgpt_error *err)
{
    return err_set(err, MGPT_ESTOP, MGPT_NO_OFFSET, "stopped by a tap");
}

/* Index of `tokens` in the session's own array, which may move when it grows; or SIZE_MAX. */
static size_t index_in_own(const mgpt_session *s, const int32_t *tokens)
{
    uintptr_t own = (uintptr_t)s->tokens, at = (uintptr_t)tokens;
    int inside = s->tokens && at >= own && at < own + arr_cap(s->tokens) * sizeof *tokens;
    return inside ? (at - own) / sizeof *tokens : SIZE_MAX;
}

int mgpt_feed(mgpt_session *s, const int32_t *tokens, size_t n, mgpt_error *err)
{
    if (!s || (!tokens && n))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_feed: NULL argument");
    if (session_free_for(s, "mgpt_feed", err) < 0)
        return MGPT_EARG;
    size_t own = index_in_own(s, tokens);
    int status = n ? prepare_session(s, n, err) : MGPT_OK;
    tokens = own != SIZE_MAX ? s->tokens + own : tokens;
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        status = check_token(s, tokens[i], i, err);
    size_t pos = arr_len(s->tokens), chunk = n < s->n_chunk ? n : s->n_chunk;
    int all = wants_all_logits(s);
    if (status < 0 || n == 0)
        return status;
    if (reserve_scores(s, chunk, pos + n, err) < 0 || reserve_logits(s, all ? chunk : 1, err) < 0)
        return MGPT_EMEM;
    s->in_use = 1;
    for (size_t done = 0; done < n; done += chunk) {
        size_t rows = n - done < chunk ? n - done : chunk;
        size_t last = done + rows == n;
        s->scratch.segments[0] = (struct segment){
            .session = s, .n = rows, .pos = pos + done, .n_out = all ? rows : last};
        if (!run_pass(s, tokens + done, rows, 1)) {
            s->in_use = 0;
            return stopped(err);
        }
    }
    s->in_use = 0;
    commit(s, tokens, n);
    return MGPT_OK;
}

/* 1 if the token can run without further checks or memory: fused path, no tap, valid token, room in
 * the session. A token takes some hundred nanoseconds then; mgpt_feed adds a fifth. */
static int is_ready(const mgpt_session *s, int32_t token)
{
    size_t pos = arr_len(s->tokens);
    return takes_fused_path(s) && !s->in_use && token >= 0 &&
           (size_t)token < s->model->shape.n_vocab && pos < s->n_ctx && pos < s->kv.own->cap &&
           pos < arr_cap(s->tokens);
}

const float *mgpt_step(mgpt_session *s, int32_t token, mgpt_error *err)
{
    if (s && is_ready(s, token) && arr_len(s->tokens) < s->scratch.score_stride) {
        fused_one(s, token);
        commit(s, &token, 1);
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

static void set_free(mgpt_session *const *sessions, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sessions[i]->in_use = 0;
}

/* Checks a batch. Sets in_use of each session, which finds duplicates; it stays set on success. */
static int check_sessions(mgpt_session *const *sessions, const int32_t *tokens, size_t n,
                          mgpt_error *err)
{
    size_t marked = 0;
    int status = MGPT_OK;
    for (; status == MGPT_OK && marked < n; marked++) {
        mgpt_session *s = sessions[marked];
        if (!s || s->model != sessions[0]->model || s->in_use) {
            status = err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                             "mgpt_step_many: session %zu is NULL, of another model, a duplicate "
                             "or running (called by a tap)",
                             marked);
            break;
        }
        s->in_use = 1;
        status = check_token(s, tokens[marked], marked, err);
    }
    if (status < 0)
        set_free(sessions, marked);
    return status;
}

/* Reserves memory in every session, and in the scratch of the first, which all use. */
static int prepare_batch(mgpt_session *const *sessions, size_t n, size_t group, mgpt_error *err)
{
    size_t keys = 0;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < n; i++) {
        status = prepare_session(sessions[i], 1, err);
        size_t pos = arr_len(sessions[i]->tokens);
        keys = pos + 1 > keys ? pos + 1 : keys;
    }
    if (status == MGPT_OK)
        status = reserve_scores(sessions[0], 1, keys, err);
    if (status == MGPT_OK)
        status = reserve_logits(sessions[0], group, err);
    return status;
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
    set_free(sessions, marked);
    return marked == n;
}

/* Runs the passes of a checked batch; commits nothing. */
static int run_batch(mgpt_session *const *sessions, const int32_t *tokens, size_t n,
                     mgpt_error *err)
{
    mgpt_session *lead = sessions[0];
    size_t group = n < lead->n_chunk ? n : lead->n_chunk;
    int status = prepare_batch(sessions, n, group, err);
    if (status < 0)
        return status;
    for (size_t done = 0; done < n; done += group) {
        size_t rows = n - done < group ? n - done : group;
        for (size_t i = 0; i < rows; i++) {
            mgpt_session *s = sessions[done + i];
            lead->scratch.segments[i] = (struct segment){
                .session = s, .row = i, .n = 1, .pos = arr_len(s->tokens), .n_out = 1};
        }
        if (!run_pass(lead, tokens + done, rows, rows))
            return stopped(err);
    }
    return MGPT_OK;
}

int mgpt_step_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n, mgpt_error *err)
{
    if (n == 0)
        return MGPT_OK;
    if (!sessions || !tokens || !sessions[0])
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_step_many: NULL argument");
    if (are_ready(sessions, tokens, n)) {
        fused_many(sessions, tokens, n);
        for (size_t i = 0; i < n; i++)
            commit(sessions[i], &tokens[i], 1);
        return MGPT_OK;
    }
    int status = check_sessions(sessions, tokens, n, err);
    if (status < 0)
        return status;
    status = run_batch(sessions, tokens, n, err);
    set_free(sessions, n);
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        commit(sessions[i], &tokens[i], 1);
    return status;
}
