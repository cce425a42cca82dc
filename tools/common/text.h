/* Text on its way in and out of the tools: prompts, token text on terminals, streams of tokens.
 *
 * A model file is hostile input, and so is the text of its tokens: nothing here lets a control
 * character, a change of writing direction or ill-formed UTF-8 reach a terminal.
 */
#ifndef MGPT_TEXT_H
#define MGPT_TEXT_H

#include "common/cli.h"
#include "mgpt.h"

#include <jansson.h>
#include <stdio.h>

/* The text of -p or -f (at most one of them is not NULL): malloc'ed, exact bytes. Returns an exit
 * code; after a failure the user has been told. */
int text_prompt(const struct cli_command *command, const char *text, const char *file, char **bytes,
                size_t *n_bytes);

/* The same with limits for a file. */
int text_prompt_limited(const struct cli_command *command, const char *text, const char *file,
                        struct cli_limits limits, char **bytes, size_t *n_bytes);

/* The next id of a list of numbers separated by spaces or commas; *at moves behind it. Returns 1, 0
 * at the end, -1 for what is not a number (*at is then there). */
int text_next_id(const char **at, int32_t *id);

/* Prints bytes between quotes, everything invisible or dangerous escaped: \n \t \" \\ \u{202E} for
 * characters, \xFF for bytes that are not UTF-8. text_unescape reads all of these back. */
void text_print_quoted(FILE *to, const char *bytes, size_t n_bytes);

/* Undoes the escapes of text_print_quoted in place; returns the new length, or -1 when a backslash
 * does not begin one of them. */
int64_t text_unescape(char *bytes, size_t n_bytes);

/* A token as people should see it: its bytes in quotes, or its name (<BOS>) when it has none. */
void text_print_token(FILE *to, const mgpt_model *model, int32_t token);

/* Prints a value as one line of JSON Lines on stdout and releases it; NULL (it could not be made)
 * is out of memory. On a terminal all but ASCII is escaped. Returns an exit code; a failed write is
 * left for cli_finish. */
int text_json_line(json_t *value);

/* 1 for a model without a vocabulary: it runs on ids. */
int text_is_none(const mgpt_model *model);

/* Receives tokens, gives whole characters to a file or, when `to` is NULL, leaves them in the buffer.
 * A terminal gets each token at once, a file gets what has come together. */
struct text_out {
    const mgpt_model *model;
    FILE *to;
    int ids;      /* the model has no vocabulary: ids with spaces between are the text, */
    size_t n_ids; /* that many so far */
    int terminal; /* `to` is one: escape what it must not see, and flush after each token */
    int hold;     /* 1: nothing goes to `to` before the text ends, or this is 0 at a token */
    mgpt_stream stream;
    char *buffer; /* stb_ds array: what has not been handed on */
    mgpt_error failed;
};

void text_out_open(struct text_out *out, const mgpt_model *model, FILE *to);

/* Adds a token; quietly != 0: keeps the place in the stream but shows nothing (a prompt that is not
 * to be printed). */
void text_out_token(struct text_out *out, int32_t token, int quietly);

/* Ends a text: what is held back comes out. The next token begins a new text. */
void text_out_end(struct text_out *out);

/* Forgets the collected buffer. */
void text_out_clear(struct text_out *out);
void text_out_close(struct text_out *out);

#endif
