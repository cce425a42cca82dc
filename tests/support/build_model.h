/* Tests: tiny random models and their GGUF files, made in memory.
 *
 * A toy is a list of metadata entries and a list of tensors whose values stay at hand as float32,
 * so the oracle computes from what was meant and not from what src/ read back. The encoder is our
 * own and shares nothing with src/gguf: reader and writer are tested by a third party. A test may
 * change entries, tensors and values before toy_encode; that is how the broken files are made.
 *
 * Weights are scaled so that activations stay near 1 in every layer and attention is far from
 * uniform. Whatever fails here (memory) fails the running test.
 */
#ifndef TESTS_BUILD_MODEL_H
#define TESTS_BUILD_MODEL_H

#include "mgpt.h"
#include "model/numbers.h"
#include "support/toy_arch.h"

#include <stddef.h>
#include <stdint.h>

/* GGUF's numbers. Types that have blocks need rows of whole blocks, 32 or (K) 256 values: a matrix
 * whose rows are not gets the next type down its list, as in real files (Q4_K, Q8_0, F16). */
enum toy_type {
    TOY_F32 = 0,
    TOY_F16 = 1,
    TOY_Q4_0 = 2,
    TOY_Q4_1 = 3,
    TOY_Q5_0 = 6,
    TOY_Q5_1 = 7,
    TOY_Q8_0 = 8,
    TOY_Q2_K = 10,
    TOY_Q4_K = 12,
    TOY_Q5_K = 13,
    TOY_Q6_K = 14,
    TOY_IQ4_XS = 23,
    TOY_BF16 = 30,
    TOY_MXFP4 = 39,
    TOY_NVFP4 = 40
};

enum toy_choice { TOY_DEFAULT, TOY_NO, TOY_YES }; /* TOY_DEFAULT: no key, the architecture's row */

struct toy_spec {
    const char *label; /* for messages */
    const char *arch;  /* a row of toy_arch.h */
    int n_layer, n_embd, n_head, n_ff, n_ctx, n_vocab;
    int n_head_kv;            /* 0: n_head */
    int head_dim;             /* 0: n_embd / n_head */
    int rope_dims;            /* 0: head_dim */
    int n_latent, n_q_latent; /* latent attention; the first 0: other attention */
    int value_dim;            /* 0: as wide as keys */
    int latent_apart; /* attn_k_b and attn_v_b in place of attn_kv_b, with llama.cpp's newer keys */
    int stacked; /* gate and up of experts in one tensor, and of the shared one, as llama.cpp writes Granite */
    double rope_base;       /* 0: 10000 */
    double eps;             /* 0: 1e-5 */
    const char *activation; /* NULL: the architecture's */
    enum toy_choice embedding_norm, final_norm;
    enum toy_choice parallel; /* use_parallel_residual */
    int tied, biases;
    int head_bias;  /* output.bias */
    int two_norms;  /* falcon: attn_norm_2 is attention's, attn_norm the MLP's */
    int head_gains; /* norms of q and k with a gain for each head */
    int qk_norms; /* norms of each head of q and k, with biases, which the architecture may lack */
    int separate; /* q, k and v are three tensors also where the architecture has them in one */
    /* Positions and attention; 0 or NULL: no key. */
    int window;             /* attention.sliding_window */
    int full_every;         /* .sliding_window_pattern as a period */
    const char *pattern;    /* .sliding_window_pattern as a bool a layer: 'w' windowed, 'f' full */
    const char *roped;      /* .rope_pattern: a letter a layer, 'n': it does not rotate */
    const int32_t *windows; /* mgpt.attention.windows, one a layer, 0: full */
    int no_rope_every;      /* mgpt.attention.no_rope_every */
    double window_base;     /* rope.freq_base_swa */
    double rope_factor;     /* rope.scaling.type linear (or yarn), rope.scaling.factor */
    int yarn;               /* rope.scaling.original_context_length; 0: not YaRN */
    int yarn_exact;         /* mgpt.rope.yarn_truncate is false */
    int longrope; /* original_context_length of LongRoPE; with rope_factors_short.weight and _long.weight */
    double rope_attn;            /* rope.scaling.attn_factor */
    double yarn_less;            /* rope.scaling.yarn_log_multiplier */
    int divisors;                /* rope_freqs.weight; n + 1: its last n pairs rest */
    MODEL_NUMBERS(NUMBER_DOUBLE) /* attn_scale, residual_scale, ...: model/numbers.h */
    /* Mixtures; 0: none. Widths 0: n_ff, no shared expert. dense: layers that are not mixtures, a
     * bit each. */
    int n_expert, n_expert_used, n_ff_expert, n_ff_shared, dense;
    enum toy_choice expert_norm;
    double expert_scale;
    int expert_sigmoid, expert_bias;     /* exp_probs_b.bias */
    int n_group, n_group_used;           /* of experts; 0: no keys */
    int lambdas;                         /* resid_lambdas and x0_lambdas */
    int smear_gate, value_gate, backout; /* columns of the gates; 0: none. backout_lambda */
    const char *kinds; /* a letter a layer: 'c' is a short convolution of n_conv tokens, 'a' is
                        * attention; NULL: all are attention, the number of KV heads is no list */
    int n_conv;
    /* Layers that differ; 0: as the others. */
    int head_dim_w, rope_dims_w, n_head_w, n_head_kv_w; /* of layers with a window */
    int value_gates;              /* of arch.gates 3: for each value that heads mix */
    int keys_only;                /* layers without a window have no matrix of values */
    int n_shared, n_ff_shared_kv; /* layers at the end with others' keys; width of their MLPs */
    int n_input;                  /* embedding_length_per_layer_input, and its tensors */
    int out_scales;               /* layer_output_scale.weight */
    int characters; /* 1: a character vocabulary of n_vocab - 1 characters, BOS last */
    enum toy_type type;
    uint32_t alignment; /* 0: no key, so 32 */
    uint64_t seed;
    const struct toy_arch *row; /* filled in by toy_build */
};

