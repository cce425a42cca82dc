/* The interface between the readers of checkpoint formats and the writer of GGUF files.
 *
 *   container  a file of named tensors or values: safetensors, PyTorch zip, pickle, .npz, JSON (containers/)
 *   family     a program that writes checkpoints, or a model type of Hugging Face (families/)
 *   mapping    a function or a table that gives the tensors of one family their GGUF names (core/state.h)
 *   fact       a number of the model that tensors do not show (heads, norm epsilon, activation)
 *   question   a fact that the checkpoint does not state: an error that names the option, or --assume
 *   note       a line for the user: what was inferred or assumed
 *
 * A reader fills a struct checkpoint: the architecture's numbers, the vocabulary, and for each
 * tensor its GGUF name, its shape and where its values come from. It describes, it does not copy:
 * values stay in the input until the writer asks for them, a few thousand at a time, so a
 * conversion never holds the model twice. Everything a reader inferred or assumed it says in a
 * note.
 *
 * Readers check: after a successful read every value of every tensor can be read without failing,
 * and shapes agree with the numbers. They see spans of bytes, never files, so each can be fuzzed
 * alone.
 */
#ifndef MGPT_CHECKPOINT_H
#define MGPT_CHECKPOINT_H

#include "base/error.h"
#include "common/text.h"
#include "convert/core/vocab_keys.h"
#include "dtype/dtype.h"
#include "gguf/gguf.h"
#include "mgpt.h"
#include "model/numbers.h"

#include <stddef.h>
#include <stdint.h>

enum {
    CKPT_MAX_NAME = 63, /* bytes of a tensor's name: GGUF's limit */
    CKPT_MAX_LAYERS = 1024
};

struct span {
    const uint8_t *data;
    size_t size;
};

/* Arguments for %.*s: text from a file, clipped so that the rest of an error line fits. */
#define CKPT_CLIP(p, n) TEXT_CLIP(p, n)

/* MGPT_EFILE with an error that is at no byte of the file: for functions that return a status. */
#define ckpt_refuse(err, ...) err_set((err), MGPT_EFILE, MGPT_NO_OFFSET, __VA_ARGS__)

/* MGPT_EFILE with "tensor NAME: why", with the name clipped. */
__attribute__((format(printf, 3, 4))) int ckpt_refuse_tensor(mgpt_error *err, const char *name,
                                                             const char *fmt, ...);

/* Whether the word is in a list of words, each between spaces. */
int ckpt_is_one_of(const char *word, const char *list);

/* ---- tensors --------------------------------------------------------------------------------- */

struct ckpt_tensor;

/* Stores values [first, first + n), counted along the rows, as float32. A source that can break (a
 * compressed one) sets the checkpoint's `failed`; no other can fail. */
typedef void ckpt_values_fn(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out);

/* Stores values [first, first + n) as blocks of t->type; both numbers are whole blocks. */
typedef void ckpt_blocks_fn(const struct ckpt_tensor *t, uint64_t first, size_t n, uint8_t *out);

struct ckpt_tensor {
    char name[CKPT_MAX_NAME + 1];
    uint32_t n_dims;
    uint64_t dims[4];         /* dims[0] is the row length; unused ones are 1 */
    uint64_t n_values;        /* their product */
    const struct dtype *type; /* element type of the source: what --type keep writes */
    const uint8_t *bytes;     /* the values in file order, encoded as `type`; or NULL */
    ckpt_values_fn *values;   /* if bytes is NULL: decodes values from `source` */
    ckpt_blocks_fn *blocks;   /* if not NULL: gives values as blocks of `type` without rounding */
    const void *source;       /* for values and blocks, with `at` */
    uint64_t at;
    int exact;                 /* --type keep keeps the type of a vector, too: the source is GGUF */
    const struct dtype *asked; /* what is asked for this tensor alone; NULL: what is for all */
    int is_named;              /* 1: --type-of has named it */
    const float *importance; /* a weight for each column, of each matrix of experts; NULL: equal */
};

/* ---- numbers --------------------------------------------------------------------------------- */

