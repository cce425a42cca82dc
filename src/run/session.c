/* Sessions: create, fork, free, and read their state. feed.c and tokens.c run tokens. */
#include "run/session.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "run/ops.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_MAX = 4096,
    CHUNK_FLOAT = 96,    /* tokens of a default chunk: fastest prefill with float products */
    CHUNK_INTEGER = 192, /* the same with integer products */
    CHUNK_STEP = 12,     /* rows of a kernel's tile; default chunks are multiples of it */
    THREADS_MAX = 256,
};
static const size_t SCRATCH_BYTES = (size_t)16 << 20; /* limit for the default chunk */

/* The buffers of struct scratch: a row for each, from which their sizes, their allocation and their
 * release follow. */
enum buffer_kind {
    ROWS,  /* floats of rows of a chunk; not zeroed: rows that no pass reaches take no memory */
    BYTES, /* not zeroed */
    ZEROED
};

struct buffer {
    size_t field; /* offset in struct scratch */
    enum buffer_kind how;
    size_t n, each;
};
enum { N_BUFFERS = 25 };

#define BUFFER(name) offsetof(struct scratch, name)

static void list_buffers(const mgpt_model *m, size_t n_chunk, size_t work_bytes,
                         struct buffer buffers[N_BUFFERS])
{
    const struct model_shape *d = &m->shape;
    size_t n = n_chunk, f = sizeof(float), E = d->n_embd, screened = m->screen.w != NULL;
    size_t kept = d->n_latent ? d->n_head * d->kept_dim : 0;
    const struct buffer all[N_BUFFERS] = {
        {BUFFER(x), ROWS, n * E, f},
        {BUFFER(h), ROWS, n * E, f},
        {BUFFER(a), ROWS, n * E, f},
        {BUFFER(q), ROWS, n * d->n_q, f},
        {BUFFER(k), ROWS, n * d->n_kv_most, f},
        {BUFFER(v), ROWS, n * d->n_kv_most, f},
        {BUFFER(o), ROWS, n * (d->n_q > d->n_z ? d->n_q : d->n_z), f},
        {BUFFER(latent), ROWS, d->n_latent ? n * d->kept_dim : 0, f},
        {BUFFER(q_latent), ROWS, n * d->n_q_latent, f},
        {BUFFER(q_kept), ROWS, n * kept, f},
        {BUFFER(o_kept), ROWS, n * kept, f},
        {BUFFER(gate), ROWS, n * (d->n_gate > d->n_ff_most ? d->n_gate : d->n_ff_most), f},
        {BUFFER(up), ROWS, n * d->n_ff_most, f},
        {BUFFER(x0), ROWS, m->mixes_x0 ? n * E : 0, f},
        {BUFFER(values), ROWS, m->n_value_embd ? n * (d->n_kv + d->n_head_kv) : 0, f},
        {BUFFER(middle), ROWS, m->backout != 0 ? n * E : 0, f},
        {BUFFER(m), ROWS, d->n_expert ? n * E : 0, f},
        {BUFFER(inputs), ROWS, n * d->n_inputs, f},
        {BUFFER(input), ROWS, n * d->n_inputs, f},
        {BUFFER(qx), BYTES, expert_rows(d, n), m->x_bytes},
        {BUFFER(work), BYTES, work_bytes, 1},
        {BUFFER(cs), ZEROED, n, sizeof(float *)},
        {BUFFER(segments), ZEROED, n, sizeof(struct segment)},
        {BUFFER(screen_x), ZEROED, screened ? kernels_x_bytes(WEIGHT_Q8_0, E) : 0, 1},
        {BUFFER(bounds), ZEROED, screened ? panels_of(d->n_vocab) : 0, f}};
    memcpy(buffers, all, sizeof all);
}

static size_t bytes_per_row(const mgpt_model *m)
{
    const struct model_shape *d = &m->shape;
    struct buffer buffers[N_BUFFERS];
    size_t bytes = m->x_bytes;
    list_buffers(m, 1, 1, buffers);
    for (size_t i = 0; i < N_BUFFERS; i++)
        bytes += buffers[i].how == ROWS ? buffers[i].n * buffers[i].each : 0;
    if (d->n_expert) /* experts.c */
        bytes += (2 * d->n_embd + 2 * d->n_ff_expert + 2 * d->n_expert) * sizeof(float);
    return bytes;
}

