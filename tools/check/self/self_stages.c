/* The engine's pass compared with float64, stage by stage. See self.h.
 *
 * The engine runs once with a tap at every point. Then the oracle runs, and takes the engine's
 * value at every point once it has computed its own: each stage is held to float64 on the engine's
 * own inputs. So a rounding of quantised activations that differs does not hide what follows it,
 * and the stage that is wrong is the one that is named.
 *
 * Tolerance. Half a unit in the last place is u = 2^-24. The longest sums of a stage are chains of
 * n products whose rounding errors are nearly independent, each at most u of a partial sum; for
 * terms of either sign partial sum k is about sqrt(k / n) of the last, so the error's mean square
 * is about n u^2 / 6 of the sum's. The bound is a hundred times that, for sums that cancel in part,
 * and at least 1e-11: stages without long sums have a few roundings each, of values that may cancel
 * as well.
 */
#include "check/self/self.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/compare/answer.h"
#include "check/oracle/oracle_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_POINTS = MGPT_N_POINTS };

/* What the engine had at one point of one layer. */
struct stage_value {
    float *data; /* [n][cols]; attention [n][H][n] */
    size_t cols; /* of a row */
    double square, ref_square, worst;
    int bad; /* a value that is not finite, or not the same when it is masked */
    size_t pos, head, col;
    double expected, found;
};

struct side_by_side {
    size_t n, H;
    size_t n_values;
    struct stage_value *values; /* [n_layer + 1][N_POINTS] */
    mgpt_error *err;
    int compare_only; /* 1: only logits are compared, and the oracle goes on from its own values */
    struct progress *progress; /* of two passes of the oracle, layer by layer */
};

static struct stage_value *value_at(const struct side_by_side *b, mgpt_point point, int layer)
{
    return &b->values[(size_t)(layer + 1) * N_POINTS + point];
}

static float *engine_row(const struct side_by_side *b, const struct stage_value *v,
                         mgpt_point point, size_t pos, size_t head)
{
    return v->data + (answer_is_attention(point) ? (pos * b->H + head) * b->n : pos * v->cols);
}

/* The tap: keeps everything. */
static int keep_value(const mgpt_value *value, void *user)
{
    struct side_by_side *b = user;
    struct stage_value *v = value_at(b, value->point, value->layer);
    int attention = answer_is_attention(value->point);
    v->cols = attention ? b->H * b->n : (size_t)value->cols;
    if (!v->data && !(v->data = mem_new(b->n * v->cols, sizeof *v->data))) {
        err_memory(b->err, "what happens inside", b->n * v->cols * sizeof *v->data);
        return 1;
    }
    for (int32_t i = 0; i < value->rows; i++) {
        size_t pos = (size_t)value->pos + (attention ? 0 : (size_t)i);
        memcpy(engine_row(b, v, value->point, pos, (size_t)i),
               value->data + (size_t)i * value->stride, (size_t)value->cols * sizeof *v->data);
    }
    return 0;
}

static void note_worst(struct stage_value *v, size_t pos, size_t head, size_t col, double expected,
                       double found)
{
    v->pos = pos, v->head = head, v->col = col;
    v->expected = expected, v->found = found;
}

/* One row of the oracle against the engine's. */
static void compare_stage(struct stage_value *v, size_t pos, size_t head, const double *row,
                          const float *ours, size_t n)
{
    for (size_t i = 0; i < n && !v->bad; i++) {
        double found = (double)ours[i], d = fabs(found - row[i]);
        if (isinf(row[i]) && found == row[i])
            continue; /* masked */
        if (!isfinite(found) || !isfinite(row[i])) {
            v->bad = 1;
            note_worst(v, pos, head, i, row[i], found);
            continue;
        }
        v->square += d * d;
        v->ref_square += row[i] * row[i];
        if (d > v->worst) {
            v->worst = d;
            note_worst(v, pos, head, i, row[i], found);
        }
    }
}

/* The oracle's point: compares its row, then goes on with the engine's. */
static int compare_point(mgpt_point point, int layer, size_t pos, size_t head, double *row,
                         size_t n, void *user)
{
    struct side_by_side *b = user;
    struct stage_value *v = value_at(b, point, layer);
    size_t n_layers = b->n_values / N_POINTS;
    if (b->progress && point == MGPT_RESID_PRE)
        progress_show(b->progress, (size_t)b->compare_only * n_layers + (size_t)layer + 1,
                      2 * n_layers);
    if (!v->data) { /* a point that only the oracle has */
        v->bad = 1;
        note_worst(v, pos, head, 0, row[0], (double)NAN);
        return 0;
    }
    const float *ours = engine_row(b, v, point, pos, head);
    if (!b->compare_only || point == MGPT_LOGITS)
        compare_stage(v, pos, head, row, ours, n);
    for (size_t i = 0; i < n && !b->compare_only; i++)
        row[i] = (double)ours[i];
    return 0;
}

