/* Tests of the kernel table.
 *
 * Every entry of every ISA level that this machine runs gets the same random arguments as scalar,
 * which is the specification, and must return the same bits. The accuracy of scalar is tested
 * separately, against float64. An ISA level that this machine lacks is reported as unavailable.
 */
#include "base/dmath.h"
#include "check/oracle/oracle_math.h"
#include "dtype/dtype.h"
#include "support/build_model.h"
#include "support/isa_levels.h"
#include "support/unit.h"

#include <math.h>

enum { MAX = 10240 };

static uint64_t rng = 1;

static size_t entry_below(size_t n)
{
    return (size_t)(toy_random(&rng) % n);
}

static float entry_real(float scale)
{
    return ((float)(toy_random(&rng) >> 40) / 8388608.0f - 1.0f) * scale;
}

static void entry_fill(float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = entry_real(scale);
}

/* Hard values: zeros of both signs, subnormals, huge ones, infinities. */
static void fill_hard(float *x, size_t n)
{
    static const float hard[] = {0.0f,   -0.0f,   1e-40f, -3e-39f, 1e30f,    -1e30f,
                                 88.72f, -88.72f, 103.9f, -104.1f, INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++)
        x[i] = entry_below(4) ? entry_real(20) : hard[entry_below(COUNT(hard))];
}

static void same_bits(const char *isa, const char *what, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s, %s of %zu values: [%zu] is %a, the scalar ISA level says %a", isa, what,
                     n, i, (double)a[i], (double)b[i]);
}

typedef void row_fn(const struct kernels *k, float *x, size_t n);

static void do_softmax(const struct kernels *k, float *x, size_t n)
{
    k->softmax(x, n);
}

/* Differences up to 300: most results are subnormal or 0. */
static void do_softmax_far(const struct kernels *k, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= 5;
    k->softmax(x, n);
}

static void do_rmsnorm(const struct kernels *k, float *x, size_t n)
{
    k->rmsnorm(x, x, NULL, NULL, n, 1e-5f);
}

static void do_layernorm(const struct kernels *k, float *x, size_t n)
{
    static float gain[MAX], bias[MAX];
    for (size_t i = 0; i < n; i++) {
        gain[i] = (float)(i % 7) - 3.0f;
        bias[i] = (float)(i % 5) * 0.3f;
    }
    k->layernorm(x, x, gain, bias, n, 1e-5f);
}

static void do_scale(const struct kernels *k, float *x, size_t n)
{
    k->scale(x, 0.37f, n);
}

static void do_add_mul(const struct kernels *k, float *x, size_t n)
{
    static float y[MAX];
    for (size_t i = 0; i < n; i++)
        y[i] = x[n - 1 - i];
    k->add(x, y, n);
    k->mul(x, y, n);
}

static void do_rope(const struct kernels *k, float *x, size_t n)
{
    static float cs[MAX];
    for (size_t i = 0; i < n; i++)
        cs[i] = x[n - 1 - i] * 0.05f;
    k->rope(x, cs, 1, n, n / 2 * 2, ROPE_ADJACENT);
    k->rope(x, cs, 1, n, n / 3 * 2, ROPE_HALVES);
}

static void do_blend(const struct kernels *k, float *x, size_t n)
{
    static float y[MAX];
    for (size_t i = 0; i < n; i++)
        y[i] = x[n - 1 - i];
    k->axpby(x, 0.9f, -0.3f, y, n);
}

static void do_clamp(const struct kernels *k, float *x, size_t n)
{
    k->clamp(x, 7.5f, n);
}

static void do_softcap(const struct kernels *k, float *x, size_t n)
{
    k->softcap(x, 15, n);
}

static void do_xielu(const struct kernels *k, float *x, size_t n)
{
    k->xielu(x, &(struct xielu){0.8f, 1.3f, 0.5f, -1e-6f}, n);
}

