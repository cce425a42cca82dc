/* element types. Decoders against the values of FORMATS.md 1.4 and against those of the Python
 * package gguf and of ggml over random bytes; encoders against the bytes of both. quant.py in
 * tests/vectors makes what is compared with. Half precision and bfloat16 are in test_kernels.c.
 */
#include "base/fnv.h"
#include "dtype/dtype.h"
#include "support/unit.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { MAX_BLOCK = 256, MAX_BYTES = 256, MANY = 16384 };

static const struct dtype *const *quantised(size_t *n)
{
    static const struct dtype *found[64];
    *n = 0;
    for (uint32_t id = 0; id < 64; id++)
        if (dtype_find(id) && dtype_find(id)->block > 1)
            found[(*n)++] = dtype_find(id);
    return found;
}

/* ---- the table --------------------------------------------------------------------------------- */

TEST(table)
{
    size_t n;
    quantised(&n);
    assert_int_equal(n, 13);
    static const struct {
        const char *name;
        uint32_t id, block, bytes;
        int written;
    } want[] = {
        {"F32", 0, 1, 4, 1},       {"F16", 1, 1, 2, 1},       {"BF16", 30, 1, 2, 1},
        {"Q8_0", 8, 32, 34, 1},    {"Q4_0", 2, 32, 18, 1},    {"Q4_1", 3, 32, 20, 1},
        {"Q5_0", 6, 32, 22, 1},    {"Q5_1", 7, 32, 24, 1},    {"Q2_K", 10, 256, 84, 0},
        {"Q3_K", 11, 256, 110, 0}, {"Q4_K", 12, 256, 144, 1}, {"Q5_K", 13, 256, 176, 0},
        {"Q6_K", 14, 256, 210, 1}, {"IQ4_NL", 20, 32, 18, 0}, {"IQ4_XS", 23, 256, 136, 0},
        {"MXFP4", 39, 32, 17, 0},
    };
    for (size_t i = 0; i < COUNT(want); i++) {
        const struct dtype *d = dtype_find(want[i].id);
        assert_non_null(d);
        assert_ptr_equal(d, dtype_named(want[i].name));
        assert_string_equal(d->name, want[i].name);
        assert_string_equal(dtype_name(want[i].id), want[i].name);
        assert_int_equal(d->block, want[i].block);
        assert_int_equal(d->block_bytes, want[i].bytes);
        assert_non_null(d->to_float);
        assert_int_equal(d->from_float != NULL, want[i].written);
    }
    assert_ptr_equal(dtype_named("q4_k"), dtype_find(DTYPE_Q4_K));
}

/* Types that exist but cannot be read are refused by name. */
TEST(unreadable)
{
    const struct {
        uint32_t id;
        const char *name;
    } none[] = {
        {9, "Q8_1"}, {15, "Q8_K"},      {16, "IQ2_XXS"},        {19, "IQ1_S"}, {21, "IQ3_S"},
        {24, "I8"},  {28, "F64"},       {29, "IQ1_M"},          {34, "TQ1_0"}, {4, "4"},
        {38, "38"},  {1000, "unknown"}, {UINT32_MAX, "unknown"}};
    for (size_t i = 0; i < COUNT(none); i++) {
        assert_null(dtype_find(none[i].id));
        assert_string_equal(dtype_name(none[i].id), none[i].name);
    }
    assert_null(dtype_named("IQ1_S"));
    assert_null(dtype_named("Q4_K_"));
    assert_null(dtype_named("Q4_"));
}

/* ---- decoding ---------------------------------------------------------------------------------- */

/* FORMATS.md 1.4: bytes (37 i + 11) mod 256, d = 0.09375, dmin or m = 0.046875, MXFP4: exponent 126. */
static const int places32[] = {0, 1, 15, 16, 31};
static const int places256[] = {0, 1, 31, 32, 63, 64, 100, 128, 200, 255};

