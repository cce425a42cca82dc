/* Models in PyTorch files, inside: what from_torch.c and the mappings from_*.c share.
 *
 * A mapping is one training program's checkpoint: it recognises the names of its tensors, finds the
 * numbers that the names do not say (in the file, next to it, from the user, by inference, in this
 * order of trust), and describes the model. Everything inferred becomes a note.
 */
#ifndef MGPT_CONVERT_TORCH_MODEL_H
#define MGPT_CONVERT_TORCH_MODEL_H

#include "common/jval.h"
#include "convert/containers/torch.h"
#include "convert/core/readers.h"
#include "convert/core/state.h"
#include "convert/families/microgpt.h"

struct torch_model {
    struct checkpoint *c;
    const struct ckpt_input *in;
    const struct torch_file *file; /* without a pickle if the container is not PyTorch's */
    pickle_id root;                /* what was saved */
    pickle_id weights;             /* the dict of tensors in it, or the root itself */
    struct state *state;
    struct mg_parts *parts; /* what the objects next to the weights, or a side file, say */
    const char *side;       /* the side file that was read for facts; NULL: none */
};

struct torch_mapping {
    const char *name; /* "nanoGPT" */
    unsigned options; /* the options that apply (OPT_...) */
    int (*match)(const struct torch_model *m);
    void (*map)(struct torch_model *m);
};

extern const struct torch_mapping nanogpt_mapping, mingpt_mapping, llama2c_pt_mapping;
extern const struct torch_mapping scratch_mapping, nanochat_mapping, microgpt_state_mapping;
extern const struct torch_mapping gpt_mapping, bigram_mapping, litgpt_mapping;

/* The i-th mapping of from_torch.c, NULL after the last. */
const struct torch_mapping *torch_mapping_at(size_t i);

/* ---- torch_model.c: numbers ------------------------------------------------------------------ */

/* The root's dict or object of this name, or the id 0. */
pickle_id torch_member(const struct torch_model *m, const char *name);

/* Fills m->parts. Of what is said twice the most special counts: model_args before config. */
void torch_facts(struct torch_model *m);

/* Whether the names are those of transformers' Llama and its relatives. */
int torch_is_hugging_face(const struct state *s);

/* The mapping of named tensors out of a container that is not PyTorch's, with what `parts` says: 1;
 * 0 when no mapping knows the names. */
int torch_map_state(struct state *s, struct mg_parts *parts, const char *container);

/* Whether a mapping knows these names. */
int torch_knows(struct state *s);

/* state_check_used whose error says, too, what other program has the name (hf_unknown.c). */
void hf_check_used(const struct state *s, const char *what);

/* The file's fact of a size, or `absent`. */
int64_t torch_size(const struct torch_model *m, enum mg_size size, int64_t absent);

/* MGPT_EFILE when the facts state another size than the tensors have: vocabulary, width, layers up
 * to `last`. */
void torch_check_sizes(const struct torch_model *m, enum mg_size last);

/* Rows and columns of a matrix that must be there; marks nothing. */
void torch_shape(const struct torch_model *m, const char *name, uint64_t *rows, uint64_t *columns);

/* Settles hp.n_layer: the number of layers that have a tensor named as in the pattern. */
void torch_layers(struct torch_model *m, const char *pattern);

/* Settles hp.n_head_kv and hp.n_rot by the rows of the keys' matrix, which errors call `name`. */
void torch_kv_heads(struct torch_model *m, const char *name, uint64_t k_rows);

/* Settles hp.n_head: --heads, then `stated` (0: not), then the facts; it must divide n_embd.
 * `published` (0: none) is taken with a note that says why; without any of them the question is
 * open, and hp.n_head is 1. */
void torch_heads_or_ask(struct torch_model *m, int64_t stated, uint32_t published, const char *why);

/* Sets hp.n_head as torch_heads_or_ask; an open question is an error. */
void torch_heads(struct torch_model *m, int64_t stated, uint32_t published, const char *why);

/* The heads of GPT-2 as published, in any of its four sizes; 0 for any other size. */
uint32_t torch_gpt2_heads(const struct torch_model *m);

/* Settles hp.activation: --activation, the facts, or `usual` with a note that says `why`; usual
 * NULL: the question is open. */
void torch_activation(struct torch_model *m, const char *usual, const char *why);

/* `given` if there is the option, the fact (below 0: not stated), or the usual value with a note: "inferred:
 * WHAT = USUAL (WHOSE; set it with --option)". */
double torch_number(struct torch_model *m, enum ckpt_option option, double given, double fact,
                    const char *what, double usual, const char *whose);

/* torch_number of the norms' epsilon: --eps, the facts. */
float torch_eps(struct torch_model *m, double usual);

/* The context of a model that no table limits: --context, the facts, or the usual one with a note that says
 * why. */
uint64_t torch_context(struct torch_model *m, uint32_t usual, const char *why);

/* Whether both names stand for the same bytes: a tied head. */
int torch_same(const struct torch_model *m, const char *a, const char *b);

/* Whether the head is the token table, because it is absent or the same; marks it, with a note. */
int torch_tied(struct torch_model *m, const char *head, const char *table);

/* Values of a square matrix: ones where row and column are the same. */
ckpt_values_fn torch_identity;

/* A JSON file next to the input, an object that is there until the run ends; NULL: absent. */
const struct jval *torch_json(const struct torch_model *m, const char *const *candidates, size_t n,
                              const char **name);

/* Takes the facts of such a file, or of its member, where the model's own file has none. */
const struct jval *torch_side_facts(struct torch_model *m, const char *const *candidates, size_t n,
                                    const char *member, const char **name);

/* ---- torch_vocab.c --------------------------------------------------------------------------- */

/* nanoGPT's characters out of meta.pkl, found next to the input or in ../data/DATASET/ (NULL:
 * unknown), or given with --tokenizer; otherwise a Hugging Face or GPT-2 tokenizer next to the
 * input; otherwise none, with a note. */
void torch_vocab(struct torch_model *m, const char *dataset);

/* A side file that is a pickle: meta.pkl, or nanochat's tokenizer.pkl. */
void torch_vocab_pickle(struct torch_model *m, const struct ckpt_side *side);

#endif
