/* Character vocabularies for GGUF. See vocab_chars.h.
 *
 * Characters are looked up in sorted arrays of code points; nothing is quadratic, because
 * vocabularies come from hostile files. Characters share merge rules ("\xE2\x82" for both
 * "\xE2\x82\xAC" and "\xE2\x82\xA4"); each rule must occur once.
 */
#include "convert/vocab/vocab_chars.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define BOS_TEXT "<BOS>"

/* ---- entries --------------------------------------------------------------------------------- */

/* The code point of a one-character entry, UTF8_BAD for anything else. */
static uint32_t character(struct gguf_str s)
{
    uint32_t code;
    if (s.n == 0 || utf8_next(s.p, s.n, &code) != s.n)
        return UTF8_BAD;
    return code;
}

static int same_word(struct gguf_str s, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i < n && s.n == n; i++) {
        char c = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + 32) : s.p[i];
        if (c != word[i])
            return 0;
    }
    return s.n == n;
}

static int is_bos(struct gguf_str s)
{
    static const char *const words[] = {"bos", "<bos>", "[bos]", "<|bos|>", "<s>"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (same_word(s, words[i]))
            return 1;
    return 0;
}

static int is_special(struct gguf_str s)
{
    static const char *const words[] = {"eos", "pad", "unk", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (same_word(s, words[i]))
            return 1;
    return is_bos(s) || (s.n > 2 && s.p[0] == '<' && s.p[s.n - 1] == '>') ||
           (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']');
}

struct seen {
    uint32_t code, id;
};

static int compare_seen(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    if (x->code != y->code)
        return x->code < y->code ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int check_repeats(struct seen *seen, const struct gguf_str *entries, mgpt_error *err)
{
    size_t n = arr_len(seen);
    if (n)
        qsort(seen, n, sizeof *seen, compare_seen);
    for (size_t i = 1; i < n; i++)
        if (seen[i].code == seen[i - 1].code)
            return ckpt_refuse(err, "vocabulary: '%.*s' occurs twice, as entries %u and %u",
                               CKPT_CLIP(entries[seen[i].id].p, entries[seen[i].id].n),
                               seen[i - 1].id, seen[i].id);
    return MGPT_OK;
}

int vocab_chars_check(const struct gguf_str *entries, size_t n, mgpt_error *err)
{
    struct seen *seen = NULL;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < n; i++) {
        struct seen s = {character(entries[i]), (uint32_t)i};
        if (s.code == UTF8_BAD && !is_special(entries[i]))
            status = ckpt_refuse(err, "vocabulary: entry %zu \"%.*s\" is not one character", i,
                                 CKPT_CLIP(entries[i].p, entries[i].n));
        else if (s.code != UTF8_BAD && !arr_push(seen, s))
            status = err_memory(err, "the vocabulary", n * sizeof s);
    }
    if (status == MGPT_OK)
        status = check_repeats(seen, entries, err);
    arr_free(seen);
    return status;
}

/* ---- the byte alphabet and its merges -------------------------------------------------------- */

/* GPT-2's character for a byte; returns its length in UTF-8. */
static size_t put_byte(uint8_t byte, char *out)
{
    uint32_t code = byte;
    if (byte <= 32)
        code = 256u + byte;
    else if (byte >= 127 && byte <= 160)
        code = 289u + (byte - 127u);
    else if (byte == 173)
        code = 323;
    return utf8_put(code, out);
}

size_t vocab_put_bytes(const char *p, size_t n, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += put_byte((uint8_t)p[i], out + len);
    return len;
}

/* A merge: the first n bytes of a character; the last of them is the right part. */
struct prefix {
    uint32_t bytes; /* big-endian, left-aligned */
    uint32_t n;
};

static int compare_prefixes(const void *a, const void *b)
{
    const struct prefix *x = a, *y = b;
    if (x->n != y->n) /* shorter first: a rule comes before the ones that need its result */
        return x->n < y->n ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void vocab_chars_add_merge(struct checkpoint *c, struct prefix p)
{
    char bytes[4], text[16];
    for (uint32_t i = 0; i < 4; i++)
        bytes[i] = (char)(uint8_t)(p.bytes >> (24 - 8 * i));
    size_t n = vocab_put_bytes(bytes, p.n - 1, text);
    text[n++] = ' ';
    n += put_byte((uint8_t)bytes[p.n - 1], text + n);
    struct gguf_str merge = ckpt_str(c, text, n);
    ckpt_push(c, c->vocab.merges, merge);
}

static void add_merges(struct checkpoint *c, const struct gguf_str *entries, size_t n)
{
    struct prefix *all = ckpt_temp(c, 3 * n, sizeof *all); /* a character has up to 4 bytes */
    size_t n_all = 0;
    for (size_t i = 0; i < n; i++) {
        struct prefix p = {(uint32_t)(uint8_t)(entries[i].n ? *entries[i].p : 0) << 24, 1};
        while (character(entries[i]) != UTF8_BAD && p.n < entries[i].n) {
            p.bytes |= (uint32_t)(uint8_t)entries[i].p[p.n] << (24 - 8 * p.n);
            p.n++;
            all[n_all++] = p;
        }
    }
    qsort(all, n_all, sizeof *all, compare_prefixes);
    for (size_t i = 0; i < n_all; i++)
        if (i == 0 || compare_prefixes(&all[i - 1], &all[i]) != 0)
            vocab_chars_add_merge(c, all[i]);
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

static void vocab_chars_add_entry(struct checkpoint *c, struct gguf_str s)
{
    char text[8];
    if (character(s) == UTF8_BAD) {
        ckpt_token(c, s.p, s.n, TOKEN_CONTROL);
        return;
    }
    size_t n = vocab_put_bytes(s.p, s.n, text);
    ckpt_token(c, text, n, TOKEN_NORMAL);
}

static int64_t find_bos(const struct gguf_str *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_bos(entries[i]))
            return (int64_t)i;
    return -1;
}

/* The number of tokens must be the model's, and BOS one of them. Settles *bos. */
static void place_bos(struct checkpoint *c, const struct gguf_str *entries, size_t n, int64_t *bos,
                      uint64_t n_vocab)
{
    int64_t listed = find_bos(entries, n);
    if (n != n_vocab && (n + 1 != n_vocab || listed >= 0))
        ckpt_stop(c, "vocabulary of %zu entries%s, the model has %llu tokens", n,
                  listed >= 0 ? " (BOS among them)" : "", (unsigned long long)n_vocab);
    if (*bos >= 0 && (uint64_t)*bos >= n_vocab)
        ckpt_stop(c, "BOS id is %llu, the model has %llu tokens", (unsigned long long)*bos,
                  (unsigned long long)n_vocab);
    if (*bos >= 0)
        return;
    *bos = listed >= 0 || n == n_vocab ? listed : (int64_t)n;
    if (*bos >= 0)
        ckpt_note(c, "inferred: BOS = %lld (%s; set it with --bos)", (long long)*bos,
                  listed >= 0 ? "the vocabulary's own entry" : "the id after the characters");
    else
        ckpt_note(c, "no BOS: all tokens are characters (set one with --bos)");
}

void vocab_chars_set(struct checkpoint *c, const struct gguf_str *entries, size_t n, int64_t bos,
                     uint64_t n_vocab)
{
    ckpt_must(c, vocab_chars_check(entries, n, c->err));
    place_bos(c, entries, n, &bos, n_vocab);
    for (size_t i = 0, id = 0; id < n_vocab; id++) {
        if (n < n_vocab && (int64_t)id == bos)
            ckpt_token(c, BOS_TEXT, strlen(BOS_TEXT), TOKEN_CONTROL);
        else
            vocab_chars_add_entry(c, entries[i++]);
    }
    add_merges(c, entries, n);
    c->vocab.model = "gpt2";
    c->vocab.pre = "gpt-2";
    c->vocab.bos = c->vocab.eos = (int32_t)bos;
    c->vocab.add_bos = bos >= 0;
    c->vocab.add_eos = 0;
}
