/* Merging neighbours, for both kinds of BPE. See tok_impl.h.
 *
 * The symbols are a doubly linked list in an array. A merge extends the left symbol and unlinks the
 * right one. The kind's `pair` gives the result and the order of two neighbours. Short lists,
 * nearly all of them, are scanned for the smallest order. Longer ones keep their candidates in a
 * binary heap, so one piece as long as the text ("aaaa...") stays O(n log n). Both give the same
 * result.
 *
 * A candidate is eight bytes: the order of a pair and its left symbol. It stays in the heap when
 * the pair changes. When popped, it is skipped if the symbol is gone or its pair has another order.
 * (A new pair with the same order may be used instead of the old one.)
 */
#include "tokenizer/tok_impl.h"

#include <string.h>

#define SHORT_RUN 16 /* symbols; up to here scanning is faster */

int merge_begin(struct tok_call *c, const char *base, size_t n)
{
    c->base = base;
    if (!arr_reserve(c->symbols, n))
        return 0;
    arr_set_len(c->symbols, 0);
    return 1;
}

void merge_add(struct tok_call *c, uint32_t at, uint32_t n, int32_t id)
{
    struct merge_symbol s = {.at = at, .n = n, .last = MERGE_END, .before = MERGE_END, .id = id};
    arr_put(c->symbols, s);
}

static void link_all(struct merge_symbol *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        s[i].prev = i > 0 ? i - 1 : MERGE_END;
        s[i].next = i + 1 < n ? i + 1 : MERGE_END;
    }
}

/* The result of merging symbol i and the next; 0: they do not merge. */
static int pair_at(const struct tok_call *c, uint32_t i, struct merge_pair *pair)
{
    const struct merge_symbol *s = c->symbols;
    return s[i].next != MERGE_END && c->t->kind->pair(c, &s[i], &s[s[i].next], pair);
}

/* Merges the symbol after i into symbol i. */
static void merge_symbols(struct merge_symbol *s, uint32_t i, int32_t id)
{
    uint32_t gone = s[i].next;
    s[i].next = s[gone].next;
    if (s[i].next != MERGE_END)
        s[s[i].next].prev = i;
    s[gone].prev = MERGE_GONE;
    s[gone].before = s[i].last;
    s[i].last = gone;
    s[i].n += s[gone].n;
    s[i].id = id;
}

void merge_undo(struct tok_call *c, uint32_t i)
{
    struct merge_symbol *s = c->symbols;
    uint32_t back = s[i].last;
    s[i].n -= s[back].n;
    s[i].last = s[back].before;
    s[back].prev = i;
    s[back].next = s[i].next;
    if (s[back].next != MERGE_END)
        s[s[back].next].prev = back;
    s[i].next = back;
}

/* ---- short runs ------------------------------------------------------------------------------ */

static void update_pair(struct tok_call *c, uint32_t i)
{
    struct merge_pair *pair = &c->symbols[i].pair;
    if (!pair_at(c, i, pair))
        pair->id = -1;
}

static void merge_short(struct tok_call *c, uint32_t n)
{
    struct merge_symbol *s = c->symbols;
    for (uint32_t i = 0; i < n; i++)
        update_pair(c, i);
    for (;;) {
        uint32_t best = MERGE_END;
        for (uint32_t i = 0; i != MERGE_END; i = s[i].next)
            if (s[i].pair.id >= 0 && (best == MERGE_END || s[i].pair.order < s[best].pair.order))
                best = i;
        if (best == MERGE_END)
            return;
        merge_symbols(s, best, s[best].pair.id);
        update_pair(c, best);
        if (s[best].prev != MERGE_END)
            update_pair(c, s[best].prev);
    }
}

/* ---- long runs ------------------------------------------------------------------------------- */

static void sift_up(uint64_t *heap, size_t i, uint64_t v)
{
    for (; i > 0 && v < heap[(i - 1) / 2]; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = v;
}

/* Moves the hole at the root down to a leaf, then fills it with the last element and sifts that
 * up. The last element comes from a leaf and rarely rises, so this takes one comparison per
 * level, without unpredictable branches. */
static uint64_t pop_smallest(uint64_t *heap)
{
    size_t n = arr_len(heap) - 1, i = 0, child = 1;
    uint64_t top = heap[0];
    for (; child + 1 < n; child = 2 * i + 1) {
        child += heap[child + 1] < heap[child];
        heap[i] = heap[child];
        i = child;
    }
    if (child < n) {
        heap[i] = heap[child];
        i = child;
    }
    sift_up(heap, i, heap[n]);
    arr_set_len(heap, n);
    return top;
}

/* Pushes symbol i and its next onto the heap if they merge; 0 when out of memory. */
static int push_pair(struct tok_call *c, uint32_t i)
{
    struct merge_pair pair;
    if (i == MERGE_END || !pair_at(c, i, &pair))
        return 1;
    uint64_t v = (uint64_t)pair.order << 32 | i;
    if (!arr_push(c->heap, v))
        return 0;
    sift_up(c->heap, arr_len(c->heap) - 1, v);
    return 1;
}

static int merge_long(struct tok_call *c, uint32_t n)
{
    struct merge_symbol *s = c->symbols;
    if (!arr_reserve(c->heap, n))
        return 0;
    arr_set_len(c->heap, 0);
    for (uint32_t i = 0; i < n; i++)
        if (!push_pair(c, i))
            return 0;
    while (arr_len(c->heap) > 0) {
        uint64_t v = pop_smallest(c->heap);
        uint32_t left = (uint32_t)v;
        struct merge_pair pair;
        if (s[left].prev == MERGE_GONE || !pair_at(c, left, &pair) || pair.order != v >> 32)
            continue;
        merge_symbols(s, left, pair.id);
        if (!push_pair(c, left) || !push_pair(c, s[left].prev))
            return 0;
    }
    return 1;
}

int merge_run(struct tok_call *c)
{
    uint32_t n = (uint32_t)arr_len(c->symbols);
    link_all(c->symbols, n);
    if (n > SHORT_RUN)
        return merge_long(c, n);
    merge_short(c, n);
    return 1;
}
