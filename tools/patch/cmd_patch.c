/* mgpt patch, activation patching: which value inside a model makes the difference between two prompts.
 *
 * The prompts have the same number of tokens. One of them is run again and again, each time with
 * one value of the other one's run in the place of its own (Meng et al. 2022, Wang et al. 2022), or
 * with one value taken out.
 */
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/sandbox.h"
#include "common/text.h"
#include "engine/input.h"
#include "patch/experiment.h"
#include "patch/pairs.h"

#include <stdlib.h>
#include <string.h>

struct patch_run {
    struct engine engine;
    struct input inputs[N_RUNS];
    struct experiment experiment;
    struct pairs pairs; /* of files, if they were given */
    const char *into, *screen_name, *npz, *html;
    int32_t width;
    int json;
    struct screen screen;
};

static const char notes[] =
    "Default: the corrupted prompt is run with the clean run's value at one point, layer, head "
    "and\n"
    "position (denoising); --into clean is the reverse. The metric is read after the last token.\n"
    "The other modes need no second prompt and change the clean run: the value is zero, its mean "
    "over\n"
    "the positions, or multiplied by X. Every number has the bits of a run of its own.\n\n"
    "points (--over): resid_pre, resid_mid, resid_post, attn_out, mlp_out; by head z, pattern, q, "
    "k, v\n"
    "metrics: 'A - B' (logit of token A less that of B), logprob:TOKEN, kl (from the clean run, "
    "in\n"
    "nats). A token is its text, with escapes such as \\n; an id where the model has no "
    "vocabulary,\n"
    "whose prompts are ids too.\n\n"
    "--why needs --clean only. It leaves out: each token (tokens), each head at all positions "
    "(heads),\n"
    "each cached key or value from the later queries (keys, values); and it gives the exact "
    "Shapley\n"
    "values of segments of the prompt, from all prompts that can be made of them (segments). "
    "--over\n"
    "chooses among these. Tables show the metric less that without the part, --json has the "
    "latter;\n"
    "coalitions[i] is the prompt of the segments whose bits are set in i.\n\n"
    "The tables show how far the metric moves; --json has the metric itself: values[layer][head]\n"
    "[position], without [head] at points that have none, null where it is not known.\n\n"
    "--npz has an array of each point (z: [layers, heads, positions], float64, NaN where it is "
    "not\n"
    "known), its axes (z.layers, ...), tokens, clean and corrupt.\n\n"
    "--clean-file and --corrupt-file: every pair is an experiment, and each number is a mean over "
    "them,\n"
    "with the standard error of its change and p of a permutation test: how often the changes "
    "with\n"
    "signs at random sum up to at least as much (all signs of up to 12 pairs, else 4,096). Prompts "
    "of\n"
    "different lengths need --positions that all have, such as -1. --json: stderr, p, pairs;\n"
    "--npz: z.stderr, z.p, and clean and corrupt of each pair.\n\n"
    "examples:\n"
    "  mgpt patch gpt2.gguf --clean 'When Mary and John went to the store, John gave a drink to'\n"
    "    --corrupt 'When Mary and John went to the store, Mary gave a drink to'\n"
    "    --metric ' Mary -  John' --over resid_pre,z\n"
    "  mgpt patch weights/names.gguf --clean olivia --metric logprob:n --over z --mode zero\n"
    "  mgpt patch weights/names.gguf --clean olivia --metric logprob:n --why\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_USAGE] = "usage, prompts of different lengths, a hook that the model lacks",
    [EXIT_AT_FULL] = "longer than the context or out of memory",
    [EXIT_AT_INTERRUPTED] = "interrupted: what is known is printed",
};

/* ---- the prompts ---- */

static const char *const run_options[] = {"--clean", "--corrupt"};
_Static_assert(sizeof run_options / sizeof *run_options == N_RUNS, "a row each");

/* The texts of `inputs` become the prompts of an experiment. */
static int read_prompts(struct patch_run *p, struct input *inputs, struct experiment *x,
                        const struct cli_command *command)
{
    int code = EXIT_OK;
    for (int i = 0; i < N_RUNS && code == EXIT_OK; i++) {
        struct input *in = &inputs[i];
        if (!in->text)
            continue;
        if (text_is_none(p->engine.model)) {
            in->ids = in->text;
            in->text = NULL;
        }
        code = input_read(in, &p->engine, command);
        if (code == EXIT_OK && in->n_tokens == 0)
            return cli_usage(command, "%s is empty and the model has no BOS", in->what);
        if (code == EXIT_OK)
            code = engine_fits(&p->engine, in->what, in->n_tokens);
        x->report.runs[i] = (struct report_run){.tokens = in->tokens, .n_tokens = in->n_tokens};
    }
    return code;
}

