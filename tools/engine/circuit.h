/* Circuits: weights multiplied out over all tokens (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits").
 *
 * A circuit is a table that is the product of two narrow ones: cell (i, j) = rows[i] . cols[j]. What rows and columns are:
 *
 *     kind       row i                                      column j                                  cell
 *     qk         token i as a query of the head             token j as a key                          score of i for j
 *     places     position i as a query                      position j as a key                       the same
 *     ov         token i as a value of the head             logit of j along W_O and W_U              what seeing i adds to j
 *     direct     the residual that token i begins with      logit of j                                what i adds to j
 *     fires      token i                                    the neuron                                its activation
 *     promotes   the neuron                                 logit of j along W_down and W_U           what it adds to j when it is 1
 *
 * A token is taken alone: without a position, a token before it and, in deeper layers, what the layers before add: the layer
 * gets the residual that the token begins with. For that the tokens run through the model itself (norms, biases, grouped heads
 * and norms of queries and keys are its own); rope is at distance 0, a bias by distance and a cap of scores are left out.
 * Logits are before the last norm's division (its gain and, of LayerNorm, its mean are in) and before a cap, without biases;
 * of a norm after attention or the MLP the gain is in. */
#ifndef MGPT_CIRCUIT_H
#define MGPT_CIRCUIT_H

#include "mgpt.h"

#include <stddef.h>

enum circuit_kind {
    CIRCUIT_QK,
    CIRCUIT_PLACES,
    CIRCUIT_OV,
    CIRCUIT_DIRECT,
    CIRCUIT_FIRES,
    CIRCUIT_PROMOTES
};

struct circuit {
    int (*stopped)(
        void); /* NULL, or set by the caller: asked often, and 1 ends circuit_read with MGPT_ESTOP */
    const int32_t *ids; /* NULL, or set by the caller: the tokens, in place of all */
    size_t n_ids;
    size_t n_rows, n_cols, width;
    size_t stride; /* floats of a row of both: width and zeros up to a multiple of CIRCUIT_LANES */
    float *rows;   /* [n_rows][stride] */
    float *cols;   /* [n_cols][stride] */
};
enum { CIRCUIT_LANES = 16 };

/* Computes the factors; index is a head or a neuron, both are ignored where the kind has none. Returns a status: MGPT_EARG also for
 * a layer that is no attention or whose MLP is a mixture. circuit_free frees it in any case. */
int circuit_read(struct circuit *circuit, const mgpt_model *model, enum circuit_kind kind,
                 int32_t layer, int32_t index, mgpt_error *err);
void circuit_free(struct circuit *circuit);

float circuit_cell(const struct circuit *circuit, size_t row, size_t col);

/* The own order of the table: of its columns (by_cols; rows are then measured from their mean), or of its rows (and columns from
 * theirs), where they are along the first singular vector, in float64. skip[i] != 0 leaves row and column i out: 0
 * there; skip may be NULL. Its sign is that of the entry largest in size. Returns 0: out of memory. */
int circuit_order(const struct circuit *circuit, int by_cols, const unsigned char *skip,
                  double *along);

#endif
