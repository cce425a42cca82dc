/* JSON Lines for mgpt score. See score_json.h. The names of what is about single tokens are
 * OpenAI's, and with top_logprobs a record is a reference for mgpt check. */
#include "score/score_json.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/json_read.h"
#include "common/text.h"
#include "convert/core/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int score_refuse(struct score_line *line, const char *why)
{
    return err_set(&line->wrong, MGPT_EFILE, MGPT_NO_OFFSET, "%s", why);
}

/* A field that is not read would be a request that is not met. */
static int check_fields(struct score_line *line)
{
    static const char *const known[] = {"id", "text", "context", "continuation", "continuations"};
    const char *name;
    json_t *value;
    json_object_foreach(line->object, name, value)
    {
        size_t i = 0, n = sizeof known / sizeof *known;
        while (i < n && strcmp(name, known[i]) != 0)
            i++;
        if (i == n)
            return err_set(&line->wrong, MGPT_EFILE, MGPT_NO_OFFSET,
                           "unknown field \"%.*s\": the fields of a record are id, text, context, "
                           "continuation and continuations",
                           CKPT_CLIP(name, strlen(name)));
    }
    return MGPT_OK;
}

/* Which of text, continuation and continuations the record has; NULL unless it is one of them, with
 * the type and the context that it needs. */
static const json_t *score_json_asked(struct score_line *line)
{
    const json_t *object = line->object, *text = json_object_get(object, "text");
    const json_t *context = json_object_get(object, "context");
    const json_t *one = json_object_get(object, "continuation");
    const json_t *list = json_object_get(object, "continuations");
    if (!context && !one && !list && json_is(text, JSON_STRING))
        return text;
    if (!context && !one && !list)
        score_refuse(line, "expected an object with a string called text, or context with "
                           "continuation or continuations");
    else if (text)
        score_refuse(line, "a record has a text or a context with continuations, not both");
    else if (!json_is(context, JSON_STRING))
        score_refuse(line, "expected a string called context with the continuation");
    else if (!one == !list)
        score_refuse(line, "expected one of continuation and continuations with the context");
    else if (list && json_array_size(list) == 0)
        score_refuse(line, "continuations: expected an array of strings, one at least");
    else
        return one ? one : list;
    return NULL;
}

size_t score_json_read(struct score_line *line, const char *text, size_t n)
{
    json_error_t failed;
    line->object = json_read(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &failed);
    if (!line->object && !json_read_no_memory(&failed, n, &line->wrong))
        err_set(&line->wrong, MGPT_EFILE, json_read_offset(&failed), "bad JSON: %s", failed.text);
    if (!line->object)
        return 0;
    const json_t *asked = score_json_asked(line);
    if (!asked || check_fields(line) < 0)
        return 0;
    return json_is(asked, JSON_ARRAY) ? json_array_size(asked) : 1;
}

int score_json_text(struct score_line *line, size_t i, struct scored_text *text,
                    struct score_pair *pair)
{
    const json_t *asked = score_json_asked(line),
                 *context = json_object_get(line->object, "context");
    const json_t *string = json_is(asked, JSON_ARRAY) ? json_array_get(asked, i) : asked;
    const char *bytes = json_string_value(string);
    size_t n_bytes = json_string_length(string);
    if (!context) {
        text->text = bytes;
        text->n_bytes = n_bytes;
        return 1;
    }
    *pair = (struct score_pair){json_string_value(context), bytes, json_string_length(context),
                                n_bytes};
    if (n_bytes == 0)
        err_set(&line->wrong, MGPT_EFILE, MGPT_NO_OFFSET,
                "continuation %zu: expected a string that is not empty", i + 1);
    return n_bytes > 0;
}

int score_json_room(struct scored_text *text, size_t n_top)
{
    uint64_t n;
    text->n_top = n_top;
    text->logprobs = mem_new(text->n_scored, sizeof *text->logprobs);
    if (n_top > 0 && ck_mul(text->n_scored, n_top, &n))
        text->top = mem_new((size_t)n, sizeof *text->top);
    return text->logprobs && (n_top == 0 || text->top);
}

/* ---- records ---- */

/* Its bytes, or its name when it has none. Half a character is spelt bytes:\xE2\x82, as OpenAI
 * does. */
static json_t *token_string(const mgpt_model *model, int32_t token)
{
    size_t n;
    const char *bytes = mgpt_piece(model, token, &n);
    if (n == 0)
        bytes = mgpt_token_text(model, token, &n);
    json_t *string = json_stringn(bytes, n); /* NULL for ill-formed UTF-8 */
    char *spelt = string ? NULL : malloc(6 + 4 * n + 1);
    if (!spelt)
        return string;
    int used = sprintf(spelt, "bytes:");
    for (size_t i = 0; i < n; i++)
        used += sprintf(spelt + used, "\\x%02x", (unsigned)(unsigned char)bytes[i]);
    string = json_string(spelt);
    free(spelt);
    return string;
}

