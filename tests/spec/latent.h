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

/* The same of latent attention (MLA), which keeps a row [c; r] of each token: c, the normed latent, is
 * the value of all heads, and their key with r, which is rotated. */
static void latent_attention(int l, float *o, const float *h, float *rows, size_t pos)
{
    size_t Q = part(l, "attn_q_a", "weight")->rows, n_rot = KEPT - R, nope = D - n_rot, d = D;
    float *q = floats(H * D), *c = floats(Q), *row = rows + pos * KEPT;
    int two = part(l, "attn_q_a", "weight")->at != NULL;
    if (two) {
        matmul(l, "attn_q_a", 0, c, Q, h);
        norm(l, "attn_q_a_norm", c, c, Q, Q, 1);
    }
    matmul(l, two ? "attn_q_b" : "attn_q", 0, q, H * D, two ? c : h);
    matmul(l, "attn_kv_a_mqa", 0, row, KEPT, h);
    norm(l, "attn_kv_a_norm", row, row, R, R, 1);
    rope(l, q + nope, H, pos);
    rope(l, row + R, 1, pos);
    float *q_kept = floats(H * KEPT), *o_kept = floats(H * KEPT);
    for (size_t i = 0; i < H; i++) {
        latent_matmul(l, 0, i, q_kept + i * KEPT, R, q + i * D, nope);
        memcpy(q_kept + i * KEPT + R, q + i * D + nope, n_rot * sizeof *q);
    }
    G = 1, D = KEPT;
    attend(l, o_kept, q_kept, rows, rows, pos, (double)d, D);
    G = H, D = d;
    for (size_t i = 0; i < H; i++)
        latent_matmul(l, 1, i, o + i * DV, DV, o_kept + i * KEPT, R);
}
