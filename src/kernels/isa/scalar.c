/* Floor 1. Rung "scalar": the base: plain C, any machine. Without a hardware fused multiply-add
 * (x86-64 before 2013) fmaf is a library call and this rung is slow; its bits are the
 * specification.
 */
#define ISA_INIT kernels_init_scalar
#define ISA_SAMPLE sample_kernels_scalar
#define ISA_NAME "scalar"
#define ISA_STATIC
#include "kernels/spec/float_tmpl.h"
