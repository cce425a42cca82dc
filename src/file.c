/* Floor 0. Read-only files. See file.h. */
#include "file.h"

#include "ck.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fills buf from fd; a file that shrinks meanwhile is an error, not a short read. */
static int read_all(int fd, uint8_t *buf, size_t size, mgpt_error *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, buf + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_system(err, "read", MGPT_NO_OFFSET);
        if (got == 0)
            return err_set(err, MGPT_EIO, done,
                           "the file ended at byte %zu of %zu while it was read", done, size);
        done += (size_t)got;
    }
    return MGPT_OK;
}

static int load(struct file *file, int fd, mgpt_error *err)
{
    uint8_t *buf = malloc(file->size ? file->size : 1);
    if (!buf)
        return err_memory(err, "the file", file->size);
    int status = read_all(fd, buf, file->size, err);
    if (status < 0) {
        free(buf);
        return status;
    }
    file->data = buf;
    return MGPT_OK;
}

static int map(struct file *file, int fd, mgpt_error *err)
{
    void *p = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return err_system(err, "map", MGPT_NO_OFFSET);
    file->data = p;
    file->mapped = 1;
    return MGPT_OK;
}

static int fill(struct file *file, int fd, mgpt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_system(err, "stat", MGPT_NO_OFFSET);
    if (S_ISDIR(st.st_mode))
        return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "is a directory, expected a file");
    if (!S_ISREG(st.st_mode))
        return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "is not a regular file");
    if (!ck_size((uint64_t)st.st_size, &file->size))
        return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "file too large for this machine");
    return (uint64_t)st.st_size > FILE_MAP_ABOVE ? map(file, fd, err) : load(file, fd, err);
}

int file_open(struct file *file, const char *path, mgpt_error *err)
{
    *file = (struct file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_system(err, "open", MGPT_NO_OFFSET);
    int status = fill(file, fd, err);
    close(fd);
    return status;
}

void file_close(struct file *file)
{
    if (file->mapped)
        munmap((void *)(uintptr_t)file->data, file->size);
    else
        free((void *)(uintptr_t)file->data);
    *file = (struct file){0};
}
