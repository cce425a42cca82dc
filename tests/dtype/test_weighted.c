/* Encoders with a weight for each column. The weighted squared errors of ggml's own (release b11739,
 * ggml_quantize_chunk with an importance matrix) are what they are compared with. */
#include "base/fnv.h"
#include "dtype/dtype.h"
#include "quant_values.h"
#include "support/unit.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { WIDTH = 256, MAX_BYTES = 256 };

/* From 1/16 to 16, and 300 in seven columns. */
static void make_weights(float *w)
{
    for (size_t i = 0; i < MANY; i++) {
        size_t column = i % WIDTH;
        w[i] = column % 37 == 0 ? 300 : ldexpf(1, (int)(column * 7 % 9) - 4);
    }
}

/* The weighted squared error of bytes. */
static double weighted_error(const struct dtype *d, const float *x, const float *w,
                             const uint8_t *bytes, size_t n)
{
    float *y = malloc(n * sizeof *y);
    double sum = 0;
    d->to_float(bytes, y, n);
    for (size_t i = 0; i < n; i++)
        sum += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]) * (double)w[i];
    free(y);
    return sum;
}

static const struct {
    const char *type, *kind;
    double theirs;
} rows[] = {
    {"Q4_0", "normal", 604.662469},  {"Q4_1", "normal", 264.587392},
    {"Q5_0", "normal", 148.807267},  {"Q5_1", "normal", 60.8039823},
    {"Q2_K", "normal", 3513.50538},  {"Q3_K", "normal", 1743.36271},
    {"Q4_K", "normal", 293.556606},  {"Q5_K", "normal", 93.7623112},
    {"Q6_K", "normal", 24.1008653},  {"Q4_0", "spread", 200.868066},
    {"Q4_1", "spread", 73.3997443},  {"Q5_0", "spread", 42.0652717},
    {"Q5_1", "spread", 16.8558394},  {"Q2_K", "spread", 1113.70528},
    {"Q3_K", "spread", 466.715472},  {"Q4_K", "spread", 87.2960794},
    {"Q5_K", "spread", 28.8883799},  {"Q6_K", "spread", 6.72481589},
    {"Q4_0", "shifted", 965.786112}, {"Q4_1", "shifted", 264.057594},
    {"Q5_0", "shifted", 239.173407}, {"Q5_1", "shifted", 60.2357264},
    {"Q2_K", "shifted", 3660.78397}, {"Q3_K", "shifted", 2466.34915},
    {"Q4_K", "shifted", 283.711651}, {"Q5_K", "shifted", 84.6809796},
    {"Q6_K", "shifted", 43.1086922}, {"Q4_0", "sparse", 7.10888048},
    {"Q4_1", "sparse", 2.55516991},  {"Q5_0", "sparse", 2.06552005},
    {"Q5_1", "sparse", 0.62877371},  {"Q2_K", "sparse", 371.470234},
    {"Q3_K", "sparse", 29.0116778},  {"Q4_K", "sparse", 20.7953791},
    {"Q5_K", "sparse", 13.5397049},  {"Q6_K", "sparse", 0.484398806},
};

/* No worse than ggml's, and better than without weights. */
TEST(error)
{
    float *x = malloc(MANY * sizeof *x), *w = malloc(MANY * sizeof *w);
    uint8_t *bytes = malloc(MANY);
    make_weights(w);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct dtype *d = dtype_named(rows[i].type);
        make_kind(rows[i].kind, x);
        d->from_float(x, bytes, MANY);
        double plain = weighted_error(d, x, w, bytes, MANY);
        d->from_float_weighted(x, w, bytes, MANY);
        double ours = weighted_error(d, x, w, bytes, MANY);
        printf("         %s %-8s weighted error %.3f of ggml's, %.3f of that without weights\n",
               rows[i].type, rows[i].kind, ours / rows[i].theirs, ours / plain);
        if (!(ours <= rows[i].theirs && ours < plain))
            fail_msg("%s %s: weighted error %g, ggml's is %g, without weights %g", rows[i].type,
                     rows[i].kind, ours, rows[i].theirs, plain);
    }
    free(x);
    free(w);
    free(bytes);
}

/* Hashes of the bytes of all kinds and of values far from 0, of both signs, without weights and with. A
 * search that has become worse shows here also where an error stays below ggml's. */
static const struct {
    const char *type;
    uint64_t hash;
} hashes[] = {
    {"Q4_0", 0x1e9aa37f08d4b789}, {"Q4_1", 0xfd8d81be47ce6a62}, {"Q5_0", 0xe5f3671c705941e9},
    {"Q5_1", 0x1ce4fca51818ce41}, {"Q2_K", 0x56a3486e4c4ca51c}, {"Q3_K", 0x5894c5cf7c82667d},
    {"Q4_K", 0x118ebbe8b83825f9}, {"Q5_K", 0x9b7424d44d23d446}, {"Q6_K", 0x22bb2c9003771875},
};

