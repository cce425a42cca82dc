/* mgpt check, after the verdict: where two programs begin to differ and why; and the comparison of
 * two models. Each function prints its own messages and returns an exit code. */
#ifndef MGPT_CHECK_INSIDE_H
#define MGPT_CHECK_INSIDE_H

#include "check/compare/compare.h"
#include "engine/engine.h"

struct check_inside {
    const struct engine *engine;
    struct reference *reference;
    const char *path; /* of the reference */
    const struct compare_bounds *bounds;
    size_t sequence; /* the sequence to examine */
    size_t limit;    /* the most positions to examine; 0: all */
    int explain, json;
};

/* Walks the reference's inner values, if it has any, and looks for the cause, if that was asked
 * for. */
int check_inside(const struct check_inside *inside);

enum {
    CHECK_TOKENS = 256,      /* of a text, unless --tokens says otherwise */
    CHECK_TOKEN_BYTES = 1024 /* more than any token takes */
};

struct check_models {
    struct engine *a; /* the model that b is compared with; open, with a session */
    const char *path_b, *kv_b;
    const char *text; /* NULL: a fixed text */
    size_t n_text;
    size_t limit; /* the most positions to compare; 0: chosen */
    const struct compare_bounds *bounds;
    int json;
};

/* The logits of two models of one vocabulary on a text. */
int check_models(const struct check_models *models);

/* Whether the file begins as a GGUF file does; negative when it cannot be read. */
int check_is_model(const char *path, mgpt_error *err);

#endif
