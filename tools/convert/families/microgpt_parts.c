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
    const struct dtype *own = state_dtype(type);
    if (!own)
        return (struct mg_matrix){.cols = n, .values = wide_values, .source = data};
    return (struct mg_matrix){.cols = n, .type = own, .bytes = data};
}

int mg_add_tensor(struct mg_parts *m, const struct state_tensor *t)
{
    struct ckpt_tensor from;
    uint32_t last = t->n_dims ? t->n_dims - 1 : 0;
    if (t->n_dims > 2)
        return ckpt_refuse_tensor(m->err, t->name, "%u dimensions, expected 1 or 2", t->n_dims);
    if (t->n_dims && (t->shape[0] == 0 || t->shape[last] == 0))
        return ckpt_refuse_tensor(m->err, t->name, "it has no values");
    int status = state_source(m->c, t, &from, m->err);
    if (status < 0)
        return status;
    struct mg_matrix matrix = {.rows = t->n_dims == 2 ? t->shape[0] : 0,
                               .cols = t->n_dims ? t->shape[last] : 1,
                               .type = from.type,
                               .bytes = from.bytes,
                               .values = from.values,
                               .source = from.source};
    return mg_add(m, t->name, strlen(t->name), matrix);
}