/* How many keys a layer's queries see; 0: all. */
int toy_window(const struct toy_spec *s, int layer);

/* Rows of the gates of heads of a layer; 0: none. */
int toy_gates(const struct toy_spec *s, int layer);

/* 1 if the layer reads the keys and values of another one. */
static inline int toy_shares(const struct toy_spec *s, int layer)
{
    return layer >= s->n_layer - s->n_shared;
}

/* The layer whose keys and values a layer reads. */
static inline int toy_source(const struct toy_spec *s, int layer)
{
    int from = layer;
    while (toy_shares(s, from) || !toy_window(s, from) != !toy_window(s, layer))
        from--;
    return from;
}

/* Sizes of a layer. */
static inline int toy_head_dim(const struct toy_spec *s, int layer)
{
    return s->head_dim_w && toy_window(s, layer) ? s->head_dim_w : s->head_dim;
}

static inline int toy_value_dim(const struct toy_spec *s, int layer)
{
    return s->value_dim != s->head_dim ? s->value_dim : toy_head_dim(s, layer);
}

static inline int toy_has_sinks(const struct toy_spec *s, int layer)
{
    return s->row->sinks == 1 || (s->row->sinks && toy_window(s, layer));
}

static inline int toy_heads(const struct toy_spec *s, int layer)
{
    return s->n_head_w && layer >= 0 && toy_window(s, layer) ? s->n_head_w : s->n_head;
}

static inline int toy_heads_kv(const struct toy_spec *s, int layer)
{
    return s->n_head_kv_w && toy_window(s, layer) ? s->n_head_kv_w : s->n_head_kv;
}

static inline int toy_rope_dims(const struct toy_spec *s, int layer)
{
    return s->rope_dims_w && toy_window(s, layer) ? s->rope_dims_w : s->rope_dims;
}

static inline int toy_n_ff(const struct toy_spec *s, int layer)
{
    return s->n_ff_shared_kv && toy_shares(s, layer) ? s->n_ff_shared_kv : s->n_ff;
}

/* 1 if the layer is a short convolution. */
static inline int toy_convolves(const struct toy_spec *s, int layer)
{
    return s->kinds && s->kinds[layer] == 'c';
}

/* Weights of xIELU (apertus), the same in all toys: alpha_p (0) and alpha_n (1) of a layer. */
#define TOY_XIELU_BETA 0.5
#define TOY_XIELU_EPS -0.125
static inline float toy_xielu_alpha(int layer, int is_n)
{
    return is_n ? 0.375f - 0.5f * (float)layer : 0.25f + 0.75f * (float)layer;
}

/* The sizes that every spec states: layers, width, heads, width of the MLP, context, vocabulary. */
#define TOY_SIZES(layers, embd, heads, ff, ctx, vocab)                                             \
    .n_layer = layers, .n_embd = embd, .n_head = heads, .n_ff = ff, .n_ctx = ctx, .n_vocab = vocab

struct toy_tensor {
    char name[80];
    enum toy_type type;
    uint32_t n_dims;
    uint64_t dims[4]; /* unused ones are 1 */
    size_t n;         /* values held: the product of dims when the tensor was added */
    float *values;    /* representable in `type`; of a quantised type, what `blocks` decodes to */
    uint8_t *blocks;  /* if the type is quantised: the blocks that go into the file; else NULL */
};

