/* The mix of weights below 2^-126: part of attend_tile_tmpl.h, once per ISA level.
 *
 * Scores 87 to 103 below their row's maximum become such weights, and an fma of one takes Intel cores
 * 52 ns, others 0.5 ns. Where there are many, values times 2^-24 are multiplied by weights times 2^24,
 * which are no longer small: both are exact, so the product and the rounded sum have the same bits.
 * These are functions of their own: in tile_mix they would cost the other calls 2 to 12 %.
 */
#include "base/float_bits.h"

enum {
    TINY_ONE_OF = 64, /* one such weight of so many pays for a look at the values */
    TINY_KEYS = 128,  /* weights scaled at a time */
    TINY_VECTORS = 4
};

/* Whether a value is not 0 and loses bits when multiplied by 2^-24: |v| < 2^-102. */
static int any_loses_bits(const float *v, size_t n)
{
    int any = 0;
    for (size_t j = 0; j < n; j++) {
        uint32_t bits = f32_bits(v[j]) & 0x7FFFFFFF;
        any |= (bits != 0) & (bits < 0x0C800000);
    }
    return any;
}

/* Whether one of each row's first 16 weights is below 2^-126 and not 0. Most calls end here: to look at
 * all weights would cost up to 12 % of a mix. */
static int any_is_tiny(const struct mix *m)
{
    lanes most = lanes_of(0), largest = lanes_of(0x1.fffffcp-127f);
    for (size_t i = 0; m->n_keys >= PANEL && i < m->n; i++) {
        lanes a = lanes_load(m->a + i * m->lda);
        most = lanes_max(lanes_at_least(largest, a, a), most);
    }
    return lanes_biggest(most) > 0;
}

/* Whether many weights are below 2^-126, all are in [0, 2), and no value loses bits. values: those of
 * the first token and column. */
static int many_are_tiny(const struct mix *m, const void *values, enum kv_type type)
{
    uint32_t n = 0, most = 0;
    for (size_t i = 0; i < m->n; i++)
        for (size_t t = 0; t < m->n_keys; t++) {
            uint32_t bits = f32_bits(m->a[i * m->lda + t]);
            n += (bits != 0) & (bits < 0x800000);
            most = bits > most ? bits : most;
        }
    int are = (size_t)n * TINY_ONE_OF > m->n * m->n_keys && most < 0x40000000 && m->d % LANES == 0;
    for (size_t t = 0; are && type == KV_F32 && t < m->n_keys; t++)
        are = !any_loses_bits((const float *)values + t * m->ldv, m->d);
    return are;
}

/* n tokens and nv vectors of columns of a row; a: its weights times 2^24. */
VEC_INLINE void tiny_tile(float *o, const float *a, const void *values, size_t ldv, size_t n,
                          size_t nv, enum kv_type type)
{
    vec c[TINY_VECTORS], down = vec_of(0x1p-24f);
    for (size_t v = 0; v < nv; v++)
        c[v] = vec_load(o + v * LANES);
    for (size_t t = 0; t < n; t++)
        for (size_t v = 0; v < nv; v++) {
            vec w = vec_mul(load_kv(values, t * ldv + v * LANES, type), down);
            c[v] = vec_fma(w, vec_of(a[t]), c[v]);
        }
    for (size_t v = 0; v < nv; v++)
        vec_store(o + v * LANES, c[v]);
}

/* n <= TINY_KEYS tokens of a row; a: its weights. */
VEC_INLINE void tiny_row(float *o, const float *a, const void *values, const struct mix *m,
                         size_t n, enum kv_type type)
{
    float up[TINY_KEYS];
    size_t j = 0;
    for (size_t t = 0; t < n; t++) {
        uint32_t bits = f32_bits(a[t]);
        float tiny = (float)(int32_t)bits * 0x1p-125f;
        up[t] = bits < 0x800000 ? tiny : f32_from_bits(bits + (24 << 23));
    }
    for (; j + TINY_VECTORS * LANES <= m->d; j += TINY_VECTORS * LANES)
        tiny_tile(o + j, up, kv_at(values, j, type), m->ldv, n, TINY_VECTORS, type);
    for (; j < m->d; j += LANES)
        tiny_tile(o + j, up, kv_at(values, j, type), m->ldv, n, 1, type);
}

/* Mixes and returns 1 if it is worth it. */
VEC_INLINE int mix_tiny(const struct mix *m, enum kv_type type)
{
    const void *values = kv_at(m->values, m->t0 * m->ldv + m->j0, type);
    if (!many_are_tiny(m, values, type))
        return 0;
    for (size_t t = 0; t < m->n_keys; t += TINY_KEYS)
        for (size_t i = 0; i < m->n; i++)
            tiny_row(m->o[i], m->a + i * m->lda + t, kv_at(values, t * m->ldv, type), m,
                     m->n_keys - t < TINY_KEYS ? m->n_keys - t : TINY_KEYS, type);
    return 1;
}

#define DEFINE_MIX(TYPE, ID)                                                                       \
    static NOINLINE int tiny_##TYPE(const struct mix *m)                                           \
    {                                                                                              \
        return mix_tiny(m, ID);                                                                    \
    }                                                                                              \
    static void mix_any_##TYPE(const struct mix *m)                                                \
    {                                                                                              \
        if (!any_is_tiny(m) || !tiny_##TYPE(m))                                                    \
            tile_mix_##TYPE(m);                                                                    \
    }
DEFINE_MIX(f32, KV_F32)
DEFINE_MIX(f16, KV_F16)
#undef DEFINE_MIX
