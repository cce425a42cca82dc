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
    for (size_t i = 0; i < n_candidates; i++) {
        struct stat st;
        char *path = beside(s->in, candidates[i]);
        if (!path)
            return err_memory(err, "a file name", strlen(s->in));
        side->name = candidates[i];
        int found = stat(path, &st) == 0 ? source_open_side(s, path, &side->bytes, err) : 0;
        free(path);
        if (found)
            return found;
    }
    return 0;
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

/* The name of the directory that the input is in; malloc'ed, "" when it has none that says
 * something, NULL when out of memory. */
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

/* ---- the input ------------------------------------------------------------------------------- */

static int open_file(struct ckpt_source *s, struct span *bytes, mgpt_error *err)
{
    size_t n;
    if (strcmp(s->in, "-") == 0) {
        s->text = cli_read("-", &n, err);
        *bytes = (struct span){(const uint8_t *)s->text, s->text ? n : 0};
        return s->text ? MGPT_OK : err->status;
    }
    int status = files_open_model(&s->file, s->in, err);
    *bytes = (struct span){s->file.data, s->file.size};
    return status;
}

int source_read(struct ckpt_source *s, mgpt_error *err)
{
    struct ckpt_input in = {.options = &s->options, .side = find_side, .user = s};
    ckpt_init(&s->checkpoint);
    s->in = s->path;
    int status = source_of_directory(s->path, &s->inside, err);
    if (status == MGPT_OK && s->inside)
        s->in = s->inside;
    if (status == MGPT_OK)
        status = open_file(s, &in.bytes, err);
    if (status < 0)
        return status;
    in.file = s->file.data ? &s->file : NULL;
    in.name = s->name = stem(s->in);
    in.directory = s->directory = directory_name(s->in);
    if (!s->name || !s->directory)
        return err_memory(err, "the name of the model", strlen(s->in));
    status = ckpt_read(&s->checkpoint, &in, err);
    return status == MGPT_OK ? source_apply_lora(s, err) : status;
}

void source_close(struct ckpt_source *s)
{
    ckpt_free(&s->checkpoint);
    for (size_t i = 0; i < arr_len(s->side); i++)
        file_close(&s->side[i]);
    arr_free(s->side);
    file_close(&s->file);
    free(s->name);
    free(s->directory);
    free(s->text);
    free(s->inside);
}
