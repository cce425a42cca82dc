/* Hugging Face models, inside: what from_hf.c and its parts share.
 *
 * A family, a model_type of config.json, is data that models.py makes of models.txt: which keys hold
 * the common numbers, which tensors there are under which condition, and what is read besides.
 */
#ifndef MGPT_CONVERT_HF_H
#define MGPT_CONVERT_HF_H

#include "convert/containers/hf_config.h"
#include "convert/containers/safetensors.h"
#include "convert/core/readers.h"
#include "convert/core/state.h"
#include "convert/families/hf_rope.h"

/* Keys of config.json. NULL: the family has no such key. */
struct hf_keys {
    const char *n_embd, *n_layer, *n_head, *n_head_kv, *head_dim, *n_ff, *n_ctx, *eps, *activation;
    const char *activation_absent; /* NULL: it is required */
    uint32_t n_ctx_absent;         /* when n_ctx is absent; 0: it is required */
    uint32_t n_ff_absent; /* n_ff in units of n_embd when its key is absent; 0: it is required */
};

/* Flags of rows: there is a bias when config.json has a key that is true. */
enum {
    HF_ATTENTION_BIAS = STATE_OTHER_FLAGS,
    HF_MLP_BIAS = STATE_OTHER_FLAGS << 1,
    HF_USE_BIAS = STATE_OTHER_FLAGS << 2,
    HF_QKV_BIAS = STATE_OTHER_FLAGS << 3,
    HF_ENABLE_BIAS = STATE_OTHER_FLAGS << 4,
    HF_SEQUENTIAL = STATE_OTHER_FLAGS << 5, /* only without use_parallel_residual */
    HF_BIAS = STATE_OTHER_FLAGS << 6,
    HF_VARIANT = STATE_OTHER_FLAGS << 7, /* only with hf_model.variant, or without: HF_USUAL */
    HF_USUAL = STATE_OTHER_FLAGS << 8,
    HF_OUT_BIAS = STATE_OTHER_FLAGS << 9,
    HF_WHOLE_ROWS = STATE_OTHER_FLAGS << 10 /* not with hf_model.projected */
};

struct hf_model;

typedef void hf_step_fn(struct hf_model *m);

/* What a family reads of config.json besides its keys: "read" of models.txt (hf_families.c). */
enum hf_step_kind {
    HF_DO,       /* calls a function of hf_special.c; key is its name */
    HF_ON,       /* refuses a key that is false */
    HF_OFF,      /* refuses a key that is neither false nor 0; `why` is in the error */
    HF_HAS,      /* refuses an absent key */
    HF_IS,       /* refuses another value of a key */
    HF_IN,       /* the following steps look keys up in this object */
    HF_SET,      /* sets the value */
    HF_UNLESS,   /* sets the value if the key is false */
    HF_FLAG,     /* sets a flag to the key */
    HF_FLAG_NOT, /* sets a flag to the opposite of the key */
    HF_NUMBER,   /* reads a number above 0; null is 0 */
    HF_POSITIVE, /* reads a number above 0 */
    HF_SIZE,     /* reads a size */
    HF_EXPERTS, /* reads the number of experts, of those that a token uses, and the width by the key */
    HF_EXPERT_NORM, /* reads norm_topk_prob; value: what the architecture does without a key of GGUF */
    HF_WINDOW_ONE,    /* reads sliding_window: of all layers */
    HF_WINDOW_LAYERS, /* of the layers that layer_types names, or all but each n-th by the key */
    HF_WINDOW_LAYERS_OR_ONE, /* of the layers that layer_types names, or of all */
    HF_WINDOW_USED,          /* of layers from max_window_layers on if use_sliding_window is true */
    HF_WINDOW_ALL            /* of all layers if use_sliding_window is true */
};

struct hf_step {
    enum hf_step_kind kind;
    const char *key;
    size_t at;    /* in struct ckpt_hparams, or HF_TO_VARIANT: what is set */
    double value; /* what it is set to; with a key: when that is absent */
    hf_step_fn *call;
    const char *why;
};

/* Members of struct ckpt_hparams by the type that a step sets. */
#define HF_MEMBER(member, type)                                                                    \
    _Generic(((struct ckpt_hparams *)0)->member, type : offsetof(struct ckpt_hparams, member))
#define HF_TO_FLOAT(member) HF_MEMBER(member, float)
#define HF_TO_SIZE(member) HF_MEMBER(member, uint32_t)
#define HF_TO_INT(member) HF_MEMBER(member, int)
#define HF_TO_VARIANT SIZE_MAX

