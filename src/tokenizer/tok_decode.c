/* What a token's text becomes when it is decoded, for vocabularies that say it in steps:
 *
 *   mgpt.tokenizer.decoders     strings, a list like those of tok_steps.h:
 *       replace FROM TO         texts, not patterns
 *       bytes                   GPT-2's alphabet to bytes; not in added tokens, unless a normalizer
 *                               wrote them so
 *       lead TEXT               the text before every token
 *       unprefix TEXT           a token without the text at its start, or with a space before it
 *       cleanup                 no space before . ? ! , and English contractions
 *   mgpt.tokenizer.drops_space  bool: the space that a text's first token begins with is dropped
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY_DECODERS "mgpt.tokenizer.decoders"
#define DECODERS_MAX 16
#define DECODER_TEXT_MAX 64 /* bytes of an argument */

enum decoder_op { DECODE_REPLACE, DECODE_BYTES, DECODE_LEAD, DECODE_UNPREFIX, DECODE_CLEANUP };

struct tok_decoders {
    size_t n;
    struct decoder {
        enum decoder_op op;
        struct gguf_str a, b;
    } steps[DECODERS_MAX];
};

/* ---- reading --------------------------------------------------------------------------------- */

static const struct decoder_row {
    const char *name;
    unsigned n_texts;
} decoder_rows[] = {{"replace", 2}, {"bytes", 0}, {"lead", 1}, {"unprefix", 1}, {"cleanup", 0}};
enum { N_DECODER_ROWS = sizeof decoder_rows / sizeof *decoder_rows };
_Static_assert(N_DECODER_ROWS == DECODE_CLEANUP + 1, "a row for each operation");

static int refuse_decoder(const struct gguf_kv *kv, struct gguf_str s, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, kv->offset,
                   KEY_DECODERS ": '%.*s' is not a decoder or too long", (int)(s.n < 40 ? s.n : 40),
                   s.p);
}

/* Reads one step of at most *left strings; a step needs its name and its texts. */
static int read_decoder(struct decoder *d, struct cursor *c, uint64_t *left,
                        const struct gguf_kv *kv, mgpt_error *err)
{
    struct gguf_str name = gguf_next_string(c), *texts[] = {&d->a, &d->b};
    size_t op = 0;
    while (op < N_DECODER_ROWS && !gguf_str_is(name, decoder_rows[op].name))
        op++;
    if (op == N_DECODER_ROWS || *left < 1 + decoder_rows[op].n_texts)
        return refuse_decoder(kv, name, err);
    d->op = (enum decoder_op)op;
    *left -= 1 + decoder_rows[op].n_texts;
    for (size_t i = 0; i < decoder_rows[op].n_texts; i++) {
        *texts[i] = gguf_next_string(c);
        if (texts[i]->n > DECODER_TEXT_MAX || (i == 0 && texts[i]->n == 0))
            return refuse_decoder(kv, *texts[i], err);
    }
    return MGPT_OK;
}

