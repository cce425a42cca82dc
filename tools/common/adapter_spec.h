/* --lora FILE[:SCALE]: the file or directory of an adapter, and its strength. */
#ifndef MGPT_ADAPTER_SPEC_H
#define MGPT_ADAPTER_SPEC_H

#include "mgpt.h"

struct adapter_spec {
    char *path; /* malloc'ed */
    double scale;
};

/* What follows the last colon is the scale (1 without one), unless a file of the whole name exists.
 * On failure path is NULL. Errors: MGPT_EARG for a scale that is not a finite number. */
int adapter_spec_read(const char *text, struct adapter_spec *spec, mgpt_error *err);

#endif
