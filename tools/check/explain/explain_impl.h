/* Inside explain: what its parts share.
 *
 *   hook     a named value of the reference (inner value), at a point of the pass and a layer
 *   suspect  one thing that may be wrong, as an edit of the oracle's description (suspects.h, whatif.h)
 *   edit     a change of the float64 oracle: tensors, order of rows, norms, rope, ...
 *   target   the hook whose first bad value is explained; the logits, if there are no inner values
 *   trial    a suspect with the NMSE that is left at the target when it is applied
 *   proof    a whole pass with the edit that agrees with everything in the reference
 *   cause    a trial with a proof; without a proof it is a hint
 *
 * A suspect is tried at the target, at its first positions and then at more. One that restores
 * agreement there is proved by a whole pass: only then it is a cause. Most suspects are listed
 * beforehand (suspects.h); the rest are solved for from the numbers and then tried like the others.
 */
#ifndef MGPT_EXPLAIN_IMPL_H
#define MGPT_EXPLAIN_IMPL_H

#include "check/explain/explain.h"
#include "check/explain/stages.h"
#include "check/explain/suspects.h"

struct search {
    struct explain *e;
    const mgpt_model *model;
    const struct answer *a;
    const struct locate *l;
    struct suspect *suspects;  /* stb_ds array: those that were solved for come last */
    void **owned;              /* stb_ds array: what solved suspects point to */
    struct whatif as_is;       /* the model without edits, for all tokens */
    const struct whatif *base; /* suspects are tried on this: as_is, or as_is with what was found */
    size_t target;             /* the hook where passes are compared; n_hooks: the logits */
    size_t n;                  /* positions that are compared */
    size_t good;               /* positions of the last pass before the first that differs */
    int feed;                  /* 1: values before the target are the reference's */
    int second;                /* 1: the second of two causes is looked for, and no hint is kept */
    size_t common;             /* only common suspects from this one on; 0: all */
    int switches;    /* how many more switches of a configuration are looked for; 0: any suspect */
    uint64_t points; /* where the cause may be */
    int not_linear;  /* 1: no head gives the reference's logits */
    /* If logits are the target: residual stream of the base before each layer,
     * [n_layer][n_kept][n_embd]; else NULL. */
    double *residuals;
    size_t n_kept;
    double noise; /* search_noise of the model without edits */
    double work;  /* work spent so far */
    mgpt_error *err;
};

/* A block that lives as long as the search, zeroed; NULL when out of memory (s->err says so). */
void *search_new(struct search *s, size_t n, size_t each);

/* Sets the target: the first bad value of s->l, which is there. */
void search_begin(struct search *s);

/* All that is to be tried at the first bad value of s->l (explain.c), without what is solved for
 * (solve 0); after that a tensor of many layers (explain_layers.c), and two causes at once
 * (explain_pairs.c). */
int search_all(struct search *s, int solve);
int search_layers(struct search *s);
int search_pairs(struct search *s);

/* ---- trials (explain_try.c) ---- */

/* Tries the listed suspects that show at one of `points` and were not tried for `before`. */
int search_try(struct search *s, uint64_t points, uint64_t before, int layer);

/* Best first: causes, then what comes nearest. A stable order among equals, for the list begins
 * with the likeliest. */
void search_sort(struct explain *e);

/* Tries an edit at the target. If it restores agreement, it joins the suspects and the trials with
 * this text as its cause. */
__attribute__((format(printf, 3, 4))) int search_propose(struct search *s, struct whatif_edit edit,
                                                         const char *cause, ...);

/* Whether so much has been computed that no more is tried. */
int search_spent(const struct search *s);

/* `n` positions to solve from, at least those of the search, at most those of the reference. */
size_t search_positions(const struct search *s, size_t n);

/* ---- passes (search_pass.c) ---- */

/* NMSE of the worst position at a hook after a pass with an edit (NULL: none) in one layer or (-1)
 * all; INFINITY when the edit does not apply. */
int search_score(struct search *s, const struct whatif_edit *edit, int layer, size_t hook, int feed,
                 double *nmse);

/* search_score without an edit, at the target. It keeps what passes with an edit in one layer begin
 * with. */
int search_as_is(struct search *s, double *nmse);

/* What a pass shows at a hook and at its input. At the scores of attention a row holds all
 * heads. */
struct search_view {
    double *diff, *ours, *in; /* [n][cols] theirs - ours, [n][cols], [n][n_in] */
    size_t n, cols, n_in;
    double square; /* of diff, summed */
};

