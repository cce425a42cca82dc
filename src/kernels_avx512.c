/* Floor 1. Rung "avx512": AVX-512 F, BW, DQ, VL: Intel servers since Skylake-SP (2017), AMD since Zen 4.
 * Built with its own flags (src/meson.build); called only where kernels_init found the instructions.
 * The template of the specification for most entries, linear by hand: of 32 registers a tile of two
 * panels by three tokens by four chains takes 24.
 */
#define RUNG_INIT template_init
#define RUNG_NAME "avx512"
#define RUNG_STATIC static
#include "kernels_tmpl.h"

#include <immintrin.h>

#define VEC __m512
#define LANES 16
#define TILE_VECTORS 2
#define TILE_TOKENS 3
#define V_ZERO() _mm512_setzero_ps()
#define V_BROADCAST(x) _mm512_set1_ps(x)
#define V_FMA(w, x, sum) _mm512_fmadd_ps(w, x, sum)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_KEEP(v) __asm__("" : "+v"(v))
#define V_LOAD_f32(p) _mm512_loadu_ps(p)
#define V_LOAD_f16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define V_LOAD_bf16(p)                                                                             \
    _mm512_castsi512_ps(_mm512_slli_epi32(                                                         \
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))), 16))
#include "kernels_tile.h"

void kernels_init_avx512(struct kernels *k)
{
    template_init(k);
    k->linear[WEIGHT_F32] = rung_linear_f32;
    k->linear[WEIGHT_F16] = tile_linear_f16;
    k->linear[WEIGHT_BF16] = tile_linear_bf16;
}
