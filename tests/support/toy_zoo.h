/* Tests: the zoo, one toy model of each kind worth having, and its members as subjects of tests of
 * equal bits: a model, tokens, and the logits of every position from the plainest run there is
 * (step by step, one thread, untraced), against which every other way to them is checked. */
#ifndef TESTS_TOY_ZOO_H
#define TESTS_TOY_ZOO_H

#include "mgpt.h"
#include "support/build_model.h"
#include "support/unit.h"

/* The members of toys.inc. */
#define ARCH(...)
#define TOY(id, ...) id,
enum {
#include "support/toys.inc"
    ZOO_SIZE
};
#undef ARCH
#undef TOY
extern const struct toy_spec toy_zoo[ZOO_SIZE];

enum { MAX_TOKENS = 66 }; /* a chunk of 64 and something after it */

struct subject {
    struct toy *m;
    mgpt_model *model;
    size_t n, n_vocab;
    int32_t tokens[MAX_TOKENS];
    float *logits; /* [n][n_vocab] */
};

/* Makes the model and runs the reference. */
struct subject subject_new(const struct toy_spec *spec, uint64_t seed);
void subject_free(struct subject *s);

/* Runs the test for every model of the zoo. */
void subject_each(void test(const struct subject *));

/* TEST_ZOO(name) { ... }: a test of every model of the zoo, s. */
#define TEST_ZOO(name) TEST_EACH(subject_each, name, const struct subject *s)

/* A member of the zoo as a subject. */
struct subject subject_zoo(size_t zoo);

/* A session, or the test fails. */
mgpt_session *subject_session(const mgpt_model *model, int32_t n_chunk, int32_t n_threads);
void subject_feed(mgpt_session *session, const int32_t *tokens, size_t n);

/* `rows` rows of logits from position `first` on must be the reference's, to the bit; what and v
 * name the case in the message. */
void subject_check(const struct subject *s, size_t first, size_t rows, const float *logits,
                   const char *what, size_t v);

/* The session holds a prefix of the subject's tokens; feeds the rest and checks every row. */
void subject_check_feed(const struct subject *s, mgpt_session *session, const char *what, size_t v);

#endif
