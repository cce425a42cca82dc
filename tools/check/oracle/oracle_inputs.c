/* Layers that differ in the oracle, their inputs (Gemma 4: see src/run/inputs.c for the formulas), and the head's (ModernBERT). */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

void oracle_enter_layer(struct oracle *o, const struct oracle_layer *l)
{
    struct oracle_head_sizes heads = oracle_head_sizes(o->s, (int)(l - o->s->layers));
    o->H = heads.n, o->G = heads.kv, o->d = heads.width, o->n_rot = heads.rot;
    o->F = l->n_ff ? l->n_ff : o->s->n_ff;
    o->qw = o->H * o->d;
    o->kw = o->G * o->d;
    o->vd = l->value_dim ? l->value_dim : o->s->value_dim ? o->s->value_dim : o->d;
    o->vw = o->G * o->vd, o->zw = o->H * o->vd;
}

void oracle_share_keys(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    double **kept = o->kept[l->window > 0], *own[2] = {o->k, o->v};
    size_t bytes = o->T * o->kw * sizeof *o->k;
    int shares = o->s->layers[o->s->n_layer - 1].others_keys;
    for (int i = 0; i < 2 && shares; i++)
        memcpy(l->others_keys ? own[i] : kept[i], l->others_keys ? kept[i] : own[i], bytes);
}

void oracle_widen(struct oracle *o, size_t *F, size_t *conv, int *shares)
{
    size_t q = o->qw, k = o->kw, H = o->H;
    for (size_t i = 0; i < o->s->n_layer; i++) {
        const struct oracle_layer *l = &o->s->layers[i];
        oracle_enter_layer(o, l);
        *conv = *conv > l->conv ? *conv : l->conv;
        *shares |= l->others_keys != 0;
        *F = *F > o->F ? *F : o->F;
        q = q > o->qw ? q : o->qw;
        k = k > o->kw ? k : o->kw;
        q = q > o->zw ? q : o->zw;
        k = k > o->vw ? k : o->vw;
    }
    *F = *F > (size_t)o->s->n_input ? *F : (size_t)o->s->n_input;
    o->qw = q, o->kw = k, o->H = H;
}

/* Embeddings of the tokens into h; those that the pass begins with may have been changed. */
static const double *embeddings(struct oracle *o)
{
    if (!o->s->residual)
        return o->x;
    for (size_t t = 0; t < o->T; t++) {
        oracle_read_row(o, -1, MGPT_W_E, ".weight", (size_t)o->tokens[t], o->E, o->row);
        for (size_t i = 0; i < o->E; i++)
            o->h[t * o->E + i] = o->s->embd_scale * (double)o->row[i];
    }
    return o->h;
}

void oracle_make_inputs(struct oracle *o)
{
    size_t P = (size_t)o->s->n_input, LP = P * o->s->n_layer;
    if (P == 0)
        return;
    oracle_matmul(o, -1, MGPT_INPUT_PROJ, 0, embeddings(o), o->E, LP, o->inputs);
    for (size_t i = 0; i < o->T * LP; i++)
        o->inputs[i] /= sqrt((double)o->E);
    const float *gain = oracle_vector(o, -1, MGPT_INPUT_NORM, ".weight", P, o->gain);
    math_norm(&o->plain, o->inputs, o->inputs, o->T * o->s->n_layer, P, gain, NULL);
    for (size_t t = 0; t < o->T; t++) {
        oracle_read_row(o, -1, MGPT_INPUT_EMBD, ".weight", (size_t)o->tokens[t], LP, o->row);
        for (size_t i = 0; i < LP; i++) {
            double *x = &o->inputs[t * LP + i];
            *x = (*x + sqrt((double)P) * (double)o->row[i]) / sqrt(2);
        }
    }
    math_round(o->s, o->inputs, o->T * LP);
}

void oracle_add_input(struct oracle *o, int layer)
{
    size_t P = (size_t)o->s->n_input, LP = P * o->s->n_layer;
    double by = o->s->layers[layer].out_scale;
    if (P > 0) {
        oracle_matmul(o, layer, MGPT_INPUT_GATE, 0, o->x, o->E, P, o->f);
        math_activate(&o->s->layers[layer], o->f, o->T * P);
        for (size_t i = 0; i < o->T * P; i++)
            o->f[i] *= o->inputs[i / P * LP + (size_t)layer * P + i % P];
        oracle_matmul(o, layer, MGPT_INPUT_OUT, 0, o->f, P, o->E, o->h);
        oracle_norm(o, layer, MGPT_LN_INPUT, o->h, o->h);
    }
    for (size_t i = 0; i < o->T * o->E; i++)
        o->x[i] = (o->x[i] + (P > 0 ? o->h[i] : 0)) * (by != 0 ? by : 1);
    math_round(o->s, o->x, o->T * o->E);
}

void oracle_make_head_input(struct oracle *o)
{
    const struct oracle_layer by = {.activation = o->s->head_act};
    size_t n = o->T * o->E;
    if (!o->s->dense_head)
        return;
    oracle_matmul(o, -1, MGPT_W_HEAD, 0, o->x, o->E, o->E, o->h);
    if (o->s->dense_head != 2)
        math_activate(&by, o->h, n);
    memcpy(o->x, o->h, n * sizeof *o->x);
    if (o->s->dense_head != 3)
        oracle_norm(o, -1, MGPT_LN_HEAD, o->x, o->x);
    oracle_fire_rows(o, MGPT_HEAD_IN, -1, o->x, o->E);
}
