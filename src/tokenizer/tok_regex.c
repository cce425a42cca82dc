/* Patterns of files, with PCRE2. See tok_regex.h. */
#include "tokenizer/tok_regex.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_MAX 16384       /* bytes */
#define NESTING_MAX 50          /* of parentheses */
#define FIRST_LIMIT 2000        /* steps of PCRE2 that every match may take */
#define MORE_STEPS 1000000      /* further steps of one search, to which are added */
#define STEPS_PER_BYTE 256      /* steps for each byte of the text */
#define HEAP_LIMIT (64 * 1024u) /* KiB */

struct tok_regex {
    pcre2_code *code;
};

/* ---- opening --------------------------------------------------------------------------------- */

void regex_close(struct tok_regex *r)
{
    if (r)
        pcre2_code_free(r->code);
    free(r);
}

/* PCRE2 reads options for the whole pattern from leading verbs, (*...); no tokenizer needs one. */
static int compile_pattern(struct tok_regex *r, struct gguf_str pattern, mgpt_error *err)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    int code = 0;
    size_t at = 0;
    if (pattern.n > PATTERN_MAX)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "a pattern of %zu bytes, the limit is %d",
                       pattern.n, PATTERN_MAX);
    if (pattern.n >= 2 && memcmp(pattern.p, "(*", 2) == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "a pattern begins with (*");
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return err_memory(err, "a pattern", pattern.n);
    pcre2_set_parens_nest_limit(context, NESTING_MAX);
    r->code = pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, options, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!r->code && code == PCRE2_ERROR_HEAP_FAILED)
        return err_memory(err, "a pattern", pattern.n);
    if (!r->code)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "pattern '%.*s': PCRE2 error %d at byte %zu",
                       (int)(pattern.n < 48 ? pattern.n : 48), pattern.p, code, at);
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* may fail: then it is interpreted */
    return MGPT_OK;
}

struct tok_regex *regex_open(struct gguf_str pattern, mgpt_error *err)
{
    struct tok_regex *r = mem_new(1, sizeof *r);
    if (!r) {
        err_memory(err, "a pattern", sizeof *r);
        return NULL;
    }
    if (compile_pattern(r, pattern, err) < 0) {
        regex_close(r);
        return NULL;
    }
    return r;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* One search through a text. */
struct regex_search {
    const pcre2_code *code;
    const char *text;
    size_t n;
    pcre2_match_data *match;
    pcre2_match_context *context;
    uint64_t budget; /* steps above FIRST_LIMIT that are left */
};

/* The search for one match at `at`; as pcre2_match. */
static int match_once(struct regex_search *s, size_t at, uint32_t limit)
{
    PCRE2_SPTR p = (PCRE2_SPTR)s->text;
    pcre2_set_match_limit(s->context, limit);
    int found = pcre2_match(s->code, p, s->n, at, PCRE2_NO_UTF_CHECK, s->match, s->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(s->code, p, s->n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match,
                            s->context);
    return found;
}

/* The first match from `at` on: 1 with its span, 0 if there is none, or an error. */
static int find_limited(struct regex_search *s, size_t at, size_t span[2], mgpt_error *err)
{
    uint32_t limit = FIRST_LIMIT;
    int found = match_once(s, at, limit);
    while (found == PCRE2_ERROR_MATCHLIMIT && limit < UINT32_MAX / 8 && s->budget >= limit * 8) {
        limit *= 8;
        s->budget -= limit;
        found = match_once(s, at, limit);
    }
    if (found == PCRE2_ERROR_NOMATCH)
        return 0;
    if (found == PCRE2_ERROR_NOMEMORY)
        return err_memory(err, "a match", 0);
    if (found < 0)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET,
                       "a pattern of the vocabulary takes too long on this text (PCRE2 error %d)",
                       found);
    memcpy(span, pcre2_get_ovector_pointer(s->match), 2 * sizeof *span);
    if (span[0] < at || span[1] < span[0] || span[1] > s->n)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET, "a match ends before it begins");
    return 1;
}

