/* Files read: at once, mapped, in parts. Written: test_outfile.c. */
#include "base/file.h"
#include "support/place.h"
#include "support/unit.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Calls pass through here (see meson.build): with `halves` every other read is interrupted, the others give half. */
static int halves;
#define WRAP_PREAD(NAME)                                                                           \
    ssize_t __real_##NAME(int fd, void *p, size_t n, off_t at);                                    \
    ssize_t __wrap_##NAME(int fd, void *p, size_t n, off_t at);                                    \
    ssize_t __wrap_##NAME(int fd, void *p, size_t n, off_t at)                                     \
    {                                                                                              \
        int fails = halves > 0 && halves++ % 2;                                                    \
        errno = fails ? EINTR : errno;                                                             \
        return fails ? -1 : __real_##NAME(fd, p, halves ? (n + 1) / 2 : n, at);                    \
    }
#if defined(__GLIBC__) && defined(_FILE_OFFSET_BITS) && _FILE_OFFSET_BITS == 64
WRAP_PREAD(pread64)
#else
WRAP_PREAD(pread)
#endif

/* A short read goes on after what it gave, an interrupted one is tried again. */
TEST_IN_PLACE(short_reads)
{
    struct file file;
    char bytes[9];
    put_file(place.path, "0123456789abcdef");
    halves = 1;
    assert_int_equal(file_open(&file, place.path, NULL), MGPT_OK);
    assert_memory_equal(file.data, "0123456789abcdef", 16);
    file_close(&file);
    assert_int_equal(file_open_partly(&file, place.path, 5, NULL), MGPT_OK);
    assert_memory_equal(file.data, "01234\0", 6);
    assert_int_equal(file_read(&file, 3, 9, bytes, NULL), MGPT_OK);
    assert_memory_equal(bytes, "3456789ab", 9);
    assert_true(halves > 10);
    halves = 0;
    file_close(&file);
}

TEST_IN_PLACE(file_reads)
{
    struct file file;
    put_file(place.path, "hello");
    assert_int_equal(file_open(&file, place.path, NULL), MGPT_OK);
    assert_int_equal(file.size, 5);
    assert_false(file.mapped);
    assert_memory_equal(file.data, "hello", 5);
    file_close(&file);
    file_close(&file);
    put_file(place.path, "");
    assert_int_equal(file_open(&file, place.path, NULL), MGPT_OK);
    assert_int_equal(file.size, 0);
    assert_non_null(file.data);
    file_close(&file);
}

/* A sparse file: it takes no room on the disk, and mapping it none in memory. */
TEST_IN_PLACE(file_maps_large)
{
    struct file file;
    put_file(place.path, "first");
    if (truncate(place.path, (off_t)FILE_MAP_ABOVE + 1) < 0) {
        unlink(place.path);
        skip();
    }
    assert_int_equal(file_open(&file, place.path, NULL), MGPT_OK);
    assert_true(file.mapped);
    assert_true(file.size == FILE_MAP_ABOVE + 1);
    assert_memory_equal(file.data, "first", 6);
    assert_int_equal(file.data[file.size - 1], 0);
    file_close(&file);

    char bytes[6];
    assert_int_equal(file_open_partly(&file, place.path, 3, NULL), MGPT_OK);
    assert_true(file.mapped && file.partly);
    assert_int_equal(file_load(&file, 0, file.size, NULL), MGPT_OK); /* writes nothing */
    assert_memory_equal(file.data, "first", 6);
    assert_int_equal(file_read(&file, 0, 6, bytes, NULL), MGPT_OK);
    assert_memory_equal(bytes, "first", 6);
    file_close(&file);
}

TEST_IN_PLACE(file_loads_partly)
{
    struct file file;
    mgpt_error err = {0};
    char bytes[4];
    put_file(place.path, "0123456789");
    assert_int_equal(file_open_partly(&file, place.path, 5, NULL), MGPT_OK);
    assert_false(file.partly); /* a file of twice the bytes is loaded whole */
    file_close(&file);
    assert_int_equal(file_open_partly(&file, place.path, 3, NULL), MGPT_OK);
    assert_true(file.partly);
    assert_int_equal(file.size, 10);
    assert_memory_equal(file.data, "012\0\0\0\0\0\0\0", 10);
    assert_int_equal(file_load(&file, 4, 2, NULL), MGPT_OK);
    assert_memory_equal(file.data, "012\00045\0\0\0\0", 10);
    assert_int_equal(file_read(&file, 6, 4, bytes, NULL), MGPT_OK);
    assert_memory_equal(bytes, "6789", 4);
    assert_int_equal(truncate(place.path, 7), 0);
    assert_int_equal(file_read(&file, 6, 4, bytes, &err), MGPT_EIO);
    assert_true(err.offset == 7);
    assert_string_equal(err.text, "the file ended at byte 7 while it was read up to byte 10");
    assert_int_equal(file_load(&file, 8, 1, &err), MGPT_EIO);
    file_close(&file);
    file_close(&file);
}

