/* The fmaf of a lab page's module against the C library's. */
#include "base/fmaf.h"
#include "support/unit.h"
#undef fmaf

#include "support/toy_zoo.h"

#include <math.h>

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static void check_fmaf(float a, float b, float c)
{
    float want = fmaf(a, b, c), got = spec_fmaf(a, b, c);
    if (bits_of(want) != bits_of(got) && !(isnan(want) && isnan(got)))
        fail_msg("fmaf(%a, %a, %a) is %a, not %a", (double)a, (double)b, (double)c, (double)want,
                 (double)got);
}

/* All combinations of what is special: zeros, subnormals, the largest, infinities, NaN. */
TEST(fmaf_special)
{
    static const float values[] = {
        0.0f,      1.0f,     1.5f,          0x1p-149f,       0x1.fffffcp-127f,
        0x1p-126f, 0x1p-75f, 0x1p-74f,      0x1.fffffep127f, 0x1p64f,
        INFINITY,  NAN,      0x1.000002p0f, 0x1.fffffep-1f};
    enum { N = COUNT(values) };
    for (size_t i = 0; i < 8 * N * N * N; i++) {
        size_t k = i / 8;
        check_fmaf(i & 1 ? -values[k % N] : values[k % N],
                   i & 2 ? -values[k / N % N] : values[k / N % N],
                   i & 4 ? -values[k / N / N] : values[k / N / N]);
    }
}

/* Where two roundings to nearest go wrong: the sum of c and the first bits of the product is
 * halfway between two floats, and the product has a little more or less. */
TEST(fmaf_midpoints)
{
    uint64_t rng = 1;
    size_t n_wrong = 0;
    for (int i = 0; i < 200000; i++) {
        uint64_t r = toy_random(&rng);
        float c = float_of(0x3F800000u + (uint32_t)(r & 0xFFFFF)); /* 1 .. 1.125 */
        int tail = (int)(r >> 20 & 15) + 28; /* the product is 2^-24 (1 + or - 2^-tail) */
        float a = 1.0f + ldexpf(1.0f, -(tail / 2)), b = 1.0f - ldexpf(1.0f, -(tail / 2));
        a = r >> 24 & 1 ? 1.0f + ldexpf(1.0f, -23) : a;
        float by = ldexpf(r >> 25 & 1 ? -1.0f : 1.0f, -24);
        int shift = (int)(r >> 32 & 127) - 90; /* down to subnormal sums */
        check_fmaf(a * by, ldexpf(b, shift), ldexpf(c, shift));
        check_fmaf(a, ldexpf(b * by, shift), ldexpf(c, shift));
        double twice = (double)(a * by) * (double)ldexpf(b, shift) + (double)ldexpf(c, shift);
        n_wrong += (float)twice != fmaf(a * by, ldexpf(b, shift), ldexpf(c, shift));
    }
    assert_true(n_wrong > 1000); /* else these are not hard cases */
}

TEST(fmaf_random)
{
    uint64_t rng = 2;
    for (int i = 0; i < 300000; i++) {
        uint64_t r = toy_random(&rng), s = toy_random(&rng);
        float a = float_of((uint32_t)r), b = float_of((uint32_t)(r >> 32));
        check_fmaf(a, b, float_of((uint32_t)s));
        /* A third number near the product, and of numbers with few bits, whose sums are often
         * exact. */
        check_fmaf(a, b, -(a * b) * (1 + ldexpf((float)(s >> 32 & 255), -23)));
        a = (float)(int)(r & 4095) - 2048;
        b = ldexpf((float)(r >> 12 & 4095), -(int)(r >> 24 & 63));
        check_fmaf(a, b, ldexpf((float)(int)(s & 0xFFFFFF), -(int)(s >> 24 & 63)));
    }
}