#define DO_ACT(id, name)                                                                           \
    static void do_act_##name(const struct kernels *k, float *x, size_t n)                         \
    {                                                                                              \
        k->act[ACT_##id](x, n);                                                                    \
    }
ACTIVATIONS(DO_ACT)

#define ACT_ENTRY(id, name) {#name, do_act_##name, 1},

TEST(rows)
{
    static const struct {
        const char *name;
        row_fn *fn;
        int hard; /* also tested with hard values */
    } entries[] = {{"softmax", do_softmax, 0}, {"far softmax", do_softmax_far, 0},
                   {"rmsnorm", do_rmsnorm, 0}, {"layernorm", do_layernorm, 0},
                   {"scale", do_scale, 1},     {"add and mul", do_add_mul, 1},
                   {"rope", do_rope, 0},       {"clamp", do_clamp, 1},
                   {"softcap", do_softcap, 1}, {"xielu", do_xielu, 1},
                   {"blend", do_blend, 1},     ACTIVATIONS(ACT_ENTRY)};
    static float x[MAX], a[MAX], b[MAX];
    struct kernels k[ISA_LEVELS_MOST];
    size_t n_levels = isa_levels_here(k);
    for (int round = 0; round < 200; round++)
        for (size_t e = 0; e < COUNT(entries); e++) {
            size_t n = 1 + entry_below(300);
            if (entries[e].hard && entry_below(2))
                fill_hard(x, n);
            else
                entry_fill(x, n, 30);
            memcpy(a, x, sizeof a);
            entries[e].fn(&k[0], a, n);
            for (size_t i = 1; i < n_levels; i++) {
                memcpy(b, x, sizeof b);
                entries[e].fn(&k[i], b, n);
                same_bits(k[i].isa, entries[e].name, b, a, n);
            }
        }
}

static double exact_act(int act, double x)
{
    static const char *const names[] = {ACTIVATIONS(ACTIVATION_NAME)};
    double u = sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x);
    switch (act) {
    case ACT_RELU:
        return x > 0 ? x : 0;
    case ACT_RELU2:
        return x > 0 ? x * x : 0;
    case ACT_SILU:
        return x / (1 + exp(-x));
    case ACT_GELU_TANH:
        return x / (1 + exp(-2 * u));
    case ACT_GELU_ERF:
        return 0.5 * x * erfc(-x / sqrt(2.0));
    default:
        math_activate(&(struct oracle_layer){.activation = names[act]}, &x, 1);
        return x;
    }
}

/* Our polynomials against libm in float64. The exponents of the GELUs reach 18 at |x| = 6 and lose
 * their last bits to rounding before exp: 18 * 2^-24 = 1.1e-6 and a few ulps (gelu_tanh, cubic,
 * twice that). SiLU's exponent is exact. */
TEST(accuracy)
{
    static const double bounds[] = {0, 0x1p-24, 3e-7, 4e-6, 2e-6}, other = 4e-6;
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    for (double at = -6; at < 6; at += 0.00037)
        for (int act = 0; act < ACT_N_KINDS; act++) {
            float y = (float)at;
            double exact = exact_act(act, (double)y);
            double bound = (size_t)act < COUNT(bounds) ? bounds[act] : other;
            k.act[act](&y, 1);
            if (!(fabs((double)y - exact) <= bound * fabs(exact)))
                fail_msg("act %d at %.9g: %.9g, exact %.9g", act, at, (double)y, exact);
        }
    for (double at = -88.5; at < -6; at += 0.0037) { /* e^88.7 is the largest that is finite */
        float y = (float)at;
        double exact = exact_act(ACT_SILU, (double)y);
        k.act[ACT_SILU](&y, 1);
        assert_true(fabs((double)y - exact) <= 3e-7 * fabs(exact));
    }
    for (double at = -103; at < 0; at += 0.0037) {
        float pair[2] = {0, (float)at};
        double e = exp((double)pair[1]), exact = e / (1 + e);
        k.softmax(pair, 2);
        /* exp, sum, reciprocal, product: under 4 ulps of 2^-24 each side, or the last bit of a subnormal */
        assert_true(fabs((double)pair[1] - exact) <= 8 * 0x1p-24 * exact + 0x1p-149);
    }
    float far[3] = {0, -200, -1000};
    k.softmax(far, 3);
    assert_true(far[0] == 1 && far[1] == 0 && far[2] == 0);
}

