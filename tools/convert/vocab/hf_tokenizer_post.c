/* tokenizer.json: the tokens that post-processors add to texts. BOS and EOS are all that a model file
 * can say; more tokens are refused. */
#include "convert/vocab/hf_steps_impl.h"

#include <stdio.h>
#include <string.h>

static int post_is(const json_t *object, const char *type)
{
    return strcmp(steps_string(object, "type"), type) == 0;
}

int hf_tok_parts(const struct hf_tok *t, const json_t *root, const char *key, const char *members,
                 const json_t *parts[HF_TOK_PARTS], mgpt_error *err)
{
    const json_t *component = hf_value(root, key);
    const json_t *list =
        post_is(component, "Sequence") ? json_object_get(component, members) : NULL;
    size_t n = list ? json_array_size(list) : component != NULL;
    if (n > HF_TOK_PARTS)
        return hf_tok_refuse(t, key, "too many parts", err);
    for (size_t i = 0; i < n; i++)
        parts[i] = list ? json_array_get(list, i) : component;
    return (int)n;
}

static int refuse_post(const struct hf_tok *t, const json_t *part, mgpt_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "post_processor %.40s", steps_string(part, "type"));
    return hf_tok_refuse(t, name, "not supported here", err);
}

/* TemplateProcessing: special tokens around the text, at most one on each side. */
static int read_single(struct hf_tok *t, const json_t *part, mgpt_error *err)
{
    const json_t *single = json_object_get(part, "single");
    int seen = 0;
    t->has_post = 1;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        const char *text = steps_string(special, "id"), **to = seen ? &t->last : &t->first;
        if (!special) {
            seen = 1;
            continue;
        }
        if (*to || !*text)
            return hf_tok_refuse(t, "post_processor", "more than one token on a side", err);
        *to = text;
    }
    return MGPT_OK;
}

/* BertProcessing and RobertaProcessing: [text, id] before and after texts. */
static int read_frame_of(struct hf_tok *t, const json_t *part, mgpt_error *err)
{
    t->has_post = 1;
    t->first = json_string_value(json_array_get(json_object_get(part, "cls"), 0));
    t->last = json_string_value(json_array_get(json_object_get(part, "sep"), 0));
    return t->first && t->last ? MGPT_OK
                               : hf_tok_refuse(t, "post_processor", "no cls or sep token", err);
}

int hf_tok_post(struct hf_tok *t, const json_t *root, mgpt_error *err)
{
    const json_t *parts[HF_TOK_PARTS];
    int n = hf_tok_parts(t, root, "post_processor", "processors", parts, err);
    int status = n < 0 ? n : MGPT_OK;
    for (int i = 0; i < n && status == MGPT_OK; i++) {
        if (post_is(parts[i], "TemplateProcessing"))
            status = read_single(t, parts[i], err);
        else if (post_is(parts[i], "BertProcessing") || post_is(parts[i], "RobertaProcessing"))
            status = read_frame_of(t, parts[i], err);
        else if (!post_is(parts[i], "ByteLevel"))
            status = refuse_post(t, parts[i], err);
    }
    return status;
}
