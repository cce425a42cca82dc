/* Repl: how long the residual stream is (the root of the sum of squares), by half layer and
 * position. */
#include "repl/view.h"

#include <math.h>
#include <stdlib.h>

/* Rows of the picture: the first layer's beginning, then the middle and the end of each layer. */
struct norms {
    struct view view;
    size_t n_rows;
    double *lengths; /* [n_rows][n_pos] */
    int has_mid;
};

static size_t view_resid_row_of(const struct norms *m, mgpt_point point, int32_t layer)
{
    size_t halves = m->has_mid ? 2 : 1;
    if (point == MGPT_RESID_PRE)
        return 0;
    return 1 + (size_t)layer * halves + (point == MGPT_RESID_POST ? halves - 1 : 0);
}

static int watch_residual(const mgpt_value *value, void *user)
{
    struct norms *m = user;
    if (value->point == MGPT_RESID_PRE && value->layer > 0)
        return 0;
    size_t row = view_resid_row_of(m, value->point, value->layer);
    for (size_t i = 0; i < (size_t)value->rows; i++) {
        double sum = 0;
        for (size_t e = 0; e < (size_t)value->cols; e++) {
            double x = (double)value->data[i * value->stride + e];
            sum += x * x;
        }
        m->lengths[row * m->view.n_pos + (size_t)value->pos + i] = sqrt(sum);
    }
    return 0;
}

static void row_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct norms *m = user;
    size_t halves = m->has_mid ? 2 : 1;
    (void)columns;
    if (i == 0)
        snprintf(out, HEAT_LABEL, "0 pre");
    else
        snprintf(out, HEAT_LABEL, "%zu %s", (i - 1) / halves,
                 (i - 1) % halves + 1 == halves ? "post" : "mid");
}

static double length_at(const void *user, size_t row, size_t pos)
{
    const struct norms *m = user;
    return m->lengths[row * m->view.n_pos + pos];
}

static void put_norms(struct norms *m)
{
    struct view_matrix lengths = {
        .heat = {.rows = {m->n_rows, "layer", row_label, m, 1},
                 .cols = {m->view.n_pos, "pos", view_token_label, &m->view, 0}},
        .value = length_at,
        .user = m};
    if (!m->view.path) {
        puts("length of the residual");
        view_picture(&m->view, &lengths);
    } else if (view_file_open(&m->view, "length of the residual [%s][position]",
                              m->has_mid ? "0 pre, 0 mid, 0 post, 1 mid, ..."
                                         : "0 pre, 0 post, ...")) {
        view_file_matrix(&m->view, &lengths);
    }
}

/* Models whose branches run side by side have no middle. */
static int see_mid(const mgpt_value *value, void *user)
{
    int *seen = user;
    *seen |= value->point == MGPT_RESID_MID;
    return 0;
}

void view_norms(struct repl *r, struct repl_args *args)
{
    struct norms m = {.view = view_of(r, args)};
    uint64_t all = 0;
    if (r->engine.info.n_layer == 0) {
        repl_error("the model has no layers");
        return;
    }
    if (!repl_replay(r, MGPT_POINT_BIT(MGPT_RESID_MID), see_mid, &m.has_mid))
        return;
    m.n_rows = 1 + (size_t)r->engine.info.n_layer * (m.has_mid ? 2 : 1);
    m.lengths = view_new(m.n_rows * m.view.n_pos, sizeof *m.lengths);
    for (int i = 0; i < VIEW_HALVES; i++)
        all |= MGPT_POINT_BIT(view_residuals[i]);
    if (m.lengths && repl_replay(r, all, watch_residual, &m))
        put_norms(&m);
    outfile_discard(&m.view.file);
    free(m.lengths);
}
