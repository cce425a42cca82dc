/* JSON Lines for mgpt score. See score_json.h. The names of what is about single tokens are
 * OpenAI's, and with top_logprobs a record is a reference for mgpt check. */
#include "score/score_json.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/json_out.h"
#include "common/text.h"
#include "engine/token_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CONTINUATIONS = 100000 }; /* of a record, whose numbers are held until all are there */

static int score_refuse(struct score_line *line, const char *why)
{
    return err_set(&line->wrong, MGPT_EFILE, MGPT_NO_OFFSET, "%s", why);
}

/* A field that is not read would be a request that is not met. */
static int check_fields(struct score_line *line)
{
    static const char *const known[] = {"id",      "text",         "ids",
                                        "context", "continuation", "continuations"};
    for (struct jval_iter k = jval_begin(line->object); jval_next(&k);) {
        size_t i = 0, n = sizeof known / sizeof *known;
        while (i < n && strcmp(k.key, known[i]) != 0)
            i++;
        if (i == n)
            return err_set(
                &line->wrong, MGPT_EFILE, MGPT_NO_OFFSET,
                "unknown field \"%.*s\": the fields of a record are id, text, ids, context, "
                "continuation and continuations",
                TEXT_CLIP(k.key, strlen(k.key)));
    }
    return MGPT_OK;
}

/* Which of text, ids, continuation and continuations the record has; NULL unless it is one of them, with
 * the type and the context that it needs. */
static const struct jval *score_json_asked(struct score_line *line)
{
    const struct jval *object = line->object, *text = jval_get(object, "text");
    const struct jval *ids = jval_get(object, "ids");
    const struct jval *context = jval_get(object, "context");
    const struct jval *one = jval_get(object, "continuation");
    const struct jval *list = jval_get(object, "continuations");
    if (!context && !one && !list && !ids && jval_is(text, JVAL_STRING))
        return text;
    if (!context && !one && !list && !text && jval_is(ids, JVAL_ARRAY))
        return ids;
    if (!context && !one && !list && !(text && ids))
        score_refuse(
            line, "expected an object with a string called text, an array called ids, or context "
                  "with continuation or continuations");
    else if (text || ids)
        score_refuse(line, "a record has one of text, ids, and context with continuations");
    else if (!jval_is(context, JVAL_STRING))
        score_refuse(line, "expected a string called context with the continuation");
    else if (!one == !list)
        score_refuse(line, "expected one of continuation and continuations with the context");
    else if (jval_is(one, JVAL_ARRAY))
        score_refuse(line, "continuation: expected a string; an array is called continuations");
    else if (list && jval_size(list) == 0)
        score_refuse(line, "continuations: expected an array of strings, one at least");
    else
        return one ? one : list;
    return NULL;
}

size_t score_json_read(struct score_line *line, const char *text, size_t n)
{
    struct jval_error failed;
    line->object = jval_read(text, n, JVAL_ALLOW_NUL, NULL, &failed);
    if (!line->object && !jval_no_memory(&failed, n, &line->wrong))
        err_set(&line->wrong, MGPT_EFILE, failed.offset, "bad JSON: %s", failed.text);
    if (!line->object)
        return 0;
    const struct jval *asked = score_json_asked(line);
    line->ids = asked && asked == jval_get(line->object, "ids");
    if (!asked || check_fields(line) < 0)
        return 0;
    size_t n_texts = jval_is(asked, JVAL_ARRAY) && !line->ids ? jval_size(asked) : 1;
    if (n_texts <= MOST_CONTINUATIONS)
        return n_texts;
    err_set(
        &line->wrong, MGPT_EFILE, MGPT_NO_OFFSET,
        "continuations: %zu, at most %d in a record; others go into a record with the same context",
        n_texts, MOST_CONTINUATIONS);
    return 0;
}

/* The tokens of "ids", as they are. */
static int score_read_ids(struct score_line *line, const struct jval *ids, int32_t n_vocab,
                          struct scored_text *text)
{
    size_t n;
    int status = token_json_read_ids(ids, n_vocab, &text->tokens, &n, &line->wrong);
    if (status < 0)
        return status;
    text->n_context = 1;
    text->n_scored = n > 0 ? n - 1 : 0;
    return MGPT_OK;
}

