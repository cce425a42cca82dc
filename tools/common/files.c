/* Registry of inputs, and checks of outputs. See files.h. The registry is global because a
 * signal handler reads it. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* SA_SIGINFO, BUS_ADRERR */
#endif
#include "common/files.h"

#include "base/error.h"
#include "common/cli.h"
#include "gguf/gguf.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, HEAD_BYTES = 1 << 18, END_BYTES = 64 };

static struct {
    struct seen_file {
        dev_t device;
        ino_t inode;
        off_t size;
        char path[PATH_BYTES]; /* the end of the path */
    } inputs[FILES_MOST];
    volatile sig_atomic_t n;
} seen;

/* ---- what was read --------------------------------------------------------------------------- */

static const struct seen_file *find_input(const struct stat *st)
{
    for (int i = 0; i < seen.n; i++)
        if (seen.inputs[i].device == st->st_dev && seen.inputs[i].inode == st->st_ino)
            return &seen.inputs[i];
    return NULL;
}

static int add_input(const struct stat *st, const char *path, mgpt_error *err)
{
    if (!S_ISREG(st->st_mode) || find_input(st))
        return MGPT_OK;
    if (seen.n == FILES_MOST)
        return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "more than %d input files", FILES_MOST);
    struct seen_file *input = &seen.inputs[seen.n];
    size_t n = strlen(path), from = n < PATH_BYTES ? 0 : n - PATH_BYTES + 1;
    *input = (struct seen_file){.device = st->st_dev, .inode = st->st_ino, .size = st->st_size};
    memcpy(input->path, path + from, n - from);
    seen.n++;
    return MGPT_OK;
}

int files_note(const char *path, mgpt_error *err)
{
    struct stat st;
    return stat(path, &st) < 0 ? MGPT_OK
                               : add_input(&st, path, err); /* opening it reports the error */
}

int files_note_stream(int fd, const char *path, mgpt_error *err)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? MGPT_OK : add_input(&st, path, err);
}

int files_open_partly(struct file *file, const char *path, size_t n, mgpt_error *err)
{
    *file = (struct file){0};
    int status = files_note(path, err);
    return status < 0 ? status : file_open_partly(file, path, n, err);
}

int files_note_model(const char *path, mgpt_error *err)
{
    size_t n = gguf_named_parts(path);
    int status = files_note(path, err);
    for (size_t i = 0; status == MGPT_OK && n > 1 && i < n; i++) {
        char *part = gguf_part_path(path, i);
        status = part ? files_note(part, err) : err_memory(err, "a file name", strlen(path));
        free(part);
    }
    return status;
}

int files_open_model(struct file *file, const char *path, mgpt_error *err)
{
    *file = (struct file){0};
    int status = files_note_model(path, err);
    return status < 0 ? status : gguf_open_file(file, path, SIZE_MAX, err);
}

