/* Tests of the attention kernels.
 *
 * Every ISA level must return the bits of scalar on random shapes whose buffers end at a protected
 * page. scalar is compared with sums written out here, and to_f16 with dtype.c.
 */
#include "base/float_bits.h"
#include "dtype/dtype.h"
#include "support/isa_levels.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

static uint64_t rng = 1;

static size_t attend_below(size_t n)
{
    return (size_t)(toy_random(&rng) % n);
}

enum { KEYS_MOST = 150, ROWS_MOST = 17, D_MOST = 140, STRIDE = 176 };

struct attend_buffers {
    struct guarded kv, a, rows[ROWS_MOST], outs[ROWS_MOST];
    void *work;
};

static struct attend_buffers buffers_new(void)
{
    struct attend_buffers b = {.kv = guard_new((KEYS_MOST + PANEL) * D_MOST * sizeof(float)),
                               .a = guard_new(ROWS_MOST * STRIDE * sizeof(float)),
                               .work = aligned_alloc(64, kernels_scores_work(ROWS_MOST, D_MOST))};
    assert_non_null(b.work);
    for (size_t i = 0; i < ROWS_MOST; i++) {
        b.rows[i] = guard_new(D_MOST * sizeof(float));
        b.outs[i] = guard_new(D_MOST * sizeof(float));
    }
    return b;
}

static void buffers_free(struct attend_buffers *b)
{
    guard_free(&b->kv);
    guard_free(&b->a);
    free(b->work);
    for (size_t i = 0; i < ROWS_MOST; i++) {
        guard_free(&b->rows[i]);
        guard_free(&b->outs[i]);
    }
}

