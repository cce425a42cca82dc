/* Matrices and parameter lists in a tree. See tree.h.
 *
 * Arrays are referenced in place. Numbers in lists are gathered into memory once and rounded from
 * double to float32: a value of 17 digits can differ by one unit in the last place from a direct
 * conversion, but this is what every Python program gets. Values beyond float32 become infinite;
 * the writer counts them.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/tree.h"

#include <stdio.h>
#include <string.h>

/* ---- lists of numbers ------------------------------------------------------------------------ */

/* Memory for values that lives as long as the checkpoint. */
static float *reserve(struct mg_parts *m, const char *name, uint64_t rows, uint64_t cols)
{
    uint64_t n;
    if (!ck_mul(rows, cols, &n))
        n = UINT64_MAX;
    mg_use_room(m, name, n);
    return ckpt_new(m->c, (size_t)n, sizeof(float));
}

/* The numbers of a list; row: its number in the matrix, -1: it is not a row. */
static void gather(struct mg_parts *m, const char *name, struct tree list, int64_t row, float *out)
{
    struct tree_iter i = tree_items(list);
    for (; tree_next(&i); *out++ = (float)i.value.number) {
        const char *found = i.value.what;
        if (i.value.kind == TREE_NUMBER)
            continue;
        if (row < 0)
            ckpt_stop_tensor(m->c, name, "number %zu: expected a number, found %s", i.n - 1, found);
        ckpt_stop_tensor(m->c, name, "row %llu, column %zu: expected a number, found %s",
                         (unsigned long long)row, i.n - 1, found);
    }
}

static void add_values(struct mg_parts *m, const char *name, uint64_t rows, uint64_t cols,
                       const float *values)
{
    mg_add(m, name, mg_flat((const uint8_t *)values, rows, cols, STATE_F32));
}

/* A list of n numbers as a matrix of rows x cols, or with rows 0 as a vector. */
static void add_list(struct mg_parts *m, const char *name, struct tree list, uint64_t rows,
                     uint64_t cols)
{
    float *values = reserve(m, name, 1, list.n);
    gather(m, name, list, -1, values);
    add_values(m, name, rows, cols, values);
}

static void check_cells(struct mg_parts *m, const char *name, size_t i, struct tree row,
                        size_t cols)
{
    if (row.kind != TREE_LIST)
        ckpt_stop_tensor(m->c, name, "row %zu: expected a list of numbers, found %s", i, row.what);
    if (row.n == 0)
        ckpt_stop_tensor(m->c, name, "row %zu is empty", i);
    if (row.n != cols)
        ckpt_stop_tensor(m->c, name, "row %zu has %zu numbers, row 0 has %zu", i, row.n, cols);
}

static void add_rows(struct mg_parts *m, const char *name, struct tree list)
{
    size_t rows = list.n, cols = tree_first(list).n;
    if (rows == 0)
        ckpt_stop_tensor(m->c, name, "it has no rows");
    float *values = NULL;
    for (struct tree_iter i = tree_items(list); tree_next(&i);) {
        check_cells(m, name, i.n - 1, i.value, cols);
        values = values ? values : reserve(m, name, rows, cols);
        gather(m, name, i.value, (int64_t)i.n - 1, values + (i.n - 1) * cols);
    }
    add_values(m, name, rows, cols, values);
}

/* ---- a shape and data ------------------------------------------------------------------------ */

static uint64_t size_at(struct tree t)
{
    return t.is_whole && t.whole > 0 ? (uint64_t)t.whole : 0;
}

/* The shape of {"shape": [rows, cols]}, {"shape": [cols]} or {"nout": rows, "nin": cols}; rows is 0
 * for a vector. */
static void shape_of(struct mg_parts *m, const char *name, struct tree t, uint64_t *rows,
                     uint64_t *cols)
{
    struct tree shape = tree_get(t, "shape");
    uint64_t sizes[2] = {size_at(tree_get(t, "nout")), size_at(tree_get(t, "nin"))};
    size_t n = shape.file ? shape.n : 2;
    for (struct tree_iter i = tree_items(shape); n >= 1 && n <= 2 && tree_next(&i);)
        sizes[i.n - 1] = size_at(i.value);
    if (n < 1 || n > 2 || sizes[0] < 1 || sizes[n - 1] < 1)
        ckpt_stop_tensor(m->c, name, "shape: expected two numbers above 0");
    *rows = n == 2 ? sizes[0] : 0;
    *cols = sizes[n - 1];
}

