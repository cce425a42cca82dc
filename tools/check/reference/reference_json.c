/* References in JSON, or JSON Lines. The values stay in memory and rows are read from it when asked
 * for; its shape is checked in full before the first of them.
 *
 * A sequence is {"input": [ids], "logits": [[...], ...]}, or has "top_logprobs" in the place of
 * logits (reference_partial.c). */
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "common/jval.h"
#include "common/text.h"

#include <string.h>

/* A batch of one: [[...]] is taken for [...] when `depth` more levels are lists. */
static const struct jval *without_batch(const struct jval *list, int depth)
{
    const struct jval *inner = list;
    for (int i = 0; i < depth; i++)
        inner = jval_at(inner, 0);
    return jval_size(list) == 1 && jval_is(inner, JVAL_ARRAY) ? jval_at(list, 0) : list;
}

enum ref_ids { IDS_NONE, IDS_OF_PROMPT, IDS_OF_TEXT };

/* The ids of the file or, where it has none, those given. *found: what the file's are of. */
static int read_ids(const struct reference *ref, struct ref_item *item, const struct jval *object,
                    enum ref_ids *found, mgpt_error *err)
{
    static const char *const names[] = {"input", "ids", "input_ids", "tokens", "prompt_token_ids"};
    const struct ref_options *o = &ref->options;
    const struct jval *list = NULL;
    int status = MGPT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !list; i++) {
        list = without_batch(reference_field(ref, object, names[i]), 1);
        list = jval_is(list, JVAL_ARRAY) ? list : NULL;
        if (list)
            *found = i < 4 ? IDS_OF_TEXT : IDS_OF_PROMPT;
    }
    if (list && o->ids)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "the reference has tokens of its own");
    for (size_t i = 0; !list && i < o->n_ids && status == MGPT_OK; i++)
        status = reference_add_id(ref, item, o->ids[i], err);
    for (size_t i = 0; i < jval_size(list) && status == MGPT_OK; i++) {
        const struct jval *id = jval_at(list, i);
        if (!jval_is(id, JVAL_INTEGER))
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "token %zu is not an integer", i);
        status = reference_add_id(ref, item, jval_whole(id), err);
    }
    return status;
}

static int check_logits_row(const struct reference *ref, const struct jval *row, size_t at,
                            mgpt_error *err)
{
    if (!jval_is(row, JVAL_ARRAY))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "row %zu of logits is not a list", at);
    if (jval_size(row) != ref->n_vocab)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "row %zu has %zu logits, the model has %zu",
                       at, jval_size(row), ref->n_vocab);
    for (size_t i = 0; i < ref->n_vocab; i++)
        if (!jval_is_numeric(jval_at(row, i)))
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "row %zu, logit %zu is not a number",
                           at, i);
    return MGPT_OK;
}

/* Fields with nothing to compare, such as those that mgpt score and servers write, are known, too.
 */
static int is_known(const char *name)
{
    static const char *const known[] = {"input",
                                        "ids",
                                        "input_ids",
                                        "tokens",
                                        "logits",
                                        "logprobs",
                                        "top_logprobs",
                                        "text",
                                        "id",
                                        "index",
                                        "n_tokens",
                                        "sum_logprob",
                                        "perplexity",
                                        "truncated",
                                        "model",
                                        "object",
                                        "created",
                                        "usage",
                                        "finish_reason",
                                        "prompt_logprobs",
                                        "prompt_token_ids",
                                        "token_ids",
                                        "stop_reason",
                                        "message",
                                        "meta_info",
                                        "output_ids",
                                        "content",
                                        "completion_probabilities",
                                        "token_logprobs",
                                        "prompt",
                                        "outputs",
                                        "request_id"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            return 1;
    return 0;
}

static void note_unread(struct reference *ref, const struct jval *object)
{
    for (struct jval_iter i = jval_begin(object); jval_next(&i);)
        if (!is_known(i.key) && !ref->unread[0])
            text_format(ref->unread, sizeof ref->unread,
                        "sequence %zu: field \"%.*s\" is not read; the fields are input, logits, "
                        "top_logprobs, text",
                        arr_len(ref->items) - 1, TEXT_CLIP(i.key, strlen(i.key)));
}

static int read_logits(struct reference *ref, struct ref_item *item, const struct jval *object,
                       enum ref_ids found, mgpt_error *err)
{
    int status = MGPT_OK;
    item->rows = without_batch(jval_get(object, "logits"), 2);
    if (!jval_is(item->rows, JVAL_ARRAY))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no list called logits");
    for (size_t i = 0; i < jval_size(item->rows) && status == MGPT_OK; i++)
        status = check_logits_row(ref, jval_at(item->rows, i), i, err);
    if (status == MGPT_OK && found == IDS_NONE && !ref->options.ids)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "no list of ids called input, ids, input_ids or tokens");
    return status < 0 ? status : reference_match(item, jval_size(item->rows), err);
}