struct ckpt_hparams {
    const char *arch; /* general.architecture */
    uint32_t n_ctx, n_embd, n_layer, n_ff, n_head, n_head_kv, n_vocab;
    uint32_t head_dim;  /* attention.key_length and value_length; 0: n_embd / n_head, no keys */
    uint32_t value_dim; /* attention.value_length; 0: head_dim */
    uint32_t n_latent, n_q_latent; /* attention.kv_lora_rank, q_lora_rank; 0: no keys */
    uint32_t n_rot;                /* rope.dimension_count; 0: no rope, no key */
    uint32_t window;               /* attention.sliding_window: visible keys incl. self; 0: none */
    float rope_base;               /* 0: no key */
    float rope_base_local;         /* rope.freq_base_swa (gemma3: 10000); 0: no key */
    float rope_factor;             /* rope.scaling.factor; 0 or 1: none */
    const char *rope_scaling;      /* rope.scaling.type; NULL: linear where there is a factor */
    uint32_t rope_context;         /* yarn, longrope: original_context_length */
    float rope_attn_factor, rope_beta_fast, rope_beta_slow; /* yarn, longrope; 0: no key */
    float yarn_log; /* rope.scaling.yarn_log_multiplier; 0: no key */
    int yarn_exact; /* 1: mgpt.rope.yarn_truncate false, else no key */
    float norm_eps; /* RMSNorm's, or LayerNorm's where the architecture has that; may be 0 */
    MODEL_NUMBERS(NUMBER_FLOAT) /* attn_scale, residual_scale, ...: model/numbers.h; 0: no key */
    uint32_t n_expert, n_expert_used;           /* expert_count, expert_used_count; 0: no mixture */
    uint32_t n_ff_expert, n_ff_shared;          /* expert_(shared_)feed_forward_length; 0: no key */
    uint32_t n_shared, n_dense, expert_step;    /* expert_shared_count, leading_dense_block_count,
                                              * interleave_moe_layer_step; 0: no key */
    uint32_t expert_groups, expert_groups_used; /* expert_group_(used_)count; 0: no keys */
    float expert_scale;                         /* expert_weights_scale; 0: no key */
    uint32_t expert_sigmoid;                    /* expert_gating_func: 2; 0: no key */
    int expert_norm;         /* expert_weights_norm: 1 true, -1 false, 0 no key */
    int parallel;            /* gptneox, stablelm: use_parallel_residual; -1 no key, 0, 1 */
    const int32_t *kv_heads; /* attention.head_count_kv per layer, 0: a short convolution; NULL: no
                              * list */
    uint32_t n_conv;         /* shortconv.l_cache; 0: no key */
    /* For models whose layers differ (gemma4, laguna). */
    const int32_t *heads;     /* attention.head_count per layer; NULL: no list */
    const uint8_t *windowed;  /* attention.sliding_window_pattern: a flag per layer; NULL: no key */
    const uint8_t *roped;     /* attention.rope_pattern: a flag per layer; NULL: no key */
    const int32_t *ff_widths; /* feed_forward_length per layer; NULL: no list */
    uint32_t head_dim_swa;    /* attention.key_length_swa and value_length_swa; 0: no key */
    uint32_t n_rot_swa;       /* rope.dimension_count_swa */
    uint32_t n_shared_kv;     /* attention.shared_kv_layers */
    uint32_t n_input;         /* embedding_length_per_layer_input */
    const int32_t *windows;   /* mgpt.attention.windows: one per layer, 0 = full; NULL: no key */
    uint32_t no_rope_every;   /* mgpt.attention.no_rope_every; 0: no key */
    const char *activation;   /* mgpt.activation; NULL: the architecture's, no key */
    const float *xielu[4];    /* xielu.alpha_p, alpha_n, beta, eps: one per layer; NULL: no key */
    int embedding_norm, final_norm; /* microgpt alone: mgpt.embedding_norm, mgpt.final_norm */
    int no_embedding_norm;          /* others: 1: mgpt.embedding_norm false, else no key */
    int no_final_norm;              /* others: 1: mgpt.final_norm false, else no key */
};

/* ---- vocabulary ------------------------------------------------------------------------------ */

enum ckpt_token_type { /* GGUF's numbers */
                       TOKEN_NORMAL = 1,
                       TOKEN_UNKNOWN = 2,
                       TOKEN_CONTROL = 3,
                       TOKEN_USER = 4,
                       TOKEN_UNUSED = 5,
                       TOKEN_BYTE = 6
};

/* A table of characters, mgpt.tokenizer.map.NAME. */
struct ckpt_map {
    const char *name;
    uint32_t *words; /* stb_ds array */
};

struct ckpt_vocab {
    const char *model, *pre; /* tokenizer.ggml.model; NULL: no vocabulary. pre may be NULL */
    /* stb_ds arrays of one length: tokens, types, scores, doubles. */
    struct gguf_str *tokens;
    int32_t *types;
    float *scores;            /* NULL: none */
    struct gguf_str *merges;  /* written for model "gpt2", empty or not */
    VOCAB_FIELDS(VOCAB_FIELD) /* bos, eos, ...: vocab_keys.h */
    int has_steps;            /* the lists of steps are written, empty or not */
    struct ckpt_map *maps;    /* stb_ds array */
};

/* ---- the whole ------------------------------------------------------------------------------- */

struct checkpoint {
    const char *format;     /* the reader's name for what it read: "llama2.c .bin version 0" */
    const char *name;       /* general.name */
    const char *model_type; /* of config.json: Hugging Face's names of the tensors; or NULL */
    struct ckpt_hparams hp;
    struct ckpt_vocab vocab;
    const struct gguf *metadata; /* not NULL: copied entry by entry, instead of hp and vocab */
    struct ckpt_tensor *tensors; /* stb_ds array, in the order of the file to be */
    char **notes;                /* stb_ds array of lines */
    int lost_notes;              /* 1: there was no memory for one */
    uint32_t file_type;          /* general.file_type of a mixture of types; 0: by most weights */
    int is_renumbered;           /* 1: layers have other numbers than in the model's files */
    int is_retyped;              /* 1: tensors have a type asked for them alone */
    unsigned open;               /* bits of facts that are not in the file (questions.h) */
    const char *open_also;       /* what else is to be mended, NULL: nothing */
    const char *likely;          /* a program of questions.c with these names; NULL: none */
    struct ckpt_block *blocks;   /* memory that lives as long as the checkpoint */
    mgpt_error failed; /* status < 0: a source broke while values were read; the writer gives up */
    void *source;      /* what the reader needs to stay alive, and how to free it */
    void (*release)(void *source);
    /* NULL, or called while the file is written: values done, and all of them */
    void (*progress)(void *user, uint64_t n_done, uint64_t n_values);
    void *progress_user;
    mgpt_error *err;    /* of the ckpt_run that is under way */
    const char *within; /* what its errors begin with, before ": "; NULL: nothing */
    void *out;          /* the jmp_buf that ckpt_leave jumps to */
    struct ckpt_owned *owned;
};

