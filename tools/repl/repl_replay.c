/* Looking at what has been computed: the session keeps no intermediate values, so a view runs the
 * tokens of the current timeline once more, in a copy, with a tap. The same tokens (and edits) give
 * the same bits with and without a tap; the session itself is not touched. */
#include "repl/repl.h"

/* A copy has the settings of the session: context, threads, type of the cache. */
static mgpt_session *copy_empty(const mgpt_session *session, mgpt_error *err)
{
    mgpt_session *copy = mgpt_fork(session, err);
    if (copy && mgpt_rewind(copy, 0, err) < 0) {
        mgpt_session_free(copy);
        copy = NULL;
    }
    return copy;
}

mgpt_session *repl_replay_kept(struct repl *r, uint64_t points, mgpt_tap_fn *fn, void *user)
{
    mgpt_session *session = r->engine.session, *copy;
    struct watcher look = {points, fn, user, NULL};
    mgpt_error err;
    if (mgpt_pos(session) == 0) {
        repl_error("nothing to look at yet: type a text first");
        return NULL;
    }
    copy = copy_empty(session, &err);
    if (copy && repl_run_tokens(r, copy, mgpt_tokens(session), mgpt_pos(session), fn ? &look : NULL,
                                &err) == MGPT_OK)
        return copy;
    repl_failed(&err);
    mgpt_session_free(copy);
    return NULL;
}

int repl_replay(struct repl *r, uint64_t points, mgpt_tap_fn *fn, void *user)
{
    mgpt_session *copy = repl_replay_kept(r, points, fn, user);
    mgpt_session_free(copy);
    return copy != NULL;
}