struct toy_kv {
    char key[80];
    uint32_t type; /* GGUF value type */
    uint8_t *bytes;
    size_t n;
};

struct oracle_spec;
struct oracle_layer;
typedef void toy_differs(struct oracle_spec *spec, struct oracle_layer *layers);

struct toy {
    struct toy_spec spec; /* with the defaults filled in */
    struct toy_kv *kv;
    size_t n_kv;
    struct toy_tensor *tensors;
    size_t n_tensors;
    int32_t *windows; /* of a toy that was loaded */
    uint8_t *file;    /* of the last toy_encode */
    size_t size;
    uint64_t rng;
    toy_differs *differs; /* NULL, or what oracle_run does to the description of the toy */
};

struct toy *toy_build(const struct toy_spec *spec);
void toy_free(struct toy *m);

/* Adds the tensors of m->spec. toy_tensors.c, for toy_build. */
void toy_add_tensors(struct toy *m);

/* Fills values and blocks of a tensor of a quantised type, N(mean, scale²) or nearly.
 * toy_quant.c. */
void toy_quantise(struct toy_tensor *t, double mean, double scale, uint64_t *rng);

/* A random number N(0, 1), or nearly. */
double toy_normal(uint64_t *state);

/* The toy of a GGUF file on disk, read with src/gguf/gguf.h; NULL when there is no such file. */
struct toy *toy_load(const char *path);

struct toy_tensor *toy_find(const struct toy *m, const char *name); /* NULL: absent */
/* A random tensor N(mean, scale²); n_out = 0 makes a vector. */
struct toy_tensor *toy_add(struct toy *m, const char *name, enum toy_type type, int n_in, int n_out,
                           double mean, double scale);
void toy_drop_tensor(struct toy *m, const char *name);

/* Values and bytes of a block; n_values is 1 for types that have none. toy_quant.c. */
struct toy_block {
    uint32_t n_values, n_bytes;
};
struct toy_block toy_block(enum toy_type type);

/* Bytes of n values (whole blocks) in a file. */
uint64_t toy_bytes(enum toy_type type, uint64_t n);

/* Sets or replaces a metadata entry. */
void toy_put_u32(struct toy *m, const char *key, uint32_t v);
void toy_put_f32(struct toy *m, const char *key, float v);
void toy_put_bool(struct toy *m, const char *key, int v);
void toy_put_string(struct toy *m, const char *key, const char *v);
/* n elements of GGUF's type `element`; data is what is in the file. */
void toy_put_array(struct toy *m, const char *key, uint32_t element, uint64_t n, const void *data,
                   size_t n_bytes);
/* "<arch>.<key>" */
void toy_put_arch_u32(struct toy *m, const char *key, int v);
/* The number of KV heads of each layer, 0 for convolutions, as llama.cpp has it; the keys of layers that differ.
 * toy_layers.c. */
void toy_put_kinds(struct toy *m);
void toy_put_layer_shapes(struct toy *m);
void toy_put_windows(struct toy *m, const int32_t *windows, size_t n); /* mgpt.attention.windows */
void toy_drop_key(struct toy *m, const char *key);

/* Changes the toy by a list like "u32 llama.block_count 3; drop output.weight":
 *     u32, f32, bool, string KEY VALUE     bools, i32s, u32s KEY [NUMBER...]     no_key KEY
 *     add TENSOR N_IN [N_OUT [N]]     drop TENSOR     dim TENSOR AT SIZE     transpose TENSOR (square)
 *     value, plus, times TENSOR AT|all NUMBER     copy TENSOR FROM
 *     swap TENSOR TENSOR (or blk.0. blk.1.: all that begin so)
 *     rows TENSOR WIDTH FROM... (blocks of rows)     roll TENSOR BY (rows)
 * "blk.*.x" stands for the tensors of all layers. */
void toy_edit(struct toy *m, const char *edits);

/* Encodes the file into m->file. */
void toy_encode(struct toy *m);

/* toy_encode, then mgpt_open_bytes, which must succeed. The toy must outlive the model. */
mgpt_model *toy_open(struct toy *m, const mgpt_model_params *params);

/* Encodes and opens m, which must be refused with one short line that holds a, b and c (or NULL),
 * and frees m. */
void toy_check_refused(struct toy *m, const char *a, const char *b, const char *c);

/* n random tokens of the toy's vocabulary. */
void toy_tokens(const struct toy *m, uint64_t seed, int32_t *tokens, size_t n);

/* The generator of everything random in the tests: SplitMix64. */
uint64_t toy_random(uint64_t *state);

/* Allocates n zeroed elements or fails the test. */
void *toy_alloc(size_t n, size_t each);

#endif
