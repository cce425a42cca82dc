/* mgpt.h's contract for models and sessions, sentence by sentence: what is refused, with which
 * status, and that after a refusal every object is as it was. Equal logits of all variants:
 * test_equal_bits. Files that are refused: test_model_files. */
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>

struct zoo_session {
    struct toy *m;
    mgpt_model *model;
    mgpt_session *session;
    int32_t tokens[80];
    size_t n_vocab;
};

static struct zoo_session open_deep(void)
{
    struct toy_spec spec = toy_zoo[ZOO_LLAMA_DEEP];
    spec.seed = 77;
    struct zoo_session z = {.m = toy_build(&spec), .n_vocab = (size_t)spec.n_vocab};
    z.model = toy_open(z.m, NULL);
    z.session = subject_session(z.model, 4, 0);
    toy_tokens(z.m, 3, z.tokens, 80);
    return z;
}

static void close_deep(struct zoo_session *z)
{
    mgpt_session_free(z->session);
    mgpt_close(z->model);
    toy_free(z->m);
}

/* The session and the error of the running test. */
static struct zoo_session f;
static mgpt_error err;

static int begin_test(void **state)
{
    (void)state;
    f = open_deep();
    memset(&err, 0, sizeof err);
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    close_deep(&f);
    return 0;
}

#define TEST_SESSION(name) TEST_WITH(name, begin_test, end_test)

/* A refusal: the expected status twice, and one printable line that holds `part`. */
static void check_refusal(int status, int expected, const char *part)
{
    if (status != expected || err.status != expected)
        fail_msg("status %d, err.status %d, expected %d: %s", status, err.status, expected,
                 err.text);
    if (!err.text[0] || strchr(err.text, '\n') || !strstr(err.text, part))
        fail_msg("'%s' should be a line with '%s'", err.text, part);
    memset(&err, 0, sizeof err);
}

static void check_null(const void *result, int expected, const char *part)
{
    assert_null(result);
    check_refusal(err.status, expected, part);
}

/* ---- what a failed call must leave alone ---- */

struct snapshot {
    size_t pos;
    int32_t tokens[80];
    float *logits; /* NULL: the session had none */
    float *next;   /* after token 1 more, where there is room */
};

static float *copy_of(const float *logits, size_t n)
{
    if (!logits)
        return NULL;
    float *copy = toy_alloc(n, sizeof *copy);
    memcpy(copy, logits, n * sizeof *copy);
    return copy;
}

static struct snapshot take(mgpt_session *session)
{
    struct snapshot s = {.pos = mgpt_pos(session)};
    if (s.pos > 0)
        memcpy(s.tokens, mgpt_tokens(session), s.pos * sizeof *s.tokens);
    s.logits = copy_of(mgpt_logits(session), f.n_vocab);
    if (s.pos < mgpt_n_ctx(session)) {
        mgpt_session *fork = mgpt_fork(session, NULL);
        s.next = copy_of(mgpt_step(fork, 1, NULL), f.n_vocab);
        assert_non_null(s.next);
        mgpt_session_free(fork);
    }
    return s;
}

static void release(struct snapshot *s)
{
    free(s->logits);
    free(s->next);
}

static void check_unchanged(mgpt_session *session, const struct snapshot *before)
{
    struct snapshot now = take(session);
    size_t n = f.n_vocab * sizeof(float);
    assert_int_equal(now.pos, before->pos);
    assert_memory_equal(now.tokens, before->tokens, sizeof now.tokens);
    assert_int_equal(now.logits != NULL, before->logits != NULL);
    if (now.logits)
        assert_memory_equal(now.logits, before->logits, n);
    if (now.next)
        assert_memory_equal(now.next, before->next, n);
    release(&now);
}

/* ---- arguments ---- */

