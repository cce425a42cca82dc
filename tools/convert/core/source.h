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

    const char *in;               /* the file that is read: path, or `inside` */
    const char *inside;           /* the model's file in a directory; NULL: path is a file */
    const char *name, *directory; /* the model's name, its directory's */
    char *text;                   /* stdin, malloc'ed */
    struct file file;
    struct file *side; /* stb_ds array: open until the end */
};

/* Opens the input and reads it. In both cases the caller closes s, and messages name s->in.
 * Errors: those of file_open and ckpt_read. */
int source_read(struct ckpt_source *s, mgpt_error *err);
void source_close(struct ckpt_source *s);

/* Applies the adapters to the checkpoint, which has been read (source_lora.c). Errors leave its run. */
void source_apply_lora(struct ckpt_source *s);

/* Opens a file that stays open until source_close: 1, or negative. source_find_in: `name` in the folder that
 * n bytes of `path` are; 0 if there is none. */
int source_open_side(struct ckpt_source *s, const char *path, struct span *bytes, mgpt_error *err);
int source_find_in(struct ckpt_source *s, const char *path, size_t n, const char *name,
                   struct span *bytes, mgpt_error *err);

/* The path of the model's file in a directory; NULL if path is not a directory. Errors leave the run: a
 * directory of a format that is not read, by its name; with more than one model; with none (directory.c). */
const char *source_of_directory(struct checkpoint *c, const char *path);

#endif
