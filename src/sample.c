/* Floor 5. Choosing a token: temperature, top-k, top-p, min-p, one draw. And looking at the best ones.
 *
 * Nothing is sorted or allocated. A filter is a threshold on the logit plus a number of ties that still
 * fit, lowest ids first; it is found digit by digit in the logits' bit patterns (mapped so that unsigned
 * order is numeric order): four passes with 256 counters. The draw adds probabilities in float64 in
 * order of token id and takes the first id whose sum exceeds u * total, which is what Python's
 * random.choices does.
 */
#include "dmath.h"
#include "error.h"

#include <math.h>
#include <string.h>

/* Bit pattern as an unsigned number in numeric order; NaN counts as minus infinity, -0 as 0. */
static uint32_t key_of(float logit)
{
    uint32_t bits;
    float f = logit == 0.0f ? 0.0f : logit;
    memcpy(&bits, &f, sizeof bits);
    if (logit != logit)
        bits = 0xFF800000;
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* What is still in the race: keys above `key`, and the first `ties` tokens with exactly `key`. */
struct keep {
    uint32_t key;
    size_t ties;
};

static const struct keep KEEP_ALL = {0, SIZE_MAX};

/* Steps through the kept tokens in order of id. */
static int kept(const struct keep *keep, float logit, size_t *ties_seen)
{
    uint32_t key = key_of(logit);
    if (key != keep->key)
        return key > keep->key;
    return (*ties_seen)++ < keep->ties;
}

struct dist {
    const float *logits;
    size_t n;
    double max, inverse_t; /* weight of a token: exp((logit - max) * inverse_t) */
};

static double weight_of(const struct dist *d, float logit)
{
    if ((double)logit == d->max)
        return 1; /* also for an infinite maximum */
    if (!(logit > -INFINITY))
        return 0; /* NaN, and a masked token at infinite temperature */
    return d_exp(((double)logit - d->max) * d->inverse_t);
}

/* The largest k, or with mass > 0 the fewest largest whose weights reach `mass`. Ties at the threshold
 * are counted, not weighed, in the end: each tie has the same weight. */
static struct keep select_top(const struct dist *d, struct keep from, size_t k, double mass)
{
    uint32_t prefix = 0, known = 0; /* digits of the threshold found so far, and their mask */
    size_t above = 0;
    double weight_above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        size_t count[256] = {0}, ties_seen = 0;
        double weight[256] = {0};
        for (size_t i = 0; i < d->n; i++) {
            uint32_t key = key_of(d->logits[i]);
            if (!kept(&from, d->logits[i], &ties_seen) || (key & known) != prefix)
                continue;
            count[key >> shift & 255]++;
            weight[key >> shift & 255] += mass > 0 ? weight_of(d, d->logits[i]) : 0;
        }
        int digit = 255, lowest = 0;
        while (lowest < 255 && count[lowest] == 0)
            lowest++;
        for (; digit > lowest; digit--) {
            if (mass > 0 ? weight_above + weight[digit] >= mass : above + count[digit] >= k)
                break;
            above += count[digit];
            weight_above += weight[digit];
        }
        prefix |= (uint32_t)digit << shift;
        known |= UINT32_C(255) << shift;
    }
    size_t ties = mass > 0 ? 1 : k - above;
    if (mass > 0) {
        uint32_t bits = prefix & 0x80000000 ? prefix & 0x7FFFFFFF : ~prefix;
        float threshold;
        memcpy(&threshold, &bits, sizeof threshold);
        double each = weight_of(d, threshold);
        while (weight_above + (double)ties * each < mass && ties < d->n)
            ties++;
    }
    if (prefix == from.key && ties > from.ties)
        ties = from.ties;
    return (struct keep){prefix, ties};
}

static double total_weight(const struct dist *d, struct keep keep)
{
    double total = 0;
    size_t ties_seen = 0;
    for (size_t i = 0; i < d->n; i++)
        if (kept(&keep, d->logits[i], &ties_seen))
            total += weight_of(d, d->logits[i]);
    return total;
}

