/* One hash of all logits, however they are computed. See self.h.
 *
 * For every instruction set of this machine: stepped, fed in chunks, on one thread and two, in a
 * batch with other timelines, in a cache that grows token by token or at once, forked in the
 * middle, rewound, synced to another text and back, tapped or not. All of these must give the same
 * bits.
 */
#include "check/self/self.h"

#include "base/error.h"
#include "base/fnv.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <stdlib.h>
#include <string.h>

enum { N_BATCH = 3, PIECE = 13 };

struct self_subject {
    const mgpt_model *model;
    const char *isa; /* the model's */
    const int32_t *tokens;
    size_t n, n_vocab;
    int32_t kv_type;
    double work;   /* weights times tokens */
    float *logits; /* [n][n_vocab] logits of the variant that runs */
    float *first;  /* [n][n_vocab] logits of the first variant */
    mgpt_error *err;
};

/* FNV-1a over the bytes of all logits. */
static uint64_t hash_logits(const struct self_subject *s)
{
    return fnv1a(FNV_START, s->logits, s->n * s->n_vocab * sizeof *s->logits);
}

static void keep_logits(struct self_subject *s, size_t pos, const float *logits)
{
    if (logits)
        memcpy(s->logits + pos * s->n_vocab, logits, s->n_vocab * sizeof *logits);
}

static int keep_rows(const mgpt_value *value, void *user)
{
    struct self_subject *s = user;
    for (int32_t i = 0; value->point == MGPT_LOGITS && i < value->rows; i++)
        if ((size_t)(value->pos + i) < s->n)
            keep_logits(s, (size_t)(value->pos + i), value->data + (size_t)i * value->stride);
    return 0;
}

static mgpt_session *session_of(struct self_subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session_params params = {
        .n_threads = n_threads, .n_chunk = n_chunk, .kv_type = s->kv_type};
    mgpt_session *session = mgpt_session_new(s->model, &params, s->err);
    interrupt_stops(session);
    return session;
}

/* Ctrl-C ends the call that runs tokens, or the next one: of the session that is named last. */
static void self_free(mgpt_session *session)
{
    if (session)
        interrupt_stops_end(session);
    mgpt_session_free(session);
}

/* ---- the variants: 1, or 0 on an error, which is in *s->err ------------------------------------- */

typedef int variant_fn(struct self_subject *s, int32_t n_threads, int32_t n_chunk);

static int stepped(struct self_subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session *session = session_of(s, n_threads, n_chunk);
    int ok = session != NULL;
    for (size_t i = 0; ok && i < s->n; i++) {
        const float *logits = mgpt_step(session, s->tokens[i], s->err);
        keep_logits(s, i, logits);
        ok = logits != NULL;
    }
    self_free(session);
    return ok;
}

/* In pieces of `piece` tokens, watched at `points`. */
static int fed_at(struct self_subject *s, int32_t n_threads, int32_t n_chunk, size_t piece,
                  uint64_t points)
{
    mgpt_session *session = session_of(s, n_threads, n_chunk);
    int ok = session && mgpt_tap(session, points, keep_rows, s, s->err) == 0;
    for (size_t i = 0; ok && i < s->n; i += piece)
        ok = mgpt_feed(session, s->tokens + i, s->n - i < piece ? s->n - i : piece, s->err) == 0;
    self_free(session);
    return ok;
}

static int fed(struct self_subject *s, int32_t n_threads, int32_t n_chunk)
{
    return fed_at(s, n_threads, n_chunk, s->n, MGPT_POINT_BIT(MGPT_LOGITS));
}

static int fed_and_tapped(struct self_subject *s, int32_t n_threads, int32_t n_chunk)
{
    return fed_at(s, n_threads, n_chunk, PIECE, MGPT_POINT_BIT(MGPT_N_POINTS) - 1);
}

