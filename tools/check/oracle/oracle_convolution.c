/* The oracle's short convolution. See oracle_impl.h. */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

void oracle_convolution(struct oracle *o, int layer)
{
    const int in = ORACLE_W_QKV; /* of B, C, x */
    size_t E = o->E, L = o->s->layers[layer].conv;
    oracle_matmul(o, layer, in, 0, o->h, E, E, o->k);
    oracle_matmul(o, layer, in, E, o->h, E, E, o->q);
    oracle_matmul(o, layer, in, 2 * E, o->h, E, E, o->v);
    oracle_fire_rows(o, MGPT_Q, layer, o->q, E);
    oracle_fire_rows(o, MGPT_K, layer, o->k, E);
    oracle_fire_rows(o, MGPT_V, layer, o->v, E);
    for (size_t i = 0; i < o->T * E; i++)
        o->v[i] *= o->k[i];
    math_round(o->s, o->v, o->T * E);
    for (size_t c = 0; c < E; c++) {
        oracle_read_row(o, layer, MGPT_CONV, ".weight", c, L, o->row);
        for (size_t t = 0; t < o->T; t++) {
            double sum = 0;
            for (size_t back = 0; back < L && back <= t; back++)
                sum += (double)o->row[L - 1 - back] * o->v[(t - back) * E + c];
            o->z[t * E + c] = o->q[t * E + c] * sum;
        }
    }
    math_round(o->s, o->z, o->T * E);
    oracle_fire_rows(o, MGPT_HEADS, layer, o->z, E);
}
