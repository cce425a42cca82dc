/* Floor 1. Rung "avx512": AVX-512 F, BW, DQ, VL: Intel servers since Skylake-SP (2017), AMD since Zen 4.
 * Built with its own flags (src/meson.build); called only where kernels_init found the instructions.
 */
#define RUNG_INIT kernels_init_avx512
#define RUNG_NAME "avx512"
#include "kernels_tmpl.h"
