/* bits MODEL...: one hash of all logits for each model file, however they are computed.
 *
 * For every instruction set of this machine: stepped, fed in chunks, on one thread and two, in a batch
 * with other timelines, in a cache that grows token by token or all at once, forked half way, tapped or
 * not. All of it must give the same bits; the exit status is 1 when something does not, and the line
 * says what. Works on any model file, so also on those that are too large for the tests.
 */
#include "mgpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOKENS_MAX = 56, N_BESIDE = 3 };

struct subject {
    const char *path;
    const mgpt_model *model;
    size_t n, n_vocab;
    int32_t tokens[N_TOKENS_MAX];
    float *logits; /* [n][n_vocab] of the way in hand */
    mgpt_error err;
};

/* FNV-1a over the bytes of all logits. */
static uint64_t hash_of(const struct subject *s)
{
    const unsigned char *p = (const unsigned char *)s->logits;
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < s->n * s->n_vocab * sizeof *s->logits; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001B3);
    return h;
}

static void keep(struct subject *s, size_t pos, const float *logits)
{
    if (logits)
        memcpy(s->logits + pos * s->n_vocab, logits, s->n_vocab * sizeof *logits);
}

static int keep_rows(const mgpt_value *value, void *user)
{
    struct subject *s = user;
    for (int32_t i = 0; value->point == MGPT_LOGITS && i < value->rows; i++)
        keep(s, (size_t)(value->pos + i), value->data + (size_t)i * value->stride);
    return 0;
}

static mgpt_session *session_of(struct subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session_params params = {.n_threads = n_threads, .n_chunk = n_chunk};
    return mgpt_session_new(s->model, &params, &s->err);
}

/* A way to the logits: returns 0 on an error, which is in s->err. */
typedef int way_fn(struct subject *s, int32_t n_threads, int32_t n_chunk);

static int stepped(struct subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session *session = session_of(s, n_threads, n_chunk);
    int ok = session != NULL;
    for (size_t i = 0; ok && i < s->n; i++) {
        const float *logits = mgpt_step(session, s->tokens[i], &s->err);
        keep(s, i, logits);
        ok = logits != NULL;
    }
    mgpt_session_free(session);
    return ok;
}

/* In pieces of `piece` tokens, watched at `points`. */
static int fed_at(struct subject *s, int32_t n_threads, int32_t n_chunk, size_t piece,
                  uint64_t points)
{
    mgpt_session *session = session_of(s, n_threads, n_chunk);
    int ok = session && mgpt_tap(session, points, keep_rows, s, &s->err) == 0;
    for (size_t i = 0; ok && i < s->n; i += piece)
        ok = mgpt_feed(session, s->tokens + i, s->n - i < piece ? s->n - i : piece, &s->err) == 0;
    mgpt_session_free(session);
    return ok;
}

static int fed(struct subject *s, int32_t n_threads, int32_t n_chunk)
{
    return fed_at(s, n_threads, n_chunk, s->n, MGPT_POINT_BIT(MGPT_LOGITS));
}

static int fed_and_tapped(struct subject *s, int32_t n_threads, int32_t n_chunk)
{
    return fed_at(s, n_threads, n_chunk, 13, MGPT_POINT_BIT(MGPT_N_POINTS) - 1);
}

/* The first half once, the second on a copy, and on the original after going back. */
static int forked(struct subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session *session = session_of(s, n_threads, n_chunk), *copy = NULL;
    int ok = session != NULL;
    for (size_t i = 0; ok && i < s->n; i++) {
        if (i == s->n / 2) {
            ok = mgpt_feed(session, s->tokens, 5, &s->err) == 0 &&
                 mgpt_rewind(session, i, &s->err) == 0;
            copy = ok ? mgpt_fork(session, &s->err) : NULL;
            ok = ok && copy;
        }
        const float *logits = ok ? mgpt_step(copy ? copy : session, s->tokens[i], &s->err) : NULL;
        keep(s, i, logits);
        ok = logits != NULL;
    }
    mgpt_session_free(copy);
    mgpt_session_free(session);
    return ok;
}

