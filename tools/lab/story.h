/* The story of a page: one model at several steps of its training.
 *
 * Numbers of each step are computed here: the loss on held-out texts, texts that it draws. What a text is worth to someone
 * who only counts is computed from the texts of training. The page gets them as JSON, and the files of the steps as a
 * block: from the one before the last down to the first, each XORed with the one after it, byte by byte, where both have
 * the same size (it then packs better), one behind the other. */
#ifndef MGPT_LAB_STORY_H
#define MGPT_LAB_STORY_H

#include "common/jtext.h"
#include "engine/engine.h"
#include "lab/page_out.h"

enum { STORY_MOST = 32, STORY_DRAWN = 8, STORY_SEED = 5, STORY_LONGEST = 48 };
#define STORY_TEMPERATURE 0.6

struct story_step {
    const char *path;
    uint64_t number; /* of the step: the last number in the file's name */
    uint8_t *bytes;  /* of its GGUF file */
    size_t n_bytes;
    double loss; /* nats a token; NaN: there is nothing to score */
    char *texts[STORY_DRAWN];
};

struct story {
    const char *texts, *held; /* options: files of texts, one a line; NULL: none */
    struct story_step steps[STORY_MOST];
    size_t n; /* 0: the page has no story */
};

/* Takes the models of the command line in the order of their steps. 1; 0 after a message: a name has no number, or one that
 * another has. */
int story_take(struct story *story, const char *const *paths, size_t n);

/* Opens all and computes their numbers. `last`, which is open, is the model of the last step; tokens are the page's. An
 * exit code: EXIT_REFUSED where a model has another shape or vocabulary. *json is for the page. */
int story_tell(struct story *story, const struct engine *last, const int32_t *tokens,
               size_t n_tokens, struct jtext **json);

/* Writes the block of the steps' files. Returns a status. */
int story_put(const struct story *story, struct page_out *page, mgpt_error *err);
void story_free(struct story *story);

#endif
