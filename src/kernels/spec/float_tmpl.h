/* The specification of the kernels, compiled once per ISA level (vec.h).
 *
 * Every loop over lanes has a constant count and no dependence between lanes, so a compiler can
 * vectorise it without changing a bit. Every sum is in the order that kernels.h states. Build with
 * -ffp-contract=off and without -ffast-math.
 */
#include "base/float_bits.h"
#include "kernels/kernels.h"
#include "kernels/pack/float_compressed.h"
#include "kernels/spec/sample_tmpl.h"

#include <math.h>
#include <string.h>

/* ---- matmul ---------------------------------------------------------------------------------- */

/* The unfinished sums of the 16 rows of a panel: one chain per row, or four (narrow matrix). */
struct chains {
    float c[4][PANEL];
};

/* Adds n columns of a panel. The index of the first column is a multiple of 4. */
static inline void chains_run(struct chains *s, size_t n_chains, const float *w, const float *x,
                              size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t l = 0; l < PANEL; l++)
            s->c[k % n_chains][l] = fmaf(w[k * PANEL + l], x[k], s->c[k % n_chains][l]);
}

static inline void chains_reduce(float *y, const struct chains *s, size_t n_chains, size_t rows)
{
    for (size_t l = 0; l < rows; l++)
        y[l] = n_chains == 1 ? s->c[0][l] : (s->c[0][l] + s->c[1][l]) + (s->c[2][l] + s->c[3][l]);
}

enum { WIDEN = SPAN }; /* columns converted to float at a time: 4 KiB */

static void widen_f32(float *dst, const void *src, size_t n)
{
    memcpy(dst, src, n * sizeof *dst);
}

static void widen_bf16(float *dst, const void *src, size_t n)
{
    const uint16_t *from = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = f32_from_bits((uint32_t)from[i] << 16);
}

/* Gives the values of f16_to_f32 in dtype.c without a branch and without subnormal arithmetic: a
 * subnormal half is computed as a float of [2^-14, 2^-13) minus 2^-14. */
static void widen_f16(float *dst, const void *src, size_t n)
{
    const uint16_t *from = src;
    for (size_t i = 0; i < n; i++) {
        uint32_t h = from[i], magnitude = (h & 0x7FFF) << 13;
        uint32_t normal = magnitude + 0x38000000u;
        uint32_t subnormal = f32_bits(f32_from_bits(magnitude + 0x38800000u) - 0x1p-14f);
        uint32_t bits = (int32_t)magnitude < 0x00800000 ? subnormal : normal;
        bits = (int32_t)magnitude >= 0x0F800000 ? normal + 0x38000000u : bits;
        dst[i] = f32_from_bits(bits | (h & 0x8000) << 16);
    }
}

/* Columns [k0, k0 + columns) of a compressed panel (float_compressed.h), in one span. */
static void widen_compressed(float *to, const uint8_t *panel, size_t n_in, size_t k0,
                             size_t columns)
{
    for (size_t i = 0; i < columns * PANEL; i++)
        to[i] = compressed_at(panel, k0 + i / PANEL, i % PANEL);
    if (compressed_has_patches(panel + compressed_table_at(k0)))
        compressed_patch(to, panel, n_in, k0, columns);
}

/* Columns [k, k + columns) of panel p as floats. type is a constant. */
static inline void widen_columns(enum weight_type type, float *to, const struct matmul *m, size_t p,
                                 size_t k, size_t columns)
{
    size_t at = (p * m->n_in + k) * PANEL;
    if (type == WEIGHT_F32)
        widen_f32(to, (const float *)m->w + at, columns * PANEL);
    else if (type == WEIGHT_F16)
        widen_f16(to, (const uint16_t *)m->w + at, columns * PANEL);
    else if (type == WEIGHT_BF16)
        widen_bf16(to, (const uint16_t *)m->w + at, columns * PANEL);
    else
        widen_compressed(to, (const uint8_t *)m->w + p * compressed_panel_bytes(m->n_in), m->n_in,
                         k, columns);
}

static inline void matmul_widened(enum weight_type type, const struct matmul *m)
{
    size_t n_in = m->n_in, n_chains = m->n_out > NARROW ? 1 : 4;
    for (size_t p = m->p0; p < m->p1; p++)
        for (size_t i = 0; i < m->n; i++) {
            const float *row = matmul_x(m, i);
            struct chains s = {0};
            for (size_t k = 0; k < n_in; k += WIDEN) {
                float wide[WIDEN * PANEL];
                size_t columns = n_in - k < WIDEN ? n_in - k : WIDEN;
                widen_columns(type, wide, m, p, k, columns);
                chains_run(&s, n_chains, wide, row + k, columns);
            }
            chains_reduce(m->y + i * m->ldy + p * PANEL, &s, n_chains,
                          rows_of_panels(m->n_out, p, 1));
        }
}

