/* Tests: the engine's distance from the oracle. See agree.h. */
#include "support/agree.h"
#include "support/toy_oracle.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deeper models than three layers: the error grows at most linearly with depth. In a tensor of a
 * few numbers one sum that cancels is not averaged away: three times the error there. And softmax
 * turns an error relative to the largest score into one of the weights larger by the size of the
 * scores, which for scores not divided by sqrt(d) is sqrt(d) times the usual. Latent attention adds up scores
 * along the latent, which is wider than a head: the terms are larger, their sum is the same. A mixture has the
 * router's product, its softmax and a weighted sum more in a row: twice the square. */
static double nmse_allowed(const struct toy_spec *s, size_t n_values)
{
    double layers = s->n_layer > 3 ? s->n_layer : 3;
    double sharpness = fmax(1, s->attn_scale * sqrt(s->head_dim));
    if (s->n_latent)
        sharpness *= fmax(1, sqrt((double)s->n_latent / (s->head_dim - s->rope_dims)));
    return (n_values < 64 ? 1e-11 : 1e-12) * (s->n_expert ? 2 : 1) * pow(layers / 3 * sharpness, 2);
}

static double worst_allowed(const struct toy_spec *s)
{
    int n = s->n_ff > s->n_embd ? s->n_ff : s->n_embd;
    return 6 * (double)n * 0x1p-24 * (s->n_layer + 1);
}

struct error {
    double nmse, worst; /* worst: largest |difference| relative to the largest |reference| */
};

/* Masked scores are -inf on both sides and count as equal; NaN on our side gives NaN. */
static struct error measure(const struct trace_value *ours, const struct trace_value *ref, size_t n)
{
    double square = 0, ref_square = 0, worst = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        if (isinf(ref->data[i]) && ours->data[i] == ref->data[i])
            continue;
        double d = ours->data[i] - ref->data[i];
        square += d * d;
        ref_square += ref->data[i] * ref->data[i];
        scale = fmax(scale, fabs(ref->data[i]));
        if (!(fabs(d) <= worst))
            worst = fabs(d);
    }
    if (scale == 0) /* all zero, as after a ReLU that lets nothing through: must be met exactly */
        return (struct error){square, worst};
    return (struct error){square / ref_square, worst / scale};
}

static int value_agrees(const struct toy_spec *s, const struct trace_value *ours,
                        const struct trace_value *ref, size_t n_tokens, struct error *e)
{
    *e = (struct error){NAN, NAN};
    if (!ours->data || !ref->data)
        return ours->data == ref->data;
    if (ours->cols != ref->cols)
        return 0;
    size_t n = n_tokens * ref->cols;
    *e = measure(ours, ref, n);
    return e->nmse <= nmse_allowed(s, n) && e->worst <= worst_allowed(s);
}

int agree(const struct toy_spec *s, const struct trace *ours, const struct trace *ref, char *what,
          size_t cap)
{
    for (int layer = -1; layer < s->n_layer; layer++) {
        for (int p = 0; p < MGPT_N_POINTS; p++) {
            const struct trace_value *a = trace_at(ours, (mgpt_point)p, layer);
            const struct trace_value *b = trace_at(ref, (mgpt_point)p, layer);
            struct error e;
            char name[64];
            if (value_agrees(s, a, b, ref->n_tokens, &e))
                continue;
            mgpt_point_name((mgpt_point)p, layer, name, sizeof name);
            snprintf(what, cap, "%s: %s: %zu columns, oracle %zu; NMSE %.3g, worst %.3g (%.3g)",
                     s->label, name, a->cols, b->cols, e.nmse, e.worst, worst_allowed(s));
            return 0;
        }
    }
    return 1;
}

static void check_all_seen(const struct toy_spec *s, const struct trace *t)
{
    if (t->fault[0])
        fail_msg("%s: %s", s->label, t->fault);
    for (int layer = -1; layer < s->n_layer; layer++) {
        for (int p = 0; p < MGPT_N_POINTS; p++) {
            const struct trace_value *v = trace_at(t, (mgpt_point)p, layer);
            int heads = trace_is_attention((mgpt_point)p) ? toy_heads(s, layer) : 1;
            for (size_t i = 0; v->data && i < t->n_tokens * (size_t)heads; i++)
                if (v->seen[i] != 1)
                    fail_msg("%s: point %d layer %d row %zu fired %d times", s->label, p, layer, i,
                             v->seen[i]);
        }
    }
}

struct trace *agree_run(mgpt_model *model, const struct toy_spec *s, const int32_t *tokens,
                        size_t n)
{
    mgpt_error err;
    mgpt_session *session = mgpt_session_new(model, NULL, &err);
    assert_non_null(session);
    struct trace *t = trace_new(s->n_layer, n);
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, trace_tap, t, &err),
                     MGPT_OK);
    if (mgpt_feed(session, tokens, n, &err) != MGPT_OK)
        fail_msg("%s: %s", s->label, err.text);
    mgpt_session_free(session);
    check_all_seen(s, t);
    return t;
}

/* ---- the oracle on the engine's values ---- */

struct agree_with {
    const struct trace *ours;
    struct trace *own; /* what the oracle made of the engine's values */
    const struct toy_spec *spec;
    size_t *n_rows; /* seen so far at [layer + 1][point] */
};

/* Rows come in order: positions, and at points of attention the heads of each. */
static void take_ours(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    struct agree_with *b = user;
    size_t n_rows = trace_is_attention(point) ? (size_t)toy_heads(b->spec, layer) : 1;
    size_t i = b->n_rows[(size_t)(layer + 1) * MGPT_N_POINTS + point]++;
    size_t pos = i / n_rows, at = i % n_rows;
    assert_true(trace_put(b->own, point, layer, pos, at, n_rows, row, n));
    const struct trace_value *ours = trace_at(b->ours, point, layer);
    if (ours->data)
        memcpy(row, ours->data + pos * ours->cols + at * b->ours->n_tokens, n * sizeof *row);
}

static int has_blocks(const struct toy *m)
{
    for (size_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].blocks)
            return 1;
    return 0;
}

struct trace *agree_oracle(const struct toy *m, const struct trace *ours, const int32_t *tokens,
                           size_t n)
{
    if (!has_blocks(m))
        return oracle_run(m, tokens, n, NULL, NULL);
    size_t n_counts = (size_t)(m->spec.n_layer + 1) * MGPT_N_POINTS;
    struct agree_with b = {ours, trace_new(m->spec.n_layer, n), &m->spec,
                           toy_alloc(n_counts, sizeof *b.n_rows)};
    trace_free(oracle_run(m, tokens, n, take_ours, &b));
    free(b.n_rows);
    return b.own;
}
