/* Tests of integer weight types with int8 activations.
 *
 * Every ISA level that this machine runs must return the bits of scalar, the specification (any NaN
 * for a NaN). Weights are packed from an unaligned copy of the file's bytes; packed weights,
 * activations and results end at a protected page. The accuracy of scalar is tested separately,
 * against float64.
 */
#include "dtype/dtype.h"
#include "kernels/pack/int_layout.h"
#include "support/build_model.h"
#include "support/isa_levels.h"
#include "support/unit.h"

#include <math.h>

/* ---- random arguments ---------------------------------------------------------------------------- */

static uint64_t rng = 7;

static size_t int_below(size_t n)
{
    return (size_t)(toy_random(&rng) % n);
}

static float int_real(float scale)
{
    return ((float)(toy_random(&rng) >> 40) / 8388608.0f - 1.0f) * scale;
}

/* ---- one problem ----------------------------------------------------------------------------------- */

enum content { USUAL, WILD, EXTREME };

struct problem {
    enum weight_type type;
    const struct dtype *d;
    size_t n, n_in, n_out, p0, p1, x_stride, ldy, row_bytes;
    struct guarded raw, w, x, y, want;
    float *floats; /* n rows of n_in */
};

static void int_put_half(uint8_t *at, float v)
{
    uint16_t h = f16_from_f32(v);
    at[0] = (uint8_t)h;
    at[1] = (uint8_t)(h >> 8);
}

/* Random bytes; scales are moderate, or any halves (infinities, NaNs, subnormals). */
static void fill_weights(struct problem *p, enum content content)
{
    const struct layout *l = &layouts[p->type];
    uint8_t *b = p->raw.at;
    size_t bytes = p->n_out * p->row_bytes;
    for (size_t i = 0; i < bytes; i++)
        b[i] = (uint8_t)toy_random(&rng);
    for (size_t i = 0; i < bytes && content != WILD; i += p->d->block_bytes) {
        if (content == EXTREME)
            memset(b + i, int_below(2) ? 0xFF : int_below(2) ? 0x80 : 0x7F, p->d->block_bytes);
        int_put_half(b + i + l->d_at,
                     content == EXTREME && int_below(3) == 0 ? 65504.0f : int_real(0.1f));
        if (l->has_min)
            int_put_half(b + i + l->d_at + 2, int_real(0.1f));
        if (l->is_bf16)
            b[i] = (uint8_t)(content == EXTREME && int_below(3) == 0 ? 143 : 120 + int_below(5));
    }
}

static void fill_floats(float *x, size_t n, enum content content)
{
    static const float hard[] = {0.0f,      -0.0f,  1e-40f,   -3e-39f,   1e30f, 3.4e38f,
                                 0x1p-120f, 1e-36f, INFINITY, -INFINITY, NAN,   -1e-37f};
    for (size_t i = 0; i < n; i++) {
        x[i] = int_real(3);
        if (content == EXTREME)
            x[i] = i / 64 % 3 == 0 ? 0.0f : (int_below(2) ? 2.0f : -2.0f);
        if (content == WILD && i / 64 % 4 == 1)
            x[i] = hard[int_below(COUNT(hard))];
        if (content == WILD && i / 64 % 4 == 2)
            x[i] = int_real(1e-36f);
    }
}

static void int_make(struct problem *p, enum weight_type type, size_t n, size_t n_in, size_t n_out,
                     enum content content, const struct kernels *k)
{
    *p = (struct problem){.type = type, .n = n, .n_in = n_in, .n_out = n_out};
    p->d = dtype_of_weight(type);
    p->row_bytes = n_in / p->d->block * p->d->block_bytes;
    p->p0 = int_below(3) ? 0 : int_below(panels_of(n_out));
    p->p1 = int_below(3) ? panels_of(n_out) : p->p0 + int_below(panels_of(n_out) - p->p0 + 1);
    p->x_stride = kernels_x_bytes(type, n_in) + 64 * int_below(2);
    p->ldy = n_out + int_below(3);
    p->raw = guard_new(n_out * p->row_bytes + 1);
    p->raw.at = (char *)p->raw.at + int_below(2); /* at an odd address, or up to the guard page */
    p->w = guard_new(panels_of(n_out) * kernels_panel_bytes(type, n_in));
    p->x = guard_new((n - 1) * p->x_stride + kernels_x_bytes(type, n_in));
    p->y = guard_new(((n - 1) * p->ldy + n_out) * sizeof(float));
    p->want = guard_new(((n - 1) * p->ldy + n_out) * sizeof(float));
    p->floats = malloc(n * n_in * sizeof(float));
    assert_non_null(p->floats);
    fill_weights(p, content);
    fill_floats(p->floats, n * n_in, content);
    /* in two ranges of panels, the second first */
    size_t cut = int_below(panels_of(n_out) + 1);
    k->pack[type](p->w.at, p->raw.at, n_in, n_out, cut, panels_of(n_out));
    k->pack[type](p->w.at, p->raw.at, n_in, n_out, 0, cut);
}

