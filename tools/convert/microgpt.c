/* microgpt out of named matrices. See microgpt.h.
 *
 * Nothing about a size is taken on trust: wte gives the vocabulary and the width, wpe the context,
 * fc1 the hidden width, the names the number of layers; every other shape, and every size that the
 * file or the user states, must agree. A matrix that has no place in the model is refused by name:
 * what is silently left out is how a model runs wrongly.
 */
#include "microgpt.h"

#include "error.h"
#include "mem.h"
#include "vocab_chars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_HEADS 4
#define DEFAULT_EPS 1e-5

/* ---- names ------------------------------------------------------------------------------------- */

struct role {
    const char *name, *short_name; /* as microgpt has it; without "attn_" or "mlp_" */
    const char *gguf;
    char rows, cols; /* V, T, E, F: which size the shape must have */
};

static const struct role roles[] = {
    /* in the order in which microgpt creates them */
    {"wte", "wte", "token_embd.weight", 'V', 'E'},
    {"wpe", "wpe", "position_embd.weight", 'T', 'E'},
    {"lm_head", "lm_head", "output.weight", 'V', 'E'},
    {"attn_wq", "wq", "attn_q.weight", 'E', 'E'},
    {"attn_wk", "wk", "attn_k.weight", 'E', 'E'},
    {"attn_wv", "wv", "attn_v.weight", 'E', 'E'},
    {"attn_wo", "wo", "attn_output.weight", 'E', 'E'},
    {"mlp_fc1", "fc1", "ffn_up.weight", 'F', 'E'},
    {"mlp_fc2", "fc2", "ffn_down.weight", 'E', 'F'},
};

enum { WTE, WPE, LM_HEAD, N_ROLES = MG_N_GLOBAL + MG_N_PER_LAYER };
enum { FC1 = MG_N_GLOBAL + 4 };

void mg_name_in_order(size_t i, char buf[32])
{
    if (i < MG_N_GLOBAL) {
        snprintf(buf, 32, "%s", roles[i].name);
        return;
    }
    size_t layer = (i - MG_N_GLOBAL) / MG_N_PER_LAYER, k = (i - MG_N_GLOBAL) % MG_N_PER_LAYER;
    snprintf(buf, 32, "layer%zu.%s", layer, roles[MG_N_GLOBAL + k].name);
}

static int find_role(const char *p, size_t n, size_t first, size_t last)
{
    for (size_t i = first; i < last; i++)
        if ((strlen(roles[i].name) == n && memcmp(p, roles[i].name, n) == 0) ||
            (strlen(roles[i].short_name) == n && memcmp(p, roles[i].short_name, n) == 0))
            return (int)i;
    return -1;
}

/* Decimal digits [p, end) as a layer number; -1 when they are none or too many. */
static int layer_number(const char *p, const char *end)
{
    int v = 0;
    if (p == end || end - p > 4)
        return -1;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return -1;
        v = 10 * v + (*p - '0');
    }
    return v < CKPT_MAX_LAYERS ? v : -1;
}

/* "layer0.attn_wq", "layers.0.wq", "layer_0.fc1" */
static int layer_first(const char *name, size_t n, int *layer)
{
    const char *p = name + 5, *end = name + n;
    if (n < 5 || memcmp(name, "layer", 5) != 0)
        return -1;
    if (p < end && *p == 's')
        p++;
    if (p < end && (*p == '.' || *p == '_'))
        p++;
    const char *dot = memchr(p, '.', (size_t)(end - p));
    if (!dot)
        return -1;
    *layer = layer_number(p, dot);
    return find_role(dot + 1, (size_t)(end - dot - 1), MG_N_GLOBAL, N_ROLES);
}

/* "attn_wq_0", "fc1_0" */
static int layer_last(const char *name, size_t n, int *layer)
{
    const char *end = name + n, *p = end;
    while (p > name && p[-1] != '_')
        p--;
    if (p == name)
        return -1;
    *layer = layer_number(p, end);
    return find_role(name, (size_t)(p - name - 1), MG_N_GLOBAL, N_ROLES);
}

/* The role of a name and its layer (0 for the global ones), or -1. */
static int recognise(const char *name, int *layer)
{
    size_t n = strlen(name), suffix = strlen(".weight");
    if (n > suffix && strcmp(name + n - suffix, ".weight") == 0)
        n -= suffix;
    *layer = 0;
    int role = find_role(name, n, 0, MG_N_GLOBAL);
    if (role < 0)
        role = layer_first(name, n, layer);
    if (role < 0)
        role = layer_last(name, n, layer);
    return *layer < 0 ? -1 : role;
}

