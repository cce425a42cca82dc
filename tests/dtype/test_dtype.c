/* Element types. Decoders against the values of FORMATS.md 1.4 and against those of the Python
 * package gguf and of ggml over random bytes; encoders against the bytes of both. quant.py in
 * tests/vectors makes what is compared with. Half precision and bfloat16 are in test_kernels.c. */
#include "base/fnv.h"
#include "dtype/dtype.h"
#include "quant_values.h"
#include "support/unit.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { MAX_BLOCK = 256, MAX_BYTES = 256 };

static const struct dtype *const *quantised(size_t *n)
{
    static const struct dtype *found[DTYPE_N_IDS];
    *n = 0;
    for (uint32_t id = 0; id < DTYPE_N_IDS; id++)
        if (dtype_find(id) && dtype_find(id)->block > 1)
            found[(*n)++] = dtype_find(id);
    return found;
}

/* ---- the table ---- */

TEST(table)
{
    static const struct {
        const char *name;
        uint32_t id, block, bytes;
        int written;
    } want[] = {
        {"F32", 0, 1, 4, 1},         {"F16", 1, 1, 2, 1},        {"BF16", 30, 1, 2, 1},
        {"Q8_0", 8, 32, 34, 1},      {"Q4_0", 2, 32, 18, 1},     {"Q4_1", 3, 32, 20, 1},
        {"Q5_0", 6, 32, 22, 1},      {"Q5_1", 7, 32, 24, 1},     {"Q2_K", 10, 256, 84, 1},
        {"Q3_K", 11, 256, 110, 1},   {"Q4_K", 12, 256, 144, 1},  {"Q5_K", 13, 256, 176, 1},
        {"Q6_K", 14, 256, 210, 1},   {"IQ4_NL", 20, 32, 18, 0},  {"IQ4_XS", 23, 256, 136, 0},
        {"MXFP4", 39, 32, 17, 0},    {"TQ1_0", 34, 256, 54, 0},  {"TQ2_0", 35, 256, 66, 0},
        {"IQ2_XXS", 16, 256, 66, 0}, {"IQ2_XS", 17, 256, 74, 0}, {"IQ3_XXS", 18, 256, 98, 0},
        {"IQ1_S", 19, 256, 50, 0},   {"IQ3_S", 21, 256, 110, 0}, {"IQ2_S", 22, 256, 82, 0},
        {"IQ1_M", 29, 256, 56, 0},   {"NVFP4", 40, 64, 36, 0},   {"Q1_0", 41, 128, 18, 0},
        {"Q2_0", 42, 64, 18, 0},
    };
    size_t n;
    quantised(&n);
    assert_int_equal(n, COUNT(want) - 3); /* three types have no blocks */
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
    } none[] = {{9, "Q8_1"}, {15, "Q8_K"},    {24, "I8"},        {25, "I16"},
                {26, "I32"}, {27, "I64"},     {28, "F64"},       {4, "4"},
                {38, "38"},  {43, "unknown"}, {1000, "unknown"}, {UINT32_MAX, "unknown"}};
    for (size_t i = 0; i < COUNT(none); i++) {
        assert_null(dtype_find(none[i].id));
        assert_string_equal(dtype_name(none[i].id), none[i].name);
    }
    assert_null(dtype_named("Q8_K"));
    assert_null(dtype_named("Q4_K_"));
    assert_null(dtype_named("Q4_"));
}

/* ---- decoding ---- */

