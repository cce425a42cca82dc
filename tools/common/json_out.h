/* JSON written piece by piece, with the bytes that jansson's JSON_COMPACT has and without its tree: a
 * record of a long text has many numbers. Allocates nothing. */
#ifndef MGPT_JSON_OUT_H
#define MGPT_JSON_OUT_H

#include "common/jval.h"

#include <stddef.h>
#include <stdio.h>

struct json_out {
    FILE *to;
    int ascii; /* 1: what is not ASCII is escaped */
};

/* Writes a string; the bytes must be UTF-8. */
void json_out_string(struct json_out *out, const char *p, size_t n);

/* Writes a number; null for what JSON has no number for. */
void json_out_real(struct json_out *out, double v);

/* Writes a value, with what is in it. */
void json_out_value(struct json_out *out, const struct jval *v);

#endif
