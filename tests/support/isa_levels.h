/* Tests of kernels: the ISA levels of this machine, and memory that ends at a page which cannot be
 * touched. */
#ifndef TESTS_ISA_LEVELS_H
#define TESTS_ISA_LEVELS_H

#include "kernels/kernels.h"

enum { ISA_LEVELS_MOST = 8 };

/* The tables of all ISA levels that this machine runs, the scalar one first. One that it lacks is
 * named, not passed over. Returns how many. */
size_t isa_levels_here(struct kernels k[ISA_LEVELS_MOST]);

/* `at` is where the last n_bytes before the guard begin: as good as unaligned for an odd
 * n_bytes. */
struct guarded {
    unsigned char *block;
    size_t size; /* of the block, without the guard after it */
    void *at;
};

struct guarded guard_new(size_t n_bytes);
void guard_free(struct guarded *g);

/* The last n_bytes before the guard of a block that is at least as large. */
void *guard_last(const struct guarded *g, size_t n_bytes);

#endif
