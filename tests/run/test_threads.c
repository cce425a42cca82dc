/* Many threads, one model: sessions of their own on threads of their own give the bits that one
 * thread gives, while other threads open and close the same file and encode texts. In a build with
 * -Db_sanitize=thread this is also where data races show.
 */
#include "base/threads.h"
#include "mgpt.h"
#include "model/model.h"
#include "support/build_model.h"
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS_MOST = 32, N_TOKENS = 16, N_BESIDE = 3, ROUNDS = 3 };

struct shared {
    char path[1024];
    mgpt_model *model;
    int32_t tokens[N_TOKENS];
    size_t n_vocab;
    float *logits; /* [N_TOKENS][n_vocab], of one thread */
};

/* What a thread found wrong; cmocka's assertions belong to the main thread. */
struct thread_job {
    const struct shared *shared;
    int index;
    const char *wrong;
    pthread_t thread;
};

static int same_row(const struct shared *s, size_t pos, const float *logits)
{
    return logits && memcmp(logits, s->logits + pos * s->n_vocab, s->n_vocab * sizeof *logits) == 0;
}

static mgpt_session *new_session(const struct shared *s, int32_t n_threads)
{
    const mgpt_session_params params = {.n_threads = n_threads, .n_chunk = 5};
    return mgpt_session_new(s->model, &params, NULL);
}

/* ---- variants ---- */

static const char *by_steps(const struct shared *s, int32_t n_threads)
{
    const char *wrong = NULL;
    mgpt_session *session = new_session(s, n_threads);
    for (size_t i = 0; session && !wrong && i < N_TOKENS; i++)
        if (!same_row(s, i, mgpt_step(session, s->tokens[i], NULL)))
            wrong = "stepped";
    mgpt_session_free(session);
    return session ? wrong : "no session";
}

static const char *by_fork(const struct shared *s, int32_t n_threads)
{
    const char *wrong = "fed, forked, rewound";
    mgpt_session *session = new_session(s, n_threads), *fork = NULL;
    if (session && mgpt_feed(session, s->tokens, N_TOKENS / 2, NULL) == MGPT_OK)
        fork = mgpt_fork(session, NULL);
    if (fork && mgpt_sync(fork, s->tokens, N_TOKENS, NULL) == MGPT_OK &&
        same_row(s, N_TOKENS - 1, mgpt_logits(fork)) && mgpt_rewind(fork, 3, NULL) == MGPT_OK &&
        same_row(s, 3, mgpt_step(fork, s->tokens[3], NULL)))
        wrong = NULL;
    mgpt_session_free(fork);
    mgpt_session_free(session);
    return wrong;
}

static const char *by_batch(const struct shared *s, int32_t n_threads)
{
    const char *wrong = NULL;
    mgpt_session *all[N_BESIDE];
    int32_t tokens[N_BESIDE];
    for (size_t k = 0; k < N_BESIDE; k++)
        if (!(all[k] = new_session(s, n_threads)) ||
            (k > 0 && mgpt_feed(all[k], s->tokens, k, NULL) < 0))
            wrong = "no session";
    for (size_t i = 0; !wrong && i < N_TOKENS / 2; i++) {
        for (size_t k = 0; k < N_BESIDE; k++)
            tokens[k] = s->tokens[i + k];
        if (mgpt_step_many(all, tokens, N_BESIDE, NULL) < 0)
            wrong = "batch refused";
        for (size_t k = 0; !wrong && k < N_BESIDE; k++)
            if (!same_row(s, i + k, mgpt_logits(all[k])))
                wrong = "in a batch";
    }
    for (size_t k = 0; k < N_BESIDE; k++)
        mgpt_session_free(all[k]);
    return wrong;
}

