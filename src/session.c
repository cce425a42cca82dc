/* Floor 5. Sessions: making, copying and freeing them, and what can be read out of them. Running tokens
 * is in step.c. */
#include "session.h"

#include "ck.h"
#include "error.h"
#include "mem.h"
#include "verbs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNK_MAX = 4096,
    CHUNK_DEFAULT = 48,
    THREADS_MAX = 256,
    THREADS_DEFAULT_MAX = 16,
};
static const size_t SCRATCH_BYTES = (size_t)8 << 20;        /* that the default chunk may cost */
static const uint64_t ONE_THREAD_BELOW = (uint64_t)1 << 20; /* bytes per token: they fit in L2 */

static size_t floats_per_row(const mgpt_model *m)
{
    const struct shape *d = &m->shape;
    return (m->blends ? 4 : 3) * d->n_embd + 2 * d->n_q + 2 * d->n_kv + 2 * d->n_ff + m->n_cs;
}

static size_t default_chunk(const mgpt_model *m)
{
    size_t fits = SCRATCH_BYTES / sizeof(float) / floats_per_row(m);
    if (fits < 1)
        return 1;
    return fits < CHUNK_DEFAULT ? fits : CHUNK_DEFAULT;
}

static int default_threads(const mgpt_model *m)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (m->packed_bytes < ONE_THREAD_BELOW || cores < 1)
        return 1;
    return cores < THREADS_DEFAULT_MAX ? (int)cores : THREADS_DEFAULT_MAX;
}

static int scratch_init(struct scratch *s, const mgpt_model *m, size_t n, mgpt_error *err)
{
    const struct shape *d = &m->shape;
    const struct {
        float **to;
        size_t width;
    } rows[] = {{&s->x, d->n_embd},
                {&s->h, d->n_embd},
                {&s->a, d->n_embd},
                {&s->q, d->n_q},
                {&s->k, d->n_kv},
                {&s->v, d->n_kv},
                {&s->o, d->n_q},
                {&s->gate, d->n_ff},
                {&s->up, d->n_ff},
                {&s->cs, m->n_cs},
                {&s->x0, m->blends ? d->n_embd : 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(*rows[i].to = mem_new(n * rows[i].width, sizeof(float))))
            return err_memory(err, "scratch", n * rows[i].width * sizeof(float));
    s->segments = mem_new(n, sizeof *s->segments);
    return s->segments ? MGPT_OK : err_memory(err, "scratch", n * sizeof *s->segments);
}

static void scratch_free(struct scratch *s)
{
    free(s->x);
    free(s->h);
    free(s->a);
    free(s->x0);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->o);
    free(s->gate);
    free(s->up);
    free(s->cs);
    free(s->segments);
    arr_free(s->scores);
    arr_free(s->logits);
}

/* Fills the settings, each checked. */
static int settings(mgpt_session *s, const mgpt_session_params *p, mgpt_error *err)
{
    const mgpt_model *m = s->model;
    if (p->n_ctx < 0 || (size_t)p->n_ctx > m->shape.n_ctx)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "context of %d, the model allows 1 to %zu",
                       p->n_ctx, m->shape.n_ctx);
    if (p->n_threads < 0 || p->n_threads > THREADS_MAX)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%d threads, allowed are 1 to %d",
                       p->n_threads, THREADS_MAX);
    if (p->n_chunk < 0 || p->n_chunk > CHUNK_MAX)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "chunks of %d, allowed are 1 to %d",
                       p->n_chunk, CHUNK_MAX);
    s->n_ctx = p->n_ctx ? (size_t)p->n_ctx : m->shape.n_ctx;
    s->n_threads = p->n_threads ? p->n_threads : default_threads(m);
    s->n_chunk = p->n_chunk ? (size_t)p->n_chunk : default_chunk(m);
    s->n_chunk = s->n_chunk < s->n_ctx ? s->n_chunk : s->n_ctx;
    return MGPT_OK;
}

static int build(mgpt_session *s, mgpt_error *err)
{
    const struct shape *d = &s->model->shape;
    size_t n_kv_heads = d->n_layer ? d->n_head_kv : 0;
    if (kv_init(&s->kv, d->n_layer, n_kv_heads, d->head_dim, err) < 0 ||
        scratch_init(&s->scratch, s->model, s->n_chunk, err) < 0)
        return MGPT_EMEM;
    s->logits = mem_new(d->n_vocab, sizeof *s->logits);
    s->spare = mem_new(d->n_vocab, sizeof *s->spare);
    if (!s->logits || !s->spare)
        return err_memory(err, "logits", 2 * d->n_vocab * sizeof *s->logits);
    if (s->n_threads > 1 && !(s->pool = pool_new(s->n_threads, err)))
        return MGPT_EMEM;
    return MGPT_OK;
}

