/* The numbers of drawn tokens, for generate --json --top N, and of those that a repl holds. */
#ifndef MGPT_DRAWN_H
#define MGPT_DRAWN_H

#include "common/json_out.h"
#include "mgpt.h"

#include <stddef.h>

/* stb_ds arrays, an entry for each drawn token. */
struct drawn {
    int32_t *tokens;
    double *logprobs;    /* of the softmax of all logits, before temperature and filters */
    double *probs;       /* with which they were drawn */
    mgpt_candidate *top; /* [][n_top]: the likeliest in its place */
    size_t n_top;
};

/* Adds a token that `sampler` has drawn from the first n_choices of n logits. 0: out of memory. */
int drawn_add(struct drawn *drawn, int32_t token, const mgpt_sampler *sampler, const float *logits,
              size_t n, size_t n_choices);

/* Writes ,"logprobs":{...}. Its members have the names of score --json; draw_probs comes last. */
void drawn_print(const struct drawn *drawn, struct json_out *out, const mgpt_model *model);

/* Forgets all but the first n tokens. */
void drawn_cut(struct drawn *drawn, size_t n);
void drawn_clear(struct drawn *drawn);
void drawn_free(struct drawn *drawn);

#endif