/* n random elements that end at the guard page. A few of the halves are subnormal. */
static void *fill_kv(const struct attend_buffers *b, size_t n, enum kv_type type)
{
    if (type == KV_F32) {
        float *x = guard_last(&b->kv, n * sizeof *x);
        for (size_t i = 0; i < n; i++)
            x[i] = (float)toy_normal(&rng);
        return x;
    }
    uint16_t *x = guard_last(&b->kv, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = f16_from_f32((float)toy_normal(&rng) * (attend_below(50) ? 1.0f : 1e-6f));
    return x;
}

/* Keys or values of n tokens that end at the guard page; those of Q8_0 in whole panels. */
static void *fill_tokens(const struct attend_buffers *b, const struct kernels *k, size_t n,
                         size_t d, enum kv_type type, int is_key)
{
    size_t bytes = kernels_kv_bytes(type, d);
    if (type != KV_Q8_0)
        return fill_kv(b, (is_key ? panels_of(n) * PANEL : n) * d, type);
    uint8_t *panels = guard_last(&b->kv, panels_of(n) * bytes);
    for (size_t t = 0; t < panels_of(n) * PANEL; t++) {
        float row[D_MOST];
        for (size_t j = 0; j < d; j++)
            row[j] = (float)toy_normal(&rng) * (attend_below(50) ? 1.0f : 1e-7f);
        kv_q8_put(k, panels + t / PANEL * bytes, t % PANEL, is_key, row, d);
    }
    return panels;
}

static void same_bits(const char *isa, const char *what, const void *a, const void *b, size_t n)
{
    if (memcmp(a, b, n) != 0)
        fail_msg("%s: %s differ from the scalar ISA level's", isa, what);
}

static void one_scores(const struct kernels *k, const struct kernels *scalar,
                       struct attend_buffers *b, enum kv_type type)
{
    static float want[ROWS_MOST * STRIDE];
    size_t n = attend_below(3) ? 1 + attend_below(ROWS_MOST) : 1, d = 1 + attend_below(D_MOST),
           np = 1 + attend_below(KEYS_MOST / PANEL);
    size_t p0 = attend_below(np), lds = np * PANEL + attend_below(3),
           size = (n - 1) * lds + np * PANEL;
    int far = (int)attend_below(2);
    const void *keys = fill_tokens(b, k, np * PANEL, d, type, 1);
    const float *q[ROWS_MOST];
    for (size_t i = 0; i < n; i++) {
        float *row = guard_last(&b->rows[i], d * sizeof *row);
        for (size_t j = 0; j < d; j++)
            row[j] = (float)toy_normal(&rng);
        q[i] = row;
    }
    float *s = guard_last(&b->a, size * sizeof *s);
    memset(s, 0xAB, size * sizeof *s);
    memset(want, 0xAB, size * sizeof *s);
    scalar->scores[type](
        &(struct scores){want, lds, keys, q, n, d, 0.125f, p0, np, scalar, b->work, 0});
    k->scores[type](&(struct scores){s, lds, keys, q, n, d, 0.125f, p0, np, k, b->work, far});
    same_bits(k->isa, "scores", s, want, size * sizeof *s);
}

/* Of the weights a third become smaller than 2^-126 (mix_tiny_tmpl.h), sometimes with minus signs. The
 * others are as softmax has them, or so small that the sums show the last bits of the smallest. In
 * one of four calls the first column of F32 values is too small to be scaled by 2^-24. */
static void make_tiny(float *a, size_t n, float *values, size_t tokens, size_t ldv)
{
    float tiny = attend_below(4) ? 1e-40f : -1e-40f, other = attend_below(2) ? 0.1f : 1e-36f;
    for (size_t i = 0; i < n; i++)
        a[i] = fabsf(a[i]) * (attend_below(3) ? other : tiny);
    int small = values && attend_below(4) == 0;
    for (size_t t = 0; small && t < tokens; t++)
        values[t * ldv] *= 1e-36f;
}

/* Some columns of some tokens in two calls: the second continues the sums of the first. */
static void one_mix(const struct kernels *k, const struct kernels *scalar, struct attend_buffers *b,
                    enum kv_type type)
{
    static float outs[ROWS_MOST][D_MOST];
    size_t n = 1 + attend_below(ROWS_MOST), ldv = 1 + attend_below(D_MOST),
           all = 1 + attend_below(KEYS_MOST);
    size_t t0 = attend_below(all), j0 = attend_below((ldv + 15) / 16) * 16, keys = all - t0;
    size_t d = ldv - j0, first = attend_below(keys + 1), lda = keys + attend_below(3);
    int far = (int)attend_below(2);
    void *values = fill_tokens(b, k, all, ldv, type, 0);
    d = attend_below(2) || d < PANEL ? d : d - d % PANEL;
    float *a = guard_last(&b->a, ((n - 1) * lda + keys) * sizeof *a);
    for (size_t i = 0; i < (n - 1) * lda + keys; i++)
        a[i] = (float)toy_normal(&rng);
    if (attend_below(2))
        make_tiny(a, (n - 1) * lda + keys, type == KV_F32 ? (float *)values + t0 * ldv + j0 : NULL,
                  keys, ldv);
    float *got[ROWS_MOST], *want[ROWS_MOST];
    for (size_t i = 0; i < n; i++) {
        got[i] = guard_last(&b->outs[i], d * sizeof(float));
        want[i] = outs[i];
        memset(got[i], 0, d * sizeof(float));
        memset(want[i], 0, d * sizeof(float));
    }
    k->mix[type](&(struct mix){got, a, lda, values, ldv, n, first, d, t0, j0, far});
    k->mix[type](
        &(struct mix){got, a + first, lda, values, ldv, n, keys - first, d, t0 + first, j0, far});
    scalar->mix[type](&(struct mix){want, a, lda, values, ldv, n, keys, d, t0, j0, 0});
    for (size_t i = 0; i < n; i++)
        same_bits(k->isa, "mixes", got[i], want[i], d * sizeof(float));
}

TEST(kernels_agree)
{
    struct kernels k[ISA_LEVELS_MOST];
    struct attend_buffers b = buffers_new();
    size_t n = isa_levels_here(k); /* k[0] is scalar, which the guard page tests too */
    for (size_t i = 0; i < n; i++)
        for (int round = 0; round < 80; round++)
            for (int type = 0; type < KV_N_TYPES; type++) {
                k[i].streaming = (size_t)round % N_STREAMINGS;
                one_scores(&k[i], &k[0], &b, (enum kv_type)type);
                one_mix(&k[i], &k[0], &b, (enum kv_type)type);
            }
    buffers_free(&b);
}

/* The specification of kernels.h, written independently. */
TEST(scores_and_mix_by_hand)
{
    enum { D = 20, T = 37, N = 3 };
    static float keys[48 * D], panels[48 * D], values[T * D], q[N][D], s[N][48], o[N][D];
    const float *rows[N] = {q[0], q[1], q[2]};
    float *outs[N] = {o[0], o[1], o[2]};
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    for (size_t i = 0; i < 48 * D; i++)
        keys[i] = (float)toy_normal(&rng);
    for (size_t i = 0; i < T * D; i++)
        values[i] = (float)toy_normal(&rng);
    for (size_t i = 0; i < N * D; i++)
        q[i / D][i % D] = (float)toy_normal(&rng);
    k.pack[WEIGHT_F32](panels, keys, D, 48, 0, 3);
    k.scores[KV_F32](&(struct scores){s[0], 48, panels, rows, N, D, 0.3f, 0, 3, &k, NULL, 0});
    k.mix[KV_F32](&(struct mix){outs, s[0], 48, values, D, N, T, D, 0, 0, 0});
    for (size_t i = 0; i < N; i++) {
        for (size_t t = 0; t < 48; t++) {
            float sum = 0;
            for (size_t j = 0; j < D; j++)
                sum = fmaf(keys[t * D + j], q[i][j], sum);
            assert_true(s[i][t] == sum * 0.3f);
        }
        for (size_t j = 0; j < D; j++) {
            float sum = 0;
            for (size_t t = 0; t < T; t++)
                sum = fmaf(values[t * D + j], s[i][t], sum);
            assert_true(o[i][j] == sum);
        }
    }
}

/* 32 elements, the last of them zeros, as integers: the quantisation of kernels.h written
 * independently. Returns the scale. */
static float by_hand(const float *x, size_t n, int8_t q[32])
{
    float most = 0;
    for (size_t j = 0; j < n; j++)
        most = fmaxf(most, fabsf(x[j]));
    for (size_t j = 0; j < 32; j++)
        q[j] = j < n ? (int8_t)nearbyintf(x[j] * (127.0f / most)) : 0;
    return most / 127.0f;
}

TEST(blocks_by_hand)
{
    enum { D = 80, T = 37, N = 3, BLOCKS = 3 };
    static float x[T][D], y[T][D], q[N][D], s[N][48], o[N][D];
    static _Alignas(64) uint8_t keys[3 * 2048], values[3 * 2048];
    const float *rows[N] = {q[0], q[1], q[2]};
    float *outs[N] = {o[0], o[1], o[2]};
    struct kernels k;
    void *work = aligned_alloc(64, kernels_scores_work(N, D));
    size_t bytes = kernels_kv_bytes(KV_Q8_0, D);
    assert_true(work && kernels_init(&k, NULL) && bytes == 16 * (96 + 4 * 2));
    for (size_t i = 0; i < N * D; i++)
        q[i / D][i % D] = (float)toy_normal(&rng);
    for (size_t t = 0; t < T; t++) {
        for (size_t j = 0; j < D; j++)
            x[t][j] = (float)toy_normal(&rng), y[t][j] = (float)toy_normal(&rng);
        kv_q8_put(&k, keys + t / 16 * bytes, t % 16, 1, x[t], D);
        kv_q8_put(&k, values + t / 16 * bytes, t % 16, 0, y[t], D);
    }
    k.scores[KV_Q8_0](&(struct scores){s[0], 48, keys, rows, N, D, 0.3f, 0, 3, &k, work, 0});
    k.mix[KV_Q8_0](&(struct mix){outs, s[0], 48, values, D, N, T, D, 0, 0, 0});
    for (size_t i = 0; i < N; i++) {
        float sums[D] = {0};
        for (size_t t = 0; t < T; t++) {
            float score = 0;
            for (size_t b = 0; b < BLOCKS; b++) {
                int8_t kq[32], vq[32], qq[32];
                size_t n = b + 1 < BLOCKS ? 32 : D % 32;
                float ks = f16_to_f32(f16_from_f32(by_hand(x[t] + 32 * b, n, kq)));
                float vs = f16_to_f32(f16_from_f32(by_hand(y[t] + 32 * b, n, vq)));
                float qs = by_hand(q[i] + 32 * b, n, qq);
                int32_t sum = 0;
                for (size_t j = 0; j < n; j++) {
                    sum += kq[j] * qq[j];
                    sums[32 * b + j] = fmaf(s[i][t] * vs, (float)vq[j], sums[32 * b + j]);
                    const uint8_t *at = keys + t / 16 * bytes, *v = values + t / 16 * bytes;
                    assert_true(kv_q8_get(at, t % 16, 1, 32 * b + j, D) == ks * (float)kq[j]);
                    assert_true(kv_q8_get(v, t % 16, 0, 32 * b + j, D) == vs * (float)vq[j]);
                }
                score = fmaf(ks * (qs * 0.3f), (float)sum, score);
            }
            assert_true(s[i][t] == score);
        }
        assert_memory_equal(sums, o[i], sizeof sums);
    }
    free(work);
}

/* Values around all 65,536 halves, rounding boundaries, and random bits. */
TEST(halve)
{
    enum { EACH = 8, N = 65536 * EACH };
    struct guarded values = guard_new(N * sizeof(float)), halves = guard_new(N * sizeof(uint16_t));
    float *x = values.at;
    uint16_t *half = halves.at;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h), next = f16_to_f32((uint16_t)(h + 1));
        float middle = f + (next - f) / 2;
        uint32_t bits = (uint32_t)(toy_random(&rng) >> 16);
        const float around[EACH] = {f,
                                    middle,
                                    nextafterf(middle, INFINITY),
                                    nextafterf(middle, -INFINITY),
                                    f32_from_bits(f32_bits(f) + 1), /* infinity: the smallest NaN */
                                    f32_from_bits(f32_bits(f) - 1),
                                    f * 0.37f};
        memcpy(x + h * EACH, around, sizeof around);
        memcpy(x + h * EACH + 7, &bits, sizeof bits);
    }
    struct kernels k[ISA_LEVELS_MOST];
    size_t n = isa_levels_here(k);
    for (size_t r = 0; r < n; r++) {
        k[r].to_f16(half + 3, x + 3, N - 3); /* a tail that ends at the guard page */
        for (size_t i = 3; i < N; i++)
            if (half[i] != f16_from_f32(x[i]))
                fail_msg("%s: %a becomes the half %04x, expected %04x", k[r].isa, (double)x[i],
                         half[i], f16_from_f32(x[i]));
    }
    guard_free(&values);
    guard_free(&halves);
}
