/* Mixtures of element types, under the names of llama-quantize: q4_k_m and others. Matrices that
 * matter more get more bits. */
#ifndef MGPT_CONVERT_MIXTURES_H
#define MGPT_CONVERT_MIXTURES_H

#include "convert/core/checkpoint.h"

struct ckpt_mixture {
    const char *name;     /* small letters */
    uint32_t file_type;   /* general.file_type */
    uint32_t base;        /* DTYPE_ of the matrices that no rule names */
    int needs_importance; /* llama-quantize refuses it without an importance matrix */
};

/* The mixture of a name, in any case; NULL: there is none. Number i, NULL at the end. */
const struct ckpt_mixture *ckpt_mixture_named(const char *name);
const struct ckpt_mixture *ckpt_mixture_at(size_t i);

/* Sets the type that the mixture asks for (ckpt_tensor.asked) of all matrices. */
void ckpt_mix_types(struct checkpoint *c, const struct ckpt_mixture *mixture);

/* The type asked for becomes that of each matrix whose name the pattern (PCRE2) is found in, unless an
 * earlier call has set `is_named` of it. Returns their number, or a status. */
int64_t ckpt_name_types(struct checkpoint *c, const char *pattern, const struct dtype *type,
                        mgpt_error *err);

#endif
