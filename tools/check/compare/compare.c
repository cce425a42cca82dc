/* Comparing logits. See compare.h. */
#include "check/compare/compare.h"

#include <math.h>
#include <string.h>

/* ---- bounds ---- */

/* Where the presets come from. A calculation in a number format gives each logit an error that is a
 * share e of the row's root mean square, much the same for all; NMSE is then e squared. float32
 * adds up to e = 1e-6 to 3e-6 over a few dozen layers, on either side: 1e-5 leaves some room.
 * Weights rounded to half precision (2^-12 of their value on average) add to e = 1e-3 or so; 8 bits
 * in blocks of 32 (a step is 1/127 of the largest, about 0.6 % of the root mean square) to 1 or 2
 * %, 4 bits (a step is 1/8) to 20 % or more. The largest of 10^5 normally distributed errors is 4.5
 * e, hence 10 e for single values; with 4 and 8 bits outliers are common, and only means are bound.
 * KL is near (e s)^2 / 2 where s is the spread of the logits, 2 to 4 in trained models; published
 * measurements of Q8_0 and Q4_0 give 0.001 and 0.07 nats. Measured here, NMSE and largest error:
 * golden models in F32 1e-12 and 5e-6, in F16 1e-6 and 5e-3; weights/shakespeare.gguf in Q8_0 7e-5,
 * in Q4_0 7e-3. */
static const struct compare_bounds presets[] = {
    {"f32", (double)INFINITY, 1e-4, 1e-10, 1e-8},
    {"f16", (double)INFINITY, 3e-2, 1e-5, 1e-4},
    {"q8", (double)INFINITY, (double)INFINITY, 1e-3, 1e-2},
    {"q4", (double)INFINITY, (double)INFINITY, 1e-1, 2.5e-1},
};

int compare_preset(struct compare_bounds *bounds, const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *bounds = presets[i];
            return 1;
        }
    return 0;
}

/* How far from the truth the bounds allow a logit to be. */
static double allowed(const struct compare_bounds *b, double rms)
{
    double share = isfinite(b->max_rel) ? b->max_rel : sqrt(b->max_nmse);
    double by_share = share * rms;
    double most = b->max_abs < by_share ? b->max_abs : by_share;
    return isfinite(most) ? most : 0;
}

/* ---- both sides of a row ---- */

struct sides {
    const double *values;
    const struct ref_row *about;
    const float *ours;
    size_t n_vocab;
    double log_sum; /* log of the sum of exp of all our logits */
};

static size_t compare_token_at(const struct sides *s, size_t i)
{
    return s->about->ids ? (size_t)s->about->ids[i] : i;
}

/* Ours, as what the reference holds. */
static double ours_at(const struct sides *s, size_t i)
{
    double logit = (double)s->ours[compare_token_at(s, i)];
    return s->about->logprobs ? logit - s->log_sum : logit;
}

/* The reference says no more than that it is not above this. */
static int is_floor(const struct sides *s, size_t i)
{
    return s->about->floor < 0 && s->values[i] <= s->about->floor;
}

/* Ours minus the reference, as far as coarseness does not explain it. */
static double difference_at(const struct sides *s, size_t i)
{
    double d = ours_at(s, i) - s->values[i], slack = s->about->slack;
    if (is_floor(s, i) && d < 0)
        return 0;
    if (fabs(d) <= slack)
        return 0;
    return d > 0 ? d - slack : d + slack;
}

/* log of the sum of exp, with the maximum taken out: of all tokens, or, where the reference has
 * masked some, of the others. */
static double log_sum_ours(const struct sides *s)
{
    const int32_t *ids = s->about->masked ? s->about->ids : NULL;
    size_t n = ids ? s->about->n : s->n_vocab;
    double top = -(double)INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        top = fmax(top, (double)s->ours[ids ? (size_t)ids[i] : i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)s->ours[ids ? (size_t)ids[i] : i] - top);
    return top + log(sum);
}

