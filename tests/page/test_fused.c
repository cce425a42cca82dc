/* Tests of the fused path: the second compilation of the page (page.inc) has the bits of forward.c.
 *
 * A pass with a tap runs in forward.c. So every small model runs twice, with and without a tap, on
 * every ISA level, by steps and by chunks, alone and in a batch. Logits and KV cache must be the
 * same.
 */
#include "mgpt.h"
#include "model/model.h"
#include "page/fused.h"
#include "run/session.h"
#include "support/build_model.h"
#include "support/place.h"

enum { N_TOKENS = 40 };

static const struct toy_spec narrow[] = {
    {.label = "canonical", .arch = "microgpt", TOY_SIZES(1, 16, 4, 64, 16, 27)},
    {.label = "three layers, q, k and v of the first from a table",
     .arch = "microgpt",
     TOY_SIZES(3, 16, 4, 64, 16, 27)},
    {.label = "canonical, long", .arch = "microgpt", TOY_SIZES(3, 16, 4, 64, 80, 65)},
    {.label = "32 wide, relu2",
     .arch = "microgpt",
     .n_layer = 2,
     .n_embd = 32,
     .n_head = 2,
     .n_ff = 128,
     .n_ctx = 80,
     .n_vocab = 70,
     .activation = "relu2",
     .final_norm = TOY_YES,
     .embedding_norm = TOY_NO},
    {.label = "32 wide, eight heads of 4",
     .arch = "gpt2",
     .n_layer = 2,
     .n_embd = 32,
     .n_head = 8,
     .n_ff = 128,
     .n_ctx = 80,
     .n_vocab = 65},
    {.label = "eight heads of 4, four of keys",
     .arch = "microgpt",
     .n_layer = 1,
     .n_embd = 32,
     .n_head = 8,
     .n_head_kv = 4,
     .n_ff = 128,
     .n_ctx = 80,
     .n_vocab = 33},
    {.label = "embeddings and scores scaled",
     .arch = "granite",
     TOY_SIZES(2, 16, 4, 64, 80, 33),
     .no_rope_every = 1,
     .embd_scale = 1.5,
     .attn_scale = 0.3},
    {.label = "48 wide, head of 16",
     .arch = "microgpt",
     .n_layer = 2,
     .n_embd = 48,
     .n_head = 3,
     .n_ff = 192,
     .n_ctx = 80,
     .n_vocab = 33,
     .activation = "gelu_tanh"},
    {.label = "64 wide, head of 8",
     .arch = "microgpt",
     .n_layer = 1,
     .n_embd = 64,
     .n_head = 8,
     .n_ff = 256,
     .n_ctx = 80,
     .n_vocab = 64,
     .activation = "silu"},
    {.label = "gpt2",
     .arch = "gpt2",
     .n_layer = 2,
     .n_embd = 32,
     .n_head = 4,
     .n_ff = 128,
     .n_ctx = 80,
     .n_vocab = 65,
     .biases = 1},
    {.label = "no layers",
     .arch = "microgpt",
     .n_layer = 0,
     .n_embd = 16,
     .n_head = 4,
     .n_ff = 64,
     .n_ctx = 80,
     .n_vocab = 27},
};
enum { N_NARROW = COUNT(narrow) };

static int look(const mgpt_value *value, void *user)
{
    (void)value;
    (void)user;
    return 0;
}

static mgpt_session *fused_session(const mgpt_model *model, int32_t n_chunk, int32_t kv_type)
{
    const mgpt_session_params params = {.n_chunk = n_chunk, .kv_type = kv_type};
    mgpt_session *s = mgpt_session_new(model, &params, NULL);
    assert_non_null(s);
    return s;
}

struct fused_subject {
    const mgpt_model *model;
    const int32_t *tokens;
    size_t n, n_vocab;
    int32_t kv_type; /* the fused path needs KV_F32; others run in forward.c */
    float *logits;   /* [n][n_vocab], from forward.c, with a cache of this type */
};

static void check_logits(const struct fused_subject *s, size_t pos, const mgpt_session *session,
                         const char *what)
{
    if (memcmp(s->logits + pos * s->n_vocab, mgpt_logits(session), s->n_vocab * sizeof(float)) != 0)
        fail_msg("%s: logits of position %zu differ from the page's", what, pos);
}

/* Compares keys and values through the public API. */
static void check_cache(const struct fused_subject *s, const mgpt_session *a, const mgpt_session *b)
{
    const struct model_shape *d = &s->model->shape;
    size_t n = s->n * d->head_dim;
    float *k = toy_alloc(4 * n, sizeof *k), *v = k + 2 * n;
    for (size_t i = 0; i < d->n_layer * d->n_head_kv; i++) {
        int32_t layer = (int32_t)(i / d->n_head_kv), head = (int32_t)(i % d->n_head_kv);
        assert_int_equal(mgpt_read_kv(a, layer, head, 0, s->n, k, v, NULL), MGPT_OK);
        assert_int_equal(mgpt_read_kv(b, layer, head, 0, s->n, k + n, v + n, NULL), MGPT_OK);
        assert_memory_equal(k, k + n, n * sizeof *k);
        assert_memory_equal(v, v + n, n * sizeof *v);
    }
    free(k);
}

