/* Integer vectors for int_tile_tmpl.h: as many bytes as vec has, seen as bytes or as LANES integers
 * of 32 bits. They are vectors of GNU C: `&`, `|`, `^`, `+` and `-` work on bytes.
 *
 * The ISA level's own part is ivec_dot(sum, w, x, bits), in isa/int_NAME.c: it adds to lane r of sum
 * the products of bytes 4r to 4r + 3 of STEP(bits) vectors of w and x, exactly. Bytes of x are signed. Bytes
 * of w are signed if bits is 8 and SIGNED_8 is 1, otherwise unsigned (below 2^bits).
 */
#ifndef MGPT_KERNELS_IVEC_H
#define MGPT_KERNELS_IVEC_H

#include "kernels/simd/vec.h"

typedef uint8_t ivec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec_32 __attribute__((vector_size(4 * LANES)));
typedef uint16_t ivec_16 __attribute__((vector_size(4 * LANES)));

VEC_INLINE ivec ivec_load(const void *p)
{
    ivec v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE void ivec_store(void *p, ivec v)
{
    memcpy(p, &v, sizeof v);
}

VEC_INLINE ivec ivec_of_byte(uint8_t b)
{
    return (ivec){0} + b;
}

VEC_INLINE ivec ivec_of(int32_t x)
{
    return (ivec)((ivec_32){0} + x);
}

/* The four bytes at p, repeated. */
VEC_INLINE ivec ivec_of_four(const int8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return ivec_of(x);
}

/* Arithmetic on lanes of 32 bits. */
VEC_INLINE ivec ivec_add(ivec a, ivec b)
{
    return (ivec)((ivec_32)a + (ivec_32)b);
}

/* Shifts 16-bit lanes left, or right if `left` is negative. */
VEC_INLINE ivec ivec_shift(ivec v, int left)
{
    return left < 0 ? (ivec)((ivec_16)v >> -left) : (ivec)((ivec_16)v << left);
}

VEC_INLINE vec vec_of_ivec(ivec v)
{
    return __builtin_convertvector((ivec_32)v, vec);
}

/* Keeps v in a register: the compiler does not reload it per use. */
VEC_INLINE void ivec_keep(ivec *v)
{
    vec same = (vec)*v;
    vec_keep(&same);
    *v = (ivec)same;
}

#endif
