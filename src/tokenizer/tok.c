/* Tokenizers: opening, special tokens, and encoding of a whole text. See tok.h.
 *
 * A text is first searched for special tokens: leftmost, longest on equal starts, user-defined ones
 * always, control and unknown ones only if the caller allows it. The kind (tok_kinds.h) encodes the
 * text between them. BOS and EOS, or the tokens that the file names, are put around it; those before
 * it are not if the text itself begins with the first.
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define OUR_KEY(name) "mgpt.tokenizer." name

/* ---- opening ----------------------------------------------------------------------------------- */

/* The row of tokenizer.ggml.pre, for byte-level BPE. Only tok_bpe.c refuses a missing row: a
 * character vocabulary needs no rule. */
static int choose_rule(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct gguf_str pre = {"default", 7};
    int status = gguf_string(g, KEY("pre"), &pre, err);
    t->rule = split_find(pre);
    return status < 0 ? status : MGPT_OK;
}

/* 1 for a kind that has a vocabulary, 0 for "none". */
static int choose_kind(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct gguf_str model = {"none", 4};
    int status = gguf_string(g, KEY("model"), &model, err);
    if (status < 0)
        return status;
    if (status == 0 && gguf_find(g, KEY("tokens")))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "key " KEY("model") ": missing, but there are " KEY("tokens"));
#define KIND_ROW(id, name) {name, &tok_kind_##id},
    static const struct {
        const char *model;
        const struct tok_kind *kind;
    } rows[] = {TOK_KINDS(KIND_ROW){"none", NULL}, {"no_vocab", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (gguf_str_is(model, rows[i].model)) {
            t->kind = rows[i].kind;
            return t->kind != NULL;
        }
    return err_set(err, MGPT_EFILE, gguf_find(g, KEY("model"))->offset,
                   KEY("model") " '%.*s' is not supported", (int)(model.n < 32 ? model.n : 32),
                   model.p);
}

/* 1: every normal token is one character, and there is at least one. Such a file only merges
 * bytes to characters, so a look-up gives the same tokens and can name the missing character. */
static int is_all_characters(const struct tok *t)
{
    size_t n_normal = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct tok_entry *e = &t->entries[i];
        uint32_t code = UTF8_BAD;
        if (e->type == TOK_BYTE)
            return 0;
        if (e->type != TOK_NORMAL)
            continue;
        if (e->n_piece == 0 || utf8_next(e->piece, e->n_piece, &code) != e->n_piece ||
            code == UTF8_BAD)
            return 0;
        n_normal++;
    }
    return n_normal > 0;
}