/* One of three timelines, each time at another place of the batch. */
static int batched(struct subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session *all[N_BESIDE] = {0};
    int ok = 1;
    for (size_t j = 0; j < N_BESIDE; j++) {
        all[j] = session_of(s, n_threads, n_chunk);
        ok = ok && all[j] && (j == 0 || mgpt_feed(all[j], s->tokens, j, &s->err) == 0);
    }
    for (size_t i = 0; ok && i < s->n; i++) {
        mgpt_session *batch[N_BESIDE];
        int32_t tokens[N_BESIDE];
        size_t room = mgpt_pos(all[N_BESIDE - 1]) < mgpt_n_ctx(all[0]) ? N_BESIDE : 1;
        for (size_t j = 0; j < room; j++) {
            batch[(i + j) % room] = all[j];
            tokens[(i + j) % room] = s->tokens[(i + 3 * j) % s->n];
        }
        ok = mgpt_step_many(batch, tokens, room, &s->err) == 0;
        keep(s, i, mgpt_logits(all[0]));
    }
    for (size_t j = 0; j < N_BESIDE; j++)
        mgpt_session_free(all[j]);
    return ok;
}

static const struct {
    const char *name;
    way_fn *run;
} ways[] = {{"stepped", stepped},
            {"fed", fed},
            {"fed and tapped", fed_and_tapped},
            {"forked", forked},
            {"in a batch", batched}};

static const char *const rungs[] = {"scalar", "avx2", "avx512", "avx512vnni", "neon"};
static const int32_t threads[] = {1, 2}, chunks[] = {0, 1, 5};

enum { N_WAYS = 5, N_RUNGS = 5, N_THREADS = 2, N_CHUNKS = 3 };

/* Every way on one rung against *hash, which the very first of all sets. Returns the number of ways that
 * agreed, or 0 after saying which did not. */
static size_t check_rung(struct subject *s, const char *rung, uint64_t *hash, int first)
{
    size_t n = 0;
    for (size_t i = 0; i < N_WAYS * N_THREADS * N_CHUNKS; i++) {
        size_t way = i % N_WAYS, t = i / N_WAYS % N_THREADS, c = i / N_WAYS / N_THREADS;
        if (c > 0 && ways[way].run == stepped)
            continue; /* chunks are what feeding is cut into */
        memset(s->logits, 0, s->n * s->n_vocab * sizeof *s->logits);
        if (!ways[way].run(s, threads[t], chunks[c])) {
            printf("%s: %s, %s: %s\n", s->path, rung, ways[way].name, s->err.text);
            return 0;
        }
        uint64_t h = hash_of(s);
        *hash = first && i == 0 ? h : *hash;
        if (h != *hash) {
            printf("%s: %s, %s, %d threads, chunks of %d: %016llx, not %016llx\n", s->path, rung,
                   ways[way].name, (int)threads[t], (int)chunks[c], (unsigned long long)h,
                   (unsigned long long)*hash);
            return 0;
        }
        n++;
    }
    return n;
}

static int check_file(const char *path)
{
    uint64_t hash = 0;
    size_t n_ways = 0, n_rungs = 0;
    for (size_t r = 0; r < N_RUNGS; r++) {
        struct subject s = {.path = path};
        mgpt_model_params params = {.isa = rungs[r]};
        mgpt_model *model = mgpt_open(path, &params, &s.err);
        mgpt_info info;
        if (!model && s.err.status == MGPT_EARG)
            continue; /* not on this machine */
        if (!model || mgpt_get_info(model, &info, &s.err) < 0) {
            printf("%s: %s\n", path, s.err.text);
            return 1;
        }
        s.model = model;
        s.n = info.n_ctx < N_TOKENS_MAX ? (size_t)info.n_ctx : N_TOKENS_MAX;
        s.n_vocab = (size_t)info.n_vocab;
        for (size_t i = 0; i < s.n; i++)
            s.tokens[i] = (int32_t)((i * i * 7919 + i * 13 + 5) % (size_t)info.n_tokens);
        s.logits = malloc(s.n * s.n_vocab * sizeof *s.logits);
        size_t n = s.logits ? check_rung(&s, rungs[r], &hash, n_rungs == 0) : 0;
        free(s.logits);
        mgpt_close(model);
        if (n == 0)
            return 1;
        n_ways += n;
        n_rungs++;
    }
    printf("%016llx  %s  %zu ways, %zu instruction sets\n", (unsigned long long)hash, path, n_ways,
           n_rungs);
    return n_rungs == 0;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad |= check_file(argv[i]);
    return bad;
}