static int same_length(const struct input *inputs)
{
    const struct input *clean = &inputs[RUN_CLEAN], *corrupt = &inputs[RUN_CORRUPT];
    if (!clean->tokens || !corrupt->tokens || clean->n_tokens == corrupt->n_tokens)
        return EXIT_OK;
    cli_note("%s has %zu tokens and %s %zu: expected the same number", clean->what, clean->n_tokens,
             corrupt->what, corrupt->n_tokens);
    return EXIT_USAGE;
}

/* ---- the report ---- */

static int write_report(struct patch_run *p)
{
    const char *path = p->npz ? p->npz : p->html;
    const struct report *r = &p->experiment.report;
    mgpt_error err;
    int status = p->npz ? report_npz(r, path, &err) : report_html(r, path, &err);
    return status < 0 ? cli_fail(path, &err) : EXIT_OK;
}

static int report(struct patch_run *p)
{
    struct report *r = &p->experiment.report;
    int code = EXIT_OK, labeled = p->json || report_label(r);
    if (labeled && (p->npz || p->html))
        code = write_report(p);
    else if (p->json)
        code = report_json(r);
    else if (!labeled || !report_show(r, &p->screen)) {
        cli_note("out of memory: the tables");
        code = EXIT_FULL;
    }
    return code == EXIT_OK && interrupted() ? EXIT_INTERRUPTED : code;
}

/* ---- the command ---- */

/* From texts to an experiment whose sites are known. */
static int run_experiment(struct patch_run *p, struct input *inputs, struct experiment *x,
                          const struct cli_command *command)
{
    mgpt_error err;
    x->engine = &p->engine;
    x->report.path = p->engine.path;
    int code = read_prompts(p, inputs, x, command);
    if (code == EXIT_OK)
        code = same_length(inputs);
    if (code == EXIT_OK)
        code = metric_read(&x->metric, &p->engine);
    if (code == EXIT_OK)
        code = experiment_prepare(x);
    if (code != EXIT_OK || experiment_run(x, &err) == MGPT_OK)
        return code;
    return interrupted() ? EXIT_INTERRUPTED : cli_fail(NULL, &err);
}

/* Runs the experiments on a pair, whose lines take the place of the options. */
static int run_pair(struct patch_run *p, size_t line, struct input *inputs, struct experiment *x,
                    const struct cli_command *command)
{
    char what[PAIRS_TEXTS][80];
    mgpt_error err;
    for (size_t i = 0; i < PAIRS_TEXTS; i++)
        snprintf(what[i], sizeof what[i], "%.40s, line %zu",
                 p->pairs.files[i] ? p->pairs.files[i] : "", line + 1);
    for (int i = 0; i < N_RUNS; i++) {
        inputs[i].what = what[i];
        inputs[i].text = p->pairs.files[i] ? p->pairs.lines[i][line] : NULL;
    }
    if (p->pairs.files[N_RUNS]) {
        x->metric.text = p->pairs.lines[N_RUNS][line];
        x->metric.what = what[N_RUNS];
    }
    int code = run_experiment(p, inputs, x, command);
    x->metric.what = NULL;
    const double runs[] = {x->report.runs[RUN_CLEAN].value, x->report.runs[RUN_CORRUPT].value};
    if (code != EXIT_OK || interrupted())
        return code == EXIT_OK ? EXIT_INTERRUPTED : code;
    return pairs_add(&p->pairs, x->grids, runs, line + 1, &err) < 0 ? cli_fail(NULL, &err)
                                                                    : EXIT_OK;
}

/* The experiment of the first pair gets the means. After Ctrl-C: of the pairs that are known. */
static int run_pairs(struct patch_run *p, const struct cli_command *command)
{
    const struct experiment none = p->experiment;
    struct report *r = &p->experiment.report;
    mgpt_error err;
    int code = EXIT_OK;
    for (size_t i = 0; i < pairs_lines(&p->pairs) && code == EXIT_OK; i++) {
        struct experiment other = none;
        struct input inputs[N_RUNS] = {{.text = NULL}};
        code = i == 0 ? run_pair(p, i, p->inputs, &p->experiment, command)
                      : run_pair(p, i, inputs, &other, command);
        if (i > 0)
            experiment_close(&other);
        for (int k = 0; k < N_RUNS; k++)
            free(inputs[k].tokens);
    }
    if ((code != EXIT_OK && code != EXIT_INTERRUPTED) || pairs_known(&p->pairs) == 0)
        return code;
    double runs[N_RUNS];
    if (pairs_end(&p->pairs, p->experiment.grids, runs, r->into, &err) < 0)
        return cli_fail(NULL, &err);
    for (int i = 0; i < N_RUNS; i++)
        r->runs[i].value = runs[i];
    if (p->pairs.files[N_RUNS])
        p->experiment.metric.text = p->pairs.files[N_RUNS];
    r->pairs = &p->pairs;
    return EXIT_OK;
}

