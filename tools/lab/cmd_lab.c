/* mgpt lab: a web page with the user's model and the engine in it.
 *
 * Up to a stated size the page carries weights and engine and computes everything anew (live);
 * above it, one run of a prompt with all values (recorded). The file is there whole or not at all.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/xxh64.h"
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/jtext.h"
#include "common/sandbox.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/input.h"
#include "lab/about.h"
#include "lab/page_out.h"
#include "lab/parts.h"
#include "lab/record.h"
#include "lab/story.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MB 1000000.0

/* Browsers hold some 500 MB in one text, 1.23 characters a byte. */
enum { MAX_DEFAULT = 32, MAX_MOST = 300 };

struct lab {
    struct engine engine;
    struct input input;
    const char *path;
    double max; /* MB */
    int recorded;
    int embed;
    int json;
    const char *at; /* what follows # in the address that the page opens with; NULL: none */
    struct page_top top;
    struct story story; /* n 0: one model */
    struct jtext *told; /* what the page says of the story; taken by lab_describe */
    struct file file;
    const uint8_t *bytes; /* of the model's GGUF file, in `file` or in the engine */
    size_t n_bytes;
    struct hook *hooks;
    struct page_out page;
    struct jtext *about;
    char reason[160]; /* why the page is recorded; empty: it is live */
};

static const char notes[] =
    "A live page computes everything in the browser, with this engine compiled to WebAssembly and "
    "the\n"
    "bits that it gives here: type, step, sample, take out heads, compare; sweeps between two "
    "texts as\n"
    "mgpt patch makes them, steering vectors, neurons. Above --max MB of weights, and with "
    "--static, the\n"
    "page holds one run of the prompt with all its values and the same views. It needs no "
    "network, no\n"
    "server, no other file: open it from disk. Every figure can be saved as SVG, PNG, CSV or "
    "JSON.\n\n"
    "Several models of one shape, at several steps of its training, make a page that begins with "
    "its\n"
    "story: what it writes, its loss, where its heads look, step by step. The last number in a "
    "file's\n"
    "name is its step. --held FILE has texts that training has not seen, one a line: the loss is "
    "theirs\n"
    "(without it: of the prompt). --texts FILE has those of training: what counting letters and "
    "pairs of\n"
    "letters would reach, and which of the texts that it writes are real.\n\n"
    "With --embed the page has no header and no footer, and tells its height to the page around "
    "it:\n"
    "  <iframe src=\"lab.html\" sandbox=\"allow-scripts allow-downloads\"></iframe>\n"
    "  addEventListener('message', (e) => { frame.height = e.data.mgptLab.height; });\n\n"
    "--json prints {\"file\", \"page\": \"live\" or \"recorded\", \"bytes\", \"tokens\": their "
    "number,\n"
    "\"reason\": why it is recorded, or null}.\n\n"
    "examples:\n"
    "  mgpt lab weights/names.gguf -p anna -o lab.html\n"
    "  mgpt lab gpt2.gguf -p 'The capital of France is' --static -o france.html\n"
    "  mgpt lab weights/names-steps/*.gguf -p anna --held held.txt --texts names.txt -o "
    "story.html\n"
    "  mgpt lab weights/names.gguf -p anna --embed --at 'view=attention&head=2' -o frame.html\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_USAGE] = "usage or a character that the vocabulary lacks",
    [EXIT_AT_FULL] = "longer than the context, more than a page can carry, or out of memory",
};

/* ---- live or recorded ---- */

/* A tensor of a type with a grid, which the engine in a page cannot read (MGPT_NO_GRIDS). */
static int find_grid_type(const mgpt_model *model, mgpt_tensor *t)
{
    for (size_t i = 0; i < mgpt_n_tensors(model); i++)
        if (mgpt_get_tensor(model, i, t, NULL) == MGPT_OK && strncmp(t->type, "IQ", 2) == 0 &&
            t->type[2] < '4')
            return 1;
    return 0;
}

