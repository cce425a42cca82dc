/* SentencePiece's precompiled_charsmap: characters, or short sequences of them, to texts.
 *
 *     u32 n_bytes    size of the trie
 *     u32 trie[]     a double array: the children of a node are found by an exclusive or
 *     texts          what they become, each ends with NUL; values of the trie are offsets in it
 *
 * A unit of the trie: bits 0 to 7 its byte, bit 8 "a value follows", bits 10 to 30 the distance to
 * its children, times 256 if bit 9 is set, bit 31 set in values. Every step is checked against the
 * size, so any bytes give some result. Texts have at most CHARSMAP_TEXT bytes, or a short text
 * could become a very long one. A match has at most CHARSMAP_KEY bytes: a trie with a cycle would
 * match a long text to its end from every position.
 *
 * SentencePiece replaces the longest match at each position. Hugging Face replaces a whole
 * grapheme of at most 5 bytes by the text of the shortest match at its start, else its characters
 * one by one (mgpt.tokenizer.graphemes).
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include "tokenizer/tok_regex.h"

#include <stdlib.h>
#include <string.h>

#define KEY_CHARSMAP "tokenizer.ggml.precompiled_charsmap"
#define CHARSMAP_TEXT 255
#define CHARSMAP_KEY 255
#define SHORT_GRAPHEME 5 /* bytes; longer ones are replaced by character */

struct tok_charsmap {
    const uint8_t *trie;
    size_t n_units;
    const char *texts;
    size_t n_texts;
    struct tok_regex *grapheme; /* NULL: SentencePiece's replacement */
};

/* ---- opening --------------------------------------------------------------------------------- */

void tok_charsmap_close(struct tok_charsmap *m)
{
    if (m)
        regex_close(m->grapheme);
    free(m);
}

static int check_texts(const struct tok_charsmap *m, const struct gguf_kv *kv, mgpt_error *err)
{
    for (size_t at = 0; at < m->n_texts;) {
        const char *end = memchr(m->texts + at, 0, m->n_texts - at);
        size_t n = end ? (size_t)(end - m->texts) - at : m->n_texts - at;
        if (n > CHARSMAP_TEXT)
            return err_set(err, MGPT_EFILE, kv->offset,
                           KEY_CHARSMAP ": the text at byte %zu of the texts is longer than %d", at,
                           CHARSMAP_TEXT);
        at += n + 1;
    }
    return MGPT_OK;
}

/* The key as an array of bytes, signed or not: 1, or 0 when it is absent. */
static int find_bytes(const struct gguf *g, const struct gguf_kv **kv, mgpt_error *err)
{
    const struct gguf_kv *any = gguf_find(g, KEY_CHARSMAP);
    int is_signed = any && any->type == GGUF_ARRAY && any->element == GGUF_I8;
    return gguf_array(g, KEY_CHARSMAP, is_signed ? GGUF_I8 : GGUF_U8, kv, err);
}

int tok_charsmap_open(struct tok_charsmap **map, const struct gguf *g, mgpt_error *err)
{
    const struct gguf_kv *kv;
    int graphemes = 0, there = find_bytes(g, &kv, err);
    if (there > 0 && gguf_bool(g, "mgpt.tokenizer.graphemes", &graphemes, err) < 0)
        return MGPT_EFILE;
    if (there <= 0 || kv->n == 0)
        return there < 0 ? there : MGPT_OK;
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    uint32_t n_bytes = cursor_u32(&c);
    if (c.failed || n_bytes == 0 || n_bytes % 4 || n_bytes >= cursor_left(&c))
        return err_set(err, MGPT_EFILE, kv->offset,
                       KEY_CHARSMAP ": a trie of %u bytes in %llu bytes", (unsigned)n_bytes,
                       (unsigned long long)kv->n);
    struct tok_charsmap *m = *map = mem_new(1, sizeof *m);
    if (!m)
        return err_memory(err, "the tokenizer", sizeof *m);
    m->trie = cursor_take(&c, n_bytes);
    m->n_units = n_bytes / 4;
    m->n_texts = cursor_left(&c);
    m->texts = (const char *)cursor_take(&c, m->n_texts);
    int status = check_texts(m, kv, err);
    if (status < 0 || !graphemes)
        return status;
    m->grapheme = regex_open((struct gguf_str){"\\X", 2}, err);
    return m->grapheme ? MGPT_OK : MGPT_EMEM;
}

