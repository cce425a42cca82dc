/* Collecting the matrices and the facts of a microgpt file. See microgpt.h.
 *
 * A matrix that is contiguous in memory, in a type that GGUF has, is referenced as bytes; any other
 * (float64, transposed, a view) is read value by value through its strides.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/microgpt.h"

#include <string.h>

void mg_parts_init(struct mg_parts *m, struct checkpoint *c, const struct ckpt_input *in,
                   mgpt_error *err)
{
    *m = (struct mg_parts){.c = c, .in = in, .err = err, .room = in->bytes.size};
    mg_facts_init(&m->facts);
}

int mg_parts_build(struct mg_parts *m, int status)
{
    m->facts.entries = m->entries;
    m->facts.n_entries = arr_len(m->entries);
    if (status == MGPT_OK && !m->matrices)
        status =
            ckpt_refuse(m->err, "not a microgpt: it holds no matrices (wte, wpe, lm_head, ...)");
    if (status == MGPT_OK)
        status = microgpt_build(m->c, m->matrices, arr_len(m->matrices), &m->facts, m->in, m->err);
    mg_parts_free(m);
    return status;
}

void mg_parts_free(struct mg_parts *m)
{
    arr_free(m->matrices);
    arr_free(m->entries);
}

int mg_add(struct mg_parts *m, const char *name, size_t n, struct mg_matrix matrix)
{
    matrix.name = ckpt_text(m->c, name, n);
    if (!matrix.name || !arr_push(m->matrices, matrix))
        return err_memory(m->err, "the list of matrices", sizeof matrix);
    return MGPT_OK;
}

int mg_use_room(struct mg_parts *m, const char *name, uint64_t n)
{
    if (n > m->room)
        return ckpt_refuse_tensor(m->err, name, "more values than the file can hold");
    m->room -= n;
    return MGPT_OK;
}

/* ---- tensors of other containers ------------------------------------------------------------- */

struct mg_view { /* of bytes, by rows and columns; strides in bytes */
    const uint8_t *data;
    uint64_t row, column, cols; /* cols: values of a row */
    const struct dtype *type;   /* NULL: float64 */
};

static void view_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const struct mg_view *v = t->source;
    uint64_t row = (t->at + first) / v->cols, column = (t->at + first) % v->cols;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = v->data + row * v->row + column * v->column;
        double wide;
        if (v->type) {
            v->type->to_float(at, &out[i], 1);
        } else {
            memcpy(&wide, at, sizeof wide);
            out[i] = (float)wide;
        }
        if (++column == v->cols) {
            column = 0;
            row++;
        }
    }
}

/* NULL for those that GGUF does not have. */
static const struct dtype *gguf_type(enum state_type type)
{
    switch (type) {
    case STATE_F32:
        return dtype_find(DTYPE_F32);
    case STATE_F16:
        return dtype_find(DTYPE_F16);
    case STATE_BF16:
        return dtype_find(DTYPE_BF16);
    default:
        return NULL;
    }
}

static void wide_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const uint8_t *at = (const uint8_t *)t->source + (t->at + first) * sizeof(double);
    double wide;
    for (size_t i = 0; i < n; i++, at += sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        out[i] = (float)wide;
    }
}

struct mg_matrix mg_flat(const uint8_t *data, uint64_t n, enum state_type type)
{
    const struct dtype *own = gguf_type(type);
    if (!own)
        return (struct mg_matrix){.cols = n, .values = wide_values, .source = data};
    return (struct mg_matrix){.cols = n, .type = own, .bytes = data};
}

/* The last element is within the bytes; no product that reading needs overflows. */
static int check_extent(struct mg_parts *m, const struct state_tensor *t)
{
    uint64_t last = 0, step, bytes, n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->shape[i] == 0)
            return ckpt_refuse_tensor(m->err, t->name, "it has no values");
        if (!ck_mul(n, t->shape[i], &n) || !ck_mul(t->shape[i] - 1, t->strides[i], &step) ||
            !ck_add(last, step, &last))
            return ckpt_refuse_tensor(m->err, t->name, "its shape is too large");
    }
    if (!ck_add(last, 1, &last) || !ck_mul(last, state_type_bytes(t->type), &bytes) ||
        bytes > t->bytes.size)
        return ckpt_refuse_tensor(m->err, t->name, "%llu values, %zu bytes are there",
                                  (unsigned long long)n, t->bytes.size);
    if (n > t->bytes.size) /* the rows of a broadcast view */
        return ckpt_refuse_tensor(m->err, t->name, "%llu values out of %zu bytes",
                                  (unsigned long long)n, t->bytes.size);
    return MGPT_OK;
}

int mg_add_tensor(struct mg_parts *m, const struct state_tensor *t)
{
    size_t each = state_type_bytes(t->type);
    const struct dtype *type = gguf_type(t->type);
    if (!type && t->type != STATE_F64)
        return ckpt_refuse_tensor(m->err, t->name,
                                  "element type %s, expected F32, F16, BF16 or F64",
                                  state_type_name(t->type));
    if (t->n_dims > 2)
        return ckpt_refuse_tensor(m->err, t->name, "%u dimensions, expected 1 or 2", t->n_dims);
    if (check_extent(m, t) < 0)
        return MGPT_EFILE;
    uint32_t last = t->n_dims ? t->n_dims - 1 : 0;
    struct mg_matrix matrix = {.rows = t->n_dims == 2 ? t->shape[0] : 0,
                               .cols = t->n_dims ? t->shape[last] : 1,
                               .type = type};
    uint64_t column = t->n_dims ? t->strides[last] : 1, row = t->n_dims == 2 ? t->strides[0] : 0;
    int in_order = (column == 1 || matrix.cols == 1) && (matrix.rows <= 1 || row == matrix.cols);
    if (in_order && type) {
        matrix.bytes = t->bytes.data;
    } else {
        struct mg_view *v = ckpt_alloc(m->c, 1, sizeof *v);
        if (!v)
            return err_memory(m->err, "a matrix", sizeof *v);
        *v = (struct mg_view){t->bytes.data, row * each, column * each, matrix.cols, type};
        matrix.values = view_values;
        matrix.source = v;
    }
    return mg_add(m, t->name, strlen(t->name), matrix);
}
