/* JSON written piece by piece. See json_out.h. */
#include "common/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

size_t json_escape(char to[JSON_ESCAPE], uint32_t code)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: character, letter */
    for (const char *at = shorts; *at; at += 2)
        if ((uint32_t)(unsigned char)*at == code)
            return (size_t)snprintf(to, JSON_ESCAPE, "\\%c", at[1]);
    if (code > 0xFFFF)
        return (size_t)snprintf(to, JSON_ESCAPE, "\\u%04X\\u%04X",
                                0xD800 + ((code - 0x10000) >> 10 & 0x3FF),
                                0xDC00 + ((code - 0x10000) & 0x3FF));
    return (size_t)snprintf(to, JSON_ESCAPE, "\\u%04X", code);
}

void json_out_string(struct json_out *out, const char *p, size_t n)
{
    char escape[JSON_ESCAPE];
    putc('"', out->to);
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_next(p + i, n - i, &code);
        if (json_is_escaped(code) || (code > 127 && out->ascii))
            fwrite(escape, 1, json_escape(escape, code), out->to);
        else
            fwrite(p + i, 1, length, out->to);
    }
    putc('"', out->to);
}

/* With a point or an exponent, whose sign and zeros are omitted where they can be. */
void json_number(char to[JSON_NUMBER], double v, int digits)
{
    if (!isfinite(v)) {
        strcpy(to, "null");
        return;
    }
    snprintf(to, JSON_NUMBER - 2, "%.*g", digits, v);
    char *e = strchr(to, 'e');
    if (!e && !strchr(to, '.'))
        strcat(to, ".0");
    if (e) {
        char *from = e + 1 + (e[1] == '-' || e[1] == '+'), *at = e + 1 + (e[1] == '-');
        while (from[0] == '0' && from[1])
            from++;
        memmove(at, from, strlen(from) + 1);
    }
}

void json_out_real(struct json_out *out, double v)
{
    char number[JSON_NUMBER];
    json_number(number, v, 17);
    fputs(number, out->to);
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

void json_out_refused(struct json_out *out, const struct jval *id, size_t line,
                      const mgpt_error *wrong)
{
    const char *why = wrong->text;
    size_t n = strlen(why);
    if (utf8_well_formed(why, n) < n) /* it quotes a piece of the line that is cut in a character */
        why = "the line is not UTF-8 or not JSON";
    putc('{', out->to);
    if (id) {
        fputs("\"id\":", out->to);
        json_out_value(out, id);
        putc(',', out->to);
    }
    fputs("\"error\":", out->to);
    json_out_string(out, why, strlen(why));
    if (!id)
        fprintf(out->to, ",\"line\":%zu", line);
    if (wrong->offset != MGPT_NO_OFFSET)
        fprintf(out->to, ",\"offset\":%" PRIu64, wrong->offset);
    fputs("}\n", out->to);
}
