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

/* Adds suspect *s after setting its cause to the formatted text. */
__attribute__((format(printf, 3, 4))) void list_named(struct suspect_list *l, struct suspect *s,
                                                      const char *cause, ...);

/* The suspect of a row. The caller sets what depends on the model: its cause in words, x, a and b. */
struct suspect suspect_unnamed(const struct suspect_row *row, const char *tensors);

/* Tensors in words: what follows '=', or what the file calls those of the roles "W_Q W_K.bias". Other
 * words, of activations, stay. */
const char *suspect_shown(const struct whatif *w, const char *tensors, char text[SUSPECT_TEXT]);

/* The function that lists the suspects of rows with an operation. */
struct lister {
    whatif_fn *apply;
    enum whatif_change change;
    void (*list)(struct suspect_list *l, const struct suspect_row *row);
};

/* Lists a row's suspects by the one of n listers that is for its operation. 0: none is. */
int list_by(const struct lister *listers, size_t n, struct suspect_list *l,
            const struct suspect_row *row);

/* Rows of operations whose suspects are listed in suspects_parts.c. 0: none is. */
int list_parts(struct suspect_list *l, const struct suspect_row *row);

#endif
