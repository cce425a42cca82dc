/* Floor 1. Rung "scalar": the base: plain C, any machine. Without a hardware fused multiply-add
 * (x86-64 before 2013) fmaf is a library call and this rung is slow; its bits are the
 * specification.
 */
#define RUNG_INIT kernels_init_scalar
#define RUNG_SAMPLE sample_kernels_scalar
#define RUNG_NAME "scalar"
#define RUNG_STATIC
#include "kernels/spec/float_tmpl.h"
