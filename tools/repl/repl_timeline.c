/* The repl's timelines. A branch is a session and the tokens ahead of it; the current branch's
 * session is engine.session. What a session's cache holds is what its tokens give with the edits in
 * force: a branch that new edits make wrong loses its session, and gets another one when it is used
 * again.
 *
 * Every pass over tokens goes through repl_run_tokens, which sets the tap that the edits need. A
 * change that can fail half-way is made in a second session, which then takes the place of the
 * first.
 */
#include "base/error.h"
#include "base/mem.h"
#include "repl/repl.h"

#include <stdlib.h>
#include <string.h>

static int edit_value(const mgpt_value *value, void *user)
{
    edits_apply(user, value);
    return 0;
}

int repl_run_tokens(struct repl *r, mgpt_session *session, const int32_t *tokens, size_t n,
                    struct watcher *look, mgpt_error *err)
{
    struct watcher edit = {edits_points(&r->edits), edit_value, &r->edits, look};
    return engine_feed(&r->engine, session, tokens, n, edit.points ? &edit : look, err);
}

/* ---- moving in a branch ---- */

int repl_append(struct repl *r, const int32_t *tokens, size_t n, mgpt_error *err)
{
    struct repl_branch *b = &r->branches[r->current];
    mgpt_session *session = r->engine.session;
    r->drawn_session = NULL;
    int status = repl_run_tokens(r, session, tokens, n, repl_watching(r, session, NULL), err);
    if (status == MGPT_OK && b->ahead)
        arr_set_len(b->ahead, 0);
    return status;
}

/* The first n tokens ahead go into the session. */
static int forward(struct repl *r, struct repl_branch *b, size_t n, mgpt_error *err)
{
    if (n == 0)
        return MGPT_OK;
    struct watcher *look =
        b->session == r->engine.session ? repl_watching(r, b->session, NULL) : NULL;
    int status = repl_run_tokens(r, b->session, b->ahead, n, look, err);
    if (status == MGPT_OK)
        stbds_arrdeln(b->ahead, 0, n);
    return status;
}

/* Reserves memory for all of a session's tokens ahead of it. */
static int reserve_ahead(struct repl_branch *b)
{
    return arr_reserve(b->ahead, mgpt_pos(b->session) + arr_len(b->ahead));
}

/* The session's tokens from pos on go in front of those ahead, for which there is room; the session
 * keeps them too. */
static void copy_ahead(struct repl_branch *b, size_t pos)
{
    size_t n = mgpt_pos(b->session) - pos, old = arr_len(b->ahead);
    if (n == 0)
        return;
    arr_set_len(b->ahead, n + old);
    memmove(b->ahead + n, b->ahead, old * sizeof *b->ahead);
    memcpy(b->ahead, mgpt_tokens(b->session) + pos, n * sizeof *b->ahead);
}

/* Logits are those of the last token, so going back recomputes the token before it. */
int repl_go(struct repl *r, size_t pos, mgpt_error *err)
{
    struct repl_branch *b = &r->branches[r->current];
    size_t held = mgpt_pos(b->session);
    if (pos < held || (pos == held && pos > 0 && !mgpt_logits(b->session))) {
        held = pos > 0 ? pos - 1 : 0;
        if (!reserve_ahead(b))
            return err_memory(err, "the tokens ahead", pos * sizeof *b->ahead);
        copy_ahead(b, held);
        mgpt_rewind(b->session, held, NULL);
    }
    return forward(r, b, pos - held, err);
}

int repl_compute_logits(struct repl *r)
{
    size_t pos = mgpt_pos(r->engine.session);
    mgpt_error err;
    if (pos == 0 || mgpt_logits(r->engine.session) || repl_go(r, pos, &err) == MGPT_OK)
        return 1;
    repl_failed(&err);
    return 0;
}

/* ---- sessions ---- */

/* An empty session with the settings of all. */
static mgpt_session *engine_settings_session(struct repl *r)
{
    mgpt_session *session;
    struct engine *e = &r->engine;
    int code = engine_new_session(e, e->n_threads, &session);
    if (code == EXIT_OK)
        return session;
    repl_note_code(code);
    return NULL;
}

int repl_open_branch(struct repl *r, size_t branch)
{
    struct repl_branch *b = &r->branches[branch];
    mgpt_error err;
    if (b->session)
        return 1;
    b->session = engine_settings_session(r);
    if (!b->session)
        return 0;
    if (forward(r, b, b->resume, &err) == MGPT_OK)
        return 1;
    repl_failed(&err);
    mgpt_session_free(b->session);
    b->session = NULL;
    return 0;
}

