/* Architectures as data: one row per architecture, with the facts that files do not state.
 *
 * A model is defined, in order of preference, by (1) the tensors present (biases, gains, gate, q/k
 * norms, positions, untied head), (2) numbers and mgpt.* keys in the file, (3) this row. After
 * binding, no code depends on the architecture's name.
 */
#ifndef MGPT_ARCH_H
#define MGPT_ARCH_H

#include "kernels/kernels.h"
#include "mgpt.h"

enum norm_kind { NORM_NONE = MGPT_NO_NORM, NORM_RMS = MGPT_RMSNORM, NORM_LAYER = MGPT_LAYERNORM };

/* Bits for sets of architectures (slots.c). Those with the same tensors share one. */
enum {
    ARCH_MICROGPT = 1 << 0,
    ARCH_LLAMA = 1 << 1,
    ARCH_GPT2 = 1 << 2,
    ARCH_QWEN2 = 1 << 3,
    ARCH_QWEN3 = 1 << 4,
    ARCH_GEMMA3 = 1 << 5,
    ARCH_GPTNEOX = 1 << 6,
    ARCH_PHI2 = 1 << 7,
    ARCH_OLMO = 1 << 8,
    ARCH_OLMO2 = 1 << 9,
    ARCH_SMOLLM3 = 1 << 10,
    ARCH_NANOCHAT = 1 << 11,
    ARCH_GEMMA2 = 1 << 12,
    ARCH_PHI3 = 1 << 13,
    ARCH_STABLELM = 1 << 14,
    ARCH_BLOOM = 1 << 15,
    ARCH_COHERE = 1 << 16,
    ARCH_FALCON = 1 << 17,
    ARCH_SEED_OSS = 1 << 18,
    ARCH_GLM4 = 1 << 19,
    ARCH_EXAONE4 = 1 << 20,
    ARCH_OLMOE = 1 << 21,
    ARCH_LFM2 = 1 << 22,
    ARCH_SHORTCONV = 1 << 23, /* a layer of LFM2 that is a short convolution */
    ARCH_GPT1 = 1 << 24,
    ARCH_APERTUS = 1 << 25,
    ARCH_GPT_OSS = 1 << 26,
    ARCH_LATENT = 1 << 27,
    ARCH_GEMMA4 = 1 << 28,
    ARCH_BAILING = 1 << 29,
    ARCH_DBRX = 1 << 30
};

/* Keys that are numbers of some architectures and refused in the others (known_keys.c). */
enum {
    KNOWS_SCALES = 1,
    KNOWS_SCORE_CAP = 2,
    KNOWS_ALIBI = 4,
    KNOWS_EXPERTS = 16,
    KNOWS_CONVOLUTIONS = 32,
    KNOWS_VALUE_GATES = 64,
    KNOWS_ALL = 128, /* a key that all architectures read */
    KNOWS_QUERY_SCALE = 256,
    KNOWS_CLAMPED_GLU = 512,
    KNOWS_SPARSE_MIXER = 1024,
    KNOWS_LATENT = 2048,
    KNOWS_LAYER_SHAPES = 4096,
    KNOWS_LAYER_INPUTS = 8192, /* and layers that read another one's keys */
    KNOWS_VALUES = 16384,      /* a factor of values, and a width of their own */
    KNOWS_QUERY_POWER = 32768
};
enum { MINICPM_SCALES = 8 }; /* defaults of the keys of KNOWS_SCALES are MiniCPM's numbers */

/* Order of a layer's branches. */
enum branches {
    BRANCHES_SEQUENTIAL, /* the MLP reads the residual after attention */
    BRANCHES_PARALLEL    /* both read the same residual (use_parallel_residual = true) */
};

enum head_gates { GATES_NONE, GATES_OF_HEADS, GATES_OF_VALUES, GATES_OF_EITHER };