void ckpt_init(struct checkpoint *c);
void ckpt_free(struct checkpoint *c);

/* A copy of n bytes, NUL-terminated, that lives as long as c; NULL when out of memory. */
char *ckpt_text(struct checkpoint *c, const char *p, size_t n);

/* Returns zeroed memory for n objects, aligned for any type, which lives as long as c; NULL: there is
 * no memory. */
void *ckpt_alloc(struct checkpoint *c, size_t n, size_t each);

/* ---- leaving a reader ------------------------------------------------------------------------
 *
 * A function that finds a fault states it and jumps to the ckpt_run that called it: functions return
 * what they read, not a status. Memory is the checkpoint's; what is not is owned by the run. */

/* Calls step(arg): MGPT_OK, or the error that it was left with. May be inside another. */
int ckpt_run(struct checkpoint *c, void (*step)(void *arg), void *arg, mgpt_error *err);

/* Leaves it with MGPT_EFILE, at no byte of the file; ckpt_stop_tensor: "tensor NAME: why". */
_Noreturn __attribute__((format(printf, 2, 3))) void ckpt_stop(struct checkpoint *c,
                                                               const char *fmt, ...);
_Noreturn __attribute__((format(printf, 3, 4))) void ckpt_stop_tensor(struct checkpoint *c,
                                                                      const char *name,
                                                                      const char *fmt, ...);

/* Leaves it with MGPT_EFILE at a byte of the file. */
#define ckpt_stop_at(c, at, ...) ckpt_leave((c), err_set((c)->err, MGPT_EFILE, (at), __VA_ARGS__))

/* Leaves it with the error that is in *c->err, where the status is that of what was called:
 * ckpt_leave(c, err_memory(c->err, ...)). ckpt_must: if it is below 0. */
_Noreturn void ckpt_leave(struct checkpoint *c, int status);
void ckpt_must(struct checkpoint *c, int status);

/* Errors of the run begin with the text and ": " from here on; NULL: no longer. */
void ckpt_within(struct checkpoint *c, const char *what);

/* release(p) at the end of the run, however that ends; last first. */
void ckpt_own(struct checkpoint *c, void *p, void (*release)(void *p));

struct jval;
void ckpt_own_json(struct checkpoint *c, const struct jval *root); /* jval.h */

/* As ckpt_alloc and ckpt_text, but leave when out of memory; ckpt_temp: zeroed, until the run ends. */
void *ckpt_new(struct checkpoint *c, size_t n, size_t each);
void *ckpt_temp(struct checkpoint *c, size_t n, size_t each);
char *ckpt_copy(struct checkpoint *c, const char *p, size_t n);
struct gguf_str ckpt_str(struct checkpoint *c, const char *p, size_t n);

/* Appends v to an stb_ds array, or leaves. */
#define ckpt_push(c, array, v) ckpt_pushed((c), arr_push((array), (v)), sizeof *(array))
void ckpt_pushed(struct checkpoint *c, int ok, size_t n);

/* ---- notes and tensors ----------------------------------------------------------------------- */

/* One line for the user, of at most 200: a file must not flood a terminal. When memory runs out the
 * line is lost; c->lost_notes says so. */
__attribute__((format(printf, 2, 3))) void ckpt_note(struct checkpoint *c, const char *fmt, ...);

/* Appends a tensor of {n_in} values, or {n_in, n_out} when n_out is not 0; `from` says where the
 * values come from (type, bytes, values, source, at; type NULL: F32), its other members are set
 * here. */
void ckpt_add(struct checkpoint *c, const char *name, uint64_t n_in, uint64_t n_out,
              struct ckpt_tensor from);

/* Appends a token; its text is copied. */
void ckpt_token(struct checkpoint *c, const char *p, size_t n, int32_t type);

/* Values [first, first + n) of a tensor from wherever they are; first and n are whole blocks. */
void ckpt_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out);

/* Stores v as a u32 quantity of the model: 1 to INT32_MAX, or an error that names it. */
void ckpt_size(struct checkpoint *c, uint32_t *to, const char *what, uint64_t v);

struct ckpt_wanted {
    uint32_t *to;
    const char *what;
    uint64_t v;
};
void ckpt_sizes(struct checkpoint *c, const struct ckpt_wanted *sizes, size_t n);

#endif
