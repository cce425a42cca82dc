/* JSON text to a tree, with an answer to "was it the text, or memory?"; and the same for trees that are
 * built and written. */
#ifndef MGPT_JSON_READ_H
#define MGPT_JSON_READ_H

#include "mgpt.h"

#include <jansson.h>
#include <stddef.h>

/* Whether v, which may be NULL, is of a type, or a number. Functions: jansson's macros look at their argument
 * up to four times. */
int json_is(const json_t *v, json_type type);
int json_is_numeric(const json_t *v);

/* json_loadb. NULL with *where, what is wrong with the text; its code is json_error_out_of_memory if and
 * only if an allocation failed. */
json_t *json_read(const void *text, size_t n, size_t flags, json_error_t *where);

/* From here on jansson's allocations are watched; json_has_lost says whether one has failed since then or
 * since the last json_read. What has been built or written may then lack something, although jansson
 * said nothing. */
void json_watch(void);
int json_has_lost(void);

/* Whether that was it; then *err says so. */
int json_read_no_memory(const json_error_t *where, size_t n, mgpt_error *err);

/* The byte that *where names. */
uint64_t json_read_offset(const json_error_t *where);

#endif
