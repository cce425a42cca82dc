/* Tests of the attention kernels.
 *
 * Every ISA level must return the bits of scalar on random shapes whose buffers end at a protected page.
 * scalar is compared with sums written out here, and to_f16 with dtype.c.
 */
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
};

static struct attend_buffers buffers_new(void)
{
    struct attend_buffers b = {.kv = guard_new((KEYS_MOST + PANEL) * D_MOST * sizeof(float)),
                               .a = guard_new(ROWS_MOST * STRIDE * sizeof(float))};
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

static void same_bits(const char *isa, const char *what, const void *a, const void *b, size_t n)
{
    if (memcmp(a, b, n) != 0)
        fail_msg("%s: %s differ from the scalar ISA level's", isa, what);
}

static void one_scores(const struct kernels *k, const struct kernels *scalar,
                       struct attend_buffers *b, enum kv_type type)
{
    static float want[ROWS_MOST * STRIDE];
    size_t n = 1 + attend_below(ROWS_MOST), d = 1 + attend_below(D_MOST),
           np = 1 + attend_below(KEYS_MOST / PANEL);
    size_t p0 = attend_below(np), lds = np * PANEL + attend_below(3),
           size = (n - 1) * lds + np * PANEL;
    const void *keys = fill_kv(b, np * PANEL * d, type);
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
    scalar->scores[type](&(struct scores){want, lds, keys, q, n, d, 0.125f, p0, np});
    k->scores[type](&(struct scores){s, lds, keys, q, n, d, 0.125f, p0, np});
    same_bits(k->isa, "scores", s, want, size * sizeof *s);
}

/* In two calls: the second continues the sums of the first. */
static void one_mix(const struct kernels *k, const struct kernels *scalar, struct attend_buffers *b,
                    enum kv_type type)
{
    static float outs[ROWS_MOST][D_MOST];
    size_t n = 1 + attend_below(ROWS_MOST), d = 1 + attend_below(D_MOST),
           keys = 1 + attend_below(KEYS_MOST);
    size_t first = attend_below(keys + 1), ldv = d + attend_below(D_MOST - d + 1),
           lda = keys + attend_below(3);
    size_t each = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    const uint8_t *values = fill_kv(b, (keys - 1) * ldv + d, type);
    float *a = guard_last(&b->a, ((n - 1) * lda + keys) * sizeof *a);
    for (size_t i = 0; i < (n - 1) * lda + keys; i++)
        a[i] = (float)toy_normal(&rng);
    float *got[ROWS_MOST], *want[ROWS_MOST];
    for (size_t i = 0; i < n; i++) {
        got[i] = guard_last(&b->outs[i], d * sizeof(float));
        want[i] = outs[i];
        memset(got[i], 0, d * sizeof(float));
        memset(want[i], 0, d * sizeof(float));
    }
    const uint8_t *rest = values + first * ldv * each;
    k->mix[type](&(struct mix){got, a, lda, values, ldv, n, first, d});
    k->mix[type](&(struct mix){got, a + first, lda, rest, ldv, n, keys - first, d});
    scalar->mix[type](&(struct mix){want, a, lda, values, ldv, n, keys, d});
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
    k.scores[KV_F32](&(struct scores){s[0], 48, panels, rows, N, D, 0.3f, 0, 3});
    k.mix[KV_F32](&(struct mix){outs, s[0], 48, values, D, N, T, D});
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
                                    nextafterf(f, INFINITY),
                                    nextafterf(f, -INFINITY),
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
