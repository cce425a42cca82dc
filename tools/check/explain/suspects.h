/* The usual suspects: what goes wrong between two programs that should compute the same model. */
#ifndef MGPT_SUSPECTS_H
#define MGPT_SUSPECTS_H

#include "check/explain/whatif.h"

struct suspect {
    char cause[144]; /* "rope base 10000, not 500000": what the reference does */
    uint64_t points; /* where its effect shows first, bits of mgpt_point */
    int per_layer;   /* may be wrong in one layer only */
    double x;
    int a, b;
    const char *s, *t;
    const struct whatif_tensor *given; /* what solved ones put in the file's place */
    const struct whatif_columns *columns;
    /* Makes the change, in one layer or (-1) in all. 0: it would change nothing, or does not apply. */
    int (*apply)(struct whatif *w, const struct suspect *suspect, int layer);
};

/* All that could apply to the model, the commonest first: an stb_ds array, NULL when out of memory. */
struct suspect *suspects_list(const struct whatif *model, mgpt_error *err);

#endif
