/* ISA level "neon": Advanced SIMD of ARMv8-A (2011), which every aarch64 machine has.
 */
#define ISA neon
#include "kernels/isa/native_tmpl.h"
