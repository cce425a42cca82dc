/* Mapping: GPT-2 under the names of other programs (gpt_names.c): ng-video-lecture, minGPT of 2020, SLM
 * 4096 and their like.
 *
 * They are one architecture: LayerNorm with biases before each branch and before the head, learned
 * positions, one projection to q, k, v, or three, or three per head. What the names do not say (heads,
 * activation) is a fact of the file, of the program when its names are unmistakable, or the user's.
 * Norms without biases may be RMSNorm: such names are left to microgpt's mapping.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/gpt_names.h"
#include "convert/families/torch_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPT2_EPS 1e-5

enum { ROLE_BITS = 4, LAYER_BITS = 14, HEAD_BITS = 14 };

struct place {
    uint64_t key;
    struct state_tensor *tensor;
};

struct gpt {
    struct torch_model *m;
    struct place *places;  /* stb_ds array, sorted */
    uint64_t n_part_heads; /* heads that are matrices of their own; 0: none */
    int is_conv1d;         /* matrices are stored [n_in, n_out] */
};

/* ---- finding --------------------------------------------------------------------------------- */

static uint64_t from_gpt_key_of(struct gpt_name n)
{
    uint64_t key = (uint64_t)n.layer << ROLE_BITS | n.role;
    key = key << HEAD_BITS | (n.is_head ? n.head + 1 : 0);
    return key << 1 | (n.is_bias != 0);
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static struct state_tensor *gpt_peek(const struct gpt *g, struct gpt_name name)
{
    struct place wanted = {.key = from_gpt_key_of(name)}, *found = NULL;
    if (g->places)
        found = bsearch(&wanted, g->places, arr_len(g->places), sizeof wanted, compare_places);
    return found ? found->tensor : NULL;
}

static const struct state_tensor *gpt_find(const struct gpt *g, struct gpt_name name)
{
    struct state_tensor *t = gpt_peek(g, name);
    if (t)
        t->used = 1;
    return t;
}

static int gpt_missing(struct gpt_name n, mgpt_error *err)
{
    static const char *const whats[GPT_N_ROLES] = {
        [GPT_TOKENS] = "the token embedding",       [GPT_POSITIONS] = "the position embedding",
        [GPT_FINAL_NORM] = "the final norm",        [GPT_HEAD] = "the head",
        [GPT_NORM_1] = "the norm of attention",     [GPT_QKV] = "the q, k, v projection",
        [GPT_Q] = "the query projection",           [GPT_K] = "the key projection",
        [GPT_V] = "the value projection",           [GPT_O] = "the output projection of attention",
        [GPT_NORM_2] = "the norm of the MLP",       [GPT_UP] = "the first matrix of the MLP",
        [GPT_DOWN] = "the second matrix of the MLP"};
    char where[32] = "";
    if (n.role >= GPT_NORM_1)
        snprintf(where, sizeof where, "layer %u: ", n.layer);
    return ckpt_refuse(err, "%s%s%s: no tensor has a name for it", where, whats[n.role],
                       n.is_bias ? " (bias)" : "");
}

/* A parameter [1, T, E] is the table [T, E]. */
static void squeeze(struct state_tensor *t)
{
    if (t->n_dims != 3 || t->shape[0] != 1)
        return;
    t->n_dims = 2;
    memmove(t->shape, t->shape + 1, 2 * sizeof *t->shape);
    memmove(t->strides, t->strides + 1, 2 * sizeof *t->strides);
}

static int from_gpt_fill(struct gpt *g, mgpt_error *err)
{
    struct state *s = &g->m->state;
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        struct gpt_name name;
        struct place p = {.tensor = &s->tensors[i]};
        if (gpt_name_is_mask(p.tensor)) {
            p.tensor->used = 1;
            continue;
        }
        if (!gpt_name_read(p.tensor->name, &name))
            continue; /* state_check_used names it at the end */
        p.key = from_gpt_key_of(name);
        if (name.role == GPT_POSITIONS)
            squeeze(p.tensor);
        if (!arr_push(g->places, p))
            return err_memory(err, "the list of tensors", sizeof p);
    }
    if (g->places)
        qsort(g->places, arr_len(g->places), sizeof *g->places, compare_places);
    for (size_t i = 1; i < arr_len(g->places); i++) {
        const char *name = g->places[i].tensor->name;
        if (g->places[i].key == g->places[i - 1].key)
            return ckpt_refuse_tensor(err, name, "another tensor has a name of the same meaning");
    }
    return MGPT_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int shape_of(const struct gpt *g, struct gpt_name name, uint64_t *rows, uint64_t *columns,
                    mgpt_error *err)
{
    const struct state_tensor *t = gpt_peek(g, name);
    if (!t)
        return gpt_missing(name, err);
    return torch_shape(g->m, t->name, rows, columns, err);
}

static uint32_t count_layers(const struct gpt *g)
{
    uint32_t n = 0;
    while (n <= CKPT_MAX_LAYERS && gpt_peek(g, (struct gpt_name){.role = GPT_NORM_1, .layer = n}))
        n++;
    return n;
}

static uint32_t count_heads(const struct gpt *g)
{
    uint32_t n = 0;
    while (gpt_peek(g, (struct gpt_name){.role = GPT_K, .is_head = 1, .head = n}))
        n++;
    return n;
}

static int gpt_sizes(struct gpt *g, mgpt_error *err)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    uint64_t V, E, T, F, E2;
    hp->arch = "gpt2";
    hp->n_layer = count_layers(g);
    if (hp->n_layer > CKPT_MAX_LAYERS)
        return ckpt_refuse(err, "more than %d layers", CKPT_MAX_LAYERS);
    if (shape_of(g, (struct gpt_name){.role = GPT_TOKENS}, &V, &E, err) < 0 ||
        shape_of(g, (struct gpt_name){.role = GPT_POSITIONS}, &T, &E2, err) < 0 ||
        shape_of(g, (struct gpt_name){.role = GPT_UP}, &F, &E2, err) < 0)
        return MGPT_EFILE;
    g->is_conv1d = F == E && E2 != E; /* as GPT-2's own files have it */
    g->n_part_heads = count_heads(g);
    const struct ckpt_wanted wanted[] = {{&hp->n_vocab, "vocab_size", V},
                                         {&hp->n_embd, "n_embd", E},
                                         {&hp->n_ctx, "block_size", T},
                                         {&hp->n_ff, "the hidden width", g->is_conv1d ? E2 : F}};
    return ckpt_sizes(wanted, 4, err);
}

