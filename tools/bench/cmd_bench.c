/* mgpt bench: how fast a model runs here, as a share of what the machine can do. bench.h has the
 * map. It writes no file and keeps nothing of a run that is cut short: signals end it at once.
 *
 * This file: the options, the plan (which tests on which sessions), the rounds.
 */
#include "base/mem.h"
#include "bench/bench.h"
#include "common/commands.h"
#include "run/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char notes[] =
    "Tests are named as llama-bench names them: pp512 is a prompt of 512 tokens, tg128 128 tokens\n"
    "one at a time, @ d900 after 900 others, x8 in a batch of 8 sessions; gen128 is tg128 with\n"
    "drawing (temperature 0.8) and text. N,N,... are lists: every combination that the context\n"
    "holds is run; batches and gen at the first depth. The limits are measured in the same rounds\n"
    "with the same threads: reading as many bytes as a step has to, and the multiplications of\n"
    "the instruction set in use. A share is time at the limit / time taken.\n"
    "Above 100 % it is marked with ! (share_fault in JSON): a fault of the measurement.\n"
    "The line reading (streaming in JSON) numbers the ways to read weights, with the speeds\n"
    "measured when the model was opened; * is used. 0 prefetches, 1 does so for two panels of 16\n"
    "rows side by side (Q8_0), 2 for a shorter distance (integers), 3 reads four panels far apart\n"
    "without prefetches. --isa NAME:N takes number N without measuring.\n\n"
    "--vs reads llama-bench -o json or jsonl, or our --json (several files: cat them, - is stdin)\n"
    "and puts results for the same test and threads side by side. With --from nothing is "
    "measured.\n\n"
    "--kernels [WORD] measures each kernel (whose name holds WORD) of each instruction set.\n\n"
    "--json prints JSON Lines. Each has a kind: model (one line), limit, prefill, decode,\n"
    "generate, comparison, or kernel. Results have llama-bench's n_prompt, n_gen, n_depth,\n"
    "n_threads, avg_ts, stddev_ts, samples_ts, and more.\n\n"
    "examples:\n"
    "  mgpt bench weights/shakespeare.gguf -t 1\n"
    "  mgpt bench model.gguf -p 128,512 -n 128 --depth 0,900 -t 1,2 --batch 1,8,64\n"
    "  llama-bench -m model.gguf -t 2 -o json | mgpt bench model.gguf -t 2 --vs -\n"
    "  mgpt bench --kernels --isa avx2 Q8_0\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_REFUSED] = "model or results refused",
};

struct numbers {
    const char *text; /* as given; NULL: not */
    int32_t v[MAX_LIST];
    size_t n;
};

struct bench_request {
    struct numbers prompts, gens, depths, threads, batches, draws;
    int32_t rounds;
    int json, kernels;
    const char *vs, *from;
    struct vs_row *theirs, *ours; /* stb_ds arrays */
};

/* ---- options ---- */

/* Whole numbers with commas between them, each as strict as an option of its own. */
static int read_list(const struct cli_command *command, const char *name, struct numbers *list,
                     int32_t min, int32_t max)
{
    char word[16];
    const char *at = list->text;
    for (list->n = 0; at && list->n < MAX_LIST; at++) {
        size_t n = strcspn(at, ",");
        struct cli_option one = {.kind = CLI_INT, .to = &list->v[list->n], .min = min, .max = max};
        if (n >= sizeof word)
            break;
        memcpy(word, at, n);
        word[n] = '\0';
        if (!cli_set_number(&one, word))
            break;
        list->n++;
        at += n;
        if (!*at)
            return EXIT_OK;
    }
    if (!list->text)
        return EXIT_OK;
    return cli_usage(command,
                     "%s: expected up to %d whole numbers from %d to %d with commas between them, "
                     "found '%s'",
                     name, MAX_LIST, min, max, list->text);
}

static int read_lists(const struct cli_command *command, struct bench_request *q)
{
    const struct {
        const char *name;
        struct numbers *list;
        int32_t min, max;
    } all[] = {{"-p", &q->prompts, 0, 1000000},         {"-n", &q->gens, 0, 1000000},
               {"-g", &q->draws, 0, 1000000},           {"-d", &q->depths, 0, 100000000},
               {"-t", &q->threads, 1, CLI_MAX_THREADS}, {"-b", &q->batches, 1, 4096}};
    int code = EXIT_OK;
    for (size_t i = 0; code == EXIT_OK && i < sizeof all / sizeof *all; i++)
        code = read_list(command, all[i].name, all[i].list, all[i].min, all[i].max);
    return code;
}

