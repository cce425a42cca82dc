/* Attention over the cache.
 *
 * Sessions long and wide enough for every path through attention.c: blocks of several queries,
 * windows that begin and end inside one, groups of heads larger than a block, threads that do not
 * divide the KV heads, caches of all types. All of it must give the bits of single steps in one
 * thread. How good they are: test_forward.
 */
#include "base/fnv.h"
#include "dtype/dtype.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

static uint64_t rng = 1;

static size_t below(size_t n)
{
    return (size_t)(toy_random(&rng) % n);
}

enum { LONG = 150 };

/* Long and wide enough that single steps go to several threads. */
static const struct toy_spec specs[] = {
    {.label = "3 KV heads of 3",
     .arch = "llama",
     TOY_SIZES(2, 96, 9, 64, LONG, 64),
     .n_head_kv = 3,
     .head_dim = 64},
    {.label = "one KV head of 40, odd width",
     .arch = "llama",
     TOY_SIZES(1, 64, 40, 64, LONG, 64),
     .n_head_kv = 1,
     .head_dim = 26},
    {.label = "heads of their own, windows",
     .arch = "gemma3",
     TOY_SIZES(3, 64, 5, 64, LONG, 64),
     .head_dim = 80,
     .window = 9,
     .full_every = 3},
    {.label = "a window of three panels",
     .arch = "gemma3",
     TOY_SIZES(2, 64, 8, 64, LONG, 64),
     .n_head_kv = 2,
     .head_dim = 64,
     .window = 48,
     .full_every = 2},
};
enum { N_SPECS = COUNT(specs) };

/* A model, tokens, and the logits of every position from single steps in one thread. */
struct trial {
    struct toy *m;
    mgpt_model *model;
    int32_t kv_type, tokens[LONG];
    size_t n_vocab;
    float *logits;
};

static mgpt_session *session_of(const struct trial *t, int32_t n_chunk, int32_t n_threads)
{
    mgpt_session_params params = {
        .n_chunk = n_chunk, .n_threads = n_threads, .kv_type = t->kv_type};
    mgpt_session *s = mgpt_session_new(t->model, &params, NULL);
    assert_non_null(s);
    return s;
}

static struct trial trial_new(const struct toy_spec *spec, int32_t kv_type)
{
    struct trial t = {.m = toy_build(spec), .kv_type = kv_type, .n_vocab = (size_t)spec->n_vocab};
    t.model = toy_open(t.m, NULL);
    t.logits = toy_alloc(LONG * t.n_vocab, sizeof *t.logits);
    mgpt_session *s = session_of(&t, 1, 1);
    for (size_t i = 0; i < LONG; i++) {
        t.tokens[i] = (int32_t)below(t.n_vocab);
        const float *logits = mgpt_step(s, t.tokens[i], NULL);
        assert_non_null(logits);
        memcpy(t.logits + i * t.n_vocab, logits, t.n_vocab * sizeof *logits);
    }
    mgpt_session_free(s);
    return t;
}

static void trial_free(struct trial *t)
{
    mgpt_close(t->model);
    toy_free(t->m);
    free(t->logits);
}

/* The session's logits are those of its last position. */
static void check(const struct trial *t, const mgpt_session *s, const char *what, int v)
{
    size_t n = mgpt_pos(s);
    const float *want = t->logits + (n - 1) * t->n_vocab;
    if (memcmp(mgpt_logits(s), want, t->n_vocab * sizeof *want) != 0)
        fail_msg("%s, cache of type %d: %s %d: other bits at position %zu", t->m->spec.label,
                 (int)t->kv_type, what, v, n - 1);
}

static void feed(const struct trial *t, mgpt_session *s, size_t n)
{
    assert_int_equal(mgpt_feed(s, t->tokens + mgpt_pos(s), n, NULL), MGPT_OK);
}

static void each_trial(void test(const struct trial *t))
{
    for (size_t i = 0; i < N_SPECS; i++)
        for (int32_t type = MGPT_KV_F32; type <= MGPT_KV_Q8_0; type++) {
            struct trial t = trial_new(&specs[i], type);
            test(&t);
            trial_free(&t);
        }
}

/* A test of every spec with caches of all types. */
#define TEST_TRIAL(name) TEST_EACH(each_trial, name, const struct trial *t)

