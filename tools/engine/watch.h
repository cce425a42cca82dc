/* Several watchers of one session. mgpt_tap has room for one callback; a chain shares it: each
 * watcher says which points it wants, and those that want a point are called there in the order of
 * the chain, each seeing what the ones before have changed. Which watchers a pass has is the
 * engine's business (engine_feed). */
#ifndef MGPT_WATCH_H
#define MGPT_WATCH_H

#include "mgpt.h"

struct watcher {
    uint64_t points; /* 0: none */
    mgpt_tap_fn *fn;
    void *user;
    struct watcher *next; /* NULL: the last */
};

/* From now on these watch the session, and no others; NULL: none. The chain must stay where it is
 * until then. */
int watch_set(mgpt_session *session, struct watcher *first, mgpt_error *err);

#endif
