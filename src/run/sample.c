/* Sampling: the caller's edit, temperature, top-k, top-p (nucleus sampling), min-p, one draw; and the best candidates.
 *
 * Nothing is sorted or allocated. Weights are integers (sample_kernels.h), so their sums are exact.
 * They are computed for a chunk of tokens at a time, and again for the chunk that contains the
 * draw. Top-k and top-p become a threshold on the logit plus a number of ties to keep, lowest ids
 * first. A radix select finds the threshold in the logits' bit patterns, mapped so that unsigned
 * order is numeric order: four passes with 256 counters. The draw takes the first token, in order
 * of id, at which the sum exceeds u * total, as Python's random.choices does. For a few logits
 * without top-k and top-p one kernel does everything.
 */
#include "base/error.h"
#include "base/float_bits.h"
#include "base/splitmix.h"
#include "kernels/kernels.h"
#include "run/session.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    CHUNK = 512,   /* tokens whose weights are held at a time */
    N_PLACES = 256 /* most token ids at which draw stores the sum so far */
};

/* Bit pattern as an unsigned number in numeric order; NaN counts as minus infinity, -0 as 0. */
static uint32_t logit_key(float logit)
{
    uint32_t bits = logit != logit ? 0xFF800000 : f32_bits(logit == 0.0f ? 0.0f : logit);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* The tokens kept by a filter: keys above `key`, and the first `ties` tokens with exactly `key`. */
struct keep {
    uint32_t key;
    size_t ties;
};

static const struct keep KEEP_ALL = {0, SIZE_MAX};

/* 1 if the token is kept. To be called for tokens in order of id. */
static int kept(const struct keep *keep, float logit, size_t *ties_seen)
{
    uint32_t key = logit_key(logit);
    if (key != keep->key)
        return key > keep->key;
    return (*ties_seen)++ < keep->ties;
}

struct dist {
    const struct sample_kernels *kernels;
    const float *logits;
    size_t n;
    float max, inverse_t, least; /* weight of a token: exp((logit - max) * inverse_t), or 0 */
    struct keep keep;
};

/* w = weights of n <= CHUNK tokens from `from`, 0 if not kept. Returns their sum. */
static uint64_t weigh(const struct dist *d, uint64_t *w, size_t from, size_t n, size_t *ties_seen)
{
    const float *logits = d->logits + from;
    uint64_t sum = d->kernels->weigh(w, logits, n, d->max, d->inverse_t, d->least);
    if (d->keep.key == KEEP_ALL.key) /* no key is 0 */
        return sum;
    sum = 0;
    for (size_t i = 0; i < n; i++) {
        w[i] = kept(&d->keep, logits[i], ties_seen) ? w[i] : 0;
        sum += w[i];
    }
    return sum;
}

static size_t chunk_at(const struct dist *d, size_t from)
{
    return d->n - from < CHUNK ? d->n - from : CHUNK;
}

static uint64_t total_weight(const struct dist *d)
{
    uint64_t w[CHUNK], total = 0;
    size_t ties_seen = 0;
    for (size_t from = 0; from < d->n; from += CHUNK)
        total += weigh(d, w, from, chunk_at(d, from), &ties_seen);
    return total;
}

/* ---- filters ---- */

/* amount[v] = the number (with by_weight: the weight) of tokens whose digit at `shift` is v and
 * whose higher digits are those of `prefix`. */
static void count_digits(const struct dist *d, int by_weight, int shift, uint32_t prefix,
                         uint64_t amount[256])
{
    uint32_t known = shift < 24 ? UINT32_MAX << (shift + 8) : 0;
    uint64_t w[CHUNK];
    size_t ties_seen = 0;
    for (size_t from = 0; from < d->n; from += CHUNK) {
        size_t n = chunk_at(d, from);
        if (by_weight)
            weigh(d, w, from, n, &ties_seen);
        for (size_t i = 0; i < n; i++) {
            uint32_t key = logit_key(d->logits[from + i]);
            if ((key & known) == prefix)
                amount[key >> shift & 255] += by_weight ? w[i] : 1;
        }
    }
}

static uint64_t weight_of_key(const struct dist *d, uint32_t key)
{
    float logit = f32_from_bits(key & 0x80000000 ? key & 0x7FFFFFFF : ~key);
    uint64_t w[PANEL];
    return d->kernels->weigh(w, &logit, 1, d->max, d->inverse_t, d->least);
}

/* Keeps the `goal` largest of all tokens; by_weight: the fewest largest of the kept tokens whose
 * weights sum to at least `goal`, which must be possible. */
static struct keep select_top(const struct dist *d, int by_weight, uint64_t goal)
{
    uint32_t prefix = 0; /* the threshold's digits found so far */
    uint64_t above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint64_t amount[256] = {0};
        uint32_t digit = 255;
        count_digits(d, by_weight, shift, prefix, amount);
        while (digit > 0 && above + amount[digit] < goal)
            above += amount[digit--];
        prefix |= digit << shift;
    }
    uint64_t each = by_weight ? weight_of_key(d, prefix) : 1;
    size_t ties = each ? (size_t)((goal - above + each - 1) / each) : SIZE_MAX;
    if (prefix == d->keep.key && ties > d->keep.ties)
        ties = d->keep.ties;
    return (struct keep){prefix, ties};
}