struct arch {
    const char *name; /* general.architecture, and the prefix of its keys */
    unsigned bit;
    enum norm_kind norm;
    const char *eps_key; /* after "<name>." */
    double eps;          /* when the key is absent; 0: the key is required */
    enum act act;
    int embd_norm, final_norm;
    int no_gain;    /* norms have no gain tensors; microgpt's may */
    int no_input;   /* layers have norms only after their branches, not before */
    int qk_norm;    /* q and k are normalised per head even without a gain tensor */
    int v_norm;     /* v is normalised per head, without a gain */
    int unscaled;   /* default of the key attention.scale is 1 */
    int rope_first; /* q and k are rotated before their norms; 2: where rope scales them, too. Else
                     * the order has no effect on norms without gains, but for the last bit */
    int rope;       /* q and k are rotated */
    enum rope_pairs pairs;
    int same_order;         /* programs have the components of q and k as files have them */
    int halves_exchanged;   /* files store the two halves of a head of q and k swapped */
    enum branches branches; /* default of the key use_parallel_residual */
    int embd_root;          /* embeddings are multiplied by sqrt(n_embd) */
    unsigned knows;         /* KNOWS_ bits: keys that other architectures refuse */
    int divides_logits;     /* the key logit_scale divides, else it multiplies */
    int expert_norm;        /* default of the key expert_weights_norm */
    int expert_sigmoid;     /* default of the key expert_gating_func is sigmoid */
    double expert_jitter;   /* default of the key expert_jitter; 0: none */
    double expert_more;     /* added to the sum that weights of experts are divided by */
    int bias_of_scores;     /* the bias of the choice is added to scores, not to probabilities */
    int residual_by_depth;  /* the residual is scaled where a branch is added to it: ops.h */
    int half_shared;        /* the sum of a shared expert and the chosen ones is halved */
    int sinks;              /* heads have a score without a key; 2: in layers with a window */
    enum head_gates gates;  /* of what attention mixes */
    int gates_softplus;     /* not sigmoids */
    int sandwich;           /* norms after branches, too (slots.h) */
    int dense_head;         /* a matrix and a norm before the head; layer 0 has no attn_norm */
    int norm_2_first;       /* attn_norm_2 is attention's, and attn_norm then the MLP's */
    int rope_windowed;      /* of a model with a window, only layers that have it are rotated */
    int plain_roped;        /* then layers without experts are rotated, too */
    int window_optional;    /* files without attention.sliding_window have no windows */
    size_t no_rope_every;   /* default of mgpt.attention.no_rope_every: each n-th layer is not
                             * rotated; 0: all layers are */
    size_t full_every; /* each n-th layer has no sliding window and uses rope.freq_base, the others
                               use rope.freq_base_swa; 0: all layers are windowed */
    size_t full_first; /* 1: the first of each full_every layers is that one, not the last */
    double alibi;      /* default of attention.max_alibi_bias; 0: none */
    double score_cap, logit_cap; /* defaults of attn_ and final_logit_softcapping; 0: none */
    double glu_limit, up_more;   /* defaults of swiglu_limit and swiglu_offset; 0: none */
    double query_power;          /* default of attention.temperature_power; 0: none */
    size_t wide_scale; /* a model of this many layers has attention.scale 1/sqrt(n_embd / n_head) as
                        * default, others 1/sqrt(head_dim); 0: there is none */
    int rope_finetuned; /* rope.scaling.finetuned = false: q and k are not rotated */
    int local_unscaled; /* without rope.freq_base_swa windowed layers have rope.freq_base, not scaled */
    double local_base; /* default of rope.freq_base_swa; 0: rope.freq_base */
};

/* Returns the component of a stored head that is component i in the programs that models come from
 * (and in TransformerLens). Converters reorder the rows of q and k: ROPE_ADJACENT stores the
 * components of a pair next to each other; those programs have them n_rot / 2 apart. */
size_t arch_stored_component(const struct arch *arch, size_t n_rot, size_t i);

/* NULL when unknown. The name need not be NUL-terminated. */
const struct arch *arch_find(const char *name, size_t n);

/* Why models of this name, of GGUF or of config.json, are refused; NULL: it is not one of those that
 * people have. */
const char *arch_why_refused(const char *name, size_t n);

const char *act_name(enum act act);
int act_find(const char *name, size_t n, enum act *act);

#endif
