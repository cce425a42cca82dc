/* The second promise: logits depend on the weights and the tokens, on nothing else.
 *
 * For every model of the zoo one run is the reference: step by step, one thread, untraced. Every
 * other variant must give the same bits: chunks, threads, taps, instruction sets, how the
 * file was opened. (Rewinding, forking, syncing, batches: test_timelines.) There is no
 * tolerance here, and no comparison with true values (test_forward). */
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <unistd.h>

/* ---- variants ---- */

static const int32_t chunks[] = {1, 2, 3, 5, 16, 64, 0};
enum { N_CHUNKS = COUNT(chunks) };

/* Without a tap only the last row gets logits, which is another path through the head. */
TEST_ZOO(chunks)
{
    size_t some = s->n < 19 ? s->n : 19;
    for (size_t i = 0; i < N_CHUNKS; i++) {
        mgpt_session *session = subject_session(s->model, chunks[i], 1);
        subject_feed(session, s->tokens, some);
        subject_check(s, some - 1, 1, mgpt_logits(session), "untapped chunks of",
                      (size_t)chunks[i]);
        assert_int_equal(mgpt_rewind(session, 0, NULL), MGPT_OK);
        subject_check_feed(s, session, "chunks of", (size_t)chunks[i]);
        mgpt_session_free(session);
    }
}

static void by_threads(const struct subject *s, int32_t n_chunk)
{
    const int32_t threads[] = {2, 4, 0};
    for (size_t i = 0; i < 3; i++) {
        mgpt_session *session = subject_session(s->model, n_chunk, threads[i]);
        subject_check_feed(s, session, n_chunk == 1 ? "steps, threads" : "chunks of 64, threads",
                           (size_t)threads[i]);
        mgpt_session_free(session);
    }
}

static void by_threads_in_chunks(const struct subject *s)
{
    by_threads(s, 64);
}

/* The cache grows by one token, by many, and by steps and feeds alternately. */
TEST_ZOO(pieces)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t rng = seed;
        mgpt_session *session = subject_session(s->model, chunks[seed], 1);
        while (mgpt_pos(session) < s->n) {
            size_t pos = mgpt_pos(session), piece = 1 + toy_random(&rng) % 13;
            if (piece > s->n - pos)
                piece = s->n - pos;
            if (toy_random(&rng) % 2 == 0 && piece == 1)
                assert_non_null(mgpt_step(session, s->tokens[pos], NULL));
            else
                subject_feed(session, s->tokens + pos, piece);
            subject_check(s, pos + piece - 1, 1, mgpt_logits(session), "pieces, seed",
                          (size_t)seed);
        }
        mgpt_session_free(session);
    }
}

/* Traces the first n tokens at `points`; the logits must not have noticed. */
static struct trace *traced(const struct subject *s, uint64_t points, size_t n, int32_t n_chunk)
{
    mgpt_session *session = subject_session(s->model, n_chunk, 1);
    struct trace *t = trace_new(s->m->spec.n_layer, n);
    assert_int_equal(mgpt_tap(session, points, trace_tap, t, NULL), MGPT_OK);
    subject_feed(session, s->tokens, n);
    subject_check(s, n - 1, 1, mgpt_logits(session), "tapped in chunks of", (size_t)n_chunk);
    assert_string_equal(t->fault, "");
    mgpt_session_free(session);
    return t;
}

/* Looking changes nothing, whether at all points or at one; and what is seen is the same in any
 * chunking and company. */
TEST_ZOO(taps)
{
    const uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    char where[80];
    struct trace *steps = traced(s, all, s->n, 1), *chunked = traced(s, all, s->n, 16);
    if (!trace_equal(steps, chunked, where, sizeof where))
        fail_msg("%s: traces of steps and of chunks differ at %s", s->m->spec.label, where);
    trace_free(steps);
    trace_free(chunked);
    size_t n = s->n < 18 ? s->n : 18;
    struct trace *whole = traced(s, all, n, 7);
    for (int p = 0; p < MGPT_N_POINTS; p++) {
        struct trace *alone = traced(s, MGPT_POINT_BIT(p), n, 7);
        for (int layer = -1; layer < s->m->spec.n_layer; layer++) {
            const struct trace_value *a = trace_at(alone, (mgpt_point)p, layer);
            const struct trace_value *b = trace_at(whole, (mgpt_point)p, layer);
            assert_int_equal(a->data != NULL, b->data != NULL);
            if (a->data)
                assert_memory_equal(a->data, b->data, n * a->cols * sizeof *a->data);
        }
        trace_free(alone);
    }
    trace_free(whole);
}