/* The first half once, the second on a copy, after going back from a detour. */
static int forked(struct self_subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session *session = session_of(s, n_threads, n_chunk), *copy = NULL;
    int ok = session != NULL;
    for (size_t i = 0; ok && i < s->n; i++) {
        if (i == s->n / 2) {
            size_t room = mgpt_n_ctx(session) - i, detour = s->n < 5 ? s->n : 5;
            ok = mgpt_feed(session, s->tokens, room < detour ? room : detour, s->err) == 0 &&
                 mgpt_rewind(session, i, s->err) == 0;
            copy = ok ? mgpt_fork(session, s->err) : NULL;
            ok = ok && copy;
            interrupt_stops(copy);
        }
        const float *logits = ok ? mgpt_step(copy ? copy : session, s->tokens[i], s->err) : NULL;
        keep_logits(s, i, logits);
        ok = logits != NULL;
    }
    self_free(copy);
    self_free(session);
    return ok;
}

/* To the text without its first token, then to each beginning of the text, longest first. */
static int synced(struct self_subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session *session = session_of(s, n_threads, n_chunk);
    int ok = session && mgpt_sync(session, s->tokens + 1, s->n - 1, s->err) == 0;
    for (size_t i = s->n; ok && i > 0 && i--;) {
        ok = mgpt_sync(session, s->tokens, i + 1, s->err) == 0;
        keep_logits(s, i, ok ? mgpt_logits(session) : NULL);
        ok = ok && mgpt_rewind(session, i > 4 ? i - 4 : 0, s->err) == 0;
    }
    self_free(session);
    return ok;
}

/* One of three timelines, each time at another place of the batch. */
static int batched(struct self_subject *s, int32_t n_threads, int32_t n_chunk)
{
    mgpt_session *all[N_BATCH] = {0};
    int ok = 1;
    for (size_t j = 0; j < N_BATCH; j++) {
        all[j] = session_of(s, n_threads, n_chunk);
        size_t ahead = all[j] && j < mgpt_n_ctx(all[j]) && j < s->n ? j : 0;
        ok = ok && all[j] && (ahead == 0 || mgpt_feed(all[j], s->tokens, ahead, s->err) == 0);
    }
    for (size_t i = 0; ok && i < s->n; i++) {
        mgpt_session *batch[N_BATCH];
        int32_t tokens[N_BATCH];
        size_t room = mgpt_pos(all[N_BATCH - 1]) < mgpt_n_ctx(all[0]) ? N_BATCH : 1;
        for (size_t j = 0; j < room; j++) {
            batch[(i + j) % room] = all[j];
            tokens[(i + j) % room] = s->tokens[(i + 3 * j) % s->n];
        }
        ok = mgpt_step_many(batch, tokens, room, s->err) == 0;
        keep_logits(s, i, mgpt_logits(all[0]));
    }
    for (size_t j = 0; j < N_BATCH; j++)
        self_free(all[j]);
    return ok;
}

/* expensive: every position is computed more than twice. steps: the size of chunks does not
 * matter. */
static const struct {
    const char *name;
    variant_fn *run;
    int expensive, steps;
} variants[] = {{"stepped", stepped, 0, 1},       {"fed", fed, 0, 0},
                {"tapped", fed_and_tapped, 0, 0}, {"rewound and forked", forked, 0, 1},
                {"synced", synced, 1, 0},         {"in a batch", batched, 1, 1}};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

static const int32_t threads[] = {1, 2}, chunks[] = {0, 1, 5};
enum { N_THREADS = 2, N_CHUNKS = 3, N_TRIED = N_VARIANTS * N_THREADS * N_CHUNKS };

/* Weights times tokens above which the scalar kernels, some 10^9 of these a second, run only the
 * first two variants with one chunk size; above which they are left out; and above which no
 * instruction set runs the expensive variants. */
static const double scalar_slow = 2e8, scalar_out = 2e10, expensive_out = 2e10;

/* ---- trying them ------------------------------------------------------------------------------- */

/* The first logit whose bits are not those of the first variant. */
static int find_difference(const struct self_subject *s, struct self_difference *d)
{
    for (size_t i = 0; i < s->n * s->n_vocab; i++) {
        if (memcmp(&s->logits[i], &s->first[i], sizeof *s->logits) == 0)
            continue;
        d->pos = i / s->n_vocab;
        d->id = i % s->n_vocab;
        d->expected = s->first[i];
        d->found = s->logits[i];
        return 1;
    }
    return 0;
}

