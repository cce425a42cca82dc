/* Error messages: a small formatter without stdio, locale or allocation.
 *
 * Messages quote strings from files. Characters that are unsafe on a terminal (utf8_dangerous) or
 * hide on it (utf8_hidden) are printed as '?', so a message can be printed as it is.
 */
#include "base/error.h"

#include "base/utf8.h"

#include <errno.h>
#include <string.h>

struct text_sink {
    char *buf;
    size_t cap, n; /* n counts what would have been written; cap includes the final NUL */
};

static void sink_char(struct text_sink *s, char c)
{
    if (s->n < s->cap) /* text_format_v must see the character that is cut off */
        s->buf[s->n] = c;
    s->n++;
}

static void sink_bytes(struct text_sink *s, const char *p, size_t n)
{
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        if (p[i] >= ' ' && p[i] <= '~') {
            sink_char(s, p[i]);
            length = 1;
            continue;
        }
        length = utf8_next(p + i, n - i, &code);
        int is_shown = !utf8_dangerous(code) && !utf8_hidden(code);
        if (!is_shown)
            sink_char(s, '?');
        for (size_t k = 0; k < length && is_shown; k++)
            sink_char(s, p[i + k]);
    }
}

static void sink_number(struct text_sink *s, unsigned long long v, unsigned base)
{
    char digits[24];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v);
    while (n)
        sink_char(s, digits[--n]);
}

static void sink_signed(struct text_sink *s, long long v)
{
    if (v < 0)
        sink_char(s, '-');
    sink_number(s, v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, 10);
}

/* n digits with a decimal point after the first `point` of them; `point` may be negative. */
static void sink_digits(struct text_sink *s, const char *digits, int n, int point)
{
    for (int i = point < 1 ? point - 1 : 0; i < n || i < point; i++) {
        if (i == point)
            sink_char(s, '.');
        sink_char(s, (char)(i >= 0 && i < n ? digits[i] : '0'));
    }
}

/* Six significant digits, as printf's %g. */
static void sink_real(struct text_sink *s, double v)
{
    char digits[8];
    int e = 0;
    if (v < 0)
        sink_char(s, '-');
    v = v < 0 ? -v : v;
    if (!(v - v == 0)) {
        sink_bytes(s, v > 0 ? "inf" : "nan", 3);
        return;
    }
    for (; v >= 10; e++)
        v /= 10;
    for (; v > 0 && v < 1; e--)
        v *= 10;
    unsigned sum = (unsigned)(v * 1e5 + 0.5);
    if (sum >= 1000000) {
        sum /= 10;
        e++;
    }
    int n = (int)text_format(digits, sizeof digits, "%u", sum);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (e >= -4 && e < 6) {
        sink_digits(s, digits, n, e + 1);
        return;
    }
    sink_digits(s, digits, n, 1);
    sink_bytes(s, e < 0 ? "e-0" : "e+0", e > -10 && e < 10 ? 3 : 2);
    sink_number(s, (unsigned)(e < 0 ? -e : e), 10);
}

/* %s, "%.Ns" or "%.*s", which has exactly the number of bytes that is given. fmt points after the
 * '%'; returns the position after the conversion, or fmt if it is another one. */
static const char *format_string(struct text_sink *s, const char *fmt, va_list *ap)
{
    const char *end = fmt;
    size_t most = *end == '.' ? 0 : SIZE_MAX, n = 0;
    int exact = -1;
    if (end[0] == '.' && end[1] == '*') {
        exact = va_arg(*ap, int);
        end += 2;
    } else if (*end == '.') {
        for (end++; *end >= '0' && *end <= '9'; end++)
            most = most * 10 + (size_t)(*end - '0');
    }
    if (*end != 's')
        return fmt;
    const char *p = va_arg(*ap, const char *);
    while (exact >= 0 ? n < (size_t)exact : n < most && p[n])
        n++;
    sink_bytes(s, p, n);
    return end + 1;
}

/* Formats one conversion. fmt points after its '%'; returns the position after the conversion. */
static const char *format_conversion(struct text_sink *s, const char *fmt, va_list *ap)
{
    switch (*fmt) {
    case '.':
    case 's':
        return format_string(s, fmt, ap);
    case 'c':
        sink_char(s, (char)va_arg(*ap, int));
        return fmt + 1;
    case 'd':
        sink_signed(s, va_arg(*ap, int));
        return fmt + 1;
    case 'u':
        sink_number(s, va_arg(*ap, unsigned), 10);
        return fmt + 1;
    case 'x':
        sink_number(s, va_arg(*ap, unsigned), 16);
        return fmt + 1;
    case 'g':
        sink_real(s, va_arg(*ap, double));
        return fmt + 1;
    case 'z':
        sink_number(s, va_arg(*ap, size_t), 10);
        return fmt + 2;
    case 'l':
        if (fmt[2] == 'd')
            sink_signed(s, va_arg(*ap, long long));
        else
            sink_number(s, va_arg(*ap, unsigned long long), 10);
        return fmt + 3;
    default:
        sink_char(s, '%');
        return fmt + 1;
    }
}

size_t text_format_v(char *buf, size_t cap, const char *fmt, va_list *ap)
{
    struct text_sink s = {buf, cap, 0};
    while (*fmt) {
        if (*fmt != '%')
            sink_char(&s, *fmt++);
        else
            fmt = format_conversion(&s, fmt + 1, ap);
    }
    size_t n = s.n < cap ? s.n : cap - 1;
    while (n > 0 && n < s.n && ((unsigned char)buf[n] & 0xC0) == 0x80)
        n--; /* do not cut a UTF-8 character */
    buf[n] = 0;
    return n;
}

size_t text_format(char *buf, size_t cap, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    size_t n = text_format_v(buf, cap, fmt, &ap);
    va_end(ap);
    return n;
}

int err_set(mgpt_error *err, int status, uint64_t offset, const char *fmt, ...)
{
    if (!err)
        return status;
    err->status = status;
    err->offset = offset;
    va_list ap;
    va_start(ap, fmt);
    text_format_v(err->text, sizeof err->text, fmt, &ap);
    va_end(ap);
    return status;
}

int err_memory(mgpt_error *err, const char *what, size_t n_bytes)
{
    return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "out of memory: %zu bytes for %s", n_bytes,
                   what);
}

int err_system(mgpt_error *err, const char *what, uint64_t offset)
{
    char reason[80] = "unknown error";
    int code = errno;
    if (strerror_r(code, reason, sizeof reason) != 0)
        text_format(reason, sizeof reason, "error %d", code);
    return err_set(err, code == ENOMEM ? MGPT_EMEM : MGPT_EIO, offset, "cannot %s: %s", what,
                   reason);
}
