/* The directory of a zip archive in memory: PyTorch checkpoints, .npz files. A stored member is a span
 * of the archive: nothing is copied. A deflated one is inflated into memory, or piece by piece.
 *
 * Sizes and offsets come from the central directory (PyTorch's local headers hold zeros), zip64 or
 * not. Every range is checked against the archive, members may not overlap, names are unique.
 */
#ifndef MGPT_CONVERT_ZIP_DIR_H
#define MGPT_CONVERT_ZIP_DIR_H

#include "convert/core/checkpoint.h"

struct zip_member {
    const char *name; /* in the archive, not NUL-terminated */
    size_t n_name;
    struct span bytes;                                        /* as they are in the archive */
    uint64_t size;                                            /* inflated */
    enum { ZIP_STORED, ZIP_DEFLATED, ZIP_UNREADABLE } packed; /* encrypted, or in another way */
    uint32_t crc;    /* 0: none (what PyTorch writes after set_crc32_options(False)), or checked */
    uint64_t offset; /* of its local header */
};

struct zip_dir {
    struct zip_member *members; /* stb_ds array, sorted by name */
};

/* Begins with a local header, or is an empty archive. */
int zip_dir_sniff(struct span bytes);

/* On failure nothing is left to free. Errors: MGPT_EFILE. */
int zip_dir_open(struct zip_dir *z, struct span bytes, mgpt_error *err);
void zip_dir_close(struct zip_dir *z);

/* The member called prefix followed by name, or NULL. O(log n). */
struct zip_member *zip_dir_find(const struct zip_dir *z, struct gguf_str prefix,
                                struct gguf_str name);

/* To be called before a member is used: it is stored, and its bytes are those of its checksum,
 * which is computed once. Errors: MGPT_EFILE. */
int zip_dir_check(struct zip_member *m, mgpt_error *err);

/* As zip_dir_check, for stored and deflated members; *bytes are what was packed, in c's memory where they
 * had to be inflated. */
int zip_dir_read(struct zip_member *m, struct checkpoint *c, struct span *bytes, mgpt_error *err);

/* Reads the bytes that are packed in a member, in any order. To skip bytes of a deflated member is to inflate
 * them, to go back is to inflate from its start: no more is in memory than what zlib needs. */
struct zip_stream;

/* NULL with *err: no memory. */
struct zip_stream *zip_stream_open(struct zip_member *m, mgpt_error *err);
void zip_stream_close(struct zip_stream *s); /* NULL is allowed */

/* n bytes at `at`, both inside m->size. The checksum is compared before anything is read of a stored
 * member, and with the last byte of a deflated one. Errors: MGPT_EFILE, MGPT_EMEM. */
int zip_stream_read(struct zip_stream *s, uint64_t at, size_t n, void *to, mgpt_error *err);

#endif
