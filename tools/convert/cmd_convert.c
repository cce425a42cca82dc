/* mgpt convert: a checkpoint of another program to a GGUF file.
 *
 * The formats are in tools/convert/, one reader each, chosen by content; source.c opens the input
 * and its side files. This file reads the options, prints what was inferred, and writes. All messages
 * go to stderr; only the plan of --dry-run, which is a result, goes to stdout.
 */
#include "base/error.h"
#include "base/mem.h"
#include "common/cli.h"
#include "common/commands.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/sandbox.h"
#include "convert/core/mixtures.h"
#include "convert/core/questions.h"
#include "convert/core/readings.h"
#include "convert/core/source.h"
#include "convert/core/write.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char notes[] =
    "It reads, by content: Hugging Face models of the types below (the directory, or\n"
    "config.json, safetensors or pytorch_model.bin in it); PyTorch checkpoints of nanoGPT,\n"
    "minGPT, llama2.c, Meta's Llama, ng-video-lecture, LLMs-from-scratch, LitGPT, nanochat and\n"
    "of GPT-2 under the names of other programs, or a directory that holds one; microgpt (JSON,\n"
    "pickles, .npy, .npz, microgpt-bin, microgpt-c, and with --raw bare numbers); llm.c .bin\n"
    "(with gpt2_tokenizer.bin); llama2.c .bin (versions 0, 1, 2, with tokenizer.bin); GGUF (to\n"
    "change the element type). What is inferred or assumed is printed. OUT is replaced as a\n"
    "whole or left as it was; the same input gives the same bytes.\n\n"
    "TYPE is one of those listed at the end, or keep. Vectors and the position table stay f32;\n"
    "with a K type, token_embd and output are q6_k. Where rows are not whole blocks (of 256), "
    "q2_k\n"
    "and q3_k become q4_0, q4_k q5_0, q5_k q5_1, q6_k q8_0, and these (blocks of 32) f16.\n"
    "Matrices that --lora changes are f32 unless --type says otherwise, of a quantised base too.\n"
    "A mixture gives each matrix the type that llama-quantize gives it. --type-of changes that:\n"
    "PATTERN is a regular expression (PCRE2) that is found anywhere in GGUF's name of the tensor;\n"
    "the first one that is found counts. --imatrix takes what mgpt imatrix or llama-imatrix has\n"
    "measured; types without a search for scales (q8_0, f16) are as without it.\n\n"
    "--json prints {\"in\", \"out\" (null: --dry-run), \"format\", \"architecture\", "
    "\"weights\", \"type\",\n"
    "\"bytes\", \"notes\": [lines], \"tensors\": [{\"name\", \"type\", \"shape\"}]}; "
    "then no note is on stderr.\n"
    "Of a file that leaves facts open it prints, with the error on stderr:\n"
    "{\"in\", \"error\", \"also\", "
    "\"open\": [{\"what\", \"how\", \"options\": [{\"option\", \"programs\"}]}],\n"
    "\"likely\", \"programs\"}.\n\n"
    "examples:\n"
    "  mgpt convert microgpt-weights.json names.gguf\n"
    "  mgpt convert stories15M.bin stories15M.gguf --tokenizer tokenizer.bin --type q8_0\n"
    "  mgpt convert SmolLM2-135M/ smollm2.gguf\n"
    "  mgpt convert gpt2.gguf small.gguf --type q4_k_m --type-of 'ffn_down=q6_k' --type-of "
    "^output=q8_0\n"
    "  mgpt convert SmolLM2-135M/ tuned.gguf --lora checkpoint-200/ --type q8_0\n"
    "  mgpt convert params.json --dry-run --embd 32 --layers 2 --chars names.txt\n";