/* ---- what the names do not say --------------------------------------------------------------- */

/* A program whose names are its own: what it does that is in no file. */
static const struct program {
    const char *name, *token, *query, *up; /* the names of three tensors */
    const char *activation;
} programs[] = {
    {"ng-video-lecture", "token_embedding_table.weight", "blocks.0.sa.heads.0.query.weight",
     "blocks.0.ffwd.net.0.weight", "relu"},
    {"minGPT of 2020", "tok_emb.weight", "blocks.0.attn.query.weight", "blocks.0.mlp.0.weight",
     "gelu_erf"},
    {"SLM 4096", "tok_emb.weight", "blocks.0.attn.c_attn.weight", "blocks.0.mlp.c_fc.weight",
     "gelu_erf"},
};

static const struct program *program_of(const struct state *s)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (state_has(s, programs[i].token) && state_has(s, programs[i].query) &&
            state_has(s, programs[i].up))
            return &programs[i];
    return NULL;
}

static int from_gpt_settle_heads(const struct gpt *g, mgpt_error *err)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    int status = torch_heads(g->m, (int64_t)g->n_part_heads, torch_gpt2_heads(g->m),
                             "GPT-2 of these sizes", err);
    if (status == MGPT_OK && g->n_part_heads && hp->n_head != g->n_part_heads)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%u heads are wanted, the file has %llu",
                       hp->n_head, (unsigned long long)g->n_part_heads);
    return status;
}

/* ng-video-lecture divided by the root of another number at first, and the file does not say which. */
static void settle_scale(const struct gpt *g)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    const struct ckpt_options *o = g->m->in->options;
    double hd = (double)hp->n_embd / hp->n_head;
    if (o->given & OPT_QK_SCALE)
        hp->attn_scale = (float)(o->qk_scale * o->qk_scale / sqrt(hd));
    else if (g->n_part_heads > 1)
        ckpt_note(g->m->c,
                  "inferred: scores are divided by the root of the head's width (ng-video-lecture; "
                  "before January 2023 by that of n_embd: --qk-scale %.9g)",
                  pow(hp->n_head, -0.25));
}

