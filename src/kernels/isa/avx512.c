/* ISA level "avx512": AVX-512 F, BW, DQ, VL: Intel servers since Skylake-SP (2017), AMD since Zen 4.
 */
#define ISA avx512
#include "kernels/isa/native_tmpl.h"