/* The class of transformers that computes a family's logits: hf_reads.txt. */
struct hf_class {
    const char *name;
    int in_library; /* 0: the program comes with the weights */
    /* Words between spaces: OTHER=KEY if both always mean the same, OTHER~KEY if the first counts only
     * without the other. */
    const char *spellings;
    const char *defaults; /* KEY=VALUE: the class's values for absent keys that a model must have */
};

struct hf_family {
    const char *model_type, *arch;
    const struct hf_keys *keys;
    const char *activation;      /* the architecture's: needs no key in GGUF */
    const char *const *prefixes; /* of tensor names, NULL-terminated; taken off */
    const char *head;            /* the tensor of the output head */
    int tied;                    /* when tie_word_embeddings is absent */
    int windowed;                /* rope settings per kind of layer: full and windowed */
    uint32_t full_every;         /* each n-th layer has no window: needs no key in GGUF; 0: none */
    const char *program; /* the program that writes such files; NULL: config.json names the type */
    const char *knows;   /* a key that means another forward pass in other families; NULL: none */
    const char *ignores; /* a key of published files that its class does not read; NULL: none */
    uint32_t window;     /* when sliding_window is absent; 0: none */
    int states_head_dim; /* GGUF files of the architecture always have key_length */
    const struct hf_rope_keys *rope; /* NULL: no rope */
    int partial_rope;                /* part of a head may be rotated although all is the default */
    int resting_pairs;               /* rope_type may be proportional: pairs after that part rest */
    const struct state_row *rows;
    size_t n_rows;
    unsigned biases; /* flags of HF_..._BIAS whose keys are true when absent */
    struct hf_class class;
    int latent;             /* attention is latent (hf_latent.c) */
    int transposed_experts; /* tensors of all experts are [n_expert, n_in, n_out] */
    int mixture_norms;      /* post_mlp_layernorm of a layer is of its mixture */
    int experts;            /* a mixture: the keys of experts are read (hf_experts.c) */
    const struct hf_step *steps;
    size_t n_steps;
    struct {
        const char *name;
        hf_step_fn *call; /* adds tensors beyond the rows; NULL: there are none */
    } put;
};

/* A model that also sees or hears, of which the text part is read. */
struct hf_wrapper {
    const char *model_type, *text_type; /* the text part's where config.json does not say it */
    int tied;                           /* when tie_word_embeddings is absent */
    const char *others[4];              /* first words of the other parts' tensors */
};

/* All of them in one list; NULL after the last. */
const struct hf_family *hf_family_at(size_t i);
const struct hf_wrapper *hf_wrapper_at(size_t i);

struct hf_model {
    struct checkpoint *c;
    const struct ckpt_input *in;
    const struct hf_family *family;
    struct hf_config cfg;
    struct hf_rope rope;
    /* falcon: one norm for both branches; opt: norms after branches; bigcode: a KV head per head; cohere,
     * phi, stablelm: norms of q and k. */
    int variant;
    const struct hf_wrapper *wrapper; /* what the text model is a part of; NULL: it is the whole */
    /* Layers of mixtures: from the first on, each n-th (0: all), before the end (0: to the last), and
     * not those that a list calls "dense" (NULL: there is none). */
    uint32_t first_mixture, mixture_step, mixtures_end;
    const json_t *mlp_types;
    uint32_t further;        /* layers after the last one, which predict further tokens: left out */
    const uint8_t *left_out; /* a flag for each of the files' n_layer layers; NULL: none */
    uint32_t n_layer;
    uint32_t n_rows;    /* of the token table, where the head has fewer; 0: as many */
    uint32_t projected; /* width of embeddings that are projected to n_embd; 0: they are not */
    struct state state;
    const struct hf_parts *parts;
    int puts;         /* tensors are put: an error may name the program that they are of */
    const json_t *at; /* where keys are looked up: cfg.text, or an object in it */
};

/* What the input is: one of them. */
struct hf_parts {
    struct span config, tensors, index;
    struct state *state;
    const char *described; /* the family of a program's file, or NULL */
    const char *source;    /* if `described`: what its numbers are from, for messages */
    json_t *facts;         /* if `described`: what would be in config.json */
};

#define HF_COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- hf_rope.c ------------------------------------------------------------------------------- */

