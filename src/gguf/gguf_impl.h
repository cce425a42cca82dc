/* Private to gguf_read.c, gguf_get.c and gguf_write.c: the limits of GGUF files.
 *
 * They bound what a hostile file can make the reader allocate or walk. The writer does not repeat
 * the checks: it parses its own header before writing any of it, so the reader accepts what it
 * writes.
 */
#ifndef MGPT_GGUF_IMPL_H
#define MGPT_GGUF_IMPL_H

#include "gguf/gguf.h"

#define GGUF_HEADER_BYTES 24u /* magic, version, two counts */
#define GGUF_VERSION 3u
#define GGUF_MAX_ENTRIES 65536u /* metadata entries, and tensors */
#define GGUF_MAX_KEY 65535u
#define GGUF_MAX_NAME 63u /* of a tensor: ggml's buffer is 64 with the terminator */
#define GGUF_MAX_STRING ((uint64_t)1 << 30)
#define GGUF_MAX_ELEMENTS ((uint64_t)1 << 30)
#define GGUF_MAX_DIMS 4u
#define GGUF_MIN_ALIGNMENT 8u     /* the specification: a multiple of 8 */
#define GGUF_MAX_ALIGNMENT 65536u /* the largest page size in use */
#define GGUF_ALIGNMENT_KEY "general.alignment"
#define GGUF_SPLIT_PREFIX "split."

struct gguf_type_info {
    unsigned size; /* bytes of an element; for a string or array the minimum */
    char kind;     /* u, i: integers, f: floats, b: bool, s: string, a: array */
    const char *one, *many;
};

extern const struct gguf_type_info gguf_types[]; /* [GGUF_N_TYPES] */

/* Fill g->kv_sorted, g->tensors_sorted; 0 when out of memory. *twice: the index of an entry that
 * repeats an earlier name, or the number of entries. */
int gguf_sort_keys(struct gguf *g, size_t *twice);
int gguf_sort_names(struct gguf *g, size_t *twice);

/* Parses one part: the bytes of g->data. gguf_read.c. */
int gguf_parse_part(struct gguf *g, const void *data, size_t size, mgpt_error *err);

/* gguf_parse of a header whose data section is not yet written: tensors[].data are NULL. */
int gguf_parse_header(struct gguf *g, const void *data, size_t size, mgpt_error *err);

#endif
