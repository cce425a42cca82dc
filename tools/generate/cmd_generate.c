/* mgpt generate: continue a text.
 *
 * A sample is the prompt plus what is drawn until an end token, the limit of -n, or the context.
 * The last token drawn needs no pass of its own: a context of 16 positions gives 16 tokens after
 * BOS, as in microgpt. Seed, options and the sample's number fix the bytes (sampling.h); samples.h
 * says how several run.
 */
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "engine/chat.h"
#include "engine/engine.h"
#include "engine/input.h"
#include "engine/sampling.h"
#include "generate/notes.h"
#include "generate/records.h"
#include "generate/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct generate {
    struct engine engine;
    struct sampling sampling;
    struct samples samples;
    struct draft draft;
    struct input input;
    struct cli_many stop;
    const char *choices_given;
    struct choices choices;
    struct heal heal;
    struct stops stops;
    int chat;
    const char *records, *chat_file;
    int32_t keep_turns;
    struct chat_style style;
};

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_OK] = "ok (also when the context is full)",
    [EXIT_AT_USAGE] = "usage or a character that the vocabulary lacks",
    [EXIT_AT_REFUSED] = "model, session or a record refused, or not finite",
    [EXIT_AT_FULL] = "prompt longer than the context, or out of memory",
};

/* ---- the prompt ---- */

/* Without a prompt --session continues the text of its file. */
static int take_stored(struct generate *g)
{
    const struct resume *r = &g->samples.resume;
    g->input.n_tokens = r->n_stored;
    g->input.tokens = malloc(r->n_stored * sizeof *r->stored);
    if (!g->input.tokens) {
        cli_note("out of memory: the tokens");
        return EXIT_FULL;
    }
    memcpy(g->input.tokens, r->stored, r->n_stored * sizeof *r->stored);
    return EXIT_OK;
}

static int read_prompt(struct generate *g, const struct cli_command *command)
{
    g->input.file = input_or_pipe(g->input.file, input_count(&g->input));
    const struct resume *r = &g->samples.resume;
    if (r->n_stored > 0 && input_count(&g->input) == 0) {
        int kept = resume_numbers(r, &g->engine, &g->sampling);
        resume_edits(r, &g->engine, &g->samples.begin, &g->samples.mu);
        g->samples.heals &= resume_is_undrawn(r, &g->engine);
        g->samples.has_ended = r->had_ended;
        if (r->had_ended && !g->samples.ignore_end && !g->choices_given)
            cli_info("%s: the text has ended, nothing is drawn: --ignore-end goes on after it, -p "
                     "begins another",
                     r->path);
        return kept == EXIT_OK ? take_stored(g) : kept;
    }
    int code = input_read(&g->input, &g->engine, command);
    if (code == EXIT_OK && g->input.n_tokens == 0)
        return cli_usage(command, g->input.ids
                                      ? "--ids is empty: expected at least one id"
                                      : "this model has no BOS token to begin with: give -p or -f");
    return code;
}

/* ---- the samples ---- */

static void generate_report(const struct samples *s, double elapsed)
{
    const struct speculation *ahead = &s->speculation;
    size_t n_ctx = mgpt_n_ctx(s->engine->session);
    if (s->n_full > 0 && s->n == 1)
        cli_info("the context is full (%zu positions): the text ends there", n_ctx);
    else if (s->n_full > 0)
        cli_info("the context is full (%zu positions): %zu of %d samples end there", n_ctx,
                 s->n_full, (int)s->n);
    if (samples_speculate(s))
        cli_info("accepted %zu of %zu proposed tokens, %zu passes for %zu tokens", ahead->n_right,
                 ahead->n_proposed, ahead->n_passes, ahead->n_steps);
    if (isatty(STDERR_FILENO) && s->resume.n_stored > 0)
        cli_info("%s has %zu of the %zu tokens of the prompt", s->resume.path,
                 resume_shared(&s->resume, s->prompt, s->n_prompt), s->n_prompt);
    if (isatty(STDERR_FILENO) && s->n_drawn > 0 && elapsed > 0)
        cli_info("%zu tokens, %.0f tokens/s", s->n_drawn, (double)s->n_drawn / elapsed);
}

