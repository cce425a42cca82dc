/* Mappings: programs whose models are a GPT-2. Their tensors are from_gpt.c's; here is what the
 * names do not say.
 *
 *     nanoGPT            {"model": state dict, "model_args": {n_layer, n_head, ...},
 *                         "config": {"dataset": ...}}
 *     build-nanogpt      {"model": state dict, "config": GPTConfig object}
 *     minGPT, makemore   a bare state dict with nanoGPT's names and a head that is not tied
 *     LLMs-from-scratch  the book's GPTModel: a bare state dict, or {"model_state_dict": ...}
 *     in other names     ng-video-lecture, minGPT of 2020, SLM 4096 and their like
 *
 * Norms without biases under other names may be RMSNorm: such names are left to microgpt's mapping.
 */
#include "base/mem.h"
#include "convert/families/from_gpt.h"
#include "convert/families/gpt_names.h"

#include <math.h>
#include <string.h>

#define GPT2_EPS 1e-5
#define WTE "transformer.wte.weight"
#define WPE "transformer.wpe.weight"
#define LM_HEAD "lm_head.weight"
#define OPTIONS (OPT_HEADS | OPT_ACTIVATION | OPT_EPS | OPT_TOKENIZER | OPT_NO_TOKENIZER)

struct gpt_rules {
    const char *what;             /* the program, for errors */
    const char *activation, *why; /* the program's, NULL: an error asks for it */
    int64_t n_head;               /* stated outside the tensors' file; 0: not */
    int is_published;             /* the sizes of GPT-2 tell its heads */
    const char *dataset;          /* where the vocabulary is; NULL: unknown */
};

static int settle_heads(const struct gpt *g, const struct gpt_rules *r, mgpt_error *err)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    int64_t stated = g->n_part_heads ? g->n_part_heads : r->n_head;
    uint32_t published = r->is_published ? torch_gpt2_heads(g->m) : 0;
    int status = torch_heads(g->m, stated, published, "GPT-2 of these sizes", err);
    if (status == MGPT_OK && g->n_part_heads && hp->n_head != g->n_part_heads)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%u heads are wanted, the file has %u",
                       hp->n_head, g->n_part_heads);
    return status;
}

/* ng-video-lecture divided by the root of another number at first, and the file does not say
 * which. */
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

static int map_gpt(struct torch_model *m, const struct gpt_rules *r, mgpt_error *err)
{
    struct gpt g = {.m = m};
    int status = gpt_sizes(&g, err);
    if (status == MGPT_OK)
        status = torch_check_sizes(m, MG_CONTEXT, err);
    if (status == MGPT_OK)
        status = settle_heads(&g, r, err);
    if (status == MGPT_OK)
        status = torch_activation(m, r->activation, "gelu_tanh", r->why, err);
    if (status < 0)
        return status;
    m->c->hp.norm_eps = torch_eps(m, GPT2_EPS);
    settle_scale(&g);
    status = gpt_tensors(&g, r->what, err);
    return status < 0 ? status : torch_vocab(m, r->dataset, err);
}

/* ---- nanoGPT --------------------------------------------------------------------------------- */

/* nanoGPT's names, and matrices as Linear has them; GPT-2's own files (Conv1D) have them
 * transposed. */
static int has_names(const struct torch_model *m)
{
    const struct state_tensor *up = state_peek(&m->state, "transformer.h.0.mlp.c_fc.weight");
    return state_has(&m->state, WTE) && state_has(&m->state, WPE) &&
           (!up || up->n_dims != 2 || up->shape[0] >= up->shape[1]);
}

static int is_tied(const struct torch_model *m)
{
    return !state_has(&m->state, LM_HEAD) || torch_same(m, LM_HEAD, WTE);
}

/* nanoGPT and build-nanogpt tie the head; model_args is nanoGPT's own word for the facts. */
static int match_nanogpt(const struct torch_model *m)
{
    return has_names(m) && (torch_member(m, "model_args") || is_tied(m));
}

/* build-nanogpt keeps its configuration as an object with attributes. */
static int is_object(const struct torch_model *m)
{
    static const char *const names[] = {"model_args", "config", "model_config", "gpt_config"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pickle_id id = torch_member(m, names[i]);
        if (pickle_get(&m->file.pickle, id, "n_head"))
            return pickle_at(&m->file.pickle, id)->kind == PICKLE_OBJECT;
    }
    return 0;
}

/* config["dataset"], where it is a plain name; NULL otherwise. It will be part of a file's name. */
static const char *dataset(struct torch_model *m)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const struct pickle *p = &m->file.pickle;
    const struct pickle_node *n = pickle_at(p, pickle_get(p, torch_member(m, "config"), "dataset"));
    if (n->kind != PICKLE_TEXT || n->n == 0 || n->n > 64 || n->as.text[0] == '.')
        return NULL;
    char *name = ckpt_text(m->c, n->as.text, n->n);
    return name && strspn(name, plain) == n->n ? name : NULL;
}

