/* Vectors of Advanced SIMD with dot products, which add nothing for floats. Included by vec.h
 * only. */
#include "kernels/simd/vec_neon.h"
