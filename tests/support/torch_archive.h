/* Tests of PyTorch files: zip archives, byte by byte, and pickles of tensors. */
#ifndef TESTS_TORCH_ARCHIVE_H
#define TESTS_TORCH_ARCHIVE_H

#include "convert/containers/torch.h"
#include "support/run.h"
#include "support/torch_input.h"

/* ---- a zip archive --------------------------------------------------------------------------- */

struct zip_part {
    const char *name;
    struct span bytes;
    int method;
    int64_t shift; /* added to the offset in the directory */
    int64_t more;  /* added to the sizes in the directory */
};

struct archive {
    uint8_t bytes[8192];
    size_t n;
};

static inline void put_zip_bytes(struct archive *a, const void *p, size_t n)
{
    assert_true(a->n + n <= sizeof a->bytes);
    if (n)
        memcpy(a->bytes + a->n, p, n);
    a->n += n;
}

struct zip_field {
    uint64_t value;
    size_t n_bytes;
};

static inline void put_fields(struct archive *a, const struct zip_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < fields[i].n_bytes; k++)
            put_zip_bytes(a, &(uint8_t){(uint8_t)(k < 8 ? fields[i].value >> (8 * k) : 0)}, 1);
}

/* Little-endian numbers: {value, bytes}, ... */
#define PUT(a, ...)                                                                                \
    put_fields(a, (const struct zip_field[]){__VA_ARGS__},                                         \
               COUNT(((const struct zip_field[]){__VA_ARGS__})))

/* As PyTorch writes it: flags 0x0808, no CRC and sizes here. */
static inline void put_local(struct archive *a, const struct zip_part *m)
{
    size_t n = strlen(m->name);
    PUT(a, {0x04034b50, 4}, {0, 2}, {0x0808, 2}, {(uint64_t)m->method, 2}, {0, 16}, {n, 2}, {0, 2});
    put_zip_bytes(a, m->name, n);
    put_zip_bytes(a, m->bytes.data, m->bytes.size);
}

static inline void put_entry(struct archive *a, const struct zip_part *m, size_t offset)
{
    uint64_t size = (uint64_t)((int64_t)m->bytes.size + m->more);
    size_t n = strlen(m->name);
    PUT(a, {0x02014b50, 4}, {0, 4}, {0x0808, 2}, {(uint64_t)m->method, 2}, {0, 8}, {size, 4},
        {size, 4}, {n, 2}, {0, 12}, {(uint64_t)((int64_t)offset + m->shift), 4});
    put_zip_bytes(a, m->name, n);
}

/* The end record of a directory of n entries that ends here. */
static inline void put_end(struct archive *a, size_t n, size_t directory)
{
    size_t size = a->n - directory;
    PUT(a, {0x06054b50, 4}, {0, 4}, {n, 2}, {n, 2}, {size, 4}, {directory, 4}, {0, 2});
}

static inline struct span make_archive(struct archive *a, const struct zip_part *members, size_t n)
{
    size_t offsets[16];
    a->n = 0;
    for (size_t i = 0; i < n; i++) {
        offsets[i] = a->n;
        put_local(a, &members[i]);
    }
    size_t directory = a->n;
    for (size_t i = 0; i < n; i++)
        put_entry(a, &members[i], offsets[i]);
    put_end(a, n, directory);
    return (struct span){a->bytes, a->n};
}

/* Opens the archive, and describes all tensors of the dict in it. */
static inline int read_archive(struct span bytes, mgpt_error *err)
{
    struct torch_file f;
    struct checkpoint c;
    struct state s;
    int status = torch_open(&f, bytes, err);
    if (status < 0)
        return status;
    ckpt_init(&c);
    state_init(&s, &c);
    status = run_torch_state(&f, &s, err);
    state_free(&s);
    ckpt_free(&c);
    torch_close(&f);
    return status;
}

static inline void refuses_archive(struct span bytes, const char *text)
{
    mgpt_error err;
    struct span copy = exact_copy(bytes);
    int status = read_archive(copy, &err);
    free_copy(copy);
    assert_file_refused(status, &err, text);
}

static inline void accepts(struct span bytes)
{
    mgpt_error err;
    if (read_archive(bytes, &err) < 0)
        fail_msg("refused: %s", err.text);
}

/* ---- pickles of tensors --------------------------------------------------------------------- */

#define STORAGE_OF(key, count) "(U\7storagectorch\nFloatStorage\n" key "U\3cpu" count "tQ"
#define STORAGE(count)                                                                             \
    "(U\7storagectorch\nFloatStorage\nU\1"                                                         \
    "0U\3"                                                                                         \
    "cpuK" count "tQ"
#define TENSOR_OF(storage, offset, size, stride)                                                   \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset size stride "\x89}tR"
#define TENSOR(storage, offset, size, stride)                                                      \
    "\x80\x02}U\1w" TENSOR_OF(storage, offset, size, stride) "s."

/* {"w": a tensor [2, 2] of a storage, or of storage 0 */
#define OBJECT(storage) TENSOR(storage, "K\0", "K\2K\2\x86", "K\2K\1\x86")
#define GOOD OBJECT(STORAGE("\4"))

static const struct span sixteen = {(const uint8_t *)"0123456789abcdef", 16};

static inline void archive_with(const struct zip_part *members, size_t n, const char *text)
{
    struct archive a;
    if (text)
        refuses_archive(make_archive(&a, members, n), text);
    else
        accepts(make_archive(&a, members, n));
}

#endif
