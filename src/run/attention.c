/* Softmax attention over the KV cache (Vaswani et al. 2017, eq. 1):
 *
 *     s_ij = q_i . k_j / sqrt(d)           score()            for the keys j that query i sees
 *     a_ij = exp s_ij / sum_j exp s_ij     weigh_keys(), in the sum also the head's sink
 *     o_i  = sum_j a_ij v_j                mix_rows()
 *
 * There is no causal mask in memory. The loops over j end at the query's own position (and start at pos - window).
 * Work is split into blocks of up to BLOCK_ROWS rows; a row is one query of one head. A block's
 * rows share a KV head (grouped-query attention, Ainslie et al. 2023), so each key and value is read once per block. Only
 * the scores of the block, [rows][keys], are stored, never the full [T][T] matrix. A row's result
 * does not depend on its block. In a batch of forks a block has a query of each of several
 * sessions, and the keys and values of their common prefix (kv.h) are read once for all.
 *
 * The session's threads share the blocks. Some passes have too few blocks for that (one query, few
 * KV heads), and taps need all heads of a query at once. Those compute one equation at a time for a
 * few queries with all heads, split evenly: scores by panels of keys, softmax by rows, mix by columns.
 */
#include "run/ops.h"
#include "run/visible.h"

#include <math.h>
#include <string.h>

enum {
    WORK_WORTH_SPLITTING = 1 << 16, /* multiply-adds; fewer run on one thread */
    MIX_ROWS = 6,                   /* rows of a block that one call of the kernel mixes */
    MIX_KEYS = 128,                 /* keys per call: their values stay in the L1 cache */
    UNITS_ENOUGH = 4                /* blocks per thread; with more, a remainder costs little */
};

/* rows[r] = row r of the block in q or o (`base`), whose heads are `each` wide. */
static void rows_of(const struct attend_job *job, const struct query_block *b, float *base,
                    size_t each, float **rows)
{
    size_t row = job->shape->n_head * each;
    float *at = base + (b->seg->row + b->i) * row + b->head * each;
    for (size_t i = 0; i < b->n_queries; i++)
        for (size_t h = 0; h < b->n_heads; h++)
            *rows++ = at + i * row + h * each;
}

/* scores = scale q . k for n queries of the block and key panels [p0, p1) that all of them have. */
static void score_queries(const struct attend_job *job, const struct query_block *b, size_t query,
                          size_t n, size_t p0, size_t p1)
{
    const pass *p = job->p;
    const struct kv *kv = &segment_of(b, query)->session->kv;
    size_t row = query * b->n_heads;
    float *q[BLOCK_ROWS];
    rows_of(job, b, job->q, job->shape->kept_dim, q);
    for (size_t panel = p0, next; panel < p1; panel = next) {
        struct kv_run run = kv_run_at(kv, job->layer, b->kv_head, panel * PANEL);
        next = min_size(p1, run.end / PANEL);
        p->kernels->scores[kv->type](
            &(struct scores){.s = b->scores + row * p->s->score_stride + run.first,
                             .lds = p->s->score_stride,
                             .keys = run.keys,
                             .q = (const float *const *)q + row,
                             .n = n * b->n_heads,
                             .d = job->shape->kept_dim,
                             .by = p->model->attn_scale,
                             .p0 = panel - run.first / PANEL,
                             .p1 = next - run.first / PANEL,
                             .kernels = p->kernels,
                             .work = b->work,
                             .far = p->far});
    }
}

/* Scores of key panels [p0, p1) with ALiBi and with a soft cap in models that have one. */
static void adjust(const struct attend_job *job, const struct query_block *b, size_t p0, size_t p1)
{
    const pass *p = job->p;
    int has = p->model->attn_softcap > 0 || p->model->alibi_slopes;
    for (size_t row = 0; has && row < b->n_queries * b->n_heads; row++) {
        struct range s = visible_to(job, b, row / b->n_heads);
        size_t first = max_size(s.first, p0 * PANEL), end = min_size(s.end, p1 * PANEL);
        if (first < end)
            adjust_row(p, b->scores + row * p->s->score_stride + first, end - first,
                       b->head + row % b->n_heads, s.end - 1 - first);
    }
}

/* Scores all queries of the block against panels [p0, p1). Nothing reads scores outside the visible
 * range. */
