/* A vocabulary whose tokens come in any order: ids to texts, checked, then written into a
 * checkpoint in order of id. */
#ifndef MGPT_VOCAB_SLOTS_H
#define MGPT_VOCAB_SLOTS_H

#include "convert/core/checkpoint.h"

#define VOCAB_SPACE "\xE2\x96\x81" /* U+2581: how SentencePiece writes a space */

/* "<0x41>": how it writes a byte. */
int vocab_is_byte(struct gguf_str s);

enum { VOCAB_STRIP_LEFT = 1, VOCAB_STRIP_RIGHT = 2 };

struct vocab_slot {
    struct gguf_str text; /* borrowed until vocab_slots_finish */
    int32_t type;         /* enum ckpt_token_type; 0: no token has this id */
    double score;
    unsigned strips;
};

struct vocab_slots {
    struct checkpoint *c;
    const char *file; /* for messages */
    struct vocab_slot *slots;
    size_t n;
};

/* Room for ids 0 to n - 1. Refuses a vocabulary larger than the embedding of n_rows rows, which are
 * no more than an int32 counts. Leaves the run (checkpoint.h) as the others here do. */
void vocab_slots_init(struct vocab_slots *v, struct checkpoint *c, const char *file, uint64_t n,
                      uint64_t n_rows);

/* A number from a file as error lines show it: clipped to 32 bits. */
int vocab_shown(int64_t v);

/* Gives an id its token; the id must be below n and free, or have this text already (then only the
 * type changes). Stores the slot. */
void vocab_slots_set(struct vocab_slots *v, int64_t id, const char *p, size_t n, int32_t type,
                     struct vocab_slot **slot);

/* The id of a text, the lowest when there are several; -1: none. Linear. */
int32_t vocab_slots_find(const struct vocab_slots *v, const char *text);

/* Appends all tokens to c->vocab; an id without a token becomes an unused one, with a note. With
 * `scores`, they are appended, too. */
enum vocab_scores { VOCAB_NO_SCORES, VOCAB_FLOATS, VOCAB_DOUBLES /* and floats */ };
void vocab_slots_finish(struct vocab_slots *v, enum vocab_scores scores);

#endif