struct request {
    struct ckpt_source source;
    const char *out; /* NULL in a dry run */
    const char *type_name;
    const struct dtype *type; /* NULL: keep; of a mixture its base */
    const struct ckpt_mixture *mixture;
    struct cli_many types_of; /* --type-of */
    const char *imatrix;
    const char *text; /* --text: proposes readings by their loss on it; NULL: not */
    int dry_run, ask, json;
};

enum { TYPE_PATTERN = 256 };

/* ---- options ----------------------------------------------------------------------------------- */

/* "f32 f16 ...": the types that --type writes, by id. */
struct type_names {
    char text[200];
};

static struct type_names writable_types(void)
{
    struct type_names names = {""};
    size_t n = 0;
    for (uint32_t id = 0; id < DTYPE_N_IDS; id++) {
        const struct dtype *type = dtype_find(id);
        if (type && type->from_float)
            n += text_format(names.text + n, sizeof names.text - n, "%s%s", n ? " " : "",
                             type->name);
    }
    for (char *p = names.text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return names;
}

static int choose_type(const struct cli_command *command, struct request *r)
{
    if (!r->type_name || strcmp(r->type_name, "keep") == 0)
        return EXIT_OK;
    r->mixture = ckpt_mixture_named(r->type_name);
    r->type = r->mixture ? dtype_find(r->mixture->base) : dtype_named(r->type_name);
    if (r->type && r->type->from_float)
        return EXIT_OK;
    for (uint32_t id = 0; id < DTYPE_N_IDS; id++)
        if (strcasecmp(dtype_name(id), r->type_name) == 0)
            return cli_usage(command, "--type: %s cannot be written; %s or keep", dtype_name(id),
                             writable_types().text);
    return cli_usage(command, "--type: expected %s or keep, found '%s'", writable_types().text,
                     r->type_name);
}

/* What follows the last '=' of PATTERN=TYPE; NULL for another text. */
static const struct dtype *type_of_pattern(const char *text, char pattern[TYPE_PATTERN])
{
    const char *at = strrchr(text, '=');
    size_t n = at ? (size_t)(at - text) : 0;
    const struct dtype *type = at ? dtype_named(at + 1) : NULL;
    if (n < 1 || n >= TYPE_PATTERN || !type || !type->from_float)
        return NULL;
    memcpy(pattern, text, n);
    pattern[n] = 0;
    return type;
}

static int read_types_of(const struct cli_command *command, const struct request *r)
{
    char pattern[TYPE_PATTERN];
    for (size_t i = 0; i < r->types_of.n; i++)
        if (!type_of_pattern(r->types_of.values[i], pattern))
            return cli_usage(command, "--type-of: expected PATTERN=TYPE with one of %s, found '%s'",
                             writable_types().text, r->types_of.values[i]);
    return EXIT_OK;
}

/* --qk-scale: whose width the scores are divided by the root of, or a factor of q and k. attention.scale is
 * its square over the root of the heads' width: with 0.02 in the range of that key (numbers.h) for any width. */
static int read_qk_scale(const struct cli_command *command, struct ckpt_options *o)
{
    const struct cli_option number = {"--qk-scale", "X", CLI_REAL, &o->qk_scale,
                                      0.02,         1e3, "",       IN_FACTS};
    const char *typed = o->scale_of;
    o->scale_of = NULL;
    if (!typed || ckpt_give(o, FACT_QK_SCALE, typed) || cli_set_number(&number, typed))
        return EXIT_OK;
    return cli_usage(command, "--qk-scale: expected head, embd or a number from 0.02 to 1000");
}

/* An option that is one of the answers of a question. */
static int read_choice(const struct cli_command *command, struct ckpt_options *o,
                       enum ckpt_fact fact)
{
    const struct ckpt_question *q = &ckpt_questions[fact];
    const struct ckpt_option_row *row = ckpt_option_row(q->option);
    const char *typed = ckpt_given(o, fact);
    if (row->kind != CKPT_CHOICE || !typed || ckpt_give(o, fact, typed))
        return EXIT_OK;
    return cli_usage(command, "%s: expected %s or %s, found '%s'", row->name, q->values[0],
                     q->values[1], typed);
}

/* The options that are words or pairs of flags. */
static int read_facts(const struct cli_command *command, struct request *r)
{
    struct ckpt_options *o = &r->source.options;
    int code = EXIT_OK;
    ckpt_mark_given(o);
    if (o->pre_norm && o->post_norm)
        return cli_usage(command, "--pre-norm and --post-norm exclude each other");
    if (o->pre_norm || o->post_norm)
        o->norms = o->pre_norm ? "pre" : "post";
    for (int i = 0; i < CKPT_N_FACTS && code == EXIT_OK; i++)
        code = read_choice(command, o, (enum ckpt_fact)i);
    if (code != EXIT_OK)
        return code;
    if (r->ask && r->text)
        return cli_usage(command, "--ask and --text exclude each other");
    if (r->ask && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
        return cli_usage(command, "--ask needs a terminal");
    return read_qk_scale(command, o);
}

static int check_operands(const struct cli_command *command, struct request *r)
{
    if (!r->out && !r->dry_run)
        return cli_usage(command, "OUT is missing (or --dry-run)");
    if (r->dry_run)
        return EXIT_OK;
    if (strcmp(r->out, "-") == 0)
        return cli_usage(command, "OUT must be a file: it is replaced as a whole");
    if (cli_same_file(r->source.path, r->out))
        return cli_usage(command, "%s and %s are the same file", r->source.path, r->out);
    return EXIT_OK;
}

/* ---- conversion -------------------------------------------------------------------------------- */

/* Prints what was inferred and what was left out. If the input is refused, only the error is
 * printed. */
static void print_notes(const struct request *r)
{
    const struct checkpoint *c = &r->source.checkpoint;
    if (r->json)
        return;
    for (size_t i = 0; i < arr_len(c->notes); i++)
        cli_info("%s", c->notes[i]);
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

static int report_json(const struct request *r, const struct checkpoint *c,
                       const struct ckpt_written *w, uint64_t n_bytes)
{
    struct jtext *lines = jtext("[]"), *tensors = jtext("[]");
    for (size_t i = 0; i < arr_len(c->notes); i++)
        jtext_add(lines, "s", c->notes[i]);
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        jtext_add(tensors, "{s:s, s:s, s:o}", "name", c->tensors[i].name, "type",
                  ckpt_type_of(&c->tensors[i], r->type)->name, "shape",
                  jtext_shape(c->tensors[i].dims, c->tensors[i].n_dims));
    return cli_finish(text_json_line(
        jtext("{s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:o, s:o}", "in", r->source.path, "out", r->out,
              "format", c->format, "architecture", c->hp.arch, "weights", (int64_t)w->n_values,
              "type", w->type, "bytes", (int64_t)n_bytes, "notes", lines, "tensors", tensors)));
}

static int convert_report(const struct request *r, const struct checkpoint *c)
{
    struct ckpt_written w;
    struct stat st;
    char size[32];
    ckpt_measure(c, r->type, &w);
    int known = r->out && stat(r->out, &st) == 0 && S_ISREG(st.st_mode);
    uint64_t n_bytes = known ? (uint64_t)st.st_size : w.n_bytes;
    print_size(size, n_bytes);
    if (r->json)
        return report_json(r, c, &w, n_bytes);
    cli_info("wrote %s: %llu weights, %s, %s", r->out, (unsigned long long)w.n_values, w.type,
             size);
    return EXIT_OK;
}

static int write_out(struct request *r, mgpt_error *err)
{
    struct checkpoint *c = &r->source.checkpoint;
    struct progress progress;
    progress_begin(&progress);
    c->progress = progress_show;
    c->progress_user = &progress;
    interrupt_catch(); /* or the temporary file would stay */
    int status = files_may_write(r->out, FILES_GGUF, err);
    if (status == MGPT_OK)
        status = ckpt_write(c, r->out, r->type, err);
    interrupt_release();
    progress_end(&progress);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------- */

/* Reads the input again, with the answers. */
static int read_again(struct ckpt_source *s, const struct ckpt_options *answered, mgpt_error *err)
{
    struct ckpt_source again = {.path = s->path, .lora = s->lora, .options = *answered};
    int status = source_read(&again, err);
    source_close(s);
    *s = again;
    return status;
}

/* Lists the matrices outside of layers and those of layer 0, without "blk.0." and ".weight". */
static int say_matrices(const struct checkpoint *c, const char *pattern)
{
    char names[160] = "";
    size_t n = 0;
    for (size_t i = 0; i < arr_len(c->tensors); i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        int is_first = strncmp(t->name, "blk.0.", 6) == 0;
        const char *name = is_first ? t->name + 6 : t->name;
        if (ckpt_has_choice(t) && (is_first || strncmp(name, "blk.", 4) != 0))
            n += text_format(names + n, sizeof names - n, "%s%.*s", n ? " " : "",
                             (int)strcspn(name, "."), name);
    }
    cli_note("--type-of: no matrix has '%.20s' in its name; there are %s", pattern, names);
    return EXIT_USAGE;
}

/* The types of tensors that differ from --type. */
static int set_types(struct request *r)
{
    struct checkpoint *c = &r->source.checkpoint;
    char pattern[TYPE_PATTERN];
    mgpt_error err;
    if (r->mixture)
        ckpt_mix_types(c, r->mixture);
    for (size_t i = 0; i < r->types_of.n; i++) {
        const struct dtype *type = type_of_pattern(r->types_of.values[i], pattern);
        int64_t n = ckpt_name_types(c, pattern, type, &err);
        if (n < 0)
            return cli_fail("--type-of", &err);
        if (n == 0)
            return say_matrices(c, pattern);
    }
    return EXIT_OK;
}

/* Reads --imatrix. */
static int read_importance(struct request *r)
{
    struct file file;
    mgpt_error err;
    if (!r->imatrix)
        return r->mixture && r->mixture->needs_importance && !r->dry_run
                   ? (cli_note("--type %s needs --imatrix", r->mixture->name), EXIT_USAGE)
                   : EXIT_OK;
    int status = files_open(&file, r->imatrix, &err);
    if (status < 0)
        return cli_fail(r->imatrix, &err);
    status = ckpt_weigh(&r->source.checkpoint, (struct span){file.data, file.size}, &err);
    file_close(&file);
    return status < 0 ? cli_fail(r->imatrix, &err) : EXIT_OK;
}

/* What to do about facts that are not in the file: ask, compare by the text, or list them. */
static int open_questions(struct request *r, mgpt_error *err)
{
    struct ckpt_source *s = &r->source;
    if (r->text)
        return readings_compare(s, r->text);
    struct ckpt_options answered = s->options;
    while (r->ask && ckpt_is_asking(&s->checkpoint, err) &&
           ckpt_ask_user(&s->checkpoint, &answered))
        if (read_again(s, &answered, err) == MGPT_OK)
            return EXIT_OK;
    int code = cli_fail(s->in, err), is_asking = ckpt_is_asking(&s->checkpoint, err);
    if (is_asking && r->json)
        text_json_line(ckpt_questions_json(&s->checkpoint, s->in, err));
    else if (is_asking)
        ckpt_print_questions(&s->checkpoint);
    return code;
}

static int convert_run(struct request *r)
{
    struct ckpt_source *s = &r->source;
    struct checkpoint *c = &s->checkpoint;
    mgpt_error err;
    int code = sandbox_enter(
        &(struct sandbox){.checkpoints = {s->path},
                          .files = {s->options.tokenizer, s->options.chars, r->text, r->imatrix},
                          .output = r->out,
                          .adapters = &s->lora});
    if (code != EXIT_OK)
        return code;
    if (source_read(s, &err) < 0)
        code = ckpt_is_asking(c, &err) ? open_questions(r, &err) : cli_fail(s->in, &err);
    else if (r->text)
        code = cli_fail(s->in, (err_set(&err, MGPT_EARG, MGPT_NO_OFFSET,
                                        "--text: nothing is open, the file tells all"),
                                &err));
    if (code == EXIT_OK)
        code = set_types(r);
    if (code == EXIT_OK)
        code = read_importance(r);
    if (code != EXIT_OK)
        return code;
    ckpt_note_elsewhere(c);
    if (r->dry_run && r->json)
        return convert_report(r, c);
    if (r->dry_run) {
        print_notes(r);
        ckpt_print_plan(c, r->type);
        return cli_finish(EXIT_OK);
    }
    if (write_out(r, &err) < 0)
        return cli_fail(c->failed.status < 0 ? s->in : r->out, &err);
    print_notes(r);
    return convert_report(r, c);
}

#define COMMAND_ROW(bit, id, kind, field, group, name, argument, least, most, help)                \
    {name, argument, CKPT_CLI_##kind, &o->field, least, most, help, group},

int cmd_convert(int argc, char **argv)
{
    struct request r = {.source.options = ckpt_no_options};
    struct ckpt_options *o = &r.source.options;
    const struct cli_option options[] = {
        {"--type", "TYPE", CLI_TEXT, &r.type_name, 0, 0,
         "element type of the matrices, or a mixture; default keep", IN_USED},
        {"--type-of", "PATTERN=TYPE", CLI_MANY, &r.types_of, 0, 0,
         "the type of tensors by name; may be repeated", IN_MODEL},
        {"--imatrix", "FILE", CLI_TEXT, &r.imatrix, 0, 0,
         "a file of mgpt imatrix: errors count by what columns multiply", IN_MODEL},
        {"--lora", "FILE[:SCALE]", CLI_MANY, &r.source.lora, 0, 0,
         "merge an adapter: PEFT directory or GGUF; may be repeated", IN_USED},
        {"--dry-run", NULL, CLI_FLAG, &r.dry_run, 0, 0, "print the plan, write nothing", IN_USED},
        {"--json", NULL, CLI_FLAG, &r.json, 0, 0, "say what was written as a JSON object", IN_USED},
        CKPT_OPTIONS(COMMAND_ROW){"--ask", NULL, CLI_FLAG, &r.ask, 0, 0,
                                  "ask on the terminal for what the file does not say", IN_USED},
        {"--text", "FILE", CLI_TEXT, &r.text, 0, 0,
         "compare the possible readings by their loss on it", IN_FACTS},
    };
    const struct cli_command command = {
        "convert", "IN [OUT]", "Convert a checkpoint to a GGUF file.",
        notes,     options,    CLI_N_OPTIONS(options),
        1,         2,          NULL,
        NULL};
    const char *operands[2] = {NULL, NULL};
    int n = cli_parse(&command, argc, argv, operands);
    if (n == -1) {
        printf("\ntypes of --type:\n  %s\n", writable_types().text);
        printf("mixtures of types:\n ");
        for (size_t i = 0; ckpt_mixture_at(i); i++)
            printf(" %s", ckpt_mixture_at(i)->name);
        puts("");
        ckpt_print_programs();
        ckpt_print_formats();
    }
    if (n < 0)
        return cli_parse_exit(n);
    r.source.path = operands[0];
    r.out = n > 1 ? operands[1] : NULL;
    int code = read_facts(&command, &r);
    if (code == EXIT_OK)
        code = choose_type(&command, &r);
    if (code == EXIT_OK)
        code = read_types_of(&command, &r);
    if (code == EXIT_OK)
        code = check_operands(&command, &r);
    if (code == EXIT_OK)
        code = convert_run(&r);
    source_close(&r.source);
    return code;
}