static void drop(struct problem *p)
{
    guard_free(&p->raw);
    guard_free(&p->w);
    guard_free(&p->x);
    guard_free(&p->y);
    guard_free(&p->want);
    free(p->floats);
}

static void int_quantize(const struct problem *p, const struct kernels *k)
{
    for (size_t i = 0; i < p->n; i++)
        k->quantize((char *)p->x.at + i * p->x_stride, p->floats + i * p->n_in, p->n_in);
}

static void int_multiply(const struct problem *p, const struct kernels *k, float *y, size_t n,
                         size_t s)
{
    memset(y, 0xAB, ((n - 1) * p->ldy + p->n_out) * sizeof *y);
    struct guarded work = guard_new(kernels_work_bytes(n));
    k->matmul[p->type](&(struct matmul){y, p->ldy, p->w.at, p->x.at, p->x_stride, n, p->n_in,
                                        p->n_out, p->p0, p->p1, work.at, s});
    guard_free(&work);
}

static void int_same(const struct problem *p, const char *isa, const float *a, const float *b,
                     size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s %s, %zu tokens, [%zu][%zu], panels %zu to %zu: [%zu] is %a, should be %a",
                     isa, p->d->name, p->n, p->n_out, p->n_in, p->p0, p->p1, i, (double)a[i],
                     (double)b[i]);
}

static size_t columns(enum weight_type type, size_t cap)
{
    size_t block = dtype_of_weight(type)->block;
    return block * (1 + int_below(cap / block));
}

/* ---- the same bits ----------------------------------------------------------------------------------- */

static void one_shape(const struct kernels *k, size_t n_levels, enum weight_type type, size_t n,
                      size_t n_in, size_t n_out, enum content content)
{
    struct problem p;
    int_make(&p, type, n, n_in, n_out, content, &k[0]);
    size_t values = (n - 1) * p.ldy + n_out;
    int_quantize(&p, &k[0]);
    int_multiply(&p, &k[0], p.want.at, n, 0);
    for (size_t i = 1; i < n_levels; i++)
        for (size_t s = 0; s < (n == 1 ? N_STREAMINGS : 1); s++) {
            int_multiply(&p, &k[i], p.y.at, n, s);
            int_same(&p, k[i].isa, p.y.at, p.want.at, values);
        }
    drop(&p);
}

TEST(random)
{
    struct kernels k[ISA_LEVELS_MOST];
    size_t n = isa_levels_here(k);
    for (int round = 0; round < 150; round++)
        for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++) {
            enum weight_type type = (enum weight_type)t;
            size_t tokens = int_below(3) ? 1 + int_below(8) : 1 + int_below(70);
            one_shape(k, n, type, tokens, columns(type, int_below(8) ? 512 : 2048),
                      1 + int_below(150), (enum content)int_below(3));
        }
}

/* Every number of remaining tokens and panels of a tile. */
TEST(tails)
{
    struct kernels k[ISA_LEVELS_MOST];
    size_t n = isa_levels_here(k);
    for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++)
        for (size_t tokens = 1; tokens < 36; tokens++)
            for (size_t panels = 1; panels < 7; panels++)
                one_shape(k, n, (enum weight_type)t, tokens,
                          dtype_of_weight((enum weight_type)t)->block,
                          panels * PANEL - int_below(PANEL), USUAL);
}

