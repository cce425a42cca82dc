/* Stacks as small as embedders and musl give them: everything a session does, of every model of the
 * zoo and on every instruction set, on a thread whose stack is STACK bytes and ends at pages that
 * cannot be touched. How deep it goes is what mgpt.h promises.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "kernels/kernels.h"
#include "support/sanitized.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <pthread.h>
#include <sys/mman.h>

#if defined(__aarch64__)
enum { LEAST = 128 << 10 }; /* glibc refuses less */
#else
enum { LEAST = 64 << 10 };
#endif

enum {
    STACK = SANITIZED ? 4 << 20 : LEAST, /* sanitizers make frames of their own */
    GUARD = 1 << 20,                     /* more than any frame: none may step over it */
    PROMISED = 48 << 10,                 /* mgpt.h */
    UNTOUCHED = 0xA5
};

/* What a thread runs; `wrong` is for the main thread, to which cmocka's assertions belong. */
struct task {
    const struct subject *s;
    const char *isa, *wrong;
};

static int same_logits(const struct subject *s, size_t pos, const float *logits)
{
    return logits && memcmp(logits, s->logits + pos * s->n_vocab, s->n_vocab * sizeof *logits) == 0;
}

static int see_value(const mgpt_value *value, void *user)
{
    (void)value;
    (void)user;
    return 0;
}

/* Two forks and their origin in a batch; then one is rewound, tapped and fed again. */
static const char *run_forks(const struct subject *s, mgpt_session *origin)
{
    size_t pos = mgpt_pos(origin);
    mgpt_session *all[] = {origin, mgpt_fork(origin, NULL), mgpt_fork(origin, NULL)};
    const int32_t next[] = {s->tokens[pos], s->tokens[pos], s->tokens[pos]};
    const char *wrong = NULL;
    if (mgpt_step_many(all, next, 3, NULL) < 0 || !same_logits(s, pos, mgpt_logits(all[1])))
        wrong = "batch";
    if (mgpt_rewind(all[1], 1, NULL) < 0 ||
        mgpt_tap(all[1], MGPT_POINT_BIT(MGPT_N_POINTS) - 1, see_value, NULL, NULL) < 0 ||
        mgpt_feed(all[1], s->tokens + 1, pos, NULL) < 0 ||
        !same_logits(s, pos, mgpt_logits(all[1])))
        wrong = "tapped";
    mgpt_session_free(all[1]);
    mgpt_session_free(all[2]);
    return wrong;
}

static const char *run_session(const struct subject *s, mgpt_session *session)
{
    if (mgpt_feed(session, s->tokens, s->n - 2, NULL) < 0)
        return "feed";
    if (!same_logits(s, s->n - 2, mgpt_step(session, s->tokens[s->n - 2], NULL)))
        return "step";
    const char *wrong = run_forks(s, session);
    if (mgpt_save_session(session, "/dev/null", NULL) < 0)
        return "save";
    mgpt_sampler sampler = {.temperature = 1, .top_k = 5, .rng = 1};
    if (mgpt_sample(&sampler, mgpt_logits(session), s->n_vocab) < 0)
        return "sample";
    return wrong;
}

static void *run_task(void *arg)
{
    struct task *t = arg;
    const struct subject *s = t->s;
    mgpt_model *model =
        mgpt_open_bytes(s->m->file, s->m->size, &(mgpt_model_params){.isa = t->isa}, NULL);
    for (int32_t type = MGPT_KV_F32; type <= MGPT_KV_Q8_0; type++) {
        const mgpt_session_params params = {.n_threads = type, .kv_type = type};
        mgpt_session *session = mgpt_session_new(model, &params, NULL);
        const char *wrong = session ? run_session(s, session) : "no session";
        if (type == MGPT_KV_F32) /* the reference's */
            t->wrong = wrong;
        mgpt_session_free(session);
    }
    mgpt_close(model);
    return NULL;
}

/* Runs the task on a small stack; returns how many bytes of it were touched. */
static size_t stack_used(struct task *task)
{
    pthread_attr_t attr;
    pthread_t thread;
    unsigned char *p = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                  *low = p + GUARD;
    assert_true(p != MAP_FAILED);
    memset(low, UNTOUCHED, STACK);
    assert_int_equal(mprotect(p, GUARD, PROT_NONE), 0);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstack(&attr, low, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, run_task, task), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    size_t untouched = 0;
    while (untouched < STACK && low[untouched] == UNTOUCHED)
        untouched++;
    munmap(p, GUARD + STACK);
    return STACK - untouched;
}

static size_t deepest;

static void run_subject(const struct subject *s)
{
    int runs;
    const char *isa;
    for (size_t i = 0; (isa = kernels_isa_level(i, &runs)) != NULL; i++) {
        struct task task = {s, isa, NULL};
        size_t used = runs ? stack_used(&task) : 0;
        deepest = used > deepest ? used : deepest;
        if (task.wrong)
            fail_msg("%s, %s: %s", s->m->spec.label, isa, task.wrong);
        if (!SANITIZED && used > PROMISED)
            fail_msg("%s, %s: %zu bytes of stack", s->m->spec.label, isa, used);
    }
}

TEST(small_stacks)
{
    subject_each(run_subject);
    print_message("%zu bytes of stack at most\n", deepest);
}
