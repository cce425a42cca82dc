/* Small models: chooses the fused path and lays out the weights for it. See fused_model.c. */
#ifndef MGPT_FUSED_MODEL_H
#define MGPT_FUSED_MODEL_H

#include "model/model.h"

/* Sets m->fused if the bound model can take the fused path, else leaves it NULL. MGPT_OK or
 * MGPT_EMEM. */
int fused_init(mgpt_model *m, mgpt_error *err);

#endif