static int open_vocabulary(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    int spaces = t->kind->spaces, alphabet = t->kind == &tok_kind_bpe, status = MGPT_OK;
    enum vocab_spelling spelling = alphabet ? SPELL_ALPHABET : SPELL_DECODERS;
    if (spaces)
        status = tok_charsmap_open(&t->charsmap, g, err);
    else if (alphabet)
        status = choose_rule(t, g, err);
    if (status == MGPT_OK)
        status = tok_vocab_load(t, g, spaces ? SPELL_SPACES : spelling, err);
    if (status == MGPT_OK && t->n == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key " KEY("tokens") ": missing or empty");
    if (status == MGPT_OK)
        status = tok_ids_load(t, g, err);
    t->user_pieces |= t->kind == &tok_kind_unigram && !gguf_find(g, OUR_KEY("scores"));
    if (status == MGPT_OK)
        status = steps_open(&t->steps, g, err);
    if (status == MGPT_OK)
        status = tok_specials_load(t, g, err);
    if (status == MGPT_OK && !spaces && !alphabet)
        status = tok_decode_pieces(t, g, err);
    if (status < 0)
        return status;
    if (alphabet && is_all_characters(t))
        t->kind = &tok_kind_char;
    return t->kind->open(t, g, err);
}

struct tok *tok_open(const struct gguf *g, mgpt_error *err)
{
    struct tok *t = mem_new(1, sizeof *t);
    if (!t) {
        err_memory(err, "the tokenizer", sizeof *t);
        return NULL;
    }
    t->bos = t->eos = t->unk = -1;
    int status = choose_kind(t, g, err);
    if (status > 0)
        status = open_vocabulary(t, g, err);
    if (status < 0) {
        tok_free(t);
        return NULL;
    }
    return t;
}

void tok_free(struct tok *t)
{
    if (!t)
        return;
    if (t->kind)
        t->kind->close(t);
    tok_charsmap_close(t->charsmap);
    tok_specials_free(t);
    steps_close(t->steps);
    free(t->ignored);
    free(t->pieces);
    free(t->entries);
    free(t);
}

/* ---- properties ------------------------------------------------------------------------------ */

const char *tok_kind(const struct tok *t)
{
    return t->kind ? t->kind->name : "none";
}

size_t tok_count(const struct tok *t)
{
    return t->n;
}

int32_t tok_bos(const struct tok *t)
{
    return t->bos;
}

int32_t tok_eos(const struct tok *t)
{
    return t->eos;
}

int tok_adds_bos(const struct tok *t)
{
    return (int)t->n_around[0];
}

/* The entry of an id, NULL when it is out of range. */
static const struct tok_entry *entry_of(const struct tok *t, int32_t token)
{
    return token >= 0 && (size_t)token < t->n ? &t->entries[token] : NULL;
}

const char *tok_ignored(const struct tok *t)
{
    return t->ignored ? t->ignored : "";
}

int tok_wants_nfc(const struct tok *t)
{
    return t->nfc;
}

int tok_has_steps(const struct tok *t)
{
    return t->steps != NULL;
}

int tok_is_end(const struct tok *t, int32_t token)
{
    const struct tok_entry *e = entry_of(t, token);
    return e && e->marks & IS_END;
}

const char *tok_piece(const struct tok *t, int32_t token, size_t *n_bytes)
{
    const struct tok_entry *e = entry_of(t, token);
    *n_bytes = e ? e->n_piece : 0;
    return e ? e->piece : "";
}

const char *tok_text(const struct tok *t, int32_t token, size_t *n_bytes)
{
    const struct tok_entry *e = entry_of(t, token);
    *n_bytes = e ? e->text.n : 0;
    return e ? e->text.p : "";
}

int tok_drops_space(const struct tok *t, int32_t first)
{
    const struct tok_entry *e = entry_of(t, first);
    int drops = t->drops_space || (t->kind && t->kind->spaces && t->adds_space);
    return drops && e && e->type == TOK_NORMAL && e->n_piece > 0 && e->piece[0] == ' ';
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* Text between special tokens of the normalized text. */
static int encode_normal(struct tok_call *c, const char *text, size_t from, size_t to)
{
    return steps_encode(c, text + from, to - from, c->at_start && from == 0);
}

/* Text between special tokens. */
static int encode_plain(struct tok_call *c, const char *text, size_t from, size_t to)
{
    const struct tok *t = c->t;
    char *normal = NULL;
    if (!t->steps)
        return t->kind->encode(c, text + from, to - from);
    c->part_at = from;
    c->at_start = from == 0;
    int status =
        steps_normalize(t->steps, text + from, to - from, &normal, &c->at_start, &c->limit, c->err);
    if (status == MGPT_OK)
        status = tok_specials_split(c, &t->normal_specials, normal, arr_len(normal), encode_normal);
    arr_free(normal);
    return status;
}

static int check_arguments(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
                           const int32_t *tokens, size_t cap, mgpt_error *err)
{
    const unsigned known = MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL;
    if ((!text && n_bytes > 0) || (!tokens && cap > 0))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "encode: %s is NULL",
                       text || n_bytes == 0 ? "tokens" : "text");
    if (flags & ~known)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "encode: unknown flags 0x%x",
                       flags & ~known);
    if (n_bytes > TOK_TEXT_MAX)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "encode: %zu bytes of text, at most %zu",
                       n_bytes, TOK_TEXT_MAX);
    if (!t->kind)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET,
                       "the model file has no vocabulary, so text cannot be encoded");
    return MGPT_OK;
}

int64_t tok_encode(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
                   int32_t *tokens, size_t cap, mgpt_error *err)
{
    int status = check_arguments(t, text, n_bytes, flags, tokens, cap, err);
    if (status < 0)
        return status;
    struct tok_call c = {.t = t,
                         .text = text,
                         .err = err,
                         .flags = flags,
                         .tokens = tokens,
                         .cap = cap,
                         .limit = STEPS_LIMIT(n_bytes)};
    int framed = !(flags & MGPT_NO_SPECIAL_TOKENS);
    int has_first = t->n_around[0] > 0 &&
                    tok_special_first(&t->specials, text, n_bytes, flags) == t->around[0][0];
    for (size_t i = 0; framed && !has_first && i < t->n_around[0]; i++)
        tok_put(&c, t->around[0][i]);
    status = tok_specials_split(&c, &t->specials, text, n_bytes, encode_plain);
    for (size_t i = 0; framed && i < t->n_around[1]; i++)
        tok_put(&c, t->around[1][i]);
    arr_free(c.symbols);
    arr_free(c.heap);
    return status < 0 ? status : c.n;
}

/* ---- errors ---------------------------------------------------------------------------------- */

int tok_printable(uint32_t code)
{
    int control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    int invisible = code == 0xAD || (code >= 0x200B && code <= 0x200F) || code == 0xFEFF;
    int layout = (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F);
    return !control && !invisible && !layout && code != UTF8_BAD;
}

void tok_name_unit(char name[TOK_NAME_MAX], const char *p, size_t n)
{
    uint32_t code;
    int length = (int)utf8_next(p, n, &code);
    char hex[8];
    size_t at = sizeof hex - 1;
    hex[at] = 0;
    for (uint32_t v = code == UTF8_BAD ? (uint8_t)*p : code; v || at > 3; v >>= 4)
        hex[--at] = "0123456789ABCDEF"[v & 15];
    if (code == UTF8_BAD)
        text_format(name, TOK_NAME_MAX, "byte 0x%s", hex + sizeof hex - 3);
    else if (tok_printable(code))
        text_format(name, TOK_NAME_MAX, "character '%.*s' (U+%s)", length, p, hex + at);
    else
        text_format(name, TOK_NAME_MAX, "character U+%s", hex + at);
}