/* ---- binding ----------------------------------------------------------------------------------- */

struct build {
    struct checkpoint *c;
    const struct mg_matrix **slots; /* [n_layer * 6 + 3], NULL: absent */
    uint32_t n_layer;
    uint64_t V, T, E, F;
    const struct mg_facts *facts;
    const struct ckpt_input *in;
    mgpt_error *err;
};

static size_t slot_of(int role, int layer)
{
    if (role < MG_N_GLOBAL)
        return (size_t)role;
    return MG_N_GLOBAL + (size_t)layer * MG_N_PER_LAYER + (size_t)role - MG_N_GLOBAL;
}

static int bad(const struct build *b, const char *what)
{
    return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET, "%s", what);
}

static int bind(struct build *b, const struct mg_matrix *matrices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = matrices[i].name;
        int layer, role = recognise(name, &layer);
        if (role < 0)
            return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "tensor %.*s: not part of a microgpt (wte, wpe, lm_head, layerN.attn_wq "
                           "wk wv wo, mlp_fc1 fc2)",
                           CKPT_CLIP(name, strlen(name)));
        const struct mg_matrix **slot = &b->slots[slot_of(role, layer)];
        if (*slot)
            return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "tensor %.*s: the same matrix as %.*s", CKPT_CLIP(name, strlen(name)),
                           CKPT_CLIP((*slot)->name, strlen((*slot)->name)));
        *slot = &matrices[i];
        if (role >= MG_N_GLOBAL && (uint32_t)layer >= b->n_layer)
            b->n_layer = (uint32_t)layer + 1;
    }
    return MGPT_OK;
}

/* All slots up to n_layer are filled, but for lm_head. */
static int check_complete(struct build *b)
{
    char name[32];
    for (size_t i = 0; i < slot_of(MG_N_GLOBAL, (int)b->n_layer); i++) {
        mg_name_in_order(i, name);
        if (!b->slots[i] && i != LM_HEAD)
            return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET, "tensor %s: missing", name);
    }
    if (!b->slots[LM_HEAD])
        ckpt_note(b->c, "inferred: no lm_head, so the head is wte (tied)");
    return MGPT_OK;
}

static uint64_t size_of(const struct build *b, char letter)
{
    switch (letter) {
    case 'V':
        return b->V;
    case 'T':
        return b->T;
    case 'F':
        return b->F;
    default:
        return b->E;
    }
}

static int check_shapes(struct build *b)
{
    b->V = b->slots[WTE]->rows;
    b->E = b->slots[WTE]->cols;
    b->T = b->slots[WPE]->rows;
    b->F = b->n_layer ? b->slots[FC1]->rows : 4 * b->E;
    for (size_t i = 0; i < slot_of(MG_N_GLOBAL, (int)b->n_layer); i++) {
        const struct mg_matrix *m = b->slots[i];
        const struct role *r = &roles[i < N_ROLES ? i : MG_N_GLOBAL + (i - 3) % MG_N_PER_LAYER];
        uint64_t rows = size_of(b, r->rows), cols = size_of(b, r->cols);
        if (m && (m->rows != rows || m->cols != cols))
            return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "tensor %.*s: shape [%llu, %llu], expected [%llu, %llu]",
                           CKPT_CLIP(m->name, strlen(m->name)), (unsigned long long)m->rows,
                           (unsigned long long)m->cols, (unsigned long long)rows,
                           (unsigned long long)cols);
    }
    return MGPT_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

const char *mg_size_name(enum mg_size size)
{
    static const char *const names[MG_N_SIZES] = {"vocab_size", "n_embd", "n_layer",
                                                  "block_size", "n_head", "head_dim"};
    return names[size];
}

void mg_facts_init(struct mg_facts *facts)
{
    *facts = (struct mg_facts){.bos = -1};
    for (int i = 0; i < MG_N_SIZES; i++)
        facts->sizes[i] = -1;
}

int64_t mg_stated(const struct mg_facts *facts, const struct ckpt_options *o, enum mg_size size)
{
    const struct {
        unsigned bit;
        int32_t value;
    } options[MG_N_SIZES] = {
        [MG_VOCAB] = {OPT_VOCAB_SIZE, o->n_vocab}, [MG_EMBD] = {OPT_EMBD, o->n_embd},
        [MG_LAYERS] = {OPT_LAYERS, o->n_layer},    [MG_CONTEXT] = {OPT_CONTEXT, o->n_ctx},
        [MG_HEADS] = {OPT_HEADS, o->n_head},
    };
    return o->given & options[size].bit ? options[size].value : facts->sizes[size];
}

