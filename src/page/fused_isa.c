/* The fused path for one ISA level. Compiled once per level, with the level's compiler flags and
 * -DISA=NAME (src/page/meson.build).
 */
#include "page/fused_tmpl.h"

/* The table is named after its level. Declared here and by FUSED_LEVELS in fused.c. */
extern const struct fused_kernels ISA_NAME(fused_);
const struct fused_kernels ISA_NAME(fused_) = {.vectors = ISA_STRING(ISA),
                                               .first_qkv = fused_first_qkv,
                                               .step = fused_step,
                                               .interleaves = INTERLEAVES};
