/* Read-only files. See file.h. */
#include "base/file.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reads n bytes of fd at `offset`. A file that has become shorter is an error, not a short read. */
static int read_at(int fd, uint64_t offset, uint8_t *buf, size_t n, mgpt_error *err)
{
    size_t done = 0;
    while (done < n) {
        int64_t got = sys_read_at(fd, buf + done, n - done, offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_system(err, "read", MGPT_NO_OFFSET);
        if (got == 0)
            return err_set(err, MGPT_EIO, offset + done,
                           "the file ended at byte %llu while it was read up to byte %llu",
                           (unsigned long long)(offset + done), (unsigned long long)(offset + n));
        done += (size_t)got;
    }
    return MGPT_OK;
}

static int read_whole(struct file *file, int fd, mgpt_error *err)
{
    uint8_t *buf = malloc(file->size ? file->size : 1);
    if (!buf)
        return err_memory(err, "the file", file->size);
    file->data = buf;
    return read_at(fd, 0, buf, file->size, err);
}

/* Anonymous pages read as zeros and take no memory until they are written. */
static int read_start(struct file *file, int fd, size_t n, mgpt_error *err)
{
    void *p = sys_pages(file->size, 1);
    if (!p)
        return err_memory(err, "the file", file->size);
    file->data = p;
    return read_at(fd, 0, p, n, err);
}

static int map_whole(struct file *file, int fd, mgpt_error *err)
{
    void *p = sys_map(fd, file->size);
    if (!p)
        return err_system(err, "map", MGPT_NO_OFFSET);
    file->data = p;
    file->mapped = 1;
    return MGPT_OK;
}

/* The size of a regular file. */
static int get_size(struct file *file, int fd, mgpt_error *err)
{
    enum sys_kind kind;
    uint64_t size;
    if (sys_look(fd, &kind, &size) < 0)
        return err_system(err, "stat", MGPT_NO_OFFSET);
    if (kind == SYS_FOLDER)
        return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "is a directory, expected a file");
    if (kind != SYS_FILE)
        return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "is not a regular file");
    if (!ck_size(size, &file->size))
        return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "file too large for this machine");
    return MGPT_OK;
}

static int get_contents(struct file *file, int fd, size_t n, mgpt_error *err)
{
    /* A file that is not much longer than its first n bytes is loaded whole. */
    file->partly = n < file->size / 2;
    file->fd = fd;
    if (file->size > FILE_MAP_ABOVE)
        return map_whole(file, fd, err);
    return file->partly ? read_start(file, fd, n, err) : read_whole(file, fd, err);
}

/* Opens the file and stores its size. MGPT_OK with *fd. */
static int open_sized(struct file *file, const char *path, int *fd, mgpt_error *err)
{
    *file = (struct file){0};
    *fd = sys_open(path);
    if (*fd < 0)
        return err_system(err, "open", MGPT_NO_OFFSET);
    int status = get_size(file, *fd, err);
    if (status < 0)
        sys_close(*fd);
    return status;
}

int file_open_partly(struct file *file, const char *path, size_t n, mgpt_error *err)
{
    int fd, status = open_sized(file, path, &fd, err);
    if (status < 0)
        return status;
    status = get_contents(file, fd, n, err);
    if (!file->partly)
        sys_close(fd);
    if (status < 0)
        file_close(file);
    return status;
}

/* ---- several files as one -------------------------------------------------------------------- */

/* Opens a part, which begins after *end, the end of the one before. */
static int open_part(struct file *file, struct file_part *part, const char *path, uint64_t *end,
                     mgpt_error *err)
{
    struct file one;
    int status = open_sized(&one, path, &part->fd, err);
    if (status < 0)
        return status;
    part->size = one.size;
    if (!ck_align(*end, FILE_PART_ALIGN, &part->offset) || !ck_add(part->offset, part->size, end) ||
        !ck_size(*end, &file->size))
        return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "file too large for this machine");
    return MGPT_OK;
}

static int open_parts(struct file *file, file_part_path *path, void *user, mgpt_error *err)
{
    uint64_t end = 0;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < file->n_parts; i++) {
        mgpt_error why;
        char *name = path(user, i);
        if (!name)
            return err_memory(err, "a file name", 1);
        status = open_part(file, &file->parts[i], name, &end, &why);
        if (status < 0) {
            file->parts[i].fd = -1;
            err_set(err, status, MGPT_NO_OFFSET, "part %zu of %zu, %s: %s", i + 1, file->n_parts,
                    name, why.text);
        }
        free(name);
    }
    return status;
}

