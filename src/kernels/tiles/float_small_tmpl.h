/* matmul for narrow matrices (n_out <= NARROW) of float types: four chains per row, summed as
 * (c0 + c1) + (c2 + c3). Included by float_tile_tmpl.h and written in its vectors.
 *
 * narrow_run computes a tile of a constant number of tokens and vectors of rows. Its callers choose
 * them so that the chains fill the registers. With constant arguments it is a few instructions per
 * column without overhead, as a layer of width 16 needs.
 */
enum {
    NARROW_SUMS = TILE_TOKENS * TILE_PANELS * VECTORS / 4, /* sums (4 chains) in registers */
    NARROW_VECTORS = NARROW_SUMS >= 6 ? 2 : 1,             /* vectors per tile of several tokens */
    NARROW_ONE = NARROW_SUMS >= 6 ? 4 : 2,                 /* vectors per tile of one token */
    NARROW_MOST = 6
};

/* Adds one column to one of the four chains of each sum. */
ALWAYS_INLINE void narrow_column(enum weight_type type, VEC *c, const char *const *panel,
                                 const float *const *row, size_t k, size_t tokens, size_t vectors)
{
    VEC a[NARROW_MOST];
    UNROLL for (size_t v = 0; v < vectors; v++)
    {
        a[v] = weights_at(type, panel[v], k, 0);
        V_KEEP(a[v]);
    }
    UNROLL for (size_t i = 0; i < tokens; i++)
    {
        VEC b = V_BROADCAST(row[i][k]);
        UNROLL for (size_t v = 0; v < vectors; v++) c[i * vectors + v] =
            V_FMA(a[v], b, c[i * vectors + v]);
    }
}

/* out[i * vectors + v] for tokens i < tokens and the rows of vectors v0 + v of the matrix; tokens,
 * vectors and type are constants. Vector v is in panel v / VECTORS, each of panel_bytes. */
ALWAYS_INLINE void narrow_run(enum weight_type type, VEC *out, const char *w, size_t panel_bytes,
                              const char *x, size_t x_stride, size_t n_in, size_t tokens, size_t v0,
                              size_t vectors)
{
    VEC c[4][NARROW_MOST];
    const char *panel[NARROW_MOST];
    const float *row[NARROW_MOST];
    UNROLL for (size_t v = 0; v < vectors; v++) panel[v] =
        w + (v0 + v) / VECTORS * panel_bytes + (v0 + v) % VECTORS * LANES * weight_bytes(type);
    UNROLL for (size_t i = 0; i < tokens; i++) row[i] =
        (const float *)(const void *)(x + i * x_stride);
    UNROLL for (size_t j = 0; j < 4; j++) UNROLL for (size_t s = 0; s < tokens * vectors; s++)
        c[j][s] = V_ZERO();
    size_t k = 0;
    for (; k + 4 <= n_in; k += 4)
        UNROLL for (size_t j = 0; j < 4; j++)
            narrow_column(type, c[j], panel, row, k + j, tokens, vectors);
    if (k < n_in) /* chain j takes remaining column j */
        narrow_column(type, c[0], panel, row, k, tokens, vectors);
    if (k + 1 < n_in)
        narrow_column(type, c[1], panel, row, k + 1, tokens, vectors);
    if (k + 2 < n_in)
        narrow_column(type, c[2], panel, row, k + 2, tokens, vectors);
    UNROLL for (size_t s = 0; s < tokens * vectors; s++) out[s] =
        V_ADD(V_ADD(c[0][s], c[1][s]), V_ADD(c[2][s], c[3][s]));
}

