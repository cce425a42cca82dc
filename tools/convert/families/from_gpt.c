/* Tensors of a GPT in PyTorch, under the names of any program (gpt_names.c): found by GGUF's names,
 * checked, put.
 *
 * One projection to q, k, v, or three, or three for each head; matrices as Linear has them, or
 * transposed as in GPT-2's own files. In the rows of GPT-2 absent biases are zeros, which other
 * readers of GGUF ask for.
 */
#include "convert/families/from_gpt.h"
#include "base/mem.h"
#include "convert/families/gpt_names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct state_row tokens = {"token_embd", "token_embd", 'V', 'E', 0};
static const struct state_row positions = {"position_embd", "position_embd", 'T', 'E', 0};
static const struct state_row norm_1 = {"blk.N.attn_norm", "blk.N.attn_norm", 0, 'E', 0};
static const struct state_row norm_2 = {"blk.N.ffn_norm", "blk.N.ffn_norm", 0, 'E', 0};
static const struct state_row after_attention = {"blk.N.attn_norm", "blk.N.attn_output_norm", 0,
                                                 'E', 0};
static const struct state_row after_mlp = {"blk.N.ffn_norm", "blk.N.layer_output_norm", 0, 'E', 0};
static const struct state_row fused = {"blk.N.attn_qkv", "blk.N.attn_qkv", 'P', 'E', 0};
static const struct state_row output = {"blk.N.attn_output", "blk.N.attn_output", 'E', 'E', 0};
static const struct state_row gate = {"blk.N.ffn_gate", "blk.N.ffn_gate", 'F', 'E', 0};
static const struct state_row up = {"blk.N.ffn_up", "blk.N.ffn_up", 'F', 'E', 0};
static const struct state_row down = {"blk.N.ffn_down", "blk.N.ffn_down", 'E', 'F', 0};
static const struct state_row final_norm = {"output_norm", "output_norm", 0, 'E', 0};
static const struct state_row head = {"output", "output", 'V', 'E', STATE_BIAS_OPTIONAL};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- names and sizes ------------------------------------------------------------------------- */

static uint32_t count_heads(const struct state *s)
{
    char name[64];
    for (uint32_t n = 0;; n++) {
        snprintf(name, sizeof name, "blk.0.attn_k.%u.weight", n);
        if (!state_has(s, name))
            return n;
    }
}

/* The alias is GGUF's name, "blk.1.ffn_up.weight": says the user's, as layer 0 has it, or what it would be. */
_Noreturn static void stop_missing(const struct gpt *g, const char *alias)
{
    char of_0[64];
    uint32_t layer = 0;
    const char *rest =
        sscanf(alias, "blk.%u", &layer) == 1 ? strchr(alias + strlen("blk."), '.') : NULL;
    if (rest)
        snprintf(of_0, sizeof of_0, "blk.0%s", rest);
    const struct state_tensor *t = rest ? state_peek(g->m->state, of_0) : NULL;
    if (t)
        ckpt_stop(g->m->c, "layer %u has no tensor like %.*s of layer 0", layer,
                  CKPT_CLIP(t->name, strlen(t->name)));
    ckpt_stop(g->m->c, "no tensor of the file is known as %s%s",
              gpt_name_what(rest ? rest + 1 : alias), rest ? " of a layer" : "");
}

/* Leaves with the error of state_map, "tensor blk.1.ffn_up.weight: missing", in these words. */
_Noreturn static void leave_map(const struct gpt *g)
{
    static const char before[] = "tensor ", after[] = ": missing";
    char alias[64];
    const mgpt_error *err = g->m->c->err;
    const char *end = err->status == MGPT_EFILE ? strstr(err->text, after) : NULL;
    size_t n = end ? (size_t)(end - err->text) - strlen(before) : 0;
    if (!end || strncmp(err->text, before, strlen(before)) != 0 || n >= sizeof alias)
        ckpt_leave(g->m->c, err->status);
    memcpy(alias, err->text + strlen(before), n);
    alias[n] = 0;
    stop_missing(g, alias);
}

