/* WordPiece and WordLevel, as Hugging Face's tokenizers has them (tokenizer.ggml.model is
 * "mgpt-wordpiece" or "mgpt-wordlevel"). What a word is, the steps say (tok_steps.h).
 *
 *   tokenizer.ggml.unknown_token_id  a word that is not tokens, or too long; without it such a
 *                                    text is refused
 *   mgpt.tokenizer.prefix            of tokens that do not begin a word; without it: none
 *   mgpt.tokenizer.word_chars        u32: characters of the longest word, 100 without it
 *   mgpt.tokenizer.added             i32: ids that only the list of added tokens has
 *
 * WordPiece: a word becomes its longest beginning that is a token, then the longest token that
 * continues it, to its end. If no token continues it, the whole word is unknown.
 * WordLevel: a word is a token or unknown.
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "mgpt.tokenizer." name
#define WORD_CHARS 100
#define WORD_CHARS_MAX 10000

struct tok_words {
    struct tok_match rows;   /* all tokens */
    struct tok_match inside; /* tokens that begin with the prefix, without the prefix */
    uint64_t most;           /* characters of a word */
};

/* ---- opening --------------------------------------------------------------------------------- */

static void words_close(struct tok *t)
{
    if (t->words)
        match_free(&t->words->rows), match_free(&t->words->inside);
    free(t->words);
    t->words = NULL;
}

static int words_add(struct tok_words *w, const struct tok_entry *e, uint32_t id,
                     struct gguf_str prefix)
{
    if (!match_add(&w->rows, e->text, id, e->type))
        return 0;
    if (e->text.n <= prefix.n || memcmp(e->text.p, prefix.p, prefix.n) != 0)
        return 1;
    struct gguf_str rest = {e->text.p + prefix.n, e->text.n - prefix.n};
    return match_add(&w->inside, rest, id, e->type);
}

/* All tokens of the model, of every type. If two have equal texts, the last one counts, as in Hugging
 * Face. */
static int words_index(struct tok *t, const struct gguf *g, struct gguf_str prefix, mgpt_error *err)
{
    struct tok_words *w = t->words;
    int status = tok_marks_load(t, g, KEY("added"), ONLY_ADDED, err);
    for (size_t i = t->n; i > 0 && status == MGPT_OK; i--)
        if (!(t->entries[i - 1].marks & ONLY_ADDED) &&
            !words_add(w, &t->entries[i - 1], (uint32_t)(i - 1), prefix))
            return err_memory(err, "the vocabulary", t->n * sizeof *w->rows.rows);
    if (status == MGPT_OK)
        status = match_build(&w->rows, 1, err);
    return status == MGPT_OK ? match_build(&w->inside, 1, err) : status;
}

static int words_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct gguf_str prefix = {"", 0};
    struct tok_words *w = t->words = mem_new(1, sizeof *w);
    if (!w)
        return err_memory(err, "the tokenizer", sizeof *w);
    w->most = WORD_CHARS;
    int status = tok_affix_load(g, KEY("prefix"), &prefix, err);
    if (status == MGPT_OK)
        status = gguf_uint(g, KEY("word_chars"), WORD_CHARS_MAX, &w->most, err);
    if (status >= 0)
        status = words_index(t, g, prefix, err);
    return status < 0 ? status : MGPT_OK;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int put_unknown_word(struct tok_call *c, const char *p, size_t n)
{
    if (c->t->unk >= 0) {
        tok_put(c, c->t->unk);
        return MGPT_OK;
    }
    char name[TOK_NAME_MAX];
    tok_name_unit(name, p, n);
    return err_set(c->err, MGPT_ETEXT, tok_place(c, p),
                   "a word that begins with %s is not in the vocabulary, which has no token for "
                   "unknown words",
                   name);
}

/* 1: the word has more characters than the limit. */
static int is_too_long(const struct tok_words *w, const char *p, size_t n)
{
    uint64_t chars = 0;
    for (size_t i = 0; i < n && chars <= w->most; chars++) {
        uint32_t code;
        i += utf8_next(p + i, n - i, &code);
    }
    return chars > w->most;
}

static int wordpiece_encode(struct tok_call *c, const char *p, size_t n)
{
    const struct tok_words *w = c->t->words;
    const int64_t before = c->n;
    if (is_too_long(w, p, n))
        return put_unknown_word(c, p, n);
    struct match_scan first, inside;
    match_begin(&first, &w->rows, p, n);
    match_begin(&inside, &w->inside, p, n);
    for (size_t at = 0; at < n;) {
        const struct match_row *row = match_longest(at ? &inside : &first, at);
        if (!row) {
            c->n = before;
            return put_unknown_word(c, p, n);
        }
        tok_put(c, (int32_t)row->id);
        at += row->text.n;
    }
    return MGPT_OK;
}

static int wordlevel_encode(struct tok_call *c, const char *p, size_t n)
{
    struct match_scan scan;
    match_begin(&scan, &c->t->words->rows, p, n);
    const struct match_row *row = match_longest(&scan, 0);
    if (!row || row->text.n != n)
        return put_unknown_word(c, p, n);
    tok_put(c, (int32_t)row->id);
    return MGPT_OK;
}

const struct tok_kind tok_kind_wordpiece = {
    .name = "wordpiece",
    .open = words_open,
    .close = words_close,
    .encode = wordpiece_encode,
};

const struct tok_kind tok_kind_wordlevel = {
    .name = "wordlevel",
    .open = words_open,
    .close = words_close,
    .encode = wordlevel_encode,
};