/* Frees a branch's session. Its tokens go ahead; memory for them is reserved. */
static void close_branch(struct repl_branch *b)
{
    b->resume = mgpt_pos(b->session);
    copy_ahead(b, 0);
    mgpt_session_free(b->session);
    b->session = NULL;
}

mgpt_session *repl_variant(struct repl *r, size_t keep, const int32_t *tokens, size_t n,
                           struct watcher *look)
{
    mgpt_error err;
    mgpt_session *session;
    if (keep == 0) {
        session = engine_settings_session(r);
        if (!session)
            return NULL;
    } else {
        session = mgpt_fork(r->engine.session, &err);
    }
    if (session && mgpt_rewind(session, keep, &err) == MGPT_OK &&
        repl_run_tokens(r, session, tokens, n, repl_watching(r, session, look), &err) == MGPT_OK)
        return session;
    repl_failed(&err);
    mgpt_session_free(session);
    return NULL;
}

void repl_take_session(struct repl *r, mgpt_session *session)
{
    mgpt_session_free(r->engine.session);
    r->drawn_session = NULL; /* another may get its address */
    r->engine.session = r->branches[r->current].session = session;
}

/* ---- edits ---- */

/* Reserves the memory that close_branch needs for the other branches. */
static int prepare_others(struct repl *r)
{
    for (size_t i = 0; i < arr_len(r->branches); i++) {
        struct repl_branch *b = &r->branches[i];
        if (i != r->current && b->session && !reserve_ahead(b)) {
            repl_no_memory();
            return 0;
        }
    }
    return 1;
}

/* The current tokens with the edits now in force: 0 when that failed. Without tokens there is
 * nothing to run, and no effect. */
static int replay_current(struct repl *r)
{
    mgpt_session *old = r->engine.session, *session;
    if (mgpt_pos(old) == 0)
        return 1;
    session = repl_variant(r, 0, mgpt_tokens(old), mgpt_pos(old), NULL);
    if (!session)
        return 0;
    repl_print_effect(r, "before", mgpt_logits(old), "after", mgpt_logits(session));
    repl_take_session(r, session);
    return 1;
}

/* Runs the current timeline after a change of what passes do; the others are run when they are used
 * again. 0: after an error, and nothing has changed. */
static int rerun_all(struct repl *r)
{
    if (!replay_current(r))
        return 0;
    for (size_t i = 0; i < arr_len(r->branches); i++)
        if (i != r->current && r->branches[i].session)
            close_branch(&r->branches[i]);
    return 1;
}

int repl_set_edits(struct repl *r, struct edits next)
{
    struct edits old = r->edits;
    int done = repl_compute_logits(r) && prepare_others(r);
    if (done) {
        r->edits = next;
        done = rerun_all(r);
        r->edits = done ? next : old;
    }
    edits_clear(done ? &old : &next);
    return done;
}

int repl_set_steer(struct repl *r, struct steer next)
{
    struct steer old = r->engine.steer;
    int done = repl_compute_logits(r) && prepare_others(r);
    if (done) {
        r->engine.steer = next;
        done = rerun_all(r);
        r->engine.steer = done ? next : old;
    }
    steer_free(done ? &old : &next);
    return done;
}

/* ---- begin and end ---- */

int repl_begin(struct repl *r)
{
    struct repl_branch first = {.name = "main", .session = r->engine.session};
    r->edits = (struct edits){.model = r->engine.model, .n_embd = r->engine.info.n_embd};
    if (arr_push(r->branches, first))
        return 1;
    repl_no_memory();
    return 0;
}

void repl_free_branches(struct repl_branch *branches, const mgpt_session *except)
{
    for (size_t i = 0; i < arr_len(branches); i++) {
        if (branches[i].session != except)
            mgpt_session_free(branches[i].session);
        arr_free(branches[i].ahead);
    }
    arr_free(branches);
}

void repl_end(struct repl *r)
{
    repl_free_branches(r->branches, r->engine.session);
    r->branches = NULL;
    free(r->trace_globs);
    free(r->trace_path);
    arr_free(r->hooks);
    r->hooks = NULL;
    repl_with_end(r);
    free(r->steer_text);
    arr_free(r->watches);
    r->watches = NULL;
    edits_clear(&r->edits);
}
