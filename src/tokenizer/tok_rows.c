/* Tokens sorted by text: finding all that begin at a place of a text. Every byte reduces the range
 * of rows that agree with the text, so a look-up costs the length of the longest match times the
 * logarithm of the number of rows. */
#include "tokenizer/tok_impl.h"

#include <stdlib.h>

int tok_rows_init(struct tok_rows *r, size_t n)
{
    r->rows = mem_new(n, sizeof *r->rows);
    return r->rows != NULL;
}

void tok_rows_free(struct tok_rows *r)
{
    free(r->rows);
    r->rows = NULL;
}

void tok_rows_add(struct tok_rows *r, const struct tok *t, uint32_t id)
{
    const struct tok_entry *e = &t->entries[id];
    if (e->text.n > 0)
        r->rows[r->n++] = (struct tok_special){e->text, id, e->type};
}

/* Of equal texts Hugging Face takes the last; other files have none. */
static int compare_rows(const void *x, const void *y)
{
    const struct tok_special *a = x, *b = y;
    int c = tok_compare_texts(a->text, b->text);
    return c ? c : (a->id < b->id) - (a->id > b->id);
}

void tok_rows_sort(struct tok_rows *r)
{
    size_t kept = 0;
    qsort(r->rows, r->n, sizeof *r->rows, compare_rows);
    for (size_t i = 0; i < r->n; i++)
        if (kept == 0 || tok_compare_texts(r->rows[i].text, r->rows[kept - 1].text) != 0)
            r->rows[kept++] = r->rows[i];
    r->n = kept;
    for (size_t i = 0; i < kept; i++)
        r->first[(uint8_t)r->rows[i].text.p[0] + 1]++;
    for (size_t b = 0; b < 256; b++)
        r->first[b + 1] += r->first[b];
}

struct row_range tok_rows_at(const struct tok_rows *r, const char *p)
{
    return (struct row_range){r->first[(uint8_t)*p], r->first[(uint8_t)*p + 1], 1, 0};
}

struct row_range tok_rows_after(const struct tok_rows *r, struct gguf_str prefix)
{
    struct row_range at = {0, r->n, 0, prefix.n};
    for (size_t i = 0; i < prefix.n; i++) {
        uint8_t byte = (uint8_t)prefix.p[i];
        while (at.lo < at.hi && r->rows[at.lo].text.n == i)
            at.lo++;
        at.lo = tok_lower_bound(r->rows, at.lo, at.hi, i, byte);
        at.hi = tok_lower_bound(r->rows, at.lo, at.hi, i, byte + 1u);
    }
    if (at.lo < at.hi && r->rows[at.lo].text.n == prefix.n)
        at.lo++; /* the prefix itself continues nothing */
    return at;
}

const struct tok_special *tok_rows_next(const struct tok_rows *r, struct row_range *at,
                                        const char *p, size_t n)
{
    while (at->lo < at->hi) {
        const struct tok_special *row = &r->rows[at->lo];
        size_t depth = at->skip + at->depth;
        if (row->text.n == depth) {
            at->lo++;
            return row;
        }
        if (at->depth == n)
            break;
        uint8_t byte = (uint8_t)p[at->depth];
        at->lo = tok_lower_bound(r->rows, at->lo, at->hi, depth, byte);
        at->hi = tok_lower_bound(r->rows, at->lo, at->hi, depth, byte + 1u);
        at->depth++;
    }
    return NULL;
}