/* ---- look-up --------------------------------------------------------------------------------- */

/* Unit i; one beyond the trie has a byte that no text has. */
static uint32_t unit_at(const struct tok_charsmap *m, size_t i)
{
    struct cursor c = cursor_over(m->trie, m->n_units * 4);
    if (i >= m->n_units)
        return UINT32_C(1) << 31;
    c.pos = i * 4;
    return cursor_u32(&c);
}

static size_t children_of(uint32_t unit)
{
    return (size_t)(unit >> 10 & 0x1FFFFF) << (unit >> 6 & 8);
}

/* The longest or the shortest match at p: its length and text; 0: there is none. */
static size_t find_match(const struct tok_charsmap *m, const char *p, size_t n, int longest,
                         struct gguf_str *text)
{
    size_t at = children_of(unit_at(m, 0)), length = 0, where = 0;
    for (size_t i = 0; i < n && i < CHARSMAP_KEY && p[i]; i++) {
        at ^= (uint8_t)p[i];
        uint32_t unit = unit_at(m, at);
        if ((unit & (UINT32_C(1) << 31 | 0xFF)) != (uint8_t)p[i])
            break;
        at ^= children_of(unit);
        if (!(unit >> 8 & 1))
            continue;
        length = i + 1;
        where = unit_at(m, at) & ~(UINT32_C(1) << 31);
        if (!longest)
            break;
    }
    if (length == 0 || where >= m->n_texts)
        return 0;
    const char *from = m->texts + where, *end = memchr(from, 0, m->n_texts - where);
    *text = (struct gguf_str){from, end ? (size_t)(end - from) : m->n_texts - where};
    return length;
}

/* The character at p, or what it becomes. */
static size_t map_character(const struct tok_charsmap *m, const char *p, size_t n,
                            struct gguf_str *text)
{
    uint32_t code;
    size_t length = utf8_next(p, n, &code);
    if (!find_match(m, p, length, 0, text))
        *text = (struct gguf_str){p, length};
    return length;
}

static int put_grapheme(const struct tok_charsmap *m, const char *p, size_t n,
                        const struct charsmap_sink *to)
{
    struct gguf_str text;
    int status = MGPT_OK;
    if (n <= SHORT_GRAPHEME && find_match(m, p, n, 0, &text))
        return to->put(to->user, text);
    for (size_t at = 0; at < n && status == MGPT_OK;) {
        at += map_character(m, p + at, n - at, &text);
        status = to->put(to->user, text);
    }
    return status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

size_t tok_charsmap_next(const struct tok_charsmap *m, const char *p, size_t n,
                         struct gguf_str *text)
{
    uint32_t code;
    size_t length = find_match(m, p, n, 1, text);
    if (length > 0)
        return length;
    *text = (struct gguf_str){p, utf8_next(p, n, &code)};
    return text->n;
}

int tok_charsmap_by_grapheme(const struct tok_charsmap *m)
{
    return m && m->grapheme;
}

/* Maps n well-formed bytes grapheme by grapheme. */
static int put_graphemes(const struct tok_charsmap *m, const char *p, size_t n,
                         const struct charsmap_sink *to, struct span_part **parts)
{
    int status = n > 0 ? regex_parts(m->grapheme, p, n, parts, to->err) : MGPT_OK;
    for (size_t i = 0; n > 0 && status == MGPT_OK && i < arr_len(*parts); i++) {
        const struct span_part *part = &(*parts)[i];
        status = put_grapheme(m, p + part->from, part->to - part->from, to);
    }
    return status;
}

int tok_charsmap_graphemes(const struct tok_charsmap *m, const char *p, size_t n,
                           const struct charsmap_sink *to)
{
    struct span_part *parts = NULL;
    int status = MGPT_OK;
    for (size_t at = 0, good; at < n && status == MGPT_OK; at += good + 1) {
        good = utf8_well_formed(p + at, n - at);
        status = put_graphemes(m, p + at, good, to, &parts);
        if (status == MGPT_OK && at + good < n)
            status = to->put(to->user, (struct gguf_str){p + at + good, 1});
    }
    arr_free(parts);
    return status;
}
