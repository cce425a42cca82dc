/* What mgpt check compares and prints: a table for people, JSON Lines for machines. Each function
 * returns an exit code; a failed write is left for cli_finish. */
#ifndef MGPT_CHECK_REPORT_H
#define MGPT_CHECK_REPORT_H

#include "check/compare/compare.h"
#include "mgpt.h"

struct check_report {
    const mgpt_model *model; /* the model that is checked */
    const struct compare_bounds *bounds;
    int json;
    struct compare_total total;
};

/* One position. */
struct check_place {
    size_t sequence, position;
    int32_t token, next; /* next: -1: none */
};

/* Compares a row of the reference with ours and prints it; EXIT_INTERRUPTED after Ctrl-C. */
int check_report_row(struct check_report *r, const struct check_place *place, const double *values,
                     const struct ref_row *about, const float *ours);

/* Prints what all rows say. *broken: the bounds that are. */
int check_report_verdict(const struct check_report *r, unsigned *broken);

/* The table: a head for sequence i, a line for a position, and the end. 100 columns at most. */
void check_table_head(size_t i, const struct ref_sequence *sequence);
int check_table_row(const mgpt_model *model, const struct check_place *place,
                    const struct compare_row *row);
int check_table_verdict(const struct compare_total *total, const struct compare_bounds *bounds,
                        unsigned broken);

/* Print the comparison as JSON: a record for each position, and one for the verdict. Numbers that are
 * not finite are null. */
int check_json_row(const struct check_place *place, const struct compare_row *row);
int check_json_verdict(const struct compare_total *total, const struct compare_bounds *bounds,
                       unsigned broken);

#endif