static void by_chunks(const struct fused_subject *s, const mgpt_session *page)
{
    const size_t chunks[] = {1, 2, 7, 16, 33, N_TOKENS};
    for (size_t i = 0; i < COUNT(chunks); i++) {
        mgpt_session *session =
            fused_session(s->model, (int32_t)(s->n < 33 ? s->n : 33), s->kv_type);
        for (size_t pos = 0; pos < s->n; pos += chunks[i]) {
            size_t n = s->n - pos < chunks[i] ? s->n - pos : chunks[i];
            assert_int_equal(mgpt_feed(session, s->tokens + pos, n, NULL), MGPT_OK);
            check_logits(s, pos + n - 1, session, "chunks");
        }
        check_cache(s, page, session);
        mgpt_session_free(session);
    }
}

/* Sessions at different positions in one batch, one of which is truncated on the way; or all at one
 * position, which get room at the same time. */
static void by_batches(const struct fused_subject *s, int level)
{
    enum { N = 27 }; /* more than one call of the kernel takes */
    mgpt_session *sessions[N];
    int32_t tokens[N];
    for (size_t i = 0; i < N; i++) {
        sessions[i] = fused_session(s->model, 4, s->kv_type);
        assert_int_equal(mgpt_feed(sessions[i], s->tokens, level ? 0 : i % (s->n / 2), NULL),
                         MGPT_OK);
    }
    for (size_t step = 0; step < s->n / 2; step++) {
        if (step == 3 && !level)
            assert_int_equal(mgpt_rewind(sessions[2], 1, NULL), MGPT_OK);
        for (size_t i = 0; i < N; i++)
            tokens[i] = s->tokens[mgpt_pos(sessions[i])];
        assert_int_equal(mgpt_step_many(sessions, tokens, N, NULL), MGPT_OK);
        for (size_t i = 0; i < N; i++)
            check_logits(s, mgpt_pos(sessions[i]) - 1, sessions[i], "batch");
    }
    for (size_t i = 0; i < N; i++)
        mgpt_session_free(sessions[i]);
}

/* A batch of fused sessions and one that is not, as leader or as follower. `odd` has an F16 cache
 * or a tap. */
static void by_mixed_batch(const struct fused_subject *floats, const struct fused_subject *odd,
                           int tapped)
{
    for (size_t at = 0; at < 3; at++) {
        mgpt_session *sessions[3];
        int32_t tokens[3];
        for (size_t i = 0; i < 3; i++) {
            const struct fused_subject *s = i == at ? odd : floats;
            sessions[i] = fused_session(s->model, 4, s->kv_type);
            if (i == at && tapped)
                assert_int_equal(mgpt_tap(sessions[i], MGPT_POINT_BIT(MGPT_EMBD), look, NULL, NULL),
                                 MGPT_OK);
            assert_int_equal(mgpt_feed(sessions[i], s->tokens, 1 + i, NULL), MGPT_OK);
        }
        for (size_t step = 0; step < 4;
             step++) { /* from the second step on all sessions have room */
            for (size_t i = 0; i < 3; i++)
                tokens[i] = floats->tokens[mgpt_pos(sessions[i])];
            assert_int_equal(mgpt_step_many(sessions, tokens, 3, NULL), MGPT_OK);
            for (size_t i = 0; i < 3; i++)
                check_logits(i == at ? odd : floats, mgpt_pos(sessions[i]) - 1, sessions[i],
                             "mixed batch");
        }
        for (size_t i = 0; i < 3; i++)
            mgpt_session_free(sessions[i]);
    }
}

/* A fork continues at the position of its origin, also in the middle of a panel. */
static void by_forks(const struct fused_subject *s)
{
    static const size_t positions[] = {1, 7, 15, 16, 17, 31, 32, 33};
    for (size_t i = 0; i < COUNT(positions) && positions[i] < s->n; i++) {
        mgpt_session *origin = fused_session(s->model, 0, s->kv_type);
        assert_int_equal(mgpt_feed(origin, s->tokens, positions[i], NULL), MGPT_OK);
        mgpt_session *fork = mgpt_fork(origin, NULL);
        assert_non_null(
            mgpt_step(origin, (s->tokens[positions[i]] + 1) % (int32_t)s->n_vocab, NULL));
        for (size_t pos = positions[i]; pos < s->n; pos++) {
            assert_non_null(mgpt_step(fork, s->tokens[pos], NULL));
            check_logits(s, pos, fork, "fork");
        }
        mgpt_session_free(fork);
        mgpt_session_free(origin);
    }
}

