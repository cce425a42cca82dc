/* Running out of memory: every allocation of every call fails once. The call must then return
 * MGPT_EMEM, leave every object as it was, leak nothing (run under ASan), and work when it is
 * repeated.
 *
 * Linked with -Wl,--wrap=malloc,--wrap=aligned_alloc,--wrap=pthread_create, so that the library's
 * allocations pass through here. Those of the tests themselves use calloc and are left alone. */
#include "base/threads.h"
#include "gguf/gguf.h"
#include "run/kv.h"
#include "support/tok_file.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <pthread.h>

void *__real_malloc(size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
void *__wrap_malloc(size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);

enum { NEVER = -1 };

static int fail_after = NEVER; /* allocations that still succeed before one fails */
static int n_failed;
static int threads_forbidden; /* 1: no thread can be started, as in a full pids group */

static int fails_now(void)
{
    if (fail_after == NEVER || fail_after-- > 0)
        return 0;
    n_failed++;
    return 1; /* fail_after is NEVER again: the others succeed */
}

void *__wrap_malloc(size_t n)
{
    return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails_now() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fails_now() ? NULL : __real_aligned_alloc(alignment, n);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    size_t stack = 0; /* the system's default may be too small: threads.c states its own */
    assert_non_null(attr);
    pthread_attr_getstacksize(attr, &stack);
    assert_true(stack >= 256 << 10);
    return threads_forbidden || fails_now() ? 11 : __real_pthread_create(thread, attr, fn, arg);
}

static void arm(int after)
{
    fail_after = after;
    n_failed = 0;
}

/* After a call with the k-th allocation failing: 1 when there was no k-th allocation, so that the
 * sweep is over and the call must have succeeded; else it must have failed for want of memory. */
static int swept(int status, const mgpt_error *err)
{
    fail_after = NEVER;
    if (n_failed == 0) {
        assert_int_equal(status, MGPT_OK);
        return 1;
    }
    if (status != MGPT_EMEM || err->status != MGPT_EMEM || !err->text[0])
        fail_msg("status %d, err.status %d: %s", status, err->status, err->text);
    return 0;
}

/* Members that between them allocate everything there is, one of them with a vocabulary. */
static void over_some(void sweep(const struct subject *))
{
    const size_t chosen[] = {ZOO_MICROGPT,      ZOO_LLAMA_TIED,   ZOO_GPT2,
                             ZOO_GEMMA3_PERIOD, ZOO_LLAMA_SCALED, ZOO_NANOCHAT_2026,
                             ZOO_OLMO2,         ZOO_QWEN3_Q4_K,   ZOO_PHI2};
    for (size_t i = 0; i < COUNT(chosen); i++) {
        struct subject s = subject_new(&toy_zoo[chosen[i]], 3000 + i);
        sweep(&s);
        subject_free(&s);
    }
}

/* A sweep over some of the zoo. */
#define SWEEP(name) TEST_EACH(over_some, name, const struct subject *s)

SWEEP(open)
{
    mgpt_error err = {0};
    int done = 0;
    for (int k = 0; !done; k++) {
        arm(k);
        mgpt_model *model = mgpt_open_bytes(s->m->file, s->m->size, NULL, &err);
        done = swept(model ? MGPT_OK : err.status, &err);
        assert_int_equal(model != NULL, done);
        mgpt_close(model);
    }
}

SWEEP(sessions)
{
    mgpt_session_params params = {.n_threads = 3, .n_chunk = 4};
    mgpt_error err = {0};
    int done = 0;
    for (int k = 0; !done; k++) {
        arm(k);
        mgpt_session *session = mgpt_session_new(s->model, &params, &err);
        done = swept(session ? MGPT_OK : err.status, &err);
        mgpt_session_free(session);
    }
    mgpt_session *origin = subject_session(s->model, 4, 2);
    subject_feed(origin, s->tokens, 9);
    done = 0;
    for (int k = 0; !done; k++) {
        arm(k);
        mgpt_session *fork = mgpt_fork(origin, &err);
        done = swept(fork ? MGPT_OK : err.status, &err);
        if (fork)
            subject_check_feed(s, fork, "fork of a sweep", (size_t)k);
        mgpt_session_free(fork);
    }
    subject_check_feed(s, origin, "origin of forks that failed", 0);
    mgpt_session_free(origin);
}

static int ignore(const mgpt_value *value, void *user)
{
    (void)value, (void)user;
    return 0;
}

/* A feed of everything from an empty session and from one that holds 5, with all points tapped. */
SWEEP(feed)
{
    mgpt_error err = {0};
    for (size_t held = 0; held <= 5; held += 5) {
        int done = 0;
        for (int k = 0; !done; k++) {
            mgpt_session *session = subject_session(s->model, 4, 1);
            mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, ignore, NULL, NULL);
            subject_feed(session, s->tokens, held);
            arm(k);
            done = swept(mgpt_feed(session, s->tokens + held, s->n - held, &err), &err);
            if (done) {
                subject_check(s, s->n - 1, 1, mgpt_logits(session), "fed after", (size_t)k);
            } else {
                assert_int_equal(mgpt_pos(session), held);
                if (held > 0)
                    subject_check(s, held - 1, 1, mgpt_logits(session), "held", (size_t)k);
                subject_check_feed(s, session, "repeated after failure", (size_t)k);
            }
            mgpt_session_free(session);
        }
    }
}

