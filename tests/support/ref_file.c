/* Tests: making reference files. See ref_file.h. */
#include "support/ref_file.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The header as NumPy writes it, around any dictionary. */
struct bytes header_of(const char *dictionary)
{
    struct bytes b = {0};
    size_t n = (strlen(dictionary) + 10 + 1 + 63) / 64 * 64 - 10;
    uint8_t length[2] = {(uint8_t)(n & 255), (uint8_t)(n >> 8)};
    add(&b, "\x93NUMPY\1\0", 8);
    add(&b, length, 2);
    add(&b, dictionary, strlen(dictionary));
    while (arr_len(b.data) < n + 9)
        add(&b, " ", 1);
    add(&b, "\n", 1);
    return b;
}

struct bytes npy_of(const char *descr, const char *shape)
{
    char dictionary[128];
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    return header_of(dictionary);
}

/* ---- a file of our own ---- */

int make_path(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char *path = calloc(1, 256);
    snprintf(path, 256, "%s/mgpt-reference-XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(path);
    *state = path;
    return fd < 0 || close(fd) < 0;
}

int remove_path(void **state)
{
    unlink(*state);
    free(*state);
    return 0;
}

void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void write_archive(const char *path, struct zip_made *z)
{
    end_archive(z);
    write_file(path, z->file.data, arr_len(z->file.data));
    drop(&z->file);
}

struct bytes read_file(const char *path)
{
    struct bytes b = {0};
    uint8_t chunk[512];
    size_t n;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        add(&b, chunk, n);
    fclose(f);
    return b;
}

int reads_whole(const char *path, const struct ref_options *options)
{
    enum { MOST = 64 };
    double row[MOST];
    struct ref_hook hook;
    struct reference *ref = reference_open(path, options, NULL);
    int ok = ref != NULL;
    for (size_t i = 0; ref && i < reference_count(ref); i++)
        for (size_t k = 0; k < reference_sequence(ref, i).n; k++)
            ok = ok && reference_row(ref, i, k, row, NULL) == MGPT_OK;
    for (size_t i = 0; ref && i < reference_n_hooks(ref); i++) {
        reference_hook(ref, i, &hook);
        for (size_t r = 0; r < hook.rows && hook.cols <= MOST; r++)
            ok = ok && reference_hook_rows(ref, i, r, 1, row, NULL) == MGPT_OK;
    }
    reference_close(ref);
    return ok;
}
