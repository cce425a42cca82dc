/* Direct logit attribution: a logit as a sum over what wrote to the residual stream.
 *
 * With the scale of each norm frozen at the value that it had, the way from the residual to a logit
 * is linear, so the logit of a token (minus that of another, or minus the mean of all logits) is a
 * sum of one number per head and MLP, one for the token's embedding, one for the position's, the
 * biases, and a remainder: what the engine rounds in float32 and, in integer types, its quantised
 * activations. A cap on the logits comes after the sum. float64 throughout; the matrices come
 * from the file. */
#ifndef MGPT_DLA_H
#define MGPT_DLA_H

#include "mgpt.h"

#include <stddef.h>

enum { DLA_MEAN = -1, DLA_NONE = -2 };

struct dla {
    size_t n_layer, n_head, n_embd, n_z, pos;
    /* What a pass held at the position, filled by dla_tap: */
    float *embedding, *position; /* [n_embd]; has_* say what the model has */
    float *x0;                   /* [n_embd] the embedding after its norm and smear */
    float *z;                    /* [n_layer][n_z] */
    float *mlp_out;              /* [n_layer][n_embd] */
    float *final;                /* [n_embd] the last residual */
    int has_position, has_embedding_norm, has_final_norm, has_smear;
    /* Results: */
    double token_part, position_part; /* with smear the second is that of the token before */
    double *heads;                    /* [n_layer][n_head] */
    double *mlps;                     /* [n_layer] */
    double biases;                    /* of attention, the final norm and the head */
    double rest;                      /* the total minus all the above: rounding */
    double total;                     /* what the last residual gives, before a cap */
    float *values;                    /* the memory of the arrays of float */
};

/* Makes room, for the position `pos`. MGPT_OK or MGPT_EMEM; free it in either case. */
int dla_new(struct dla *dla, const mgpt_info *info, size_t pos, mgpt_error *err);
void dla_free(struct dla *dla);

/* A mgpt_tap_fn (user: the dla) and the points that it wants. */
int dla_tap(const mgpt_value *value, void *user);
uint64_t dla_points(void);

/* Takes the logit of `token` minus that of `other` apart; DLA_MEAN: minus the mean of logits 0 to
 * n_choices - 1, DLA_NONE: minus nothing. Reads matrices from the file: O(weights of the attention
 * outputs and of the head). */
int dla_run(struct dla *dla, const mgpt_model *model, int32_t token, int32_t other,
            size_t n_choices, mgpt_error *err);

#endif