TEST_TRIAL(chunks_and_threads)
{
    static const int32_t chunks[] = {1, 23, 48, LONG};
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int32_t threads = 1; threads <= 3; threads++) {
            mgpt_session *s = session_of(t, chunks[c], threads);
            feed(t, s, 100);
            check(t, s, "chunks of", chunks[c]);
            for (size_t i = 100; i < 104; i++)
                feed(t, s, 1);
            check(t, s, "steps, threads", threads);
            feed(t, s, LONG - 104);
            check(t, s, "chunks again, threads", threads);
            mgpt_session_free(s);
        }
}

/* Growth by ones, and what copies or forgets a cache. */
TEST_TRIAL(timelines)
{
    mgpt_session *s = session_of(t, 7, 2);
    for (size_t i = 0; i < 40; i++)
        feed(t, s, 1);
    feed(t, s, 50);
    mgpt_session *fork = mgpt_fork(s, NULL);
    assert_non_null(fork);
    feed(t, s, 10);
    feed(t, fork, 30);
    check(t, s, "origin of a fork", 0);
    check(t, fork, "fork", 0);
    assert_int_equal(mgpt_rewind(s, 37, NULL), MGPT_OK);
    feed(t, s, 100);
    check(t, s, "rewound", 37);
    int32_t other[60];
    memcpy(other, t->tokens, sizeof other);
    other[21] = (other[21] + 1) % (int32_t)t->n_vocab;
    assert_int_equal(mgpt_sync(s, other, 60, NULL), MGPT_OK);
    assert_int_equal(mgpt_sync(s, t->tokens, 70, NULL), MGPT_OK);
    check(t, s, "synced", 21);
    mgpt_session_free(s);
    mgpt_session_free(fork);
}

TEST_TRIAL(batches)
{
    enum { N = 6 };
    static const size_t held[N] = {90, 1, 33, 147, 16, 0};
    for (int32_t threads = 1; threads <= 3; threads++)
        for (size_t n = 1; n <= N; n++) {
            mgpt_session *s[N];
            int32_t next[N];
            for (size_t i = 0; i < n; i++) {
                s[i] = session_of(t, 48, threads);
                feed(t, s[i], held[i]);
            }
            for (size_t round = 0; round < 3; round++) {
                for (size_t i = 0; i < n; i++)
                    next[i] = t->tokens[held[i] + round];
                assert_int_equal(mgpt_step_many(s, next, n, NULL), MGPT_OK);
                for (size_t i = 0; i < n; i++)
                    check(t, s[i], "batch of", (int)n);
            }
            for (size_t i = 0; i < n; i++)
                mgpt_session_free(s[i]);
        }
}

/* What a tap at the scores and weights saw, in any order: a hash of each row. With `writes` it also
 * changes some, each by its place alone. */
struct watch {
    const struct trial *t;
    int writes;
    uint64_t rows[3][2][LONG][64]; /* [layer][point][query][head] */
};

static int watch(const mgpt_value *v, void *user)
{
    struct watch *w = user;
    int scores = v->point == MGPT_SCORES;
    int32_t query = v->pos, head = (query + scores) % v->rows;
    for (int32_t h = 0; h < v->rows; h++)
        w->rows[v->layer][scores][query][h] =
            fnv1a(FNV_START, v->data + (size_t)h * v->stride, (size_t)v->cols * sizeof(float));
    float *own = v->data + (size_t)head * v->stride + query;
    if (w->writes && query % 4 == 1) /* the last one too */
        *own = scores ? *own + 1 : *own / 2;
    return 0;
}

/* Feeds all tokens; the logits of the last one go to `logits`. */
static void feed_watched(struct watch *w, int32_t n_chunk, int32_t n_threads, float *logits)
{
    mgpt_session *s = session_of(w->t, n_chunk, n_threads);
    uint64_t points = MGPT_POINT_BIT(MGPT_SCORES) | MGPT_POINT_BIT(MGPT_WEIGHTS);
    feed(w->t, s, 5); /* the room for scores is there already, for fewer rows */
    mgpt_rewind(s, 0, NULL);
    assert_int_equal(mgpt_tap(s, points, watch, w, NULL), MGPT_OK);
    feed(w->t, s, LONG);
    memcpy(logits, mgpt_logits(s), w->t->n_vocab * sizeof *logits);
    mgpt_session_free(s);
}