/* null for what JSON has no number for. */
static json_t *score_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* The likeliest tokens in the place of token i + 1. */
static json_t *top_list(const mgpt_model *model, const struct scored_text *text, size_t i)
{
    json_t *list = json_array();
    for (size_t k = 0; k < text->n_top; k++) {
        const mgpt_candidate *c = &text->top[i * text->n_top + k];
        if (json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "id", (int)c->token, "token",
                                                  token_string(model, c->token), "logprob",
                                                  score_json_number(c->logprob))) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* OpenAI's "logprobs": of the scored tokens, and of the first of a text, about which nothing is
 * said. */
static json_t *logprobs_of(const mgpt_model *model, const struct scored_text *text)
{
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array();
    size_t unscored = text->text ? text->n_context : 0;
    const int32_t *ids = text->tokens + (text->n_context - unscored);
    int failed = 0;
    for (size_t i = 0; text->n_scored > 0 && i < unscored + text->n_scored; i++) {
        size_t k = i - unscored;
        int is_scored = i >= unscored;
        failed |= json_array_append_new(tokens, token_string(model, ids[i]));
        failed |= json_array_append_new(values, is_scored ? score_json_number(text->logprobs[k])
                                                          : json_null());
        if (text->n_top > 0)
            failed |=
                json_array_append_new(tops, is_scored ? top_list(model, text, k) : json_null());
    }
    json_t *all = json_pack("{s:o, s:o}", "tokens", tokens, "token_logprobs", values);
    if (text->n_top > 0)
        failed |= json_object_set(all, "top_logprobs", tops);
    json_decref(tops);
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

/* The number of the line depends on what is scored with it: a record with an id is known by that. */
static json_t *error_record(const struct score_line *line)
{
    json_t *text = json_string(line->wrong.text);
    if (!text) /* it quotes a piece of the line that is cut inside a character */
        text = json_string("the line is not UTF-8 or not JSON");
    json_t *record = json_pack("{s:o}", "error", text);
    if (record && !json_object_get(line->object, "id"))
        json_object_set_new(record, "line", json_integer((json_int_t)line->number));
    if (record && line->wrong.offset != MGPT_NO_OFFSET)
        json_object_set_new(record, "offset", json_integer((json_int_t)line->wrong.offset));
    return record;
}

static json_t *text_record(const mgpt_model *model, const struct scored_text *text)
{
    double mean = text->nll / (double)text->n_scored; /* NaN, hence null, when there is nothing */
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "n_tokens", (json_int_t)text->n_scored,
                     "sum_logprob", score_json_number(0 - text->nll), "perplexity",
                     score_json_number(exp(mean)), "ids",
                     json_ids(text->tokens, text->n_scored > 0 ? text->n_scored + 1 : 0),
                     "logprobs", logprobs_of(model, text));
}

static json_t *continuation_record(const mgpt_model *model, const struct scored_text *text)
{
    json_t *record =
        json_pack("{s:I, s:o, s:b}", "n_tokens", (json_int_t)text->n_scored, "sum_logprob",
                  score_json_number(0 - text->nll), "is_greedy", text->is_greedy);
    if (record && text->n_top > 0 &&
        json_object_set_new(record, "logprobs", logprobs_of(model, text)) < 0) {
        json_decref(record);
        return NULL;
    }
    return record;
}

static json_t *score_record(const mgpt_model *model, const struct scored_text *text)
{
    json_t *record = text->text ? text_record(model, text) : continuation_record(model, text);
    if (record && text->cut)
        json_object_set_new(record, "truncated", json_true());
    return record;
}

static json_t *list_record(const mgpt_model *model, const struct scored_text *texts, size_t n)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < n; i++)
        failed |= json_array_append_new(list, score_record(model, &texts[i]));
    json_t *record = json_pack("{s:o}", "continuations", list);
    if (!failed)
        return record;
    json_decref(record);
    return NULL;
}

int score_json_print(const mgpt_model *model, const struct score_line *line,
                     const struct scored_text *texts)
{
    json_t *id = json_object_get(line->object, "id");
    json_t *rest, *record = json_object();
    if (line->wrong.status < 0)
        rest = error_record(line);
    else if (json_object_get(line->object, "continuations"))
        rest = list_record(model, texts, line->n);
    else
        rest = score_record(model, texts);
    if ((id && json_object_set(record, "id", id) < 0) || !rest ||
        json_object_update(record, rest) < 0) {
        json_decref(record);
        record = NULL;
    }
    json_decref(rest);
    return text_json_line(record);
}
