/* References in JSON, or JSON Lines. The tree stays in memory and rows are read from it when asked
 * for; its shape is checked in full before the first of them.
 *
 * A sequence is {"input": [ids], "logits": [[...], ...]}, or has "top_logprobs" in the place of
 * logits (reference_partial.c). */
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "common/json_read.h"
#include "convert/core/checkpoint.h"

#include <string.h>

/* A batch of one: [[...]] is taken for [...] when `depth` more levels are lists. */
static json_t *without_batch(json_t *list, int depth)
{
    json_t *inner = list;
    for (int i = 0; i < depth; i++)
        inner = json_array_get(inner, 0);
    return json_array_size(list) == 1 && json_is(inner, JSON_ARRAY) ? json_array_get(list, 0)
                                                                    : list;
}

enum ref_ids { IDS_NONE, IDS_OF_PROMPT, IDS_OF_TEXT };

/* The ids of the file or, where it has none, those given. *found: what the file's are of. */
static int read_ids(const struct reference *ref, struct ref_item *item, const json_t *object,
                    enum ref_ids *found, mgpt_error *err)
{
    static const char *const names[] = {"input", "ids", "input_ids", "tokens", "prompt_token_ids"};
    const struct ref_options *o = &ref->options;
    json_t *list = NULL;
    int status = MGPT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !list; i++) {
        list = without_batch(json_object_get(object, names[i]), 1);
        list = json_is(list, JSON_ARRAY) ? list : NULL;
        if (list)
            *found = i < 4 ? IDS_OF_TEXT : IDS_OF_PROMPT;
    }
    if (list && o->ids)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "the reference has tokens of its own");
    for (size_t i = 0; !list && i < o->n_ids && status == MGPT_OK; i++)
        status = reference_add_id(ref, item, o->ids[i], err);
    for (size_t i = 0; i < json_array_size(list) && status == MGPT_OK; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is(id, JSON_INTEGER))
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "token %zu is not an integer", i);
        status = reference_add_id(ref, item, json_integer_value(id), err);
    }
    return status;
}

static int check_logits_row(const struct reference *ref, const json_t *row, size_t at,
                            mgpt_error *err)
{
    if (!json_is(row, JSON_ARRAY))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "row %zu of logits is not a list", at);
    if (json_array_size(row) != ref->n_vocab)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "row %zu has %zu logits, the model has %zu",
                       at, json_array_size(row), ref->n_vocab);
    for (size_t i = 0; i < ref->n_vocab; i++)
        if (!json_is_numeric(json_array_get(row, i)))
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "row %zu, logit %zu is not a number",
                           at, i);
    return MGPT_OK;
}

/* Fields with nothing to compare, such as those that mgpt score and servers write, are known, too.
 */
static int is_known(const char *name)
{
    static const char known[] =
        " input ids input_ids tokens logits logprobs top_logprobs text id index n_tokens "
        "sum_logprob perplexity truncated model object created usage finish_reason "
        "prompt_logprobs prompt_token_ids token_ids stop_reason message meta_info output_ids "
        "content completion_probabilities token_logprobs prompt outputs request_id ";
    return ckpt_is_one_of(name, known);
}

static void note_unread(struct reference *ref, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (!is_known(name) && !ref->unread[0])
            text_format(ref->unread, sizeof ref->unread,
                        "sequence %zu: field \"%.*s\" is not read; the fields are input, logits, "
                        "top_logprobs, text",
                        arr_len(ref->items) - 1, CKPT_CLIP(name, strlen(name)));
    }
}

static int read_logits(struct reference *ref, struct ref_item *item, const json_t *object,
                       enum ref_ids found, mgpt_error *err)
{
    int status = MGPT_OK;
    item->rows = json_incref(without_batch(json_object_get(object, "logits"), 2));
    if (!json_is(item->rows, JSON_ARRAY))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no list called logits");
    for (size_t i = 0; i < json_array_size(item->rows) && status == MGPT_OK; i++)
        status = check_logits_row(ref, json_array_get(item->rows, i), i, err);
    if (status == MGPT_OK && found == IDS_NONE && !ref->options.ids)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "no list of ids called input, ids, input_ids or tokens");
    return status < 0 ? status : reference_match(item, json_array_size(item->rows), err);
}

static int read_item(struct reference *ref, const json_t *object, mgpt_error *err)
{
    struct ref_item *item = reference_add_item(ref, err);
    enum ref_ids found = IDS_NONE;
    if (!item)
        return MGPT_EMEM;
    if (!json_is(object, JSON_OBJECT))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "sequence %zu is not an object",
                       arr_len(ref->items));
    item->label = json_string_value(json_object_get(object, "text"));
    item->partial = reference_is_partial(object);
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
static int read_choices(struct reference *ref, json_t *response, mgpt_error *err)
{
    static const char *const shared[] = {"prompt_logprobs", "prompt_token_ids"};
    json_t *choices = json_object_get(response, "choices"), *value;
    int status = MGPT_OK;
    if (!json_is(choices, JSON_ARRAY))
        return read_item(ref, response, err);
    for (size_t i = 0; i < json_array_size(choices) && status == MGPT_OK; i++) {
        json_t *choice = json_array_get(choices, i);
        for (size_t k = 0; k < 2 && json_is(choice, JSON_OBJECT); k++)
            if (json_is(value = json_object_get(response, shared[k]), JSON_ARRAY) &&
                json_object_set(choice, shared[k], value) < 0)
                return err_memory(err, "the JSON tree", ref->file.size);
        status = read_item(ref, choice, err);
    }
    return status;
}

/* ---- the file ---- */

/* Appends the next value of the file to the list of sequences; *at moves past it. */
static int reference_json_read_value(struct reference *ref, size_t *at, mgpt_error *err)
{
    json_error_t failed;
    json_t *value = json_read(ref->file.data + *at, ref->file.size - *at,
                              JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &failed);
    if (!value && json_read_no_memory(&failed, ref->file.size - *at, err))
        return MGPT_EMEM;
    if (!value)
        return err_set(err, MGPT_EFILE, *at + json_read_offset(&failed), "bad JSON: %s",
                       failed.text);
    *at += (size_t)failed.position;
    int status = json_is(value, JSON_ARRAY) ? json_array_extend(ref->json, value)
                                            : json_array_append(ref->json, value);
    json_decref(value);
    return status == 0 ? MGPT_OK : err_memory(err, "the JSON tree", ref->file.size);
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
    if (status < 0)
        return status;
    ref->json = json_array();
    if (!ref->json)
        return err_memory(err, "the JSON tree", 0);
    for (skip_spaces(ref, &at); at < ref->file.size && status == MGPT_OK; skip_spaces(ref, &at)) {
        size_t begin = at, n_values = json_array_size(ref->json), n_items = arr_len(ref->items);
        status = reference_json_read_value(ref, &at, err);
        for (size_t i = n_values; i < json_array_size(ref->json) && status == MGPT_OK; i++)
            status = read_choices(ref, json_array_get(ref->json, i), err);
        if (status == MGPT_OK && arr_len(ref->items) == n_items)
            return err_set(err, MGPT_EFILE, begin, "the list is empty");
    }
    return status;
}

int reference_json_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    if (ref->items[i].partial)
        return reference_partial_row(ref, i, row, out, err);
    const json_t *list = json_array_get(ref->items[i].rows, row);
    for (size_t k = 0; k < ref->n_vocab; k++)
        out[k] = json_number_value(json_array_get(list, k));
    return MGPT_OK;
}