/* mgpt_unembed of what the head is given is the logits. */
TEST_ZOO(unembed)
{
    const struct toy_spec *spec = &s->m->spec;
    struct trace *t = trace_new(spec->n_layer, s->n);
    mgpt_session *session = subject_session(s->model, 0, 1);
    mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, trace_tap, t, NULL);
    subject_feed(session, s->tokens, s->n);
    const struct trace_value *x = trace_at(t, MGPT_RESID_POST, spec->n_layer - 1);
    const struct trace_value *normed = trace_at(t, MGPT_EMBD_NORM, -1);
    const struct trace_value *token = trace_at(t, MGPT_EMBD, -1);
    const struct trace_value *position = trace_at(t, MGPT_POS_EMBD, -1);
    float *residual = toy_alloc((size_t)spec->n_embd, sizeof *residual);
    float *logits = toy_alloc(s->n_vocab, sizeof *logits);
    for (size_t row = 0; row < s->n; row++) {
        for (size_t i = 0; i < (size_t)spec->n_embd; i++) {
            size_t at = row * (size_t)spec->n_embd + i;
            if (spec->n_layer > 0)
                residual[i] = (float)x->data[at];
            else if (normed->data)
                residual[i] = (float)normed->data[at];
            else
                residual[i] =
                    (float)token->data[at] + (position->data ? (float)position->data[at] : 0.0f);
        }
        assert_int_equal(mgpt_unembed(session, residual, logits, NULL), MGPT_OK);
        subject_check(s, row, 1, logits, "unembedded, position", row);
    }
    subject_check(s, s->n - 1, 1, mgpt_logits(session), "logits after unembedding", 0);
    free(residual);
    free(logits);
    trace_free(t);
    mgpt_session_free(session);
}

static void check_opened(const struct subject *s, mgpt_model *model, const char *what, size_t v)
{
    mgpt_session *session = subject_session(model, v % 2 ? 0 : 5, 1);
    subject_check_feed(s, session, what, v);
    mgpt_session_free(session);
    mgpt_close(model);
}

/* From a path, and from memory at every alignment. */
TEST_ZOO(open)
{
    char path[] = "/tmp/mgpt-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, s->m->file, s->m->size), s->m->size);
    close(fd);
    mgpt_error err;
    mgpt_model *model = mgpt_open(path, NULL, &err);
    unlink(path);
    if (!model)
        fail_msg("%s", err.text);
    check_opened(s, model, "opened from a path", 0);
    for (size_t shift = 1; shift < 4; shift += 2) {
        uint8_t *copy = toy_alloc(s->m->size + shift, 1);
        memcpy(copy + shift, s->m->file, s->m->size);
        model = mgpt_open_bytes(copy + shift, s->m->size, NULL, &err);
        if (!model)
            fail_msg("%s", err.text);
        check_opened(s, model, "opened from memory, shifted by", shift);
        free(copy);
    }
}

/* Every ISA level that this machine has. */
TEST_ZOO(isa)
{
    const char *isa;
    int runs;
    for (size_t i = 0; (isa = mgpt_isa(i, &runs)); i++) {
        mgpt_model_params params = {.isa = isa};
        mgpt_model *model = mgpt_open_bytes(s->m->file, s->m->size, &params, NULL);
        assert_int_equal(model != NULL, runs);
        if (!model)
            continue;
        mgpt_info info;
        assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
        assert_string_equal(info.isa, isa);
        check_opened(s, model, isa, i);
    }
}

/* A session that may hold less gives the same bits. */
TEST_ZOO(context)
{
    mgpt_session_params params = {.n_ctx = (int32_t)s->n};
    mgpt_session *session = mgpt_session_new(s->model, &params, NULL);
    assert_non_null(session);
    assert_int_equal(mgpt_n_ctx(session), s->n);
    subject_check_feed(s, session, "context of", s->n);
    mgpt_session_free(session);
}

/* ---- the zoo ---- */

/* The engine hands work to other threads from 65,536 multiply-adds on. The zoo's chunks get there,
 * its single steps do not: the wide models' heads do (64 * 1030), and attention over 24 tokens. */
static const struct toy_spec wide[] = {
    {.label = "wide llama", .arch = "llama", TOY_SIZES(1, 64, 4, 70, 24, 1030), .n_head_kv = 2},
    {.label = "wide gemma3, Q8_0",
     .arch = "gemma3",
     TOY_SIZES(2, 64, 6, 96, 40, 1030),
     .n_head_kv = 3,
     .head_dim = 20,
     .window = 21,
     .full_every = 2,
     .logit_softcap = 5,
     .head_bias = 1,
     .tied = 1,
     .type = TOY_Q8_0},
    {.label = "wide deepseek2",
     .arch = "deepseek2",
     TOY_SIZES(1, 64, 6, 70, 24, 1030),
     .head_dim = 40,
     .rope_dims = 8,
     .value_dim = 30,
     .n_latent = 100,
     .n_q_latent = 70}};

TEST(threads)
{
    for (size_t i = 0; i < COUNT(wide); i++) {
        struct subject s = subject_new(&wide[i], 1);
        by_threads(&s, 1);
        by_threads(&s, 64);
        subject_free(&s);
    }
    subject_each(by_threads_in_chunks);
}
