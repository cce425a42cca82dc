/* Log-probabilities of some tokens, as servers give them and `mgpt score --json --top N` prints
 * them:
 *
 *     {"ids": [26, 0, 13], "top_logprobs": [null, {"0": -1.7, ...}, ...]}
 *
 * Entry i is about token i, given those before it: null for the first. It is an object from tokens
 * to log-probabilities or a list of {"id" or "token", "logprob"}. A token is named by its id, as a
 * number or a string "13" or "token_id:13": what servers give instead, text, can stand for several
 * ids. top_logprobs may be inside an object called "logprobs", as OpenAI's completions have it.
 */
#include "check/reference/reference_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

json_t *reference_partial_rows(const json_t *object)
{
    json_t *rows = json_object_get(object, "top_logprobs");
    return rows ? rows : json_object_get(json_object_get(object, "logprobs"), "top_logprobs");
}

/* An id in digits, with or without "token_id:" before it; -1 for other strings. */
static int64_t id_of_text(const char *text)
{
    int64_t id = 0;
    if (!text)
        return -1;
    if (strncmp(text, "token_id:", 9) == 0)
        text += 9;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && id <= INT32_MAX; p++)
        id = id * 10 + (*p - '0');
    return p > text && !*p ? id : -1;
}

/* Adds one (token, log-probability); `at` is the token it is about, for messages. */
static int add_some(struct reference *ref, int64_t id, const json_t *logprob, size_t at,
                    double *out, mgpt_error *err)
{
    size_t n = arr_len(ref->some);
    if (id < 0 || (uint64_t)id >= ref->n_vocab)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "top_logprobs %zu: entry %zu names no id from 0 to %zu (text is not enough)",
                       at, n, ref->n_vocab - 1);
    if (!json_is_numeric(logprob) || json_number_value(logprob) > 1e-3)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "top_logprobs %zu: entry %zu has no log-probability (at most 0)", at, n);
    for (size_t i = 0; i < n; i++)
        if (ref->some[i] == id)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "top_logprobs %zu: id %d is there twice", at, (int)id);
    if (!arr_push(ref->some, (int32_t)id))
        return err_memory(err, "a row of log-probabilities", n);
    if (out)
        out[n] = json_number_value(logprob);
    return MGPT_OK;
}

static int read_list(struct reference *ref, const json_t *list, size_t at, double *out,
                     mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < json_array_size(list) && status == MGPT_OK; i++) {
        const json_t *entry = json_array_get(list, i), *id = json_object_get(entry, "id");
        int64_t number = json_is(id, JSON_INTEGER)
                             ? json_integer_value(id)
                             : id_of_text(json_string_value(json_object_get(entry, "token")));
        status = add_some(ref, number, json_object_get(entry, "logprob"), at, out, err);
    }
    return status;
}

/* The entry about token `at` into ref->some and, unless it is NULL, out. Nothing is left for
 * null. */
static int reference_partial_read_entry(struct reference *ref, const json_t *entry, size_t at,
                                        double *out, mgpt_error *err)
{
    const char *name;
    json_t *logprob;
    int status = MGPT_OK;
    if (ref->some)
        arr_set_len(ref->some, 0);
    if (json_is(entry, JSON_ARRAY))
        return read_list(ref, entry, at, out, err);
    if (!json_is(entry, JSON_OBJECT) && !json_is(entry, JSON_NULL))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "top_logprobs %zu: expected null, an object or a list", at);
    json_object_foreach((json_t *)(uintptr_t)entry, name, logprob)
    {
        status = add_some(ref, id_of_text(name), logprob, at, out, err);
        if (status < 0)
            break;
    }
    return status;
}

int reference_partial_item(struct reference *ref, struct ref_item *item, mgpt_error *err)
{
    const json_t *rows = item->rows;
    int status = MGPT_OK;
    if (!json_is(rows, JSON_ARRAY) || json_array_size(rows) != arr_len(item->ids))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "top_logprobs: %zu entries, expected one for each of %zu tokens",
                       json_array_size(rows), arr_len(item->ids));
    if (arr_len(item->ids) == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no tokens");
    for (size_t i = 0; i < json_array_size(rows) && status == MGPT_OK; i++)
        status = reference_partial_read_entry(ref, json_array_get(rows, i), i, NULL, err);
    return status;
}

int reference_partial_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    const json_t *entry = json_array_get(ref->items[i].rows, row + 1); /* what follows this token */
    int status = entry ? reference_partial_read_entry(ref, entry, row + 1, out, err) : MGPT_OK;
    ref->about.n = entry ? arr_len(ref->some) : 0;
    ref->about.ids = ref->some;
    ref->about.logprobs = 1;
    return status;
}
