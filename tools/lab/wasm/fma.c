/* fmaf of four floats at once (fmaf.h, vec_wasm.h). */
#include <wasm_simd128.h>

#include "kernels/simd/vec.h"

/* Two sums, rounded to odd before they are rounded to floats. */
static v128_t add_with_care(v128_t p, v128_t c, v128_t s)
{
    double parts[3][2];
    wasm_v128_store(parts[0], p);
    wasm_v128_store(parts[1], c);
    wasm_v128_store(parts[2], s);
    return wasm_f64x2_make(spec_sum_to_odd(parts[0][0], parts[1][0], parts[2][0]),
                           spec_sum_to_odd(parts[0][1], parts[1][1], parts[2][1]));
}

/* fma of the two low floats of a, b and c. */
static inline v128_t fma_two(v128_t a, v128_t b, v128_t c)
{
    const v128_t low = wasm_i64x2_const(0x1FFFFFFF, 0x1FFFFFFF);
    const v128_t middle = wasm_i64x2_const(0x10000000, 0x10000000);
    v128_t p = wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b));
    v128_t wide = wasm_f64x2_promote_low_f32x4(c), s = wasm_f64x2_add(p, wide);
    v128_t is_small = wasm_f64x2_lt(wasm_f64x2_abs(s), wasm_f64x2_splat(0x1p-126));
    v128_t unsure = wasm_v128_or(wasm_i64x2_eq(wasm_v128_and(s, low), middle),
                                 wasm_v128_and(is_small, wasm_f64x2_ne(s, wasm_f64x2_splat(0))));
    if (__builtin_expect(wasm_v128_any_true(unsure), 0))
        s = add_with_care(p, wide, s);
    return wasm_f32x4_demote_f64x2_zero(s);
}

__attribute__((noinline, export_name("wasm_fma"))) vec wasm_fma(vec a, vec b, vec c)
{
    const v128_t va = (v128_t)a, vb = (v128_t)b, vc = (v128_t)c;
    v128_t low = fma_two(va, vb, vc);
    v128_t high = fma_two(wasm_i64x2_shuffle(va, va, 1, 0), wasm_i64x2_shuffle(vb, vb, 1, 0),
                          wasm_i64x2_shuffle(vc, vc, 1, 0));
    return (vec)wasm_i64x2_shuffle(low, high, 0, 2);
}
