/* The ladder: the list of ISA levels, lowest first, and the choice among them. The default is the
 * last one that the machine runs.
 */
#define _DEFAULT_SOURCE /* syscall */
#include "kernels/kernels.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(MGPT_NEON_DOT)
#include <sys/auxv.h>
#endif
#if defined(MGPT_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif

struct isa_level {
    const char *name;
    void (*init)(struct kernels *k); /* all entries but those of integer types */
    const struct sample_kernels *sample;
    int (*has_vectors)(void);              /* the machine runs `sample` */
    void (*init_quant)(struct kernels *k); /* integer types, after those of scalar */
    int (*runs)(void);
};

/* init, sample and has_vectors of the kernels of floats of an ISA level. */
#define FLOATS(level) kernels_init_##level, &sample_kernels_##level, has_vectors_##level

static int always(void)
{
    return 1;
}

#define has_vectors_scalar always
#define has_vectors_neon always

#if defined(__wasm__)
#define has_vectors_wasm always
void kernels_init_wasm(struct kernels *k);
extern const struct sample_kernels sample_kernels_wasm;
#endif

#if defined(__x86_64__)
#if defined(_WIN32) && !defined(__clang__)
/* The third byte of vmovaps is 0x28 if it is an aligned move. gcc 12 aligns no stack of Windows to more than 16 bytes
 * and spills vectors by such moves, unless the assembler makes them unaligned ones (-muse-unaligned-vector-move). */
__asm__(".text\nmgpt_vector_move:\n\tvmovaps (%rcx), %ymm0\n\tret\n");
extern const unsigned char mgpt_vector_move[];

static int spills_are_safe(void)
{
    enum { ALIGNED = 0x28, OPCODE = 2 };
    return mgpt_vector_move[OPCODE] != ALIGNED;
}
#else
static int spills_are_safe(void)
{
    return 1;
}
#endif

/* kernels_sample asks for every token: __builtin_cpu_supports reads a cached value, cpuid is slow. */
static int has_vectors_avx2(void)
{
    return spills_are_safe() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int has_vectors_avx512(void)
{
    return spills_are_safe() && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

/* __builtin_cpu_supports also checks that the OS saves the registers. clang 14's does not know the
 * name "f16c". */
static int has_avx2(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && has_vectors_avx2();
}

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && has_vectors_avx512();
}

static int has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

#if defined(MGPT_AMX)
/* Tiles add 8 KiB to a thread's state. Linux requires a request for them once per process
 * (arch_prctl(2)) and refuses it if a thread's signal stack is too small for them. */
static int has_amx(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILES = 18, LEAF_7_TILE = 1 << 24, LEAF_7_INT8 = 1 << 25 };
    unsigned a, b, c, d = 0;
    if (!has_avx512vnni() || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    if (!(d & LEAF_7_TILE) || !(d & LEAF_7_INT8))
        return 0;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILES) == 0;
}
#endif

#if defined(MGPT_NEON_DOT)
static int has_neon_dot(void)
{
    enum { ASIMDDP = 1 << 20 }; /* of AT_HWCAP: Linux, asm/hwcap.h */
    return (getauxval(AT_HWCAP) & ASIMDDP) != 0;
}
#endif

static const struct isa_level ladder[] = {
#if defined(__wasm__)
    {"wasm", FLOATS(wasm), kernels_quant_init_scalar, always},
#else
    {"scalar", FLOATS(scalar), kernels_quant_init_scalar, always},
#endif
#if defined(__x86_64__)
    {"avx2", FLOATS(avx2), kernels_quant_init_avx2, has_avx2},
    {"avx512", FLOATS(avx512), kernels_quant_init_avx512, has_avx512},
    {"avx512vnni", FLOATS(avx512), kernels_quant_init_avx512vnni, has_avx512vnni},
#if defined(MGPT_AMX)
    {"amx", FLOATS(avx512), kernels_quant_init_amx, has_amx},
#endif
#elif defined(__aarch64__)
    {"neon", FLOATS(neon), kernels_quant_init_neon, always},
#if defined(MGPT_NEON_DOT)
    {"neon_dot", FLOATS(neon), kernels_quant_init_neon_dot, has_neon_dot},
#endif
#endif
};

enum { N_ISA_LEVELS = sizeof ladder / sizeof *ladder };

const char *kernels_isa_level(size_t i, int *runs_here)
{
    if (i >= N_ISA_LEVELS)
        return NULL;
    *runs_here = ladder[i].runs();
    return ladder[i].name;
}

const struct sample_kernels *kernels_sample(void)
{
    const struct isa_level *level = ladder + N_ISA_LEVELS - 1;
    while (!level->has_vectors())
        level--;
    return level->sample;
}

/* Reads ":1" after the name of an ISA level. Returns 0 if it is something else. */
static int set_streaming(struct kernels *k, const char *text)
{
    k->streaming_is_fixed = text[0] == ':';
    k->streaming = k->streaming_is_fixed ? (size_t)(text[1] - '0') : 0;
    return k->streaming < N_STREAMINGS && text[2 * k->streaming_is_fixed] == 0;
}

int kernels_init(struct kernels *k, const char *isa)
{
    size_t length = isa ? strcspn(isa, ":") : 0;
    for (size_t i = N_ISA_LEVELS; i-- > 0;) {
        const struct isa_level *r = &ladder[i];
        int named = !isa || (strlen(r->name) == length && memcmp(isa, r->name, length) == 0);
        if (named && r->runs()) {
            r->init(k);
            k->scores[KV_Q8_0] = kernels_scores_q8_0;
            kernels_pack_floats_init(k);
            kernels_quant_init_scalar(k);
            r->init_quant(k);
            k->isa = r->name;
            return set_streaming(k, isa ? isa + length : "");
        }
    }
    return 0;
}
