/* Floor 1. The fused path for one ISA level. Compiled once per level, with its flags and -DFUSED=NAME
 * (src/meson.build).
 */
#include "page/fused_tmpl.h"

#define PASTE(a, b) a##b
#define NAME_OF(level) PASTE(fused_, level)
#define TEXT(word) #word
#define TEXT_OF(level) TEXT(level)

/* Tables are named after their level, so the declaration is here and in the list (fused.c). */
extern const struct fused_kernels NAME_OF(FUSED);
const struct fused_kernels NAME_OF(FUSED) = {
    .vectors = TEXT_OF(FUSED), .begin = begin, .step = step};
