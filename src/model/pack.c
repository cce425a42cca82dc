/* Packing a matrix: converts its rows to panels (kernels.h), unit by unit, in the smallest type that holds
 * them. packing.c says which units are packed when.
 *
 * Embedding tables stay in place; their rows are looked up, except that those of a table which is
 * also the head are read from its panels. Panels do not depend on the worker that packed them.
 *
 * Large matrices of float types are packed in the smallest type that gives the same bits back. Some
 * panels of a matrix choose it; a matrix whose other panels do not fit is packed again, in a block of
 * its own.
 */
#include "model/pack.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "dtype/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 }; /* alignment of a matrix */

/* 1: all float types are packed as F32. WebAssembly has no instruction that converts halves. */
#if defined(__wasm__)
enum { WIDENS = 1 };
#else
enum { WIDENS = 0 };
#endif

/* The head's rows are needed after the last layer, or as embeddings of tokens. */
static size_t stage_of(const mgpt_model *m, const struct linear *l, const struct gguf_tensor *t)
{
    if (l == &m->head)
        return t == m->token_embd ? 0 : m->shape.n_layer;
    return m->plan_stage;
}

int pack_plan(mgpt_model *m, struct linear *l, const struct gguf_tensor *t, size_t row,
              size_t n_out, mgpt_error *err)
{
    uint64_t end;
    size_t bytes;
    l->type = WIDENS && !weight_is_integer(t->type->weight) ? WEIGHT_F32 : t->type->weight;
    l->n_in = (size_t)t->dims[0];
    l->n_out = n_out;
    l->panel_bytes = kernels_panel_bytes(l->type, l->n_in);
    if (!ck_bytes(panels_of(n_out), l->panel_bytes, &bytes) ||
        !ck_add(m->packed_end, bytes, &end) || !ck_align(end, LINE, &end))
        return err_memory(err, t->name, SIZE_MAX);
    struct plan plan = {.l = l, .t = t, .row = row, .stage = stage_of(m, l, t)};
    if (!arr_push(m->plans, plan))
        return err_memory(err, "a plan", sizeof plan);
    if (weight_is_integer(l->type) && kernels_x_bytes(l->type, l->n_in) > m->x_bytes)
        m->x_bytes = kernels_x_bytes(l->type, l->n_in);
    m->packed_end = end;
    m->packed_bytes += bytes;
    return MGPT_OK;
}

size_t pack_row_bytes(const struct gguf_tensor *t)
{
    return (size_t)t->dims[0] / t->type->block * t->type->block_bytes;
}

size_t pack_worker_bytes(const struct packing *job)
{
    return job->source_bytes + job->panel_values * 4 * sizeof(float);
}

static struct pack_buffers buffers_of(const struct packing *job, int worker)
{
    uint8_t *at = job->memory + (size_t)worker * pack_worker_bytes(job);
    size_t bytes = job->panel_values * sizeof(float);
    return (struct pack_buffers){.floats = (float *)(void *)at,
                                 .rows = at + bytes,
                                 .panel = at + 2 * bytes,
                                 .packed = (char *)at + 3 * bytes,
                                 .source = at + 4 * bytes};
}

/* Converts n floats to a type. Returns 0 if it does not give the same bits back. */
static int convert_exactly(const struct dtype *to, const float *from, uint8_t *values, size_t n)
{
    enum { PIECE = 256 };
    float back[PIECE];
    for (size_t i = 0; i < n; i += PIECE) {
        size_t some = n - i < PIECE ? n - i : PIECE;
        uint8_t *at = values + i * to->block_bytes;
        to->from_float(from + i, at, some);
        to->to_float(at, back, some);
        if (memcmp(back, from + i, some * sizeof *back) != 0)
            return 0;
    }
    return 1;
}

/* Packs n_out <= PANEL rows. Returns 0 if the matrix's type does not hold their values. */
static int pack_panel(const mgpt_model *m, const struct plan *plan, char *to, const uint8_t *rows,
                      size_t n_out, const struct pack_buffers *buffers)
{
    const struct linear *l = plan->l;
    int compressed = l->type == WEIGHT_BF16_COMPRESSED;
    enum weight_type type = compressed ? WEIGHT_BF16 : l->type;
    const struct dtype *from = plan->t->type, *as = dtype_of_weight(type);
    if (from != as) {
        from->to_float(rows, buffers->floats, n_out * l->n_in);
        rows = (const uint8_t *)buffers->floats;
    }
    if (from != as && type != WEIGHT_F32) {
        if (!convert_exactly(as, buffers->floats, buffers->rows, n_out * l->n_in))
            return 0;
        rows = buffers->rows;
    }
    m->kernels.pack[type](compressed ? (char *)buffers->panel : to, rows, l->n_in, n_out, 0, 1);
    return !compressed || m->kernels.compress(to, buffers->panel, l->n_in);
}

/* 1: rows of the tensor are looked up in the file's own layout, which is loaded and stays. */
static int is_looked_up(const mgpt_model *m, const struct gguf_tensor *t)
{
    return t == m->token_embd && !m->tied;
}

/* The bytes of n rows from row r of a matrix on, read to `buffer` if they are not in memory. NULL:
 * the file cannot be read. */
