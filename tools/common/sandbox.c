/* Landlock by system calls: libc has no functions for them. See sandbox.h, landlock(7). */
#define _GNU_SOURCE /* O_PATH, syscall */
#include "common/sandbox.h"

#include "common/adapter_spec.h"

#include <jansson.h>

#if defined __linux__ && !defined MGPT_NO_SANDBOX
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* AddressSanitizer, for gcc and for clang. */
#ifdef __SANITIZE_ADDRESS__
#define LOOKS_FOR_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOOKS_FOR_LEAKS 1
#endif
#endif
#ifndef LOOKS_FOR_LEAKS
#define LOOKS_FOR_LEAKS 0
#endif

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

/* A path that cannot be opened is skipped: reading it reports the error. */
static void allow_path(const struct rules *r, const char *path, uint64_t rights)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    struct beneath rule = {rights & r->handled, fd};
    if (fd < 0)
        return;
    syscall(ADD_RULE, r->fd, PATH_BENEATH, &rule, 0);
    close(fd);
}

/* Allows each regular file in a folder, not its subfolders; links are followed. */
static void allow_files_in(const struct rules *r, const char *folder)
{
    DIR *dir = opendir(folder);
    size_t n = strlen(folder);
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
static void allow_data_sets(const struct rules *r, const char *path)
{
    char *data = folder_of(path, "../data"), file[4096];
    DIR *dir = data ? opendir(data) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int n = snprintf(file, sizeof file, "%s/%s/meta.pkl", data, entry->d_name);
        if (n > 0 && (size_t)n < sizeof file)
            allow_path(r, file, READ_FILE);
    }
    if (dir)
        closedir(dir);
    free(data);
}

static void allow_checkpoint(const struct rules *r, const char *path)
{
    /* Where the readers look: nanochat stores its tokenizer in another folder. */
    static const char *const places[] = {"", "tokenizer", "../tokenizer", "../../tokenizer"};
    struct stat st;
    int is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    size_t n = strlen(path) + sizeof "/.";
    char *file = malloc(n);                                /* a file in the checkpoint's folder */
    allow_path(r, path, is_folder ? READ_DIR : READ_FILE); /* names only: to find the model */
    if (!file)
        return;
    snprintf(file, n, "%s%s", path, is_folder ? "/." : "");
    allow_data_sets(r, file);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *folder = folder_of(file, places[i]);
        if (folder)
            allow_files_in(r, folder);
        free(folder);
    }
    free(file);
}

/* A file is replaced through a temporary one in its folder; a device or FIFO is written in
 * place. */
static void allow_output(const struct rules *r, const char *path)
{
    char *real = realpath(path, NULL);
    char *folder = folder_of(real ? real : path, "");
    if (real)
        allow_path(r, real, READ_FILE | WRITE_FILE);
    if (folder)
        allow_path(r, folder, WRITE_FILE | READ_DIR | REMOVE_FILE | MAKE_REG | TRUNCATE);
    free(folder);
    free(real);
}

static void allow_adapter(const struct rules *r, const char *text)
{
    struct adapter_spec spec;
    if (adapter_spec_read(text, &spec, NULL) == MGPT_OK)
        allow_checkpoint(r, spec.path);
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

void sandbox_enter(const struct sandbox *s)
{
    int abi = landlock_version();
    if (abi < 1)
        return;
    const struct ruleset all = all_of(abi);
    struct rules r = {(int)syscall(CREATE_RULESET, &all, sizeof all, 0), all.fs};
    if (r.fd < 0)
        return;
    json_object_seed(0); /* from /dev/urandom, which is still readable */
    for (size_t i = 0; i < 2; i++) {
        if (is_path(s->checkpoints[i]))
            allow_checkpoint(&r, s->checkpoints[i]);
        if (is_path(s->files[i]))
            allow_path(&r, s->files[i], READ_FILE);
    }
    for (size_t i = 0; s->adapters && i < s->adapters->n; i++)
        allow_adapter(&r, s->adapters->values[i]);
    if (is_path(s->output))
        allow_output(&r, s->output);
    allow_path(&r, "/sys/devices/system/cpu/online", READ_FILE); /* sysconf */
#if LOOKS_FOR_LEAKS
    allow_path(&r, "/proc/self", READ_FILE | READ_DIR); /* the leak check reads maps there */
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        syscall(RESTRICT_SELF, r.fd, 0);
    close(r.fd);
}
#else
int sandbox_works(void)
{
    return 0;
}

void sandbox_enter(const struct sandbox *s)
{
    (void)s;
}
#endif
