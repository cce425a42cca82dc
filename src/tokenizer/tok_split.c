/* Cutting texts by the rules of tok_rules.c, with PCRE2. */
#include "tokenizer/tok_split.h"

#include "base/error.h"
#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

struct split {
    pcre2_code *stages[SPLIT_STAGES + 1]; /* ending with NULL */
};

void split_close(struct split *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->stages[i]; i++)
        pcre2_code_free(s->stages[i]);
    free(s);
}

struct split *split_open(const struct split_rule *rule, mgpt_error *err)
{
    struct split *s = mem_new(1, sizeof *s);
    if (!s)
        err_memory(err, "the splitting rule", sizeof *s);
    for (size_t i = 0; s && i < SPLIT_STAGES && rule->stages[i]; i++) {
        int code;
        size_t at;
        s->stages[i] = pcre2_compile((PCRE2_SPTR)rule->stages[i], PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
        if (!s->stages[i]) {
            err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "PCRE2 error %d in a splitting rule", code);
            split_close(s);
            return NULL;
        }
        pcre2_jit_compile(s->stages[i], PCRE2_JIT_COMPLETE); /* may fail: then it is interpreted */
    }
    return s;
}

/* ---- splitting ------------------------------------------------------------------------------- */

struct split_call {
    const char *subject;
    pcre2_match_data *match;
    split_piece_fn *piece;
    void *user;
    mgpt_error *err;
};

/* Finds the first match in text[at .. n): 1 with its span, 0 if there is none, or an error. */
static int find_match(const struct split_call *r, const pcre2_code *code, const char *text,
                      size_t n, size_t at, size_t span[2])
{
    /* without NO_UTF_CHECK each call would check the whole rest */
    const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    PCRE2_SPTR p = (PCRE2_SPTR)text;
    int found = pcre2_match(code, p, n, at, options, r->match, NULL);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code, p, n, at, options | PCRE2_NO_JIT, r->match, NULL);
    if (found == PCRE2_ERROR_NOMATCH)
        return 0;
    if (found < 0)
        return err_set(r->err, MGPT_EMEM, MGPT_NO_OFFSET, "splitting the text: PCRE2 error %d",
                       found);
    memcpy(span, pcre2_get_ovector_pointer(r->match), 2 * sizeof *span);
    return 1;
}

/* Cuts [from, to) by the remaining stages. Recursion depth: the number of stages. */
static int cut_span(const struct split_call *r, pcre2_code *const *stages, size_t from, size_t to)
{
    int status = MGPT_OK;
    if (from == to)
        return MGPT_OK;
    if (!*stages)
        return r->piece(r->user, from, to);
    const char *text = r->subject + from;
    for (size_t at = 0, n = to - from, span[2]; status >= 0 && at < n; at = span[1]) {
        span[0] = span[1] = n;
        status = find_match(r, *stages, text, n, at, span);
        if (status >= 0)
            status = cut_span(r, stages + 1, from + at, from + span[0]);
        if (status >= 0)
            status = cut_span(r, stages + 1, from + span[0], from + span[1]);
    }
    return status < 0 ? status : MGPT_OK;
}

int split_text(const struct split *s, const char *subject, size_t n, split_piece_fn *piece,
               void *user, mgpt_error *err)
{
    struct split_call r = {subject, pcre2_match_data_create(1, NULL), piece, user, err};
    if (!r.match)
        return err_memory(err, "splitting the text", 0);
    int status = cut_span(&r, s->stages, 0, n);
    pcre2_match_data_free(r.match);
    return status;
}
