/* Inputs of layers (Gemma 4): each token has a row of P values for each of L layers, of its
 * embedding x0 and of its own.
 *
 *     i_l = (norm(W x0 / sqrt E) + sqrt P T[token])_l / sqrt 2     W: [L P][E], norms of P values
 *     x   = x + norm(W_out (act(W_gate x) * i_l))                  after layer l
 *
 * A run that begins in a layer has the x0 of its tokens, too.
 */
#include "run/ops.h"

/* The inputs of all layers for the rows of n segments, which follow each other; x are their embeddings. */
static void make_inputs(pass *p, const struct segment *seg, size_t n, float *x)
{
    const mgpt_model *m = p->model;
    const struct kernels *kernels = p->kernels;
    size_t E = m->shape.n_embd, P = m->shape.n_input, LP = m->shape.n_inputs, rows = 0;
    float *y = p->s->inputs + seg->row * LP, *own = p->s->input;
    for (; n > 0; n--, seg++)
        for (size_t i = 0; i < seg->n; i++, rows++)
            model_table_row(m, m->input_embd, (size_t)seg->session->tokens[seg->pos + i],
                            own + rows * LP);
    matmul(p, (mat){y, rows, LP}, &m->input_proj, (mat){x, rows, E});
    kernels->scale(y, (float)(1 / __builtin_sqrt((double)E)), rows * LP);
    norm(p, (mat){y, rows * LP / P, P}, &m->input_norm, (mat){y, rows * LP / P, P});
    kernels->scale(own, (float)__builtin_sqrt((double)P), rows * LP);
    kernels->add(y, own, rows * LP);
    kernels->scale(y, (float)__builtin_sqrt(0.5), rows * LP);
}

void join_inputs(pass *p, const struct segment *seg)
{
    size_t E = p->model->shape.n_embd;
    for (size_t i = 0; p->model->shape.n_inputs && i < seg->n; i++)
        embed_token(p, seg, seg->pos + i, p->h.at + i * E);
    if (p->model->shape.n_inputs)
        make_inputs(p, seg, 1, p->h.at);
}

void before_layer(pass *p, const struct layer *l)
{
    if (p->model->shape.n_inputs && p->il == 0 && p->n > 0)
        make_inputs(p, p->segments, p->n_segments, p->x.at);
    mix_in_x0(p, l);
    join_rows(p);
}

static void add_input(pass *p, const struct layer *l)
{
    const mgpt_model *m = p->model;
    size_t P = m->shape.n_input, LP = m->shape.n_inputs;
    mat g = {p->s->input, p->n, P};
    if (P == 0)
        return;
    matmul(p, g, &l->input_gate, p->x);
    p->kernels->act[m->act](g.at, g.n * P);
    for (size_t i = 0; i < g.n; i++)
        p->kernels->mul(g.at + i * P, p->s->inputs + i * LP + p->il * P, P);
    matmul(p, p->h, &l->input_out, g);
    add_rows(p, p->x, norm(p, p->h, &l->input_norm, p->h));
}

void after_layer(pass *p, const struct layer *l)
{
    norm(p, p->x, &l->end_norm, p->x);
    add_input(p, l);
    scale_rows(p, p->x, l->out_scale);
    back_out(p);
}
