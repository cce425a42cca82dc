/* Fuzz targets: what they share.
 *
 * A target is one file with LLVMFuzzerTestOneInput, the entry that libFuzzer and AFL++ call. The
 * same file is linked with replay.c into a plain program, so that every build runs the seeds, their
 * damaged copies and all past findings. A target ends by abort() when a promise is broken; crashes,
 * leaks and reads out of bounds are the sanitizers' business.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A target adds what it got to the run's outcome: error lines, and values of what was accepted. replay.c
 * compares the outcomes of a seed and its damaged copies with a file. saw.c. */
void fuzz_saw(const void *data, size_t n);
void fuzz_saw_number(uint64_t n);
void fuzz_saw_error(const mgpt_error *err);
void fuzz_saw_floats(const float *x, size_t n); /* NaN is one value: its bits are the machine's */

/* The hash of all that was added since the last call. */
uint64_t fuzz_outcome(void);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Bytes taken from the front of an input; zeros when it is used up. */
struct feed {
    const uint8_t *data;
    size_t size;
};

static inline uint8_t feed_byte(struct feed *f)
{
    if (f->size == 0)
        return 0;
    f->size--;
    return *f->data++;
}

static inline uint32_t feed_u32(struct feed *f)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v |= (uint32_t)feed_byte(f) << (8 * i);
    return v;
}

static inline float feed_float(struct feed *f)
{
    uint32_t bits = feed_u32(f);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
