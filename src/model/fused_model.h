/* Small models: which ones take the fused path, and their weights laid out for it. See
 * fused_model.c. */
#ifndef MGPT_NARROW_H
#define MGPT_NARROW_H

#include "model/model.h"

/* Fills m->fused if the bound model is small and plain enough; otherwise it stays NULL. MGPT_OK or
 * MGPT_EMEM. */
int fused_init(mgpt_model *m, mgpt_error *err);

#endif
