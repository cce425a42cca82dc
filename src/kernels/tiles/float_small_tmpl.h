/* matmul for narrow matrices (n_out <= NARROW) of float types: four chains per row, summed as
 * (c0 + c1) + (c2 + c3). Included by float_tile_tmpl.h.
 *
 * narrow_run computes a tile of a constant number of tokens and vectors of rows. Its callers choose
 * them so that the chains fill the registers. With constant arguments it is a few instructions per
 * column without overhead, as a layer of width 16 needs.
 */
enum {
    NARROW_SUMS = CHAINS_FIT / 4,              /* sums (4 chains) in registers */
    NARROW_VECTORS = NARROW_SUMS >= 6 ? 2 : 1, /* vectors per tile of several tokens */
    NARROW_ONE = NARROW_SUMS >= 6 ? 4 : 2,     /* vectors per tile of one token */
    NARROW_MOST = 6
};

/* Adds one column to one of the four chains of each sum. */
VEC_INLINE void narrow_column(enum weight_type type, vec *c, const char *const *panel,
                              const float *const *row, size_t k, size_t tokens, size_t vectors)
{
    vec a[NARROW_MOST];
    UNROLLED(v, vectors) {
        a[v] = weights_at(type, panel[v], k, 0);
        vec_keep(&a[v]);
    }
    UNROLLED(i, tokens) {
        vec b = vec_of(row[i][k]);
        UNROLLED(v, vectors)
            c[i * vectors + v] = vec_fma(a[v], b, c[i * vectors + v]);
    }
}

/* out[i * vectors + v] for tokens i < tokens and the rows of vectors v0 + v of the matrix; tokens,
 * vectors and type are constants. Vector v is in panel v / VECTORS. */
VEC_INLINE void narrow_run(enum weight_type type, vec *out, const struct matmul m, size_t tokens,
                           size_t v0, size_t vectors)
{
    vec c[4][NARROW_MOST];
    const char *panel[NARROW_MOST];
    const float *row[NARROW_MOST];
    UNROLLED(v, vectors)
        panel[v] = weights_of(type, &m, (v0 + v) / VECTORS, 0) +
                   (v0 + v) % VECTORS * LANES * weight_bytes(type);
    UNROLLED(i, tokens)
        row[i] = matmul_x(&m, i);
    UNROLLED(j, 4)
        UNROLLED(s, tokens * vectors)
            c[j][s] = vec_of(0);
    size_t k = 0;
    for (; k + 4 <= m.n_in; k += 4)
        UNROLLED(j, 4)
            narrow_column(type, c[j], panel, row, k + j, tokens, vectors);
    if (k < m.n_in) /* chain j takes remaining column j */
        narrow_column(type, c[0], panel, row, k, tokens, vectors);
    if (k + 1 < m.n_in)
        narrow_column(type, c[1], panel, row, k + 1, tokens, vectors);
    if (k + 2 < m.n_in)
        narrow_column(type, c[2], panel, row, k + 2, tokens, vectors);
    UNROLLED(s, tokens * vectors)
        out[s] = vec_add(vec_add(c[0][s], c[1][s]), vec_add(c[2][s], c[3][s]));
}

/* Writes vectors v0, v0 + 1, ... of the first `tokens` tokens to y. */
VEC_INLINE void narrow_tile(enum weight_type type, const struct matmul m, size_t tokens, size_t v0,
                            size_t vectors)
{
    vec sums[NARROW_MOST];
    narrow_run(type, sums, m, tokens, v0, vectors);
    UNROLLED(i, tokens)
        UNROLLED(v, vectors) {
            float *at = m.y + i * m.ldy + (v0 + v) * LANES;
            size_t rows = m.n_out - (v0 + v) * LANES;
            if (rows >= LANES)
                vec_store(at, sums[i * vectors + v]);
            else
                vec_store_part(at, sums[i * vectors + v], rows);
        }
}

#define NARROW_CASE(TOKENS, VECTORS_HERE, CASE)                                                    \
    case CASE:                                                                                     \
        narrow_tile(type, m, TOKENS, v0, VECTORS_HERE);                                            \
        break;

/* The vectors of rows of panels [p0, p1) end here; they begin at p0 * VECTORS. */
VEC_INLINE size_t narrow_end(const struct matmul m)
{
    size_t rows = m.p1 * PANEL < m.n_out ? m.p1 * PANEL : m.n_out;
    return (rows + LANES - 1) / LANES;
}

/* One token: up to NARROW_ONE vectors at a time. */
VEC_INLINE void narrow_one(enum weight_type type, const struct matmul m)
{
    size_t v0 = m.p0 * VECTORS, v1 = narrow_end(m);
    for (; v0 < v1; v0 += NARROW_ONE)
        switch (v1 - v0) {
            NARROW_CASE(1, 1, 1)
            NARROW_CASE(1, 2, 2)
            NARROW_CASE(1, NARROW_ONE < 3 ? NARROW_ONE : 3, 3)
        default:
            narrow_tile(type, m, 1, v0, NARROW_ONE);
        }
}

/* `vectors` (constant) vectors of rows for all tokens: full tiles, then the remaining tokens. */
VEC_INLINE void narrow_rows(enum weight_type type, struct matmul m, size_t v0, size_t vectors)
{
    const size_t most = NARROW_SUMS / vectors;
    for (; m.n >= most; m.n -= most) {
        narrow_tile(type, m, most, v0, vectors);
        m.y += most * m.ldy;
        m.x = matmul_x(&m, most);
    }
    switch (m.n) {
        NARROW_CASE(1, vectors, 1)
        NARROW_CASE(most < 3 ? 1 : 2, vectors, 2)
        NARROW_CASE(most < 4 ? 1 : 3, vectors, 3)
        NARROW_CASE(most < 5 ? 1 : 4, vectors, 4)
        NARROW_CASE(most < 6 ? 1 : 5, vectors, 5)
    default:
        break;
    }
}

VEC_INLINE void narrow_many(enum weight_type type, const struct matmul m)
{
    size_t v0 = m.p0 * VECTORS, v1 = narrow_end(m);
    for (; v0 + NARROW_VECTORS <= v1; v0 += NARROW_VECTORS)
        narrow_rows(type, m, v0, NARROW_VECTORS);
    for (; v0 < v1; v0++)
        narrow_rows(type, m, v0, 1);
}
