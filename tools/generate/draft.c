/* Proposals of a draft. See draft.h. */
#include "generate/draft.h"

#include "base/mem.h"
#include "common/interrupt.h"

#include <math.h>
#include <string.h>

/* Tokens that it reads after a rest; proposals that the first and the longest rest passes over. */
enum { WINDOW = 64, SHORT_REST = 16, LONG_REST = 1024 };

int draft_open(struct draft *d, const struct engine *target)
{
    d->engine.isa = target->isa;
    d->engine.no_fused = target->no_fused;
    d->engine.n_threads = target->n_threads;
    int code = engine_open(&d->engine);
    if (code == EXIT_OK)
        code = engine_same_tokens(target, &d->engine);
    if (code == EXIT_OK)
        code = engine_session(&d->engine);
    d->rest = SHORT_REST;
    for (size_t i = 0; i < DRAFT_LEVELS; i++)
        d->odds[i] = (struct odds){.tried = 2, .right = 2 * ((double)i + 0.5) / DRAFT_LEVELS};
    d->all = (struct odds){.tried = 2, .right = 1.5}; /* hope, soon corrected */
    return code;
}

void draft_close(struct draft *d)
{
    arr_free(d->history);
    d->history = NULL;
    engine_close(&d->engine);
}

/* Makes the session hold the text from `base` on, or its end if that does not fit or is a long way
 * after a rest. The last token is always run. Returns its logits or NULL. */
static const float *draft_follow(struct draft *d, const int32_t *text, size_t n, int rested)
{
    mgpt_session *session = d->engine.session;
    const int32_t *held = mgpt_tokens(session);
    size_t n_held = mgpt_pos(session), n_ctx = mgpt_n_ctx(session), same = 0;
    size_t window = rested && WINDOW < n_ctx ? WINDOW : (n_ctx + 1) / 2;
    while (same < n_held && d->base + same + 1 < n && held[same] == text[d->base + same])
        same++;
    if (d->base >= n || d->base + same + window < n || d->base + n_ctx < n) {
        d->base = n - (n < window ? n : window);
        same = 0;
    }
    text += d->base + same;
    d->n_run = n - d->base - same;
    interrupt_stops(session);
    int ok = mgpt_rewind(session, same, NULL) == 0 && mgpt_feed(session, text, d->n_run, NULL) == 0;
    interrupt_stops_end(session);
    return ok ? mgpt_logits(session) : NULL;
}

/* How sure the draft is of a token. */
static unsigned char level_of(const float *logits, size_t n, int32_t token)
{
    double level = exp(mgpt_logprob(logits, n, token)) * DRAFT_LEVELS;
    return level < DRAFT_LEVELS ? (unsigned char)level : DRAFT_LEVELS - 1;
}

/* Draws a token, and adds it if it pays for its row or is to be tried. Returns 1 if it was added. */
static int draft_draw(struct draft *d, const float *logits, mgpt_sampler *sampler, int tries,
                      int32_t *token)
{
    size_t n_choices = engine_n_choices(&d->engine);
    sampler->tokens = d->history;
    sampler->n_tokens = arr_len(d->history);
    *token = mgpt_sample(sampler, logits, n_choices);
    if (sampler->edit)
        arr_put(d->history, *token);
    d->chain.cost += d->costs.draw;
    if (mgpt_is_end(d->engine.model, *token))
        return 0;
    unsigned char level = level_of(logits, n_choices, *token);
    struct odds *odds = &d->odds[level];
    double p = odds_of(odds);
    if (!tries && !chain_pays(&d->chain, p, d->costs.row) && odds->passed_over++ < SHORT_REST) {
        odds_learn(&d->all, 1, p);
        return 0;
    }
    chain_take(&d->chain, p, d->costs.row);
    d->level[d->n++] = level;
    return 1;
}

static int draft_pays(const struct draft *d)
{
    return chain_pays(&d->chain, odds_of(&d->all), d->costs.row + d->costs.draw);
}

/* 1 if the draft has rested long enough to try a token; the next rest is longer. */
static int draft_tries(struct draft *d)
{
    if (d->all.passed_over++ < d->rest)
        return 0;
    d->all.passed_over = 0;
    d->rest = 2 * d->rest < LONG_REST ? 2 * d->rest : LONG_REST;
    return 1;
}

/* Edits see the text and what is proposed after it. 0: out of memory. */
static int begin_draft_history(struct draft *d, const int32_t *text, size_t n)
{
    _Static_assert((int)DRAFT_MOST <= (int)CHOOSER_AHEAD, "edits have room for it");
    if (!arr_reserve(d->history, n + DRAFT_MOST))
        return 0;
    arr_set_len(d->history, n);
    memcpy(d->history, text, n * sizeof *text);
    return 1;
}

size_t draft_propose(struct draft *d, const int32_t *text, size_t n, const mgpt_sampler *sampler,
                     int32_t *proposal, size_t cap)
{
    struct rng_python python;
    mgpt_sampler own = *sampler;
    d->chain = CHAIN_START;
    d->n = d->n_run = 0;
    int tries = !draft_pays(d);
    if (cap == 0 || (tries && !draft_tries(d)))
        return 0;
    if (own.uniform) {
        python = *(const struct rng_python *)own.uniform_user;
        own.uniform_user = &python;
    }
    if (own.edit && !begin_draft_history(d, text, n))
        own.edit = NULL;
    const float *logits = draft_follow(d, text, n, tries);
    while (logits && draft_draw(d, logits, &own, tries, &proposal[d->n]) && d->n < cap &&
           draft_pays(d)) {
        logits = mgpt_step(d->engine.session, proposal[d->n - 1], NULL);
        d->n_run++;
    }
    return d->n;
}

void draft_learn(struct draft *d, size_t right)
{
    for (size_t i = 0; i < d->n && i <= right; i++) {
        odds_learn(&d->odds[d->level[i]], 1, i < right);
        odds_learn(&d->all, 1, i < right);
    }
    if (right > 0)
        d->rest = SHORT_REST;
}
