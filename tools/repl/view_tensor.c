/* Repl: one tensor of the file in numbers. It is read in pieces: its size does not matter. */
#include "base/mem.h"
#include "common/interrupt.h"
#include "repl/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14, BINS = 40 }; /* PIECE: whole blocks of every type */

struct summary {
    uint64_t n, n_finite, n_zero;
    double low, high, sum, squares; /* squares: of differences from the mean, in the second pass */
    uint64_t bins[BINS];
};

struct tensor {
    struct view view;
    mgpt_tensor t;
    struct summary s;
    float *piece;
};

/* ---- reading --------------------------------------------------------------------------------- */

typedef void piece_fn(struct tensor *t, uint64_t first, size_t n);

static int each_piece(struct tensor *t, piece_fn *fn)
{
    const mgpt_model *model = t->view.repl->engine.model;
    mgpt_error err;
    for (uint64_t at = 0; at < t->s.n; at += PIECE) {
        size_t n = t->s.n - at < PIECE ? (size_t)(t->s.n - at) : PIECE;
        if (mgpt_read_tensor(model, t->t.name, at, n, t->piece, &err) < 0) {
            repl_failed(&err);
            return 0;
        }
        if (interrupted()) {
            repl_error("stopped");
            return 0;
        }
        fn(t, at, n);
    }
    return 1;
}

static void add_range(struct tensor *t, uint64_t first, size_t n)
{
    struct summary *s = &t->s;
    (void)first;
    for (size_t i = 0; i < n; i++) {
        double x = (double)t->piece[i];
        if (!isfinite(x))
            continue;
        s->low = s->n_finite && s->low < x ? s->low : x;
        s->high = s->n_finite && s->high > x ? s->high : x;
        s->sum += x;
        s->n_zero += x == 0;
        s->n_finite++;
    }
}

static void add_shape(struct tensor *t, uint64_t first, size_t n)
{
    struct summary *s = &t->s;
    double mean = s->sum / (double)s->n_finite, span = s->high - s->low;
    (void)first;
    for (size_t i = 0; i < n; i++) {
        double x = (double)t->piece[i];
        if (!isfinite(x))
            continue;
        s->squares += (x - mean) * (x - mean);
        double bin = span > 0 ? (x - s->low) / span * BINS : 0;
        s->bins[bin < BINS ? (size_t)bin : BINS - 1]++;
    }
}

static void put_piece(struct tensor *t, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int ends = (first + i + 1) % t->t.dims[0] == 0;
        view_file_put(&t->view, "%.9g%c", (double)t->piece[i], ends ? '\n' : '\t');
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_shape(const mgpt_tensor *t)
{
    printf("%s  %s  [", t->name, t->type);
    for (uint32_t d = 0; d < t->n_dims && d < 4; d++)
        printf("%s%" PRIu64, d ? ", " : "", t->dims[d]);
    printf("]  %" PRIu64 " bytes at %" PRIu64 "\n", t->n_bytes, t->offset);
}

static void print_histogram(const struct summary *s)
{
    uint64_t most = 1;
    for (int i = 0; i < BINS; i++)
        most = s->bins[i] > most ? s->bins[i] : most;
    printf("%.4f [", s->low);
    for (int i = 0; i < BINS; i++) {
        char c = screen_ramp((double)s->bins[i] / (double)most);
        putchar(s->bins[i] && c == ' ' ? '.' : c);
    }
    printf("] %.4f\n", s->high);
}

static void view_tensor_print_tensor(const struct tensor *t)
{
    const struct summary *s = &t->s;
    print_shape(&t->t);
    printf("values %" PRIu64 ", zero %" PRIu64 ", not finite %" PRIu64 "\n", s->n, s->n_zero,
           s->n - s->n_finite);
    if (s->n_finite == 0)
        return;
    printf("min %.6g  max %.6g  mean %.6g  std %.6g\n", s->low, s->high,
           s->sum / (double)s->n_finite, sqrt(s->squares / (double)s->n_finite));
    print_histogram(s);
}

/* ---- finding --------------------------------------------------------------------------------- */

static void tell_nearest(const mgpt_model *model, const char *name)
{
    size_t n = mgpt_n_tensors(model);
    const char **names = view_new(n, sizeof *names), *near;
    mgpt_tensor t;
    for (size_t i = 0; names && i < n; i++)
        names[i] = mgpt_get_tensor(model, i, &t, NULL) == MGPT_OK ? t.name : "";
    near = names ? cli_nearest(name, names, n) : NULL;
    if (near)
        repl_error("no tensor %.64s, did you mean %s?", name, near);
    else
        repl_error("no tensor %.64s (mgpt info --tensors lists them)", name);
    free(names);
}

static int view_tensor_find(struct tensor *t, const char *name)
{
    const mgpt_model *model = t->view.repl->engine.model;
    if (mgpt_find_tensor(model, name, &t->t, NULL) < 0) {
        tell_nearest(model, name);
        return 0;
    }
    t->s.n = t->t.dims[0] * t->t.dims[1] * t->t.dims[2] * t->t.dims[3];
    return 1;
}

static void view_tensor_run(struct tensor *t)
{
    if (!t->view.path) {
        if (each_piece(t, add_range) && each_piece(t, add_shape))
            view_tensor_print_tensor(t);
    } else if (view_file_open(&t->view, "%s, rows of %" PRIu64, t->t.name, t->t.dims[0])) {
        if (each_piece(t, put_piece))
            view_file_close(&t->view);
        outfile_discard(&t->view.file);
    }
}

void view_tensor(struct repl *r, struct repl_args *args)
{
    struct tensor t = {.view = view_of(r, args)};
    if (!*args->name) {
        repl_error("which tensor? For example: /w token_embd.weight");
        return;
    }
    if (!view_tensor_find(&t, args->name))
        return;
    t.piece = view_new(PIECE, sizeof *t.piece);
    if (t.piece)
        view_tensor_run(&t);
    free(t.piece);
}
