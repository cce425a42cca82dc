/* tokenizer.json with a Unigram model: tokens with scores, in order of id.
 *
 * A split is chosen by sums of scores, and sums that are equal but for rounding do occur: "aab" is
 * "a" "ab" or "aa" "b". So the scores are written as doubles, exactly as Hugging Face's parser
 * reads them: it takes the digits as one integer and divides by a power of ten, which rounds twice
 * and is off by a bit for one score in nine.
 */
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/base64.h"
#include "convert/vocab/hf_tokenizer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scores ---------------------------------------------------------------------------------- */

/* The least digits that give v back: "d.ddde-dd" without its point, and the exponent of the last
 * digit. */
static uint64_t shortest_digits(double v, int *exponent)
{
    char text[32];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, v);
        if (strtod(text, NULL) == v)
            break;
    }
    uint64_t digits = 0;
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') {
            digits = digits * 10 + (uint64_t)(*p - '0');
            n++;
        }
    *exponent = (*p ? atoi(p + 1) : 0) - (n - 1);
    return digits;
}

/* 10^n, 0 <= n <= 308, correctly rounded. */
static double power_of_ten(int n)
{
    char text[16];
    snprintf(text, sizeof text, "1e%d", n);
    return strtod(text, NULL);
}

/* v as Hugging Face's parser reads its shortest text. */
static double hf_unigram_score(double v)
{
    int exponent;
    double f = (double)shortest_digits(fabs(v), &exponent);
    for (; exponent < -308; exponent += 308)
        f /= 1e308;
    f = exponent < 0 ? f / power_of_ten(-exponent) : f * power_of_ten(exponent);
    return v < 0 ? -f : f;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void set_entry(struct hf_tok *t, const struct jval *entry, size_t id)
{
    const struct jval *text = jval_at(entry, 0), *score = jval_at(entry, 1);
    double v = jval_number(score);
    struct vocab_slot *slot;
    if (jval_size(entry) != 2 || !jval_is(text, JVAL_STRING) ||
        !(jval_is(score, JVAL_REAL) || jval_is(score, JVAL_INTEGER)) || !isfinite(v))
        ckpt_stop(t->c, "%.60s: vocab[%zu]: expected a text and a score", t->file, id);
    struct gguf_str s = {jval_text(text), jval_text_size(text)};
    int is_byte = t->bytes && vocab_is_byte(s);
    vocab_slots_set(&t->slots, (int64_t)id, s.p, s.n, is_byte ? TOKEN_BYTE : TOKEN_NORMAL, &slot);
    slot->score = hf_unigram_score(v);
}

void hf_tok_unigram(struct hf_tok *t, const struct jval *model, uint64_t n_other)
{
    const struct jval *vocab = jval_get(model, "vocab"), *unk = hf_tok_value(model, "unk_id");
    size_t n = jval_size(vocab);
    int64_t id = unk ? jval_whole(unk) : -1;
    if (n == 0 || !jval_is(vocab, JVAL_ARRAY))
        hf_tok_refuse(t, "model", "vocab: expected a list of texts and scores");
    if (unk && (!jval_is(unk, JVAL_INTEGER) || id < 0 || (uint64_t)id >= n))
        hf_tok_refuse(t, "model", "unk_id is not the id of a token");
    t->bytes = hf_tok_flag(model, "byte_fallback", 0);
    t->c->vocab.unknown = (int32_t)id;
    vocab_slots_init(&t->slots, t->c, t->file, n > n_other ? n : n_other, t->n_rows);
    for (size_t i = 0; i < n; i++)
        set_entry(t, jval_at(vocab, i), i);
}

/* ---- the charsmap ---------------------------------------------------------------------------- */

/* The bytes that n digits of base64 give; the digits have been checked. */
static void decode_base64(const char *p, size_t n, char *out)
{
    uint32_t bits = 0;
    for (size_t i = 0, n_bits = 0; i < n; i++) {
        bits = bits << 6 | (uint32_t)base64_digit(p[i]);
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            *out++ = (char)(bits >> n_bits & 0xFF);
        }
    }
}

void hf_tok_set_charsmap(struct hf_tok *t, struct gguf_str map)
{
    struct cursor c = cursor_over(map.p, map.n);
    uint32_t n = cursor_u32(&c);
    if (c.failed || n == 0 || n % 4 || n >= cursor_left(&c))
        hf_tok_refuse(t, "normalizer", "the charsmap has no trie");
    t->c->vocab.charsmap = map;
}

void hf_tok_charsmap(struct hf_tok *t, const struct jval *part)
{
    const struct jval *v = jval_get(part, "precompiled_charsmap");
    const char *p = jval_text(v);
    size_t n = jval_text_size(v), good = 0;
    while (n > 0 && p[n - 1] == '=')
        n--;
    while (good < n && base64_digit(p[good]) >= 0)
        good++;
    if (!p || good < n || n % 4 == 1)
        hf_tok_refuse(t, "normalizer Precompiled", "precompiled_charsmap is not base64");
    size_t size = n / 4 * 3 + (n % 4 ? n % 4 - 1 : 0);
    char *bytes = ckpt_new(t->c, size + 1, 1);
    decode_base64(p, n, bytes);
    t->c->vocab.graphemes = 1;
    hf_tok_set_charsmap(t, (struct gguf_str){bytes, size});
}
