/* JSON text to a tree of jansson, distinguishing bad text from lack of memory. For texts of the size of
 * a configuration: others are for jval.h. */
#ifndef MGPT_JSON_READ_H
#define MGPT_JSON_READ_H

#include "mgpt.h"

#include <jansson.h>
#include <stddef.h>

/* 1: v, which may be NULL, has the type, or is a number. Functions, because jansson's macros
 * evaluate their argument up to four times. */
int json_is(const json_t *v, json_type type);
int json_is_numeric(const json_t *v);

/* json_loadb. NULL with *where, the error in the text; its code is json_error_out_of_memory if
 * and only if an allocation failed. */
json_t *json_read(const void *text, size_t n, size_t flags, json_error_t *where);

/* 1: json_read failed for lack of memory; *err is set. */
int json_read_no_memory(const json_error_t *where, size_t n, mgpt_error *err);

/* The byte offset of *where. */
uint64_t json_read_offset(const json_error_t *where);

#endif