static size_t default_chunk(const mgpt_model *m)
{
    size_t fits = SCRATCH_BYTES / bytes_per_row(m);
    size_t best = m->x_bytes ? CHUNK_INTEGER : CHUNK_FLOAT;
    if (fits < CHUNK_STEP)
        return fits < 1 ? 1 : fits;
    return fits < best ? fits - fits % CHUNK_STEP : best;
}

int session_threads_why(const mgpt_model *m, char *why, size_t cap)
{
    if (model_is_small(m)) {
        text_format(why, cap, "a token is too little work to share");
        return 1;
    }
    return pool_cores(why, cap);
}

/* Scratch of a thread, for matmul and for scores of Q8_0 keys, which another session of a batch may
 * have. */
static size_t work_bytes_of(const mgpt_session *s)
{
    size_t matmul = kernels_work_bytes(s->n_chunk);
    size_t scores = kernels_scores_work(BLOCK_ROWS, s->model->shape.kept_dim);
    return scores > matmul ? scores : matmul;
}

static int scratch_init(struct scratch *s, const mgpt_session *session, mgpt_error *err)
{
    const mgpt_model *m = session->model;
    size_t n = session->n_chunk, n_threads = (size_t)session->n_threads;
    struct buffer buffers[N_BUFFERS];
    s->work_bytes = work_bytes_of(session);
    list_buffers(m, n, n_threads * s->work_bytes, buffers);
    for (size_t i = 0; i < N_BUFFERS; i++) {
        const struct buffer *b = &buffers[i];
        void *p = b->how == ZEROED ? mem_new(b->n, b->each) : mem_large(b->n, b->each);
        if (!p)
            return err_memory(err, "scratch", b->n * b->each);
        memcpy((char *)s + b->field, &p, sizeof p);
    }
    s->slots = n_threads > 1 ? matmul_slots_new(m, n_threads) : NULL;
    s->experts = m->shape.n_expert ? experts_new(m, n) : NULL;
    if ((m->shape.n_expert && !s->experts) || (n_threads > 1 && !s->slots))
        return err_memory(err, "scratch", n * bytes_per_row(m));
    return MGPT_OK;
}

static void scratch_free(struct scratch *s, const mgpt_model *m)
{
    struct buffer buffers[N_BUFFERS];
    list_buffers(m, 1, 1, buffers);
    for (size_t i = 0; i < N_BUFFERS; i++) {
        void *p;
        memcpy(&p, (char *)s + buffers[i].field, sizeof p);
        free(p);
    }
    matmul_slots_free(s->slots);
    experts_free(s->experts);
    arr_free(s->scores);
    arr_free(s->logits);
}

/* Checks the parameters and fills the session's settings. */
static int session_settings(mgpt_session *s, const mgpt_session_params *p, mgpt_error *err)
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
    if (p->kv_type < 0 || p->kv_type > KV_N_TYPES)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "KV cache of type %d, allowed are 0 to %d",
                       p->kv_type, KV_N_TYPES);
    s->kv_type = p->kv_type ? (enum kv_type)(p->kv_type - MGPT_KV_F32) : model_kv_type(m);
    s->n_ctx = p->n_ctx ? (size_t)p->n_ctx : m->shape.n_ctx;
    s->threads_asked = p->n_threads > 0;
    s->n_threads = p->n_threads ? p->n_threads : m->n_cores;
    s->n_chunk = p->n_chunk ? (size_t)p->n_chunk : default_chunk(m);
    return MGPT_OK;
}

static int session_build(mgpt_session *s, mgpt_error *err)
{
    const struct model_shape *d = &s->model->shape;
    size_t n_kv_heads = d->n_layer ? d->n_kept : 0;
    if (kv_init(&s->kv, d->n_layer, n_kv_heads, d->kept_dim, s->kv_type, s->model->kept, err) < 0)
        return MGPT_EMEM;
    size_t room = panels_of(d->n_vocab) * PANEL; /* the fused path writes whole panels */
    s->logits = mem_new(room, sizeof *s->logits);
    s->spare = mem_new(room, sizeof *s->spare);
    if (!s->logits || !s->spare)
        return err_memory(err, "logits", 2 * room * sizeof *s->logits);
    return MGPT_OK;
}

int session_ready(mgpt_session *s, mgpt_error *err)
{
    if (s->ready)
        return MGPT_OK;
    int failed = scratch_init(&s->scratch, s, err) < 0;
    if (!failed && s->n_threads > 1 && !(s->pool = pool_new(s->n_threads, err))) {
        failed = s->threads_asked;
        s->n_threads = failed ? s->n_threads : 1;
    }
    if (failed) {
        scratch_free(&s->scratch, s->model);
        s->scratch = (struct scratch){0};
        return MGPT_EMEM;
    }
    s->ready = 1;
    return MGPT_OK;
}

