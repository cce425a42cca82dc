/* Inside explain: what its parts share.
 *
 * A cause is a suspect that restores agreement. Most are listed beforehand (suspects.h); the rest are solved
 * for from the numbers and then tried like the others: whatever is claimed has restored agreement.
 */
#ifndef MGPT_EXPLAIN_IMPL_H
#define MGPT_EXPLAIN_IMPL_H

#include "check/explain/explain.h"
#include "check/explain/suspects.h"

/* A pass of a variant, compared at one hook. */
struct score {
    const struct answer *a;
    const struct locate *l;
    size_t target; /* hook, n_hooks for the logits */
    int feed;      /* values before it are replaced by the reference's */
    double nmse;
    /* What it saw, when asked to keep it: at the target, and at its input. */
    int keep;
    mgpt_point input; /* MGPT_N_POINTS: none */
    double *diff,
        *in; /* theirs - ours; at the scores of attention a row holds all heads, n values each */
    double *ours;           /* NULL: not wanted */
    size_t n_diff, n_in, n; /* values a row, rows */
};

/* Fills score->nmse. MGPT_EARG: the variant does not fit the model. */
int explain_score(struct score *score, struct whatif *w, mgpt_error *err);

/* The tensor whose product a hook holds. */
struct explain_product {
    char name[80]; /* "blk.0.attn_qkv.weight" */
    const char *stem;
    size_t first_row, n_in; /* where the hook's rows begin */
    mgpt_point input;       /* what it is multiplied with */
    mgpt_tensor tensor;
    const uint32_t *order; /* of the rows of each head (mgpt_model.qk_order), or NULL */
    size_t head_dim;
};

/* The row of the tensor that column `column` of the hook is the product of. */
static inline size_t explain_product_row(const struct explain_product *p, size_t column)
{
    size_t i = p->order ? column % p->head_dim : 0;
    return p->first_row + (p->order ? column - i + p->order[i] : column);
}

/* 0: the hook is not a product. */
int explain_product(struct explain_product *product, const mgpt_model *model, struct ref_hook hook);

/* Looks for single weights behind the bad hook. */
int explain_weights(struct explain_weight *weight, const mgpt_model *model, const struct answer *a,
                    const struct locate *l, size_t n, mgpt_error *err);

struct search {
    struct explain *e;
    const mgpt_model *model;
    const struct answer *a;
    const struct locate *l;
    struct suspect *suspects; /* stb_ds array: those that were solved for come last */
    void **owned;             /* stb_ds array: what solved suspects point to */
    int n_layer;
    size_t target, n; /* where to compare, on so many positions */
    int feed;
    int not_linear; /* no head whatever gives the reference's logits */
    double work;
    mgpt_error *err;
};

/* A block that lives as long as the search, zeroed; NULL when out of memory (s->err says so). */
void *search_new(struct search *s, size_t n, size_t each);

/* Tries a suspect at the target. One that restores agreement joins the list and the trials. */
int search_propose(struct search *s, const struct suspect *suspect);

/* Whether so much has been computed that no more is tried. */
int search_spent(const struct search *s);

/* Positions for what is solved for: `wish` of them, where there are so many. */
size_t search_positions(const struct search *s, size_t wish);

/* What a pass with `suspect` (NULL: as it is) shows at a hook and at its input. */
struct seen {
    double *diff, *ours, *in; /* [n][cols], [n][cols], [n][n_in] */
    size_t n, cols, n_in;
};

int search_look(struct search *s, size_t hook, mgpt_point input, size_t n_in, size_t n,
                const struct suspect *suspect, struct seen *seen);
void seen_free(struct seen *seen);

/* Values to stand for a tensor: begins with the file's or, where it has none, with ones (gains) or zeros. */
struct whatif_tensor *given_new(struct search *s, const char *name, size_t n);

/* "NAME is another in the reference (here all ones)", after the values have been changed; sure: each of
 * them is the reference's, not only what they do together. */
int given_text(struct search *s, const struct whatif_tensor *given, int sure, char *text,
               size_t cap);

/* A number as %.6g prints it, in `text`, which is returned. */
enum { NUMBER = 24 };
const char *say_number(double x, char text[NUMBER]);

/* Each looks for causes of its kind at the target, and proposes them. MGPT_OK whatever it finds. */
int solve_columns(struct search *s); /* exchanged, scaled, of the other sign */
int solve_vectors(struct search *s); /* biases and gains of the stage */
int solve_matrix(struct search *s);  /* the whole matrix, where positions suffice */
int solve_numbers(struct search *s, uint64_t points); /* caps, scales, epsilon, rope */
int solve_fits(struct search *s); /* any bias or gain, any far-out weight: in small models */

/* Fills e->head when the head is the embedding. */
int solve_tied(struct search *s);

#endif
