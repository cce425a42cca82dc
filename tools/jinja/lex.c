/* A template's text to tokens, as Jinja's lexer with trim_blocks and lstrip_blocks. See run.h. */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "jinja/run.h"

#include <string.h>

struct lexer {
    struct jinja *t;
    const uint32_t *s;
    size_t n, at;
    uint32_t line;
    int line_starts; /* the last tag ended with a line end, or there was none */
    char open[64];   /* brackets that are open in this tag */
    size_t n_open;
    mgpt_error *err;
};

static int lex_error(struct lexer *x, const char *what)
{
    return err_set(x->err, MGPT_EFILE, MGPT_NO_OFFSET, "line %u: %s", (unsigned)x->line, what);
}

/* ---- characters ------------------------------------------------------------------------------ */

/* Line ends become \n, and one at the end of the template is dropped. */
static int lex_decode(struct jinja *t, const char *text, size_t n, mgpt_error *err)
{
    if (!arr_reserve(t->source, n + 1) || !arr_reserve(t->pool, n + 1))
        return err_memory(err, "the chat template", n);
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = utf8_next(text + i, n - i, &code);
        if (code == UTF8_BAD || code == 0)
            return err_set(err, MGPT_EFILE, i, "the template is not UTF-8 text");
        i += length;
        if (code == '\r' && i < n && text[i] == '\n')
            i++;
        arr_put(t->source, code == '\r' ? '\n' : code);
    }
    size_t length = arr_len(t->source);
    if (length > 0 && t->source[length - 1] == '\n')
        arr_set_len(t->source, length - 1);
    return MGPT_OK;
}

static uint32_t lex_char(const struct lexer *x, size_t ahead)
{
    return x->n - x->at > ahead ? x->s[x->at + ahead] : 0;
}

static void lex_advance(struct lexer *x, size_t n)
{
    for (; n > 0 && x->at < x->n; n--)
        x->line += x->s[x->at++] == '\n';
}

static int lex_put(struct lexer *x, struct jinja_token token)
{
    token.line = x->line;
    return arr_push(x->t->tokens, token) ? MGPT_OK : err_memory(x->err, "the chat template", x->n);
}

/* ---- inside a tag ---------------------------------------------------------------------------- */

