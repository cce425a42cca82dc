/* generate --choices: one of several texts goes on after a context, by what the model says of each.
 *
 * A choice is scored by the tokens that context and choice have together, as `mgpt score` scores a continuation: the sum of
 * their log-probabilities after the tokens that the context shares with all of them. Where a choice changes tokens of the
 * context, these are scored, too, for every choice. After tokens that are not those of their own text (--ids, drawn
 * ones), and in a conversation, a choice has the tokens that it has alone.
 */
#ifndef MGPT_CHOICES_H
#define MGPT_CHOICES_H

#include "common/json_out.h"
#include "engine/engine.h"

struct choice {
    char *text; /* malloc'ed: n bytes */
    size_t n;
    int32_t *tokens; /* malloc'ed: of context and choice */
    size_t n_tokens;
    double logprob; /* of tokens[n_common] and those after it */
};

struct choices {
    struct choice *list; /* stb_ds array */
    size_t n_common;     /* tokens of the context that all have */
};

/* Adds a text, or those of a list with commas between them: its escapes are those of text_unescape, and \, is a comma.
 * MGPT_OK; MGPT_EARG: one is empty, or has a bad escape; MGPT_EMEM. */
int choices_add(struct choices *c, const char *text, size_t n, mgpt_error *err);
int choices_read(struct choices *c, const char *list, mgpt_error *err);
void choices_close(struct choices *c);

/* Scores all after the n tokens of a session, in a fork of it. is_fixed: tokens of the context stay as they are. Returns
 * MGPT_OK or a status: MGPT_EARG for two choices that are the same, MGPT_ETEXT, MGPT_EFULL and those of passes. */
int choices_score(struct choices *c, struct engine *e, const mgpt_session *context, int is_fixed,
                  mgpt_error *err);

/* Draws one by its probability among the others, as the sampler says. Its index, or MGPT_EMEM. */
int choices_draw(const struct choices *c, mgpt_sampler *sampler, mgpt_error *err);

/* Writes ,"choice":K,"choices":[{text, tokens, logprob, prob}, ...]: prob is among the choices, before temperature. */
void choices_print(const struct choices *c, int taken, struct json_out *out);

#endif
