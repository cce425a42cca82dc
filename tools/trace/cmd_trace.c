/* mgpt trace: everything that happens inside a model, as arrays in a file.
 *
 * The tokens go through the model once, in the usual chunks; taps write each row to its place in
 * the file. Nothing is kept: memory is that of a run without taps, however many hooks are asked
 * for. The file is there whole or not at all.
 */
#include "base/mem.h"
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/sandbox.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/input.h"
#include "trace/trace_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace_run {
    struct engine engine;
    const char *path, *globs, *type_name;
    int list, json;
    enum trace_format format;
    enum trace_type type;
    struct hook *hooks; /* the chosen ones, stb_ds array */
    struct input input;
    struct trace_values values;
};

static const char notes[] =
    "The file holds `tokens` and one array per hook, under the names and in the shapes of\n"
    "TransformerLens without a batch: hook_q [T, heads, d], hook_pattern [heads, T, T], and so "
    "on.\n"
    "What a query must not see is -inf in hook_attn_scores and 0 in hook_pattern. Patterns may "
    "hold\n"
    "* and ?; several are separated by commas. In Python:\n"
    "  numpy.load('out.npz')['blocks.0.attn.hook_pattern']\n"
    "  ActivationCache({k: torch.from_numpy(v) for k, v in numpy.load('out.npz').items()}, model,\n"
    "                  has_batch_dim=False)\n"
    "--json prints {\"file\", \"bytes\", \"tokens\": [ids], \"hooks\": {name: shape}}, with --list "
    "the hooks\n"
    "alone; there T tokens are null.\n\n"
    "examples:\n"
    "  mgpt trace weights/names.gguf -p anna -o anna.npz\n"
    "  mgpt trace weights/names.gguf -p anna --hooks 'blocks.*.attn.hook_pattern,logits' "
    "-o anna.npz\n"
    "  mgpt trace weights/names.gguf --list\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_USAGE] =
        "usage, a hook that the model does not have or a character that the vocabulary lacks",
    [EXIT_AT_REFUSED] = "model refused or --check-finite",
    [EXIT_AT_FULL] = "longer than the context or out of memory",
    [EXIT_AT_IO] = "input/output or no room on the disk",
};

/* ---- what to trace ---- */

static int trace_read_tokens(struct trace_run *t, const struct cli_command *command)
{
    int code = input_read(&t->input, &t->engine, command);
    if (code != EXIT_OK)
        return code;
    if (t->input.n_tokens == 0)
        return cli_usage(command, "nothing to trace: the text is empty and the model has no BOS");
    return engine_fits(&t->engine, "prompt", t->input.n_tokens);
}

static int choose_hooks(struct trace_run *t)
{
    mgpt_error err;
    struct hook *all = hooks_list(t->engine.model, &err);
    if (!all)
        return cli_fail(NULL, &err);
    t->hooks = hooks_choose(all, t->globs, &err);
    arr_free(all);
    return t->hooks ? EXIT_OK : cli_fail("--hooks", &err);
}

/* ---- the list ---- */

/* {name: [4, null, 16]}; n_tokens: what stands for T, 0: null. */
static struct jtext *hooks_as_json(const struct trace_run *t, size_t n_tokens)
{
    struct jtext *hooks = jtext("{}");
    for (size_t i = 0; i < arr_len(t->hooks); i++) {
        struct jtext *shape = jtext("[]");
        for (unsigned j = 0; j < t->hooks[i].n_dims; j++) {
            uint64_t n = t->hooks[i].dims[j] ? t->hooks[i].dims[j] : n_tokens;
            if (n)
                jtext_add(shape, "I", (int64_t)n);
            else
                jtext_add(shape, "o", jtext_null());
        }
        jtext_add(hooks, "s:o", t->hooks[i].name, shape);
    }
    return hooks;
}

static int print_list(const struct trace_run *t)
{
    if (t->json)
        return text_json_line(jtext("{s:o}", "hooks", hooks_as_json(t, 0)));
    for (size_t i = 0; i < arr_len(t->hooks); i++) {
        const struct hook *hook = &t->hooks[i];
        printf("%-32s [", hook->name);
        for (unsigned j = 0; j < hook->n_dims; j++) {
            if (hook->dims[j])
                printf("%s%llu", j > 0 ? ", " : "", (unsigned long long)hook->dims[j]);
            else
                printf("%sT", j > 0 ? ", " : "");
        }
        puts("]");
    }
    return EXIT_OK;
}

/* ---- the run ---- */

/* Runs the tokens through the model. */
static int pass(struct trace_run *t, mgpt_error *err)
{
    struct watcher store = {hooks_points(t->hooks), trace_values_store, &t->values, NULL};
    int status =
        engine_feed(&t->engine, t->engine.session, t->input.tokens, t->input.n_tokens, &store, err);
    return status == MGPT_ESTOP && trace_file_failed(&t->values.out) ? MGPT_OK : status;
}