/* Number of kept tokens that are at least `ratio` times as likely as the likeliest. */
static size_t count_likely(const struct dist *d, struct keep keep, double ratio)
{
    size_t n = 0, ties_seen = 0;
    for (size_t i = 0; i < d->n; i++)
        n += kept(&keep, d->logits[i], &ties_seen) && weight_of(d, d->logits[i]) >= ratio;
    return n ? n : 1;
}

static struct keep filter(const mgpt_sampler *s, const struct dist *d)
{
    struct keep keep = KEEP_ALL;
    if (s->top_k > 0 && (size_t)s->top_k < d->n)
        keep = select_top(d, keep, (size_t)s->top_k, 0);
    if (s->top_p > 0 && s->top_p < 1)
        keep = select_top(d, keep, 0, (double)s->top_p * total_weight(d, keep));
    if (s->min_p > 0)
        keep = select_top(d, keep, count_likely(d, keep, (double)s->min_p), 0);
    return keep;
}

/* SplitMix64 (Steele, Lea & Flood 2014): any state is a good one. The top 53 bits as [0, 1). */
static double next_uniform(mgpt_sampler *s)
{
    if (s->uniform)
        return s->uniform(s->uniform_user);
    uint64_t z = s->rng += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* The first of the largest. */
static size_t argmax(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (key_of(logits[i]) > key_of(logits[best]))
            best = i;
    return best;
}

int32_t mgpt_sample(mgpt_sampler *s, const float *logits, size_t n)
{
    if (!s || !logits || n == 0 || n > INT32_MAX)
        return MGPT_EARG;
    size_t best = argmax(logits, n);
    if (!(s->temperature > 0))
        return (int32_t)best;
    struct dist d = {logits, n, logits[best], 1.0 / (double)s->temperature};
    struct keep keep = filter(s, &d);
    double target = next_uniform(s) * total_weight(&d, keep), sum = 0;
    size_t last = best, ties_seen = 0;
    for (size_t i = 0; i < n; i++) {
        double w = kept(&keep, logits[i], &ties_seen) ? weight_of(&d, logits[i]) : 0;
        if (w <= 0)
            continue;
        sum += w;
        last = i;
        if (sum > target)
            break;
    }
    return (int32_t)last;
}

/* log of the sum of exp(logits), in float64. */
static double log_sum(const float *logits, size_t n)
{
    struct dist d = {logits, n, logits[argmax(logits, n)], 1.0};
    return d.max + log(total_weight(&d, KEEP_ALL));
}

double mgpt_logprob(const float *logits, size_t n, int32_t token)
{
    if (!logits || token < 0 || (size_t)token >= n)
        return NAN;
    return (double)logits[token] - log_sum(logits, n);
}

/* 1 when a stands before b: larger logit, then lower id. */
static int before(const mgpt_candidate *a, const mgpt_candidate *b)
{
    uint32_t ka = key_of(a->logit), kb = key_of(b->logit);
    return ka != kb ? ka > kb : a->token < b->token;
}

/* Heap with the worst candidate on top: moves the one at i down to its place. */
static void sift_down(mgpt_candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t worst = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (before(&heap[worst], &heap[child]))
                worst = child;
        if (worst == i)
            return;
        mgpt_candidate swap = heap[i];
        heap[i] = heap[worst];
        heap[worst] = swap;
        i = worst;
    }
}

size_t mgpt_top(const float *logits, size_t n, mgpt_candidate *top, size_t k)
{
    if (!logits || !top || n == 0 || n > INT32_MAX)
        return 0;
    k = k < n ? k : n;
    double sum = log_sum(logits, n);
    for (size_t i = 0; i < n && k > 0; i++) {
        mgpt_candidate c = {(int32_t)i, logits[i], (double)logits[i] - sum};
        if (i < k)
            top[i] = c;
        for (size_t j = k / 2; i + 1 == k && j-- > 0;)
            sift_down(top, k, j);
        if (i >= k && before(&c, &top[0])) {
            top[0] = c;
            sift_down(top, k, 0);
        }
    }
    for (size_t left = k; left > 1; left--) {
        mgpt_candidate worst = top[0];
        top[0] = top[left - 1];
        top[left - 1] = worst;
        sift_down(top, left - 1, 0);
    }
    return k;
}
