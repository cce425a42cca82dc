/* The output of one sample. See sample_text.h. */
#include "generate/sample_text.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>

void sample_text_open(struct sample_text *text, struct samples *ask)
{
    *text = (struct sample_text){.ask = ask};
    text_out_open(&text->out, ask->engine->model, ask->json ? NULL : stdout);
}

void sample_text_close(struct sample_text *text)
{
    text_out_close(&text->out);
    arr_free(text->shown);
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
    for (size_t i = 0; i < ask->n_prompt; i++) {
        text_out_token(&text->out, ask->prompt[i], ask->no_prompt);
        if (!ask->no_prompt)
            sample_list(text, ask->prompt[i]);
    }
    text_out_drawn(&text->out, ask->stops);
}

void sample_text_put(struct sample_text *text, int32_t token)
{
    text_out_token(&text->out, token, 0);
    sample_list(text, token);
}

void sample_text_add(struct sample_text *text, const char *bytes, size_t n, const int32_t *tokens,
                     size_t n_tokens)
{
    text_out_bytes(&text->out, bytes, n);
    for (size_t i = 0; text->ask->json && i < n_tokens; i++)
        sample_list(text, tokens[i]);
}

/* One line of JSON with OpenAI's names; an interrupted sample has no reason to have finished. */
static int sample_print_json(struct sample_text *text, uint64_t number, enum ending ending)
{
    static const char *const reasons[] = {[END_TOKEN] = "stop",
                                          [END_TEXT] = "stop",
                                          [END_LENGTH] = "length",
                                          [END_FULL] = "length",
                                          [END_INTERRUPTED] = NULL};
    size_t n_text = text->out.ids ? 0 : arr_len(text->out.buffer);
    struct jtext *record =
        jtext("{s:I, s:s%, s:o, s:s}", "index", (int64_t)number, "text",
              n_text ? text->out.buffer : "", n_text, "tokens",
              jtext_ids(text->shown, arr_len(text->shown)), "finish_reason", reasons[ending]);
    if (ending == END_TEXT)
        jtext_add(record, "s:s%", "stop_text", text->out.stopped->bytes, text->out.stopped->n);
    int code = text_json_line(record);
    text_out_clear(&text->out);
    if (text->shown)
        arr_set_len(text->shown, 0);
    return code;
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
        return sample_print_json(text, number, ending);
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
