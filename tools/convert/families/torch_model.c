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

void torch_layers(struct torch_model *m, const char *pattern)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_layer = state_count_layers(m->state, pattern);
    if (hp->n_layer > CKPT_MAX_LAYERS)
        ckpt_stop(m->c, "%u layers, expected up to %d", hp->n_layer, CKPT_MAX_LAYERS);
}

/* "params.json: n_embd is stated as 5, ..." */
_Noreturn static void stated_otherwise(const struct torch_model *m, enum mg_size size,
                                       int64_t stated, uint64_t found)
{
    ckpt_stop(m->c, "%s%s%s is stated as %lld, the tensors say %llu", m->side ? m->side : "",
              m->side ? ": " : "", mg_size_name(size), (long long)stated,
              (unsigned long long)found);
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
    int64_t stated = torch_size(m, MG_KV_HEADS, -1);
    if (stated >= 0 && (uint64_t)stated != k_rows / hd)
        stated_otherwise(m, MG_KV_HEADS, stated, k_rows / hd);
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
    const struct ckpt_options *o = m->in->options;
    const char *said = o->given & OPT_ACTIVATION ? o->activation : m->parts->facts.activation;
    const char *name = said ? mg_activation(said) : usual;
    int is_option = (o->given & OPT_ACTIVATION) != 0; /* exactly one of the names */
    m->c->hp.activation = name;
    if (said && (!name || (is_option && strcmp(said, name) != 0)))
        ckpt_leave(m->c, err_set(m->c->err, is_option ? MGPT_EARG : MGPT_EFILE, MGPT_NO_OFFSET,
                                 "activation %.*s: expected one of" ACTIVATION_NAMES,
                                 CKPT_CLIP(said, strlen(said))));
    if (!name)
        ckpt_ask(m->c, FACT_ACTIVATION);
    else if (!said)
        ckpt_note(m->c, "inferred: activation = %s (%s; set it with --activation)", usual, why);
}

/* "eps" alone can be the optimizer's. */
float torch_eps(struct torch_model *m, double usual)
{
    const struct ckpt_options *o = m->in->options;
    const struct mg_facts *f = &m->parts->facts;
    if (o->given & OPT_EPS)
        return (float)o->eps;
    if (f->eps >= 0 || (f->some_eps >= 0 && !f->trains))
        return (float)(f->eps >= 0 ? f->eps : f->some_eps);
    ckpt_note(m->c, "inferred: eps = %g (the program's; set it with --eps)", usual);
    return (float)usual;
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
    const struct ckpt_hparams *hp = &m->c->hp;
    const uint64_t found[] = {[MG_VOCAB] = hp->n_vocab,
                              [MG_EMBD] = hp->n_embd,
                              [MG_LAYERS] = hp->n_layer,
                              [MG_CONTEXT] = hp->n_ctx};
    for (enum mg_size i = MG_VOCAB; i <= last; i++) {
        int64_t stated = torch_size(m, i, -1);
        if (stated >= 0 && (uint64_t)stated != found[i])
            stated_otherwise(m, i, stated, found[i]);
    }
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
