/* The run that a page without recomputation shows: all values of a prompt, what the model would say
 * after every half layer, and which parts speak for the likeliest and for the true next token. */
#ifndef MGPT_LAB_RECORD_H
#define MGPT_LAB_RECORD_H

#include "common/jtext.h"
#include "engine/hooks.h"
#include "lab/page_out.h"

enum { RECORD_TOP = 32 }; /* tokens of a logit lens */

struct record_of_run {
    mgpt_model *model;
    const struct hook *hooks; /* stb_ds array */
    const int32_t *tokens;
    size_t n_tokens;
    size_t n_choices; /* tokens that may come next */
};

/* Bytes of all values; UINT64_MAX when that overflows. */
uint64_t record_size(const struct record_of_run *run);

/* Runs the tokens, writes the values as the page's block "mgpt-trace", and adds to `about` where
 * each is ("trace"), "lens" and "dla". Takes the model and frees it. A negative status, or 1: the
 * user has pressed Ctrl-C. */
int record_put(const struct record_of_run *run, struct page_out *page, struct jtext *about,
               mgpt_error *err);

#endif
