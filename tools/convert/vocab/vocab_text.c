/* A character vocabulary out of a text: a list of characters, or the training text itself. See
 * vocab_chars.h.
 *
 * Checkpoints often come without their vocabulary, but next to the text they were trained on. The
 * set of characters is a bitmap over all code points, so a text of any size takes little memory.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/vocab/vocab_chars.h"

#include <stdlib.h>
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

static int check_utf8(struct span text, const char *name, mgpt_error *err)
{
    size_t good = utf8_well_formed((const char *)text.data, text.size);
    return good == text.size ? MGPT_OK : ckpt_refuse(err, "%s: byte %zu is not UTF-8", name, good);
}

static struct span without_last_newline(struct span text)
{
    if (text.size && text.data[text.size - 1] == '\n')
        text.size--;
    if (text.size && text.data[text.size - 1] == '\r')
        text.size--;
    return text;
}

static int vocab_text_add_entry(struct checkpoint *c, struct gguf_str **entries, uint32_t code,
                                mgpt_error *err)
{
    char text[4];
    size_t n = utf8_put(code, text);
    struct gguf_str entry = {ckpt_text(c, text, n), n};
    if (!entry.p || !arr_push(*entries, entry))
        return err_memory(err, "the vocabulary", sizeof entry);
    return MGPT_OK;
}

static int in_order(struct checkpoint *c, struct gguf_str **entries, struct span text,
                    mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < text.size;) {
        uint32_t code;
        i += utf8_next((const char *)text.data + i, text.size - i, &code);
        status = vocab_text_add_entry(c, entries, code, err);
    }
    return status;
}

static int sorted(struct checkpoint *c, struct gguf_str **entries, const struct charset *set,
                  mgpt_error *err)
{
    int status = MGPT_OK;
    for (uint32_t code = 0; status == MGPT_OK && code < N_CODES; code++)
        if (set->bits[code / 8] >> code % 8 & 1)
            status = vocab_text_add_entry(c, entries, code, err);
    return status;
}

/* All tokens are characters, or all but BOS. */
static int fits(size_t n, uint64_t n_vocab)
{
    return n > 0 && (n == n_vocab || n + 1 == n_vocab);
}

/* Tries the three readings of the text on an empty set. */
static int vocab_text_choose(struct checkpoint *c, struct gguf_str **entries, struct charset *set,
                             struct span text, const char *name, uint64_t n_vocab, mgpt_error *err)
{
    struct span list = without_last_newline(text);
    vocab_text_add_text(set, (const char *)list.data, list.size);
    if (set->n == set->n_added && fits(set->n, n_vocab)) {
        ckpt_note(c, "vocabulary: the %zu characters of %s, in order", set->n, name);
        return in_order(c, entries, list, err);
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
        return ckpt_refuse(err, "%s: %zu different characters, the model has %llu tokens", name,
                           n_lines, (unsigned long long)n_vocab);
    ckpt_note(c, "vocabulary: the %zu characters %s %s, sorted", set->n, of, name);
    return sorted(c, entries, set, err);
}

int vocab_chars_from_text(struct checkpoint *c, struct gguf_str **entries, struct span text,
                          const char *name, uint64_t n_vocab, mgpt_error *err)
{
    *entries = NULL;
    int status = check_utf8(text, name, err);
    if (status < 0)
        return status;
    struct charset *set = calloc(1, sizeof *set);
    if (!set)
        return err_memory(err, "a set of characters", sizeof *set);
    status = vocab_text_choose(c, entries, set, text, name, n_vocab, err);
    free(set);
    if (status < 0)
        arr_free(*entries);
    return status;
}
