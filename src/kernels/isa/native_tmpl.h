/* An ISA level with vectors: matmul and attention by hand, the other entries are float_tmpl.h.
 *
 * The including file, isa/NAME.c, defines ISA as NAME. It is built with flags of its own
 * (meson.build) and called only if kernels_init found the instructions.
 */
#include "kernels/spec/float_tmpl.h"
#include "kernels/tiles/float_tile_tmpl.h"

#include "kernels/tiles/attend_tile_tmpl.h"

void ISA_NAME(kernels_init_)(struct kernels *k)
{
    spec_init(k);
    float_tile_init(k);
    attend_init(k);
}