static void score(const struct attend_job *job, const struct query_block *b, size_t p0, size_t p1)
{
    size_t same = max_size(min_size(p1, n_common(b) / PANEL), p0);
    score_queries(job, b, 0, b->n_queries, p0, same);
    for (size_t i = 0; same < p1 && i < b->n_queries; i++)
        score_queries(job, b, i, 1, same, min_size(p1, panels_of(visible_to(job, b, i).end)));
    adjust(job, b, p0, p1);
}

/* o += weights . v for n rows of the block from `row` and some keys and columns. */
static void mix_keys(const struct attend_job *job, const struct query_block *b, float *const *o,
                     size_t row, size_t n, struct range keys, struct range columns)
{
    const pass *p = job->p;
    const struct kv *kv = &segment_of(b, row / b->n_heads)->session->kv;
    size_t lda = p->s->score_stride;
    for (size_t t = keys.first, next; t < keys.end; t = next) {
        struct kv_run run = kv_run_at(kv, job->layer, b->kv_head, t);
        next = min_size(keys.end, run.end);
        p->kernels->mix[kv->type](&(struct mix){.o = o + row,
                                                .a = b->scores + row * lda + t,
                                                .lda = lda,
                                                .values = run.values,
                                                .ldv = job->shape->kept_value,
                                                .n = n,
                                                .n_keys = next - t,
                                                .d = columns.end - columns.first,
                                                .t0 = t - run.first,
                                                .j0 = columns.first,
                                                .far = p->far});
    }
}

/* Mixes values for queries [i0, i1) of the block and the keys that each sees, in key order: keys before
 * those visible to all, query by query; keys visible to all; keys after them. */
static void mix_some(const struct attend_job *job, const struct query_block *b, float *const *o,
                     size_t i0, size_t i1, struct range keys, struct range columns)
{
    size_t H = b->n_heads;
    struct range all = visible_to_all(job, b, i0, i1);
    all = (struct range){max_size(all.first, keys.first), min_size(all.end, keys.end)};
    if (all.first >= all.end)
        all.first = all.end = keys.end;
    for (size_t i = i0; i < i1; i++) {
        struct range s = visible_to(job, b, i);
        struct range before = {max_size(s.first, keys.first), min_size(s.end, all.first)};
        mix_keys(job, b, o, i * H, H, before, columns);
    }
    mix_keys(job, b, o, i0 * H, (i1 - i0) * H, all, columns);
    for (size_t i = i0; i < i1; i++) {
        struct range s = visible_to(job, b, i);
        struct range after = {all.end, min_size(s.end, keys.end)};
        mix_keys(job, b, o, i * H, H, after, columns);
    }
}

/* o = weights . v for some columns of the values and of o. */
static void mix_rows(const struct attend_job *job, const struct query_block *b,
                     struct range columns)
{
    float *o[BLOCK_ROWS];
    size_t rows = b->n_queries * b->n_heads, queries = max_size(MIX_ROWS / b->n_heads, 1);
    struct range any = visible_to_any(job, b, 0, b->n_queries);
    rows_of(job, b, job->o + columns.first, job->shape->kept_value, o);
    for (size_t i = 0; i < rows; i++)
        memset(o[i], 0, (columns.end - columns.first) * sizeof **o);
    for (size_t t = any.first; t < any.end; t += MIX_KEYS)
        for (size_t i = 0; i < b->n_queries; i += queries)
            mix_some(job, b, o, i, min_size(i + queries, b->n_queries),
                     (struct range){t, min_size(t + MIX_KEYS, any.end)}, columns);
}

/* ---- blocks ---- */

static void attend_block(const struct attend_job *job, struct query_block *b)
{
    const pass *p = job->p;
    struct range any = visible_to_any(job, b, 0, b->n_queries);
    score(job, b, any.first / PANEL, panels_of(any.end));
    for (size_t i = 0; i < b->n_queries; i++) {
        struct range s = visible_to(job, b, i);
        for (size_t h = 0; h < b->n_heads; h++)
            weigh_keys(p, b->head + h,
                       b->scores + (i * b->n_heads + h) * p->s->score_stride + s.first,
                       s.end - s.first);
    }
    mix_rows(job, b, (struct range){0, job->columns});
}

/* A group with more heads than BLOCK_ROWS is split into several blocks. */
static void attend_heads(const struct attend_job *job, struct query_block b)
{
    size_t end = (b.kv_head + 1) * job->group;
    for (b.head = b.kv_head * job->group; b.head < end; b.head += b.n_heads) {
        b.n_heads = min_size(end - b.head, BLOCK_ROWS);
        attend_block(job, &b);
    }
}

