/* The oracle's norms: how, and where in a layer they are. See oracle_impl.h. */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

const struct oracle_spec *oracle_norm_spec(const struct oracle *o, int where)
{
    return o->s->norm_where & where ? o->s : &o->plain;
}

static const struct oracle_spec *spec_of_norm(const struct oracle *o, int role)
{
    static const struct {
        int role, where;
    } norms[] = {{MGPT_LN_FINAL, ORACLE_NORM_FINAL},    {MGPT_LN_HEAD, ORACLE_NORM_FINAL},
                 {MGPT_LN_EMBD, ORACLE_NORM_EMBD},      {MGPT_LN1_POST, ORACLE_NORM_POST_ATTN},
                 {MGPT_LN2_POST, ORACLE_NORM_POST_MLP}, {MGPT_LN2, ORACLE_NORM_MLP}};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (norms[i].role == role)
            return oracle_norm_spec(o, norms[i].where);
    return oracle_norm_spec(o, ORACLE_NORM_ATTN);
}

void oracle_norm(struct oracle *o, int layer, int role, double *y, const double *x)
{
    const float *gain = oracle_vector(o, layer, role, ".weight", o->E, o->gain);
    const float *bias = oracle_vector(o, layer, role, ".bias", o->E, o->bias);
    math_norm(spec_of_norm(o, role), y, x, o->T, o->E, gain, bias);
}

struct oracle_branch oracle_branch_norms(const struct oracle *o, int layer, int role, int normed,
                                         int after)
{
    int has_after = oracle_find(o, layer, after, ".weight") != ORACLE_ABSENT;
    struct oracle_branch b = {normed ? role : NO_NORM, has_after ? after : NO_NORM, NO_NORM};
    if (o->s->norm_order == ORACLE_NORMS_OF_BRANCHES && normed && !has_after)
        b.after = role, b.before = NO_NORM;
    if (o->s->norm_order == ORACLE_NORMS_OF_SUMS && normed && !has_after)
        b.sum = role, b.before = NO_NORM;
    if (o->s->norm_order == ORACLE_NORMS_AFTER_SUMS && has_after)
        b.sum = after, b.after = NO_NORM;
    if (o->s->norm_order == ORACLE_NORMS_FIRST && !normed && has_after)
        b.before = after, b.after = NO_NORM;
    return b;
}

int oracle_mlp_norm(const struct oracle *o, int layer)
{
    return o->s->layers[layer].shared_norm ? MGPT_LN1 : MGPT_LN2;
}

void oracle_branch_input(struct oracle *o, int layer, int branch, int role)
{
    if (role != NO_NORM)
        oracle_norm(o, layer, role, o->h, o->x);
    else
        memcpy(o->h, o->x, o->T * o->E * sizeof *o->h);
    if (o->s->layers[layer].residual_normed & branch)
        memcpy(o->x, o->h, o->T * o->E * sizeof *o->h);
}

void oracle_branch_output(struct oracle *o, int layer, int role, double times, double *y)
{
    if (role != NO_NORM)
        oracle_norm(o, layer, role, y, y);
    for (size_t i = 0; i < o->T * o->E; i++)
        y[i] *= o->s->residual_scale * (times != 0 ? times : 1);
    double before = 2.0 * layer + (y == o->a ? 1 : 2); /* what the residual is the sum of */
    for (size_t i = 0; i < o->T * o->E && o->s->residual_by_depth; i++) {
        o->x[i] *= sqrt(before / (before + 1));
        y[i] /= sqrt(before + 1);
    }
}
