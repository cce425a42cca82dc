/* Models that also see or hear, of which the text part is read. See hf.h.
 *
 * Their config.json has the text part's in text_config (InternVL: llm_config), or, in older files, next
 * to vision_config. Of a text without images the rest is not used, and positions that count rows and
 * columns of images are the usual ones.
 */
#include "base/mem.h"
#include "convert/families/hf_special.h"

#include <string.h>

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
    for (size_t i = 0; whole && hf_wrapper_at(i); i++)
        if (strcmp(hf_wrapper_at(i)->model_type, whole) == 0)
            m->wrapper = hf_wrapper_at(i);
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
        for (size_t k = 0; k < HF_COUNT(m->wrapper->others) && m->wrapper->others[k]; k++) {
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
