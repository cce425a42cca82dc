/* Tests: changes of a toy, written as text. See build_model.h. */
#include "support/build_model.h"
#include "support/unit.h"

enum { LIST_MOST = 16, U32 = 4, I32 = 5, F32 = 6, BOOL = 7 };

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

/* Each by the integer of its bits. */
static void edit_f32s(struct toy *m, const char *key, const char *v)
{
    edit_list(m, key, F32, v);
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
    int n_in = 0, n_out = 0, n = 1;
    int given = sscanf(v, "%d %d %d", &n_in, &n_out, &n);
    assert_true(given >= 1);
    struct toy_tensor *t = toy_add(m, name, TOY_F32, n_in, n_out * n, 0, 1);
    if (given < 3)
        return;
    t->n_dims = 3;
    t->dims[1] = (uint64_t)n_out;
    t->dims[2] = (uint64_t)n;
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

static struct toy_tensor *edited(struct toy *m, const char *name)
{
    struct toy_tensor *t = toy_find(m, name);
    if (!t)
        fail_msg("no tensor '%s'", name);
    return t;
}

/* Values at a place, or all, become factor * value + number. */
static void edit_values(struct toy *m, const char *name, const char *v, float factor, int times)
{
    struct toy_tensor *t = edited(m, name);
    char at[16];
    float number;
    assert_int_equal(sscanf(v, "%15s %f", at, &number), 2);
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(at, "all") == 0 || (size_t)atoi(at) == i)
            t->values[i] = times ? t->values[i] * number : factor * t->values[i] + number;
}

static void edit_value(struct toy *m, const char *name, const char *v)
{
    edit_values(m, name, v, 0, 0);
}

static void edit_plus(struct toy *m, const char *name, const char *v)
{
    edit_values(m, name, v, 1, 0);
}

static void edit_times(struct toy *m, const char *name, const char *v)
{
    edit_values(m, name, v, 0, 1);
}

/* Two tensors have each other's values; a name that ends with '.' means all that begin with it. */
static void edit_swap(struct toy *m, const char *name, const char *v)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < m->n_tensors; i++) {
        struct toy_tensor *a = &m->tensors[i];
        char other[80];
        if (name[n - 1] == '.' ? strncmp(a->name, name, n) != 0 : strcmp(a->name, name) != 0)
            continue;
        snprintf(other, sizeof other, "%s%s", v, a->name + n);
        struct toy_tensor *b = edited(m, other);
        float *values = a->values;
        assert_int_equal(a->n, b->n);
        a->values = b->values;
        b->values = values;
    }
}

static void edit_copy(struct toy *m, const char *name, const char *v)
{
    struct toy_tensor *t = edited(m, name);
    memcpy(t->values, edited(m, v)->values, t->n * sizeof *t->values);
}

/* Transposes a square matrix. */
static void edit_transpose(struct toy *m, const char *name, const char *v)
{
    struct toy_tensor *t = edited(m, name);
    size_t n = (size_t)t->dims[0];
    (void)v;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            float value = t->values[i * n + j];
            t->values[i * n + j] = t->values[j * n + i];
            t->values[j * n + i] = value;
        }
}

/* "WIDTH A B ...": in every group of that many blocks of WIDTH rows the first becomes what was
 * block A, the next block B, ... */
static void edit_rows(struct toy *m, const char *name, const char *v)
{
    struct toy_tensor *t = edited(m, name);
    size_t from[LIST_MOST], n = 0, rows = t->n_dims > 1 ? (size_t)t->dims[1] : t->n;
    char *end;
    size_t width = strtoul(v, &end, 10), values = t->n / rows * width;
    for (v = end; n < LIST_MOST && (from[n] = strtoul(v, &end, 10), end > v); v = end)
        n++;
    float *copy = toy_alloc(t->n, sizeof *copy);
    memcpy(copy, t->values, t->n * sizeof *copy);
    for (size_t r = 0; r < rows / width; r++)
        memcpy(t->values + r * values, copy + (r - r % n + from[r % n]) * values,
               values * sizeof *copy);
    free(copy);
}

/* Row r becomes what was row r - v; the last ones come first. */
static void edit_roll(struct toy *m, const char *name, const char *v)
{
    struct toy_tensor *t = edited(m, name);
    size_t width = (size_t)t->dims[0], by = strtoul(v, NULL, 10) * width;
    float *copy = toy_alloc(t->n, sizeof *copy);
    memcpy(copy, t->values, t->n * sizeof *copy);
    for (size_t i = 0; i < t->n; i++)
        t->values[i] = copy[(i + t->n - by) % t->n];
    free(copy);
}

/* Two tensors are read from one matrix of 2 n rows, of each expert. Row r of the first n and of the last is what from(r, n) was. */
static void edit_joined(struct toy *m, const char *name, const char *v,
                        size_t (*from)(size_t, size_t))
{
    struct toy_tensor *both[2] = {edited(m, name), edited(m, v)};
    size_t width = (size_t)both[0]->dims[0], n = (size_t)both[0]->dims[1], all = both[0]->n;
    float *copy = toy_alloc(2 * all, sizeof *copy);
    assert_int_equal(both[1]->n, all);
    for (size_t i = 0; i < 2; i++)
        memcpy(copy + i * all, both[i]->values, all * sizeof *copy);
    for (size_t i = 0; i < 2 * all; i++) {
        size_t r = i / width % n + i / all * n, old = from(r, n), expert = i % all / width / n;
        both[i / all]->values[i % all] =
            copy[old / n * all + (expert * n + old % n) * width + i % width];
    }
    free(copy);
}

static size_t row_of_pairs(size_t r, size_t n)
{
    return r % 2 * n + r / 2;
}

static size_t row_in_turn(size_t r, size_t n)
{
    return r % n * 2 + r / n;
}

/* The matrix has their rows in turn, and was read as two halves. */
static void edit_halves(struct toy *m, const char *name, const char *v)
{
    edit_joined(m, name, v, row_of_pairs);
}

/* The other way round. */
static void edit_in_turn(struct toy *m, const char *name, const char *v)
{
    edit_joined(m, name, v, row_in_turn);
}

static const struct {
    const char *verb;
    void (*edit)(struct toy *m, const char *name, const char *v);
} verbs[] = {
    {"u32", edit_u32},          {"f32", edit_f32},     {"bool", edit_bool},
    {"string", toy_put_string}, {"bools", edit_bools}, {"i32s", edit_i32s},
    {"u32s", edit_u32s},        {"f32s", edit_f32s},   {"no_key", edit_no_key},
    {"drop", edit_drop},        {"add", edit_add},     {"dim", edit_dim},
    {"value", edit_value},      {"plus", edit_plus},   {"times", edit_times},
    {"swap", edit_swap},        {"copy", edit_copy},   {"transpose", edit_transpose},
    {"rows", edit_rows},        {"roll", edit_roll},   {"halves", edit_halves},
    {"in_turn", edit_in_turn},
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

/* With a * in it: the edit for every layer, whose number stands for each *. */
static void edit_layers(struct toy *m, const char *text)
{
    int n = strchr(text, '*') ? m->spec.n_layer : 1;
    for (int layer = 0; layer < n; layer++) {
        char one[256];
        assert_true(strlen(text) < sizeof one && layer < 10);
        strcpy(one, text);
        for (char *star; (star = strchr(one, '*')) != NULL;)
            *star = (char)('0' + layer);
        edit_once(m, one);
    }
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
            edit_layers(m, one);
    }
}
