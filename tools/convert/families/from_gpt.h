/* A GPT-2 in PyTorch, inside: what from_gpt.c and gpt_programs.c share. */
#ifndef MGPT_CONVERT_FROM_GPT_H
#define MGPT_CONVERT_FROM_GPT_H

#include "convert/families/torch_model.h"

struct gpt {
    struct torch_model *m;
    uint32_t n_part_heads; /* heads that are matrices of their own; 0: none */
    int is_conv1d;         /* matrices of the layers are stored [n_in, n_out] */
};

/* Gives the tensors GGUF's names, and sets the sizes that their shapes say. */
int gpt_sizes(struct gpt *g, mgpt_error *err);

/* Puts all tensors, the head only where it is not the token embedding. `what` names the program in
 * errors. */
int gpt_tensors(const struct gpt *g, const char *what, mgpt_error *err);

#endif
