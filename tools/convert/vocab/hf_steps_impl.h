/* Private to hf_steps.c and hf_decoders.c: lists of steps being made. */
#ifndef MGPT_CONVERT_HF_STEPS_IMPL_H
#define MGPT_CONVERT_HF_STEPS_IMPL_H

#include "convert/vocab/hf_steps.h"

/* One list being made. */
struct steps_writer {
    struct hf_tok *t;
    const char *part;       /* "normalizer", for messages */
    struct gguf_str **list; /* of c->vocab */
    mgpt_error *err;
};

typedef int component_fn(struct steps_writer *w, const struct jval *part);

/* The rows of a table end with type NULL. */
struct component_row {
    const char *type;
    component_fn *add;
};

/* A component by its row, or the members of a sequence (depth: of sequences around it). */
int steps_component(struct steps_writer *w, const struct jval *part,
                    const struct component_row *rows, const char *members, int depth);

/* Appends words: names and arguments. steps_words: up to three, NULL ends them. */
int steps_word(struct steps_writer *w, const char *word);
int steps_words(struct steps_writer *w, const char *a, const char *b, const char *c);
component_fn steps_bytes; /* the step "bytes" */

/* "FILE: PART TYPE: WHAT" */
int steps_refuse(const struct steps_writer *w, const struct jval *part, const char *what);

/* The text of a key, "" without one. */
const char *steps_string(const struct jval *object, const char *key);

/* Metaspace's: "always", "first", or NULL for never. */
const char *steps_scheme(const struct jval *part);

int hf_decoders_read(struct hf_tok *t, const struct jval *root, mgpt_error *err);

#endif
