/* The vocabulary of a GGUF file: texts, types, and the bytes that each token decodes to.
 *
 * The file writes a token's text in one of two encodings: the byte alphabet of GPT-2, where every
 * byte is a visible character (a space is U+0120), or SentencePiece's, which writes a space as
 * U+2581 and single bytes as <0xHH>. The pieces are decoded once into one block, never larger than
 * the texts. Also here: the hash map from texts to ids.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/fnv.h"
#include "tokenizer/tok_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES "tokenizer.ggml.token_type"

/* ---- texts to ids ---------------------------------------------------------------------------- */

size_t tok_table_size(size_t n)
{
    size_t size = 16;
    while (size / 2 < n) {
        if (size > SIZE_MAX / 2)
            return 0;
        size *= 2;
    }
    return size;
}

int tok_map_init(struct tok_map *m, size_t n)
{
    size_t size = tok_table_size(n);
    m->slots = size ? mem_new(size, sizeof *m->slots) : NULL;
    m->mask = size - 1;
    m->seed = (uint64_t)(uintptr_t)m->slots;
    return m->slots != NULL;
}

void tok_map_free(struct tok_map *m)
{
    free(m->slots);
    m->slots = NULL;
}

static int is_concatenation(struct gguf_str text, struct gguf_str a, struct gguf_str b)
{
    return text.n == a.n + b.n && memcmp(text.p, a.p, a.n) == 0 &&
           memcmp(text.p + a.n, b.p, b.n) == 0;
}

/* The key of token id in this map: its text or its piece. */
static struct gguf_str key_text(const struct tok_map *m, const struct tok *t, uint32_t id)
{
    const struct tok_entry *e = &t->entries[id];
    return m->pieces ? (struct gguf_str){e->piece, e->n_piece} : e->text;
}

/* The slot with the text a followed by b, or the free slot for it. */
static size_t find_slot(const struct tok_map *m, const struct tok *t, struct gguf_str a,
                        struct gguf_str b)
{
    uint64_t h = fnv1a(fnv1a(m->seed ^ FNV_START, a.p, a.n), b.p, b.n);
    size_t i = (size_t)(h ^ h >> 32) & m->mask;
    while (m->slots[i] && !is_concatenation(key_text(m, t, m->slots[i] - 1), a, b))
        i = (i + 1) & m->mask;
    return i;
}

void tok_map_add(struct tok_map *m, const struct tok *t, uint32_t id)
{
    struct gguf_str text = key_text(m, t, id);
    size_t i = find_slot(m, t, text, (struct gguf_str){text.p, 0});
    if (!m->slots[i])
        m->slots[i] = id + 1;
}

int32_t tok_map_find(const struct tok_map *m, const struct tok *t, struct gguf_str a,
                     struct gguf_str b)
{
    return (int32_t)m->slots[find_slot(m, t, a, b)] - 1;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The byte that a character of GPT-2's alphabet encodes, -1 for any other character. The 188 bytes
 * that are visible in Latin-1 encode themselves, the others are U+0100 and up in their order. */
static int alphabet_byte(uint32_t code)
{
    if ((code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255))
        return (int)code;
    if (code >= 0x100 && code <= 0x120)
        return (int)(code - 0x100);
    if (code >= 0x121 && code <= 0x142)
        return (int)(code - 0x121 + 127);
    return code == 0x143 ? 173 : -1;
}

size_t tok_decode_alphabet(struct gguf_str text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        uint32_t code;
        i += utf8_next(text.p + i, text.n - i, &code);
        int byte = alphabet_byte(code);
        if (byte < 0) {
            memcpy(out, text.p, text.n);
            return text.n;
        }
        out[n++] = (char)byte;
    }
    return n;
}

