/* What a lab page says about its model, as JSON: sizes, hooks, vocabulary, the tokens that it
 * begins with. */
#ifndef MGPT_LAB_ABOUT_H
#define MGPT_LAB_ABOUT_H

#include "common/jtext.h"
#include "engine/engine.h"
#include "engine/hooks.h"

struct about {
    const struct engine *engine;
    const struct hook *hooks; /* stb_ds array */
    const int32_t *tokens;
    size_t n_tokens;
    uint64_t hash;      /* XXH64 of the model's file */
    const char *reason; /* why the page is not live; NULL: the page is live */
};

/* A JSON object with all that the page knows about its model. */
struct jtext *about_json(const struct about *about);

#endif
