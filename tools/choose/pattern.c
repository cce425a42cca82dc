/* Parses regular expressions. See pattern.h. */
#include "choose/pattern_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { MOST_DEPTH = 200, NO_LIMIT = -1, MOST_TIMES = 10000 };

int pattern_refuse(struct pattern_reader *r, size_t at, const char *what)
{
    if (r->err && r->err->status == MGPT_OK)
        err_set(r->err, MGPT_EARG, at, "%s at byte %zu of the expression", what, at);
    return 0;
}

int32_t pattern_state(struct pattern_reader *r, int low, int high, int32_t a, int32_t b)
{
    struct pattern_state s = {(int16_t)low, (int16_t)high, a, b};
    if (arr_len(r->p->states) >= PATTERN_STATES) {
        pattern_refuse(r, r->at, "a repetition that is too large");
        return -1;
    }
    if (!arr_push(r->p->states, s)) {
        if (r->err->status == MGPT_OK)
            err_memory(r->err, "the expression", arr_len(r->p->states) * sizeof s);
        return -1;
    }
    return (int32_t)arr_len(r->p->states) - 1;
}

int32_t pattern_fork(struct pattern_reader *r, int32_t a, int32_t b)
{
    return pattern_state(r, PATTERN_FORK, 0, a, b);
}

static int empty_part(struct pattern_reader *r, struct pattern_part *out)
{
    out->start = out->end = pattern_fork(r, -1, -1);
    return out->start >= 0;
}

static void connect(struct pattern_reader *r, int32_t end, int32_t to)
{
    r->p->states[end].a = to;
}

/* ---- structure ---- */

static int read_choice(struct pattern_reader *r, struct pattern_part *out);

static int pattern_group(struct pattern_reader *r, struct pattern_part *out)
{
    size_t begin = r->at - 1;
    int in_json = r->in_json;
    if (r->at + 1 < r->n && r->text[r->at] == '?') {
        size_t n = r->text[r->at + 1] == 'j' ? 3 : 2;
        if (r->n - r->at < n || r->text[r->at + n - 1] != ':')
            return pattern_refuse(r, begin, "a group (? that is not (?: is not supported,");
        r->at += n;
        r->in_json |= n == 3;
    }
    if (++r->depth > MOST_DEPTH)
        return pattern_refuse(r, begin, "groups that are too deep");
    if (!read_choice(r, out))
        return 0;
    r->depth--;
    r->in_json = in_json;
    if (r->at == r->n || r->text[r->at] != ')')
        return pattern_refuse(r, begin, "a ( without its )");
    r->at++;
    return 1;
}

static int read_atom(struct pattern_reader *r, struct pattern_part *out)
{
    struct code_ranges c = {.n = 0};
    uint32_t code;
    char letter = r->text[r->at];
    if (strchr("*+?{", letter) && letter)
        return pattern_refuse(r, r->at, "a repetition of nothing");
    if (letter == '^' || letter == '$')
        return pattern_refuse(r, r->at, "^ or $ inside, which is not supported,");
    if (letter == '(') {
        r->at++;
        return pattern_group(r, out);
    }
    if (letter == '[' || letter == '.' || letter == '\\')
        r->at++;
    if (letter == '[') {
        if (!pattern_class(r, &c))
            return 0;
    } else if (letter == '.') {
        codes_any(&c, r->in_json);
    } else if (!(letter == '\\' ? pattern_escape(r, &c, 0, &code) : pattern_code(r, &code)) ||
               (code != UINT32_MAX && !codes_add(&c, code, code))) {
        return 0;
    }
    return pattern_codes(r, &c, out);
}

static int read_count(struct pattern_reader *r, int *count)
{
    int n = 0;
    *count = 0;
    for (; r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9' && *count <= MOST_TIMES;
         n++)
        *count = *count * 10 + r->text[r->at++] - '0';
    return n > 0 && *count <= MOST_TIMES;
}

