/* Log-probabilities of some tokens, as servers give them and `mgpt score --json --top N` prints
 * them:
 *
 *     {"ids": [26, 0, 13], "top_logprobs": [null, {"0": -1.7, ...}, ...]}
 *
 * Entry i is about token i, given those before it: null for the first. The table below says where
 * programs have their entries. Those of an answer follow the tokens of the prompt, which the file
 * or the user names, and name the tokens of the answer themselves. An entry is
 *
 *     {"13": -0.7, ...}                                     tokens and log-probabilities
 *     {"13": {"logprob": -0.7, "rank": 1}, ...}             vLLM's prompt_logprobs
 *     [{"id" or "token" or "bytes", "logprob"}, ...]
 *     {"token", "logprob", "top_logprobs": [...]}           OpenAI's chat, llama.cpp's server
 *     [[-0.7, 13, " a"], ...] or [-0.7, 13, " a"]           SGLang
 *     -0.7                                                  of the token itself
 *
 * A token is named by its id, as a number or a string "13" or "token_id:13", or by its text where
 * that is a token of the model. Text that can be several tokens is not compared.
 */
#include "check/reference/reference_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens by name ---- */

enum { NO_TOKEN = -1, SEVERAL = -2 };

/* An id in digits, with or without "token_id:" before it; NO_TOKEN for other strings. */
static int64_t id_of_digits(const char *text, int digits_are_text)
{
    int64_t id = 0;
    int is_prefixed = strncmp(text, "token_id:", 9) == 0;
    const char *begin = text + (is_prefixed ? 9 : 0), *p = begin;
    if (digits_are_text && !is_prefixed)
        return NO_TOKEN;
    for (; *p >= '0' && *p <= '9' && id <= INT32_MAX; p++)
        id = id * 10 + (*p - '0');
    return p > begin && !*p ? id : NO_TOKEN;
}

static int compare_pieces(const void *a, const void *b)
{
    const struct ref_piece *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Once: room, and all tokens of the model, sorted by their text. */
static int prepare_pieces(struct reference *ref, mgpt_error *err)
{
    const mgpt_model *model = ref->options.model;
    if (ref->seen)
        return MGPT_OK;
    ref->seen = mem_new(ref->n_vocab, 1);
    ref->pieces = mem_new(model ? ref->n_vocab : 0, sizeof *ref->pieces);
    if (!ref->seen || !ref->pieces)
        return err_memory(err, "the tokens by their text", ref->n_vocab * sizeof *ref->pieces);
    for (size_t i = 0; model && i < ref->n_vocab; i++) {
        struct ref_piece piece = {.id = (int32_t)i};
        piece.p = mgpt_piece(model, piece.id, &piece.n);
        if (piece.p && piece.n > 0)
            ref->pieces[ref->n_pieces++] = piece;
    }
    qsort(ref->pieces, ref->n_pieces, sizeof *ref->pieces, compare_pieces);
    return MGPT_OK;
}

static int64_t id_of_bytes(const struct reference *ref, const char *text, size_t n)
{
    struct ref_piece key = {text, n, 0};
    struct ref_piece *found =
        bsearch(&key, ref->pieces, ref->n_pieces, sizeof *ref->pieces, compare_pieces);
    if (!found)
        return NO_TOKEN;
    int first = found > ref->pieces && compare_pieces(found - 1, &key) == 0;
    int last = found + 1 < ref->pieces + ref->n_pieces && compare_pieces(found + 1, &key) == 0;
    return first || last ? SEVERAL : found->id;
}

static int64_t id_of_text(const struct reference *ref, const char *text, int digits_are_text)
{
    int64_t id = text ? id_of_digits(text, digits_are_text) : NO_TOKEN;
    return id == NO_TOKEN && text ? id_of_bytes(ref, text, strlen(text)) : id;
}

/* {"id"}, {"token", "bytes"}, {"token"} */
static int64_t id_of_object(const struct reference *ref, const struct jval *object)
{
    const struct jval *id = jval_get(object, "id"), *bytes = jval_get(object, "bytes");
    char text[256];
    size_t n = jval_size(bytes);
    if (jval_is(id, JVAL_INTEGER))
        return jval_whole(id);
    const char *token = jval_text(jval_get(object, "token"));
    int is_id = token && id_of_digits(token, bytes != NULL) >= 0;
    if (is_id || n == 0 || n > sizeof text)
        return id_of_text(ref, token, bytes != NULL);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)jval_whole(jval_at(bytes, i));
    return id_of_bytes(ref, text, n);
}