mgpt_session *mgpt_session_new(const mgpt_model *m, const mgpt_session_params *params,
                               mgpt_error *err)
{
    static const mgpt_session_params defaults;
    if (!m || !m->arch) {
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                "mgpt_session_new: no model, or one opened with vocab_only");
        return NULL;
    }
    mgpt_session *s = mem_new(1, sizeof *s);
    if (!s) {
        err_memory(err, "a session", sizeof *s);
        return NULL;
    }
    s->model = m;
    if (settings(s, params ? params : &defaults, err) < 0 || build(s, err) < 0) {
        mgpt_session_free(s);
        return NULL;
    }
    return s;
}

void mgpt_session_free(mgpt_session *s)
{
    if (!s)
        return;
    pool_free(s->pool);
    kv_free(&s->kv);
    scratch_free(&s->scratch);
    arr_free(s->tokens);
    free(s->logits);
    free(s->spare);
    free(s);
}

static int copy_state(mgpt_session *to, const mgpt_session *from, mgpt_error *err)
{
    size_t n = arr_len(from->tokens);
    if (!arr_reserve(to->tokens, n + 1))
        return err_memory(err, "tokens", n * sizeof *to->tokens);
    if (kv_copy(&to->kv, &from->kv, n, err) < 0)
        return MGPT_EMEM;
    if (n)
        memcpy(to->tokens, from->tokens, n * sizeof *to->tokens);
    arr_set_len(to->tokens, n);
    to->has_logits = from->has_logits;
    memcpy(to->logits, from->logits, from->model->shape.n_vocab * sizeof *to->logits);
    return MGPT_OK;
}

mgpt_session *mgpt_fork(const mgpt_session *s, mgpt_error *err)
{
    if (!s) {
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_fork: session is NULL");
        return NULL;
    }
    mgpt_session_params params = {(int32_t)s->n_ctx, s->n_threads, (int32_t)s->n_chunk};
    mgpt_session *copy = mgpt_session_new(s->model, &params, err);
    if (copy && copy_state(copy, s, err) < 0) {
        mgpt_session_free(copy);
        copy = NULL;
    }
    return copy;
}

size_t mgpt_pos(const mgpt_session *s)
{
    return s ? arr_len(s->tokens) : 0;
}

const int32_t *mgpt_tokens(const mgpt_session *s)
{
    return s ? s->tokens : NULL;
}

const float *mgpt_logits(const mgpt_session *s)
{
    return s && s->has_logits ? s->logits : NULL;
}

size_t mgpt_n_ctx(const mgpt_session *s)
{
    return s ? s->n_ctx : 0;
}

int mgpt_n_threads(const mgpt_session *s)
{
    return s ? s->n_threads : 0;
}

const mgpt_model *mgpt_session_model(const mgpt_session *s)
{
    return s ? s->model : NULL;
}

int mgpt_read_kv(const mgpt_session *s, int32_t layer, int32_t head, size_t pos, size_t n, float *k,
                 float *v, mgpt_error *err)
{
    if (!s)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_read_kv: session is NULL");
    const struct kv *kv = &s->kv;
    size_t held = arr_len(s->tokens), d = kv->head_dim;
    if (layer < 0 || (size_t)layer >= kv->n_layer || head < 0 || (size_t)head >= kv->n_head_kv)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "mgpt_read_kv: layer %d head %d, the model has %zu layers of %zu KV heads",
                       layer, head, kv->n_layer, kv->n_head_kv);
    if (pos > held || n > held - pos)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "mgpt_read_kv: positions %zu to %zu, the session holds %zu", pos, pos + n,
                       held);
    const float *keys = kv_keys(kv, (size_t)layer, (size_t)head);
    const float *values = kv_values(kv, (size_t)layer, (size_t)head);
    for (size_t i = 0; k && i < n; i++) {
        const float *lane = keys + (pos + i) / PANEL * PANEL * d + (pos + i) % PANEL;
        for (size_t j = 0; j < d; j++)
            k[i * d + j] = lane[j * PANEL];
    }
    if (v && n)
        memcpy(v, values + pos * d, n * d * sizeof *v);
    return MGPT_OK;
}

int mgpt_unembed(mgpt_session *s, const float *residual, float *logits, mgpt_error *err)
{
    if (!s || !residual || !logits)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_unembed: NULL argument");
    const mgpt_model *m = s->model;
    struct run r = {.model = m, .kernels = &m->kernels, .pool = s->pool, .s = &s->scratch};
    normalize(&r, &m->final_norm, s->scratch.h, residual, 1);
    linear(&r, &m->head, logits, s->scratch.h, 1);
    r.logits = logits;
    r.n_out = 1;
    softcap(&r);
    return MGPT_OK;
}