/* What is said about a size must be what the shapes say. */
static int check_stated(struct build *b)
{
    const uint64_t found[] = {
        [MG_VOCAB] = b->V, [MG_EMBD] = b->E, [MG_LAYERS] = b->n_layer, [MG_CONTEXT] = b->T};
    for (enum mg_size i = MG_VOCAB; i <= MG_CONTEXT; i++) {
        int64_t stated = mg_stated(b->facts, b->in->options, i);
        if (stated >= 0 && (uint64_t)stated != found[i])
            return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "%s is stated as %llu, the matrices say %llu", mg_size_name(i),
                           (unsigned long long)stated, (unsigned long long)found[i]);
    }
    return MGPT_OK;
}

static int settle_heads(struct build *b)
{
    int64_t heads = mg_stated(b->facts, b->in->options, MG_HEADS);
    int64_t dim = b->facts->sizes[MG_HEAD_DIM];
    int assumed = 0;
    if (heads < 0 && dim > 0 && b->E % (uint64_t)dim == 0) {
        heads = (int64_t)(b->E / (uint64_t)dim);
        ckpt_note(b->c, "inferred: n_head = %lld (head_dim is %lld)", (long long)heads,
                  (long long)dim);
    } else if (heads >= 0 && dim >= 0 && !(b->in->options->given & OPT_HEADS) &&
               (uint64_t)heads * (uint64_t)dim != b->E) {
        return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "n_head %llu times head_dim %llu is not n_embd = %llu",
                       (unsigned long long)heads, (unsigned long long)dim,
                       (unsigned long long)b->E);
    } else if (heads < 0) {
        heads = DEFAULT_HEADS;
        assumed = 1;
    }
    if (heads < 1 || b->E % (uint64_t)heads)
        return err_set(b->err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "n_head is %llu%s, it must divide n_embd = %llu%s",
                       (unsigned long long)heads, assumed ? " (default)" : "",
                       (unsigned long long)b->E, assumed ? "; set it with --heads" : "");
    if (assumed)
        ckpt_note(b->c, "inferred: n_head = %d (default; set it with --heads)", DEFAULT_HEADS);
    return ckpt_size(&b->c->hp.n_head, "n_head", (uint64_t)heads, b->err);
}

static int set_sizes(struct build *b)
{
    struct ckpt_hparams *hp = &b->c->hp;
    hp->arch = "microgpt";
    hp->n_layer = b->n_layer;
    int status = ckpt_size(&hp->n_vocab, "vocab_size", b->V, b->err);
    if (status == MGPT_OK)
        status = ckpt_size(&hp->n_ctx, "block_size", b->T, b->err);
    if (status == MGPT_OK)
        status = ckpt_size(&hp->n_embd, "n_embd", b->E, b->err);
    if (status == MGPT_OK)
        status = ckpt_size(&hp->n_ff, "the hidden width", b->F, b->err);
    return status == MGPT_OK ? settle_heads(b) : status;
}

/* ---- vocabulary and dialect -------------------------------------------------------------------- */

static int set_entries(struct build *b, const struct gguf_str *entries, size_t n, int64_t bos)
{
    return vocab_chars_set(b->c, entries, n, bos, b->V, b->err);
}

static int vocab_from_option(struct build *b, int64_t bos)
{
    struct ckpt_side side;
    struct gguf_str *entries = NULL;
    int status = b->in->side(b->in->user, OPT_CHARS, NULL, 0, &side, b->err);
    if (status == 0)
        return bad(b, "--chars: no such file");
    if (status > 0)
        status = vocab_chars_from_text(b->c, &entries, side.bytes, side.name, b->V, b->err);
    if (status == MGPT_OK)
        status = set_entries(b, entries, arr_len(entries), bos);
    arr_free(entries);
    return status;
}

static int vocab_a_to_z(struct build *b, int64_t bos)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    struct gguf_str entries[26];
    for (size_t i = 0; i < 26; i++)
        entries[i] = (struct gguf_str){letters + i, 1};
    ckpt_note(b->c,
              "inferred: vocabulary = a to z (none in the file, 27 tokens; set it with --chars)");
    return set_entries(b, entries, 26, bos);
}

static int set_vocabulary(struct build *b)
{
    const struct ckpt_options *o = b->in->options;
    int64_t bos = o->given & OPT_BOS ? o->bos : b->facts->bos;
    if (o->given & OPT_CHARS)
        return vocab_from_option(b, bos);
    if (b->facts->entries)
        return set_entries(b, b->facts->entries, b->facts->n_entries, bos);
    if (b->V == 27)
        return vocab_a_to_z(b, bos);
    ckpt_note(b->c, "no vocabulary in the file: the model will run on token ids only (give it the "
                    "training text or the characters with --chars)");
    return MGPT_OK;
}

