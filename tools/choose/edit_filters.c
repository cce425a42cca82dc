/* Filters of the distribution at temperature 1: what they drop gets minus infinity. See chooser.h. */
#include "choose/chooser.h"

#include <math.h>

static float largest(const float *logits, size_t n)
{
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    return max;
}

/* log of the sum of exp((logits - max) / t). */
static double log_total(const float *logits, size_t n, double max, double t)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY)
            sum += exp(((double)logits[i] - max) / t);
    return log(sum);
}

/* Tang et al. 2024. */
void edit_nsigma(const struct chooser *c, float *logits, size_t n)
{
    double times = c->rules->value[EDIT_NSIGMA][0], sum = 0, squares = 0, count = 0;
    double max = (double)largest(logits, n);
    if (!(times > 0) || isinf(max))
        return;
    for (size_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY) {
            sum += (double)logits[i];
            count++;
        }
    for (size_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY)
            squares += ((double)logits[i] - sum / count) * ((double)logits[i] - sum / count);
    double least = max - times * sqrt(squares / count);
    for (size_t i = 0; i < n; i++)
        if (!((double)logits[i] >= least))
            logits[i] = -INFINITY;
}

/* ---- typical ---- */

static int nearer(const struct ranked_token *a, const struct ranked_token *b)
{
    return a->key != b->key ? a->key < b->key : a->token < b->token;
}

/* Restores the heap, nearest first, below i. */
static void sink(struct ranked_token *heap, size_t n, size_t i)
{
    for (;;) {
        size_t best = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (nearer(&heap[child], &heap[best]))
                best = child;
        if (best == i)
            return;
        struct ranked_token swap = heap[i];
        heap[i] = heap[best];
        heap[best] = swap;
        i = best;
    }
}

/* Meister et al. 2022: tokens whose surprise is nearest to the entropy, as few as make up more than P. */
void edit_typical(struct chooser *c, float *logits, size_t n)
{
    double mass = c->rules->value[EDIT_TYPICAL][0], max = (double)largest(logits, n);
    double entropy = 0, sum = 0;
    size_t left = 0;
    if (mass >= 1 || isinf(max))
        return;
    double total = max + log_total(logits, n, max, 1);
    for (size_t i = 0; i < n; i++) {
        double logprob = (double)logits[i] - total;
        if (logits[i] > -INFINITY && exp(logprob) > 0)
            entropy -= exp(logprob) * logprob;
    }
    for (size_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY)
            c->ranked[left++] =
                (struct ranked_token){fabs(total - (double)logits[i] - entropy), (int32_t)i};
    for (size_t i = left / 2; i > 0; i--)
        sink(c->ranked, left, i - 1);
    while (left > 0 && sum <= mass) {
        sum += exp((double)logits[c->ranked[0].token] - total);
        c->ranked[0] = c->ranked[--left];
        sink(c->ranked, left, 0);
    }
    for (size_t i = 0; i < left; i++)
        logits[c->ranked[i].token] = -INFINITY;
}

/* ---- XTC, Mirostat ---- */

/* p-e-w's XTC (oobabooga/text-generation-webui pull request 6335): of the tokens with probability T or more
 * only the least likely stays. */
void edit_xtc(const struct chooser *c, float *logits, size_t n)
{
    double max = (double)largest(logits, n), threshold = c->rules->value[EDIT_XTC][1];
    size_t kept = n;
    if (!c->drops || threshold > 0.5 || isinf(max))
        return;
    double total = max + log_total(logits, n, max, 1);
    for (int drops = 0; drops < 2; drops++)
        for (size_t i = 0; i < n; i++) {
            if (!(logits[i] > -INFINITY) || exp((double)logits[i] - total) < threshold)
                continue;
            if (!drops && (kept == n || logits[i] <= logits[kept]))
                kept = i;
            else if (drops && i != kept)
                logits[i] = -INFINITY;
        }
}

/* Basu et al. 2021, version 2: tokens of more than mu bits of surprise, at the draw's temperature, are
 * dropped, but not the likeliest one. */
void edit_mirostat(const struct chooser *c, float *logits, size_t n)
{
    double max = (double)largest(logits, n);
    if (!(c->temperature > 0) || isinf(max))
        return;
    double total = log_total(logits, n, max, c->temperature);
    for (size_t i = 0; i < n; i++) {
        double bits = (total - ((double)logits[i] - max) / c->temperature) / log(2);
        if (!(bits <= c->mu) && (double)logits[i] < max)
            logits[i] = -INFINITY;
    }
}
