/* Tokens in JSON, with OpenAI's names. */
#ifndef MGPT_TOKEN_JSON_H
#define MGPT_TOKEN_JSON_H

#include "common/json_out.h"
#include "mgpt.h"

/* A token's bytes, or its name when it has none. Half a character is spelt bytes:\xE2\x82, as OpenAI does. */
void token_json_text(struct json_out *out, const mgpt_model *model, int32_t token);

/* An array of {id, token, logprob}. */
void token_json_top(struct json_out *out, const mgpt_model *model, const mgpt_candidate *top,
                    size_t n);

/* An array of ids. */
void token_json_ids(struct json_out *out, const int32_t *ids, size_t n);

/* Reads such an array: *tokens is new, [*n]. MGPT_OK, MGPT_EFILE for what is no id below n_vocab, MGPT_EMEM. *tokens is
 * the caller's then, too. */
int token_json_read_ids(const struct jval *ids, int32_t n_vocab, int32_t **tokens, size_t *n,
                        mgpt_error *err);

#endif