static void gpt_shape(const struct gpt *g, const char *alias, uint64_t *rows, uint64_t *columns)
{
    if (!state_has(g->m->state, alias))
        stop_missing(g, alias);
    torch_shape(g->m, alias, rows, columns);
}

/* Fewer keys than queries are grouped: their rows tell how many, once the heads are known. */
static uint64_t key_rows(const struct state *s)
{
    const struct state_tensor *k = state_peek(s, "blk.0.attn_k.weight");
    return k && k->n_dims == 2 ? k->shape[0] : 0;
}

void gpt_sizes(struct gpt *g)
{
    struct torch_model *m = g->m;
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, T = 1, E2, F = 0;
    gpt_set_aliases(g);
    torch_layers(m, "blk.N.attn_norm.weight");
    gpt_shape(g, "token_embd.weight", &V, &E);
    if (state_has(m->state, "position_embd.weight"))
        gpt_shape(g, "position_embd.weight", &T, &E2);
    if (hp->n_layer)
        gpt_shape(g, "blk.0.ffn_up.weight", &F, &E2);
    g->is_conv1d = hp->n_layer && F == E && E2 != E;
    g->n_part_heads = count_heads(m->state);
    if (g->is_conv1d)
        F = E2;
    const struct ckpt_wanted sizes[] = {{&hp->n_vocab, "vocab_size", V},
                                        {&hp->n_embd, "n_embd", E},
                                        {&hp->n_ctx, "block_size", T},
                                        {&hp->n_ff, "the hidden width", hp->n_layer ? F : 4 * E}};
    ckpt_sizes(m->c, sizes, COUNT(sizes));
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct gpt_rows {
    const struct gpt *g;
    struct state_row *rows;
    size_t n;
    unsigned matrices; /* flags of the matrices in layers */
    unsigned norms;    /* flags of norms: their biases are in all of them or in none */
    unsigned turned;   /* flags of q and k */
};

/* Whether the matrix is a parameter of its own, in layer 0. */
static int is_bare(const struct gpt *g, const struct state_row *row)
{
    char name[STATE_MAX_ROW_NAME];
    struct gpt_name parts;
    state_row_name(name, row->from, row, 0, 0);
    const struct state_tensor *t = state_peek(g->m->state, name);
    return t && gpt_name_read(t, &parts) && parts.is_bare;
}

static void add_gpt_row(const struct gpt *g, struct gpt_rows *to, struct state_row row,
                        unsigned flags)
{
    row.flags |= flags;
    if (state_is_pattern(row.from) && row.n_out)
        row.flags |= to->matrices | (g->is_in_out && is_bare(g, &row) ? STATE_TRANSPOSED : 0U);
    if (!row.n_out)
        row.flags = to->norms;
    to->rows[to->n++] = row;
}

/* One of q, k, v: the tensor, those of its heads, or its rows of the tensor of all three. */
static void add_one(const struct gpt *g, struct gpt_rows *to, char letter, int is_fused)
{
    static const char letters[] = "qkv";
    static const unsigned parts[] = {STATE_Q, STATE_K, STATE_V};
    const struct state *s = g->m->state;
    size_t i = (size_t)(strchr(letters, letter) - letters);
    uint32_t n = g->n_part_heads ? g->n_part_heads : 1;
    char name[64], part[16] = "";
    for (uint32_t k = 0; k < n; k++) {
        struct state_row row = fused;
        row.n_out = g->n_part_heads ? 'H' : letter == 'q' ? 'Q' : 'K';
        if (g->n_part_heads)
            snprintf(part, sizeof part, ".%u", k);
        snprintf(name, sizeof name, "blk.N.attn_%c%s", letter, part);
        row.from = ckpt_copy(g->m->c, name, strlen(name));
        if (!is_fused) {
            snprintf(name, sizeof name, "blk.N.attn_%c", letter);
            row.to = ckpt_copy(g->m->c, name, strlen(name));
        }
        if (state_has(s, "blk.0.attn_qkv.weight")) {
            row.from = fused.from;
            row.n_out = 'P';
            row.flags |= parts[i] | (g->is_grouped ? STATE_GROUPED : 0U);
        }
        add_gpt_row(g, to, row, letter == 'v' ? 0 : to->turned);
    }
}

static void add_attention(const struct gpt *g, struct gpt_rows *to)
{
    static const char *const fuse[] = {"gpt2", "gpt1"};
    const struct ckpt_hparams *hp = &g->m->c->hp;
    int is_fused = strcmp(hp->arch, fuse[0]) == 0 || strcmp(hp->arch, fuse[1]) == 0;
    if (is_fused && state_has(g->m->state, "blk.0.attn_qkv.weight") && !g->is_grouped) {
        add_gpt_row(g, to, fused, 0);
    } else {
        add_one(g, to, 'q', is_fused);
        add_one(g, to, 'k', is_fused);
        add_one(g, to, 'v', is_fused);
    }
    if (state_has(g->m->state, "blk.0.attn_output.weight"))
        add_gpt_row(g, to, output, 0);
}

static void add_head(const struct gpt *g, struct gpt_rows *to)
{
    if (state_has(g->m->state, "output.bias") ||
        !torch_tied(g->m, "output.weight", "token_embd.weight"))
        add_gpt_row(g, to, head, 0);
}

static unsigned flags_of_norms(const struct gpt *g, int is_gpt2)
{
    if (!is_gpt2)
        return g->has_bias ? STATE_BIAS_OPTIONAL : 0;
    return state_has(g->m->state, "output_norm.bias") ? STATE_BIAS : STATE_BIAS_ZEROS;
}

static void list_rows(const struct gpt *g, struct gpt_rows *all)
{
    const struct ckpt_hparams *hp = &g->m->c->hp;
    int is_gpt2 = strncmp(hp->arch, "gpt", 3) == 0;
    all->matrices =
        (g->is_conv1d ? STATE_TRANSPOSED : 0U) | (is_gpt2 ? STATE_BIAS_ZEROS : STATE_BIAS_OPTIONAL);
    all->norms = flags_of_norms(g, is_gpt2);
    all->turned = g->turns;
    add_gpt_row(g, all, tokens, 0);
    if (state_has(g->m->state, "position_embd.weight"))
        add_gpt_row(g, all, positions, 0);
    if (!g->is_post)
        add_gpt_row(g, all, norm_1, 0);
    add_attention(g, all);
    add_gpt_row(g, all, g->is_post ? after_attention : norm_2, 0);
    if (g->has_gate)
        add_gpt_row(g, all, gate, 0);
    add_gpt_row(g, all, up, 0);
    add_gpt_row(g, all, down, 0);
    if (g->is_post)
        add_gpt_row(g, all, after_mlp, 0);
    if (hp->final_norm)
        add_gpt_row(g, all, final_norm, 0);
    add_head(g, all);
}

/* ---- what no tensor holds -------------------------------------------------------------------- */

static void zeros(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    (void)t;
    (void)first;
    memset(out, 0, n * sizeof *out);
}

/* sin(p / 10000^(2i / E)), cos(...) in turn: "Attention Is All You Need", 3.5. */
static void sinusoids(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t p = (first + i) / t->dims[0], e = (first + i) % t->dims[0];
        double angle = (double)p * pow(10000.0, -(double)(e / 2 * 2) / (double)t->dims[0]);
        out[i] = (float)(e % 2 ? cos(angle) : sin(angle));
    }
}