/* Several groups of tokens and of columns, with and without a rest. */
TEST(groups)
{
    static const size_t tokens[] = {48, 61, 65, 128, 192, 193, 221, 390};
    struct kernels k[ISA_LEVELS_MOST];
    size_t n = isa_levels_here(k);
    for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++)
        for (size_t i = 0; i < COUNT(tokens); i++)
            one_shape(k, n, (enum weight_type)t, tokens[i],
                      1024 + columns((enum weight_type)t, 512), 1 + int_below(40),
                      (enum content)(i % 3));
}

TEST(quantize)
{
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (int round = 0; round < 3000; round++) {
        size_t n = BLOCK * (1 + int_below(20)), bytes = kernels_x_bytes(WEIGHT_Q8_0, n);
        struct guarded x = guard_new(n * sizeof(float)), a = guard_new(bytes), b = guard_new(bytes);
        fill_floats(x.at, n, (enum content)(round % 3));
        for (size_t i = 0; i < n && int_below(4) == 0; i++)
            ((float *)x.at)[i] = (float)int_below(255) * 0.5f - 63.5f; /* ties */
        k[0].quantize(a.at, x.at, n);
        for (size_t i = 1; i < n_levels; i++) {
            k[i].quantize(b.at, x.at, n);
            const struct x_block *p = a.at, *q = b.at;
            for (size_t j = 0; j < n / BLOCK; j++) {
                assert_memory_equal(p[j].q, q[j].q, BLOCK);
                assert_memory_equal(p[j].minus, q[j].minus, sizeof q->minus);
                assert_true(memcmp(&p[j].scale, &q[j].scale, sizeof(float)) == 0 ||
                            (isnan(p[j].scale) && isnan(q[j].scale)));
                assert_true(memcmp(&p[j].sum, &q[j].sum, sizeof(float)) == 0 ||
                            (isnan(p[j].sum) && isnan(q[j].sum)));
            }
        }
        guard_free(&x);
        guard_free(&a);
        guard_free(&b);
    }
}

/* Row i of many tokens has the bits of that token alone, so prefill equals decode. */
TEST(rows)
{
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (size_t r = 0; r < n_levels; r++)
        for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++) {
            struct problem p;
            int_make(&p, (enum weight_type)t, 61, columns((enum weight_type)t, 1024), 100, USUAL,
                     k);
            int_quantize(&p, &k[r]);
            int_multiply(&p, &k[r], p.want.at, p.n, 0);
            struct guarded x = p.x;
            for (size_t i = 0; i < p.n; i++) {
                p.x.at = (char *)x.at + i * p.x_stride;
                int_multiply(&p, &k[r], p.y.at, 1, 0);
                int_same(&p, k[r].isa, p.y.at, (float *)p.want.at + i * p.ldy, p.n_out);
            }
            drop(&p);
        }
}

/* ---- against float64 ------------------------------------------------------------------------------------ */

/* The value that a quantised activation represents. */
static double activation(const struct problem *p, size_t i, size_t c)
{
    const struct x_block *b = (const void *)((const char *)p->x.at + i * p->x_stride);
    return (double)b[c / BLOCK].scale * b[c / BLOCK].q[c % BLOCK];
}

/* Two float roundings a block and one in the scale: each term's magnitude (weights and minima
 * apart: a weight may be the small difference of the two) counts with at most blocks + 2 half-ulps,
 * twice for the types whose float weights are themselves rounded differences. */
static void against_exact(const struct problem *p, size_t i, size_t r, const float *w, float got)
{
    double sum = 0, ideal = 0, size = 0, lost = 0, most_w = 0;
    for (size_t c = 0; c < p->n_in; c++)
        most_w = fmax(most_w, fabs((double)w[c]));
    for (size_t c = 0; c < p->n_in; c++) {
        double x = activation(p, i, c), exact = (double)p->floats[i * p->n_in + c];
        const struct x_block *b = (const void *)((const char *)p->x.at + i * p->x_stride);
        double half_step = 0.5 * (double)b[c / BLOCK].scale;
        assert_true(fabs(x - exact) <= half_step * (1 + 0x1p-14)); /* 127 * (two roundings) */
        sum += (double)w[c] * x;
        ideal += (double)w[c] * exact;
        size += most_w * fabs(x);
        lost += fabs((double)w[c]) * half_step * (1 + 0x1p-14);
    }
    double rounding = (double)(4 * p->n_in / 16 + 8) * 0x1p-24 * size;
    if (!(fabs((double)got - sum) <= rounding))
        fail_msg("%s [%zu][%zu]: %.9g, float64 says %.9g", p->d->name, i, r, (double)got, sum);
    assert_true(fabs((double)got - ideal) <= rounding + lost);
}