static int from_gpt_settle(struct gpt *g, mgpt_error *err)
{
    const struct program *p = program_of(&g->m->state);
    int status = torch_check_sizes(g->m, err);
    if (status == MGPT_OK)
        status = from_gpt_settle_heads(g, err);
    if (status == MGPT_OK)
        status = torch_activation(g->m, p ? p->activation : NULL, "gelu_tanh",
                                  p ? p->name : "names of several programs", err);
    if (status < 0)
        return status;
    g->m->c->hp.norm_eps = torch_eps(g->m, GPT2_EPS);
    settle_scale(g);
    return MGPT_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* A matrix [n_out, n_in], or with n_out 0 a vector, as a part; bias: absent ones are zeros. */
static int gpt_part(const struct gpt *g, struct gpt_name name, uint64_t n_out, uint64_t n_in,
                    struct state_part *part, mgpt_error *err)
{
    const struct state_tensor *t = gpt_find(g, name);
    int turned = g->is_conv1d && n_out && name.role >= GPT_NORM_1;
    *part = (struct state_part){.tensor = t, .transposed = turned, .n_rows = n_out ? n_out : n_in};
    if (!t)
        return name.is_bias ? MGPT_OK : gpt_missing(name, err);
    return turned ? state_check_shape(t, n_in, n_out, err) : state_check_shape(t, n_out, n_in, err);
}

/* The weight of [n_out, n_in] and the bias of n_out; a norm has n_in 0. */
static int gpt_put(const struct gpt *g, struct gpt_name name, const char *to, uint64_t n_out,
                   uint64_t n_in, mgpt_error *err)
{
    struct gpt_name bias = name;
    struct state_part part;
    char full[CKPT_MAX_NAME + 1];
    bias.is_bias = 1;
    snprintf(full, sizeof full, "%s.weight", to);
    int status =
        n_in ? gpt_part(g, name, n_out, n_in, &part, err) : gpt_part(g, name, 0, n_out, &part, err);
    if (status == MGPT_OK)
        status = state_put(g->m->c, full, n_in, &part, 1, 0, err);
    if (status < 0 || name.role == GPT_TOKENS || name.role == GPT_POSITIONS ||
        (name.role == GPT_HEAD && !gpt_peek(g, bias)))
        return status;
    snprintf(full, sizeof full, "%s.bias", to);
    status = gpt_part(g, bias, 0, n_out, &part, err);
    return status < 0 ? status : state_put(g->m->c, full, 0, &part, 1, 0, err);
}

/* The parts of q, k, v on top of each other: three, or three per head. */
static int qkv_parts(const struct gpt *g, uint32_t layer, int is_bias, struct state_part *parts,
                     mgpt_error *err)
{
    static const enum gpt_role roles[] = {GPT_Q, GPT_K, GPT_V};
    uint64_t E = g->m->c->hp.n_embd, n = g->n_part_heads ? g->n_part_heads : 1;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < 3 * n; i++) {
        struct gpt_name name = {.role = roles[i / n],
                                .layer = layer,
                                .head = (uint32_t)(i % n),
                                .is_head = g->n_part_heads > 0,
                                .is_bias = is_bias};
        status = is_bias ? gpt_part(g, name, 0, E / n, &parts[i], err)
                         : gpt_part(g, name, E / n, E, &parts[i], err);
    }
    return status;
}

static int from_gpt_put_qkv(const struct gpt *g, uint32_t layer, int is_bias, mgpt_error *err)
{
    uint64_t E = g->m->c->hp.n_embd, n = g->n_part_heads ? g->n_part_heads : 1;
    char to[CKPT_MAX_NAME + 1];
    struct state_part *parts = calloc(3 * n, sizeof *parts);
    if (!parts)
        return err_memory(err, "the list of heads", 3 * n * sizeof *parts);
    snprintf(to, sizeof to, "blk.%u.attn_qkv.%s", layer, is_bias ? "bias" : "weight");
    int status = qkv_parts(g, layer, is_bias, parts, err);
    if (status == MGPT_OK)
        status = state_put(g->m->c, to, is_bias ? 0 : E, parts, 3 * n, 0, err);
    free(parts);
    return status;
}

static int from_gpt_put_attention(const struct gpt *g, uint32_t layer, mgpt_error *err)
{
    struct gpt_name fused = {.role = GPT_QKV, .layer = layer};
    uint64_t E = g->m->c->hp.n_embd;
    char to[CKPT_MAX_NAME + 1];
    if (gpt_peek(g, fused)) {
        snprintf(to, sizeof to, "blk.%u.attn_qkv", layer);
        return gpt_put(g, fused, to, 3 * E, E, err);
    }
    int status = from_gpt_put_qkv(g, layer, 0, err);
    return status < 0 ? status : from_gpt_put_qkv(g, layer, 1, err);
}

