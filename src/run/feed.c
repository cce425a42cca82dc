/* The call that runs tokens: one run or several, in passes over the model.
 *
 * Every call does the same steps: check the arguments; reserve all memory that the call needs,
 * which can fail and then has changed nothing; run the page over uncommitted rows; commit. Nothing
 * allocates after the reservation. Runs of one session are adjacent and follow each other; the
 * first run's session lends its scratch and threads.
 */
#include "base/error.h"
#include "base/mem.h"
#include "page/fused.h"
#include "run/session.h"

#include <string.h>

/* Points whose rows attention and MLP compute. */
static const uint64_t LATE_POINTS = MGPT_POINT_BIT(MGPT_FINAL) - MGPT_POINT_BIT(MGPT_SCORES);

/* The next token to run: number `done` of run i, at position pos of a session that ends at `end`. */
struct feed_progress {
    size_t i, done, pos, end;
};

static mgpt_run run_at(const struct feed_call *f, size_t i)
{
    if (f->runs)
        return f->runs[i];
    return (mgpt_run){.session = f->sessions[i], .tokens = f->tokens + i, .n = 1};
}

/* 1 if run i is the first one of its session. */
static int is_first(const struct feed_call *f, size_t i)
{
    return i == 0 || run_at(f, i).session != run_at(f, i - 1).session;
}

/* The tokens of all runs of the session of run i, which is the first of them. */
static size_t n_of_session(const struct feed_call *f, size_t i)
{
    size_t n = run_at(f, i).n;
    while (++i < f->n && !is_first(f, i))
        n += run_at(f, i).n;
    return n;
}

static uint64_t run_points(const mgpt_run *run)
{
    return run->untapped ? 0 : run->session->tap.points;
}

/* ---- checks ---- */

static int refuse_run(const struct feed_call *f, size_t i, const char *what, mgpt_error *err)
{
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%s: run %zu: %s", f->call, i, what);
}

/* The run at position pos begins in a layer: its x is given, and what is before that layer. */
static int check_begin(const struct feed_call *f, size_t i, size_t pos, mgpt_error *err)
{
    const mgpt_run run = run_at(f, i);
    const mgpt_session *s = run.session, *clean = run.clean;
    if (run.layer < 0 || (size_t)run.layer >= s->model->shape.n_layer)
        return refuse_run(f, i, "the model has no such layer", err);
    if (!run.resid)
        return refuse_run(f, i, "a layer, but resid is NULL", err);
    if (run.layer == 0)
        return MGPT_OK;
    if (!clean || clean->model != s->model || clean->kv_type != s->kv_type)
        return refuse_run(f, i, "`clean` is NULL, of another model or another kv_type", err);
    int same = arr_len(clean->tokens) >= pos + run.n;
    for (size_t j = 0; same && j < run.n; j++)
        same = clean->tokens[pos + j] == run.tokens[j];
    if (!same)
        return refuse_run(f, i, "`clean` does not hold its tokens at its positions", err);
    return MGPT_OK;
}

static int check_run(const struct feed_call *f, size_t i, size_t pos, mgpt_error *err)
{
    const mgpt_run run = run_at(f, i);
    const mgpt_session *s = run.session;
    size_t n_vocab = s->model->shape.n_vocab;
    if (run.n > s->n_ctx - pos)
        return err_set(err, MGPT_EFULL, MGPT_NO_OFFSET,
                       "context full: %zu tokens held and %zu more, room for %zu", pos, run.n,
                       s->n_ctx);
    if (!run.tokens && run.n)
        return refuse_run(f, i, "tokens is NULL", err);
    for (size_t j = 0; j < run.n; j++)
        if (run.tokens[j] < 0 || (size_t)run.tokens[j] >= n_vocab)
            return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                           "token %d (number %zu) is not in the vocabulary of %zu", run.tokens[j],
                           f->runs ? j : i, n_vocab);
    return run.resid || run.layer ? check_begin(f, i, pos, err) : MGPT_OK;
}

/* Clears in_use of the sessions of runs [0, n). */
static void set_free(const struct feed_call *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_at(f, i).session->in_use = 0;
}

