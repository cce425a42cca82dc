/* mgpt check: do these weights give the same logits here as in the program that made the reference?
 *
 * One step per token of the reference, one comparison per step, so that neither the reference nor
 * our logits are ever in memory whole. The verdict is about the bounds; the other numbers say how
 * much a difference matters.
 */
#include "base/mem.h"
#include "check/check_inside.h"
#include "check/compare/check_report.h"
#include "check/report_page.h"
#include "check/self/self.h"
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/sandbox.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    struct engine engine;
    struct reference *reference;
    const char *path, *ids, *text, *file, *shape, *tol, *attest, *attested, *report_to;
    double max_nmse, max_kl; /* negative: not given */
    struct compare_bounds bounds;
    int32_t *given; /* malloc'ed: the tokens of --ids or -p */
    size_t n_given;
    int32_t limit; /* positions per sequence; 0: all */
    int json, self, full, explain;
    double *row;
    struct check_report report;
};

/* clang-format off */
/* How each kind of reference is made; check_python.sh runs the first three. */
static const char makers[] =
    "REF is recognised by its content. The two lines that make one, where ids is\n"
    "torch.tensor([[1, 2, 3]]), for nanoGPT's or microgpt's model in PyTorch:\n"
    "  logits = model(ids, ids)[0]  # targets, or nanoGPT gives the last position only\n"
    "  torch.save({'tokens': ids, 'logits': logits}, 'ref.pt')\n"
    "a model of transformers (the attentions want attn_implementation='eager'):\n"
    "  o = model(ids, output_hidden_states=True, output_attentions=True)\n"
    "  torch.save({'input_ids': ids, **o}, 'ref.pt')\n"
    "what was drawn (output_scores: after top-k and others; the rest is -inf and not compared):\n"
    "  torch.save(model.generate(ids, output_logits=True, return_dict_in_generate=True), 'ref.pt')\n"
    "a model of TransformerLens 4, loaded without processing its weights:\n"
    "  logits, cache = model.run_with_cache(ids)\n"
    "  torch.save(cache.cache_dict, 'ref.pt')\n"
    "MLX, or NumPy with the same names (numpy.savez); mx.save_safetensors is read, too:\n"
    "  logits = model(mx.array([[1, 2, 3]]))\n"
    "  mx.savez('ref.npz', tokens=mx.array([1, 2, 3]), logits=logits)\n"
    "vLLM, its server and in Python:\n"
    "  curl $URL/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": [1, 2, 3],\n"
    "    \"max_tokens\": 1, \"prompt_logprobs\": 5, \"return_token_ids\": true, \"model\": \"NAME\"}' >ref.json\n"
    "  r = llm.generate({'prompt_token_ids': [1, 2, 3]}, SamplingParams(prompt_logprobs=5))[0]\n"
    "  print(json.dumps({'ids': r.prompt_token_ids, 'top_logprobs': [  # >ref.json\n"
    "    p and {i: e.logprob for i, e in p.items()} for p in r.prompt_logprobs]}))\n"
    "SGLang's server:\n"
    "  curl $URL/generate -H 'Content-Type: application/json' -d '{\"input_ids\": [1, 2, 3],\n"
    "    \"return_logprob\": true, \"logprob_start_len\": 0, \"top_logprobs_num\": 5}' >ref.json\n"
    "llama-server; OpenAI's chat responses with logprobs and top_logprobs (they cover only the answer):\n"
    "  curl $URL/completion -d '{\"prompt\": [1, 2, 3], \"n_predict\": 8, \"n_probs\": 5}' >ref.json\n"
    "  mgpt check model.gguf ref.json --ids 1,2,3  # or -p: the tokens of the prompt\n"
    "llama.cpp (the first has the last position only):\n"
    "  llama-debug -m model.gguf -p TEXT --save-logits\n"
    "  mgpt check model.gguf data/llamacpp-model.bin -p TEXT\n"
    "  llama-perplexity -m f16.gguf -f wiki.txt --kl-divergence-base base\n"
    "Also llm.c's debug_state.bin; with --ids or -p .npy and float32 (--shape); JSON {\"input\": [ids],\n"
    "\"logits\": [[...]]} and {\"ids\": [...], \"top_logprobs\": [null, {\"13\": -0.7}, ...]}, or a line of each.\n"
    "Log-probabilities are compared with ours; of some tokens only these, of some positions only there,\n"
    "what is stored coarsely only as far as it is stored.\n";

