/* OPT-350m's embeddings: 512 wide in a model of 1,024, with a matrix to and one from the width of the
 * model. Neither has a bias and nothing is between them and the table, so their products are a token
 * table and a head of the usual width: sums in double in order, rounded once to F32.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf.h"

/* out[v][e] = sum over w of table[v][w] by[w][e] */
struct projected {
    struct ckpt_tensor table;
    float *by, *row;
    double *sums; /* [n_embd] */
    uint64_t width, n_embd;
};

static void project_row(const struct projected *p, uint64_t v)
{
    ckpt_values(&p->table, v * p->width, (size_t)p->width, p->row);
    for (uint64_t e = 0; e < p->n_embd; e++)
        p->sums[e] = 0;
    for (uint64_t w = 0; w < p->width; w++)
        for (uint64_t e = 0; e < p->n_embd; e++)
            p->sums[e] += (double)p->row[w] * (double)p->by[w * p->n_embd + e];
}

static void projected_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const struct projected *p = t->source;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = (first + i) / p->n_embd, e = (first + i) % p->n_embd;
        if (i == 0 || e == 0)
            project_row(p, v);
        out[i] = (float)p->sums[e];
    }
}

/* The matrix `name` as [width][n_embd]; is_out: the file has it so, else [n_embd][width]. */
static int read_projection(struct hf_model *m, const char *name, int is_out, struct projected *p,
                           mgpt_error *err)
{
    const struct state_tensor *t = state_find(&m->state, name);
    uint64_t rows = is_out ? p->width : p->n_embd, columns = is_out ? p->n_embd : p->width;
    struct ckpt_tensor from;
    size_t n = (size_t)(p->width * p->n_embd);
    if (!t)
        return state_missing(name, err);
    if (state_check_shape(t, rows, columns, err) < 0 || state_source(m->c, t, &from, err) < 0)
        return MGPT_EFILE;
    p->by = ckpt_alloc(m->c, n, sizeof *p->by);
    p->row = ckpt_alloc(m->c, (size_t)p->width, sizeof *p->row);
    p->sums = ckpt_alloc(m->c, (size_t)p->n_embd, sizeof *p->sums);
    float *values = mem_new(n, sizeof *values);
    if (!p->by || !p->row || !p->sums || !values) {
        free(values);
        return err_memory(err, "a projection", n * sizeof *values);
    }
    ckpt_values(&from, 0, n, values);
    for (uint64_t i = 0; i < n; i++)
        p->by[is_out ? i : i % columns * rows + i / columns] = values[i];
    free(values);
    return MGPT_OK;
}

static int put_projected(struct hf_model *m, const char *to, const char *name, int is_out,
                         mgpt_error *err)
{
    static const char table[] = "embed_tokens.weight";
    const struct ckpt_hparams *hp = &m->c->hp;
    const struct state_tensor *t = state_find(&m->state, table);
    struct projected *p = ckpt_alloc(m->c, 1, sizeof *p);
    if (!p)
        return err_memory(err, "a projection", sizeof *p);
    *p = (struct projected){.width = m->projected, .n_embd = hp->n_embd};
    if (!t)
        return state_missing(table, err);
    int status = state_check_shape(t, hp->n_vocab, m->projected, err);
    if (status == MGPT_OK)
        status = state_source(m->c, t, &p->table, err);
    if (status == MGPT_OK)
        status = read_projection(m, name, is_out, p, err);
    const struct ckpt_tensor from = {.values = projected_values, .source = p};
    return status == MGPT_OK ? ckpt_add(m->c, to, hp->n_embd, hp->n_vocab, from, err) : status;
}

int hf_put_projected(struct hf_model *m, mgpt_error *err)
{
    int status = put_projected(m, "token_embd.weight", "project_in.weight", 0, err);
    if (status == MGPT_OK)
        status = put_projected(m, "output.weight", "project_out.weight", 1, err);
    if (status == MGPT_OK)
        ckpt_note(m->c, "embeddings of %u are projected to %u: the products are written, as F32",
                  m->projected, m->c->hp.n_embd);
    return status;
}