static int cuts_k(const mgpt_sampler *s, size_t n)
{
    return s->top_k > 0 && (size_t)s->top_k < n;
}

static int cuts_p(const mgpt_sampler *s)
{
    return s->top_p > 0 && s->top_p < 1;
}

static float least_weight(const mgpt_sampler *s)
{
    if (!(s->min_p > 0))
        return 0;
    return s->min_p < 1 ? s->min_p : 1;
}

static void filter(const mgpt_sampler *s, struct dist *d)
{
    if (cuts_k(s, d->n))
        d->keep = select_top(d, 0, (uint64_t)s->top_k);
    if (cuts_p(s)) {
        uint64_t total = total_weight(d), goal = (uint64_t)((double)s->top_p * (double)total);
        if (total > 0)
            d->keep = select_top(d, 1, goal < 1 ? 1 : goal);
    }
    d->least = least_weight(s);
}

/* ---- the draw ---- */

/* A number in [0, 1). */
static double next_uniform(mgpt_sampler *s)
{
    return s->uniform ? s->uniform(s->uniform_user) : splitmix_real(&s->rng);
}

/* u * total, clamped to [0, total - 1] for any u. total > 0. */
static uint64_t target_of(double u, uint64_t total)
{
    double target = u * (double)total;
    uint64_t whole = target > 0 && target < 0x1p63 ? (uint64_t)target : 0;
    return whole < total ? whole : total - 1;
}

/* The number of running sums, which ascend, that do not exceed the target. No branch depends on
 * them: it would be unpredictable. */
static size_t passed(const uint64_t *sums, size_t n, uint64_t target)
{
    size_t from = 0;
    while (n > 0) {
        size_t half = (n + 1) / 2;
        from = sums[from + half - 1] <= target ? from + half : from;
        n -= half;
    }
    return from;
}

static void running_sums(uint64_t *w, size_t n, uint64_t below)
{
    for (size_t i = 0; i < n; i++)
        w[i] = below += w[i];
}

/* A distribution to draw from: its total, and where each span of tokens begins. */
struct draws {
    struct dist d;
    uint64_t total;
    struct {
        uint64_t below; /* weight of all tokens before this id */
        size_t ties_seen;
    } places[N_PLACES];
    size_t span, n_places;
    uint64_t sums[CHUNK]; /* running sums of the weights if n <= CHUNK */
};

static void prepare_draws(struct draws *p)
{
    const struct dist *d = &p->d;
    size_t ties_seen = 0;
    p->span = CHUNK * (1 + (d->n - 1) / (CHUNK * N_PLACES));
    p->total = p->n_places = 0;
    for (size_t from = 0; from < d->n; from += CHUNK) {
        if (from % p->span == 0) {
            p->places[p->n_places].below = p->total;
            p->places[p->n_places++].ties_seen = ties_seen;
        }
        p->total += weigh(d, p->sums, from, chunk_at(d, from), &ties_seen);
    }
    if (d->n <= CHUNK)
        running_sums(p->sums, d->n, 0);
}

/* sample_draw for more than CHUNK tokens. A function of its own: its array would cost every draw of a
 * small vocabulary a probe of the stack. */
static __attribute__((noinline)) size_t draw_in_spans(const struct draws *p, uint64_t target)
{
    uint64_t w[CHUNK];
    size_t place = p->n_places - 1;
    while (p->places[place].below > target)
        place--;
    uint64_t below = p->places[place].below;
    size_t ties_seen = p->places[place].ties_seen;
    for (size_t from = place * p->span;; from += CHUNK) {
        size_t n = chunk_at(&p->d, from);
        uint64_t sum = weigh(&p->d, w, from, n, &ties_seen);
        if (below + sum > target) {
            running_sums(w, n, below);
            return from + passed(w, n, target);
        }
        below += sum;
    }
}

/* The first token at which the sum exceeds u * total; token 0 when all weights are zero. */
static inline size_t sample_draw(const struct draws *p, double u)
{
    if (p->total == 0)
        return 0;
    uint64_t target = target_of(u, p->total);
    return p->d.n <= CHUNK ? passed(p->sums, p->d.n, target) : draw_in_spans(p, target);
}

/* The lowest id whose logit is `max`; 0 if max is -INFINITY or NaN. */
static size_t argmax(const float *logits, size_t n, float max)
{
    for (size_t i = 0; i < n && max > -INFINITY; i++)
        if (logits[i] == max)
            return i;
    return 0;
}

