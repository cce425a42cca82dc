/* The table of the ISA levels' loops. See bench_peak.h. BENCH_LEVELS comes from meson.build, which
 * has the list of ISA levels: ISA_LEVEL(scalar) ISA_LEVEL(avx2) ... */
#include "bench/bench_peak.h"

#include <string.h>

#define ISA_LEVEL(name) extern const struct peak_loops peak_loops_##name;
BENCH_LEVELS
#undef ISA_LEVEL

static const struct peak_loops *const all[] = {
#define ISA_LEVEL(name) &peak_loops_##name,
    BENCH_LEVELS
#undef ISA_LEVEL
};

const struct peak_loops *peak_find(const char *isa)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->isa, isa) == 0)
            return all[i];
    return &peak_loops_scalar;
}
