/* The list of the fused path's compilations. src/page/meson.build defines FUSED_LEVELS with the ISA
 * levels of the target architecture: LEVEL(scalar) LEVEL(avx2) ...
 */
#include "page/fused.h"

#include <string.h>

#if defined(MGPT_NO_FUSED) || !defined(FUSED_LEVELS)
#undef FUSED_LEVELS
#define FUSED_LEVELS
#endif

#define LEVEL(name) extern const struct fused_kernels fused_##name;
FUSED_LEVELS
#undef LEVEL

const struct fused_kernels *fused_kernels(const char *vectors)
{
#define LEVEL(name) &fused_##name,
    const struct fused_kernels *const levels[] = {FUSED_LEVELS NULL};
#undef LEVEL
    for (size_t i = 0; levels[i]; i++)
        if (strcmp(levels[i]->vectors, vectors) == 0)
            return levels[i];
    return NULL;
}
