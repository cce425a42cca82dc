/* One thread that does one job in the background, while others wait for parts of it. */
#ifndef MGPT_BACKGROUND_H
#define MGPT_BACKGROUND_H

#include <stdatomic.h>
#include <stddef.h>

struct background;
typedef void background_fn(void *ctx);

/* background_new makes one without a thread; NULL when out of memory. background_start runs fn(ctx) in a
 * new thread, once; it returns 0 if none can be started. background_free, which another thread calls, waits
 * until fn has returned. */
struct background *background_new(void);
int background_start(struct background *background, background_fn *fn, void *ctx);
void background_free(struct background *background);

/* Returns when *done > at, or after 10 ms. Whoever increases *done calls background_tell after it. */
void background_wait(struct background *background, const atomic_size_t *done, size_t at);
void background_tell(struct background *background);

#endif
