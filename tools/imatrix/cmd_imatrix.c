/* mgpt imatrix: what each matrix of a model multiplies, for convert --imatrix.
 *
 * A text is run in chunks, each from position 0. Taps add up the squares of the inputs of each matrix,
 * column by column. The file is llama.cpp's.
 */
#include "base/mem.h"
#include "common/commands.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/reader.h"
#include "common/sandbox.h"
#include "engine/engine.h"
#include "engine/input.h"
#include "imatrix/input_sums.h"
#include "run/session.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1 << 30, CHUNK = 512 };

struct imatrix_run {
    struct engine engine;
    const char *path;
    int32_t n_chunk, most; /* tokens of a chunk; most chunks, 0: all */
    int with_head;
    struct input input; /* only its file or ids */
    size_t n_done;      /* chunks that were run */
    struct input_sums sums;
};

static const char notes[] =
    "The text is cut into chunks of --chunk tokens, each run from the first position. The model's\n"
    "BOS, where it wants one, takes the place of each chunk's first token, as in llama.cpp. A "
    "last\n"
    "chunk that is shorter is left out unless it is the only one.\n"
    "The file is GGUF, as llama-imatrix writes it: for each matrix of the layers the tensors\n"
    "NAME.in_sum2, the sums of the squares of its inputs by column, and NAME.counts; of a mixture\n"
    "for each expert. mgpt convert --imatrix and llama-quantize --imatrix read it.\n\n"
    "examples:\n"
    "  mgpt imatrix weights/shakespeare.gguf -f text.txt -o shakespeare.imatrix.gguf\n"
    "  mgpt convert weights/shakespeare.gguf small.gguf --type q4_0 --imatrix "
    "shakespeare.imatrix.gguf\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_USAGE] = "usage or a character that the vocabulary lacks",
    [EXIT_AT_REFUSED] = "model refused",
};

static int imatrix_read(struct imatrix_run *r, const struct cli_command *command)
{
    const mgpt_info *info = &r->engine.info;
    struct input *in = &r->input;
    struct text_reader reader;
    mgpt_error err;
    size_t n = 0;
    if (in->ids)
        return input_read(in, &r->engine, command);
    if (reader_open(&reader, in->file, &err) < 0)
        return cli_fail(in->file, &err);
    int status = reader_hold(&reader, MOST_TEXT, &err);
    const char *text = status == MGPT_OK ? reader_bytes(&reader, &n) : NULL;
    int32_t bos = info->add_bos && n > 0 ? info->bos : -1; /* nothing is no token */
    int code = text ? engine_encode(&r->engine, in->file, text, n, MGPT_NO_SPECIAL_TOKENS, bos,
                                    &in->tokens, &in->n_tokens)
                    : cli_fail(in->file, &err);
    reader_close(&reader);
    return code;
}

/* Runs a chunk of n tokens. */
static int run_chunk(struct imatrix_run *r, int32_t *tokens, size_t n, mgpt_error *err)
{
    const mgpt_info *info = &r->engine.info;
    mgpt_session *s = r->engine.session;
    struct watcher watcher = {input_sums_points(), input_sums_tap, &r->sums, NULL};
    if (info->add_bos && !r->input.ids)
        tokens[0] = info->bos;
    int status = mgpt_rewind(s, 0, err);
    if (status == MGPT_OK)
        status = engine_feed(&r->engine, s, tokens, n, &watcher, err);
    return status == MGPT_OK ? engine_check(&r->engine, mgpt_logits(s), n - 1, err) : status;
}

