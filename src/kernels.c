/* Floor 1. The ladder: which rungs there are, which this machine runs, and how one is chosen.
 *
 * The last rung that the machine runs is the best, and the default.
 */
#include "kernels.h"
#include "kernels_quant.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

struct rung {
    const char *name;
    void (*init)(struct kernels *k);       /* all but integer types */
    void (*init_quant)(struct kernels *k); /* those, after the base's */
    int (*runs)(void);
};

static int always(void)
{
    return 1;
}

#if defined(__x86_64__)
/* __builtin_cpu_supports also asks whether the system saves the registers; clang 14's does not know
 * "f16c" by name. */
static int has_avx2(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static int has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

static const struct rung ladder[] = {
    {"scalar", kernels_init_scalar, kernels_quant_init_scalar, always},
#if defined(__x86_64__)
    {"avx2", kernels_init_avx2, kernels_quant_init_avx2, has_avx2},
    {"avx512", kernels_init_avx512, kernels_quant_init_avx512, has_avx512},
    {"avx512vnni", kernels_init_avx512, kernels_quant_init_avx512vnni, has_avx512vnni},
#elif defined(__aarch64__)
    {"neon", kernels_init_neon, kernels_quant_init_scalar, always},
#endif
};

enum { N_RUNGS = sizeof ladder / sizeof *ladder };

const char *kernels_rung(size_t i, int *runs_here)
{
    if (i >= N_RUNGS)
        return NULL;
    *runs_here = ladder[i].runs();
    return ladder[i].name;
}

/* Asked at every draw: only what the compiler's run time has found out already, never cpuid. */
const struct sample_kernels *kernels_sample(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return &sample_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &sample_kernels_avx2;
#elif defined(__aarch64__)
    return &sample_kernels_neon;
#endif
    return &sample_kernels_scalar;
}

int kernels_init(struct kernels *k, const char *isa)
{
    for (size_t i = N_RUNGS; i-- > 0;) {
        const struct rung *r = &ladder[i];
        if ((!isa || strcmp(isa, r->name) == 0) && r->runs()) {
            r->init(k);
            kernels_pack_floats_init(k);
            kernels_quant_init_scalar(k);
            r->init_quant(k);
            k->isa = r->name;
            return 1;
        }
    }
    return 0;
}