/* Maps the parts into one range, or reads the first n bytes of each. Pages that no part fills are
 * zeros. */
static int get_parts(struct file *file, size_t n, mgpt_error *err)
{
    file->mapped = SYS_MAPS_PARTS && file->size > FILE_MAP_ABOVE;
    void *p = sys_pages(file->size ? file->size : 1, !file->mapped);
    if (!p)
        return err_memory(err, "the file", file->size);
    file->data = p;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < file->n_parts; i++) {
        const struct file_part *part = &file->parts[i];
        uint8_t *to = (uint8_t *)p + part->offset;
        if (!file->mapped)
            status = read_at(part->fd, 0, to, n < part->size ? n : part->size, err);
        else if (part->size && sys_map_part(to, part->fd, part->size) < 0)
            status = err_system(err, "map", MGPT_NO_OFFSET);
    }
    return status;
}

static void close_parts(struct file *file)
{
    for (size_t i = 0; i < file->n_parts; i++) {
        if (file->parts[i].fd >= 0)
            sys_close(file->parts[i].fd);
        file->parts[i].fd = -1;
    }
}

int file_open_parts(struct file *file, file_part_path *path, void *user, size_t n_parts, size_t n,
                    mgpt_error *err)
{
    *file = (struct file){.parts = mem_new(n_parts, sizeof *file->parts), .n_parts = n_parts};
    if (!file->parts)
        return err_memory(err, "the parts of a file", n_parts * sizeof *file->parts);
    for (size_t i = 0; i < n_parts; i++)
        file->parts[i].fd = -1;
    int status = open_parts(file, path, user, err);
    file->partly = n < file->size / 2;
    if (status == MGPT_OK)
        status = get_parts(file, n, err);
    if (status == MGPT_OK && !file->partly)
        close_parts(file);
    if (status < 0)
        file_close(file);
    return status;
}

/* Reads bytes that are in several parts of a split file; bytes between parts are zeros. */
static int read_across(const struct file *file, uint64_t offset, uint8_t *to, size_t n,
                       mgpt_error *err)
{
    uint64_t end = offset + n, at = offset;
    for (size_t i = 0; i < file->n_parts && at < end; i++) {
        const struct file_part *part = &file->parts[i];
        uint64_t last = part->offset + part->size;
        if (last <= at)
            continue;
        uint64_t from = part->offset > at ? part->offset : at;
        uint64_t until = last < end ? last : end;
        if (from >= until)
            continue; /* an empty part, or a later one */
        memset(to + (at - offset), 0, from - at);
        int status =
            read_at(part->fd, from - part->offset, to + (from - offset), until - from, err);
        if (status < 0)
            return status;
        at = until;
    }
    memset(to + (at - offset), 0, end - at);
    return MGPT_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

int file_open_unread(struct file *file, const char *path, mgpt_error *err)
{
    int status = open_sized(file, path, &file->fd, err);
    file->partly = status == MGPT_OK;
    return status;
}

int file_open(struct file *file, const char *path, mgpt_error *err)
{
    return file_open_partly(file, path, SIZE_MAX, err);
}

void file_close(struct file *file)
{
    if (file->data && (file->mapped || file->partly || file->parts))
        sys_unmap((void *)(uintptr_t)file->data, file->size ? file->size : 1,
                  file->mapped && !file->parts);
    else
        free((void *)(uintptr_t)file->data);
    if (file->parts)
        close_parts(file);
    else if (file->partly)
        sys_close(file->fd);
    free(file->parts);
    *file = (struct file){0};
}

int file_read(const struct file *file, uint64_t offset, size_t n, void *to, mgpt_error *err)
{
    return file->parts ? read_across(file, offset, to, n, err)
                       : read_at(file->fd, offset, to, n, err);
}

int file_load(const struct file *file, uint64_t offset, size_t n, mgpt_error *err)
{
    if (!file->partly || file->mapped)
        return MGPT_OK;
    mem_hint_huge(file->data + offset, n);
    return file_read(file, offset, n, (uint8_t *)(uintptr_t)file->data + offset, err);
}
