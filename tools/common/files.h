/* The files of a command. A file that was read is never overwritten, and an output replaces only a
 * file of the same kind.
 *
 * Files are compared by device and inode, so hard and symbolic links to one file are equal. All
 * inputs are opened here (tests/shape/folders.sh), except session and history files: they are read
 * and written again, and their kind is checked.
 */
#ifndef MGPT_FILES_H
#define MGPT_FILES_H

#include "base/file.h"
#include "base/outfile.h"

/* Size of the registry; a checkpoint of more files is refused. */
enum { FILES_MOST = 1024 };

enum files_kind {
    FILES_GGUF,
    FILES_NPZ,         /* traces and results of patch */
    FILES_SAFETENSORS, /* traces */
    FILES_PAGE,        /* a page of mgpt lab */
    FILES_PATCH,       /* a page of mgpt patch */
    FILES_TABLE,       /* numbers that the repl's views write with -o */
    FILES_SESSION,     /* a session of the repl */
    FILES_STATE,       /* a session of generate --session */
    FILES_ATTEST,      /* the record of check --attest */
    FILES_REPORT,      /* the page of check --report */
    FILES_HISTORY      /* lines typed in the repl */
};

/* Marks that mgpt's files carry, so that no other program's file is taken for one of them: the
 * comment of an archive, the first entry of a safetensors header, the first line of a table. */
#define FILES_NPZ_COMMENT "written by mgpt"
#define FILES_WRITTEN_BY "written_by"
#define FILES_WRITER "mgpt"
#define FILES_TABLE_LINE "# mgpt table"

/* The first line of a history file. */
#define FILES_HISTORY_LINE "# mgpt history"

/* The first line of a page of check --report in HTML. */
#define FILES_REPORT_LINE "<!DOCTYPE html><!-- mgpt check -->\n"

/* The first line of a page of mgpt patch. */
#define FILES_PATCH_LINE "<!DOCTYPE html><!-- mgpt patch -->\n"

/* file_open and file_open_partly of an input. */
int files_open(struct file *file, const char *path, mgpt_error *err);
int files_open_partly(struct file *file, const char *path, size_t n, mgpt_error *err);

/* gguf_open_file of an input, loaded whole: a GGUF file with all its parts. */
int files_open_model(struct file *file, const char *path, mgpt_error *err);

/* Registers an input that is opened elsewhere: by the library, or as a stream with descriptor
 * fd. */
int files_note(const char *path, mgpt_error *err);
int files_note_model(const char *path, mgpt_error *err); /* with all parts of a split file */
int files_note_stream(int fd, const char *path, mgpt_error *err);

/* MGPT_OK if path may be written: it does not exist, is empty, is not a regular file, or is of
 * this kind and not an input. MGPT_EARG: an input; MGPT_EFILE: another kind. */
int files_may_write(const char *path, enum files_kind kind, mgpt_error *err);

/* outfile_open after files_may_write. */
int files_create(struct outfile *out, const char *path, enum files_kind kind, mgpt_error *err);

/* From now on, an input that becomes shorter while it is mapped ends the process with an error
 * and exit code 5 instead of SIGBUS. */
void files_catch_truncation(void);

#endif