/* nanoGPT's GELU is the exact one since May 2023; before, and in build-nanogpt, it is the tanh
 * form. */
static int map_nanogpt(struct torch_model *m, mgpt_error *err)
{
    struct gpt_rules r = {.what = "nanoGPT", .dataset = dataset(m)};
    r.activation = "gelu_erf";
    r.why = "nanoGPT's since May 2023; before, and for imported GPT-2: gelu_tanh";
    if (is_object(m)) {
        r.activation = "gelu_tanh";
        r.why = "build-nanogpt's";
    } else if (!is_tied(m)) {
        r.activation = NULL;
        r.why = "nanoGPT ties the head, this does not";
    }
    return map_gpt(m, &r, err);
}

const struct torch_mapping nanogpt_mapping = {"nanoGPT", OPTIONS, match_nanogpt, map_nanogpt};

/* ---- minGPT ---------------------------------------------------------------------------------- */

/* minGPT's model types: GPT.__init__ */
static const struct {
    const char *name;
    uint32_t n_head;
} types[] = {
    {"openai-gpt", 12}, {"gpt2", 12},    {"gpt2-medium", 16}, {"gpt2-large", 20}, {"gpt2-xl", 25},
    {"gopher-44m", 8},  {"gpt-mini", 6}, {"gpt-micro", 4},    {"gpt-nano", 3},
};

static int match_mingpt(const struct torch_model *m)
{
    return has_names(m) && state_has(&m->state, LM_HEAD);
}

/* {"model": {"n_head": 6, "model_type": "gpt-mini", ...}}, or these keys at the top; 0: neither. */
static int64_t heads_of_json(const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *at = json_is(model, JSON_OBJECT) ? model : root;
    const char *type = json_string_value(json_object_get(at, "model_type"));
    int64_t heads = json_integer_value(json_object_get(at, "n_head"));
    for (size_t i = 0; type && heads <= 0 && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0)
            heads = types[i].n_head;
    return heads > 0 ? heads : 0;
}

/* The number of heads is a fact of the file or of config.json next to it. The sizes do not tell it:
 * 48 is 3 heads of gpt-nano, or 4. */
static int map_mingpt(struct torch_model *m, mgpt_error *err)
{
    static const char *const candidates[] = {"config.json"};
    struct gpt_rules r = {.what = "minGPT",
                          .activation = "gelu_tanh",
                          .why = "minGPT's and makemore's",
                          .is_published = 1};
    const char *name;
    json_t *root = NULL;
    int found = torch_size(m, MG_HEADS, 0) ? 0 : torch_json(m, candidates, 1, &root, &name, err);
    r.n_head = heads_of_json(root);
    json_decref(root);
    if (r.n_head)
        ckpt_note(m->c, "inferred: n_head = %lld (from %s)", (long long)r.n_head, name);
    return found < 0 ? found : map_gpt(m, &r, err);
}

const struct torch_mapping mingpt_mapping = {"minGPT", OPTIONS, match_mingpt, map_mingpt};

/* ---- LLMs-from-scratch ----------------------------------------------------------------------- */

static int match_scratch(const struct torch_model *m)
{
    return state_has(&m->state, "tok_emb.weight") && state_has(&m->state, "final_norm.scale") &&
           state_has(&m->state, "final_norm.shift");
}

static int map_scratch(struct torch_model *m, mgpt_error *err)
{
    static const struct gpt_rules r = {.what = "LLMs-from-scratch GPTModel",
                                       .activation = "gelu_tanh",
                                       .why = "the book's",
                                       .is_published = 1};
    return map_gpt(m, &r, err);
}

const struct torch_mapping scratch_mapping = {"LLMs-from-scratch GPTModel", OPTIONS, match_scratch,
                                              map_scratch};

/* ---- other names ----------------------------------------------------------------------------- */

/* A program whose names are its own: what it does that is in no file. */
static const struct {
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

static int match_gpt(const struct torch_model *m)
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

static int map_others(struct torch_model *m, mgpt_error *err)
{
    struct gpt_rules r = {
        .what = "GPT of these names", .why = "names of several programs", .is_published = 1};
    const struct state *s = &m->state;
    for (size_t i = 0; !r.activation && i < sizeof programs / sizeof *programs; i++)
        if (state_has(s, programs[i].token) && state_has(s, programs[i].query) &&
            state_has(s, programs[i].up)) {
            r.activation = programs[i].activation;
            r.why = programs[i].name;
        }
    return map_gpt(m, &r, err);
}

const struct torch_mapping gpt_mapping = {"GPT-2 in other names", OPTIONS | OPT_QK_SCALE, match_gpt,
                                          map_others};
