/* What the oracle's pass adds to the residual stream and to values besides the branches. See
 * oracle_impl.h. */
#include "check/oracle/oracle_impl.h"
#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

/* Sigmoids, or softplus, of the product of a gate's matrix with the first columns of each row of x, into y. */
static void oracle_gates(struct oracle *o, int layer, int role, const double *x, size_t columns,
                         size_t n_out, double *y)
{
    double *first = o->a; /* free until attention writes it */
    for (size_t t = 0; t < o->T; t++)
        memmove(first + t * columns, x + t * o->E, columns * sizeof *x);
    oracle_matmul(o, layer, role, 0, first, columns, n_out, y);
    for (size_t i = 0; i < o->T * n_out; i++)
        y[i] = role == MGPT_HEAD_GATE && o->s->softplus_gates
                   ? fmax(y[i], 0) + log1p(exp(-fabs(y[i])))
                   : 1 / (1 + exp(-y[i]));
}

/* The embedding of the token before is not what a caller may have made of it. */
void oracle_smear(struct oracle *o)
{
    if (o->s->smear_gate == 0)
        return;
    oracle_gates(o, -1, MGPT_SMEAR_GATE, o->x, o->s->smear_gate, 1, o->h);
    for (size_t t = 1; t < o->T; t++) {
        oracle_read_row(o, -1, MGPT_W_E, ".weight", (size_t)o->tokens[t - 1], o->E, o->row);
        for (size_t i = 0; i < o->E; i++)
            o->a[i] = o->s->embd_scale * (double)o->row[i];
        math_norm(o->s, o->a, o->a, 1, o->E, NULL, NULL);
        for (size_t i = 0; i < o->E; i++)
            o->x[t * o->E + i] += o->s->smear_scale * o->h[t] * o->a[i];
    }
}

void oracle_token_values(struct oracle *o, int layer)
{
    size_t columns = o->s->layers[layer].value_gate;
    for (size_t i = 0; i < o->T * o->vw; i++)
        o->v[i] *= o->s->value_scale;
    if (columns == 0)
        return;
    oracle_gates(o, layer, MGPT_VALUE_GATE, o->h, columns, o->G, o->z);
    for (size_t t = 0; t < o->T; t++) {
        oracle_read_row(o, layer, MGPT_VALUE_EMBD, ".weight", (size_t)o->tokens[t], o->kw, o->row);
        for (size_t i = 0; i < o->kw; i++)
            o->v[t * o->kw + i] +=
                o->s->value_gate_scale * o->z[t * o->G + i / o->d] * (double)o->row[i];
    }
}

void oracle_mix_in_x0(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    if (layer == 0)
        memcpy(o->x0, o->x, o->T * o->E * sizeof *o->x);
    for (size_t i = 0; i < o->T * o->E && (l->keep != 1 || l->mix_in_x0 != 0); i++)
        o->x[i] = l->keep * o->x[i] + l->mix_in_x0 * o->x0[i];
}

void oracle_back_out(struct oracle *o, int layer)
{
    size_t n = o->T * o->E, n_layer = o->s->n_layer;
    if ((size_t)layer == n_layer / 2)
        memcpy(o->middle, o->x, n * sizeof *o->x);
    for (size_t i = 0; i < n && (size_t)layer + 1 == n_layer; i++)
        o->x[i] -= o->s->backout * o->middle[i];
}

void oracle_residual_norm(struct oracle *o, int layer, int role)
{
    if (oracle_find(o, layer, role, ".weight") != ORACLE_ABSENT)
        oracle_norm(o, layer, role, o->x, o->x);
}

void oracle_gate_heads(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    size_t n = l->n_head ? l->n_gate : o->s->n_gate, each = n ? o->zw / n : 0;
    if (n == 0)
        return;
    oracle_gates(o, layer, MGPT_HEAD_GATE, o->h, o->E, n, o->gates);
    oracle_fire_rows(o, MGPT_GATES, layer, o->gates, n);
    for (size_t i = 0; i < o->T * o->zw && !o->s->no_gates; i++)
        o->z[i] *= o->gates[i / each];
}
