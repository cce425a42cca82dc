/* matmul of one token for float types: several panels at a time. Included by float_tile_tmpl.h.
 */
/* Multiplies one token with every `step`th of some panels, from p on. `far`: the panels are adjacent
 * (step 1), come from memory, and are prefetched AHEAD bytes early, because the hardware prefetcher
 * follows this many short streams at a fraction of the bandwidth. Near the end it prefetches the
 * start of the next panels. A partial panel goes through a buffer; for all panels that would take as
 * long as some columns, because the copy's size is not a constant (gcc makes it a rep movs). */
VEC_INLINE void stream_run(enum weight_type type, int far, const struct matmul m, size_t p,
                           size_t panels, size_t step)
{
    vec c[STREAM_PANELS * VECTORS];
    const char *w = weights_of(type, &m, p, 0);
    const float *x = m.x;
    size_t column = PANEL * weight_bytes(type), stride = step * m.n_in * column;
    size_t last = AHEAD / column < m.n_in ? AHEAD / column : m.n_in;
    uintptr_t ahead = (uintptr_t)w + AHEAD; /* a number: see struct ahead */
    UNROLLED(v, panels * VECTORS)
        c[v] = vec_of(0);
    for (size_t k = 0; k < m.n_in; k++) {
        vec b = vec_of(x[k]);
        vec_keep(&b);
        if (far) {
            ahead += k == m.n_in - last ? (panels - 1) * stride : 0;
            UNROLLED(i, panels)
                vec_prefetch(ahead + i * stride);
            ahead += column;
        }
        UNROLLED(v, panels * VECTORS)
            c[v] = vec_fma(weights_at(type, w + v / VECTORS * stride, k, v % VECTORS), b, c[v]);
    }
    UNROLLED(i, panels) {
        size_t rows = rows_of_panels(m.n_out, p + i * step, 1);
        float edge[PANEL], *y = m.y + (p + i * step) * PANEL;
        float *to = rows == PANEL ? y : edge;
        UNROLLED(v, VECTORS)
            vec_store(to + v * LANES, c[i * VECTORS + v]);
        if (to == edge)
            memcpy(y, edge, rows * sizeof *edge);
    }
}

#define STREAM_CASE(N)                                                                             \
    case N:                                                                                        \
        if (type == WEIGHT_BF16_COMPRESSED)                                                        \
            few_run(&m, p, 1, N < FEW_PANELS ? N : FEW_PANELS);                                    \
        else                                                                                       \
            stream_run(type, far, m, p, N, 1);                                                     \
        break;

/* Streams far apart and without prefetches, if that is chosen: the hardware prefetches each. */
VEC_INLINE void stream_apart(enum weight_type type, struct matmul *m)
{
    size_t step = (m->p1 - m->p0) / PANELS_APART;
    for (size_t p = m->p0; p < m->p0 + step; p++)
        stream_run(type, 0, *m, p, PANELS_APART, step);
    m->p0 += PANELS_APART * step;
}

VEC_INLINE void stream(enum weight_type type, int far, struct matmul m)
{
    if (far && type != WEIGHT_BF16_COMPRESSED && reads_apart(m.streaming))
        stream_apart(type, &m);
    size_t most = type == WEIGHT_BF16_COMPRESSED ? FEW_PANELS : STREAM_PANELS;
    size_t groups = (m.p1 - m.p0 + most - 1) / most;
    if (groups == 0)
        return;
    struct equal_parts parts = parts_of(m.p1 - m.p0, groups);
    for (size_t g = 0, p = m.p0; g < groups; g++) {
        size_t panels = parts.each + (g < parts.more);
        switch (panels) {
            STREAM_CASE(1)
            STREAM_CASE(2)
            STREAM_CASE(3)
            STREAM_CASE(4)
            STREAM_CASE(5)
            STREAM_CASE(6)
        default:
            break;
        }
        p += panels;
    }
}
