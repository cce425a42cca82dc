/* Inside whatif: names of tensors, and the order of their rows. */
#ifndef MGPT_WHATIF_IMPL_H
#define MGPT_WHATIF_IMPL_H

#include "check/explain/whatif.h"

#include <string.h>

/* A tensor's name: its layer or -1, what follows the layer, ".weight" or ".bias", and its role. */
struct tensor_name {
    int layer;
    const char *stem, *kind;
    size_t n_stem;
    int role; /* of oracle.h, or -1 */
};

/* Whether this change is made to tensors of that layer and kind. */
int whatif_changes(const struct whatif *w, struct tensor_name p, enum whatif_change change);

/* Whether it holds matrices of all experts. */
static inline int whatif_is_of_experts(struct tensor_name p)
{
    return p.role >= MGPT_EXPERTS_GATE && p.role <= MGPT_EXPERTS_DOWN;
}

/* Whether the role is one of the words of `list`; that of experts also as gate, up or down. */
static inline int whatif_is_listed(const char *list, struct tensor_name p)
{
    const char *word = oracle_word(p.role);
    const char *plain =
        whatif_is_of_experts(p) ? oracle_word(p.role - MGPT_EXPERTS_GATE + MGPT_W_GATE) : NULL;
    return (word && whatif_lists(list, word, strlen(word))) ||
           (plain && whatif_lists(list, plain, strlen(plain)));
}

/* The layers of an edit. */
#define EACH_LAYER(w, l, layer)                                                                    \
    for (struct oracle_layer *l = (w)->layers + ((layer) < 0 ? 0 : (layer)),                       \
                             *l##_end = (layer) < 0 ? (w)->layers + (w)->spec.n_layer : l + 1;     \
         l < l##_end; l++)

/* Whether this is gate or up, the halves of one matrix, which are exchanged. */
int whatif_swaps_halves(const struct whatif *w, struct tensor_name p);

/* Negates the member, an int. Returns 1. */
int whatif_negate(void *base, const struct whatif_edit *e);

/* The first layer that has attention, not a short convolution: its tensors say what layers have. 0:
 * none has it. */
static inline int whatif_attention_layer(const struct whatif *w)
{
    size_t layer = 0;
    while (layer < w->spec.n_layer && w->layers[layer].conv)
        layer++;
    return layer < w->spec.n_layer ? (int)layer : 0;
}

/* 1: that layer or the model has the role, "W_Q" or "W_Q.bias", of a kind. */
int whatif_has(const struct whatif *w, const char *word, size_t n, const char *kind);

/* Makes the values of a matrix's row those of TENSORS_QUANTISED. */
void whatif_quantise(const struct whatif_edit *e, float *row, size_t n);

/* Whether gate and up are the halves of one matrix. */
int whatif_mlp_is_fused(const struct whatif *w);
int whatif_has_matrix(const struct whatif *w, const char *words);

/* ---- orders (whatif_order.c) ---- */

/* Whether rows of projections are read in another order: by heads, or q, k and v as a whole. */
int whatif_moves_rows(const struct whatif *w);

/* The file's row that row `row` of a tensor of n rows is read from; of a projection, also of its
 * bias. */
size_t whatif_matrix_row(const struct whatif *w, struct tensor_name p, size_t row, size_t n);
size_t whatif_projection_row(const struct whatif *w, struct tensor_name p, size_t row);

/* The file's column that column `column` of attn_output is read from; columns of a head are adjacent. */
size_t whatif_head_column(const struct whatif *w, int layer, size_t column);

/* The part of q, k and v (0, 1, 2) and its row that row `row` of part `*part` is read from when their
 * heads are stored by group. */
size_t whatif_grouped_row(const struct whatif *w, int layer, size_t *part, size_t row);

/* Row `row` of the matrices of experts. */
size_t whatif_expert_row(const struct whatif *w, size_t row, size_t n);

/* Parts of attn_qkv: the rows of q, k and v are from first[0], [1], [2] to the next. */
void whatif_qkv_parts(const struct whatif *w, int layer, size_t first[4]);

/* Rows of heads of width `b`, of whose components n are reordered, as a converter permutes them for
 * rotation of adjacent pairs: 2i is i, 2i + 1 is i + n / 2. And back. */
size_t whatif_permuted(size_t row, size_t b, size_t n);
size_t whatif_unpermuted(size_t row, size_t b, size_t n);

#endif