static const struct expected {
    const char *type;
    size_t d_at, m_at; /* of the half-precision fields; 0 behind m_at: none */
    double sum, values[10];
} stated[] = {
    {"Q4_0", 0, 0, -1.96875, {-.28125, .1875, -.75, -.28125, 0}},
    {"Q4_1", 0, 2, 24.46875, {1.453125, .421875, .984375, .890625, 1.171875}},
    {"Q5_0", 0, 0, 1.40625, {.84375, -.1875, -1.125, 1.3125, .09375}},
    {"Q5_1", 0, 2, 48.84375, {1.828125, 2.296875, 2.859375, 1.828125, .515625}},
    {"Q8_0", 0, 0, -16.5, {7.96875, 11.4375, -12, -8.53125, -4.5}},
    {"IQ4_NL", 0, 0, -24.09375, {-3.28125, 2.34375, -11.90625, -3.28125, .09375}},
    {"MXFP4", 0, 0, 6.25, {0, 1.5, -.75, .75, 1.5}},
    {"Q4_K",
     0,
     2,
     5103.75,
     {29.578125, -2.390625, 15.046875, .75, 3.75, 39.421875, 8.90625, 39.65625, 12.984375,
      4.546875}},
    {"Q5_K",
     0,
     2,
     10895.25,
     {76.078125, -2.390625, 15.046875, 10.5, 7.5, 39.421875, 22.03125, 98.15625, 12.984375,
      10.171875}},
    {"Q6_K",
     208,
     0,
     432.375,
     {-134.15625, 159, -9, 21.65625, -54.375, -285, 236.53125, -32.90625, 102.09375, -5.625}},
    {"Q2_K",
     80,
     82,
     193.03125,
     {3.09375, 0, -.140625, .703125, .609375, .984375, 1.875, .703125, .75, .421875}},
    {"Q3_K",
     108,
     0,
     89.8125,
     {7.59375, -10.125, 6, -2.0625, .9375, 3.1875, 0, .1875, 2.34375, 3.9375}},
    {"IQ4_XS",
     0,
     0,
     -1031.71875,
     {6.09375, -.09375, 3.28125, 42.65625, -16.40625, 73.125, 3.75, -54.84375, 106.875, -1.5}},
};

static void put_half(uint8_t *p, unsigned h)
{
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

TEST(stated_values)
{
    for (size_t i = 0; i < COUNT(stated); i++) {
        const struct expected *e = &stated[i];
        const struct dtype *d = dtype_named(e->type);
        uint8_t b[MAX_BYTES];
        float y[MAX_BLOCK];
        double sum = 0;
        for (size_t j = 0; j < MAX_BYTES; j++)
            b[j] = (uint8_t)(37 * j + 11);
        put_half(b + e->d_at, 0x2E00);
        if (e->m_at)
            put_half(b + e->m_at, 0x2A00);
        if (d->id == DTYPE_MXFP4) { /* a byte where the others have d */
            b[0] = 126;
            b[1] = 37 + 11;
        }
        d->to_float(b, y, d->block);
        for (size_t j = 0; j < (d->block == 32 ? 5 : 10); j++) {
            int at = d->block == 32 ? places32[j] : places256[j];
            if ((double)y[at] != e->values[j])
                fail_msg("%s: value %d is %g, expected %g", d->name, at, (double)y[at],
                         e->values[j]);
        }
        for (size_t j = 0; j < d->block; j++)
            sum += (double)y[j];
        assert_true(sum == e->sum); /* multiples of 2^-6 below 2^14: exact */
    }
}

/* The generator of quant.py. */
static uint64_t draw(uint64_t *x)
{
    *x ^= *x >> 12;
    *x ^= *x << 25;
    *x ^= *x >> 27;
    return *x * UINT64_C(2685821657736338717);
}

static uint64_t seeded(uint64_t seed)
{
    return seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

static void random_bytes(uint64_t seed, uint8_t *p, size_t n)
{
    uint64_t x = seeded(seed), word = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            word = draw(&x);
        p[i] = (uint8_t)(word >> 8 * (i % 8));
    }
}

/* FNV-1a over the bits; all NaN count the same. */
static uint64_t hash_of(const float *v, size_t n)
{
    uint64_t h = FNV_START;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0x7FC00000;
        if (!isnan(v[i]))
            memcpy(&bits, &v[i], sizeof bits);
        h = fnv1a(h, &bits, sizeof bits);
    }
    return h;
}

