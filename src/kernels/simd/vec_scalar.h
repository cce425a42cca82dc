/* Vectors in plain C: loops over sixteen floats. Included by vec.h only. */
#ifndef MGPT_KERNELS_VEC_SCALAR_H
#define MGPT_KERNELS_VEC_SCALAR_H

/* Forced inlining gains nothing here: the compiler expands loops of sixteen for half a minute. */
#undef VEC_INLINE
#define VEC_INLINE static inline

#define VEC_NATIVE 0
#define LANES 16
#define REGISTERS 8 /* about; a register of 16 floats is several */

typedef struct {
    float v[LANES];
} vec;

typedef struct {
    vec v[1];
} lanes;

typedef struct {
    float v[4];
} quad;

#define EACH_LANE(i) for (size_t i = 0; i < LANES; i++)
#define EACH_OF_FOUR(i) for (size_t i = 0; i < 4; i++)

VEC_INLINE vec vec_of(float x)
{
    vec a;
    EACH_LANE(i)
        a.v[i] = x;
    return a;
}

VEC_INLINE vec vec_load(const float *p)
{
    vec a;
    memcpy(a.v, p, sizeof a.v);
    return a;
}

VEC_INLINE void vec_store(float *p, vec a)
{
    memcpy(p, a.v, sizeof a.v);
}

VEC_INLINE vec vec_load_part(const float *p, ptrdiff_t n, float rest)
{
    vec a = vec_of(rest);
    memcpy(a.v, p, (n < LANES ? (size_t)n : LANES) * sizeof *a.v);
    return a;
}

VEC_INLINE void vec_store_part(float *p, vec a, size_t n)
{
    memcpy(p, a.v, n * sizeof *a.v);
}

VEC_INLINE vec vec_first(ptrdiff_t n, vec a, vec b)
{
    EACH_LANE(i)
        a.v[i] = (ptrdiff_t)i < n ? a.v[i] : b.v[i];
    return a;
}

VEC_INLINE vec vec_put(vec a, ptrdiff_t i, float x)
{
    a.v[i] = x;
    return a;
}

VEC_INLINE void vec_keep(vec *a)
{
    (void)a;
}

#define OF_TWO(type, name, each, set)                                                              \
    VEC_INLINE type name(type a, type b)                                                           \
    {                                                                                              \
        each(i) a.v[i] set b.v[i];                                                                 \
        return a;                                                                                  \
    }
OF_TWO(vec, vec_add, EACH_LANE, +=)
OF_TWO(vec, vec_sub, EACH_LANE, -=)
OF_TWO(vec, vec_mul, EACH_LANE, *=)
OF_TWO(vec, vec_div, EACH_LANE, /=)
OF_TWO(quad, quad_add, EACH_OF_FOUR, +=)
OF_TWO(quad, quad_div, EACH_OF_FOUR, /=)

VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
    EACH_LANE(i)
        c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}

VEC_INLINE vec vec_max(vec a, vec b)
{
    EACH_LANE(i)
        a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}

VEC_INLINE vec vec_min(vec a, vec b)
{
    EACH_LANE(i)
        a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
}

VEC_INLINE vec vec_at_least(vec a, vec b, vec x)
{
    EACH_LANE(i)
        x.v[i] = a.v[i] >= b.v[i] ? x.v[i] : 0;
    return x;
}

VEC_INLINE vec vec_max_at_least(vec a, vec b, vec x, vec y)
{
    EACH_LANE(i)
        y.v[i] = a.v[i] >= b.v[i] && x.v[i] > y.v[i] ? x.v[i] : y.v[i];
    return y;
}

VEC_INLINE vec vec_scale2(vec p, vec shifted, vec whole)
{
    (void)whole;
    EACH_LANE(i) {
        uint32_t n = f32_bits(shifted.v[i]) - 0x4B400000u;
        uint32_t half = (n + 512) / 2 - 256, rest = n - half;
        p.v[i] = p.v[i] * f32_from_bits((half + 127) << 23) * f32_from_bits((rest + 127) << 23);
    }
    return p;
}

VEC_INLINE float vec_reduce(vec a)
{
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            a.v[i] += a.v[i + width];
    return a.v[0];
}

VEC_INLINE float vec_biggest(vec a)
{
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            a.v[i] = a.v[i] > a.v[i + width] ? a.v[i] : a.v[i + width];
    return a.v[0];
}

VEC_INLINE quad lanes_reduce_four(const lanes a[4])
{
    return (quad){{vec_reduce(a[0].v[0]), vec_reduce(a[1].v[0]), vec_reduce(a[2].v[0]),
                   vec_reduce(a[3].v[0])}};
}

VEC_INLINE void lanes_quarters(const lanes a[4], lanes to[4])
{
    EACH_LANE(i)
        memcpy(to[i / 4].v[0].v + i % 4 * 4, a[i % 4].v[0].v + i / 4 * 4, 4 * sizeof(float));
}

VEC_INLINE void lanes_cross(const lanes a[4], lanes to[4])
{
    for (size_t j = 0; j < 4; j++)
        EACH_LANE(i)
            to[i % 4].v[0].v[i / 4 * 4 + j] = a[j].v[0].v[i];
}

VEC_INLINE quad quad_of(float x)
{
    return (quad){{x, x, x, x}};
}

VEC_INLINE quad quad_load(const float *p)
{
    return (quad){{p[0], p[1], p[2], p[3]}};
}

VEC_INLINE void quad_store(float *p, quad a)
{
    memcpy(p, a.v, sizeof a.v);
}

VEC_INLINE quad quad_sqrt(quad a)
{
    EACH_OF_FOUR(i)
        a.v[i] = sqrtf(a.v[i]);
    return a;
}

VEC_INLINE quad quad_fma(quad a, quad b, quad c)
{
    EACH_OF_FOUR(i)
        c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}

#endif
