/* Tests: bugs planted in toys and looked for with locate and explain, from what a float64 trace of
 * the unbroken toy says; with all inner values, with some, or with the logits alone. */
#ifndef TESTS_PLANTED_H
#define TESTS_PLANTED_H

#include "check/compare/answer.h"
#include "support/build_model.h"
#include "support/toy_oracle.h"

enum { PLANTED_N = 14, PLANTED_MOST = 24 }; /* tokens */

struct bug {
    const char *label;
    const struct toy_spec *spec;
    const char *edits; /* edits of the file (toy_edit); NULL: the reference's program differs */
    const char *hook;  /* the first bad hook */
    const char *cause; /* part of what --explain says; NULL: it may name no cause */
    const char *told;  /* part of what it says from the logits alone; NULL: as `cause` */
    int logits;        /* 1: the cause is found from the logits alone, too */
    const char *bare;  /* first bad hook if norms are not recorded; NULL: `hook` */
    oracle_patch *patch;
    toy_differs *differs;                      /* what the reference's program does otherwise */
    void (*rename)(int32_t *tokens, size_t n); /* what the reference calls its tokens */
    size_t n;                                  /* positions, 0: PLANTED_N */
    double embd;   /* embeddings were recorded before this factor; 0: 1 */
    double bound;  /* of NMSE, as wide as of --tol f16; 0: 1e-9 */
    int pairs;     /* q and k were recorded with the components of a pair side by side */
    uint64_t only; /* the points that were recorded, as bits; 0: all */
};

#define BY_LOGITS .logits = 1
#define BY_HOOKS .logits = 0

/* What a trace says, as an answer. */
struct told {
    struct trace *trace;
    struct ref_hook *hooks;
    size_t n_hooks, n;
    const struct toy_spec *of;
};

/* An answer with all points but those in `without`. The trace is of n tokens and belongs to `told` from
 * now on. */
struct answer told_answer(struct told *t, struct trace *trace, const struct toy *m,
                          const int32_t *tokens, size_t n, uint64_t without);
void told_free(struct told *t);

/* Locates and explains; whether the cause is the one that was planted. The first bad hook must be
 * `hook`. */
int planted_found(const struct bug *bug, const mgpt_model *model, const struct answer *a,
                  const char *hook);

/* Plants the bug and looks for it with all hooks, (bare) without norms, and from the logits alone:
 * how often it was not found and should have been. */
size_t planted_missed(const struct bug *bug, int bare);

#endif
