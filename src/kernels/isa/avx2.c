/* ISA level "avx2": AVX2, FMA and F16C: Intel since Haswell (2013), AMD since Excavator (2015) and
 * Zen.
 */
#define ISA avx2
#include "kernels/isa/native_tmpl.h"