/* [-0.7, 13, " a"]: 1 */
static int is_triple(const struct jval *entry)
{
    return jval_size(entry) >= 2 && jval_is(jval_at(entry, 1), JVAL_INTEGER);
}

/* The token that an element of a list of tokens, or an entry, is about. */
static int64_t id_of_any(const struct reference *ref, const struct jval *value, int digits_are_text)
{
    if (jval_is(value, JVAL_INTEGER))
        return jval_whole(value);
    if (jval_is(value, JVAL_STRING))
        return id_of_text(ref, jval_text(value), digits_are_text);
    return is_triple(value) ? jval_whole(jval_at(value, 1)) : id_of_object(ref, value);
}

/* ---- entries ---- */

static int add_known(struct reference *ref, int64_t id, double logprob, size_t at, double *out,
                     mgpt_error *err)
{
    size_t n = arr_len(ref->some);
    if (ref->seen[id])
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "top_logprobs %zu: id %d is there twice",
                       at, (int)id);
    if (!arr_push(ref->some, (int32_t)id))
        return err_memory(err, "a row of log-probabilities", n);
    ref->seen[id] = 1;
    if (out)
        out[n] = logprob;
    return MGPT_OK;
}

/* Adds one (token, log-probability); `at` is the token it is about, for messages. */
static int add_some(struct reference *ref, int64_t id, const struct jval *logprob, size_t at,
                    double *out, mgpt_error *err)
{
    if (jval_is(logprob, JVAL_OBJECT))
        logprob = jval_get(logprob, "logprob");
    if (id < 0 && ref->options.model) {
        ref->n_unknown += out == NULL;
        return MGPT_OK;
    }
    if (id < 0 || (uint64_t)id >= ref->n_vocab)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "top_logprobs %zu: entry %zu names no id from 0 to %zu (text is not enough)",
                       at, arr_len(ref->some), ref->n_vocab - 1);
    if (!jval_is_numeric(logprob) || jval_number(logprob) > 1e-3)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "top_logprobs %zu: entry %zu has no log-probability (at most 0)", at,
                       arr_len(ref->some));
    return add_known(ref, id, jval_number(logprob), at, out, err);
}

static int add_element(struct reference *ref, const struct jval *element, size_t at, double *out,
                       mgpt_error *err)
{
    const struct jval *logprob =
        is_triple(element) ? jval_at(element, 0) : jval_get(element, "logprob");
    return add_some(ref, id_of_any(ref, element, 0), logprob, at, out, err);
}

static int add_list(struct reference *ref, const struct jval *list, size_t at, double *out,
                    mgpt_error *err)
{
    int status = MGPT_OK;
    if (is_triple(list))
        return jval_is(jval_at(list, 0), JVAL_NULL) ? MGPT_OK
                                                    : add_element(ref, list, at, out, err);
    for (size_t i = 0; i < jval_size(list) && status == MGPT_OK; i++)
        status = add_element(ref, jval_at(list, i), at, out, err);
    return status;
}

/* {"token" or "id", "logprob", ...} */
static int is_one(const struct jval *entry)
{
    return jval_get(entry, "logprob") && (jval_is(jval_get(entry, "id"), JVAL_INTEGER) ||
                                          jval_is(jval_get(entry, "token"), JVAL_STRING));
}