/* Stores both sides' values at row->at. */
static void note_values(struct compare_row *row, const struct sides *s)
{
    row->theirs = (double)NAN; /* where the reference does not have this token */
    row->logprobs = s->about->logprobs;
    row->ours = (double)s->ours[row->at] - (s->about->logprobs ? s->log_sum : 0);
    for (size_t i = 0; i < s->about->n; i++)
        if (compare_token_at(s, i) == row->at)
            row->theirs = s->values[i];
}

/* The token of the first value that is not finite; n_vocab: none. */
static size_t first_not_finite(const struct sides *s)
{
    size_t first = s->n_vocab;
    for (size_t i = 0; i < s->about->n; i++)
        if (!isfinite(s->values[i]) && compare_token_at(s, i) < first)
            first = compare_token_at(s, i);
    for (size_t i = 0; i < first; i++)
        if (!isfinite(s->ours[i]))
            return i;
    return first;
}

/* ---- measures ---- */

static double floats_between(double reference, float ours)
{
    float a = (float)reference;
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &ours, sizeof y);
    int64_t from = x < 0 ? (int64_t)INT32_MIN - x : x; /* in order of value, zeros together */
    int64_t to = y < 0 ? (int64_t)INT32_MIN - y : y;
    return (double)(from < to ? to - from : from - to);
}

static void compare_measure(struct compare_row *row, const struct sides *s)
{
    for (size_t i = 0; i < row->n; i++) {
        double r = s->values[i], d = difference_at(s, i), o = r + d;
        if (fabs(d) > row->max_abs) {
            row->max_abs = fabs(d);
            row->at = compare_token_at(s, i);
        }
        row->difference_squares += d * d;
        row->reference_squares += r * r;
        row->squares += o * o;
        row->dot += r * o;
        double ulp = s->about->logprobs ? 0 : floats_between(r, s->ours[compare_token_at(s, i)]);
        row->ulp = ulp > row->ulp ? ulp : row->ulp;
    }
}

/* a / b, or `nothing` if both are 0. */
static double share(double a, double b, double nothing)
{
    return a == 0 && b == 0 ? nothing : a / b;
}

static double cosine_of(double dot, double a, double b)
{
    return share(dot, sqrt(a) * sqrt(b), a == b ? 1 : 0);
}

/* KL over the tokens that the reference tells apart. When it has only some, all others together are
 * one more; else both sides are made to add up to one over these. */
static double divergence(const struct sides *s)
{
    const int some = s->about->ids && !s->about->masked;
    double top = -(double)INFINITY, p_sum = 0, q_sum = 0, kl = 0;
    for (size_t i = 0; i < s->about->n; i++)
        top = s->values[i] > top ? s->values[i] : top;
    const double p_log = some ? 0 : top, q_log = s->about->logprobs ? 0 : s->log_sum;
    for (size_t i = 0; i < s->about->n; i++) {
        if (is_floor(s, i))
            continue;
        p_sum += exp(s->values[i] - p_log);
        q_sum += exp(ours_at(s, i) - q_log);
    }
    const double p_norm = some ? 0 : p_log + log(p_sum), q_norm = some ? q_log : q_log + log(q_sum);
    for (size_t i = 0; i < s->about->n; i++) {
        double log_p = s->values[i] - p_norm, log_q = ours_at(s, i) - q_norm;
        kl += is_floor(s, i) ? 0 : exp(log_p) * (log_p - log_q);
    }
    /* A rest below 1e-6 is what rounding of the log-probabilities leaves. */
    if (some && (1 - p_sum > 1e-6 || 1 - q_sum > 1e-6)) {
        double p = fmax(1 - p_sum, 1e-12), q = fmax(1 - q_sum, 1e-12);
        kl += p * log(p / q);
    }
    return kl < 0 ? 0 : kl; /* rounding can leave a hair below zero; NaN stays */
}

