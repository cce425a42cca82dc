/* Prompt look-up. See lookup.h. */
#include "generate/lookup.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* orders: lengths of the runs of tokens that are hashed, longest first. MOST_PLACES: places of a run
 * that are compared. TRY_AGAIN: a length whose proposals were wrong is tried once in that many times. */
static const size_t orders[] = {8, 4, 2};
_Static_assert(sizeof orders / sizeof *orders == LOOKUP_ORDERS, "a row each");
enum { MOST_PLACES = 16, TRY_AGAIN = 16 };

int lookup_open(struct lookup *l, double row_cost)
{
    *l = (struct lookup){.row_cost = row_cost};
    l->latest = malloc(LOOKUP_ORDERS * sizeof *l->latest);
    if (!l->latest)
        return 0;
    for (size_t i = 0; i <= LOOKUP_LONGEST; i++)
        l->odds[i] =
            (struct odds){.tried = 4, .right = 3}; /* optimistic; the first proposals correct it */
    lookup_clear(l);
    return 1;
}

void lookup_close(struct lookup *l)
{
    arr_free(l->tokens);
    for (size_t k = 0; k < LOOKUP_ORDERS; k++)
        arr_free(l->earlier[k]);
    free(l->latest);
    *l = (struct lookup){0};
}

void lookup_clear(struct lookup *l)
{
    memset(l->latest, 0xFF, LOOKUP_ORDERS * sizeof *l->latest); /* -1: nowhere */
    if (l->tokens)
        arr_set_len(l->tokens, 0);
    for (size_t k = 0; k < LOOKUP_ORDERS; k++)
        if (l->earlier[k])
            arr_set_len(l->earlier[k], 0);
    l->broken = 0;
}

/* Hash of the n tokens that end before `end`. */
static size_t hash(const int32_t *end, size_t n)
{
    uint64_t h = n;
    for (size_t i = 1; i <= n; i++)
        h = (h ^ (uint32_t)end[-(ptrdiff_t)i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(h >> 40) % LOOKUP_BUCKETS;
}

static int make_room(struct lookup *l, size_t n)
{
    int room = arr_reserve(l->tokens, n);
    for (size_t k = 0; room && k < LOOKUP_ORDERS; k++)
        room = arr_reserve(l->earlier[k], n);
    return room;
}

void lookup_add(struct lookup *l, int32_t token)
{
    size_t n = arr_len(l->tokens) + 1;
    if (l->broken || n > INT32_MAX || !make_room(l, n)) {
        l->broken = 1;
        return;
    }
    arr_put(l->tokens, token);
    for (size_t k = 0; k < LOOKUP_ORDERS; k++) {
        int32_t *latest = n >= orders[k] ? &l->latest[k][hash(l->tokens + n, orders[k])] : NULL;
        arr_put(l->earlier[k], latest ? *latest : -1);
        if (latest)
            *latest = (int32_t)(n - 1);
    }
}

/* How many tokens up to and including the one at `place` are those at the end of the text. */
static size_t common(const struct lookup *l, size_t place)
{
    size_t n = arr_len(l->tokens), length = 0;
    while (length <= place && length < LOOKUP_LONGEST &&
           l->tokens[place - length] == l->tokens[n - 1 - length])
        length++;
    return length;
}

/* The place where the text's end stood before: the longest repetition, the latest among equals. */
static size_t lookup_find(struct lookup *l)
{
    size_t n = arr_len(l->tokens), best = 0;
    l->length = 0;
    for (size_t k = 0; k < LOOKUP_ORDERS && n >= 2 && l->length < orders[k]; k++) {
        int32_t place = l->earlier[k][n - 1];
        for (size_t i = 0; place >= 0 && i < MOST_PLACES; i++, place = l->earlier[k][place]) {
            size_t length = common(l, (size_t)place);
            if (length > l->length && length >= orders[LOOKUP_ORDERS - 1]) {
                l->length = length;
                best = (size_t)place;
            }
        }
    }
    return best;
}

/* How many tokens pay for their rows. */
static size_t worth(struct lookup *l, size_t cap)
{
    struct odds *odds = &l->odds[l->length];
    struct chain chain = CHAIN_START;
    size_t n = 0;
    for (; n < cap && chain_pays(&chain, odds_of(odds), l->row_cost); n++)
        chain_take(&chain, odds_of(odds), l->row_cost);
    if (n == 0 && cap > 0 && ++odds->passed_over >= TRY_AGAIN)
        n = 1;
    return n;
}

size_t lookup_propose(struct lookup *l, int32_t *proposal, size_t cap)
{
    size_t n = arr_len(l->tokens), place = l->broken ? 0 : lookup_find(l);
    if (l->broken || l->length == 0)
        return 0;
    cap = worth(l, cap);
    for (size_t i = 0; i < cap; i++) { /* a repetition that reaches the end goes on into itself */
        size_t from = place + 1 + i;
        proposal[i] = from < n ? l->tokens[from] : proposal[from - n];
    }
    return cap;
}

void lookup_learn(struct lookup *l, size_t n, size_t right)
{
    if (n > 0)
        odds_learn(&l->odds[l->length], (double)(right < n ? right + 1 : right), (double)right);
}