static int put_part(struct span_part **parts, size_t from, size_t to, int is_match)
{
    struct span_part part = {from, to, is_match};
    return arr_push(*parts, part);
}

/* An empty match right after a match does not count: the search goes on one character later. */
static int search_all(struct regex_search *s, struct span_part **parts, mgpt_error *err)
{
    size_t done = 0, span[2];
    int matched = 0, status = 0;
    for (size_t at = 0; at <= s->n; at = span[1]) {
        status = find_limited(s, at, span, err);
        if (status <= 0)
            break;
        if (span[0] == span[1] && matched && span[0] == done) {
            uint32_t code;
            if (at >= s->n)
                break;
            span[1] = at + utf8_next(s->text + at, s->n - at, &code);
            continue;
        }
        if ((span[0] > done && !put_part(parts, done, span[0], 0)) ||
            !put_part(parts, span[0], span[1], 1))
            return err_memory(err, "the parts of the text", sizeof **parts);
        done = span[1];
        matched = 1;
    }
    if (status >= 0 && done < s->n && !put_part(parts, done, s->n, 0))
        return err_memory(err, "the parts of the text", sizeof **parts);
    return status < 0 ? status : MGPT_OK;
}

int regex_parts(const struct tok_regex *r, const char *text, size_t n, struct span_part **parts,
                mgpt_error *err)
{
    struct regex_search s = {.code = r->code, .text = text, .n = n};
    s.budget = MORE_STEPS + (uint64_t)n * STEPS_PER_BYTE;
    s.match = pcre2_match_data_create(1, NULL);
    s.context = pcre2_match_context_create(NULL);
    int status = err_memory(NULL, "", 0);
    if (s.match && s.context && arr_reserve(*parts, 8)) {
        arr_set_len(*parts, 0);
        pcre2_set_heap_limit(s.context, HEAP_LIMIT);
        status = search_all(&s, parts, err);
    } else {
        err_memory(err, "splitting the text", n);
    }
    pcre2_match_data_free(s.match);
    pcre2_match_context_free(s.context);
    return status;
}

/* ---- joining parts --------------------------------------------------------------------------- */

/* Joins a part to the one before it, as Hugging Face does: equal ones (contiguous), or a match to
 * what is none. The first part counts as following a part that is no match. */
static size_t join_previous(struct span_part *p, size_t n, int contiguous)
{
    size_t kept = 0;
    int before = 0;
    for (size_t i = 0; i < n; i++) {
        int is_match = p[i].is_match, joins = contiguous ? is_match == before : is_match > before;
        if (joins && kept > 0)
            p[kept - 1].to = p[i].to;
        else
            p[kept++] = (struct span_part){p[i].from, p[i].to, 0};
        before = is_match;
    }
    return kept;
}

/* Joins from the end to the front. The results are built at the end of the array, then moved to its
 * front. */
static size_t join_next(struct span_part *p, size_t n)
{
    size_t first = n;
    int after = 0;
    for (size_t i = n; i > 0; i--) {
        int is_match = p[i - 1].is_match;
        if (is_match && !after && first < n)
            p[first].from = p[i - 1].from;
        else
            p[--first] = (struct span_part){p[i - 1].from, p[i - 1].to, 0};
        after = is_match;
    }
    memmove(p, p + first, (n - first) * sizeof *p);
    return n - first;
}

void regex_cut_parts(struct span_part *parts, enum regex_cut cut, int inverted)
{
    size_t n = arr_len(parts);
    for (size_t i = 0; i < n; i++)
        parts[i].is_match ^= inverted;
    if (cut == CUT_ISOLATED)
        for (size_t i = 0; i < n; i++)
            parts[i].is_match = 0;
    else if (cut == CUT_CONTIGUOUS || cut == CUT_PREVIOUS)
        n = join_previous(parts, n, cut == CUT_CONTIGUOUS);
    else if (cut == CUT_NEXT)
        n = join_next(parts, n);
    if (n < arr_len(parts))
        arr_set_len(parts, n);
}
