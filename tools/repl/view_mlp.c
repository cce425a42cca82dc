/* Repl: the neurons of an MLP that fire most at a position: what leaves the activation (and, when
 * gated, the gate), which is what the down projection multiplies. */
#include "engine/layers.h"
#include "repl/view.h"

#include <math.h>
#include <stdlib.h>

enum { SHOWN = 16, COLUMNS = 3 };

static const struct view_column columns[] = {{"post", 11, 4}, {"pre", 11, 4}, {"linear", 11, 4}};
_Static_assert(sizeof columns / sizeof *columns == COLUMNS, "a row each");

struct mlp {
    struct view view;
    int32_t layer;
    size_t pos, n_ff;
    float *values[COLUMNS]; /* post, pre, linear: [n_ff] each */
    int gated;
};

static int view_mlp_gather(struct mlp *m)
{
    static const mgpt_point points[] = {MGPT_MLP_POST, MGPT_MLP_PRE, MGPT_MLP_PRE_LINEAR};
    _Static_assert(sizeof points / sizeof *points == COLUMNS, "a row each");
    struct view_want wants[COLUMNS];
    struct view_wants all = {wants, m->gated ? 3 : 2};
    m->values[0] = view_new(COLUMNS * m->n_ff, sizeof(float));
    if (!m->values[0])
        return 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        m->values[i] = m->values[0] + i * m->n_ff;
        wants[i] = (struct view_want){points[i], m->layer, m->pos, 1, 0, m->n_ff, m->values[i], 0};
    }
    return repl_replay(m->view.repl, view_points(&all), view_gather, &all);
}

static double fired(const void *user, size_t row, size_t neuron)
{
    const struct mlp *m = user;
    (void)row;
    return (double)m->values[0][neuron];
}

static void view_mlp_put_row(struct mlp *m, size_t i)
{
    double row[COLUMNS];
    char label[32];
    for (size_t c = 0; c < COLUMNS; c++)
        row[c] = (double)m->values[c][i];
    snprintf(label, sizeof label, "%zu", i);
    view_table_row(&m->view, label, columns, row, m->gated ? 3 : 2);
}

static void print_summary(const struct mlp *m)
{
    char token[HEAT_LABEL];
    size_t n_zero = 0;
    double sum = 0;
    for (size_t i = 0; i < m->n_ff; i++) {
        n_zero += m->values[0][i] == 0;
        sum += (double)m->values[0][i] * (double)m->values[0][i];
    }
    view_token_label(&m->view, m->pos, 16, token);
    printf("layer %d, token %zu %s: %zu neurons, %zu silent, length %.4f\n", (int)m->layer, m->pos,
           token, m->n_ff, n_zero, sqrt(sum));
}

static int open_table(struct mlp *m)
{
    return view_table_open(&m->view, "neuron", columns, m->gated ? 3 : 2);
}

static void print_strongest(struct mlp *m)
{
    size_t n = m->n_ff < SHOWN ? m->n_ff : SHOWN;
    uint8_t *taken = view_new(m->n_ff, 1);
    const struct view_matrix neurons = {{.rows = {.n = 1}, .cols = {.n = m->n_ff}}, fired, m};
    if (!taken || !open_table(m)) {
        free(taken);
        return;
    }
    for (size_t k = 0; k < n; k++)
        view_mlp_put_row(m, view_take_largest(&neurons, taken));
    if (n < m->n_ff)
        printf("the strongest %zu of %zu; -o FILE writes all\n", n, m->n_ff);
    free(taken);
}

static void print_all(struct mlp *m)
{
    if (!open_table(m))
        return;
    for (size_t i = 0; i < m->n_ff; i++)
        view_mlp_put_row(m, i);
    view_table_close(&m->view);
}

void view_neurons(struct repl *r, struct repl_args *args)
{
    struct mlp m = {.view = view_of(r, args),
                    .layer = args->layer,
                    .pos = args->pos,
                    .n_ff = (size_t)engine_layer(r->engine.model, args->layer).n_ff,
                    .gated = r->engine.info.gated};
    mgpt_tensor router;
    if (mgpt_find_role(r->engine.model, MGPT_W_ROUTER, args->layer, MGPT_WEIGHT, &router, NULL) ==
        MGPT_OK) {
        repl_error("the layer is a mixture of experts, which has no one list of neurons: mgpt "
                   "trace has hook_expert_weights");
        return;
    }
    if (view_mlp_gather(&m)) {
        if (m.view.path) {
            print_all(&m);
        } else {
            print_summary(&m);
            print_strongest(&m);
        }
    }
    free(m.values[0]);
}
