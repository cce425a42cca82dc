/* mgpt convert: a checkpoint of another program to a GGUF file.
 *
 * The formats are in tools/convert/, one reader each, chosen by content. This file opens the input and
 * its side files, says what was inferred, and writes. All messages go to stderr; only the plan of
 * --dry-run, which is a result, goes to stdout.
 */
#include "cli.h"
#include "commands.h"
#include "convert/readers.h"
#include "convert/write.h"
#include "error.h"
#include "file.h"
#include "interrupt.h"
#include "mem.h"
#include "utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char notes[] =
    "It reads, by content: Hugging Face models (the directory, or config.json, safetensors or\n"
    "pytorch_model.bin in it), PyTorch checkpoints of nanoGPT, minGPT, llama2.c, "
    "LLMs-from-scratch\n"
    "and nanochat, microgpt (JSON, pickles, .npy, .npz, microgpt-bin, microgpt-c, and with --raw\n"
    "bare numbers), llama2.c .bin (versions 0, 1, 2, with tokenizer.bin), GGUF (to change the\n"
    "element type). Whatever is inferred or assumed is printed. OUT is replaced as a whole or\n"
    "left as it was; the same input gives the same bytes.\n\n"
    "TYPE is f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q6_k or keep. Vectors and the\n"
    "position table stay f32; with q4_k, token_embd and output are q6_k. Where rows are not whole\n"
    "blocks, q4_k (blocks of 256) becomes q5_0 and q6_k q8_0, and these (blocks of 32) f16.\n\n"
    "examples:\n"
    "  mgpt convert microgpt-weights.json names.gguf\n"
    "  mgpt convert stories15M.bin stories15M.gguf --tokenizer tokenizer.bin --type q8_0\n"
    "  mgpt convert SmolLM2-135M/ smollm2.gguf\n"
    "  mgpt convert params.json --dry-run --embd 32 --layers 2 --chars names.txt\n\n"
    "exit codes: 0 ok, 2 usage, 3 input refused, 4 out of memory, 5 input/output\n";

struct request {
    const char *in, *out; /* out: NULL in a dry run */
    const char *type_name, *tokenizer, *chars;
    const struct dtype *type; /* NULL: keep */
    int embedding_norm, no_embedding_norm, final_norm, head_last, no_tokenizer, dry_run;
    struct ckpt_options options;
    struct file *side; /* stb_ds array: open until the end */
};

/* ---- options ----------------------------------------------------------------------------------- */

#define WRITABLE "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q6_k or keep"

static int choose_type(const struct cli_command *command, struct request *r)
{
    if (!r->type_name || strcmp(r->type_name, "keep") == 0)
        return EXIT_OK;
    r->type = dtype_named(r->type_name);
    if (r->type && r->type->from_float)
        return EXIT_OK;
    for (uint32_t id = 0; id < 64; id++)
        if (strcasecmp(dtype_name(id), r->type_name) == 0)
            return cli_usage(command, "--type: %s cannot be written; " WRITABLE, dtype_name(id));
    return cli_usage(command, "--type: expected " WRITABLE ", found '%s'", r->type_name);
}

/* Which options were given: each has a value that cannot be typed. */
static void mark_given(struct request *r)
{
    struct ckpt_options *o = &r->options;
    const struct {
        int given;
        enum ckpt_option option;
    } all[] = {
        {o->n_head > 0, OPT_HEADS},
        {o->n_vocab > 0, OPT_VOCAB_SIZE},
        {o->n_embd > 0, OPT_EMBD},
        {o->n_layer >= 0, OPT_LAYERS},
        {o->n_ctx > 0, OPT_CONTEXT},
        {o->activation != NULL, OPT_ACTIVATION},
        {o->eps >= 0, OPT_EPS},
        {o->bos >= 0, OPT_BOS},
        {r->no_embedding_norm, OPT_NO_EMBEDDING_NORM},
        {r->embedding_norm, OPT_EMBEDDING_NORM},
        {o->positions != NULL, OPT_POSITIONS},
        {o->raw != NULL, OPT_RAW},
        {r->head_last, OPT_HEAD_LAST},
        {r->final_norm, OPT_FINAL_NORM},
        {r->chars != NULL, OPT_CHARS},
        {r->tokenizer != NULL, OPT_TOKENIZER},
        {r->no_tokenizer, OPT_NO_TOKENIZER},
        {o->rope_base > 0, OPT_ROPE},
        {o->softcap >= 0, OPT_SOFTCAP},
        {o->qk_scale > 0, OPT_QK_SCALE},
        {o->window > 0, OPT_WINDOW},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given)
            o->given |= all[i].option;
}