/* How many segments from s on go into one block: forks with a common prefix, one query each. */
static size_t segments_together(const struct attend_job *job, size_t s)
{
    const struct segment *seg = &job->p->segments[s];
    const struct kv *kv = &seg->session->kv;
    size_t n = 1, most = min_size(job->block_queries, job->p->n_segments - s);
    while (kv->prefix && seg->n == 1 && n < most && seg[n].n == 1 &&
           seg[n].session->kv.prefix == kv->prefix && seg[n].session->kv.n_prefix == kv->n_prefix)
        n++;
    return n;
}

/* Blocks [first, last), in order of segment, KV head and query. */
static void attend_blocks(void *ctx, int worker, size_t first, size_t last)
{
    const struct attend_job *job = ctx;
    const pass *p = job->p;
    size_t n_kept = job->shape->n_kept, number = 0;
    struct query_block b = {0};
    b.scores = p->s->scores + (size_t)worker * BLOCK_ROWS * p->s->score_stride;
    b.work = p->s->work + (size_t)worker * p->s->work_bytes;
    for (size_t s = 0, together; s < p->n_segments; s += together) {
        together = segments_together(job, s);
        b.seg = &p->segments[s];
        b.is_of_several = together > 1;
        size_t n = b.is_of_several ? together : b.seg->n;
        for (b.kv_head = 0; b.kv_head < n_kept; b.kv_head++)
            for (b.i = 0; b.i < n; b.i += job->block_queries, number++)
                if (number >= first && number < last && !session_stop_asked(p->lead)) {
                    b.n_queries = min_size(job->block_queries, n - b.i);
                    attend_heads(job, b);
                }
    }
}

/* ---- a few queries in three steps ---- */

/* The scores of query job->i + i of head h are at scores + (h * n_queries + i) * score_stride. The
 * heads of one query have a constant stride, as mgpt_value requires. So a block is either one query
 * of several heads or several queries of one head. */
static struct query_block block_of(const struct attend_job *job, size_t head)
{
    const struct scratch *s = job->p->s;
    size_t end = (head / job->group + 1) * job->group;
    return (struct query_block){.seg = job->seg,
                                .kv_head = head / job->group,
                                .head = head,
                                .n_heads =
                                    job->n_queries > 1 ? 1 : min_size(end - head, BLOCK_ROWS),
                                .i = job->i,
                                .n_queries = job->n_queries,
                                .scores = s->scores + head * job->n_queries * s->score_stride};
}

typedef void step_fn(const struct attend_job *job, const struct query_block *b, size_t from,
                     size_t to);

/* Splits `each` units of work per KV head evenly over the workers. fn does units of one KV head. */
static void spread(const struct attend_job *job, size_t each, int worker, int n_workers,
                   step_fn *fn)
{
    size_t first, last;
    pool_split(job->shape->n_kept * each, worker, n_workers, &first, &last);
    for (size_t u = first, next; u < last; u = next) {
        size_t g = u / each;
        next = min_size((g + 1) * each, last);
        for (size_t head = g * job->group; head < (g + 1) * job->group;) {
            struct query_block b = block_of(job, head);
            b.work = job->p->s->work + (size_t)worker * job->p->s->work_bytes;
            fn(job, &b, u - g * each, next - g * each);
            head += b.n_heads;
        }
    }
}

static void score_panels(const struct attend_job *job, const struct query_block *b, size_t from,
                         size_t to)
{
    size_t p0 = visible_of(job, b->seg, b->i).first / PANEL;
    score(job, b, p0 + from, p0 + to);
}

static void score_part(void *ctx, int worker, int n_workers)
{
    const struct attend_job *job = ctx;
    size_t first = visible_of(job, job->seg, job->i).first;
    size_t end = visible_of(job, job->seg, job->i + job->n_queries - 1).end;
    spread(job, panels_of(end) - first / PANEL, worker, n_workers, score_panels);
}

static void softmax_part(void *ctx, int worker, int n_workers)
{
    const struct attend_job *job = ctx;
    const pass *p = job->p;
    size_t row, end;
    pool_split(job->shape->n_head * job->n_queries, worker, n_workers, &row, &end);
    for (; row < end; row++) {
        struct range s = visible_of(job, job->seg, job->i + row % job->n_queries);
        weigh_keys(p, row / job->n_queries, p->s->scores + row * p->s->score_stride + s.first,
                   s.end - s.first);
    }
}

