/* Values, their memory, and Python's rules for them. See values.h. */
#include "jinja/values.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "common/text.h"
#include "jinja/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory and failure ---------------------------------------------------------------------- */

enum { BLOCK = 1 << 16 };
#define MEMORY_MOST ((size_t)1 << 28)
#define STEPS_MOST ((uint64_t)1 << 26)

struct jinja_block {
    struct jinja_block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void jinja_fail(struct jinja_run *r, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    if (r->status != MGPT_OK)
        return;
    va_start(ap, fmt);
    text_format_v(text, sizeof text, fmt, &ap);
    va_end(ap);
    r->status = err_set(r->err, MGPT_EFILE, MGPT_NO_OFFSET, "line %u: %s",
                        (unsigned)r->t->tokens[r->at].line, text);
    r->at = arr_len(r->t->tokens) - 1;
}

static struct jinja_block *block_new(struct jinja_run *r, size_t n)
{
    struct jinja_block *b = calloc(1, sizeof *b + n);
    if (!b)
        return NULL;
    b->size = n;
    b->next = r->blocks;
    return r->blocks = b;
}

void *jinja_take(struct jinja_run *r, size_t n, size_t each)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, each, &bytes) || bytes > MEMORY_MOST ||
        (r->n_taken += bytes + 16) > MEMORY_MOST) {
        jinja_fail(r, "the template makes too much text");
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    if (!r->blocks || r->blocks->size - r->blocks->used < bytes)
        if (!block_new(r, bytes > BLOCK ? bytes : BLOCK)) {
            if (r->status == MGPT_OK)
                r->status = err_memory(r->err, "the chat template's values", bytes);
            r->at = arr_len(r->t->tokens) - 1;
            return NULL;
        }
    void *p = r->blocks->bytes + r->blocks->used;
    r->blocks->used += bytes;
    return p;
}

int jinja_steps(struct jinja_run *r, size_t n)
{
    r->steps += n;
    if (r->steps > STEPS_MOST)
        jinja_fail(r, "the template does not end in time");
    return r->status == MGPT_OK;
}

void jinja_free_blocks(struct jinja_run *r)
{
    for (struct jinja_block *b = r->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    r->blocks = NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

struct jinja_value jinja_undefined(const uint32_t *name, size_t n)
{
    return (struct jinja_value){.kind = J_UNDEFINED, .s = name, .n = n};
}

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = J_NONE};
}

struct jinja_value jinja_bool(int truth)
{
    return (struct jinja_value){.kind = J_BOOL, .i = truth != 0};
}

struct jinja_value jinja_int(int64_t i)
{
    return (struct jinja_value){.kind = J_INT, .i = i};
}

struct jinja_value jinja_string(const uint32_t *s, size_t n)
{
    return (struct jinja_value){.kind = J_STRING, .s = s, .n = n};
}

struct jinja_value jinja_list(const struct jinja_value *items, size_t n)
{
    return (struct jinja_value){.kind = J_LIST, .items = items, .n = n};
}

struct jinja_value jinja_utf8(struct jinja_run *r, const char *text, size_t n, uint32_t mark)
{
    uint32_t *s = jinja_take(r, n, sizeof *s);
    size_t length = 0;
    for (size_t i = 0; s && i < n;) {
        uint32_t code;
        size_t step = utf8_next(text + i, n - i, &code);
        if (code == UTF8_BAD)
            code = JINJA_BAD_BYTE + (uint8_t)text[i];
        s[length++] = code | mark;
        i += step;
    }
    return jinja_string(s, length);
}

struct jinja_value jinja_ascii(struct jinja_run *r, const char *text)
{
    return jinja_utf8(r, text, strlen(text), 0);
}

void jinja_put(struct jinja_run *r, struct jinja_buffer *b, const uint32_t *s, size_t n)
{
    if (!jinja_steps(r, n))
        return;
    if (b->cap - b->n < n) {
        size_t cap = 2 * b->cap + n + 32;
        uint32_t *grown = jinja_take(r, cap, sizeof *grown);
        if (!grown)
            return;
        if (b->n > 0)
            memcpy(grown, b->s, b->n * sizeof *grown);
        b->s = grown;
        b->cap = cap;
    }
    if (n > 0)
        memcpy(b->s + b->n, s, n * sizeof *s);
    b->n += n;
}

