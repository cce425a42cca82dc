/* A prompt with its settings. See record.h. */
#include "generate/record.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/text.h"
#include "engine/token_json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sets r->wrong for a field. */
#define WRONG(r, ...) err_set(&(r)->wrong, MGPT_EFILE, MGPT_NO_OFFSET, __VA_ARGS__)

#define SETTING_NAME(field, ...) #field,
static const char *const fields[] = {"id",         "prompt",  "ids",
                                     "n",          "seed",    "stop",
                                     "ignore_end", "choices", SAMPLER_SETTINGS(SETTING_NAME)};

static int check_names(struct record *r)
{
    for (struct jval_iter k = jval_begin(r->object); jval_next(&k);) {
        size_t i = 0, n = sizeof fields / sizeof *fields;
        while (i < n && strcmp(k.key, fields[i]) != 0)
            i++;
        if (i == n)
            return WRONG(r,
                         "unknown field \"%.*s\": the fields of a record are id, prompt, ids, n, "
                         "seed, stop, ignore_end, choices and the sampler's (--help)",
                         TEXT_CLIP(k.key, strlen(k.key)));
    }
    return MGPT_OK;
}

/* ---- settings ---- */

/* Stores a number from least to most; a field that is absent changes nothing. Returns a status. */
static int read_field(struct record *r, const char *name, double least, double most, int whole,
                      double *value)
{
    const struct jval *v = jval_get(r->object, name);
    double number = v ? jval_number(v) : *value;
    if (v && (!(whole ? jval_is(v, JVAL_INTEGER) : jval_is_numeric(v)) ||
              !(number >= least && number <= most)))
        return WRONG(r, "%s: expected a %snumber from %lld to %g", name, whole ? "whole " : "",
                     (long long)least, most);
    *value = number;
    return MGPT_OK;
}