static int write_trace(struct trace_run *t)
{
    mgpt_error err;
    if (trace_file_may_write(t->path, t->format, &err) < 0)
        return cli_fail(t->path, &err);
    if (trace_values_plan(&t->values, t->hooks, t->engine.info.n_layer, t->input.n_tokens,
                          t->format, t->type, &err) < 0)
        return cli_fail(NULL, &err);
    if (!t->json)
        cli_info("%s: %zu tokens, %zu hooks, %llu bytes", t->path, t->input.n_tokens,
                 arr_len(t->hooks), (unsigned long long)t->values.out.size);
    interrupt_catch();
    if (trace_values_open(&t->values, t->path, t->input.tokens, &err) < 0)
        return cli_fail(t->path, &err);
    if (pass(t, &err) < 0)
        return cli_fail(NULL, &err);
    if (interrupted())
        return EXIT_INTERRUPTED;
    if (trace_values_commit(&t->values, &err) < 0)
        return cli_fail(t->path, &err);
    if (!t->json)
        return EXIT_OK;
    return cli_finish(text_json_line(jtext("{s:s, s:I, s:o, s:o}", "file", t->path, "bytes",
                                           (int64_t)t->values.out.size, "tokens",
                                           jtext_ids(t->input.tokens, t->input.n_tokens), "hooks",
                                           hooks_as_json(t, t->input.n_tokens))));
}

static int trace_run(struct trace_run *t, const struct cli_command *command)
{
    int code = sandbox_enter(&(struct sandbox){.checkpoints = {t->engine.path},
                                               .files = {t->input.file},
                                               .output = t->path,
                                               .adapters = &t->engine.lora});
    if (code == EXIT_OK)
        code = engine_open(&t->engine);
    if (code == EXIT_OK)
        code = choose_hooks(t);
    if (code != EXIT_OK || t->list)
        return code == EXIT_OK ? cli_finish(print_list(t)) : code;
    code = engine_session(&t->engine);
    if (code == EXIT_OK)
        code = trace_read_tokens(t, command);
    return code == EXIT_OK ? write_trace(t) : code;
}

/* ---- options ---- */

static int check_options(struct trace_run *t, const struct cli_command *command)
{
    if (strcmp(t->type_name, "f16") == 0)
        t->type = TRACE_F16;
    else if (strcmp(t->type_name, "f32") != 0)
        return cli_usage(command, "--type: expected f32 or f16, found '%s'", t->type_name);
    if (t->list)
        return t->path || input_count(&t->input) > 0
                   ? cli_usage(command, "--list goes with --hooks only")
                   : EXIT_OK;
    t->input.file = input_or_pipe(t->input.file, input_count(&t->input));
    if (input_count(&t->input) != 1)
        return cli_usage(command, "what shall be traced? Give one of -p, -f, --ids");
    if (!t->path)
        return cli_usage(command, "where to? Give -o FILE.npz or -o FILE.safetensors");
    if (!trace_format_of(t->path, &t->format))
        return cli_usage(command, "-o: expected a name that ends in .npz or .safetensors, found %s",
                         t->path);
    return EXIT_OK;
}

int cmd_trace(int argc, char **argv)
{
    struct trace_run t = {.globs = "*",
                          .type_name = "f32",
                          .format = TRACE_NPZ,
                          .type = TRACE_F32,
                          .engine.kv = "f32"}; /* as references are */
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(t.engine),
        INPUT_OPTIONS(t.input),
        {"-o, --output", "FILE", CLI_TEXT, &t.path, 0, 0, "what to write: .npz or .safetensors",
         IN_USED},
        {"--hooks", "GLOBS", CLI_TEXT, &t.globs, 0, 0,
         "which hooks: 'blocks.*.attn.hook_pattern,logits' (default: all)", IN_USED},
        {"--type", "TYPE", CLI_TEXT, &t.type_name, 0, 0, "numbers as f32 (default) or f16",
         IN_USED},
        {"--list", NULL, CLI_FLAG, &t.list, 0, 0, "print the hooks and their shapes, T tokens",
         IN_USED},
        {"--json", NULL, CLI_FLAG, &t.json, 0, 0, "say what was written as a JSON object", IN_USED},
        ENGINE_OPT_CTX(t.engine),
        ENGINE_OPT_THREADS(t.engine),
        ENGINE_OPT_KV(t.engine),
        ENGINE_OPT_ISA(t.engine),
        ENGINE_OPT_FINITE(t.engine),
    };
    const struct cli_command command =
        CLI_COMMAND("trace", "[MODEL] -p TEXT -o FILE",
                    "What happens inside a model, every value by name, to a file.", notes, exits,
                    options, 0, 1);
    int code;
    if (!engine_parse(&t.engine, &command, argc, argv, &code))
        return code;
    code = check_options(&t, &command);
    if (code == EXIT_OK)
        code = trace_run(&t, &command);
    trace_values_discard(&t.values);
    arr_free(t.hooks);
    free(t.input.tokens);
    engine_close(&t.engine);
    return code;
}
