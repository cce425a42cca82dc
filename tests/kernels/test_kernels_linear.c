/* Tests of matmul and pack of the float types.
 *
 * Every ISA level that this machine runs must return the bits of scalar, the specification: wide
 * and narrow matrices, tails of rows, columns and tokens, any range of panels, strides of x and y
 * larger than a row, addresses aligned to one element only. Weights, activations and results end at
 * a protected page. The accuracy of scalar is tested against float64.
 */
#include "dtype/dtype.h"
#include "support/build_model.h"
#include "support/isa_levels.h"
#include "support/unit.h"

#include <math.h>

static uint64_t rng = 1;

static size_t matmul_below(size_t n)
{
    return (size_t)(toy_random(&rng) % n);
}

static void matmul_fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)matmul_below(1 << 24) / 8388608.0f - 1.0f;
}

struct matmul_shape {
    size_t n, n_in, n_out, p0, p1;
    size_t ldx, ldy; /* floats from row to row */
    size_t streaming;
};

/* Shapes at the boundaries between code paths, chosen by `kind`. */
static struct matmul_shape random_shape(enum weight_type type, size_t kind)
{
    struct matmul_shape s = {.n = 1, .n_in = 1 + matmul_below(80), .n_out = 1 + matmul_below(200)};
    if (kind % 2)
        s.n = 1 + matmul_below(kind % 4 == 1 ? 14 : 130);
    if (kind % 3 == 0)
        s.n_out = 1 + matmul_below(NARROW);
    if (kind % 5 == 0)
        s.n_in = 200 + matmul_below(700);
    if (kind % 10 == 0) /* one token, so large that it comes from memory */
        s.n_out = 200 + matmul_below(300);
    if (kind % 16 == 15) { /* more panels than share a copy of x */
        s.n_out = 500 + matmul_below(300);
        s.n_in = 1 + matmul_below(300);
        s.n = 2 + matmul_below(15);
    }
    if (type == WEIGHT_BF16_COMPRESSED) {
        s.n_in = (s.n_in + 63 + 7) / 8 * 8;
        s.n_out += NARROW;
        assert_true(kernels_compressible(s.n_in, s.n_out));
    }
    s.streaming = kind / 10 % N_STREAMINGS;
    s.p0 = matmul_below(panels_of(s.n_out)) / (kind % 10 == 0 ? 4 : 1);
    s.p1 = s.p0 + matmul_below(panels_of(s.n_out) - s.p0 + 1); /* sometimes no panel */
    s.ldx = s.n_in + (matmul_below(2) ? 0 : matmul_below(20));
    s.ldy = s.n_out + (matmul_below(2) ? 0 : matmul_below(20));
    return s;
}

static size_t span(size_t rows, size_t stride, size_t length)
{
    return (rows - 1) * stride + length;
}

struct matmul_buffers {
    struct guarded raw, packed, x, y, want;
};

/* Packs, and compresses the panels of plain BF16 if the type is BF16_COMPRESSED. */
static void matmul_pack(const struct kernels *k, enum weight_type type, size_t n_in, size_t n_out,
                        const void *raw, void *packed)
{
    size_t panels = panels_of(n_out), bytes = kernels_panel_bytes(type, n_in);
    size_t plain_bytes = kernels_panel_bytes(WEIGHT_BF16, n_in);
    memset(packed, 0x55, panels * bytes);
    if (type != WEIGHT_BF16_COMPRESSED) {
        k->pack[type](packed, raw, n_in, n_out, 0, panels);
        return;
    }
    char *plain = toy_alloc(panels, plain_bytes);
    k->pack[WEIGHT_BF16](plain, raw, n_in, n_out, 0, panels);
    for (size_t p = 0; p < panels; p++)
        assert_true(k->compress((char *)packed + p * bytes, plain + p * plain_bytes, n_in));
    free(plain);
}

