/* The oracle's projections of latent attention (DeepSeek-AI 2024), in the form of transformers: keys and
 * values of each head, from the latent of its token. See oracle_impl.h. */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

#include <string.h>

/* The norm of the first n of every `cols` values. */
static void latent_norm(struct oracle *o, int layer, int role, double *x, size_t n, size_t cols)
{
    struct oracle_spec spec = *oracle_norm_spec(o, ORACLE_NORM_ATTN);
    const float *gain = oracle_vector(o, layer, role, ".weight", n, o->gain);
    spec.eps = spec.latent_eps > 0 ? spec.latent_eps : spec.eps;
    for (size_t t = 0; t < o->T && !o->s->no_latent_norm; t++)
        math_norm(&spec, x + t * cols, x + t * cols, 1, n, gain, NULL);
}

/* Keys without rotation [T][H][nope] and values [T][H][vd] of a head from tensors of their own. */
static void head_from_two(struct oracle *o, int layer, size_t h, const double *c, size_t cols)
{
    size_t R = o->s->n_latent, nope = o->d - o->s->n_rot;
    for (size_t t = 0; t < o->T; t++)
        memset(o->k + (t * o->H + h) * o->d, 0, nope * sizeof *o->k);
    for (size_t j = 0; j < R; j++) {
        oracle_read_row(o, layer, MGPT_W_K_UP, ".weight", h * R + j, nope, o->row);
        for (size_t t = 0; t < o->T; t++)
            for (size_t i = 0; i < nope; i++)
                o->k[(t * o->H + h) * o->d + i] += (double)o->row[i] * c[t * cols + j];
    }
    for (size_t i = 0; i < o->vd; i++) {
        oracle_read_row(o, layer, MGPT_W_V_UP, ".weight", h * o->vd + i, R, o->row);
        for (size_t t = 0; t < o->T; t++) {
            double sum = 0;
            for (size_t j = 0; j < R; j++)
                sum += (double)o->row[j] * c[t * cols + j];
            o->v[(t * o->H + h) * o->vd + i] = sum;
        }
    }
}

/* Keys without rotation and values of all heads from one tensor, whose rows are the keys of a head, then its values. */
static void heads_from_one(struct oracle *o, int layer)
{
    size_t R = o->s->n_latent, nope = o->d - o->s->n_rot, each = nope + o->vd,
           cols = R + o->s->n_rot;
    for (size_t t = 0; t < o->T; t++)
        memmove(o->kv + t * R, o->c + t * cols, R * sizeof *o->kv);
    memcpy(o->c, o->kv, o->T * R * sizeof *o->c);
    oracle_matmul(o, layer, MGPT_W_KV_UP, 0, o->c, R, o->H * each, o->kv);
    for (size_t i = 0; i < o->T * o->H; i++) {
        memcpy(o->k + i * o->d, o->kv + i * each, nope * sizeof *o->k);
        memcpy(o->v + i * o->vd, o->kv + i * each + nope, o->vd * sizeof *o->v);
    }
}

void oracle_latent(struct oracle *o, int layer)
{
    size_t R = o->s->n_latent, Q = o->s->n_q_latent, cols = R + o->s->n_rot;
    if (Q) {
        oracle_matmul(o, layer, MGPT_W_Q_DOWN, 0, o->h, o->E, Q, o->c);
        latent_norm(o, layer, MGPT_Q_DOWN_NORM, o->c, Q, Q);
    }
    oracle_matmul(o, layer, MGPT_W_Q, 0, Q ? o->c : o->h, Q ? Q : o->E, o->qw, o->q);
    oracle_matmul(o, layer, MGPT_W_KV_DOWN, 0, o->h, o->E, cols, o->c);
    latent_norm(o, layer, MGPT_KV_DOWN_NORM, o->c, R, cols);
    for (size_t i = 0; i < o->T * o->H; i++)
        memcpy(o->k + (i + 1) * o->d - o->s->n_rot, o->c + i / o->H * cols + R,
               o->s->n_rot * sizeof *o->k);
    if (oracle_find(o, layer, MGPT_W_KV_UP, ".weight") != ORACLE_ABSENT)
        heads_from_one(o, layer);
    else
        for (size_t h = 0; h < o->H; h++)
            head_from_two(o, layer, h, o->c, cols);
    math_round(o->s, o->k, o->T * o->kw);
    math_round(o->s, o->v, o->T * o->vw);
}
