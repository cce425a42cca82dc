/* Landlock by system calls: libc has no functions for them. See sandbox.h, landlock(7). */
#define _GNU_SOURCE /* O_PATH, syscall */
#include "common/sandbox.h"

#include "base/error.h"
#include "common/adapter_spec.h"

#if defined __linux__ && !defined MGPT_NO_SANDBOX
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's numbers, equal on all architectures. <linux/landlock.h> may be older than the
 * kernel. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, VERSION = 1, PATH_BENEATH = 1 };
enum {
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_FILE = 1 << 5,
    MAKE_REG = 1 << 8,
    TRUNCATE = 1 << 14
};

struct ruleset {
    uint64_t fs, net, scoped;
};

struct __attribute__((packed)) beneath {
    uint64_t allowed;
    int32_t parent;
};

struct rules {
    int fd;
    uint64_t handled; /* rights of files that this kernel knows */
    int code;         /* EXIT_OK, or that of the first failure, which has been printed */
};

static int landlock_version(void)
{
    return (int)syscall(CREATE_RULESET, NULL, 0, VERSION);
}

/* All rights of this version: 13 on files at first, then moving between folders, truncating,
 * ioctl. */
static struct ruleset all_of(int abi)
{
    static const int n_rights[] = {0, 13, 14, 15, 15, 16};
    int known = abi < 5 ? abi : 5;
    return (struct ruleset){.fs = (UINT64_C(1) << n_rights[known]) - 1,
                            .net = abi >= 4 ? 3 : 0,
                            .scoped = abi >= 6 ? 3 : 0};
}

/* After a failed call on a path, NULL: of an allocation. A lack of memory or of descriptors is an
 * error here: without its rule the path would later be called forbidden. Everything else, such as
 * a missing file, is reported by the reader. */
static void note_lack(struct rules *r, const char *path)
{
    mgpt_error err;
    if (r->code != EXIT_OK || (errno != ENOMEM && errno != EMFILE && errno != ENFILE))
        return;
    err_system(&err, "open", MGPT_NO_OFFSET);
    r->code = cli_fail(path, &err);
}

static void allow_path(struct rules *r, const char *path, uint64_t rights)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    struct beneath rule = {rights & r->handled, fd};
    if (fd < 0) {
        note_lack(r, path);
        return;
    }
    if (syscall(ADD_RULE, r->fd, PATH_BENEATH, &rule, 0) < 0)
        note_lack(r, path);
    close(fd);
}

/* The names in a folder; NULL: there is none. */
static DIR *open_folder(struct rules *r, const char *folder)
{
    DIR *dir = folder ? opendir(folder) : NULL;
    if (!dir)
        note_lack(r, folder);
    return dir;
}

/* Allows each regular file in a folder, not its subfolders; links are followed. */
static void allow_files_in(struct rules *r, const char *folder)
{
    DIR *dir = open_folder(r, folder);
    size_t n = folder ? strlen(folder) : 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        size_t n_name = strlen(entry->d_name) + 1;
        char *path = malloc(n + 1 + n_name);
        if (path) {
            memcpy(path, folder, n);
            path[n] = '/';
            memcpy(path + n + 1, entry->d_name, n_name);
            if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
                allow_path(r, path, READ_FILE);
        } else {
            note_lack(r, folder);
        }
        free(path);
    }
    if (dir)
        closedir(dir);
}

/* The folder of a file, with `more` after it; malloc'ed. */
static char *folder_of(const char *path, const char *more)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 2, n_more = strlen(more) + 1;
    char *folder = malloc(n + n_more);
    if (folder) {
        memcpy(folder, slash ? path : "./", n);
        memcpy(folder + n, more, n_more);
    }
    return folder;
}

/* nanoGPT's characters: ../data/DATASET/meta.pkl; the checkpoint names the data set. */
static void allow_data_sets(struct rules *r, const char *path)
{
    char *data = folder_of(path, "../data"), file[4096];
    DIR *dir = open_folder(r, data);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int n = snprintf(file, sizeof file, "%s/%s/meta.pkl", data, entry->d_name);
        if (n > 0 && (size_t)n < sizeof file)
            allow_path(r, file, READ_FILE);
    }
    if (dir)
        closedir(dir);
    free(data);
}

