/* microgpt out of named matrices: binding and shapes. See microgpt.h.
 *
 * No size is taken from the file's facts unchecked: wte gives the vocabulary and the width, wpe the
 * context, fc1 the hidden width, wk the heads of keys and values, the names the number of layers;
 * every other shape, and every size that the file or the user states, must agree. A matrix that has
 * no place in the model is refused by name: what is silently left out is how a model runs wrongly.
 */
#include "convert/families/microgpt_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLISHED_HEADS 4
#define DEFAULT_CONTEXT 2048 /* where rotation sets no limit and the file none */

/* ---- binding --------------------------------------------------------------------------------- */

static int bind(struct mg_build *b, const struct mg_matrix *matrices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = matrices[i].name;
        uint32_t layer;
        int role = mg_recognise(name, &layer);
        if (role < 0)
            return ckpt_refuse_tensor(b->err, name,
                                      "not part of a microgpt (wte, wpe, lm_head, layerN.attn_wq "
                                      "wk wv wo, mlp_fc1 fc2)");
        const struct mg_matrix **slot = &b->slots[mg_slot((enum mg_role)role, layer)];
        if (*slot)
            return ckpt_refuse_tensor(b->err, name, "the same matrix as %.*s",
                                      CKPT_CLIP((*slot)->name, strlen((*slot)->name)));
        *slot = &matrices[i];
        if (role >= MG_OF_LAYER && layer >= b->n_layer)
            b->n_layer = layer + 1;
    }
    return MGPT_OK;
}

static int missing(struct mg_build *b, enum mg_role role, uint32_t layer, const char *why)
{
    char name[32];
    mg_role_name(role, layer, name);
    return ckpt_refuse(b->err, "tensor %s: missing%s", name, why);
}

/* A layer has all its matrices; the optional ones are there in every layer or in none. */
static int check_layer(struct mg_build *b, uint32_t layer)
{
    for (enum mg_role r = MG_OF_LAYER; r < MG_N_ROLES; r++) {
        int here = mg_at(b, r, layer) != NULL, first = mg_at(b, r, 0) != NULL;
        if (!here && !mg_roles[r].optional)
            return missing(b, r, layer, "");
        if (!here && first)
            return missing(b, r, layer, " (layer 0 has one)");
        if (here && !first)
            return missing(b, r, 0, " (a later layer has one)");
    }
    return MGPT_OK;
}

