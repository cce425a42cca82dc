/* The names that programs give to the tensors of a GPT-2: one table of words for all of them. */
#ifndef MGPT_CONVERT_GPT_NAMES_H
#define MGPT_CONVERT_GPT_NAMES_H

#include "convert/core/state.h"

enum gpt_role {
    GPT_NONE,
    GPT_TOKENS,
    GPT_POSITIONS,
    GPT_FINAL_NORM,
    GPT_HEAD,
    GPT_NORM_1, /* from here on: in a layer */
    GPT_QKV,
    GPT_Q,
    GPT_K,
    GPT_V,
    GPT_O,
    GPT_NORM_2,
    GPT_UP,
    GPT_DOWN,
    GPT_GATE,
    GPT_N_ROLES
};

struct gpt_name {
    enum gpt_role role;
    uint32_t layer, head;
    int in_layer, is_head, is_bias; /* is_head: q, k or v of one head alone */
    int by_shape;                   /* the shape, of a bias its matrix's, decides the role */
    int is_attention;               /* in the attention of a layer */
    int is_bare;                    /* a parameter of its own, not of a module */
};

/* "blk.0.attn_norm.weight": GGUF's name of it; q, k and v of one head are
 * "blk.0.attn_q.2.weight". */
void gpt_name_alias(const struct gpt_name *name, char buf[64]);

/* What a tensor of this name and number of dimensions is; 0 when its words do not tell. The role
 * may be GPT_NONE with by_shape. */
int gpt_name_read(const struct state_tensor *t, struct gpt_name *to);

/* What GGUF calls "attn_norm.bias": "the bias of the first norm". */
const char *gpt_name_what(const char *part);

/* The known word that is nearest to a word of a name that is not known; NULL: none is near. The text
 * is in buf. */
const char *gpt_name_nearest(const char *name, char buf[64]);

/* A buffer of the rotation: its frequencies, sines or cosines. */
int gpt_name_is_rotation(const char *name);

/* A buffer of the forward pass: a causal mask, or what is put where it masks. */
int gpt_name_is_mask(const struct state_tensor *t);

#endif
