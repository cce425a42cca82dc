/* Tensors of a file that are read once. See oracle_model.h. */
#include "check/oracle/oracle_model.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Values that are kept; of larger models the rest is read again in every pass. */
static const size_t memo_most = (size_t)1 << 26;

struct oracle_memo {
    struct oracle_source file;
    const mgpt_model *model;
    struct memo_tensor {
        char name[80];
        float *values;
        size_t n;
    } * tensors, *last; /* an stb_ds array; the one that was read last */
    size_t total;       /* values */
};

static struct memo_tensor *memo_find(struct oracle_memo *m, const char *name)
{
    if (m->last && strcmp(m->last->name, name) == 0)
        return m->last;
    for (size_t i = 0; i < arr_len(m->tensors); i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return m->last = &m->tensors[i];
    return NULL;
}

/* Reads and keeps a tensor; NULL: there is none, or no room. */
static struct memo_tensor *memo_keep(struct oracle_memo *m, const char *name)
{
    struct memo_tensor one = {.n = 1};
    mgpt_tensor t;
    if (!oracle_tensor_find(m->model, name, &t))
        return NULL;
    for (unsigned i = 0; i < t.n_dims; i++)
        one.n *= (size_t)t.dims[i];
    one.values = one.n <= memo_most - m->total ? mem_new(one.n, sizeof *one.values) : NULL;
    text_format(one.name, sizeof one.name, "%s", name);
    if (!one.values || mgpt_read_tensor(m->model, name, 0, one.n, one.values, NULL) != MGPT_OK ||
        !arr_push(m->tensors, one)) {
        free(one.values);
        return NULL;
    }
    m->total += one.n;
    return m->last = &m->tensors[arr_len(m->tensors) - 1];
}

static enum oracle_tensor memo_has(void *user, const char *name)
{
    const struct oracle_memo *m = user;
    return m->file.find(m->file.user, name);
}

static int memo_read(void *user, const char *name, size_t row, size_t n, float *out,
                     mgpt_error *err)
{
    struct oracle_memo *m = user;
    struct memo_tensor *t = memo_find(m, name);
    t = t ? t : memo_keep(m, name);
    if (!t || (row + 1) * n > t->n)
        return m->file.read(m->file.user, name, row, n, out, err);
    memcpy(out, t->values + row * n, n * sizeof *out);
    return MGPT_OK;
}

static const float *memo_rows(void *user, const char *name, size_t row, size_t n_rows, size_t n)
{
    struct oracle_memo *m = user;
    struct memo_tensor *t = memo_find(m, name);
    t = t ? t : memo_keep(m, name);
    return t && (row + n_rows) * n <= t->n ? t->values + row * n : NULL;
}

static void memo_name(void *user, int layer, int role, const char *kind, char name[ORACLE_NAME])
{
    const struct oracle_memo *m = user;
    m->file.name(m->file.user, layer, role, kind, name);
}

void oracle_memo_free(struct oracle_memo *m)
{
    for (size_t i = 0; m && i < arr_len(m->tensors); i++)
        free(m->tensors[i].values);
    if (m)
        arr_free(m->tensors);
    free(m);
}

struct oracle_memo *oracle_memo_new(const mgpt_model *model, struct oracle_source file,
                                    mgpt_error *err)
{
    struct oracle_memo *m = mem_new(1, sizeof *m);
    if (!m)
        err_memory(err, "tensors", sizeof *m);
    else
        *m = (struct oracle_memo){.file = file, .model = model};
    return m;
}

struct oracle_source oracle_memo_source(struct oracle_memo *m)
{
    return (struct oracle_source){memo_has, memo_read, m, memo_rows, memo_name};
}
