/* JSON written piece by piece. See json_out.h. */
#include "common/json_out.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

static void put_escape(struct json_out *out, uint32_t code)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: character, letter */
    for (const char *at = shorts; *at; at += 2)
        if ((uint32_t)(unsigned char)*at == code) {
            fprintf(out->to, "\\%c", at[1]);
            return;
        }
    if (code > 0xFFFF)
        fprintf(out->to, "\\u%04X\\u%04X", 0xD800 + ((code - 0x10000) >> 10),
                0xDC00 + ((code - 0x10000) & 0x3FF));
    else
        fprintf(out->to, "\\u%04X", code);
}

void json_out_string(struct json_out *out, const char *p, size_t n)
{
    putc('"', out->to);
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_next(p + i, n - i, &code);
        if (code < 32 || code == '"' || code == '\\' || (code > 127 && out->ascii))
            put_escape(out, code);
        else
            fwrite(p + i, 1, length, out->to);
    }
    putc('"', out->to);
}

/* 17 digits, with a point or an exponent, whose sign and zeros are omitted where they can be. */
void json_out_real(struct json_out *out, double v)
{
    char text[40];
    if (!isfinite(v)) {
        fputs("null", out->to);
        return;
    }
    snprintf(text, sizeof text - 2, "%.17g", v);
    char *e = strchr(text, 'e');
    if (!e && !strchr(text, '.'))
        strcat(text, ".0");
    if (e) {
        char *digits = e + 1 + (e[1] == '-' || e[1] == '+'), *to = e + 1 + (e[1] == '-');
        while (digits[0] == '0' && digits[1])
            digits++;
        memmove(to, digits, strlen(digits) + 1);
    }
    fputs(text, out->to);
}

static void put_members(struct json_out *out, const struct jval *object)
{
    const char *before = "{";
    for (struct jval_iter i = jval_begin(object); jval_next(&i); before = ",") {
        fputs(before, out->to);
        json_out_string(out, i.key, strlen(i.key));
        putc(':', out->to);
        json_out_value(out, i.value);
    }
    fputs(jval_members(object) ? "}" : "{}", out->to);
}

static void put_elements(struct json_out *out, const struct jval *array)
{
    for (size_t i = 0; i < jval_size(array); i++) {
        putc(i ? ',' : '[', out->to);
        json_out_value(out, jval_at(array, i));
    }
    fputs(jval_size(array) ? "]" : "[]", out->to);
}

void json_out_value(struct json_out *out, const struct jval *v)
{
    switch (jval_type(v)) {
    case JVAL_OBJECT:
        put_members(out, v);
        break;
    case JVAL_ARRAY:
        put_elements(out, v);
        break;
    case JVAL_STRING:
        json_out_string(out, jval_text(v), jval_text_size(v));
        break;
    case JVAL_INTEGER:
        fprintf(out->to, "%lld", (long long)jval_whole(v));
        break;
    case JVAL_REAL:
        json_out_real(out, jval_number(v));
        break;
    case JVAL_TRUE:
        fputs("true", out->to);
        break;
    case JVAL_FALSE:
        fputs("false", out->to);
        break;
    case JVAL_NULL:
        fputs("null", out->to);
        break;
    }
}