/* Stores the log-probabilities that both sides give to the token that follows in the text. */
static void measure_next(struct compare_row *row, const struct sides *s, int32_t next)
{
    double sum = 0, top = s->values[0];
    row->reference_logprob = row->logprob = (double)NAN;
    if (next < 0 || (size_t)next >= s->n_vocab)
        return;
    for (size_t i = 0; i < row->n; i++)
        top = s->values[i] > top ? s->values[i] : top;
    for (size_t i = 0; i < row->n && !s->about->logprobs; i++)
        sum += exp(s->values[i] - top);
    const double norm = s->about->logprobs ? 0 : top + log(sum);
    for (size_t i = 0; i < row->n; i++)
        if (compare_token_at(s, i) == (size_t)next && !is_floor(s, i)) {
            row->reference_logprob = s->values[i] - norm;
            row->logprob = (double)s->ours[next] - s->log_sum;
        }
}

/* ---- the likeliest tokens ---- */

enum { FIVE = 5 };

struct five {
    size_t token[FIVE];
    double value[FIVE];
    unsigned n;
};

/* Keeps the five largest, the lowest id first among equals (candidates come in order of their ids,
 * or for a reference with only some tokens in order of the list). */
static void five_add(struct five *f, size_t token, double value)
{
    unsigned i = f->n;
    if (i == FIVE && value <= f->value[FIVE - 1])
        return;
    if (i == FIVE)
        i--;
    else
        f->n++;
    for (; i > 0 && value > f->value[i - 1]; i--) {
        f->value[i] = f->value[i - 1];
        f->token[i] = f->token[i - 1];
    }
    f->value[i] = value;
    f->token[i] = token;
}

static void find_tops(struct compare_row *row, const struct sides *s, double slack)
{
    struct five reference = {.n = 0}, ours = {.n = 0};
    double at_ours = -(double)INFINITY;
    for (size_t i = 0; i < row->n; i++)
        five_add(&reference, compare_token_at(s, i), s->values[i]);
    const int32_t *ids = s->about->masked ? s->about->ids : NULL;
    size_t n_ours = ids ? row->n : s->n_vocab;
    for (size_t i = 0; i < n_ours; i++) {
        size_t token = ids ? (size_t)ids[i] : i;
        five_add(&ours, token, (double)s->ours[token]);
    }
    row->top_reference = reference.token[0];
    row->top_ours = ours.token[0];
    row->top5_of = reference.n;
    for (unsigned i = 0; i < reference.n; i++)
        for (unsigned k = 0; k < reference.n && k < ours.n; k++)
            row->top5 += reference.token[i] == ours.token[k];
    row->rank = 1;
    for (size_t i = 0; i < n_ours; i++)
        row->rank += s->ours[ids ? (size_t)ids[i] : i] > s->ours[row->top_reference];
    for (size_t i = 0; i < row->n; i++)
        if (compare_token_at(s, i) == row->top_ours)
            at_ours = s->values[i];
    if (row->top_reference == row->top_ours)
        row->top = TOP_SAME;
    else /* two values within the slack of the truth can change places when closer than twice that */
        row->top = reference.value[0] - at_ours <= 2 * slack ? TOP_TIE : TOP_OTHER;
}

/* ---- a row ---- */

static void spoil(struct compare_row *row)
{
    row->bad = row->breaks = 1;
    row->max_abs = row->max_rel = row->nmse = row->cosine = row->kl = row->ulp = (double)NAN;
    row->dot = row->squares = row->reference_squares = row->difference_squares = (double)NAN;
    row->reference_logprob = row->logprob = (double)NAN;
    row->top = TOP_OTHER;
}

struct compare_row compare_row(const double *values, const struct ref_row *about, const float *ours,
                               size_t n_vocab, int32_t next, const struct compare_bounds *bounds)
{
    struct compare_row row = {.n = about->n};
    struct sides s = {values, about, ours, n_vocab, 0};
    if (row.n == 0)
        return row;
    row.masked = about->masked;
    s.log_sum = log_sum_ours(&s);
    row.at = first_not_finite(&s);
    if (row.at < n_vocab) {
        note_values(&row, &s);
        spoil(&row);
        return row;
    }
    row.at = compare_token_at(&s, 0);
    compare_measure(&row, &s);
    double rms = sqrt(row.reference_squares / (double)row.n);
    row.max_rel = share(row.max_abs, rms, 0);
    row.nmse = share(row.difference_squares, row.reference_squares, 0);
    row.cosine = cosine_of(row.dot, row.reference_squares, row.squares);
    row.kl = divergence(&s);
    row.breaks = !(row.max_abs <= bounds->max_abs && row.max_rel <= bounds->max_rel &&
                   row.nmse <= bounds->max_nmse && row.kl <= bounds->max_kl);
    if (row.breaks)
        note_values(&row, &s);
    measure_next(&row, &s, next);
    row.top = TOP_UNKNOWN;
    if (!about->of_given)
        find_tops(&row, &s, allowed(bounds, rms) + about->slack);
    return row;
}

