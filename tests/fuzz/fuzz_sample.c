/* Fuzz target: choosing a token from any floats with any settings. */
#include "fuzz/fuzz.h"
#include "mgpt.h"

#include <math.h>

enum { MOST = 600 };

static double uniform(void *user)
{
    return (double)feed_u32(user) / 4294967296.0;
}

static void check_top(const float *logits, size_t n, size_t k)
{
    mgpt_candidate top[MOST + 1];
    size_t got = mgpt_top(logits, n, top, k);
    MUST(got == (k < n ? k : n));
    for (size_t i = 0; i < got; i++) {
        MUST(top[i].token >= 0 && (size_t)top[i].token < n);
        if (i > 0 && !isnan(top[i].logit) && !isnan(top[i - 1].logit))
            MUST(top[i - 1].logit > top[i].logit ||
                 (!(top[i - 1].logit < top[i].logit) && top[i - 1].token < top[i].token));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    float logits[MOST] = {0};
    struct feed f = {data, size};
    mgpt_sampler s = {.temperature = feed_float(&f), .top_k = (int32_t)feed_u32(&f)};
    s.top_p = feed_float(&f);
    s.min_p = feed_float(&f);
    s.rng = feed_u32(&f);
    struct feed numbers = f;
    if (feed_byte(&f) & 1) {
        s.uniform = uniform;
        s.uniform_user = &numbers;
    }
    size_t n = 0;
    while (n < MOST && f.size >= 4)
        logits[n++] = feed_float(&f);
    if (n == 0) {
        MUST(mgpt_sample(&s, logits, 0) == MGPT_EARG);
        return 0;
    }
    mgpt_sampler again = s;
    struct feed same = numbers;
    int32_t token = mgpt_sample(&s, logits, n);
    MUST(token >= 0 && (size_t)token < n);
    again.uniform_user = s.uniform ? &same : NULL;
    MUST(mgpt_sample(&again, logits, n) == token);
    check_top(logits, n, (size_t)s.top_k % (MOST + 1));
    MUST(isnan(mgpt_logprob(logits, n, (int32_t)n)));
    fuzz_saw_number((uint64_t)token);
    fuzz_saw_floats(&(float){(float)mgpt_logprob(logits, n, token)}, 1);
    return 0;
}