static void mix_columns(const struct attend_job *job, const struct query_block *b, size_t from,
                        size_t to)
{
    size_t end = min_size(to * PANEL, job->columns);
    mix_rows(job, b, (struct range){from * PANEL, end});
}

static void mix_part(void *ctx, int worker, int n_workers)
{
    const struct attend_job *job = ctx;
    spread(job, panels_of(job->columns), worker, n_workers, mix_columns);
}

/* Fires the point for one query at a time. Keys before the visible range show as `hidden`. */
static void show_heads(const struct attend_job *job, mgpt_point point, float hidden)
{
    pass *p = job->p;
    size_t stride = p->s->score_stride, apart = job->n_queries * stride;
    for (size_t i = 0; i < job->n_queries && TAPPED(p, point); i++) {
        float *rows = p->s->scores + i * stride;
        size_t first = visible_of(job, job->seg, job->i + i).first;
        for (size_t h = 0; h < job->shape->n_head; h++)
            for (size_t t = 0; t < first; t++)
                rows[h * apart + t] = hidden;
        tap_heads(p, job->seg, point, p->il, job->seg->pos + job->i + i, rows, apart);
    }
}

/* Takes up to BLOCK_ROWS queries at a time; the score rows of the scratch are another limit. */
static void attend_in_steps(struct attend_job *job, struct pool *pool)
{
    const pass *p = job->p;
    size_t room = max_size(p->s->score_rows / job->shape->n_head, 1);
    for (size_t s = 0; s < p->n_segments; s++) {
        job->seg = &p->segments[s];
        for (job->i = 0; job->i < job->seg->n && !session_stop_asked(p->lead);
             job->i += job->n_queries) {
            job->n_queries = min_size(min_size(room, BLOCK_ROWS), job->seg->n - job->i);
            pool_run(pool, score_part, job);
            show_heads(job, MGPT_SCORES, -INFINITY);
            pool_run(pool, softmax_part, job);
            show_heads(job, MGPT_WEIGHTS, 0);
            pool_run(pool, mix_part, job);
        }
    }
}

/* ---- the operation ---- */

/* Returns the multiply-adds of a pass (upper bound) and sets *n_blocks. */
static size_t count_work(const struct attend_job *job, size_t *n_blocks)
{
    const pass *p = job->p;
    const struct model_shape *d = job->shape;
    size_t work = 0;
    *n_blocks = 0;
    for (size_t s = 0; s < p->n_segments; s++) {
        const struct segment *seg = &p->segments[s];
        work += d->n_head * d->kept_dim * seg->n * (seg->pos + seg->n) * 2;
    }
    for (size_t s = 0; s < p->n_segments; s += segments_together(job, s))
        *n_blocks += d->n_kept * ((p->segments[s].n + job->block_queries - 1) / job->block_queries);
    return work;
}

void attend(pass *p)
{
    const struct layer *l = &p->model->layers[p->il];
    const struct model_shape *d = l->shape;
    struct attend_job job = {.p = p, .layer = l->kv_from, .shape = d, .window = l->window};
    size_t n_blocks;
    if (l->conv) {
        convolve(p);
        return;
    }
    if (l->heads)
        latent_queries(p, l);
    job.q = l->heads ? p->s->q_kept : p->s->q;
    job.o = l->heads ? p->s->o_kept : p->s->o;
    job.columns = l->heads ? d->n_latent : d->value_dim;
    job.group = d->n_head / d->n_kept;
    job.block_queries = max_size(BLOCK_ROWS / job.group, 1);
    struct pool *pool = count_work(&job, &n_blocks) >= WORK_WORTH_SPLITTING ? p->pool : NULL;
    size_t workers = (size_t)pool_size(pool);
    int watched = (p->points & ATTENTION_POINTS) != 0;
    if (watched || (n_blocks % workers != 0 && n_blocks < UNITS_ENOUGH * workers))
        attend_in_steps(&job, pool);
    else
        pool_deal(pool, &(struct pool_units){.bytes = POOL_WORTH_WAKING,
                                             .n = n_blocks,
                                             .least = 1,
                                             .fn = attend_blocks,
                                             .ctx = &job});
    if (l->heads)
        latent_outputs(p, l);
}