/* One session changes between the paths, with rewinds between, and is saved and loaded. */
static void by_turns(const struct fused_subject *s, const mgpt_session *page)
{
    static const size_t rewinds[] = {0, 1, 3, 4, 5, 8, 15, 16, 17, 20, 32};
    mgpt_session *a = fused_session(s->model, 0, s->kv_type);
    mgpt_session *b = fused_session(s->model, 0, s->kv_type);
    for (size_t turn = 0; turn < 2 * COUNT(rewinds); turn++) {
        size_t to = rewinds[turn / 2];
        assert_int_equal(mgpt_rewind(a, to < mgpt_pos(a) ? to : mgpt_pos(a), NULL), MGPT_OK);
        for (size_t pos; (pos = mgpt_pos(a)) < s->n; check_logits(s, pos, a, "turns")) {
            uint64_t tapped = (pos / 3 + turn) % 2 ? MGPT_POINT_BIT(MGPT_EMBD) : 0;
            assert_int_equal(mgpt_tap(a, tapped, tapped ? look : NULL, NULL, NULL), MGPT_OK);
            assert_non_null(mgpt_step(a, s->tokens[pos], NULL));
        }
        if (turn % 5 > 0)
            continue;
        assert_int_equal(mgpt_rewind(a, s->n - 1 - turn / 5, NULL), MGPT_OK);
        assert_int_equal(mgpt_save_session(a, place.path, NULL), MGPT_OK);
        assert_int_equal(mgpt_load_session(b, place.path, NULL), MGPT_OK);
        for (size_t pos; (pos = mgpt_pos(b)) < s->n; check_logits(s, pos, b, "loaded"))
            assert_non_null(mgpt_step(b, s->tokens[pos], NULL));
        check_cache(s, page, b);
    }
    mgpt_session_free(a);
    mgpt_session_free(b);
}

struct last_input {
    float *x; /* [n][n_embd]: the input of the last layer */
    int32_t layer;
};

static int keep_last_input(const mgpt_value *value, void *user)
{
    const struct last_input *last = user;
    if (value->layer == last->layer)
        memcpy(last->x + value->pos * value->cols, value->data,
               (size_t)(value->rows * value->cols) * sizeof *last->x);
    return 0;
}

/* A run that begins in the last layer: the keys and values before it are those of a session that
 * took the fused path. */
static void by_clean_run(const struct fused_subject *s)
{
    size_t E = s->model->shape.n_embd;
    mgpt_session *clean = fused_session(s->model, 0, s->kv_type);
    mgpt_session *to = fused_session(s->model, 0, s->kv_type);
    struct last_input last = {toy_alloc(s->n * E, sizeof(float)),
                              (int32_t)s->model->shape.n_layer - 1};
    assert_int_equal(mgpt_tap(clean, MGPT_POINT_BIT(MGPT_RESID_PRE), keep_last_input, &last, NULL),
                     MGPT_OK);
    assert_int_equal(mgpt_feed(clean, s->tokens, s->n, NULL), MGPT_OK);
    assert_int_equal(mgpt_tap(clean, 0, NULL, NULL, NULL), MGPT_OK);
    assert_int_equal(mgpt_rewind(clean, s->n - 1, NULL), MGPT_OK);
    assert_non_null(mgpt_step(clean, s->tokens[s->n - 1], NULL));
    assert_int_equal(mgpt_feed(to, s->tokens, 3, NULL), MGPT_OK);
    const mgpt_run run = {.session = to,
                          .tokens = s->tokens + 3,
                          .n = s->n - 3,
                          .resid = last.x + 3 * E,
                          .clean = clean,
                          .layer = last.layer};
    assert_int_equal(mgpt_feed_many(&run, 1, NULL), MGPT_OK);
    check_logits(s, s->n - 1, to, "clean run");
    check_cache(s, clean, to);
    free(last.x);
    mgpt_session_free(to);
    mgpt_session_free(clean);
}

/* The reference: every token has a tap, so it runs in forward.c. */
static struct fused_subject by_the_page(const mgpt_model *model, const int32_t *tokens, size_t n,
                                        size_t n_vocab, int32_t kv_type, mgpt_session **page)
{
    struct fused_subject s = {model, tokens, n, n_vocab, kv_type, NULL};
    s.logits = toy_alloc(n * n_vocab, sizeof *s.logits);
    *page = fused_session(model, 1, kv_type);
    assert_int_equal(mgpt_tap(*page, MGPT_POINT_BIT(MGPT_EMBD), look, NULL, NULL), MGPT_OK);
    for (size_t i = 0; i < n; i++) {
        const float *logits = mgpt_step(*page, tokens[i], NULL);
        assert_non_null(logits);
        memcpy(s.logits + i * n_vocab, logits, n_vocab * sizeof *logits);
    }
    return s;
}