static int run_chunks(struct imatrix_run *r)
{
    size_t each = (size_t)r->n_chunk, n_tokens = r->input.n_tokens;
    size_t n = n_tokens < each ? n_tokens > 0 : n_tokens / each;
    struct progress progress;
    mgpt_error err;
    int status = MGPT_OK;
    n = r->most && (size_t)r->most < n ? (size_t)r->most : n;
    r->engine.session->seen = (struct experts_seen){input_sums_experts, &r->sums};
    progress_begin(&progress);
    for (; r->n_done < n && status == MGPT_OK && !interrupted(); r->n_done++) {
        size_t left = n_tokens - r->n_done * each;
        status = run_chunk(r, r->input.tokens + r->n_done * each, left < each ? left : each, &err);
        progress_show(&progress, r->n_done + 1, n);
    }
    progress_end(&progress);
    if (interrupted())
        return EXIT_INTERRUPTED;
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

static int imatrix_write(const struct imatrix_run *r)
{
    struct gguf_writer w;
    mgpt_error err;
    const char *from = r->input.file ? r->input.file : "ids";
    const struct gguf_str text = {from, strlen(from)};
    if (r->n_done == 0)
        return cli_note("%s: the text is empty", from), EXIT_USAGE;
    if (files_may_write(r->path, FILES_GGUF, &err) < 0 || gguf_create(&w, r->path, &err) < 0)
        return cli_fail(r->path, &err);
    gguf_put_string(&w, "general.type", "imatrix", 7);
    gguf_put_strings(&w, "imatrix.datasets", &text, 1);
    gguf_put_u32(&w, "imatrix.chunk_count", (uint32_t)r->n_done);
    gguf_put_u32(&w, "imatrix.chunk_size", (uint32_t)r->n_chunk);
    input_sums_write(&r->sums, &w);
    if (gguf_commit(&w, &err) < 0)
        return cli_fail(r->path, &err);
    cli_info("wrote %s: %zu matrices, %zu chunks of %d tokens", r->path, arr_len(r->sums.entries),
             r->n_done, (int)r->n_chunk);
    return EXIT_OK;
}

static int imatrix_run(struct imatrix_run *r, const struct cli_command *command)
{
    mgpt_error err;
    int code = sandbox_enter(&(struct sandbox){.checkpoints = {r->engine.path},
                                               .files = {r->input.file},
                                               .output = r->path,
                                               .adapters = &r->engine.lora});
    if (code == EXIT_OK)
        code = engine_open(&r->engine);
    if (code != EXIT_OK)
        return code;
    int32_t n_ctx = r->engine.info.n_ctx;
    r->n_chunk = r->n_chunk ? r->n_chunk : n_ctx < CHUNK ? n_ctx : CHUNK;
    if (r->n_chunk > n_ctx)
        return cli_note("--chunk: the model's context has %d tokens", (int)n_ctx), EXIT_USAGE;
    interrupt_catch();
    code = engine_session(&r->engine);
    if (code == EXIT_OK)
        code = imatrix_read(r, command);
    if (code == EXIT_OK && input_sums_begin(&r->sums, r->engine.model, r->with_head, &err) < 0)
        code = cli_fail(NULL, &err);
    if (code == EXIT_OK)
        code = run_chunks(r);
    return code == EXIT_OK ? imatrix_write(r) : code;
}

int cmd_imatrix(int argc, char **argv)
{
    struct imatrix_run r = {.engine.kv = "f32", .engine.needs_finite = 1};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(r.engine),
        {"-f, --file", "FILE", CLI_TEXT, &r.input.file, 0, 0, "the text; - is stdin", IN_USED},
        {"--ids", "LIST", CLI_TEXT, &r.input.ids, 0, 0, "or the tokens: '26,0,13'", IN_USED},
        {"-o, --output", "FILE", CLI_TEXT, &r.path, 0, 0, "what to write: GGUF", IN_USED},
        {"--chunk", "N", CLI_INT, &r.n_chunk, 1, INT32_MAX,
         "tokens of a chunk (default: 512, or the context)", IN_USED},
        {"-n, --chunks", "N", CLI_INT, &r.most, 1, INT32_MAX, "most chunks (default: all)",
         IN_USED},
        {"--head", NULL, CLI_FLAG, &r.with_head, 0, 0, "also what output.weight multiplies",
         IN_USED},
        ENGINE_OPT_THREADS(r.engine),
    };
    const struct cli_command command =
        CLI_COMMAND("imatrix", "[MODEL] -f TEXT -o FILE",
                    "What each matrix multiplies, for quantising.", notes, exits, options, 0, 1);
    int code;
    if (!engine_parse(&r.engine, &command, argc, argv, &code))
        return code;
    if (input_count(&r.input) != 1)
        code = cli_usage(&command, "give one of -f, --ids");
    else
        code = r.path ? imatrix_run(&r, &command) : cli_usage(&command, "-o FILE is missing");
    input_sums_free(&r.sums);
    free(r.input.tokens);
    engine_close(&r.engine);
    return code;
}