/* *, +, ?, {m}, {m,}, {m,n} and a ? after them, which changes what matches first, not what matches. */
static int read_times(struct pattern_reader *r, int *least, int *most)
{
    size_t begin = r->at;
    char letter = r->at < r->n ? r->text[r->at] : 0;
    *least = *most = 1;
    if (letter != '*' && letter != '+' && letter != '?' && letter != '{')
        return 1;
    r->at++;
    *least = letter == '+';
    *most = letter == '?' ? 1 : NO_LIMIT;
    if (letter == '{') {
        if (!read_count(r, least))
            return pattern_refuse(r, begin, "expected {m}, {m,} or {m,n} of at most 10000");
        *most = *least;
        if (r->at < r->n && r->text[r->at] == ',') {
            r->at++;
            *most = NO_LIMIT;
            if (r->at < r->n && r->text[r->at] != '}' && !read_count(r, most))
                return pattern_refuse(r, begin, "expected {m}, {m,} or {m,n} of at most 10000");
        }
        if (r->at == r->n || r->text[r->at++] != '}' || (*most >= 0 && *most < *least))
            return pattern_refuse(r, begin, "expected {m}, {m,} or {m,n} of at most 10000");
    }
    if (r->at < r->n && r->text[r->at] == '+')
        return pattern_refuse(r, begin, "a possessive repetition is not supported,");
    r->at += r->at < r->n && r->text[r->at] == '?' ? 1 : 0;
    return 1;
}

/* An atom and its repetition: it is read again for each time. */
static int read_repeated(struct pattern_reader *r, struct pattern_part *out)
{
    size_t begin = r->at, end;
    struct pattern_part one;
    int least, most;
    if (!read_atom(r, &one) || !read_times(r, &least, &most) || !empty_part(r, out))
        return 0;
    end = r->at;
    int32_t after = pattern_fork(r, -1, -1);
    int times = most == NO_LIMIT ? (least > 0 ? least : 1) : most;
    for (int i = 0; i < times && after >= 0; i++) {
        r->at = begin;
        if (i > 0 && !read_atom(r, &one))
            return 0;
        int32_t fork = i >= least ? pattern_fork(r, one.start, after) : one.start;
        if (fork < 0)
            return 0;
        connect(r, out->end, fork);
        out->end = one.end;
        if (most == NO_LIMIT && i + 1 == times) { /* again, or on */
            int32_t again = pattern_fork(r, one.start, after);
            if (again < 0)
                return 0;
            connect(r, one.end, again);
        }
    }
    r->at = end;
    if (after < 0)
        return 0;
    if (most != NO_LIMIT)
        connect(r, out->end, after);
    out->end = after;
    return 1;
}

static int read_sequence(struct pattern_reader *r, struct pattern_part *out)
{
    struct pattern_part next;
    if (!empty_part(r, out))
        return 0;
    while (r->at < r->n && r->text[r->at] != '|' && r->text[r->at] != ')') {
        if (r->depth == 0 && r->at + 1 == r->n && r->text[r->at] == '$') {
            r->at++;
            break;
        }
        if (!read_repeated(r, &next))
            return 0;
        connect(r, out->end, next.start);
        out->end = next.end;
    }
    return 1;
}

static int read_choice(struct pattern_reader *r, struct pattern_part *out)
{
    struct pattern_part next;
    if (!read_sequence(r, out))
        return 0;
    while (r->at < r->n && r->text[r->at] == '|') {
        r->at++;
        if (!read_sequence(r, &next))
            return 0;
        int32_t start = pattern_fork(r, out->start, next.start), end = pattern_fork(r, -1, -1);
        if (start < 0 || end < 0)
            return 0;
        connect(r, out->end, end);
        connect(r, next.end, end);
        *out = (struct pattern_part){start, end};
    }
    return 1;
}

int pattern_parse(struct pattern *p, const char *text, size_t n, mgpt_error *err)
{
    mgpt_error own = {.status = MGPT_OK};
    struct pattern_reader r = {.p = p, .text = text, .n = n, .err = &own};
    struct pattern_part all;
    *p = (struct pattern){.start = -1};
    r.at = n > 0 && text[0] == '^' ? 1 : 0;
    int ok = read_choice(&r, &all);
    if (ok && r.at < n)
        ok = pattern_refuse(&r, r.at, "a ) without its (");
    int32_t end = ok ? pattern_state(&r, PATTERN_END, 0, -1, -1) : -1;
    if (end < 0) {
        pattern_free(p);
        if (own.status == MGPT_OK)
            pattern_refuse(&r, r.at, "a class of too many ranges");
        if (err)
            *err = own;
        return own.status;
    }
    connect(&r, all.end, end);
    p->start = all.start;
    return MGPT_OK;
}

void pattern_free(struct pattern *p)
{
    arr_free(p->states);
    p->states = NULL;
}
