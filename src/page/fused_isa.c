/* The fused path for one ISA level. Compiled once per level, with the level's compiler flags and
 * -DFUSED=NAME (src/page/meson.build).
 */
#include "page/fused_tmpl.h"

#define PASTE(a, b) a##b
#define NAME_OF(level) PASTE(fused_, level)
#define TEXT(word) #word
#define TEXT_OF(level) TEXT(level)

/* The table is named after its level. Declared here and by FUSED_LEVELS in fused.c. */
extern const struct fused_kernels NAME_OF(FUSED);
const struct fused_kernels NAME_OF(FUSED) = {
    .vectors = TEXT_OF(FUSED), .first_qkv = fused_first_qkv, .step = fused_step};
