/* Matrices in pickles. See pickle_model.h.
 *
 * numpy arrays stay where they are in the file. Lists of numbers or objects are gathered into memory
 * once: shared nodes can make them look larger than the file they came from, so more values than
 * bytes are refused.
 */
#include "convert/families/pickle_model.h"

#include "base/check.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

int pm_is_list(const struct reading *r, pickle_id id)
{
    return pm_at(r, id)->kind == PICKLE_LIST || pm_at(r, id)->kind == PICKLE_TUPLE;
}

pickle_id pm_first(const struct reading *r, pickle_id id)
{
    return pm_is_list(r, id) ? pickle_item(r->p, id, 0) : 0;
}

/* A number, or the Value object of one. */
static int cell(const struct reading *r, pickle_id id, double *v)
{
    if (pickle_real(r->p, id, v))
        return 1;
    uint8_t kind = pm_at(r, id)->kind;
    return (kind == PICKLE_OBJECT || kind == PICKLE_CALL) &&
           pickle_real(r->p, pickle_get(r->p, id, "data"), v);
}

int pm_is_cell(const struct reading *r, pickle_id id)
{
    double v;
    return id && cell(r, id, &v);
}

/* ---- matrices ---------------------------------------------------------------------------------- */

/* One row of cols values; `row` is for messages. */
static int gather_row(struct reading *r, const char *name, pickle_id list, uint64_t row,
                      uint64_t cols, float *out)
{
    struct pickle_iter i = pickle_items(r->p, list);
    double v;
    if (!pm_is_list(r, list) || pm_at(r, list)->n != cols)
        return mg_refuse(r->m, name, "row %llu: expected %llu numbers, found %s of %u",
                         (unsigned long long)row, (unsigned long long)cols,
                         pickle_kind_name(r->p, list), pm_at(r, list)->n);
    for (uint64_t k = 0; pickle_next(&i); k++) {
        if (!cell(r, i.value, &v))
            return mg_refuse(r->m, name, "row %llu, column %llu: expected a number, found %s",
                             (unsigned long long)row, (unsigned long long)k,
                             pickle_kind_name(r->p, i.value));
        out[k] = (float)v;
    }
    return MGPT_OK;
}

/* Room for values in memory that lives as long as the checkpoint. */
static float *reserve(struct reading *r, const char *name, uint64_t rows, uint64_t cols)
{
    uint64_t n;
    if (rows == 0 || cols == 0 || !ck_mul(rows, cols, &n) || n > r->room) {
        mg_refuse(r->m, name, "%llu rows of %llu values, more than the file can hold or none",
                  (unsigned long long)rows, (unsigned long long)cols);
        return NULL;
    }
    r->room -= n;
    float *values = ckpt_alloc(r->m->c, (size_t)n, sizeof *values);
    if (!values)
        err_memory(r->m->err, "a matrix", (size_t)n * sizeof *values);
    return values;
}

static int add_values(struct reading *r, const char *name, uint64_t rows, uint64_t cols,
                      const float *values)
{
    struct mg_matrix matrix = {.rows = rows,
                               .cols = cols,
                               .type = dtype_find(DTYPE_F32),
                               .bytes = (const uint8_t *)values};
    return mg_add(r->m, name, strlen(name), matrix);
}

static int add_rows(struct reading *r, const char *name, pickle_id list)
{
    uint64_t rows = pm_at(r, list)->n, cols = pm_at(r, pm_first(r, list))->n, row = 0;
    float *values = reserve(r, name, rows, cols);
    if (!values)
        return r->m->err->status;
    for (struct pickle_iter i = pickle_items(r->p, list); pickle_next(&i); row++)
        if (gather_row(r, name, i.value, row, cols, values + row * cols) < 0)
            return MGPT_EFILE;
    return add_values(r, name, rows, cols, values);
}

const float *pm_gather(struct reading *r, const char *name, pickle_id list, uint64_t n)
{
    float *values = reserve(r, name, 1, n);
    return values && gather_row(r, name, list, 0, n, values) == MGPT_OK ? values : NULL;
}

static int add_vector(struct reading *r, const char *name, pickle_id list)
{
    uint64_t n = pm_at(r, list)->n;
    const float *values = pm_gather(r, name, list, n);
    return values ? add_values(r, name, 0, n, values) : r->m->err->status;
}

/* ---- collections of matrices ------------------------------------------------------------------- */

static int add_any(struct reading *r, const char *name, pickle_id id, int nesting);

/* The text of a dict's key; 0 when it is none or too long to be a name. */
int pm_key(const struct reading *r, pickle_id id, char buf[PM_MAX_PATH])
{
    const struct pickle_node *n = pm_at(r, id);
    if (n->kind != PICKLE_TEXT || n->n >= PM_MAX_PATH / 2 || memchr(n->as.text, 0, n->n))
        return 0;
    memcpy(buf, n->as.text, n->n);
    buf[n->n] = 0;
    return 1;
}

static int add_members(struct reading *r, const char *name, pickle_id dict, int nesting)
{
    char key[PM_MAX_PATH], path[2 * PM_MAX_PATH + 2];
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);) {
        if (!pm_key(r, i.key, key))
            return mg_refuse(r->m, name, "a key is no name");
        snprintf(path, sizeof path, "%.*s.%s", PM_MAX_PATH, name, key);
        int status = add_any(r, path, i.value, nesting + 1);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

static int add_elements(struct reading *r, const char *name, const char *join, pickle_id list,
                        int nesting)
{
    char path[2 * PM_MAX_PATH + 2];
    size_t n = 0;
    for (struct pickle_iter i = pickle_items(r->p, list); pickle_next(&i); n++) {
        snprintf(path, sizeof path, "%.*s%s%zu", PM_MAX_PATH, name, join, n);
        int status = add_any(r, path, i.value, nesting + 1);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

/* An array may stand in several places (a tied head), but not in so many that a small file gives a large
 * model. */
static int add_array(struct reading *r, const char *name, struct state_tensor t)
{
    size_t each = state_type_bytes(t.type);
    uint64_t n = each ? t.bytes.size / each : 0;
    if (n > r->room)
        return mg_refuse(r->m, name, "more values than the file can hold");
    r->room -= n;
    t.name = name;
    return mg_add_tensor(r->m, &t);
}

static int add_any(struct reading *r, const char *name, pickle_id id, int nesting)
{
    struct state_tensor t;
    pickle_id first = pm_first(r, id);
    if (nesting > PM_MAX_NESTING)
        return mg_refuse(r->m, name, "nested too deeply");
    int array = pickle_ndarray(r->p, id, r->m->c, &t, r->m->err);
    if (array < 0)
        return array;
    if (array)
        return add_array(r, name, t);
    if (pm_at(r, id)->kind == PICKLE_DICT)
        return add_members(r, name, id, nesting);
    if (pm_at(r, first)->kind == PICKLE_DICT)
        return add_elements(r, name, ".", id, nesting);
    if (pm_is_cell(r, first))
        return add_vector(r, name, id);
    if (pm_is_cell(r, pm_first(r, first)))
        return add_rows(r, name, id);
    if (pm_is_list(r, id) && pm_at(r, id)->n)
        return add_elements(r, name, "_", id, nesting);
    return mg_refuse(r->m, name, "expected rows of numbers, found %s", pickle_kind_name(r->p, id));
}

int pm_add(struct reading *r, const char *name, pickle_id id)
{
    return add_any(r, name, id, 0);
}
