/* A character vocabulary out of a text: a list of characters, or the training text itself. See
 * vocab_chars.h.
 *
 * Checkpoints often come without their vocabulary, but next to the text they were trained on. The
 * set of characters is a bitmap over all code points, so a text of any size takes little memory.
 */
#include "base/utf8.h"
#include "convert/vocab/vocab_chars.h"

#include <string.h>

#define N_CODES 0x110000u

struct charset {
    uint8_t bits[N_CODES / 8];
    size_t n;       /* distinct characters */
    size_t n_added; /* all */
};

static void vocab_text_add_text(struct charset *set, const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        i += utf8_next(p + i, n - i, &code);
        uint8_t *byte = &set->bits[code / 8], bit = (uint8_t)(1u << code % 8);
        set->n += !(*byte & bit);
        *byte |= bit;
        set->n_added++;
    }
}

static int is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The characters of the lines without what strip() takes off their ends. */
static void add_lines(struct charset *set, const char *p, size_t n)
{
    for (size_t start = 0, end; start < n; start = end + 1) {
        for (end = start; end < n && p[end] != '\n' && p[end] != '\r'; end++)
            ;
        size_t first = start, last = end;
        while (first < last && is_blank(p[first]))
            first++;
        while (last > first && is_blank(p[last - 1]))
            last--;
        vocab_text_add_text(set, p + first, last - first);
    }
}

static struct span without_last_newline(struct span text)
{
    if (text.size && text.data[text.size - 1] == '\n')
        text.size--;
    if (text.size && text.data[text.size - 1] == '\r')
        text.size--;
    return text;
}

static struct gguf_str text_entry(struct checkpoint *c, uint32_t code)
{
    char text[4];
    return ckpt_str(c, text, utf8_put(code, text));
}

/* All tokens are characters, or all but BOS. */
static int fits(size_t n, uint64_t n_vocab)
{
    return n > 0 && (n == n_vocab || n + 1 == n_vocab);
}

/* The entries, which are there until the run ends; *n: their number. `name` is the text's. */
static struct gguf_str *from_text(struct checkpoint *c, struct span text, const char *name,
                                  uint64_t n_vocab, size_t *n)
{
    size_t good = utf8_well_formed((const char *)text.data, text.size);
    if (good != text.size)
        ckpt_stop(c, "%s: byte %zu is not UTF-8", name, good);
    struct charset *set = ckpt_temp(c, 1, sizeof *set);
    struct span list = without_last_newline(text);
    struct gguf_str *entries = ckpt_temp(c, (size_t)n_vocab, sizeof *entries);
    *n = 0;
    vocab_text_add_text(set, (const char *)list.data, list.size);
    if (set->n == set->n_added && fits(set->n, n_vocab)) {
        ckpt_note(c, "vocabulary: the %zu characters of %s, in order", set->n, name);
        for (size_t i = 0; i < list.size;) {
            uint32_t code;
            i += utf8_next((const char *)list.data + i, list.size - i, &code);
            entries[(*n)++] = text_entry(c, code);
        }
        return entries;
    }
    memset(set, 0, sizeof *set);
    add_lines(set, (const char *)text.data, text.size);
    const char *of = "of the lines of";
    size_t n_lines = set->n;
    if (!fits(set->n, n_vocab)) {
        of = "and newline of";
        vocab_text_add_text(set, (const char *)text.data, text.size);
    }
    if (!fits(set->n, n_vocab))
        ckpt_stop(c, "%s: %zu different characters, the model has %llu tokens", name, n_lines,
                  (unsigned long long)n_vocab);
    ckpt_note(c, "vocabulary: the %zu characters %s %s, sorted", set->n, of, name);
    for (uint32_t code = 0; code < N_CODES; code++)
        if (set->bits[code / 8] >> code % 8 & 1)
            entries[(*n)++] = text_entry(c, code);
    return entries;
}

void vocab_chars_from_option(struct checkpoint *c, const struct ckpt_input *in, int64_t bos)
{
    struct ckpt_side side;
    size_t n;
    if (!ckpt_side(c, in, OPT_CHARS, NULL, 0, &side))
        ckpt_stop(c, "--chars: no such file");
    const struct gguf_str *entries = from_text(c, side.bytes, side.name, c->hp.n_vocab, &n);
    vocab_chars_set(c, entries, n, bos, c->hp.n_vocab);
}
