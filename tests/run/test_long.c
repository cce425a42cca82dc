/* Long runs: ten million tokens in flat memory, ten thousand forks and rewinds, a full context. */
#include "mgpt.h"
#include "support/sanitized.h"
#include "support/unit.h"

enum { TOKENS = SANITIZED ? 200000 : 10000000, WARM = TOKENS / 100, TURNS = 10000, PAGE = 4 };

struct names_model {
    mgpt_model *model;
    mgpt_info info;
};

static int open_names(void **state)
{
    static struct names_model s;
    s.model = mgpt_open(unit_path("weights/names.gguf"), NULL, NULL);
    *state = &s;
    return s.model ? mgpt_get_info(s.model, &s.info, NULL) : -1;
}

static int close_names(void **state)
{
    struct names_model *s = *state;
    mgpt_close(s->model);
    return 0;
}

/* KiB of memory that does not belong to a file; 0: the system does not say. */
static long resident(void)
{
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kib == 0 && fgets(line, sizeof line, f))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtol(line + 8, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

/* Draws n tokens, text after text, as `mgpt generate --samples` does. Returns the number of texts. */
static size_t draw(const struct names_model *s, mgpt_session *session, mgpt_sampler *sampler,
                   size_t n)
{
    size_t n_texts = 0;
    int32_t token = s->info.bos;
    for (size_t i = 0; i < n; i++) {
        const float *logits = mgpt_step(session, token, NULL);
        assert_non_null(logits);
        token = mgpt_sample(sampler, logits, (size_t)s->info.n_tokens);
        assert_in_range(token, 0, s->info.n_tokens - 1);
        if (mgpt_is_end(s->model, token) || mgpt_pos(session) == mgpt_n_ctx(session)) {
            assert_int_equal(mgpt_rewind(session, 0, NULL), MGPT_OK);
            token = s->info.bos;
            n_texts++;
        }
    }
    return n_texts;
}

TEST(tokens)
{
    const struct names_model *s = *state;
    mgpt_sampler sampler = {.temperature = 1, .rng = 1};
    mgpt_session *session = mgpt_session_new(s->model, NULL, NULL);
    assert_non_null(session);
    draw(s, session, &sampler, WARM);
    mgpt_rewind(session, 0, NULL);
    long before = resident();
    size_t n_texts = draw(s, session, &sampler, TOKENS);
    long after = resident();
    mgpt_session_free(session);
    assert_true(n_texts > TOKENS / 16);
    if (!SANITIZED && after > before + PAGE)
        fail_msg("%ld KiB in memory before %d tokens, %ld after", before, (int)TOKENS, after);
}

/* A chain: each fork goes on, is rewound, and replaces its origin; the bits never change. */
TEST(turns)
{
    const struct names_model *s = *state;
    const int32_t tokens[] = {s->info.bos, 0, 13, 13, 0};
    enum { N = COUNT(tokens) };
    size_t n_bytes = (size_t)s->info.n_vocab * sizeof(float);
    mgpt_session *session = mgpt_session_new(s->model, NULL, NULL);
    assert_int_equal(mgpt_feed(session, tokens, N, NULL), MGPT_OK);
    float *want = malloc(n_bytes);
    assert_non_null(want);
    memcpy(want, mgpt_logits(session), n_bytes);
    long before = 0;
    for (size_t i = 0; i < TURNS; i++) {
        mgpt_session *fork = mgpt_fork(session, NULL);
        assert_non_null(fork);
        mgpt_session_free(session);
        session = fork;
        assert_int_equal(mgpt_rewind(session, i % N, NULL), MGPT_OK);
        assert_int_equal(mgpt_sync(session, tokens, N, NULL), MGPT_OK);
        assert_memory_equal(mgpt_logits(session), want, n_bytes);
        before = i == TURNS / 10 ? resident() : before;
    }
    if (!SANITIZED && resident() > before + PAGE)
        fail_msg("%ld KiB in memory at first, %ld in the end", before, resident());
    mgpt_session_free(session);
    free(want);
}

/* The context's end is an error that changes nothing, however often it is run into. */
TEST(full_context)
{
    const struct names_model *s = *state;
    mgpt_error err;
    mgpt_session *session = mgpt_session_new(s->model, NULL, NULL);
    for (int32_t i = 0; i < s->info.n_ctx; i++)
        assert_non_null(mgpt_step(session, i % 26, NULL));
    for (int i = 0; i < TURNS; i++) {
        assert_null(mgpt_step(session, 1, &err));
        assert_int_equal(err.status, MGPT_EFULL);
        assert_int_equal(mgpt_pos(session), s->info.n_ctx);
    }
    assert_non_null(mgpt_logits(session));
    mgpt_session_free(session);
}

GROUP(open_names, close_names)