static const char *by_opening(const struct shared *s, int32_t n_threads)
{
    const mgpt_model_params params = {.n_threads = n_threads};
    struct shared own = *s;
    int32_t ids[64];
    own.model = mgpt_open(s->path, &params, NULL);
    if (!own.model)
        return "cannot be opened";
    mgpt_encode(own.model, "anna and ben", 12, 0, ids, 64, NULL);
    mgpt_encode(s->model, "anna and ben", 12, 0, ids, 64, NULL);
    const char *wrong = by_steps(&own, 1);
    mgpt_close(own.model);
    return wrong;
}

static void *work(void *arg)
{
    static const char *(*const variants[])(const struct shared *, int32_t) = {by_steps, by_fork,
                                                                              by_batch, by_opening};
    struct thread_job *job = arg;
    for (int round = 0; round < ROUNDS && !job->wrong; round++)
        job->wrong = variants[(job->index + round) % 4](job->shared, 1 + job->index % 2);
    return NULL;
}

/* ---- tests ---- */

static void run_threads(const struct shared *s, int n)
{
    struct thread_job jobs[THREADS_MOST];
    for (int i = 0; i < n; i++) {
        jobs[i] = (struct thread_job){.shared = s, .index = i};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
        if (jobs[i].wrong)
            fail_msg("%s: thread %d of %d: %s", s->path, i, n, jobs[i].wrong);
    }
}

static void try_model(const char *name, const char *isa, size_t n_counts)
{
    static const int counts[] = {2, 8, 32};
    struct shared s;
    mgpt_info info;
    mgpt_error err;
    snprintf(s.path, sizeof s.path, "%s", unit_path(name));
    s.model = mgpt_open(s.path, &(mgpt_model_params){.isa = isa}, &err);
    if (!s.model)
        fail_msg("%s", err.text);
    assert_int_equal(mgpt_get_info(s.model, &info, NULL), MGPT_OK);
    assert_true(info.n_ctx >= N_TOKENS);
    s.n_vocab = (size_t)info.n_vocab;
    s.logits = malloc(N_TOKENS * s.n_vocab * sizeof *s.logits);
    mgpt_session *session = mgpt_session_new(s.model, NULL, NULL);
    assert_non_null(session);
    for (int i = 0; i < N_TOKENS; i++) {
        s.tokens[i] = (i * 7 + 3) % info.n_tokens;
        const float *logits = mgpt_step(session, s.tokens[i], NULL);
        assert_non_null(logits);
        memcpy(s.logits + (size_t)i * s.n_vocab, logits, s.n_vocab * sizeof *logits);
    }
    mgpt_session_free(session);
    for (size_t i = 0; i < n_counts; i++)
        run_threads(&s, counts[i]);
    free(s.logits);
    mgpt_close(s.model);
}

/* A fork goes on by itself and keeps its last logits. */
struct fork_job {
    mgpt_session *fork;
    const float *logits;
    pthread_t thread;
};

static const float *go_on(mgpt_session *session)
{
    const float *logits = NULL;
    for (int32_t token = 0; token < 30; token++)
        logits = mgpt_step(session, token, NULL);
    return logits;
}

static void *fork_work(void *arg)
{
    struct fork_job *job = arg;
    job->logits = go_on(job->fork);
    return NULL;
}

/* Forks read what they share with their origin while it grows on another thread. */
TEST(forks_on_threads_of_their_own)
{
    enum { N = 4 };
    struct fork_job jobs[N];
    mgpt_model *model = mgpt_open(unit_path("weights/shakespeare.gguf"), NULL, NULL);
    mgpt_info info;
    assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
    mgpt_session *origin = mgpt_session_new(model, &(mgpt_session_params){.n_threads = 1}, NULL);
    for (int32_t token = 0; token < 40; token++)
        assert_non_null(mgpt_step(origin, token, NULL));
    for (int i = 0; i < N; i++) {
        assert_non_null(jobs[i].fork = mgpt_fork(origin, NULL));
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, fork_work, &jobs[i]), 0);
    }
    const float *logits = go_on(origin);
    assert_non_null(logits);
    for (int i = 0; i < N; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
        assert_non_null(jobs[i].logits);
        assert_memory_equal(jobs[i].logits, logits, (size_t)info.n_vocab * sizeof *logits);
        mgpt_session_free(jobs[i].fork);
    }
    mgpt_session_free(origin);
    mgpt_close(model);
}

