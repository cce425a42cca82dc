/* Tensors of a GPT-2 in PyTorch, under the names of any program (gpt_names.c): found by GGUF's
 * names, checked, put.
 *
 * The programs are one architecture: LayerNorm before each branch and before the head, learned
 * positions, one projection to q, k, v, or three, or three for each head. Absent biases are zeros,
 * which other readers of GGUF ask for. Matrices are stored [n_out, n_in] as Linear has them, or
 * transposed as in GPT-2's own files.
 */
#include "convert/families/from_gpt.h"
#include "base/mem.h"
#include "convert/families/gpt_names.h"

#include <stdio.h>
#include <string.h>

static const struct state_row before[] = {
    {"token_embd", "token_embd", 'V', 'E', 0},
    {"position_embd", "position_embd", 'T', 'E', 0},
    {"blk.N.attn_norm", "blk.N.attn_norm", 0, 'E', STATE_BIAS_ZEROS},
};
static const struct state_row fused = {"blk.N.attn_qkv", "blk.N.attn_qkv", 'P', 'E',
                                       STATE_BIAS_ZEROS};
static const struct state_row after[] = {
    {"blk.N.attn_output", "blk.N.attn_output", 'E', 'E', STATE_BIAS_ZEROS},
    {"blk.N.ffn_norm", "blk.N.ffn_norm", 0, 'E', STATE_BIAS_ZEROS},
    {"blk.N.ffn_up", "blk.N.ffn_up", 'F', 'E', STATE_BIAS_ZEROS},
    {"blk.N.ffn_down", "blk.N.ffn_down", 'E', 'F', STATE_BIAS_ZEROS},
    {"output_norm", "output_norm", 0, 'E', STATE_BIAS_ZEROS},
};
static const struct state_row head = {"output", "output", 'V', 'E', STATE_BIAS_OPTIONAL};

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

/* Makes the tensors known by GGUF's names. What has no such name state_check_used refuses at the
 * end. */
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

/* The names of layer n are those of layer 0 but for the number. */
static int is_same_name(const char *of_0, const char *of_n)
{
    size_t i = 0;
    while (of_0[i] && of_0[i] == of_n[i])
        i++;
    while (i > 0 && of_0[i - 1] >= '0' && of_0[i - 1] <= '9')
        i--;
    const char *digits = "0123456789";
    return strcmp(of_0 + i + strspn(of_0 + i, digits), of_n + i + strspn(of_n + i, digits)) == 0;
}

/* Layers of two programs may mean the same, and may not. */
static int refuse_mixed_layers(const struct state *s, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i], *first = NULL;
        const char *rest =
            t->alias && strncmp(t->alias, "blk.", 4) == 0 ? strchr(t->alias + 4, '.') : NULL;
        char alias[64];
        if (rest) {
            snprintf(alias, sizeof alias, "blk.0%s", rest);
            first = state_peek(s, alias);
        }
        if (first && !is_same_name(first->name, t->name))
            return ckpt_refuse_tensor(err, t->name, "layer 0 has %.*s: names of two programs",
                                      CKPT_CLIP(first->name, strlen(first->name)));
    }
    return MGPT_OK;
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
    if (status == MGPT_OK)
        status = refuse_mixed_layers(&m->state, err);
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
    unsigned norms;         /* flags of norms: their biases are in all of them or in none */
    int failed;             /* no memory */
};

static void add_gpt_rows(struct gpt_rows *to, const struct state_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct state_row row = rows[i];
        if (state_is_pattern(row.from) && row.n_out)
            row.flags |= to->matrices;
        if (!row.n_out)
            row.flags = to->norms;
        to->failed |= !arr_push(to->rows, row);
    }
}

/* The rows of q, k, v on top of each other: three, or three for each head. */
static void add_qkv(const struct gpt *g, struct gpt_rows *to)
{
    uint32_t n = g->n_part_heads ? g->n_part_heads : 1;
    char name[64], part[16] = "";
    for (uint32_t i = 0; i < 3 * n; i++) {
        struct state_row row = fused;
        row.n_out = g->n_part_heads ? 'H' : 'Q';
        if (g->n_part_heads)
            snprintf(part, sizeof part, ".%u", i % n);
        snprintf(name, sizeof name, "blk.N.attn_%c%s", "qkv"[i / n], part);
        row.from = ckpt_text(g->m->c, name, strlen(name));
        to->failed |= row.from == NULL;
        if (row.from)
            add_gpt_rows(to, &row, 1);
    }
}

static void add_head(const struct gpt *g, struct gpt_rows *to)
{
    static const char weight[] = "output.weight";
    struct state *s = &g->m->state;
    int tied = !state_has(s, "output.bias") &&
               (!state_has(s, weight) || torch_same(g->m, weight, "token_embd.weight"));
    if (!tied) {
        add_gpt_rows(to, &head, 1);
        return;
    }
    state_find(s, weight);
    ckpt_note(g->m->c, "inferred: the head is the token embedding (tied)");
}

int gpt_tensors(const struct gpt *g, const char *what, mgpt_error *err)
{
    struct state *s = &g->m->state;
    struct gpt_rows all = {.matrices = g->is_conv1d ? STATE_TRANSPOSED : 0,
                           .norms =
                               state_has(s, "output_norm.bias") ? STATE_BIAS : STATE_BIAS_ZEROS};
    add_gpt_rows(&all, before, COUNT(before));
    if (state_has(s, "blk.0.attn_qkv.weight"))
        add_gpt_rows(&all, &fused, 1);
    else
        add_qkv(g, &all);
    add_gpt_rows(&all, after, COUNT(after));
    add_head(g, &all);
    int status = all.failed ? err_memory(err, "the list of tensors", sizeof *all.rows)
                            : state_map(s, all.rows, arr_len(all.rows), err);
    arr_free(all.rows);
    return status < 0 ? status : hf_check_used(s, what, err);
}
