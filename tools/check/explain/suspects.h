/* The usual suspects: what goes wrong between two programs that should compute the same model. */
#ifndef MGPT_SUSPECTS_H
#define MGPT_SUSPECTS_H

#include "check/explain/whatif.h"

enum { SUSPECT_TEXT = 160 };

struct suspect {
    char cause[SUSPECT_TEXT]; /* "rope base 10000, not 500000": what the reference does */
    uint64_t points;          /* where its effect shows first, bits of mgpt_point */
    int per_layer;            /* may be wrong in one layer only */
    struct whatif_edit edit;
    int common;    /* two of these are tried together */
    int is_switch; /* a configuration has it: three of these are tried together */
};

/* A row of the table: one cause, or one for each of its numbers or lists of tensors. */
struct suspect_row {
    /* printf format of the number or the tensors; "A|B": B if the member is set. */
    const char *text;
    uint64_t points; /* 0: those of the tensors */
    int per_layer;
    struct whatif_edit edit;
    const double *numbers;      /* n of them, one suspect each */
    const char *const *tensors; /* n of them, one suspect each: "W_Q W_K=q and k" */
    size_t n;
    size_t size;      /* the number is edit.x times this member of oracle_spec ... */
    double power;     /* ... to this power */
    double starts[4]; /* the number is also solved for, from these; 0 ends them */
    size_t common;    /* how many of its suspects, the first ones, are common ... */
    size_t switches;  /* ... and switches of a configuration */
};

/* The table, for what solves for numbers. */
extern const struct suspect_row suspect_rows[];
extern const size_t n_suspect_rows;

/* The cause that row is with number x. */
struct suspect suspect_of(const struct suspect_row *row, const struct whatif *w, double x,
                          const char *tensors);

/* All that could apply to the model, the commonest first: an stb_ds array, NULL when out of
 * memory. first_bad: the first position that differs. */
struct suspect *suspects_list(const struct whatif *model, size_t first_bad, mgpt_error *err);

#endif
