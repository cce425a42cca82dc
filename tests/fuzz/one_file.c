/* Fuzz targets: one file in memory. See one_file.h. */
#include "fuzz/one_file.h"

#include "base/file.h"
#include "base/outfile.h"
#include "fuzz/fuzz.h"

static struct {
    uint8_t *data;
    size_t size;
} disk;
static one_file_rule *is_on_disk;

void one_file_except(one_file_rule *rule)
{
    is_on_disk = rule;
}

int __real_file_open(struct file *file, const char *path, mgpt_error *err);
int __wrap_file_open(struct file *file, const char *path, mgpt_error *err);
int __wrap_outfile_open(struct outfile *out, const char *path, mgpt_error *err);
void __wrap_outfile_write(struct outfile *out, const void *data, size_t n);
int __wrap_outfile_reserve(struct outfile *out, uint64_t size, mgpt_error *err);
void __wrap_outfile_put(struct outfile *out, uint64_t at, const void *data, size_t n);
int __wrap_outfile_commit(struct outfile *out, mgpt_error *err);
void __wrap_outfile_discard(struct outfile *out);

int __wrap_file_open(struct file *file, const char *path, mgpt_error *err)
{
    if (is_on_disk && is_on_disk(path))
        return __real_file_open(file, path, err);
    uint8_t *copy = malloc(disk.size ? disk.size : 1);
    MUST(copy);
    if (disk.size)
        memcpy(copy, disk.data, disk.size);
    *file = (struct file){.data = copy, .size = disk.size};
    return MGPT_OK;
}

int __wrap_outfile_open(struct outfile *out, const char *path, mgpt_error *err)
{
    (void)path;
    (void)err;
    *out = (struct outfile){.fd = -1};
    return MGPT_OK;
}

void __wrap_outfile_write(struct outfile *out, const void *data, size_t n)
{
    if (out->n_buf + n >= out->offset) { /* the bytes that buf has room for */
        out->offset = 2 * (out->n_buf + n) + 64;
        out->buf = realloc(out->buf, (size_t)out->offset);
    }
    MUST(out->buf);
    memcpy(out->buf + out->n_buf, data, n);
    out->n_buf += n;
}

int __wrap_outfile_reserve(struct outfile *out, uint64_t size, mgpt_error *err)
{
    (void)err;
    out->buf = calloc(1, (size_t)size + 1);
    MUST(out->buf);
    out->n_buf = (size_t)size;
    return MGPT_OK;
}

void __wrap_outfile_put(struct outfile *out, uint64_t at, const void *data, size_t n)
{
    MUST(at <= out->n_buf && n <= out->n_buf - at);
    if (n)
        memcpy(out->buf + at, data, n);
}

void one_file_put(const uint8_t *data, size_t size)
{
    free(disk.data);
    disk.data = malloc(size ? size : 1);
    MUST(disk.data);
    if (size)
        memcpy(disk.data, data, size);
    disk.size = size;
}

int __wrap_outfile_commit(struct outfile *out, mgpt_error *err)
{
    (void)err;
    one_file_put(out->buf, out->n_buf);
    __wrap_outfile_discard(out);
    return MGPT_OK;
}

void __wrap_outfile_discard(struct outfile *out)
{
    free(out->buf);
    *out = (struct outfile){.fd = -1};
}
