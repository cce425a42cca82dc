/* Element types. See dtype.h. File bytes may be unaligned, so every access is a memcpy. Types
 * that are blocks of small integers are in dtype_quant.c, dtype_kquant.c and dtype_ksearch.c. */
#include "dtype/dtype.h"

#include "base/float_bits.h"
#include "dtype/dtype_quant.h"

#include <string.h>

static void f32_to_float(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *dst);
}

static void f32_from_float(const float *src, void *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *src);
}

/* Shifting exponent and fraction into place gives a value 2^112 too small, subnormals included.
 * The multiplication is exact. Infinity and NaN get the full exponent. */
float f16_to_f32(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7FFF) << 13;
    uint32_t bits = f32_bits(f32_from_bits(magnitude) * 0x1p112f);
    if (magnitude >= 0x0F800000)
        bits = magnitude | 0x7F800000;
    return f32_from_bits(bits | (uint32_t)(h & 0x8000) << 16);
}

uint16_t f16_from_f32(float f)
{
    uint32_t bits = f32_bits(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) /* NaN: keep the top of the payload, stay quiet */
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
    if (magnitude >= 0x47800000) /* 2^16 and above; 65520..65535 round up by the carry below */
        return (uint16_t)(sign | 0x7C00);
    if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 aligns the last bit to 2^-24 */
        uint32_t aligned = f32_bits(f32_from_bits(magnitude) + 0.5f);
        return (uint16_t)(sign | (aligned - 0x3F000000));
    }
    uint32_t even = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xFFF + even) >> 13);
}

uint16_t bf16_from_f32(float f)
{
    uint32_t bits = f32_bits(f);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static uint16_t load_u16(const void *src, size_t i)
{
    uint16_t v;
    memcpy(&v, (const uint8_t *)src + 2 * i, sizeof v);
    return v;
}

static void f16_to_float(const void *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f16_to_f32(load_u16(src, i));
}

static void bf16_to_float(const void *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f32_from_bits((uint32_t)load_u16(src, i) << 16);
}

static void f16_from_float(const float *src, void *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t v = f16_from_f32(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &v, sizeof v);
    }
}

static void bf16_from_float(const float *src, void *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t v = bf16_from_f32(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &v, sizeof v);
    }
}

static const struct dtype types[] = {
    {DTYPE_F32, "F32", 1, 4, f32_to_float, f32_from_float},
    {DTYPE_F16, "F16", 1, 2, f16_to_float, f16_from_float},
    {DTYPE_BF16, "BF16", 1, 2, bf16_to_float, bf16_from_float},
    {DTYPE_Q8_0, "Q8_0", QK, 34, q8_0_to_float, q8_0_from_float},
    {DTYPE_Q4_0, "Q4_0", QK, 18, q4_0_to_float, q4_0_from_float},
    {DTYPE_Q4_1, "Q4_1", QK, 20, q4_1_to_float, q4_1_from_float},
    {DTYPE_Q5_0, "Q5_0", QK, 22, q5_0_to_float, q5_0_from_float},
    {DTYPE_Q5_1, "Q5_1", QK, 24, q5_1_to_float, q5_1_from_float},
    {DTYPE_IQ4_NL, "IQ4_NL", QK, 18, iq4_nl_to_float, NULL},
    {DTYPE_MXFP4, "MXFP4", QK, 17, mxfp4_to_float, NULL},
    {DTYPE_Q2_K, "Q2_K", QK_K, 84, q2_k_to_float, NULL},
    {DTYPE_Q3_K, "Q3_K", QK_K, 110, q3_k_to_float, NULL},
    {DTYPE_Q4_K, "Q4_K", QK_K, 144, q4_k_to_float, q4_k_from_float},
    {DTYPE_Q5_K, "Q5_K", QK_K, 176, q5_k_to_float, NULL},
    {DTYPE_Q6_K, "Q6_K", QK_K, 210, q6_k_to_float, q6_k_from_float},
    {DTYPE_IQ4_XS, "IQ4_XS", QK_K, 136, iq4_xs_to_float, NULL},
};

const struct dtype *dtype_find(uint32_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

static int same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        char upper = *b >= 'a' && *b <= 'z' ? (char)(*b - 32) : *b;
        if (*a != upper)
            return 0;
    }
    return *a == *b;
}

const struct dtype *dtype_named(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (same_name(types[i].name, name))
            return &types[i];
    return NULL;
}

const char *dtype_name(uint32_t id)
{
    static const char *const names[] = {
        "F32",     "F16",    "Q4_0",    "Q4_1",  "4",      "5",     "Q5_0",  "Q5_1",
        "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
        "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
        "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  "31",
        "32",      "33",     "TQ1_0",   "TQ2_0", "36",     "37",    "38",    "MXFP4",
    };
    return id < sizeof names / sizeof *names ? names[id] : "unknown";
}
