/* In place of tok_chars.c, tok_charsmap.c, tok_decode.c, tok_regex.c, tok_steps*.c,
 * tok_text.c, tok_unigram.c and tok_words.c: a page has no PCRE2, and their code would be a tenth
 * of the module. Vocabularies with normalizers or pre-tokenizers of their own, of Unigram or of
 * words are refused. */
#include "tokenizer/tok_impl.h"

#include "base/error.h"

static int refuse_vocabulary(mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "a page does not run this vocabulary");
}

int steps_open(struct tok_steps **steps, const struct gguf *g, mgpt_error *err)
{
    (void)steps;
    if (gguf_find(g, "mgpt.tokenizer.normalizers") || gguf_find(g, "mgpt.tokenizer.pre_tokenizers"))
        return refuse_vocabulary(err);
    return MGPT_OK;
}

void steps_close(struct tok_steps *s)
{
    (void)s;
}

int steps_normalize(const struct tok_steps *s, const char *p, size_t n, char **out, int *at_start,
                    uint64_t *limit, mgpt_error *err)
{
    (void)s, (void)p, (void)n, (void)out, (void)at_start, (void)limit, (void)err;
    return MGPT_EFILE;
}

int steps_encode(struct tok_call *c, const char *p, size_t n, int first)
{
    (void)c, (void)p, (void)n, (void)first;
    return MGPT_EFILE;
}

struct char_map *char_map_open(const struct gguf *g, struct gguf_str name, mgpt_error *err)
{
    (void)g, (void)name;
    refuse_vocabulary(err);
    return NULL;
}

void char_map_close(struct char_map *m)
{
    (void)m;
}

const uint32_t *char_map_find(const struct char_map *m, uint32_t code, size_t *n)
{
    (void)m, (void)code, (void)n;
    return NULL;
}

int tok_charsmap_open(struct tok_charsmap **map, const struct gguf *g, mgpt_error *err)
{
    (void)map;
    return gguf_find(g, "tokenizer.ggml.precompiled_charsmap") ? refuse_vocabulary(err) : MGPT_OK;
}

void tok_charsmap_close(struct tok_charsmap *m)
{
    (void)m;
}

size_t tok_charsmap_next(const struct tok_charsmap *m, const char *p, size_t n,
                         struct gguf_str *text)
{
    (void)m, (void)n;
    *text = (struct gguf_str){p, 1};
    return 1;
}

int tok_charsmap_by_grapheme(const struct tok_charsmap *m)
{
    (void)m;
    return 0;
}

int tok_charsmap_graphemes(const struct tok_charsmap *m, const char *p, size_t n,
                           const struct charsmap_sink *to)
{
    (void)m, (void)p, (void)n, (void)to;
    return MGPT_EFILE;
}

static int refuse_unigram(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    (void)t, (void)g;
    return refuse_vocabulary(err);
}

static void close_unigram(struct tok *t)
{
    (void)t;
}

const struct tok_kind tok_kind_unigram = {
    .name = "unigram",
    .spaces = 1,
    .open = refuse_unigram,
    .close = close_unigram,
};

const struct tok_kind tok_kind_unigram_pieces = {
    .name = "unigram",
    .open = refuse_unigram,
    .close = close_unigram,
};

int tok_decode_pieces(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    (void)t, (void)g;
    return refuse_vocabulary(err);
}

const struct tok_kind tok_kind_text = {
    .name = "bpe",
    .open = refuse_unigram,
    .close = close_unigram,
};

const struct tok_kind tok_kind_wordpiece = {
    .name = "wordpiece",
    .open = refuse_unigram,
    .close = close_unigram,
};

const struct tok_kind tok_kind_wordlevel = {
    .name = "wordlevel",
    .open = refuse_unigram,
    .close = close_unigram,
};