/* All bits of the values of random blocks. The blocks lie at every alignment, and decode the same one
 * by one. */
static void decodes(const char *type, size_t n_blocks, uint64_t want)
{
    const struct dtype *d = dtype_named(type);
    size_t n_bytes = n_blocks * d->block_bytes, n = n_blocks * d->block;
    for (size_t shift = 0; shift < 4; shift++) {
        uint8_t *bytes = malloc(n_bytes + shift); /* of this very size, so that ASan sees its end */
        float *v = malloc(n * sizeof *v), one[MAX_BLOCK];
        random_bytes(d->id, bytes + shift, n_bytes);
        d->to_float(bytes + shift, v, n);
        if (hash_of(v, n) != want)
            fail_msg("%s: values of random blocks: %016" PRIx64, type, hash_of(v, n));
        for (size_t i = 0; i < n_blocks; i++) {
            d->to_float(bytes + shift + i * d->block_bytes, one, d->block);
            assert_int_equal(hash_of(one, d->block), hash_of(v + i * d->block, d->block));
        }
        free(bytes);
        free(v);
    }
}

/* ---- encoding ---------------------------------------------------------------------------------- */

static void encodes(const char *type, const char *id, const float *x, const char *want)
{
    const struct dtype *d = dtype_named(type);
    uint8_t bytes[MAX_BYTES];
    char hex[2 * MAX_BYTES + 1];
    d->from_float(x, bytes, d->block);
    for (size_t i = 0; i < d->block_bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    if (strcmp(hex, want) != 0)
        fail_msg("%s of input %s:\n%s, expected\n%s", type, id, hex, want);
}

static float gauss(uint64_t *x)
{
    int total = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t word = draw(x);
        for (int shift = 0; shift < 64; shift += 16)
            total += (int)(word >> shift & 0xFFFF) - 0x8000;
    }
    return (float)total / 65536;
}

static void make_kind(const char *kind, float x[MANY])
{
    uint64_t rng = seeded(2);
    for (size_t i = 0; i < MANY; i++) {
        x[i] = gauss(&rng);
        if (strcmp(kind, "spread") == 0)
            x[i] = ldexpf(x[i], -(int)(i / 32 * 7 % 5));
        else if (strcmp(kind, "shifted") == 0)
            x[i] += 1;
        else if (strcmp(kind, "sparse") == 0)
            x[i] *= i % 11 == 3 ? 1 : 0;
    }
}

/* Squared error of n values after a round trip. */
static double error_of(const struct dtype *d, const float *x, size_t n)
{
    uint8_t *bytes = malloc(n / d->block * d->block_bytes);
    float *y = malloc(n * sizeof *y);
    double sum = 0;
    d->from_float(x, bytes, n);
    d->to_float(bytes, y, n);
    for (size_t i = 0; i < n; i++)
        sum += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
    free(bytes);
    free(y);
    return sum;
}

/* No worse than ggml's own search. */
static void errs_less(const char *type, const char *kind, double theirs)
{
    float *x = malloc(MANY * sizeof *x);
    make_kind(kind, x);
    double ours = error_of(dtype_named(type), x, MANY);
    printf("         %s %-8s squared error %.3f of the reference's\n", type, kind, ours / theirs);
    if (!(ours <= theirs))
        fail_msg("%s %s: squared error %g, the reference's is %g", type, kind, ours, theirs);
    free(x);
}