static int check_complete(struct mg_build *b)
{
    if (!mg_has(b, MG_WTE))
        return missing(b, MG_WTE, 0, "");
    for (uint32_t i = 0; i < b->n_layer; i++)
        if (check_layer(b, i) < 0)
            return MGPT_EFILE;
    if (!mg_has(b, MG_LM_HEAD))
        ckpt_note(b->c, "inferred: no lm_head, so the head is wte (tied)");
    return MGPT_OK;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static uint64_t microgpt_size_of(const struct mg_build *b, char letter)
{
    switch (letter) {
    case 'V':
        return b->V;
    case 'T':
        return b->T;
    case 'F':
        return b->F;
    case 'K':
        return b->K;
    case 'E':
        return b->E;
    default:
        return 0;
    }
}

/* "[3, 4]", "[4]" */
static void print_shape(char buf[64], uint64_t rows, uint64_t cols)
{
    if (rows)
        snprintf(buf, 64, "[%llu, %llu]", (unsigned long long)rows, (unsigned long long)cols);
    else
        snprintf(buf, 64, "[%llu]", (unsigned long long)cols);
}

static int check_shape(struct mg_build *b, enum mg_role role, uint32_t layer)
{
    const struct mg_matrix *m = mg_at(b, role, layer);
    uint64_t rows = microgpt_size_of(b, mg_roles[role].rows),
             cols = microgpt_size_of(b, mg_roles[role].cols);
    char found[64], expected[64];
    int is_vector = mg_roles[role].rows == 0;
    if (!m || (m->cols == cols && (is_vector ? m->rows <= 1 : m->rows == rows && rows > 0)))
        return MGPT_OK;
    if (!is_vector && m->rows == 0)
        return ckpt_refuse_tensor(b->err, m->name, "a list of %llu numbers, expected a matrix",
                                  (unsigned long long)m->cols);
    print_shape(found, m->rows, m->cols);
    print_shape(expected, rows, cols);
    return ckpt_refuse_tensor(b->err, m->name, "shape %s, expected %s", found, expected);
}

static void settle_context(struct mg_build *b)
{
    int64_t stated = mg_stated(b->facts, b->in->options, MG_CONTEXT);
    if (mg_has(b, MG_WPE)) {
        b->T = mg_at(b, MG_WPE, 0)->rows;
    } else if (stated >= 0) {
        b->T = (uint64_t)stated;
    } else {
        b->T = DEFAULT_CONTEXT;
        ckpt_note(b->c, "inferred: block_size = %d (no wpe, not stated; set it with --context)",
                  DEFAULT_CONTEXT);
    }
}

static int check_shapes(struct mg_build *b)
{
    b->V = mg_at(b, MG_WTE, 0)->rows;
    b->E = mg_at(b, MG_WTE, 0)->cols;
    b->F = b->n_layer ? mg_at(b, MG_FC1, 0)->rows : 4 * b->E;
    b->K = b->n_layer ? mg_at(b, MG_WK, 0)->rows : b->E;
    settle_context(b);
    for (enum mg_role r = 0; r < MG_OF_LAYER; r++)
        if (check_shape(b, r, 0) < 0)
            return MGPT_EFILE;
    for (uint32_t i = 0; i < b->n_layer; i++)
        for (enum mg_role r = MG_OF_LAYER; r < MG_N_ROLES; r++)
            if (check_shape(b, r, i) < 0)
                return MGPT_EFILE;
    return MGPT_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

const char *mg_size_name(enum mg_size size)
{
    static const char *const names[MG_N_SIZES] = {
        "vocab_size", "n_embd", "n_layer", "block_size", "n_head", "head_dim", "n_kv_head"};
    return names[size];
}

void mg_facts_init(struct mg_facts *facts)
{
    *facts = (struct mg_facts){.bos = -1,
                               .eps = -1,
                               .rope_base = -1,
                               .softcap = -1,
                               .some_eps = -1,
                               .embedding_norm = -1,
                               .final_norm = -1,
                               .bias = -1};
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
static int check_stated(struct mg_build *b)
{
    const uint64_t found[] = {
        [MG_VOCAB] = b->V, [MG_EMBD] = b->E, [MG_LAYERS] = b->n_layer, [MG_CONTEXT] = b->T};
    for (enum mg_size i = MG_VOCAB; i <= MG_CONTEXT; i++) {
        int64_t stated = mg_stated(b->facts, b->in->options, i);
        if (stated >= 0 && (uint64_t)stated != found[i])
            return ckpt_refuse(b->err, "%s is stated as %llu, the matrices say %llu",
                               mg_size_name(i), (unsigned long long)stated,
                               (unsigned long long)found[i]);
    }
    return MGPT_OK;
}

/* The published program: its sizes, its shapes, no gains and no gate. */
int mg_is_published(const struct mg_build *b)
{
    return b->E == 16 && b->n_layer == 1 && (b->T == 16 || b->T == 8) && b->K == b->E &&
           b->F == 4 * b->E && mg_has(b, MG_WPE) && mg_has(b, MG_LM_HEAD) && !mg_is_fork(b);
}

int mg_is_fork(const struct mg_build *b)
{
    return mg_has(b, MG_ATTN_NORM) || mg_has(b, MG_FINAL_NORM) || mg_has(b, MG_GATE) ||
           !mg_has(b, MG_WPE);
}

/* The width of a head by what the file says of it; 0: nothing. */
static uint64_t stated_head_dim(const struct mg_build *b)
{
    int64_t dim = b->facts->sizes[MG_HEAD_DIM], kv = b->facts->sizes[MG_KV_HEADS];
    if (dim >= 0)
        return (uint64_t)dim;
    return kv > 0 && b->K < b->E && b->K % (uint64_t)kv == 0 ? b->K / (uint64_t)kv : 0;
}

/* n_head, or what follows from the width of a head; -1: neither is stated. */
static int find_heads(struct mg_build *b, int64_t *heads)
{
    uint64_t dim = stated_head_dim(b);
    *heads = mg_stated(b->facts, b->in->options, MG_HEADS);
    if (*heads < 0 && (dim || b->facts->sizes[MG_HEAD_DIM] == 0)) {
        if (dim == 0 || b->E % dim)
            return ckpt_refuse(b->err, "head_dim is %llu, it must divide n_embd = %llu",
                               (unsigned long long)dim, (unsigned long long)b->E);
        *heads = (int64_t)(b->E / dim);
        ckpt_note(b->c, "inferred: n_head = %lld (head_dim is %llu)", (long long)*heads,
                  (unsigned long long)dim);
    } else if (*heads >= 0 && b->facts->sizes[MG_HEAD_DIM] >= 0 &&
               !(b->in->options->given & OPT_HEADS) && (uint64_t)*heads * dim != b->E) {
        return ckpt_refuse(b->err, "n_head %llu times head_dim %llu is not n_embd = %llu",
                           (unsigned long long)*heads, (unsigned long long)dim,
                           (unsigned long long)b->E);
    }
    return MGPT_OK;
}

static int microgpt_settle_heads(struct mg_build *b)
{
    int64_t heads;
    if (find_heads(b, &heads) < 0)
        return MGPT_EFILE;
    if (heads < 0 && mg_is_published(b)) {
        heads = PUBLISHED_HEADS;
        ckpt_note(b->c, "inferred: n_head = %d (the published program's; set it with --heads)",
                  PUBLISHED_HEADS);
    }
    if (heads < 0 && b->n_layer == 0) /* nothing has heads */
        heads = 1;
    if (heads < 0) {
        mg_want(b, "--heads N");
        return MGPT_OK;
    }
    if (heads < 1 || b->E % (uint64_t)heads)
        return ckpt_refuse(b->err, "n_head is %llu, it must divide n_embd = %llu",
                           (unsigned long long)heads, (unsigned long long)b->E);
    return ckpt_size(&b->c->hp.n_head, "n_head", (uint64_t)heads, b->err);
}

void mg_want(struct mg_build *b, const char *option)
{
    size_t n = strlen(b->wanted);
    snprintf(b->wanted + n, sizeof b->wanted - n, "%s%s", n ? ", " : "", option);
}

/* A guess that changes the logits is not made. */
static int check_wanted(struct mg_build *b)
{
    if (!*b->wanted)
        return MGPT_OK;
    return ckpt_refuse(b->err, "not in the file, and the logits depend on it: set %s", b->wanted);
}

/* Fewer rows in wk and wv than in wq are fewer heads of the same width, each for a group of
 * queries. */
static int settle_kv_heads(struct mg_build *b)
{
    uint64_t heads = b->c->hp.n_head;
    if (heads == 0) /* wanted */
        return MGPT_OK;
    uint64_t head_dim = b->E / heads, kv = b->K / head_dim;
    int64_t stated = b->facts->sizes[MG_KV_HEADS];
    if (stated >= 0 && (uint64_t)stated * head_dim != b->K && b->n_layer > 0)
        return ckpt_refuse(
            b->err, "%lld KV heads are stated, attn_wk has %llu rows for heads of %llu",
            (long long)stated, (unsigned long long)b->K, (unsigned long long)head_dim);
    if (b->K == b->E)
        return MGPT_OK;
    if (b->K % head_dim || heads % kv)
        return ckpt_refuse(b->err, "attn_wk has %llu rows, which %llu heads of %llu cannot share",
                           (unsigned long long)b->K, (unsigned long long)heads,
                           (unsigned long long)head_dim);
    return ckpt_size(&b->c->hp.n_head_kv, "the number of KV heads", kv, b->err);
}

static int set_sizes(struct mg_build *b)
{
    struct ckpt_hparams *hp = &b->c->hp;
    const struct ckpt_wanted sizes[] = {{&hp->n_vocab, "vocab_size", b->V},
                                        {&hp->n_ctx, "block_size", b->T},
                                        {&hp->n_embd, "n_embd", b->E},
                                        {&hp->n_ff, "the hidden width", b->F}};
    hp->n_layer = b->n_layer;
    if (ckpt_sizes(sizes, 4, b->err) < 0)
        return MGPT_EFILE;
    return microgpt_settle_heads(b) < 0 ? MGPT_EFILE : settle_kv_heads(b);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int microgpt_add(struct mg_build *b, enum mg_role role, uint32_t layer)
{
    const struct mg_matrix *m = mg_at(b, role, layer);
    const struct mg_role_row *row = &mg_roles[role];
    char name[CKPT_MAX_NAME + 1];
    if (role < MG_OF_LAYER)
        snprintf(name, sizeof name, "%s", row->gguf);
    else
        snprintf(name, sizeof name, "blk.%u.%s", layer, row->gguf);
    int rotates = b->positions == MG_POS_HALF || b->positions == MG_POS_ADJACENT;
    if (!m && row->rows == 0 && rotates)
        return mg_add_ones(b, name);
    if (!m)
        return MGPT_OK;
    if (b->positions == MG_POS_HALF && (role == MG_WQ || role == MG_WK))
        return mg_add_rotated(b, name, m);
    struct ckpt_tensor from = {
        .type = m->type, .bytes = m->bytes, .values = m->values, .source = m->source, .at = m->at};
    return ckpt_add(b->c, name, m->cols, row->rows ? m->rows : 0, from, b->err);
}

/* Everything in order, the final norm and the head last, as llama.cpp's converter has it. */
static int add_tensors(struct mg_build *b)
{
    int status = microgpt_add(b, MG_WTE, 0);
    if (status == MGPT_OK)
        status = microgpt_add(b, MG_WPE, 0);
    for (uint32_t i = 0; i < b->n_layer; i++)
        for (enum mg_role r = MG_OF_LAYER; r < MG_N_ROLES && status == MGPT_OK; r++)
            status = microgpt_add(b, r, i);
    if (status == MGPT_OK)
        status = microgpt_add(b, MG_FINAL_NORM, 0);
    return status == MGPT_OK ? microgpt_add(b, MG_LM_HEAD, 0) : status;
}

int microgpt_build(struct checkpoint *c, const struct mg_matrix *matrices, size_t n,
                   const struct mg_facts *facts, const struct ckpt_input *in, mgpt_error *err)
{
    static int (*const steps[])(struct mg_build *) = {
        check_complete,       mg_settle_positions, check_shapes, check_stated, set_sizes,
        mg_settle_vocabulary, mg_settle_dialect,   check_wanted, add_tensors};
    struct mg_build b = {.c = c, .facts = facts, .in = in, .err = err};
    size_t n_slots = mg_slot(MG_N_ROLES - 1, CKPT_MAX_LAYERS - 1) + 1;
    b.slots = calloc(n_slots, sizeof *b.slots);
    if (!b.slots)
        return err_memory(err, "the list of matrices", n_slots * sizeof *b.slots);
    int status = bind(&b, matrices, n);
    for (size_t i = 0; status == MGPT_OK && i < sizeof steps / sizeof *steps; i++)
        status = steps[i](&b);
    free(b.slots);
    return status;
}
