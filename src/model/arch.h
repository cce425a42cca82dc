/* Architectures as data: one row for what files do not say.
 *
 * What a model is, in order of preference: (1) the tensors present (biases, gains, gate, q/k norms,
 * positions, untied head), (2) numbers and dialect keys in the file, (3) this row. After binding, nothing
 * asks for the architecture's name again.
 */
#ifndef MGPT_ARCH_H
#define MGPT_ARCH_H

#include "kernels/kernels.h"

enum norm_kind { NORM_NONE, NORM_RMS, NORM_LAYER };

/* Bits for the slots' sets of architectures. */
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
    ARCH_NANOCHAT = 1 << 11
};

/* Order of a layer's branches. */
enum branches {
    BRANCHES_SEQUENTIAL, /* attention, then the MLP on what it left (use_parallel_residual = false) */
    BRANCHES_PARALLEL    /* both read the same residual */
};

struct arch {
    const char *name; /* general.architecture, and the prefix of its keys */
    unsigned bit;
    enum norm_kind norm;
    const char *eps_key; /* behind "<name>." */
    double eps;          /* when the key is absent; 0: the key is required */
    enum act act;
    int embd_norm, final_norm;
    int no_gain;  /* norms have no gain tensors; microgpt's may */
    int no_input; /* layers have no norms before their branches, only behind them */
    int qk_norm;  /* q and k are normalised per head also without a gain tensor */
    int rope;     /* q and k are rotated */
    enum rope_pairs pairs;
    int halves_exchanged;   /* files hold the two halves of a head of q and k in exchange */
    enum branches branches; /* unless use_parallel_residual says otherwise */
    int embd_root;          /* embeddings are multiplied by sqrt(n_embd) */
    size_t no_rope_every;   /* every so many layers one is not rotated; 0: all are */
    size_t full_every; /* with a sliding window: every so many layers one sees everything and uses
                               rope.freq_base, the others rope.freq_base_swa; 0: all are windowed */
    double local_base; /* default of rope.freq_base_swa; 0: rope.freq_base */
};

/* Converters reorder the rows of q and k for this engine's rotation: ROPE_ADJACENT takes the components of
 * a pair next to each other, where the programs that models come from have them n_rot / 2 apart. Returns
 * the component of a stored head that is component i of those programs' (and of TransformerLens'). */
size_t arch_stored_component(const struct arch *arch, size_t n_rot, size_t i);

/* NULL when unknown. The name need not be NUL-terminated. */
const struct arch *arch_find(const char *name, size_t n);

/* Keys (behind the architecture's prefix) whose presence with a value other than `neutral` changes the
 * forward pass in a way this engine does not know: such a file is refused, never run wrongly. */
struct arch_refused {
    const char *key;
    double neutral;
};
extern const struct arch_refused arch_refused[];
extern const size_t arch_n_refused;

const char *act_name(enum act act);
int act_find(const char *name, size_t n, enum act *act);

#endif