int session_free_for(const mgpt_session *s, const char *what, mgpt_error *err)
{
    if (!s->in_use)
        return MGPT_OK;
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                   "%s: called by a tap while the session is running", what);
}

/* A session without scratch and threads (session_ready). NULL on failure. */
static mgpt_session *session_make(const mgpt_model *m, const mgpt_session_params *params,
                                  mgpt_error *err)
{
    mgpt_session *s = mem_new(1, sizeof *s);
    if (!s) {
        err_memory(err, "a session", sizeof *s);
        return NULL;
    }
    s->model = m;
    if (session_settings(s, params, err) < 0 || session_build(s, err) < 0) {
        mgpt_session_free(s);
        return NULL;
    }
    return s;
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
    mgpt_session *s = session_make(m, params ? params : &defaults, err);
    if (s && session_ready(s, err) < 0) {
        mgpt_session_free(s);
        s = NULL;
    }
    return s;
}

void mgpt_session_free(mgpt_session *s)
{
    if (!s)
        return;
    pool_free(s->pool);
    kv_free(&s->kv);
    scratch_free(&s->scratch, s->model);
    arr_free(s->tokens);
    arr_free(s->angles);
    free(s->logits);
    free(s->spare);
    free(s);
}

static int copy_state(mgpt_session *to, const mgpt_session *from, mgpt_error *err)
{
    size_t n = arr_len(from->tokens);
    if (!arr_reserve(to->tokens, n + 1))
        return err_memory(err, "tokens", n * sizeof *to->tokens);
    if (kv_fork(&to->kv, &from->kv, n, !from->model->fused, err) < 0)
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
    mgpt_session_params params = {.n_ctx = (int32_t)s->n_ctx,
                                  .n_threads = s->n_threads,
                                  .n_chunk = (int32_t)s->n_chunk,
                                  .kv_type = MGPT_KV_F32 + (int32_t)s->kv_type};
    mgpt_session *copy = session_make(s->model, &params, err);
    if (copy)
        copy->threads_asked = s->threads_asked;
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
    const struct layer *l =
        layer >= 0 && (size_t)layer < kv->n_layer ? &s->model->layers[layer] : NULL;
    const struct model_shape *shape = l ? l->shape : &s->model->shape;
    size_t held = arr_len(s->tokens);
    if (!l || head < 0 || (size_t)head >= shape->n_head_kv)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "mgpt_read_kv: layer %d head %d, the model has %zu layers of %zu KV heads",
                       layer, head, kv->n_layer, shape->n_head_kv);
    if (model_keeps_rows(s->model, (size_t)layer))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "mgpt_read_kv: layer %d is a short convolution, without keys and values",
                       layer);
    if (pos > held || n > held - pos)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "mgpt_read_kv: positions %zu to %zu, the session holds %zu", pos, pos + n,
                       held);
    if (l->heads)
        return latent_read(s, (struct kv_part){(size_t)layer, (size_t)head, pos, n}, k, v, err);
    kv_get(kv, (struct kv_part){l->kv_from, (size_t)head, pos, n}, s->model->qk_order, k, v);
    return MGPT_OK;
}

int mgpt_unembed(mgpt_session *s, const float *residual, float *logits, mgpt_error *err)
{
    if (!s || !residual || !logits)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_unembed: NULL argument");
    if (session_free_for(s, "mgpt_unembed", err) < 0)
        return MGPT_EARG;
    if (session_ready(s, err) < 0)
        return MGPT_EMEM;
    const mgpt_model *m = s->model;
    for (size_t last = m->shape.n_layer; !model_has_stage(m, last);) {
        int status = model_await(m, last, err);
        if (status < 0)
            return status;
    }
    pass p = {.model = m, .kernels = &m->kernels, .pool = s->pool, .s = &s->scratch};
    mat h = {s->scratch.h, 1, m->shape.n_embd};
    memcpy(h.at, residual, h.cols * sizeof *h.at);
    p.logits = (mat){logits, 1, m->shape.n_vocab};
    matmul(&p, p.logits, &m->head, head_input(&p, norm(&p, h, &m->final_norm, h)));
    scale_and_cap(&p);
    return MGPT_OK;
}
