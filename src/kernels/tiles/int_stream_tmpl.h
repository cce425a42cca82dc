/* matmul of one or few tokens for integer types: reads the packed lines of panels once. Included by
 * int_tile_tmpl.h.
 */
enum {
    STREAM_PANELS = 2 /* most panels of one token at a time with prefetches */
};

/* y += the contribution of block b of a group to vector v of the rows of n (constant) tokens. */
VEC_INLINE void add_block(vec y[TILE_TOKENS], const uint8_t *group, size_t v, size_t b,
                          const struct x_rows x, size_t n, const struct layout *l)
{
    const uint8_t *head = group + v * 2 * LANES, *bytes = group + LINE + v * LANES;
    const uint8_t *lines = group + LINE * (l->head_lines + b * l->block_lines) + v * VECTOR_BYTES;
    const size_t words = BLOCK_WORDS / l->sub_blocks;
#pragma GCC unroll 2
    for (size_t s = 0; s < l->sub_blocks; s++) {
        ivec sum[TILE_TOKENS], odd = ivec_of(0); /* of one token: two chains hide latency; exact */
        for (size_t i = 0; i < n; i++)
            sum[i] = ivec_begin(first_sum(x_row(x, i), s, l), l->bits);
#pragma GCC unroll 4
        for (size_t j = s * words; j < (s + 1) * words; j += 2) {
            ivec w[2] = {get_line(lines, j, l), get_line(lines, j + 1, l)}, a[2];
            for (size_t i = 0; i < n; i++) {
                a[0] = ivec_of_four(x_row(x, i)->q + 4 * j);
                a[1] = ivec_of_four(x_row(x, i)->q + 4 * j + 4);
                sum[i] = ivec_dot(sum[i], w, a, l->bits);
                if (STEP(l->bits) == 1 && n == 1)
                    odd = ivec_dot(odd, w + 1, a + 1, l->bits);
                else if (STEP(l->bits) == 1)
                    sum[i] = ivec_dot(sum[i], w + 1, a + 1, l->bits);
            }
        }
        for (size_t i = 0; i < n; i++)
            sum[i] = ivec_end(sum[i], first_sum(x_row(x, i), s, l), l->bits);
        vec scale = get_scale(head, bytes, b, s, l);
        for (size_t i = 0; i < n; i++)
            y[i] = vec_fma(vec_mul(scale, vec_of(x_row(x, i)->scale)),
                           vec_of_ivec(n == 1 ? ivec_add(sum[i], odd) : sum[i]), y[i]);
        for (size_t i = 0; l->has_min && i < n; i++)
            y[i] = vec_fma(get_min(head, bytes, b, s, l), vec_of(x_sum(x_row(x, i), s, l)), y[i]);
    }
}

/* ahead: prefetch distance in bytes. */
VEC_INLINE void add_group(vec y[VECTORS][TILE_TOKENS], const uint8_t *group, size_t blocks,
                          struct x_rows x, size_t n, size_t ahead, const struct layout *l)
{
    for (size_t b = 0; b < blocks; b++) {
        size_t head = b == 0 ? 0 : l->head_lines; /* the first block fetches the head too */
        size_t lines = l->head_lines - head + l->block_lines;
        /* May be past the end. The asm: or gcc has a register for each line. */
        uintptr_t next = (uintptr_t)group + LINE * (head + b * l->block_lines) + ahead;
        __asm__("" : "+r"(next));
        for (size_t line = 0; line < lines; line++)
            __builtin_prefetch((const void *)(next + line * LINE));
        for (size_t v = 0; v < VECTORS; v++)
            add_block(y[v], group, v, b, x_from(x, b), n, l);
    }
}

/* n (constant) tokens times `panels` panels from p on: one stream from memory and one chain each. A
 * partial panel goes through a buffer, as in float_stream_tmpl.h. */