static void allow_checkpoint(struct rules *r, const char *path)
{
    /* Where the readers look: nanochat stores its tokenizer in another folder. */
    static const char *const places[] = {"", "tokenizer", "../tokenizer", "../../tokenizer"};
    struct stat st;
    int is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    size_t n = strlen(path) + sizeof "/.";
    char *file = malloc(n);                                /* a file in the checkpoint's folder */
    allow_path(r, path, is_folder ? READ_DIR : READ_FILE); /* names only: to find the model */
    if (!file) {
        note_lack(r, path);
        return;
    }
    snprintf(file, n, "%s%s", path, is_folder ? "/." : "");
    allow_data_sets(r, file);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *folder = folder_of(file, places[i]);
        allow_files_in(r, folder);
        free(folder);
    }
    free(file);
}

/* A file is replaced through a temporary one in its folder; a device or FIFO is written in
 * place. */
static void allow_output(struct rules *r, const char *path)
{
    char *real = realpath(path, NULL);
    if (!real)
        note_lack(r, path);
    struct stat st;
    if (real && stat(real, &st) == 0) {
        allow_path(r, real, READ_FILE | WRITE_FILE);
        mode_t mask = umask(0);
        umask(mask & ~st.st_mode); /* the mode is given when the new file is made: no chmod here */
    }
    char *folder = folder_of(real ? real : path, "");
    if (!folder)
        note_lack(r, path);
    else
        allow_path(r, folder, WRITE_FILE | READ_DIR | REMOVE_FILE | MAKE_REG | TRUNCATE);
    free(folder);
    free(real);
}

static void allow_adapter(struct rules *r, const char *text)
{
    struct adapter_spec spec;
    mgpt_error err;
    if (adapter_spec_read(text, &spec, &err) == MGPT_OK)
        allow_checkpoint(r, spec.path);
    else if (err.status == MGPT_EMEM)
        r->code = cli_fail(NULL, &err); /* another error is reported by the reader */
    free(spec.path);
}

static int is_path(const char *path)
{
    return path && strcmp(path, "-") != 0;
}

int sandbox_works(void)
{
    int abi = landlock_version();
    return abi > 0 ? abi : 0;
}

/* What base/cores_posix.c and sysconf read. */
static const char *const about_cores[] = {"/sys/devices/system/cpu", "/sys/devices/cpu_core",
                                          "/sys/fs/cgroup", "/proc/self/cgroup"};

static void allow_all(struct rules *r, const struct sandbox *s)
{
    for (size_t i = 0; i < sizeof s->checkpoints / sizeof *s->checkpoints; i++)
        if (is_path(s->checkpoints[i]))
            allow_checkpoint(r, s->checkpoints[i]);
    for (size_t i = 0; i < s->n_models; i++)
        allow_checkpoint(r, s->models[i]);
    for (size_t i = 0; i < sizeof s->files / sizeof *s->files; i++)
        if (is_path(s->files[i]))
            allow_path(r, s->files[i], READ_FILE);
    for (size_t i = 0; s->adapters && i < s->adapters->n; i++)
        allow_adapter(r, s->adapters->values[i]);
    if (is_path(s->output))
        allow_output(r, s->output);
    for (size_t i = 0; i < sizeof about_cores / sizeof *about_cores; i++)
        allow_path(r, about_cores[i], READ_FILE);
#if SANDBOX_LOOKS_FOR_LEAKS
    allow_path(r, "/proc/self", READ_FILE | READ_DIR); /* the leak check reads maps there */
#endif
}

/* Landlock. Returns an exit code. */
static int restrict_files(const struct sandbox *s)
{
    int abi = landlock_version();
    if (abi < 1)
        return EXIT_OK;
    const struct ruleset all = all_of(abi);
    struct rules r = {(int)syscall(CREATE_RULESET, &all, sizeof all, 0), all.fs, EXIT_OK};
    if (r.fd < 0) {
        note_lack(&r, NULL);
        return r.code;
    }
    allow_all(&r, s);
    if (r.code == EXIT_OK)
        syscall(RESTRICT_SELF, r.fd, 0);
    close(r.fd);
    return r.code;
}

int sandbox_enter(const struct sandbox *s)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return EXIT_OK;
    int code = restrict_files(s);
    sandbox_refuse_calls();
    return code;
}
#else
int sandbox_works(void)
{
    return 0;
}

int sandbox_enter(const struct sandbox *s)
{
    (void)s;
    return EXIT_OK;
}
#endif
