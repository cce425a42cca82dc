/* Tests: what a tokenizer makes of texts. See tok_file.h. */
#include "support/build_model.h"
#include "support/tok_file.h"
#include "support/unit.h"

#include <pthread.h>

void tok_gives_ids(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
                   const int32_t *ids, size_t n)
{
    mgpt_error err = {0};
    int64_t count = tok_encode(t, text, n_bytes, flags, NULL, 0, &err);
    if (count < 0)
        fail_msg("%s", err.text);
    int32_t *got = malloc(((size_t)count + 1) * sizeof *got);
    assert_non_null(got);
    assert_int_equal(tok_encode(t, text, n_bytes, flags, got, (size_t)count, &err), count);
    int same = (size_t)count == n;
    for (size_t i = 0; same && i < n; i++)
        same = got[i] == ids[i];
    if (!same) {
        for (size_t i = 0; i < n; i++)
            print_error("%d ", ids[i]);
        print_error("expected, got");
        for (int64_t i = 0; i < count; i++)
            print_error(" %d", got[i]);
        fail_msg(": other tokens of '%.*s'", (int)n_bytes, text);
    }
    free(got);
}

void tok_gives(const struct tok *t, const char *text, unsigned flags, ...)
{
    int32_t ids[64];
    size_t n = 0;
    va_list ap;
    va_start(ap, flags);
    for (int id = va_arg(ap, int); id >= 0; id = va_arg(ap, int))
        ids[n++] = id;
    va_end(ap);
    tok_gives_ids(t, text, strlen(text), flags, ids, n);
}

char *tok_split(const struct tok *t, const char *text, char *buf, size_t cap)
{
    int32_t ids[64];
    size_t at = 0, n;
    int64_t count = tok_encode(t, text, strlen(text), 0, ids, 64, NULL);
    assert_in_range(count, 0, 64);
    for (int64_t i = 0; i < count; i++) {
        const char *piece = tok_piece(t, ids[i], &n);
        at += (size_t)snprintf(buf + at, cap - at, "%s%.*s", i > 0 ? "|" : "", (int)n, piece);
    }
    assert_true(at < cap);
    return buf;
}

void tok_refuses(const struct tok *t, const char *text, size_t n_bytes, uint64_t offset,
                 const char *message)
{
    mgpt_error err = {0};
    int32_t ids[64];
    assert_int_equal(tok_encode(t, text, n_bytes, 0, ids, 64, &err), MGPT_ETEXT);
    assert_string_equal(err.text, message);
    assert_int_equal(err.status, MGPT_ETEXT);
    assert_int_equal(err.offset, offset);
    assert_int_equal(tok_encode(t, text, n_bytes, 0, ids, 64, NULL), MGPT_ETEXT);
}

void tok_round_trip(const struct tok *t, const char *text, size_t n_bytes)
{
    int32_t ids[1024];
    int64_t count = tok_encode(t, text, n_bytes, MGPT_NO_SPECIAL_TOKENS, ids, 1024, NULL);
    size_t at = 0, n;
    assert_in_range(count, 0, 1024);
    for (int64_t i = 0; i < count; i++) {
        const char *piece = tok_piece(t, ids[i], &n);
        size_t skip = i == 0 && tok_drops_space(t, ids[i]) ? 1 : 0;
        assert_true(n > 0 && n - skip <= n_bytes - at);
        assert_memory_equal(piece + skip, text + at, n - skip);
        at += n - skip;
    }
    assert_int_equal(at, n_bytes);
}

void tok_round_trips(const struct tok *t, const struct tok_case *cases, char not )
{
    uint64_t rng = 4;
    for (size_t round = 0; round < 1000; round++) {
        char text[600];
        size_t n = toy_random(&rng) % 300;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)toy_random(&rng);
        tok_round_trip(t, text, n);
        struct gguf_str s = cases[round % arr_len(cases)].text;
        assert_in_range(s.n, 1, sizeof text);
        memcpy(text, s.p, s.n);
        if (not &&memchr(text, not, s.n))
            continue;
        text[toy_random(&rng) % s.n] = (char)toy_random(&rng);
        tok_round_trip(t, text, s.n);
    }
}

void tok_long_text(const struct tok *t, char byte, size_t n_more)
{
    const size_t n = 1000000;
    char *text = malloc(n);
    int32_t *ids = malloc((n + n_more) * sizeof *ids);
    size_t bytes = 0, n_piece;
    assert_true(text && ids);
    memset(text, byte, n);
    int64_t count = tok_encode(t, text, n, 0, ids, n + n_more, NULL);
    assert_in_range(count, 1, n + n_more);
    for (int64_t i = 0; i < count; i++, bytes += n_piece)
        tok_piece(t, ids[i], &n_piece);
    assert_int_equal(bytes, n + n_more);
    free(text);
    free(ids);
}

struct tok_job {
    const struct tok *t;
    const struct tok_case *cases;
    size_t n_wrong;
};

static void *encode_all(void *p)
{
    struct tok_job *job = p;
    int32_t ids[1024];
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < arr_len(job->cases); i++) {
            const struct tok_case *c = &job->cases[i];
            int64_t n = tok_encode(job->t, c->text.p, c->text.n, 0, ids, 1024, NULL);
            int same = n == (int64_t)arr_len(c->ids);
            for (size_t k = 0; same && k < arr_len(c->ids); k++)
                same = ids[k] == c->ids[k];
            job->n_wrong += !same;
        }
    return NULL;
}

void tok_two_threads(const struct tok *t, const struct tok_case *cases)
{
    pthread_t threads[2];
    struct tok_job jobs[2] = {{t, cases, 0}, {t, cases, 0}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_all, &jobs[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(jobs[0].n_wrong + jobs[1].n_wrong, 0);
}
