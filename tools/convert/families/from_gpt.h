/* A GPT in PyTorch, inside: what from_gpt.c, gpt_facts.c and gpt_programs.c share. */
#ifndef MGPT_CONVERT_FROM_GPT_H
#define MGPT_CONVERT_FROM_GPT_H

#include "convert/families/torch_model.h"

enum gpt_positions { GPT_TABLE, GPT_HALVES, GPT_ADJACENT, GPT_SINUSOIDAL, GPT_NO_POSITIONS };

struct gpt_rules {
    const char *what;    /* the program, for errors */
    const char *program; /* of questions.c, whose facts hold; NULL: each is asked for */
    unsigned asks;       /* bits of facts in which copies of the program differ, under its names */
    const char *likely;  /* the program that first had the names; NULL: none */
    const char *why;     /* of the activation */
    int64_t n_head;      /* stated outside the tensors' file; 0: not */
    int is_published;    /* the sizes of GPT-2 tell its heads */
    const char *dataset; /* where the vocabulary is; NULL: unknown */
};

struct gpt {
    struct torch_model *m;
    const struct gpt_rules *r;
    uint32_t n_part_heads; /* heads that are matrices of their own; 0: none */
    int is_conv1d;         /* matrices of the layers are stored [n_in, n_out] */
    int is_mha;            /* attention is the framework's: it has its scale */
    int has_mask;          /* a causal mask is in the file */
    int is_rotated;        /* a buffer of the rotation is in the file */
    int is_buffer;         /* the positions are a buffer: sines and cosines */
    int has_gate;          /* the MLP has a gate */
    int has_bias;          /* norms have biases: they are LayerNorm */
    int has_qkv;           /* one matrix of q, k, v whose rows are in an unknown order */
    int has_two_ups; /* one of two first matrices of the MLP is the gate; no word says which */
    int has_bare;    /* matrices in layers are parameters of their own */
    int is_grouped, is_in_out;      /* answers: --qkv heads, --bare in-out */
    int is_post, is_rms, is_scaled; /* answers: --post-norm, --norm rms, --embedding-scale root */
    enum gpt_positions positions;
    unsigned turns; /* flags of the rows of q and k: halves are stored, the engine has pairs, or
                     * the other way round */
};

/* Gives the tensors GGUF's names, and learns from the names. Errors: MGPT_EFILE naming a tensor
 * without a meaning. */
void gpt_set_aliases(struct gpt *g);

/* Gives the tensors GGUF's names, and sets the sizes that their shapes say. */
void gpt_sizes(struct gpt *g);

/* Settles all facts and the architecture; one error asks for what is open. */
void gpt_facts(struct gpt *g);

/* Puts all tensors, the head only where it is not the token embedding. `what` names the program in
 * errors. */
void gpt_tensors(const struct gpt *g, const char *what);

#endif
