/* Tests: .npy headers, zip archives (zip_made.h) and files of one's own, for tests of readers. */
#ifndef TESTS_REF_FILE_H
#define TESTS_REF_FILE_H

#include "check/reference/reference.h"
#include "support/unit.h"
#include "support/zip_made.h"

/* A .npy header as NumPy writes it: around any dictionary, or for an element type and a shape. */
struct bytes header_of(const char *dictionary);
struct bytes npy_of(const char *descr, const char *shape);

/* TEST whose *state is the path of a file. */
#define TEST_ON_FILE(name) TEST_WITH(name, make_path, remove_path)
int make_path(void **state);
int remove_path(void **state);

void write_file(const char *path, const void *data, size_t n);
struct bytes read_file(const char *path);

/* Ends the archive and writes it. */
void write_archive(const char *path, struct zip_made *z);

/* Reads all rows and inner values of a reference; 1 when that worked. At most 64 values a row. */
int reads_whole(const char *path, const struct ref_options *options);

#endif