static int read_item(struct reference *ref, const struct jval *object, mgpt_error *err)
{
    struct ref_item *item = reference_add_item(ref, err);
    enum ref_ids found = IDS_NONE;
    if (!item)
        return MGPT_EMEM;
    if (!jval_is(object, JVAL_OBJECT))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "sequence %zu is not an object",
                       arr_len(ref->items));
    item->label = jval_text(jval_get(object, "text"));
    item->partial = reference_is_partial(ref, object);
    int status = read_ids(ref, item, object, &found, err);
    if (status == MGPT_OK && item->partial)
        status = reference_partial_item(ref, item, object, found == IDS_OF_TEXT, err);
    else if (status == MGPT_OK)
        status = read_logits(ref, item, object, found, err);
    if (ref->n_unknown && !ref->unread[0])
        text_format(ref->unread, sizeof ref->unread,
                    "log-probabilities whose text is none or several tokens of the model are not "
                    "compared: %zu in sequence %zu",
                    ref->n_unknown, arr_len(ref->items) - 1);
    note_unread(ref, object);
    return status;
}

/* What a server returned: each choice, with what the response says of the prompt. */
static int read_choices(struct reference *ref, const struct jval *response, mgpt_error *err)
{
    const struct jval *choices = jval_get(response, "choices");
    int status = MGPT_OK;
    if (!jval_is(choices, JVAL_ARRAY))
        return read_item(ref, response, err);
    ref->response = response;
    for (size_t i = 0; i < jval_size(choices) && status == MGPT_OK; i++)
        status = read_item(ref, jval_at(choices, i), err);
    ref->response = NULL;
    return status;
}

/* ---- the file ---- */

/* The sequences of the next value of the file: one, or a list; *at moves past it. */
static int reference_json_read_value(struct reference *ref, size_t *at, mgpt_error *err)
{
    struct jval_error failed;
    size_t n = ref->file.size - *at, end, n_items = arr_len(ref->items);
    const struct jval *value = jval_read(ref->file.data + *at, n, JVAL_FIRST, &end, &failed);
    int status = MGPT_OK;
    if (!value && jval_no_memory(&failed, n, err))
        return MGPT_EMEM;
    if (!value)
        return err_set(err, MGPT_EFILE, *at + failed.offset, "bad JSON: %s", failed.text);
    if (!arr_push(ref->json, value)) {
        jval_free(value);
        return err_memory(err, "the list of sequences", sizeof value);
    }
    if (!jval_is(value, JVAL_ARRAY))
        status = read_choices(ref, value, err);
    for (size_t i = 0; i < jval_size(value) && status == MGPT_OK; i++)
        status = read_choices(ref, jval_at(value, i), err);
    if (status == MGPT_OK && arr_len(ref->items) == n_items)
        status = err_set(err, MGPT_EFILE, *at, "the list is empty");
    *at += end;
    return status;
}

static void skip_spaces(const struct reference *ref, size_t *at)
{
    while (*at < ref->file.size && ref->file.data[*at] && strchr(" \t\r\n", ref->file.data[*at]))
        (*at)++;
}

int reference_json_open(struct reference *ref, mgpt_error *err)
{
    size_t at = 0;
    int status = file_load(&ref->file, 0, ref->file.size, err);
    for (skip_spaces(ref, &at); at < ref->file.size && status >= 0; skip_spaces(ref, &at))
        status = reference_json_read_value(ref, &at, err);
    return status < 0 ? status : MGPT_OK;
}

int reference_json_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    if (ref->items[i].partial)
        return reference_partial_row(ref, i, row, out, err);
    const struct jval *list = jval_at(ref->items[i].rows, row);
    for (size_t k = 0; k < ref->n_vocab; k++)
        out[k] = jval_number(jval_at(list, k));
    return MGPT_OK;
}
