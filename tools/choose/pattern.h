/* Regular expressions as automata over bytes: what a text may go on with so that it can still match.
 *
 *   pattern  parsed: states that read a range of bytes, and empty steps between them (Thompson 1968)
 *   automaton  deterministic, made as it is walked: a state is a set of the pattern's
 *
 * The whole text must match. Syntax, on characters of UTF-8: . [a-z] [^a] \d \w \s \D \W \S (ASCII), \n \t \r \xHH
 * \uHHHH \u{HHHHH}, ( ) (?: ) |, * + ? {m} {m,} {m,n}; ^ at the beginning and $ at the end may be there. Refused by name:
 * look-around, back references, \b. In (?j: ) a character is written as JSON strings have it: what needs an escape has
 * one, control characters but \b \f \n \r \t cannot be written, and ., \s, \w
 * and \d mean what is common to JavaScript and Python: \D is below U+0660, \W is ASCII.
 */
#ifndef MGPT_PATTERN_H
#define MGPT_PATTERN_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

enum { PATTERN_END = -1, PATTERN_FORK = -2 }; /* in place of `low` */
enum { PATTERN_STATES = 200000, AUTOMATON_STATES = 50000 };
enum { AUTOMATON_DEAD = -1, AUTOMATON_UNKNOWN = -2, AUTOMATON_FAILED = -3 };

struct pattern_state {
    int16_t low, high; /* reads a byte low .. high and goes to a; or one of PATTERN_* */
    int32_t a, b;      /* of a fork: to both (-1: none) */
};

struct pattern {
    struct pattern_state *states; /* stb_ds array */
    int32_t start;
};

/* Characters of a class. */
enum { CODE_RANGES = 128, CODE_MOST = 0x10FFFF };
struct code_ranges {
    uint32_t low[CODE_RANGES], high[CODE_RANGES];
    size_t n;
};

/* Adds characters; makes it all others. 0: more than CODE_RANGES. */
int codes_add(struct code_ranges *c, uint32_t low, uint32_t high);
int codes_invert(struct code_ranges *c);
int codes_have(const struct code_ranges *c, uint32_t code);

/* Adds what . means. 0: too many ranges. */
int codes_any(struct code_ranges *c, int in_json);

/* Adds \d, \w, \s or their opposites; `inverted`: to what is taken away. 1; 0: no such class; -1: too many ranges. */
int codes_named(struct code_ranges *c, char letter, int in_json, int inverted);

/* Adds the characters that need no escape in a JSON string. 0: too many ranges. */
int codes_without_escapes(const struct code_ranges *c, struct code_ranges *plain);

/* MGPT_OK; MGPT_EARG with what is wrong, and where in the text, or MGPT_EMEM. */
int pattern_parse(struct pattern *p, const char *text, size_t n, mgpt_error *err);
void pattern_free(struct pattern *p);

struct automaton_state {
    int32_t first, n; /* the pattern's states, in automaton.members */
    int32_t next;     /* with the same hash; -1: none */
    int accepts;
    int32_t to[256]; /* or AUTOMATON_DEAD, AUTOMATON_UNKNOWN */
};

struct automaton {
    struct pattern pattern;         /* a copy: its states must stay */
    struct automaton_state *states; /* stb_ds array */
    int32_t *members;               /* stb_ds array */
    int32_t *buckets;               /* [AUTOMATON_BUCKETS] */
    uint32_t *mark;                 /* [pattern states] the pass that has seen it */
    int32_t *set, *stack;           /* [pattern states] scratch */
    uint32_t pass;
    uint64_t work; /* the pattern's states that were looked at */
};

/* State 0 is that of an empty text. MGPT_OK or MGPT_EMEM. Zero it before. */
int automaton_open(struct automaton *w, const struct pattern *pattern, mgpt_error *err);
void automaton_close(struct automaton *w);

/* The state after a byte: AUTOMATON_DEAD when no text matches that goes on so; AUTOMATON_FAILED out of memory or of
 * AUTOMATON_STATES. */
int32_t automaton_byte(struct automaton *w, int32_t state, unsigned char byte);

/* Returns what automaton_byte does, and calls it only where the next state is not known yet. */
static inline int32_t automaton_next(struct automaton *w, int32_t state, unsigned char byte)
{
    int32_t to = w->states[state].to[byte];
    return to >= AUTOMATON_DEAD ? to : automaton_byte(w, state, byte);
}

#endif
