/* page.inc compiled with the operations of ops.h: any model, any pass, with taps. */
#include "run/ops.h"

typedef struct layer layer;
#define PAGE static
#define add add_rows
#define recall(p) 0
#define stopped(p) (p)->stopped
#define parallel(p) ((p)->model->branches == BRANCHES_PARALLEL)
#include "page/page.inc"

static mat of(const pass *p, float *at, size_t cols)
{
    return (mat){at, p->n, cols};
}

void panel_forward(pass *p)
{
    const struct model_shape *d = &p->model->shape;
    const struct scratch *s = p->s;
    p->n_layer = d->n_layer;
    p->x = of(p, s->x, d->n_embd);
    p->h = p->m = of(p, s->h, d->n_embd);
    p->a = of(p, s->a, d->n_embd);
    p->q = of(p, s->q, d->n_q);
    p->k = of(p, s->k, d->n_kv);
    p->v = of(p, s->v, d->n_kv);
    p->o = of(p, s->o, d->n_q);
    p->f = of(p, s->gate, d->n_ff);
    forward(p);
}