/* A worker that is held in a product, as one that has lost its core: the caller goes on without it. The
 * input that it reads stays as it is. */
static struct {
    void (*real)(const struct matmul *);
    pthread_t caller;
    uint8_t *before; /* the input when the worker comes */
    size_t n_out, n_bytes;
    _Atomic int is_held, release;
    int changed;
} held;

static void hold_a_worker(const struct matmul *a)
{
    int of_job =
        a->n_out == held.n_out && (a->p1 - a->p0) * PANEL < a->n_out; /* workers take part */
    int is_caller = pthread_equal(pthread_self(), held.caller);
    while (of_job && is_caller && !held.is_held)
        sched_yield();
    if (of_job && !is_caller && !held.is_held) {
        memcpy(held.before, a->x, held.n_bytes);
        held.is_held = 1;
        while (!held.release)
            sched_yield();
        held.changed = memcmp(held.before, a->x, held.n_bytes) != 0;
    }
    held.real(a);
}

static void hold_in_the_head(enum toy_type type, enum weight_type packed)
{
    enum { V = 16384, E = 128, N = 6 };
    const struct toy_spec spec = {
        .label = "held", .arch = "llama", TOY_SIZES(1, E, 2, E, 16, V), .type = type, .seed = 5};
    struct toy *toy = toy_build(&spec);
    mgpt_model *model = toy_open(toy, NULL);
    mgpt_session *alone = mgpt_session_new(model, &(mgpt_session_params){.n_threads = 1}, NULL);
    mgpt_session *two = mgpt_session_new(model, &(mgpt_session_params){.n_threads = 2}, NULL);
    assert_true(alone && two && model->head.type == packed);
    memset(&held, 0, sizeof held);
    held.real = model->kernels.matmul[packed];
    held.caller = pthread_self();
    held.n_out = V;
    held.n_bytes = weight_is_integer(packed) ? kernels_x_bytes(packed, E) : E * sizeof(float);
    held.before = malloc(held.n_bytes);
    for (int32_t i = 0; i < N; i++) {
        model->kernels.matmul[packed] = held.real;
        const float *want = mgpt_step(alone, 7 * i, NULL);
        model->kernels.matmul[packed] = hold_a_worker;
        const float *found = mgpt_step(two, 7 * i, NULL);
        assert_true(want && found);
        assert_memory_equal(want, found, V * sizeof *want);
    }
    assert_true(held.is_held);
    held.release = 1;
    mgpt_session_free(two);
    assert_false(held.changed);
    mgpt_session_free(alone);
    free(held.before);
    mgpt_close(model);
    toy_free(toy);
}

TEST(a_held_worker_keeps_its_input)
{
    hold_in_the_head(TOY_Q8_0, WEIGHT_Q8_0);
    hold_in_the_head(TOY_F16, WEIGHT_F16);
}

/* A session that asks for no number has a thread for each core, or one where a pass is little work. */
TEST(threads_that_are_chosen)
{
    static const char *const files[] = {"weights/names.gguf", "weights/shakespeare.gguf"};
    for (int i = 0; i < 2; i++) {
        mgpt_model *model = mgpt_open(unit_path(files[i]), NULL, NULL);
        mgpt_session *s = mgpt_session_new(model, NULL, NULL);
        assert_non_null(s);
        assert_int_equal(mgpt_n_threads(s), i == 0 ? 1 : pool_cores(NULL, 0));
        mgpt_session_free(s);
        mgpt_close(model);
    }
}

TEST(small_model)
{
    try_model("weights/names.gguf", NULL, 3);
    try_model("weights/names.gguf", "scalar", 3);
}

TEST(large_model)
{
    try_model("weights/shakespeare.gguf", NULL, 3);
    try_model("weights/shakespeare.gguf", "scalar",
              1); /* slow, and the ISA level that sanitizers see */
}