TEST_IN_PLACE(file_refuses)
{
    struct file file;
    mgpt_error err = {0};
    assert_int_equal(file_open(&file, place.path, &err), MGPT_EIO);
    assert_string_equal(err.text, "cannot open: No such file or directory");
    assert_int_equal(file_open(&file, place.dir, &err), MGPT_EIO);
    assert_string_equal(err.text, "is a directory, expected a file");
    assert_int_equal(mkfifo(place.path, 0600), 0);
    alarm(20); /* no program writes to the FIFO: the call must not wait for one */
    assert_int_equal(file_open(&file, place.path, &err), MGPT_EIO);
    alarm(0);
    assert_string_equal(err.text, "is not a regular file");
    file_close(&file);
}

/* ---- several as one ---- */

static char *nth_path(void *user, size_t i)
{
    const char *path = user;
    char *name = malloc(strlen(path) + 2);
    if (name)
        sprintf(name, "%s%c", path, (char)('0' + i));
    return name;
}

static void unlink_parts(const char *path)
{
    for (size_t i = 0; i < 3; i++) {
        char *name = nth_path((void *)(uintptr_t)path, i);
        unlink(name);
        free(name);
    }
}

static void write_nth(const char *path, const char *a, const char *b, const char *c)
{
    const char *const texts[] = {a, b, c};
    for (size_t i = 0; i < 3; i++) {
        char *name = nth_path((void *)(uintptr_t)path, i);
        put_file(name, texts[i]);
        free(name);
    }
}

TEST_IN_PLACE(file_parts)
{
    struct file file;
    char bytes[12];
    write_nth(place.path, "first", "", "third");
    const uint64_t third = FILE_PART_ALIGN;
    assert_int_equal(file_open_parts(&file, nth_path, place.path, 3, SIZE_MAX, NULL), MGPT_OK);
    assert_true(file.size == third + 5 && !file.partly && !file.mapped);
    assert_memory_equal(file.data, "first\0", 7);
    assert_memory_equal(file.data + third, "third", 5);
    file_close(&file);
    file_close(&file);

    assert_int_equal(file_open_parts(&file, nth_path, place.path, 3, 3, NULL), MGPT_OK);
    assert_true(file.partly);
    assert_memory_equal(file.data, "fir\0\0", 5);
    assert_memory_equal(file.data + third, "thi\0\0", 5);
    assert_int_equal(file_read(&file, third - 6, 11, bytes, NULL), MGPT_OK);
    assert_memory_equal(bytes, "\0\0\0\0\0\0third", 11);
    assert_int_equal(file_read(&file, 2, 7, bytes, NULL), MGPT_OK);
    assert_memory_equal(bytes, "rst\0\0\0\0", 7);
    assert_int_equal(file_load(&file, third, 5, NULL), MGPT_OK);
    assert_memory_equal(file.data + third, "third", 5);
    file_close(&file);
    unlink_parts(place.path);
}

TEST_IN_PLACE(file_parts_missing)
{
    struct file file;
    mgpt_error err;
    char line[160];
    write_nth(place.path, "first", "second", "third");
    char *name = nth_path(place.path, 1);
    unlink(name);
    snprintf(line, sizeof line, "part 2 of 3, %s: cannot open: No such file or directory", name);
    free(name);
    assert_int_equal(file_open_parts(&file, nth_path, place.path, 3, 1, &err), MGPT_EIO);
    assert_string_equal(err.text, line);
    file_close(&file);
    unlink_parts(place.path);
}

/* Sparse files, together large enough to be mapped. */
TEST_IN_PLACE(file_parts_mapped)
{
    struct file file;
    char bytes[4];
    write_nth(place.path, "first", "second", "third");
    for (size_t i = 0; i < 3; i++) {
        char *name = nth_path(place.path, i);
        int failed = truncate(name, (off_t)FILE_MAP_ABOVE / 2 + 1);
        free(name);
        if (failed) {
            unlink_parts(place.path);
            skip();
        }
    }
    const uint64_t second = FILE_MAP_ABOVE / 2 + FILE_PART_ALIGN;
    assert_int_equal(file_open_parts(&file, nth_path, place.path, 3, 1, NULL), MGPT_OK);
    assert_true(file.mapped && file.partly);
    assert_memory_equal(file.data, "first", 6);
    assert_memory_equal(file.data + second, "second", 7);
    assert_int_equal(file.data[second - 1], 0);
    assert_memory_equal(file.data + 2 * second, "third", 6);
    assert_int_equal(file_read(&file, 2 * second - 1, 4, bytes, NULL), MGPT_OK);
    assert_memory_equal(bytes, "\0thi", 4);
    file_close(&file);
    char *name = nth_path(place.path, 1); /* an empty part cannot be mapped */
    assert_int_equal(truncate(name, 0), 0);
    free(name);
    assert_int_equal(file_open_parts(&file, nth_path, place.path, 3, 1, NULL), MGPT_OK);
    assert_true(file.mapped);
    assert_memory_equal(file.data + second, "third", 6);
    file_close(&file);
    unlink_parts(place.path);
}
