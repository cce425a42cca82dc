/* Removing what killed processes have left. See outfile_left.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* flock, O_NOFOLLOW */
#endif
#include "base/outfile_left.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEM_MOST = 200, N_LETTERS = 6 };

size_t outfile_stem(const char *name)
{
    size_t n = strlen(name);
    return n < STEM_MOST ? n : STEM_MOST;
}

int outfile_lock(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/* 1: .NAME.XXXXXX.tmp of this target's name. */
static int is_temporary_of(const char *entry, const char *name, size_t n_stem)
{
    if (*entry != '.' || strncmp(entry + 1, name, n_stem) != 0 || entry[1 + n_stem] != '.')
        return 0;
    const char *letters = entry + 1 + n_stem + 1;
    return strspn(letters, "abcdefghijklmnopqrstuvwxyz012345") == N_LETTERS &&
           strcmp(letters + N_LETTERS, ".tmp") == 0;
}

/* Removes a temporary file if no process has locked it. Opening it for writing is what the sandbox of the
 * tools allows; one that may not be written is opened for reading. */
static void remove_unlocked(int folder, const char *entry)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    struct stat st;
    int fd = openat(folder, entry, O_WRONLY | flags);
    if (fd < 0)
        fd = openat(folder, entry, O_RDONLY | flags);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, entry, 0);
    close(fd);
}

void outfile_remove_left(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n_stem = outfile_stem(name);
    char *folder = slash ? strndup(path, (size_t)(name - path)) : strdup(".");
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_temporary_of(entry->d_name, name, n_stem))
            remove_unlocked(dirfd(dir), entry->d_name);
    if (dir)
        closedir(dir);
    free(folder);
}
