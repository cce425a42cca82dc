/* Inside the list of suspects: what its parts share. See suspects.h. */
#ifndef MGPT_SUSPECTS_IMPL_H
#define MGPT_SUSPECTS_IMPL_H

#include "check/explain/suspects.h"

struct suspect_list {
    struct suspect *rows; /* stb_ds array */
    const struct whatif *w;
    size_t first_bad; /* the first position that differs */
    int failed;
};

void list_suspect(struct suspect_list *l, struct suspect s);

/* A row's suspect without its cause in words, x and a, b. */
struct suspect suspect_unnamed(const struct suspect_row *row, const char *tensors);

/* Rows of operations whose suspects are listed in suspects_parts.c. 0: none is. */
int list_parts(struct suspect_list *l, const struct suspect_row *row);

#endif