SWEEP(batch)
{
    enum { N = 3 };
    mgpt_error err = {0};
    int done = 0;
    for (int k = 0; !done; k++) {
        mgpt_session *sessions[N];
        int32_t next[N];
        for (size_t i = 0; i < N; i++) {
            sessions[i] = subject_session(s->model, 2, 1);
            subject_feed(sessions[i], s->tokens, 4 * i);
            next[i] = s->tokens[4 * i];
        }
        arm(k);
        done = swept(mgpt_step_many(sessions, next, N, &err), &err);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(mgpt_pos(sessions[i]), 4 * i + (size_t)done);
            subject_check_feed(s, sessions[i], "after a batch that failed at", (size_t)k);
            mgpt_session_free(sessions[i]);
        }
    }
}

/* After a failed sync the session holds some prefix of the tokens. */
SWEEP(sync)
{
    mgpt_error err = {0};
    int done = 0;
    for (int k = 0; !done; k++) {
        mgpt_session *session = subject_session(s->model, 4, 1);
        subject_feed(session, s->tokens, 3);
        assert_non_null(mgpt_step(session, (s->tokens[3] + 1) % (int32_t)s->n_vocab, NULL));
        arm(k);
        done = swept(mgpt_sync(session, s->tokens, s->n, &err), &err);
        size_t pos = mgpt_pos(session);
        assert_true(pos <= s->n && (pos == s->n || !done));
        assert_memory_equal(mgpt_tokens(session), s->tokens, pos * sizeof *s->tokens);
        assert_int_equal(mgpt_sync(session, s->tokens, s->n, NULL), MGPT_OK);
        subject_check(s, s->n - 1, 1, mgpt_logits(session), "synced after failure", (size_t)k);
        mgpt_session_free(session);
    }
}

/* The error line has the number of bytes. */
TEST(bytes_wanted)
{
    enum { LAYERS = 3, HEADS = 5 };
    struct kv kv;
    mgpt_error err;
    char line[80];
    arm(0);
    assert_int_equal(kv_init(&kv, LAYERS, HEADS, 4, KV_F32, NULL, &err), MGPT_EMEM);
    snprintf(line, sizeof line, "out of memory: %zu bytes for the KV cache",
             sizeof(struct kv_store) + 4 * LAYERS * HEADS * sizeof kv.own);
    assert_string_equal(err.text, line);
    kv_free(&kv);
}

TEST(bytes_of_tensor_infos)
{
    struct subject s = subject_new(&toy_zoo[ZOO_MICROGPT], 1);
    mgpt_model *model = NULL;
    size_t said[2], n = 0, n_tensors;
    for (int k = 0; !model; k++) {
        mgpt_error err;
        arm(k);
        model = mgpt_open_bytes(s.m->file, s.m->size, NULL, &err);
        if (!model && strstr(err.text, "for tensor infos") && n < 4)
            assert_int_equal(sscanf(err.text, "out of memory: %zu", &said[n++ / 2]), 1);
    }
    fail_after = NEVER;
    n_tensors = mgpt_n_tensors(model);
    assert_int_equal(n, 3); /* names and infos, then the order of the names */
    assert_int_equal(said[0], n_tensors * sizeof(struct gguf_tensor));
    assert_int_equal(said[1], n_tensors * sizeof(uint32_t));
    mgpt_close(model);
    subject_free(&s);
}

