/* Texts of a story's files, and what someone who only counts makes of them. */
#ifndef MGPT_LAB_STORY_COUNT_H
#define MGPT_LAB_STORY_COUNT_H

#include "engine/engine.h"
#include "score/score_texts.h"

struct story_texts {
    char *bytes;              /* of the file */
    struct scored_text *list; /* stb_ds array: a line each, without the empty ones */
    size_t n_tokens;          /* scored ones */
};

/* Reads and encodes a file's lines, as mgpt score does. Returns an exit code. */
int story_read(struct story_texts *texts, const struct engine *e, const char *path);
void story_texts_free(struct story_texts *texts);

/* Nats a token of `held` for one who knows how often each token (pairs: each after each) is in `texts`, one added to each
 * count; NaN without either. Returns an exit code. */
int story_count(const struct story_texts *texts, const struct story_texts *held, size_t n_vocab,
                int pairs, double *nats);

/* Sorts the lines by their bytes; after that, whether one of them is this text. */
void story_sort(struct story_texts *texts);
int story_knows(const struct story_texts *texts, const char *text);

#endif