VEC_INLINE void stream_panels(const struct matmul m, size_t n, size_t p, size_t panels,
                              const struct layout *l)
{
    size_t blocks = m.n_in / BLOCK, whole = blocks / l->group_blocks * l->group_blocks;
    size_t panel_bytes = quant_panel_bytes(l, m.n_in);
    size_t chosen = streamings[m.streaming].ahead; /* 0: a variant for several tokens */
    size_t ahead = chosen ? chosen : streamings[0].ahead;
    const uint8_t *at = (const uint8_t *)m.w + p * panel_bytes;
    struct x_rows x = {m.x, m.x_stride};
    vec sum[STREAM_PANELS][VECTORS][TILE_TOKENS];
    for (size_t k = 0; k < panels; k++)
        for (size_t v = 0; v < VECTORS; v++)
            for (size_t t = 0; t < n; t++)
                sum[k][v][t] = vec_of(0);
    for (size_t b = 0; b < whole; b += l->group_blocks, at += group_at(l, 1))
        for (size_t k = 0; k < panels; k++)
            add_group(sum[k], at + k * panel_bytes, l->group_blocks, x_from(x, b), n, ahead, l);
    /* Only groups of two can be partial. */
    for (size_t k = 0; l->group_blocks == 2 && whole < blocks && k < panels; k++)
        add_group(sum[k], at + k * panel_bytes, 1, x_from(x, whole), n, ahead, l);
    size_t rows = rows_of_panels(m.n_out, p, panels);
    for (size_t t = 0; t < n; t++) {
        float edge[STREAM_PANELS * PANEL], *y = m.y + t * m.ldy + p * PANEL;
        float *to = rows == panels * PANEL ? y : edge;
        for (size_t k = 0; k < panels; k++)
            for (size_t v = 0; v < VECTORS; v++)
                vec_store(to + k * PANEL + v * LANES, sum[k][v][t]);
        if (to == edge)
            memcpy(y, edge, rows * sizeof *edge);
    }
}

/* Loads a byte of each of `lines` lines of some panels. */
VEC_INLINE void load_lines(const uint8_t *at, size_t lines, size_t panels, size_t stride)
{
    for (size_t line = 0; line < lines; line++)
        for (size_t k = 0; k < panels; k++)
            (void)*(const volatile uint8_t *)(at + k * stride + line * LINE);
}

/* Adds block b of a group of some panels to their sums. */
VEC_INLINE void load_block(vec sum[PANELS_APART][VECTORS][TILE_TOKENS], const uint8_t *group,
                           size_t b, const struct x_rows x, size_t panels, size_t stride,
                           const struct layout *l)
{
    size_t head = b == 0 ? 0 : l->head_lines; /* the first block loads the head too */
    load_lines(group + LINE * (head + b * l->block_lines), l->head_lines - head + l->block_lines,
               panels, stride);
    for (size_t k = 0; k < panels; k++)
        for (size_t v = 0; v < VECTORS; v++)
            add_block(sum[k][v], group + k * stride, v, b, x, 1, l);
}

/* One token times every `step`th of some panels, from p on. */
VEC_INLINE void load_panels(const struct matmul m, size_t p, size_t panels, size_t step,
                            const struct layout *l)
{
    size_t blocks = m.n_in / BLOCK, stride = step * quant_panel_bytes(l, m.n_in);
    const uint8_t *at = (const uint8_t *)m.w + p * quant_panel_bytes(l, m.n_in);
    struct x_rows x = {m.x, m.x_stride};
    vec sum[PANELS_APART][VECTORS][TILE_TOKENS];
    for (size_t k = 0; k < panels; k++)
        for (size_t v = 0; v < VECTORS; v++)
            sum[k][v][0] = vec_of(0);
    for (size_t g = 0; g < blocks; g += l->group_blocks, at += group_at(l, 1))
        for (size_t b = 0; b < l->group_blocks && g + b < blocks; b++)
            load_block(sum, at, b, x_from(x, g + b), panels, stride, l);
    for (size_t k = 0; k < panels; k++, p += step) {
        float y[PANEL];
        for (size_t v = 0; v < VECTORS; v++)
            vec_store(y + v * LANES, sum[k][v][0]);
        memcpy(m.y + p * PANEL, y, rows_of_panels(m.n_out, p, 1) * sizeof *y);
    }
}

/* Divides the panels into PANELS_APART parts. Reads the first panel of every part in parallel, then the
 * second of every part, and so on. The lines of one block of all parts are loaded before any is
 * multiplied: more such loads are in flight than prefetches would be, or loads with products in between.
 * The hardware prefetches each part as one long stream. */
VEC_INLINE void load_one(const struct matmul m, const struct layout *l)
{
    size_t step = (m.p1 - m.p0) / PANELS_APART, rest = (m.p1 - m.p0) % PANELS_APART;
    for (size_t p = m.p0; p < m.p0 + step; p++)
        load_panels(m, p, PANELS_APART, step, l);
    if (rest)
        load_panels(m, m.p1 - rest, rest, 1, l);
}

/* With prefetches. Only 8-bit types are read two panels at a time: other types are unpacked, which
 * needs the registers. */
VEC_INLINE void stream_one(const struct matmul m, const struct layout *l)
{
    size_t p = m.p0, panels = l->bits == 8 ? streamings[m.streaming].panels : 1;
    for (; panels == 2 && p + 2 <= m.p1; p += 2)
        stream_panels(m, 1, p, 2, l);
    for (; p < m.p1; p++)
        stream_panels(m, 1, p, 1, l);
}