/* MGPT_EARG: the edit does not apply. */
int search_look(struct search *s, size_t hook, mgpt_point input, size_t n_in, size_t n,
                const struct whatif_edit *edit, struct search_view *view);
void view_free(struct search_view *view);

/* Whether the reference's values at the hook belong to the variant's. Attention of shifted
 * positions, or of another number of heads, has no counterpart. */
int search_comparable(const struct answer *a, const struct whatif *w, size_t hook);

/* ---- whole passes (prove.c) ---- */

/* Finds where a whole pass with an edit differs from the reference; the pass gets no values of it. Returns
 * MGPT_EARG if the edit does not apply. After MGPT_OK the caller frees *l. */
int search_locate(struct search *s, const struct whatif_edit *edit, int layer, struct locate *l);

/* Whether that pass agrees within the bound at every hook, and little is left of the differences:
 * the edit is a cause. */
struct proof {
    int proved;
    int approximate; /* it agrees within the bound, but far worse than noise: no cause */
    double logits;   /* NMSE of the logits */
    size_t reach;    /* the first bad hook; beyond the logits: there is none */
};
int search_prove(struct search *s, const struct whatif_edit *edit, int layer, struct proof *proof);

/* NMSE of the logits at the position where they differ least. */
double search_noise(const struct locate *l);

/* Proves a trial that restores agreement at the target: in all layers; if that fails and only one stage
 * of its kind is wrong, in the layer that was looked at. */
int search_prove_trial(struct search *s, struct explain_trial *trial);

/* Sets trial->cause: the text of its suspect, and its layer if it has one. */
void search_name_trial(const struct search *s, struct explain_trial *trial);

/* ---- tensors of the reference (given.c) ---- */

/* Whether a tensor is a norm's gain, whose values are about 1. */
int given_is_gain(const char *name);

/* Values used instead of a tensor: the file's or, where it has none, ones (gains) or zeros. */
struct whatif_tensor *given_new(struct search *s, const char *name, size_t n);

/* The edit that gives a tensor these values. */
static inline struct whatif_edit given_edit(const struct whatif_tensor *given)
{
    return (struct whatif_edit){.apply = edit_given, .given = given};
}

/* Values at other places, or rows changed as a whole, as an edit. */
static inline struct whatif_edit columns_edit(const struct whatif_columns *columns)
{
    return (struct whatif_edit){.apply = edit_given, .columns = columns};
}

/* How a tensor differs: " (here all ones)", or nothing. sure: as for given_propose. */
enum { GIVEN_HOW = 64 };
int given_how(struct search *s, const struct whatif_tensor *given, int sure, char how[GIVEN_HOW]);

/* Proposes "NAME differs in the reference (here all ones)", after the values have been changed.
 * sure: each of them is the reference's, not only what they do together. */
int given_propose(struct search *s, const struct whatif_tensor *given, int sure);

/* Proposes tensors of many layers as one cause: "NAME.bias differs in the reference, in 3 layers". */
int given_propose_list(struct search *s, const struct whatif_tensor *list, int matrices);

/* Counts the values of `given` that differ from those in the file, in *differ. */
int given_differ(struct search *s, const struct whatif_tensor *given, size_t *differ);

/* A number as %.6g prints it, in `text`, which is returned. */
enum { NUMBER = 24 };
const char *say_number(double x, char text[NUMBER]);

/* ---- solvers: each looks for causes of its kind at the target and proposes them. MGPT_OK also when
 * there is none ---- */

/* Single weights, before any suspect is tried. */
int solve_weights(struct search *s, struct explain_weight *weight);

/* Solves for `count` values of a tensor of n values, from `first` on, that restore agreement at the target.
 * *solved is a copy of the tensor with them; NULL: there are no such values. */
int solve_values(struct search *s, const char *tensor, size_t first, size_t count, size_t n,
                 struct whatif_tensor **solved);

int solve_embeddings(
    struct search *s); /* a row of the embeddings, at the first position that differs */
int solve_columns(
    struct search *s); /* columns that are exchanged, scaled, or have the other sign */
int solve_logit_rows(struct search *s,
                     const struct search_view *logits); /* rows of logits as a whole */
int solve_vectors(struct search *s);                    /* biases and gains of the stage */
int solve_matrix(struct search *s);  /* the whole matrix, where there are positions enough */
int solve_numbers(struct search *s); /* caps, scales, epsilon, rope: rows of suspects.c */
int solve_fits(
    struct search *s); /* any bias or gain, any weight far from the others: small models */

/* Fills e->precision. */
int solve_precision(struct search *s);

/* Fills e->head when the head is the embedding. */
int solve_tied(struct search *s);

#endif
