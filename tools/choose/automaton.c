/* The deterministic automaton of a pattern, made as it is walked (subset construction). See pattern.h. */
#include "base/error.h"
#include "base/mem.h"
#include "base/splitmix.h"
#include "choose/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { AUTOMATON_BUCKETS = 1 << 12, MEMBERS_MOST = 1 << 25 };

/* Adds what can be reached from a state without a byte: those that read one, or end. Returns how many are in
 * the set then. */
static int32_t add_reachable(struct automaton *w, int32_t from, int32_t n)
{
    int32_t n_stack = 0;
    w->stack[n_stack++] = from;
    w->mark[from] = w->pass;
    while (n_stack > 0) {
        int32_t at = w->stack[--n_stack];
        w->work++;
        const struct pattern_state *s = &w->pattern.states[at];
        if (s->low != PATTERN_FORK) {
            w->set[n++] = at;
            continue;
        }
        const int32_t to[] = {s->a, s->b};
        for (int i = 0; i < 2; i++)
            if (to[i] >= 0 && w->mark[to[i]] != w->pass) {
                w->mark[to[i]] = w->pass;
                w->stack[n_stack++] = to[i];
            }
    }
    return n;
}

/* 1 if the state's members are those of the set, which are marked. */
static int has_set(const struct automaton *w, const struct automaton_state *s, int32_t n)
{
    int32_t i = 0;
    while (s->n == n && i < n && w->mark[w->members[s->first + i]] == w->pass)
        i++;
    return i == n;
}

/* The state that is this set of n, in any order. */
static int32_t state_of_set(struct automaton *w, int32_t n)
{
    uint64_t hash = 0;
    for (int32_t i = 0; i < n; i++)
        hash ^= splitmix_number((uint64_t)w->set[i]);
    int32_t *bucket = &w->buckets[hash % AUTOMATON_BUCKETS];
    for (int32_t i = *bucket; i >= 0; i = w->states[i].next)
        if (has_set(w, &w->states[i], n))
            return i;
    size_t first = arr_len(w->members), at = arr_len(w->states);
    struct automaton_state s = {.first = (int32_t)first, .n = n, .next = *bucket};
    if (at == AUTOMATON_STATES || first + (size_t)n > MEMBERS_MOST ||
        !arr_reserve(w->members, first + (size_t)n) || !arr_push(w->states, s))
        return AUTOMATON_FAILED;
    for (int32_t i = 0; i < n; i++) {
        arr_put(w->members, w->set[i]);
        w->states[at].accepts |= w->pattern.states[w->set[i]].low == PATTERN_END;
    }
    for (int i = 0; i < 256; i++)
        w->states[at].to[i] = AUTOMATON_UNKNOWN;
    *bucket = (int32_t)at;
    return (int32_t)at;
}

int automaton_open(struct automaton *w, const struct pattern *pattern, mgpt_error *err)
{
    size_t n = arr_len(pattern->states);
    w->pattern = *pattern;
    w->mark = mem_new(n, sizeof *w->mark);
    w->set = mem_new(n, sizeof *w->set);
    w->stack = mem_new(n, sizeof *w->stack);
    w->buckets = mem_new(AUTOMATON_BUCKETS, sizeof *w->buckets);
    if (w->mark && w->set && w->stack && w->buckets) {
        memset(w->buckets, 0xFF, AUTOMATON_BUCKETS * sizeof *w->buckets);
        w->pass = 1;
        if (state_of_set(w, add_reachable(w, pattern->start, 0)) == 0)
            return MGPT_OK;
    }
    return err_memory(err, "the expression", n * sizeof *w->mark);
}

void automaton_close(struct automaton *w)
{
    arr_free(w->states);
    arr_free(w->members);
    free(w->buckets);
    free(w->mark);
    free(w->set);
    free(w->stack);
    *w = (struct automaton){.pass = 0};
}

int32_t automaton_byte(struct automaton *w, int32_t state, unsigned char byte)
{
    int32_t n = 0, to = w->states[state].to[byte];
    if (to != AUTOMATON_UNKNOWN)
        return to;
    if (++w->pass == 0) {
        memset(w->mark, 0, arr_len(w->pattern.states) * sizeof *w->mark);
        w->pass = 1;
    }
    w->work += (uint64_t)w->states[state].n;
    for (int32_t i = 0; i < w->states[state].n; i++) {
        const struct pattern_state *s = &w->pattern.states[w->members[w->states[state].first + i]];
        if (s->low >= 0 && byte >= s->low && byte <= s->high && w->mark[s->a] != w->pass)
            n = add_reachable(w, s->a, n);
    }
    to = n > 0 ? state_of_set(w, n) : AUTOMATON_DEAD;
    if (to != AUTOMATON_FAILED)
        w->states[state].to[byte] = to;
    return to;
}
