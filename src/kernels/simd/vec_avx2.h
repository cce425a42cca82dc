/* Sixteen floats in two registers of AVX2. Included by lanes.h only. */
#ifndef MGPT_KERNELS_LANES_AVX2_H
#define MGPT_KERNELS_LANES_AVX2_H

enum { LANES_REGISTERS = 8 };
enum { LANES_ARE_VECTORS = 1 };
typedef struct {
    __m256 v[2];
} lanes;

static inline lanes lanes_of(float x)
{
    return (lanes){{_mm256_set1_ps(x), _mm256_set1_ps(x)}};
}

static inline lanes lanes_load(const float *p)
{
    return (lanes){{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}};
}

static inline __m256i lanes_mask(size_t n, int from)
{
    __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - from), i);
}

static inline lanes lanes_load_some(const float *p, size_t n, float rest)
{
    lanes a;
    for (int i = 0; i < 2; i++) {
        __m256i mask = lanes_mask(n, 8 * i);
        a.v[i] = _mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(p + 8 * i, mask),
                                  _mm256_castsi256_ps(mask));
    }
    return a;
}

static inline void lanes_store(float *p, lanes a)
{
    _mm256_storeu_ps(p, a.v[0]);
    _mm256_storeu_ps(p + 8, a.v[1]);
}

/* Keeps a in a register. */
static inline void lanes_keep(lanes *a)
{
    __asm__("" : "+x"(a->v[0]), "+x"(a->v[1]));
}

static inline lanes lanes_add(lanes a, lanes b)
{
    return (lanes){{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}};
}

static inline lanes lanes_sub(lanes a, lanes b)
{
    return (lanes){{_mm256_sub_ps(a.v[0], b.v[0]), _mm256_sub_ps(a.v[1], b.v[1])}};
}

static inline lanes lanes_mul(lanes a, lanes b)
{
    return (lanes){{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}};
}

static inline lanes lanes_div(lanes a, lanes b)
{
    return (lanes){{_mm256_div_ps(a.v[0], b.v[0]), _mm256_div_ps(a.v[1], b.v[1])}};
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return (lanes){
        {_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}

static inline lanes lanes_max(lanes a, lanes b)
{
    return (lanes){{_mm256_max_ps(a.v[0], b.v[0]), _mm256_max_ps(a.v[1], b.v[1])}};
}

static inline lanes lanes_min(lanes a, lanes b)
{
    return (lanes){{_mm256_min_ps(a.v[0], b.v[0]), _mm256_min_ps(a.v[1], b.v[1])}};
}

static inline lanes lanes_first(size_t n, lanes a, lanes b)
{
    for (int i = 0; i < 2; i++)
        a.v[i] = _mm256_blendv_ps(b.v[i], a.v[i], _mm256_castsi256_ps(lanes_mask(n, 8 * i)));
    return a;
}

static inline lanes lanes_at_least(lanes a, lanes b, lanes x)
{
    for (int i = 0; i < 2; i++)
        x.v[i] = _mm256_and_ps(x.v[i], _mm256_cmp_ps(a.v[i], b.v[i], _CMP_GE_OQ));
    return x;
}

/* a >= b ? max(x, y) : y */
static inline lanes lanes_max_at_least(lanes a, lanes b, lanes x, lanes y)
{
    for (int i = 0; i < 2; i++)
        y.v[i] = _mm256_blendv_ps(y.v[i], _mm256_max_ps(x.v[i], y.v[i]),
                                  _mm256_cmp_ps(a.v[i], b.v[i], _CMP_GE_OQ));
    return y;
}

/* Stores x to lane i at p; i = 0: to all lanes. */
static inline void lanes_store_from(float *p, size_t i, float x)
{
    if (i == 0)
        lanes_store(p, lanes_of(x));
    p[i] = x;
}

static inline lanes lanes_put(lanes a, size_t i, float x)
{
    __m256i count = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int half = 0; half < 2; half++) {
        __m256i here = _mm256_cmpeq_epi32(_mm256_set1_epi32((int)i - 8 * half), count);
        a.v[half] = _mm256_blendv_ps(a.v[half], _mm256_set1_ps(x), _mm256_castsi256_ps(here));
    }
    return a;
}

/* 2^n is applied in two halves: the first product is exact, the second rounds. */
static inline lanes lanes_scale2(lanes p, lanes shifted, lanes whole)
{
    (void)whole;
    for (int i = 0; i < 2; i++) {
        __m256i n =
            _mm256_sub_epi32(_mm256_castps_si256(shifted.v[i]), _mm256_set1_epi32(0x4B400000));
        __m256i half = _mm256_srai_epi32(n, 1), rest = _mm256_sub_epi32(n, half);
        __m256i bias = _mm256_set1_epi32(127);
        half = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
        rest = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
        p.v[i] = _mm256_mul_ps(_mm256_mul_ps(p.v[i], _mm256_castsi256_ps(half)),
                               _mm256_castsi256_ps(rest));
    }
    return p;
}

static inline __m256 lanes_low(lanes a)
{
    return a.v[0];
}

static inline __m256 lanes_high(lanes a)
{
    return a.v[1];
}

/* to[q] = quarter q of a[0], a[1], a[2], a[3]. */
static inline void lanes_quarters(const lanes a[4], lanes to[4])
{
    for (int half = 0; half < 2; half++)
        for (int pair = 0; pair < 2; pair++) {
            __m256 low = a[2 * pair].v[half], high = a[2 * pair + 1].v[half];
            to[2 * half].v[pair] = _mm256_permute2f128_ps(low, high, 0x20);
            to[2 * half + 1].v[pair] = _mm256_permute2f128_ps(low, high, 0x31);
        }
}

/* In each quarter lane i of a[j] becomes lane j of to[i]. */
static inline void lanes_cross(const lanes a[4], lanes to[4])
{
    for (int i = 0; i < 2; i++) {
        __m256 low01 = _mm256_unpacklo_ps(a[0].v[i], a[1].v[i]);
        __m256 high01 = _mm256_unpackhi_ps(a[0].v[i], a[1].v[i]);
        __m256 low23 = _mm256_unpacklo_ps(a[2].v[i], a[3].v[i]);
        __m256 high23 = _mm256_unpackhi_ps(a[2].v[i], a[3].v[i]);
        to[0].v[i] = _mm256_shuffle_ps(low01, low23, 0x44);
        to[1].v[i] = _mm256_shuffle_ps(low01, low23, 0xEE);
        to[2].v[i] = _mm256_shuffle_ps(high01, high23, 0x44);
        to[3].v[i] = _mm256_shuffle_ps(high01, high23, 0xEE);
    }
}

#endif
