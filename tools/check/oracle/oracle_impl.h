/* Inside the oracle: its buffers, and attention (oracle_attention.c). */
#ifndef MGPT_ORACLE_IMPL_H
#define MGPT_ORACLE_IMPL_H

#include "check/oracle/oracle.h"

struct oracle {
    const struct oracle_spec *s;
    oracle_point *fn;
    void *user;
    const int32_t *tokens;
    size_t T, E, H, G, d, F, V, qw, kw;
    double *x, *x0, *h, *q, *k, *v, *z, *a, *f, *up, *logits, *scores;
    double *in, *rows; /* of products: MATH_ROWS positions at a time, and as they are */
    float *row, *gain, *bias;
    mgpt_error *err;
    int status;
};

void oracle_fire(struct oracle *o, mgpt_point at, int layer, size_t pos, size_t head, double *row,
                 size_t n);

/* Where a tensor has component i of a head that is shown. */
size_t oracle_stored(const struct oracle *o, int layer, size_t i);

size_t oracle_position(const struct oracle *o, size_t t);
void oracle_rope(const struct oracle *o, int layer, double *x, size_t heads);

/* One query t and head h over its visible keys, which end with position t. Other keys have score
 * -inf and weight 0, also when a caller changes them. */
void oracle_attend(struct oracle *o, int layer, size_t t, size_t h);

#endif