/* Writes vectors v0, v0 + 1, ... of `tokens` tokens to y. The matrix has n_out rows. */
ALWAYS_INLINE void narrow_tile(enum weight_type type, float *y, size_t ldy, const char *w,
                               size_t panel_bytes, const char *x, size_t x_stride, size_t n_in,
                               size_t n_out, size_t tokens, size_t v0, size_t vectors)
{
    VEC sums[NARROW_MOST];
    narrow_run(type, sums, w, panel_bytes, x, x_stride, n_in, tokens, v0, vectors);
    UNROLL for (size_t i = 0; i < tokens; i++) UNROLL for (size_t v = 0; v < vectors; v++)
    {
        float *at = y + i * ldy + (v0 + v) * LANES;
        size_t rows = n_out - (v0 + v) * LANES;
        if (rows >= LANES)
            V_STORE(at, sums[i * vectors + v]);
        else
            V_STORE_PART(at, sums[i * vectors + v], rows);
    }
}

#define NARROW_CASE(TOKENS, VECTORS_HERE, CASE)                                                    \
    case CASE:                                                                                     \
        narrow_tile(type, y, ldy, w, panel_bytes, x, x_stride, n_in, n_out, TOKENS, v0,            \
                    VECTORS_HERE);                                                                 \
        break;

/* The vectors of rows [v0, v1) of panels [p0, p1). */
#define NARROW_RANGE                                                                               \
    size_t rows = p1 * PANEL < n_out ? p1 * PANEL : n_out, v0 = p0 * VECTORS;                      \
    size_t v1 = (rows + LANES - 1) / LANES, panel_bytes = n_in * PANEL * weight_bytes(type);

/* One token: up to NARROW_ONE vectors at a time. */
ALWAYS_INLINE void narrow_one(enum weight_type type, float *y, const char *w, const char *x,
                              size_t n_in, size_t n_out, size_t p0, size_t p1)
{
    size_t ldy = 0, x_stride = 0;
    NARROW_RANGE
    for (; v0 < v1; v0 += NARROW_ONE)
        switch (v1 - v0) {
            NARROW_CASE(1, 1, 1)
            NARROW_CASE(1, 2, 2)
            NARROW_CASE(1, NARROW_ONE < 3 ? NARROW_ONE : 3, 3)
        default:
            narrow_tile(type, y, 0, w, panel_bytes, x, 0, n_in, n_out, 1, v0, NARROW_ONE);
        }
}

/* `vectors` (constant) vectors of rows for all tokens: full tiles, then the remaining tokens. */
ALWAYS_INLINE void narrow_rows(enum weight_type type, float *y, size_t ldy, const char *w,
                               size_t panel_bytes, const char *x, size_t x_stride, size_t n,
                               size_t n_in, size_t n_out, size_t v0, size_t vectors)
{
    const size_t most = NARROW_SUMS / vectors;
    for (; n >= most; n -= most) {
        narrow_tile(type, y, ldy, w, panel_bytes, x, x_stride, n_in, n_out, most, v0, vectors);
        y += most * ldy;
        x += most * x_stride;
    }
    switch (n) {
        NARROW_CASE(1, vectors, 1)
        NARROW_CASE(most < 3 ? 1 : 2, vectors, 2)
        NARROW_CASE(most < 4 ? 1 : 3, vectors, 3)
        NARROW_CASE(most < 5 ? 1 : 4, vectors, 4)
        NARROW_CASE(most < 6 ? 1 : 5, vectors, 5)
    default:
        break;
    }
}

ALWAYS_INLINE void narrow_many(enum weight_type type, float *y, size_t ldy, const char *w,
                               const char *x, size_t x_stride, size_t n, size_t n_in, size_t n_out,
                               size_t p0, size_t p1)
{
    NARROW_RANGE
    for (; v0 + NARROW_VECTORS <= v1; v0 += NARROW_VECTORS)
        narrow_rows(type, y, ldy, w, panel_bytes, x, x_stride, n, n_in, n_out, v0, NARROW_VECTORS);
    for (; v0 < v1; v0++)
        narrow_rows(type, y, ldy, w, panel_bytes, x, x_stride, n, n_in, n_out, v0, 1);
}