static int read_sampler(struct record *r, const struct samples *usual)
{
    double n = usual->n_predict;
    int status = read_field(r, "n", -1, INT32_MAX, 1, &n);
    r->ask.n_predict = (int32_t)n;
    r->sampler = sampling_of_sample(usual->sampling, 0);
#define WHOLE_REAL 0
#define WHOLE_INT 1
#define TYPE_REAL float
#define TYPE_INT int32_t
#define READ_SETTING(field, kind, name, key, argument, most, ...)                                  \
    if (status == MGPT_OK) {                                                                       \
        double value = (double)r->sampler.field;                                                   \
        status = read_field(r, #field, 0, most, WHOLE_##kind, &value);                             \
        r->sampler.field = (TYPE_##kind)value;                                                     \
    }
    SAMPLER_SETTINGS(READ_SETTING)
    const struct jval *seed = jval_get(r->object, "seed"), *end = jval_get(r->object, "ignore_end");
    if (status == MGPT_OK && seed && (!jval_is(seed, JVAL_INTEGER) || jval_whole(seed) < -1))
        return WRONG(r, "seed: expected a whole number from 0 to 2^63 - 1, or -1: one is drawn");
    if (status == MGPT_OK && end && !jval_is_flag(end))
        return WRONG(r, "ignore_end: expected true or false");
    if (status == MGPT_OK && seed) {
        r->sampler.rng = (uint64_t)jval_whole(seed);
        if (jval_whole(seed) < 0 && !sampling_draw_seed(&r->sampler.rng))
            return WRONG(r, "seed: the system gives no random number");
        r->ask.drawn_seed = jval_whole(seed) < 0 ? (int64_t)r->sampler.rng : -1;
    }
    r->ask.ignore_end = end ? jval_is(end, JVAL_TRUE) : usual->ignore_end;
    return status;
}

/* A string or an array of strings, in place of the command's. */
static int read_stops(struct record *r, const struct samples *usual)
{
    const struct jval *stop = jval_get(r->object, "stop");
    size_t n = jval_is(stop, JVAL_ARRAY) ? jval_size(stop) : stop != NULL;
    r->ask.stops = stop ? &r->stops : usual->stops;
    if (n > CLI_MAX_MANY)
        return WRONG(r, "stop: %zu texts, the most is %d", n, CLI_MAX_MANY);
    if (n > 0 && text_is_none(usual->engine->model))
        return WRONG(r, "stop: the model has no vocabulary, so its text is ids");
    for (size_t i = 0; i < n; i++) {
        const struct jval *text = jval_is(stop, JVAL_ARRAY) ? jval_at(stop, i) : stop;
        if (!jval_is(text, JVAL_STRING) || jval_text_size(text) == 0)
            return WRONG(r, "stop: expected a string with characters, or an array of such");
        if (!stops_add(&r->stops, jval_text(text), jval_text_size(text)))
            return err_memory(&r->wrong, "the stop texts", jval_text_size(text));
    }
    return MGPT_OK;
}

/* An array of strings, in place of the command's. */
static int read_choices(struct record *r, const struct samples *usual)
{
    const struct jval *given = jval_get(r->object, "choices");
    int status = MGPT_OK;
    if (given && (!jval_is(given, JVAL_ARRAY) || jval_size(given) == 0))
        return WRONG(r, "choices: expected an array of strings, one at least");
    if ((given || usual->choices) && (jval_get(r->object, "n") || jval_get(r->object, "stop") ||
                                      jval_get(r->object, "ignore_end")))
        return WRONG(r, "n, stop and ignore_end do not go with choices");
    if (given && text_is_none(usual->engine->model))
        return WRONG(r, "choices: the model has no vocabulary, so its text is ids");
    for (size_t i = 0; given && status == MGPT_OK && i < jval_size(given); i++) {
        const struct jval *text = jval_at(given, i);
        if (!jval_is(text, JVAL_STRING))
            return WRONG(r, "choices: expected an array of strings, one at least");
        status = choices_add(&r->choices, jval_text(text), jval_text_size(text), &r->wrong);
    }
    size_t n = given || !usual->choices ? 0 : arr_len(usual->choices->list);
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        status = choices_add(&r->choices, usual->choices->list[i].text, usual->choices->list[i].n,
                             &r->wrong);
    r->ask.choices = r->choices.list ? &r->choices : NULL;
    return status;
}

/* ---- the prompt ---- */

static int read_prompt_text(struct record *r, const struct jval *text, int special)
{
    const struct engine *e = r->ask.engine;
    size_t n = jval_text_size(text);
    return engine_try_encode(
        e, jval_text(text), n, MGPT_NO_SPECIAL_TOKENS | (special ? MGPT_PARSE_SPECIAL : 0u),
        e->info.add_bos || n == 0 ? e->info.bos : -1, &r->prompt, &r->ask.n_prompt, &r->wrong);
}

static int read_record_prompt(struct record *r, int special)
{
    const struct jval *text = jval_get(r->object, "prompt"), *ids = jval_get(r->object, "ids");
    size_t n_ctx = mgpt_n_ctx(r->ask.engine->session);
    if (!r->object || !text == !ids ||
        !(text ? jval_is(text, JVAL_STRING) : jval_is(ids, JVAL_ARRAY)))
        return WRONG(r, "expected an object with a string called prompt, or an array called ids");
    int status = text ? read_prompt_text(r, text, special)
                      : token_json_read_ids(ids, r->ask.engine->info.n_vocab, &r->prompt,
                                            &r->ask.n_prompt, &r->wrong);
    if (status == MGPT_OK && r->ask.n_prompt == 0)
        return WRONG(r, ids ? "ids: expected at least one"
                            : "the prompt is empty, and the model has no BOS to begin with");
    if (status == MGPT_OK && r->ask.n_prompt > n_ctx)
        return WRONG(r, "the prompt has %zu tokens, the context holds %zu", r->ask.n_prompt, n_ctx);
    return status;
}

/* The prompt's last bytes are to be drawn again: only the tokens before them are run. Returns a status. */
static int open_heal(struct record *r)
{
    int status = heal_open(&r->heal, r->ask.engine->model, r->prompt, r->ask.n_prompt, &r->wrong);
    if (status < 0 || r->heal.n_bytes == 0)
        return status;
    r->ask.n_prompt = r->heal.n_kept;
    r->ask.heal = r->rules.heal = &r->heal;
    return MGPT_OK;
}

struct record *record_read(const struct records_ask *ask, size_t line, const char *text, size_t n)
{
    struct record *r = mem_new(1, sizeof *r);
    struct jval_error failed;
    if (!r)
        return NULL;
    r->line = line;
    r->ask = *ask->usual;
    r->ask.is_record = 1;
    r->ask.drawn_seed = -1;
    sample_text_open(&r->text, &r->ask);
    r->object = jval_read(text, n, JVAL_ALLOW_NUL, NULL, &failed);
    if (!r->object && !jval_no_memory(&failed, n, &r->wrong))
        err_set(&r->wrong, MGPT_EFILE, failed.offset, "bad JSON: %s", failed.text);
    int status = r->wrong.status;
    if (status == MGPT_OK)
        status = check_names(r);
    if (status == MGPT_OK)
        status = read_sampler(r, ask->usual);
    if (status == MGPT_OK)
        status = read_stops(r, ask->usual);
    if (status == MGPT_OK)
        status = read_choices(r, ask->usual);
    if (status == MGPT_OK)
        status = read_record_prompt(r, ask->special);
    r->rules = ask->usual->sampling->rules;
    if (status == MGPT_OK && ask->usual->heals && r->ask.n_predict != 0 && !r->ask.choices)
        status = open_heal(r);
    chooser_share(&r->chooser, &ask->usual->sampling->chooser);
    if (status == MGPT_OK)
        status = chooser_open(&r->chooser, &r->rules, &r->wrong);
    chooser_begin(&r->chooser, r->ask.n_prompt, 0);
    r->ask.id = jval_get(r->object, "id");
    r->is_done = status < 0;
    r->ask.prompt = r->to_run = r->prompt;
    r->n_to_run = r->ask.n_prompt;
    if (!r->is_done && !r->ask.choices)
        sample_text_begin(&r->text);
    return r;
}

/* ---- drawing ---- */

static enum ending take_choice(struct record *r)
{
    int taken = choices_score(&r->choices, r->ask.engine, r->session, 0, &r->wrong);
    if (taken == MGPT_OK)
        taken = choices_draw(&r->choices, &r->sampler, &r->wrong);
    if (taken < 0)
        return END_INTERRUPTED;
    sample_text_choice(&r->text, taken);
    return END_MATCH;
}

static enum ending draw_token(struct record *r, const float *logits)
{
    if (r->ask.n_predict == 0)
        return END_LENGTH;
    if (r->ask.heal && r->n_drawn == 0 &&
        samples_heal(&r->heal, r->ask.engine, r->session, r->prompt, &r->wrong) < 0)
        return END_INTERRUPTED;
    if (chooser_is_complete(&r->chooser, mgpt_tokens(r->session), mgpt_pos(r->session)))
        return END_MATCH;
    r->token = chooser_draw(&r->chooser, &r->sampler, logits, engine_n_choices(r->ask.engine),
                            mgpt_tokens(r->session), mgpt_pos(r->session), &r->wrong);
    if (r->token < 0)
        return END_INTERRUPTED;
    enum ending ending =
        samples_ending(&r->ask, mgpt_tokens(r->session) + r->ask.n_prompt, r->n_drawn, r->token);
    if (ending == END_TOKEN)
        return END_TOKEN;
    sample_text_put(&r->text, r->token);
    r->n_drawn++;
    sample_text_note(&r->text, r->token, &r->sampler, logits);
    return r->text.out.stopped ? END_TEXT : ending;
}

void record_draw(struct record *r)
{
    const float *logits = mgpt_logits(r->session);
    if (engine_check(r->ask.engine, logits, mgpt_pos(r->session) - 1, &r->wrong) < 0) {
        r->is_done = 1;
        return;
    }
    r->ending = r->ask.choices ? take_choice(r) : draw_token(r, logits);
    r->to_run = &r->token;
    r->n_to_run = 1;
    r->is_done = r->ending != GOES_ON;
}

int record_print(struct record *r)
{
    struct json_out out = {stdout, isatty(STDOUT_FILENO)};
    if (r->wrong.status == MGPT_OK)
        return sample_text_end(&r->text, 0, r->ending);
    json_out_refused(&out, r->ask.id, r->line, &r->wrong);
    return EXIT_OK;
}

void record_free(struct record *r)
{
    sample_text_close(&r->text);
    stops_close(&r->stops);
    choices_close(&r->choices);
    chooser_close(&r->chooser);
    heal_close(&r->heal);
    free(r->prompt);
    jval_free(r->object);
    free(r);
}
