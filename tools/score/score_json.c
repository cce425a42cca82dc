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

/* A field that is not read would be a request that is not met: "context" is no prompt here. */
static int check_fields(struct score_line *line)
{
    const char *name;
    json_t *value;
    json_object_foreach(line->object, name, value)
    {
        if (strcmp(name, "text") != 0 && strcmp(name, "id") != 0)
            return err_set(&line->wrong, MGPT_EFILE, MGPT_NO_OFFSET,
                           "unknown field \"%.*s\": the fields of a record are text and id",
                           CKPT_CLIP(name, strlen(name)));
    }
    return MGPT_OK;
}

int score_json_read(struct score_line *line, const char *text, size_t n, const char **bytes,
                    size_t *n_bytes)
{
    json_error_t failed;
    line->object = json_read(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &failed);
    const json_t *value = json_object_get(line->object, "text");
    if (!line->object && !json_read_no_memory(&failed, n, &line->wrong))
        err_set(&line->wrong, MGPT_EFILE, json_read_offset(&failed), "bad JSON: %s", failed.text);
    else if (!line->object)
        return 0;
    else if (!json_is_string(value))
        err_set(&line->wrong, MGPT_EFILE, MGPT_NO_OFFSET,
                "expected an object with a string called text");
    else
        check_fields(line);
    if (line->wrong.status < 0)
        return 0;
    *bytes = json_string_value(value);
    *n_bytes = json_string_length(value);
    return 1;
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

void score_json_release(struct score_line *line, struct scored_text *text)
{
    json_decref(line->object);
    free(text->logprobs);
    free(text->top);
    line->object = NULL;
    text->logprobs = NULL;
    text->top = NULL;
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

/* OpenAI's "logprobs": nothing is said about the first token. */
static json_t *logprobs_of(const mgpt_model *model, const struct scored_text *text)
{
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array();
    int failed = 0;
    for (size_t i = 0; text->n_scored > 0 && i <= text->n_scored; i++) {
        failed |= json_array_append_new(tokens, token_string(model, text->tokens[i]));
        failed |= json_array_append_new(values,
                                        i ? score_json_number(text->logprobs[i - 1]) : json_null());
        if (text->n_top > 0)
            failed |= json_array_append_new(tops, i ? top_list(model, text, i - 1) : json_null());
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

static json_t *error_record(const struct score_line *line)
{
    json_t *text = json_string(line->wrong.text);
    if (!text) /* it quotes a piece of the line that is cut inside a character */
        text = json_string("the line is not UTF-8 or not JSON");
    json_t *record = json_pack("{s:o, s:I}", "error", text, "line", (json_int_t)line->number);
    if (record && line->wrong.offset != MGPT_NO_OFFSET)
        json_object_set_new(record, "offset", json_integer((json_int_t)line->wrong.offset));
    return record;
}

int score_json_print(const mgpt_model *model, const struct score_line *line,
                     const struct scored_text *text)
{
    json_t *id = json_object_get(line->object, "id");
    json_t *rest, *record = json_object();
    if (line->wrong.status < 0) {
        rest = error_record(line);
    } else {
        double mean =
            text->nll / (double)text->n_scored; /* NaN, hence null, when there is nothing */
        rest = json_pack("{s:I, s:o, s:o, s:o, s:o}", "n_tokens", (json_int_t)text->n_scored,
                         "sum_logprob", score_json_number(0 - text->nll), "perplexity",
                         score_json_number(exp(mean)), "ids",
                         json_ids(text->tokens, text->n_scored > 0 ? text->n_scored + 1 : 0),
                         "logprobs", logprobs_of(model, text));
        if (rest && line->cut)
            json_object_set_new(rest, "truncated", json_true());
    }
    if ((id && json_object_set(record, "id", id) < 0) || !rest ||
        json_object_update(record, rest) < 0) {
        json_decref(record);
        record = NULL;
    }
    json_decref(rest);
    return text_json_line(record);
}