static void matmul_run(const struct kernels *k, enum weight_type type, const struct matmul_shape *s,
                       const struct matmul_buffers *b, void *y)
{
    size_t n_y = span(s->n, s->ldy, s->n_out);
    matmul_pack(k, type, s->n_in, s->n_out, b->raw.at, b->packed.at);
    memset(y, 0xAB, n_y * sizeof(float));
    struct guarded work = guard_new(kernels_work_bytes(s->n));
    k->matmul[type](&(struct matmul){y, s->ldy, b->packed.at, b->x.at, s->ldx * sizeof(float), s->n,
                                     s->n_in, s->n_out, s->p0, s->p1, work.at, s->streaming});
    guard_free(&work);
}

/* The results of scalar against float64. */
static void good_enough(enum weight_type type, const struct matmul_shape *s,
                        const struct matmul_buffers *b)
{
    const struct dtype *d = dtype_of_weight(type);
    float *w = malloc(s->n_in * s->n_out * sizeof *w);
    assert_non_null(w);
    d->to_float(b->raw.at, w, s->n_in * s->n_out);
    for (size_t i = 0; i < s->n; i++)
        for (size_t r = s->p0 * PANEL; r < s->p1 * PANEL && r < s->n_out; r++) {
            const float *row = w + r * s->n_in, *x = (const float *)b->x.at + i * s->ldx;
            double sum = 0, size = 0, y = (double)((float *)b->want.at)[i * s->ldy + r];
            for (size_t c = 0; c < s->n_in; c++) {
                sum += (double)row[c] * (double)x[c];
                size += fabs((double)row[c] * (double)x[c]);
            }
            /* n_in fmas and two adds: at most (n_in + 2) half-ulps of the sum of magnitudes. */
            assert_true(fabs(y - sum) <= (double)(s->n_in + 2) * 0x1p-24 * size);
        }
    free(w);
}

/* The type whose bits a product must have: that of the values. */
static enum weight_type plain_type(enum weight_type type)
{
    return type == WEIGHT_BF16_COMPRESSED ? WEIGHT_BF16 : type;
}

/* Weights of 14 high bytes (padding rows have another), and one in a thousand so small that it may
 * become a patch. */
static void spread(float *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] = ldexpf(copysignf(0.5f + fabsf(w[i]) / 4, w[i]), -(int)matmul_below(12));
    for (size_t i = matmul_below(2000); i < n; i += 1 + matmul_below(2000))
        w[i] *= ldexpf(1, -(int)matmul_below(100));
}

/* A tied head's rows are the embeddings of tokens. */
static void rows_come_back(const struct kernels *k, enum weight_type type,
                           const struct matmul_shape *s, const struct matmul_buffers *b)
{
    const struct dtype *d = dtype_of_weight(plain_type(type));
    float *w = malloc(2 * s->n_in * sizeof *w);
    assert_non_null(w);
    matmul_pack(k, type, s->n_in, s->n_out, b->raw.at, b->packed.at);
    for (size_t r = 0; r < s->n_out; r++) {
        d->to_float((char *)b->raw.at + r * s->n_in * d->block_bytes, w, s->n_in);
        kernels_unpack_row(type, b->packed.at, s->n_in, r, w + s->n_in);
        assert_memory_equal(w + s->n_in, w, s->n_in * sizeof *w);
    }
    free(w);
}