TEST(which_thread)
{
    for (int missing = 2; missing <= 3; missing++) {
        mgpt_error err;
        char line[80];
        arm(missing); /* after the two allocations of a pool */
        assert_null(pool_new(3, &err));
        snprintf(line, sizeof line, "cannot start thread %d of 3", missing);
        assert_string_equal(err.text, line);
        assert_int_equal(err.status, MGPT_EMEM);
    }
}

/* Threads that cannot be started are left out if mgpt chose their number, and an error if the caller did. */
TEST(threads_refused)
{
    char path[1024];
    mgpt_error err;
    snprintf(path, sizeof path, "%s/weights/shakespeare.gguf", getenv("MGPT_SOURCE_ROOT"));
    threads_forbidden = 1;
    mgpt_model *model = mgpt_open(path, &(mgpt_model_params){.n_threads = 2}, &err);
    assert_null(model);
    assert_string_equal(err.text, "cannot start thread 2 of 2");
    model = mgpt_open(path, NULL, &err);
    assert_non_null(model);
    mgpt_session *s = mgpt_session_new(model, NULL, &err), *fork = mgpt_fork(s, &err);
    assert_non_null(mgpt_step(s, 1, &err));
    assert_int_equal(mgpt_n_threads(s), 1);
    assert_non_null(mgpt_step(fork, 1, &err));
    assert_int_equal(mgpt_n_threads(fork), 1);
    mgpt_session_free(fork);
    mgpt_session_free(s);
    s = mgpt_session_new(model, &(mgpt_session_params){.n_threads = 2}, &err);
    assert_null(s);
    assert_int_equal(err.status, MGPT_EMEM);
    mgpt_close(model);
    threads_forbidden = 0;
}

/* A text whose runs are long. */
static void sweep_encode(const struct tok *t)
{
    char text[96];
    int32_t wanted[96], ids[96];
    mgpt_error err = {0};
    int done = 0;
    for (size_t i = 0; i < 96; i++)
        text[i] = "ab"[i % 2];
    int64_t n = tok_encode(t, text, 96, MGPT_NO_SPECIAL_TOKENS, wanted, COUNT(wanted), &err), got;
    assert_true(n > 0 && n <= (int64_t)COUNT(wanted));
    for (int k = 0; !done; k++) {
        arm(k);
        got = tok_encode(t, text, 96, MGPT_NO_SPECIAL_TOKENS, ids, COUNT(ids), &err);
        done = swept(got < 0 ? (int)got : MGPT_OK, &err);
    }
    assert_int_equal(got, n);
    assert_memory_equal(ids, wanted, (size_t)n * sizeof *ids);
}

/* Each kind of vocabulary, and each table that one can have; each encodes a text, too. */
TEST(vocabularies)
{
    static const char *const kinds[] = {
        "model llama; pieces bytes; token ab 1 -1",
        "model llama; pieces bytes; token a; token b; token ab; merge a b; bool "
        "mgpt.tokenizer.ranked 1",
        "model gemma4; u32 bos_token_id 1; pieces bytes; token a; token b; token ab; merge a b",
        "model gpt2; pre gpt-2; alphabet; token ab; merge a b; token <s> 3; i32s "
        "mgpt.tokenizer.lstrip 257; "
        "i32s mgpt.tokenizer.after 257",
        "model mgpt-bpe; token a; token b; token ab; i32s mgpt.tokenizer.merge_ids 0 1 2; "
        "strings mgpt.tokenizer.normalizers map~m; u32s mgpt.tokenizer.map.m 1000041 41 61; "
        "strings mgpt.tokenizer.pre_tokenizers split~removed~-",
        "model mgpt-wordpiece; token a; token ##b; u32 unknown_token_id 0; string "
        "mgpt.tokenizer.prefix ##; "
        "strings mgpt.tokenizer.normalizers; strings mgpt.tokenizer.pre_tokenizers",
        "model t5; u32 unknown_token_id 0; token <unk> 2; token a 1 -2; token b 1 -2.5; token ab 1 "
        "-3",
    };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct tok_file f = {0};
        mgpt_error err = {0};
        int done = 0;
        tok_file_edit(&f, kinds[i]);
        tok_file_encode(&f);
        for (int k = 0; !done; k++) {
            arm(k);
            f.tok = tok_open(&f.g, &err);
            done = swept(f.tok ? MGPT_OK : err.status, &err);
        }
        sweep_encode(f.tok);
        tok_file_free(&f);
    }
}