/* Near 0 and around eps, too, where e^x - 1 - x has few digits of its own. */
TEST(xielu)
{
    static const struct xielu of[] = {{0.8f, 1.3f, 0.5f, -1e-6f}, {2, 0.5f, 0.25f, -0.125f}};
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    for (size_t c = 0; c < COUNT(of); c++)
        for (double at = 1e-8; at < 120; at *= 1.0007)
            for (int sign = -1; sign <= 1; sign += 2) {
                float y = (float)at * (float)sign;
                double x = (double)y, p = (double)of[c].p, n = (double)of[c].n;
                double low = expm1(fmin(x, (double)of[c].eps)) - x;
                double exact = (x > 0 ? p * x * x : n * low) + (double)of[c].beta * x;
                double terms = (x > 0 ? p * x * x : n * (fabs(low) + fabs(x))) + fabs(x);
                k.xielu(&y, &of[c], 1);
                if (!(fabs((double)y - exact) <= 3 * 0x1p-24 * terms))
                    fail_msg("xielu %zu at %.9g: %.9g, exact %.9g", c, x, (double)y, exact);
            }
    float odd[4] = {INFINITY, -INFINITY, NAN, 0};
    k.xielu(odd, &of[0], 4);
    assert_true(odd[0] == INFINITY && isnan(odd[1]) && isnan(odd[2]) && odd[3] <= 0);
}

/* cap tanh(x / cap). The quotient and the last product are rounded once each; tanh itself is within
 * 5 u on either side of its seam at 0.625, where 1 - 2 / (e^2z + 1) magnifies the error of exp
 * most. */
TEST(softcap)
{
    static const float caps[] = {0.5f, 1, 2.5f, 15, 30, 50};
    struct kernels k;
    assert_true(kernels_init(&k, NULL));
    for (size_t c = 0; c < COUNT(caps); c++) {
        double cap = (double)caps[c];
        for (double z = 1e-7; z < 25; z *= 1.0003) {
            float pair[2] = {(float)(z * cap), -(float)(z * cap)}, x = pair[0];
            double exact = cap * tanh((double)x / cap);
            k.softcap(pair, caps[c], 2);
            if (!(fabs((double)pair[0] - exact) <= 7 * 0x1p-24 * exact))
                fail_msg("softcap %g of %.9g: %.9g, exact %.9g", cap, (double)x, (double)pair[0],
                         exact);
            assert_true(pair[1] == -pair[0] && (double)pair[0] <= cap);
        }
    }
    float odd[6] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f};
    k.softcap(odd, 15, 6);
    assert_true(odd[0] == 0 && !signbit(odd[0]) && odd[1] == 0 && signbit(odd[1]));
    assert_true(odd[2] == 15 && odd[3] == -15 && isnan(odd[4]));
    assert_true(fabs((double)odd[5] / (double)1e-40f - 1) < 0x1p-12); /* a subnormal has few bits */
}

/* axpby is fma(b, y, a x), and clamp keeps NaN. */
TEST(blend_and_clamp)
{
    struct kernels k;
    float x[300], y[300], z[300];
    assert_true(kernels_init(&k, NULL));
    for (int round = 0; round < 100; round++) {
        size_t n = 1 + entry_below(300);
        float a = entry_real(2), b = entry_real(2);
        entry_fill(x, n, 3);
        entry_fill(y, n, 3);
        memcpy(z, x, sizeof z);
        k.axpby(z, a, b, y, n);
        for (size_t i = 0; i < n; i++)
            assert_true(z[i] == fmaf(b, y[i], a * x[i]));
        memcpy(z, x, sizeof z);
        k.clamp(z, 1.25f, n);
        for (size_t i = 0; i < n; i++)
            assert_true(z[i] == fmaxf(-1.25f, fminf(1.25f, x[i])));
    }
    float odd[4] = {INFINITY, -INFINITY, NAN, -0.0f};
    k.clamp(odd, 2, 4);
    assert_true(odd[0] == 2 && odd[1] == -2 && isnan(odd[2]) && signbit(odd[3]));
}

