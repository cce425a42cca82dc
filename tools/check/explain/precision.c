/* Differences that are not bugs: the reference ran in a shorter type. See explain_impl.h.
 *
 * A pass in float64 whose values and weights are rounded to that type at every point says how large
 * its noise is. The difference is of that kind if it is as large, at every position, goes along with
 * that pass's own, and points in other directions from position to position; what a bug does has a
 * structure.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/explain/solve.h"
#include "common/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS = 12, LEAST = 3, DOUBLE_BITS = 52, CHECKED = 256, SEEDS = 4 };

/* How much larger than a type's noise the difference may be, the median and at single positions;
 * and how much smaller, where only parts ran in it. Measured, with 12 positions of models of
 * transformers in bfloat16 and float16, under autocast, and with TF32's products: 0.2 to 2.2. */
static const double as_large = 2.5, at_most = 5, as_small = 25;

/* Cosine of the differences of two positions, root mean square. */
static const double one_direction = 0.75;

/* Cosine of all differences with those of the rounded pass, at least, and in standard deviations of
 * what chance gives. Measured at ten ways to run in bfloat16: 0.20 to 0.81; noise and changed weights
 * 0.01 to 0.09. */
static const double alike = 0.15, deviations = 3;

/* How much more than moved weights, whose cosines are chance: 0.14, root mean square, in a toy. */
static const double by_more = 3;

/* Bits of the significand after the point. */
static const struct short_type {
    const char *name, *stored; /* stored: where the logits are such numbers */
    int bits;
} types[] = {{"bfloat16", "bfloat16", 7}, {"TF32 or float16", "float16", 10}};
enum { N_TYPES = sizeof types / sizeof *types };

/* To the nearest value of that many bits, ties to even. */
static double round_to_bits(double x, int bits)
{
    uint64_t u, unit = UINT64_C(1) << (DOUBLE_BITS - bits);
    memcpy(&u, &x, sizeof u);
    u += unit / 2 - 1 + (u / unit & 1);
    u &= ~(unit - 1);
    if (isfinite(x))
        memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- a rounded pass ---------------------------------------------------------------------------- */

struct rounded {
    struct oracle_source source;
    int bits; /* 0: not rounded; below 0: weights of so many bits are moved by up to half a unit */
    int seed; /* ... as this number says */
    double *logits; /* [n][n_vocab] */
};

static enum oracle_tensor rounded_find(void *user, const char *name)
{
    const struct rounded *r = user;
    return r->source.find(r->source.user, name);
}

/* A value from -0.5 to 0.5 that follows from the place. */
static double moved_by(const char *name, size_t i, int seed)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) * (i + 1 + ((uint64_t)seed << 40));
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    h ^= h >> 29;
    return (double)(h * UINT64_C(0xbf58476d1ce4e5b9) >> 11) / 9007199254740992.0 - 0.5;
}

static int is_short(const float *x, size_t n, int bits)
{
    size_t i = 0;
    while (i < n && round_to_bits((double)x[i], bits) == (double)x[i])
        i++;
    return i == n;
}

static int rounded_read(void *user, const char *name, size_t row, size_t n, float *out,
                        mgpt_error *err)
{
    const struct rounded *r = user;
    int status = r->source.read(r->source.user, name, row, n, out, err);
    int moves = status == MGPT_OK && r->bits < 0 && is_short(out, n, -r->bits);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        if (r->bits > 0)
            out[i] = (float)round_to_bits((double)out[i], r->bits);
        else if (moves && out[i] != 0 && isfinite(out[i]))
            out[i] +=
                (float)ldexp(moved_by(name, row * n + i, r->seed), ilogb((double)out[i]) + r->bits);
    return status;
}

static void rounded_name(void *user, int layer, int role, const char *kind, char name[ORACLE_NAME])
{
    const struct rounded *r = user;
    r->source.name(r->source.user, layer, role, kind, name);
}

static int rounded_visit(mgpt_point point, int layer, size_t pos, size_t head, double *row,
                         size_t n, void *user)
{
    struct rounded *r = user;
    (void)layer, (void)head;
    for (size_t i = 0; i < n && r->bits > 0; i++)
        row[i] = round_to_bits(row[i], r->bits);
    if (point == MGPT_LOGITS)
        memcpy(r->logits + pos * n, row, n * sizeof *row);
    return interrupted();
}

