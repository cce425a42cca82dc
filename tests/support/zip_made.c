/* Tests: making zip archives. See zip_made.h. */
#include "support/zip_made.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL = 0x04034b50, DESCRIPTOR = 0x08074b50, ENTRY = 0x02014b50, END = 0x06054b50 };

static void must(int is_true)
{
    if (is_true)
        return;
    fputs("zip_made.c: no memory, or zlib failed\n", stderr);
    abort();
}

void add(struct bytes *b, const void *data, size_t n)
{
    must(arr_reserve(b->data, arr_len(b->data) + n));
    if (n > 0) /* data may be NULL then */
        memcpy(stbds_arraddnptr(b->data, n), data, n);
}

void drop(struct bytes *b)
{
    arr_free(b->data);
    b->data = NULL;
}

/* A little-endian number. */
static void put_number(struct bytes *b, size_t n_bytes, uint64_t value)
{
    for (size_t i = 0; i < n_bytes; i++) /* beyond 8 bytes zeros */
        add(b, &(uint8_t){i < sizeof value ? (uint8_t)(value >> (8 * i)) : 0}, 1);
}

static struct bytes packed(const struct bytes *b, unsigned how)
{
    struct bytes out = {0};
    uint8_t room[8192];
    z_stream z = {.next_in = b->data, .avail_in = (uInt)arr_len(b->data)};
    if (!(how & ZIP_DEFLATE)) {
        add(&out, b->data, arr_len(b->data));
        return out;
    }
    must(deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    int state;
    do {
        z.next_out = room;
        z.avail_out = sizeof room;
        state = deflate(&z, Z_FINISH);
        add(&out, room, sizeof room - z.avail_out);
    } while (state == Z_OK);
    must(state == Z_STREAM_END);
    deflateEnd(&z);
    return out;
}

/* Writes the fields that a local header and a directory entry share, from the flags on. */
static void put_about(struct bytes *to, unsigned how, const uint64_t sum_and_sizes[3],
                      const char *name, size_t n_extra)
{
    put_number(to, 2, (how & ZIP_STREAM ? 8u : 0) | (how & ZIP_SECRET ? 1u : 0));
    put_number(to, 2, how & ZIP_BZIP2 ? 12 : how & ZIP_DEFLATE ? 8 : 0);
    put_number(to, 4, 0x00210000); /* midnight, 1980-01-01 */
    for (size_t i = 0; i < 3; i++)
        put_number(to, 4, sum_and_sizes[i]);
    put_number(to, 2, strlen(name));
    put_number(to, 2, n_extra);
}

void add_entry(struct zip_made *z, const char *name, const struct bytes *b, unsigned how)
{
    struct bytes data = packed(b, how);
    const uint64_t n = arr_len(b->data), n_packed = arr_len(data.data), at = arr_len(z->file.data);
    const uint64_t sum = crc32(0, b->data, (uInt)n); /* 0 of NULL */
    const uint64_t now[3] = {sum, n_packed, n}, later[3] = {0};
    const uint64_t far[3] = {sum, UINT32_MAX, UINT32_MAX};
    put_number(&z->file, 4, LOCAL);
    put_number(&z->file, 2, 20);
    put_about(&z->file, how, how & ZIP_STREAM ? later : now, name, 0);
    add(&z->file, name, strlen(name));
    add(&z->file, data.data, n_packed);
    if (how & ZIP_STREAM)
        put_number(&z->file, 4, DESCRIPTOR);
    for (size_t i = 0; how & ZIP_STREAM && i < 3; i++)
        put_number(&z->file, 4, now[i]);
    put_number(&z->directory, 4, ENTRY);
    put_number(&z->directory, 4, 0x00140014);
    put_about(&z->directory, how, how & ZIP_FAR ? far : now, name, how & ZIP_FAR ? 28 : 0);
    put_number(&z->directory, 2 + 8, 0); /* comment, disk, attributes */
    put_number(&z->directory, 4, how & ZIP_FAR ? UINT32_MAX : at);
    add(&z->directory, name, strlen(name));
    if (how & ZIP_FAR) {
        put_number(&z->directory, 4, 1 | 24 << 16);
        put_number(&z->directory, 8, n);
        put_number(&z->directory, 8, n_packed);
        put_number(&z->directory, 8, at);
    }
    drop(&data);
    z->n++;
}

void end_archive(struct zip_made *z)
{
    const size_t at = arr_len(z->file.data), n = arr_len(z->directory.data);
    add(&z->file, z->directory.data, n);
    put_number(&z->file, 4, END);
    put_number(&z->file, 4, 0); /* disks */
    put_number(&z->file, 2, z->n);
    put_number(&z->file, 2, z->n);
    put_number(&z->file, 4, n);
    put_number(&z->file, 4, at);
    put_number(&z->file, 2, 0); /* comment */
    drop(&z->directory);
}
