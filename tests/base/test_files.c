/* Files read: at once, mapped, in parts. Written: test_outfile.c. */
#include "base/file.h"
#include "support/place.h"
#include "support/unit.h"

#include <sys/stat.h>

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
    assert_false(file.partly); /* the rest is not worth a second look */
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
