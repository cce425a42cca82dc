/* ISA level "scalar": plain C for any machine; its bits are the specification. Without a hardware
 * fused multiply-add (x86-64 before 2013) fmaf is a library call, and this level is slow.
 */
#define ISA scalar
#include "kernels/spec/float_tmpl.h"

void kernels_init_scalar(struct kernels *k)
{
    spec_init(k);
}
