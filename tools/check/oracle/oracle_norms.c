/* The oracle's norms: how, and where in a layer they are. See oracle_impl.h. */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

#include <string.h>

const struct oracle_spec *oracle_norm_spec(const struct oracle *o, int where)
{
    return o->s->norm_where & where ? o->s : &o->plain;
}

static const struct oracle_spec *spec_of_norm(const struct oracle *o, const char *stem)
{
    static const struct {
        const char *stem;
        int where;
    } norms[] = {{"output_norm", ORACLE_NORM_FINAL},
                 {"token_embd_norm", ORACLE_NORM_EMBD},
                 {"post_attention_norm", ORACLE_NORM_POST_ATTN},
                 {"post_ffw_norm", ORACLE_NORM_POST_MLP},
                 {"ffn_norm", ORACLE_NORM_MLP}};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (strcmp(stem, norms[i].stem) == 0)
            return oracle_norm_spec(o, norms[i].where);
    return oracle_norm_spec(o, ORACLE_NORM_ATTN);
}

void oracle_norm(struct oracle *o, int layer, const char *stem, double *y, const double *x)
{
    const float *gain = oracle_vector(o, layer, stem, ".weight", o->E, o->gain);
    const float *bias = oracle_vector(o, layer, stem, ".bias", o->E, o->bias);
    math_norm(spec_of_norm(o, stem), y, x, o->T, o->E, gain, bias);
}

struct oracle_branch oracle_branch_norms(const struct oracle *o, int layer, const char *stem,
                                         int normed, const char *after)
{
    int has_after = oracle_find(o, layer, after, ".weight") != ORACLE_ABSENT;
    struct oracle_branch b = {normed ? stem : NULL, has_after ? after : NULL, NULL};
    if (o->s->norm_order == ORACLE_NORMS_OF_BRANCHES && normed && !has_after)
        b.after = stem, b.before = NULL;
    if (o->s->norm_order == ORACLE_NORMS_OF_SUMS && normed && !has_after)
        b.sum = stem, b.before = NULL;
    if (o->s->norm_order == ORACLE_NORMS_AFTER_SUMS && has_after)
        b.sum = after, b.after = NULL;
    if (o->s->norm_order == ORACLE_NORMS_FIRST && !normed && has_after)
        b.before = after, b.after = NULL;
    return b;
}

const char *oracle_mlp_norm(const struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    if (l->shared_norm || oracle_find(o, layer, "attn_norm_2", ".weight") != ORACLE_ABSENT)
        return "attn_norm";
    int other = l->mlp_norm && oracle_find(o, layer, "ffn_norm", ".weight") == ORACLE_ABSENT;
    return other ? "post_attention_norm" : "ffn_norm";
}

void oracle_branch_input(struct oracle *o, int layer, int branch, const char *stem)
{
    if (stem)
        oracle_norm(o, layer, stem, o->h, o->x);
    else
        memcpy(o->h, o->x, o->T * o->E * sizeof *o->h);
    if (o->s->layers[layer].residual_normed & branch)
        memcpy(o->x, o->h, o->T * o->E * sizeof *o->h);
}

void oracle_branch_output(struct oracle *o, int layer, const char *stem, double times, double *y)
{
    if (stem)
        oracle_norm(o, layer, stem, y, y);
    for (size_t i = 0; i < o->T * o->E; i++)
        y[i] *= o->s->residual_scale * (times != 0 ? times : 1);
}
