/* Matrices of latent attention, for pass.c, which includes it after matmul. */

/* Row `row` of W_k', R rows of a head (is_v: of W_v), as floats. */
static void latent_row(int l, int is_v, size_t h, size_t row, float *to, size_t n)
{
    const struct item *both = part(l, "attn_kv_b", "weight");
    const struct item *own = part(l, is_v ? "attn_v_b" : "attn_k_b", "weight");
    size_t nope = D - (KEPT - R), first = h * (nope + DV);
    for (size_t j = 0; j < n; j++)
        to[j] = !both->at ? element(own, h * (is_v ? DV : R) + row, j)
                : is_v    ? element(both, first + nope + row, j)
                          : element(both, first + j, row);
}

/* y = W_k' x or W_v x of a head, n_out of them. */
static void latent_matmul(int l, int is_v, size_t h, float *y, size_t n_out, const float *x,
                          size_t n)
{
    float row[4096];
    for (size_t r = 0; r < n_out; r++) {
        latent_row(l, is_v, h, r, row, n);
        y[r] = product(0, (const uint8_t *)row, x, n, n_out);
    }
}
