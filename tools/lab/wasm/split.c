/* Cutting texts by the rules of tok_rules.c with the regular expressions of the page's own
 * language, which page/loader.js writes the patterns in. In place of tok_split.c, which has PCRE2.
 *
 * The pieces are those of PCRE2 but for characters that its Unicode and the browser's do not both
 * know.
 */
#include "tokenizer/tok_split.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* All matches of a pattern in n bytes of UTF-8, in order: from and to of each, in bytes, at
 * `spans`, which has room for n of them. Returns how many; -1: this browser cannot express the
 * pattern. */
__attribute__((import_module("page"), import_name("matches"))) int page_matches(
    const char *pattern, size_t n_pattern, const char *text, size_t n, uint32_t *spans);

struct split {
    const char *const *stages;
};

struct split *split_open(const struct split_rule *rule, mgpt_error *err)
{
    struct split *s = mem_new(1, sizeof *s);
    if (s)
        s->stages = rule->stages;
    else
        err_memory(err, "the splitting rule", sizeof *s);
    return s;
}

void split_close(struct split *s)
{
    free(s);
}

struct cutting {
    const char *subject;
    split_piece_fn *piece;
    void *user;
    mgpt_error *err;
};

static int split_cut(const struct cutting *c, const char *const *stages, size_t from, size_t to);

/* The matches and the text between them, each cut by the stages after the first. */
static int cut_by_spans(const struct cutting *c, const char *const *stages, size_t from, size_t to,
                        const uint32_t *spans, size_t n)
{
    int status = MGPT_OK;
    size_t at = from;
    for (size_t i = 0; i < n && status >= 0; i++) {
        size_t first = from + spans[2 * i], last = from + spans[2 * i + 1];
        status = split_cut(c, stages + 1, at, first);
        if (status >= 0)
            status = split_cut(c, stages + 1, first, last);
        at = last;
    }
    return status < 0 ? status : split_cut(c, stages + 1, at, to);
}

/* Cuts [from, to) by the stages that are left. As deep as there are stages. */
static int split_cut(const struct cutting *c, const char *const *stages, size_t from, size_t to)
{
    if (from == to)
        return MGPT_OK;
    if (!*stages)
        return c->piece(c->user, from, to);
    uint32_t *spans = mem_new(2 * (to - from), sizeof *spans);
    if (!spans)
        return err_memory(c->err, "splitting the text", 2 * (to - from) * sizeof *spans);
    int n = page_matches(*stages, strlen(*stages), c->subject + from, to - from, spans);
    int status = n < 0 ? err_set(c->err, MGPT_ETEXT, MGPT_NO_OFFSET,
                                 "this browser cannot split text as the model needs it")
                       : cut_by_spans(c, stages, from, to, spans, (size_t)n);
    free(spans);
    return status;
}

int split_text(const struct split *s, const char *subject, size_t n, split_piece_fn *piece,
               void *user, mgpt_error *err)
{
    struct cutting c = {subject, piece, user, err};
    int status = split_cut(&c, s->stages, 0, n);
    return status < 0 ? status : MGPT_OK;
}
