/* Vectors of AVX-512 with VNNI, which adds nothing for floats. Included by vec.h only. */
#include "kernels/simd/vec_avx512.h"
