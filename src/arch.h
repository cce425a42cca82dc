/* Floor 4. Architectures as data: one row for what files do not say.
 *
 * What a model is, in order of preference: (1) the tensors present (biases, gains, gate, q/k norms,
 * positions, untied head), (2) numbers and dialect keys in the file, (3) this row. After binding, nothing
 * asks for the architecture's name again.
 */
#ifndef MGPT_ARCH_H
#define MGPT_ARCH_H

#include "kernels.h"

enum norm_kind { NORM_NONE, NORM_RMS, NORM_LAYER };

/* Bits for the slots' sets of architectures. */
enum { ARCH_MICROGPT = 1, ARCH_LLAMA = 2, ARCH_GPT2 = 4 };

struct arch {
    const char *name; /* general.architecture, and the prefix of its keys */
    unsigned bit;
    enum norm_kind norm;
    const char *eps_key; /* behind "<name>." */
    double eps;          /* when the key is absent; 0: the key is required */
    enum act act;
    int embd_norm, final_norm;
    int rope; /* q and k are rotated */
    enum rope_pairs pairs;
};

/* NULL when unknown. The name need not be NUL-terminated. */
const struct arch *arch_find(const char *name, size_t n);

/* The i-th row, NULL past the end. */
const struct arch *arch_row(size_t i);

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
