/* mgpt generate: continue a text.
 *
 * A sample is the prompt plus what is drawn until an end token, the limit of -n, or the context.
 * The last token drawn needs no pass of its own: a context of 16 positions gives 16 tokens after
 * BOS, as in microgpt. All samples draw from one stream of random numbers, so seed and options fix
 * the bytes.
 */
#include "chat.h"
#include "commands.h"
#include "engine.h"
#include "interrupt.h"
#include "mem.h"
#include "sampling.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum ending { END_STOP, END_LENGTH, END_FULL, END_INTERRUPTED, END_FAILED };

struct generate {
    struct engine engine;
    struct sampling sampling;
    const char *text, *file;
    int32_t n_predict, n_samples;
    int special, no_prompt, json, chat;
    const char *chat_format, *system;
    int32_t *prompt; /* malloc'ed */
    size_t n_prompt;
    int32_t *shown; /* stb_ds array: the tokens of this sample's text, for --json */
    struct text_out out;
    size_t n_drawn, n_full;
    int code; /* the exit code of END_FAILED */
};

static const char notes[] =
    "Without a prompt the text begins with the model's BOS token. With -f, one line end at the\n"
    "end of the file is not part of the prompt. Several samples print one per line.\n\n"
    "With --chat the text is a turn of a conversation, or one turn a line (-f, or stdin), and the\n"
    "answers are printed. The format is recognised by the model's chat template, which is never\n"
    "run, or chosen: chatml, llama3, gemma, phi-3, zephyr, llama2, nanochat. Without --system the\n"
    "model gets no system text, although its template may have one.\n\n"
    "examples:\n"
    "  mgpt generate weights/names.gguf --samples 20 --temp 0.5\n"
    "  echo 'Once upon a time' | mgpt generate -m stories.gguf -f - -n 100 --temp 0\n"
    "  mgpt generate qwen2.5-0.5b-instruct.gguf --chat -p 'What is a token?' --temp 0\n"
    "  mgpt generate names.gguf --rng python -s 42 --temp 0.5   (microgpt's own choices)\n\n"
    "exit codes: 0 ok (also when the context is full), 2 usage or a character that the vocabulary\n"
    "lacks, 3 model refused, 4 prompt longer than the context, 5 input/output, 130 interrupted\n";

/* ---- the prompt ---- */

static int read_prompt(struct generate *g, const struct cli_command *command)
{
    char *bytes;
    size_t n;
    const mgpt_info *info = &g->engine.info;
    int code = text_prompt(command, g->text, g->file, &bytes, &n);
    if (code != EXIT_OK)
        return code;
    if (g->file && n > 0 && bytes[n - 1] == '\n')
        n--;
    int32_t bos = info->add_bos || n == 0 ? info->bos : -1;
    if (n == 0 && bos < 0)
        code = cli_usage(command, "this model has no BOS token to begin with: give -p or -f");
    else
        code = engine_encode(&g->engine, "prompt", bytes, n,
                             MGPT_NO_SPECIAL_TOKENS | (g->special ? MGPT_PARSE_SPECIAL : 0u), bos,
                             &g->prompt, &g->n_prompt);
    free(bytes);
    return code;
}

/* ---- one sample ---- */

/* Adds a token to the sample's text. */
static int show(struct generate *g, int32_t token, int quietly)
{
    text_out_token(&g->out, token, quietly);
    if (!g->json || quietly || arr_push(g->shown, token))
        return EXIT_OK;
    cli_note("out of memory: the tokens of a sample");
    return EXIT_FULL;
}

static enum ending fail(struct generate *g, int code)
{
    g->code = code;
    return code == EXIT_INTERRUPTED ? END_INTERRUPTED : END_FAILED;
}

static enum ending begin_sample(struct generate *g)
{
    int code = engine_sync(&g->engine, g->prompt, g->n_prompt);
    text_out_clear(&g->out);
    if (g->shown)
        arr_set_len(g->shown, 0);
    for (size_t i = 0; i < g->n_prompt && code == EXIT_OK; i++)
        code = show(g, g->prompt[i], g->no_prompt);
    return code == EXIT_OK ? END_STOP : fail(g, code);
}

static enum ending draw_to_the_end(struct generate *g)
{
    mgpt_session *session = g->engine.session;
    const float *logits = mgpt_logits(session);
    size_t n_choices = engine_n_choices(&g->engine);
    mgpt_error err;
    for (int32_t n = 0; n != g->n_predict;) {
        if (interrupted())
            return END_INTERRUPTED;
        if (ferror(stdout))
            return fail(g, EXIT_IO);
        int32_t token = mgpt_sample(&g->sampling.sampler, logits, n_choices);
        if (mgpt_is_end(g->engine.model, token))
            return END_STOP;
        int code = show(g, token, 0);
        if (code != EXIT_OK)
            return fail(g, code);
        g->n_drawn++;
        if (++n == g->n_predict)
            break;
        if (mgpt_pos(session) == mgpt_n_ctx(session))
            return END_FULL;
        logits = mgpt_step(session, token, &err);
        if (!logits)
            return fail(g, cli_fail(NULL, &err));
    }
    return END_LENGTH;
}

/* One line of JSON with OpenAI's names; an interrupted sample has no reason to have finished. */
static int print_json(const struct generate *g, int32_t index, enum ending ending)
{
    const char *reasons[] = {"stop", "length", "length", NULL, NULL};
    json_t *tokens = json_array();
    for (size_t i = 0; i < arr_len(g->shown); i++)
        json_array_append_new(tokens, json_integer(g->shown[i]));
    return text_json_line(json_pack("{s:i, s:s%, s:o, s:s?}", "index", (int)index, "text",
                                    g->out.buffer ? g->out.buffer : "", arr_len(g->out.buffer),
                                    "tokens", tokens, "finish_reason", reasons[ending]));
}

