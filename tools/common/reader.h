/* A file or stdin that is read piece by piece, so that memory does not grow with it. */
#ifndef MGPT_READER_H
#define MGPT_READER_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

struct text_reader {
    int fd;
    char *bytes; /* [n], malloc'ed: what is held; `from` of them are used */
    size_t from, n, cap;
    uint64_t n_used; /* bytes used since the beginning */
    uint64_t n_all;  /* bytes of a regular file; 0: not known */
    int is_end;      /* no more can be read */
};

/* "-" is stdin. Returns a status. */
int reader_open(struct text_reader *r, const char *path, mgpt_error *err);
void reader_close(struct text_reader *r);

/* Holds at least `want` bytes that are not used, or all that are left. MGPT_ESTOP after Ctrl-C. Returns a status. */
int reader_hold(struct text_reader *r, size_t want, mgpt_error *err);

/* 1: a line, or the end, can be had without waiting for whoever writes a pipe. */
int reader_ready(const struct text_reader *r);

/* The bytes that are not used yet, and their number. */
const char *reader_bytes(const struct text_reader *r, size_t *n);

/* Uses the next n of them. */
void reader_use(struct text_reader *r, size_t n);

/* The next line without its end: 1, 0 at the end, or a status; MGPT_EFULL for a line of more than `most`
 * bytes. *line is valid until the next call. */
int reader_line(struct text_reader *r, size_t most, const char **line, size_t *n, mgpt_error *err);

#endif
