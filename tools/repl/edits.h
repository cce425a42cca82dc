/* Edits: what a user takes out of a model or weakens while it runs. An edit acts on what one head
 * reads (its z, before the output matrix), or on the output of one layer's MLP, in every position.
 *
 * There is at most one edit for each head and MLP; a later one replaces it.
 */
#ifndef MGPT_EDITS_H
#define MGPT_EDITS_H

#include "mgpt.h"

enum edit_kind { EDIT_ZERO, EDIT_MEAN, EDIT_SCALE };

struct edit {
    enum edit_kind kind;
    int32_t layer, head; /* head -1: the layer's MLP */
    float factor;        /* EDIT_SCALE */
    float *mean;         /* EDIT_MEAN: edits_width values, malloc'ed */
};

struct edits {
    struct edit *list; /* stb_ds array (mem.h) */
    const mgpt_model *model;
    int32_t n_embd; /* the model's, as the caller sets them */
};

/* The points that must be tapped for these edits; 0 without any. */
uint64_t edits_points(const struct edits *edits);

/* Changes what a tap sees, in place. Values that no edit is about stay as they are. */
void edits_apply(const struct edits *edits, const mgpt_value *value);

/* Where an edit acts: the point, and the columns [first, first + width) of its rows. */
mgpt_point edit_point(const struct edit *edit);
size_t edit_first(const struct edits *edits, const struct edit *edit);
size_t edit_width(const struct edits *edits, const struct edit *edit);

/* Adds an edit in place of an earlier one for the same head or MLP; owns its mean from then on.
 * Returns 0 when out of memory: nothing has changed and the mean is still the caller's. */
int edits_set(struct edits *edits, struct edit edit);

/* Takes the edit of a head or MLP away; 0: there is none. */
int edits_remove(struct edits *edits, int32_t layer, int32_t head);

/* A copy of its own; 0 when out of memory. */
int edits_copy(struct edits *to, const struct edits *from);

/* Forgets all edits. */
void edits_clear(struct edits *edits);

#endif
