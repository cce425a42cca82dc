/* microgpt's forks without a table of positions: they rotate q and k. See microgpt_impl.h.
 *
 * How (the two halves of a head against each other, or adjacent pairs) and with which base, the
 * file says or the user: there is no program that fixes it. With the gate and the norms that they
 * have, such a model is architecture "llama", for which rows of q and k move from halves to
 * adjacent pairs.
 */
#include "convert/families/microgpt_impl.h"

#include "base/check.h"
#include "base/error.h"

#include <string.h>

#define MAX_HEAD_VALUES ((uint64_t)1 << 24) /* of one head's rows: they are held in memory */

/* ---- which ----------------------------------------------------------------------------------- */

static int find_positions(const char *said, enum mg_positions *to)
{
    static const struct {
        const char *name;
        enum mg_positions positions;
    } names[] = {{"half", MG_POS_HALF},
                 {"neox", MG_POS_HALF},
                 {"rotate_half", MG_POS_HALF},
                 {"adjacent", MG_POS_ADJACENT},
                 {"interleaved", MG_POS_ADJACENT},
                 {"gptj", MG_POS_ADJACENT},
                 {"none", MG_POS_NONE}};
    for (size_t i = 0; said && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, said) == 0) {
            *to = names[i].positions;
            return 1;
        }
    return 0;
}

/* What rotates comes out as "llama", which has a gate and a final norm. */
static int check_llama(struct mg_build *b)
{
    if (b->n_layer > 0 && !mg_has(b, MG_GATE))
        return ckpt_refuse(
            b->err, "tensor layer0.mlp_gate: missing (a microgpt that rotates q and k needs a "
                    "gate; --positions none?)");
    if (!mg_has(b, MG_FINAL_NORM))
        return ckpt_refuse(
            b->err, "tensor rms_final: missing (a microgpt that rotates q and k needs a final "
                    "norm; --positions none?)");
    return MGPT_OK;
}

static int settle_rotation(struct mg_build *b)
{
    const struct ckpt_options *o = b->in->options;
    struct ckpt_hparams *hp = &b->c->hp;
    if (o->given & OPT_POSITIONS && !find_positions(o->positions, &b->positions))
        return err_set(b->err, MGPT_EARG, MGPT_NO_OFFSET,
                       "--positions: expected half, adjacent or none, found '%.*s'",
                       CKPT_CLIP(o->positions, strlen(o->positions)));
    if (!(o->given & OPT_POSITIONS) && !find_positions(b->facts->positions, &b->positions)) {
        if (!mg_has(b, MG_ATTN_NORM) && !mg_has(b, MG_FINAL_NORM) && !mg_has(b, MG_GATE))
            return ckpt_refuse(b->err,
                               "tensor wpe: missing (say --positions half, adjacent or none if the "
                               "model has no such table)");
        b->positions = MG_POS_HALF;
        mg_want(b, "--positions half, adjacent or none (no wpe)");
    }
    if (b->positions == MG_POS_NONE)
        return MGPT_OK;
    hp->arch = "llama";
    hp->rope_base = (float)(o->given & OPT_ROPE ? o->rope_base : b->facts->rope_base);
    if (!(hp->rope_base > 0)) {
        hp->rope_base = 0;
        mg_want(b, "--rope BASE");
    }
    return check_llama(b);
}

int mg_settle_positions(struct mg_build *b)
{
    const struct ckpt_options *o = b->in->options;
    b->c->hp.arch = "microgpt";
    b->positions = MG_POS_LEARNED;
    if (!mg_has(b, MG_WPE))
        return settle_rotation(b);
    if (o->given & (OPT_POSITIONS | OPT_ROPE))
        return err_set(b->err, MGPT_EARG, MGPT_NO_OFFSET,
                       "--positions, --rope: the model has a table of positions (wpe)");
    return MGPT_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The rows of one head at a time are read in order, since a compressed source can only be read
 * so. */
struct rotated {
    struct ckpt_tensor matrix; /* as it is in the file */
    uint64_t head_dim;
    uint64_t head; /* which one is in `rows`; UINT64_MAX: none */
    float *rows;
};

static void rotated_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    struct rotated *s = (struct rotated *)(uintptr_t)t->source; /* only the cache changes */
    uint64_t width = t->dims[0], row = first / width, column = first % width;
    for (size_t done = 0; done < n; row++, column = 0) {
        uint64_t head = row / s->head_dim, i = row % s->head_dim, left = width - column;
        size_t run = left < n - done ? (size_t)left : n - done;
        if (head != s->head)
            ckpt_values(&s->matrix, head * s->head_dim * width, (size_t)(s->head_dim * width),
                        s->rows);
        s->head = head;
        uint64_t from = i / 2 + i % 2 * (s->head_dim / 2);
        memcpy(out + done, s->rows + from * width + column, run * sizeof *out);
        done += run;
    }
}

int mg_add_rotated(struct mg_build *b, const char *gguf_name, const struct mg_matrix *m)
{
    uint64_t head_dim = b->E / b->c->hp.n_head, n;
    if (head_dim % 2)
        return ckpt_refuse(b->err, "heads of %llu values cannot be rotated in pairs",
                           (unsigned long long)head_dim);
    if (!ck_mul(head_dim, m->cols, &n) || n > MAX_HEAD_VALUES)
        return ckpt_refuse_tensor(b->err, m->name, "too large");
    struct rotated *s = ckpt_alloc(b->c, 1, sizeof *s);
    float *rows = ckpt_alloc(b->c, (size_t)n, sizeof *rows);
    if (!s || !rows)
        return err_memory(b->err, "the rows of a head", (size_t)n * sizeof *rows);
    *s = (struct rotated){.head_dim = head_dim, .head = UINT64_MAX, .rows = rows};
    s->matrix = (struct ckpt_tensor){.n_dims = 2,
                                     .dims = {m->cols, m->rows, 1, 1},
                                     .n_values = m->cols * m->rows,
                                     .type = m->type ? m->type : dtype_find(DTYPE_F32),
                                     .bytes = m->bytes,
                                     .values = m->values,
                                     .source = m->source,
                                     .at = m->at};
    struct ckpt_tensor from = {.type = m->type, .values = rotated_values, .source = s};
    return ckpt_add(b->c, gguf_name, m->cols, m->rows, from, b->err);
}

static void ones(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    (void)t;
    (void)first;
    for (size_t i = 0; i < n; i++)
        out[i] = 1;
}

int mg_add_ones(struct mg_build *b, const char *gguf_name)
{
    struct ckpt_tensor from = {.values = ones};
    return ckpt_add(b->c, gguf_name, b->E, 0, from, b->err);
}
