/* Character vocabularies (microgpt, nanoGPT): one token per character, found in a sorted table.
 *
 * There is no fallback. A character that the table lacks is an error that names the character, its
 * position and the vocabulary: with a substitute the model would silently run on another text.
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

enum { N_ASCII = 128 };

struct char_row {
    uint32_t code;
    int32_t id;
};

struct tok_chars {
    size_t n;
    struct char_row *rows;  /* ascending by code, each once */
    int32_t ascii[N_ASCII]; /* ids of the first codes, -1: none */
};

static int compare_rows(const void *x, const void *y)
{
    const struct char_row *a = x, *b = y;
    int c = (a->code > b->code) - (a->code < b->code);
    return c ? c : (a->id > b->id) - (a->id < b->id);
}

static void char_close(struct tok *t)
{
    if (t->chars)
        free(t->chars->rows);
    free(t->chars);
    t->chars = NULL;
}

static int compare_code(const void *code, const void *row)
{
    uint32_t a = *(const uint32_t *)code, b = ((const struct char_row *)row)->code;
    return (a > b) - (a < b);
}

/* The id of a code point, -1 when there is none. */
static int32_t search_char(const struct tok_chars *chars, uint32_t code)
{
    const struct char_row *row =
        chars->n ? bsearch(&code, chars->rows, chars->n, sizeof *row, compare_code) : NULL;
    return row ? row->id : -1;
}

static int char_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    (void)g;
    struct tok_chars *chars = t->chars = mem_new(1, sizeof *chars);
    if (chars)
        chars->rows = mem_new(t->n, sizeof *chars->rows);
    if (!chars || !chars->rows)
        return err_memory(err, "the characters", t->n * sizeof *chars->rows);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct tok_entry *e = &t->entries[i];
        if (e->type != TOK_NORMAL)
            continue;
        utf8_next(e->piece, e->n_piece, &chars->rows[n].code);
        chars->rows[n++].id = (int32_t)i;
    }
    qsort(chars->rows, n, sizeof *chars->rows, compare_rows);
    for (size_t i = 0; i < n; i++)
        if (chars->n == 0 || chars->rows[i].code != chars->rows[chars->n - 1].code)
            chars->rows[chars->n++] = chars->rows[i];
    for (uint32_t code = 0; code < N_ASCII; code++)
        chars->ascii[code] = search_char(chars, code);
    return MGPT_OK;
}

/* ---- the error ------------------------------------------------------------------------------- */

static size_t put_code(char *out, size_t cap, uint32_t code)
{
    char utf8[4];
    if (code == '\n')
        return text_format(out, cap, "\\n");
    if (tok_printable(code))
        return text_format(out, cap, "%.*s", (int)utf8_put(code, utf8), utf8);
    return text_format(out, cap, "<%x>", code);
}

/* The characters as ranges, " !?A-Za-z"; "..." when they do not fit. */
static void describe_chars(const struct tok_chars *chars, char *out, size_t cap)
{
    size_t n = 0, end;
    for (size_t i = 0; i < chars->n; i = end) {
        for (end = i + 1; end < chars->n && chars->rows[end].code == chars->rows[end - 1].code + 1;)
            end++;
        if (cap - n < 24) { /* one more run and the dots */
            text_format(out + n, cap - n, "...");
            return;
        }
        n += put_code(out + n, cap - n, chars->rows[i].code);
        if (end - i > 2)
            n += text_format(out + n, cap - n, "-");
        if (end - i > 1)
            n += put_code(out + n, cap - n, chars->rows[end - 1].code);
    }
}

static int refuse_char(struct tok_call *c, const char *p, size_t n)
{
    char name[TOK_NAME_MAX], known[80] = "";
    tok_name_unit(name, p, n);
    describe_chars(c->t->chars, known, sizeof known);
    uint64_t at = tok_place(c, p);
    return err_set(c->err, MGPT_ETEXT, at,
                   "%s at byte %llu is not in the vocabulary (%zu tokens: %s)", name,
                   (unsigned long long)at, c->t->n, known);
}

static int char_encode(struct tok_call *c, const char *p, size_t n)
{
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code = (unsigned char)p[i];
        length = code < N_ASCII ? 1 : utf8_next(p + i, n - i, &code);
        int32_t id = code < N_ASCII ? c->t->chars->ascii[code] : search_char(c->t->chars, code);
        if (id < 0)
            return refuse_char(c, p + i, n - i);
        tok_put(c, id);
    }
    return MGPT_OK;
}

const struct tok_kind tok_kind_char = {
    .name = "char",
    .open = char_open,
    .close = char_close,
    .encode = char_encode,
};
