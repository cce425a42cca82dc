/* Floor 1. The page: the forward pass of every architecture, for decode, prefill and batch, traced or not.
 *
 * Written once, compiled several times: by forward.c, in operations on panels, threads and taps, for any model; and
 * by kernels_step_tmpl.h, once per instruction set, in operations on a few rows that stay in registers and L1, for
 * models of some thousand weights. Both give the same bits (tests/test_narrow.c).
 *
 * The n rows of a pass are one token (decode), n of a text (prefill), or one each of n texts (batch); the operations
 * know which, the page does not. E: width of the residual stream x; H query heads, G key/value heads, of width d; F: width of
 * the MLP; V: vocabulary. What a model lacks (a norm, bias, gate, table, rope, cap) is the identity. Right: what a tap
 * can see and change there (mgpt.h); in the fused compilation SEE is nothing, for no tap goes there.
 *
 *   Vaswani et al. 2017 (attention), Radford et al. 2019 (pre-norm GPT), Zhang & Sennrich 2019 (RMSNorm),
 *   Su et al. 2021 (rope), Shazeer 2020 (gated MLP), Ainslie et al. 2023 (grouped heads)
 */

/* clang-format off */
PAGE void embed(pass *p)                             /* x = norm(W_te[token] + W_pe[position])      */
{
    token_rows(p, p->x);                                                SEE(EMBD, p->x);            /* [n, E]     */
    mat e = position_rows(p, p->h);                                     SEE(POS_EMBD, e);           /* [n, E]     */
    add(p, p->x, e);
    norm(p, p->x, &p->model->embd_norm, p->x);                          SEE(EMBD_NORM, p->x);       /* [n, E]     */
}

PAGE void qkv(pass *p, const layer *l)               /* q, k, v = W_q h, W_k h, W_v h for h = norm(x) */
{
    mat h = norm(p, p->h, &l->attn_norm, p->x);                         SEE(ATTN_IN, h);            /* [n, E]     */
    qkv_matmul(p, l, h);                                                SEE(Q, p->q);               /* [n, H d]   */
                                                                        SEE(K, p->k);               /* [n, G d]   */
                                                                        SEE(V, p->v);               /* [n, G d]   */
    qk_norm_rope(p, l);                                                 SEE(ROT_Q, p->q);           /* [n, H d]   */
                                                                        SEE(ROT_K, p->k);           /* [n, G d]   */
}

PAGE void attention(pass *p, const layer *l)         /* a = W_o softmax(q k' / sqrt d) v            */
{
    kv_append(p);    /* the cache of this layer: K, V [t, G d], t grows by n                        */
    attend(p);       /* s_ij = q_i . k_j / sqrt d  for visible j <= i   SEE(SCORES)                    [H, t]
                        w_ij = exp s_ij / sum_j exp s_ij                SEE(WEIGHTS)                   [H, t]
                        o_i  = sum_j w_ij v_j                        */ SEE(HEADS, p->o);           /* [n, H d]   */
    matmul(p, p->a, &l->o, p->o);
    post_norm(p, &l->post_attn_norm, p->a);                             SEE(ATTN_OUT, p->a);        /* [n, E]     */
}

PAGE void mlp(pass *p, const layer *l)               /* m = W_down (act(W_gate h) * W_up h) for h = norm(x) */
{
    mat h = norm(p, p->h, &l->ffn_norm, p->x);                          SEE(MLP_IN, h);             /* [n, E]     */
    mlp_up(p, l, h);  /* f = act(W_gate h) * W_up h, or act(W_up h)     SEE(MLP_PRE, _LINEAR)          [n, F]     */
                                                                        SEE(MLP_POST, p->f);        /* [n, F]     */
    matmul(p, p->m, &l->down, p->f);
    post_norm(p, &l->post_ffn_norm, p->m);                              SEE(MLP_OUT, p->m);         /* [n, E]     */
}

PAGE void unembed(pass *p)                           /* logits = W_head norm(x)                     */
{
    mat x = logit_rows(p);                           /* of a prompt only the last row               */
    if (x.n == 0)
        return;
    mat h = norm(p, p->h, &p->model->final_norm, x);                    SEE(FINAL, h);              /* [n_out, E] */
    matmul(p, p->logits, &p->model->head, h);
    softcap(p);                                                         SEE(LOGITS, p->logits);     /* [n_out, V] */
}

PAGE void forward(pass *p)
{
    int known = recall(p);    /* the smallest models: x, q, k, v of layer 0 from a table by token and position */
    if (!known)
        embed(p);
    for (p->il = 0; p->il < p->n_layer && !stopped(p); p->il++) {
        const layer *l = &p->model->layers[p->il];
        mix_in_x0(p, l);                                                SEE(RESID_PRE, p->x);       /* [n, E]     */
        if (!known || p->il > 0)
            qkv(p, l);
        attention(p, l);
        if (!parallel(p))
            add(p, p->x, p->a);
                                                                        SEE(RESID_MID, p->x);       /* [n, E]     */
        mlp(p, l);
        add(p, p->x, p->m);
        if (parallel(p))
            add(p, p->x, p->a);
                                                                        SEE(RESID_POST, p->x);      /* [n, E]     */
    }
    unembed(p);
}
/* clang-format on */
