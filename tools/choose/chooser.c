/* Draws with edits. See chooser.h. */
#include "choose/chooser.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/splitmix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void forget_states(struct chooser *c)
{
    for (size_t i = 0; i < CHOOSER_TEXTS; i++)
        if (c->known[i])
            arr_set_len(c->known[i], 0);
}

static void close_regex(struct chooser *c)
{
    if (c->regex && !c->is_lent)
        constraint_close(c->regex);
    if (!c->is_lent)
        free(c->regex);
    c->regex = NULL;
    c->is_lent = 0;
    forget_states(c);
}

/* The automaton of the rules' pattern, if that is another one than before. */
static int open_regex(struct chooser *c, mgpt_error *err)
{
    const struct edit_rules *r = c->rules;
    int is_same = c->regex && c->pattern == r->pattern.states && c->regex->trie == r->trie;
    if (is_same && edit_rules_is_on(r, EDIT_REGEX))
        return MGPT_OK;
    close_regex(c);
    if (!edit_rules_is_on(r, EDIT_REGEX))
        return MGPT_OK;
    c->regex = mem_new(1, sizeof *c->regex);
    c->pattern = r->pattern.states;
    return c->regex ? constraint_open(c->regex, &r->pattern, r->trie, r->model, err)
                    : err_memory(err, "the expression", sizeof *c->regex);
}

int chooser_open(struct chooser *c, const struct edit_rules *rules, mgpt_error *err)
{
    size_t n = rules->n_logits;
    c->rules = rules;
    c->is_on = 0;
    for (int id = 0; id < EDIT_N; id++)
        c->on[id] = (uint8_t)edit_rules_is_on(rules, (enum edit_id)id);
    if (!edit_rules_any(rules))
        return MGPT_OK;
    if (!c->copy)
        c->copy = mem_new(n, sizeof *c->copy);
    if (!c->count)
        c->count = mem_new(n, sizeof *c->count);
    if (!c->ranked && c->on[EDIT_TYPICAL])
        c->ranked = mem_new(n, sizeof *c->ranked);
    int status = open_regex(c, err);
    if (status < 0)
        return status;
    c->is_on = c->copy && c->count && (c->ranked || !c->on[EDIT_TYPICAL]);
    return c->is_on ? MGPT_OK : err_memory(err, "the edits", n * sizeof *c->ranked);
}

void chooser_share(struct chooser *c, const struct chooser *from)
{
    c->regex = from->regex;
    c->pattern = from->pattern;
    c->is_lent = 1;
}

void chooser_close(struct chooser *c)
{
    close_regex(c);
    free(c->copy);
    free(c->count);
    free(c->ranked);
    arr_free(c->repeats);
    arr_free(c->mus);
    for (size_t i = 0; i < CHOOSER_TEXTS; i++)
        arr_free(c->known[i]);
    arr_free(c->banned);
    *c = (struct chooser){.is_on = 0};
}

void chooser_begin(struct chooser *c, size_t begin, double mu)
{
    c->begin = begin;
    c->mu = mu != 0 || !c->rules ? mu : 2 * c->rules->value[EDIT_MIROSTAT][1];
    c->starts = -1;
    forget_states(c);
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

/* 1 if no text is before the drawn one. */
static int text_starts(const struct chooser *c, const int32_t *tokens)
{
    size_t n = 0;
    for (size_t i = 0; i < c->begin && n == 0; i++)
        mgpt_piece(c->rules->model, tokens[i], &n);
    return n == 0;
}

/* The state of the text drawn so far; *starts: it has no bytes yet, and none are before it. The states of the
 * text before in this history are kept: most texts begin with it, or with a part of it. */
static int32_t regex_state_of(struct chooser *c, const int32_t *tokens, size_t n_tokens,
                              int *starts)
{
    size_t begin = c->begin < n_tokens ? c->begin : n_tokens, n = n_tokens - begin, same = 0;
    struct known_state **known = &c->known[(uintptr_t)tokens / 64 % CHOOSER_TEXTS];
    size_t n_known = arr_len(*known) < n ? arr_len(*known) : n;
    if (c->starts < 0)
        c->starts = text_starts(c, tokens);
    while (same < n_known && (*known)[same].token == tokens[begin + same])
        same++;
    int32_t state = same > 0 ? (*known)[same - 1].state : 0;
    int keeps = n == 0 || arr_reserve(*known, n);
    for (size_t i = same; i < n; i++) {
        int32_t token = tokens[begin + i];
        state = state < 0 ? state : constraint_step(c->regex, state, token, c->starts && i == 0);
        if (keeps)
            (*known)[i] = (struct known_state){token, state};
    }
    if (keeps && *known)
        arr_set_len(*known, n);
    *starts = c->starts && n == 0;
    return state;
}

int chooser_is_complete(struct chooser *c, const int32_t *tokens, size_t n_tokens)
{
    int starts;
    if (!c->is_on || !c->regex)
        return 0;
    int32_t state = regex_state_of(c, tokens, n_tokens, &starts);
    return constraint_is_complete(c->regex, state, starts);
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
    if (r->heal)
        heal_edit(r->heal, logits, n, tokens, n_tokens);
    edit_bias(c, logits, n);
    edit_banned(c, logits, n, n_tokens);
    if (c->regex) {
        int starts;
        int32_t state = regex_state_of(c, tokens, n_tokens, &starts);
        constraint_edit(c->regex, state, starts, logits, n);
    }
    c->is_dead = none_left(logits, n);
    edit_penalties(c, logits, n, tokens, n_tokens);
    if (c->on[EDIT_DRY] && n_tokens > 0)
        edit_dry(c, logits, n, tokens, n_tokens);
    if (c->on[EDIT_NSIGMA])
        edit_nsigma(c, logits, n);
    if (c->on[EDIT_TYPICAL])
        edit_typical(c, logits, n);
    if (c->on[EDIT_XTC])
        edit_xtc(c, logits, n);
    if (c->on[EDIT_MIROSTAT])
        edit_mirostat(c, logits, n);
}

int chooser_prepare(struct chooser *c, mgpt_sampler *sampler, const int32_t *tokens,
                    size_t n_tokens, mgpt_error *err)
{
    sampler->edit = NULL;
    if (!c->is_on)
        return MGPT_OK;
    if (c->on[EDIT_DRY] && !arr_reserve(c->repeats, n_tokens + CHOOSER_AHEAD))
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
    return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET, "no token is left to draw at position %zu: %s",
                   position,
                   !c->regex          ? "all are banned"
                   : c->regex->failed ? "the regex needs too many states"
                                      : "the regex and the bans leave none");
}

/* A number in [0, 1), as mgpt_sample takes it. */
static double next_number(mgpt_sampler *s)
{
    return s->uniform ? s->uniform(s->uniform_user) : splitmix_real(&s->rng);
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
    int steers = c->on[EDIT_MIROSTAT];
    size_t place = n_tokens > c->begin ? n_tokens - c->begin : 0;
    if (steers && !arr_reserve(c->mus, place + 1))
        return err_memory(err, "the edits", (place + 1) * sizeof *c->mus);
    if (c->on[EDIT_XTC])
        c->drops = next_number(sampler) < c->rules->value[EDIT_XTC][0];
    if (steers) {
        if (place < arr_len(c->mus)) /* the text went back */
            c->mu = c->mus[place];
        arr_set_len(c->mus, place + 1);
        c->mus[place] = c->mu;
    }
    int32_t token = mgpt_sample(sampler, logits, n);
    if (chooser_check(c, n_tokens, err) < 0)
        return err->status;
    if (steers)
        learn_surprise(c, sampler, logits, n, token);
    return token;
}