static float inverse_temperature(const mgpt_sampler *s)
{
    float inverse_t = 1.0f / s->temperature;
    return inverse_t < FLT_MAX ? inverse_t : FLT_MAX;
}

static void begin_draws(struct draws *p, const mgpt_sampler *s, const float *logits, size_t n)
{
    const struct sample_kernels *kernels = kernels_sample();
    float max = kernels->biggest(logits, n);
    p->d = (struct dist){kernels, logits, n, max, inverse_temperature(s), 0, KEEP_ALL};
    filter(s, &p->d);
    prepare_draws(p);
}

/* 1 if s and logits can be drawn from. */
static int can_draw(const mgpt_sampler *s, const float *logits, size_t n)
{
    return s && logits && n > 0 && n <= INT32_MAX && (!s->edit || s->copy);
}

/* The logits to draw from: those of the model, or s->copy with the changes of s->edit. */
static const float *edited_logits(const mgpt_sampler *s, const float *logits, size_t n)
{
    if (!s->edit)
        return logits;
    memcpy(s->copy, logits, n * sizeof *logits);
    s->edit(s->copy, n, s->tokens, s->n_tokens, s->edit_user);
    return s->copy;
}

int32_t mgpt_sample(mgpt_sampler *s, const float *logits, size_t n)
{
    if (!can_draw(s, logits, n))
        return MGPT_EARG;
    const struct sample_kernels *kernels = kernels_sample();
    logits = edited_logits(s, logits, n);
    if (!(s->temperature > 0))
        return (int32_t)argmax(logits, n, kernels->biggest(logits, n));
    double u = next_uniform(s);
    if (n <= SAMPLE_FEW && !cuts_k(s, n) && !cuts_p(s) && u >= 0 && u < 1)
        return (int32_t)kernels->few(logits, n, inverse_temperature(s), least_weight(s), u);
    struct draws p;
    begin_draws(&p, s, logits, n);
    return (int32_t)sample_draw(&p, u);
}

int mgpt_sample_many(const mgpt_sampler *s, uint64_t *rng, size_t n_draws, const float *logits,
                     size_t n, int32_t *tokens)
{
    if (!can_draw(s, logits, n) || s->uniform || !rng || !tokens)
        return MGPT_EARG;
    mgpt_sampler one = *s;
    if (n_draws > 0)
        logits = edited_logits(s, logits, n);
    one.edit = NULL;
    struct draws p;
    int shares = n_draws > 1 && s->temperature > 0;
    if (shares)
        begin_draws(&p, s, logits, n);
    for (size_t i = 0; i < n_draws; i++) {
        one.rng = rng[i];
        if (shares)
            tokens[i] = (int32_t)sample_draw(&p, next_uniform(&one));
        else /* the only draw, or greedy ones, which are all the same */
            tokens[i] = i > 0 ? tokens[0] : mgpt_sample(&one, logits, n);
        rng[i] = one.rng;
    }
    return MGPT_OK;
}

/* The weight of a token; place by place as draw_in_spans. */
static uint64_t weight_of(const struct draws *p, size_t token)
{
    uint64_t w[CHUNK];
    size_t place = token / p->span, ties_seen = p->places[place].ties_seen;
    for (size_t from = place * p->span;; from += CHUNK) {
        weigh(&p->d, w, from, chunk_at(&p->d, from), &ties_seen);
        if (token < from + CHUNK)
            return w[token - from];
    }
}

double mgpt_draw_prob(const mgpt_sampler *s, const float *logits, size_t n, int32_t token)
{
    if (!can_draw(s, logits, n) || token < 0 || (size_t)token >= n)
        return NAN;
    const struct sample_kernels *kernels = kernels_sample();
    logits = edited_logits(s, logits, n);
    if (!(s->temperature > 0))
        return (size_t)token == argmax(logits, n, kernels->biggest(logits, n));
    struct draws p;
    begin_draws(&p, s, logits, n);
    return p.total ? (double)weight_of(&p, (size_t)token) / (double)p.total : token == 0;
}

double logits_log_sum(const float *logits, size_t n)
{
    const struct sample_kernels *kernels = kernels_sample();
    double max = (double)kernels->biggest(logits, n);
    return isinf(max) ? max : max + log(kernels->sum_exp(logits, n, max));
}

double mgpt_logprob(const float *logits, size_t n, int32_t token)
{
    if (!logits || token < 0 || (size_t)token >= n)
        return NAN;
    return (double)logits[token] - logits_log_sum(logits, n);
}

/* ---- best candidates ---- */

/* 1 if a ranks before b: larger logit, then lower id. */
static int before(const mgpt_candidate *a, const mgpt_candidate *b)
{
    uint32_t ka = logit_key(a->logit), kb = logit_key(b->logit);
    return ka != kb ? ka > kb : a->token < b->token;
}

/* Restores the heap order (worst candidate on top) below index i. */
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
    double sum = logits_log_sum(logits, n);
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
