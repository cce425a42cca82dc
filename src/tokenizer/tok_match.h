/* Private to tok*.c: finds tokens in a text, all of them in one pass (tok_match.c). */
#ifndef MGPT_TOK_MATCH_H
#define MGPT_TOK_MATCH_H

#include "gguf/gguf.h"
#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

/* A token that is looked for. */
struct match_row {
    struct gguf_str text;
    uint32_t id;
    uint32_t next; /* 1 + the row of the longest other token that ends this one (backward: that
                    * begins it), 0: none */
    uint8_t type;
};

struct match_state;

/* A zeroed one is empty. */
struct tok_match {
    struct match_row *rows; /* stb_ds array; each text once */
    struct match_state *states;
    uint32_t root[256]; /* the states after one byte */
    size_t most;        /* bytes of the longest token */
    int backward;
};

/* Adds a token; of equal texts the first one stays. An empty text is left out. 0 when out of
 * memory. */
int match_add(struct tok_match *m, struct gguf_str text, uint32_t id, uint8_t type);

/* Builds the automaton, for texts that are read forward or backward. O(bytes of all tokens *
 * logarithm of their number). Errors: MGPT_EMEM, MGPT_EFILE. */
int match_build(struct tok_match *m, int backward, mgpt_error *err);
void match_free(struct tok_match *m);

/* 1: no token was added. */
int match_is_empty(const struct tok_match *m);

/* The state after one more byte; a text begins with state 0. n bytes take at most 2 n steps. */
uint32_t match_step(const struct tok_match *m, uint32_t state, uint8_t byte);

/* The longest token that ends where the state was reached. NULL: none. */
const struct match_row *match_found(const struct tok_match *m, uint32_t state);

/* The token that is exactly this text, NULL: none. Forward only. */
const struct match_row *match_whole(const struct tok_match *m, const char *p, size_t n);

/* ---- the longest token at a place (backward only) -------------------------------------------- */

enum { MATCH_BLOCK = 1024 };

struct match_scan {
    const struct tok_match *m;
    const char *text;
    size_t n;        /* bytes of the text */
    size_t from, to; /* `longest` holds the places from..to - 1 */
    uint32_t longest[MATCH_BLOCK];
};

void match_begin(struct match_scan *s, const struct tok_match *m, const char *text, size_t n);

/* The longest token that begins at text[at], at < n; NULL: none. Places should not decrease: then n
 * of them take at most 2 n (1 + m->most / MATCH_BLOCK) steps in all. */
const struct match_row *match_longest(struct match_scan *s, size_t at);

#endif
