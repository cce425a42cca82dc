/* Mapping: the state dict of minGPT and makemore, with nanoGPT's names and a head that is not tied.
 *
 * GELU is the tanh form. The number of heads is a fact of the file or of config.json beside it, as a number
 * or through the name of a model type. The sizes do not tell it: 48 is 3 heads of gpt-nano, or 4.
 */
#include "base/error.h"
#include "convert/families/torch_model.h"

#include <string.h>

#define GPT2_EPS 1e-5

/* minGPT's model types: GPT.__init__ */
static const struct {
    const char *name;
    uint32_t n_head;
} types[] = {
    {"openai-gpt", 12}, {"gpt2", 12},    {"gpt2-medium", 16}, {"gpt2-large", 20}, {"gpt2-xl", 25},
    {"gopher-44m", 8},  {"gpt-mini", 6}, {"gpt-micro", 4},    {"gpt-nano", 3},
};

static int from_mingpt_match(const struct torch_model *m)
{
    uint64_t rows, columns;
    if (!state_has(&m->state, "transformer.wte.weight") ||
        !state_has(&m->state, "transformer.wpe.weight") || !state_has(&m->state, "lm_head.weight"))
        return 0;
    return torch_shape(m, "transformer.h.0.mlp.c_fc.weight", &rows, &columns, NULL) < 0 ||
           rows >= columns;
}

/* {"model": {"n_head": 6, "model_type": "gpt-mini", ...}}, or these keys at the top. */
static int heads_of_json(const json_t *root, int64_t *heads)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *at = json_is(model, JSON_OBJECT) ? model : root;
    const char *type = json_string_value(json_object_get(at, "model_type"));
    *heads = json_integer_value(json_object_get(at, "n_head"));
    for (size_t i = 0; type && *heads <= 0 && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0)
            *heads = types[i].n_head;
    return *heads > 0;
}

static int find_heads(struct torch_model *m, int64_t *heads, mgpt_error *err)
{
    static const char *const candidates[] = {"config.json"};
    const char *name;
    json_t *root;
    int found = torch_json(m, candidates, 1, &root, &name, err);
    if (found > 0 && heads_of_json(root, heads))
        ckpt_note(m->c, "inferred: n_head = %lld (from %s)", (long long)*heads, name);
    json_decref(root);
    return found < 0 ? found : MGPT_OK;
}

/* Settles heads, activation and eps. */
static int from_mingpt_settle(struct torch_model *m, mgpt_error *err)
{
    int64_t heads = 0;
    int status = torch_check_sizes(m, err);
    if (status == MGPT_OK && torch_size(m, MG_HEADS, 0) == 0)
        status = find_heads(m, &heads, err);
    if (status == MGPT_OK)
        status = torch_heads(m, heads, torch_gpt2_heads(m), "GPT-2 of these sizes", err);
    if (status == MGPT_OK)
        status = torch_activation(m, "gelu_tanh", "gelu_tanh", "minGPT's and makemore's", err);
    m->c->hp.norm_eps = torch_eps(m, GPT2_EPS);
    return status;
}

static int from_mingpt_map(struct torch_model *m, mgpt_error *err)
{
    int status = nanogpt_sizes(m, err);
    if (status == MGPT_OK)
        status = from_mingpt_settle(m, err);
    if (status == MGPT_OK)
        status = nanogpt_tensors(m, err);
    return status == MGPT_OK ? torch_vocab(m, NULL, err) : status;
}

const struct torch_mapping mingpt_mapping = {
    "minGPT", OPT_HEADS | OPT_ACTIVATION | OPT_EPS | OPT_TOKENIZER | OPT_NO_TOKENIZER,
    from_mingpt_match, from_mingpt_map};
