/* ISA level "avx512": AVX-512 F, BW, DQ, VL: Intel servers since Skylake-SP (2017), AMD since Zen
 * 4. Built with its own flags (meson.build); called only if kernels_init found the instructions.
 * Matmul and attention are by hand, the other entries are float_tmpl.h. A tile of matmul, two
 * panels by twelve tokens, takes 24 of 32 registers.
 */
#define ISA_INIT template_init
#define ISA_SAMPLE sample_kernels_avx512
#define ISA_NAME "avx512"
#define ISA_STATIC static
#include "kernels/spec/float_tmpl.h"

#include <immintrin.h>

#define VEC __m512
#define LANES 16
#define TILE_PANELS 2
#define TILE_TOKENS 12
#define V_ZERO() _mm512_setzero_ps()
#define V_BROADCAST(x) _mm512_set1_ps(x)
#define V_FMA(w, x, sum) _mm512_fmadd_ps(w, x, sum)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, first_lanes(n), v)
#define V_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
#define V_KEEP(v) __asm__("" : "+v"(v))
#define V_LOAD_f32(p) _mm512_loadu_ps(p)
#define V_LOAD_f16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define V_LOAD_bf16(p)                                                                             \
    _mm512_castsi512_ps(_mm512_slli_epi32(                                                         \
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))), 16))

/* A bit for each of the first n lanes; n < LANES. */
static inline __mmask16 first_lanes(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

#include "kernels/tiles/float_tile_tmpl.h"

#define ATTEND_CHAINS 24
#define EXP_LESS lanes_exp_less
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b) /* a > b ? a : b */
#define V_LOAD_PART_f32(p, n) _mm512_maskz_loadu_ps(first_lanes(n), p)
#define V_LOAD_PART_f16(p, n) _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p))
#define V_STORE_f16(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), _mm512_cvtps_ph(v, 0))

/* x[i] - max <= 0, the range of lanes_exp. NaN stays NaN. */
static void lanes_exp_less(float *x, float max, size_t n)
{
    __m512 m = V_BROADCAST(max);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        V_STORE(x + i, lanes_exp(_mm512_sub_ps(V_LOAD(x + i), m)));
    if (i < n)
        V_STORE_PART(x + i, lanes_exp(_mm512_sub_ps(V_LOAD_PART_f32(x + i, n - i), m)), n - i);
}

#include "kernels/tiles/attend_tile_tmpl.h"

void kernels_init_avx512(struct kernels *k)
{
    template_init(k);
    float_tile_init(k);
    attend_init(k);
}
