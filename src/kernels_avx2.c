/* Floor 1. Rung "avx2": AVX2, FMA and F16C: Intel since Haswell (2013), AMD since Excavator (2015) and
 * Zen. Built with its own flags (src/meson.build); called only where kernels_init found the instructions.
 * The template of the specification for most entries, linear by hand: of 16 registers a tile of half a
 * panel by three tokens by four chains takes 12.
 */
#define RUNG_INIT template_init
#define RUNG_NAME "avx2"
#define RUNG_STATIC static
#include "kernels_tmpl.h"

#include <immintrin.h>

#define VEC __m256
#define LANES 8
#define TILE_VECTORS 1
#define TILE_TOKENS 3
#define V_ZERO() _mm256_setzero_ps()
#define V_BROADCAST(x) _mm256_set1_ps(x)
#define V_FMA(w, x, sum) _mm256_fmadd_ps(w, x, sum)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_KEEP(v) __asm__("" : "+x"(v))
#define V_LOAD_f32(p) _mm256_loadu_ps(p)
#define V_LOAD_f16(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define V_LOAD_bf16(p)                                                                             \
    _mm256_castsi256_ps(_mm256_slli_epi32(                                                         \
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))), 16))
#include "kernels_tile.h"

void kernels_init_avx2(struct kernels *k)
{
    template_init(k);
    k->linear[WEIGHT_F32] = rung_linear_f32;
    k->linear[WEIGHT_F16] = tile_linear_f16;
    k->linear[WEIGHT_BF16] = tile_linear_bf16;
}
