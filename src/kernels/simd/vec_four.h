/* What vectors of four lanes have in common: NEON and WebAssembly. Included at the end of their headers. */
#ifndef MGPT_KERNELS_VEC_FOUR_H
#define MGPT_KERNELS_VEC_FOUR_H

VEC_INLINE vec vec_load_part(const float *p, ptrdiff_t n, float rest)
{
    float part[LANES] = {rest, rest, rest, rest};
    for (ptrdiff_t i = 0; i < LANES && i < n; i++)
        part[i] = p[i];
    return vec_load(part);
}

VEC_INLINE void vec_store_part(float *p, vec a, size_t n)
{
    float part[LANES];
    vec_store(part, a);
    memcpy(p, part, n * sizeof *p);
}

VEC_INLINE vec vec_load_part_f16(const uint16_t *p, size_t n)
{
    uint16_t part[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        part[i] = p[i];
    return vec_load_f16(part);
}

VEC_INLINE void lanes_quarters(const lanes a[4], lanes to[4])
{
    for (size_t i = 0; i < 4; i++)
        for (size_t q = 0; q < 4; q++)
            to[q].v[i] = a[i].v[q];
}

VEC_INLINE quad quad_load(const float *p)
{
    return vec_load(p);
}

VEC_INLINE void quad_store(float *p, quad a)
{
    vec_store(p, a);
}

VEC_INLINE quad quad_fma(quad a, quad b, quad c)
{
    return vec_fma(a, b, c);
}

#endif