static void one_linear(const struct kernels *k, size_t n_levels, enum weight_type type, size_t kind)
{
    struct matmul_shape s = random_shape(type, kind);
    const struct dtype *d = dtype_of_weight(plain_type(type));
    size_t n_w = s.n_in * s.n_out, panels = panels_of(s.n_out);
    size_t x_bytes = span(s.n, s.ldx, s.n_in) * sizeof(float);
    size_t y_bytes = span(s.n, s.ldy, s.n_out) * sizeof(float);
    struct matmul_buffers b = {guard_new(n_w * d->block_bytes),
                               guard_new(panels * kernels_panel_bytes(plain_type(type), s.n_in)),
                               guard_new(x_bytes), guard_new(y_bytes), guard_new(y_bytes)};
    float *w = malloc(n_w * sizeof *w);
    assert_non_null(w);
    matmul_fill(w, n_w);
    if (type == WEIGHT_BF16_COMPRESSED)
        spread(w, n_w);
    d->from_float(w, b.raw.at, n_w);
    free(w);
    matmul_fill(b.x.at, x_bytes / sizeof(float));
    matmul_run(&k[0], plain_type(type), &s, &b, b.want.at);
    if (kind % 8 == 0)
        good_enough(plain_type(type), &s, &b);
    guard_free(&b.packed);
    b.packed = guard_new(panels * kernels_panel_bytes(type, s.n_in));
    for (size_t i = type == plain_type(type); i < n_levels; i++) {
        matmul_run(&k[i], type, &s, &b, b.y.at);
        if (memcmp(b.y.at, b.want.at, y_bytes) != 0)
            fail_msg("%s, %s: %zu tokens, [%zu, %zu], panels %zu to %zu: other bits than scalar",
                     k[i].isa, type == plain_type(type) ? d->name : "BF16_COMPRESSED", s.n, s.n_in,
                     s.n_out, s.p0, s.p1);
    }
    if (kind % 8 == 0)
        rows_come_back(&k[0], type, &s, &b);
    guard_free(&b.raw);
    guard_free(&b.packed);
    guard_free(&b.x);
    guard_free(&b.y);
    guard_free(&b.want);
}

TEST(linear)
{
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (size_t kind = 0; kind < 240; kind++)
        for (int type = 0; type < WEIGHT_N_FLOATS; type++)
            one_linear(k, n_levels, (enum weight_type)type, kind);
}

TEST(linear_compressed)
{
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (size_t kind = 0; kind < 240; kind++)
        one_linear(k, n_levels, WEIGHT_BF16_COMPRESSED, kind);
}

/* Every bfloat16 as a compressed weight: column c of a product with a unit vector. */
TEST(every_compressed_weight)
{
    enum { IN = 64, OUT = 1024 };
    static uint16_t raw[IN * OUT];
    static float want[IN * OUT], y[OUT];
    static uint8_t packed[IN * OUT * 2];
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (size_t i = 0; i < IN * OUT; i++)
        raw[i] = (uint16_t)i;
    dtype_of_weight(WEIGHT_BF16)->to_float(raw, want, IN * OUT);
    matmul_pack(&k[0], WEIGHT_BF16_COMPRESSED, IN, OUT, raw, packed);
    for (size_t c = 0; c < IN; c++) {
        float x[IN] = {0};
        x[c] = 1;
        for (size_t level = 0; level < n_levels; level++) {
            k[level].matmul[WEIGHT_BF16_COMPRESSED](
                &(struct matmul){y, OUT, packed, x, 0, 1, IN, OUT, 0, panels_of(OUT), NULL, 0});
            for (size_t r = 0; r < OUT; r++)
                if (y[r] != want[r * IN + c] && isfinite(want[r * IN + IN - 1]))
                    fail_msg("%s: row %zu, column %zu", k[level].isa, r, c);
        }
    }
}

/* A span with 17 high bytes, of which the rarest becomes patches: there is room for 16. */
TEST(room_for_patches)
{
    enum { IN = 64 };
    uint16_t panel[IN * PANEL];
    uint8_t packed[2 * IN * PANEL];
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    for (size_t n = 16; n <= 17; n++) {
        for (size_t i = 0; i < IN * PANEL; i++)
            panel[i] = (uint16_t)(i < n ? 0xFF00 : i % 16 << 8);
        assert_int_equal(k.compress(packed, panel, IN), n == 16);
    }
}

/* matmul of n tokens equals n calls with one token, for all panels at once or one at a time.
 * Prefill = decode, batches and threads depend on it. */
TEST(rows_and_panels)
{
    enum { N = 29, IN = 600, OUT = 90 };
    static float w[IN * OUT], packed[IN * 96], x[N * IN], y[N * OUT], one[OUT];
    struct guarded work = guard_new(kernels_work_bytes(N));
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    matmul_fill(w, IN * OUT);
    matmul_fill(x, N * IN);
    for (size_t out = 30; out <= OUT; out += 60) {
        k.pack[WEIGHT_F32](packed, w, IN, out, 0, panels_of(out));
        struct matmul m = {y,       out, packed, x, IN * sizeof *x, N, IN, out, 0, panels_of(out),
                           work.at, 0};
        k.matmul[WEIGHT_F32](&m);
        for (size_t i = 0; i < N; i++) {
            for (size_t p = 0; p < panels_of(out); p++) {
                m = (struct matmul){one, out, packed, x + i * IN, 0, 1, IN, out, p, p + 1, NULL, 0};
                k.matmul[WEIGHT_F32](&m);
            }
            assert_memory_equal(one, y + i * out, out * sizeof *y);
        }
    }
    guard_free(&work);
}

