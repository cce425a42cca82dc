/* Text input and output of the tools: prompts, token text on terminals, streams of tokens.
 *
 * Model files and the texts of their tokens are untrusted. Nothing here prints a control character,
 * a change of writing direction or ill-formed UTF-8 to a terminal.
 */
#ifndef MGPT_TEXT_H
#define MGPT_TEXT_H

#include "common/cli.h"
#include "common/jtext.h"
#include "common/stops.h"
#include "common/unescape.h"
#include "mgpt.h"

#include <stdio.h>

/* The text of -p or -f (at most one of them is not NULL): malloc'ed, exact bytes. Returns an
 * exit code; a failure has been printed. */
int text_prompt(const struct cli_command *command, const char *text, const char *file, char **bytes,
                size_t *n_bytes);

/* Gives the text as text_prompt; a file is read within limits. */
int text_prompt_limited(const struct cli_command *command, const char *text, const char *file,
                        struct cli_limits limits, char **bytes, size_t *n_bytes);

/* The line at *at, which is before end: sets *line, returns its length without "\n" or "\r\n", and
 * moves *at to the next one. */
size_t text_cut_line(const char **at, const char *end, const char **line);

/* Python's str.isspace. */
int text_is_space(uint32_t code);

/* The next id of a list of numbers separated by spaces or commas; *at moves past it. Returns 1,
 * 0 at the end, -1 if it is not a number (*at points to it). */
int text_next_id(const char **at, int32_t *id);

/* Prints bytes in quotes, with everything invisible or dangerous escaped: \n \t \" \\ \u{202E}
 * for characters, \xFF for bytes that are not UTF-8. text_unescape reads all of these. */
void text_print_quoted(FILE *to, const char *bytes, size_t n_bytes);

/* Prints a token: its bytes in quotes, or its name (<BOS>) if it has none. */
void text_print_token(FILE *to, const mgpt_model *model, int32_t token);

/* Writes what text_print_token prints to out[cap], cut to `columns` columns. 0: out of memory, *out is
 * empty. */
int text_token_label(const mgpt_model *model, int32_t token, size_t columns, char *out, size_t cap);

/* How much of a name from a file an error line shows: at most TEXT_SHOW bytes, whole characters.
 * TEXT_CLIP gives both arguments of %.*s. */
enum { TEXT_SHOW = 48 };
#define TEXT_CLIP(p, n) text_clip((p), (n)), (p)
int text_clip(const char *p, size_t n);

/* Prints a value as one line of JSON Lines on stdout and frees it. On a terminal non-ASCII is escaped. Returns an exit code; cli_finish reports a failed write. */
int text_json_line(struct jtext *value);

/* Receives tokens and writes whole characters to a file; if `to` is NULL they stay in the
 * buffer. A terminal gets each token at once, a file gets larger blocks. */
struct text_out {
    const mgpt_model *model;
    FILE *to;
    int ids;      /* 1: no vocabulary: the text is ids separated by spaces */
    size_t n_ids; /* ids so far */
    int terminal; /* 1: `to` is a terminal: escape, and flush after each token */
    mgpt_stream stream;
    size_t n_streamed;         /* bytes of tokens */
    size_t n_again;            /* of the next tokens those that are in the text already */
    char *buffer;              /* stb_ds array: not yet written */
    const struct stops *stops; /* NULL: none */
    size_t from; /* in the buffer: text before it was not drawn, stop texts begin later */
    const struct stop *stopped; /* the stop text that the text ended before */
    mgpt_error failed;
};

void text_out_open(struct text_out *out, const mgpt_model *model, FILE *to);

/* Adds a token; quietly != 0: advances the stream but shows nothing (a hidden prompt). */
void text_out_token(struct text_out *out, int32_t token, int quietly);

/* Adds n tokens whose bytes those of the next tokens begin with: these are then not added again. */
void text_out_before(struct text_out *out, const int32_t *tokens, size_t n, int quietly);

/* From here on the text is drawn: it ends before the first of the stop texts, and what may be the beginning of one
 * is not written until that is known. */
void text_out_drawn(struct text_out *out, const struct stops *stops);

/* How many of the last bytes up to `length` in the buffer may be the beginning of a stop text. */
size_t text_out_held(const struct text_out *out, size_t length);

/* Adds n bytes of text. */
void text_out_bytes(struct text_out *out, const char *bytes, size_t n);

/* Where a text that stays in the buffer has got to, and back to there. */
struct text_mark {
    size_t length, n_ids, n_again;
    mgpt_stream stream;
};
struct text_mark text_out_mark(const struct text_out *out);
void text_out_back(struct text_out *out, struct text_mark mark);

/* Ends a text: held bytes are written. The next token begins a new text. */
void text_out_end(struct text_out *out);

void text_out_clear(struct text_out *out);
void text_out_close(struct text_out *out);

#endif