static int generate_run(struct generate *g)
{
    struct samples *s = &g->samples;
    size_t n_ctx = mgpt_n_ctx(g->engine.session), n_prompt = g->input.n_tokens;
    int code = s->slide ? EXIT_OK : engine_fits(&g->engine, "prompt", n_prompt);
    double start = cli_seconds();
    if (code != EXIT_OK)
        return code;
    s->engine = &g->engine;
    s->stops = &g->stops;
    s->sampling = &g->sampling;
    s->prompt = g->input.tokens;
    s->n_prompt = n_prompt;
    s->n_before = n_prompt > n_ctx ? n_prompt - n_ctx : 0;
    interrupt_catch();
    if (s->heals && s->n_predict != 0)
        code = samples_heal_prompt(s, &g->heal, &g->sampling.rules);
    code = cli_finish(code == EXIT_OK ? samples_run(s) : code);
    if (code == EXIT_OK || code == EXIT_INTERRUPTED)
        generate_report(s, cli_seconds() - start);
    return code;
}

static void generate_release(struct generate *g)
{
    speculate_close(&g->samples.speculation);
    free(g->samples.resume.stored);
    free(g->input.tokens);
    stops_close(&g->stops);
    choices_close(&g->choices);
    heal_close(&g->heal);
    draft_close(&g->draft);
    sampling_end(&g->sampling);
    engine_close(&g->engine);
}

