/* Sorted tables. See sstable.h. */
#include "convert/containers/sstable.h"

#include "base/cursor.h"
#include "base/error.h"
#include "convert/containers/crc32c.h"
#include "convert/containers/protobuf.h"

#include <string.h>

enum { FOOTER = 48, MAGIC = 8, TRAILER = 5 };

static const uint8_t magic[MAGIC] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

/* A place in the table where a block starts, for errors, and the block's entries. */
struct sstable_block {
    uint64_t at, size;
    struct cursor entries;
};

struct sstable_key {
    char text[SSTABLE_MAX_KEY + 1];
    size_t n;
};

static int sstable_refuse(uint64_t at, const char *what, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, at, "table of tensors: %s", what);
}

int sstable_sniff(struct span b)
{
    return b.size >= FOOTER && memcmp(b.data + b.size - MAGIC, magic, MAGIC) == 0;
}

/* Opens the block of the handle at the cursor, which is at byte `at` of the table. */
static int sstable_open(struct span table, struct cursor *handle, uint64_t at,
                        struct sstable_block *b, mgpt_error *err)
{
    uint64_t offset = proto_varint(handle), size = proto_varint(handle);
    if (handle->failed)
        return sstable_refuse(at, "a block's offset or size is damaged", err);
    struct cursor c = cursor_over(table.data, table.size - FOOTER);
    cursor_take(&c, offset);
    const uint8_t *bytes = cursor_take(&c, size);
    uint8_t type = cursor_u8(&c);
    uint32_t sum = cursor_u32(&c);
    if (c.failed)
        return sstable_refuse(at, "a block ends after the table", err);
    if (!crc32c_matches((struct span){bytes, (size_t)size + 1}, sum))
        return sstable_refuse(offset, "a block's checksum is wrong: the file is damaged", err);
    if (type != 0)
        return sstable_refuse(offset + size,
                              type == 1 ? "compressed with snappy, which is not supported"
                                        : "a block of an unknown compression",
                              err);
    struct cursor last = cursor_over(bytes, (size_t)size);
    cursor_take(&last, size < 4 ? 0 : size - 4);
    uint64_t n_restarts = cursor_u32(&last);
    if (last.failed || n_restarts > (size - 4) / 4)
        return sstable_refuse(offset, "a block's list of places is damaged", err);
    b->at = offset;
    b->size = size;
    b->entries = cursor_over(bytes, (size_t)(size - 4 - 4 * n_restarts));
    return MGPT_OK;
}

/* The next entry: 1, 0 at the end, or negative. */
static int sstable_next(struct sstable_block *b, struct sstable_key *key, struct span *value,
                        mgpt_error *err)
{
    struct cursor *c = &b->entries;
    if (cursor_left(c) == 0)
        return 0;
    uint64_t at = b->at + c->pos;
    uint64_t shared = proto_varint(c), own = proto_varint(c), n_value = proto_varint(c);
    const uint8_t *rest = cursor_take(c, own);
    value->data = cursor_take(c, n_value);
    value->size = (size_t)n_value;
    if (c->failed || shared > key->n)
        return sstable_refuse(at, "an entry is damaged", err);
    if (own > SSTABLE_MAX_KEY - shared)
        return sstable_refuse(at, "a name of more than 255 bytes", err);
    memcpy(key->text + shared, rest, (size_t)own);
    key->n = (size_t)(shared + own);
    key->text[key->n] = 0;
    return 1;
}

static int sstable_walk(struct sstable_block *b, sstable_fn *fn, void *user, mgpt_error *err)
{
    struct sstable_key key = {.n = 0};
    struct span value;
    int got;
    while ((got = sstable_next(b, &key, &value, err)) == 1) {
        int status = fn(user, key.text, key.n, value, err);
        if (status < 0)
            return status;
    }
    return got;
}

int sstable_each(struct span bytes, sstable_fn *fn, void *user, mgpt_error *err)
{
    struct sstable_block index, block;
    struct sstable_key key = {.n = 0};
    struct span handle;
    uint64_t end = 0; /* of the block before: no block is read twice */
    int got;
    if (!sstable_sniff(bytes))
        return sstable_refuse(bytes.size, "the file does not end as one", err);
    struct cursor footer = cursor_over(bytes.data + bytes.size - FOOTER, FOOTER - MAGIC);
    int status = sstable_open(bytes, &footer, bytes.size - FOOTER, &block, err);
    if (status == MGPT_OK)
        status = sstable_open(bytes, &footer, bytes.size - FOOTER, &index, err);
    if (status < 0)
        return status;
    while ((got = sstable_next(&index, &key, &handle, err)) == 1) {
        struct cursor at = cursor_over(handle.data, handle.size);
        status = sstable_open(bytes, &at, index.at, &block, err);
        if (status == MGPT_OK && block.at < end)
            status = sstable_refuse(index.at, "blocks overlap, or are not in order", err);
        if (status == MGPT_OK)
            status = sstable_walk(&block, fn, user, err);
        if (status < 0)
            return status;
        end = block.at + block.size;
    }
    return got;
}
