/* Vectors of Advanced SIMD of ARMv8-A. Included by vec.h only. */
#ifndef MGPT_KERNELS_VEC_NEON_H
#define MGPT_KERNELS_VEC_NEON_H

#include <arm_neon.h>

#define VEC_NATIVE 1
#define LANES 4
#define REGISTERS 32

typedef float32x4_t vec;
typedef float32x4_t quad;
typedef struct {
    vec v[4];
} lanes;

VEC_INLINE vec vec_of(float x)
{
    return vdupq_n_f32(x);
}

VEC_INLINE vec vec_load(const float *p)
{
    return vld1q_f32(p);
}

VEC_INLINE void vec_store(float *p, vec a)
{
    vst1q_f32(p, a);
}

VEC_INLINE int32x4_t neon_count(void)
{
    const int32_t count[LANES] = {0, 1, 2, 3};
    return vld1q_s32(count);
}

VEC_INLINE vec vec_first(ptrdiff_t n, vec a, vec b)
{
    return vbslq_f32(vcltq_s32(neon_count(), vdupq_n_s32((int32_t)n)), a, b);
}

#define LANES_QUADS

VEC_INLINE vec vec_quads(vec a, enum quad_lanes from)
{
    return from == QUAD_0      ? vdupq_laneq_f32(a, 0)
           : from == QUAD_1    ? vdupq_laneq_f32(a, 1)
           : from == QUAD_2    ? vdupq_laneq_f32(a, 2)
           : from == QUAD_3    ? vdupq_laneq_f32(a, 3)
           : from == QUAD_2301 ? vextq_f32(a, a, 2)
                               : vrev64q_f32(a);
}

VEC_INLINE vec vec_firsts(size_t n, vec a, vec b)
{
    return vec_first((ptrdiff_t)n, a, b);
}

VEC_INLINE vec vec_put(vec a, ptrdiff_t i, float x)
{
    return vbslq_f32(vceqq_s32(neon_count(), vdupq_n_s32((int32_t)i)), vec_of(x), a);
}

VEC_INLINE vec vec_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

VEC_INLINE void vec_store_f16(uint16_t *p, vec a)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}

VEC_INLINE vec vec_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

VEC_INLINE vec vec_load_i8(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    int16x8_t wide = vmovl_s8(vcreate_s8(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

VEC_INLINE void vec_keep(vec *a)
{
    __asm__("" : "+w"(*a));
}

VEC_INLINE void vec_prefetch(uintptr_t address)
{
    __builtin_prefetch((const void *)address);
}

VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

/* vmaxq_f32 would return NaN for one NaN. */
VEC_INLINE vec vec_max(vec a, vec b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

VEC_INLINE vec vec_min(vec a, vec b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

VEC_INLINE vec vec_at_least(vec a, vec b, vec x)
{
    return vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(a, b), vreinterpretq_u32_f32(x)));
}

VEC_INLINE vec vec_max_at_least(vec a, vec b, vec x, vec y)
{
    return vbslq_f32(vcgeq_f32(a, b), vec_max(x, y), y);
}

/* 2^n is applied in two halves: the first product is exact, the second rounds. */
VEC_INLINE vec vec_scale2(vec p, vec shifted, vec whole)
{
    (void)whole;
    int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(0x4B400000));
    int32x4_t half = vshrq_n_s32(n, 1), rest = vsubq_s32(n, half), bias = vdupq_n_s32(127);
    half = vshlq_n_s32(vaddq_s32(half, bias), 23);
    rest = vshlq_n_s32(vaddq_s32(rest, bias), 23);
    return p * vreinterpretq_f32_s32(half) * vreinterpretq_f32_s32(rest);
}

VEC_INLINE float vec_reduce(vec a)
{
    return vpadds_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a)));
}

VEC_INLINE float vec_biggest(vec a)
{
    vec two = vec_max(a, vextq_f32(a, a, 2));
    return vgetq_lane_f32(vec_max(two, vextq_f32(two, two, 1)), 0);
}

VEC_INLINE quad quad_sqrt(quad a)
{
    return vsqrtq_f32(a);
}

VEC_INLINE quad lanes_reduce_four(const lanes a[4])
{
    vec p4[4];
    for (size_t i = 0; i < 4; i++)
        p4[i] = (a[i].v[0] + a[i].v[2]) + (a[i].v[1] + a[i].v[3]);
    vec p01 = vcombine_f32(vget_low_f32(p4[0]), vget_low_f32(p4[1])) +
              vcombine_f32(vget_high_f32(p4[0]), vget_high_f32(p4[1]));
    vec p23 = vcombine_f32(vget_low_f32(p4[2]), vget_low_f32(p4[3])) +
              vcombine_f32(vget_high_f32(p4[2]), vget_high_f32(p4[3]));
    return vpaddq_f32(p01, p23);
}

VEC_INLINE void lanes_cross(const lanes a[4], lanes to[4])
{
    for (size_t q = 0; q < 4; q++) {
        float32x4x2_t even = vtrnq_f32(a[0].v[q], a[1].v[q]);
        float32x4x2_t odd = vtrnq_f32(a[2].v[q], a[3].v[q]);
        for (size_t i = 0; i < 2; i++) {
            to[i].v[q] = vcombine_f32(vget_low_f32(even.val[i]), vget_low_f32(odd.val[i]));
            to[i + 2].v[q] = vcombine_f32(vget_high_f32(even.val[i]), vget_high_f32(odd.val[i]));
        }
    }
}

#include "kernels/simd/vec_four.h"

#endif
