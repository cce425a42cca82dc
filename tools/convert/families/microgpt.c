/* microgpt out of named tensors: binding and shapes. See microgpt.h.
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

const struct state_tensor *mg_at(const struct mg_build *b, enum mg_role role, uint32_t layer)
{
    char alias[STATE_MAX_ROW_NAME];
    state_row_name(alias, mg_roles[role].row.from, &mg_roles[role].row, layer, 0);
    return state_peek(b->state, alias);
}

/* A gain may also be a number or [1, E]. */
static void set_dims(struct mg_build *b, struct state_tensor *t, int is_vector)
{
    if (t->n_dims > 2)
        ckpt_stop_tensor(b->c, t->name, "%u dimensions, expected 1 or 2", t->n_dims);
    uint64_t last = t->n_dims ? t->shape[t->n_dims - 1] : 1;
    if (last == 0 || (t->n_dims && t->shape[0] == 0))
        ckpt_stop_tensor(b->c, t->name, "it has no values");
    if (!is_vector && t->n_dims < 2)
        ckpt_stop_tensor(b->c, t->name, "a list of %llu numbers, expected a matrix",
                         (unsigned long long)last);
    if (is_vector && (t->n_dims == 0 || (t->n_dims == 2 && t->shape[0] == 1))) {
        t->strides[0] = t->n_dims ? t->strides[1] : 1;
        t->shape[0] = last;
        t->n_dims = 1;
    }
}

/* Gives the tensors GGUF's names. */
static void bind(struct mg_build *b)
{
    struct state *s = b->state;
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        struct state_tensor *t = &s->tensors[i];
        char alias[STATE_MAX_ROW_NAME];
        uint32_t layer, *n_layer = &b->c->hp.n_layer;
        int role = mg_recognise(t->name, &layer);
        if (role < 0)
            ckpt_stop_tensor(b->c, t->name,
                             "no microgpt has it (wte, wpe, lm_head, layerN.attn_wq "
                             "wk wv wo, mlp_fc1 fc2)");
        const struct state_row *row = &mg_roles[role].row;
        set_dims(b, t, row->n_out == 0);
        state_row_name(alias, row->from, row, layer, 0);
        t->alias = ckpt_copy(b->c, alias, strlen(alias));
        if (mg_of_layer(role) && layer >= *n_layer)
            *n_layer = layer + 1;
    }
    state_seal(s);
}

_Noreturn static void missing(struct mg_build *b, enum mg_role role, uint32_t layer,
                              const char *why)
{
    char name[32];
    mg_role_name(role, layer, name);
    ckpt_stop(b->c, "tensor %s: missing%s", name, why);
}

/* A layer has all its matrices; the optional ones are there in every layer or in none. */
static void check_layer(struct mg_build *b, uint32_t layer)
{
    for (enum mg_role r = MG_ATTN_NORM; mg_of_layer((int)r); r++) {
        int here = mg_at(b, r, layer) != NULL, first = mg_has(b, r);
        if (!here && !(mg_roles[r].row.flags & STATE_OPTIONAL))
            missing(b, r, layer, "");
        if (!here && first)
            missing(b, r, layer, " (layer 0 has one)");
        if (here && !first)
            missing(b, r, 0, " (a later layer has one)");
    }
}

