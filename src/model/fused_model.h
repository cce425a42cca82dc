/* Small models: chooses the fused path and lays out the weights for it. See fused_model.c. */
#ifndef MGPT_FUSED_MODEL_H
#define MGPT_FUSED_MODEL_H

#include "model/model.h"

/* 1 if the bound model can take the fused path. */
int fused_fits(const mgpt_model *m);

/* Sets m->fused of a packed model that fits. MGPT_OK or MGPT_EMEM. */
int fused_init(mgpt_model *m, mgpt_error *err);

#endif
