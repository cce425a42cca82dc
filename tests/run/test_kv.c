/* The KV cache by itself: what is put in comes out, in the layout that kv.h states, for any width,
 * in pieces of any size, through every growth and copy.
 */
#include "base/mem.h"
#include "dtype/dtype.h"
#include "run/kv.h"
#include "support/unit.h"

#include <math.h>

enum { N_LAYER = 2, N_HEAD = 3, N_TOKENS = 50, D_MOST = 130 };

/* Element j of the key or value of token t: a half, so that both types hold it exactly. */
static float element(int is_value, size_t layer, size_t head, size_t t, size_t j)
{
    size_t n = (((layer * N_HEAD + head) * N_TOKENS + t) * D_MOST + j) * 2 + (size_t)is_value;
    return (float)(n % 2003) - 1001.0f;
}

/* Tokens [t, t + n) of all heads. */
static void put_all(struct kv *kv, const struct kernels *kernels, size_t t, size_t n)
{
    static float k[N_TOKENS * N_HEAD * D_MOST], v[N_TOKENS * N_HEAD * D_MOST];
    size_t d = kv->head_dim;
    for (size_t layer = 0; layer < N_LAYER; layer++) {
        for (size_t i = 0; i < n * N_HEAD * d; i++) {
            k[i] = element(0, layer, i / d % N_HEAD, t + i / (N_HEAD * d), i % d);
            v[i] = element(1, layer, i / d % N_HEAD, t + i / (N_HEAD * d), i % d);
        }
        for (size_t head = 0; head < N_HEAD; head++)
            kv_put(kv, kernels, (struct kv_part){layer, head, t, n}, k, v);
    }
}

/* A block's scale is at most 1001 / 127, so an element is off by less than 4 and the scale's
 * rounding. */
static int equals(const struct kv *kv, float found, float wanted)
{
    return kv->type == KV_Q8_0 ? fabsf(found - wanted) < 4.5f : found == wanted;
}

