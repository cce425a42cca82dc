/* The output of one sample. See sample_text.h. */
#include "generate/sample_text.h"

#include "base/error.h"
#include "base/mem.h"
#include "engine/token_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

void sample_text_open(struct sample_text *text, struct samples *ask)
{
    *text = (struct sample_text){.ask = ask, .drawn.n_top = (size_t)(ask->top > 0 ? ask->top : 0)};
    text_out_open(&text->out, ask->engine->model, ask->json ? NULL : stdout);
}

void sample_text_close(struct sample_text *text)
{
    text_out_close(&text->out);
    arr_free(text->shown);
    drawn_free(&text->drawn);
}

void sample_text_hold(struct sample_text *text)
{
    text->out.to = NULL;
}

void sample_text_release(struct sample_text *text)
{
    if (text->ask->json || text->out.to)
        return;
    text->out.to = stdout;
    text_out_end(&text->out);
}

static void sample_list(struct sample_text *text, int32_t token)
{
    if (text->ask->json && !arr_push(text->shown, token))
        err_memory(&text->out.failed, "the tokens of a sample", arr_len(text->shown));
}

void sample_text_begin(struct sample_text *text)
{
    const struct samples *ask = text->ask;
    samples_put_prompt(ask, &text->out);
    for (size_t i = 0; i < ask->n_prompt && !ask->no_prompt; i++)
        sample_list(text, ask->prompt[i]);
    text_out_drawn(&text->out, ask->stops);
}

void sample_text_put(struct sample_text *text, int32_t token)
{
    text_out_token(&text->out, token, 0);
    sample_list(text, token);
}

void sample_text_note(struct sample_text *text, int32_t token, const mgpt_sampler *sampler,
                      const float *logits)
{
    const struct engine *engine = text->ask->engine;
    if (text->ask->top >= 0 && !drawn_add(&text->drawn, token, sampler, logits,
                                          (size_t)engine->info.n_vocab, engine_n_choices(engine)))
        err_memory(&text->out.failed, "the numbers of a sample", arr_len(text->drawn.tokens));
}

void sample_text_add(struct sample_text *text, const char *bytes, size_t n, const int32_t *tokens,
                     size_t n_tokens)
{
    text_out_bytes(&text->out, bytes, n);
    for (size_t i = 0; text->ask->json && i < n_tokens; i++)
        sample_list(text, tokens[i]);
}

void sample_text_choice(struct sample_text *text, int taken)
{
    const struct choices *c = text->ask->choices;
    const struct choice *k = &c->list[taken];
    sample_text_begin(text);
    if (arr_len(text->shown) > c->n_common)
        arr_set_len(text->shown, c->n_common);
    sample_text_add(text, k->text, k->n, k->tokens + c->n_common, k->n_tokens - c->n_common);
    text->taken = taken;
}

/* One line of JSON with OpenAI's names; an interrupted sample has no reason to have finished. */
static void sample_print_json(struct sample_text *text, uint64_t number, enum ending ending)
{
    static const char *const reasons[] = {
        [END_TOKEN] = "\"stop\"",    [END_TEXT] = "\"stop\"",   [END_MATCH] = "\"stop\"",
        [END_LENGTH] = "\"length\"", [END_FULL] = "\"length\"", [END_INTERRUPTED] = "null"};
    size_t n_text = text->out.ids ? 0 : arr_len(text->out.buffer);
    struct json_out out = {stdout, isatty(STDOUT_FILENO)};
    if (!text->ask->is_record)
        printf("{\"index\":%" PRIu64 ",\"text\":", number);
    else if (text->ask->id) {
        fputs("{\"id\":", stdout);
        json_out_value(&out, text->ask->id);
        fputs(",\"text\":", stdout);
    } else
        fputs("{\"text\":", stdout);
    json_out_string(&out, n_text ? text->out.buffer : "", n_text);
    fputs(",\"tokens\":", stdout);
    token_json_ids(&out, text->shown, arr_len(text->shown));
    printf(",\"finish_reason\":%s", reasons[ending]);
    if (ending == END_TEXT) {
        fputs(",\"stop_text\":", stdout);
        json_out_string(&out, text->out.stopped->bytes, text->out.stopped->n);
    }
    if (text->ask->is_record && text->ask->drawn_seed >= 0)
        printf(",\"seed\":%" PRId64, text->ask->drawn_seed);
    if (text->ask->choices)
        choices_print(text->ask->choices, text->taken, &out);
    if (text->ask->top >= 0)
        drawn_print(&text->drawn, &out, text->ask->engine->model);
    puts("}");
    text_out_clear(&text->out);
    drawn_clear(&text->drawn);
    if (text->shown)
        arr_set_len(text->shown, 0);
}

static void sample_end_line(struct sample_text *text)
{
    if (text->out.to)
        putc('\n', text->out.to);
    else
        text_out_bytes(&text->out, "\n", 1);
}

int sample_text_end(struct sample_text *text, uint64_t number, enum ending ending)
{
    text_out_end(&text->out);
    text->n_full += ending == END_FULL;
    if (text->out.failed.status < 0)
        return cli_fail(NULL, &text->out.failed);
    if (text->ask->json)
        sample_print_json(text, number, ending);
    else
        sample_end_line(text);
    return EXIT_OK;
}

int sample_text_break(struct sample_text *text, uint64_t number, int code)
{
    if (code == EXIT_INTERRUPTED) {
        sample_text_end(text, number, END_INTERRUPTED);
        return code;
    }
    text_out_end(&text->out);
    if (!text->ask->json)
        sample_end_line(text);
    return code;
}
