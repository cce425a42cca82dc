/* mgpt bench: how fast a model runs here, as a share of what the machine can do.
 *
 * Decoding reads every weight once per token, so its limit is the speed at which that many bytes can be
 * read. The limit is measured in the same run, over a buffer of the same size (so from the same level of
 * the memory hierarchy) and with the same number of threads. Medians of several rounds.
 */
#include "commands.h"
#include "engine.h"
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char notes[] =
    "prefill is the prompt in chunks, decode one token at a time behind it. GB/s are weight and "
    "cache\n"
    "bytes that decoding has to read; limit is the speed of reading as many bytes, measured in "
    "the\n"
    "same run with the same threads.\n\n"
    "examples:\n"
    "  mgpt bench weights/shakespeare.gguf\n"
    "  mgpt bench weights/shakespeare.gguf -t 1 --isa scalar\n\n"
    "exit codes: 0 ok, 2 usage, 3 model refused, 4 out of memory or context, 5 input/output\n";

enum { MAX_ROUNDS = 99 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

/* ---- the limit: reading a buffer over and over ---- */

struct reading {
    const uint64_t *data;
    size_t n_lines; /* of 64 bytes */
    int passes;
    uint64_t sink[64]; /* what was read must be used, or the compiler drops the reading */
};

static void read_part(void *ctx, int worker, int n_workers)
{
    struct reading *r = ctx;
    size_t first, last;
    pool_split(r->n_lines, worker, n_workers, &first, &last);
    uint64_t sum[8] = {0};
    for (int pass = 0; pass < r->passes; pass++)
        for (size_t line = first; line < last; line++)
            for (size_t i = 0; i < 8; i++)
                sum[i] ^= r->data[line * 8 + i] + (uint64_t)pass;
    for (size_t i = 0; i < 8; i++)
        r->sink[worker % 64] += sum[i];
}

/* Bytes per second of reading n_bytes again and again; 0 when out of memory. */
static double measure_limit(size_t n_bytes, int n_threads, int rounds)
{
    size_t size = (n_bytes + 4095) / 4096 * 4096;
    uint64_t *data = aligned_alloc(4096, size);
    struct pool *pool = n_threads > 1 ? pool_new(n_threads, NULL) : NULL;
    if (!data || (n_threads > 1 && !pool)) {
        free(data);
        return 0;
    }
    memset(data, 1, size);
    struct reading r = {.data = data, .n_lines = size / 64, .passes = 1};
    while ((size_t)r.passes * size < ((size_t)64 << 20))
        r.passes *= 2;
    double seconds[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        double start = now();
        pool_run(pool, read_part, &r);
        seconds[i] = now() - start;
    }
    pool_free(pool);
    free(data);
    return (double)r.passes * (double)size / median(seconds, rounds);
}

/* ---- the model ---- */

struct times {
    double prefill, decode; /* seconds */
};

/* Tokens of no meaning: what is computed does not depend on them. */
static int32_t token_at(const mgpt_info *info, size_t i)
{
    return (int32_t)((i * 7 + 1) % (size_t)info->n_tokens);
}

static int run_once(struct engine *e, const int32_t *prompt, size_t n_prompt, size_t n_decode,
                    struct times *t, mgpt_error *err)
{
    mgpt_rewind(e->session, 0, NULL);
    double start = now();
    int status = mgpt_feed(e->session, prompt, n_prompt, err);
    double middle = now();
    for (size_t i = 0; status == MGPT_OK && i < n_decode; i++)
        if (!mgpt_step(e->session, token_at(&e->info, i), err))
            status = err->status;
    t->prefill = middle - start;
    t->decode = now() - middle;
    return status;
}

static int run_rounds(struct engine *e, size_t n_prompt, size_t n_decode, int rounds,
                      struct times *t)
{
    mgpt_error err;
    double prefill[MAX_ROUNDS], decode[MAX_ROUNDS];
    int32_t *prompt = malloc((n_prompt + 1) * sizeof *prompt);
    int status = prompt ? MGPT_OK : MGPT_EMEM;
    for (size_t i = 0; prompt && i < n_prompt; i++)
        prompt[i] = token_at(&e->info, i);
    if (status == MGPT_OK) /* not counted: pages are touched, the cache grows */
        status = run_once(e, prompt, n_prompt, n_decode, t, &err);
    for (int i = 0; status == MGPT_OK && i < rounds; i++) {
        status = run_once(e, prompt, n_prompt, n_decode, t, &err);
        prefill[i] = t->prefill;
        decode[i] = t->decode;
    }
    free(prompt);
    if (!prompt)
        return cli_fail(NULL, &(mgpt_error){.status = MGPT_EMEM, .text = "out of memory"});
    if (status < 0)
        return cli_fail(e->path, &err);
    *t = (struct times){median(prefill, rounds), median(decode, rounds)};
    return EXIT_OK;
}

static void report(const struct engine *e, size_t n_prompt, size_t n_decode, int rounds,
                   const struct times *t)
{
    const mgpt_info *info = &e->info;
    int threads = mgpt_n_threads(e->session);
    double depth = (double)n_prompt + (double)n_decode / 2;
    double bytes = (double)info->bytes_per_token + (double)info->kv_bytes * depth;
    double rate = bytes * (double)n_decode / t->decode;
    double limit = measure_limit((size_t)bytes, threads, rounds);
    printf("%-8s %10s %12s %12s %10s %10s %8s\n", "", "tokens", "tokens/s", "us/token", "GB/s",
           "limit", "share");
    if (n_prompt > 0)
        printf("%-8s %10zu %12.1f %12.2f\n", "prefill", n_prompt, (double)n_prompt / t->prefill,
               1e6 * t->prefill / (double)n_prompt);
    printf("%-8s %10zu %12.1f %12.2f %10.2f %10.2f %7.1f%%\n", "decode", n_decode,
           (double)n_decode / t->decode, 1e6 * t->decode / (double)n_decode, rate / 1e9,
           limit / 1e9, limit > 0 ? 100 * rate / limit : 0);
    printf("%s, %s %s, %d thread%s, isa %s, median of %d\n", e->path, info->arch, info->type,
           threads, threads == 1 ? "" : "s", info->isa, rounds);
}

int cmd_bench(int argc, char **argv)
{
    struct engine e = {0};
    int32_t n_prompt = -1, n_decode = -1, rounds = 5;
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(e),
        ENGINE_OPT_CTX(e),
        ENGINE_OPT_THREADS(e),
        ENGINE_OPT_ISA(e),
        {"-p, --prompt", "N", CLI_INT, &n_prompt, 0, 1e9,
         "tokens of prompt (default 128, or half the context)"},
        {"-n, --tokens", "N", CLI_INT, &n_decode, 1, 1e9, "tokens decoded behind it (likewise)"},
        {"-r, --rounds", "N", CLI_INT, &rounds, 1, MAX_ROUNDS,
         "rounds; their median counts (default 5)"},
    };
    const struct cli_command command = {.name = "bench",
                                        .operands = "[MODEL]",
                                        .summary = "Measures speed as a share of the machine.",
                                        .notes = notes,
                                        .options = options,
                                        .n_options = sizeof options / sizeof *options,
                                        .max_operands = 1};
    const char *operands[1];
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    int code = engine_choose(&e, &command, operands, n, NULL, 0);
    if (code == EXIT_OK)
        code = engine_open(&e);
    if (code == EXIT_OK)
        code = engine_session(&e);
    int32_t half = code == EXIT_OK ? (int32_t)mgpt_n_ctx(e.session) / 2 : 0;
    n_prompt = n_prompt >= 0 ? n_prompt : (half < 128 ? half : 128);
    n_decode = n_decode >= 0 ? n_decode : (half < 128 ? half : 128);
    n_decode = n_decode > 0 ? n_decode : 1;
    struct times t;
    if (code == EXIT_OK)
        code = engine_fits(&e, "the run", (size_t)n_prompt + (size_t)n_decode);
    if (code == EXIT_OK)
        code = run_rounds(&e, (size_t)n_prompt, (size_t)n_decode, rounds, &t);
    if (code == EXIT_OK)
        report(&e, (size_t)n_prompt, (size_t)n_decode, rounds, &t);
    engine_close(&e);
    return cli_finish(code);
}