static int run_patch(struct patch_run *p, const struct cli_command *command)
{
    int code = engine_open(&p->engine);
    if (code == EXIT_OK)
        code = engine_session(&p->engine);
    if (code != EXIT_OK)
        return code;
    interrupt_catch();
    for (int i = 0; i < N_RUNS; i++)
        p->inputs[i].what = run_options[i];
    code = p->pairs.files[RUN_CLEAN] ? run_pairs(p, command)
                                     : run_experiment(p, p->inputs, &p->experiment, command);
    return code == EXIT_OK ? report(p) : code;
}

/* Reading the model and, with --steer, its file is all that is left. */
static int drop_rights(const struct patch_run *p)
{
    char *steer = p->engine.steer_spec ? steer_path(p->engine.steer_spec) : NULL;
    int code = sandbox_enter(&(struct sandbox){.checkpoints = {p->engine.path},
                                               .files = {steer},
                                               .output = p->npz ? p->npz : p->html,
                                               .adapters = &p->engine.lora});
    free(steer);
    return code;
}

static int check_prompts(struct patch_run *p, int is_patch, const struct cli_command *command)
{
    const char *const *files = p->pairs.files;
    int any = files[RUN_CLEAN] || files[RUN_CORRUPT] || files[N_RUNS];
    if (any && (p->inputs[RUN_CLEAN].text || p->inputs[RUN_CORRUPT].text))
        return cli_usage(command, "prompts are given as texts or as files, not as both");
    if (any && p->experiment.request.why)
        return cli_usage(command, "--why goes with --clean, not with files of prompts");
    if (any ? !files[RUN_CLEAN] : !p->inputs[RUN_CLEAN].text)
        return cli_usage(command, "which prompt? Give --clean%s", any ? "-file FILE" : " TEXT");
    if ((any ? !files[RUN_CORRUPT] : !p->inputs[RUN_CORRUPT].text) &&
        (is_patch || p->experiment.report.into == RUN_CORRUPT))
        return cli_usage(command, "which prompt is it compared with? Give --corrupt%s",
                         any ? "-file FILE" : " TEXT");
    if (p->experiment.metric.text && files[N_RUNS])
        return cli_usage(command, "--metric and --metric-file: only one of them");
    if (!p->experiment.metric.text && !files[N_RUNS])
        return cli_usage(command, "what is measured? Give --metric 'A - B', logprob:TOKEN or kl");
    return EXIT_OK;
}

static int check_patch_options(struct patch_run *p, const struct cli_command *command)
{
    struct grid_request *r = &p->experiment.request;
    if (r->why && r->mode)
        return cli_usage(command, "--why and --mode: only one of them");
    if (p->experiment.segments && !r->why)
        return cli_usage(command, "--segments goes with --why");
    if (!r->mode)
        r->mode = r->why ? "zero" : "patch";
    if (!r->over)
        r->over = r->why ? "tokens,segments,heads,keys,values" : "resid_pre";
    int is_patch = strcmp(r->mode, "patch") == 0;
    p->experiment.report.into = is_patch ? RUN_CORRUPT : RUN_CLEAN;
    for (int i = 0; p->into && i < N_RUNS; i++)
        if (strcmp(p->into, report_runs[i]) == 0)
            p->experiment.report.into = i;
    if (p->into && strcmp(p->into, report_runs[p->experiment.report.into]) != 0)
        return cli_usage(command, "--into: expected clean or corrupt, found '%s'", p->into);
    if (!screen_look(&p->screen, p->screen_name, p->width))
        return cli_usage(command, "--screen: expected truecolor, 256 or plain, found '%s'",
                         p->screen_name);
    if ((p->json != 0) + (p->npz != NULL) + (p->html != NULL) > 1)
        return cli_usage(command, "--json, --npz and --html: only one of them");
    return check_prompts(p, is_patch, command);
}