void jinja_put_ascii(struct jinja_run *r, struct jinja_buffer *b, const char *text)
{
    for (; *text; text++) {
        uint32_t c = (uint8_t)*text;
        jinja_put(r, b, &c, 1);
    }
}

void jinja_set_pair(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                    struct jinja_value value)
{
    if (!jinja_steps(r, d->n + 1))
        return;
    for (size_t i = 0; i < d->n; i++)
        if (jinja_equal(r, d->pairs[i].key, key)) {
            d->pairs[i].value = value;
            return;
        }
    if (d->n == d->cap) {
        size_t cap = 2 * d->cap + 8;
        struct jinja_pair *grown = jinja_take(r, cap, sizeof *grown);
        if (!grown)
            return;
        if (d->n > 0)
            memcpy(grown, d->pairs, d->n * sizeof *grown);
        d->pairs = grown;
        d->cap = cap;
    }
    d->pairs[d->n++] = (struct jinja_pair){key, value};
}

/* ---- asking ---------------------------------------------------------------------------------- */

const char *jinja_kind_name(struct jinja_value v)
{
    static const char *const names[] = {[J_UNDEFINED] = "an undefined value",
                                        [J_NONE] = "none",
                                        [J_BOOL] = "a truth value",
                                        [J_INT] = "a number",
                                        [J_STRING] = "text",
                                        [J_SAFE] = "text marked as safe",
                                        [J_LIST] = "a list",
                                        [J_STREAM] = "a generator",
                                        [J_DICT] = "a dict",
                                        [J_NAMESPACE] = "a namespace",
                                        [J_LOOP] = "a loop",
                                        [J_MACRO] = "a macro",
                                        [J_FUNCTION] = "a function"};
    return names[v.kind];
}

int jinja_is_text(struct jinja_value v)
{
    return v.kind == J_STRING || v.kind == J_SAFE;
}

int jinja_same_text(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b)
{
    if (n_a != n_b)
        return 0;
    for (size_t i = 0; i < n_a; i++)
        if (JINJA_CODE(a[i]) != JINJA_CODE(b[i]))
            return 0;
    return 1;
}

int jinja_is(struct jinja_value v, const char *ascii)
{
    size_t n = strlen(ascii);
    if (!jinja_is_text(v) || v.n != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (JINJA_CODE(v.s[i]) != (uint8_t)ascii[i])
            return 0;
    return 1;
}

int jinja_row_of(struct jinja_value name, const void *rows, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++)
        if (jinja_is(name, *(const char *const *)(const void *)((const char *)rows + i * size)))
            return (int)i;
    return -1;
}

int jinja_space(uint32_t c)
{
    return text_is_space(JINJA_CODE(c));
}

int jinja_truth(struct jinja_value v)
{
    switch (v.kind) {
    case J_UNDEFINED:
    case J_NONE:
        return 0;
    case J_BOOL:
    case J_INT:
        return v.i != 0;
    case J_STRING:
    case J_SAFE:
    case J_LIST:
        return v.n > 0;
    case J_DICT:
        return v.dict->n > 0;
    default:
        return 1;
    }
}

static int is_number(struct jinja_value v)
{
    return v.kind == J_BOOL || v.kind == J_INT;
}

static int equal_items(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    int same = a.n == b.n && jinja_enter(r);
    for (size_t i = 0; same && i < a.n; i++)
        same = jinja_equal(r, a.items[i], b.items[i]);
    if (a.n == b.n)
        jinja_leave(r);
    return same;
}

int jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    if (!jinja_steps(r, 1))
        return 0;
    if (is_number(a) && is_number(b))
        return a.i == b.i;
    if (jinja_is_text(a) && jinja_is_text(b))
        return jinja_steps(r, a.n) && jinja_same_text(a.s, a.n, b.s, b.n);
    if (a.kind != b.kind)
        return 0;
    if (a.kind == J_LIST)
        return equal_items(r, a, b);
    if (a.kind == J_DICT && a.dict != b.dict && (a.dict->n || b.dict->n))
        jinja_fail(r, "two dicts are compared, which mgpt does not do");
    return a.kind == J_DICT || a.kind == J_UNDEFINED || a.kind == J_NONE;
}

size_t jinja_find(struct jinja_run *r, struct jinja_value s, struct jinja_value part, size_t from)
{
    for (size_t i = from; i <= s.n && part.n <= s.n - i; i++) {
        if (!jinja_steps(r, 1))
            return SIZE_MAX;
        size_t k = 0;
        while (k < part.n && JINJA_CODE(s.s[i + k]) == JINJA_CODE(part.s[k]))
            k++;
        if (k == part.n)
            return i;
        r->steps += k;
    }
    return SIZE_MAX;
}

const struct jinja_value *jinja_look_up(const struct jinja_dict *d, struct jinja_value key)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct jinja_value *k = &d->pairs[i].key;
        if (jinja_is_text(*k) && jinja_is_text(key) && jinja_same_text(k->s, k->n, key.s, key.n))
            return &d->pairs[i].value;
        if (is_number(*k) && is_number(key) && k->i == key.i)
            return &d->pairs[i].value;
    }
    return NULL;
}

int jinja_contains(struct jinja_run *r, struct jinja_value all, struct jinja_value part)
{
    if (jinja_is_text(all) && jinja_is_text(part))
        return jinja_find(r, all, part, 0) != SIZE_MAX;
    if (all.kind == J_DICT)
        return jinja_steps(r, all.dict->n) && jinja_look_up(all.dict, part) != NULL;
    if (all.kind != J_LIST && all.kind != J_UNDEFINED)
        jinja_fail(r, "%s in %s", jinja_kind_name(part), jinja_kind_name(all));
    for (size_t i = 0; all.kind == J_LIST && i < all.n; i++)
        if (jinja_equal(r, all.items[i], part))
            return 1;
    return 0;
}

struct jinja_value jinja_str(struct jinja_run *r, struct jinja_value v)
{
    char digits[32];
    switch (v.kind) {
    case J_STRING:
    case J_SAFE:
        return v;
    case J_UNDEFINED:
        return jinja_string(NULL, 0);
    case J_NONE:
        return jinja_ascii(r, "None");
    case J_BOOL:
        return jinja_ascii(r, v.i ? "True" : "False");
    case J_INT:
        text_format(digits, sizeof digits, "%lld", (long long)v.i);
        return jinja_ascii(r, digits);
    default:
        jinja_fail(r, "%s is printed as text, which mgpt does not do", jinja_kind_name(v));
        return jinja_string(NULL, 0);
    }
}

struct jinja_value jinja_iterate(struct jinja_run *r, struct jinja_value v)
{
    size_t n = v.kind == J_DICT ? v.dict->n : v.n;
    if (v.kind == J_LIST || v.kind == J_STREAM)
        return jinja_list(v.items, v.n);
    if (v.kind == J_UNDEFINED)
        return jinja_list(NULL, 0);
    if (!jinja_is_text(v) && v.kind != J_DICT) {
        jinja_fail(r, "a loop over %s", jinja_kind_name(v));
        return jinja_list(NULL, 0);
    }
    struct jinja_value *items = jinja_take(r, n, sizeof *items);
    for (size_t i = 0; items && i < n; i++)
        items[i] = v.kind == J_DICT ? v.dict->pairs[i].key : jinja_string(v.s + i, 1);
    return jinja_list(items, items ? n : 0);
}

struct jinja_shown jinja_show(const uint32_t *s, size_t n)
{
    struct jinja_shown shown = {{0}};
    for (size_t i = 0; i < n && i < sizeof shown.text - 1; i++) {
        uint32_t c = JINJA_CODE(s[i]);
        shown.text[i] = c >= 32 && c < 127 ? (char)c : '?';
    }
    return shown;
}
