/* Repl: the cache of keys and values: how much of it is used, and what it holds for one head. */
#include "repl/view.h"

#include "engine/layers.h"

#include <inttypes.h>
#include <stdlib.h>

struct cache {
    struct view view;
    int32_t layer, head;
    size_t d, v_dim; /* widths of keys and of values */
    float *k, *v;    /* [n_pos][d], [n_pos][v_dim] */
};

static void print_size(const struct cache *c)
{
    const struct engine *e = &c->view.repl->engine;
    size_t n_ctx = mgpt_n_ctx(e->session);
    uint64_t each = engine_kv_bytes(e);
    printf("positions %zu of %zu, %s\nbytes: %" PRIu64 " each, %" PRIu64 " used, %" PRIu64
           " when full\n",
           c->view.n_pos, n_ctx, engine_kv_type(e), each, each * c->view.n_pos, each * n_ctx);
}

static double cached_key(const void *user, size_t pos, size_t dim)
{
    const struct cache *c = user;
    return (double)c->k[pos * c->d + dim];
}

static double cached_value(const void *user, size_t pos, size_t dim)
{
    const struct cache *c = user;
    return (double)c->v[pos * c->v_dim + dim];
}

/* A row of the file: the key, then the value. */
static double key_or_value(const void *user, size_t pos, size_t i)
{
    const struct cache *c = user;
    return i < c->d ? cached_key(user, pos, i) : cached_value(user, pos, i - c->d);
}

static void print_cache(const struct cache *c)
{
    struct view_matrix m = {.heat = {.rows = {c->view.n_pos, "pos", view_token_label, &c->view, 0},
                                     .cols = {c->d, "dim", NULL, NULL, 0},
                                     .cell = HEAT_LARGEST_SIZE},
                            .value = cached_key,
                            .user = c};
    print_size(c);
    if (c->view.n_pos == 0)
        return;
    printf("layer %d, KV head %d: keys, as scores see them\n", (int)c->layer, (int)c->head);
    view_picture(&c->view, &m);
    m.value = cached_value;
    m.heat.cols.n = c->v_dim;
    printf("layer %d, KV head %d: values\n", (int)c->layer, (int)c->head);
    view_picture(&c->view, &m);
}

static void view_kv_put_file(struct cache *c)
{
    const struct view_matrix m = {
        {.rows = {.n = c->view.n_pos}, .cols = {.n = c->d + c->v_dim}}, key_or_value, c};
    if (view_file_open(&c->view, "layer %d KV head %d [position][%zu of the key, %zu of the value]",
                       (int)c->layer, (int)c->head, c->d, c->v_dim))
        view_file_matrix(&c->view, &m);
}

void view_cache(struct repl *r, struct repl_args *args)
{
    struct cache c = {.view = view_of(r, args),
                      .layer = args->layer,
                      .head = args->head,
                      .d = (size_t)engine_head_dim(r->engine.model, args->layer),
                      .v_dim = (size_t)engine_value_dim(r->engine.model, args->layer)};
    size_t n_pos = c.view.n_pos;
    mgpt_error err;
    c.k = view_new(n_pos * (c.d + c.v_dim), sizeof *c.k);
    c.v = c.k ? c.k + n_pos * c.d : NULL;
    if (!c.k)
        return;
    if (mgpt_read_kv(r->engine.session, c.layer, c.head, 0, n_pos, c.k, c.v, &err) < 0)
        repl_failed(&err);
    else if (c.view.path)
        view_kv_put_file(&c);
    else
        print_cache(&c);
    free(c.k);
}
