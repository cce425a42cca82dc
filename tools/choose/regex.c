/* Tokens that a pattern allows. See regex.h. */
#include "choose/regex.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXPLORED_STATES = 4000, KEPT_BYTES = 256 << 20, LIVE_WORK = 300000000 };

/* ---- the vocabulary in order ---- */

struct sorted_piece {
    struct token_piece p;
    int32_t token;
};

static int compare_pieces(const void *a, const void *b)
{
    const struct sorted_piece *s = a, *t = b;
    const struct token_piece *x = &s->p, *y = &t->p;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order != 0)
        return order;
    return x->n != y->n ? (x->n < y->n ? -1 : 1) : (s->token > t->token) - (s->token < t->token);
}

static size_t common_bytes(const struct token_piece *a, const struct token_piece *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Adds the nodes of a token's bytes that are not those of the token before. open: the nodes of that token. */
static int add_nodes(struct token_trie *t, uint32_t *open, const struct token_piece *before,
                     const struct token_piece *p)
{
    size_t common = before ? common_bytes(before, p) : 0;
    for (size_t i = common; before && i < before->n; i++)
        t->nodes[open[i]].skip = (uint32_t)arr_len(t->nodes);
    if (arr_len(t->nodes) + p->n >= UINT32_MAX || !arr_reserve(t->nodes, arr_len(t->nodes) + p->n))
        return 0;
    for (size_t i = common; i < p->n; i++) {
        struct token_node node = {.first = (uint32_t)arr_len(t->tokens),
                                  .depth = (uint32_t)i + 1,
                                  .byte = (unsigned char)p->bytes[i]};
        open[i] = (uint32_t)arr_len(t->nodes);
        arr_put(t->nodes, node);
    }
    return 1;
}

/* Sorts the tokens with bytes; notes pieces and end tokens. Returns how many have bytes, or MGPT_EMEM. */
static int64_t sort_pieces(struct token_trie *t, const mgpt_model *model,
                           struct sorted_piece *sorted, int32_t n_tokens)
{
    int64_t n = 0;
    for (int32_t i = 0; i < n_tokens; i++) {
        struct token_piece *p = &t->pieces[i];
        p->bytes = mgpt_piece(model, i, &p->n);
        t->longest = p->n > t->longest ? p->n : t->longest;
        if (mgpt_is_end(model, i) && !arr_push(t->ends, i))
            return MGPT_EMEM;
        if (!mgpt_is_end(model, i) && p->n > 0)
            sorted[n++] = (struct sorted_piece){*p, i};
    }
    if (n > 1)
        qsort(sorted, (size_t)n, sizeof *sorted, compare_pieces);
    return n;
}

void token_trie_free(struct token_trie *t)
{
    arr_free(t->nodes);
    arr_free(t->tokens);
    arr_free(t->ends);
    free(t->pieces);
    *t = (struct token_trie){.longest = 0};
}

int token_trie_open(struct token_trie *t, const mgpt_model *model, mgpt_error *err)
{
    mgpt_info info = {.n_tokens = 0};
    mgpt_get_info(model, &info, NULL);
    struct sorted_piece *sorted = mem_new((size_t)info.n_tokens, sizeof *sorted);
    t->pieces = mem_new((size_t)info.n_tokens, sizeof *t->pieces);
    int64_t n = sorted && t->pieces ? sort_pieces(t, model, sorted, info.n_tokens) : MGPT_EMEM;
    uint32_t *open = mem_new(t->longest, sizeof *open);
    int ok = open && n >= 0 && arr_reserve(t->tokens, (size_t)n + 1);
    for (int64_t i = 0; ok && i < n; i++) {
        ok = add_nodes(t, open, i > 0 ? &sorted[i - 1].p : NULL, &sorted[i].p);
        arr_put(t->tokens, sorted[i].token);
    }
    for (size_t i = 0; ok && n > 0 && i < sorted[n - 1].p.n; i++)
        t->nodes[open[i]].skip = (uint32_t)arr_len(t->nodes);
    ok = ok && arr_push(t->nodes, (struct token_node){.first = (uint32_t)n});
    free(sorted);
    free(open);
    if (ok)
        return MGPT_OK;
    token_trie_free(t);
    return err_memory(err, "the vocabulary", (size_t)info.n_tokens * sizeof *sorted);
}

/* ---- states ---- */

/* 1 if a token begins with a space that the stream drops at the begin of a text (mgpt_stream). */
static int drops_first(const mgpt_model *model, int32_t token)
{
    size_t n;
    mgpt_stream first = {.started = 0}, later = {.started = 1};
    const char *bytes = mgpt_piece(model, token, &n);
    return n > 0 && bytes[0] == ' ' &&
           mgpt_stream_put(&first, model, token, NULL, 0) + 1 ==
               mgpt_stream_put(&later, model, token, NULL, 0);
}

int32_t constraint_step(struct regex *x, int32_t state, int32_t token, int starts)
{
    if (token < 0 || (size_t)token >= x->n_tokens)
        return state;
    const struct token_piece *p = &x->trie->pieces[token];
    size_t skip = starts && drops_first(x->model, token);
    for (size_t i = skip; i < p->n && state >= 0; i++)
        state = automaton_next(&x->automaton, state, (unsigned char)p->bytes[i]);
    x->failed |= state < AUTOMATON_DEAD;
    return state;
}

static int is_live(const struct regex *x, int32_t state)
{
    return state >= 0 && (!x->live || ((size_t)state < arr_len(x->live) && x->live[state]));
}

typedef void visit_token(struct regex *x, int32_t token, int32_t state, void *to);

/* Visits each token that no text after a state forbids, with the state after it. */
static void walk_trie(struct regex *x, int32_t state, visit_token *visit, void *to)
{
    const struct token_trie *t = x->trie;
    x->path[0] = state;
    for (size_t i = 0; i + 1 < arr_len(t->nodes);) {
        const struct token_node *node = &t->nodes[i];
        int32_t next = automaton_next(&x->automaton, x->path[node->depth - 1], node->byte);
        x->failed |= next < AUTOMATON_DEAD;
        x->path[node->depth] = next;
        for (uint32_t k = node->first; next >= 0 && k < node[1].first; k++)
            visit(x, t->tokens[k], next, to);
        i = next >= 0 ? i + 1 : node->skip;
    }
}

static void allow(struct regex *x, int32_t token, int32_t state, void *user)
{
    struct allowed *to = user;
    uint64_t bit = UINT64_C(1) << (token % 64), *word = &to->bits[token / 64];
    to->n += is_live(x, state) && !(*word & bit);
    *word |= is_live(x, state) ? bit : 0;
}

static void allow_ends(const struct regex *x, struct allowed *to)
{
    for (size_t i = 0; i < arr_len(x->trie->ends); i++)
        to->bits[x->trie->ends[i] / 64] |= UINT64_C(1) << (x->trie->ends[i] % 64);
}

static int new_allowed(struct regex *x, struct allowed *to)
{
    *to = (struct allowed){mem_new((x->n_tokens + 63) / 64, sizeof *to->bits), 0};
    x->failed |= !to->bits;
    return to->bits != NULL;
}

/* Room for one more state among those that are kept: with too many, all are forgotten. */
static int room_for_state(struct regex *x, int32_t state)
{
    size_t n = arr_len(x->allowed), most = KEPT_BYTES / (x->n_tokens / 8 + 64);
    for (size_t i = 0; x->n_kept > most && i < n; i++) {
        free(x->allowed[i].bits);
        x->allowed[i].bits = NULL;
    }
    x->n_kept = x->n_kept > most ? 1 : x->n_kept + 1;
    if (!arr_reserve(x->allowed, (size_t)state + 1)) {
        x->failed = 1;
        return 0;
    }
    for (; n <= (size_t)state; n++)
        arr_put(x->allowed, (struct allowed){.n = 0});
    return 1;
}

/* What a state allows; NULL when out of memory. */
static const struct allowed *allowed_at(struct regex *x, int32_t state)
{
    struct allowed found;
    if ((size_t)state < arr_len(x->allowed) && x->allowed[state].bits)
        return &x->allowed[state];
    if (!room_for_state(x, state) || !new_allowed(x, &found))
        return NULL;
    walk_trie(x, state, allow, &found);
    if (x->automaton.states[state].accepts)
        allow_ends(x, &found);
    x->allowed[state] = found;
    return &x->allowed[state];
}

/* Returns the tokens that are allowed where a text begins. They are those of state 0, but for tokens whose space is dropped
 * there. NULL when out of memory. */
static const struct allowed *allowed_first(struct regex *x)
{
    const struct allowed *later = x->first.bits ? NULL : allowed_at(x, 0);
    if (x->first.bits || !later || !new_allowed(x, &x->first))
        return x->first.bits ? &x->first : NULL;
    memcpy(x->first.bits, later->bits, (x->n_tokens + 63) / 64 * sizeof *later->bits);
    x->first.n = later->n;
    for (size_t k = 0; k < arr_len(x->trie->tokens); k++) {
        int32_t token = x->trie->tokens[k];
        if (!drops_first(x->model, token))
            continue;
        uint64_t bit = UINT64_C(1) << (token % 64), *word = &x->first.bits[token / 64];
        x->first.n -= (*word & bit) != 0;
        *word &= ~bit;
        allow(x, token, constraint_step(x, 0, token, 1), &x->first);
    }
    return &x->first;
}

/* ---- is there always a way to the end? ---- */

/* 1 if each byte that the pattern reads is a token: then all states lead to a match. */
static int has_all_bytes(const struct regex *x, const struct pattern *p)
{
    const struct token_trie *t = x->trie;
    uint8_t single[256] = {0};
    for (size_t i = 0; i + 1 < arr_len(t->nodes); i = t->nodes[i].skip)
        single[t->nodes[i].byte] = t->nodes[i + 1].first > t->nodes[i].first;
    for (size_t i = 0; i < arr_len(p->states); i++)
        for (int b = p->states[i].low; b >= 0 && b <= p->states[i].high; b++)
            if (!single[b])
                return 0;
    return 1;
}

/* The states that tokens reach from state 0, and the steps between them. */
struct live_search {
    struct token_step {
        int32_t from, to;
    } * steps;        /* stb_ds array */
    int32_t *reached; /* stb_ds array */
    int32_t *last; /* [AUTOMATON_STATES] the last state with a step to it, and 1; 0: not reached */
    int32_t from;
    int failed;
};

static void note_step(struct regex *x, int32_t token, int32_t state, void *user)
{
    struct live_search *s = user;
    (void)x;
    (void)token;
    if (state < 0 || s->last[state] == s->from + 1)
        return;
    int is_new = s->last[state] == 0;
    s->last[state] = s->from + 1;
    if (!arr_push(s->steps, ((struct token_step){s->from, state})) ||
        (is_new && !arr_push(s->reached, state)))
        s->failed = 1;
}

static void find_steps(struct regex *x, struct live_search *s)
{
    s->failed = !arr_push(s->reached, 0);
    if (!s->failed)
        s->last[0] = -1;
    for (size_t k = 0; !s->failed && k < arr_len(x->trie->tokens); k++)
        if (drops_first(x->model, x->trie->tokens[k]))
            note_step(x, 0, constraint_step(x, 0, x->trie->tokens[k], 1), s);
    for (size_t i = 0; !s->failed && i < arr_len(s->reached) && i < EXPLORED_STATES && !x->failed;
         i++) {
        s->from = s->reached[i];
        walk_trie(x, s->from, note_step, s);
        x->failed |= x->automaton.work > LIVE_WORK;
    }
}

/* Which of the states lead to a match. MGPT_OK or the status. */
static int find_live(struct regex *x, mgpt_error *err)
{
    struct live_search s = {.last = mem_new(AUTOMATON_STATES, sizeof *s.last)};
    uint8_t *live = NULL;
    int ok = s.last != NULL, changed = 1;
    if (ok)
        find_steps(x, &s);
    int fits = arr_len(s.reached) <= EXPLORED_STATES && !x->failed;
    ok = ok && !s.failed && arr_reserve(live, arr_len(x->automaton.states));
    if (ok)
        arr_set_len(live, arr_len(x->automaton.states));
    for (size_t i = 0; ok && i < arr_len(live); i++)
        live[i] = (uint8_t)x->automaton.states[i].accepts;
    while (ok && changed) {
        changed = 0;
        for (size_t i = arr_len(s.steps); i > 0; i--)
            if (live[s.steps[i - 1].to] && !live[s.steps[i - 1].from])
                live[s.steps[i - 1].from] = (uint8_t)(changed = 1);
    }
    arr_free(s.steps);
    arr_free(s.reached);
    free(s.last);
    x->live = live;
    if (!ok)
        return err_memory(err, "the expression", AUTOMATON_STATES * sizeof *s.last);
    return fits ? MGPT_OK
                : err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                          "the expression is too large for a vocabulary that lacks some of its "
                          "characters: %d states",
                          EXPLORED_STATES);
}