/* ---- all rows ---- */

double compare_db(double nmse)
{
    return 10 * log10(nmse);
}

/* Keeps the larger value and its place. A NaN is kept whatever follows. */
static void compare_keep(struct compare_worst *worst, int first, double value,
                         const struct compare_worst *where)
{
    if (!first && (isnan(worst->value) || value <= worst->value))
        return;
    *worst = *where;
    worst->value = value;
}

void compare_add(struct compare_total *total, const struct compare_row *row, size_t sequence,
                 size_t position)
{
    const struct compare_worst where = {0, sequence, position, row->at};
    int first = total->n_rows == 0;
    if (row->n == 0)
        return;
    if (row->breaks && !total->first.found)
        total->first = (struct compare_first){
            1, sequence, position, row->at, row->logprobs, row->theirs, row->ours};
    compare_keep(&total->abs, first, row->max_abs, &where);
    compare_keep(&total->rel, first, row->max_rel, &where);
    compare_keep(&total->nmse, first, row->nmse, &where);
    compare_keep(&total->cosine, first, 1 - row->cosine, &where);
    compare_keep(&total->kl, first, row->kl, &where);
    compare_keep(&total->ulp, first, row->ulp, &where);
    compare_keep(&total->rank, first, row->bad ? (double)NAN : (double)row->rank, &where);
    if (row->masked) {
        total->kept_least =
            total->n_masked && total->kept_least < row->n ? total->kept_least : row->n;
        total->kept_most = total->kept_most > row->n ? total->kept_most : row->n;
        total->masked_most = total->masked_most > row->masked ? total->masked_most : row->masked;
        total->n_masked++;
    }
    total->n_rows++;
    total->n_bad += (size_t)row->bad;
    total->n_top += row->top != TOP_UNKNOWN;
    total->n_same += row->top == TOP_SAME;
    total->n_tie += row->top == TOP_TIE;
    total->n_top5 += row->top5;
    total->top5_of += row->top5_of;
    total->sum_kl += row->kl;
    total->dot += row->dot;
    total->squares += row->squares;
    total->reference_squares += row->reference_squares;
    total->difference_squares += row->difference_squares;
    if (isnan(row->reference_logprob))
        return;
    double d = fabs(row->reference_logprob - row->logprob);
    compare_keep(&total->logprob, total->n_next == 0, d, &where);
    total->n_next++;
    total->sum_logprob += d;
    total->reference_nll -= row->reference_logprob;
    total->nll -= row->logprob;
}

double compare_nmse(const struct compare_total *total)
{
    return share(total->difference_squares, total->reference_squares, 0);
}

double compare_cosine(const struct compare_total *total)
{
    return cosine_of(total->dot, total->reference_squares, total->squares);
}

double compare_kl(const struct compare_total *total)
{
    return total->sum_kl / (double)total->n_rows;
}

unsigned compare_judge(const struct compare_total *total, const struct compare_bounds *bounds)
{
    unsigned broken = 0;
    if (total->n_rows == 0)
        return COMPARE_NOTHING;
    if (total->n_bad > 0)
        return COMPARE_BAD;
    broken |= total->abs.value <= bounds->max_abs ? 0 : COMPARE_ABS;
    broken |= total->rel.value <= bounds->max_rel ? 0 : COMPARE_REL;
    broken |= compare_nmse(total) <= bounds->max_nmse ? 0 : COMPARE_NMSE;
    broken |= compare_kl(total) <= bounds->max_kl ? 0 : COMPARE_KL;
    return broken;
}
