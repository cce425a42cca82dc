/* Matrices in JSON. See json_model.h.
 *
 * Every number is looked at once, here, so that reading values later cannot fail. Numbers are parsed
 * as double and rounded once more to float32: a value of 17 digits can so differ by one unit in the
 * last place from a direct conversion, but it is what every Python program gets, which is the
 * reference. Values beyond float32 become infinite; the writer counts them.
 */
#include "convert/families/json_model.h"

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

static float json_matrix_number(const json_t *v)
{
    return (float)json_number_value(v);
}

static void flat_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const json_t *list = t->source;
    for (size_t i = 0; i < n; i++)
        out[i] = json_matrix_number(json_array_get(list, (size_t)(t->at + first) + i));
}

static void row_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const json_t *rows = t->source;
    size_t row = (size_t)(first / t->dims[0]), col = (size_t)(first % t->dims[0]);
    for (size_t i = 0; i < n; row++, col = 0) {
        const json_t *cells = json_array_get(rows, row);
        for (; col < t->dims[0] && i < n; col++)
            out[i++] = json_matrix_number(json_array_get(cells, col));
    }
}

/* ---- one matrix -------------------------------------------------------------------------------- */

static int json_matrix_add(struct mg_parts *m, const char *name, struct mg_matrix matrix)
{
    return mg_add(m, name, strlen(name), matrix);
}

int json_check_numbers(struct mg_parts *m, const char *name, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_numeric(json_array_get(list, i)))
            return mg_refuse(m, name, "number %zu: expected a number, found %s", i,
                             json_kind(json_array_get(list, i)));
    return MGPT_OK;
}

static int check_row(struct mg_parts *m, const char *name, const json_t *rows, size_t i)
{
    const json_t *row = json_array_get(rows, i);
    size_t n = json_array_size(row), expected = json_array_size(json_array_get(rows, 0));
    if (!json_is(row, JSON_ARRAY))
        return mg_refuse(m, name, "row %zu: expected a list of numbers, found %s", i,
                         json_kind(row));
    if (n == 0)
        return mg_refuse(m, name, "row %zu is empty", i);
    if (n != expected)
        return mg_refuse(m, name, "row %zu has %zu numbers, row 0 has %zu", i, n, expected);
    for (size_t j = 0; j < n; j++)
        if (!json_is_numeric(json_array_get(row, j)))
            return mg_refuse(m, name, "row %zu, column %zu: expected a number, found %s", i, j,
                             json_kind(json_array_get(row, j)));
    return MGPT_OK;
}

static int add_rows(struct mg_parts *m, const char *name, const json_t *rows)
{
    size_t n = json_array_size(rows);
    if (n == 0)
        return mg_refuse(m, name, "it has no rows");
    for (size_t i = 0; i < n; i++)
        if (check_row(m, name, rows, i) < 0)
            return MGPT_EFILE;
    struct mg_matrix matrix = {.rows = n,
                               .cols = json_array_size(json_array_get(rows, 0)),
                               .values = row_values,
                               .source = rows};
    return json_matrix_add(m, name, matrix);
}

int json_add_flat(struct mg_parts *m, const char *name, const json_t *list, uint64_t at,
                  uint64_t rows, uint64_t cols)
{
    struct mg_matrix matrix = {
        .rows = rows, .cols = cols, .values = flat_values, .source = list, .at = at};
    return json_matrix_add(m, name, matrix);
}

/* The shape of {"shape": [rows, cols]}, {"shape": [cols]} or {"nout": rows, "nin": cols}; rows is 0
 * for a vector. */
