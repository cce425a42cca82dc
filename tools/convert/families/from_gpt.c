/* Tensors of a GPT-2 in PyTorch, under the names of any program (gpt_names.c): found by GGUF's names, checked, put.
 *
 * The programs are one architecture: LayerNorm before each branch and before the head, learned positions, one
 * projection to q, k, v, or three, or three for each head. Absent biases are zeros, which other readers of GGUF
 * ask for. Matrices are stored [n_out, n_in] as Linear has them, or the other way round as GPT-2's own files do.
 */
#include "convert/families/from_gpt.h"
#include "base/mem.h"
#include "convert/families/gpt_names.h"

#include <stdio.h>
#include <string.h>

#define SAME(name, n_out, n_in, flags)                                                             \
    {                                                                                              \
        name, name, n_out, n_in, flags                                                             \
    }
#define NORM(name) SAME(name ".weight", 0, 'E', 0), SAME(name ".bias", 0, 'E', STATE_ZEROS)
#define LINEAR(name, n_out, n_in)                                                                  \
    SAME(name ".weight", n_out, n_in, 0), SAME(name ".bias", 0, n_out, STATE_ZEROS)

static const struct state_row before[] = {SAME("token_embd.weight", 'V', 'E', 0),
                                          SAME("position_embd.weight", 'T', 'E', 0),
                                          NORM("blk.N.attn_norm")};
static const struct state_row fused[] = {LINEAR("blk.N.attn_qkv", 'P', 'E')};
static const struct state_row after[] = {
    LINEAR("blk.N.attn_output", 'E', 'E'), NORM("blk.N.ffn_norm"), LINEAR("blk.N.ffn_up", 'F', 'E'),
    LINEAR("blk.N.ffn_down", 'E', 'F'),    NORM("output_norm"),
};
static const struct state_row head[] = {SAME("output.weight", 'V', 'E', 0),
                                        SAME("output.bias", 0, 'V', STATE_OPTIONAL)};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- names and sizes ------------------------------------------------------------------------- */

/* A parameter [1, T, E] is the table [T, E]. */
static void squeeze(struct state_tensor *t)
{
    if (t->n_dims != 3 || t->shape[0] != 1)
        return;
    t->n_dims = 2;
    memmove(t->shape, t->shape + 1, 2 * sizeof *t->shape);
    memmove(t->strides, t->strides + 1, 2 * sizeof *t->strides);
}

/* Makes the tensors known by GGUF's names. What has no such name state_check_used refuses at the end. */
static int set_aliases(struct torch_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(m->state.tensors); i++) {
        struct state_tensor *t = &m->state.tensors[i];
        struct gpt_name name;
        char alias[64];
        t->used = gpt_name_is_mask(t);
        if (t->used || !gpt_name_read(t->name, &name))
            continue;
        gpt_name_alias(&name, alias);
        t->alias = ckpt_text(m->c, alias, strlen(alias));
        if (!t->alias)
            return err_memory(err, "a name", sizeof alias);
        if (name.role == GPT_POSITIONS)
            squeeze(t);
    }
    return state_seal(&m->state, err);
}

static uint32_t count_heads(const struct state *s)
{
    char name[64];
    for (uint32_t n = 0;; n++) {
        snprintf(name, sizeof name, "blk.0.attn_k.%u.weight", n);
        if (!state_has(s, name))
            return n;
    }
}

