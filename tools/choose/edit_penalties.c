/* Penalties for what the text has already: repetition, presence, frequency, and DRY. See chooser.h. */
#include "base/mem.h"
#include "choose/chooser.h"

#include <math.h>

/* Keskar et al. 2019 (CTRL), as transformers' RepetitionPenaltyLogitsProcessor: a token is penalized once,
 * however often it is in the text. OpenAI's presence and frequency penalties come after it. */
void edit_penalties(struct chooser *c, float *logits, size_t n, const int32_t *tokens,
                    size_t n_tokens)
{
    const struct edit_rules *r = c->rules;
    float repeat = (float)r->value[EDIT_REPEAT][0], presence = (float)r->value[EDIT_PRESENCE][0];
    float frequency = (float)r->value[EDIT_FREQUENCY][0];
    double last = r->value[EDIT_LAST][0];
    size_t from = last >= 0 && last < (double)n_tokens ? n_tokens - (size_t)last : 0;
    if (repeat == 1 && presence == 0 && frequency == 0)
        return;
    for (size_t i = from; i < n_tokens; i++)
        if ((size_t)tokens[i] < n)
            c->count[tokens[i]]++;
    for (size_t i = from; i < n_tokens; i++) {
        size_t token = (size_t)tokens[i];
        if (token >= n || c->count[token] == 0)
            continue;
        float *x = &logits[token];
        *x = *x < 0 ? *x * repeat : *x / repeat;
        *x -= (float)c->count[token] * frequency + presence;
        c->count[token] = 0;
    }
}

/* repeats[k] = how many of the last tokens are those that end k tokens before the end (Z algorithm on
 * the reversed text). */
static void find_repeats(uint32_t *repeats, const int32_t *last, size_t n)
{
    size_t left = 0, right = 0; /* the repeat that reaches furthest back: [left, right) */
    for (size_t k = 1; k < n; k++) {
        size_t m = k < right ? repeats[k - left] : 0;
        if (k + m >= right) {
            m = k < right ? right - k : 0;
            while (k + m < n && *(last - m) == *(last - k - m))
                m++;
            left = k;
            right = k + m;
        }
        repeats[k] = (uint32_t)m;
    }
}

/* p-e-w's DRY (oobabooga/text-generation-webui pull request 5677) as llama.cpp has it: a token that would
 * repeat m >= ALLOWED tokens of the text loses X BASE^(m - ALLOWED). No repetition is counted beyond the
 * last token that breaks it, and such a token is never penalized. */
void edit_dry(struct chooser *c, float *logits, size_t n, const int32_t *tokens, size_t n_tokens)
{
    const double *v = c->rules->value[EDIT_DRY];
    const uint8_t *breaks = c->rules->breaks;
    size_t size = v[3] >= 0 && v[3] < (double)n_tokens ? (size_t)v[3] : n_tokens;
    size_t allowed = (size_t)v[2], limit = 0;
    const int32_t *last = tokens + n_tokens - 1;
    while (limit < size && (size_t)last[-(ptrdiff_t)limit] < n && !breaks[last[-(ptrdiff_t)limit]])
        limit++;
    if (size <= allowed || limit < allowed)
        return;
    find_repeats(c->repeats, last, size);
    for (size_t k = 1; k < size; k++) {
        size_t m = c->repeats[k] < limit ? c->repeats[k] : limit;
        size_t token = (size_t) * (last - k + 1);
        if (m >= allowed && token < n && !breaks[token] && c->count[token] < m)
            c->count[token] = (uint32_t)m;
    }
    double most = v[1] > 1.000001 ? floor(88.7228391 / log(v[1])) : 0; /* of float */
    for (size_t k = 1; k < size; k++) {
        size_t token = (size_t) * (last - k + 1);
        if (token >= n || c->count[token] == 0)
            continue;
        double power = (double)(c->count[token] - allowed);
        logits[token] -= (float)(v[0] * pow(v[1], most > 0 && power > most ? most : power));
        c->count[token] = 0;
    }
}