static int lex_is_name(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int lex_is_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

static int lex_name(struct lexer *x)
{
    size_t from = x->at;
    while (lex_is_name(lex_char(x, 0)) || lex_is_digit(lex_char(x, 0)))
        x->at++;
    return lex_put(x, (struct jinja_token){.type = T_NAME, .s = x->s + from, .n = x->at - from});
}

/* 12 or 1.5; "a.0.b" has no real number in it. */
static int lex_number(struct lexer *x)
{
    struct jinja_token token = {.type = T_INT};
    int after_dot = x->at > 0 && x->s[x->at - 1] == '.';
    int zero = lex_char(x, 0) == '0', n_digits = 0;
    for (; lex_is_digit(lex_char(x, 0)); x->at++, n_digits++)
        token.i = n_digits < 18 ? token.i * 10 + (int64_t)(lex_char(x, 0) - '0') : token.i;
    if (!after_dot && lex_char(x, 0) == '.' && lex_is_digit(lex_char(x, 1))) {
        token.type = T_REAL;
        for (x->at++; lex_is_digit(lex_char(x, 0)); x->at++)
            ;
    }
    if (n_digits >= 18 || lex_is_name(lex_char(x, 0)) || (zero && n_digits > 1))
        return lex_error(x, "a number of a kind that mgpt does not read");
    return lex_put(x, token);
}

static int hex_value(uint32_t c)
{
    if (lex_is_digit(c))
        return (int)c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? (int)c - 'a' + 10 : -1;
}

/* The character of \xHH, \uHHHH or \UHHHHHHHH at s[*i], which is the letter; 0: not one. */
static uint32_t lex_hex_escape(const uint32_t *s, size_t n, size_t *i)
{
    size_t digits = s[*i] == 'x' ? 2 : s[*i] == 'u' ? 4 : 8;
    uint32_t code = 0;
    if (n - *i <= digits)
        return 0;
    for (size_t k = 1; k <= digits; k++) {
        int v = hex_value(s[*i + k]);
        if (v < 0)
            return 0;
        code = code << 4 | (uint32_t)v;
    }
    *i += digits + 1;
    return code < 0x110000 && !(code >= 0xD800 && code < 0xE000) ? code : 0;
}

/* Puts what the escape means whose letter, after a backslash, is s[*i]. Returns 0 for one that is
 * not read here: \N, octal numbers. As in Python, an unknown letter keeps its backslash. */
static int lex_escape(uint32_t *pool, const uint32_t *s, size_t n, size_t *i)
{
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    uint32_t c = s[*i];
    const char *at = c < 128 ? strchr(letters, (int)c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U') {
        uint32_t code = lex_hex_escape(s, n, i);
        arr_put(pool, code);
        return code > 0;
    }
    ++*i;
    if (c == '\n') /* the line goes on */
        return 1;
    if (!at)
        arr_put(pool, '\\');
    arr_put(pool, at ? (uint32_t)values[at - letters] : c);
    return c < 128 && c != 'N' && !lex_is_digit(c);
}

static int lex_string(struct lexer *x)
{
    uint32_t quote = lex_char(x, 0);
    size_t end = x->at + 1, from = arr_len(x->t->pool);
    while (end < x->n && x->s[end] != quote)
        end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->n)
        return lex_error(x, "a string without an end");
    for (size_t i = x->at + 1; i < end;) {
        if (x->s[i] != '\\')
            arr_put(x->t->pool, x->s[i++]);
        else if (i++, !lex_escape(x->t->pool, x->s, end, &i))
            return lex_error(x, "a string with an escape that mgpt does not read");
    }
    struct jinja_token token = {
        .type = T_STRING, .s = x->t->pool + from, .n = arr_len(x->t->pool) - from};
    int status = lex_put(x, token);
    lex_advance(x, end + 1 - x->at);
    return status;
}

static int lex_bracket(struct lexer *x, uint32_t c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *at = strchr(opening, (int)c);
    if (at) {
        if (x->n_open == sizeof x->open)
            return lex_error(x, "brackets are nested too deep");
        x->open[x->n_open++] = closing[at - opening];
    } else if (strchr(closing, (int)c) && (x->n_open == 0 || x->open[--x->n_open] != (char)c))
        return lex_error(x, "a bracket that closes nothing");
    return MGPT_OK;
}

static int lex_operator(struct lexer *x)
{
    static const char pairs[][3] = {"==", "!=", "<=", ">=", "//", "**"};
    uint32_t a = lex_char(x, 0), b = lex_char(x, 1);
    struct jinja_token token = {.type = T_OP, .i = a};
    if (a == 0 || a > 126 || !strchr("+-/*%~[](){}<>=.:|,;!", (int)a))
        return lex_error(x, "a character that does not belong there");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (a == (uint32_t)pairs[i][0] && b == (uint32_t)pairs[i][1])
            token.i = JINJA_OP2(a, b);
    if (token.i == '!')
        return lex_error(x, "a character that does not belong there");
    int status = lex_bracket(x, a);
    x->at += token.i > 255 ? 2 : 1;
    return status == MGPT_OK ? lex_put(x, token) : status;
}

/* The end of a tag, with its sign and the white space that it takes: 1, or 0 when it is not here. */
static int lex_end(struct lexer *x, uint32_t mark)
{
    uint32_t sign = lex_char(x, 0);
    size_t at = sign == '-' || (sign == '+' && mark == '%') ? 1 : 0;
    if (x->n_open > 0 || lex_char(x, at) != mark || lex_char(x, at + 1) != '}')
        return 0;
    lex_advance(x, at + 2);
    if (at == 1 && sign == '-')
        while (x->at < x->n && jinja_space(x->s[x->at]))
            lex_advance(x, 1);
    else if (at == 0 && mark != '}' && lex_char(x, 0) == '\n')
        lex_advance(x, 1);
    x->line_starts = x->s[x->at - 1] == '\n';
    return 1;
}