static const char *known_activation(const char *name)
{
    static const char *const names[] = {"relu", "relu2", "silu", "gelu_tanh", "gelu_erf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return names[i];
    return NULL;
}

static int settle_activation(struct build *b)
{
    const struct ckpt_options *o = b->in->options;
    const struct ckpt_vocab *v = &b->c->vocab;
    const char *said = o->given & OPT_ACTIVATION ? o->activation : b->facts->activation;
    int bos_first = v->model ? v->bos == 0 && v->types[0] == TOKEN_CONTROL : b->facts->bos == 0;
    const char *usual = bos_first ? "relu2" : "relu";
    b->c->hp.activation = said ? known_activation(said) : usual;
    if (!b->c->hp.activation)
        return err_set(b->err, o->given & OPT_ACTIVATION ? MGPT_EARG : MGPT_EFILE, MGPT_NO_OFFSET,
                       "activation %.*s: expected relu, relu2, silu, gelu_tanh or gelu_erf",
                       CKPT_CLIP(said, strlen(said)));
    if (!said)
        ckpt_note(b->c, "inferred: activation = %s (%s; set it with --activation)", usual,
                  bos_first ? "BOS is token 0, as in the first version of microgpt" : "default");
    return MGPT_OK;
}

static int settle_dialect(struct build *b)
{
    const struct ckpt_options *o = b->in->options;
    struct ckpt_hparams *hp = &b->c->hp;
    hp->embedding_norm = !(o->given & OPT_NO_EMBEDDING_NORM);
    hp->final_norm = (o->given & OPT_FINAL_NORM) != 0;
    hp->norm_eps = (float)(o->given & OPT_EPS ? o->eps : DEFAULT_EPS);
    int status = settle_activation(b);
    if (status == MGPT_OK && hp->embedding_norm)
        ckpt_note(b->c, "inferred: embedding_norm = true (default; --no-embedding-norm)");
    if (status == MGPT_OK && !hp->final_norm)
        ckpt_note(b->c, "inferred: final_norm = false (default; --final-norm)");
    if (status == MGPT_OK && !(o->given & OPT_EPS))
        ckpt_note(b->c, "inferred: eps = %g (default; set it with --eps)", DEFAULT_EPS);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------- */

static int add(struct build *b, size_t slot)
{
    const struct mg_matrix *m = b->slots[slot];
    char name[CKPT_MAX_NAME + 1];
    size_t per = MG_N_PER_LAYER, k = slot < MG_N_GLOBAL ? slot : MG_N_GLOBAL + (slot - 3) % per;
    if (!m)
        return MGPT_OK;
    if (slot < MG_N_GLOBAL)
        snprintf(name, sizeof name, "%s", roles[k].gguf);
    else
        snprintf(name, sizeof name, "blk.%zu.%s", (slot - MG_N_GLOBAL) / per, roles[k].gguf);
    struct ckpt_tensor from = {.values = m->values, .source = m->source, .at = m->at};
    return ckpt_add(b->c, name, m->cols, m->rows, from, b->err);
}

/* Everything in order, the head last, as llama.cpp's converter has it. */
static int add_tensors(struct build *b)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < slot_of(MG_N_GLOBAL, (int)b->n_layer); i++)
        if (i != LM_HEAD)
            status = add(b, i);
    return status == MGPT_OK ? add(b, LM_HEAD) : status;
}

int microgpt_build(struct checkpoint *c, const struct mg_matrix *matrices, size_t n,
                   const struct mg_facts *facts, const struct ckpt_input *in, mgpt_error *err)
{
    static int (*const steps[])(struct build *) = {check_complete, check_shapes,   check_stated,
                                                   set_sizes,      set_vocabulary, settle_dialect,
                                                   add_tensors};
    struct build b = {.c = c, .facts = facts, .in = in, .err = err};
    b.slots = calloc(MG_N_GLOBAL + MG_N_PER_LAYER * CKPT_MAX_LAYERS, sizeof *b.slots);
    if (!b.slots)
        return err_memory(err, "the list of matrices", sizeof *b.slots * MG_N_GLOBAL);
    int status = bind(&b, matrices, n);
    for (size_t i = 0; status == MGPT_OK && i < sizeof steps / sizeof *steps; i++)
        status = steps[i](&b);
    free(b.slots);
    return status;
}