static int check_session(const struct feed_call *f, size_t i, int first, mgpt_error *err)
{
    const mgpt_session *s = run_at(f, i).session;
    if (s && s->model == run_at(f, 0).session->model && !(first && s->in_use))
        return MGPT_OK;
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                   "%s: session %zu is NULL, of another model, a duplicate or running (called by a "
                   "tap)",
                   f->call, i);
}

/* Checks the runs. Sets in_use of each session, which finds duplicates; it stays set on success. */
static int check_runs(const struct feed_call *f, mgpt_error *err)
{
    size_t pos = 0;
    for (size_t i = 0; i < f->n; i++) {
        const mgpt_run run = run_at(f, i);
        int first = f->sessions || is_first(f, i);
        int status = check_session(f, i, first, err);
        if (status == MGPT_OK) {
            pos = first ? arr_len(run.session->tokens) : pos;
            status = check_run(f, i, pos, err);
        }
        if (status < 0) {
            set_free(f, i);
            return status;
        }
        run.session->in_use = 1;
        pos += run.n;
    }
    return MGPT_OK;
}

/* ---- memory ---- */

/* Rows of scores needed: a block for each thread, or all heads of one query (of a block of queries
 * when a tap reads scores or weights), whichever is more. */
static size_t score_rows(const mgpt_session *s, size_t watched)
{
    size_t blocks = (size_t)s->n_threads * BLOCK_ROWS;
    size_t rows = s->model->shape.n_head * (watched < BLOCK_ROWS ? watched : BLOCK_ROWS);
    return rows > blocks ? rows : blocks;
}

/* Reserves scores over n keys and a sink, for `watched` queries if a tap reads them, else 1. The stride is an
 * odd number of panels: with a power of two the rows of a block would map to the same cache lines. */
static int reserve_scores(mgpt_session *s, size_t watched, size_t n, mgpt_error *err)
{
    struct scratch *sc = &s->scratch;
    if (session_ready(s, err) < 0)
        return MGPT_EMEM;
    size_t rows = score_rows(s, watched), stride = sc->score_stride;
    if (n < stride && rows <= sc->score_rows)
        return MGPT_OK;
    rows = rows > sc->score_rows ? rows : sc->score_rows;
    if (n >= stride)
        stride = (panels_of(n >= 2 * stride ? n + 1 : 2 * stride) | 1) * PANEL;
    if (!arr_reserve(sc->scores, rows * stride))
        return err_memory(err, "attention scores", rows * stride * sizeof(float));
    sc->score_rows = rows;
    sc->score_stride = stride;
    return MGPT_OK;
}

/* Reserves `rows` rows of logits in the scratch, of whole panels for the fused path, elsewhere at
 * most LOGIT_ROWS. A single row goes to the spare buffer instead. */
static int reserve_logits(mgpt_session *s, size_t rows, mgpt_error *err)
{
    rows = s->model->fused || rows < LOGIT_ROWS ? rows : LOGIT_ROWS;
    size_t n = rows * panels_of(s->model->shape.n_vocab) * PANEL;
    if (rows > 1 && !arr_reserve(s->scratch.logits, n))
        return err_memory(err, "logits", n * sizeof(float));
    return MGPT_OK;
}

/* Makes room for the runs of the session of run i, which is the first of them, and writes their
 * tokens after the session's. They may be in the session's own array, which may move. */
static int reserve_session(const struct feed_call *f, size_t i, mgpt_error *err)
{
    mgpt_session *s = run_at(f, i).session;
    size_t pos = arr_len(s->tokens), n = n_of_session(f, i);
    uintptr_t own = (uintptr_t)s->tokens, own_end = own + arr_cap(s->tokens) * sizeof *s->tokens;
    if (!arr_reserve(s->tokens, pos + n))
        return err_memory(err, "tokens", (pos + n) * sizeof *s->tokens);
    size_t n_angles = (pos + n) * s->model->n_cs;
    if (!arr_reserve(s->angles, n_angles))
        return err_memory(err, "rope angles", n_angles * sizeof *s->angles);
    for (size_t end = pos + n; pos < end; i++) {
        const mgpt_run run = run_at(f, i);
        uintptr_t at = (uintptr_t)run.tokens;
        const int32_t *from = run.tokens;
        if (s->tokens && at >= own && at < own_end)
            from = s->tokens + (at - own) / sizeof *from;
        if (run.n > 0)
            memmove(s->tokens + pos, from, run.n * sizeof *from);
        pos += run.n;
    }
    return kv_reserve(&s->kv, pos - n, n, err);
}