TEST_SESSION(null_objects)
{
    mgpt_info info;
    mgpt_tensor tensor;
    mgpt_layer layer;
    float x[4];
    int32_t token = 0;
    size_t n = 7;
    mgpt_close(NULL);
    mgpt_session_free(NULL);
    check_null(mgpt_open(NULL, NULL, &err), MGPT_EARG, "");
    check_null(mgpt_open_bytes(NULL, 100, NULL, &err), MGPT_EARG, "");
    check_null(mgpt_session_new(NULL, NULL, &err), MGPT_EARG, "");
    check_null(mgpt_fork(NULL, &err), MGPT_EARG, "");
    check_null(mgpt_step(NULL, 0, &err), MGPT_EARG, "");
    check_refusal(mgpt_get_info(NULL, &info, &err), MGPT_EARG, "");
    check_refusal(mgpt_get_layer(NULL, 0, &layer, &err), MGPT_EARG, "");
    check_refusal(mgpt_get_tensor(NULL, 0, &tensor, &err), MGPT_EARG, "");
    check_refusal(mgpt_find_tensor(NULL, "x", &tensor, &err), MGPT_EARG, "");
    check_refusal(mgpt_read_tensor(NULL, "x", 0, 1, x, &err), MGPT_EARG, "");
    check_refusal((int)mgpt_encode(NULL, "x", 1, 0, &token, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_feed(NULL, &token, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_sync(NULL, &token, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_rewind(NULL, 0, &err), MGPT_EARG, "");
    check_refusal(mgpt_step_many(NULL, &token, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_tap(NULL, 0, NULL, NULL, &err), MGPT_EARG, "");
    check_refusal(mgpt_read_kv(NULL, 0, 0, 0, 1, x, x, &err), MGPT_EARG, "");
    check_refusal(mgpt_unembed(NULL, x, x, &err), MGPT_EARG, "");
    assert_int_equal(mgpt_n_tensors(NULL), 0);
    assert_int_equal(mgpt_pos(NULL), 0);
    assert_int_equal(mgpt_n_ctx(NULL), 0);
    assert_int_equal(mgpt_n_threads(NULL), 0);
    assert_null(mgpt_tokens(NULL));
    assert_null(mgpt_logits(NULL));
    assert_null(mgpt_session_model(NULL));
    mgpt_piece(NULL, 0, &n);
    assert_int_equal(n, 0);
    assert_int_equal(mgpt_is_end(NULL, 0), 0);
}

TEST_SESSION(null_arguments_of_a_session)
{
    float x[32] = {0}, y[32];
    mgpt_session *sessions[1] = {f.session}, *none[1] = {NULL};
    assert_int_equal(mgpt_feed(f.session, f.tokens, 5, NULL), MGPT_OK);
    struct snapshot before = take(f.session);
    check_refusal(mgpt_get_info(f.model, NULL, &err), MGPT_EARG, "");
    check_refusal(mgpt_feed(f.session, NULL, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_sync(f.session, NULL, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_step_many(sessions, NULL, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_step_many(none, f.tokens, 1, &err), MGPT_EARG, "");
    check_refusal(mgpt_unembed(f.session, NULL, y, &err), MGPT_EARG, "");
    check_refusal(mgpt_unembed(f.session, x, NULL, &err), MGPT_EARG, "");
    check_refusal(mgpt_tap(f.session, 1, NULL, NULL, &err), MGPT_EARG, "");
    check_refusal(mgpt_tap(f.session, MGPT_POINT_BIT(MGPT_N_POINTS), trace_tap, NULL, &err),
                  MGPT_EARG, "");
    check_unchanged(f.session, &before);
    assert_int_equal(mgpt_feed(f.session, NULL, 0, &err), MGPT_OK);
    assert_int_equal(mgpt_step_many(NULL, NULL, 0, &err), MGPT_OK);
    check_unchanged(f.session, &before);
    release(&before);
}

/* A NULL err is allowed everywhere, and success leaves *err alone. */
TEST_SESSION(err_is_optional_and_untouched_by_success)
{
    mgpt_error before;
    memset(&err, 0x5A, sizeof err);
    before = err;
    assert_non_null(mgpt_step(f.session, 1, &err));
    assert_int_equal(mgpt_feed(f.session, f.tokens, 6, &err), MGPT_OK);
    assert_int_equal(mgpt_sync(f.session, f.tokens, 3, &err), MGPT_OK);
    assert_int_equal(mgpt_rewind(f.session, 1, &err), MGPT_OK);
    mgpt_session_free(mgpt_fork(f.session, &err));
    mgpt_session_free(mgpt_session_new(f.model, NULL, &err));
    assert_memory_equal(&err, &before, sizeof err);
    assert_null(mgpt_step(f.session, -1, NULL));
    assert_int_equal(mgpt_feed(f.session, f.tokens, 1000, NULL), MGPT_EFULL);
    assert_int_equal(mgpt_rewind(f.session, 1000, NULL), MGPT_EARG);
    assert_null(mgpt_open("/nonexistent/model.gguf", NULL, NULL));
}

TEST_SESSION(tokens_out_of_range)
{
    const int32_t bad[] = {-1, 27, INT32_MAX, INT32_MIN};
    const char *const printed[] = {"-1", "27", "2147483647", "-2147483648"};
    assert_int_equal(mgpt_feed(f.session, f.tokens, 5, NULL), MGPT_OK);
    struct snapshot before = take(f.session);
    for (size_t i = 0; i < 4; i++) {
        int32_t many[12];
        memcpy(many, f.tokens, sizeof many);
        many[10] = bad[i]; /* in the last chunk of three */
        check_null(mgpt_step(f.session, bad[i], &err), MGPT_EARG, printed[i]);
        check_refusal(mgpt_feed(f.session, many, 12, &err), MGPT_EARG, printed[i]);
        check_refusal(mgpt_step_many(&f.session, &bad[i], 1, &err), MGPT_EARG, printed[i]);
        check_unchanged(f.session, &before);
        check_refusal(mgpt_sync(f.session, many, 12, &err), MGPT_EARG, printed[i]);
        assert_true(mgpt_pos(f.session) <= 12);
        assert_memory_equal(mgpt_tokens(f.session), many, mgpt_pos(f.session) * sizeof *many);
        assert_int_equal(mgpt_sync(f.session, f.tokens, 5, NULL), MGPT_OK);
        check_unchanged(f.session, &before);
    }
    release(&before);
}

TEST_SESSION(session_params)
{
    assert_int_equal(mgpt_n_ctx(f.session), 80);
    assert_ptr_equal(mgpt_session_model(f.session), f.model);
    assert_null(mgpt_session_new(f.model, &(mgpt_session_params){.n_ctx = 81}, &err));
    assert_non_null(strstr(err.text, "80"));
    check_refusal(err.status, MGPT_EARG, "81");
    check_null(mgpt_session_new(f.model, &(mgpt_session_params){.n_ctx = -1}, &err), MGPT_EARG,
               "-1");
    check_null(mgpt_session_new(f.model, &(mgpt_session_params){.n_threads = -2}, &err), MGPT_EARG,
               "-2");
    check_null(mgpt_session_new(f.model, &(mgpt_session_params){.n_threads = 257}, &err), MGPT_EARG,
               "257");
    check_null(mgpt_session_new(f.model, &(mgpt_session_params){.n_chunk = -3}, &err), MGPT_EARG,
               "-3");
    check_null(mgpt_session_new(f.model, &(mgpt_session_params){.n_chunk = 4097}, &err), MGPT_EARG,
               "4097");
    mgpt_session *most = mgpt_session_new(f.model, &(mgpt_session_params){.n_threads = 256}, NULL);
    assert_int_equal(mgpt_n_threads(most), 256);
    mgpt_session_free(most);
    mgpt_session *one =
        mgpt_session_new(f.model, &(mgpt_session_params){.n_ctx = 1, .n_chunk = 4096}, &err);
    assert_non_null(one);
    assert_int_equal(mgpt_n_ctx(one), 1);
    assert_non_null(mgpt_step(one, 0, &err));
    check_null(mgpt_step(one, 0, &err), MGPT_EFULL, "1");
    mgpt_session_free(one);
}

/* ---- a full context ---- */

/* The first and the last number of threads of a model, and the next ones. */
TEST(threads_of_a_model)
{
    struct toy *m = toy_build(&toy_zoo[ZOO_MICROGPT]);
    const int32_t allowed[] = {0, 1, 256}, others[] = {-1, 257};
    toy_encode(m);
    for (size_t i = 0; i < COUNT(allowed); i++) {
        const mgpt_model_params params = {.n_threads = allowed[i], .vocab_only = 1};
        mgpt_model *model = mgpt_open_bytes(m->file, m->size, &params, NULL);
        assert_non_null(model);
        mgpt_close(model);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        const mgpt_model_params params = {.n_threads = others[i], .vocab_only = 1};
        mgpt_error refusal;
        char line[60];
        snprintf(line, sizeof line, "%d threads, allowed are 1 to 256", others[i]);
        assert_null(mgpt_open_bytes(m->file, m->size, &params, &refusal));
        assert_int_equal(refusal.status, MGPT_EARG);
        assert_string_equal(refusal.text, line);
    }
    toy_free(m);
}

TEST_SESSION(full_context)
{
    assert_int_equal(mgpt_feed(f.session, f.tokens, 77, NULL), MGPT_OK);
    struct snapshot before = take(f.session);
    check_refusal(mgpt_feed(f.session, f.tokens, 4, &err), MGPT_EFULL, "80");
    check_unchanged(f.session, &before);
    /* The tokens must not be read: there is one, and n is SIZE_MAX. */
    check_refusal(mgpt_feed(f.session, f.tokens, SIZE_MAX, &err), MGPT_EFULL, "80");
    check_unchanged(f.session, &before);
    check_refusal(mgpt_sync(f.session, f.tokens, 81, &err), MGPT_EFULL, "80");
    assert_int_equal(mgpt_sync(f.session, f.tokens, 77, NULL), MGPT_OK);
    check_unchanged(f.session, &before);
    release(&before);
    assert_int_equal(mgpt_feed(f.session, f.tokens + 77, 3, NULL), MGPT_OK);
    before = take(f.session);
    check_null(mgpt_step(f.session, 0, &err), MGPT_EFULL, "80");
    check_refusal(mgpt_step_many(&f.session, f.tokens, 1, &err), MGPT_EFULL, "80");
    check_unchanged(f.session, &before);
    assert_int_equal(mgpt_feed(f.session, f.tokens, 0, NULL), MGPT_OK);
    release(&before);
    assert_int_equal(mgpt_rewind(f.session, 79, NULL), MGPT_OK);
    assert_non_null(mgpt_step(f.session, 0, NULL));
}

/* ---- rewind, logits, fork, sync ---- */

TEST_SESSION(logits_exist_after_tokens_only)
{
    assert_int_equal(mgpt_pos(f.session), 0);
    assert_null(mgpt_logits(f.session));
    assert_int_equal(mgpt_feed(f.session, f.tokens, 0, NULL), MGPT_OK);
    assert_null(mgpt_logits(f.session));
    const float *logits = mgpt_step(f.session, f.tokens[0], NULL);
    assert_non_null(logits);
    assert_ptr_equal(mgpt_logits(f.session), logits);
    assert_int_equal(mgpt_feed(f.session, f.tokens + 1, 9, NULL), MGPT_OK);
    assert_int_equal(mgpt_pos(f.session), 10);
    assert_memory_equal(mgpt_tokens(f.session), f.tokens, 10 * sizeof *f.tokens);
    check_refusal(mgpt_rewind(f.session, 11, &err), MGPT_EARG, "11");
    check_refusal(mgpt_rewind(f.session, SIZE_MAX, &err), MGPT_EARG, "");
    assert_non_null(mgpt_logits(f.session));
    assert_int_equal(mgpt_rewind(f.session, 4, NULL), MGPT_OK);
    assert_int_equal(mgpt_pos(f.session), 4);
    assert_memory_equal(mgpt_tokens(f.session), f.tokens, 4 * sizeof *f.tokens);
    assert_null(mgpt_logits(f.session));
    assert_int_equal(mgpt_sync(f.session, f.tokens, 4, NULL), MGPT_OK);
    assert_non_null(mgpt_logits(f.session));
    assert_int_equal(mgpt_sync(f.session, f.tokens, 0, NULL), MGPT_OK);
    assert_int_equal(mgpt_pos(f.session), 0);
}

static int count_calls(const mgpt_value *value, void *user)
{
    (void)value;
    ++*(int *)user;
    return 0;
}

/* A fork takes settings and logits with it, but no tap; a rewound session's fork has no logits. */
TEST_SESSION(fork_takes_settings_without_taps)
{
    int calls = 0;
    mgpt_session *small = mgpt_session_new(f.model, &(mgpt_session_params){.n_ctx = 9}, NULL);
    assert_int_equal(mgpt_feed(small, f.tokens, 6, NULL), MGPT_OK);
    assert_int_equal(mgpt_tap(small, MGPT_POINT_BIT(MGPT_LOGITS), count_calls, &calls, NULL),
                     MGPT_OK);
    mgpt_session *fork = mgpt_fork(small, NULL);
    assert_int_equal(mgpt_n_ctx(fork), 9);
    assert_ptr_equal(mgpt_session_model(fork), f.model);
    assert_memory_equal(mgpt_logits(fork), mgpt_logits(small), f.n_vocab * sizeof(float));
    assert_non_null(mgpt_step(fork, 1, NULL));
    assert_int_equal(calls, 0);
    assert_non_null(mgpt_step(small, 1, NULL));
    assert_int_equal(calls, 1);
    assert_int_equal(mgpt_tap(small, 0, NULL, NULL, NULL), MGPT_OK);
    assert_non_null(mgpt_step(small, 1, NULL));
    assert_int_equal(calls, 1);
    mgpt_session_free(fork);
    assert_int_equal(mgpt_rewind(small, 2, NULL), MGPT_OK);
    fork = mgpt_fork(small, NULL);
    assert_int_equal(mgpt_pos(fork), 2);
    assert_null(mgpt_logits(fork));
    mgpt_session_free(fork);
    mgpt_session_free(small);
}

/* Sync keeps what is common: only what differs is run again. */
TEST_SESSION(sync_runs_only_what_differs)
{
    mgpt_session *session = mgpt_session_new(f.model, &(mgpt_session_params){.n_chunk = 1}, NULL);
    int calls = 0;
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(MGPT_EMBD), count_calls, &calls, NULL),
                     MGPT_OK);
    const struct {
        size_t change, n; /* token `change` becomes another one, then n tokens are synced */
        int runs;
    } steps[] = {{80, 20, 20}, {80, 20, 0}, {15, 20, 5}, {80, 25, 5}, {0, 25, 25}, {80, 10, 1}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        calls = 0;
        if (steps[i].change < 80)
            f.tokens[steps[i].change] = (f.tokens[steps[i].change] + 1) % 27;
        assert_int_equal(mgpt_sync(session, f.tokens, steps[i].n, NULL), MGPT_OK);
        assert_int_equal(mgpt_pos(session), steps[i].n);
        assert_int_equal(calls, steps[i].runs);
    }
    mgpt_session_free(session);
}

/* ---- several sessions ---- */

TEST_SESSION(step_many_refuses_as_a_whole)
{
    struct zoo_session g = open_deep();
    mgpt_session *full = mgpt_session_new(f.model, &(mgpt_session_params){.n_ctx = 3}, NULL);
    mgpt_session *empty = mgpt_session_new(f.model, NULL, NULL);
    assert_int_equal(mgpt_feed(full, f.tokens, 3, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed(f.session, f.tokens, 5, NULL), MGPT_OK);
    struct snapshot before = take(f.session);
    const int32_t good[3] = {1, 2, 3}, bad[3] = {1, 2, 27};
    const struct {
        mgpt_session *sessions[3];
        const int32_t *tokens;
        int status;
    } cases[] = {
        {{f.session, empty, f.session}, good, MGPT_EARG}, /* twice the same */
        {{f.session, empty, g.session}, good, MGPT_EARG}, /* another model's */
        {{f.session, empty, NULL}, good, MGPT_EARG},
        {{f.session, empty, full}, good, MGPT_EFULL},
    };
    for (size_t i = 0; i < 4; i++) {
        check_refusal(mgpt_step_many(cases[i].sessions, cases[i].tokens, 3, &err), cases[i].status,
                      "");
        check_unchanged(f.session, &before);
        assert_int_equal(mgpt_pos(empty), 0);
        assert_null(mgpt_logits(empty));
        assert_int_equal(mgpt_pos(g.session), 0);
    }
    mgpt_session *three[3] = {f.session, empty, g.session};
    three[2] = mgpt_session_new(f.model, NULL, NULL);
    check_refusal(mgpt_step_many(three, bad, 3, &err), MGPT_EARG, "27");
    check_unchanged(f.session, &before);
    assert_int_equal(mgpt_step_many(three, good, 3, &err), MGPT_OK);
    assert_int_equal(mgpt_pos(f.session), 6);
    assert_int_equal(mgpt_tokens(empty)[0], 2);
    mgpt_session_free(three[2]);
    mgpt_session_free(full);
    mgpt_session_free(empty);
    release(&before);
    close_deep(&g);
}
