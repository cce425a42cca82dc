/* The loops of one ISA level. See bench_peak.h. Compiled once per ISA level, with -DISA_LEVEL=name
 * and its flags; what the flags allow decides what the loops are made of.
 *
 * Arithmetic: CHAINS independent sums, enough to hide the latency of an instruction on every unit.
 * Reading: whole vectors, each met by one cheap operation, from one place or from several at a time
 * (which is more for the hardware's prefetchers to follow), with or without software prefetch.
 */
#include "bench/bench_peak.h"

#include <math.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Makes a value unknown to the compiler, so that nothing made from it can be moved out of a
 * loop. */
#define KEEP(v) __asm__ volatile("" : "+v"(v))

/* ---- what an ISA level has
 * ------------------------------------------------------------------------- */

#if defined(__AVX512F__) && defined(__AVX512BW__)
typedef __m512 vec;
typedef __m512i ivec;
#define LANES 16
#define FMA_NAME "512-bit FMA"
#define V_SET(x) _mm512_set1_ps(x)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define I_ZERO() _mm512_setzero_si512()
#define I_SET8(x) _mm512_set1_epi8(x)
#define I_LOAD(p) _mm512_load_si512((const void *)(p))
#define I_XOR(a, b) _mm512_xor_si512(a, b)
#define I_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#if defined(__AVX512VNNI__)
#define INT8_NAME "512-bit vpdpbusd"
#define I_DOT(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#else
#define INT8_NAME "512-bit vpmaddubsw, vpmaddwd, vpaddd"
#define I_DOT(sum, a, b)                                                                           \
    _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1)))
#endif

#elif defined(__AVX2__)
typedef __m256 vec;
typedef __m256i ivec;
#define LANES 8
#define FMA_NAME "256-bit FMA"
#define INT8_NAME "256-bit vpmaddubsw, vpmaddwd, vpaddd"
#define V_SET(x) _mm256_set1_ps(x)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define I_ZERO() _mm256_setzero_si256()
#define I_SET8(x) _mm256_set1_epi8(x)
#define I_LOAD(p) _mm256_load_si256((const __m256i *)(const void *)(p))
#define I_XOR(a, b) _mm256_xor_si256(a, b)
#define I_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define I_DOT(sum, a, b)                                                                           \
    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))

#elif defined(__ARM_NEON)
typedef float32x4_t vec;
typedef int8x16_t ivec;
#define LANES 4
#define FMA_NAME "128-bit FMA"
#define V_SET(x) vdupq_n_f32(x)
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#define V_STORE(p, v) vst1q_f32(p, v)
#define I_ZERO() vdupq_n_s8(0)
#define I_SET8(x) vdupq_n_s8(x)
#define I_LOAD(p) vld1q_s8((const int8_t *)(p))
#define I_XOR(a, b) veorq_s8(a, b)
#define I_STORE(p, v) vst1q_s8((int8_t *)(p), v)
#undef KEEP
#define KEEP(v) __asm__ volatile("" : "+w"(v))
#if defined(__ARM_FEATURE_DOTPROD)
#define INT8_NAME "128-bit sdot"
#define I_DOT(sum, a, b) vreinterpretq_s8_s32(vdotq_s32(vreinterpretq_s32_s8(sum), a, b))
#endif

#else
#undef KEEP
#define KEEP(v) (void)(v)
typedef float vec;
typedef uint64_t ivec;
#define LANES 1
#define FMA_NAME "fmaf of C"
#define V_SET(x) (x)
#define V_FMA(a, b, c) fmaf(a, b, c)
#define V_STORE(p, v) (*(p) = (v))
#define I_ZERO() UINT64_C(0)
#define I_LOAD(p) (*(const uint64_t *)(const void *)(p))
#define I_XOR(a, b) ((a) ^ (b))
#define I_STORE(p, v) (*(uint64_t *)(void *)(p) = (v))
#endif

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* One variable per chain: GCC 12 keeps an array in memory. */
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
enum { CHAINS = 12 };