/* Reserves memory in every session, and in the scratch of the first, which all use. Sets *chunk,
 * the rows of a pass. */
static int reserve_runs(const struct feed_call *f, size_t *chunk, mgpt_error *err)
{
    mgpt_session *lead = run_at(f, 0).session;
    size_t rows = 0, keys = 0, n_out = 0;
    uint64_t points = 0;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < f->n; i++) {
        const mgpt_run run = run_at(f, i);
        rows += run.n;
        if (is_first(f, i)) {
            size_t end = arr_len(run.session->tokens) + n_of_session(f, i);
            keys = end > keys ? end : keys;
            status = reserve_session(f, i, err);
        }
        n_out += run_points(&run) & OUT_POINTS ? run.n : 1;
        points |= run_points(&run);
    }
    *chunk = rows < lead->n_chunk ? rows : lead->n_chunk;
    if (status == MGPT_OK)
        status = reserve_scores(lead, points & ATTENTION_POINTS ? *chunk : 1, keys, err);
    if (status == MGPT_OK)
        status = reserve_logits(lead, n_out < *chunk ? n_out : *chunk, err);
    return status;
}

/* ---- passes ---- */

/* The next n tokens of a run. The keys and values before its first layer are the clean session's. */
static struct segment next_segment(const mgpt_run *run, const struct feed_progress *at, size_t n)
{
    mgpt_session *s = run->session;
    struct segment seg = {.session = s, .n = n, .pos = at->pos, .points = run_points(run)};
    seg.is_last = at->pos + n == at->end;
    seg.n_out = seg.points & OUT_POINTS ? n : (size_t)seg.is_last;
    seg.n_last = seg.points & LATE_POINTS ? n : seg.n_out;
    if (run->resid) {
        seg.begin = (size_t)run->layer + 1;
        seg.from = s->model->backout != 0 ? 0 : seg.begin;
        seg.resid = run->resid + at->done * s->model->shape.n_embd;
    }
    if (run->layer > 0) {
        kv_interleave(&s->kv, at->pos, 0);
        kv_copy(&s->kv, &run->clean->kv, (size_t)run->layer, at->pos, n);
    }
    return seg;
}

/* Inserts it in order of `begin`. */
static void insert_segment(struct segment *segments, size_t n, struct segment seg)
{
    for (; n > 0 && segments[n - 1].begin > seg.begin; n--)
        segments[n] = segments[n - 1];
    segments[n] = seg;
}

/* 1 if the run takes the fused path when no other run hinders it. */
static int run_fuses(const mgpt_run *run)
{
    return !run->resid && takes_fused_path(run->session, run_points(run));
}

/* Makes the segments of the next pass, of up to `room` rows. Returns their number. All of them or none
 * take the fused path: a tapped session of a small model would hold up the others, and their caches would
 * be converted there and back. */
static size_t next_pass(const struct feed_call *f, struct feed_progress *at,
                        struct segment *segments, size_t room)
{
    size_t count = 0;
    int fuses = 0;
    while (at->i < f->n && room > 0) {
        const mgpt_run run = run_at(f, at->i);
        if (count > 0 && run.n > 0 && run_fuses(&run) != fuses)
            break;
        fuses = run.n > 0 ? run_fuses(&run) : fuses;
        size_t left = run.n - at->done, n = left < room ? left : room;
        if (at->done == 0 && is_first(f, at->i)) {
            at->pos = arr_len(run.session->tokens);
            at->end = at->pos + n_of_session(f, at->i);
        }
        if (n > 0)
            insert_segment(segments, count++, next_segment(&run, at, n));
        at->pos += n;
        room -= n;
        at->done = n < left ? at->done + n : 0;
        at->i += n == left;
    }
    return count;
}