static int read_choice_list(struct generate *g, const struct cli_command *command)
{
    const struct samples *s = &g->samples;
    mgpt_error err;
    if (s->n_predict >= 0 || s->ignore_end || s->slide || s->top >= 0 || g->stop.n > 0 ||
        sampling_edits_given(&g->sampling))
        return cli_usage(command, "--choices goes with none of -n, --stop, --ignore-end, --slide, "
                                  "--top and the settings that edit logits (--bias to --mirostat)");
    if (text_is_none(g->engine.model))
        return cli_usage(command, "--choices: the model has no vocabulary, so its text is ids");
    int status = choices_read(&g->choices, g->choices_given, &err);
    if (status == MGPT_EARG)
        return cli_usage(command, "--choices: %s", err.text);
    g->samples.choices = &g->choices;
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

static int open_session(struct generate *g, const struct cli_command *command)
{
    int code = g->choices_given ? read_choice_list(g, command) : EXIT_OK;
    if (code == EXIT_OK)
        code = engine_session(&g->engine);
    if (code == EXIT_OK)
        code = stops_open(&g->stops, command, "--stop", &g->stop, g->engine.model);
    if (code == EXIT_OK && g->samples.draft)
        code = draft_open(&g->draft, &g->engine);
    return code == EXIT_OK && g->samples.resume.path ? resume_load(&g->samples.resume, &g->engine)
                                                     : code;
}

/* ---- a conversation ---- */

static int converse(struct generate *g, const struct cli_command *command)
{
    const struct samples *s = &g->samples;
    const struct chat_request request = {
        .text = g->input.text,
        .file = g->input.file,
        .style = &g->style,
        .n_predict = s->n_predict,
        .stops = &g->stops,
        .choices = g->choices_given ? &g->choices : NULL,
        .chat_file = g->chat_file,
        .keep_turns = g->keep_turns,
    };
    if (s->json || s->n != 1 || s->first || s->batch || samples_speculate(s) || s->slide ||
        g->input.special || g->input.escapes || g->input.ids || s->no_prompt || s->ignore_end)
        return cli_usage(command, "--chat goes with none of --samples, --first, --batch, --lookup, "
                                  "--draft, --slide, --special, -e, --ids, --no-prompt, --json, "
                                  "--ignore-end");
    if (g->input.text && g->input.file)
        return cli_usage(command, "-p and -f: give one of them");
    if (s->resume.path && (g->chat_file || g->keep_turns))
        return cli_usage(command, "%s and --session: only one of them: a session has no roles",
                         g->chat_file ? "--chat-file" : "--keep-turns");
    int code = open_session(g, command);
    if (code != EXIT_OK)
        return code;
    if (g->style.system && s->resume.n_stored > 0)
        return cli_usage(command, "--system: the conversation in %s has begun", s->resume.path);
    code = resume_numbers(&s->resume, &g->engine, &g->sampling);
    if (code != EXIT_OK)
        return code;
    code = chat_run(&g->engine, &g->sampling, &request, command);
    resume_note(&g->engine, &g->sampling, &g->sampling.sampler);
    int kept = resume_writes(&s->resume) ? resume_save(&s->resume, &g->engine) : EXIT_OK;
    return code == EXIT_OK ? kept : code;
}

/* ---- records ---- */

static int draw_records(struct generate *g, const struct cli_command *command)
{
    struct samples *s = &g->samples;
    if (g->chat || s->n != 1 || s->first || samples_speculate(s) || s->slide || s->resume.path ||
        g->input.text || g->input.ids || g->input.file || sampling_is_shared(&g->sampling) ||
        g->sampling.edits.BAN.n)
        return cli_usage(command,
                         "--records goes with none of -p, -f, --ids, --samples, --first, "
                         "--lookup, --draft, --slide, --session, --chat, --rng python, --ban");
    int code = open_session(g, command);
    if (code != EXIT_OK)
        return code;
    s->engine = &g->engine;
    s->stops = &g->stops;
    s->sampling = &g->sampling;
    s->json = 1;
    const struct records_ask ask = {g->records, s, g->input.special};
    interrupt_catch();
    return cli_finish(records_run(&ask));
}

static int generate(struct generate *g, const struct cli_command *command)
{
    struct samples *s = &g->samples;
    s->draft = g->draft.engine.path ? &g->draft : NULL;
    if (s->heals && (g->chat || s->slide || g->choices_given || g->sampling.edits.BAN.n ||
                     g->sampling.edits.REGEX.n || g->sampling.schema))
        return cli_usage(command, "--heal goes with none of --chat, --slide, --choices, --ban, "
                                  "--regex, --json-schema");
    if (s->heals && text_is_none(g->engine.model))
        return cli_usage(command, "--heal: the model has no vocabulary, so its text is ids");
    if (s->lookup == CLI_CHOSEN)
        s->lookup = SPECULATE_DEFAULT;
    if (s->resume.path && g->engine.steer_spec)
        return cli_usage(command, "--steer and --session: only one of them");
    if (g->records)
        return draw_records(g, command);
    if (g->chat)
        return converse(g, command);
    const struct chat_style *style = &g->style;
    const char *alone = g->chat_file           ? "--chat-file"
                        : g->keep_turns        ? "--keep-turns"
                        : style->system        ? "--system"
                        : style->think         ? "--think"
                        : style->template_file ? "--chat-template"
                        : style->vars.n        ? "--chat-var"
                        : style->format        ? "--chat-format"
                                               : NULL;
    if (alone)
        return cli_usage(command, "%s goes with --chat", alone);
    if (s->slide && samples_speculate(s))
        return cli_usage(command, "--slide and %s: only one of them",
                         s->lookup ? "--lookup" : "--draft");
    if (s->slide && g->sampling.edits.BAN.n)
        return cli_usage(command, "--slide and --ban: only one of them");
    if (s->slide && s->resume.path)
        return cli_usage(command, "--slide and --session: only one of them");
    if (s->top >= 0 && !s->json)
        return cli_usage(command, "--top goes with --json");
    if (s->first && sampling_is_shared(&g->sampling))
        return cli_usage(command, "--first needs a stream for each sample: not with --rng python");
    int code = open_session(g, command);
    if (code == EXIT_OK)
        code = read_prompt(g, command);
    return code == EXIT_OK ? generate_run(g) : code;
}

/* The command, after its options have been read. */
static int generate_parsed(struct generate *g, const struct cli_command *command)
{
    if (!g->records && g->samples.json && !g->chat && records_named(g->input.file)) {
        g->records = g->input.file;
        g->input.file = NULL;
    }
    /* A record may draw otherwise than the options say. */
    g->engine.only_draws = !g->records && !g->choices_given && !g->samples.heals;
    int code = engine_begin(&g->engine, &g->sampling, command);
    return code == EXIT_OK ? generate(g, command) : code;
}

int cmd_generate(int argc, char **argv)
{
    struct generate g = {.samples = {.n_predict = -1, .n = 1, .top = -1},
                         .sampling = {SAMPLING_INITIAL.usual_temperature = 0.8}};
    struct sampling *s = &g.sampling;
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(g.engine),
        INPUT_OPTIONS(g.input),
        {"-n, --tokens", "N", CLI_INT, &g.samples.n_predict, -1, INT32_MAX,
         "most tokens to draw (default -1: until the end)", IN_USED},
        {"--stop", "TEXT", CLI_MANY, &g.stop, 0, 0,
         "end before TEXT (\\n, \\u{3002}, ...); may be repeated", IN_TEXT},
        {"--choices", "LIST", CLI_TEXT, &g.choices_given, 0, 0,
         "go on with one of these, by their probabilities: yes,no (\\, is a comma)", IN_TEXT},
        {"--heal", NULL, CLI_FLAG, &g.samples.heals, 0, 0,
         "draw the prompt's last bytes again: it may end inside a word", IN_TEXT},
        {"--ignore-end", NULL, CLI_FLAG, &g.samples.ignore_end, 0, 0,
         "go on after end tokens, until -n or the end of the context", IN_TEXT},
        {"--samples", "N", CLI_INT, &g.samples.n, 1, INT32_MAX, "how many texts (default 1)",
         IN_TEXT},
        {"--first", "N", CLI_U64, &g.samples.first, 0, 1e15,
         "number of the first (default 0): sample N of a seed is always the same", IN_TEXT},
        {"--batch", "N", CLI_INT, &g.samples.batch, 1, 4096,
         "samples side by side (default: chosen); never changes the result", IN_SPEED},
        {"--slide", NULL, CLI_FLAG, &g.samples.slide, 0, 0,
         "go on beyond the context, seeing its last tokens only", IN_TEXT},
        {"--lookup", "[K]", CLI_INT, &g.samples.lookup, 1, SPECULATE_MAX,
         "propose up to K tokens (16) from the text so far, verify them in one pass", IN_SPEED},
        {"--draft", "FILE", CLI_TEXT, &g.draft.engine.path, 0, 0,
         "a small model of the same vocabulary proposes; the same result", IN_SPEED},
        {"--session", "FILE", CLI_TEXT, &g.samples.resume.path, 0, 0,
         "keep the text's tokens and cache in FILE, begin with what it has", IN_TEXT},
        SAMPLING_OPTIONS,
        ENGINE_OPT_CTX(g.engine),
        ENGINE_OPT_THREADS(g.engine),
        ENGINE_OPT_KV(g.engine),
        ENGINE_OPT_ISA(g.engine),
        ENGINE_OPT_STEER(g.engine),
        ENGINE_OPT_FINITE(g.engine),
        {"--no-prompt", NULL, CLI_FLAG, &g.samples.no_prompt, 0, 0, "print the continuation only",
         IN_TEXT},
        {"--json", NULL, CLI_FLAG, &g.samples.json, 0, 0, "one JSON object per sample", IN_USED},
        {"--records", "FILE", CLI_TEXT, &g.records, 0, 0,
         "prompts as JSON Lines, a record a line; - is stdin; JSON Lines out", IN_TEXT},
        {"--top", "N", CLI_INT, &g.samples.top, 0, 1000,
         "with --json: drawn tokens' probabilities, the N likeliest in their places", IN_LOOK},
        {"--chat", NULL, CLI_FLAG, &g.chat, 0, 0, "answer turns of a conversation", IN_USED},
        {"--chat-format", "NAME", CLI_TEXT, &g.style.format, 0, 0,
         "how turns are written (default: as the model's template says)", IN_TEXT},
        {"--chat-template", "FILE", CLI_TEXT, &g.style.template_file, 0, 0,
         "a Jinja template in place of the model's", IN_TEXT},
        {"--chat-var", "NAME=VALUE", CLI_MANY, &g.style.vars, 0, 0,
         "set a variable of the template (date_string=...); may be repeated", IN_TEXT},
        {"--chat-file", "FILE", CLI_TEXT, &g.chat_file, 0, 0,
         "with --chat: begin with its messages: JSON, roles as OpenAI's", IN_TEXT},
        {"--keep-turns", "N", CLI_INT, &g.keep_turns, 1, INT32_MAX,
         "with --chat: when the context is full, forget all but the last N turns", IN_TEXT},
        {"--system", "TEXT", CLI_TEXT, &g.style.system, 0, 0,
         "with --chat: what the model is told first", IN_TEXT},
        {"--think", "on|off", CLI_TEXT, &g.style.think, 0, 0,
         "with --chat: ask for thinking, or for none, where the template has both", IN_TEXT},
    };
    struct cli_command command =
        CLI_COMMAND("generate", "[MODEL]", "Continue a text. The default temperature is 0.8.",
                    notes, exits, options, 0, 1);
    command.notes_first = notes_first;
    int code;
    if (engine_parse(&g.engine, &command, argc, argv, &code))
        code = generate_parsed(&g, &command);
    generate_release(&g);
    return code;
}