static int add_object(struct reference *ref, const struct ref_item *item, const struct jval *entry,
                      size_t at, double *out, mgpt_error *err)
{
    const struct jval *tops = jval_get(entry, "top_logprobs");
    int status = MGPT_OK;
    if (is_one(entry) && jval_size(tops) > 0)
        return add_list(ref, tops, at, out, err);
    if (is_one(entry))
        return add_element(ref, entry, at, out, err);
    for (struct jval_iter i = jval_begin(entry); status == MGPT_OK && jval_next(&i);)
        status =
            add_some(ref, id_of_text(ref, i.key, item->digits_are_text), i.value, at, out, err);
    return status;
}

/* Reads the entry about token `at` into ref->some and, unless it is NULL, into out. A null entry
 * gives an empty ref->some. */
static int reference_partial_read_entry(struct reference *ref, const struct ref_item *item,
                                        size_t at, double *out, mgpt_error *err)
{
    const struct jval *entry = item->entries[at];
    for (size_t i = 0; i < arr_len(ref->some); i++)
        ref->seen[ref->some[i]] = 0;
    if (ref->some)
        arr_set_len(ref->some, 0);
    if (jval_is(entry, JVAL_ARRAY))
        return add_list(ref, entry, at, out, err);
    if (jval_is(entry, JVAL_OBJECT))
        return add_object(ref, item, entry, at, out, err);
    if (jval_is_numeric(entry) && item->of_given)
        return add_some(ref, item->ids[at], entry, at, out, err);
    if (entry && !jval_is(entry, JVAL_NULL))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "top_logprobs %zu: expected null, an object or a list", at);
    return MGPT_OK;
}

/* ---- where they are ---- */

/* A list of entries, and one that names the tokens they are about: fields of an object, or of one in
 * it. The first of a group that is there counts. */
static const struct ref_source {
    const char *inside, *entries, *names;
    int is_answer; /* group: of the whole text, or of an answer to it */
    int of_given;  /* of the token itself, which need not be the likeliest */
} sources[] = {
    {NULL, "top_logprobs", NULL, 0, 0},
    {"logprobs", "top_logprobs", "tokens", 0, 0},
    {NULL, "prompt_logprobs", NULL, 0, 0},
    {"meta_info", "input_top_logprobs", "input_token_logprobs", 0, 0},
    {"meta_info", "input_token_logprobs", "input_token_logprobs", 0, 1},
    {"logprobs", "token_logprobs", "tokens", 0, 1},
    {"logprobs", "content", "content", 1, 0},
    {NULL, "completion_probabilities", "completion_probabilities", 1, 0},
    {"meta_info", "output_top_logprobs", "output_token_logprobs", 1, 0},
    {"meta_info", "output_token_logprobs", "output_token_logprobs", 1, 1},
};

const struct jval *reference_field(const struct reference *ref, const struct jval *object,
                                   const char *name)
{
    int is_shared = strcmp(name, "prompt_logprobs") == 0 || strcmp(name, "prompt_token_ids") == 0;
    const struct jval *v = is_shared ? jval_get(ref->response, name) : NULL;
    return jval_is(v, JVAL_ARRAY) ? v : jval_get(object, name);
}

/* A list of this name with something in it. */
static const struct jval *list_of(const struct reference *ref, const struct jval *object,
                                  const char *inside, const char *name)
{
    const struct jval *list =
        inside ? jval_get(jval_get(object, inside), name) : reference_field(ref, object, name);
    size_t i = 0;
    while (i < jval_size(list) && jval_is(jval_at(list, i), JVAL_NULL))
        i++;
    return i < jval_size(list) || !inside ? list : NULL;
}

static const struct ref_source *find_source(const struct reference *ref, const struct jval *object,
                                            int is_answer)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (sources[i].is_answer == is_answer &&
            list_of(ref, object, sources[i].inside, sources[i].entries))
            return &sources[i];
    return NULL;
}