/* Heads that are put side by side without a projection: it is the identity. */
static void put_no_projection(const struct gpt *g)
{
    const struct ckpt_hparams *hp = &g->m->c->hp;
    int is_gpt2 = strncmp(hp->arch, "gpt", 3) == 0;
    char name[64];
    if (!hp->n_layer || state_has(g->m->state, "blk.0.attn_output.weight"))
        return;
    ckpt_note(g->m->c, "inferred: attention has no projection (none in the file): the identity");
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        snprintf(name, sizeof name, "blk.%u.attn_output.weight", i);
        ckpt_add(g->m->c, name, hp->n_embd, hp->n_embd,
                 (struct ckpt_tensor){.values = torch_identity});
        snprintf(name, sizeof name, "blk.%u.attn_output.bias", i);
        if (is_gpt2)
            ckpt_add(g->m->c, name, hp->n_embd, 0, (struct ckpt_tensor){.values = zeros});
    }
}

static void put_positions(const struct gpt *g)
{
    const struct ckpt_hparams *hp = &g->m->c->hp;
    if (g->positions != GPT_TABLE && !hp->n_rot &&
        !(g->positions == GPT_NO_POSITIONS && strcmp(hp->arch, "microgpt") == 0))
        ckpt_add(
            g->m->c, "position_embd.weight", hp->n_embd, hp->n_ctx,
            (struct ckpt_tensor){.values = g->positions == GPT_SINUSOIDAL ? sinusoids : zeros});
}