static void floats_of(const char *hex, float x[32])
{
    for (size_t i = 0; i < 32; i++) {
        uint32_t bits;
        assert_int_equal(sscanf(hex + 8 * i, "%8" SCNx32, &bits), 1);
        memcpy(&x[i], &bits, sizeof bits);
    }
}

TEST(vectors)
{
    char path[4096], line[1024], what[16], type[16], third[512], fourth[512];
    int n_decoded = 0, n_encoded = 0, n_errors = 0;
    float x[32] = {0};
    snprintf(path, sizeof path, "%s/tests/vectors/quant.txt", getenv("MGPT_SOURCE_ROOT"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        int n = sscanf(line, "%15s %15s %511s %511s", what, type, third, fourth);
        if (line[0] == '#')
            continue;
        if (n == 3 && strcmp(what, "input") == 0) {
            floats_of(third, x);
        } else if (n == 4 && strcmp(what, "decode") == 0) {
            decodes(type, strtoul(third, NULL, 10), strtoull(fourth, NULL, 16));
            n_decoded++;
        } else if (n == 4 && strcmp(what, "encode") == 0) {
            encodes(type, third, x, fourth);
            n_encoded++;
        } else if (n == 4 && strcmp(what, "error") == 0) {
            errs_less(type, third, strtod(fourth, NULL));
            n_errors++;
        } else {
            fail_msg("quant.txt: %s", line);
        }
    }
    fclose(f);
    assert_int_equal(n_decoded, 13);
    assert_true(n_encoded >= 100);
    assert_int_equal(n_errors, 8);
}

/* ---- round trips ------------------------------------------------------------------------------- */

/* Blocks whose integers span the type's range and whose scale is exact come back as they were: the
 * encoder finds the scale that made them. */
TEST(exact_blocks)
{
    const struct {
        uint32_t id;
        int lo, hi; /* levels */
    } types[] = {{DTYPE_Q8_0, -127, 127},
                 {DTYPE_Q4_0, -8, 7},
                 {DTYPE_Q4_1, 0, 15},
                 {DTYPE_Q5_0, -16, 15},
                 {DTYPE_Q5_1, 0, 31}};
    uint64_t rng = seeded(3);
    for (size_t t = 0; t < COUNT(types); t++) {
        const struct dtype *d = dtype_find(types[t].id);
        for (int turn = 0; turn < 1000; turn++) {
            float x[32], y[32], scale = ldexpf(1, (int)(draw(&rng) % 20) - 12);
            uint8_t bytes[MAX_BYTES];
            int span = types[t].hi - types[t].lo + 1;
            for (int j = 0; j < 32; j++)
                x[j] = scale * (float)(types[t].lo + (int)(draw(&rng) >> 33) % span);
            x[draw(&rng) % 16] = scale * (float)types[t].lo;
            x[16 + draw(&rng) % 16] = scale * (float)types[t].hi;
            d->from_float(x, bytes, 32);
            d->to_float(bytes, y, 32);
            assert_memory_equal(x, y, sizeof x); /* Q8_0 has no -128, so no -0 is made */
        }
    }
}

/* Errors relative to the largest |x|: of Q8_0 half a step. The symmetric 4 and 5-bit types lack a level
 * at one end: a step. Those with an offset have half a step of a range that is at most twice |x|.
 * Rounding scale and offset to 11 bits adds at most 2^-11 each. */
TEST(bounds)
{
    const struct {
        uint32_t id;
        double steps;
    } types[] = {{DTYPE_Q8_0, 0.5 / 127},
                 {DTYPE_Q4_0, 1.0 / 8},
                 {DTYPE_Q4_1, 1.0 / 15},
                 {DTYPE_Q5_0, 1.0 / 16},
                 {DTYPE_Q5_1, 1.0 / 31}};
    uint64_t rng = seeded(4);
    for (size_t t = 0; t < COUNT(types); t++) {
        const struct dtype *d = dtype_find(types[t].id);
        for (int turn = 0; turn < 500; turn++) {
            float x[32], y[32];
            uint8_t bytes[MAX_BYTES];
            double most = 0;
            for (int j = 0; j < 32; j++) {
                x[j] = gauss(&rng);
                most = fmax(most, fabs((double)x[j]));
            }
            d->from_float(x, bytes, 32);
            d->to_float(bytes, y, 32);
            for (int j = 0; j < 32; j++)
                assert_true(fabs((double)y[j] - (double)x[j]) <= most * (types[t].steps + 0x1p-10));
        }
    }
}

/* K types: blocks of zeros stay zero, one value alone survives, constant blocks are kept closely. */
TEST(k_corners)
{
    const uint32_t ids[] = {DTYPE_Q4_K, DTYPE_Q6_K};
    for (size_t t = 0; t < 2; t++) {
        const struct dtype *d = dtype_find(ids[t]);
        float x[MAX_BLOCK] = {0};
        assert_true(error_of(d, x, MAX_BLOCK) == 0);
        for (int sign = -1; sign <= 1; sign += 2) {
            x[77] = (float)sign * 3;
            /* Q4_K: what -3 needs as a minimum, d must take away from the other 31; 11 bits each */
            assert_true(error_of(d, x, MAX_BLOCK) <= 32 * pow(3 * 0x1p-10, 2));
        }
        for (size_t i = 0; i < MAX_BLOCK; i++)
            x[i] = -0.7f;
        assert_true(error_of(d, x, MAX_BLOCK) <= MAX_BLOCK * pow(0.7 * 0x1p-11, 2));
        for (size_t i = 0; i < MAX_BLOCK; i++)
            x[i] = 1e-9f; /* below every half-precision scale: zeros */
        assert_true(error_of(d, x, MAX_BLOCK) <= MAX_BLOCK * 1e-18 * 1.0001);
    }
}

/* ---- any input --------------------------------------------------------------------------------- */

/* Nothing crashes (UBSan sees conversions that are undefined), and what is next to a bad block is as if
 * it were not there. */
TEST(any_floats)
{
    const float odd[] = {NAN,      -NAN,    INFINITY,       -INFINITY,      FLT_MAX,
                         -FLT_MAX, FLT_MIN, 0x1p-149f,      -0x1p-149f,     0x1p-140f,
                         -0.0f,    1e9f,    65504 * 127.0f, 65520 * 127.0f, 1e-38f,
                         3e-37f};
    enum { N_ODD = COUNT(odd) };
    size_t n_types;
    const struct dtype *const *types = quantised(&n_types);
    uint64_t rng = seeded(5);
    for (size_t t = 0; t < n_types; t++) {
        const struct dtype *d = types[t];
        size_t n = 3 * d->block;
        for (size_t turn = 0; d->from_float && turn < 4 * N_ODD * N_ODD; turn++) {
            float x[3 * MAX_BLOCK], y[3 * MAX_BLOCK];
            uint8_t bytes[3 * MAX_BYTES], alone[MAX_BYTES];
            for (size_t i = 0; i < n; i++)
                x[i] = gauss(&rng);
            for (size_t i = 0; i < d->block; i++) /* one of them, two of them, half, all */
                if (i < 2 || turn % 4 == 3 || (turn % 4 == 2 && i % 2))
                    x[d->block + i] = odd[(i % 2 ? turn / 4 / N_ODD : turn / 4) % N_ODD];
            d->from_float(x, bytes, n);
            d->to_float(bytes, y, n);
            for (size_t side = 0; side < 3; side += 2) {
                d->from_float(x + side * d->block, alone, d->block);
                assert_memory_equal(alone, bytes + side * d->block_bytes, d->block_bytes);
            }
        }
    }
}
