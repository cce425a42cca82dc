/* Floor 1. Rung "avx2": AVX2 and FMA: Intel since Haswell (2013), AMD since Excavator (2015) and Zen.
 * Built with its own flags (src/meson.build); called only where kernels_init found the instructions.
 */
#define RUNG_INIT kernels_init_avx2
#define RUNG_NAME "avx2"
#include "kernels_tmpl.h"
