/* mgpt patch: which value inside a model makes the difference between two prompts.
 *
 * The prompts have the same number of tokens. One of them is run again and again, each time with one
 * value of the other one's run in the place of its own (Meng et al. 2022, Wang et al. 2022), or
 * with one value taken out.
 */
#include "base/error.h"
#include "base/mem.h"
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/sandbox.h"
#include "common/text.h"
#include "engine/input.h"
#include "patch/grid.h"
#include "patch/report.h"

#include <stdlib.h>
#include <string.h>

struct patch_run {
    struct engine engine;
    struct input inputs[N_RUNS];
    struct metric metric;
    struct grid_request request;
    const char *into, *screen_name, *npz, *html;
    int32_t width;
    int json;
    struct screen screen;
    struct hook *hooks;
    struct sweep_grid *grids;
    struct patch_sweep sweep;
    const char *segments;
    struct why why;
    struct report report;
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
    "examples:\n"
    "  mgpt patch gpt2.gguf --clean 'When Mary and John went to the store, John gave a drink to'\n"
    "    --corrupt 'When Mary and John went to the store, Mary gave a drink to'\n"
    "    --metric ' Mary -  John' --over resid_pre,z\n"
    "  mgpt patch weights/names.gguf --clean olivia --metric logprob:n --over z --mode zero\n"
    "  mgpt patch weights/names.gguf --clean olivia --metric logprob:n --why\n\n"
    "exit codes: 0 ok, 2 usage, prompts of different lengths, a hook that the model lacks, 3 "
    "model\n"
    "refused, 4 longer than the context or out of memory, 5 input/output, 130 interrupted: what "
    "is\n"
    "known is printed\n";

/* ---- the prompts ---- */

static int read_prompts(struct patch_run *p, const struct cli_command *command)
{
    static const char *const options[N_RUNS] = {"--clean", "--corrupt"};
    int code = EXIT_OK;
    for (int i = 0; i < N_RUNS && code == EXIT_OK; i++) {
        struct input *in = &p->inputs[i];
        if (!in->text)
            continue;
        in->what = options[i];
        if (text_is_none(p->engine.model)) {
            in->ids = in->text;
            in->text = NULL;
        }
        code = input_read(in, &p->engine, command);
        if (code == EXIT_OK && in->n_tokens == 0)
            return cli_usage(command, "%s is empty and the model has no BOS", options[i]);
        if (code == EXIT_OK)
            code = engine_fits(&p->engine, options[i], in->n_tokens);
        p->report.runs[i] = (struct report_run){.tokens = in->tokens, .n_tokens = in->n_tokens};
    }
    return code;
}

static int same_length(const struct patch_run *p)
{
    const struct report_run *clean = &p->report.runs[RUN_CLEAN],
                            *corrupt = &p->report.runs[RUN_CORRUPT];
    if (!clean->tokens || !corrupt->tokens || clean->n_tokens == corrupt->n_tokens)
        return EXIT_OK;
    cli_note("--clean has %zu tokens and --corrupt %zu: expected the same number", clean->n_tokens,
             corrupt->n_tokens);
    return EXIT_USAGE;
}

/* ---- the runs ---- */

static uint64_t patch_points(const struct sweep_grid *grids, enum sweep_mode mode)
{
    uint64_t points = 0;
    for (size_t i = 0; i < arr_len(grids); i++)
        if (grids[i].mode == mode)
            points |= MGPT_POINT_BIT(grids[i].point);
    return points;
}

/* Runs a prompt and keeps its values where the sweep needs them, and its metric. */
static int run_prompt(struct patch_run *p, int which, mgpt_error *err)
{
    struct report_run *run = &p->report.runs[which];
    int own = which == p->report.into;
    struct run_values *values = own ? &p->sweep.own : &p->sweep.other;
    uint64_t points = patch_points(p->grids, SWEEP_PATCH);
    if (own && arr_len(p->grids) > 0)
        points |= patch_points(p->grids, SWEEP_MEAN) | MGPT_POINT_BIT(MGPT_RESID_PRE);
    if (!run->tokens)
        return MGPT_OK;
    values_free(values);
    int status = values_new(values, p->hooks, points, p->engine.info.n_layer, run->n_tokens, err);
    if (status == MGPT_OK)
        status = sweep_keep(&p->engine, run->tokens, run->n_tokens, values, err);
    if (status < 0)
        return status;
    const float *logits = mgpt_logits(p->engine.session);
    if (which == RUN_CLEAN && !p->metric.clean && !metric_keep_clean(&p->metric, logits))
        return err_memory(err, "the logits", p->metric.n_vocab * sizeof *p->metric.clean);
    run->value = metric_value(&p->metric, logits);
    return MGPT_OK;
}

/* The prompt that is changed comes last: its session is what the sweep starts from. */
static int run_prompts(struct patch_run *p, mgpt_error *err)
{
    int into = p->report.into, status = run_prompt(p, RUN_CLEAN, err);
    if (status == MGPT_OK)
        status = run_prompt(p, RUN_CORRUPT, err);
    if (status == MGPT_OK && into == RUN_CLEAN && p->report.runs[RUN_CORRUPT].tokens)
        status = run_prompt(p, RUN_CLEAN, err);
    return status;
}

static int sweep(struct patch_run *p)
{
    mgpt_error err;
    struct patch_sweep *s = &p->sweep;
    p->report.grids = p->grids;
    p->report.model = p->engine.model;
    p->report.path = p->engine.path;
    p->report.mode = p->request.mode;
    p->report.metric = &p->metric;
    p->report.why = p->request.why ? &p->why : NULL;
    interrupt_catch();
    int status = run_prompts(p, &err);
    if (status < 0)
        return interrupted() ? EXIT_INTERRUPTED : cli_fail(NULL, &err);
    s->engine = &p->engine;
    s->metric = &p->metric;
    s->tokens = p->report.runs[p->report.into].tokens;
    s->n_tokens = p->report.runs[p->report.into].n_tokens;
    status = patch_sweep_run(s, p->grids, arr_len(p->grids), &err);
    if (status == MGPT_OK && p->request.tokens)
        status = why_tokens(&p->why, &err);
    if (status == MGPT_OK && p->request.segments)
        status = why_segments(&p->why, &err);
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

static int write_report(struct patch_run *p)
{
    const char *path = p->npz ? p->npz : p->html;
    mgpt_error err;
    int status = p->npz ? report_npz(&p->report, path, &err) : report_html(&p->report, path, &err);
    return status < 0 ? cli_fail(path, &err) : EXIT_OK;
}

static int report(struct patch_run *p)
{
    int code = EXIT_OK, labeled = p->json || report_label(&p->report);
    if (labeled && (p->npz || p->html))
        code = write_report(p);
    else if (p->json)
        code = report_json(&p->report);
    else if (!labeled || !report_show(&p->report, &p->screen)) {
        cli_note("out of memory: the tables");
        code = EXIT_FULL;
    }
    return code == EXIT_OK && interrupted() ? EXIT_INTERRUPTED : code;
}

/* ---- the command ---- */

static int patch_prepare(struct patch_run *p, const struct cli_command *command)
{
    mgpt_error err;
    int code = engine_open(&p->engine);
    if (code == EXIT_OK)
        code = engine_session(&p->engine);
    if (code == EXIT_OK)
        code = read_prompts(p, command);
    if (code == EXIT_OK)
        code = same_length(p);
    if (code == EXIT_OK)
        code = metric_read(&p->metric, &p->engine);
    if (code != EXIT_OK)
        return code;
    p->hooks = hooks_list(p->engine.model, &err);
    if (!p->hooks)
        return cli_fail(NULL, &err);
    const struct report_run *run = &p->report.runs[p->report.into];
    code = grid_read(&p->request, &p->engine, p->hooks, run->n_tokens, &p->grids);
    p->why = (struct why){.engine = &p->engine,
                          .metric = &p->metric,
                          .prompt = run->tokens,
                          .n_prompt = run->n_tokens};
    return code == EXIT_OK && p->request.segments ? why_cut(&p->why, p->segments) : code;
}

/* Reading the model and, with --steer, its file is all that is left. */
static void drop_rights(const struct patch_run *p)
{
    char *steer = p->engine.steer_spec ? steer_path(p->engine.steer_spec) : NULL;
    sandbox_enter(&(struct sandbox){
        .checkpoints = {p->engine.path}, .files = {steer}, .output = p->npz ? p->npz : p->html});
    free(steer);
}

static int check_patch_options(struct patch_run *p, const struct cli_command *command)
{
    struct grid_request *r = &p->request;
    if (r->why && r->mode)
        return cli_usage(command, "--why and --mode: only one of them");
    if (p->segments && !r->why)
        return cli_usage(command, "--segments goes with --why");
    if (!r->mode)
        r->mode = r->why ? "zero" : "patch";
    if (!r->over)
        r->over = r->why ? "tokens,segments,heads,keys,values" : "resid_pre";
    int is_patch = strcmp(r->mode, "patch") == 0;
    p->report.into = is_patch ? RUN_CORRUPT : RUN_CLEAN;
    for (int i = 0; p->into && i < N_RUNS; i++)
        if (strcmp(p->into, report_runs[i]) == 0)
            p->report.into = i;
    if (p->into && strcmp(p->into, report_runs[p->report.into]) != 0)
        return cli_usage(command, "--into: expected clean or corrupt, found '%s'", p->into);
    if (!screen_look(&p->screen, p->screen_name, p->width))
        return cli_usage(command, "--screen: expected truecolor, 256 or plain, found '%s'",
                         p->screen_name);
    if ((p->json != 0) + (p->npz != NULL) + (p->html != NULL) > 1)
        return cli_usage(command, "--json, --npz and --html: only one of them");
    if (!p->inputs[RUN_CLEAN].text)
        return cli_usage(command, "which prompt? Give --clean TEXT");
    if (!p->inputs[RUN_CORRUPT].text && (is_patch || p->report.into == RUN_CORRUPT))
        return cli_usage(command, "which prompt is it compared with? Give --corrupt TEXT");
    if (!p->metric.text)
        return cli_usage(command, "what is measured? Give --metric 'A - B', logprob:TOKEN or kl");
    return EXIT_OK;
}

static void patch_close(struct patch_run *p)
{
    for (size_t i = 0; i < arr_len(p->grids); i++)
        sweep_grid_free(&p->grids[i]);
    arr_free(p->grids);
    values_free(&p->sweep.own);
    values_free(&p->sweep.other);
    why_free(&p->why);
    metric_free(&p->metric);
    arr_free(p->hooks);
    for (int i = 0; i < N_RUNS; i++) {
        free(p->inputs[i].tokens);
        free(p->report.runs[i].labels);
    }
    engine_close(&p->engine);
}

int cmd_patch(int argc, char **argv)
{
    struct patch_run p = {.engine.kv = "f32"};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(p.engine),
        {"--clean", "TEXT", CLI_TEXT, &p.inputs[RUN_CLEAN].text, 0, 0, "the prompt"},
        {"--corrupt", "TEXT", CLI_TEXT, &p.inputs[RUN_CORRUPT].text, 0, 0,
         "one of the same length that differs in what matters"},
        {"--metric", "M", CLI_TEXT, &p.metric.text, 0, 0, "'A - B', logprob:TOKEN or kl"},
        {"--over", "POINTS", CLI_TEXT, &p.request.over, 0, 0,
         "where values are changed (default resid_pre)"},
        {"--layers", "LIST", CLI_TEXT, &p.request.layers, 0, 0, "such as 0-3,7,-1 (default: all)"},
        {"--heads", "LIST", CLI_TEXT, &p.request.heads, 0, 0,
         "of z, pattern, q; KV heads of k, v (default: all)"},
        {"--positions", "LIST", CLI_TEXT, &p.request.positions, 0, 0, "of tokens (default: all)"},
        {"--mode", "MODE", CLI_TEXT, &p.request.mode, 0, 0,
         "patch (default), zero, mean or scale:X"},
        {"--into", "RUN", CLI_TEXT, &p.into, 0, 0,
         "the run that is changed: corrupt (default with patch) or clean"},
        {"--why", NULL, CLI_FLAG, &p.request.why, 0, 0,
         "what each token, segment, head, key and value contributes"},
        {"--segments", "N", CLI_TEXT, &p.segments, 0, 0,
         "of --why: how many, at most 12, or where they begin: 1,4,9"},
        {"--json", NULL, CLI_FLAG, &p.json, 0, 0, "one JSON object"},
        {"--npz", "FILE", CLI_TEXT, &p.npz, 0, 0, "arrays for NumPy instead"},
        {"--html", "FILE", CLI_TEXT, &p.html, 0, 0, "a page for a browser instead"},
        {"--screen", "KIND", CLI_TEXT, &p.screen_name, 0, 0,
         "pictures in truecolor, 256 or plain (default: what the terminal can)"},
        {"--width", "N", CLI_INT, &p.width, 20, 1000, "columns (default: the terminal's)"},
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
                    options, 0, 1);
    int code;
    if (!engine_parse(&p.engine, &command, argc, argv, &code))
        return code;
    code = check_patch_options(&p, &command);
    if (code == EXIT_OK) {
        drop_rights(&p);
        code = patch_prepare(&p, &command);
    }
    if (code == EXIT_OK)
        code = sweep(&p);
    if (code == EXIT_OK)
        code = report(&p);
    patch_close(&p);
    return cli_finish(code);
}