static const char notes[] =
    "Columns: position, token, largest difference and the id where it is, NMSE in decibels,\n"
    "KL(reference || ours), difference of the next token's log-probability, rank of the reference's\n"
    "likeliest token here, how many of its five likeliest are among ours, and whether the likeliest\n"
    "is the same (tie: another, but the bounds allow the two to change places). NaN or infinity on\n"
    "either side is a difference.\n\n"
    "A reference with inner values (above) also says where the two part: the last good and the\n"
    "first bad hook, and whether that stage is wrong by itself. --explain tries the usual suspects\n"
    "in float64 (rope, norms, activations, transposed or exchanged tensors, tokens, positions) and\n"
    "names the one that restores agreement, or the weight that differs; then it solves for biases,\n"
    "gains, caps, scales and rows in another order, and tries what it found in the same way.\n"
    "--self needs no reference: one hash of all logits for every number of threads, chunking, batch,\n"
    "instruction set, and every stage of the pass against float64. --kv f16 and q8_0 have hashes of\n"
    "their own. --attest keeps the tokens and the hash in a file; --attested verifies it elsewhere,\n"
    "on another instruction set or with another compiler.\n"
    "Two models: the second is compared with the first, whose keys and values are f32, on the text of\n"
    "-p or -f.\n\n"
    "--tol f32 (the default), f16, q8, q4: bounds for weights that differ by such rounding, on NMSE\n"
    "and the mean KL of all positions, and for f32 and f16 on every value, as a share of its row's\n"
    "root mean square. A number bounds the largest difference and nothing else.\n\n"
    "examples:\n"
    "  mgpt check weights/names.gguf weights/names.ref.json --tol 1e-5\n"
    "  mgpt check q4.gguf base --tol q4\n"
    "  mgpt check model.gguf ref.npz --explain\n"
    "  mgpt check --self weights/names.gguf\n"
    "  mgpt check --attested record.json weights/names.gguf\n"
    "  mgpt check f32.gguf q4_0.gguf --tol q4\n"
    "  mgpt check model.gguf model.gguf --kv q8_0 -f text.txt --tol q8\n";
/* clang-format on */

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_OK] = "same",
    [EXIT_AT_DIFFERENT] = "different",
    [EXIT_AT_REFUSED] = "model or reference refused or --check-finite",
    [EXIT_AT_FULL] = "longer than the context or out of memory",
};

/* ---- one sequence ---- */

static int compare_position(struct check *c, const struct ref_sequence *sequence,
                            struct check_place *place)
{
    mgpt_error err;
    const size_t position = place->position;
    place->token = sequence->ids[position];
    place->next = position + 1 < sequence->n ? sequence->ids[position + 1] : -1;
    const float *logits = engine_step(&c->engine, place->token, &err);
    if (!logits)
        return cli_fail(NULL, &err);
    if (reference_row(c->reference, place->sequence, position, c->row, &err) < 0)
        return cli_fail(c->path, &err);
    struct ref_row about = reference_about(c->reference);
    return check_report_row(&c->report, place, c->row, &about, logits);
}

static int compare_sequence(struct check *c, size_t i)
{
    mgpt_error err;
    struct check_place place = {.sequence = i};
    struct ref_sequence sequence = reference_sequence(c->reference, i);
    size_t limit = c->limit > 0 ? (size_t)c->limit : SIZE_MAX;
    size_t n = sequence.n < limit ? sequence.n : limit;
    int code = engine_fits(&c->engine, c->path, n);
    if (code == EXIT_OK && mgpt_rewind(c->engine.session, 0, &err) < 0)
        code = cli_fail(NULL, &err);
    if (code == EXIT_OK && !c->json)
        check_table_head(i, &sequence);
    for (; place.position < n && code == EXIT_OK; place.position++)
        code = compare_position(c, &sequence, &place);
    return code;
}