int score_json_text(struct score_line *line, size_t i, int32_t n_vocab, struct scored_text *text,
                    struct score_pair *pair)
{
    const struct jval *asked = score_json_asked(line), *context = jval_get(line->object, "context");
    const struct jval *string = jval_is(asked, JVAL_ARRAY) ? jval_at(asked, i) : asked;
    if (line->ids) {
        text->text = "";
        return score_read_ids(line, asked, n_vocab, text) == MGPT_OK;
    }
    const char *bytes = jval_text(string);
    size_t n_bytes = jval_text_size(string);
    if (!context) {
        text->text = bytes;
        text->n_bytes = n_bytes;
        return 1;
    }
    *pair = (struct score_pair){jval_text(context), bytes, jval_text_size(context), n_bytes};
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

void scored_text_free(struct scored_text *t)
{
    free(t->tokens);
    free(t->logprobs);
    free(t->top);
    t->tokens = NULL;
    t->logprobs = NULL;
    t->top = NULL;
}

/* ---- records ---- */

enum list { LIST_TOKENS, LIST_LOGPROBS, LIST_TOP };

/* Writes one list of "logprobs": an entry for each token of a text. Tokens that are not scored, as the
 * first one, have null. */
static void put_list(struct json_out *out, const mgpt_model *model, const struct scored_text *text,
                     enum list list)
{
    size_t unscored = text->text ? text->n_context : 0;
    const int32_t *ids = text->tokens + (text->n_context - unscored);
    putc('[', out->to);
    for (size_t i = 0; text->n_scored > 0 && i < unscored + text->n_scored; i++) {
        if (i > 0)
            putc(',', out->to);
        if (list == LIST_TOKENS)
            token_json_text(out, model, ids[i]);
        else if (i < unscored)
            fputs("null", out->to);
        else if (list == LIST_LOGPROBS)
            json_out_real(out, text->logprobs[i - unscored]);
        else
            token_json_top(out, model, text->top + (i - unscored) * text->n_top, text->n_top);
    }
    putc(']', out->to);
}

/* OpenAI's "logprobs". */
static void put_logprobs(struct json_out *out, const mgpt_model *model,
                         const struct scored_text *text)
{
    fputs(",\"logprobs\":{\"tokens\":", out->to);
    put_list(out, model, text, LIST_TOKENS);
    fputs(",\"token_logprobs\":", out->to);
    put_list(out, model, text, LIST_LOGPROBS);
    if (text->n_top > 0) {
        fputs(",\"top_logprobs\":", out->to);
        put_list(out, model, text, LIST_TOP);
    }
    putc('}', out->to);
}

static void put_text_numbers(struct json_out *out, const struct scored_text *text)
{
    double mean = text->nll / (double)text->n_scored; /* NaN, hence null, when there is nothing */
    fputs(",\"perplexity\":", out->to);
    json_out_real(out, exp(mean));
    fputs(",\"ids\":", out->to);
    token_json_ids(out, text->tokens, text->n_scored > 0 ? text->n_scored + 1 : 0);
}

/* The members of a record, without its braces. */
static void put_scores(struct json_out *out, const mgpt_model *model,
                       const struct scored_text *text)
{
    fprintf(out->to, "\"n_tokens\":%zu,\"sum_logprob\":", text->n_scored);
    json_out_real(out, 0 - text->nll);
    if (text->text)
        put_text_numbers(out, text);
    else
        fprintf(out->to, ",\"is_greedy\":%s", text->is_greedy ? "true" : "false");
    if (text->text || text->n_top > 0)
        put_logprobs(out, model, text);
    if (text->n_windows > 1)
        fprintf(out->to, ",\"windows\":%zu", text->n_windows);
    if (text->cut)
        fputs(",\"truncated\":true", out->to);
}

static void put_scored(struct json_out *out, const mgpt_model *model, const struct score_line *line,
                       const struct scored_text *texts)
{
    if (!jval_get(line->object, "continuations")) {
        put_scores(out, model, texts);
        return;
    }
    fputs("\"continuations\":[", out->to);
    for (size_t i = 0; i < line->n; i++) {
        fputs(i ? ",{" : "{", out->to);
        put_scores(out, model, &texts[i]);
        putc('}', out->to);
    }
    putc(']', out->to);
}

/* A record is as long as its text, and with --top many times that: it is written as it is made. */
int score_json_print(const mgpt_model *model, const struct score_line *line,
                     const struct scored_text *texts)
{
    const struct jval *id = jval_get(line->object, "id");
    struct json_out out = {stdout, isatty(STDOUT_FILENO)};
    if (line->wrong.status < 0) {
        json_out_refused(&out, id, line->number, &line->wrong);
        return EXIT_OK;
    }
    putchar('{');
    if (id) {
        fputs("\"id\":", stdout);
        json_out_value(&out, id);
        putchar(',');
    }
    put_scored(&out, model, line, texts);
    puts("}");
    return EXIT_OK;
}
