/* ISA level "neon": Advanced SIMD of ARMv8-A (2011), which every aarch64 machine has. Matmul is by
 * hand, the other entries are float_tmpl.h. A tile of matmul, one panel (four vectors) by six
 * tokens, takes 24 of 32 registers.
 */
#define ISA_INIT template_init
#define ISA_NAME "neon"
#define ISA_STATIC static
#define ISA_SAMPLE sample_kernels_neon
#include "kernels/spec/float_tmpl.h"

#include <arm_neon.h>

#define VEC float32x4_t
#define LANES 4
#define TILE_PANELS 1
#define TILE_TOKENS 6
#define V_ZERO() vdupq_n_f32(0)
#define V_BROADCAST(x) vdupq_n_f32(x)
#define V_FMA(w, x, sum) vfmaq_f32(sum, w, x)
#define V_ADD(a, b) vaddq_f32(a, b)
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define V_STORE_PART(p, v, n) store_part(p, v, n)
#define V_PREFETCH(p) __builtin_prefetch((const void *)(p))
#define V_KEEP(v) __asm__("" : "+w"(v))
#define V_LOAD_f32(p) vld1q_f32(p)
#define V_LOAD_f16(p) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))
#define V_LOAD_bf16(p) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16))

/* The first n lanes. */
static inline void store_part(float *p, VEC v, size_t n)
{
    float part[LANES];
    V_STORE(part, v);
    memcpy(p, part, n * sizeof *p);
}

#include "kernels/tiles/float_tile_tmpl.h"

void kernels_init_neon(struct kernels *k)
{
    template_init(k);
    float_tile_init(k);
}
