/* microgpt out of named matrices: what every container of microgpt weights has in common.
 *
 * A reader (JSON now) collects the matrices under whatever names they have, and what the file says
 * about sizes, vocabulary and BOS; microgpt_build recognises the names, checks every shape against
 * every other and against what was said, settles the dialect, and describes the model.
 */
#ifndef MGPT_CONVERT_MICROGPT_H
#define MGPT_CONVERT_MICROGPT_H

#include "readers.h"

struct mg_matrix {
    const char *name; /* as the checkpoint has it; lives as long as the checkpoint */
    uint64_t rows, cols;
    ckpt_values_fn *values;
    const void *source;
    uint64_t at;
};

enum mg_size { MG_VOCAB, MG_EMBD, MG_LAYERS, MG_CONTEXT, MG_HEADS, MG_HEAD_DIM, MG_N_SIZES };

struct mg_facts {
    int64_t sizes[MG_N_SIZES];      /* as stated in the file; -1: not */
    int64_t bos;                    /* -1: not stated */
    const char *activation;         /* NULL: not stated */
    const struct gguf_str *entries; /* of the vocabulary; NULL: none in the file */
    size_t n_entries;
};

/* "n_embd" for MG_EMBD, for messages. */
const char *mg_size_name(enum mg_size size);

/* Sets facts to nothing stated. */
void mg_facts_init(struct mg_facts *facts);

/* The sizes that options and file give, options first; -1 where neither does. */
int64_t mg_stated(const struct mg_facts *facts, const struct ckpt_options *o, enum mg_size size);

int microgpt_build(struct checkpoint *c, const struct mg_matrix *matrices, size_t n,
                   const struct mg_facts *facts, const struct ckpt_input *in, mgpt_error *err);

/* The name of the i-th matrix in the order in which microgpt creates (and list dumps hold) them:
 * wte, wpe, lm_head, layer0.attn_wq, ... NUL-terminated in buf. */
void mg_name_in_order(size_t i, char buf[32]);

enum { MG_N_GLOBAL = 3, MG_N_PER_LAYER = 6 };

#endif
