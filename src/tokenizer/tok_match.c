/* Many tokens at once: an Aho-Corasick automaton (Aho and Corasick 1975) over their texts.
 *
 * A state is the beginning of a token. After each byte of a text the state is the longest end of
 * what was read that is one: a step down to a child, after steps to shorter ends (`fail`) where
 * there is no such child. A step down goes one byte deeper, the others go up, so n bytes take at
 * most 2 n steps for any tokens. A state knows the longest token that ends there, and each
 * token the longest one that ends it.
 *
 * Forward, tokens are found where they end. Backward, from the end of the text to its start, they
 * are found where they begin. match_longest does this for MATCH_BLOCK places at a time, after
 * reading the bytes behind them that a token may reach.
 *
 * States are numbered by depth, so the children of a state are consecutive, in the order of bytes.
 */
#include "tokenizer/tok_match.h"

#include "base/error.h"
#include "base/mem.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

#define MATCH_STATES ((size_t)1 << 25)

struct match_state {
    uint32_t first, n; /* its children */
    uint32_t fail;     /* the longest proper end that is a state */
    uint32_t longest;  /* 1 + the row of the longest token that ends here, 0: none */
    uint8_t byte;      /* its last one */
};

/* ---- steps ----------------------------------------------------------------------------------- */

/* The child of a state that is not the root, 0: none. */
static uint32_t child_of(const struct tok_match *m, uint32_t state, uint8_t byte)
{
    uint32_t lo = m->states[state].first, hi = lo + m->states[state].n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->states[mid].byte == byte)
            return mid;
        if (m->states[mid].byte < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

uint32_t match_step(const struct tok_match *m, uint32_t state, uint8_t byte)
{
    for (; state; state = m->states[state].fail) {
        uint32_t child = child_of(m, state, byte);
        if (child)
            return child;
    }
    return m->root[byte];
}

static const struct match_row *row_of(const struct tok_match *m, uint32_t number)
{
    return number ? &m->rows[number - 1] : NULL;
}

const struct match_row *match_found(const struct tok_match *m, uint32_t state)
{
    return state ? row_of(m, m->states[state].longest) : NULL;
}

const struct match_row *match_whole(const struct tok_match *m, const char *p, size_t n)
{
    uint32_t state = n > 0 ? m->root[(uint8_t)p[0]] : 0;
    for (size_t i = 1; state && i < n; i++)
        state = child_of(m, state, (uint8_t)p[i]);
    const struct match_row *row = match_found(m, state);
    return row && row->text.n == n ? row : NULL;
}

int match_is_empty(const struct tok_match *m)
{
    return arr_len(m->rows) == 0;
}

/* ---- building -------------------------------------------------------------------------------- */

int match_add(struct tok_match *m, struct gguf_str text, uint32_t id, uint8_t type)
{
    struct match_row row = {text, id, (uint32_t)arr_len(m->rows), type}; /* next: for sorting */
    if (text.n == 0)
        return 1;
    m->most = text.n > m->most ? text.n : m->most;
    return arr_push(m->rows, row);
}

static int by_order(const struct match_row *a, const struct match_row *b)
{
    return (a->next > b->next) - (a->next < b->next);
}

static int compare_forward(const void *x, const void *y)
{
    const struct match_row *a = x, *b = y;
    int c = gguf_str_compare(a->text, b->text);
    return c ? c : by_order(a, b);
}

static int compare_backward(const void *x, const void *y)
{
    const struct match_row *a = x, *b = y;
    for (size_t i = 1; i <= a->text.n && i <= b->text.n; i++) {
        uint8_t p = (uint8_t)a->text.p[a->text.n - i], q = (uint8_t)b->text.p[b->text.n - i];
        if (p != q)
            return p < q ? -1 : 1;
    }
    return a->text.n == b->text.n ? by_order(a, b) : a->text.n < b->text.n ? -1 : 1;
}

static void sort_rows(struct tok_match *m)
{
    size_t n = arr_len(m->rows), kept = 0;
    if (n == 0)
        return;
    qsort(m->rows, n, sizeof *m->rows, m->backward ? compare_backward : compare_forward);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || gguf_str_compare(m->rows[i].text, m->rows[kept - 1].text) != 0)
            m->rows[kept++] = m->rows[i];
    for (size_t i = 0; i < kept; i++)
        m->rows[i].next = 0;
    arr_set_len(m->rows, kept);
}

