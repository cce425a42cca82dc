/* How a model's author would draw its tokens: general.sampling.* of the file, whose names are llama.cpp's. generate, the
 * repl and Python take these where nothing else is said; what scores or compares never does. */
#ifndef MGPT_AUTHOR_H
#define MGPT_AUTHOR_H

#include "mgpt.h"

enum { AUTHOR_MOST = 8 };

struct author_setting {
    const char *name; /* of an option of generate: "top-p" */
    char text[100];   /* its value: "0.95" */
};

/* Stores the settings of the file and returns their number. MGPT_EFILE with *err: a value that is not a number. Their
 * ranges are those of the options. */
int author_read(const mgpt_model *model, struct author_setting settings[AUTHOR_MOST],
                mgpt_error *err);

/* 1 if the file says in which order samplers apply, which is not followed. */
int author_orders(const mgpt_model *model);

/* All logits of a model that was opened with top_k are exact from now on. Before its first session. */
void author_needs_all(mgpt_model *model);

#endif