static void decide(struct lab *lab)
{
    mgpt_tensor t;
    double mb = (double)lab->engine.info.file_bytes / MB;
    if (lab->recorded)
        snprintf(lab->reason, sizeof lab->reason, "it was asked for with --static");
    else if (mb > lab->max)
        snprintf(lab->reason, sizeof lab->reason,
                 "the model has %.1f MB, a live page takes up to %.4g (--max)", mb, lab->max);
    else if (strcmp(lab->engine.info.tokenizer, "unigram") == 0 || lab->engine.info.steps ||
             strncmp(lab->engine.info.tokenizer, "word", 4) == 0)
        snprintf(lab->reason, sizeof lab->reason, "pages do not split texts as this model does");
    else if (find_grid_type(lab->engine.model, &t))
        snprintf(lab->reason, sizeof lab->reason,
                 "pages cannot read %s: convert the model with --type f16", t.type);
}

/* A page with a story is live. */
static int check_story(const struct lab *lab)
{
    double mb = 0;
    for (size_t i = 0; i < lab->story.n; i++)
        mb += (double)lab->story.steps[i].n_bytes / MB;
    if (lab->reason[0])
        cli_note("several models make a live page: %s", lab->reason);
    else if (mb > lab->max)
        cli_note("the %zu models have %.1f MB, a live page takes up to %.4g (--max)", lab->story.n,
                 mb, lab->max);
    else
        return EXIT_OK;
    return EXIT_FULL;
}

static int read_story(struct lab *lab)
{
    if (lab->story.n == 0)
        return EXIT_OK;
    int code = lab->reason[0] ? check_story(lab) : EXIT_OK;
    if (code == EXIT_OK)
        code = story_tell(&lab->story, &lab->engine, lab->input.tokens, lab->input.n_tokens,
                          &lab->told);
    return code == EXIT_OK ? check_story(lab) : code;
}

static int check_size(const struct lab *lab)
{
    const struct record_of_run run = {lab->engine.model, lab->hooks, lab->input.tokens,
                                      lab->input.n_tokens, engine_n_choices(&lab->engine)};
    double mb = (double)record_size(&run) / MB;
    if (mb <= MAX_MOST)
        return EXIT_OK;
    cli_note("the values of %zu tokens are %.0f MB, a page takes up to %d: give a shorter prompt",
             lab->input.n_tokens, mb, (int)MAX_MOST);
    return EXIT_FULL;
}

/* ---- what goes into the page ---- */

static int list_hooks(struct lab *lab)
{
    mgpt_error err;
    lab->hooks = hooks_list(lab->engine.model, &err);
    return lab->hooks ? EXIT_OK : cli_fail(NULL, &err);
}

static int read_input(struct lab *lab, const struct cli_command *command)
{
    if (lab->reason[0] && input_count(&lab->input) == 0)
        return cli_usage(command, "a recorded page needs a prompt (%s): give -p", lab->reason);
    if (input_count(&lab->input) == 0 && lab->engine.info.bos < 0)
        return list_hooks(lab); /* nothing: the user chooses the first token */
    int code = input_read(&lab->input, &lab->engine, command);
    if (code != EXIT_OK)
        return code;
    if (lab->input.n_tokens > (size_t)lab->engine.info.n_ctx) {
        cli_note("prompt: %zu tokens, but the context holds %d", lab->input.n_tokens,
                 (int)lab->engine.info.n_ctx);
        return EXIT_FULL;
    }
    if (lab->reason[0] && lab->input.n_tokens == 0)
        return cli_usage(command, "nothing to record: the text is empty and the model has no BOS");
    code = list_hooks(lab);
    return code == EXIT_OK && lab->reason[0] ? check_size(lab) : code;
}

static void lab_describe(struct lab *lab)
{
    const struct about about = {.engine = &lab->engine,
                                .hooks = lab->hooks,
                                .tokens = lab->input.tokens,
                                .n_tokens = lab->input.n_tokens,
                                .hash = xxh64(lab->bytes, lab->n_bytes),
                                .reason = lab->reason[0] ? lab->reason : NULL};
    lab->about = about_json(&about);
    if (lab->story.n > 0)
        jtext_add(lab->about, "s:o", "story", lab->told);
    lab->told = NULL;
}

static int put_about(struct lab *lab, mgpt_error *err)
{
    int status = page_begin(&lab->page, "mgpt-about", err);
    if (status < 0)
        return status;
    size_t n = 0;
    const char *text = jtext_end(lab->about, 1, &n);
    if (text)
        page_add(&lab->page, text, n);
    page_end(&lab->page);
    return text ? MGPT_OK : err_memory(err, "what the page says about the model", 0);
}

