/* tokenizer.json: the tokens that post-processors add to texts. GGUF's own keys can say BOS and EOS;
 * more tokens on a side are lists of ids (mgpt.tokenizer.before, after). */
#include "base/error.h"
#include "convert/vocab/hf_steps_impl.h"

#include <stdio.h>
#include <string.h>

static int post_is(const struct jval *object, const char *type)
{
    return strcmp(steps_string(object, "type"), type) == 0;
}

int hf_tok_parts(const struct hf_tok *t, const struct jval *root, const char *key,
                 const char *members, const struct jval *parts[HF_TOK_PARTS], mgpt_error *err)
{
    const struct jval *component = hf_tok_value(root, key);
    const struct jval *list = post_is(component, "Sequence") ? jval_get(component, members) : NULL;
    size_t n = list ? jval_size(list) : component != NULL;
    if (n > HF_TOK_PARTS)
        return hf_tok_refuse(t, key, "too many parts", err);
    for (size_t i = 0; i < n; i++)
        parts[i] = list ? jval_at(list, i) : component;
    return (int)n;
}

static int refuse_post(const struct hf_tok *t, const struct jval *part, mgpt_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "post_processor %.40s", steps_string(part, "type"));
    return hf_tok_refuse(t, name, "not supported here", err);
}

/* ---- the ids --------------------------------------------------------------------------------- */

static int add_frame_id(const struct hf_tok *t, struct hf_frame *f, int side, int64_t id,
                        mgpt_error *err)
{
    if (id < 0 || (uint64_t)id >= t->slots.n || !t->slots.slots[id].type)
        return hf_tok_refuse(t, "post_processor", "its special token is not in the vocabulary",
                             err);
    if (f->n[side] == HF_TOK_FRAME)
        return hf_tok_refuse(t, "post_processor", "more than 16 tokens on a side", err);
    f->ids[side][f->n[side]++] = (int32_t)id;
    return MGPT_OK;
}

static int add_frame_text(const struct hf_tok *t, struct hf_frame *f, int side, const char *text,
                          mgpt_error *err)
{
    return add_frame_id(t, f, side, *text ? vocab_slots_find(&t->slots, text) : -1, err);
}

/* A special token of a template: `special_tokens` has its ids, one or more. */
static int add_frame_special(const struct hf_tok *t, const struct jval *part, struct hf_frame *f,
                             int side, const char *name, mgpt_error *err)
{
    const struct jval *special = jval_get(jval_get(part, "special_tokens"), name);
    const struct jval *ids = jval_get(special, "ids");
    int status = MGPT_OK;
    if (!jval_is(ids, JVAL_ARRAY))
        return add_frame_text(t, f, side, name, err);
    for (size_t i = 0; i < jval_size(ids) && status == MGPT_OK; i++) {
        const struct jval *id = jval_at(ids, i);
        status = add_frame_id(t, f, side, jval_is(id, JVAL_INTEGER) ? jval_whole(id) : -1, err);
    }
    return status;
}

/* TemplateProcessing: special tokens around the text $A. */
static int frame_of_template(const struct hf_tok *t, const struct jval *part, struct hf_frame *f,
                             mgpt_error *err)
{
    const struct jval *single = jval_get(part, "single");
    int side = 0, status = MGPT_OK;
    for (size_t i = 0; i < jval_size(single) && status == MGPT_OK; i++) {
        const struct jval *item = jval_at(single, i);
        const struct jval *special = jval_get(item, "SpecialToken");
        if (special)
            status = add_frame_special(t, part, f, side, steps_string(special, "id"), err);
        else if (side++)
            status = hf_tok_refuse(t, "post_processor", "the text is in its template twice", err);
    }
    if (status == MGPT_OK && !side)
        status = hf_tok_refuse(t, "post_processor", "the text is not in its template", err);
    return status;
}

/* BertProcessing and RobertaProcessing: [text, id] before and after texts. */
static int frame_of_pair(const struct hf_tok *t, const struct jval *part, struct hf_frame *f,
                         mgpt_error *err)
{
    static const char *const keys[] = {"cls", "sep"};
    int status = MGPT_OK;
    for (int side = 0; side < 2 && status == MGPT_OK; side++) {
        const char *text = jval_text(jval_at(jval_get(part, keys[side]), 0));
        status = text ? add_frame_text(t, f, side, text, err)
                      : hf_tok_refuse(t, "post_processor", "no cls or sep token", err);
    }
    return status;
}

/* Puts `outer` around `f`: a later processor gets what the ones before it made. */
static int frame_wrap(const struct hf_tok *t, struct hf_frame *f, const struct hf_frame *outer,
                      mgpt_error *err)
{
    struct hf_frame all = *outer;
    int status = MGPT_OK;
    all.n[1] = 0;
    for (size_t i = 0; i < f->n[0] && status == MGPT_OK; i++)
        status = add_frame_id(t, &all, 0, f->ids[0][i], err);
    for (size_t i = 0; i < f->n[1] && status == MGPT_OK; i++)
        status = add_frame_id(t, &all, 1, f->ids[1][i], err);
    for (size_t i = 0; i < outer->n[1] && status == MGPT_OK; i++)
        status = add_frame_id(t, &all, 1, outer->ids[1][i], err);
    *f = all;
    return status;
}

static int is_pair(const struct jval *part)
{
    return post_is(part, "BertProcessing") || post_is(part, "RobertaProcessing");
}

int hf_tok_frame(const struct hf_tok *t, struct hf_frame *frame, mgpt_error *err)
{
    const struct jval *parts[HF_TOK_PARTS];
    *frame = (struct hf_frame){.n = {0, 0}};
    int n = t->post ? hf_tok_parts(t, t->post, "post_processor", "processors", parts, err) : 0;
    int status = n < 0 ? n : MGPT_OK;
    for (int i = 0; i < n && status == MGPT_OK; i++) {
        struct hf_frame outer = {.n = {0, 0}};
        if (post_is(parts[i], "TemplateProcessing"))
            status = frame_of_template(t, parts[i], &outer, err);
        else if (is_pair(parts[i]))
            status = frame_of_pair(t, parts[i], &outer, err);
        if (status == MGPT_OK)
            status = frame_wrap(t, frame, &outer, err);
    }
    return status;
}

int hf_tok_post(struct hf_tok *t, const struct jval *root, mgpt_error *err)
{
    const struct jval *parts[HF_TOK_PARTS];
    int n = hf_tok_parts(t, root, "post_processor", "processors", parts, err);
    t->post = root;
    for (int i = 0; i < n; i++) {
        int adds = post_is(parts[i], "TemplateProcessing") || is_pair(parts[i]);
        if (!adds && !post_is(parts[i], "ByteLevel"))
            return refuse_post(t, parts[i], err);
        t->has_post |= adds;
    }
    return n < 0 ? n : MGPT_OK;
}