/* Rotary settings. `layer`: NULL, or the kind of layers ("full_attention") whose settings are meant
 * where a model has one object per kind. */
struct hf_rope hf_rope_read(struct hf_model *m, const struct hf_rope_keys *keys, const char *layer);

/* Reads those of the model into m->rope and m->c->hp; adds the tensors that they need. */
hf_step_fn hf_rope, hf_put_rope;

/* ---- hf_projected.c -------------------------------------------------------------------------- */

/* Adds the token table times project_in, and the head: project_out times the token table. */
hf_step_fn hf_put_projected;

/* ---- for other containers of tensors --------------------------------------------------------- */

/* Whether config.json of a Hugging Face model is next to the input. */
int hf_is_beside(struct checkpoint *c, const struct ckpt_input *in);

/* The model that these tensors are, which come from the input, with the files next to it. Takes the
 * prefixes off their names. */
void hf_read_state(struct checkpoint *c, const struct ckpt_input *in, struct state *s);

/* The model of a program's file, which `family` of models.txt describes: its tensors, and what would be
 * in config.json, an object that is changed, from `source`, which errors name. Neither the format's name is set, nor a tokenizer read. */
void hf_read_described(struct checkpoint *c, const struct ckpt_input *in, const char *family,
                       const char *source, json_t *facts, struct state *s);

/* ---- hf_weights.c ---------------------------------------------------------------------------- */

/* Adds all tensors of the model to m->state: of `bytes`, or, when bytes.data is NULL, of the
 * file(s) next to config.json. */
void hf_weights(struct hf_model *m, struct span bytes);

/* Adds the tensors of all files that an index names: model.safetensors.index.json. */
void hf_weights_sharded(struct hf_model *m, struct span index);

/* ---- hf_reads.c ------------------------------------------------------------------------------ */

extern const char *const hf_base_keys[];
extern const char *const hf_read_keys[]; /* lines of words; NULL after the last */

/* The first model_type of models.txt that such a class computes; NULL: none. */
const char *hf_model_type_of(const char *class_name);

/* 1 for keys that any configuration has: of training, generation and the library itself. */
int hf_is_base_key(const char *key);

/* 1: the class that config.json names is known, and no class of the library reads this key. */
int hf_key_is_unread(const struct hf_model *m, const char *key);

/* Other spellings of the family's keys become its own. */
hf_step_fn hf_spellings;

/* Absent keys that a model must have become the class's defaults. */
hf_step_fn hf_defaults;

/* ---- hf_wrapper.c ---------------------------------------------------------------------------- */

/* Finds the text part of a model that also sees or hears, by the root of config.json, and its model_type if
 * the part does not say it. Errors: there is no model_type at all, with what to write. */
hf_step_fn hf_wrapper;

/* Marks the tensors of the other parts. */
void hf_skip_other_parts(struct hf_model *m);

/* ---- hf_head.c ------------------------------------------------------------------------------- */

/* The only matrix of a tied model may have the name of either; it gets that of the token table. */
hf_step_fn hf_name_tied;

/* Refuses a token table that has another number of rows than m->n_rows. */
hf_step_fn hf_check_table;

/* Whether the model has a head that is not the token table: its row. */
int hf_head_row(struct hf_model *m, struct state_row *row);

/* Masks and tables of the forward pass that old files carry. */
void hf_skip_buffers(struct state *s);

/* Marks the tensors of layers that are left out, and numbers the others anew. */
hf_step_fn hf_number_layers;

/* ---- hf_json.c ------------------------------------------------------------------------------- */

/* 1 for the index of a model in several files. */
int hf_is_index(struct span bytes);

/* ---- hf_unknown.c ---------------------------------------------------------------------------- */

/* Refuses a switch of config.json that is true and not known, or that means another forward pass. */
hf_step_fn hf_check_switches;

/* Adds to the error of a tensor that is missing, or not part of the model, one whose name is that of
 * another model_type or program. `own`: the model's, whose names do not count; NULL: none. */
void hf_name_programs(const struct state *s, const struct hf_family *own, mgpt_error *err);

/* ---- hf_quant.c: GPTQ, AWQ, MLX -------------------------------------------------------------- */

/* Puts the matrices of a quantised model in the place of the tensors that they are made of. Errors: a
 * scheme that is not read, by its name. */
hf_step_fn hf_unpack;

/* Marks biases of such matrices that are all zeros, which AutoGPTQ writes for layers without one. */
void hf_skip_zero_biases(struct state *s);

#endif