/* Every half and every bfloat16 as a weight of one input, which is 1: the product is its value. */
TEST(every_weight)
{
    enum { OUT = 65536 };
    static const enum weight_type types[] = {WEIGHT_F16, WEIGHT_BF16};
    static uint16_t raw[OUT], packed[OUT];
    static float y[OUT], want[OUT];
    const float one = 1;
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (size_t i = 0; i < OUT; i++)
        raw[i] = (uint16_t)i;
    for (size_t t = 0; t < 2; t++) {
        dtype_of_weight(types[t])->to_float(raw, want, OUT);
        for (size_t r = 0; r < n_levels; r++) {
            k[r].pack[types[t]](packed, raw, 1, OUT, 0, panels_of(OUT));
            k[r].matmul[types[t]](
                &(struct matmul){y, OUT, packed, &one, 0, 1, 1, OUT, 0, panels_of(OUT), NULL, 0});
            for (size_t i = 0; i < OUT; i++)
                if (y[i] < want[i] || y[i] > want[i] || isnan(y[i]) != isnan(want[i]))
                    fail_msg("%s: weight %04zx is %a, expected %a", k[r].isa, i, (double)y[i],
                             (double)want[i]);
        }
    }
}

/* The order of summation: one chain for a wide matrix, four for a narrow one. */
TEST(order)
{
    enum { IN = 37, WIDE = NARROW + 1 };
    static float w[IN * WIDE], packed[IN * 80], x[IN], y[WIDE];
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    matmul_fill(w, IN * WIDE);
    matmul_fill(x, IN);
    for (size_t out = NARROW; out <= WIDE; out++) {
        k.pack[WEIGHT_F32](packed, w, IN, out, 0, panels_of(out));
        k.matmul[WEIGHT_F32](
            &(struct matmul){y, out, packed, x, 0, 1, IN, out, 0, panels_of(out), NULL, 0});
        for (size_t r = 0; r < out; r++) {
            float c[4] = {0};
            for (size_t i = 0; i < IN; i++) {
                float *sum = &c[out > NARROW ? 0 : i % 4];
                *sum = fmaf(w[r * IN + i], x[i], *sum);
            }
            assert_true(y[r] == (out > NARROW ? c[0] : (c[0] + c[1]) + (c[2] + c[3])));
        }
    }
}

/* The layout of a panel: 16 rows, column by column; padding rows are zero. */
TEST(pack)
{
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (size_t i = 0; i < n_levels; i++)
        for (int round = 0; round < 60; round++) {
            size_t n_in = 1 + matmul_below(200), n_out = 1 + matmul_below(40),
                   n = panels_of(n_out) * PANEL * n_in;
            size_t each = round % 2 ? 2 : 4;
            struct guarded src = guard_new(n_in * n_out * each + 1), dst = guard_new(n * each);
            unsigned char *from = src.at, *to = dst.at; /* usually an odd address */
            for (size_t j = 0; j < n_in * n_out * each; j++)
                from[j] = (unsigned char)matmul_below(256);
            k[i].pack[each == 2 ? WEIGHT_F16 : WEIGHT_F32](to, from, n_in, n_out, 0,
                                                           panels_of(n_out));
            for (size_t j = 0; j < n; j++) {
                size_t c = j / PANEL % n_in, r = j / PANEL / n_in * PANEL + j % PANEL;
                static const unsigned char zero[4];
                const void *want = r < n_out ? from + (r * n_in + c) * each : zero;
                assert_memory_equal(to + j * each, want, each);
            }
            guard_free(&src);
            guard_free(&dst);
        }
}
