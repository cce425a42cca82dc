/* Four rows of four words become four columns. Vectors of 16 bytes exist on every supported machine. */
#ifndef MGPT_KERNELS_TRANSPOSE_H
#define MGPT_KERNELS_TRANSPOSE_H

#include <stdint.h>

/* Elements of two vectors of integers of one type, by constant numbers: those of b follow those of a. gcc before 12
 * takes the numbers as a vector of the same type. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__(a)){__VA_ARGS__})
#else
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif

typedef uint32_t words_4 __attribute__((vector_size(16)));

/* Each of two stages interleaves row i with row i + 2. */
static inline void transpose_words(words_4 a[4])
{
    const words_4 b[4] = {SHUFFLE(a[0], a[2], 0, 4, 1, 5), SHUFFLE(a[0], a[2], 2, 6, 3, 7),
                          SHUFFLE(a[1], a[3], 0, 4, 1, 5), SHUFFLE(a[1], a[3], 2, 6, 3, 7)};
    a[0] = SHUFFLE(b[0], b[2], 0, 4, 1, 5);
    a[1] = SHUFFLE(b[0], b[2], 2, 6, 3, 7);
    a[2] = SHUFFLE(b[1], b[3], 0, 4, 1, 5);
    a[3] = SHUFFLE(b[1], b[3], 2, 6, 3, 7);
}

#endif
