/* Short convolutions (LFM2, Liquid AI 2025) in place of attention. For each channel c
 *
 *     o_i[c] = C_i[c] sum_j w[c][j] (B x)_{i-L+1+j}[c]     j = 0 .. L - 1 ascending, from +0
 *
 * with L = n_conv weights per channel; rows before position 0 are left out. C, B and x are p->q, k
 * and v; the cache keeps B x of every token (kv.h), so that forks, rewinds and batches find the rows
 * that they need. Each product and each sum is rounded: no fma.
 */
#include "run/ops.h"

/* One of the two operations on row i of a segment. */
typedef void row_fn(const pass *p, const struct segment *seg, size_t i);

struct convolution_job {
    const pass *p;
    row_fn *fn;
};

static void append_row(const pass *p, const struct segment *seg, size_t i)
{
    size_t E = p->k.cols, at = (seg->row + i) * E;
    float *row = kv_row(&seg->session->kv, p->il, seg->pos + i);
    for (size_t c = 0; c < E; c++)
        row[c] = p->k.at[at + c] * p->v.at[at + c];
}

static void convolve_row(const pass *p, const struct segment *seg, size_t i)
{
    size_t E = p->o.cols, L = p->model->shape.n_conv, at = (seg->row + i) * E;
    size_t n = min_size(seg->pos + i + 1, L), first = seg->pos + i + 1 - n;
    const float *rows[MODEL_CONV_MOST], *w = p->model->layers[p->il].conv + L - n;
    for (size_t j = 0; j < n; j++)
        rows[j] = kv_row(&seg->session->kv, p->il, first + j);
    for (size_t c = 0; c < E; c++, w += L) {
        float sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += w[j] * rows[j][c];
        p->o.at[at + c] = p->q.at[at + c] * sum;
    }
}

static void convolution_part(void *ctx, int worker, int n_workers)
{
    const struct convolution_job *job = ctx;
    const pass *p = job->p;
    size_t row, last;
    pool_split(p->n, worker, n_workers, &row, &last);
    for (const struct segment *seg = p->segments; row < last; seg++)
        for (; row < last && row < seg->row + seg->n; row++)
            job->fn(p, seg, row - seg->row);
}

static void run_rows(pass *p, row_fn *fn)
{
    struct convolution_job job = {p, fn};
    pool_run_sized(p->n > 1 ? p->pool : NULL, 4 * p->n * p->o.cols * sizeof(float),
                   convolution_part, &job);
}

void convolution_append(pass *p)
{
    run_rows(p, append_row);
}

void convolve(pass *p)
{
    run_rows(p, convolve_row);
}
