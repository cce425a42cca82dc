/* microgpt out of named tensors: what every container of microgpt weights has in common.
 *
 * A reader (JSON, pickle, .npy, raw floats) collects the matrices in a struct state under any names,
 * and what the file says about sizes, vocabulary and BOS; microgpt_build recognises the names, checks
 * every shape against every other and against what was said, settles the dialect, and describes the
 * model. A fork that rotates q and k instead of adding positions comes out as architecture "llama",
 * which is what it is; what neither architecture can say is refused by name.
 */
#ifndef MGPT_CONVERT_MICROGPT_H
#define MGPT_CONVERT_MICROGPT_H

#include "convert/containers/pickle.h"
#include "convert/core/readers.h"

enum mg_size {
    MG_VOCAB,
    MG_EMBD,
    MG_LAYERS,
    MG_CONTEXT,
    MG_HEADS,
    MG_HEAD_DIM,
    MG_KV_HEADS,
    MG_N_SIZES
};

struct mg_facts {
    int64_t sizes[MG_N_SIZES];      /* as stated in the file; -1: not */
    int64_t bos;                    /* -1: not stated */
    double eps, rope_base, softcap; /* -1: not stated */
    double some_eps;                /* "eps", which can be the optimizer's; -1: not stated */
    int trains;                     /* the file also holds settings of an optimizer */
    int embedding_norm, final_norm; /* 0, 1; -1: not stated */
    int bias;                       /* nanoGPT's key: 0, 1; -1: not stated */
    const char *activation, *norm;  /* NULL: not stated */
    const char *positions;          /* NULL: not stated */
    const char *bos_text;           /* BOS as a text; NULL: not stated */
    const struct gguf_str *entries; /* of the vocabulary; NULL: none in the file */
    size_t n_entries;
};

/* "n_embd" for MG_EMBD, for messages. */
const char *mg_size_name(enum mg_size size);

/* Sets facts to nothing stated. */
void mg_facts_init(struct mg_facts *facts);

/* The sizes that options and file give, options first; -1 where neither does. */
int64_t mg_stated(const struct mg_facts *facts, const struct ckpt_options *o, enum mg_size size);

/* What is said about a size, if it is not below 0, must be what the tensors say. `side`: the file that says
 * it, or NULL. */
void mg_check_size(struct checkpoint *c, const char *side, enum mg_size size, int64_t stated,
                   uint64_t found);

/* The model's value of a size up to MG_CONTEXT. */
uint64_t mg_size_of(const struct ckpt_hparams *hp, enum mg_size size);

/* The activation that --activation or the facts state, whose text is *said; NULL: neither does. */
const char *mg_stated_activation(struct checkpoint *c, const struct ckpt_input *in,
                                 const struct mg_facts *facts, const char **said);

/* ---- what a key of a file is (microgpt_facts.c) ---------------------------------------------- */

enum mg_kind {
    MG_OTHER,
    MG_FACT,
    MG_VOCABULARY,
    MG_TRAINING,  /* a setting of an optimizer */
    MG_CONFIG,    /* a collection of such keys; any other object may be one, too */
    MG_WEIGHTS,   /* a collection of matrices */
    MG_OPTIMIZER, /* a collection that says nothing about the model */
};

/* By the name alone. A reader must also look at the value: "params": 4192 is not a list of
 * parameters. */
enum mg_kind mg_kind_of(const char *key);

/* The name in ACTIVATIONS for any of its spellings; NULL: unknown. */
const char *mg_activation(const char *name);

/* ---- collecting (microgpt_parts.c) ----------------------------------------------------------- */

struct mg_parts {
    struct checkpoint *c;
    const struct ckpt_input *in;
    struct state state;
    struct gguf_str *entries; /* stb_ds array */
    struct mg_facts facts;
    uint64_t room;  /* values that lists and arrays of the file may still have */
    int first_wins; /* a fact that is stated twice, differently, is not an error: the first counts */
};

/* Empty; freed when the run ends (checkpoint.h). */
struct mg_parts *mg_parts_new(struct checkpoint *c, const struct ckpt_input *in);

/* Describes the model that the tensors of s are, which get aliases. */
void microgpt_build(struct mg_parts *m, struct state *s);

/* microgpt_build with what was collected. */
void mg_parts_build(struct mg_parts *m);

/* Adds a tensor of up to two dimensions under a name, which is copied; its bytes must live as long as
 * the checkpoint. */
void mg_add(struct mg_parts *m, const char *name, struct state_tensor t);

/* Contiguous values in memory as a matrix, with rows 0 as a vector of n. */
struct state_tensor mg_flat(const uint8_t *data, uint64_t rows, uint64_t n, enum state_type type);

/* Takes n values from m->room: shared objects can make a file look larger than it is. */
void mg_use_room(struct mg_parts *m, const char *name, uint64_t n);

/* A scalar next to a key, in any container. Text may hold a number. */
struct mg_value {
    enum { MG_NONE, MG_NUMBER, MG_TEXT, MG_FLAG } kind;
    double number;    /* of a flag: 0 or 1 */
    const char *text; /* NUL-terminated; copied */
};

/* Stores what the key states and returns 1. Returns 0 for an unknown key and for a value that the key
 * cannot have. */
int mg_take(struct mg_parts *m, const char *key, struct mg_value v);

/* ---- parameter lists (microgpt_params.c) ----------------------------------------------------- */

/* microgpt's `params`, which has no names and, when it is one list of numbers, no shapes: cuts the
 * vector into matrices. Facts and options give the sizes, which must need all its numbers. */
void mg_add_params(struct mg_parts *m, const struct state_tensor *all);

/* 1 when the facts, the options and the usual sizes need exactly n numbers; says nothing. */
int mg_params_fit(const struct mg_parts *m, uint64_t n);

/* The name of the i-th matrix in the order in which microgpt creates (and list dumps hold) them:
 * wte, wpe, lm_head, layer0.attn_wq, ..., or with --head-last in that order. NUL-terminated in buf.
 */
void mg_name_in_order(const struct mg_parts *m, size_t i, size_t n, char buf[32]);

/* n matrices in order: is it a number of matrices that a microgpt has? Says so, or that it is
 * not. */
void mg_check_order(struct mg_parts *m, size_t n);

enum { MG_N_GLOBAL = 3, MG_N_PER_LAYER = 6 };

/* ---- pickles (pickle_model.c) ---------------------------------------------------------------- */

/* Reads a pickle, which is freed when the run ends. */
struct pickle *pickle_owned(struct checkpoint *c, struct span bytes);

/* A microgpt in a pickle: see tree_model.c. What is described does not need the pickle any more,
 * only the bytes it was read from, of which there are in->bytes.size. */
void microgpt_pickle(struct checkpoint *c, const struct pickle *p, pickle_id root,
                     const struct ckpt_input *in);

#endif