/* Where and why, after the verdict, in the sequence of the largest difference. */
static int look_inside(const struct check *c, int different)
{
    const struct check_inside inside = {.engine = &c->engine,
                                        .reference = c->reference,
                                        .path = c->path,
                                        .bounds = &c->bounds,
                                        .sequence = c->report.total.abs.sequence,
                                        .limit = c->limit > 0 ? (size_t)c->limit : 0,
                                        .explain = c->explain && different,
                                        .json = c->json};
    return check_inside(&inside);
}

static int check_run(struct check *c)
{
    int code = EXIT_OK;
    unsigned broken = 0;
    c->report =
        (struct check_report){.model = c->engine.model, .bounds = &c->bounds, .json = c->json};
    interrupt_catch();
    for (size_t i = 0; i < reference_count(c->reference) && code == EXIT_OK; i++)
        code = compare_sequence(c, i);
    if (code == EXIT_OK)
        code = check_report_verdict(&c->report, &broken);
    if (code == EXIT_OK)
        code = look_inside(c, broken != 0);
    return cli_finish(code == EXIT_OK && broken ? EXIT_DIFFERENT : code);
}

/* ---- options ---- */

/* --tol is a preset or a number; other bounds change one of a preset, or are added to the number.
 * Given alone they are the only bounds. */
static int read_bounds(struct check *c, const struct cli_command *command)
{
    const double none = (double)INFINITY;
    double most = none;
    const struct cli_option number = {"--tol", "X", CLI_REAL, &most, 0, 1e30, NULL, IN_USED};
    const int others = c->max_nmse >= 0 || c->max_kl >= 0;
    c->bounds = (struct compare_bounds){NULL, none, none, none, none};
    if (c->tol && !compare_preset(&c->bounds, c->tol)) {
        if (!cli_set_number(&number, c->tol))
            return cli_usage(command, "--tol %s: expected f32, f16, q8, q4 or a number from 0",
                             c->tol);
        c->bounds.max_abs = most;
    }
    if (!c->tol && !others)
        compare_preset(&c->bounds, "f32");
    if (c->max_nmse >= 0)
        c->bounds.max_nmse = c->max_nmse;
    if (c->max_kl >= 0)
        c->bounds.max_kl = c->max_kl;
    return EXIT_OK;
}

static int check_read_shape(const struct check *c, struct ref_options *options,
                            const struct cli_command *command)
{
    const char *at = c->shape;
    int32_t rows = 0, cols = 0, more;
    if (text_next_id(&at, &rows) <= 0 || text_next_id(&at, &cols) <= 0 || rows < 1 || cols < 1 ||
        text_next_id(&at, &more) != 0)
        return cli_usage(command, "--shape %s: expected two numbers, tokens and vocabulary",
                         c->shape);
    options->shape_rows = (uint64_t)rows;
    options->shape_cols = (uint64_t)cols;
    return EXIT_OK;
}

static int open_reference(struct check *c, const struct cli_command *command)
{
    const mgpt_info *info = &c->engine.info;
    mgpt_error err;
    struct ref_options options = {.n_vocab = info->n_vocab,
                                  .n_layer = info->n_layer,
                                  .model = c->engine.model,
                                  .add_bos = info->add_bos > 0 && info->bos >= 0,
                                  .bos = info->bos};
    struct input given = {.ids = c->ids, .text = c->text, .what = c->ids ? "--ids" : "-p"};
    int code = EXIT_OK;
    if (c->ids && c->text)
        code = cli_usage(command, "--ids and -p: only one of them");
    else if (c->ids || c->text)
        code = input_read(&given, &c->engine, command);
    c->given = given.tokens;
    c->n_given = given.n_tokens;
    if (code == EXIT_OK && c->shape)
        code = check_read_shape(c, &options, command);
    if (code != EXIT_OK)
        return code;
    options.ids = c->given;
    options.n_ids = c->n_given;
    c->reference = reference_open(c->path, &options, &err);
    if (!c->reference)
        return cli_fail(c->path, &err);
    if (*reference_unread(c->reference))
        cli_note("%s: %s", c->path, reference_unread(c->reference));
    return EXIT_OK;
}

