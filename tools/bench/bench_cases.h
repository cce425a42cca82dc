/* Entries of the kernel table as `mgpt bench --kernels` measures them. See bench.h.
 *
 * Matrices come in three sizes: one that only memory can hold and one that half of L2 holds, for
 * one token each, and one for a prompt. The rest works on a row of values in L1. Entries that an
 * ISA level does not have (NULL) make no case.
 *
 * What is in the buffers decides no speed, as long as nothing becomes subnormal: matrices are bytes
 * that are ordinary numbers in every type, and rows changed in place begin anew for every sample.
 */
#ifndef MGPT_BENCH_CASES_H
#define MGPT_BENCH_CASES_H

#include "bench/bench.h"
#include "kernels/kernels.h"

enum { MAX_CASES = 8 }; /* measured in the same rounds */

/* Buffers of all cases. */
struct bank {
    uint8_t *large, *small, *prompt; /* packed matrices */
    uint8_t *file;                   /* a matrix as a file has it */
    size_t n_large, n_small;         /* bytes meant for them */
    float *x, *y, *ones;             /* [PROMPT][ROW] */
    uint8_t *rows;                   /* x as integer types take it */
    uint8_t *work;                   /* scratch of linear */
};

/* One entry at one size. */
struct kernel_case {
    void (*call)(const struct kernel_case *c);
    const struct kernels *k;
    struct bank *bank;
    char name[24], shape[40];
    int index;        /* of the entry in its array */
    size_t streaming; /* of one token */
    uint8_t *matrix;
    size_t n, n_in, n_out;
    double ops, bytes;                /* of a call; bytes 0: not asked */
    const struct series *peak, *read; /* limits, NULL: not asked */
    size_t times;
    struct series seconds, peak_share, read_share;
};

struct case_list {
    struct kernel_case c[MAX_CASES];
    size_t n;
};

/* 0: out of memory; bank_free is still due. */
int bank_open(struct bank *b, const struct machine *m);
void bank_free(struct bank *b);

/* Restores the values that entries change in place. */
void bank_refresh(struct bank *b);

/* Cases of one type of weights, when its names hold the word (NULL: any): large matrices take a
 * while to pack; of attention over a cache of one type; of the next few entries that work on one
 * row, from *at on, up to N_ROW_ENTRIES. */
void cases_linear(struct case_list *list, const struct kernels *k, struct bank *bank,
                  const struct limits *l, int type, const char *word);
void cases_attention(struct case_list *list, const struct kernels *k, struct bank *bank,
                     const struct limits *l, int type);
void cases_row(struct case_list *list, const struct kernels *k, struct bank *bank, size_t *at);

enum { N_ROW_ENTRIES = 20 };

#endif
