/* JSON to be printed. See jtext.h. */
#include "common/jtext.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "common/json_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jtext {
    char *text; /* stb_ds array: the text without its last bracket */
    char close; /* the last bracket; 0: the value has none */
    int failed; /* 1: an allocation failed */
};

static void jtext_put(struct jtext *t, const char *p, size_t n)
{
    t->failed |= !arr_append(&t->text, p, n);
}

/* A comma, unless the next value is the first of its container or follows its key. */
static void put_comma(struct jtext *t)
{
    size_t n = arr_len(t->text);
    if (n > 0 && !strchr("{[:", t->text[n - 1]))
        jtext_put(t, ",", 1);
}

static void jtext_put_string(struct jtext *t, const char *p, size_t n)
{
    char escape[JSON_ESCAPE];
    jtext_put(t, "\"", 1);
    for (size_t i = 0, length, plain; i < n; i += length) {
        uint32_t code;
        for (plain = i; plain < n && json_is_plain((unsigned char)p[plain]);)
            plain++;
        jtext_put(t, p + i, plain - i);
        i = plain;
        length = i < n ? utf8_next(p + i, n - i, &code) : 0;
        if (length == 0)
            break;
        if (json_is_escaped(code))
            jtext_put(t, escape, json_escape(escape, code));
        else
            jtext_put(t, escape, utf8_put(code, escape));
    }
    jtext_put(t, "\"", 1);
}

static void jtext_put_value(struct jtext *t, struct jtext *value)
{
    if (value) {
        jtext_put(t, value->text, arr_len(value->text));
        jtext_put(t, &value->close, value->close != 0);
    }
    t->failed |= !value || value->failed;
    jtext_free(value);
}

/* The argument of a string: its bytes, or null. */
static void jtext_put_text(struct jtext *t, const char *p, size_t n)
{
    if (p)
        jtext_put_string(t, p, n);
    else
        jtext_put(t, "null", 4);
}

static void jtext_put_number(struct jtext *t, double v, int digits)
{
    char number[JSON_NUMBER];
    json_number(number, v, digits);
    jtext_put(t, number, strlen(number));
}

static void jtext_put_whole(struct jtext *t, long long v)
{
    char number[JSON_NUMBER];
    jtext_put(t, number, (size_t)snprintf(number, sizeof number, "%lld", v));
}

/* va_list may be an array, hence the struct. */
struct jtext_args {
    va_list list;
};

/* The value for one letter. Returns the number of letters that it took. */
static size_t put_letter(struct jtext *t, const char *format, struct jtext_args *args)
{
    const char *text = *format == 's' ? va_arg(args->list, const char *) : NULL;
    int value;
    switch (*format) {
    case 's':
        if (format[1] == '%')
            jtext_put_text(t, text, va_arg(args->list, size_t));
        else
            jtext_put_text(t, text, text ? strlen(text) : 0);
        if (format[1] == ':')
            jtext_put(t, ":", 1);
        return format[1] == '%' || format[1] == ':' ? 2 : 1;
    case 'i':
        jtext_put_whole(t, va_arg(args->list, int));
        return 1;
    case 'I':
        jtext_put_whole(t, va_arg(args->list, int64_t));
        return 1;
    case 'b':
        value = va_arg(args->list, int);
        jtext_put(t, value ? "true" : "false", value ? 4 : 5);
        return 1;
    case 'f':
    case 'g':
        jtext_put_number(t, va_arg(args->list, double), *format == 'f' ? 17 : 9);
        return 1;
    case 'o':
        jtext_put_value(t, va_arg(args->list, struct jtext *));
        return 1;
    default: /* a bracket that opens */
        jtext_put(t, format, 1);
        return 1;
    }
}

static void jtext_fill(struct jtext *t, const char *format, struct jtext_args *args)
{
    while (*(format += strspn(format, ", ")))
        if (strchr("}]", *format)) {
            jtext_put(t, format++, 1);
        } else {
            put_comma(t);
            format += put_letter(t, format, args);
        }
}

struct jtext *jtext(const char *format, ...)
{
    struct jtext no_memory = {0}, *made = calloc(1, sizeof *made), *t = made ? made : &no_memory;
    struct jtext_args args;
    va_start(args.list, format);
    jtext_fill(t, format, &args);
    va_end(args.list);
    if (strchr("{[", *format) && arr_len(t->text) > 0) {
        arr_set_len(t->text, arr_len(t->text) - 1);
        t->close = *format == '{' ? '}' : ']';
    }
    arr_free(no_memory.text);
    return made;
}

void jtext_add(struct jtext *to, const char *format, ...)
{
    struct jtext no_memory = {0};
    struct jtext_args args;
    va_start(args.list, format);
    jtext_fill(to ? to : &no_memory, format, &args);
    va_end(args.list);
    arr_free(no_memory.text);
}

struct jtext *jtext_null(void)
{
    return jtext("s", (const char *)NULL);
}

struct jtext *jtext_ids(const int32_t *values, size_t n)
{
    struct jtext *list = jtext("[]");
    for (size_t i = 0; i < n; i++)
        jtext_add(list, "i", (int)values[i]);
    return list;
}

struct jtext *jtext_shape(const uint64_t *dims, size_t n)
{
    struct jtext *list = jtext("[]");
    for (size_t i = 0; i < n; i++)
        jtext_add(list, "I", (int64_t)dims[i]);
    return list;
}

void jtext_fail(struct jtext *value)
{
    if (value)
        value->failed = 1;
}

/* Outside of strings JSON is ASCII: a character that is not ASCII is in a string. */
static void escape_others(struct jtext *t)
{
    char *before = t->text, escape[JSON_ESCAPE];
    size_t n = arr_len(before);
    t->text = NULL;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_next(before + i, n - i, &code);
        if (code < 128)
            jtext_put(t, before + i, 1);
        else
            jtext_put(t, escape, json_escape(escape, code));
    }
    arr_free(before);
}

const char *jtext_end(struct jtext *value, int ascii, size_t *n)
{
    if (!value)
        return NULL;
    jtext_put(value, &value->close, value->close != 0);
    if (ascii)
        escape_others(value);
    *n = arr_len(value->text);
    jtext_put(value, "", 1);
    return value->failed ? NULL : value->text;
}

int jtext_write(struct jtext *value, const char *path, enum files_kind kind, mgpt_error *err)
{
    struct outfile out;
    size_t n;
    const char *text = jtext_end(value, 0, &n);
    if (!text)
        return err_memory(err, "a line of JSON", 0);
    if (files_create(&out, path, kind, err) < 0)
        return err->status;
    outfile_write(&out, text, n);
    outfile_write(&out, "\n", 1);
    return outfile_commit(&out, err);
}

void jtext_free(struct jtext *value)
{
    if (value)
        arr_free(value->text);
    free(value);
}
