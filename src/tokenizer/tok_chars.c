/* Tables of characters, and normal forms. See tok_chars.h. */
#include "tokenizer/tok_chars.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define MAP_KEY "mgpt.tokenizer.map."
#define MAP_NAME_MAX 32
#define CODE_MASK 0x1FFFFFu
#define COUNT_SHIFT 24

struct map_row {
    uint32_t first, last;
    uint32_t at, n; /* its characters: words[at .. at + n) */
};

struct char_map {
    uint32_t *words;
    struct map_row *rows;
    size_t n;
};

/* ---- maps ------------------------------------------------------------------------------------ */

void char_map_close(struct char_map *m)
{
    if (m) {
        free(m->words);
        free(m->rows);
    }
    free(m);
}

static int is_scalar(uint32_t code)
{
    return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

/* Makes the rows of n_words words. Returns the index of the first word that is wrong, or n_words. */
static size_t index_map(struct char_map *m, size_t n_words)
{
    size_t at = 0;
    uint32_t next = 0; /* the smallest code that may follow */
    while (at + 2 <= n_words) {
        uint32_t first = m->words[at] & CODE_MASK, last = m->words[at + 1];
        size_t n = m->words[at] >> COUNT_SHIFT, from = at + 2;
        if (first < next || last < first || last > 0x10FFFF || n > n_words - from)
            return at;
        for (size_t i = 0; i < n; i++)
            if (!is_scalar(m->words[from + i]))
                return from + i;
        m->rows[m->n++] = (struct map_row){first, last, (uint32_t)from, (uint32_t)n};
        next = last + 1;
        at = from + n;
    }
    return at;
}

static int read_map(struct char_map *m, const struct gguf *g, const char *key, mgpt_error *err)
{
    const struct gguf_kv *kv;
    int there = gguf_array(g, key, GGUF_U32, &kv, err);
    if (there < 0)
        return there;
    if (there == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key %s: missing", key);
    size_t n = (size_t)kv->n;
    m->words = mem_new(n, sizeof *m->words);
    m->rows = mem_new(n / 2 + 1, sizeof *m->rows);
    if (!m->words || !m->rows)
        return err_memory(err, "a table of characters", n * sizeof *m->rows);
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    for (size_t i = 0; i < n; i++)
        m->words[i] = cursor_u32(&c);
    size_t bad = index_map(m, n);
    if (bad == n)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, kv->offset, "%s[%zu]: not a record of ascending characters",
                   key, bad);
}

struct char_map *char_map_open(const struct gguf *g, struct gguf_str name, mgpt_error *err)
{
    char key[sizeof MAP_KEY + MAP_NAME_MAX];
    if (name.n == 0 || name.n > MAP_NAME_MAX) {
        err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "a map's name has %zu bytes, expected 1 to %d",
                name.n, MAP_NAME_MAX);
        return NULL;
    }
    text_format(key, sizeof key, MAP_KEY "%.*s", (int)name.n, name.p);
    struct char_map *m = mem_new(1, sizeof *m);
    if (!m)
        err_memory(err, "a table of characters", sizeof *m);
    else if (read_map(m, g, key, err) == MGPT_OK)
        return m;
    char_map_close(m);
    return NULL;
}

const uint32_t *char_map_find(const struct char_map *m, uint32_t code, size_t *n)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (m->rows[mid].last < code)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == m->n || m->rows[lo].first > code)
        return NULL;
    *n = m->rows[lo].n;
    return m->words + m->rows[lo].at;
}

/* ---- texts as characters --------------------------------------------------------------------- */

int chars_push(struct chars *c, uint32_t code)
{
    return arr_push(c->p, code);
}

#define S_BASE 0xAC00u
#define L_BASE 0x1100u
#define V_BASE 0x1161u
#define T_BASE 0x11A7u
#define L_COUNT 19u
#define V_COUNT 21u
#define T_COUNT 28u
#define S_COUNT (L_COUNT * V_COUNT * T_COUNT)

void hangul_split(uint32_t code, uint32_t out[3], size_t *n)
{
    *n = 0;
    if (code < S_BASE || code >= S_BASE + S_COUNT)
        return;
    uint32_t s = code - S_BASE;
    out[0] = L_BASE + s / (V_COUNT * T_COUNT);
    out[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
    out[2] = T_BASE + s % T_COUNT;
    *n = out[2] == T_BASE ? 2 : 3;
}

static uint32_t class_of(const struct char_map *classes, uint32_t code)
{
    size_t n = 0;
    const uint32_t *found = code < 0x300 ? NULL : char_map_find(classes, code, &n);
    return n ? *found : 0;
}

/* A character with its class and place, for a sort that keeps the order of equal classes. */
struct ranked_char {
    uint32_t class, place, code;
};

static int compare_ranked(const void *x, const void *y)
{
    const struct ranked_char *a = x, *b = y;
    int c = (a->class > b->class) - (a->class < b->class);
    return c ? c : (a->place > b->place) - (a->place < b->place);
}

/* Sorts n codes, whose classes are not 0. Returns 0 when out of memory. */
static int sort_run(uint32_t *codes, size_t n, const struct char_map *classes)
{
    struct ranked_char few[16], *list = few;
    if (n > 16 && !(list = mem_new(n, sizeof *list)))
        return 0;
    for (size_t i = 0; i < n; i++)
        list[i] = (struct ranked_char){class_of(classes, codes[i]), (uint32_t)i, codes[i]};
    qsort(list, n, sizeof *list, compare_ranked);
    for (size_t i = 0; i < n; i++)
        codes[i] = list[i].code;
    if (list != few)
        free(list);
    return 1;
}

int chars_order(struct chars *c, const struct char_map *classes)
{
    size_t n = arr_len(c->p);
    for (size_t from = 0, to; from < n; from = to + 1) {
        for (to = from; to < n && class_of(classes, c->p[to]) != 0;)
            to++;
        if (to - from > 1 && !sort_run(c->p + from, to - from, classes))
            return 0;
    }
    return 1;
}

/* The composition of two characters, 0: none. */
static uint32_t compose_pair(const struct char_map *pairs, uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE && b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    size_t n = 0;
    const uint32_t *list = char_map_find(pairs, b, &n);
    for (size_t i = 0; i + 1 < n; i += 2)
        if (list[i] == a)
            return list[i + 1];
    return 0;
}

/* A character composes with the last starter unless one between them has the same class or a
 * higher one, or is a starter itself. */
void chars_compose(struct chars *c, const struct char_map *classes, const struct char_map *pairs)
{
    size_t n = arr_len(c->p), kept = 0, starter = SIZE_MAX;
    uint32_t before = 0; /* the class of the character before, if it was kept after the starter */
    for (size_t i = 0; i < n; i++) {
        uint32_t code = c->p[i], class = class_of(classes, code), whole = 0;
        int blocked = starter == SIZE_MAX || (kept > starter + 1 && before >= class);
        if (!blocked)
            whole = compose_pair(pairs, c->p[starter], code);
        if (whole) {
            c->p[starter] = whole;
            continue;
        }
        if (class == 0)
            starter = kept;
        before = class;
        c->p[kept++] = code;
    }
    if (n)
        arr_set_len(c->p, kept);
}
