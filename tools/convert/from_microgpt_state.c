/* Mapping: microgpt's names in a PyTorch state dict: {"wte": tensor, "layer0.attn_wq": tensor, ...}.
 *
 * Sizes, BOS and vocabulary are taken from the keys around the weights where there are any. Without
 * tensors the dict is of lists, which is what microgpt's own pickles are (pickle_model.c).
 */
#include "error.h"
#include "mem.h"
#include "microgpt.h"
#include "torch_model.h"

static int match(const struct torch_model *m)
{
    return state_has(&m->state, "wte") || state_has(&m->state, "wte.weight") ||
           pickle_get(&m->file.pickle, m->weights, "wte");
}

static int collect(struct torch_model *m, struct mg_parts *parts)
{
    const struct pickle *p = &m->file.pickle;
    int status = mg_add_facts(parts, p, m->root, m->in->bytes.size);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(m->state.tensors); i++)
        status = mg_add_tensor(parts, &m->state.tensors[i]);
    return status;
}

static int map(struct torch_model *m, mgpt_error *err)
{
    const struct pickle *p = &m->file.pickle;
    struct mg_parts parts;
    if (arr_len(m->state.tensors) == 0)
        return microgpt_pickle(m->c, p, m->root, m->in->bytes.size, m->in, err);
    mg_parts_init(&parts, m->c, m->in, err);
    return mg_parts_build(&parts, collect(m, &parts));
}

const struct torch_mapping microgpt_state_mapping = {
    "microgpt",
    OPT_HEADS | OPT_VOCAB_SIZE | OPT_EMBD | OPT_LAYERS | OPT_CONTEXT | OPT_ACTIVATION | OPT_EPS |
        OPT_BOS | OPT_EMBEDDING_NORM | OPT_NO_EMBEDDING_NORM | OPT_FINAL_NORM | OPT_CHARS |
        OPT_ROPE | OPT_POSITIONS,
    match, map};