TEST(exact)
{
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    for (int round = 0; round < 10; round++)
        for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++) {
            struct problem p;
            int_make(&p, (enum weight_type)t, 1 + int_below(9), columns((enum weight_type)t, 1024),
                     1 + int_below(70), USUAL, &k);
            int_quantize(&p, &k);
            int_multiply(&p, &k, p.y.at, p.n, 0);
            float *w = malloc(p.n_in * sizeof *w);
            assert_non_null(w);
            for (size_t r = p.p0 * PANEL; r < p.p1 * PANEL && r < p.n_out; r++) {
                p.d->to_float((char *)p.raw.at + r * p.row_bytes, w, p.n_in);
                for (size_t i = 0; i < p.n; i++)
                    against_exact(&p, i, r, w, ((float *)p.y.at)[i * p.ldy + r]);
            }
            free(w);
            drop(&p);
        }
}

/* A row of the panels is, bit for bit, the row that the file's decoder gives. */
TEST(rows_come_back)
{
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    for (int round = 0; round < 30; round++)
        for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++) {
            struct problem p;
            int_make(&p, (enum weight_type)t, 1, columns((enum weight_type)t, 1024),
                     1 + int_below(70), (enum content)(round % 3), &k);
            float *w = malloc(2 * p.n_in * sizeof *w);
            assert_non_null(w);
            for (size_t r = 0; r < p.n_out; r++) {
                p.d->to_float((char *)p.raw.at + r * p.row_bytes, w, p.n_in);
                kernels_unpack_row(p.type, p.w.at, p.n_in, r, w + p.n_in);
                int_same(&p, "a row of panels", w + p.n_in, w, p.n_in);
            }
            free(w);
            drop(&p);
        }
}

/* An infinity or a NaN among the activations, or in a scale, must not vanish. */
TEST(not_a_number)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (size_t r = 0; r < n_levels; r++)
        for (size_t v = 0; v < 3; v++)
            for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++) {
                struct problem p;
                int_make(&p, (enum weight_type)t, 3, 512, 20, USUAL, k);
                p.p0 = 0;
                p.p1 = 2;
                p.floats[p.n_in + int_below(p.n_in)] = bad[v]; /* the second token of three */
                int_quantize(&p, &k[r]);
                int_multiply(&p, &k[r], p.y.at, 3, 0);
                for (size_t i = 0; i < 3; i++)
                    for (size_t row = 0; row < p.n_out; row++)
                        assert_true(!isnan(((float *)p.y.at)[i * p.ldy + row]) == (i != 1));
                drop(&p);
            }
}

/* A decode step reads little more than the file's bytes: 3 %, more where scales have fewer bits
 * than a byte for 16 or 32 weights, or weights fewer than 2. */
TEST(sizes)
{
    static const size_t percent[WEIGHT_N_TYPES] = {[WEIGHT_Q2_K] = 20,
                                                   [WEIGHT_Q3_K] = 6,
                                                   [WEIGHT_MXFP4] = 6,
                                                   [WEIGHT_TQ1_0] = 41,
                                                   [WEIGHT_TQ2_0] = 16};
    for (int t = WEIGHT_N_FLOATS; t < WEIGHT_N_TYPES; t++)
        for (size_t n_in = 256; n_in <= 4096; n_in += 256) {
            const struct dtype *d = dtype_of_weight((enum weight_type)t);
            size_t file = n_in / d->block * d->block_bytes * PANEL;
            size_t packed = kernels_panel_bytes((enum weight_type)t, n_in);
            size_t more = percent[t] ? percent[t] : 3;
            assert_true(packed % 64 == 0 && packed >= file && packed <= file + file * more / 100);
            assert_int_equal(kernels_x_bytes((enum weight_type)t, n_in) % 64, 0);
        }
    assert_int_equal(kernels_panel_bytes(WEIGHT_F32, 10), 640);
    assert_int_equal(kernels_panel_bytes(WEIGHT_BF16, 10), 320);
    assert_int_equal(kernels_x_bytes(WEIGHT_F16, 10), 40);
}
