/* Operations of ivec that work in each 16 bytes on their own. */
#ifndef MGPT_KERNELS_IVEC_ZIP_H
#define MGPT_KERNELS_IVEC_ZIP_H

#include "kernels/simd/ivec.h"

#if defined(__aarch64__)

VEC_INLINE ivec ivec_of_16(const uint8_t *p)
{
    return ivec_load(p);
}

/* table[index], index < 16. */
VEC_INLINE ivec ivec_lookup(ivec table, ivec index)
{
    return vqtbl1q_u8(table, index);
}

/* a[0], b[0], a[1], b[1], ... of the first (high: the last) eight bytes of each. */
VEC_INLINE ivec ivec_zip_8(ivec a, ivec b, size_t high)
{
    return high ? vzip2q_u8(a, b) : vzip1q_u8(a, b);
}

/* a[0], b[0], a[1], b[1], ... of 16-bit lanes: of the first (high: the last) four of each. */
VEC_INLINE ivec ivec_zip_16(ivec a, ivec b, size_t high)
{
    ivec_16 x = (ivec_16)a, y = (ivec_16)b;
    return (ivec)(high ? vzip2q_u16(x, y) : vzip1q_u16(x, y));
}

#else

#if LANES == 16
#define X86_OF_VEC(name) _mm512_##name
#define X86_REPEAT _mm512_broadcast_i32x4
typedef __m512i ivec_x86;
#else
#define X86_OF_VEC(name) _mm256_##name
#define X86_REPEAT _mm256_broadcastsi128_si256
typedef __m256i ivec_x86;
#endif

VEC_INLINE ivec ivec_of_16(const uint8_t *p)
{
    return (ivec)X86_REPEAT(_mm_loadu_si128((const __m128i *)(const void *)p));
}

VEC_INLINE ivec ivec_lookup(ivec table, ivec index)
{
    return (ivec)X86_OF_VEC(shuffle_epi8)((ivec_x86)table, (ivec_x86)index);
}

VEC_INLINE ivec ivec_zip_8(ivec a, ivec b, size_t high)
{
    ivec_x86 x = (ivec_x86)a, y = (ivec_x86)b;
    return (ivec)(high ? X86_OF_VEC(unpackhi_epi8)(x, y) : X86_OF_VEC(unpacklo_epi8)(x, y));
}

VEC_INLINE ivec ivec_zip_16(ivec a, ivec b, size_t high)
{
    ivec_x86 x = (ivec_x86)a, y = (ivec_x86)b;
    return (ivec)(high ? X86_OF_VEC(unpackhi_epi16)(x, y) : X86_OF_VEC(unpacklo_epi16)(x, y));
}

#endif
#endif