/* float64 functions with a fixed order of operations, against libm. */
TEST(dmath)
{
    for (int i = 0; i < 200000; i++) {
        double u = (double)(toy_random(&rng) >> 11) * 0x1p-53, x = (u - 0.5) * 1400, s, c;
        /* Taylor series to the last term that counts: 3 ulps is generous */
        assert_true(fabs(d_exp(x) / exp(x) - 1) <= 3 * 0x1p-52);
        double y = exp((u - 0.5) * 600);
        assert_true(fabs(d_log(y) - log(y)) <= 3 * 0x1p-52 * fmax(1, fabs(log(y))));
        d_sincos(u * 0x1p22, &s, &c);
        assert_true(fabs(s - sin(u * 0x1p22)) <= 4 * 0x1p-52);
        assert_true(fabs(c - cos(u * 0x1p22)) <= 4 * 0x1p-52);
    }
    assert_true(d_exp(0) == 1 && d_log(1) == 0 && d_exp(-1000) == 0 && isinf(d_exp(1000)));
    assert_true(isnan(d_exp(NAN)));
}

/* Round trip of all 65,536 halves; rounding of float32 between them to nearest even. */
TEST(halves)
{
    for (uint32_t h = 0; h < 65536; h++) {
        int exponent = (int)(h >> 10 & 31);
        double m = (double)(h & 1023), sign = h & 0x8000 ? -1 : 1;
        double exact = exponent ? ldexp(1024 + m, exponent - 25) : ldexp(m, -24);
        float f = f16_to_f32((uint16_t)h);
        if (exponent == 31 && m > 0)
            assert_true(isnan(f) && f16_from_f32(f) == (h | 0x200));
        else {
            assert_true((double)f == (exponent == 31 ? sign * (double)INFINITY : sign * exact));
            assert_int_equal(f16_from_f32(f), h);
        }
    }
    for (uint32_t h = 0; h < 0x7BFF; h++) { /* halfway between neighbours goes to the even one */
        double low = (double)f16_to_f32((uint16_t)h), high = (double)f16_to_f32((uint16_t)(h + 1));
        float middle = (float)((low + high) / 2);
        assert_int_equal(f16_from_f32(middle), h + (h & 1));
        assert_int_equal(f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(f16_from_f32(nextafterf(middle, 0)), h);
    }
    assert_int_equal(f16_from_f32(65519.0f), 0x7BFF);
    assert_int_equal(f16_from_f32(65520.0f), 0x7C00);
    assert_int_equal(bf16_from_f32(1.0f), 0x3F80);
    assert_int_equal(bf16_from_f32(1.00390625f), 0x3F80); /* tie: 1 + 2^-8 to even */
    assert_int_equal(bf16_from_f32(1.01171875f), 0x3F82);
    assert_true(bf16_from_f32(NAN) > 0x7F80);
}

TEST(ladder)
{
    struct kernels k;
    assert_int_equal(kernels_init(&k, "sse9"), 0);
    assert_int_equal(kernels_init(&k, "scalar"), 1);
    assert_string_equal(k.isa, "scalar");
    int runs;
    assert_string_equal(kernels_isa_level(0, &runs), "scalar");
    assert_true(runs);
    assert_null(kernels_isa_level(99, &runs));
}

/* ---- the build's arithmetic ---- */

/* As a compiler does that may add in another order. */
static void layernorm_of_fast_math(float *y, const float *x, const float *gain, const float *bias,
                                   size_t n, float eps)
{
    struct kernels k;
    kernels_init_scalar(&k);
    k.layernorm(y, x, gain, bias, n, eps);
    y[n - 1] = nextafterf(y[n - 1], 9);
}

TEST(arithmetic)
{
    struct kernels k[16];
    size_t n_levels = isa_levels_here(k);
    for (size_t i = 0; i < n_levels; i++) {
        assert_true(kernels_arithmetic_holds(&k[i]));
        k[i].layernorm = layernorm_of_fast_math;
        assert_false(kernels_arithmetic_holds(&k[i]));
    }
}
