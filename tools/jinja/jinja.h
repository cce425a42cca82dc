/* Chat templates: a small exact interpreter of the part of Jinja 2 that they use.
 *
 * A template is untrusted. It can read the messages and the facts given to it and write text,
 * nothing else: there are no files, no imports and no attributes of anything but these values.
 * Steps, memory and nesting are bounded. What is not in the subset is refused by its name;
 * what is in it writes the characters that transformers' apply_chat_template writes (Jinja's
 * ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks).
 *
 * Every character of the result is known to come from the template or from a message. So control
 * tokens can be taken from the template alone.
 */
#ifndef MGPT_JINJA_H
#define MGPT_JINJA_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

struct jinja;

struct jinja_message {
    const char *role, *text; /* text: n bytes, ill-formed UTF-8 allowed */
    size_t n;
};

/* A variable of the template. JINJA_TEXT: of the vocabulary or the user's options, not a
 * message's. */
struct jinja_fact {
    const char *name;
    enum jinja_fact_type { JINJA_TEXT, JINJA_NUMBER, JINJA_TRUE, JINJA_FALSE, JINJA_NONE } type;
    const char *text;
    size_t n;
    int64_t number;
};

struct jinja_input {
    const struct jinja_message *messages;
    size_t n_messages;
    const struct jinja_fact *facts;
    size_t n_facts;
    int add_generation_prompt;
};

/* stb_ds arrays of one length: bytes, and 1 where the byte is of a message's text. */
struct jinja_output {
    char *text, *typed;
};

/* Reads a template: NULL with *err (MGPT_EFILE) for a syntax error or a tag that is not in the
 * subset. */
struct jinja *jinja_new(const char *text, size_t n, mgpt_error *err);
void jinja_free(struct jinja *t);

/* Runs the template. MGPT_EFILE: it raised an error, used what is not in the subset, or ran too
 * long; MGPT_EMEM. The output is empty after a failure; jinja_output_free frees it. */
int jinja_render(const struct jinja *t, const struct jinja_input *input, struct jinja_output *out,
                 mgpt_error *err);
void jinja_output_free(struct jinja_output *out);

/* 1: the template reads a variable of this name. */
int jinja_reads(const struct jinja *t, const char *name);

#endif
