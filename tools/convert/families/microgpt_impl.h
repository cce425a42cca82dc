/* microgpt, inside: what the files microgpt*.c share. */
#ifndef MGPT_CONVERT_MICROGPT_IMPL_H
#define MGPT_CONVERT_MICROGPT_IMPL_H

#include "convert/families/microgpt.h"

/* The tensors of a model, in the order in which they are written. */
enum mg_role {
    MG_WTE,
    MG_WPE,
    MG_ATTN_NORM, /* of every layer, from here */
    MG_WQ,
    MG_WK,
    MG_WV,
    MG_WO,
    MG_FFN_NORM,
    MG_GATE,
    MG_FC1,
    MG_FC2, /* to here */
    MG_FINAL_NORM,
    MG_LM_HEAD,
    MG_N_ROLES
};

static inline int mg_of_layer(int role)
{
    return role >= MG_ATTN_NORM && role <= MG_FC2;
}

struct mg_role_row {
    const char *name;  /* as microgpt has it */
    const char *words; /* its spellings, between spaces */
    struct state_row row;
};
extern const struct mg_role_row mg_roles[]; /* [MG_N_ROLES] */

/* The role of a name and its layer (0 for the model's own), or -1. */
int mg_recognise(const char *name, uint32_t *layer);

/* "layer0.attn_wq" */
void mg_role_name(enum mg_role role, uint32_t layer, char buf[32]);

/* How positions get into the model. */
enum mg_positions { MG_POS_LEARNED, MG_POS_NONE, MG_POS_HALF, MG_POS_ADJACENT };

struct mg_build {
    struct checkpoint *c;
    struct state *state; /* its tensors have aliases: GGUF's names */
    uint64_t K;          /* rows of wk */
    enum mg_positions positions;
    const struct mg_facts *facts;
    const struct ckpt_input *in;
    char wanted[160]; /* options without which the logits would be a guess */
};

/* The tensor of a role; NULL: there is none. */
const struct state_tensor *mg_at(const struct mg_build *b, enum mg_role role, uint32_t layer);

/* Whether the model has the role's tensor, in every layer: check_complete has compared them. */
static inline int mg_has(const struct mg_build *b, enum mg_role role)
{
    return mg_at(b, role, 0) != NULL;
}

/* microgpt.c. Whether it is the published program's model, to the size; whether it has parts that
 * the program never had (gains, a gate, rotation), so that the program says nothing about it. */
int mg_is_published(const struct mg_build *b);
int mg_is_fork(const struct mg_build *b);
/* An option that must be given, "--heads N"; microgpt_build lists all of them in one error. */
void mg_want(struct mg_build *b, const char *option);

/* microgpt_dialect.c: vocabulary, activation, norms, eps. Sizes and positions are settled. */
void mg_settle_vocabulary(struct mg_build *b);
void mg_settle_dialect(struct mg_build *b);

/* microgpt_rope.c: positions, and the architecture that follows from them. */
void mg_settle_positions(struct mg_build *b);

#endif
