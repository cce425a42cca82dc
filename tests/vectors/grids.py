"""Makes src/dtype/grids.h from the grids in the Python package gguf.

    pip install gguf==0.19.0; python3 grids.py >../../src/dtype/grids.h
"""
import numpy as np
from gguf import quants

NAMES = {"IQ2_XXS": "IQ2_XXS", "IQ2_XS": "IQ2_XS", "IQ2_S": "IQ2_S", "IQ3_XXS": "IQ3_XXS", "IQ3_S": "IQ3_S",
         "IQ1_S": "IQ1"}

print("""/* The grids of IQ1 to IQ3 (dtype_grid.c): bit i is 1 if the point with the digits of i is one of the grid's.
 * Made by tests/vectors/grids.py. */
#ifndef MGPT_GRIDS_H
#define MGPT_GRIDS_H

#include <stdint.h>

/* clang-format off */""")
for name, ours in NAMES.items():
    t = getattr(quants, name)
    t.init_grid()
    base, width = len(t.grid_map), t.grid_shape[1]
    digits = np.searchsorted(t.grid_map, t.grid.reshape(t.grid_shape))
    numbers = (digits * base ** np.arange(width)).sum(1)
    assert (np.diff(numbers) > 0).all() # the index of a point is its rank
    words = [0] * -(-base ** width // 64)
    for n in map(int, numbers):
        words[n // 64] |= 1 << n % 64
    print(f"\nstatic const uint64_t grid_{ours}[{len(words)}] = {{")
    for i in range(0, len(words), 5):
        print("    " + " ".join(f"0x{w:x}," for w in words[i:i + 5]))
    print("};")
print("\n/* clang-format on */\n\n#endif")