static int put_block(struct lab *lab, const char *id, const void *data, size_t n, mgpt_error *err)
{
    int status = page_begin(&lab->page, id, err);
    if (status < 0)
        return status;
    page_add(&lab->page, data, n);
    page_end(&lab->page);
    return MGPT_OK;
}

/* How the page begins: home.css asks for the first block, main.js for the second. */
static int put_beginning(struct lab *lab, mgpt_error *err)
{
    int status = lab->embed ? put_block(lab, "mgpt-embed", "", 0, err) : MGPT_OK;
    if (status == MGPT_OK && lab->at)
        status = put_block(lab, "mgpt-at", lab->at, strlen(lab->at), err);
    return status;
}

static int put_run(struct lab *lab, mgpt_error *err)
{
    const struct record_of_run run = {lab->engine.model, lab->hooks, lab->input.tokens,
                                      lab->input.n_tokens, engine_n_choices(&lab->engine)};
    lab->engine.model = NULL; /* it is taken */
    return record_put(&run, &lab->page, lab->about, err);
}

/* Everything into the page; 1: interrupted. */
static int put_all(struct lab *lab, mgpt_error *err)
{
    const char *name = lab->engine.info.name;
    struct page_top top = lab->top;
    char title[256];
    snprintf(title, sizeof title, "%s \u00b7 mgpt lab", name[0] ? name : lab->engine.path);
    if (!top.title)
        top.title = title;
    lab_describe(lab);
    int status = page_open(&lab->page, lab->path, &top, err);
    if (status == MGPT_OK)
        page_put_packed(&lab->page, "mgpt-module", lab_module.data, lab_module.n);
    if (status == MGPT_OK)
        status = put_beginning(lab, err);
    if (status == MGPT_OK)
        status = lab->reason[0] ? put_run(lab, err)
                                : put_block(lab, "mgpt-model", lab->bytes, lab->n_bytes, err);
    if (status == MGPT_OK && lab->story.n > 0)
        status = story_put(&lab->story, &lab->page, err);
    if (status == MGPT_OK)
        status = put_about(lab, err);
    return status;
}

/* ---- the command ---- */

static int write_page(struct lab *lab)
{
    mgpt_error err;
    uint64_t n_bytes, weights = lab->engine.info.file_bytes;
    int status = put_all(lab, &err);
    if (status == 1 || interrupted())
        return EXIT_INTERRUPTED;
    if (status == MGPT_OK)
        status = page_commit(&lab->page, &n_bytes, &err);
    if (status < 0)
        return cli_fail(err.status == MGPT_EMEM ? NULL : lab->path, &err);
    if (lab->json)
        return cli_finish(text_json_line(
            jtext("{s:s, s:s, s:I, s:I, s:s}", "file", lab->path, "page",
                  lab->reason[0] ? "recorded" : "live", "bytes", (int64_t)n_bytes, "tokens",
                  (int64_t)lab->input.n_tokens, "reason", lab->reason[0] ? lab->reason : NULL)));
    if (!lab->reason[0])
        cli_info("%s: live, %.1f kB (weights %.1f kB, engine %.1f kB packed)", lab->path,
                 (double)n_bytes / 1e3, (double)weights / 1e3, (double)lab_module.n / 1e3);
    else
        cli_info("%s: recorded, %.1f kB, %zu tokens: %s", lab->path, (double)n_bytes / 1e3,
                 lab->input.n_tokens, lab->reason);
    return EXIT_OK;
}

static int cmd_lab_run(struct lab *lab, const struct cli_command *command)
{
    mgpt_error err;
    const char *steps[STORY_MOST];
    for (size_t i = 0; i < lab->story.n; i++)
        steps[i] = lab->story.steps[i].path;
    int code = sandbox_enter(
        &(struct sandbox){.checkpoints = {lab->engine.path},
                          .files = {lab->input.file, lab->story.texts, lab->story.held},
                          .models = steps,
                          .n_models = lab->story.n,
                          .output = lab->path,
                          .adapters = &lab->engine.lora});
    if (code == EXIT_OK)
        code = engine_open(&lab->engine);
    if (code != EXIT_OK)
        return code;
    decide(lab);
    interrupt_catch();
    code = read_input(lab, command);
    if (code == EXIT_OK)
        code = read_story(lab);
    if (code == EXIT_OK &&
        engine_bytes(&lab->engine, &lab->file, &lab->bytes, &lab->n_bytes, &err) < 0)
        code = cli_fail(lab->engine.path, &err);
    return code == EXIT_OK ? write_page(lab) : code;
}

