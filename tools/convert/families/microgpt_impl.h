/* microgpt, inside: what the files microgpt*.c share. */
#ifndef MGPT_CONVERT_MICROGPT_IMPL_H
#define MGPT_CONVERT_MICROGPT_IMPL_H

#include "convert/families/microgpt.h"

/* The matrices of a model, in the order in which they are written, but for the last two of the
 * model's own, which follow the layers. */
enum mg_role {
    MG_WTE,
    MG_WPE,
    MG_FINAL_NORM,
    MG_LM_HEAD,
    MG_ATTN_NORM, /* of every layer, from here on */
    MG_WQ,
    MG_WK,
    MG_WV,
    MG_WO,
    MG_FFN_NORM,
    MG_GATE,
    MG_FC1,
    MG_FC2,
    MG_N_ROLES,
    MG_OF_LAYER = MG_ATTN_NORM
};

struct mg_role_row {
    const char *name, *gguf; /* as microgpt has it; GGUF's, after "blk.N." in a layer */
    char rows, cols;         /* V, T, E, F, K: which size the shape must have; rows 0: a vector */
    int optional;
};
extern const struct mg_role_row mg_roles[MG_N_ROLES];

/* The role of a name and its layer (0 for the model's own), or -1. */
int mg_recognise(const char *name, uint32_t *layer);

/* "layer0.attn_wq" */
void mg_role_name(enum mg_role role, uint32_t layer, char buf[32]);

/* How positions get into the model. */
enum mg_positions { MG_POS_LEARNED, MG_POS_NONE, MG_POS_HALF, MG_POS_ADJACENT };

struct mg_build {
    struct checkpoint *c;
    const struct mg_matrix **slots; /* by mg_slot; NULL: absent */
    uint32_t n_layer;
    uint64_t V, T, E, F, K;
    enum mg_positions positions;
    const struct mg_facts *facts;
    const struct ckpt_input *in;
    char wanted[160]; /* options without which the logits would be a guess */
    mgpt_error *err;
};

/* Slots are in the order of the roles: the model's own, whose layer is 0, then layer by layer. */
static inline size_t mg_slot(enum mg_role role, uint32_t layer)
{
    return role + (size_t)(MG_N_ROLES - MG_OF_LAYER) * layer;
}

static inline const struct mg_matrix *mg_at(const struct mg_build *b, enum mg_role role,
                                            uint32_t layer)
{
    return b->slots[mg_slot(role, layer)];
}

/* Whether there is such a matrix; of every layer, since mg_build has compared them. */
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
int mg_settle_vocabulary(struct mg_build *b);
int mg_settle_dialect(struct mg_build *b);

/* microgpt_rope.c: positions, and the architecture that follows from them. */
int mg_settle_positions(struct mg_build *b);
/* Rows of q or k for the order of pairs that architecture "llama" has; else as they are. */
int mg_add_rotated(struct mg_build *b, const char *gguf_name, const struct mg_matrix *m);
/* A gain of ones, where a norm has none and the architecture needs one. */
int mg_add_ones(struct mg_build *b, const char *gguf_name);

#endif