/* Chunks and threads show every row that single steps show, and take what is written into it. */
TEST_TRIAL(taps)
{
    static const int32_t chunks[] = {7, 48, LONG};
    size_t size = t->n_vocab * sizeof(float);
    float *want = toy_alloc(t->n_vocab, sizeof *want),
          *logits = toy_alloc(t->n_vocab, sizeof *want);
    struct watch *steps = toy_alloc(1, sizeof *steps), *w = toy_alloc(1, sizeof *w);
    for (int writes = 0; writes <= 1; writes++) {
        *steps = (struct watch){.t = t, .writes = writes};
        feed_watched(steps, 1, 1, want);
        int same = memcmp(want, t->logits + (LONG - 1) * t->n_vocab, size) == 0;
        assert_int_equal(same, !writes);
        for (size_t c = 0; c < COUNT(chunks); c++)
            for (int32_t threads = 1; threads <= 2; threads++) {
                *w = (struct watch){.t = t, .writes = writes};
                feed_watched(w, chunks[c], threads, logits);
                if (memcmp(w->rows, steps->rows, sizeof w->rows) != 0)
                    fail_msg("%s: other rows, chunks of %d", t->m->spec.label, chunks[c]);
                assert_memory_equal(logits, want, size);
            }
    }
    free(want);
    free(logits);
    free(steps);
    free(w);
}

/* Rounds keys and values before they go into the cache. */
static int round_to_halves(const mgpt_value *v, void *user)
{
    (void)user;
    for (int32_t i = 0; i < v->rows; i++)
        for (int32_t j = 0; j < v->cols; j++) {
            float *x = v->data + (size_t)i * v->stride + j;
            *x = f16_to_f32(f16_from_f32(*x));
        }
    return 0;
}

static void assert_same_cache(const mgpt_session *a, const mgpt_session *b, size_t d)
{
    float *kv[4];
    for (size_t j = 0; j < 4; j++)
        kv[j] = toy_alloc(LONG * d, sizeof *kv[j]);
    assert_int_equal(mgpt_read_kv(a, 0, 0, 5, LONG - 5, kv[0], kv[1], NULL), MGPT_OK);
    assert_int_equal(mgpt_read_kv(b, 0, 0, 5, LONG - 5, kv[2], kv[3], NULL), MGPT_OK);
    assert_memory_equal(kv[0], kv[2], (LONG - 5) * d * sizeof(float));
    assert_memory_equal(kv[1], kv[3], (LONG - 5) * d * sizeof(float));
    for (size_t j = 0; j < 4; j++)
        free(kv[j]);
}

/* An F16 cache equals an F32 cache of rounded values, and reads back as these. */
TEST(halves_are_rounded_floats)
{
    for (size_t i = 0; i < N_SPECS; i++) {
        struct trial t = trial_new(&specs[i], MGPT_KV_F16);
        size_t d = (size_t)specs[i].head_dim;
        t.kv_type = MGPT_KV_F32;
        mgpt_session *rounded = session_of(&t, 16, 2), *plain = session_of(&t, 16, 2);
        mgpt_tap(rounded, MGPT_POINT_BIT(MGPT_ROT_K) | MGPT_POINT_BIT(MGPT_V), round_to_halves,
                 NULL, NULL);
        feed(&t, rounded, LONG);
        check(&t, rounded, "rounded by a tap", 0);
        feed(&t, plain, LONG);
        assert_memory_not_equal(mgpt_logits(plain), mgpt_logits(rounded),
                                t.n_vocab * sizeof(float));
        t.kv_type = MGPT_KV_F16;
        mgpt_session *halves = session_of(&t, 16, 2);
        feed(&t, halves, LONG);
        assert_same_cache(rounded, halves, d);
        mgpt_session_free(rounded);
        mgpt_session_free(plain);
        mgpt_session_free(halves);
        trial_free(&t);
    }
}

/* Rounds a head to blocks of 32 as kv_q8.c states. The scale of a query stays a float. */
static void round_blocks(float *x, size_t d, int is_query)
{
    for (size_t b = 0; b < d; b += 32) {
        size_t n = d - b < 32 ? d - b : 32;
        float most = 0;
        for (size_t j = b; j < b + n; j++)
            most = fmaxf(most, fabsf(x[j]));
        float by = 127.0f / most, scale = most / 127.0f;
        if (!is_query)
            scale = f16_to_f32(f16_from_f32(scale));
        for (size_t j = b; j < b + n; j++)
            x[j] = (float)(int)nearbyintf(x[j] * by) * scale;
    }
}

