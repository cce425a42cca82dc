/* Tokens that a pattern allows. See regex.h. */
#include "choose/regex.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXPLORED_STATES = 4000 };

/* ---- the vocabulary in order ---- */

struct piece {
    const char *bytes;
    size_t n;
    int32_t token;
};

static int compare_pieces(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order != 0)
        return order;
    return x->n != y->n ? (x->n < y->n ? -1 : 1) : (x->token > y->token) - (x->token < y->token);
}

static size_t common_bytes(const struct piece *a, const struct piece *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

int token_order_open(struct token_order *o, const mgpt_model *model, mgpt_error *err)
{
    mgpt_info info = {.n_tokens = 0};
    size_t n = 0;
    mgpt_get_info(model, &info, NULL);
    struct piece *pieces = mem_new((size_t)info.n_tokens, sizeof *pieces);
    int ok = pieces != NULL;
    for (int32_t i = 0; ok && i < info.n_tokens; i++) {
        struct piece p = {.token = i};
        p.bytes = mgpt_piece(model, i, &p.n);
        if (mgpt_is_end(model, i))
            ok = arr_push(o->ends, i);
        else if (p.n > 0)
            pieces[n++] = p;
    }
    if (ok && n > 1)
        qsort(pieces, n, sizeof *pieces, compare_pieces);
    ok = ok && arr_reserve(o->tokens, n + 1) && arr_reserve(o->common, n + 1);
    for (size_t i = 0; ok && i < n; i++) {
        arr_put(o->tokens, pieces[i].token);
        arr_put(o->common, i ? (uint32_t)common_bytes(&pieces[i - 1], &pieces[i]) : 0);
        o->longest = pieces[i].n > o->longest ? pieces[i].n : o->longest;
    }
    free(pieces);
    return ok ? MGPT_OK : err_memory(err, "the vocabulary", (size_t)info.n_tokens * sizeof *pieces);
}

void token_order_free(struct token_order *o)
{
    arr_free(o->tokens);
    arr_free(o->common);
    arr_free(o->ends);
    *o = (struct token_order){.longest = 0};
}

/* ---- states ---- */

static int32_t walk_bytes(struct regex *x, int32_t state, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && state >= 0; i++)
        state = automaton_byte(&x->automaton, state, (unsigned char)bytes[i]);
    x->failed |= state < -1;
    return state;
}

/* 1 if the stream drops the space that a text begins with (mgpt_stream). */
static int drops_space(const mgpt_model *model, int32_t token)
{
    mgpt_stream first = {.started = 0}, later = {.started = 1};
    return mgpt_stream_put(&first, model, token, NULL, 0) + 1 ==
           mgpt_stream_put(&later, model, token, NULL, 0);
}

/* The state after one token. */
int32_t constraint_step(struct regex *x, int32_t state, int32_t token, int starts)
{
    size_t n;
    const char *bytes = mgpt_piece(x->model, token, &n);
    size_t skip = starts && n > 0 && bytes[0] == ' ' && drops_space(x->model, token);
    return walk_bytes(x, state, bytes + skip, n - skip);
}

static int is_live(const struct regex *x, int32_t state)
{
    return state >= 0 && (!x->live || ((size_t)state < arr_len(x->live) && x->live[state]));
}

static void allow(struct regex *x, struct allowed *to, int32_t token, int32_t state)
{
    if (!is_live(x, state))
        return;
    to->bits[token / 64] |= UINT64_C(1) << (token % 64);
    to->n++;
}

/* Tokens one after the other: a beginning that is common is walked once. */
static void allow_in_order(struct regex *x, struct allowed *to, int32_t state)
{
    const struct token_order *o = x->order;
    size_t known = 0, dead_at = SIZE_MAX;
    x->path[0] = state;
    for (size_t k = 0; k < arr_len(o->tokens); k++) {
        size_t n, common = o->common[k];
        if (dead_at < common)
            continue;
        const char *bytes = mgpt_piece(x->model, o->tokens[k], &n);
        known = known < common ? known : common;
        dead_at = SIZE_MAX;
        while (known < n && dead_at == SIZE_MAX) {
            int32_t next = walk_bytes(x, x->path[known], bytes + known, 1);
            if (next < 0)
                dead_at = known;
            else
                x->path[++known] = next;
        }
        if (dead_at == SIZE_MAX)
            allow(x, to, o->tokens[k], x->path[n]);
    }
}

/* What a state allows; NULL when out of memory. */
static const struct allowed *allowed_at(struct regex *x, int32_t state, int starts)
{
    struct allowed found = {mem_new((x->n_tokens + 63) / 64, sizeof *found.bits), 0};
    struct allowed *kept = starts ? &x->first : NULL;
    size_t n = arr_len(x->allowed);
    if (!starts && n <= (size_t)state) {
        if (!arr_reserve(x->allowed, (size_t)state + 1)) {
            free(found.bits);
            x->failed = 1;
            return NULL;
        }
        for (; n <= (size_t)state; n++)
            arr_put(x->allowed, (struct allowed){.n = 0});
    }
    kept = starts ? kept : &x->allowed[state];
    if (kept->bits || !found.bits) {
        free(found.bits);
        x->failed |= !kept->bits;
        return kept->bits ? kept : NULL;
    }
    if (!starts)
        allow_in_order(x, &found, state);
    for (size_t k = 0; starts && k < arr_len(x->order->tokens); k++)
        allow(x, &found, x->order->tokens[k], constraint_step(x, 0, x->order->tokens[k], 1));
    *kept = found;
    return kept;
}

