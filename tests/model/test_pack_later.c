/* mgpt_model_params.pack_later: mgpt_open returns before the weights are packed, and a pass waits for each layer.
 *
 * file_read goes through the test. From layer GATED on it waits until the gate is opened, or fails: so packing cannot
 * get any further, and what a pass does meanwhile does not depend on luck.
 */
#include "base/file.h"
#include "model/model.h"
#include "support/build_model.h"
#include "support/place.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { LAYERS = 4, GATED = 2, N_TOKENS = 6, THREADS = 2 };

static struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t from; /* byte of the file; 0: no gate */
    int open, fails, n_reads;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __real_file_read(const struct file *file, uint64_t offset, size_t n, void *to, mgpt_error *err);
int __wrap_file_read(const struct file *file, uint64_t offset, size_t n, void *to, mgpt_error *err);

int __wrap_file_read(const struct file *file, uint64_t offset, size_t n, void *to, mgpt_error *err)
{
    pthread_mutex_lock(&gate.lock);
    int gated = gate.from && offset >= gate.from, fails = 0;
    while (gated && !gate.open)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.n_reads += gated;
    fails = gated && gate.fails;
    pthread_mutex_unlock(&gate.lock);
    if (!fails)
        return __real_file_read(file, offset, n, to, err);
    err->status = MGPT_EIO;
    snprintf(err->text, sizeof err->text, "the disk is gone");
    return MGPT_EIO;
}

static void gate_open(int fails)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = 1;
    gate.fails = fails;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static struct late {
    size_t n_vocab;
    uint64_t gated_at;
    int32_t tokens[N_TOKENS];
    float *logits; /* after the tokens, of a model that was packed at open */
    mgpt_model *model;
    mgpt_session *session;
} late;
static mgpt_error err;

/* Writes a model of some MiB, so that its file is not loaded whole. */
static void write_model(int tied)
{
    const struct toy_spec spec = {.label = "late",
                                  .arch = "llama",
                                  TOY_SIZES(LAYERS, 128, 4, 384, 32, 500),
                                  .tied = tied,
                                  .seed = 5};
    struct toy *m = toy_build(&spec);
    toy_encode(m);
    FILE *f = fopen(place.path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(m->file, 1, m->size, f), m->size);
    assert_int_equal(fclose(f), 0);
    toy_tokens(m, 3, late.tokens, N_TOKENS);
    toy_free(m);
}

static void open_late(int gated)
{
    const mgpt_model_params params = {.n_threads = THREADS, .pack_later = 1};
    const mgpt_session_params two = {.n_threads = THREADS};
    gate.from = gated ? late.gated_at : 0;
    gate.open = gate.fails = gate.n_reads = 0;
    late.model = mgpt_open(place.path, &params, &err);
    assert_non_null(late.model);
    late.session = mgpt_session_new(late.model, &two, &err);
    assert_non_null(late.session);
}

static void close_late(void)
{
    mgpt_session_free(late.session);
    mgpt_close(late.model);
}

/* The logits that are to come out, and where layer GATED begins. */
static void prepare_late(int tied)
{
    mgpt_tensor tensor;
    write_model(tied);
    gate.from = 0;
    late.model = mgpt_open(place.path, NULL, &err);
    assert_non_null(late.model);
    assert_true(late.model->file.partly);
    assert_int_equal(mgpt_find_role(late.model, MGPT_W_Q, GATED, MGPT_WEIGHT, &tensor, &err), 0);
    late.gated_at = tensor.offset;
    late.session = mgpt_session_new(late.model, NULL, &err);
    late.n_vocab = late.model->shape.n_vocab;
    late.logits = toy_alloc(late.n_vocab, sizeof *late.logits);
    assert_int_equal(mgpt_feed(late.session, late.tokens, N_TOKENS, &err), MGPT_OK);
    memcpy(late.logits, mgpt_logits(late.session), late.n_vocab * sizeof *late.logits);
    close_late();
}

static void assert_logits(const mgpt_session *s)
{
    assert_memory_equal(mgpt_logits(s), late.logits, late.n_vocab * sizeof *late.logits);
}

static int n_seen;

/* The layer before the gated one is computed: only now may packing go on. */
static int open_after(const mgpt_value *value, void *user)
{
    (void)user;
    n_seen++;
    if (value->layer == GATED - 1) {
        assert_false(model_has_stage(late.model, GATED + 1));
        gate_open(0);
    }
    return 0;
}