static void put_half(uint8_t *p, unsigned h)
{
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* A row of quant_stated.txt. */
static void check_stated(char *row, void *user)
{
    static const int places32[] = {0, 1, 15, 16, 31},
                     places256[] = {0, 1, 31, 32, 63, 64, 100, 128, 200, 255};
    const struct dtype *d = dtype_named(strtok(row, " "));
    size_t d_at = strtoul(strtok(NULL, " "), NULL, 10), m_at = strtoul(strtok(NULL, " "), NULL, 10);
    double want_sum = strtod(strtok(NULL, " "), NULL), sum = 0;
    uint8_t b[MAX_BYTES];
    float y[MAX_BLOCK];
    (void)user;
    for (size_t j = 0; j < MAX_BYTES; j++)
        b[j] = (uint8_t)(37 * j + 11);
    put_half(b + d_at, 0x2E00);
    if (m_at)
        put_half(b + m_at, 0x2A00);
    if (d->id == DTYPE_MXFP4) { /* a byte where the others have d */
        b[0] = 126;
        b[1] = 37 + 11;
    }
    d->to_float(b, y, d->block);
    for (size_t j = 0; j < (d->block == 32 ? COUNT(places32) : COUNT(places256)); j++) {
        int at = d->block == 32 ? places32[j] : places256[j];
        double want = strtod(strtok(NULL, " "), NULL);
        if ((double)y[at] != want)
            fail_msg("%s: value %d is %g, expected %g", d->name, at, (double)y[at], want);
    }
    for (size_t j = 0; j < d->block; j++)
        sum += (double)y[j];
    assert_true(sum == want_sum); /* multiples of 2^-6 below 2^14: exact */
}

TEST(stated_values)
{
    assert_true(unit_rows("tests/vectors/quant_stated.txt", check_stated, NULL) >= 19);
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
static uint64_t hash_floats(const float *v, size_t n)
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

/* All bits of the values of random blocks. The blocks lie at every alignment, and decode the same
 * one by one. */
static void decodes(const char *type, size_t n_blocks, uint64_t want)
{
    const struct dtype *d = dtype_named(type);
    size_t n_bytes = n_blocks * d->block_bytes, n = n_blocks * d->block;
    for (size_t shift = 0; shift < 4; shift++) {
        uint8_t *bytes = malloc(n_bytes + shift); /* of this very size, so that ASan sees its end */
        float *v = malloc(n * sizeof *v), one[MAX_BLOCK];
        random_bytes(d->id, bytes + shift, n_bytes);
        d->to_float(bytes + shift, v, n);
        if (hash_floats(v, n) != want)
            fail_msg("%s: values of random blocks: %016" PRIx64, type, hash_floats(v, n));
        for (size_t i = 0; i < n_blocks; i++) {
            d->to_float(bytes + shift + i * d->block_bytes, one, d->block);
            assert_int_equal(hash_floats(one, d->block), hash_floats(v + i * d->block, d->block));
        }
        free(bytes);
        free(v);
    }
}

/* ---- encoding ---- */

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

struct vectors_read {
    float x[32]; /* the last input */
    int n_decoded, n_encoded, n_errors;
};

static void check_vector(char *row, void *user)
{
    struct vectors_read *v = user;
    char what[16], type[16], third[512], fourth[512];
    int n = sscanf(row, "%15s %15s %511s %511s", what, type, third, fourth);
    if (n == 3 && strcmp(what, "input") == 0) {
        floats_of(third, v->x);
    } else if (n == 4 && strcmp(what, "decode") == 0) {
        decodes(type, strtoul(third, NULL, 10), strtoull(fourth, NULL, 16));
        v->n_decoded++;
    } else if (n == 4 && strcmp(what, "encode") == 0) {
        encodes(type, third, v->x, fourth);
        v->n_encoded++;
    } else if (n == 4 && strcmp(what, "error") == 0) {
        errs_less(type, third, strtod(fourth, NULL));
        v->n_errors++;
    } else {
        fail_msg("quant.txt: %s", row);
    }
}

TEST(vectors)
{
    struct vectors_read v = {.n_decoded = 0};
    unit_rows("tests/vectors/quant.txt", check_vector, &v);
    assert_int_equal(v.n_decoded, 25);
    assert_true(v.n_encoded >= 100);
    assert_int_equal(v.n_errors, 20);
}

/* ---- round trips ---- */

/* lo, hi: levels. steps: the error allowed, relative to the largest |x|: of Q8_0 half a step. The
 * symmetric 4 and 5-bit types lack a level at one end: a step. Those with an offset have half a
 * step of a range that is at most twice |x|. Rounding scale and offset to 11 bits adds at most
 * 2^-11 each. */
static const struct {
    uint32_t id;
    int lo, hi;
    double steps;
} levels[] = {{DTYPE_Q8_0, -127, 127, 0.5 / 127},
              {DTYPE_Q4_0, -8, 7, 1.0 / 8},
              {DTYPE_Q4_1, 0, 15, 1.0 / 15},
              {DTYPE_Q5_0, -16, 15, 1.0 / 16},
              {DTYPE_Q5_1, 0, 31, 1.0 / 31}};

static void round_trip32(const struct dtype *d, const float x[32], float y[32])
{
    uint8_t bytes[MAX_BYTES];
    d->from_float(x, bytes, 32);
    d->to_float(bytes, y, 32);
}

/* Blocks whose integers span the type's range and whose scale is exact come back as they were: the
 * encoder finds the scale that made them. */
TEST(exact_blocks)
{
    uint64_t rng = seeded(3);
    for (size_t t = 0; t < COUNT(levels); t++)
        for (int turn = 0; turn < 1000; turn++) {
            float x[32], y[32], scale = ldexpf(1, (int)(draw(&rng) % 20) - 12);
            int lo = levels[t].lo, span = levels[t].hi - lo + 1;
            for (int j = 0; j < 32; j++)
                x[j] = scale * (float)(lo + (int)(draw(&rng) >> 33) % span);
            x[draw(&rng) % 16] = scale * (float)lo;
            x[16 + draw(&rng) % 16] = scale * (float)levels[t].hi;
            round_trip32(dtype_find(levels[t].id), x, y);
            assert_memory_equal(x, y, sizeof x); /* Q8_0 has no -128, so no -0 is made */
        }
}

TEST(bounds)
{
    uint64_t rng = seeded(4);
    for (size_t t = 0; t < COUNT(levels); t++)
        for (int turn = 0; turn < 500; turn++) {
            float x[32], y[32];
            double most = 0;
            for (int j = 0; j < 32; j++) {
                x[j] = gauss(&rng);
                most = fmax(most, fabs((double)x[j]));
            }
            round_trip32(dtype_find(levels[t].id), x, y);
            for (int j = 0; j < 32; j++)
                assert_true(fabs((double)y[j] - (double)x[j]) <=
                            most * (levels[t].steps + 0x1p-10));
        }
}

/* K types: blocks of zeros stay zero, one value alone survives, constant blocks nearly do. */
TEST(k_corners)
{
    const uint32_t ids[] = {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_Q5_K};
    for (size_t t = 0; t < COUNT(ids); t++) {
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

/* Q4_K takes the best of its rounds, not the last: the squared error of 64 blocks. */
TEST(q4_k_best_round)
{
    uint64_t rng = seeded(6);
    double error = 0;
    for (size_t k = 0; k < 64; k++) {
        float x[MAX_BLOCK];
        for (size_t i = 0; i < MAX_BLOCK; i++)
            x[i] = gauss(&rng) * (float)(1 + i / 32 * k % 5);
        error += error_of(dtype_find(DTYPE_Q4_K), x, MAX_BLOCK);
    }
    assert_true(error > 684 && error < 684.3); /* the last rounds have 685.8 */
}

/* ---- any input ---- */

/* Nothing crashes (UBSan sees conversions that are undefined), and what is next to a bad block is
 * as if it were not there. */
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