static int put_layer(const struct gpt *g, uint32_t layer, mgpt_error *err)
{
    uint64_t E = g->m->c->hp.n_embd, F = g->m->c->hp.n_ff;
    const struct {
        enum gpt_role role;
        const char *to;
        uint64_t n_out, n_in;
    } rows[] = {{GPT_NORM_1, "attn_norm", E, 0}, {GPT_QKV, NULL, 0, 0},
                {GPT_O, "attn_output", E, E},    {GPT_NORM_2, "ffn_norm", E, 0},
                {GPT_UP, "ffn_up", F, E},        {GPT_DOWN, "ffn_down", E, F}};
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < sizeof rows / sizeof *rows; i++) {
        struct gpt_name name = {.role = rows[i].role, .layer = layer};
        char to[CKPT_MAX_NAME + 1];
        snprintf(to, sizeof to, "blk.%u.%s", layer, rows[i].to ? rows[i].to : "");
        status = rows[i].to ? gpt_put(g, name, to, rows[i].n_out, rows[i].n_in, err)
                            : from_gpt_put_attention(g, layer, err);
    }
    return status;
}

static int from_gpt_put_head(const struct gpt *g, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &g->m->c->hp;
    struct gpt_name name = {.role = GPT_HEAD}, bias = {.role = GPT_HEAD, .is_bias = 1};
    const struct state_tensor *head = gpt_find(g, name);
    const struct state_tensor *tokens = gpt_peek(g, (struct gpt_name){.role = GPT_TOKENS});
    if (!gpt_peek(g, bias) && (!head || torch_same(g->m, head->name, tokens->name))) {
        ckpt_note(g->m->c, "inferred: the head is the token embedding (tied)");
        return MGPT_OK;
    }
    return gpt_put(g, name, "output", hp->n_vocab, hp->n_embd, err);
}

static int put_all(const struct gpt *g, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &g->m->c->hp;
    int status = gpt_put(g, (struct gpt_name){.role = GPT_TOKENS}, "token_embd", hp->n_vocab,
                         hp->n_embd, err);
    if (status == MGPT_OK)
        status = gpt_put(g, (struct gpt_name){.role = GPT_POSITIONS}, "position_embd", hp->n_ctx,
                         hp->n_embd, err);
    for (uint32_t i = 0; status == MGPT_OK && i < hp->n_layer; i++)
        status = put_layer(g, i, err);
    if (status == MGPT_OK)
        status = gpt_put(g, (struct gpt_name){.role = GPT_FINAL_NORM}, "output_norm", hp->n_embd, 0,
                         err);
    if (status == MGPT_OK)
        status = from_gpt_put_head(g, err);
    return status < 0 ? status : state_check_used(&g->m->state, "GPT of these names", err);
}

/* ---- the mapping ----------------------------------------------------------------------------- */

static int from_gpt_match(const struct torch_model *m)
{
    enum { TOKENS = 1, POSITIONS = 2, NORM_BIAS = 4, UP = 8, ALL = 15 };
    int seen = 0;
    for (size_t i = 0; i < arr_len(m->state.tensors); i++) {
        struct gpt_name n;
        if (!gpt_name_read(m->state.tensors[i].name, &n))
            continue;
        seen |= n.role == GPT_TOKENS ? TOKENS : 0;
        seen |= n.role == GPT_POSITIONS ? POSITIONS : 0;
        seen |= n.role == GPT_UP ? UP : 0;
        seen |= n.role == GPT_NORM_1 && n.is_bias ? NORM_BIAS : 0;
    }
    return seen == ALL;
}

static int from_gpt_map(struct torch_model *m, mgpt_error *err)
{
    struct gpt g = {.m = m};
    int status = from_gpt_fill(&g, err);
    if (status == MGPT_OK)
        status = gpt_sizes(&g, err);
    if (status == MGPT_OK)
        status = from_gpt_settle(&g, err);
    if (status == MGPT_OK)
        status = put_all(&g, err);
    arr_free(g.places);
    return status < 0 ? status : torch_vocab(m, NULL, err);
}

const struct torch_mapping gpt_mapping = {"GPT-2 in other names",
                                          OPT_HEADS | OPT_ACTIVATION | OPT_EPS | OPT_QK_SCALE |
                                              OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                          from_gpt_match, from_gpt_map};
