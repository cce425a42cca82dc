/* Draws with edits. See chooser.h. */
#include "choose/chooser.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int chooser_open(struct chooser *c, const struct edit_rules *rules, mgpt_error *err)
{
    size_t n = rules->n_logits;
    c->rules = rules;
    c->is_on = 0;
    if (!edit_rules_any(rules))
        return MGPT_OK;
    if (!c->copy)
        c->copy = mem_new(n, sizeof *c->copy);
    if (!c->count)
        c->count = mem_new(n, sizeof *c->count);
    if (!c->ranked && edit_rules_is_on(rules, EDIT_TYPICAL))
        c->ranked = mem_new(n, sizeof *c->ranked);
    c->is_on = c->copy && c->count && (c->ranked || !edit_rules_is_on(rules, EDIT_TYPICAL));
    return c->is_on ? MGPT_OK : err_memory(err, "the edits", n * sizeof *c->ranked);
}

void chooser_close(struct chooser *c)
{
    free(c->copy);
    free(c->count);
    free(c->ranked);
    arr_free(c->repeats);
    arr_free(c->mus);
    arr_free(c->banned);
    *c = (struct chooser){.is_on = 0};
}

void chooser_begin(struct chooser *c, size_t begin, double mu)
{
    c->begin = begin;
    c->mu = mu != 0 || !c->rules ? mu : 2 * c->rules->value[EDIT_MIROSTAT][1];
    if (c->mus)
        arr_set_len(c->mus, 0);
    if (c->banned)
        arr_set_len(c->banned, 0);
}

/* ---- drawing ---- */

static void edit_bias(const struct chooser *c, float *logits, size_t n)
{
    const struct edit_text *biases = c->rules->texts[EDIT_BIAS];
    for (size_t i = 0; i < arr_len(biases); i++)
        if ((size_t)biases[i].token < n)
            logits[biases[i].token] += biases[i].add;
}

static void edit_banned(const struct chooser *c, float *logits, size_t n, size_t at)
{
    for (size_t i = arr_len(c->banned); i > 0 && c->banned[i - 1].at >= at; i--)
        if (c->banned[i - 1].at == at && (size_t)c->banned[i - 1].token < n)
            logits[c->banned[i - 1].token] = -INFINITY;
}

/* 1 if no token can be drawn. */
static int none_left(const float *logits, size_t n)
{
    size_t i = 0;
    while (i < n && !(logits[i] > -INFINITY))
        i++;
    return i == n;
}

void chooser_edit(float *logits, size_t n, const int32_t *tokens, size_t n_tokens, void *user)
{
    struct chooser *c = user;
    const struct edit_rules *r = c->rules;
    if (n > r->n_tokens)
        n = r->n_tokens;
    edit_bias(c, logits, n);
    edit_banned(c, logits, n, n_tokens);
    c->is_dead = none_left(logits, n);
    edit_penalties(c, logits, n, tokens, n_tokens);
    if (edit_rules_is_on(r, EDIT_DRY) && n_tokens > 0)
        edit_dry(c, logits, n, tokens, n_tokens);
    edit_nsigma(c, logits, n);
    edit_typical(c, logits, n);
    if (edit_rules_is_on(r, EDIT_XTC))
        edit_xtc(c, logits, n);
    if (edit_rules_is_on(r, EDIT_MIROSTAT))
        edit_mirostat(c, logits, n);
}

int chooser_prepare(struct chooser *c, mgpt_sampler *sampler, const int32_t *tokens,
                    size_t n_tokens, mgpt_error *err)
{
    sampler->edit = NULL;
    if (!c->is_on)
        return MGPT_OK;
    if (edit_rules_is_on(c->rules, EDIT_DRY) && !arr_reserve(c->repeats, n_tokens + CHOOSER_AHEAD))
        return err_memory(err, "the edits", n_tokens * sizeof *c->repeats);
    sampler->edit = chooser_edit;
    sampler->edit_user = c;
    sampler->copy = c->copy;
    sampler->tokens = tokens;
    sampler->n_tokens = n_tokens;
    c->temperature = (double)sampler->temperature;
    return MGPT_OK;
}

int chooser_check(const struct chooser *c, size_t position, mgpt_error *err)
{
    if (!c->is_on || !c->is_dead)
        return MGPT_OK;
    return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET,
                   "no token is left to draw at position %zu: all are banned", position);
}

/* A number in [0, 1), as mgpt_sample takes it. */
static double next_number(mgpt_sampler *s)
{
    if (s->uniform)
        return s->uniform(s->uniform_user);
    uint64_t z = s->rng += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* The difference between the surprise of what was drawn, in bits, and TAU moves mu. */
static void learn_surprise(struct chooser *c, const mgpt_sampler *sampler, const float *logits,
                           size_t n, int32_t token)
{
    const double *v = c->rules->value[EDIT_MIROSTAT];
    double p = mgpt_draw_prob(sampler, logits, n, token);
    c->mu -= v[2] * (-log2(p) - v[1]);
}

int32_t chooser_draw(struct chooser *c, mgpt_sampler *sampler, const float *logits, size_t n,
                     const int32_t *tokens, size_t n_tokens, mgpt_error *err)
{
    if (chooser_prepare(c, sampler, tokens, n_tokens, err) < 0)
        return MGPT_EMEM;
    if (!c->is_on)
        return mgpt_sample(sampler, logits, n);
    int steers = edit_rules_is_on(c->rules, EDIT_MIROSTAT);
    size_t place = n_tokens > c->begin ? n_tokens - c->begin : 0;
    if (steers && (!arr_reserve(c->mus, place + 1)))
        return err_memory(err, "the edits", (place + 1) * sizeof *c->mus);
    if (edit_rules_is_on(c->rules, EDIT_XTC))
        c->drops = next_number(sampler) < c->rules->value[EDIT_XTC][0];
    if (steers && place < arr_len(c->mus)) /* the text went back */
        c->mu = c->mus[place];
    if (steers)
        arr_set_len(c->mus, place + 1);
    if (steers)
        c->mus[place] = c->mu;
    int32_t token = mgpt_sample(sampler, logits, n);
    if (chooser_check(c, n_tokens, err) < 0)
        return err->status;
    if (steers)
        learn_surprise(c, sampler, logits, n, token);
    return token;
}