/* ---- is there always a way to the end? ---- */

/* 1 if each byte that the pattern reads is a token: then all states lead to a match. */
static int has_all_bytes(const struct regex *x, const struct pattern *p)
{
    uint8_t single[256] = {0};
    for (size_t k = 0; k < arr_len(x->order->tokens); k++) {
        size_t n;
        const char *bytes = mgpt_piece(x->model, x->order->tokens[k], &n);
        if (n == 1)
            single[(unsigned char)bytes[0]] = 1;
    }
    for (size_t i = 0; i < arr_len(p->states); i++)
        for (int b = p->states[i].low; b >= 0 && b <= p->states[i].high; b++)
            if (!single[b])
                return 0;
    return 1;
}

/* The states that tokens reach from state 0, and which of them lead to a match. MGPT_OK or the status. */
static int find_live(struct regex *x, mgpt_error *err)
{
    struct token_step {
        int32_t from, to;
    } *steps = NULL;
    int32_t *reached = NULL;
    uint8_t *seen = mem_new(AUTOMATON_STATES, 1), *live = NULL;
    int ok = seen && arr_push(reached, 0), changed = 1;
    if (ok)
        seen[0] = 1;
    for (size_t i = 0; ok && i < arr_len(reached) && i < EXPLORED_STATES && !x->failed; i++)
        for (size_t k = 0; ok && k < arr_len(x->order->tokens); k++)
            for (int starts = i == 0; ok && starts >= 0; starts--) {
                int32_t to = constraint_step(x, reached[i], x->order->tokens[k], starts);
                struct token_step s = {reached[i], to};
                size_t n = arr_len(steps);
                if (to < 0 || (n > 0 && memcmp(&steps[n - 1], &s, sizeof s) == 0))
                    continue;
                ok = arr_push(steps, s) && (seen[to] || arr_push(reached, to));
                seen[to] = 1;
            }
    int fits = arr_len(reached) <= EXPLORED_STATES && !x->failed;
    ok = ok && arr_reserve(live, arr_len(x->automaton.states));
    if (ok)
        arr_set_len(live, arr_len(x->automaton.states));
    for (size_t i = 0; ok && i < arr_len(live); i++)
        live[i] = (uint8_t)x->automaton.states[i].accepts;
    while (ok && changed) {
        changed = 0;
        for (size_t i = arr_len(steps); i > 0; i--)
            if (live[steps[i - 1].to] && !live[steps[i - 1].from])
                live[steps[i - 1].from] = (uint8_t)(changed = 1);
    }
    arr_free(steps);
    arr_free(reached);
    free(seen);
    x->live = live;
    if (!ok)
        return err_memory(err, "the expression", AUTOMATON_STATES);
    return fits ? MGPT_OK
                : err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                          "the expression has more than %d states for this vocabulary",
                          EXPLORED_STATES);
}

int constraint_open(struct regex *x, const struct pattern *pattern, const struct token_order *order,
                    const mgpt_model *model, mgpt_error *err)
{
    mgpt_info info = {.n_tokens = 0};
    mgpt_get_info(model, &info, NULL);
    x->model = model;
    x->order = order;
    x->n_tokens = (size_t)info.n_tokens;
    x->path = mem_new(order->longest + 1, sizeof *x->path);
    if (!x->path)
        return err_memory(err, "the expression", order->longest * sizeof *x->path);
    int status = automaton_open(&x->automaton, pattern, err);
    if (status == MGPT_OK && !has_all_bytes(x, pattern))
        status = find_live(x, err);
    if (status == MGPT_OK && !is_live(x, 0))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "no text of this model's vocabulary matches the expression");
    return status;
}

void constraint_close(struct regex *x)
{
    for (size_t i = 0; i < arr_len(x->allowed); i++)
        free(x->allowed[i].bits);
    arr_free(x->allowed);
    free(x->first.bits);
    arr_free(x->live);
    free(x->path);
    automaton_close(&x->automaton);
    *x = (struct regex){.failed = 0};
}

/* ---- use ---- */

void constraint_edit(struct regex *x, int32_t state, int starts, float *logits, size_t n)
{
    const struct allowed *a = state >= 0 ? allowed_at(x, state, starts) : NULL;
    const int32_t *ends = x->order->ends;
    int may_end = state < 0 || x->automaton.states[state].accepts;
    float kept[16];
    size_t n_ends = arr_len(ends) < 16 ? arr_len(ends) : 16;
    for (size_t i = 0; i < n_ends; i++)
        kept[i] = (size_t)ends[i] < n ? logits[ends[i]] : -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (!a || i >= x->n_tokens || !(a->bits[i / 64] >> (i % 64) & 1))
            logits[i] = -INFINITY;
    for (size_t i = 0; may_end && i < n_ends; i++)
        if ((size_t)ends[i] < n)
            logits[ends[i]] = kept[i];
}

int constraint_is_complete(struct regex *x, int32_t state, int starts)
{
    const struct allowed *a = NULL;
    if (state >= 0 && x->automaton.states[state].accepts)
        a = allowed_at(x, state, starts);
    return a && a->n == 0;
}