static void check_complete(struct mg_build *b)
{
    if (!mg_has(b, MG_WTE))
        missing(b, MG_WTE, 0, "");
    for (uint32_t i = 0; i < b->c->hp.n_layer; i++)
        check_layer(b, i);
    if (!mg_has(b, MG_LM_HEAD))
        ckpt_note(b->c, "inferred: no lm_head, so the head is wte (tied)");
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void check_shape(struct mg_build *b, enum mg_role role, uint32_t layer)
{
    const struct state_tensor *t = mg_at(b, role, layer);
    const struct state_row *row = &mg_roles[role].row;
    uint64_t n_out = row->n_out == 'K' ? b->K : row->n_out ? state_size(&b->c->hp, row->n_out) : 0;
    if (t)
        state_check_shape(b->c, t, n_out, state_size(&b->c->hp, row->n_in));
}

static uint64_t find_context(struct mg_build *b)
{
    int64_t stated = mg_stated(b->facts, b->in->options, MG_CONTEXT);
    if (mg_has(b, MG_WPE))
        return mg_at(b, MG_WPE, 0)->shape[0];
    if (stated >= 0)
        return (uint64_t)stated;
    ckpt_note(b->c, "inferred: block_size = %d (no wpe, not stated; set it with --context)",
              DEFAULT_CONTEXT);
    return DEFAULT_CONTEXT;
}

static void check_shapes(struct mg_build *b)
{
    struct ckpt_hparams *hp = &b->c->hp;
    const struct state_tensor *wte = mg_at(b, MG_WTE, 0);
    uint64_t E = wte->shape[1];
    b->K = hp->n_layer ? mg_at(b, MG_WK, 0)->shape[0] : E;
    const struct ckpt_wanted sizes[] = {
        {&hp->n_vocab, "vocab_size", wte->shape[0]},
        {&hp->n_ctx, "block_size", find_context(b)},
        {&hp->n_embd, "n_embd", E},
        {&hp->n_ff, "the hidden width", hp->n_layer ? mg_at(b, MG_FC1, 0)->shape[0] : 4 * E}};
    ckpt_sizes(b->c, sizes, 4);
    for (enum mg_role r = 0; r < MG_N_ROLES; r++)
        for (uint32_t i = 0; i < (mg_of_layer((int)r) ? hp->n_layer : 1); i++)
            check_shape(b, r, i);
}

/* ---- numbers --------------------------------------------------------------------------------- */

const char *mg_size_name(enum mg_size size)
{
    static const char *const names[] = {"vocab_size", "n_embd",   "n_layer",  "block_size",
                                        "n_head",     "head_dim", "n_kv_head"};
    _Static_assert(sizeof names / sizeof *names == MG_N_SIZES, "a row each");
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

void mg_check_size(struct checkpoint *c, const char *side, enum mg_size size, int64_t stated,
                   uint64_t found)
{
    if (stated >= 0 && (uint64_t)stated != found)
        ckpt_stop(c, "%s%s%s is stated as %lld, the tensors say %llu", side ? side : "",
                  side ? ": " : "", mg_size_name(size), (long long)stated,
                  (unsigned long long)found);
}

uint64_t mg_size_of(const struct ckpt_hparams *hp, enum mg_size size)
{
    const uint64_t found[] = {[MG_VOCAB] = hp->n_vocab,
                              [MG_EMBD] = hp->n_embd,
                              [MG_LAYERS] = hp->n_layer,
                              [MG_CONTEXT] = hp->n_ctx};
    return found[size];
}

/* The published program: its sizes, its shapes, no gains and no gate. */
int mg_is_published(const struct mg_build *b)
{
    const struct ckpt_hparams *hp = &b->c->hp;
    return hp->n_embd == 16 && hp->n_layer == 1 && (hp->n_ctx == 16 || hp->n_ctx == 8) &&
           b->K == 16 && hp->n_ff == 64 && mg_has(b, MG_WPE) && mg_has(b, MG_LM_HEAD) &&
           !mg_is_fork(b);
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
    return kv > 0 && b->K < b->c->hp.n_embd && b->K % (uint64_t)kv == 0 ? b->K / (uint64_t)kv : 0;
}

/* n_head, or what follows from the width of a head; -1: neither is stated. */
static int64_t find_heads(struct mg_build *b)
{
    uint64_t dim = stated_head_dim(b), E = b->c->hp.n_embd;
    int64_t heads = mg_stated(b->facts, b->in->options, MG_HEADS);
    if (heads < 0 && (dim || b->facts->sizes[MG_HEAD_DIM] == 0)) {
        if (dim == 0 || E % dim)
            ckpt_stop(b->c, "head_dim is %llu, it must divide n_embd = %llu",
                      (unsigned long long)dim, (unsigned long long)E);
        heads = (int64_t)(E / dim);
        ckpt_note(b->c, "inferred: n_head = %lld (head_dim is %llu)", (long long)heads,
                  (unsigned long long)dim);
    } else if (heads >= 0 && b->facts->sizes[MG_HEAD_DIM] >= 0 &&
               !(b->in->options->given & OPT_HEADS) && (uint64_t)heads * dim != E) {
        ckpt_stop(b->c, "n_head %llu times head_dim %llu is not n_embd = %llu",
                  (unsigned long long)heads, (unsigned long long)dim, (unsigned long long)E);
    }
    return heads;
}

static void microgpt_settle_heads(struct mg_build *b)
{
    int64_t heads = find_heads(b);
    if (heads < 0 && mg_is_published(b)) {
        heads = PUBLISHED_HEADS;
        ckpt_note(b->c, "inferred: n_head = %d (the published program's; set it with --heads)",
                  PUBLISHED_HEADS);
    }
    if (heads < 0 && b->c->hp.n_layer == 0) /* nothing has heads */
        heads = 1;
    if (heads < 0) {
        mg_want(b, "--heads N");
        return;
    }
    if (heads < 1 || b->c->hp.n_embd % (uint64_t)heads)
        ckpt_stop(b->c, "n_head is %llu, it must divide n_embd = %u", (unsigned long long)heads,
                  b->c->hp.n_embd);
    ckpt_size(b->c, &b->c->hp.n_head, "n_head", (uint64_t)heads);
}

void mg_want(struct mg_build *b, const char *option)
{
    size_t n = strlen(b->wanted);
    snprintf(b->wanted + n, sizeof b->wanted - n, "%s%s", n ? ", " : "", option);
}

/* A guess that changes the logits is not made. */
static void check_wanted(struct mg_build *b)
{
    if (*b->wanted)
        ckpt_stop(b->c, "not in the file, and the logits depend on it: set %s", b->wanted);
}

/* Fewer rows in wk and wv than in wq are fewer heads of the same width, each for a group of
 * queries. */
static void settle_kv_heads(struct mg_build *b)
{
    struct ckpt_hparams *hp = &b->c->hp;
    if (hp->n_head == 0) /* wanted */
        return;
    uint64_t head_dim = hp->n_embd / hp->n_head, kv = b->K / head_dim;
    int64_t stated = b->facts->sizes[MG_KV_HEADS];
    if (stated >= 0 && (uint64_t)stated * head_dim != b->K && hp->n_layer > 0)
        ckpt_stop(b->c, "%lld KV heads are stated, attn_wk has %llu rows for heads of %llu",
                  (long long)stated, (unsigned long long)b->K, (unsigned long long)head_dim);
    if (b->K == hp->n_embd)
        return;
    if (b->K % head_dim || hp->n_head % kv)
        ckpt_stop(b->c, "attn_wk has %llu rows, which %u heads of %llu cannot share",
                  (unsigned long long)b->K, hp->n_head, (unsigned long long)head_dim);
    ckpt_size(b->c, &hp->n_head_kv, "the number of KV heads", kv);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Adds a gain of ones for the layers' norms that have none: architecture "llama" needs one. */
static void add_ones(struct mg_build *b)
{
    uint32_t n = b->c->hp.n_embd;
    float *values = ckpt_new(b->c, n, sizeof *values);
    struct state_tensor one = mg_flat((const uint8_t *)values, 0, n, STATE_F32);
    for (uint32_t i = 0; i < n; i++)
        values[i] = 1;
    for (enum mg_role r = MG_ATTN_NORM; mg_of_layer((int)r); r++)
        for (uint32_t i = 0; mg_roles[r].row.n_out == 0 && i < b->c->hp.n_layer; i++) {
            char name[STATE_MAX_ROW_NAME];
            state_row_name(name, mg_roles[r].row.from, &mg_roles[r].row, i, 0);
            if (!mg_at(b, r, i))
                state_add(b->state, name, strlen(name), one);
        }
    state_seal(b->state);
}

static void add_tensors(struct mg_build *b)
{
    const struct ckpt_hparams *hp = &b->c->hp;
    struct state_row rows[MG_N_ROLES];
    for (enum mg_role r = 0; r < MG_N_ROLES; r++)
        rows[r] = mg_roles[r].row;
    if (b->positions == MG_POS_HALF) {
        if (hp->n_layer && hp->n_embd / hp->n_head % 2)
            ckpt_stop(b->c, "heads of %u values cannot be rotated in pairs",
                      hp->n_embd / hp->n_head);
        rows[MG_WQ].flags = rows[MG_WK].flags = STATE_PAIRS;
    }
    if (b->positions == MG_POS_HALF || b->positions == MG_POS_ADJACENT)
        add_ones(b);
    state_map(b->state, rows, MG_N_ROLES);
}

void microgpt_build(struct mg_parts *m, struct state *s)
{
    struct mg_build b = {.c = m->c, .state = s, .facts = &m->facts, .in = m->in};
    m->facts.entries = m->entries;
    m->facts.n_entries = arr_len(m->entries);
    bind(&b);
    check_complete(&b);
    mg_settle_positions(&b);
    check_shapes(&b);
    for (enum mg_size i = MG_VOCAB; i <= MG_CONTEXT; i++)
        mg_check_size(m->c, NULL, i, mg_stated(&m->facts, m->in->options, i),
                      mg_size_of(&m->c->hp, i));
    microgpt_settle_heads(&b);
    settle_kv_heads(&b);
    mg_settle_vocabulary(&b);
    mg_settle_dialect(&b);
    check_wanted(&b);
    add_tensors(&b);
}