static void compare_paths(const struct toy_spec *spec, const char *isa)
{
    struct toy *m = toy_build(spec);
    if (spec->activation && strcmp(spec->activation, "silu") == 0) /* usual with SiLU */
        toy_add(m, "blk.0.ffn_gate.weight", TOY_F32, spec->n_embd, spec->n_ff, 0, 0.2);
    mgpt_model *model = toy_open(m, &(mgpt_model_params){.isa = isa});
    int32_t tokens[N_TOKENS];
    size_t n = spec->n_ctx < N_TOKENS ? (size_t)spec->n_ctx : N_TOKENS;
    struct fused_subject s[3];
    /* otherwise nothing is tested here; -DMGPT_NO_FUSED builds have no fused path to test */
    assert_true(model->fused || !fused_kernels(model->kernels.vectors));
    toy_tokens(m, 7, tokens, n);
    for (int32_t i = 0; i < 3; i++) {
        mgpt_session *page;
        s[i] = by_the_page(model, tokens, n, (size_t)spec->n_vocab, MGPT_KV_F32 + i, &page);
        by_chunks(&s[i], page);
        by_batches(&s[i], 0);
        by_batches(&s[i], 1);
        by_forks(&s[i]);
        if (i == 0)
            by_turns(&s[i], page);
        if (i == 0 && spec->n_layer > 0)
            by_clean_run(&s[i]);
        mgpt_session_free(page);
    }
    by_mixed_batch(&s[0], &s[1], 0);
    by_mixed_batch(&s[0], &s[2], 0);
    by_mixed_batch(&s[0], &s[0], 1);
    free(s[0].logits);
    free(s[1].logits);
    free(s[2].logits);
    mgpt_close(model);
    toy_free(m);
}

TEST_IN_PLACE(bits_of_the_page)
{
    int runs;
    const char *isa;
    for (size_t i = 0; (isa = kernels_isa_level(i, &runs)) != NULL; i++)
        for (size_t j = 0; runs && j < N_NARROW; j++)
            compare_paths(&narrow[j], isa);
}

/* The cache's room doubles and may be more than the context: the step that has none says so. A step with an id
 * beyond the vocabulary is refused, too. */
TEST(full_context)
{
    enum { N_CTX = 11 };
    struct toy *m = toy_build(&narrow[0]);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *s = mgpt_session_new(model, &(mgpt_session_params){.n_ctx = N_CTX}, NULL);
    const int32_t token = 3, none = narrow[0].n_vocab;
    mgpt_error err;
    for (int i = 0; i < N_CTX; i++) {
        assert_non_null(mgpt_step(s, token, NULL));
        assert_null(mgpt_step(s, none, &err));
        assert_int_equal(err.status, i < N_CTX - 1 ? MGPT_EARG : MGPT_EFULL);
    }
    assert_null(mgpt_step(s, token, &err));
    assert_int_equal(err.status, MGPT_EFULL);
    assert_int_equal(mgpt_step_many(&s, &token, 1, &err), MGPT_EFULL);
    assert_int_equal(mgpt_pos(s), N_CTX);
    mgpt_session_free(s);
    mgpt_close(model);
    toy_free(m);
}

/* The switch of mgpt_model_params. */
TEST(no_fused)
{
    struct toy *m = toy_build(&narrow[0]);
    mgpt_model *model = toy_open(m, &(mgpt_model_params){.no_fused = 1});
    assert_null(model->fused);
    mgpt_close(model);
    toy_free(m);
}

static int see_nothing(const mgpt_value *value, void *user)
{
    return value == NULL && user == NULL; /* 0: go on */
}

/* A tapped session leaves the others of a batch on the fused path: their caches keep their layout. */
TEST(tap_leaves_others_fused)
{
    enum { N = 3, TAPPED = 1 };
    struct toy *m = toy_build(&narrow[0]);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *s[N];
    for (int i = 0; i < N; i++)
        s[i] = mgpt_session_new(model, NULL, NULL);
    mgpt_tap(s[TAPPED], MGPT_POINT_BIT(MGPT_RESID_POST), see_nothing, NULL, NULL);
    for (int step = 0; step < 2; step++) {
        assert_int_equal(mgpt_step_many(s, (const int32_t[N]){step, step, step}, N, NULL), MGPT_OK);
        for (int i = 0; i < N; i++)
            assert_int_equal(s[i]->kv.interleaved, i != TAPPED && model->fused->interleaved);
    }
    for (int i = 0; i < N; i++)
        mgpt_session_free(s[i]);
    mgpt_close(model);
    toy_free(m);
}