int files_open(struct file *file, const char *path, mgpt_error *err)
{
    *file = (struct file){0};
    int status = files_note(path, err);
    return status < 0 ? status : file_open(file, path, err);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

struct file_head {
    const char *p;
    size_t n;
    const char *end; /* the last n_end bytes */
    size_t n_end;
};

static int begins(struct file_head h, const char *with)
{
    size_t n = strlen(with);
    return h.n >= n && memcmp(h.p, with, n) == 0;
}

static int contains_text(struct file_head h, const char *text, size_t most)
{
    size_t n = strlen(text), end = h.n < most ? h.n : most;
    for (size_t i = 0; i + n <= end; i++)
        if (memcmp(h.p + i, text, n) == 0)
            return 1;
    return 0;
}

static int is_gguf(struct file_head h)
{
    return begins(h, "GGUF");
}

/* An archive with our comment at its end. */
static int is_npz(struct file_head h)
{
    size_t n = sizeof FILES_NPZ_COMMENT - 1;
    return begins(h, "PK\3\4") && h.n_end >= n + 2 &&
           memcmp(h.end + h.n_end - n, FILES_NPZ_COMMENT, n) == 0 &&
           h.end[h.n_end - n - 2] == (char)n;
}

static int is_safetensors(struct file_head h)
{
    static const char mark[] = "{\"__metadata__\":{\"" FILES_WRITTEN_BY "\":\"" FILES_WRITER "\"";
    return h.n > 8 && begins((struct file_head){.p = h.p + 8, .n = h.n - 8}, mark);
}

static int is_page(struct file_head h)
{
    return begins(h, "<!DOCTYPE html>") &&
           contains_text(h, "<h1>mgpt <span>lab</span></h1>", HEAD_BYTES);
}

static int is_patch_page(struct file_head h)
{
    return begins(h, FILES_PATCH_LINE);
}

/* JSON with this format near its beginning. */
static int is_json_of(struct file_head h, const char *format)
{
    size_t blank = 0;
    while (blank < h.n && strchr(" \t\r\n", h.p[blank]) && h.p[blank])
        blank++;
    return blank < h.n && h.p[blank] == '{' && contains_text(h, format, 256);
}

static int is_session(struct file_head h)
{
    return is_json_of(h, "\"mgpt session\"");
}

static int is_attest(struct file_head h)
{
    return is_json_of(h, "\"mgpt attest\"");
}

static int is_report(struct file_head h)
{
    return begins(h, "# mgpt check: ") || begins(h, FILES_REPORT_LINE);
}

static int is_state(struct file_head h)
{
    return begins(h, "mgptsess");
}

static int is_history(struct file_head h)
{
    return begins(h, FILES_HISTORY_LINE "\n");
}

static int is_table(struct file_head h)
{
    return begins(h, FILES_TABLE_LINE "\n");
}

static const struct {
    const char *name;
    int (*is)(struct file_head h);
} kinds[] = {
    [FILES_GGUF] = {"a GGUF file", is_gguf},
    [FILES_NPZ] = {"a trace in .npz that mgpt wrote", is_npz},
    [FILES_SAFETENSORS] = {"a trace in .safetensors that mgpt wrote", is_safetensors},
    [FILES_PAGE] = {"a page of mgpt lab", is_page},
    [FILES_PATCH] = {"a page of mgpt patch", is_patch_page},
    [FILES_TABLE] = {"a table of the repl (first line '" FILES_TABLE_LINE "')", is_table},
    [FILES_SESSION] = {"a session file", is_session},
    [FILES_STATE] = {"a session of mgpt generate", is_state},
    [FILES_ATTEST] = {"a record of check --attest", is_attest},
    [FILES_REPORT] = {"a page of check --report", is_report},
    [FILES_HISTORY] = {"a history file (first line '" FILES_HISTORY_LINE "')", is_history},
};

/* 1: the name says that the file is a model. */
static int is_named_gguf(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".gguf") == 0;
}

/* Is the open file of this kind? Reads its beginning and its end. */
static int is_of_kind(const struct file *file, enum files_kind kind)
{
    char end[END_BYTES];
    size_t n = file->size < HEAD_BYTES ? file->size : HEAD_BYTES;
    size_t n_end = file->size < END_BYTES ? file->size : END_BYTES;
    if (!file->partly)
        memcpy(end, file->data + file->size - n_end, n_end);
    else if (file_read(file, file->size - n_end, n_end, end, NULL) < 0)
        n_end = 0;
    return kinds[kind].is((struct file_head){(const char *)file->data, n, end, n_end});
}

static int check_kind(const char *path, enum files_kind kind, mgpt_error *err)
{
    struct file file;
    if (file_open_partly(&file, path, HEAD_BYTES, err) < 0)
        return err->status;
    int is = is_of_kind(&file, kind);
    file_close(&file);
    return is ? MGPT_OK
              : err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                        "exists and is not %s: give another name, or remove it first",
                        kinds[kind].name);
}

/* ---- writing --------------------------------------------------------------------------------- */

int files_may_write(const char *path, enum files_kind kind, mgpt_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return MGPT_OK; /* outfile.c reports the error */
    const struct seen_file *input = find_input(&st);
    if (input)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "is an input of this command (%s): give another name", input->path);
    int is_free = st.st_size == 0 || (kind == FILES_GGUF && is_named_gguf(path));
    return is_free ? MGPT_OK : check_kind(path, kind, err);
}

int files_create(struct outfile *out, const char *path, enum files_kind kind, mgpt_error *err)
{
    *out = (struct outfile){.fd = -1};
    int status = files_may_write(path, kind, err);
    return status < 0 ? status : outfile_open(out, path, err);
}

/* ---- truncation ------------------------------------------------------------------------------ */

#ifdef SIGBUS
static void say_stderr(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

/* Uses async-signal-safe functions only. */
static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    struct stat st;
    (void)context;
    for (int i = 0; info->si_code == BUS_ADRERR && i < seen.n; i++) {
        const struct seen_file *input = &seen.inputs[i];
        if (stat(input->path, &st) < 0 || st.st_ino != input->inode || st.st_size >= input->size)
            continue;
        say_stderr("mgpt: ");
        say_stderr(input->path);
        say_stderr(": became shorter while it was read\n");
        _exit(EXIT_IO);
    }
    signal(signal_number, SIG_DFL); /* the instruction faults again and ends the process */
}

void files_catch_truncation(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
#else
/* Windows lets nobody shorten a file that is mapped. */
void files_catch_truncation(void)
{
}
#endif
