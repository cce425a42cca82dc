/* The filter tojson: json.dumps as transformers calls it. See values.h. */
#include "base/error.h"
#include "jinja/run.h"

#include <string.h>

struct json_writer {
    struct jinja_run *r;
    struct jinja_buffer out;
    int64_t indent;
    int64_t depth;
    int ascii;
};

static void put_json_escape(struct json_writer *w, uint32_t c)
{
    static const char letters[] = "\"\\\n\r\t\f\b", names[] = "\"\\nrtfb";
    uint32_t code = JINJA_CODE(c), mark = c & JINJA_TYPED;
    const char *at = code && code < 128 ? strchr(letters, (int)code) : NULL;
    char text[16] = {'\\', 0};
    if (at)
        text[1] = names[at - letters];
    else if (code < 32 || (w->ascii && code >= 127 && code < 0x10000))
        text_format(text, sizeof text, "\\u%s%x",
                    code < 16     ? "000"
                    : code < 256  ? "00"
                    : code < 4096 ? "0"
                                  : "",
                    (unsigned)code);
    else if (w->ascii && code >= 0x10000)
        text_format(text, sizeof text, "\\u%x\\u%x", (unsigned)(0xD7C0 + (code >> 10)),
                    (unsigned)(0xDC00 | (code & 0x3FF)));
    else {
        jinja_put(w->r, &w->out, &c, 1);
        return;
    }
    for (const char *p = text; *p; p++) {
        uint32_t marked = (uint8_t)*p | mark;
        jinja_put(w->r, &w->out, &marked, 1);
    }
}

static void put_quoted(struct json_writer *w, struct jinja_value s)
{
    jinja_put_ascii(w->r, &w->out, "\"");
    for (size_t i = 0; i < s.n && w->r->status == MGPT_OK; i++)
        put_json_escape(w, s.s[i]);
    jinja_put_ascii(w->r, &w->out, "\"");
}

static void put_line(struct json_writer *w)
{
    if (w->indent < 0)
        return;
    jinja_put_ascii(w->r, &w->out, "\n");
    for (int64_t i = 0; i < w->indent * w->depth && w->r->status == MGPT_OK; i++)
        jinja_put_ascii(w->r, &w->out, " ");
}

static void put_json(struct json_writer *w, struct jinja_value v);

static void put_container(struct json_writer *w, struct jinja_value v)
{
    int is_dict = v.kind == J_DICT;
    size_t n = is_dict ? v.dict->n : v.n;
    jinja_put_ascii(w->r, &w->out, is_dict ? "{" : "[");
    w->depth++;
    for (size_t i = 0; i < n && w->r->status == MGPT_OK; i++) {
        if (i > 0)
            jinja_put_ascii(w->r, &w->out, w->indent < 0 ? ", " : ",");
        put_line(w);
        if (is_dict) {
            if (!jinja_is_text(v.dict->pairs[i].key))
                jinja_fail(w->r, "tojson of a key that is not text");
            put_quoted(w, v.dict->pairs[i].key);
            jinja_put_ascii(w->r, &w->out, ": ");
        }
        put_json(w, is_dict ? v.dict->pairs[i].value : v.items[i]);
    }
    w->depth--;
    if (n > 0)
        put_line(w);
    jinja_put_ascii(w->r, &w->out, is_dict ? "}" : "]");
}

static void put_json(struct json_writer *w, struct jinja_value v)
{
    if (!jinja_enter(w->r))
        return;
    struct jinja_value s;
    if (jinja_is_text(v))
        put_quoted(w, v);
    else if (v.kind == J_LIST || v.kind == J_DICT)
        put_container(w, v);
    else if (v.kind == J_NONE || v.kind == J_BOOL)
        jinja_put_ascii(w->r, &w->out, v.kind == J_NONE ? "null" : v.i ? "true" : "false");
    else if (v.kind == J_INT) {
        s = jinja_str(w->r, v);
        jinja_put(w->r, &w->out, s.s, s.n);
    } else
        jinja_fail(w->r, "tojson of %s", jinja_kind_name(v));
    jinja_leave(w->r);
}

struct jinja_value jinja_to_json(struct jinja_run *r, struct jinja_value v, int64_t indent,
                                 int ascii)
{
    struct json_writer w = {.r = r, .indent = indent, .ascii = ascii};
    put_json(&w, v);
    return jinja_string(w.out.s, w.out.n);
}