static int shape_of(struct mg_parts *m, const char *name, const json_t *v, uint64_t *rows,
                    uint64_t *cols)
{
    const json_t *shape = json_object_get(v, "shape");
    size_t n = json_array_size(shape);
    json_int_t last = json_integer_value(json_array_get(shape, n > 1 ? 1 : 0));
    json_int_t first = json_integer_value(json_array_get(shape, 0));
    if (!shape) {
        n = 2;
        first = json_integer_value(json_object_get(v, "nout"));
        last = json_integer_value(json_object_get(v, "nin"));
    }
    if (n < 1 || n > 2 || first < 1 || last < 1)
        return mg_refuse(m, name, "shape: expected two numbers above 0");
    *rows = n == 2 ? (uint64_t)first : 0;
    *cols = (uint64_t)last;
    return MGPT_OK;
}

static int add_flat_data(struct mg_parts *m, const char *name, const json_t *data, uint64_t rows,
                         uint64_t cols)
{
    size_t n = json_array_size(data);
    if (n % cols || n / cols != (rows ? rows : 1))
        return mg_refuse(m, name, "shape is [%llu, %llu], data has %zu numbers",
                         (unsigned long long)rows, (unsigned long long)cols, n);
    if (json_check_numbers(m, name, data) < 0)
        return MGPT_EFILE;
    return json_add_flat(m, name, data, 0, rows, cols);
}

/* An object with a shape and data: numbers, flat or in rows, or base64. */
static int add_shaped(struct mg_parts *m, const char *name, const json_t *v)
{
    const json_t *data = json_object_get(v, "data"), *row = json_array_get(data, 0);
    uint64_t rows = 0, cols = 1;
    if (shape_of(m, name, v, &rows, &cols) < 0)
        return MGPT_EFILE;
    if (json_is(data, JSON_STRING))
        return json_add_base64(m, name, v, rows, cols);
    if (!json_is(data, JSON_ARRAY))
        return mg_refuse(m, name, "data: expected a list of numbers or base64, found %s",
                         json_kind(data));
    if (!json_is(row, JSON_ARRAY))
        return add_flat_data(m, name, data, rows, cols);
    if (json_array_size(data) != rows || json_array_size(row) != cols)
        return mg_refuse(m, name, "shape is [%llu, %llu], data has %zu rows of %zu numbers",
                         (unsigned long long)rows, (unsigned long long)cols, json_array_size(data),
                         json_array_size(row));
    return add_rows(m, name, data);
}

static int is_shaped(const json_t *v)
{
    return json_is(v, JSON_OBJECT) && json_object_get(v, "data") &&
           (json_object_get(v, "shape") || json_object_get(v, "nout"));
}

/* ---- collections ------------------------------------------------------------------------------- */

static int add_any(struct mg_parts *m, const char *name, const json_t *v, int nesting);

static int add_members(struct mg_parts *m, const char *name, const json_t *v, int nesting)
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

static int add_elements(struct mg_parts *m, const char *name, const char *join, const json_t *v,
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

static int add_any(struct mg_parts *m, const char *name, const json_t *v, int nesting)
{
    const json_t *first = json_array_get(v, 0);
    if (nesting > MAX_NESTING)
        return mg_refuse(m, name, "nested too deeply");
    if (is_shaped(v))
        return add_shaped(m, name, v);
    if (json_is(v, JSON_OBJECT))
        return add_members(m, name, v, nesting);
    if (json_is(first, JSON_OBJECT))
        return add_elements(m, name, ".", v, nesting);
    if (json_is(json_array_get(first, 0), JSON_ARRAY))
        return add_elements(m, name, "_", v, nesting);
    if (json_is_numeric(first) && json_check_numbers(m, name, v) < 0)
        return MGPT_EFILE;
    if (json_is_numeric(first)) /* a gain */
        return json_add_flat(m, name, v, 0, 0, json_array_size(v));
    if (json_is(v, JSON_ARRAY))
        return add_rows(m, name, v);
    return mg_refuse(m, name, "expected rows of numbers, found %s", json_kind(v));
}

int json_add_matrices(struct mg_parts *m, const char *name, const json_t *v)
{
    return add_any(m, name, v, 0);
}
