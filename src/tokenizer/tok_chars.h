/* Private to tok*.c: tables of characters that a file brings along, and Unicode's normal forms made
 * of them.
 *
 * Why in the file: decompositions, combining classes and lower case are 30 to 120 kB of tables, and
 * each tokenizer library has those of another version of Unicode. The converter writes the tables
 * that a tokenizer uses, so the library stays small and the ids stay those of the original. What
 * is not one-to-one needs no more: a decomposition is a map to several characters followed by the
 * sort by combining class, a composition a table of pairs; Hangul is arithmetic.
 *
 * A map is an array of u32, mgpt.tokenizer.map.NAME: records of
 *     first | n << 24,  last,  then n characters
 * ascending and not overlapping: every character from first to last becomes these n (0: nothing).
 */
#ifndef MGPT_TOK_CHARS_H
#define MGPT_TOK_CHARS_H

#include "gguf/gguf.h"
#include "mgpt.h"

struct char_map;

/* NULL with *err when the key is missing (MGPT_EFILE) or what it holds is not a map. */
struct char_map *char_map_open(const struct gguf *g, struct gguf_str name, mgpt_error *err);
void char_map_close(struct char_map *m);

/* The n characters that `code` becomes; NULL if it stays. */
const uint32_t *char_map_find(const struct char_map *m, uint32_t code, size_t *n);

/* A text as characters. */
struct chars {
    uint32_t *p; /* stb_ds array */
};

int chars_push(struct chars *c, uint32_t code); /* 0 when out of memory */

/* Hangul syllables become two or three letters each; *n is 0 for other characters. */
void hangul_split(uint32_t code, uint32_t out[3], size_t *n);

/* Sorts each run of characters with a combining class by it, stably. `classes` maps a character to
 * its class. Returns 0 when out of memory. */
int chars_order(struct chars *c, const struct char_map *classes);

/* Composes in place (Unicode's canonical composition); pairs: mgpt.tokenizer.map.compositions,
 * which maps the second character to (first, composed), .... */
void chars_compose(struct chars *c, const struct char_map *classes, const struct char_map *pairs);

#endif