enum { LAB_GOES_ON = -1 };

/* The model, or the models of a story. LAB_GOES_ON, or an exit code when that was all. */
static int lab_parse(struct lab *lab, const struct cli_command *command, int argc, char **argv)
{
    const char *operands[STORY_MOST];
    int n = cli_parse(command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    if (n > 1 && !lab->engine.path) {
        if (lab->engine.lora.n > 0 || lab->recorded)
            return cli_usage(command, "%s: with one model only",
                             lab->recorded ? "--static" : "--lora");
        if (!story_take(&lab->story, operands, (size_t)n))
            return EXIT_USAGE;
        lab->engine.path = lab->story.steps[n - 1].path;
        n = 0;
    }
    if (lab->story.n == 0 && (lab->story.held || lab->story.texts))
        return cli_usage(command, "--held and --texts go with several models");
    int code = engine_choose(&lab->engine, command, operands, n, NULL, 0);
    return code == EXIT_OK ? LAB_GOES_ON : code;
}

int cmd_lab(int argc, char **argv)
{
    struct lab lab = {.max = MAX_DEFAULT};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(lab.engine),
        {"-o, --output", "FILE", CLI_TEXT, &lab.path, 0, 0, "the page to write: lab.html", IN_USED},
        INPUT_OPTIONS(lab.input),
        {"--held", "FILE", CLI_TEXT, &lab.story.held, 0, 0,
         "with several models: texts that training has not seen, one a line", IN_TEXT},
        {"--texts", "FILE", CLI_TEXT, &lab.story.texts, 0, 0,
         "with several models: the texts of training, one a line", IN_TEXT},
        {"--max", "MB", CLI_REAL, &lab.max, 0.001, MAX_MOST,
         "most megabytes of weights in a live page (default 32)", IN_OUTPUT},
        {"--embed", NULL, CLI_FLAG, &lab.embed, 0, 0, "for a frame in a page or notebook",
         IN_OUTPUT},
        {"--at", "LINK", CLI_TEXT, &lab.at, 0, 0,
         "where the page opens: its address after #, view=attention", IN_OUTPUT},
        {"--title", "TEXT", CLI_TEXT, &lab.top.title, 0, 0,
         "the page's title (default: the model's name)", IN_OUTPUT},
        {"--about", "TEXT", CLI_TEXT, &lab.top.about, 0, 0,
         "what sites say of the page where someone links it", IN_OUTPUT},
        {"--picture", "URL", CLI_TEXT, &lab.top.picture, 0, 0, "what they show: https://...",
         IN_OUTPUT},
        {"--json", NULL, CLI_FLAG, &lab.json, 0, 0, "say what was written as a JSON object",
         IN_OUTPUT},
        {"--static", NULL, CLI_FLAG, &lab.recorded, 0, 0, "record one run, without the weights",
         IN_USED},
    };
    const struct cli_command command =
        CLI_COMMAND("lab", "[MODEL]... -o FILE",
                    "A web page in which the model runs and shows everything inside.", notes, exits,
                    options, 0, STORY_MOST);
    int code = lab_parse(&lab, &command, argc, argv);
    if (code != LAB_GOES_ON)
        return code;
    if (!lab.path)
        return cli_usage(&command, "where to? Give -o lab.html");
    if (cli_same_file(lab.path, lab.engine.path))
        return cli_usage(&command, "-o: %s is the model", lab.path);
    if (lab.at && lab.at[0] == '#')
        lab.at++;
    if (lab.at && !strchr(lab.at, '='))
        return cli_usage(&command, "--at: expected NAME=VALUE[&...], found '%s'", lab.at);
    if (input_count(&lab.input) > 1)
        return cli_usage(&command, "give one of -p, -f, --ids");
    code = cmd_lab_run(&lab, &command);
    page_discard(&lab.page);
    jtext_free(lab.about);
    jtext_free(lab.told);
    story_free(&lab.story);
    arr_free(lab.hooks);
    free(lab.input.tokens);
    file_close(&lab.file);
    engine_close(&lab.engine);
    return code;
}
