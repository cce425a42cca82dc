/* What a model can be checked against without a reference: itself.
 *
 * Bits: one hash of all logits for every variant of computing them, the promise of equal bits.
 * Stages: every operation of the pass against float64 on the engine's own inputs, the promise that
 * the numbers are right. Both work on any model, with as few tokens as the model's size asks for.
 */
#ifndef MGPT_SELF_H
#define MGPT_SELF_H

#include "common/cli.h"
#include "common/progress.h"
#include "mgpt.h"

/* Opens the model with an instruction set (NULL: the best); MGPT_EARG in *err when this machine
 * lacks it. */
typedef mgpt_model *self_open_fn(void *user, const char *isa, mgpt_error *err);

struct self_request {
    self_open_fn *open;
    void *user;
    const int32_t *tokens; /* n of them, at least one */
    size_t n;
    const char *isa; /* only this instruction set; NULL: all that the machine has */
    int32_t kv_type; /* of the bits */
    int full;        /* also what takes long: all variants on the scalar kernels of a large model */
    struct progress *progress; /* shows how far each call is; NULL: nothing does */
};

/* One variant of computing the logits. */
struct self_variant {
    const char *isa, *name;
    int32_t n_threads, n_chunk; /* 0: chosen */
    uint64_t hash;              /* FNV-1a of all logits */
};

/* Where a variant's logits are not those of the first variant. */
struct self_difference {
    struct self_variant first, variant;
    size_t pos, id;
    float expected, found;
};

struct self_bits {
    struct self_variant *variants; /* stb_ds array, in the order they were tried */
    size_t n_isas;
    size_t n_skipped; /* variants left out because they take long */
    int differs;      /* the last variant does; nothing was tried after it */
    struct self_difference difference;
};

/* Tries all variants and stops at the first that differs. MGPT_OK also then; MGPT_ESTOP after
 * Ctrl-C. The caller frees bits->variants. */
int self_bits(const struct self_request *request, struct self_bits *bits, mgpt_error *err);

/* One point of the pass, all layers together. */
struct self_stage {
    int fired;
    double nmse;           /* the worst layer's mean squared error over mean square */
    int32_t layer;         /* the worst layer */
    size_t pos, head, col; /* place of the largest error in that layer */
    double expected, found;
};

struct self_stages {
    struct self_stage points[MGPT_N_POINTS];
    double bound; /* of nmse */
    int holds;    /* every stage is finite and within it */
    double whole; /* NMSE of logits of a whole pass in float64; NaN for integer weights */
};

/* The engine's pass compared with float64. MGPT_OK also when they differ. */
int self_stages(const struct self_request *request, struct self_stages *stages, mgpt_error *err);

/* The number of tokens that a model of this size is checked with by default, and the fixed sequence
 * that is used without a text. */
size_t self_n_tokens(const mgpt_info *info);
void self_tokens(const mgpt_info *info, int32_t *tokens, size_t n);

/* The options of `mgpt check --self`. self_check does all of the above for the model at `path` and prints it. */
struct self_options {
    const char *path, *isa, *kv;
    struct cli_many lora;
    const char *text; /* NULL: the fixed sequence */
    size_t n_text;
    int32_t n_tokens; /* 0: by the model's size */
    int full, json;
    const char *attest;   /* NULL, or the record to write when all is well (attest.h) */
    const char *attested; /* NULL, or the record that has tokens, kv and the hash to be found */
};

/* Checks and prints the results. Returns an exit code. */
int self_check(const struct self_options *options);

#endif