static size_t decode_spaced(struct gguf_str text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        if (text.n - i >= 3 && memcmp(text.p + i, "\xE2\x96\x81", 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = text.p[i++];
        }
    }
    return n;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of a byte token's text "<0xHH>", -1 when it is something else. */
static int byte_value(struct gguf_str text)
{
    if (text.n != 6 || memcmp(text.p, "<0x", 3) != 0 || text.p[5] != '>')
        return -1;
    int high = hex_digit(text.p[3]), low = hex_digit(text.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

int tok_byte_piece(const struct tok_entry *e, char *byte)
{
    int value = byte_value(e->text);
    *byte = (char)value;
    return value >= 0;
}

/* Writes the bytes of the token, at most its text's length. Unknown and unused tokens decode to
 * nothing, as control tokens do. */
static size_t decode_piece(const struct tok_entry *e, int spaces, char *out)
{
    switch (e->type) {
    case TOK_NORMAL:
        return spaces ? decode_spaced(e->text, out) : tok_decode_alphabet(e->text, out);
    case TOK_USER:
        if (spaces)
            return decode_spaced(e->text, out);
        memcpy(out, e->text.p, e->text.n);
        return e->text.n;
    case TOK_BYTE:
        *out = (char)byte_value(e->text);
        return 1;
    default:
        return 0;
    }
}

/* ---- loading --------------------------------------------------------------------------------- */

static int load_texts(struct tok *t, const struct gguf *g, const struct gguf_kv *kv,
                      size_t *n_bytes, mgpt_error *err)
{
    t->entries = mem_new((size_t)kv->n, sizeof *t->entries);
    if (!t->entries)
        return err_memory(err, "the vocabulary", (size_t)kv->n * sizeof *t->entries);
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    for (size_t i = 0; i < kv->n; i++) {
        struct gguf_str text = gguf_next_string(&c);
        if (c.failed)
            return err_set(err, MGPT_EFILE, kv->offset, KEY_TOKENS "[%zu]: the array ends before",
                           i);
        if (text.n > TOK_TOKEN_MAX)
            return err_set(err, MGPT_EFILE, (uint64_t)((const uint8_t *)text.p - g->data),
                           KEY_TOKENS "[%zu]: %zu bytes, the limit is %d", i, text.n,
                           TOK_TOKEN_MAX);
        t->entries[i].text = text;
        *n_bytes += text.n;
    }
    t->n = (size_t)kv->n;
    return MGPT_OK;
}

/* Without the array every token is normal; type 0, "undefined", also counts as normal. */
static int load_types(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    const struct gguf_kv *kv = NULL;
    int there = gguf_array(g, KEY_TYPES, GGUF_I32, &kv, err);
    if (there < 0)
        return there;
    if (there && kv->n != t->n)
        return err_set(err, MGPT_EFILE, kv->offset, KEY_TYPES ": %llu entries for %zu tokens",
                       (unsigned long long)kv->n, t->n);
    struct cursor c = cursor_over(there ? kv->value : NULL, there ? kv->value_bytes : 0);
    for (size_t i = 0; i < t->n; i++) {
        int32_t type = there ? cursor_i32(&c) : TOK_NORMAL;
        if (type < 0 || type > TOK_BYTE)
            return err_set(err, MGPT_EFILE, kv->offset, KEY_TYPES "[%zu]: %d, expected 1 to 6", i,
                           type);
        t->entries[i].type = (uint8_t)(type ? type : TOK_NORMAL);
    }
    return MGPT_OK;
}

static int check_byte_tokens(const struct tok *t, const struct gguf *g, mgpt_error *err)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct tok_entry *e = &t->entries[i];
        if (e->type == TOK_BYTE && byte_value(e->text) < 0)
            return err_set(err, MGPT_EFILE, (uint64_t)((const uint8_t *)e->text.p - g->data),
                           KEY_TOKENS "[%zu]: '%.*s' is of type byte, expected <0xHH>", i,
                           (int)(e->text.n < 32 ? e->text.n : 32), e->text.p);
    }
    return MGPT_OK;
}

static int load_pieces(struct tok *t, size_t n_bytes, int spaces, mgpt_error *err)
{
    t->pieces = mem_new(n_bytes, 1);
    if (!t->pieces)
        return err_memory(err, "the vocabulary", n_bytes);
    char *out = t->pieces;
    for (size_t i = 0; i < t->n; i++) {
        struct tok_entry *e = &t->entries[i];
        e->piece = out;
        e->n_piece = (uint16_t)decode_piece(e, spaces, out);
        out += e->n_piece;
    }
    return MGPT_OK;
}

int tok_vocab_load(struct tok *t, const struct gguf *g, enum vocab_spelling spelling,
                   mgpt_error *err)
{
    const struct gguf_kv *kv;
    size_t n_bytes = 0;
    int status = gguf_array(g, KEY_TOKENS, GGUF_STRING, &kv, err);
    if (status <= 0)
        return status;
    status = load_texts(t, g, kv, &n_bytes, err);
    if (status == MGPT_OK)
        status = load_types(t, g, err);
    if (status == MGPT_OK)
        status = check_byte_tokens(t, g, err);
    if (status < 0)
        return status;
    if (spelling != SPELL_DECODERS)
        return load_pieces(t, n_bytes, spelling == SPELL_SPACES, err);
    for (size_t i = 0; i < t->n; i++) {
        t->entries[i].piece = t->entries[i].text.p;
        t->entries[i].n_piece = (uint16_t)t->entries[i].text.n;
    }
    return MGPT_OK;
}

/* ---- scores ---------------------------------------------------------------------------------- */

int tok_scores_load(const struct tok *t, const struct gguf *g, const char *key,
                    enum gguf_type element, double *scores, mgpt_error *err)
{
    const struct gguf_kv *kv;
    int status = gguf_array(g, key, element, &kv, err);
    if (status <= 0)
        return status;
    if (kv->n != t->n)
        return err_set(err, MGPT_EFILE, kv->offset, "%s: %llu entries for %zu tokens", key,
                       (unsigned long long)kv->n, t->n);
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    for (size_t i = 0; i < t->n; i++) {
        scores[i] = element == GGUF_F64 ? cursor_f64(&c) : (double)cursor_f32(&c);
        if (isnan(scores[i]))
            return err_set(err, MGPT_EFILE, kv->offset, "%s[%zu]: not a number", key, i);
    }
    return 1;
}
