/* Element types. See dtype.h. File bytes may be unaligned, so every access is a memcpy. Types that
 * are blocks of small integers are in dtype_quant.c, dtype_kquant.c, dtype_kput.c and
 * dtype_grid.c. */
#include "dtype/dtype.h"

#include "base/float_bits.h"
#include "dtype/dtype_quant.h"

#include <string.h>

void decode_F32(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * sizeof *dst);
}

void encode_F32(const float *src, void *dst, size_t n)
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

void decode_F16(const void *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f16_to_f32(load_u16(src, i));
}

void decode_BF16(const void *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f32_from_bits((uint32_t)load_u16(src, i) << 16);
}

void encode_F16(const float *src, void *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t v = f16_from_f32(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &v, sizeof v);
    }
}

void encode_BF16(const float *src, void *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t v = bf16_from_f32(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &v, sizeof v);
    }
}

#define CHECK_ID(NAME, ID, ...) _Static_assert(ID < DTYPE_N_IDS, #NAME);
READABLE_TYPES(CHECK_ID)

#define ENCODER_RW(NAME) encode_##NAME, NULL
#define ENCODER_RWW(NAME) encode_##NAME, weighted_##NAME
#define ENCODER_R(NAME) NULL, NULL
#define DTYPE(NAME, ACCESS, WEIGHT, FILE_TYPE, INSTEAD)                                            \
    {DTYPE_##NAME, #NAME,           NAME##_BLOCK,  NAME##_BYTES,          WEIGHT,                  \
     FILE_TYPE,    DTYPE_##INSTEAD, decode_##NAME, ENCODER_##ACCESS(NAME)},
#define MULTIPLIED(NAME, ID, ACCESS, BLOCK, BYTES, FILE_TYPE, INSTEAD, ...)                        \
    DTYPE(NAME, ACCESS, WEIGHT_##NAME, FILE_TYPE, INSTEAD)
#define UNPACKED(NAME, ID, ACCESS, BLOCK, BYTES, FILE_TYPE, INSTEAD)                               \
    DTYPE(NAME, ACCESS, WEIGHT_F32, FILE_TYPE, INSTEAD)

static const struct dtype types[] = {FLOAT_TYPES(MULTIPLIED) INT_TYPES(MULTIPLIED)
                                         UNPACKED_TYPES(UNPACKED)};

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

#define DTYPE_OF(NAME, ...) [WEIGHT_##NAME] = DTYPE_##NAME,

const struct dtype *dtype_of_weight(enum weight_type type)
{
    static const uint32_t ids[] = {FLOAT_TYPES(DTYPE_OF) INT_TYPES(DTYPE_OF)};
    return dtype_find(ids[type]);
}

#define NAME_OF(NAME, ...) [DTYPE_##NAME] = #NAME,
#define UNREADABLE_NAME(NAME, ID) [ID] = #NAME,

const char *dtype_name(uint32_t id)
{
    static const char *const names[] = {READABLE_TYPES(NAME_OF) UNREADABLE_TYPES(UNREADABLE_NAME)};
    return id < sizeof names / sizeof *names && names[id] ? names[id] : "unknown";
}
