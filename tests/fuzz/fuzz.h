/* Fuzz targets: what they share.
 *
 * A target is one file with LLVMFuzzerTestOneInput, the entry that libFuzzer and AFL++ call. The
 * same file is linked with replay.c into a plain program, so that every build runs the seeds, their
 * damaged copies and all past findings. A target ends by abort() when a promise is broken; crashes,
 * leaks and reads out of bounds are the sanitizers' business.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
