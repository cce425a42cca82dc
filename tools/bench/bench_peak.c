/* The table of the rungs' loops. See bench_peak.h. BENCH_RUNGS comes from meson.build, which has the
 * list of rungs: RUNG(scalar) RUNG(avx2) ... */
#include "bench/bench_peak.h"

#include <string.h>

#define RUNG(name) extern const struct peak_loops peak_loops_##name;
BENCH_RUNGS
#undef RUNG

static const struct peak_loops *const all[] = {
#define RUNG(name) &peak_loops_##name,
    BENCH_RUNGS
#undef RUNG
};

const struct peak_loops *peak_find(const char *rung)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->rung, rung) == 0)
            return all[i];
    return &peak_loops_scalar;
}
