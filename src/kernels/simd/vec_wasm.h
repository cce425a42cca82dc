/* Vectors of WebAssembly. Included by vec.h only.
 *
 * Its SIMD has no fused multiply-add: vec_fma is a call of wasm_fma (tools/lab/wasm/fma.c), which a
 * page replaces by f32x4.relaxed_madd where that rounds once.
 */
#ifndef MGPT_KERNELS_VEC_WASM_H
#define MGPT_KERNELS_VEC_WASM_H

#include "dtype/dtype.h"

#include <wasm_simd128.h>

#define VEC_NATIVE 1
#define LANES 4
#define REGISTERS 32 /* of the machine, unknown here; fused_matmul_tmpl.h needs a tile of two */

typedef float vec __attribute__((vector_size(16)));
typedef vec quad;
typedef struct {
    vec v[4];
} lanes;

__attribute__((const)) vec wasm_fma(vec a, vec b, vec c);

VEC_INLINE vec vec_of(float x)
{
    return (vec)wasm_f32x4_splat(x);
}

VEC_INLINE vec vec_load(const float *p)
{
    return (vec)wasm_v128_load(p);
}

VEC_INLINE void vec_store(float *p, vec a)
{
    wasm_v128_store(p, (v128_t)a);
}

VEC_INLINE v128_t wasm_before(ptrdiff_t n)
{
    return wasm_i32x4_lt(wasm_i32x4_const(0, 1, 2, 3), wasm_i32x4_splat((int32_t)n));
}

VEC_INLINE vec vec_first(ptrdiff_t n, vec a, vec b)
{
    return (vec)wasm_v128_bitselect((v128_t)a, (v128_t)b, wasm_before(n));
}

VEC_INLINE vec vec_put(vec a, ptrdiff_t i, float x)
{
    v128_t at = wasm_i32x4_eq(wasm_i32x4_const(0, 1, 2, 3), wasm_i32x4_splat((int32_t)i));
    return (vec)wasm_v128_bitselect(wasm_f32x4_splat(x), (v128_t)a, at);
}

/* The exponent's bias is added by a product, which is exact and makes subnormal halves normal. */
VEC_INLINE vec vec_load_f16(const uint16_t *p)
{
    v128_t h = wasm_u32x4_load16x4(p), size = wasm_v128_and(h, wasm_i32x4_splat(0x7FFF));
    v128_t sign = wasm_i32x4_shl(wasm_v128_xor(h, size), 16);
    v128_t x = wasm_f32x4_mul(wasm_i32x4_shl(size, 13), wasm_f32x4_splat(0x1p112f));
    v128_t top = wasm_v128_and(wasm_i32x4_gt(size, wasm_i32x4_splat(0x7BFF)),
                               wasm_i32x4_splat(0x7F800000)); /* infinite or NaN */
    return (vec)wasm_v128_or(wasm_v128_or(x, top), sign);
}

VEC_INLINE void vec_store_f16(uint16_t *p, vec a)
{
    for (size_t i = 0; i < LANES; i++)
        p[i] = f16_from_f32(a[i]);
}

VEC_INLINE vec vec_load_bf16(const uint16_t *p)
{
    return (vec)wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16);
}

VEC_INLINE vec vec_load_i8(const uint8_t *p)
{
    v128_t wide = wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p));
    return (vec)wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(wide));
}

VEC_INLINE void vec_keep(vec *a)
{
    (void)a;
}

VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return wasm_fma(a, b, c);
}

/* f32x4.max would return NaN for one NaN. */
VEC_INLINE vec vec_max(vec a, vec b)
{
    return (vec)wasm_f32x4_pmax((v128_t)b, (v128_t)a);
}

VEC_INLINE vec vec_min(vec a, vec b)
{
    return (vec)wasm_f32x4_pmin((v128_t)b, (v128_t)a);
}

VEC_INLINE vec vec_at_least(vec a, vec b, vec x)
{
    return (vec)wasm_v128_and(wasm_f32x4_ge((v128_t)a, (v128_t)b), (v128_t)x);
}

VEC_INLINE vec vec_max_at_least(vec a, vec b, vec x, vec y)
{
    v128_t larger = (v128_t)vec_max(x, y);
    return (vec)wasm_v128_bitselect(larger, (v128_t)y, wasm_f32x4_ge((v128_t)a, (v128_t)b));
}

/* 2^n is applied in two halves: the first product is exact, the second rounds. */
VEC_INLINE vec vec_scale2(vec p, vec shifted, vec whole)
{
    (void)whole;
    v128_t n = wasm_i32x4_sub((v128_t)shifted, wasm_i32x4_splat(0x4B400000));
    v128_t half = wasm_i32x4_shr(n, 1), rest = wasm_i32x4_sub(n, half),
           bias = wasm_i32x4_splat(127);
    half = wasm_i32x4_shl(wasm_i32x4_add(half, bias), 23);
    rest = wasm_i32x4_shl(wasm_i32x4_add(rest, bias), 23);
    return p * (vec)half * (vec)rest;
}

VEC_INLINE float vec_reduce(vec a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

VEC_INLINE float vec_biggest(vec a)
{
    vec two = vec_max(a, (vec)wasm_i32x4_shuffle((v128_t)a, (v128_t)a, 2, 3, 0, 1));
    return vec_max(two, (vec)wasm_i32x4_shuffle((v128_t)two, (v128_t)two, 1, 0, 3, 2))[0];
}

VEC_INLINE quad quad_sqrt(quad a)
{
    return (quad)wasm_f32x4_sqrt((v128_t)a);
}

VEC_INLINE quad lanes_reduce_four(const lanes a[4])
{
    float sums[4];
    for (size_t i = 0; i < 4; i++)
        sums[i] = vec_reduce((a[i].v[0] + a[i].v[2]) + (a[i].v[1] + a[i].v[3]));
    return vec_load(sums);
}

VEC_INLINE void lanes_cross(const lanes a[4], lanes to[4])
{
    for (size_t q = 0; q < 4; q++)
        for (size_t i = 0; i < 4; i++)
            to[i].v[q] = (vec){a[0].v[q][i], a[1].v[q][i], a[2].v[q][i], a[3].v[q][i]};
}

#include "kernels/simd/vec_four.h"

#endif
