/* The files of a command: what it has read is never written over, and what it writes replaces only a file
 * of the same kind.
 *
 * Files are told apart by device and inode, so hard links and symbolic links are seen through. All inputs
 * go through here (tests/shape/folders.sh), except session and history files: reading one and writing it again is
 * their use, and their kind is checked.
 */
#ifndef MGPT_FILES_H
#define MGPT_FILES_H

#include "base/file.h"
#include "base/outfile.h"

/* Bounds the registry; a checkpoint of more files is refused. */
enum { FILES_MOST = 1024 };

enum files_kind {
    FILES_GGUF,
    FILES_NPZ,         /* traces of ours, */
    FILES_SAFETENSORS, /* and these */
    FILES_PAGE,        /* of mgpt lab */
    FILES_TABLE,       /* numbers that the repl's views write with -o */
    FILES_SESSION,     /* of the repl */
    FILES_HISTORY      /* of the repl */
};

/* The first line of a history file. */
#define FILES_HISTORY_LINE "# mgpt history"

/* file_open and file_open_partly of an input. */
int files_open(struct file *file, const char *path, mgpt_error *err);
int files_open_partly(struct file *file, const char *path, size_t n, mgpt_error *err);

/* Something else is about to read it: the library, or a stream that has the descriptor fd. */
int files_note(const char *path, mgpt_error *err);
int files_note_stream(int fd, const char *path, mgpt_error *err);

/* MGPT_OK when path may be written: it does not exist, is empty, is no regular file, or is of this kind
 * and not an input. MGPT_EARG: an input; MGPT_EFILE: of another kind. */
int files_may_write(const char *path, enum files_kind kind, mgpt_error *err);

/* outfile_open of a file that may be written. */
int files_create(struct outfile *out, const char *path, enum files_kind kind, mgpt_error *err);

/* From now on an input that others make shorter while it is mapped ends the process with a line and exit
 * code 5, instead of SIGBUS. */
void files_catch_truncation(void);

#endif