static int try_variant(struct self_subject *s, size_t i, int32_t n_threads, int32_t n_chunk,
                       struct self_bits *bits)
{
    struct self_variant variant = {s->isa, variants[i].name, n_threads, n_chunk, 0};
    memset(s->logits, 0, s->n * s->n_vocab * sizeof *s->logits);
    if (!variants[i].run(s, n_threads, n_chunk))
        return s->err->status;
    variant.hash = hash_logits(s);
    if (!arr_push(bits->variants, variant))
        return err_memory(s->err, "a variant", sizeof variant);
    if (arr_len(bits->variants) == 1)
        memcpy(s->first, s->logits, s->n * s->n_vocab * sizeof *s->logits);
    bits->differs = find_difference(s, &bits->difference);
    bits->difference.first = bits->variants[0];
    bits->difference.variant = variant;
    return interrupted() ? err_set(s->err, MGPT_ESTOP, MGPT_NO_OFFSET, "interrupted") : MGPT_OK;
}

static int worth_it(const struct self_subject *s, const struct self_request *q, size_t v,
                    size_t chunk)
{
    int scalar = strcmp(s->isa, "scalar") == 0;
    if (q->full || (!scalar && s->work <= expensive_out))
        return 1;
    if (!scalar)
        return !variants[v].expensive;
    return s->work <= scalar_slow || (s->work <= scalar_out && v < 2 && chunk == 0);
}

/* Instruction sets that are tried; those that the machine lacks count, too. */
static size_t isa_count(const struct self_request *q)
{
    size_t n = 0;
    while (!q->isa && mgpt_isa(n, NULL))
        n++;
    return q->isa ? 1 : n;
}

/* Runs every variant on one instruction set. */
static int try_isa(struct self_subject *s, const struct self_request *q, struct self_bits *bits)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < N_TRIED && !bits->differs; i++) {
        size_t v = i % N_VARIANTS, t = i / N_VARIANTS % N_THREADS, c = i / N_VARIANTS / N_THREADS;
        if (c > 0 && variants[v].steps)
            continue;
        if (worth_it(s, q, v, c))
            status = try_variant(s, v, threads[t], chunks[c], bits);
        else
            bits->n_skipped++;
        if (status != MGPT_OK)
            return status;
        if (q->progress)
            progress_show(q->progress, bits->n_isas * N_TRIED + i + 1, isa_count(q) * N_TRIED);
    }
    bits->n_isas++;
    return status;
}

/* Opens the model on one instruction set and tries it; the first one decides about sizes. */
static int open_isa(struct self_subject *s, const struct self_request *q, const char *isa,
                    struct self_bits *bits)
{
    mgpt_info info;
    mgpt_model *model = q->open(q->user, isa, s->err);
    if (!model) /* without isa, instruction sets that this machine lacks are left out */
        return s->err->status == MGPT_EARG && !q->isa ? MGPT_OK : s->err->status;
    int status = mgpt_get_info(model, &info, s->err);
    s->model = model;
    s->isa = isa;
    s->n_vocab = (size_t)info.n_vocab;
    s->work = (double)info.n_params * (double)s->n;
    if (!s->logits) {
        s->logits = mem_new(s->n * s->n_vocab, sizeof *s->logits);
        s->first = mem_new(s->n * s->n_vocab, sizeof *s->first);
    }
    if (status == MGPT_OK && (!s->logits || !s->first))
        status = err_memory(s->err, "logits", 2 * s->n * s->n_vocab * sizeof *s->logits);
    if (status == MGPT_OK)
        status = try_isa(s, q, bits);
    mgpt_close(model);
    return status;
}

int self_bits(const struct self_request *q, struct self_bits *bits, mgpt_error *err)
{
    mgpt_error local;
    struct self_subject s = {
        .tokens = q->tokens, .n = q->n, .kv_type = q->kv_type, .err = err ? err : &local};
    int status = MGPT_OK;
    *bits = (struct self_bits){0};
    const char *isa = q->isa ? q->isa : mgpt_isa(0, NULL);
    for (size_t i = 1; isa && status == MGPT_OK && !bits->differs; i++) {
        status = open_isa(&s, q, isa, bits);
        isa = q->isa ? NULL : mgpt_isa(i, NULL);
    }
    free(s.logits);
    free(s.first);
    return status;
}
