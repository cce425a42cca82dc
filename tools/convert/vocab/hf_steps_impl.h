/* Private to hf_steps.c and hf_decoders.c: lists of steps being made. */
#ifndef MGPT_CONVERT_HF_STEPS_IMPL_H
#define MGPT_CONVERT_HF_STEPS_IMPL_H

#include "convert/vocab/hf_steps.h"

/* One list being made. */
struct steps_writer {
    struct hf_tok *t;
    const char *part;       /* "normalizer", for messages */
    struct gguf_str **list; /* of c->vocab */
};

typedef void component_fn(struct steps_writer *w, const struct jval *part);

/* The rows of a table end with type NULL. */
struct component_row {
    const char *type;
    component_fn *add;
};

/* A component by its row, or the members of a sequence (depth: of sequences around it). */
void steps_component(struct steps_writer *w, const struct jval *part,
                     const struct component_row *rows, const char *members, int depth);

/* Appends words: names and arguments. steps_words: up to three, NULL ends them. */
void steps_word(struct steps_writer *w, const char *word);
void steps_words(struct steps_writer *w, const char *a, const char *b, const char *c);
component_fn steps_bytes; /* the step "bytes" */

/* "FILE: PART TYPE: WHAT" */
_Noreturn void steps_refuse(const struct steps_writer *w, const struct jval *part,
                            const char *what);

/* The text of a key, "" without one. */
const char *steps_string(const struct jval *object, const char *key);

/* Metaspace's: "always", "first", or NULL for never. */
const char *steps_scheme(const struct jval *part);

void hf_decoders_read(struct hf_tok *t, const struct jval *root);

#endif