#define FMA_BEGIN(i) vec sum##i = V_SET((float)i);
#define FMA_STEP(i)                                                                                \
    sum##i = V_FMA(sum##i, a, b);                                                                  \
    KEEP(sum##i); /* or it is copied to another register and back */
#define FMA_END(i) all = V_FMA(sum##i, a, all);

static float fma_rounds(size_t rounds)
{
    vec a = V_SET(0.5f), b = V_SET(1.0f), all = b; /* sums tend to 2: never subnormal */
    float out[LANES];
    EACH(FMA_BEGIN)
    for (size_t r = 0; r < rounds; r++) {
        EACH(FMA_STEP)
    }
    EACH(FMA_END)
    V_STORE(out, all);
    return out[0];
}

#if defined(__AMX_INT8__)
/* Whole tiles, as the ISA level's kernels never have them: a block has half as many columns.
 * Assembly: see src/kernels/isa/int_amx.c. */
#undef INT8_NAME
#define INT8_NAME "AMX tdpbssd"
#define INT8_OPS (4 * 2 * 16 * 16 * 64)
static int32_t int8_rounds(size_t rounds)
{
    struct {
        uint8_t palette, zero[15];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    int32_t out[16][16];
    for (int i = 0; i < 6; i++) {
        tiles.row_bytes[i] = 64;
        tiles.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(tiles));
    for (size_t r = 0; r < rounds; r++)
        __asm__ volatile("tdpbssd %%tmm5, %%tmm4, %%tmm0\n\t"
                         "tdpbssd %%tmm5, %%tmm4, %%tmm1\n\t"
                         "tdpbssd %%tmm5, %%tmm4, %%tmm2\n\t"
                         "tdpbssd %%tmm5, %%tmm4, %%tmm3" ::);
    __asm__ volatile("tilestored %%tmm0, (%0,%1,1)\n\t"
                     "tilerelease" ::"r"(out),
                     "r"((size_t)64)
                     : "memory");
    return out[0][0];
}
#elif defined(INT8_NAME)
#define INT8_OPS (2 * CHAINS * sizeof(ivec))
#define INT8_BEGIN(i) ivec sum##i = I_SET8(i);
#define INT8_STEP(i)                                                                               \
    KEEP(a); /* or the product, always the same, is made once */                                   \
    sum##i = I_DOT(sum##i, a, b);                                                                  \
    KEEP(sum##i);
#define INT8_END(i) all = I_XOR(all, sum##i);

static int32_t int8_rounds(size_t rounds)
{
    ivec a = I_SET8(3), b = I_SET8(5), all = I_ZERO();
    int32_t out[sizeof(ivec) / sizeof(int32_t)];
    EACH(INT8_BEGIN)
    for (size_t r = 0; r < rounds; r++) {
        EACH(INT8_STEP)
    }
    EACH(INT8_END)
    I_STORE(out, all);
    return out[0];
}
#endif

/* ---- reading --------------------------------------------------------------------------------- */

/* `streams` places at a time, each with two sums; `ahead` bytes of software prefetch or 0. */
static inline uint64_t read_streams(const char *data, size_t n, size_t streams, size_t ahead)
{
    ivec sum[8];
    uint64_t out[sizeof(ivec) / sizeof(uint64_t)];
    size_t each = n / streams; /* a multiple of 128: PEAK_READ_UNIT */
    for (int i = 0; i < 8; i++)
        sum[i] = I_ZERO();
    for (size_t at = 0; at < each; at += 128)
        for (size_t s = 0; s < streams; s++) {
            const char *p = data + s * each + at;
            if (ahead) {
                __builtin_prefetch(p + ahead);
                __builtin_prefetch(p + ahead + 64);
            }
            for (size_t i = 0; i < 128; i += sizeof(ivec)) {
                size_t to = (s + i / sizeof(ivec)) % 8;
                sum[to] = I_XOR(sum[to], I_LOAD(p + i));
            }
        }
    for (int i = 1; i < 8; i++)
        sum[0] = I_XOR(sum[0], sum[i]);
    I_STORE(out, sum[0]);
    return out[0];
}

#define READ_CASE(way, streams, ahead)                                                             \
    case way:                                                                                      \
        return read_streams(data, n, streams, ahead);

static uint64_t read_way(const void *data, size_t n, int way)
{
    switch (way) {
        READ_CASE(0, 1, 0)
        READ_CASE(1, 1, 1024)
        READ_CASE(2, 1, 4096)
        READ_CASE(3, 2, 0)
        READ_CASE(4, 4, 0)
        READ_CASE(5, 4, 512)
    default:
        return read_streams(data, n, 8, 512);
    }
}

#define NAME_(isa) peak_loops_##isa
#define NAME(isa) NAME_(isa)
#define TEXT_(isa) #isa
#define TEXT(isa) TEXT_(isa)

extern const struct peak_loops NAME(ISA_LEVEL);
const struct peak_loops NAME(ISA_LEVEL) = {
    .isa = TEXT(ISA_LEVEL),
    .fma_name = FMA_NAME,
    .fma_ops = 2 * CHAINS * LANES,
    .fma = fma_rounds,
#if defined(INT8_NAME)
    .int8_name = INT8_NAME,
    .int8_ops = INT8_OPS,
    .int8 = int8_rounds,
#endif
    .read = read_way,
};
