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
                 const char *members, const struct jval *parts[HF_TOK_PARTS])
{
    const struct jval *component = hf_tok_value(root, key);
    const struct jval *list = post_is(component, "Sequence") ? jval_get(component, members) : NULL;
    size_t n = list ? jval_size(list) : component != NULL;
    if (n > HF_TOK_PARTS)
        hf_tok_refuse(t, key, "too many parts");
    for (size_t i = 0; i < n; i++)
        parts[i] = list ? jval_at(list, i) : component;
    return (int)n;
}

_Noreturn static void refuse_post(const struct hf_tok *t, const struct jval *part)
{
    char name[64];
    snprintf(name, sizeof name, "post_processor %.40s", steps_string(part, "type"));
    hf_tok_refuse(t, name, "not supported here");
}

/* ---- the ids --------------------------------------------------------------------------------- */

static void add_frame_id(const struct hf_tok *t, struct hf_frame *f, int side, int64_t id)
{
    if (id < 0 || (uint64_t)id >= t->slots.n || !t->slots.slots[id].type)
        hf_tok_refuse(t, "post_processor", "its special token is not in the vocabulary");
    if (f->n[side] == HF_TOK_FRAME)
        hf_tok_refuse(t, "post_processor", "more than 16 tokens on a side");
    f->ids[side][f->n[side]++] = (int32_t)id;
}

static void add_frame_text(const struct hf_tok *t, struct hf_frame *f, int side, const char *text)
{
    add_frame_id(t, f, side, *text ? vocab_slots_find(&t->slots, text) : -1);
}

/* A special token of a template: `special_tokens` has its ids, one or more. */
static void add_frame_special(const struct hf_tok *t, const struct jval *part, struct hf_frame *f,
                              int side, const char *name)
{
    const struct jval *special = jval_get(jval_get(part, "special_tokens"), name);
    const struct jval *ids = jval_get(special, "ids");
    if (!jval_is(ids, JVAL_ARRAY)) {
        add_frame_text(t, f, side, name);
        return;
    }
    for (size_t i = 0; i < jval_size(ids); i++) {
        const struct jval *id = jval_at(ids, i);
        add_frame_id(t, f, side, jval_is(id, JVAL_INTEGER) ? jval_whole(id) : -1);
    }
}

/* TemplateProcessing: special tokens around the text $A. */
static void frame_of_template(const struct hf_tok *t, const struct jval *part, struct hf_frame *f)
{
    const struct jval *single = jval_get(part, "single");
    int side = 0;
    for (size_t i = 0; i < jval_size(single); i++) {
        const struct jval *item = jval_at(single, i);
        const struct jval *special = jval_get(item, "SpecialToken");
        if (special)
            add_frame_special(t, part, f, side, steps_string(special, "id"));
        else if (side++)
            hf_tok_refuse(t, "post_processor", "the text is in its template twice");
    }
    if (!side)
        hf_tok_refuse(t, "post_processor", "the text is not in its template");
}

/* BertProcessing and RobertaProcessing: [text, id] before and after texts. */
static void frame_of_pair(const struct hf_tok *t, const struct jval *part, struct hf_frame *f)
{
    static const char *const keys[] = {"cls", "sep"};
    for (int side = 0; side < 2; side++) {
        const char *text = jval_text(jval_at(jval_get(part, keys[side]), 0));
        if (!text)
            hf_tok_refuse(t, "post_processor", "no cls or sep token");
        add_frame_text(t, f, side, text);
    }
}

/* Puts `outer` around `f`: a later processor gets what the ones before it made. */
static void frame_wrap(const struct hf_tok *t, struct hf_frame *f, const struct hf_frame *outer)
{
    struct hf_frame all = *outer;
    all.n[1] = 0;
    for (size_t i = 0; i < f->n[0]; i++)
        add_frame_id(t, &all, 0, f->ids[0][i]);
    for (size_t i = 0; i < f->n[1]; i++)
        add_frame_id(t, &all, 1, f->ids[1][i]);
    for (size_t i = 0; i < outer->n[1]; i++)
        add_frame_id(t, &all, 1, outer->ids[1][i]);
    *f = all;
}

static int is_pair(const struct jval *part)
{
    return post_is(part, "BertProcessing") || post_is(part, "RobertaProcessing");
}

void hf_tok_frame(const struct hf_tok *t, struct hf_frame *frame)
{
    const struct jval *parts[HF_TOK_PARTS];
    *frame = (struct hf_frame){.n = {0, 0}};
    int n = t->post ? hf_tok_parts(t, t->post, "post_processor", "processors", parts) : 0;
    for (int i = 0; i < n; i++) {
        struct hf_frame outer = {.n = {0, 0}};
        if (post_is(parts[i], "TemplateProcessing"))
            frame_of_template(t, parts[i], &outer);
        else if (is_pair(parts[i]))
            frame_of_pair(t, parts[i], &outer);
        frame_wrap(t, frame, &outer);
    }
}

void hf_tok_post(struct hf_tok *t, const struct jval *root)
{
    const struct jval *parts[HF_TOK_PARTS];
    int n = hf_tok_parts(t, root, "post_processor", "processors", parts);
    t->post = root;
    for (int i = 0; i < n; i++) {
        int adds = post_is(parts[i], "TemplateProcessing") || is_pair(parts[i]);
        if (!adds && !post_is(parts[i], "ByteLevel"))
            refuse_post(t, parts[i]);
        t->has_post |= adds;
    }
}