/* A dict with a shape and data: numbers, in one list or in rows, or base64. */
static void add_shaped(struct mg_parts *m, const char *name, struct tree t)
{
    struct tree data = tree_get(t, "data"), row = tree_first(data);
    uint64_t rows = 0, cols = 1, n = data.n;
    char found[64];
    shape_of(m, name, t, &rows, &cols);
    if (data.kind == TREE_TEXT) {
        base64_add(m, name, data.text, tree_get(t, "dtype").text, rows, cols);
        return;
    }
    if (data.kind != TREE_LIST)
        ckpt_stop_tensor(m->c, name, "data: expected a list of numbers or base64, found %s",
                         data.what);
    int in_rows = row.kind == TREE_LIST;
    int fits =
        in_rows ? n == rows && row.n == cols : n % cols == 0 && n / cols == (rows ? rows : 1);
    if (in_rows)
        snprintf(found, sizeof found, "%llu rows of %zu numbers", (unsigned long long)n, row.n);
    else
        snprintf(found, sizeof found, "%llu numbers", (unsigned long long)n);
    if (!fits)
        ckpt_stop_tensor(m->c, name, "shape is [%llu, %llu], data has %s", (unsigned long long)rows,
                         (unsigned long long)cols, found);
    if (in_rows)
        add_rows(m, name, data);
    else
        add_list(m, name, data, rows, cols);
}

static int is_shaped(struct tree t)
{
    return t.kind == TREE_DICT && tree_get(t, "data").file &&
           (tree_get(t, "shape").file || tree_get(t, "nout").file);
}

/* ---- collections ----------------------------------------------------------------------------- */

static void add_any(struct mg_parts *m, const char *name, struct tree t, int nesting);

/* Each member under the name, `join`, and its key or number. */
static void add_members(struct mg_parts *m, const char *name, char join, struct tree t, int nesting)
{
    char key[TREE_MAX_NAME], path[2 * TREE_MAX_NAME];
    for (struct tree_iter i = tree_items(t); tree_next(&i);) {
        if (t.kind == TREE_DICT)
            tree_key(&i, key);
        else
            snprintf(key, sizeof key, "%zu", i.n - 1);
        snprintf(path, sizeof path, "%.*s%c%s", TREE_MAX_NAME - 2, name, join, key);
        add_any(m, path, i.value, nesting + 1);
    }
}

static void add_any(struct mg_parts *m, const char *name, struct tree t, int nesting)
{
    struct tree first = tree_first(t);
    enum tree_kind kind = t.kind, inner = first.kind;
    if (nesting > TREE_MAX_NESTING)
        ckpt_stop_tensor(m->c, name, "more than %d levels of nesting", TREE_MAX_NESTING);
    if (kind == TREE_ARRAY)
        t.file->ops->array(&t, m, name);
    else if (is_shaped(t))
        add_shaped(m, name, t);
    else if (kind == TREE_DICT || inner == TREE_DICT)
        add_members(m, name, '.', t, nesting);
    else if (inner == TREE_ARRAY || tree_first(first).kind == TREE_LIST)
        add_members(m, name, '_', t, nesting);
    else if (inner == TREE_NUMBER) /* a gain */
        add_list(m, name, t, 0, t.n);
    else if (kind == TREE_LIST)
        add_rows(m, name, t);
    else
        ckpt_stop_tensor(m->c, name, "expected rows of numbers, found %s", t.what);
}

void tree_add_matrices(struct mg_parts *m, const char *name, struct tree t)
{
    add_any(m, name, t, 0);
}

/* ---- parameter lists ------------------------------------------------------------------------- */

static void add_in_order(struct mg_parts *m, struct tree list)
{
    char name[32];
    size_t n = list.n;
    mg_check_order(m, n);
    for (struct tree_iter i = tree_items(list); tree_next(&i);) {
        mg_name_in_order(m, i.n - 1, n, name);
        tree_add_matrices(m, name, i.value);
    }
}

/* All numbers in one list. */
static void add_flat(struct mg_parts *m, struct tree list)
{
    tree_add_matrices(m, "params", list);
    struct state_tensor *tensors = m->state.tensors, all = tensors[arr_len(tensors) - 1];
    arr_set_len(tensors, arr_len(tensors) - 1);
    if (all.n_dims == 2)
        ckpt_stop(m->c, "parameter list: a matrix, expected all numbers in one list");
    mg_add_params(m, &all);
}

void tree_add_params(struct mg_parts *m, struct tree list)
{
    struct tree first = tree_first(list);
    if (list.kind == TREE_LIST && list.n == 0)
        ckpt_stop(m->c, "parameter list: it is empty");
    if (first.kind == TREE_ARRAY && list.n == 1)
        tree_add_params(m, first);
    else if (list.kind == TREE_LIST && first.kind != TREE_NUMBER)
        add_in_order(m, list);
    else
        add_flat(m, list);
}
