/* ISA level "scalar": plain C for any machine; its bits are the specification. Without a hardware
 * fused multiply-add (x86-64 before 2013) fmaf is a library call, and this level is slow.
 */
#define ISA_INIT kernels_init_scalar
#define ISA_SAMPLE sample_kernels_scalar
#define ISA_NAME "scalar"
#define ISA_STATIC
#include "kernels/spec/float_tmpl.h"
