/* Four rows of four words become four columns. Vectors of 16 bytes exist on every supported machine. */
#ifndef MGPT_KERNELS_TRANSPOSE_H
#define MGPT_KERNELS_TRANSPOSE_H

#include <stdint.h>

typedef uint32_t words_4 __attribute__((vector_size(16)));

/* Each of two stages interleaves row i with row i + 2. */
static inline void transpose_words(words_4 a[4])
{
    const words_4 b[4] = {__builtin_shufflevector(a[0], a[2], 0, 4, 1, 5),
                          __builtin_shufflevector(a[0], a[2], 2, 6, 3, 7),
                          __builtin_shufflevector(a[1], a[3], 0, 4, 1, 5),
                          __builtin_shufflevector(a[1], a[3], 2, 6, 3, 7)};
    a[0] = __builtin_shufflevector(b[0], b[2], 0, 4, 1, 5);
    a[1] = __builtin_shufflevector(b[0], b[2], 2, 6, 3, 7);
    a[2] = __builtin_shufflevector(b[1], b[3], 0, 4, 1, 5);
    a[3] = __builtin_shufflevector(b[1], b[3], 2, 6, 3, 7);
}

#endif
