/* Matrices in JSON. See json_model.h.
 *
 * Every number is looked at once, here, so that reading values later cannot fail. Numbers are parsed
 * as double and rounded once more to float32: a value of 17 digits can so differ by one unit in the
 * last place from a direct conversion, but it is what every Python program gets, which is the
 * reference. Values beyond float32 become infinite; the writer counts them.
 */
#include "error.h"
#include "json_model.h"
#include "mem.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NESTING = 8, MAX_PATH = 200 };

const char *json_kind(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_NULL:
        return "null (JavaScript writes NaN so)";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "a number";
    }
}

/* ---- values ------------------------------------------------------------------------------------ */

static float number(const json_t *v)
{
    return (float)json_number_value(v);
}

static void flat_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const json_t *list = t->source;
    for (size_t i = 0; i < n; i++)
        out[i] = number(json_array_get(list, (size_t)(t->at + first) + i));
}

static void row_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const json_t *rows = t->source;
    size_t row = (size_t)(first / t->dims[0]), col = (size_t)(first % t->dims[0]);
    for (size_t i = 0; i < n; row++, col = 0) {
        const json_t *cells = json_array_get(rows, row);
        for (; col < t->dims[0] && i < n; col++)
            out[i++] = number(json_array_get(cells, col));
    }
}

/* ---- one matrix -------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int refuse(struct json_model *m, const char *name,
                                                        const char *fmt, ...)
{
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET, "tensor %.*s: %s",
                   CKPT_CLIP(name, strlen(name)), why);
}

static int add(struct json_model *m, const char *name, struct mg_matrix matrix)
{
    matrix.name = ckpt_text(m->c, name, strlen(name));
    if (!matrix.name || !arr_push(m->matrices, matrix))
        return err_memory(m->err, "the list of matrices", sizeof matrix);
    return MGPT_OK;
}

int json_check_numbers(struct json_model *m, const char *name, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_number(json_array_get(list, i)))
            return refuse(m, name, "number %zu: expected a number, found %s", i,
                          json_kind(json_array_get(list, i)));
    return MGPT_OK;
}

static int check_row(struct json_model *m, const char *name, const json_t *rows, size_t i)
{
    const json_t *row = json_array_get(rows, i);
    size_t n = json_array_size(row), expected = json_array_size(json_array_get(rows, 0));
    if (!json_is_array(row))
        return refuse(m, name, "row %zu: expected a list of numbers, found %s", i, json_kind(row));
    if (n == 0)
        return refuse(m, name, "row %zu is empty", i);
    if (n != expected)
        return refuse(m, name, "row %zu has %zu numbers, row 0 has %zu", i, n, expected);
    for (size_t j = 0; j < n; j++)
        if (!json_is_number(json_array_get(row, j)))
            return refuse(m, name, "row %zu, column %zu: expected a number, found %s", i, j,
                          json_kind(json_array_get(row, j)));
    return MGPT_OK;
}

static int add_rows(struct json_model *m, const char *name, const json_t *rows)
{
    size_t n = json_array_size(rows);
    if (n == 0)
        return refuse(m, name, "it has no rows");
    for (size_t i = 0; i < n; i++)
        if (check_row(m, name, rows, i) < 0)
            return MGPT_EFILE;
    struct mg_matrix matrix = {.rows = n,
                               .cols = json_array_size(json_array_get(rows, 0)),
                               .values = row_values,
                               .source = rows};
    return add(m, name, matrix);
}

int json_add_flat(struct json_model *m, const char *name, const json_t *list, uint64_t at,
                  uint64_t rows, uint64_t cols)
{
    struct mg_matrix matrix = {
        .rows = rows, .cols = cols, .values = flat_values, .source = list, .at = at};
    return add(m, name, matrix);
}

/* {"shape": [rows, cols], "data": [...]}; data flat or in rows. */
static int add_shaped(struct json_model *m, const char *name, const json_t *v)
{
    const json_t *shape = json_object_get(v, "shape"), *data = json_object_get(v, "data");
    json_int_t rows = json_integer_value(json_array_get(shape, 0));
    json_int_t cols = json_integer_value(json_array_get(shape, 1));
    if (json_array_size(shape) != 2 || rows < 1 || cols < 1)
        return refuse(m, name, "shape: expected two numbers above 0");
    if (!json_is_array(data))
        return refuse(m, name, "data: expected a list of numbers, found %s", json_kind(data));
    size_t n = json_array_size(data);
    int nested = json_is_array(json_array_get(data, 0));
    size_t per_row = nested ? json_array_size(json_array_get(data, 0)) : (size_t)cols;
    size_t n_rows = nested ? n : n / per_row;
    if (per_row != (size_t)cols || n_rows != (size_t)rows || (!nested && n % per_row))
        return refuse(m, name, "shape is [%lld, %lld], data has %zu %s", (long long)rows,
                      (long long)cols, n, nested ? "rows of another length" : "numbers");
    if (nested)
        return add_rows(m, name, data);
    if (json_check_numbers(m, name, data) < 0)
        return MGPT_EFILE;
    return json_add_flat(m, name, data, 0, (uint64_t)rows, (uint64_t)cols);
}

/* ---- collections ------------------------------------------------------------------------------- */

static int add_any(struct json_model *m, const char *name, const json_t *v, int nesting);

static int add_members(struct json_model *m, const char *name, const json_t *v, int nesting)
{
    const char *key;
    json_t *member;
    char path[MAX_PATH];
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        snprintf(path, sizeof path, "%s.%s", name, key);
        int status = add_any(m, path, member, nesting + 1);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

static int add_elements(struct json_model *m, const char *name, const char *join, const json_t *v,
                        int nesting)
{
    char path[MAX_PATH];
    for (size_t i = 0; i < json_array_size(v); i++) {
        snprintf(path, sizeof path, "%s%s%zu", name, join, i);
        int status = add_any(m, path, json_array_get(v, i), nesting + 1);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

static int add_any(struct json_model *m, const char *name, const json_t *v, int nesting)
{
    const json_t *first = json_array_get(v, 0);
    if (nesting > MAX_NESTING)
        return refuse(m, name, "nested too deeply");
    if (json_is_object(v) && json_object_get(v, "shape") && json_object_get(v, "data"))
        return add_shaped(m, name, v);
    if (json_is_object(v))
        return add_members(m, name, v, nesting);
    if (json_is_object(first))
        return add_elements(m, name, ".", v, nesting);
    if (json_is_array(json_array_get(first, 0)))
        return add_elements(m, name, "_", v, nesting);
    if (json_is_number(first))
        return refuse(m, name, "a flat list of %zu numbers; a microgpt has only matrices (rows)",
                      json_array_size(v));
    if (json_is_array(v))
        return add_rows(m, name, v);
    return refuse(m, name, "expected rows of numbers, found %s", json_kind(v));
}

int json_add_matrices(struct json_model *m, const char *name, const json_t *v)
{
    return add_any(m, name, v, 0);
}
