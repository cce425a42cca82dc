/* How SentencePiece's models see a text: every space is U+2581, and one more may be in front.
 *
 * Before that, a file may ask for more: characters are replaced (tok_charsmap.c), runs of spaces
 * become one and those at both ends are removed (remove_extra_whitespaces). Then places in the
 * result are no longer places in the text, and errors name where the part begins.
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

int tok_begins_space(const char *p, size_t n)
{
    return n >= SPACE_BYTES && memcmp(p, SPACE, SPACE_BYTES) == 0;
}

int tok_inner_space(struct gguf_str text)
{
    int letters = 0;
    for (size_t i = 0; i < text.n;) {
        int space = tok_begins_space(text.p + i, text.n - i);
        if (space && letters)
            return 1;
        letters = !space;
        i += space ? SPACE_BYTES : 1;
    }
    return 0;
}

size_t tok_run_end(const struct tok *t, int by_word, const char *p, size_t n, size_t from)
{
    int letters = 0;
    for (size_t i = from; (by_word || t->space_alone) && i < n;) {
        int space = tok_begins_space(p + i, n - i);
        if (space && (letters || (t->space_alone && i > from)))
            return i;
        letters = !space;
        i += space ? SPACE_BYTES : 1;
    }
    return n;
}

/* ---- escaping -------------------------------------------------------------------------------- */

/* 1: a space is added before this part of the text, which is now p. */
static int wants_space(const struct tok *t, int is_first, const char *p, size_t n)
{
    if (!t->adds_space || (t->space_first && !is_first))
        return 0;
    return !t->space_missing || !((n > 0 && p[0] == ' ') || tok_begins_space(p, n));
}

/* Escapes n bytes into s. 0 when out of memory. */
static int escape(const char *p, size_t n, struct tok_spaced *s)
{
    size_t size = n + (s->in_front ? SPACE_BYTES : 0);
    for (size_t i = 0; i < n; i++)
        size += p[i] == ' ' ? SPACE_BYTES - 1 : 0;
    char *out = s->text = mem_new(size, 1);
    if (!out)
        return 0;
    if (s->in_front)
        out = (char *)memcpy(out, SPACE, SPACE_BYTES) + SPACE_BYTES;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ' ')
            out = (char *)memcpy(out, SPACE, SPACE_BYTES) + SPACE_BYTES;
        else
            *out++ = p[i];
    }
    s->n = size;
    return 1;
}

/* ---- normalising ----------------------------------------------------------------------------- */

/* The text so far, an stb_ds array. */
struct normal {
    struct tok_call *c;
    char *text;
};

static int put_normal_text(void *user, struct gguf_str text)
{
    struct normal *to = user;
    size_t at = arr_len(to->text);
    if (text.n > TOK_TEXT_MAX - at)
        return err_set(to->c->err, MGPT_ETEXT, MGPT_NO_OFFSET,
                       "the text becomes longer than %zu bytes when it is normalised",
                       TOK_TEXT_MAX);
    if (!arr_append(&to->text, text.p, text.n))
        return err_memory(to->c->err, "a copy of the text", at + text.n);
    return MGPT_OK;
}

/* What the text at p, of n bytes, becomes; a user-defined token there (`user`) stays as it is. */
static size_t next_text(const struct tok *t, const struct match_row *user, const char *p, size_t n,
                        struct gguf_str *text)
{
    uint32_t code;
    if (!user && t->charsmap)
        return tok_charsmap_next(t->charsmap, p, n, text);
    *text = (struct gguf_str){p, user ? user->text.n : utf8_next(p, n, &code)};
    return text->n;
}

/* One replaced text after another, without spaces that follow a space, or that begin the text. The
 * inside of a replaced text is not looked at. */
static int put_collapsed(struct normal *to, const char *p, size_t n)
{
    const struct tok *t = to->c->t;
    int after_space = t->collapses, status = MGPT_OK;
    struct match_scan users;
    match_begin(&users, &t->users, p, n);
    for (size_t at = 0; at < n && status == MGPT_OK;) {
        struct gguf_str text;
        at += next_text(t, match_longest(&users, at), p + at, n - at, &text);
        for (; after_space && text.n > 0 && *text.p == ' '; text.n--)
            text.p++;
        if (text.n > 0)
            after_space = t->collapses && text.p[text.n - 1] == ' ';
        status = put_normal_text(to, text);
    }
    return status;
}

/* The length of n bytes without the spaces at their end. */
static size_t strip_end(const char *p, size_t n)
{
    for (;;) {
        if (n > 0 && p[n - 1] == ' ')
            n--;
        else if (n >= SPACE_BYTES && tok_begins_space(p + n - SPACE_BYTES, SPACE_BYTES))
            n -= SPACE_BYTES;
        else
            return n;
    }
}

static int normalise(struct tok_call *c, const char *p, size_t n, struct tok_spaced *s)
{
    struct normal to = {c, NULL};
    struct charsmap_sink sink = {put_normal_text, &to, c->err};
    int by_grapheme = tok_charsmap_by_grapheme(c->t->charsmap);
    int status = by_grapheme ? tok_charsmap_graphemes(c->t->charsmap, p, n, &sink)
                             : put_collapsed(&to, p, n);
    size_t n_normal = arr_len(to.text);
    if (c->t->collapses)
        n_normal = strip_end(to.text, n_normal);
    int is_text = n_normal > 0 || !(by_grapheme || c->t->collapses);
    s->changed = 1;
    s->in_front = is_text && wants_space(c->t, p == c->text, to.text, n_normal);
    if (status == MGPT_OK && !escape(to.text, n_normal, s))
        status = err_memory(c->err, "a copy of the text", n);
    arr_free(to.text);
    return status;
}

int tok_spaced_make(struct tok_call *c, const char *p, size_t n, struct tok_spaced *s)
{
    const struct tok *t = c->t;
    *s = (struct tok_spaced){.from = p, .n = n};
    if (t->charsmap || t->collapses)
        return normalise(c, p, n, s);
    s->in_front = wants_space(t, p == c->text, p, n);
    return escape(p, n, s) ? MGPT_OK : err_memory(c->err, "a copy of the text", n);
}

/* ---- the error ------------------------------------------------------------------------------- */

int tok_spaced_refuse(struct tok_call *c, const struct tok_spaced *s, size_t where)
{
    char name[TOK_NAME_MAX];
    tok_name_unit(name, s->text + where, s->n - where);
    uint64_t offset = tok_place(c, s->from);
    for (size_t at = s->in_front ? SPACE_BYTES : 0; !s->changed && !c->t->steps && at < where;
         offset++)
        at += c->text[offset] == ' ' ? SPACE_BYTES : 1;
    return err_set(c->err, MGPT_ETEXT, offset,
                   "%s at byte %llu is not in the vocabulary (%zu tokens, no bytes)", name,
                   (unsigned long long)offset, c->t->n);
}
