/* Numbers of models in PyTorch files: stated, given, or inferred. See torch_model.h. */
#include "convert/families/torch_model.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/jval.h"
#include "convert/core/questions.h"
#include "convert/families/tree.h"
#include "kernels/activations.h"

#include <string.h>

/* ---- the file -------------------------------------------------------------------------------- */

pickle_id torch_member(const struct torch_model *m, const char *name)
{
    return pickle_get(&m->file->pickle, m->root, name);
}

/* ---- tensors --------------------------------------------------------------------------------- */

void torch_shape(const struct torch_model *m, const char *name, uint64_t *rows, uint64_t *columns)
{
    const struct state_tensor *t = state_peek(m->state, name);
    if (!t)
        state_missing(m->c, name);
    if (t->n_dims != 2)
        ckpt_stop_tensor(m->c, t->name, "%u dimensions, expected 2", t->n_dims);
    *rows = t->shape[0];
    *columns = t->shape[1];
}

/* By address, or, where a container cannot share storage, by content. */
int torch_same(const struct torch_model *m, const char *a, const char *b)
{
    const struct state_tensor *x = state_peek(m->state, a), *y = state_peek(m->state, b);
    if (!x || !y || x->type != y->type || x->n_dims != y->n_dims ||
        memcmp(x->shape, y->shape, x->n_dims * sizeof *x->shape) != 0 ||
        memcmp(x->strides, y->strides, x->n_dims * sizeof *x->strides) != 0)
        return 0;
    return x->bytes.data == y->bytes.data ||
           (x->bytes.size == y->bytes.size &&
            memcmp(x->bytes.data, y->bytes.data, x->bytes.size) == 0);
}

int torch_tied(struct torch_model *m, const char *head, const char *table)
{
    if (state_has(m->state, head) && !torch_same(m, head, table))
        return 0;
    state_find(m->state, head);
    ckpt_note(m->c, "inferred: the head is the token embedding (tied)");
    return 1;
}

void torch_identity(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (first + i) % (t->dims[0] + 1) == 0 ? 1.0f : 0.0f;
}

void torch_layers(struct torch_model *m, const char *pattern)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_layer = state_count_layers(m->state, pattern);
    if (hp->n_layer > CKPT_MAX_LAYERS)
        ckpt_stop(m->c, "%u layers, expected up to %d", hp->n_layer, CKPT_MAX_LAYERS);
}

void torch_kv_heads(struct torch_model *m, const char *name, uint64_t k_rows)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t hd = hp->n_embd / hp->n_head;
    if (hd % 2 || k_rows == 0 || k_rows % hd || hp->n_head % (k_rows / hd))
        ckpt_stop(m->c,
                  "%s: %llu rows do not form KV heads of width %llu; their number must "
                  "divide %u query heads",
                  name, (unsigned long long)k_rows, (unsigned long long)hd, hp->n_head);
    mg_check_size(m->c, m->side, MG_KV_HEADS, torch_size(m, MG_KV_HEADS, -1), k_rows / hd);
    hp->n_head_kv = (uint32_t)(k_rows / hd);
    hp->n_rot = (uint32_t)hd;
}

/* ---- choices --------------------------------------------------------------------------------- */

void torch_heads_or_ask(struct torch_model *m, int64_t stated, uint32_t published, const char *why)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct ckpt_options *o = m->in->options;
    int64_t dim = torch_size(m, MG_HEAD_DIM, 0);
    int64_t heads = stated > 0 ? stated : torch_size(m, MG_HEADS, 0);
    if (heads <= 0 && dim > 0 && hp->n_embd % (uint64_t)dim == 0)
        heads = hp->n_embd / dim;
    if (o->given & OPT_HEADS)
        heads = o->n_head;
    if (heads <= 0 && published) {
        heads = published;
        ckpt_note(m->c, "inferred: n_head = %u (%s; set it with --heads)", published, why);
    }
    if (heads <= 0) {
        ckpt_ask(m->c, FACT_HEADS);
        hp->n_head = 1;
        return;
    }
    if (heads > hp->n_embd || hp->n_embd % (uint64_t)heads)
        ckpt_stop(m->c, "n_head is %lld, it must divide n_embd = %u", (long long)heads, hp->n_embd);
    ckpt_size(m->c, &hp->n_head, "n_head", (uint64_t)heads);
}

void torch_heads(struct torch_model *m, int64_t stated, uint32_t published, const char *why)
{
    torch_heads_or_ask(m, stated, published, why);
    ckpt_answered(m->c);
}

