/* Repl: the cache of keys and values: how much of it is used, and what it holds for one head. */
#include "repl/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct cache {
    struct view view;
    int32_t layer, head;
    size_t d;
    float *k, *v; /* [n_pos][d] */
};

/* Bytes of a position in all layers, and what a number takes. */
static uint64_t bytes_per_position(const struct repl *r, size_t *element)
{
    const mgpt_info *i = &r->engine.info;
    uint64_t numbers = 2 * (uint64_t)i->n_layer * (uint64_t)i->n_head_kv * (uint64_t)i->head_dim;
    *element = i->kv_bytes == 2 * numbers ? 2 : 4;
    if (r->engine.kv)
        *element = strcmp(r->engine.kv, "f16") == 0 ? 2 : 4;
    return numbers * *element;
}

static void print_size(const struct cache *c)
{
    size_t element, n_ctx = mgpt_n_ctx(c->view.repl->engine.session);
    uint64_t each = bytes_per_position(c->view.repl, &element);
    printf("positions %zu of %zu, %s\nbytes: %" PRIu64 " each, %" PRIu64 " used, %" PRIu64
           " when full\n",
           c->view.n_pos, n_ctx, element == 2 ? "f16" : "f32", each, each * c->view.n_pos,
           each * n_ctx);
}

static void print_rows(const struct cache *c, const char *title, const float *rows)
{
    struct heat heat = {.rows = {c->view.n_pos, "pos", view_token_label, &c->view, 0},
                        .cols = {c->d, "dim", NULL, NULL, 0},
                        .cell = HEAT_LARGEST_SIZE};
    size_t max_rows, max_cols;
    heat_room(&c->view.screen, &max_rows, &max_cols);
    if (!heat_open(&heat, max_rows, max_cols)) {
        repl_error("out of memory: a picture of %zu tokens", c->view.n_pos);
        return;
    }
    for (size_t i = 0; i < c->view.n_pos; i++)
        for (size_t e = 0; e < c->d; e++)
            heat_put(&heat, i, e, (double)rows[i * c->d + e]);
    heat_end(&heat);
    printf("layer %d, KV head %d: %s\n", (int)c->layer, (int)c->head, title);
    heat_print(&heat, &c->view.screen, stdout);
    heat_close(&heat);
}

static void view_kv_put_file(struct cache *c)
{
    if (!view_file_open(&c->view,
                        "layer %d KV head %d [position][%zu of the key, %zu of the value]",
                        (int)c->layer, (int)c->head, c->d, c->d))
        return;
    for (size_t i = 0; i < c->view.n_pos; i++) {
        for (size_t e = 0; e < 2 * c->d; e++)
            view_file_put(&c->view, "%s%.9g", e ? "\t" : "",
                          (double)(e < c->d ? c->k[i * c->d + e] : c->v[i * c->d + e - c->d]));
        view_file_put(&c->view, "\n");
    }
    view_file_close(&c->view);
}

void view_cache(struct repl *r, char *args, size_t n)
{
    const mgpt_info *info = &r->engine.info;
    struct cache c = {.d = (size_t)info->head_dim};
    mgpt_error err;
    (void)n;
    if (!view_open(&c.view, r, "/kv", args) || !view_layer(&c.view, &c.layer) ||
        !view_head(&c.view, &c.head, info->n_head_kv, "KV head") || !view_end(&c.view))
        return;
    size_t n_pos = c.view.n_pos;
    c.k = view_new(2 * n_pos * c.d, sizeof *c.k);
    c.v = c.k ? c.k + n_pos * c.d : NULL;
    if (!c.k)
        return;
    if (mgpt_read_kv(r->engine.session, c.layer, c.head, 0, n_pos, c.k, c.v, &err) < 0) {
        repl_failed(&err);
    } else if (c.view.path) {
        view_kv_put_file(&c);
    } else {
        print_size(&c);
        if (n_pos > 0) {
            print_rows(&c, "keys, as scores see them", c.k);
            print_rows(&c, "values", c.v);
        }
    }
    free(c.k);
}