int gpt_sizes(struct gpt *g, mgpt_error *err)
{
    struct torch_model *m = g->m;
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, T, E2, F = 0;
    hp->arch = "gpt2";
    int status = set_aliases(m, err);
    if (status < 0)
        return status;
    if (torch_layers(m, "blk.N.attn_norm.weight", err) < 0 ||
        torch_shape(m, "token_embd.weight", &V, &E, err) < 0 ||
        torch_shape(m, "position_embd.weight", &T, &E2, err) < 0 ||
        (hp->n_layer && torch_shape(m, "blk.0.ffn_up.weight", &F, &E2, err) < 0))
        return MGPT_EFILE;
    g->is_conv1d = hp->n_layer && F == E && E2 != E;
    g->n_part_heads = count_heads(&m->state);
    if (g->is_conv1d)
        F = E2;
    const struct ckpt_wanted sizes[] = {{&hp->n_vocab, "vocab_size", V},
                                        {&hp->n_embd, "n_embd", E},
                                        {&hp->n_ctx, "block_size", T},
                                        {&hp->n_ff, "the hidden width", hp->n_layer ? F : 4 * E}};
    return ckpt_sizes(sizes, COUNT(sizes), err);
}

/* ---- tensors --------------------------------------------------------------------------------- */

struct gpt_rows {
    struct state_row *rows; /* stb_ds array */
    unsigned matrices;      /* flags of the matrices in layers */
    unsigned norm_biases;   /* of the norms' biases: they are there in all norms or in none */
    int failed;             /* no memory */
};

static void add_rows(struct gpt_rows *to, const struct state_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct state_row row = rows[i];
        if (state_is_pattern(row.from) && row.n_out)
            row.flags |= to->matrices;
        if (strstr(row.from, "norm.bias"))
            row.flags = to->norm_biases;
        to->failed |= !arr_push(to->rows, row);
    }
}

/* The rows of q, k, v on top of each other: three, or three for each head. */
static void add_qkv(const struct gpt *g, struct gpt_rows *to, int is_bias)
{
    static const char kinds[] = {'q', 'k', 'v'};
    uint32_t n = g->n_part_heads ? g->n_part_heads : 1;
    char out = g->n_part_heads ? 'H' : 'Q', name[64], part[16] = "";
    for (uint32_t i = 0; i < 3 * n; i++) {
        if (g->n_part_heads)
            snprintf(part, sizeof part, ".%u", i % n);
        snprintf(name, sizeof name, "blk.N.attn_%c%s.%s", kinds[i / n], part,
                 is_bias ? "bias" : "weight");
        const char *from = ckpt_text(g->m->c, name, strlen(name));
        const struct state_row weight = {from, fused[0].to, out, 'E', 0};
        const struct state_row bias = {from, fused[1].to, 0, out, STATE_ZEROS};
        to->failed |= from == NULL;
        if (from)
            add_rows(to, is_bias ? &bias : &weight, 1);
    }
}

static void add_head(const struct gpt *g, struct gpt_rows *to)
{
    struct state *s = &g->m->state;
    int tied = !state_has(s, head[1].from) &&
               (!state_has(s, head[0].from) || torch_same(g->m, head[0].from, before[0].from));
    if (!tied) {
        add_rows(to, head, COUNT(head));
        return;
    }
    state_find(s, head[0].from);
    ckpt_note(g->m->c, "inferred: the head is the token embedding (tied)");
}

int gpt_tensors(const struct gpt *g, const char *what, mgpt_error *err)
{
    struct state *s = &g->m->state;
    struct gpt_rows all = {.matrices = g->is_conv1d ? STATE_TRANSPOSED : 0,
                           .norm_biases = state_has(s, "output_norm.bias") ? 0 : STATE_ZEROS};
    add_rows(&all, before, COUNT(before));
    if (state_has(s, "blk.0.attn_qkv.weight"))
        add_rows(&all, fused, COUNT(fused));
    for (int is_bias = 0; is_bias < 2 && !state_has(s, "blk.0.attn_qkv.weight"); is_bias++)
        add_qkv(g, &all, is_bias);
    add_rows(&all, after, COUNT(after));
    add_head(g, &all);
    int status = all.failed ? err_memory(err, "the list of tensors", sizeof *all.rows)
                            : state_map(s, all.rows, arr_len(all.rows), err);
    arr_free(all.rows);
    return status < 0 ? status : state_check_used(s, what, err);
}