static int prepare(struct check *c, const struct cli_command *command)
{
    int code = read_bounds(c, command);
    if (code == EXIT_OK)
        code = engine_open(&c->engine);
    if (code == EXIT_OK)
        code = open_reference(c, command);
    if (code != EXIT_OK)
        return code;
    c->row = mem_new((size_t)c->engine.info.n_vocab, sizeof *c->row);
    if (!c->row) {
        cli_note("out of memory: a row of logits");
        return EXIT_FULL;
    }
    return engine_session(&c->engine);
}

/* The text of -p or -f, NULL when there is neither: of a file what the tokens that are compared can
 * need. */
static int check_read_text(const struct check *c, const struct cli_command *command, char **text,
                           size_t *n_text)
{
    size_t n_tokens = c->limit > 0 ? (size_t)c->limit : CHECK_TOKENS;
    const struct cli_limits limits = {.all = n_tokens * CHECK_TOKEN_BYTES, .is_prefix = 1};
    *text = NULL;
    if (!c->text && !c->file)
        return EXIT_OK;
    return text_prompt_limited(command, c->text, c->file, limits, text, n_text);
}

/* Refuses options that only a reference has a use for. */
static int check_unused(const struct check *c, const char *with, const struct cli_command *command)
{
    const char *name = c->ids ? "--ids" : c->shape ? "--shape" : c->explain ? "--explain" : NULL;
    if (c->self && !name)
        name = c->tol             ? "--tol"
               : c->max_nmse >= 0 ? "--max-nmse"
               : c->max_kl >= 0   ? "--max-kl"
                                  : NULL;
    return name ? cli_usage(command, "%s is not for %s", name, with) : EXIT_OK;
}

static int check_self(const struct check *c, const struct cli_command *command)
{
    struct self_options options = {.path = c->engine.path,
                                   .lora = c->engine.lora,
                                   .isa = c->engine.isa,
                                   .kv = c->engine.kv,
                                   .n_tokens = c->limit,
                                   .full = c->full,
                                   .json = c->json,
                                   .attest = c->attest,
                                   .attested = c->attested};
    char *text = NULL;
    if (c->attested && (c->text || c->file || c->limit))
        return cli_usage(command, "--attested has the tokens: no -p, -f or -n with it");
    if (c->engine.check_finite)
        return cli_usage(command, "--self and --check-finite: only one of them");
    int code = check_unused(c, "--self", command);
    if (code == EXIT_OK)
        code = check_read_text(c, command, &text, &options.n_text);
    options.text = text;
    if (code == EXIT_OK)
        code = self_check(&options);
    free(text);
    return code;
}

static int check_two(struct check *c, const struct cli_command *command)
{
    struct check_models models = {.a = &c->engine,
                                  .path_b = c->path,
                                  .kv_b = c->engine.kv,
                                  .limit = c->limit > 0 ? (size_t)c->limit : 0,
                                  .bounds = &c->bounds,
                                  .json = c->json};
    char *text = NULL;
    int code = check_unused(c, "two models", command);
    if (code == EXIT_OK)
        code = read_bounds(c, command);
    c->engine.kv = "f32"; /* the reference is not rounded */
    if (code == EXIT_OK)
        code = check_read_text(c, command, &text, &models.n_text);
    if (code == EXIT_OK)
        code = engine_open(&c->engine);
    if (code == EXIT_OK)
        code = engine_session(&c->engine);
    models.text = text;
    if (code == EXIT_OK)
        code = check_models(&models);
    free(text);
    return code;
}

/* In the sandbox: the model by itself, with another model, or with a reference. */
static int check_by_kind(struct check *c, const struct cli_command *command)
{
    mgpt_error err;
    int code = sandbox_enter(&(struct sandbox){.checkpoints = {c->engine.path, c->path},
                                               .files = {c->file, c->attested},
                                               .output = c->attest ? c->attest : c->report_to,
                                               .adapters = &c->engine.lora});
    if (code != EXIT_OK)
        return code;
    if (c->self)
        return check_self(c, command);
    int is_model = check_is_model(c->path, &err);
    if (is_model < 0)
        return cli_fail(c->path, &err);
    if (is_model)
        return check_two(c, command);
    if (c->file)
        return cli_usage(command, "-f is the text of --self and of two models");
    code = prepare(c, command);
    return code == EXIT_OK ? check_run(c) : code;
}