static void list_default(struct numbers *list, int32_t value)
{
    if (!list->text)
        list->v[list->n++] = value;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* What was not said: as llama-bench, as far as the context allows. */
static void choose_sizes(struct bench_request *q, int32_t n_ctx)
{
    int32_t half = n_ctx > 1 ? n_ctx / 2 : 1, n = least(128, half);
    list_default(&q->prompts, least(512, half));
    list_default(&q->gens, n);
    list_default(&q->draws, q->gens.text ? q->gens.v[0] : 128);
    list_default(&q->batches, 1);
    if (!q->depths.text && n_ctx - n > 0)
        q->depths.v[1] = least(900, n_ctx - n);
    if (!q->depths.text)
        q->depths.n = n_ctx - n > 0 ? 2 : 1;
}

/* ---- the plan ---- */

/* Bytes and operations of a test, once its numbers are known. */
static void weigh(const struct bench *b, struct test *t)
{
    const mgpt_info *info = &b->engine.info;
    double n = t->n, s = t->n_sessions, keys = t->depth + (n + 1) / 2;
    if (t->kind == TEST_GENERATE) /* a text begins anew now and then: not counted */
        keys = 0;
    t->attention_ops = n * s * keys * b->work.attended;
    t->linear_ops = n * s * b->work.layers;
    t->linear_ops += t->kind == TEST_PREFILL ? b->work.head : n * s * b->work.head;
    if (t->kind != TEST_PREFILL)
        t->step_bytes = (double)info->bytes_per_token + s * keys * b->kv_bytes;
}

static int bench_add(struct bench *b, const struct test *t, int32_t n_ctx)
{
    if (t->n == 0 || (t->kind != TEST_GENERATE && t->n > n_ctx - t->depth))
        return EXIT_OK;
    if (!arr_push(b->tests, *t)) {
        cli_note("out of memory: %zu tests", arr_len(b->tests));
        return EXIT_FULL;
    }
    weigh(b, &b->tests[b->n_tests++]);
    return EXIT_OK;
}

/* A kind of test, for every combination of the lists. */
struct combination {
    enum test_kind kind;
    const struct numbers *sizes, *depths, *batches;
};

static int add_all(struct bench *b, const struct combination *c, struct limits *limits,
                   int32_t n_ctx)
{
    int code = EXIT_OK;
    for (size_t k = 0; k < c->batches->n; k++)
        for (size_t d = 0; d < c->depths->n; d++)
            for (size_t i = 0; i < c->sizes->n && code == EXIT_OK; i++) {
                const struct test t = {.kind = c->kind,
                                       .n = c->sizes->v[i],
                                       .depth = c->depths->v[d],
                                       .n_sessions = c->batches->v[k],
                                       .limits = limits};
                code = bench_add(b, &t, n_ctx);
            }
    return code;
}

static int plan(struct bench *b, const struct bench_request *q, int32_t n_ctx)
{
    const struct numbers one = {.v = {1}, .n = 1}, start = {.n = 1};
    struct numbers many = {0}, single = {0}, first = {.v = {q->depths.v[0]}, .n = 1};
    const struct combination all[] = {{TEST_PREFILL, &q->prompts, &q->depths, &one},
                                      {TEST_DECODE, &q->gens, &q->depths, &single},
                                      {TEST_DECODE, &q->gens, &first, &many},
                                      {TEST_GENERATE, &q->draws, &start, &q->batches}};
    int code = EXIT_OK;
    for (size_t i = 0; i < q->batches.n; i++)
        if (q->batches.v[i] > 1)
            many.v[many.n++] = q->batches.v[i];
        else
            single = one;
    for (size_t i = 0; i < b->n_limits; i++)
        for (size_t k = 0; k < sizeof all / sizeof *all && code == EXIT_OK; k++)
            code = add_all(b, &all[k], &b->limits[i], n_ctx);
    if (code == EXIT_OK && b->n_tests == 0) {
        cli_note("nothing to measure: the context holds %d tokens", n_ctx);
        code = EXIT_FULL;
    }
    return code;
}

/* ---- the run ---- */

/* Says where the numbers of threads come from. */
static void note_threads(struct bench *b, const struct bench_request *q)
{
    char why[96];
    int n = mgpt_n_threads(b->engine.session);
    int n_chosen = session_threads_why(b->engine.model, why, sizeof why);
    if (q->threads.n)
        snprintf(b->threads_why, sizeof b->threads_why, "as asked; chosen would be %d: %s",
                 n_chosen, why);
    else if (n < n_chosen)
        snprintf(b->threads_why, sizeof b->threads_why, "%d: the system has refused more (%d: %s)",
                 n, n_chosen, why);
    else
        snprintf(b->threads_why, sizeof b->threads_why, "%d: %s", n, why);
}

/* Opens the model, runs a first token, and notes what that took. Learns the context's length and,
 * without -t, the number of threads. */
static int bench_open_model(struct bench *b, struct bench_request *q, int32_t *n_ctx)
{
    mgpt_error err;
    double start = cli_seconds();
    int code = engine_open(&b->engine);
    b->open_seconds = cli_seconds() - start;
    b->engine.n_threads = q->threads.n ? q->threads.v[0] : 0;
    if (code == EXIT_OK)
        code = engine_session(&b->engine);
    if (code != EXIT_OK)
        return code;
    const mgpt_info *info = &b->engine.info;
    if (!mgpt_step(b->engine.session, info->bos >= 0 ? info->bos : 0, &err))
        return cli_fail(b->engine.path, &err);
    b->first_seconds = cli_seconds() - start;
    b->peak_bytes = machine_peak_memory();
    *n_ctx = (int32_t)mgpt_n_ctx(b->engine.session);
    note_threads(b, q);
    list_default(&q->threads, mgpt_n_threads(b->engine.session));
    mgpt_session_free(b->engine.session);
    b->engine.session = NULL;
    return EXIT_OK;
}

static int open_limits(struct bench *b, const struct bench_request *q)
{
    const mgpt_info *info = &b->engine.info;
    b->limits = calloc(q->threads.n, sizeof *b->limits);
    for (size_t i = 0; b->limits && i < q->threads.n; i++) {
        bench_progress("measuring the machine, threads: %d", q->threads.v[i]);
        if (!limits_open(&b->limits[i], &b->machine, info->isa, q->threads.v[i],
                         (size_t)info->bytes_per_token))
            break;
        b->n_limits++;
    }
    if (b->n_limits == q->threads.n)
        return EXIT_OK;
    cli_note("out of memory or threads: measuring the machine");
    return EXIT_FULL;
}

static int rounds(struct bench *b)
{
    char name[64];
    int code = EXIT_OK;
    for (size_t i = 0; i < b->n_tests && code == EXIT_OK; i++) {
        bench_progress("warming up: %s", test_name(&b->tests[i], name, sizeof name));
        code = test_open(b, &b->tests[i]);
    }
    for (int round = 0; round < b->rounds && code == EXIT_OK; round++) {
        for (size_t i = 0; i < b->n_limits; i++)
            limits_sample(&b->limits[i]);
        for (size_t i = 0; i < b->n_tests && code == EXIT_OK; i++) {
            bench_progress("round %d of %d: %s", round + 1, b->rounds,
                           test_name(&b->tests[i], name, sizeof name));
            code = test_sample(b, &b->tests[i]);
        }
    }
    bench_progress("%s", "");
    return code;
}

static int bench_report(struct bench *b, struct bench_request *q)
{
    int code = EXIT_OK;
    if (q->json)
        code = bench_json(b);
    else
        bench_table(b);
    if (code == EXIT_OK && q->vs)
        code = vs_ours(b, &q->ours);
    if (code == EXIT_OK && q->vs)
        code = vs_report(q->ours, q->theirs, q->json);
    return code;
}

static int bench_measure(struct bench *b, struct bench_request *q)
{
    int32_t n_ctx = 0;
    int code = bench_open_model(b, q, &n_ctx);
    if (code == EXIT_OK) {
        machine_look(&b->machine);
        work_of(&b->work, b->engine.model, &b->engine.info);
        b->kv_bytes = (double)engine_kv_bytes(&b->engine);
        choose_sizes(q, n_ctx);
        code = open_limits(b, q);
    }
    if (code == EXIT_OK)
        code = plan(b, q, n_ctx);
    if (code == EXIT_OK)
        code = rounds(b);
    if (code == EXIT_OK)
        code = bench_report(b, q);
    for (size_t i = 0; i < b->n_tests; i++)
        test_close(&b->tests[i]);
    for (size_t i = 0; i < b->n_limits; i++)
        limits_close(&b->limits[i]);
    arr_free(b->tests);
    free(b->limits);
    return code;
}

static int cmd_bench_run(struct bench *b, struct bench_request *q,
                         const struct cli_command *command, const char **operands, int n)
{
    int code = read_lists(command, q);
    if (code != EXIT_OK)
        return code;
    if (q->from && !q->vs)
        return cli_usage(command, "--from goes with --vs");
    if (q->kernels && (q->vs || b->engine.path))
        return cli_usage(command, "--kernels goes with neither a model nor --vs");
    if (q->kernels)
        return bench_kernels(b->engine.isa, n > 0 ? operands[0] : NULL, q->rounds, q->json);
    if (q->from && (b->engine.path || n > 0))
        return cli_usage(command, "--from takes results from a file: no model is run");
    if (!q->from)
        code = engine_choose(&b->engine, command, operands, n, NULL, 0);
    if (code == EXIT_OK && q->vs)
        code = vs_read(q->vs, &q->theirs);
    if (code == EXIT_OK && q->from) {
        code = vs_read(q->from, &q->ours);
        return code == EXIT_OK ? vs_report(q->ours, q->theirs, q->json) : code;
    }
    return code == EXIT_OK ? bench_measure(b, q) : code;
}

int cmd_bench(int argc, char **argv)
{
    struct bench b = {0};
    struct bench_request q = {.rounds = 5};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(b.engine),
        {"-p, --prompt", "N,N,...", CLI_TEXT, &q.prompts.text, 0, 0,
         "tokens of prompts (default 512, at most half the context; 0: none)", IN_USED},
        {"-n, --tokens", "N,N,...", CLI_TEXT, &q.gens.text, 0, 0,
         "tokens decoded one at a time (default 128; 0: none)", IN_USED},
        {"-g, --generate", "N,N,...", CLI_TEXT, &q.draws.text, 0, 0,
         "tokens of the whole loop with drawing (default as -n; 0: none)", IN_MEASURED},
        {"-d, --depth", "N,N,...", CLI_TEXT, &q.depths.text, 0, 0,
         "tokens held before (default 0,900, as the context allows)", IN_MEASURED},
        {"-b, --batch", "N,N,...", CLI_TEXT, &q.batches.text, 0, 0,
         "sessions that step together (default 1)", IN_MEASURED},
        {"-t, --threads", "N,N,...", CLI_TEXT, &q.threads.text, 0, 0, "threads (default: chosen)",
         IN_USED},
        {"-r, --rounds", "N", CLI_INT, &q.rounds, 1, MAX_ROUNDS,
         "rounds; their median counts (default 5)", IN_MEASURED},
        ENGINE_OPT_CTX(b.engine),
        ENGINE_OPT_KV(b.engine),
        ENGINE_OPT_ISA(b.engine),
        {"--kernels", NULL, CLI_FLAG, &q.kernels, 0, 0,
         "the kernels of every instruction set (or of --isa), no model", IN_MEASURED},
        {"--json", NULL, CLI_FLAG, &q.json, 0, 0, "JSON Lines instead of tables", IN_USED},
        {"--vs", "FILE", CLI_TEXT, &q.vs, 0, 0,
         "results of llama-bench or of --json to compare with", IN_USED},
        {"--from", "FILE", CLI_TEXT, &q.from, 0, 0,
         "with --vs: our results, from --json, instead of measuring", IN_MEASURED},
    };
    const struct cli_command command =
        CLI_COMMAND("bench", "[MODEL|WORD]", "Measures speed as a share of the machine.", notes,
                    exits, options, 0, 1);
    const char *operands[1];
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    b.rounds = q.rounds;
    int code = cmd_bench_run(&b, &q, &command, operands, n);
    arr_free(q.theirs);
    arr_free(q.ours);
    engine_close(&b.engine);
    return cli_finish(code);
}
