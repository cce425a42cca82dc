/* The specification of the attention kernels; part of float_tmpl.h, once per ISA level.
 *
 * scores and mix sum in the orders that kernels.h states. Elements of an F16 cache are converted to
 * float32 and computed in float32, so F16 gives the result of F32 for the rounded keys and values.
 * The scores of a Q8_0 cache are a matmul of integers (kv_q8.c).
 */
#include "kernels/pack/int_layout.h"

static inline float kv_element(const void *p, size_t i, enum kv_type type)
{
    float wide;
    if (type == KV_F32)
        return ((const float *)p)[i];
    widen_f16(&wide, (const uint16_t *)p + i, 1);
    return wide;
}

static inline void scores_of(const struct scores a, enum kv_type type)
{
    for (size_t p = a.p0; p < a.p1; p++)
        for (size_t i = 0; i < a.n; i++) {
            float c[PANEL] = {0};
            for (size_t j = 0; j < a.d; j++)
                for (size_t l = 0; l < PANEL; l++)
                    c[l] =
                        fmaf(kv_element(a.keys, (p * a.d + j) * PANEL + l, type), a.q[i][j], c[l]);
            for (size_t l = 0; l < PANEL; l++)
                a.s[i * a.lds + p * PANEL + l] = c[l] * a.by;
        }
}

static void scores_f32(const struct scores *s)
{
    scores_of(*s, KV_F32);
}

static void scores_f16(const struct scores *s)
{
    scores_of(*s, KV_F16);
}

static inline void mix_of(const struct mix m, enum kv_type type)
{
    for (size_t i = 0; i < m.n; i++) {
        size_t j = 0;
        for (; j + PANEL <= m.d; j += PANEL) {
            float c[PANEL];
            memcpy(c, m.o[i] + j, sizeof c);
            for (size_t t = 0; t < m.n_keys; t++)
                for (size_t l = 0; l < PANEL; l++)
                    c[l] =
                        fmaf(m.a[i * m.lda + t],
                             kv_element(m.values, (m.t0 + t) * m.ldv + m.j0 + j + l, type), c[l]);
            memcpy(m.o[i] + j, c, sizeof c);
        }
        for (; j < m.d; j++)
            for (size_t t = 0; t < m.n_keys; t++)
                m.o[i][j] =
                    fmaf(m.a[i * m.lda + t],
                         kv_element(m.values, (m.t0 + t) * m.ldv + m.j0 + j, type), m.o[i][j]);
    }
}

static void mix_f32(const struct mix *m)
{
    mix_of(*m, KV_F32);
}

static void mix_f16(const struct mix *m)
{
    mix_of(*m, KV_F16);
}

static void mix_q8_0(const struct mix *m)
{
    for (size_t t = m->t0; t < m->t0 + m->n_keys; t++) {
        const char *panel = (const char *)m->values + t / PANEL * kernels_kv_bytes(KV_Q8_0, m->ldv);
        for (size_t j = m->j0; j < m->j0 + m->d; j++) {
            int8_t q = ((const int8_t *)panel)[kv_value_at(j, t % PANEL, m->ldv)];
            float scale = kv_element(panel, kv_scale_at(j / BLOCK, t % PANEL), KV_F16);
            for (size_t i = 0; i < m->n; i++) {
                float *o = m->o[i] + j - m->j0;
                *o = fmaf(m->a[i * m->lda + t - m->t0] * scale, (float)q, *o);
            }
        }
    }
}

/* Gives the values of f16_from_f32 in dtype.c without a branch: rounds to nearest even; a result of
 * 2^16 or more becomes infinity; a NaN becomes quiet and keeps the top of its payload. Below 2^-14,
 * adding 0.5 moves the last bit of the half to the last bit of the sum. */
static void to_f16(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = f32_bits(src[i]), size = bits & 0x7FFFFFFF;
        uint32_t half = (size - 0x38000000u + 0xFFF + (size >> 13 & 1)) >> 13;
        uint32_t small = f32_bits(f32_from_bits(size) + 0.5f) - 0x3F000000u;
        uint32_t nan = 0x7E00 | (size >> 13 & 0x3FF);
        half = (int32_t)size < 0x38800000 ? small : half;
        half = (int32_t)size >= 0x47800000 ? 0x7C00 : half;
        half = (int32_t)size > 0x7F800000 ? nan : half;
        dst[i] = (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)half;
    }
}
