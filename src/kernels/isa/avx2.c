/* ISA level "avx2": AVX2, FMA and F16C: Intel since Haswell (2013), AMD since Excavator (2015) and
 * Zen. Built with its own flags (meson.build); called only if kernels_init found the instructions.
 * Matmul and attention are by hand, the other entries are float_tmpl.h. A tile of matmul, one panel
 * (two vectors) by six tokens, takes 12 of 16 registers.
 */
#define ISA_INIT template_init
#define ISA_SAMPLE sample_kernels_avx2
#define ISA_NAME "avx2"
#define ISA_STATIC static
#include "kernels/spec/float_tmpl.h"

#include <immintrin.h>

#define VEC __m256
#define LANES 8
#define TILE_PANELS 1
#define TILE_TOKENS 6
#define V_ZERO() _mm256_setzero_ps()
#define V_BROADCAST(x) _mm256_set1_ps(x)
#define V_FMA(w, x, sum) _mm256_fmadd_ps(w, x, sum)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_STORE_PART(p, v, n) _mm256_maskstore_ps(p, first_lanes(n), v)
#define V_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
#define V_KEEP(v) __asm__("" : "+x"(v))
#define V_LOAD_f32(p) _mm256_loadu_ps(p)
#define V_LOAD_f16(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define V_LOAD_bf16(p)                                                                             \
    _mm256_castsi256_ps(_mm256_slli_epi32(                                                         \
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))), 16))

/* All ones in the first n lanes. */
static inline __m256i first_lanes(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#include "kernels/tiles/float_tile_tmpl.h"

#define ATTEND_CHAINS 12
#define EXP_LESS exp_less
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b) /* a > b ? a : b */
#define V_LOAD_PART_f32(p, n) _mm256_maskload_ps(p, first_lanes(n))
#define V_LOAD_PART_f16(p, n) load_part_f16(p, n)
#define V_STORE_f16(p, v) _mm_storeu_si128((__m128i *)(void *)(p), _mm256_cvtps_ph(v, 0))

static inline __m256 load_part_f16(const uint16_t *p, size_t n)
{
    uint16_t part[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        part[i] = p[i];
    return V_LOAD_f16(part);
}

#include "kernels/tiles/attend_tile_tmpl.h"

void kernels_init_avx2(struct kernels *k)
{
    template_init(k);
    float_tile_init(k);
    attend_init(k);
}