static void patch_close(struct patch_run *p)
{
    experiment_close(&p->experiment);
    pairs_free(&p->pairs);
    for (int i = 0; i < N_RUNS; i++)
        free(p->inputs[i].tokens);
    engine_close(&p->engine);
}

/* The command, after its options have been read. */
static int patch_parsed(struct patch_run *p, const struct cli_command *command)
{
    int code = check_patch_options(p, command);
    if (code == EXIT_OK)
        code = pairs_read(&p->pairs);
    if (code == EXIT_OK)
        code = drop_rights(p);
    return code == EXIT_OK ? run_patch(p, command) : code;
}

int cmd_patch(int argc, char **argv)
{
    struct patch_run p = {.engine.kv = "f32"};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(p.engine),
        {"--clean", "TEXT", CLI_TEXT, &p.inputs[RUN_CLEAN].text, 0, 0, "the prompt", IN_USED},
        {"--corrupt", "TEXT", CLI_TEXT, &p.inputs[RUN_CORRUPT].text, 0, 0,
         "one of the same length that differs in what matters", IN_USED},
        {"--clean-file", "FILE", CLI_TEXT, &p.pairs.files[RUN_CLEAN], 0, 0,
         "many prompts, one a line: means over all pairs", IN_TEXT},
        {"--corrupt-file", "FILE", CLI_TEXT, &p.pairs.files[RUN_CORRUPT], 0, 0,
         "the other prompt of each, in the same order", IN_TEXT},
        {"--metric-file", "FILE", CLI_TEXT, &p.pairs.files[N_RUNS], 0, 0,
         "a metric for each pair, in place of --metric", IN_TEXT},
        {"--metric", "M", CLI_TEXT, &p.experiment.metric.text, 0, 0, "'A - B', logprob:TOKEN or kl",
         IN_USED},
        {"--over", "POINTS", CLI_TEXT, &p.experiment.request.over, 0, 0,
         "where values are changed (default resid_pre)", IN_USED},
        {"--layers", "LIST", CLI_TEXT, &p.experiment.request.layers, 0, 0,
         "such as 0-3,7,-1 (default: all)", IN_WHERE},
        {"--heads", "LIST", CLI_TEXT, &p.experiment.request.heads, 0, 0,
         "of z, pattern, q; KV heads of k, v (default: all)", IN_WHERE},
        {"--positions", "LIST", CLI_TEXT, &p.experiment.request.positions, 0, 0,
         "of tokens (default: all)", IN_WHERE},
        {"--mode", "MODE", CLI_TEXT, &p.experiment.request.mode, 0, 0,
         "patch (default), zero, mean or scale:X", IN_WHERE},
        {"--into", "RUN", CLI_TEXT, &p.into, 0, 0,
         "the run that is changed: corrupt (default with patch) or clean", IN_WHERE},
        {"--why", NULL, CLI_FLAG, &p.experiment.request.why, 0, 0,
         "what each token, segment, head, key and value contributes", IN_USED},
        {"--segments", "N", CLI_TEXT, &p.experiment.segments, 0, 0,
         "of --why: how many, at most 12, or where they begin: 1,4,9", IN_WHERE},
        {"--json", NULL, CLI_FLAG, &p.json, 0, 0, "one JSON object", IN_USED},
        {"--npz", "FILE", CLI_TEXT, &p.npz, 0, 0, "arrays for NumPy instead", IN_OUTPUT},
        {"--html", "FILE", CLI_TEXT, &p.html, 0, 0, "a page for a browser instead", IN_USED},
        {"--screen", "KIND", CLI_TEXT, &p.screen_name, 0, 0,
         "pictures in truecolor, 256 or plain (default: what the terminal can)", IN_OUTPUT},
        {"--width", "N", CLI_INT, &p.width, 20, 1000, "columns (default: the terminal's)",
         IN_OUTPUT},
        ENGINE_OPT_CTX(p.engine),
        ENGINE_OPT_THREADS(p.engine),
        ENGINE_OPT_KV(p.engine),
        ENGINE_OPT_ISA(p.engine),
        ENGINE_OPT_STEER(p.engine),
        ENGINE_OPT_FINITE(p.engine),
    };
    const struct cli_command command =
        CLI_COMMAND("patch", "[MODEL] --clean TEXT --corrupt TEXT --metric M",
                    "Which value inside a model makes the difference between two prompts.", notes,
                    exits, options, 0, 1);
    int code;
    if (!engine_parse(&p.engine, &command, argc, argv, &code))
        return code;
    code = patch_parsed(&p, &command);
    patch_close(&p);
    return cli_finish(code);
}