int pass_stop_asked(const pass *p)
{
    const struct feed_call *f = p->call;
    for (size_t i = 0; i < f->n; i++)
        if (session_stop_asked(f->runs ? f->runs[i].session : f->sessions[i]))
            return 1;
    return 0;
}

/* Runs one pass in the scratch of the call's first session. Writes the last logits of each session to its spare buffer.
 * Returns 0 when a tap or mgpt_stop has asked to stop. */
static int run_pass(const struct feed_call *f, size_t n_segments)
{
    mgpt_session *lead = run_at(f, 0).session;
    struct scratch *sc = &lead->scratch;
    struct segment *segments = sc->segments;
    pass r = {.model = lead->model,
              .kernels = &lead->model->kernels,
              .pool = lead->pool,
              .s = sc,
              .call = f,
              .lead = lead,
              .segments = segments,
              .n_segments = n_segments,
              .n_all = n_segments};
    float *spare = NULL;
    uint64_t bytes = lead->model->packed_bytes;
    int fused = 1;
    for (size_t i = 0; i < n_segments; i++) {
        struct segment *seg = &segments[i];
        seg->row = r.n;
        seg->out = r.n_out;
        r.n += seg->n;
        r.n_out += seg->n_out;
        r.points |= seg->points;
        bytes += kv_bytes(&seg->session->kv, seg->pos);
        fused = fused && seg->begin == 0 && takes_fused_path(seg->session, seg->points);
        spare = seg->n_out ? seg->session->spare : spare;
    }
    if (pass_stop_asked(&r))
        return 0;
    for (size_t i = 0; i < n_segments; i++)
        kv_interleave(&segments[i].session->kv, segments[i].pos,
                      fused && lead->model->fused->interleaved);
    r.far = bytes >= MEMORY_FROM;
    r.logits = (mat){r.n_out > 1 ? sc->logits : spare, r.n_out, lead->model->shape.n_vocab};
    if (fused)
        fused_forward(&r);
    else
        panel_forward(&r);
    return !r.stopped && !pass_stop_asked(&r);
}

/* The call ends because a tap, or mgpt_stop of one of its sessions, asked for it. */
static int end_stopped(const struct feed_call *f, mgpt_error *err)
{
    int asked = 0;
    for (size_t i = 0; i < f->n; i++)
        asked |= atomic_exchange(&run_at(f, i).session->stop, 0);
    int *changed = &run_at(f, 0).session->scratch.copy_changed, was = *changed;
    *changed = 0;
    if (was)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "a tap changed keys or values of latent attention, which are copies");
    return err_set(err, MGPT_ESTOP, MGPT_NO_OFFSET, "stopped by %s", asked ? "mgpt_stop" : "a tap");
}

static int run_passes(const struct feed_call *f, size_t chunk, mgpt_error *err)
{
    mgpt_session *lead = run_at(f, 0).session;
    struct feed_progress at = {0};
    for (size_t n; (n = next_pass(f, &at, lead->scratch.segments, chunk)) > 0;)
        if (!run_pass(f, n)) {
            int status = model_pack_failed(lead->model, err);
            return status < 0 ? status : end_stopped(f, err);
        }
    return MGPT_OK;
}

int feed_runs(const struct feed_call *f, mgpt_error *err)
{
    size_t chunk;
    int status = check_runs(f, err);
    if (status < 0)
        return status;
    status = reserve_runs(f, &chunk, err);
    if (status == MGPT_OK)
        status = run_passes(f, chunk, err);
    set_free(f, f->n);
    for (size_t i = 0; status == MGPT_OK && i < f->n; i++) {
        size_t n = is_first(f, i) ? n_of_session(f, i) : 0;
        if (n > 0)
            feed_commit(run_at(f, i).session, n);
    }
    return status;
}

int mgpt_feed_many(const mgpt_run *runs, size_t n, mgpt_error *err)
{
    const struct feed_call feed = {.call = "mgpt_feed_many", .runs = runs, .n = n};
    if (n == 0)
        return MGPT_OK;
    if (!runs || !runs[0].session)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_feed_many: NULL argument");
    return feed_runs(&feed, err);
}
