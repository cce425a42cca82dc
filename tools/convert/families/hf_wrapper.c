/* Models that also see or hear, of which the text part is read. See hf.h.
 *
 * Their config.json has the text part's in text_config (InternVL: llm_config), or, in older files, next
 * to vision_config. Of a text without images the rest is not used, and positions that count rows and
 * columns of images are the usual ones.
 */
#include "base/mem.h"
#include "convert/families/hf_special.h"

#include <string.h>

#define HF_WRAPPER_MOST 6

struct hf_wrapper {
    const char *model_type, *text_type;  /* the text part's where config.json does not say it */
    int tied;                            /* when tie_word_embeddings is absent */
    const char *others[HF_WRAPPER_MOST]; /* first words of the other parts' tensors */
};

#define LLAVA_PARTS                                                                                \
    {                                                                                              \
        "vision_tower.", "multi_modal_projector.", "mm_projector.", "image_newline"                \
    }
#define SMOL_PARTS                                                                                 \
    {                                                                                              \
        "vision_model.", "connector."                                                              \
    }

static const struct hf_wrapper wrappers[] = {
    {"gemma3", "gemma3_text", 1, {"vision_tower.", "multi_modal_projector."}},
    {"smolvlm", "llama", 0, SMOL_PARTS},
    {"idefics3", "llama", 0, SMOL_PARTS},
    {"qwen2_vl", "qwen2_vl_text", 0, {"visual."}},
    {"qwen2_5_vl", "qwen2_5_vl_text", 0, {"visual."}},
    {"qwen3_vl", "qwen3_vl_text", 0, {"visual."}},
    {"mistral3", "mistral", 1, LLAVA_PARTS},
    {"llava", "llama", 0, LLAVA_PARTS},
    {"llava_next", "llama", 0, LLAVA_PARTS},
    {"llava_onevision", "qwen2", 0, LLAVA_PARTS},
    {"llava_llama", "llama", 0, LLAVA_PARTS},
    {"llava_mistral", "mistral", 0, LLAVA_PARTS},
    {"llava_qwen", "qwen2", 0, LLAVA_PARTS},
    {"internvl", "qwen2", 1, {"vision_tower.", "multi_modal_projector."}},
    {"internvl_chat", NULL, 0, {"vision_model.", "mlp1."}},
    {"qwen2_audio", "qwen2", 0, {"audio_tower.", "multi_modal_projector."}},
};

const char *hf_wrapper_at(size_t i)
{
    return i < HF_COUNT(wrappers) ? wrappers[i].model_type : NULL;
}

const char *hf_wrapper_name(const struct hf_wrapper *w)
{
    return w->model_type;
}

int hf_wrapper_ties(const struct hf_wrapper *w)
{
    return w->tied;
}

_Noreturn static void no_type(struct hf_model *m)
{
    const char *class = json_string_value(json_array_get(hf_get(m, "architectures"), 0));
    const char *type = hf_model_type_of(class);
    if (type)
        hf_stop(m,
                "model_type: missing; with %.40s among its architectures write "
                "\"model_type\": \"%s\"",
                class, type);
    if (hf_get(m, "n_embd") && hf_get(m, "n_head"))
        hf_stop(m, "model_type: missing; for n_embd and n_head of a GPT-2 write "
                   "\"model_type\": \"gpt2\"");
    if (hf_get(m, "num_key_value_heads") && hf_get(m, "rms_norm_eps"))
        hf_stop(m, "model_type: missing; for a Llama write \"model_type\": \"llama\"");
    hf_stop(m, "model_type: missing; write the name that transformers has for the model");
}

void hf_wrapper(struct hf_model *m)
{
    struct hf_config *cfg = &m->cfg;
    const char *whole = cfg->whole_type ? cfg->whole_type : cfg->model_type;
    for (size_t i = 0; whole && i < HF_COUNT(wrappers); i++)
        if (strcmp(wrappers[i].model_type, whole) == 0)
            m->wrapper = &wrappers[i];
    if (m->wrapper && m->wrapper->text_type && (!cfg->whole_type || !cfg->model_type))
        cfg->model_type = m->wrapper->text_type;
    if (!cfg->model_type)
        no_type(m);
}

void hf_skip_other_parts(struct hf_model *m)
{
    uint32_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; m->wrapper && i < arr_len(m->state.tensors); i++) {
        struct state_tensor *t = &m->state.tensors[i];
        for (size_t k = 0; k < HF_WRAPPER_MOST && m->wrapper->others[k]; k++) {
            const char *begin = m->wrapper->others[k];
            if (t->used || strncmp(t->name, begin, strlen(begin)) != 0)
                continue;
            t->used = 1;
            first = first ? first : begin;
            n++;
        }
    }
    if (n > 0)
        ckpt_note(m->c, "ignored: %u tensors of the parts of a %s that are not its text part (%s*)",
                  n, m->wrapper->model_type, first);
}
