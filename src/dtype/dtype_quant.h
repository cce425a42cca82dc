/* Shared by the files of src/dtype only: fields of a block, and the functions of dtype.c's table
 * that are defined in other files.
 *
 * A decoder takes n values, a whole number of blocks, from bytes that may be unaligned; any bytes
 * decode. Products are rounded to float32 in the order written, as ggml does, so all programs see
 * the same weights. An encoder takes any floats: values that are not finite give a block of wrong
 * values, not undefined behaviour.
 */
#ifndef MGPT_DTYPE_QUANT_H
#define MGPT_DTYPE_QUANT_H

#include "dtype/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { QK = 32, QK_K = 256 }; /* values of a block, of a super-block */

static inline uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline void put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline float f16_at(const uint8_t *p)
{
    return f16_to_f32(u16_at(p));
}

static inline void put_f16(uint8_t *p, float v)
{
    put_u16(p, f16_from_f32(v));
}

typedef void to_float_fn(const void *src, float *dst, size_t n);
typedef void from_float_fn(const float *src, void *dst, size_t n);

/* The 4-bit values that IQ4_NL and IQ4_XS choose from. */
extern const int8_t iq4_values[16];

/* dtype_quant.c: blocks of 32 */
to_float_fn q8_0_to_float, q4_0_to_float, q4_1_to_float, q5_0_to_float, q5_1_to_float;
to_float_fn iq4_nl_to_float, mxfp4_to_float;
from_float_fn q8_0_from_float, q4_0_from_float, q4_1_from_float, q5_0_from_float, q5_1_from_float;

/* dtype_kquant.c: super-blocks of 256 */
to_float_fn q2_k_to_float, q3_k_to_float, q4_k_to_float, q5_k_to_float, q6_k_to_float;
to_float_fn iq4_xs_to_float;

/* dtype_ksearch.c */
from_float_fn q4_k_from_float, q6_k_from_float;

#endif