TEST_IN_PLACE(pass_runs_while_layers_are_packed)
{
    for (int tied = 0; tied < 2; tied++) {
        prepare_late(tied);
        open_late(1);
        n_seen = 0;
        mgpt_tap(late.session, MGPT_POINT_BIT(MGPT_RESID_POST), open_after, NULL, &err);
        assert_int_equal(mgpt_feed(late.session, late.tokens, N_TOKENS, &err), MGPT_OK);
        assert_int_equal(n_seen, LAYERS);
        assert_logits(late.session);
        close_late();
        free(late.logits);
    }
}

static void *step_forked(void *arg)
{
    mgpt_session *fork = arg;
    for (size_t i = 1; i < N_TOKENS; i++)
        mgpt_step(fork, late.tokens[i], NULL);
    return NULL;
}

/* Forks run in threads of their own while the rest is packed. */
TEST_IN_PLACE(forks_and_batches)
{
    enum { FORKS = 3 };
    pthread_t threads[FORKS];
    mgpt_session *forks[FORKS];
    prepare_late(0);
    for (int round = 0; round < 4; round++) {
        open_late(0);
        assert_int_equal(mgpt_feed(late.session, late.tokens, 1, &err), MGPT_OK);
        for (int i = 0; i < FORKS; i++) {
            forks[i] = mgpt_fork(late.session, &err);
            assert_int_equal(pthread_create(&threads[i], NULL, step_forked, forks[i]), 0);
        }
        assert_int_equal(mgpt_feed(late.session, late.tokens + 1, N_TOKENS - 1, &err), MGPT_OK);
        assert_logits(late.session);
        for (int i = 0; i < FORKS; i++) {
            pthread_join(threads[i], NULL);
            assert_logits(forks[i]);
            mgpt_session_free(forks[i]);
        }
        close_late();
    }
    free(late.logits);
}

static void *stop_soon(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    mgpt_stop(arg);
    return NULL;
}

static void *open_soon(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    gate_open(0);
    return NULL;
}

TEST_IN_PLACE(stop_ends_the_wait)
{
    pthread_t thread;
    prepare_late(0);
    open_late(1);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, late.session), 0);
    assert_int_equal(mgpt_feed(late.session, late.tokens, N_TOKENS, &err), MGPT_ESTOP);
    pthread_join(thread, NULL);
    assert_int_equal(mgpt_pos(late.session), 0);
    gate_open(0);
    assert_int_equal(mgpt_feed(late.session, late.tokens, N_TOKENS, &err), MGPT_OK);
    assert_logits(late.session);
    close_late();
    free(late.logits);
}

/* Each thread ends the unit that it reads, and no other. */
TEST_IN_PLACE(close_ends_packing)
{
    pthread_t thread;
    prepare_late(0);
    open_late(1);
    while (!model_has_stage(late.model, GATED))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(pthread_create(&thread, NULL, open_soon, NULL), 0);
    close_late();
    pthread_join(thread, NULL);
    assert_in_range(gate.n_reads, 1, THREADS);
    open_late(0);
    close_late();
    free(late.logits);
}

TEST_IN_PLACE(failure_is_the_calls)
{
    float x[128] = {0};
    prepare_late(0);
    open_late(1);
    gate_open(1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mgpt_feed(late.session, late.tokens, N_TOKENS, &err), MGPT_EIO);
        assert_string_equal(err.text, "the disk is gone");
        assert_int_equal(mgpt_pos(late.session), 0);
        assert_null(mgpt_logits(late.session));
    }
    assert_int_equal(mgpt_unembed(late.session, x, late.logits, &err), MGPT_EIO);
    close_late();
    assert_null(mgpt_open(place.path, NULL, &err)); /* packed at open: refused there */
    assert_string_equal(err.text, "the disk is gone");
    free(late.logits);
}

/* unembed needs the head, which comes last. */
TEST_IN_PLACE(unembed_waits)
{
    float x[128], *now, y = 1;
    prepare_late(0);
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = y = y * 1.1f - (float)(int)(y * 1.1f);
    now = toy_alloc(late.n_vocab, sizeof *now);
    for (int gated = 0; gated < 2; gated++) {
        pthread_t thread;
        open_late(gated);
        assert_int_equal(pthread_create(&thread, NULL, open_soon, NULL), 0);
        assert_int_equal(mgpt_unembed(late.session, x, gated ? now : late.logits, &err), MGPT_OK);
        pthread_join(thread, NULL);
        close_late();
    }
    assert_memory_equal(now, late.logits, late.n_vocab * sizeof *now);
    free(now);
    free(late.logits);
}
