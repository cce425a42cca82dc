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
 * A program is certain where a checkpoint holds what only that program writes. Bare state dicts
 * under names that many programs share leave every fact open.
 */
#include "base/mem.h"
#include "convert/core/questions.h"
#include "convert/families/from_gpt.h"
#include "convert/families/gpt_names.h"

#include <string.h>

#define WTE "transformer.wte.weight"
#define WPE "transformer.wpe.weight"
#define LM_HEAD "lm_head.weight"
#define OPTIONS                                                                                    \
    (OPT_HEADS | OPT_ACTIVATION | OPT_EPS | OPT_TOKENIZER | OPT_NO_TOKENIZER | OPT_CHARS |         \
     OPT_BOS | OPT_QK_SCALE | OPT_NORMS | OPT_NORM | OPT_CAUSAL | OPT_EMBEDDING_SCALE |            \
     OPT_ASSUME | OPT_QKV | OPT_BARE | OPT_GATE)

static void put_gpt(void *arg)
{
    struct gpt *g = arg;
    struct state *s = g->m->state;
    gpt_sizes(g);
    torch_check_sizes(g->m, state_has(s, "position_embd.weight") ? MG_CONTEXT : MG_LAYERS);
    gpt_facts(g);
    gpt_tensors(g, g->r->what);
}

static void read_vocab(void *arg)
{
    const struct gpt *g = arg;
    torch_vocab(g->m, g->r->dataset);
}

static void map_gpt(struct torch_model *m, const struct gpt_rules *r)
{
    struct gpt g = {.m = m, .r = r};
    mgpt_error why;
    int status = ckpt_run(m->c, put_gpt, &g, m->c->err);
    /* a vocabulary that cannot be read is told with the open questions, not after them */
    if (m->c->open && ckpt_run(m->c, read_vocab, &g, &why) == MGPT_EFILE)
        m->c->open_also = ckpt_text(m->c, why.text, strlen(why.text));
    ckpt_must(m->c, status);
    torch_vocab(m, r->dataset);
}

/* ---- nanoGPT --------------------------------------------------------------------------------- */

/* nanoGPT's names, and matrices as Linear has them; GPT-2's own files (Conv1D) have them
 * transposed. */
static int has_names(const struct torch_model *m)
{
    const struct state_tensor *up = state_peek(m->state, "transformer.h.0.mlp.c_fc.weight");
    return state_has(m->state, WTE) && state_has(m->state, WPE) &&
           (!up || up->n_dims != 2 || up->shape[0] >= up->shape[1]);
}

static int is_tied(const struct torch_model *m)
{
    return !state_has(m->state, LM_HEAD) || torch_same(m, LM_HEAD, WTE);
}

/* nanoGPT and build-nanogpt tie the head; model_args is nanoGPT's own word for the facts. */
static int match_nanogpt(const struct torch_model *m)
{
    return has_names(m) && (torch_member(m, "model_args") || is_tied(m));
}

/* config["dataset"], where it is a plain name; NULL otherwise. It will be part of a file's name. */
static const char *dataset(struct torch_model *m)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const struct pickle *p = &m->file->pickle;
    struct pickle_node n = pickle_at(p, pickle_get(p, torch_member(m, "config"), "dataset"));
    if (n.kind != PICKLE_TEXT || n.n == 0 || n.n > 64 || n.as.text[0] == '.')
        return NULL;
    char *name = ckpt_text(m->c, n.as.text, n.n);
    return name && strspn(name, plain) == n.n ? name : NULL;
}

/* Nothing in the file tells the activation: nanoGPT had the tanh form of GELU until May 2023, and
 * forks of before are trained with the newest PyTorch; imported GPT-2 and build-nanogpt have it, too.
 * Norms without biases are RMSNorm in some forks. Names of GPT-2 are of norms before the branches
 * and scores by the head's width. */
static void map_nanogpt(struct torch_model *m)
{
    const struct gpt_rules r = {.what = "nanoGPT",
                                .program = "nanogpt",
                                .likely = "nanogpt",
                                .asks = 1U << FACT_ACTIVATION | 1U << FACT_NORM,
                                .dataset = dataset(m)};
    map_gpt(m, &r);
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
    return has_names(m) && state_has(m->state, LM_HEAD);
}

/* {"model": {"n_head": 6, "model_type": "gpt-mini", ...}}, or these keys at the top; 0: neither. */
static int64_t heads_of_json(const struct jval *root)
{
    const struct jval *model = jval_get(root, "model");
    const struct jval *at = jval_is(model, JVAL_OBJECT) ? model : root;
    const char *type = jval_text(jval_get(at, "model_type"));
    int64_t heads = jval_whole(jval_get(at, "n_head"));
    for (size_t i = 0; type && heads <= 0 && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0)
            heads = types[i].n_head;
    return heads > 0 ? heads : 0;
}