static int read_decoders(struct tok_decoders *d, const struct gguf *g, mgpt_error *err)
{
    const struct gguf_kv *kv;
    int there = gguf_array(g, KEY_DECODERS, GGUF_STRING, &kv, err);
    if (there <= 0)
        return there;
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    for (uint64_t left = kv->n; left > 0;) {
        if (d->n == DECODERS_MAX)
            return err_set(err, MGPT_EFILE, kv->offset, KEY_DECODERS ": more than %d steps",
                           DECODERS_MAX);
        int status = read_decoder(&d->steps[d->n++], &c, &left, kv, err);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static int text_at(const char *p, size_t n, const char *text, size_t n_text)
{
    return n_text > 0 && n >= n_text && memcmp(p, text, n_text) == 0;
}

static int replace_text(const struct decoder *d, const char *p, size_t n, char **out)
{
    int ok = 1;
    for (size_t i = 0; i < n && ok;) {
        int is_match = text_at(p + i, n - i, d->a.p, d->a.n);
        ok = is_match ? arr_append(out, d->b.p, d->b.n) : arr_append(out, p + i, 1);
        i += is_match ? d->a.n : 1;
    }
    return ok;
}

/* Replaces in p[0 .. n) by texts that are not longer. Returns the new length. */
static size_t shorten_text(char *p, size_t n, const char *from, const char *to)
{
    size_t k = 0, n_from = strlen(from), n_to = strlen(to);
    for (size_t i = 0; i < n;) {
        int is_match = text_at(p + i, n - i, from, n_from);
        memmove(p + k, is_match ? to : p + i, is_match ? n_to : 1);
        k += is_match ? n_to : 1;
        i += is_match ? n_from : 1;
    }
    return k;
}

/* Hugging Face's cleanup of one token, in its order. */
static int clean_text(const char *p, size_t n, char **out)
{
    static const char *const texts[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    if (!arr_append(out, p, n))
        return 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        arr_set_len(*out, shorten_text(*out, arr_len(*out), texts[i][0], texts[i][1]));
    return 1;
}

static int decode_bytes(const char *p, size_t n, char **out)
{
    size_t at = arr_len(*out);
    if (!arr_append(out, p, n)) /* the room: bytes are never more */
        return 0;
    arr_set_len(*out, at + tok_decode_alphabet((struct gguf_str){p, n}, *out + at));
    return 1;
}

static int decode_step(const struct decoder *d, const struct tok_entry *e, const char *p, size_t n,
                       char **out)
{
    switch (d->op) {
    case DECODE_REPLACE:
        return replace_text(d, p, n, out);
    case DECODE_BYTES:
        if (e->type == TOK_USER && e->piece == e->text.p)
            return arr_append(out, p, n);
        return decode_bytes(p, n, out);
    case DECODE_LEAD:
        return arr_append(out, d->a.p, d->a.n) && arr_append(out, p, n);
    case DECODE_UNPREFIX:
        if (text_at(p, n, d->a.p, d->a.n))
            return arr_append(out, p + d->a.n, n - d->a.n);
        return arr_append(out, " ", 1) && arr_append(out, p, n);
    default:
        return clean_text(p, n, out);
    }
}

/* Decodes e->piece into a[0]; a[1] is scratch. */
static int decode_entry(const struct tok_decoders *d, const struct tok_entry *e, char *a[2])
{
    int ok = arr_reserve(a[0], e->n_piece + 1u) && arr_reserve(a[1], e->n_piece + 1u);
    if (ok)
        arr_set_len(a[0], 0);
    ok = ok && arr_append(&a[0], e->piece, e->n_piece);
    for (size_t i = 0; i < d->n && ok; i++) {
        arr_set_len(a[1], 0);
        ok = decode_step(&d->steps[i], e, a[0], arr_len(a[0]), &a[1]);
        char *swap = a[0];
        a[0] = a[1];
        a[1] = swap;
    }
    return ok;
}

/* Appends the piece of every token to *all; byte tokens are their byte, control tokens nothing. */
static int decode_all(struct tok *t, const struct tok_decoders *d, char **all, char *a[2],
                      mgpt_error *err)
{
    for (size_t i = 0; i < t->n; i++) {
        struct tok_entry *e = &t->entries[i];
        int status = MGPT_OK;
        size_t at = arr_len(*all);
        char byte;
        if (e->type == TOK_BYTE)
            status = tok_byte_piece(e, &byte) && arr_append(all, &byte, 1) ? 1 : 0;
        else if (e->type == TOK_NORMAL || e->type == TOK_USER)
            status = decode_entry(d, e, a) && arr_append(all, a[0], arr_len(a[0])) ? 1 : 0;
        else
            status = 1;
        if (!status)
            return err_memory(err, "the vocabulary", t->n);
        if (arr_len(*all) - at > 4u * e->n_piece + DECODER_TEXT_MAX)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "token %zu: its decoded text is too long", i);
        e->n_piece =
            (uint16_t)(arr_len(*all) - at < TOK_TOKEN_MAX ? arr_len(*all) - at : TOK_TOKEN_MAX);
        arr_set_len(*all, at + e->n_piece);
    }
    return MGPT_OK;
}

int tok_decode_pieces(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct tok_decoders d = {0};
    char *all = NULL, *a[2] = {NULL, NULL};
    int status = read_decoders(&d, g, err);
    if (status == MGPT_OK)
        status = arr_reserve(all, 64) ? decode_all(t, &d, &all, a, err)
                                      : err_memory(err, "the vocabulary", 64);
    if (status == MGPT_OK) {
        t->pieces = mem_new(arr_len(all) + 1, 1);
        if (!t->pieces)
            status = err_memory(err, "the vocabulary", arr_len(all));
        else
            memcpy(t->pieces, all, arr_len(all));
    }
    for (size_t i = 0, at = 0; i < t->n && status == MGPT_OK; at += t->entries[i++].n_piece)
        t->entries[i].piece = t->pieces + at;
    arr_free(all);
    arr_free(a[0]);
    arr_free(a[1]);
    return status;
}