static int rounded_pass(struct search *s, size_t n, int bits, int seed, double *logits)
{
    struct rounded r = {.source = s->as_is.source, .bits = bits, .seed = seed, .logits = logits};
    struct oracle_spec spec = s->as_is.spec;
    spec.source = (struct oracle_source){rounded_find, rounded_read, &r, NULL, rounded_name};
    return oracle_pass(&spec, s->as_is.tokens, n, rounded_visit, &r, s->err);
}

/* ---- errors ------------------------------------------------------------------------------------- */

struct noise {
    size_t n, cols;
    double *theirs, *ours, *rounded; /* [n][cols]; theirs and rounded become differences */
    double *error;                   /* [n]: shares of the row's squares */
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Subtracts our logits from `of`; the errors of its rows, in order of size. */
static void take_errors(struct noise *q, double *of)
{
    for (size_t t = 0; t < q->n; t++) {
        const double *ours = q->ours + t * q->cols;
        double *row = of + t * q->cols, square = solve_dot(ours, ours, q->cols);
        for (size_t i = 0; i < q->cols; i++)
            row[i] -= ours[i];
        q->error[t] = solve_dot(row, row, q->cols) / fmax(square, 1e-300);
    }
    qsort(q->error, q->n, sizeof *q->error, by_size);
}

/* Root mean square of the cosines of all pairs of rows. */
static double mean_cosine(const struct noise *q)
{
    double sum = 0, pairs = 0;
    for (size_t t = 0; t < q->n; t++)
        for (size_t u = 0; u < t; u++) {
            const double *x = q->theirs + t * q->cols, *y = q->theirs + u * q->cols;
            double xy = solve_dot(x, y, q->cols),
                   xxyy = solve_dot(x, x, q->cols) * solve_dot(y, y, q->cols);
            sum += xxyy > 0 ? xy * xy / xxyy : 1;
            pairs++;
        }
    return sqrt(sum / fmax(pairs, 1));
}

static int all_short(const struct noise *q, int bits)
{
    size_t i = 0, n = q->n * q->cols;
    while (i < n && round_to_bits(q->theirs[i], bits) == q->theirs[i])
        i++;
    return i == n;
}

static double cosine(const double *x, const double *y, size_t n)
{
    return solve_dot(x, y, n) / sqrt(fmax(solve_dot(x, x, n) * solve_dot(y, y, n), 1e-300));
}

/* Whether the reference's differences go along with those of the rounded pass: weights and values
 * that were rounded in the same places leave some of the same differences, while noise or changed
 * weights of that size do not. */
static int goes_along(const struct search *s, const struct noise *q)
{
    size_t n = q->n * q->cols, n_embd = s->as_is.spec.n_embd;
    double free = (double)(q->n * (n_embd < q->cols ? n_embd : q->cols));
    double along = cosine(q->theirs, q->rounded, n);
    return along > alike && along > deviations / sqrt(free);
}

/* Compares the reference's errors (the least, the median, the largest) with the noise of one type.
 * Where only the logits were rounded they may be smaller. */
static int judge_type(struct search *s, struct noise *q, const struct short_type *type, int stored,
                      const double sizes[3], struct explain_precision *found)
{
    int status = rounded_pass(s, q->n, type->bits, 0, q->rounded);
    if (status != MGPT_OK)
        return status;
    take_errors(q, q->rounded);
    double noise = q->error[q->n / 2], ratio = sizes[1] / noise;
    double now = found->noise > 0 ? found->error / found->noise : INFINITY;
    if (fabs(log(ratio)) >= fabs(log(now)))
        return MGPT_OK;
    int not_larger = ratio < as_large && sizes[2] < at_most * noise;
    int not_smaller = stored || (ratio * as_small > 1 && sizes[0] * 2 * as_small > noise);
    int fits = not_larger && not_smaller && mean_cosine(q) < one_direction;
    int confirmed = stored || goes_along(s, q);
    *found = (struct explain_precision){.type = stored ? type->stored : type->name,
                                        .noise = noise,
                                        .error = sizes[1],
                                        .stored = stored,
                                        .fits = fits && confirmed,
                                        .as_large = fits && !confirmed};
    return MGPT_OK;
}

/* Whether most of the file's matrices (the table of positions stays longer) hold numbers of that many
 * bits: their first values. */
static int file_is_short(const struct search *s, int bits)
{
    float x[CHECKED];
    size_t matrices = 0, are_short = 0;
    for (size_t i = 0; i < mgpt_n_tensors(s->model); i++) {
        mgpt_tensor t;
        if (mgpt_get_tensor(s->model, i, &t, NULL) != MGPT_OK || t.n_dims != 2)
            continue;
        size_t n = t.dims[0] * t.dims[1] < CHECKED ? (size_t)(t.dims[0] * t.dims[1]) : CHECKED;
        matrices++;
        are_short +=
            mgpt_read_tensor(s->model, t.name, 0, n, x, NULL) == MGPT_OK && is_short(x, n, bits);
    }
    return 2 * are_short > matrices;
}

/* What the file's weights leave when they are moved by what rounding moves: the median error, the largest
 * at a position, and how much it goes along by chance with what a pass rounded to the same type leaves. */
struct moved {
    double noise, most, chance;
};

static int move_weights(struct search *s, struct noise *q, int bits, struct moved *moved)
{
    const size_t n = q->n * q->cols;
    double *x = search_new(s, n, sizeof *x);
    int status = x ? rounded_pass(s, q->n, bits, 0, q->rounded) : MGPT_EMEM;
    if (status == MGPT_OK)
        take_errors(q, q->rounded);
    for (int seed = 1; seed <= SEEDS && status == MGPT_OK; seed++) {
        status = rounded_pass(s, q->n, -bits, seed, x);
        if (status != MGPT_OK)
            break;
        take_errors(q, x);
        moved->noise += q->error[q->n / 2] / SEEDS;
        moved->most = fmax(moved->most, q->error[q->n - 1]);
        moved->chance += pow(cosine(x, q->rounded, n), 2) / SEEDS;
    }
    moved->chance = sqrt(moved->chance);
    return status;
}

/* The file's weights are numbers of a short type, and the difference is as large as moving them by what
 * rounding moves leaves, and points in other directions from position to position: the reference's were
 * not rounded. No pass can prove that, for there are more weights than logits. A reference that ran in
 * the type goes along with a rounded pass by more than chance. */
static int judge_file(struct search *s, struct noise *q, const double sizes[3])
{
    struct explain_precision *found = &s->e->precision;
    struct moved moved = {0, 0, 0};
    int i = 0;
    while (i < N_TYPES && !file_is_short(s, types[i].bits))
        i++;
    if (i == N_TYPES || found->stored)
        return MGPT_OK;
    int status = move_weights(s, q, types[i].bits, &moved);
    double ratio = sizes[1] / moved.noise;
    int fits = ratio * as_large > 1 && ratio < as_large && sizes[2] < as_large * moved.most &&
               mean_cosine(q) < one_direction;
    if (status != MGPT_OK || !fits ||
        (found->fits && cosine(q->theirs, q->rounded, q->n * q->cols) > by_more * moved.chance))
        return status;
    found->file = types[i].stored;
    found->file_noise = moved.noise;
    found->error = sizes[1];
    return MGPT_OK;
}

static int open_noise(struct search *s, struct noise *q)
{
    q->n = s->a->n < POSITIONS ? s->a->n : POSITIONS;
    q->cols = s->a->n_vocab;
    q->theirs = search_new(s, q->n * q->cols, sizeof *q->theirs);
    q->ours = search_new(s, q->n * q->cols, sizeof *q->ours);
    q->rounded = search_new(s, q->n * q->cols, sizeof *q->rounded);
    q->error = search_new(s, q->n, sizeof *q->error);
    if (!q->theirs || !q->ours || !q->rounded || !q->error)
        return MGPT_EMEM;
    int status = MGPT_OK;
    for (size_t t = 0; t < q->n && status == MGPT_OK; t++)
        status = answer_read(s->a, s->a->n_hooks, t, 0, q->theirs + t * q->cols, s->err);
    return status == MGPT_OK ? rounded_pass(s, q->n, 0, 0, q->ours) : status;
}

int solve_precision(struct search *s)
{
    struct explain_precision *found = &s->e->precision;
    struct noise q;
    int status = open_noise(s, &q);
    for (size_t i = 0; status == MGPT_OK && i < q.n * q.cols; i++)
        if (q.theirs[i] == ANSWER_MISSING)
            return MGPT_OK;
    if (status != MGPT_OK || q.n < LEAST)
        return status;
    int stored = 0;
    for (int i = N_TYPES; i-- > 0;)
        stored = all_short(&q, types[i].bits) ? types[i].bits : stored;
    take_errors(&q, q.theirs);
    const double sizes[3] = {q.error[0], q.error[q.n / 2], q.error[q.n - 1]};
    for (int i = 0; i < N_TYPES && status == MGPT_OK && isfinite(sizes[2]); i++)
        if (!stored || stored == types[i].bits)
            status = judge_type(s, &q, &types[i], stored != 0, sizes, found);
    return status == MGPT_OK && isfinite(sizes[2]) ? judge_file(s, &q, sizes) : status;
}
