/* JSON text to a tree of jansson, distinguishing bad text from lack of memory; also for trees that
 * are built and written. For texts of the size of a configuration: others are for jval.h. */
#ifndef MGPT_JSON_READ_H
#define MGPT_JSON_READ_H

#include "common/files.h"
#include "mgpt.h"

#include <jansson.h>
#include <stddef.h>

/* 1: v, which may be NULL, has the type, or is a number. Functions, because jansson's macros
 * evaluate their argument up to four times. */
int json_is(const json_t *v, json_type type);
int json_is_numeric(const json_t *v);

/* Arrays of whole numbers; NULL if an allocation failed. */
json_t *json_ids(const int32_t *values, size_t n);
json_t *json_shape(const uint64_t *dims, size_t n);

/* json_loadb. NULL with *where, the error in the text; its code is json_error_out_of_memory if
 * and only if an allocation failed. */
json_t *json_read(const void *text, size_t n, size_t flags, json_error_t *where);

/* Watches jansson's allocations. json_has_lost returns 1 if one has failed since then or since
 * the last json_read: what was built or written may be incomplete without an error from jansson. */
void json_watch(void);
int json_has_lost(void);

/* 1: json_read failed for lack of memory; *err is set. */
int json_read_no_memory(const json_error_t *where, size_t n, mgpt_error *err);

/* Writes a tree, which was built after json_watch, as one line to a new file, whole or not at all;
 * NULL counts as out of memory. A status. */
int json_write(const json_t *tree, const char *path, enum files_kind kind, mgpt_error *err);

/* The byte offset of *where. */
uint64_t json_read_offset(const json_error_t *where);

#endif
