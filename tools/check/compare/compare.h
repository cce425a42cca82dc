/* Comparing logits with a reference, in float64.
 *
 *   row     the logits of one position
 *   NMSE    mean squared difference / mean square of the reference
 *   bounds  the most that may differ: a preset by the type of the weights, or numbers
 *   masked  tokens of -inf in the reference: a filter (top-k, suppressed tokens) left them out
 *   top     the token of the largest logit; a tie if the bounds allow two tokens to change places
 *
 * A NaN or an infinity on either side is a
 * difference for all bounds: every test is written so that NaN fails it.
 *
 * A reference may hold log-probabilities instead of logits, of all tokens or of some, and may hold
 * them coarsely (struct ref_row). Then our log-probabilities are compared, and what the coarseness
 * explains is not a difference.
 */
#ifndef MGPT_COMPARE_H
#define MGPT_COMPARE_H

#include "check/reference/reference.h"

/* What may differ. INFINITY: no bound. */
struct compare_bounds {
    const char *name; /* name of the preset, or NULL */
    double max_abs;   /* |reference - ours| of every value */
    double max_rel;   /* max_abs as a share of the root mean square of the reference's row */
    double max_nmse;  /* NMSE of all rows together */
    double max_kl;    /* nats, the mean of all rows */
};

/* The bounds called f32, f16, q8 or q4; 0 when no preset has that name. */
int compare_preset(struct compare_bounds *bounds, const char *name);

enum compare_top { TOP_SAME, TOP_TIE, TOP_OTHER, TOP_UNKNOWN };

/* One row. */
struct compare_row {
    size_t n;       /* values compared; 0: the reference has none here */
    size_t masked;  /* tokens of -inf in the reference, which are left out */
    int bad;        /* one is not finite: the numbers below are NaN */
    double max_abs; /* largest |reference - ours| */
    double max_rel; /* max_abs / root mean square of the reference's row */
    size_t at;      /* the token of max_abs; the first one that is not finite */
    int logprobs;   /* 1: theirs and ours are log-probabilities, because the reference has these */
    double theirs, ours; /* the values at `at`; set if the row breaks a bound */
    int breaks;          /* 1: it breaks a bound, taken as a bound of a single row */
    double nmse;         /* mean squared difference / mean square of the reference */
    double cosine;       /* cosine of the angle between the two rows */
    /* KL(softmax(reference) || softmax(ours)), nats. If the reference has some tokens only, all others
     * count as one. */
    double kl;
    /* Log-probability of the next token; NaN: there is no next token, or the reference lacks it. */
    double reference_logprob;
    double logprob;
    double ulp;             /* largest distance in floats; 0 for log-probabilities */
    size_t rank;            /* of the reference's top token here: 1 + how many are above it */
    unsigned top5, top5_of; /* how many of the reference's five likeliest are among ours */
    enum compare_top top;   /* TOP_TIE: another, but the bounds allow the two to change places */
    size_t top_reference, top_ours;
    double dot, reference_squares, squares, difference_squares;
};

/* `values` and `about` are a row of the reference, `next` the token that follows, or -1. */
struct compare_row compare_row(const double *values, const struct ref_row *about, const float *ours,
                               size_t n_vocab, int32_t next, const struct compare_bounds *bounds);

/* The largest of something, and where. */
struct compare_worst {
    double value;
    size_t sequence, position, at;
};

/* The first row that breaks a bound, at its largest difference. */
struct compare_first {
    int found;
    size_t sequence, position, at;
    int logprobs;
    double theirs, ours;
};

/* All rows that the reference has. */
struct compare_total {
    size_t n_rows, n_bad;         /* n_bad: rows with a value that is not finite */
    size_t n_masked;              /* rows with tokens of -inf in the reference */
    size_t kept_least, kept_most; /* tokens of a masked row that are not -inf */
    size_t masked_most;           /* tokens of a masked row that are -inf */
    size_t n_top;                 /* rows whose top token the reference has */
    size_t n_same, n_tie;         /* rows of n_top with TOP_SAME, TOP_TIE */
    size_t n_top5, top5_of;       /* sums of compare_row's top5 and top5_of */
    size_t n_next;                /* rows whose next token both have */
    struct compare_worst abs, rel, nmse, kl, logprob, ulp, rank;
    struct compare_worst cosine; /* the largest 1 - cosine */
    double sum_kl, sum_logprob;  /* sum_logprob: of |difference| at the next token */
    double reference_nll, nll;   /* of the next tokens, summed */
    double dot, reference_squares, squares, difference_squares;
    struct compare_first first;
};

void compare_add(struct compare_total *total, const struct compare_row *row, size_t sequence,
                 size_t position);

/* Mean squared error over mean square of the reference; 0 when both are 0, NaN when n_bad > 0. */
double compare_nmse(const struct compare_total *total);
double compare_cosine(const struct compare_total *total);
double compare_kl(const struct compare_total *total);

/* NMSE in decibels: -INFINITY for 0. */
double compare_db(double nmse);

/* Which bounds are broken, as bits; 0: the two are the same. */
enum {
    COMPARE_NOTHING = 1, /* there is no row */
    COMPARE_BAD = 2,     /* not finite */
    COMPARE_ABS = 4,
    COMPARE_REL = 8,
    COMPARE_NMSE = 16,
    COMPARE_KL = 32
};
unsigned compare_judge(const struct compare_total *total, const struct compare_bounds *bounds);

#endif