static int check_combination(const struct check *c, const struct cli_command *command)
{
    if (c->attest && !c->self)
        return cli_usage(command, "--attest is for --self");
    if (c->report_to && (c->attest || c->json))
        return cli_usage(command, "%s and --report: only one of them",
                         c->attest ? "--attest" : "--json");
    return EXIT_OK;
}

/* What the options ask for. Returns the exit code. */
static int check_parsed(struct check *c, const struct cli_command *command, const char **operands,
                        int n, int argc, char **argv)
{
    struct report_page page = {0};
    c->self |= c->attested != NULL;
    if (!c->self && !c->engine.kv)
        c->engine.kv = "f32"; /* as references are */
    int code = check_combination(c, command);
    if (code == EXIT_OK)
        code = engine_choose(&c->engine, command, operands, n, &c->path, !c->self);
    if (code == EXIT_OK)
        code = report_page_begin(&page, c->report_to);
    if (code == EXIT_OK)
        code = check_by_kind(c, command);
    return report_page_end(&page, &c->engine, argc, argv, code);
}

int cmd_check(int argc, char **argv)
{
    struct check c = {.max_nmse = -1, .max_kl = -1};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(c.engine),
        {"--tol", "NAME|X", CLI_TEXT, &c.tol, 0, 0,
         "bounds: f32 (default), f16, q8, q4, or the largest difference allowed", IN_USED},
        {"--max-nmse", "X", CLI_REAL, &c.max_nmse, 0, 1e30, "bound of the whole NMSE", IN_BOUNDS},
        {"--max-kl", "X", CLI_REAL, &c.max_kl, 0, 1e30, "bound of the mean KL, in nats", IN_BOUNDS},
        {"--ids", "LIST", CLI_TEXT, &c.ids, 0, 0,
         "the tokens, for a reference without them: '26,0,13'", IN_TEXT},
        {"-p, --prompt", "TEXT", CLI_TEXT, &c.text, 0, 0, "the same as text", IN_TEXT},
        {"-f, --file", "FILE", CLI_TEXT, &c.file, 0, 0,
         "the text of --self and of two models, from a file; - is stdin", IN_TEXT},
        {"--explain", NULL, CLI_FLAG, &c.explain, 0, 0, "find the cause of a difference", IN_USED},
        {"--self", NULL, CLI_FLAG, &c.self, 0, 0,
         "no REF: equal bits of every variant, and every stage against float64", IN_USED},
        {"--full", NULL, CLI_FLAG, &c.full, 0, 0, "--self: also the slow variants", IN_SELF},
        {"--attest", "FILE", CLI_TEXT, &c.attest, 0, 0,
         "--self: writes a record that another machine can verify", IN_SELF},
        {"--attested", "FILE", CLI_TEXT, &c.attested, 0, 0,
         "--self with the tokens of a record, whose hash must come out", IN_SELF},
        {"--report", "FILE", CLI_TEXT, &c.report_to, 0, 0,
         "also a page (.md, .html): summary, versions, facts, all that is printed", IN_USED},
        {"--shape", "T,V", CLI_TEXT, &c.shape, 0, 0, "REF: raw float32, T x V logits", IN_TEXT},
        {"-n, --tokens", "N", CLI_INT, &c.limit, 1, INT32_MAX,
         "compare the first N positions of each sequence", IN_TEXT},
        {"--json", NULL, CLI_FLAG, &c.json, 0, 0, "JSON Lines: positions, verdict last", IN_USED},
        ENGINE_OPT_THREADS(c.engine),
        ENGINE_OPT_KV(c.engine),
        ENGINE_OPT_ISA(c.engine),
        ENGINE_OPT_FINITE(c.engine),
    };
    const struct cli_command command = {"check",
                                        "MODEL REF | MODEL MODEL | --self MODEL",
                                        "Compare the logits of a model with a reference, another "
                                        "model, or itself.",
                                        notes,
                                        options,
                                        CLI_N_OPTIONS(options),
                                        1,
                                        2,
                                        makers,
                                        exits};
    const char *operands[2];
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    int code = check_parsed(&c, &command, operands, n, argc, argv);
    free(c.row);
    free(c.given);
    reference_close(c.reference);
    engine_close(&c.engine);
    return code;
}
