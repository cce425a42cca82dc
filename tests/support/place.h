/* Tests: a directory of one's own below TMPDIR (or /tmp), with the path of a file in it that need
 * not exist. It must be empty at the end, but for that file. */
#ifndef TESTS_PLACE_H
#define TESTS_PLACE_H

#include "base/file.h"
#include "support/unit.h"

#include <unistd.h>

/* TEST with a fresh `place`. */
#define TEST_IN_PLACE(name) TEST_WITH(name, place_make, place_remove)

static struct place {
    char dir[256], path[300];
} place;

static inline int place_make(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(place.dir, sizeof place.dir, "%s/mgpt-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(place.dir))
        return -1;
    snprintf(place.path, sizeof place.path, "%s/file", place.dir);
    return 0;
}

static inline int place_remove(void **state)
{
    (void)state;
    unlink(place.path);
    return rmdir(place.dir);
}

static inline void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static inline void assert_file(const char *path, const char *text)
{
    struct file file;
    assert_int_equal(file_open(&file, path, NULL), MGPT_OK);
    assert_int_equal(file.size, strlen(text));
    assert_memory_equal(file.data, text, file.size);
    file_close(&file);
}

#endif