static int check_operands(const struct cli_command *command, struct request *r)
{
    if (!r->out && !r->dry_run)
        return cli_usage(command, "OUT is missing (or --dry-run)");
    if (r->dry_run)
        return EXIT_OK;
    if (strcmp(r->out, "-") == 0)
        return cli_usage(command, "OUT must be a file: it is replaced as a whole");
    if (cli_same_file(r->in, r->out))
        return cli_usage(command, "%s and %s are the same file", r->in, r->out);
    return EXIT_OK;
}

/* ---- side files -------------------------------------------------------------------------------- */

/* `name` in the directory of the input; malloc'ed. */
static char *beside(const char *input, const char *name)
{
    const char *slash = strrchr(input, '/');
    size_t n_dir = slash ? (size_t)(slash - input) + 1 : 0, n = strlen(name);
    char *path = malloc(n_dir + n + 1);
    if (path) {
        memcpy(path, input, n_dir);
        memcpy(path + n_dir, name, n + 1);
    }
    return path;
}

/* Opens a side file; err gets its name, since the caller names the input. */
static int open_side(struct request *r, const char *path, struct ckpt_side *side, mgpt_error *err)
{
    mgpt_error why;
    struct file file;
    if (!arr_reserve(r->side, arr_len(r->side) + 1))
        return err_memory(err, "side files", sizeof file);
    int status = file_open(&file, path, &why);
    if (status < 0)
        return err_set(err, status, MGPT_NO_OFFSET, "side file %s: %s", path, why.text);
    arr_put(r->side, file);
    side->bytes = (struct span){file.data, file.size};
    return 1;
}

static int find_side(void *user, enum ckpt_option option, const char *const *candidates,
                     size_t n_candidates, struct ckpt_side *side, mgpt_error *err)
{
    struct request *r = user;
    const char *given = option == OPT_CHARS ? r->chars : NULL;
    if (option == OPT_TOKENIZER)
        given = r->tokenizer;
    if (given) {
        side->name = given;
        return open_side(r, given, side, err);
    }
    for (size_t i = 0; i < n_candidates; i++) {
        struct stat st;
        char *path = beside(r->in, candidates[i]);
        if (!path)
            return err_memory(err, "a file name", strlen(r->in));
        side->name = candidates[i];
        int found = stat(path, &st) == 0 ? open_side(r, path, side, err) : 0;
        free(path);
        if (found)
            return found;
    }
    return 0;
}

/* ---- conversion -------------------------------------------------------------------------------- */

/* What is not UTF-8, or would move a cursor, becomes '_': names of files may be any bytes, texts in GGUF
 * may not. */
static void make_printable(char *text)
{
    size_t n = strlen(text), length;
    for (size_t i = 0; i < n; i += length) {
        uint32_t code;
        length = utf8_next(text + i, n - i, &code);
        if (code == UTF8_BAD || code < 32 || code == 127)
            text[i] = '_';
    }
}

/* The name of the input without directory and extension; malloc'ed, NULL when out of memory. */
static char *stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strcmp(path, "-") == 0)
        name = "stdin";
    const char *dot = strrchr(name, '.');
    char *text = strndup(name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
    if (text)
        make_printable(text);
    return text;
}

/* The name of the directory that the input is in; malloc'ed, "" when it has none that says something, NULL
 * when out of memory. */
static char *directory_name(const char *path)
{
    char cwd[4096];
    const char *end = strrchr(path, '/'), *start;
    while (end && end > path && end[-1] == '/')
        end--;
    if (!end || (end - path == 1 && path[0] == '.')) {
        if (!getcwd(cwd, sizeof cwd))
            return strdup("");
        path = cwd;
        end = cwd + strlen(cwd);
    }
    for (start = end; start > path && start[-1] != '/';)
        start--;
    if (start == end || *start == '.')
        return strdup("");
    char *text = strndup(start, (size_t)(end - start));
    if (text)
        make_printable(text);
    return text;
}

/* What was inferred and left out. Of an input that is refused the error is all there is to say. */
static void print_notes(const struct checkpoint *c)
{
    for (size_t i = 0; i < arr_len(c->notes); i++)
        cli_note("%s", c->notes[i]);
}

