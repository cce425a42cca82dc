/* Tests: bugs planted in toys and looked for with locate and explain, from what a float64 trace of
 * the unbroken toy says; with all inner values, with some, or with the logits alone. */
#ifndef TESTS_PLANTED_H
#define TESTS_PLANTED_H

#include "check/compare/answer.h"
#include "support/build_model.h"
#include "support/trace.h"

struct bug {
    const char *label;
    const struct toy_spec *spec;
    void (*plant)(struct toy *m); /* NULL: the reference does otherwise, not the file */
    const char *hook;             /* first bad one */
    const char
        *cause; /* part of what --explain says; of the tensor where it is one weight; NULL: nothing
                        * may be claimed */
    int logits; /* the cause is found from the logits alone as well */
};

/* What a trace says, as an answer. */
struct told {
    struct trace *trace;
    struct ref_hook *hooks;
    size_t n_hooks, n_head, n;
};

/* Of all points but those in `without`. The trace is of n tokens and is told's from now on. */
struct answer told_answer(struct told *t, struct trace *trace, const struct toy *m,
                          const int32_t *tokens, size_t n, uint64_t without);
void told_forget(struct told *t); /* all but the trace */
void told_free(struct told *t);

/* Locates and explains; whether the cause is the one that was planted. The first bad hook must be
 * `hook`. */
int planted_found(const struct bug *bug, const mgpt_model *model, const struct answer *a,
                  const char *hook);

#endif
