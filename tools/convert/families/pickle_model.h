/* microgpt in pickles, inside: what pickle_model.c and pickle_matrix.c share. */
#ifndef MGPT_CONVERT_PICKLE_MODEL_H
#define MGPT_CONVERT_PICKLE_MODEL_H

#include "convert/families/microgpt.h"

enum { PM_MAX_NESTING = 8, PM_MAX_PATH = 200 };

struct reading {
    struct mg_parts *m;
    const struct pickle *p;
    uint64_t room; /* values that may still be gathered */
};

static inline const struct pickle_node *pm_at(const struct reading *r, pickle_id id)
{
    return pickle_at(r->p, id);
}

/* A list or a tuple. */
int pm_is_list(const struct reading *r, pickle_id id);

/* The first item of a list, 0 when there is none. */
pickle_id pm_first(const struct reading *r, pickle_id id);

/* A number, or the Value object of one. */
int pm_is_cell(const struct reading *r, pickle_id id);

/* The text of a dict's key; 0 when it is none or too long to be a name. */
int pm_key(const struct reading *r, pickle_id id, char buf[PM_MAX_PATH]);

/* The n cells of a list, in memory that lives as long as the checkpoint; NULL with *err. */
const float *pm_gather(struct reading *r, const char *name, pickle_id list, uint64_t n);

/* All matrices of a value under the name: an array, rows of cells, a list of cells (a gain), a dict of
 * matrices ("NAME.KEY"), a list of dicts ("NAME.i") or of matrices ("NAME_i"). */
int pm_add(struct reading *r, const char *name, pickle_id id);

#endif
