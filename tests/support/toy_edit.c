/* Tests: changes of a toy, written as text. See build_model.h. */
#include "support/build_model.h"
#include "support/unit.h"

enum { LIST_MOST = 16, U32 = 4, I32 = 5, BOOL = 7 };

static void edit_u32(struct toy *m, const char *key, const char *v)
{
    toy_put_u32(m, key, (uint32_t)strtoul(v, NULL, 10));
}

static void edit_f32(struct toy *m, const char *key, const char *v)
{
    toy_put_f32(m, key, strtof(v, NULL));
}

static void edit_bool(struct toy *m, const char *key, const char *v)
{
    toy_put_bool(m, key, atoi(v));
}

/* Integers as an array of GGUF's type `element`. */
static void edit_list(struct toy *m, const char *key, uint32_t element, const char *v)
{
    int32_t wide[LIST_MOST];
    uint8_t bytes[LIST_MOST];
    size_t n = 0;
    for (char *end; n < LIST_MOST; v = end, n++) {
        wide[n] = (int32_t)strtol(v, &end, 10);
        bytes[n] = (uint8_t)wide[n];
        if (end == v)
            break;
    }
    toy_put_array(m, key, element, n, element == BOOL ? (void *)bytes : wide,
                  element == BOOL ? n : n * sizeof *wide);
}

static void edit_bools(struct toy *m, const char *key, const char *v)
{
    edit_list(m, key, BOOL, v);
}

static void edit_i32s(struct toy *m, const char *key, const char *v)
{
    edit_list(m, key, I32, v);
}

static void edit_u32s(struct toy *m, const char *key, const char *v)
{
    edit_list(m, key, U32, v);
}

static void edit_no_key(struct toy *m, const char *key, const char *v)
{
    (void)v;
    toy_drop_key(m, key);
}

static void edit_drop(struct toy *m, const char *name, const char *v)
{
    (void)v;
    toy_drop_tensor(m, name);
}

static void edit_add(struct toy *m, const char *name, const char *v)
{
    int n_in = 0, n_out = 0;
    assert_true(sscanf(v, "%d %d", &n_in, &n_out) >= 1);
    toy_add(m, name, TOY_F32, n_in, n_out, 0, 1);
}

static void edit_dim(struct toy *m, const char *name, const char *v)
{
    struct toy_tensor *t = toy_find(m, name);
    unsigned at, size;
    assert_non_null(t);
    assert_int_equal(sscanf(v, "%u %u", &at, &size), 2);
    t->dims[at] = size;
    t->n_dims = at < t->n_dims ? t->n_dims : at + 1;
}

static void edit_value(struct toy *m, const char *name, const char *v)
{
    struct toy_tensor *t = toy_find(m, name);
    char at[16];
    float value;
    assert_non_null(t);
    assert_int_equal(sscanf(v, "%15s %f", at, &value), 2);
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(at, "all") == 0 || (size_t)atoi(at) == i)
            t->values[i] = value;
}

static const struct {
    const char *verb;
    void (*edit)(struct toy *m, const char *name, const char *v);
} verbs[] = {
    {"u32", edit_u32},     {"f32", edit_f32},   {"bool", edit_bool}, {"string", toy_put_string},
    {"bools", edit_bools}, {"i32s", edit_i32s}, {"u32s", edit_u32s}, {"no_key", edit_no_key},
    {"drop", edit_drop},   {"add", edit_add},   {"dim", edit_dim},   {"value", edit_value},
};

static void edit_once(struct toy *m, const char *text)
{
    char verb[16], name[80];
    int at = 0;
    assert_int_equal(sscanf(text, " %15s %79s%n", verb, name, &at), 2);
    at += text[at] == ' ';
    for (size_t i = 0; i < COUNT(verbs); i++)
        if (strcmp(verbs[i].verb, verb) == 0) {
            verbs[i].edit(m, name, text + at);
            return;
        }
    fail_msg("no edit '%s'", verb);
}

void toy_edit(struct toy *m, const char *edits)
{
    char text[512], *next = text;
    assert_in_range(snprintf(text, sizeof text, "%s", edits), 0, sizeof text - 1);
    for (char *one; (one = next) != NULL;) {
        next = strchr(one, ';');
        if (next)
            *next++ = 0;
        if (*one)
            edit_once(m, one);
    }
}
