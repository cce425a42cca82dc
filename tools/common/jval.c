/* Values of JSON. See jval.h. */
#include "base/error.h"
#include "base/xxh64.h"
#include "common/jval_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

/* Elements or members of a value whose text begins with c. */
static size_t count_of(const struct jval *v, char c)
{
    return v && *jval_source(v) == c && jval_is_long(v) ? v[2].back : 0;
}

size_t jval_size(const struct jval *array)
{
    return count_of(array, '[');
}

size_t jval_members(const struct jval *object)
{
    return count_of(object, '{');
}

static size_t slot_of(const char *key, size_t n)
{
    return (size_t)(((xxh64(key, strlen(key)) >> 32) * (uint64_t)n) >> 32);
}

size_t jval_find_slot(const struct jval *object, const uint32_t *slots, size_t n, const char *key,
                      size_t *probes)
{
    size_t i = slot_of(key, n);
    *probes = 0;
    while (slots[i] && ++*probes < JVAL_MAX_PROBES &&
           strcmp(jval_text(object + slots[i]), key) != 0)
        i = i + 1 < n ? i + 1 : 0;
    return i;
}

const struct jval *jval_get(const struct jval *object, const char *key)
{
    size_t n = jval_members(object), slots = jval_slots(n), probes;
    if (slots) {
        const uint32_t *table = &object[object[1].back - slots].back;
        size_t i = jval_find_slot(object, table, slots, key, &probes);
        return table[i] && probes < JVAL_MAX_PROBES ? object + table[i] + 1 : NULL;
    }
    for (struct jval_iter i = jval_begin(object); jval_next(&i);)
        if (strcmp(i.key, key) == 0)
            return i.value;
    return NULL;
}

const struct jval *jval_at(const struct jval *array, size_t i)
{
    size_t n = jval_size(array);
    if (i >= n)
        return NULL;
    int is_flat = array[1].back == JVAL_HEAD + n;
    return array + (is_flat ? JVAL_HEAD + i : array[array[1].back - n + i].back);
}

struct jval_iter jval_begin(const struct jval *object)
{
    size_t n = jval_members(object);
    return (struct jval_iter){.next = n ? object + JVAL_HEAD : NULL, .left = n};
}

int jval_next(struct jval_iter *i)
{
    if (i->left == 0)
        return 0;
    i->left--;
    i->key = jval_text(i->next);
    i->value = i->next + 1;
    i->next = i->value + jval_words(i->value);
    return 1;
}

/* The type of a number: its length is not known. */
static enum jval_type number_type(const char *p)
{
    size_t n = strspn(p, "-0123456789");
    if (p[n] == '.' || p[n] == 'e' || p[n] == 'E')
        return JVAL_REAL;
    n -= *p == '-';
    p += *p == '-';
    if (n != 19)
        return n < 19 ? JVAL_INTEGER : JVAL_REAL;
    return strncmp(p, "9223372036854775807", 19) <= 0 ? JVAL_INTEGER : JVAL_REAL;
}

enum jval_type jval_type(const struct jval *v)
{
    static const struct {
        char c, type;
    } types[] = {
        {'{', JVAL_OBJECT}, {'[', JVAL_ARRAY}, {'"', JVAL_STRING}, {JVAL_NUL_MARK, JVAL_STRING},
        {'t', JVAL_TRUE},   {'f', JVAL_FALSE}, {'n', JVAL_NULL}};
    if (!v)
        return JVAL_NULL;
    const char *p = jval_source(v);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (*p == types[i].c)
            return (enum jval_type)types[i].type;
    return number_type(p);
}

int jval_is(const struct jval *v, enum jval_type type)
{
    return v && jval_type(v) == type;
}

int jval_is_numeric(const struct jval *v)
{
    return jval_is(v, JVAL_INTEGER) || jval_is(v, JVAL_REAL);
}

int jval_is_flag(const struct jval *v)
{
    return jval_is(v, JVAL_TRUE) || jval_is(v, JVAL_FALSE);
}

const char *jval_text(const struct jval *string)
{
    const char *p = string ? jval_source(string) : "";
    if (*p == JVAL_NUL_MARK)
        return p + 1 + sizeof(uint32_t);
    return *p == '"' ? p + 1 : NULL;
}

size_t jval_text_size(const struct jval *string)
{
    const char *p = jval_text(string);
    uint32_t n;
    if (!p || *jval_source(string) != JVAL_NUL_MARK)
        return p ? strlen(p) : 0;
    memcpy(&n, jval_source(string) + 1, sizeof n);
    return n;
}

size_t jval_long_whole(const struct jval *v, const char **digits)
{
    if (!jval_is(v, JVAL_REAL))
        return 0;
    *digits = jval_source(v);
    size_t n = strspn(*digits, "-0123456789");
    char after = (*digits)[n];
    return after == '.' || after == 'e' || after == 'E' ? 0 : n;
}

int64_t jval_whole(const struct jval *number)
{
    return jval_is(number, JVAL_INTEGER) ? strtoll(jval_source(number), NULL, 10) : 0;
}

double jval_number(const struct jval *number)
{
    return jval_is_numeric(number) ? strtod(jval_source(number), NULL) : 0;
}

int jval_no_memory(const struct jval_error *e, size_t n, mgpt_error *err)
{
    if (e->is_memory)
        err_memory(err, "the JSON text", n);
    return e->is_memory;
}
