/* Converting a model in memory. See in_memory.h. */
#include "convert/core/in_memory.h"

#include "base/mem.h"
#include "common/cli.h"
#include "common/progress.h"
#include "convert/core/questions.h"
#include "convert/core/source.h"
#include "convert/core/write.h"

#include <stdio.h>
#include <string.h>

/* ---- the command that keeps the result ------------------------------------------------------- */

/* Text that is put together; what does not fit is left out. */
struct line_text {
    char text[400];
    size_t n;
};

static void line_put(struct line_text *c, const char *text, size_t n)
{
    if (n < sizeof c->text - c->n) {
        memcpy(c->text + c->n, text, n);
        c->n += n;
        c->text[c->n] = 0;
    }
}

/* A word for the shell: in quotes where it needs them. */
static void line_put_word(struct line_text *c, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+,:@%-";
    line_put(c, " ", 1);
    if (*word && strspn(word, plain) == strlen(word)) {
        line_put(c, word, strlen(word));
        return;
    }
    line_put(c, "'", 1);
    for (; *word; word++)
        line_put(c, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    line_put(c, "'", 1);
}

static void put_command(struct line_text *c, const struct ckpt_source *s)
{
    char out[300];
    const char *name = s->inside && *s->directory ? s->directory : s->name;
    snprintf(out, sizeof out, "%.250s%s.gguf", name, s->lora.n ? "-merged" : "");
    *c = (struct line_text){0};
    line_put(c, "mgpt convert", strlen("mgpt convert"));
    line_put_word(c, s->path);
    line_put_word(c, out);
    for (size_t i = 0; i < s->lora.n; i++) {
        line_put(c, " --lora", strlen(" --lora"));
        line_put_word(c, s->lora.values[i]);
    }
}

/* The options of mgpt convert that the error names, appended to the command; how many. */
static int put_options(struct line_text *c, const char *error)
{
    int n = 0;
    for (const char *at = error; (at = strstr(at, "--"));) {
        size_t length = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-") + 2;
        for (size_t i = 0; i < ckpt_n_option_rows; i++) {
            const struct ckpt_option_row *o = &ckpt_option_rows[i];
            if (strlen(o->name) != length || memcmp(at, o->name, length) != 0)
                continue;
            line_put(c, " ", 1);
            line_put(c, o->name, length);
            if (o->argument) {
                line_put(c, " ", 1);
                line_put(c, o->argument, strlen(o->argument));
            }
            n++;
        }
        at += length;
    }
    return n;
}

/* ---- conversion ------------------------------------------------------------------------------ */

static int in_memory_refuse(const struct ckpt_source *s, const mgpt_error *err)
{
    struct line_text command;
    int code = cli_fail(s->in, err);
    if (!s->checkpoint.format || !s->name || !s->directory)
        return code;
    put_command(&command, s);
    if (ckpt_is_asking(&s->checkpoint, err)) {
        unsigned heads = 1U << FACT_HEADS, open = s->checkpoint.open;
        ckpt_print_questions(&s->checkpoint);
        cli_note("options belong to the conversion: %s%s%s", command.text,
                 open & heads ? " --heads N" : "", open & ~heads ? " --assume PROGRAM" : "");
    } else if (put_options(&command, err->text) > 0)
        cli_note("options belong to the conversion: %s", command.text);
    return code;
}

/* One line, and all that was inferred or assumed. */
static void in_memory_report(const struct ckpt_source *s)
{
    const struct checkpoint *c = &s->checkpoint;
    struct line_text command;
    put_command(&command, s);
    cli_info("%s: %s, converted in memory (%s keeps the result)", s->path, c->format, command.text);
    for (size_t i = 0; i < arr_len(c->notes); i++)
        cli_info("%s", c->notes[i]);
}

static int convert(struct ckpt_source *s, int vocab_only, struct ckpt_memory *memory,
                   mgpt_error *err)
{
    struct progress progress;
    int status = source_read(s, err);
    if (status < 0)
        return status;
    if (vocab_only && s->checkpoint.tensors)
        arr_set_len(s->checkpoint.tensors, 0);
    progress_begin(&progress);
    s->checkpoint.progress = progress_show;
    s->checkpoint.progress_user = &progress;
    status = ckpt_write_memory(&s->checkpoint, NULL, memory, err);
    progress_end(&progress);
    return status;
}

int in_memory_convert(const char *path, const struct cli_many *lora, int vocab_only, void **bytes,
                      size_t *n_bytes)
{
    struct ckpt_source source = {.path = path, .lora = *lora, .options = ckpt_no_options};
    struct ckpt_memory memory = {0};
    mgpt_error err;
    int status = convert(&source, vocab_only, &memory, &err), code = EXIT_OK;
    if (status < 0)
        code = in_memory_refuse(&source, &err);
    else
        in_memory_report(&source);
    source_close(&source);
    *bytes = memory.bytes;
    *n_bytes = memory.size;
    return code;
}