static int lex_inside(struct lexer *x, uint32_t mark)
{
    int status = MGPT_OK;
    x->n_open = 0;
    while (status == MGPT_OK) {
        while (x->at < x->n && jinja_space(x->s[x->at]))
            lex_advance(x, 1);
        uint32_t c = lex_char(x, 0);
        if (x->at == x->n)
            return lex_error(x, "a tag without an end");
        if (lex_end(x, mark))
            return lex_put(x, (struct jinja_token){.type = mark == '%' ? T_TAG_END : T_PRINT_END});
        if (lex_is_name(c))
            status = lex_name(x);
        else if (lex_is_digit(c))
            status = lex_number(x);
        else
            status = c == '\'' || c == '"' ? lex_string(x) : lex_operator(x);
    }
    return status;
}

/* ---- between tags ---------------------------------------------------------------------------- */

/* Where the text s[from, to) ends when a tag of this mark and sign follows. */
static size_t lex_text_end(const struct lexer *x, size_t from, size_t to, uint32_t mark,
                           uint32_t sign)
{
    size_t end = to;
    while (end > from && jinja_space(x->s[end - 1]) && (sign == '-' || x->s[end - 1] != '\n'))
        end--;
    if (sign == '-')
        return end;
    int at_line = end > from ? x->s[end - 1] == '\n' : x->line_starts;
    return sign != '+' && mark != '{' && at_line ? end : to;
}

static int lex_text(struct lexer *x, size_t to, uint32_t mark, uint32_t sign)
{
    size_t end = mark ? lex_text_end(x, x->at, to, mark, sign) : to;
    struct jinja_token token = {.type = T_TEXT, .s = x->s + x->at, .n = end - x->at};
    int status = token.n > 0 ? lex_put(x, token) : MGPT_OK;
    lex_advance(x, to - x->at);
    return status;
}

static int lex_comment(struct lexer *x)
{
    while (x->at < x->n) {
        if (lex_end(x, '#'))
            return MGPT_OK;
        /* "+#}" keeps the line end after it */
        if (lex_char(x, 0) == '+' && lex_char(x, 1) == '#' && lex_char(x, 2) == '}') {
            lex_advance(x, 3);
            x->line_starts = 0;
            return MGPT_OK;
        }
        lex_advance(x, 1);
    }
    return lex_error(x, "a comment without an end");
}

static int lex_next(struct lexer *x)
{
    size_t to = x->at;
    while (to < x->n && !(x->s[to] == '{' && to + 1 < x->n && x->s[to + 1] < 128 &&
                          strchr("{%#", (int)x->s[to + 1])))
        to++;
    uint32_t mark = to < x->n ? x->s[to + 1] : 0, sign = to + 2 < x->n ? x->s[to + 2] : 0;
    int is_signed = mark && (sign == '-' || sign == '+');
    int status = lex_text(x, to, mark, sign);
    if (status != MGPT_OK || !mark)
        return status;
    lex_advance(x, is_signed ? 3 : 2);
    x->n_open = 0;
    if (mark == '#')
        return lex_comment(x);
    status = lex_put(x, (struct jinja_token){.type = mark == '%' ? T_TAG : T_PRINT});
    return status == MGPT_OK ? lex_inside(x, mark == '%' ? '%' : '}') : status;
}

int jinja_lex(struct jinja *t, const char *text, size_t n, mgpt_error *err)
{
    int status = lex_decode(t, text, n, err);
    if (status != MGPT_OK)
        return status;
    struct lexer x = {.t = t, .s = t->source, .n = arr_len(t->source), .err = err};
    x.line = 1;
    x.line_starts = 1;
    status = lex_put(&x, (struct jinja_token){.type = T_TEXT}); /* no if_at is 0 */
    while (status == MGPT_OK && x.at < x.n)
        status = lex_next(&x);
    return status == MGPT_OK ? lex_put(&x, (struct jinja_token){.type = T_END}) : status;
}
