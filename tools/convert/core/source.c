/* Opening checkpoints and their side files. See source.h. */
#include "convert/core/source.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "common/cli.h"
#include "common/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- side files ------------------------------------------------------------------------------ */

/* err gets the file's name, since the caller names the input. */
int source_open_side(struct ckpt_source *s, const char *path, struct span *bytes, mgpt_error *err)
{
    mgpt_error why;
    struct file file;
    if (!arr_reserve(s->side, arr_len(s->side) + 1))
        return err_memory(err, "side files", sizeof file);
    int status = files_open(&file, path, &why);
    if (status < 0)
        return err_set(err, status, MGPT_NO_OFFSET, "side file %s: %s", path, why.text);
    arr_put(s->side, file);
    *bytes = (struct span){file.data, file.size};
    return 1;
}

int source_find_in(struct ckpt_source *s, const char *path, size_t n, const char *name,
                   struct span *bytes, mgpt_error *err)
{
    struct stat st;
    char *file = malloc(n + strlen(name) + 2);
    if (!file)
        return err_memory(err, "a file name", n);
    sprintf(file, "%.*s%s%s", (int)n, path, n && path[n - 1] != '/' ? "/" : "", name);
    int found = stat(file, &st) == 0 ? source_open_side(s, file, bytes, err) : 0;
    free(file);
    return found;
}

static int find_side(void *user, enum ckpt_option option, const char *const *candidates,
                     size_t n_candidates, struct ckpt_side *side, mgpt_error *err)
{
    struct ckpt_source *s = user;
    const char *given = option == OPT_CHARS ? s->options.chars : NULL;
    if (option == OPT_TOKENIZER)
        given = s->options.tokenizer;
    if (given) {
        side->name = given;
        return source_open_side(s, given, &side->bytes, err);
    }
    const char *slash = strrchr(s->in, '/');
    size_t n_folder = slash ? (size_t)(slash - s->in) + 1 : 0;
    int found = 0;
    for (size_t i = 0; !found && i < n_candidates; i++) {
        side->name = candidates[i];
        found = source_find_in(s, s->in, n_folder, side->name, &side->bytes, err);
    }
    return found;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What is not UTF-8, or would move a cursor, becomes '_': names of files may be any bytes, texts in
 * GGUF may not. */
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

/* The name of the input without directory and extension. */
static char *stem(struct checkpoint *c, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strcmp(path, "-") == 0)
        name = "stdin";
    const char *dot = strrchr(name, '.');
    char *text = ckpt_copy(c, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
    make_printable(text);
    return text;
}

/* The name of the directory that the input is in, "" when it has none that says something. */
static const char *directory_name(struct checkpoint *c, const char *path)
{
    char cwd[4096];
    const char *end = strrchr(path, '/'), *start;
    while (end && end > path && end[-1] == '/')
        end--;
    if (!end || (end - path == 1 && path[0] == '.')) {
        if (!getcwd(cwd, sizeof cwd))
            return "";
        path = cwd;
        end = cwd + strlen(cwd);
    }
    for (start = end; start > path && start[-1] != '/';)
        start--;
    if (start == end || *start == '.')
        return "";
    char *text = ckpt_copy(c, start, (size_t)(end - start));
    make_printable(text);
    return text;
}

/* ---- the input ------------------------------------------------------------------------------- */

static struct span open_file(struct ckpt_source *s)
{
    struct checkpoint *c = &s->checkpoint;
    size_t n = 0;
    if (strcmp(s->in, "-") != 0) {
        ckpt_must(c, files_open_model(&s->file, s->in, c->err));
        return (struct span){s->file.data, s->file.size};
    }
    s->text = cli_read("-", &n, c->err);
    if (!s->text)
        ckpt_leave(c, c->err->status);
    return (struct span){(const uint8_t *)s->text, n};
}

static void read_source(void *arg)
{
    struct ckpt_source *s = arg;
    struct checkpoint *c = &s->checkpoint;
    s->inside = source_of_directory(c, s->path);
    s->in = s->inside ? s->inside : s->path;
    struct ckpt_input in = {
        .bytes = open_file(s), .options = &s->options, .side = find_side, .user = s};
    in.file = s->file.data ? &s->file : NULL;
    in.name = s->name = stem(c, s->in);
    in.directory = s->directory = directory_name(c, s->in);
    ckpt_must(c, ckpt_read(c, &in, c->err));
    source_apply_lora(s);
}

int source_read(struct ckpt_source *s, mgpt_error *err)
{
    ckpt_init(&s->checkpoint);
    s->in = s->path;
    return ckpt_run(&s->checkpoint, read_source, s, err);
}

void source_close(struct ckpt_source *s)
{
    ckpt_free(&s->checkpoint);
    for (size_t i = 0; i < arr_len(s->side); i++)
        file_close(&s->side[i]);
    arr_free(s->side);
    file_close(&s->file);
    free(s->text);
}
