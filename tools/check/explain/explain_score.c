/* One pass of a variant in float64, compared with the reference at one hook. See explain.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sums {
    struct score *score;
    const struct whatif *w;
    double *square, *ref_square; /* [n] */
    double *row;
    int bad, status;
    mgpt_error *err;
};

static void keep_row(struct sums *s, size_t pos, size_t head, const double *ours, size_t n)
{
    const struct score *sc = s->score;
    int attention = answer_is_attention(answer_hook(sc->a, sc->target).point);
    size_t first = pos * sc->n_diff + (attention ? head * sc->n : 0);
    for (size_t i = 0; sc->keep && i < n; i++) {
        double d = s->row[i] - ours[i];
        sc->diff[first + i] = attention && !isfinite(d) ? 0 : d; /* masked */
        if (sc->ours)
            sc->ours[first + i] = ours[i];
    }
}

static void add_row(struct sums *s, size_t pos, size_t head, const double *ours, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double d = ours[i] - s->row[i];
        if (isinf(ours[i]) && ours[i] < 0 && s->row[i] < -1e4)
            continue; /* masked */
        s->bad |= !isfinite(d);
        s->square[pos] += d * d;
        s->ref_square[pos] += s->row[i] * s->row[i];
    }
    keep_row(s, pos, head, ours, n);
}

static void keep_input(struct score *sc, mgpt_point point, int layer, size_t pos, const double *row,
                       size_t n)
{
    struct ref_hook target = answer_hook(sc->a, sc->target);
    int outside = target.layer < 0 || layer == target.layer;
    if (sc->keep && point == sc->input && outside && n == sc->n_in)
        memcpy(sc->in + pos * n, row, n * sizeof *row);
}

static int visit(mgpt_point point, int layer, size_t pos, size_t head, double *row, size_t n,
                 void *user)
{
    struct sums *s = user;
    struct score *sc = s->score;
    whatif_edit(s->w, point, layer, row, n, s->row);
    int64_t i = answer_find(sc->a, point, layer), theirs = (int64_t)pos - s->w->offset;
    int attention = answer_is_attention(point), mine = i == (int64_t)sc->target;
    int read =
        i >= 0 && (mine || (sc->feed && i < (int64_t)sc->target && !sc->l->hooks[i].elsewhere));
    if (read && theirs >= 0 && theirs < (int64_t)sc->a->n && !(attention && s->w->offset)) {
        s->status = answer_read(sc->a, (size_t)i, (size_t)theirs, head, s->row, s->err);
        if (s->status < 0)
            return 1;
        if (mine)
            add_row(s, pos, head, row, n);
        else
            memcpy(row, s->row, n * sizeof *row);
    }
    keep_input(sc, point, layer, pos, row, n);
    int last = pos + 1 == s->w->n && (!attention || head + 1 == sc->a->n_head);
    return interrupted() || (mine && last);
}

static double worst(const struct sums *s, size_t n)
{
    double floor = 0, most = 0;
    for (size_t t = 0; t < n; t++)
        floor += 1e-4 * s->ref_square[t] / (double)n;
    for (size_t t = 0; t < n; t++) {
        double e = s->square[t] == 0 ? 0 : s->square[t] / fmax(s->ref_square[t], floor);
        most = e > most ? e : most;
    }
    return s->bad ? (double)NAN : most;
}

int explain_score(struct score *score, struct whatif *w, mgpt_error *err)
{
    struct sums s = {.score = score, .w = w, .err = err};
    if (w->offset && answer_is_attention(answer_hook(score->a, score->target).point))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "positions of queries and keys are not those");
    for (size_t i = 0; w->spec.n_head != score->a->n_head && i <= score->target; i++)
        if (answer_is_attention(answer_hook(score->a, i).point) &&
            answer_hook(score->a, i).layer >= 0)
            return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "the reference has other heads");
    s.square = mem_new(w->n, sizeof *s.square);
    s.ref_square = mem_new(w->n, sizeof *s.ref_square);
    s.row = mem_new(answer_widest(score->a), sizeof *s.row);
    int status = MGPT_OK;
    if (!s.square || !s.ref_square || !s.row)
        status = err_memory(err, "a comparison", answer_widest(score->a) * sizeof *s.row);
    if (status == MGPT_OK)
        status = oracle_pass(&w->spec, w->tokens, w->n, visit, &s, err);
    if (status == MGPT_ESTOP)
        status = s.status;
    if (status == MGPT_OK)
        score->nmse = worst(&s, w->n);
    if (interrupted())
        status = err_set(err, MGPT_ESTOP, MGPT_NO_OFFSET, "interrupted");
    free(s.square);
    free(s.ref_square);
    free(s.row);
    return status;
}

int search_look(struct search *s, size_t hook, mgpt_point input, size_t n_in, size_t n,
                const struct suspect *suspect, struct seen *seen)
{
    struct whatif w;
    struct ref_hook at = answer_hook(s->a, hook);
    size_t cols = answer_is_attention(at.point) ? s->a->n_head * n : at.cols;
    int status = whatif_open(&w, s->model, s->a->tokens, n, s->err);
    *seen = (struct seen){.n = n, .cols = cols, .n_in = n_in};
    if (status != MGPT_OK)
        return status;
    w.n_behind = s->a->n - n;
    if (input == MGPT_FINAL && !w.spec.final_norm)
        input = w.spec.n_layer ? MGPT_RESID_POST : MGPT_EMBD;
    seen->diff = mem_new(n * cols, sizeof *seen->diff);
    seen->ours = mem_new(n * cols, sizeof *seen->ours);
    seen->in = mem_new(n * n_in, sizeof *seen->in);
    struct score score = {.a = s->a,
                          .l = s->l,
                          .target = hook,
                          .feed = s->feed,
                          .keep = 1,
                          .input = input,
                          .diff = seen->diff,
                          .ours = seen->ours,
                          .in = seen->in,
                          .n_diff = cols,
                          .n_in = n_in,
                          .n = n};
    if (!seen->diff || !seen->ours || !seen->in)
        status = err_memory(s->err, "values of a pass", n * cols * sizeof *seen->diff);
    if (status == MGPT_OK && suspect && !suspect->apply(&w, suspect, -1))
        status = err_set(s->err, MGPT_EARG, MGPT_NO_OFFSET, "does not apply");
    if (status == MGPT_OK)
        status = explain_score(&score, &w, s->err);
    s->work += (double)w.info.n_params * (double)n;
    whatif_close(&w);
    if (status != MGPT_OK)
        seen_free(seen);
    return status;
}

void seen_free(struct seen *seen)
{
    free(seen->diff);
    free(seen->ours);
    free(seen->in);
    *seen = (struct seen){0};
}
