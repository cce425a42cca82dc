/* Tests: zip archives as other programs write them, byte by byte. */
#ifndef TESTS_ZIP_MADE_H
#define TESTS_ZIP_MADE_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data; /* stb_ds array */
};

void add(struct bytes *b, const void *data, size_t n);
void drop(struct bytes *b);

/* How an entry is written. */
enum {
    ZIP_DEFLATE = 1, /* else it is stored */
    ZIP_STREAM =
        2, /* to a pipe: sum and sizes follow the data (flag 8), the local header has zeros */
    ZIP_FAR =
        4, /* sizes and offset in the directory are 2^32 - 1, the true ones in a zip64 field */
    ZIP_SECRET = 8, /* the flag of encryption is set */
    ZIP_BZIP2 = 16  /* the method is 12 */
};

struct zip_made {
    struct bytes file, directory;
    size_t n;
};

void add_entry(struct zip_made *z, const char *name, const struct bytes *b, unsigned how);

/* Appends the directory: z->file is the archive, which the caller drops. */
void end_archive(struct zip_made *z);

#endif