#define WIDENED(NAME)                                                                              \
    static void matmul_##NAME(const struct matmul *m)                                              \
    {                                                                                              \
        matmul_widened(WEIGHT_##NAME, m);                                                          \
    }
WIDENED(F32)
WIDENED(F16)
WIDENED(BF16)
WIDENED(BF16_COMPRESSED)

/* ---- sums over a row ------------------------------------------------------------------------- */

static inline float reduce_lanes(float p[PANEL])
{
    for (size_t i = 0; i < 8; i++)
        p[i] += p[i + 8];
    for (size_t i = 0; i < 4; i++)
        p[i] += p[i + 4];
    for (size_t i = 0; i < 2; i++)
        p[i] += p[i + 2];
    return p[0] + p[1];
}

/* sum of (x[i] - mean)^2 */
static float sum_squares(const float *x, float mean, size_t n)
{
    float p[PANEL] = {0};
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL)
        for (size_t l = 0; l < PANEL; l++) {
            float d = x[i + l] - mean;
            p[l] = fmaf(d, d, p[l]);
        }
    for (size_t l = 0; i + l < n; l++) {
        float d = x[i + l] - mean;
        p[l] = fmaf(d, d, p[l]);
    }
    return reduce_lanes(p);
}

static float sum_row(const float *x, size_t n)
{
    float p[PANEL] = {0};
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL)
        for (size_t l = 0; l < PANEL; l++)
            p[l] += x[i + l];
    for (size_t l = 0; i + l < n; l++)
        p[l] += x[i + l];
    return reduce_lanes(p);
}

static void normalize(float *y, const float *x, const float *gain, const float *bias, size_t n,
                      float mean, float eps)
{
    float inverse = 1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * inverse;
    for (size_t i = 0; gain && i < n; i++)
        y[i] *= gain[i];
    for (size_t i = 0; bias && i < n; i++)
        y[i] += bias[i];
}

static void rmsnorm(float *y, const float *x, const float *gain, const float *bias, size_t n,
                    float eps)
{
    normalize(y, x, gain, bias, n, 0.0f, eps);
}

static void layernorm(float *y, const float *x, const float *gain, const float *bias, size_t n,
                      float eps)
{
    normalize(y, x, gain, bias, n, sum_row(x, n) / (float)n, eps);
}

/* ---- exp, softmax, activations --------------------------------------------------------------- */

/* e^x to about 1 ulp. x = n ln2 + r, |r| <= ln2 / 2; e^r = 1 + r + r^2 P(r) with a minimax P
 * (weighted error 3.3e-9); n is the low bits of x log2(e) + 1.5 * 2^23. 2^n is applied in two
 * halves, so that results may be subnormal. Below -104 the result is 0, above 89 infinity; NaN
 * stays NaN. */
struct exp_parts {
    float rest; /* e^r - 1 */
    uint32_t n;
};

static inline struct exp_parts exp_reduce(float c)
{
    float shifted = fmaf(c, 0x1.715476p0f, 0x1.8p23f);
    float whole = shifted - 0x1.8p23f;
    float r = fmaf(whole, -0x1.62e4p-1f, c);
    r = fmaf(whole, -0x1.7f7d1cp-20f, r);
    float p = 0x1.6a1a76p-10f;
    p = fmaf(p, r, 0x1.123fc6p-7f);
    p = fmaf(p, r, 0x1.555916p-5f);
    p = fmaf(p, r, 0x1.55548ap-3f);
    p = fmaf(p, r, 0x1.fffffcp-2f);
    return (struct exp_parts){fmaf(p, r * r, r), f32_bits(shifted) - 0x4B400000u};
}

static inline float exp_f32(float x)
{
    float c = x < -104.0f ? -104.0f : x;
    struct exp_parts e = exp_reduce(c > 89.0f ? 89.0f : c);
    float p = e.rest + 1.0f;
    uint32_t n = e.n, half = (n + 512) / 2 - 256,
             rest = n - half; /* n >= -151: the sum is not negative */
    return p * f32_from_bits((half + 127) << 23) * f32_from_bits((rest + 127) << 23);
}

static float maximum(const float *x, size_t n)
{
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static void exp_less(float *x, float max, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = exp_f32(x[i] - max);
}

static void softmax(float *x, size_t n)
{
    exp_less(x, maximum(x, n), n);
    float inverse = 1.0f / sum_row(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] *= inverse;
}

static void act_relu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void act_relu2(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float positive = x[i] < 0.0f ? 0.0f : x[i];
        x[i] = positive * positive;
    }
}

static void act_silu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] / (1.0f + exp_f32(-x[i]));
}

static void act_sigmoid(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = 1.0f / (1.0f + exp_f32(-x[i]));
}

static void act_gelu_quick(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] / (1.0f + exp_f32(-1.702f * x[i]));
}

/* x/2 (1 + tanh u) = x / (1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3).
 * (Hendrycks & Gimpel 2016) */
static void act_gelu_tanh(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float u = 0x1.988454p-1f * fmaf(0.044715f * x[i] * x[i], x[i], x[i]);
        x[i] = x[i] / (1.0f + exp_f32(-2.0f * u));
    }
}

/* x Phi(x). The tail Phi(-|x|) = e^(-x^2/2) erfcx(t) / 2, t = |x| / sqrt2, where erfcx(t) = u P(u)
 * for u = 1 / (1 + 0.35 t): a minimax fit on t <= 9.6, relative error 7e-9. */