int constraint_open(struct regex *x, const struct pattern *pattern, const struct token_trie *trie,
                    const mgpt_model *model, mgpt_error *err)
{
    mgpt_info info = {.n_tokens = 0};
    mgpt_get_info(model, &info, NULL);
    x->model = model;
    x->trie = trie;
    x->n_tokens = (size_t)info.n_tokens;
    x->path = mem_new(trie->longest + 1, sizeof *x->path);
    if (!x->path)
        return err_memory(err, "the expression", trie->longest * sizeof *x->path);
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
    free(x->only_end.bits);
    arr_free(x->live);
    free(x->path);
    automaton_close(&x->automaton);
    *x = (struct regex){.failed = 0};
}

/* ---- use ---- */

/* Returns the tokens that may be drawn after a text; NULL when out of memory. */
static const struct allowed *allowed_after(struct regex *x, int32_t state, int starts)
{
    if (state >= 0)
        return starts ? allowed_first(x) : allowed_at(x, state);
    if (!x->only_end.bits && new_allowed(x, &x->only_end))
        allow_ends(x, &x->only_end);
    return x->only_end.bits ? &x->only_end : NULL;
}

/* Drops the logits, at most 64, whose bits are set. */
static void drop_tokens(float *logits, size_t n, uint64_t drop)
{
    if (n == 64 && ~drop == 0) {
        for (size_t i = 0; i < 64; i++)
            logits[i] = -INFINITY;
        return;
    }
    drop &= n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    for (; drop; drop &= drop - 1)
        logits[__builtin_ctzll(drop)] = -INFINITY;
}

void constraint_edit(struct regex *x, int32_t state, int starts, float *logits, size_t n)
{
    const struct allowed *a = allowed_after(x, state, starts);
    for (size_t i = 0; i < n; i += 64)
        drop_tokens(logits + i, n - i < 64 ? n - i : 64,
                    a && i < x->n_tokens ? ~a->bits[i / 64] : UINT64_MAX);
}

int constraint_is_complete(struct regex *x, int32_t state, int starts)
{
    const struct allowed *a = NULL;
    if (state >= 0 && x->automaton.states[state].accepts)
        a = allowed_after(x, state, starts);
    return a && a->n == 0;
}