static const uint8_t *rows_of_plan(const mgpt_model *m, const struct plan *plan, size_t r, size_t n,
                                   uint8_t *buffer, mgpt_error *err)
{
    size_t row_bytes = pack_row_bytes(plan->t), at = (plan->row + r) * row_bytes;
    if (!m->file.partly || is_looked_up(m, plan->t) || plan->t->offset == GGUF_MADE)
        return plan->t->data + at;
    return file_read(&m->file, plan->t->offset + at, n * row_bytes, buffer, err) < 0 ? NULL
                                                                                     : buffer;
}

int pack_unit(const struct packing *job, struct plan *plan, size_t unit, int worker,
              mgpt_error *err)
{
    const mgpt_model *m = job->m;
    const struct linear *l = plan->l;
    struct pack_buffers buffers = buffers_of(job, worker);
    size_t p0 = unit * plan->unit_panels, row_bytes = pack_row_bytes(plan->t);
    size_t n = rows_of_panels(l->n_out, p0, plan->unit_panels);
    const uint8_t *rows = rows_of_plan(m, plan, p0 * PANEL, n, buffers.source, err);
    char *to = plan->to + p0 * l->panel_bytes;
    int fits = rows != NULL;
    for (size_t r = 0; fits && r < n; r += PANEL, to += l->panel_bytes)
        fits =
            pack_panel(m, plan, to, rows + r * row_bytes, n - r < PANEL ? n - r : PANEL, &buffers);
    if (!rows)
        return 0;
    if (!fits)
        atomic_store_explicit(&plan->misfit, 1, memory_order_relaxed);
    return 1;
}

void pack_fail(struct packing *job, const mgpt_error *err)
{
    if (atomic_exchange(&job->failed, 1))
        return;
    job->err = *err;
    atomic_store(&job->has_err, 1);
}

/* ---- types ---- */

/* The types that are tried: BF16_COMPRESSED, BF16, F16, F32. */
static void next_type(struct linear *l)
{
    static const enum weight_type next[] = {[WEIGHT_BF16_COMPRESSED] = WEIGHT_BF16,
                                            [WEIGHT_BF16] = WEIGHT_F16,
                                            [WEIGHT_F16] = WEIGHT_F32};
    l->type = next[l->type];
}

/* Chooses the type of a matrix by its first, middle and last panels. Returns 0 if the file cannot be
 * read. */
static int choose_packed_type(const struct packing *job, const struct plan *plan, int worker,
                              mgpt_error *err)
{
    const mgpt_model *m = job->m;
    struct linear *l = plan->l;
    struct pack_buffers buffers = buffers_of(job, worker);
    size_t panels = panels_of(l->n_out);
    l->type = WEIGHT_BF16_COMPRESSED;
    if (!m->kernels.compresses || !kernels_compressible(l->n_in, l->n_out))
        next_type(l);
    for (size_t i = 0; i < 3; i++) {
        size_t p = (panels - 1) * i / 2, n = rows_of_panels(l->n_out, p, 1);
        const uint8_t *rows = rows_of_plan(m, plan, p * PANEL, n, buffers.source, err);
        if (!rows)
            return 0;
        while (!pack_panel(m, plan, buffers.packed, rows, n, &buffers))
            next_type(l);
    }
    return 1;
}

int pack_has_choice(const struct plan *plan)
{
    return plan->l->type == WEIGHT_F32 || plan->l->type == WEIGHT_BF16;
}

void pack_choose(void *ctx, int worker, int n_workers)
{
    struct packing *job = ctx;
    const struct plan *plans = job->m->plans;
    mgpt_error err;
    for (size_t i = (size_t)worker; !WIDENS && i < arr_len(plans); i += (size_t)n_workers)
        if (pack_has_choice(&plans[i]) && !choose_packed_type(job, &plans[i], worker, &err))
            pack_fail(job, &err);
}

void pack_again(struct packing *job, struct plan *plan, int worker)
{
    struct linear *l = plan->l;
    mgpt_error err;
    while (!job->failed && atomic_exchange(&plan->misfit, 0)) {
        size_t panels = panels_of(l->n_out);
        if (plan->own)
            free(plan->own);
        else
            mem_drop(plan->to, panels * l->panel_bytes);
        next_type(l);
        l->panel_bytes = kernels_panel_bytes(l->type, l->n_in);
        l->w = plan->to = plan->own = mem_large(panels, l->panel_bytes);
        int ok = plan->own || (err_memory(&err, "packed weights", panels * l->panel_bytes), 0);
        for (size_t unit = 0; ok && unit < plan->n_units; unit++)
            ok = pack_unit(job, plan, unit, worker, &err);
        if (!ok)
            pack_fail(job, &err);
    }
}

void model_table_row(const mgpt_model *m, const struct gguf_tensor *table, size_t row, float *to)
{
    if (table == m->token_embd && m->tied)
        kernels_unpack_row(m->head.type, m->head.w, m->head.n_in, row, to);
    else
        table->type->to_float(table->data + row * pack_row_bytes(table), to,
                              (size_t)table->dims[0]);
}
