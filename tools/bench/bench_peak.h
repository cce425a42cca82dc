/* Loops that do nothing but load the machine: the limits that `mgpt bench` holds a model against.
 *
 * bench_peak_loops.c is compiled once for each ISA level of the ladder, with its flags, so that the
 * arithmetic peak of an ISA level is that of the instructions it may use. Nothing here knows
 * threads or clocks; bench_limit.c does.
 */
#ifndef MGPT_BENCH_PEAK_H
#define MGPT_BENCH_PEAK_H

#include <stddef.h>
#include <stdint.h>

enum {
    PEAK_READ_WAYS = 7, /* loops that read memory, of which the fastest here is the limit */
    PEAK_READ_UNIT = 4096
};

struct peak_loops {
    const char *isa;
    const char *fma_name, *int8_name; /* the instructions, for people */

    /* One round is fma_ops operations on floats (a multiplication and an addition count as two);
     * int8_ops the same with products of 8-bit numbers, 0: the ISA level has no instruction for it.
     * The result means nothing and must be used. */
    size_t fma_ops, int8_ops;
    float (*fma)(size_t rounds);
    int32_t (*int8)(size_t rounds);

    /* Reads n bytes, 64-aligned, n a multiple of PEAK_READ_UNIT. */
    uint64_t (*read)(const void *data, size_t n, int way);
};

/* The loops of an ISA level by name; those of the portable C for a name that is unknown. */
const struct peak_loops *peak_find(const char *isa);

#endif
