/* Sixteen floats as an array. Included by lanes.h only. */
#ifndef MGPT_KERNELS_LANES_PLAIN_H
#define MGPT_KERNELS_LANES_PLAIN_H

enum { LANES_REGISTERS = 8 };
enum { LANES_ARE_VECTORS = 0 }; /* they are loops: unrolling several only costs compile time */
typedef struct {
    float v[16];
} lanes;

#define LANES_EACH(i) for (size_t i = 0; i < 16; i++)

static inline lanes lanes_of(float x)
{
    lanes a;
    LANES_EACH(i)
    a.v[i] = x;
    return a;
}

static inline lanes lanes_load(const float *p)
{
    lanes a;
    memcpy(a.v, p, sizeof a.v);
    return a;
}

static inline lanes lanes_load_some(const float *p, size_t n, float rest)
{
    lanes a = lanes_of(rest);
    memcpy(a.v, p, (n < 16 ? n : 16) * sizeof *a.v);
    return a;
}

static inline void lanes_store(float *p, lanes a)
{
    memcpy(p, a.v, sizeof a.v);
}

/* Keeps a in a register. */
static inline void lanes_keep(lanes *a)
{
    (void)a;
}

static inline lanes lanes_add(lanes a, lanes b)
{
    LANES_EACH(i)
    a.v[i] += b.v[i];
    return a;
}

static inline lanes lanes_sub(lanes a, lanes b)
{
    LANES_EACH(i)
    a.v[i] -= b.v[i];
    return a;
}

static inline lanes lanes_mul(lanes a, lanes b)
{
    LANES_EACH(i)
    a.v[i] *= b.v[i];
    return a;
}

static inline lanes lanes_div(lanes a, lanes b)
{
    LANES_EACH(i)
    a.v[i] /= b.v[i];
    return a;
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    LANES_EACH(i)
    c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}

static inline lanes lanes_max(lanes a, lanes b)
{
    LANES_EACH(i)
    a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}

static inline lanes lanes_min(lanes a, lanes b)
{
    LANES_EACH(i)
    a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
}

static inline lanes lanes_first(size_t n, lanes a, lanes b)
{
    LANES_EACH(i)
    a.v[i] = i < n ? a.v[i] : b.v[i];
    return a;
}

static inline lanes lanes_at_least(lanes a, lanes b, lanes x)
{
    LANES_EACH(i)
    x.v[i] = a.v[i] >= b.v[i] ? x.v[i] : 0;
    return x;
}

/* a >= b ? max(x, y) : y */
static inline lanes lanes_max_at_least(lanes a, lanes b, lanes x, lanes y)
{
    LANES_EACH(i)
    y.v[i] = a.v[i] >= b.v[i] && x.v[i] > y.v[i] ? x.v[i] : y.v[i];
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
    a.v[i] = x;
    return a;
}

static inline lanes lanes_scale2(lanes p, lanes shifted, lanes whole)
{
    (void)whole;
    LANES_EACH(i)
    {
        uint32_t bits, n;
        float by[2];
        memcpy(&bits, &shifted.v[i], sizeof bits);
        n = bits - 0x4B400000u;
        uint32_t half = (n + 512) / 2 - 256, rest = n - half;
        const uint32_t powers[2] = {(half + 127) << 23, (rest + 127) << 23};
        memcpy(by, powers, sizeof by);
        p.v[i] = p.v[i] * by[0] * by[1];
    }
    return p;
}

/* to[q] = quarter q of a[0], a[1], a[2], a[3]. */
static inline void lanes_quarters(const lanes a[4], lanes to[4])
{
    LANES_EACH(i)
    memcpy(to[i / 4].v + i % 4 * 4, a[i % 4].v + i / 4 * 4, 4 * sizeof(float));
}

/* In each quarter lane i of a[j] becomes lane j of to[i]. */
static inline void lanes_cross(const lanes a[4], lanes to[4])
{
    for (size_t j = 0; j < 4; j++)
        LANES_EACH(i)
    to[i % 4].v[i / 4 * 4 + j] = a[j].v[i];
}

#endif
