/* Adapters of PEFT (Hugging Face): what peft.c, peft_names.c and peft_config.c share. See core/lora.h. */
#ifndef MGPT_CONVERT_PEFT_H
#define MGPT_CONVERT_PEFT_H

#include "convert/core/lora.h"
#include "convert/families/hf.h"

/* adapter_config.json, as far as it says something about the numbers. */
struct peft_config {
    const json_t *root;
    double rank, alpha;
    int is_rslora; /* alpha / sqrt(r) instead of alpha / r */
    int is_dora;
};

/* Refuses, each by its key: another peft_type; variants whose arithmetic is another (lora_bias,
 * trainable_token_indices, ...); initialisations that change the base's weights (pissa, ...);
 * patterns that are more than names. */
void peft_config_read(struct checkpoint *c, struct peft_config *cfg, struct span bytes);

enum { PEFT_MOST_STACKED = 8 };

struct peft {
    struct checkpoint *c;
    const struct lora_adapter *adapter;
    const struct hf_family *family;
    struct ckpt_hparams hp; /* of the base */
    struct peft_config cfg;
    struct state *state; /* the adapter's tensors; state_find knows them as peft_alias says */
    size_t n_changed, n_replaced;
};

/* alpha / r of a module, whose A has this rank; it must be what the config says. */
double peft_scale(const struct peft *p, const char *module, uint64_t rank);

/* ---- peft_names.c ---------------------------------------------------------------------------- */

/* A row of the family that takes a tensor of the adapter's, or the head. */
struct peft_target {
    struct state_row row;
    uint32_t layer;
    int is_bias;
    char to[STATE_MAX_ROW_NAME];
    const struct state_row *stack; /* [n_stack] the rows that are stacked with it; NULL: a head */
    size_t n_stack, at;            /* at: its index in `stack` */
};

/* The next row from *i on that takes the tensor `name` and makes one that the checkpoint has, or a
 * head; 0: there is none. */
int peft_next_target(const struct peft *p, const struct hf_family *f, const char *name, size_t *i,
                     struct peft_target *target);

/* The name of the tensor that a tensor of the adapter changes: the name of the module with .weight, or the
 * tensor's own name. */
void peft_target_name(char to[STATE_MAX_ROW_NAME], const struct state_tensor *t);

/* Gives the adapter's tensors the names that state_find knows them by: without PEFT's words. */
void peft_add_aliases(struct peft *p);

/* The base's own family, or the first of its architecture that knows all names. */
void peft_choose_family(struct peft *p);

#endif