static float stored(const struct kv *kv, const void *p, size_t i)
{
    return kv->type == KV_F16 ? f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static float stored_key(const struct kv *kv, size_t at, size_t t, size_t j)
{
    struct kv_run run = kv_run_at(kv, at / N_HEAD, at % N_HEAD, t);
    assert_int_equal((uintptr_t)run.keys % 64, 0);
    assert_true(t >= run.first && t < run.end);
    t -= run.first;
    return stored(kv, run.keys, (t / PANEL * kv->head_dim + j) * PANEL + t % PANEL);
}

static float stored_value(const struct kv *kv, size_t at, size_t t, size_t j)
{
    struct kv_run run = kv_run_at(kv, at / N_HEAD, at % N_HEAD, t);
    assert_int_equal((uintptr_t)run.values % 64, 0);
    return stored(kv, run.values, (t - run.first) * kv->head_dim + j);
}

/* kv_get returns the elements, and they are stored where kv.h states. */
static void assert_holds(const struct kv *kv, size_t n)
{
    static float k[N_TOKENS * D_MOST], v[N_TOKENS * D_MOST];
    size_t d = kv->head_dim;
    for (size_t at = 0; at < N_LAYER * N_HEAD; at++) {
        size_t layer = at / N_HEAD, head = at % N_HEAD, from = n / 3;
        kv_get(kv, (struct kv_part){layer, head, from, n - from}, NULL, k, v);
        for (size_t t = 0; t < n; t++)
            for (size_t j = 0; j < d; j++) {
                float key = element(0, layer, head, t, j), value = element(1, layer, head, t, j);
                assert_true(t < from || equals(kv, k[(t - from) * d + j], key));
                assert_true(t < from || equals(kv, v[(t - from) * d + j], value));
                if (kv->type == KV_Q8_0)
                    continue; /* test_kernels_attend */
                assert_true(stored_key(kv, at, t, j) == key);
                assert_true(stored_value(kv, at, t, j) == value);
            }
        for (size_t t = n; kv->type != KV_Q8_0 && t % PANEL != 0;
             t++) /* lanes after the last token */
            for (size_t j = 0; j < d; j++)
                assert_true(stored_key(kv, at, t, j) == 0);
    }
}

/* Fills a cache in pieces of `chunk` tokens, so that it grows, then copies it. */
static void fill_and_copy(const struct kernels *kernels, enum kv_type type, size_t d, size_t chunk)
{
    struct kv kv, other;
    mgpt_error err;
    assert_int_equal(kv_init(&kv, N_LAYER, N_HEAD, d, type, NULL, &err), MGPT_OK);
    assert_int_equal(kv_init(&other, N_LAYER, N_HEAD, d, type, NULL, &err), MGPT_OK);
    if (type != KV_Q8_0)
        assert_int_equal(kv.panel, PANEL * d * (type == KV_F16 ? 2 : 4));
    for (size_t t = 0; t < N_TOKENS; t += chunk) {
        size_t n = N_TOKENS - t < chunk ? N_TOKENS - t : chunk, before = kv.own->cap;
        assert_int_equal(kv_reserve(&kv, t, n, &err), MGPT_OK);
        if (t + n <= before)
            assert_int_equal(kv.own->cap, before);
        else
            assert_int_equal(kv.own->cap, t + n > 2 * before ? t + n : 2 * before);
        put_all(&kv, kernels, t, n);
        assert_holds(&kv, t + n);
    }
    assert_int_equal(kv_fork(&other, &kv, N_TOKENS, 0, &err), MGPT_OK);
    assert_holds(&other, N_TOKENS);
    kv_free(&kv);
    assert_null(kv.own);
    assert_holds(&other, N_TOKENS);
    kv_free(&other);
    kv_free(&other); /* a second time is allowed */
}

TEST(put_and_get)
{
    static const size_t widths[] = {1, 4, 16, 63, 64, 65, 128, D_MOST},
                        chunks[] = {1, 7, 16, N_TOKENS};
    struct kernels kernels;
    assert_true(kernels_init(&kernels, "scalar"));
    for (int type = 0; type < KV_N_TYPES; type++)
        for (size_t w = 0; w < COUNT(widths); w++)
            for (size_t c = 0; c < COUNT(chunks); c++)
                fill_and_copy(&kernels, (enum kv_type)type, widths[w], chunks[c]);
}

/* From 1 MiB on, which 512 tokens of this width fill, keys and values grow by an eighth, and from
 * 2 MiB on they begin at a huge page; what was there stays. */
TEST(large)
{
    enum { WIDTH = 512, FILLS = 512, N = 1200 };
    struct kernels kernels;
    struct kv kv;
    mgpt_error err;
    float key[WIDTH], value[WIDTH], k[WIDTH], v[WIDTH];
    assert_true(kernels_init(&kernels, "scalar"));
    assert_int_equal(kv_init(&kv, 1, 1, WIDTH, KV_F32, NULL, &err), MGPT_OK);
    for (size_t t = 0; t < N; t++) {
        size_t before = kv.own->cap;
        assert_int_equal(kv_reserve(&kv, t, 1, &err), MGPT_OK);
        if (t >= FILLS && t == before)
            assert_int_equal(kv.own->cap, before + before / 8);
        for (size_t j = 0; j < WIDTH; j++) {
            key[j] = (float)(t * WIDTH + j);
            value[j] = -key[j];
        }
        kv_put(&kv, &kernels, (struct kv_part){0, 0, t, 1}, key, value);
    }
    for (size_t t = 0; t < N; t++) {
        kv_get(&kv, (struct kv_part){0, 0, t, 1}, NULL, k, v);
        for (size_t j = 0; j < WIDTH; j++)
            assert_true(k[j] == (float)(t * WIDTH + j) && v[j] == -k[j]);
    }
    assert_int_equal((uintptr_t)kv.own->k[0] % MEM_HUGE_PAGE, 0);
    assert_int_equal((uintptr_t)kv.own->v[0] % MEM_HUGE_PAGE, 0);
    kv_free(&kv);
}

/* Room for a panel's first token after a rewind clears the panel: no lane of the old content
 * remains. */
TEST(a_panel_is_cleared)
{
    struct kernels kernels;
    struct kv kv;
    mgpt_error err;
    assert_true(kernels_init(&kernels, "scalar"));
    assert_int_equal(kv_init(&kv, N_LAYER, N_HEAD, 8, KV_F32, NULL, &err), MGPT_OK);
    assert_int_equal(kv_reserve(&kv, 0, N_TOKENS, &err), MGPT_OK);
    put_all(&kv, &kernels, 0, N_TOKENS);
    assert_int_equal(kv_reserve(&kv, PANEL, 1, &err), MGPT_OK);
    put_all(&kv, &kernels, PANEL, 1);
    assert_holds(&kv, PANEL + 1);
    kv_free(&kv);
}

/* Either of k and v may be left out, and no token is asked for without an array. */
TEST(get_of_one_kind)
{
    struct kernels kernels;
    struct kv kv;
    mgpt_error err;
    float k[8] = {7}, v[8] = {7};
    assert_true(kernels_init(&kernels, "scalar"));
    assert_int_equal(kv_init(&kv, N_LAYER, N_HEAD, 8, KV_F32, NULL, &err), MGPT_OK);
    kv_get(&kv, (struct kv_part){1, 2, 0, 0}, NULL, k, v);
    assert_true(k[0] == 7 && v[0] == 7);
    assert_int_equal(kv_reserve(&kv, 0, 3, &err), MGPT_OK);
    put_all(&kv, &kernels, 0, 3);
    kv_get(&kv, (struct kv_part){1, 2, 2, 1}, NULL, k, NULL);
    kv_get(&kv, (struct kv_part){1, 2, 2, 1}, NULL, NULL, v);
    for (size_t j = 0; j < 8; j++)
        assert_true(k[j] == element(0, 1, 2, 2, j) && v[j] == element(1, 1, 2, 2, j));
    kv_free(&kv);
}

enum { WIDE = 5, CONVOLUTION = 1 /* the layer that keeps rows */ };

static void put_kept(struct kv *kv, size_t t, size_t end, float sign)
{
    mgpt_error err;
    for (; t < end; t++) {
        assert_int_equal(kv_reserve(kv, t, 1, &err), MGPT_OK);
        for (size_t j = 0; j < WIDE; j++)
            kv_row(kv, CONVOLUTION, t)[j] = sign * (float)(t * WIDE + j);
    }
}

static void check_kept(const struct kv *kv, size_t t, size_t end, float sign)
{
    for (; t < end; t++)
        for (size_t j = 0; j < WIDE; j++)
            assert_true(kv_row(kv, CONVOLUTION, t)[j] == sign * (float)(t * WIDE + j));
}

/* A layer that keeps rows keeps them as floats in a cache of any type, through growth, forks that
 * share, rewinds into what is shared, and copies; and keeps nothing else. */
TEST(rows_in_place_of_keys)
{
    static const struct kv_shape rows[N_LAYER] = {{N_HEAD, 8, 8, 0}, {N_HEAD, 8, 8, WIDE}};
    static const float zeros[N_HEAD * 8];
    struct kernels kernels;
    assert_true(kernels_init(&kernels, "scalar"));
    for (int type = 0; type < KV_N_TYPES; type++) {
        struct kv kv, fork;
        mgpt_error err;
        size_t first = 2 * CONVOLUTION * N_HEAD;
        assert_int_equal(kv_init(&kv, N_LAYER, N_HEAD, 8, (enum kv_type)type, rows, &err), MGPT_OK);
        assert_int_equal(kv_init(&fork, N_LAYER, N_HEAD, 8, (enum kv_type)type, rows, &err),
                         MGPT_OK);
        put_kept(&kv, 0, N_TOKENS, 1);
        for (size_t i = 0; i < N_TOKENS * N_HEAD; i++)
            kv_put(&kv, &kernels, (struct kv_part){0, i % N_HEAD, i / N_HEAD, 1}, zeros, zeros);
        for (size_t i = 0; i < 2 * N_HEAD; i++)
            assert_int_equal(kv_block_bytes(&kv, first + i, N_TOKENS),
                             i == 1 ? N_TOKENS * WIDE * sizeof(float) : 0);
        assert_int_equal(kv_fork(&fork, &kv, N_TOKENS, 1, &err), MGPT_OK);
        assert_int_equal(fork.n_prefix, N_TOKENS / PANEL * PANEL);
        check_kept(&fork, 0, N_TOKENS, 1);
        put_kept(&fork, PANEL + 3, N_TOKENS, -1);
        check_kept(&fork, 0, PANEL + 3, 1);
        check_kept(&fork, PANEL + 3, N_TOKENS, -1);
        check_kept(&kv, 0, N_TOKENS, 1);
        kv_copy(&fork, &kv, N_LAYER, PANEL + 9, 20);
        check_kept(&fork, PANEL + 3, PANEL + 9, -1);
        check_kept(&fork, PANEL + 9, PANEL + 29, 1);
        check_kept(&fork, PANEL + 29, N_TOKENS, -1);
        kv_free(&kv);
        kv_free(&fork);
    }
}
