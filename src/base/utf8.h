/* UTF-8, one character at a time. */
#ifndef MGPT_UTF8_H
#define MGPT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_BAD 0xFFFFFFFFu /* not a code point: ill-formed here */

/* Decodes the character at p (n >= 1 bytes left). Returns its length and stores the code point; an
 * ill-formed byte (overlong, surrogate, beyond U+10FFFF, stray, cut off) gives length 1 and
 * UTF8_BAD. */
size_t utf8_next(const char *p, size_t n, uint32_t *code);

/* 1 for characters that are unsafe on a terminal: controls (C0, DEL, C1), line and paragraph
 * separators, marks and overrides of the writing direction, and UTF8_BAD. */
int utf8_dangerous(uint32_t code);

/* 1 for characters that show nothing on a screen and can hide a text in another: zero-width space,
 * byte order mark, tags (U+E0000 and following), noncharacters. */
int utf8_hidden(uint32_t code);

/* 1 for the characters of utf8_hidden, and for those that show nothing but are part of how some scripts
 * and emoji are written: joiners, variation selectors, fillers. */
int utf8_invisible(uint32_t code);

/* Bytes of well-formed UTF-8 at p: n, or where the first ill-formed byte is. */
size_t utf8_well_formed(const char *p, size_t n);

/* Number of bytes at the end of p that begin an incomplete character: 0 to 3. */
size_t utf8_incomplete(const char *p, size_t n);

/* Encodes one character; returns 1 to 4 bytes. UTF8_BAD and surrogates become U+FFFD. */
size_t utf8_put(uint32_t code, char *out);

#endif