int reference_is_partial(const struct reference *ref, const struct jval *object)
{
    return find_source(ref, object, 0) || find_source(ref, object, 1);
}

static int name_token(struct reference *ref, struct ref_item *item, const struct jval *names,
                      size_t i, mgpt_error *err)
{
    int64_t id = id_of_any(ref, jval_at(names, i), item->digits_are_text);
    if (id >= 0)
        return reference_add_id(ref, item, id, err);
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "token %zu: its text is %s of the model: ask the server for ids, or give all "
                   "tokens with --ids",
                   arr_len(item->ids), id == SEVERAL ? "that of several tokens" : "not a token");
}

/* Appends the entries to those of the item, and the tokens they are about unless these are known. */
static int take_entries(struct reference *ref, struct ref_item *item, const struct jval *object,
                        const struct ref_source *s, mgpt_error *err)
{
    const struct jval *list = list_of(ref, object, s->inside, s->entries);
    const struct jval *names = s->names ? list_of(ref, object, s->inside, s->names) : NULL;
    const size_t n = jval_size(list), known = arr_len(item->ids);
    const int begins =
        jval_is(jval_at(list, 0), JVAL_NULL) || jval_is(jval_at(jval_at(list, 0), 0), JVAL_NULL);
    int status = MGPT_OK, failed = 0, is_whole = !s->is_answer && n == known;
    if (!is_whole && (!names || jval_size(names) != n || (known > 0 && begins)))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       known || !n ? "%s: %zu entries, expected one for each of %zu tokens"
                                   : "%s: no list of ids called input, ids, input_ids, tokens or "
                                     "prompt_token_ids: give them with --ids or -p",
                       s->entries, n, known);
    if (!is_whole && known == 0 && !begins)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "%s: of an answer; give the tokens of its prompt with --ids or -p",
                       s->entries);
    while (!is_whole && arr_len(item->entries) < known && !failed)
        failed = !arr_push(item->entries, NULL);
    for (size_t i = 0; i < n && !is_whole && status == MGPT_OK; i++)
        status = name_token(ref, item, names, i, err);
    for (size_t i = 0; i < n && !failed; i++)
        failed = !arr_push(item->entries, jval_at(list, i));
    item->of_given |= s->of_given;
    return failed ? err_memory(err, "a list of log-probabilities", n) : status;
}

/* Whether "13" is a text: where the tokens of the text are named by text, and not by ids as well. */
static int has_texts(const struct jval *object)
{
    const struct jval *names = jval_get(jval_get(object, "logprobs"), "tokens");
    const char *first = jval_text(jval_at(names, 0));
    return first && id_of_digits(first, 0) < 0;
}

int reference_partial_item(struct reference *ref, struct ref_item *item, const struct jval *object,
                           int has_ids, mgpt_error *err)
{
    int status = prepare_pieces(ref, err);
    item->digits_are_text = !has_ids && has_texts(object);
    for (int is_answer = 0; is_answer < 2 && status == MGPT_OK; is_answer++) {
        const struct ref_source *source = find_source(ref, object, is_answer);
        status = source ? take_entries(ref, item, object, source, err) : MGPT_OK;
    }
    if (status == MGPT_OK && arr_len(item->ids) == 0)
        status = err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no tokens");
    for (size_t i = 0; i < arr_len(item->entries) && status == MGPT_OK; i++)
        status = reference_partial_read_entry(ref, item, i, NULL, err);
    return status;
}

int reference_partial_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    const struct ref_item *item = &ref->items[i];
    int has_next = row + 1 < arr_len(item->entries); /* the entry of what follows this token */
    int status = has_next ? reference_partial_read_entry(ref, item, row + 1, out, err) : MGPT_OK;
    ref->about.n = has_next ? arr_len(ref->some) : 0;
    ref->about.ids = ref->some;
    ref->about.logprobs = 1;
    ref->about.of_given = item->of_given;
    ref->about.slack = 0x1p-18; /* what float32 logits of size 16 leave of a log-probability */
    return status;
}