/* Byte i of a row in the order of reading. */
static uint8_t byte_of(const struct tok_match *m, size_t row, size_t i)
{
    struct gguf_str text = m->rows[row].text;
    return (uint8_t)text.p[m->backward ? text.n - 1 - i : i];
}

/* A state of the automaton: the rows [lo, hi) begin with its `depth` bytes. */
struct state_rows {
    uint32_t lo, hi, depth;
};

/* The states being made; both arrays are of stb_ds. */
struct match_maker {
    struct tok_match *m;
    struct state_rows *rows; /* of each state */
};

/* Appends the state of rows [lo, hi), a child of `parent` by `byte`. */
static int add_state(struct match_maker *k, uint32_t parent, struct state_rows rows, uint8_t byte)
{
    struct tok_match *m = k->m;
    struct match_state s = {.byte = byte};
    struct match_row *first = &m->rows[rows.lo];
    if (parent) /* a child of the root has no proper end but the empty one */
        s.fail = match_step(m, m->states[parent].fail, byte);
    s.longest = s.fail ? m->states[s.fail].longest : 0;
    if (first->text.n == rows.depth) {
        first->next = s.longest;
        s.longest = rows.lo + 1;
    }
    return arr_push(m->states, s) && arr_push(k->rows, rows);
}

/* Appends the children of a state. The root's are in a table of their own once all are there: until
 * then a step from it to one of them must fail. */
static int add_children(struct match_maker *k, uint32_t state)
{
    struct tok_match *m = k->m;
    struct state_rows all = k->rows[state];
    uint32_t first = (uint32_t)arr_len(m->states);
    all.lo += all.depth > 0 && m->rows[all.lo].text.n == all.depth;
    for (uint32_t lo = all.lo, end; lo < all.hi; lo = end) {
        uint8_t byte = byte_of(m, lo, all.depth);
        for (end = lo + 1; end < all.hi && byte_of(m, end, all.depth) == byte;)
            end++;
        if (!add_state(k, state, (struct state_rows){lo, end, all.depth + 1}, byte))
            return 0;
    }
    m->states[state].first = first;
    m->states[state].n = (uint32_t)arr_len(m->states) - first;
    for (uint32_t i = first; state == 0 && i < arr_len(m->states); i++)
        m->root[m->states[i].byte] = i;
    return 1;
}

int match_build(struct tok_match *m, int backward, mgpt_error *err)
{
    struct match_maker k = {m, NULL};
    m->backward = backward;
    sort_rows(m);
    if (match_is_empty(m))
        return MGPT_OK;
    const struct state_rows all = {0, (uint32_t)arr_len(m->rows), 0};
    int ok = arr_push(m->states, (struct match_state){.first = 0}) && arr_push(k.rows, all);
    for (uint32_t i = 0; ok && i < arr_len(m->states) && arr_len(m->states) < MATCH_STATES; i++)
        ok = add_children(&k, i);
    arr_free(k.rows);
    if (ok && arr_len(m->states) >= MATCH_STATES)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "the texts of the tokens have more than %zu different beginnings",
                       MATCH_STATES);
    return ok ? MGPT_OK : err_memory(err, "the tokens", arr_len(m->states) * sizeof *m->states);
}

void match_free(struct tok_match *m)
{
    arr_free(m->rows);
    arr_free(m->states);
    m->rows = NULL;
    m->states = NULL;
}

/* ---- the longest token at a place ------------------------------------------------------------ */

void match_begin(struct match_scan *s, const struct tok_match *m, const char *text, size_t n)
{
    s->m = m;
    s->text = text;
    s->n = n;
    s->from = s->to = 0;
}

/* Reads the places from `at` on, after what their tokens reach. */
static void read_block(struct match_scan *s, size_t at)
{
    const struct tok_match *m = s->m;
    uint32_t state = 0;
    s->from = at;
    s->to = s->n - at < MATCH_BLOCK ? s->n : at + MATCH_BLOCK;
    size_t end = s->n - s->to < m->most ? s->n : s->to + m->most;
    for (size_t i = end; i > at; i--) {
        state = match_step(m, state, (uint8_t)s->text[i - 1]);
        if (i <= s->to)
            s->longest[i - 1 - at] = state ? m->states[state].longest : 0;
    }
}

const struct match_row *match_longest(struct match_scan *s, size_t at)
{
    if (match_is_empty(s->m))
        return NULL;
    if (at < s->from || at >= s->to)
        read_block(s, at);
    return row_of(s->m, s->longest[at - s->from]);
}