TEST(bytes)
{
    static const char *const kinds[] = {"normal", "spread", "shifted", "sparse", "far"};
    enum { SOME = MANY / 8 };
    float *x = malloc(MANY * sizeof *x), *w = malloc(MANY * sizeof *w);
    uint8_t bytes[SOME * 2];
    make_weights(w);
    for (size_t i = 0; i < COUNT(hashes); i++) {
        const struct dtype *d = dtype_named(hashes[i].type);
        size_t n_bytes = SOME / d->block * d->block_bytes;
        uint64_t hash = FNV_START;
        for (size_t turn = 0; turn < 2 * COUNT(kinds); turn++) {
            make_kind(kinds[turn / 2], x);
            for (size_t j = 0; j < SOME; j++)
                x[j] = (turn / 2 == 4 ? x[j] + 6 : x[j]) * (turn % 2 ? -1 : 1);
            d->from_float(x, bytes, SOME);
            hash = fnv1a(hash, bytes, n_bytes);
            d->from_float_weighted(x, w, bytes, SOME);
            hash = fnv1a(hash, bytes, n_bytes);
        }
        if (hash != hashes[i].hash)
            fail_msg("%s: its bytes have the hash %016" PRIx64, hashes[i].type, hash);
    }
    free(x);
    free(w);
}

/* A K type with equal weights of any size has the bytes that it has without; what has no search has
 * no weights. */
TEST(equal_weights)
{
    float x[MANY], w[WIDTH];
    uint8_t want[MAX_BYTES], found[MAX_BYTES];
    make_kind("spread", x);
    for (uint32_t id = 0; id < DTYPE_N_IDS; id++) {
        const struct dtype *d = dtype_find(id);
        if (!d || !d->from_float_weighted || d->block != WIDTH)
            continue;
        for (size_t turn = 0; turn < 3; turn++) {
            const float each[] = {0, 0.75f, 1e30f};
            for (size_t i = 0; i < WIDTH; i++)
                w[i] = each[turn];
            d->from_float(x, want, WIDTH);
            d->from_float_weighted(x, w, found, WIDTH);
            assert_memory_equal(want, found, d->block_bytes);
        }
    }
    assert_null(dtype_named("Q8_0")->from_float_weighted);
    assert_null(dtype_named("F16")->from_float_weighted);
}

/* Columns that count alone are kept nearly as they are: two values of a block fix scale and minimum. */
TEST(few_columns)
{
    static const char *const types[] = {"Q4_0", "Q5_0", "Q4_1", "Q5_1",
                                        "Q4_K", "Q5_K", "Q6_K", "Q3_K"};
    float x[MANY], w[WIDTH] = {0};
    uint8_t bytes[WIDTH * 2];
    make_kind("normal", x);
    w[40] = 1;
    for (size_t i = 0; i < COUNT(types); i++) {
        const struct dtype *d = dtype_named(types[i]);
        float y[WIDTH];
        d->from_float_weighted(x, w, bytes, WIDTH);
        d->to_float(bytes, y, WIDTH);
        if (!(fabsf(y[40] - x[40]) <= 0.004f * fabsf(x[40])))
            fail_msg("%s: %g became %g", types[i], (double)x[40], (double)y[40]);
    }
}

/* Any values and any weights that are finite and not negative: no crash, and other blocks are as if
 * alone. */
TEST(any_weights)
{
    const float odd[] = {0, FLT_MAX, FLT_MIN, 0x1p-149f, 1, 1e-30f},
                values[] = {0, NAN, INFINITY, -FLT_MAX, 1e-38f, 1, -1, 0x1p-149f};
    uint64_t rng = 7;
    for (uint32_t id = 0; id < DTYPE_N_IDS; id++) {
        const struct dtype *d = dtype_find(id);
        for (int turn = 0; turn < 200 && d && d->from_float_weighted; turn++) {
            float x[2 * WIDTH], w[2 * WIDTH], y[2 * WIDTH];
            uint8_t bytes[2 * MAX_BYTES], alone[MAX_BYTES];
            size_t n = d->block;
            for (size_t i = 0; i < 2 * n; i++) {
                int is_odd = i < n && draw(&rng) >> 40 & 1;
                x[i] = is_odd ? values[(draw(&rng) >> 33) % COUNT(values)] : gauss(&rng);
                w[i] = i < n ? odd[(draw(&rng) >> 33) % COUNT(odd)] : 1 + gauss(&rng) / 16;
            }
            d->from_float_weighted(x, w, bytes, 2 * n);
            d->to_float(bytes, y, 2 * n);
            d->from_float_weighted(x + n, w + n, alone, n);
            assert_memory_equal(alone, bytes + d->block_bytes, d->block_bytes);
        }
    }
}
