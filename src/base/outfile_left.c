/* Removing what killed processes have left. See outfile_left.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* flock, O_NOFOLLOW */
#endif
#include "base/outfile_left.h"

#include "base/outfile_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int outfile_lock(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
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
    char *folder = slash ? strndup(path, (size_t)(name - path)) : strdup(".");
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (outfile_is_temporary(entry->d_name, name))
            remove_unlocked(dirfd(dir), entry->d_name);
    if (dir)
        closedir(dir);
    free(folder);
}
