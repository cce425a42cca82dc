/* The keys of a file that can change logits, and what mgpt makes of each. */
#ifndef MGPT_KNOWN_KEYS_H
#define MGPT_KNOWN_KEYS_H

#include "model/model.h"

/* Refuses keys that may change logits and that nothing reads. MGPT_OK or MGPT_EFILE. */
int model_check_keys(const mgpt_model *m, mgpt_error *err);

#endif
