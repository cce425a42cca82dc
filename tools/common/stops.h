/* Stop texts: a text that is drawn ends before the first of them that it has.
 *
 * They are compared as bytes, wherever the borders of tokens lie. The first to be complete counts; of those that
 * are complete at the same byte the longest.
 */
#ifndef MGPT_STOPS_H
#define MGPT_STOPS_H

#include "common/cli.h"
#include "mgpt.h"

#include <stddef.h>

struct stop {
    char *bytes; /* malloc'ed */
    size_t n;    /* > 0 */
};

struct stops {
    struct stop list[CLI_MAX_MANY]; /* longest first */
    size_t n;
};

/* Takes the values of an option with the escapes of text_unescape. Tells the user what is wrong with one: it is
 * empty, has a bad escape, is not UTF-8, or the model has no texts. Returns an exit code. */
int stops_open(struct stops *stops, const struct cli_command *command, const char *option,
               const struct cli_many *texts, const mgpt_model *model);

/* Adds n > 0 bytes to fewer than CLI_MAX_MANY texts. 0: out of memory. */
int stops_add(struct stops *stops, const char *bytes, size_t n);
void stops_close(struct stops *stops);

/* The stop text that ends first among the bytes [before, n) and begins at `from` or later; NULL: none.
 * *at: where it begins. */
const struct stop *stops_find(const struct stops *stops, const char *bytes, size_t from,
                              size_t before, size_t n, size_t *at);

/* How many of the last bytes of [from, n) may be the beginning of a stop text. */
size_t stops_held(const struct stops *stops, const char *bytes, size_t from, size_t n);

#endif
