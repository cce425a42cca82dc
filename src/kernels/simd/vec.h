/* Vectors in the instructions of one ISA level: the vocabulary of all kernels of floats by hand.
 *
 * ISA selects the file: isa/NAME.c defines it, for the fused page src/page/meson.build. vec_NAME.h
 * defines LANES, REGISTERS (vector registers of the machine), VEC_NATIVE (0: plain C, which gains
 * nothing from vectors), the types
 *
 *   vec     LANES floats
 *   lanes   sixteen floats, a row of a panel, as vec v[PANEL / LANES] (functions: lanes.h)
 *   quad    four floats
 *
 * and these functions. Each gives the same bits on every ISA level: comparisons agree with max and
 * min of x86 for zeros and NaN.
 *
 *   vec_of(x)                     x in every lane
 *   vec_load(p), vec_store(p, a)
 *   vec_load_part(p, n, rest)     the first n lanes, `rest` in the others; any n
 *   vec_store_part(p, a, n)       the first n lanes; 0 <= n <= LANES
 *   vec_first(n, a, b)            the first n lanes of a, the others of b; any n
 *   vec_put(a, i, x)              a with x in lane i; any i
 *   vec_add, vec_sub, vec_mul, vec_div, vec_fma(a, b, c) = a * b + c, rounded once
 *   vec_max, vec_min              a > b ? a : b, a < b ? a : b
 *   vec_at_least(a, b, x)         a >= b ? x : 0
 *   vec_max_at_least(a, b, x, y)  a >= b ? vec_max(x, y) : y
 *   vec_scale2(p, shifted, whole) p * 2^whole, rounded once, for p in [1/2, 2); `shifted` is
 *                                 whole + 1.5 * 2^23
 *   vec_reduce(a), vec_biggest(a) the sum, the largest lane: a[i] and a[i + LANES / 2] for
 *                                 i < LANES / 2, then half as many, ...; of NaNs the result is any
 *   quad_of, quad_load, quad_store, quad_add, quad_div, quad_sqrt, quad_fma
 *   lanes_reduce_four(a)          the sums of a[0], a[1], a[2], a[3]
 *   lanes_quarters(a, to)         to[q] = quarter q of a[0], a[1], a[2], a[3]
 *   lanes_cross(a, to)            in each quarter lane i of a[j] becomes lane j of to[i]
 *   vec_keep(&a)                  keeps a in a register: the compiler does not reload it per use
 *
 * and, if VEC_NATIVE,
 *
 *   vec_load_f16(p), vec_load_bf16(p), vec_load_part_f16(p, n) with zeros in the others, n < LANES
 *   vec_store_f16(p, a)           rounds to nearest even
 *   vec_load_i8(p)               LANES bytes, not aligned
 *   vec_prefetch(address)         a number, because it may be past the end of an array
 *
 * A file may define LANES_QUADS, and with it
 *
 *   vec_quads(a, from)            permutes the lanes of every quad
 *   vec_firsts(n, a, b)           of every quad the first n lanes of a, the others of b; n <= 4
 *
 * A file may define LANES_FOURS or LANES_FIXED, and with it its own versions of some functions of
 * lanes.h and fixed.h.
 */
#ifndef MGPT_KERNELS_VEC_H
#define MGPT_KERNELS_VEC_H

#include "base/float_bits.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#if !defined(ISA)
#define ISA scalar
#endif
#define ISA_PASTE(a, b) a##b
#define ISA_JOIN(a, b) ISA_PASTE(a, b)
#define ISA_NAME(prefix) ISA_JOIN(prefix, ISA) /* avx2: prefix_avx2 for ISA_NAME(prefix_) */
#define ISA_QUOTE(a) #a
#define ISA_STRING(a) ISA_QUOTE(a)

#define NOINLINE __attribute__((noinline))

/* With a sanitizer or for coverage, inlining and unrolling would take minutes to compile. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(QUICK_TO_COMPILE) ||  \
    defined(ISA_SMALL)
#define VEC_INLINE static inline
#define UNROLL
#else
#define VEC_INLINE static inline __attribute__((always_inline))
/* For a loop over registers with a constant count. clang unrolls it without a pragma; with one it
 * unrolls too late to keep the values in registers. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 24")
#endif
#endif
#define UNROLLED(i, n) UNROLL for (size_t i = 0; i < (n); i++)
#if defined(__clang__)
#define UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#else
#define UNROLL_TWICE _Pragma("GCC unroll 2")
#endif

/* The lanes that the lanes of a quad become: one in all four, or all in another order. */
enum quad_lanes { QUAD_0, QUAD_1, QUAD_2, QUAD_3, QUAD_2301, QUAD_1032 };

#define VEC_FILE(isa) <kernels/simd/vec_##isa.h>
#define VEC_FILE_OF(isa) VEC_FILE(isa)
#include VEC_FILE_OF(ISA)

/* vec and quad are types that compilers know the arithmetic of. Loads and stores are not here: gcc
 * 12 passes a memcpy of a vector through the stack in the tiles and in the fused attention. */
#if VEC_NATIVE

VEC_INLINE vec vec_add(vec a, vec b)
{
    return a + b;
}

VEC_INLINE vec vec_sub(vec a, vec b)
{
    return a - b;
}

VEC_INLINE vec vec_mul(vec a, vec b)
{
    return a * b;
}

VEC_INLINE vec vec_div(vec a, vec b)
{
    return a / b;
}

VEC_INLINE quad quad_of(float x)
{
    return (quad){x, x, x, x};
}

VEC_INLINE quad quad_add(quad a, quad b)
{
    return a + b;
}

VEC_INLINE quad quad_div(quad a, quad b)
{
    return a / b;
}

#endif
#endif
