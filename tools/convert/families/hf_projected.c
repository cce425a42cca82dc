/* OPT-350m's embeddings: 512 wide in a model of 1,024, with a matrix to and one from the width of the
 * model. Neither has a bias and nothing is between them and the table, so their products are a token
 * table and a head of the usual width: sums in double in order, rounded once to F32.
 */
#include "convert/families/hf_special.h"

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
static void read_projection(struct hf_model *m, const char *name, int is_out, struct projected *p)
{
    uint64_t rows = is_out ? p->width : p->n_embd, columns = is_out ? p->n_embd : p->width;
    const struct state_tensor *t = hf_shaped(m, hf_tensor(m, "%s", name), rows, columns);
    float *row = ckpt_new(m->c, (size_t)columns, sizeof *row);
    struct ckpt_tensor from;
    state_source(m->c, t, &from);
    p->by = ckpt_new(m->c, (size_t)(rows * columns), sizeof *p->by);
    p->row = ckpt_new(m->c, (size_t)p->width, sizeof *p->row);
    p->sums = ckpt_new(m->c, (size_t)p->n_embd, sizeof *p->sums);
    for (uint64_t r = 0; r < rows; r++) {
        ckpt_values(&from, r * columns, (size_t)columns, row);
        for (uint64_t c = 0; c < columns; c++)
            p->by[is_out ? r * columns + c : c * rows + r] = row[c];
    }
}

static void put_projected(struct hf_model *m, const char *to, const char *name, int is_out)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    const struct state_tensor *table =
        hf_shaped(m, hf_tensor(m, "embed_tokens.weight"), hp->n_vocab, m->projected);
    struct projected *p = ckpt_new(m->c, 1, sizeof *p);
    *p = (struct projected){.width = m->projected, .n_embd = hp->n_embd};
    state_source(m->c, table, &p->table);
    read_projection(m, name, is_out, p);
    const struct ckpt_tensor from = {.values = projected_values, .source = p};
    ckpt_add(m->c, to, hp->n_embd, hp->n_vocab, from);
}

void hf_put_projected(struct hf_model *m)
{
    put_projected(m, "token_embd.weight", "project_in.weight", 0);
    put_projected(m, "output.weight", "project_out.weight", 1);
    ckpt_note(m->c, "embeddings of %u are projected to %u: the products are written, as F32",
              m->projected, m->c->hp.n_embd);
}
