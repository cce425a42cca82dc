/* Mapping: microgpt's names in a PyTorch state dict: {"wte": tensor, "layer0.attn_wq": tensor,
 * ...}.
 *
 * Sizes, BOS and vocabulary are taken from the keys around the weights where there are any. Without
 * tensors the dict is of lists, which is what microgpt's own pickles are (pickle_model.c).
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/microgpt_impl.h"
#include "convert/families/torch_model.h"

#include <string.h>

/* nanoGPT's and GPT-2's fused projections are other models. */
static int from_microgpt_state_match(const struct torch_model *m)
{
    uint32_t layer;
    int has_wte = pickle_get(&m->file->pickle, m->weights, "wte") != 0;
    for (size_t i = 0; i < arr_len(m->state->tensors); i++) {
        has_wte |= mg_recognise(m->state->tensors[i].name, &layer) == MG_WTE;
        if (strstr(m->state->tensors[i].name, "c_attn"))
            return 0;
    }
    return has_wte;
}

static void from_microgpt_state_map(struct torch_model *m)
{
    if (arr_len(m->state->tensors))
        microgpt_build(m->parts, m->state);
    else
        microgpt_pickle(m->c, &m->file->pickle, m->root, m->in);
}

const struct torch_mapping microgpt_state_mapping = {
    "microgpt",
    OPT_HEADS | OPT_VOCAB_SIZE | OPT_EMBD | OPT_LAYERS | OPT_CONTEXT | OPT_ACTIVATION | OPT_EPS |
        OPT_BOS | OPT_EMBEDDING_NORM | OPT_NO_EMBEDDING_NORM | OPT_FINAL_NORM | OPT_CHARS |
        OPT_ROPE | OPT_POSITIONS,
    from_microgpt_state_match, from_microgpt_state_map};