static int sample(struct generate *g, int32_t index, enum ending *ending)
{
    *ending = begin_sample(g);
    if (*ending == END_STOP)
        *ending = draw_to_the_end(g);
    text_out_end(&g->out);
    g->n_full += *ending == END_FULL;
    if (*ending == END_FAILED)
        return g->code;
    if (g->out.failed.status < 0)
        return cli_fail(NULL, &g->out.failed);
    if (g->json)
        return print_json(g, index, *ending);
    putchar('\n');
    return EXIT_OK;
}

/* ---- all samples ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void report(const struct generate *g, double elapsed)
{
    if (g->n_full > 0 && g->n_samples == 1)
        cli_note("the context is full (%zu positions): the text ends there",
                 mgpt_n_ctx(g->engine.session));
    else if (g->n_full > 0)
        cli_note("the context is full (%zu positions): %zu of %d samples end there",
                 mgpt_n_ctx(g->engine.session), g->n_full, (int)g->n_samples);
    if (isatty(STDERR_FILENO) && g->n_drawn > 0 && elapsed > 0)
        cli_note("%zu tokens, %.0f tokens/s", g->n_drawn, (double)g->n_drawn / elapsed);
}

static int run(struct generate *g)
{
    enum ending ending = END_STOP;
    int code = engine_fits(&g->engine, "prompt", g->n_prompt);
    double start = seconds();
    if (code != EXIT_OK)
        return code;
    text_out_open(&g->out, g->engine.model, g->json ? NULL : stdout);
    interrupt_catch();
    for (int32_t i = 0; i < g->n_samples && code == EXIT_OK && ending != END_INTERRUPTED; i++)
        code = sample(g, i, &ending);
    code = cli_finish(ending == END_INTERRUPTED ? EXIT_INTERRUPTED : code);
    report(g, seconds() - start);
    return code;
}

static void release(struct generate *g)
{
    text_out_close(&g->out);
    arr_free(g->shown);
    free(g->prompt);
    engine_close(&g->engine);
}

/* ---- a conversation ---- */

static int converse(struct generate *g, const struct cli_command *command)
{
    const struct chat_request request = {g->text, g->file, g->chat_format, g->system, g->n_predict};
    if (g->json || g->n_samples != 1 || g->special || g->no_prompt)
        return cli_usage(command,
                         "--chat goes with none of --samples, --special, --no-prompt, --json");
    if (g->text && g->file)
        return cli_usage(command, "-p and -f: give one of them");
    int code = engine_session(&g->engine);
    return code == EXIT_OK ? chat_run(&g->engine, &g->sampling.sampler, &request, command) : code;
}

static int generate(struct generate *g, const struct cli_command *command)
{
    if (g->chat)
        return converse(g, command);
    if (g->chat_format || g->system)
        return cli_usage(command, "%s goes with --chat", g->system ? "--system" : "--chat-format");
    int code = read_prompt(g, command);
    if (code == EXIT_OK)
        code = engine_session(&g->engine);
    return code == EXIT_OK ? run(g) : code;
}

int cmd_generate(int argc, char **argv)
{
    struct generate g = {
        .n_predict = -1, .n_samples = 1, .sampling = {.temperature = 0.8, .top_p = 1}};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(g.engine),
        {"-p, --prompt", "TEXT", CLI_TEXT, &g.text, 0, 0, "the text to continue"},
        {"-f, --file", "FILE", CLI_TEXT, &g.file, 0, 0, "read it from a file; - is stdin"},
        {"-n, --predict", "N", CLI_INT, &g.n_predict, -1, INT32_MAX,
         "most tokens to draw (default -1: until the end)"},
        {"--samples", "N", CLI_INT, &g.n_samples, 1, INT32_MAX, "how many texts (default 1)"},
        SAMPLING_OPTIONS(g.sampling),
        ENGINE_OPT_CTX(g.engine),
        ENGINE_OPT_THREADS(g.engine),
        ENGINE_OPT_ISA(g.engine),
        {"--special", NULL, CLI_FLAG, &g.special, 0, 0,
         "control tokens such as <|endoftext|> in the prompt count"},
        {"--no-prompt", NULL, CLI_FLAG, &g.no_prompt, 0, 0, "print the continuation only"},
        {"--json", NULL, CLI_FLAG, &g.json, 0, 0, "one JSON object per sample"},
        {"--chat", NULL, CLI_FLAG, &g.chat, 0, 0, "answer turns of a conversation"},
        {"--chat-format", "NAME", CLI_TEXT, &g.chat_format, 0, 0,
         "how turns are written (default: as the model's template says)"},
        {"--system", "TEXT", CLI_TEXT, &g.system, 0, 0,
         "with --chat: what the model is told first"},
    };
    const struct cli_command command = {
        "generate", "[MODEL]", "Continue a text. The default temperature is 0.8.",
        notes,      options,   sizeof options / sizeof *options,
        0,          1};
    const char *operands[1];
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    int code = engine_choose(&g.engine, &command, operands, n, NULL, 0);
    if (code == EXIT_OK)
        code = sampling_begin(&g.sampling, &command);
    if (code == EXIT_OK)
        code = engine_open(&g.engine);
    if (code == EXIT_OK)
        code = generate(&g, &command);
    release(&g);
    return code;
}