uint32_t torch_gpt2_heads(const struct torch_model *m)
{
    static const struct {
        uint32_t n_layer, n_embd, n_head;
    } gpt2[] = {{12, 768, 12}, {24, 1024, 16}, {36, 1280, 20}, {48, 1600, 25}};
    const struct ckpt_hparams *hp = &m->c->hp;
    for (size_t i = 0; hp->n_vocab == 50257 && i < sizeof gpt2 / sizeof *gpt2; i++)
        if (gpt2[i].n_layer == hp->n_layer && gpt2[i].n_embd == hp->n_embd)
            return gpt2[i].n_head;
    return 0;
}

void torch_activation(struct torch_model *m, const char *usual, const char *why)
{
    const char *said, *stated = mg_stated_activation(m->c, m->in, &m->parts->facts, &said);
    m->c->hp.activation = stated ? stated : usual;
    if (!m->c->hp.activation)
        ckpt_ask(m->c, FACT_ACTIVATION);
    else if (!stated)
        ckpt_note(m->c, "inferred: activation = %s (%s; set it with --activation)", usual, why);
}

double torch_number(struct torch_model *m, enum ckpt_option option, double given, double fact,
                    const char *what, double usual, const char *whose)
{
    if (m->in->options->given & option)
        return given;
    if (fact >= 0)
        return fact;
    ckpt_note(m->c, "inferred: %s = %g (%s; set it with %s)", what, usual, whose,
              ckpt_option_name(option));
    return usual;
}

/* "eps" alone can be the optimizer's. */
float torch_eps(struct torch_model *m, double usual)
{
    const struct mg_facts *f = &m->parts->facts;
    double fact = f->eps >= 0 || f->trains ? f->eps : f->some_eps;
    return (float)torch_number(m, OPT_EPS, m->in->options->eps, fact, "eps", usual,
                               "the program's");
}

uint64_t torch_context(struct torch_model *m, uint32_t usual, const char *why)
{
    const struct ckpt_options *o = m->in->options;
    int64_t stated = o->given & OPT_CONTEXT ? o->n_ctx : torch_size(m, MG_CONTEXT, 0);
    if (stated > 0)
        return (uint64_t)stated;
    ckpt_note(m->c, "inferred: context = %u (%s; set it with --context)", usual, why);
    return usual;
}

/* ---- facts ----------------------------------------------------------------------------------- */

void torch_facts(struct torch_model *m)
{
    static const char *const first[] = {"model_args", "model_config", "gpt_config"};
    struct tree_file file;
    uint64_t left;
    struct tree root = tree_of_pickle(&file, &left, &m->file->pickle, m->root, m->in->bytes.size);
    m->parts->first_wins = 1;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        tree_facts(m->parts, tree_get(root, first[i]), (struct tree){0}, 0);
    if (m->weights != m->root)
        tree_facts(m->parts, root, (struct tree){.file = &file, .at = m->weights}, 0);
}

int64_t torch_size(const struct torch_model *m, enum mg_size size, int64_t absent)
{
    int64_t v = m->parts->facts.sizes[size];
    return v > 0 ? v : absent;
}

void torch_check_sizes(const struct torch_model *m, enum mg_size last)
{
    for (enum mg_size i = MG_VOCAB; i <= last; i++)
        mg_check_size(m->c, m->side, i, torch_size(m, i, -1), mg_size_of(&m->c->hp, i));
}

/* ---- side files ------------------------------------------------------------------------------ */

const struct jval *torch_json(const struct torch_model *m, const char *const *candidates, size_t n,
                              const char **name)
{
    struct ckpt_side side;
    struct jval_error e;
    if (!ckpt_side(m->c, m->in, 0, candidates, n, &side))
        return NULL;
    *name = ckpt_copy(m->c, side.name, strlen(side.name)); /* the candidates may be gone by then */
    const struct jval *root = jval_read(side.bytes.data, side.bytes.size, 0, NULL, &e);
    if (!root && jval_no_memory(&e, side.bytes.size, m->c->err))
        ckpt_leave(m->c, MGPT_EMEM);
    ckpt_own_json(m->c, root);
    if (!jval_is(root, JVAL_OBJECT))
        ckpt_stop(m->c, "side file %s: not a JSON object", side.name);
    return root;
}

const struct jval *torch_side_facts(struct torch_model *m, const char *const *candidates, size_t n,
                                    const char *member, const char **name)
{
    struct tree_file file;
    uint64_t left;
    const struct jval *root = torch_json(m, candidates, n, name);
    if (!root)
        return NULL;
    const struct jval *inner = member ? jval_get(root, member) : NULL;
    m->parts->first_wins = 1;
    m->side = *name;
    struct tree facts =
        tree_of_json(&file, &left, jval_is(inner, JVAL_OBJECT) ? inner : root, m->in->bytes.size);
    tree_facts(m->parts, facts, (struct tree){0}, 0);
    return root;
}
