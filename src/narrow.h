/* Floor 4. Narrow models: which ones the fused step can run, and what it needs of them. See
 * narrow.c. */
#ifndef MGPT_NARROW_H
#define MGPT_NARROW_H

#include "model.h"

/* Fills m->narrow when the bound model is a narrow one; otherwise it stays NULL. */
int narrow_init(mgpt_model *m, mgpt_error *err);

#endif
