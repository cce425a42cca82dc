/* Shared by the files that parse expressions: pattern.c has their structure, pattern_codes.c their characters. */
#ifndef MGPT_PATTERN_IMPL_H
#define MGPT_PATTERN_IMPL_H

#include "choose/pattern.h"

/* A part of the automaton: `end` is a fork without a way out yet. */
struct pattern_part {
    int32_t start, end;
};

struct pattern_reader {
    struct pattern *p;
    const char *text;
    size_t n, at;
    int depth;
    int in_json; /* characters are written as JSON strings have them: (?j: */
    mgpt_error *err;
};

/* Notes what is wrong, if nothing was. Returns 0. */
int pattern_refuse(struct pattern_reader *r, size_t at, const char *what);

/* A new state, or -1. */
int32_t pattern_state(struct pattern_reader *r, int low, int high, int32_t a, int32_t b);
int32_t pattern_fork(struct pattern_reader *r, int32_t a, int32_t b);

/* Reads a character, or what is after a backslash: a class, added to c (*code is then UINT32_MAX), or a character.
 * inverted: the class is taken away from all characters. 0: refused. */
int pattern_code(struct pattern_reader *r, uint32_t *code);
int pattern_escape(struct pattern_reader *r, struct code_ranges *c, int inverted, uint32_t *code);

/* Reads [...], after the bracket. 0: refused. */
int pattern_class(struct pattern_reader *r, struct code_ranges *c);

/* The part that reads one of these characters. 0: refused. */
int pattern_codes(struct pattern_reader *r, const struct code_ranges *c, struct pattern_part *out);

#endif
