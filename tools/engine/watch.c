/* See watch.h. */
#include "engine/watch.h"

static int call_all(const mgpt_value *value, void *user)
{
    const struct watcher *w = user;
    int stop = 0;
    for (; w && !stop; w = w->next)
        if (w->points & MGPT_POINT_BIT(value->point))
            stop = w->fn(value, w->user);
    return stop;
}

int watch_set(mgpt_session *session, struct watcher *first, mgpt_error *err)
{
    uint64_t points = 0;
    for (const struct watcher *w = first; w; w = w->next)
        points |= w->points;
    return mgpt_tap(session, points, points ? call_all : NULL, first, err);
}