/* The number of heads is a fact of the file or of config.json next to it. The sizes do not tell it:
 * 48 is 3 heads of gpt-nano, or 4. */
static void map_mingpt(struct torch_model *m)
{
    static const char *const candidates[] = {"config.json"};
    struct gpt_rules r = {.what = "minGPT",
                          .program = "mingpt",
                          .likely = "mingpt",
                          .why = "minGPT's",
                          .is_published = 1};
    const char *name;
    const struct jval *root = NULL;
    if (!torch_size(m, MG_HEADS, 0))
        root = torch_json(m, candidates, 1, &name);
    r.n_head = heads_of_json(root);
    /* its trainer writes "model" into config.json; llm-viz writes JSON */
    if (!jval_is(jval_get(root, "model"), JVAL_OBJECT) && (strcmp(m->file->container, "JSON") != 0))
        r.asks = 1U << FACT_ACTIVATION | 1U << FACT_NORM;
    if (r.n_head)
        ckpt_note(m->c, "inferred: n_head = %lld (from %s)", (long long)r.n_head, name);
    map_gpt(m, &r);
}

const struct torch_mapping mingpt_mapping = {"minGPT", OPTIONS, match_mingpt, map_mingpt};

/* ---- LLMs-from-scratch ----------------------------------------------------------------------- */

static int match_scratch(const struct torch_model *m)
{
    return state_has(m->state, "tok_emb.weight") && state_has(m->state, "pos_emb.weight") &&
           state_has(m->state, "final_norm.scale") && state_has(m->state, "final_norm.shift");
}

static void map_scratch(struct torch_model *m)
{
    static const struct gpt_rules r = {
        .what = "LLMs-from-scratch GPTModel", .likely = "llms-from-scratch", .is_published = 1};
    map_gpt(m, &r);
}

const struct torch_mapping scratch_mapping = {"LLMs-from-scratch GPTModel", OPTIONS, match_scratch,
                                              map_scratch};

/* ---- other names ----------------------------------------------------------------------------- */

/* Names and shapes that one program alone is known to have. */
static const struct {
    const char *name, *program;
    const char *has[5]; /* tensors, or members of the checkpoint */
} programs[] = {
    {"minGPT of 2020",
     "mingpt-2020",
     {"pos_emb", "blocks.0.attn.query.bias", "blocks.0.attn.mask", "blocks.0.mlp.2.bias",
      "head.weight"}},
    {"SLM 4096",
     "mingpt-2020", /* the same facts */
     {"tok_emb.weight", "blocks.0.attn.c_attn.weight", "blocks.0.mlp.c_fc.weight", "corpus_bytes",
      "model_state"}},
};

static int has_all(const struct torch_model *m, const char *const has[5])
{
    for (size_t i = 0; i < 5; i++)
        if (!state_has(m->state, has[i]) && !torch_member(m, has[i]))
            return 0;
    return 1;
}

/* config.json tells which of them it is. */
int torch_is_hugging_face(const struct state *s)
{
    return state_has(s, "model.layers.0.self_attn.q_proj.weight") ||
           state_has(s, "layers.0.self_attn.q_proj.weight");
}

static int match_gpt(const struct torch_model *m)
{
    enum { TOKENS = 1, ATTENTION = 2, NORM = 4, UP = 8, ALL = 15 };
    int seen = 0;
    for (size_t i = 0; i < arr_len(m->state->tensors); i++) {
        struct gpt_name n;
        if (!gpt_name_read(&m->state->tensors[i], &n))
            continue;
        seen |= n.role == GPT_TOKENS ? TOKENS : 0;
        seen |= n.role == GPT_QKV || n.role == GPT_Q ? ATTENTION : 0;
        seen |= n.role == GPT_UP || n.by_shape ? UP : 0;
        seen |= n.role == GPT_NORM_1 ? NORM : 0;
    }
    /* With one of attention and MLP known, the other's tensors are refused by their names. */
    return (seen | UP) == ALL || (seen | ATTENTION) == ALL ? !torch_is_hugging_face(m->state) : 0;
}

static void map_others(struct torch_model *m)
{
    struct gpt_rules r = {.what = "GPT of these names", .is_published = 1};
    for (size_t i = 0; !r.program && i < sizeof programs / sizeof *programs; i++)
        if (has_all(m, programs[i].has)) {
            r.program = programs[i].program;
            r.why = programs[i].name;
        }
    map_gpt(m, &r);
}

const struct torch_mapping gpt_mapping = {"GPT-2 in other names",
                                          OPTIONS | OPT_POSITIONS | OPT_ROPE | OPT_CONTEXT,
                                          match_gpt, map_others};
