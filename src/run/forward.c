/* page.inc compiled with the operations of ops.h: any model, any pass, with taps. Also which rows of
 * a pass run: all in the embedding; in a layer those that have begun. */
#include "run/ops.h"

#include <string.h>

/* Waits until the weights of a stage are packed. Returns 0 and stops the pass if packing failed or
 * a session is to stop. */
static int has_stage(pass *p, size_t stage)
{
    while (!p->stopped && !model_has_stage(p->model, stage))
        p->stopped = pass_stop_asked(p) || model_await(p->model, stage, NULL) < 0;
    return !p->stopped;
}

/* 1 if the pass is to end before layer il, or before more logits after the last one. */
static int is_stopped(pass *p)
{
    p->stopped = p->stopped || pass_stop_asked(p);
    return !has_stage(p, min_size(p->il + 1, p->n_layer));
}

typedef struct layer layer;
#define PAGE static
#define add add_rows
#define recall(p) 0
#define stopped is_stopped
#define norm_residual(p, n) norm(p, (p)->x, n, (p)->x)
#define parallel(p) ((p)->model->branches == BRANCHES_PARALLEL)
#include "page/page.inc"

/* Rows [0, n) of the scratch are the pass from now on. */
static void set_rows(pass *p, size_t n)
{
    const struct layer *l = p->il < p->n_layer ? &p->model->layers[p->il] : NULL;
    const struct model_shape *d = l ? l->shape : &p->model->shape;
    const struct scratch *s = p->s;
    p->n = n;
    p->x = (mat){s->x, n, d->n_embd};
    p->h = (mat){s->h, n, d->n_embd};
    p->m = (mat){d->n_expert ? s->m : s->h, n, d->n_embd};
    p->a = (mat){s->a, n, d->n_embd};
    p->q = (mat){s->q, n, d->n_q};
    int conv = l && l->conv, reads = l && l->kv_from != p->il; /* those of another layer */
    p->k = (mat){s->k, n, conv ? d->n_q : reads ? 0 : d->n_kv};
    p->v = (mat){s->v, n, conv ? d->n_q : reads ? 0 : d->n_v};
    p->o = (mat){s->o, n, conv ? d->n_q : d->n_z};
}

void join_rows(pass *p)
{
    size_t i = 0, n = 0, E = p->x.cols;
    for (; i < p->n_all && p->segments[i].from <= p->il + 1; i++) {
        const struct segment *seg = &p->segments[i];
        n += seg->n;
        if (seg->begin == p->il + 1) {
            memcpy(p->x.at + seg->row * E, seg->resid, seg->n * E * sizeof *seg->resid);
            join_inputs(p, seg);
        }
    }
    p->n_segments = i;
    set_rows(p, n);
}

static void keep_last(mat m, size_t to, const struct segment *seg)
{
    size_t from = seg->row + seg->n - seg->n_last;
    if (from != to)
        memmove(m.at + to * m.cols, m.at + from * m.cols, seg->n_last * m.cols * sizeof *m.at);
}

void drop_rows(pass *p)
{
    size_t n = 0;
    if (p->il + 1 < p->n_layer)
        return;
    for (size_t i = 0; i < p->n_segments; i++) {
        struct segment *seg = &p->segments[i];
        keep_last(p->x, n, seg);
        if (p->model->backout != 0 && p->il > p->n_layer / 2)
            keep_last((mat){p->s->middle, p->n, p->x.cols}, n, seg);
        keep_last(p->q, n, seg);
        if (p->model->shape.n_gate)
            keep_last(p->h, n, seg);
        if (p->s->inputs)
            keep_last((mat){p->s->inputs, p->n, p->model->shape.n_inputs}, n, seg);
        seg->pos += seg->n - seg->n_last;
        seg->row = n;
        n += seg->n = seg->n_last;
    }
    set_rows(p, n);
}

void keep_logits(const pass *p)
{
    for (size_t i = 0; p->n_out > 1 && i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        const struct out_rows rows = out_rows(p, seg);
        if (seg->is_last && rows.n > 0 && rows.after == 0)
            memcpy(seg->session->spare, p->logits.at + (rows.at + rows.n - 1) * p->logits.cols,
                   p->logits.cols * sizeof *p->logits.at);
    }
}

static void set_logit_rows(pass *p, size_t first)
{
    size_t left = p->n_out - first;
    p->out = first;
    p->logits.n = left < LOGIT_ROWS ? left : LOGIT_ROWS;
}

/* Only LOGIT_ROWS rows of logits exist at a time: forward computes the first ones. */
void panel_forward(pass *p)
{
    p->n_layer = p->model->shape.n_layer;
    set_rows(p, p->n);
    set_logit_rows(p, 0);
    if (!has_stage(p, 0))
        return;
    forward(p);
    keep_logits(p);
    for (size_t next = LOGIT_ROWS; next < p->n_out && !stopped(p); next += LOGIT_ROWS) {
        set_logit_rows(p, next);
        unembed(p);
        keep_logits(p);
    }
}