static double nmse(const struct stage_value *v)
{
    if (v->bad)
        return (double)NAN;
    return v->square == 0 ? 0 : v->square / v->ref_square; /* all zero must be met exactly */
}

/* ---- one model --------------------------------------------------------------------------------- */

static double bound_of(const struct oracle_spec *s)
{
    size_t qw = s->n_head * s->head_dim, n = s->n_embd;
    n = qw > n ? qw : n;
    n = s->n_ff > n ? s->n_ff : n;
    n = s->n_latent ? n + s->n_latent : n; /* products of products */
    return fmax(1e-11, 100.0 / 6 * (double)n * 0x1p-48);
}

/* The worst layer of each point; the first that is not finite is the worst there is. */
static void sum_up(const struct side_by_side *b, struct self_stages *stages)
{
    stages->holds = 1;
    for (size_t i = 0; i < b->n_values; i++) {
        const struct stage_value *v = &b->values[i];
        struct self_stage *stage = &stages->points[i % N_POINTS];
        double e = nmse(v);
        if ((!v->data && !v->bad) || (stage->fired && !(stage->nmse >= 0)))
            continue;
        if (!(e <= stages->bound))
            stages->holds = 0;
        if (!stage->fired || !(e <= stage->nmse))
            *stage = (struct self_stage){
                1, e, (int32_t)(i / N_POINTS) - 1, v->pos, v->head, v->col, v->expected, v->found};
    }
}

/* The logits of a whole pass in float64; not of integer weights, whose results depend on roundings
 * that float64 makes differently. */
static int whole_pass(const mgpt_model *model, const struct oracle_spec *spec,
                      const struct self_request *q, struct side_by_side *b, double *whole)
{
    struct stage_value *logits = value_at(b, MGPT_LOGITS, -1);
    mgpt_tensor t;
    *whole = (double)NAN;
    for (size_t i = 0; i < mgpt_n_tensors(model); i++)
        if (mgpt_get_tensor(model, i, &t, NULL) == MGPT_OK &&
            spec->source.find(spec->source.user, t.name) == ORACLE_INTEGERS)
            return MGPT_OK;
    logits->square = logits->ref_square = logits->worst = 0;
    b->compare_only = 1;
    int status = oracle_pass(spec, q->tokens, q->n, compare_point, b, b->err);
    *whole = nmse(logits);
    return status;
}

static int compare_model(const mgpt_model *model, const struct self_request *q,
                         struct self_stages *stages, mgpt_error *err)
{
    struct oracle_spec spec;
    struct oracle_layer *layers;
    int status = oracle_describe(model, &spec, &layers, err);
    if (status != MGPT_OK)
        return status;
    struct side_by_side b = {.n = q->n, .H = spec.n_head, .err = err, .progress = q->progress};
    b.n_values = (spec.n_layer + 1) * N_POINTS;
    b.values = mem_new(b.n_values, sizeof *b.values);
    status = b.values ? oracle_engine_pass(model, q->tokens, q->n, MGPT_POINT_BIT(N_POINTS) - 1,
                                           keep_value, &b, err)
                      : err_memory(err, "stages", 0);
    if (status == MGPT_OK)
        status = oracle_pass(&spec, q->tokens, q->n, compare_point, &b, err);
    stages->bound = bound_of(&spec);
    if (status == MGPT_OK) {
        sum_up(&b, stages);
        status = whole_pass(model, &spec, q, &b, &stages->whole);
    }
    for (size_t i = 0; b.values && i < b.n_values; i++)
        free(b.values[i].data);
    free(b.values);
    free(layers);
    return status;
}

int self_stages(const struct self_request *q, struct self_stages *stages, mgpt_error *err)
{
    mgpt_error local;
    err = err ? err : &local;
    *stages = (struct self_stages){0};
    mgpt_model *model = q->open(q->user, q->isa, err);
    int status = model ? compare_model(model, q, stages, err) : err->status;
    mgpt_close(model);
    return status;
}
