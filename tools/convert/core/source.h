/* A checkpoint as the user names it: a file, a Hugging Face directory or stdin, with its side
 * files.
 *
 *     struct ckpt_source s = {.path = path, .options = ...};
 *     if (source_read(&s, &err) == MGPT_OK)
 *         ... ckpt_write(&s.checkpoint, ...) ...
 *     source_close(&s);
 */
#ifndef MGPT_CONVERT_SOURCE_H
#define MGPT_CONVERT_SOURCE_H

#include "base/file.h"
#include "common/cli.h"
#include "convert/core/readers.h"

struct ckpt_source {
    const char *path;             /* as the user wrote it; "-": stdin */
    struct cli_many lora;         /* --lora: adapters, applied in order */
    struct ckpt_options options;  /* without --tokenizer or --chars: files next to the input */
    struct checkpoint checkpoint; /* valid after source_read returned MGPT_OK */

    const char *in;         /* the file that is read: path, or config.json inside it */
    char *inside, *text;    /* malloc'ed: `in` of a directory; stdin */
    char *name, *directory; /* malloc'ed: the model's name, its directory's */
    struct file file;
    struct file *side; /* stb_ds array: open until the end */
};

/* Opens the input and reads it. In both cases the caller closes s, and messages name s->in.
 * Errors: those of file_open and ckpt_read. */
int source_read(struct ckpt_source *s, mgpt_error *err);
void source_close(struct ckpt_source *s);

/* Applies the adapters to the checkpoint, which has been read (source_lora.c). */
int source_apply_lora(struct ckpt_source *s, mgpt_error *err);

/* Opens a file that stays open until source_close. */
int source_open_side(struct ckpt_source *s, const char *path, struct span *bytes, mgpt_error *err);

/* The path of the model's file in a directory, malloc'ed; NULL if path is not a directory. Errors: a
 * directory of a format that is not read, by its name; with more than one model; with none (directory.c). */
int source_of_directory(const char *path, char **to, mgpt_error *err);

#endif