struct scaled {
    struct ckpt_tensor of;
    float factor;
};

static void scaled_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const struct scaled *s = t->source;
    ckpt_values(&s->of, first, n, out);
    for (size_t i = 0; i < n; i++)
        out[i] *= s->factor;
}

/* embedding(x) * sqrt(E): the factor goes into the table, and a tied head becomes a tensor. */
static void scale_embedding(const struct gpt *g)
{
    struct checkpoint *c = g->m->c;
    int is_tied = 1;
    if (!g->is_scaled)
        return;
    struct scaled *s = ckpt_new(c, 1, sizeof *s);
    s->factor = (float)sqrt(c->hp.n_embd);
    s->of = c->tensors[0]; /* token_embd, the first row */
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        is_tied &= strcmp(c->tensors[i].name, "output.weight") != 0;
    if (is_tied)
        ckpt_add(c, "output.weight", c->hp.n_embd, c->hp.n_vocab, s->of);
    c->tensors[0].type = dtype_find(DTYPE_F32);
    c->tensors[0].bytes = NULL;
    c->tensors[0].blocks = NULL;
    c->tensors[0].values = scaled_values;
    c->tensors[0].source = s;
    c->tensors[0].at = 0;
}

static void settle_kv_heads(const struct gpt *g)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    uint64_t rows = key_rows(g->m->state), hd = hp->n_embd / hp->n_head;
    if (g->n_part_heads || !rows || rows == hp->n_embd)
        return;
    if (strncmp(hp->arch, "gpt", 3) == 0 || rows % hd || hp->n_head % (rows / hd))
        ckpt_stop(g->m->c, "%llu rows of keys do not form heads of width %llu of %s",
                  (unsigned long long)rows, (unsigned long long)hd, hp->arch);
    hp->n_head_kv = (uint32_t)(rows / hd);
}

static void map_tensors(void *arg)
{
    struct gpt_rows *all = arg;
    state_map(all->g->m->state, all->rows, all->n);
}

void gpt_tensors(const struct gpt *g, const char *what)
{
    struct checkpoint *c = g->m->c;
    size_t most = 3 * (size_t)(g->n_part_heads + 1) + 12; /* q, k, v of each head, and the others */
    struct gpt_rows all = {.g = g, .rows = ckpt_temp(c, most, sizeof *all.rows)};
    settle_kv_heads(g);
    list_rows(g, &all);
    if (ckpt_run(c, map_tensors, &all, c->err) < 0)
        leave_map(g);
    hf_check_used(g->m->state, what);
    put_no_projection(g);
    put_positions(g);
    scale_embedding(g);
}