static void print_size(char buf[32], uint64_t n)
{
    if (n < 1000)
        snprintf(buf, 32, "%llu bytes", (unsigned long long)n);
    else if (n < 1000000)
        snprintf(buf, 32, "%.0f kB", (double)n / 1e3);
    else
        snprintf(buf, 32, "%.1f MB", (double)n / 1e6);
}

static void report(const struct request *r, const struct checkpoint *c)
{
    struct ckpt_written w;
    struct stat st;
    char size[32];
    ckpt_measure(c, r->type, &w);
    int known = stat(r->out, &st) == 0 && S_ISREG(st.st_mode);
    print_size(size, known ? (uint64_t)st.st_size : w.n_bytes);
    cli_note("wrote %s: %llu weights, %s, %s", r->out, (unsigned long long)w.n_values, w.type,
             size);
}

/* ---- progress ---------------------------------------------------------------------------------- */

struct progress {
    double start, shown; /* seconds; shown: the last time, 0: never */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A line on the terminal that is written over, from half a second on. */
static void show_progress(void *user, uint64_t n_done, uint64_t n_values)
{
    struct progress *p = user;
    double t = now();
    if (t - p->start < 0.5 || (p->shown > 0 && t - p->shown < 0.1))
        return;
    fprintf(stderr, "\rmgpt: %3.0f %%", 100.0 * (double)n_done / (double)n_values);
    fflush(stderr);
    p->shown = t;
}

static int write_out(struct request *r, struct checkpoint *c, mgpt_error *err)
{
    struct progress progress = {.start = now()};
    if (isatty(STDERR_FILENO)) {
        c->progress = show_progress;
        c->progress_user = &progress;
    }
    interrupt_catch(); /* or the temporary file would stay */
    int status = ckpt_write(c, r->out, r->type, err);
    interrupt_release();
    if (progress.shown > 0)
        fputs("\r           \r", stderr);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------- */

static int convert(struct request *r, struct span bytes)
{
    struct checkpoint c;
    mgpt_error err;
    char *name = stem(r->in), *directory = directory_name(r->in);
    struct ckpt_input in = {bytes, name, &r->options, find_side, r, directory};
    ckpt_init(&c);
    int status = name && directory ? ckpt_read(&c, &in, &err)
                                   : err_memory(&err, "the name of the model", strlen(r->in)),
        code;
    if (status < 0) {
        code = cli_fail(r->in, &err);
    } else if (r->dry_run) {
        print_notes(&c);
        ckpt_print_plan(&c, r->type);
        code = cli_finish(EXIT_OK);
    } else {
        status = write_out(r, &c, &err);
        if (status == MGPT_OK) {
            print_notes(&c);
            report(r, &c);
        }
        code = status < 0 ? cli_fail(c.failed.status < 0 ? r->in : r->out, &err) : EXIT_OK;
    }
    ckpt_free(&c);
    free(name);
    free(directory);
    return code;
}

/* A directory stands for the file in it that says what the others are: its path, malloc'ed, or NULL when
 * path is no directory or has no such file. */
static int file_of_directory(const char *path, char **to, mgpt_error *err)
{
    static const char file[] = "config.json";
    struct stat st;
    size_t n = strlen(path);
    *to = NULL;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return MGPT_OK;
    char *name = malloc(n + 1 + sizeof file);
    if (!name)
        return err_memory(err, "a file name", n + 1 + sizeof file);
    memcpy(name, path, n);
    name[n] = '/';
    memcpy(name + n + 1, file, sizeof file);
    if (stat(name, &st) == 0)
        *to = name;
    else
        free(name);
    return MGPT_OK;
}

static int no_input(const struct request *r, mgpt_error *err)
{
    struct stat st;
    if (stat(r->in, &st) == 0 && S_ISDIR(st.st_mode))
        err_set(err, MGPT_EIO, MGPT_NO_OFFSET,
                "is a directory without config.json: name the file that has the weights");
    return cli_fail(r->in, err);
}

static int run(struct request *r)
{
    struct file file = {0};
    mgpt_error err;
    char *text = NULL, *inside;
    size_t n = 0;
    int code;
    if (file_of_directory(r->in, &inside, &err) < 0)
        return cli_fail(r->in, &err);
    if (inside)
        r->in = inside;
    if (strcmp(r->in, "-") == 0 ? !(text = cli_read("-", &n, &err))
                                : file_open(&file, r->in, &err) < 0)
        code = no_input(r, &err);
    else
        code = convert(r, text ? (struct span){(const uint8_t *)text, n}
                               : (struct span){file.data, file.size});
    for (size_t i = 0; i < arr_len(r->side); i++)
        file_close(&r->side[i]);
    arr_free(r->side);
    file_close(&file);
    free(text);
    free(inside);
    return code;
}

int cmd_convert(int argc, char **argv)
{
    struct request r = {.options = {.n_layer = -1, .bos = -1, .eps = -1, .softcap = -1}};
    struct ckpt_options *o = &r.options;
    const struct cli_option options[] = {
        {"--type", "TYPE", CLI_TEXT, &r.type_name, 0, 0,
         "element type of the matrices; default keep"},
        {"--dry-run", NULL, CLI_FLAG, &r.dry_run, 0, 0, "print the plan, write nothing"},
        {"--tokenizer", "FILE", CLI_TEXT, &r.tokenizer, 0, 0,
         "llama2.c: default tokN.bin, tokenizer.bin beside IN"},
        {"--no-tokenizer", NULL, CLI_FLAG, &r.no_tokenizer, 0, 0, "llama2.c: write no vocabulary"},
        {"--chars", "FILE", CLI_TEXT, &r.chars, 0, 0,
         "microgpt: the characters in order, or the training text"},
        {"--heads", "N", CLI_INT, &o->n_head, 1, INT32_MAX, "microgpt: attention heads"},
        {"--bos", "ID", CLI_INT, &o->bos, 0, INT32_MAX, "microgpt: id of BOS"},
        {"--activation", "NAME", CLI_TEXT, &o->activation, 0, 0,
         "microgpt: relu, relu2, silu, gelu_tanh, gelu_erf"},
        {"--eps", "X", CLI_REAL, &o->eps, 0, 1, "microgpt: epsilon of the norms"},
        {"--rope", "BASE", CLI_REAL, &o->rope_base, 1e-3, 1e12,
         "llama, nanochat: base of the rotation"},
        {"--softcap", "X", CLI_REAL, &o->softcap, 0, 1e6,
         "nanochat: soft limit of the logits; 0: none"},
        {"--qk-scale", "X", CLI_REAL, &o->qk_scale, 1e-3, 1e3, "nanochat: factor of q and k"},
        {"--window", "N", CLI_INT, &o->window, 1, INT32_MAX,
         "nanochat: keys that short layers see"},
        {"--embedding-norm", NULL, CLI_FLAG, &r.embedding_norm, 0, 0,
         "microgpt: a norm after the embedding"},
        {"--no-embedding-norm", NULL, CLI_FLAG, &r.no_embedding_norm, 0, 0,
         "microgpt: no norm after the embedding"},
        {"--final-norm", NULL, CLI_FLAG, &r.final_norm, 0, 0, "microgpt: a norm before the head"},
        {"--positions", "HOW", CLI_TEXT, &o->positions, 0, 0,
         "microgpt without wpe: half, adjacent (rotation), none"},
        {"--raw", "TYPE", CLI_TEXT, &o->raw, 0, 0, "microgpt as bare numbers: f32, f64 or f16"},
        {"--head-last", NULL, CLI_FLAG, &r.head_last, 0, 0,
         "parameter list: lm_head behind the layers"},
        {"--vocab-size", "N", CLI_INT, &o->n_vocab, 1, INT32_MAX, "parameter list: tokens"},
        {"--embd", "N", CLI_INT, &o->n_embd, 1, INT32_MAX, "parameter list: width"},
        {"--layers", "N", CLI_INT, &o->n_layer, 0, 1024, "parameter list: layers"},
        {"--context", "N", CLI_INT, &o->n_ctx, 1, INT32_MAX, "parameter list: positions"},
    };
    const struct cli_command command = {
        "convert", "IN [OUT]", "Convert a checkpoint to a GGUF file.",
        notes,     options,    sizeof options / sizeof *options,
        1,         2};
    const char *operands[2] = {NULL, NULL};
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    r.in = operands[0];
    r.out = n > 1 ? operands[1] : NULL;
    mark_given(&r);
    int code = choose_type(&command, &r);
    if (code == EXIT_OK)
        code = check_operands(&command, &r);
    return code == EXIT_OK ? run(&r) : code;
}
