/* JSON written piece by piece: a record of a long text has many numbers. The bytes are those of jansson's
 * JSON_COMPACT, but characters that a terminal hides or obeys are escaped. Allocates nothing. jtext.h builds
 * values in memory. */
#ifndef MGPT_JSON_OUT_H
#define MGPT_JSON_OUT_H

#include "base/utf8.h"
#include "common/jval.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
    FILE *to;
    int ascii; /* 1: what is not ASCII is escaped */
};

enum { JSON_ESCAPE = 13, JSON_NUMBER = 40 }; /* room for json_escape and json_number */

/* 1: the byte is in a string as it is. */
static inline int json_is_plain(unsigned char c)
{
    return c >= 32 && c < 127 && c != '"' && c != '\\';
}

/* 1: the character is escaped in every output. Bytes that are not UTF-8 become U+FFFD, which is shown. */
static inline int json_is_escaped(uint32_t code)
{
    if (code < 128)
        return !json_is_plain((unsigned char)code);
    return code != UTF8_BAD && (utf8_dangerous(code) || utf8_hidden(code));
}

/* The escape of a character, NUL-terminated; returns its length. */
size_t json_escape(char to[JSON_ESCAPE], uint32_t code);

/* The text of a number of `digits` digits; null for what JSON has no number for. */
void json_number(char to[JSON_NUMBER], double v, int digits);

/* Writes a string; the bytes must be UTF-8. */
void json_out_string(struct json_out *out, const char *p, size_t n);

/* Writes a number with 17 digits, or null. */
void json_out_real(struct json_out *out, double v);

/* Writes a record, and a line end, of a line that is refused: its error, its id (NULL: none; then the line's
 * number, which depends on what is given with it) and the offset. */
void json_out_refused(struct json_out *out, const struct jval *id, size_t line,
                      const mgpt_error *wrong);

/* Writes a value, with what is in it. */
void json_out_value(struct json_out *out, const struct jval *v);

#endif