static void act_gelu_erf(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = x[i], u = 1.0f / fmaf(fabsf(v), 0x1.fadaa8p-3f, 1.0f);
        float p = fmaf(0x1.35767p-5f, u, -0x1.3e4be4p-3f);
        p = fmaf(p, u, 0x1.6216bep-3f);
        p = fmaf(p, u, -0x1.02ec56p-6f);
        p = fmaf(p, u, 0x1.3a0056p-4f);
        p = fmaf(p, u, 0x1.3710e8p-3f);
        p = fmaf(p, u, 0x1.314172p-3f);
        p = fmaf(p, u, 0x1.81d1fp-3f);
        p = fmaf(p, u, 0x1.939c7ap-3f);
        p = fmaf(p, u, 0x1.94743p-3f);
        float tail = 0.5f * exp_f32(-0.5f * v * v) * (u * p);
        x[i] = v * (v < 0.0f ? tail : 1.0f - tail);
    }
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1) keeps its digits near 0; below -30 it is -1. */
static void xielu(float *x, const struct xielu *c, size_t n)
{
    struct xielu k = *c;
    for (size_t i = 0; i < n; i++) {
        float v = x[i], low = v < k.eps ? v : k.eps;
        struct exp_parts e = exp_reduce(low < -30.0f ? -30.0f : low);
        float two_n = f32_from_bits((e.n + 127) << 23);
        float less_1 = fmaf(two_n, e.rest, two_n - 1.0f), linear = k.beta * v;
        float above = fmaf(k.p * v, v, linear), below = fmaf(less_1 - v, k.n, linear);
        x[i] = v > 0.0f ? above : below;
    }
}

/* ---- others ---------------------------------------------------------------------------------- */

static void rope(float *x, const float *cs, size_t n_heads, size_t head_dim, size_t n_rot,
                 enum rope_pairs pairs)
{
    size_t step = pairs == ROPE_ADJACENT ? 2 : 1;
    size_t other = pairs == ROPE_ADJACENT ? 1 : n_rot / 2;
    for (size_t h = 0; h < n_heads; h++) {
        float *head = x + h * head_dim;
        for (size_t i = 0; i < n_rot / 2; i++) {
            float a = head[i * step], b = head[i * step + other];
            float cosine = cs[2 * i], sine = cs[2 * i + 1];
            head[i * step] = fmaf(a, cosine, -(b * sine));
            head[i * step + other] = fmaf(a, sine, b * cosine);
        }
    }
}

static void scale(float *x, float by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

static void add_to(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static void mul(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= y[i];
}

static void axpby(float *x, float a, float b, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = fmaf(b, y[i], a * x[i]);
}

static void clamp(float *x, float limit, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float low = x[i] < -limit ? -limit : x[i];
        x[i] = low > limit ? limit : low;
    }
}

/* tanh z = z + z^3 P(z^2) for |z| < 0.625, a minimax P (error 5e-9), else 1 - 2 / (e^2|z| + 1). */
static void softcap(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float z = x[i] / cap, size = fabsf(z), s = z * z;
        float p = fmaf(-0x1.72328p-8f, s, 0x1.5159fp-6f);
        p = fmaf(p, s, -0x1.b81e1cp-5f);
        p = fmaf(p, s, 0x1.11064ap-3f);
        p = fmaf(p, s, -0x1.55552ep-2f);
        float small = fmaf(size * s, p, size);
        float large = 1.0f - 2.0f / (exp_f32(2.0f * size) + 1.0f);
        x[i] = cap * copysignf(size < 0.625f ? small : large, z);
    }
}

#include "kernels/pack/compress_tmpl.h"
#include "kernels/spec/attend_tmpl.h"

#include "kernels/pack/screen_tmpl.h"

const struct sample_kernels ISA_NAME(sample_kernels_) = {sample_biggest, sample_weigh, sample_few,
                                                         sample_sum_exp};

#define ACTIVATION_KERNEL(id, name) act_##name,

/* Fills the table with the entries of this file. */
static void spec_init(struct kernels *k)
{
    *k = (struct kernels){
        .isa = ISA_STRING(ISA),
        .vectors = ISA_STRING(ISA),
        .matmul = {matmul_F32, matmul_F16,
                   matmul_BF16, [WEIGHT_BF16_COMPRESSED] = matmul_BF16_COMPRESSED},
        .compress = compress_panel,
        .screen = screen_panel,
        .rmsnorm = rmsnorm,
        .layernorm = layernorm,
        .rope = rope,
        .softmax = softmax,
        .scale = scale,
        .add = add_to,
        .mul = mul,
        .axpby = axpby,
        .clamp = clamp,
        .softcap = softcap,
        .act = {ACTIVATIONS(ACTIVATION_KERNEL)},
        .xielu = xielu,
        .scores = {scores_f32, scores_f16},
        .mix = {mix_f32, mix_f16, mix_q8_0},
        .to_f16 = to_f16,
        .sample = &ISA_NAME(sample_kernels_),
    };
}