static int round_to_blocks(const mgpt_value *v, void *user)
{
    size_t d = *(const size_t *)user;
    for (size_t i = 0; i < (size_t)v->rows; i++)
        for (size_t j = 0; j < (size_t)v->cols; j += d)
            round_blocks(v->data + i * v->stride + j, d, v->point == MGPT_ROT_Q);
    return 0;
}

static double nmse_of(const struct trial *t, const mgpt_session *a, const mgpt_session *b)
{
    const float *x = mgpt_logits(a), *y = mgpt_logits(b);
    double square = 0, sum = 0;
    for (size_t i = 0; i < t->n_vocab; i++) {
        double d = (double)x[i] - (double)y[i];
        square += d * d, sum += (double)y[i] * (double)y[i];
    }
    return square / sum;
}

/* A Q8_0 cache equals an F32 cache of rounded values, but for the order of sums. One layer: after
 * it a difference in the last bit may round to another integer. gemma3: rope keeps the order of
 * components. */
static void compare_blocks(size_t d)
{
    struct toy_spec spec = {.label = "blocks", .arch = "gemma3", TOY_SIZES(1, 64, 4, 64, LONG, 64)};
    spec.n_head_kv = 2, spec.head_dim = (int)d, spec.window = 40, spec.full_every = 9;
    struct trial t = trial_new(&spec, MGPT_KV_Q8_0);
    mgpt_session *blocks = session_of(&t, 16, 1);
    t.kv_type = MGPT_KV_F32;
    mgpt_session *rounded = session_of(&t, 16, 1), *plain = session_of(&t, 16, 1);
    uint64_t points = MGPT_POINT_BIT(MGPT_ROT_Q) | MGPT_POINT_BIT(MGPT_ROT_K);
    mgpt_tap(rounded, points | MGPT_POINT_BIT(MGPT_V), round_to_blocks, &d, NULL);
    feed(&t, blocks, LONG);
    feed(&t, rounded, LONG);
    feed(&t, plain, LONG);
    assert_same_cache(rounded, blocks, d);
    double same = nmse_of(&t, blocks, rounded), other = nmse_of(&t, plain, rounded);
    if (!(same < 1e-12 && other > 1e-8 && other < 1e-4))
        fail_msg("heads of %zu: NMSE %g from rounded floats, %g without rounding", d, same, other);
    mgpt_session_free(blocks);
    mgpt_session_free(rounded);
    mgpt_session_free(plain);
    trial_free(&t);
}

TEST(blocks_are_rounded_floats)
{
    static const size_t widths[] = {16, 40, 64, 80, 96, 128};
    for (size_t i = 0; i < COUNT(widths); i++)
        compare_blocks(widths[i]);
}

/* 0 chooses by the weights' type and the bytes per position; 64 * 2 * 64 floats are 32 KiB. */
TEST(choice)
{
    struct toy_spec spec = {.label = "choice", .arch = "llama", TOY_SIZES(64, 64, 1, 32, 32, 16)};
    for (int f16 = 0; f16 < 2; f16++)
        for (int below_it = 0; below_it < 2; below_it++) {
            spec.type = f16 ? TOY_F16 : TOY_F32;
            spec.n_layer = 64 - below_it;
            struct toy *m = toy_build(&spec);
            mgpt_model *model = toy_open(m, NULL);
            mgpt_info info;
            assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
            int halves = f16 && !below_it;
            assert_int_equal(info.kv_bytes, (uint64_t)spec.n_layer * 128 * (halves ? 2 : 4));
            float logits[3][16];
            for (int32_t type = 0; type < 3; type++) {
                mgpt_session_params params = {.kv_type = type};
                mgpt_session *s = mgpt_session_new(model, &params, NULL);
                assert_int_equal(mgpt_feed(s, (const int32_t[]){1, 2, 3, 4}, 4, NULL), MGPT_OK);
                memcpy(logits[type], mgpt_logits(s), sizeof *logits);
                mgpt_session_free(s);
            }
            assert_memory_equal(logits[0], logits[halves ? 2 : 1], sizeof *logits);
            assert_memory_not_equal(logits[0], logits[halves ? 1 : 2], sizeof *logits);
            mgpt_error err;
            mgpt_session_params bad = {.kv_type = 4};
            assert_null(mgpt_session_new(model, &bad, &err));
            assert_int_equal(err.status, MGPT_EARG);
            mgpt_close(model);
            toy_free(m);
        }
}
