/* GGUF version 3 (and 2): reader and writer. Source: the GGUF specification; gguf_parse lists what
 * is refused.
 *
 *     "GGUF" u32 version u64 n_tensors u64 n_kv
 *     n_kv      x { string key, u32 type, value }
 *     n_tensors x { string name, u32 n_dims, u64 dims[], u32 type, u64 offset }
 *     zeros up to `alignment`, then the data section: tensors in order, each padded to `alignment`
 *
 * Words of this folder:
 *   key           the name of a value in the first list: "llama.block_count"
 *   kv            a key with its value; an array is a value with a type and a number of elements
 *   tensor        a named array of up to 4 dimensions of one element type (dtype.h); dims[0] varies fastest
 *   offset        of a tensor: from the start of the data section; of an error: from the start of the file
 */
#ifndef MGPT_GGUF_H
#define MGPT_GGUF_H

#include "base/cursor.h"
#include "base/file.h"
#include "base/outfile.h"
#include "dtype/dtype.h"
#include "mgpt.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
};

/* Bytes inside the file; not NUL-terminated, may hold any byte. */
struct gguf_str {
    const char *p;
    size_t n;
};

struct gguf_kv {
    struct gguf_str key;
    enum gguf_type type;    /* GGUF_ARRAY: of `element` */
    enum gguf_type element; /* == type for a scalar */
    uint64_t n;             /* elements; 1 for a scalar */
    const uint8_t *value;   /* first element; each string follows its u64 length */
    size_t value_bytes;
    uint64_t offset; /* of the key in the file, for error messages */
};

#define GGUF_MADE UINT64_MAX /* offset of a tensor that is not in a file: its data is in memory */

struct gguf_tensor {
    char *name; /* NUL-terminated copy inside gguf.names */
    const struct dtype *type;
    uint32_t n_dims;
    uint64_t dims[4]; /* unused ones are 1 */
    uint64_t n_values;
    uint64_t offset; /* of the data in the file; of a split file as file.h numbers its bytes */
    size_t size;
    const uint8_t *data;
};

struct gguf {
    const uint8_t *data;
    size_t size;
    uint32_t version, alignment;
    uint32_t n_parts;                     /* files */
    uint64_t header_bytes;                /* the longest of their headers */
    uint64_t end;                         /* of the last part's data section */
    struct gguf_kv *kv;                   /* stb_ds array, file order */
    struct gguf_tensor *tensors;          /* stb_ds array, file order */
    char *names;                          /* stb_ds array */
    uint32_t *kv_sorted, *tensors_sorted; /* indices sorted by key, by name */
};

/* Reads the structure of a file; the bytes are borrowed. Refuses, with the byte offset: a wrong
 * magic or version, big-endian files; counts, lengths or array sizes beyond the
 * file or beyond 65,536 entries / 2^30 elements; unknown value types, arrays of arrays, a bool
 * that is neither 0 nor 1; empty, overlong or duplicate keys and tensor names; more than 4 dims,
 * a dim of 0, overflowing products, rows that are not whole blocks, unknown tensor types;
 * misaligned tensors, tensors out of order or past the end. A file without tensors may end
 * before its data section.
 *
 * The parts of a split file are one model if they follow each other, each from the next multiple of
 * FILE_PART_ALIGN on. Refused: a part that is missing, in another place or of another number of
 * parts; a later part with a key that is not the first one's; another number of tensors than the
 * first part says. */
int gguf_parse(struct gguf *g, const void *data, size_t size, mgpt_error *err);

/* Parses a file as gguf_parse does bytes; the parts of a split file have sizes of their own.
 * gguf_parts.c. */
int gguf_parse_file(struct gguf *g, const struct file *file, mgpt_error *err);

enum { GGUF_MAX_PARTS = 1024 };

/* Opens a GGUF file; if the path is that of a part, NAME-00002-of-00003.gguf, all parts, as one. n
 * as in file_open_partly. gguf_parts.c. */
int gguf_open_file(struct file *file, const char *path, size_t n, mgpt_error *err);

/* The number of parts that the name of a file says, 1 if it says none. gguf_parts.c. */
size_t gguf_named_parts(const char *path);

/* The path of part i, from 0, of a file with such a name; malloc'ed, or NULL. gguf_parts.c. */
char *gguf_part_path(const char *path, size_t i);
void gguf_free(struct gguf *g);

/* Look-ups by name (binary search); NULL when absent. */
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);

/* Typed values. Return 1 and store; 0 if the key is absent; negative with *err if it has another
 * type or is out of range: "key llama.block_count: expected an unsigned integer, found a
 * string". gguf_uint takes any integer type, and an array whose entries are all equal. */
int gguf_uint(const struct gguf *g, const char *key, uint64_t max, uint64_t *v, mgpt_error *err);
int gguf_float(const struct gguf *g, const char *key, double *v, mgpt_error *err);
int gguf_bool(const struct gguf *g, const char *key, int *v, mgpt_error *err);
int gguf_string(const struct gguf *g, const char *key, struct gguf_str *v, mgpt_error *err);

/* Number i of a value, an array or not; a bool is 0 or 1. 0 for strings. */
int gguf_number(const struct gguf_kv *kv, uint64_t i, double *v);

/* An array of one element type. Returns 1 with *kv, 0 if absent, negative for another type. Read
 * strings with a cursor over (value, value_bytes) and gguf_next_string. */
int gguf_array(const struct gguf *g, const char *key, enum gguf_type element,
               const struct gguf_kv **kv, mgpt_error *err);
struct gguf_str gguf_next_string(struct cursor *c);

/* 1 if the string is `text`; if it is a word of a list that has a space before and after each. */
int gguf_str_is(struct gguf_str s, const char *text);
int gguf_str_in(struct gguf_str s, const char *words);

/* The order of the bytes; a beginning comes first. */
int gguf_str_compare(struct gguf_str a, struct gguf_str b);

/* ---- writing: describe everything, then stream the data -------------------------------------- */

struct gguf_writer {
    struct outfile out;
    uint32_t alignment; /* set by gguf_create: 32 */
    uint8_t *kv;        /* stb_ds arrays: the encoded entries and infos so far */
    uint8_t *infos;
    uint64_t n_kv, n_tensors;
    uint64_t data_size;     /* of the tensors declared so far, padded */
    uint64_t *tensor_sizes; /* stb_ds array */
    uint64_t n_written;     /* tensors whose data is complete */
    uint64_t in_tensor;     /* bytes of the current one written */
    mgpt_error failed;      /* sticky: first failure of any call */
    int in_memory;          /* 1: the file is `memory`, and only `offset` of out is used */
    /* Called with the header, or NULL; what it refuses is not written. Tensors have no data. */
    int (*check)(void *user, struct gguf *header, mgpt_error *err);
    void *check_user;
    uint8_t *memory; /* the file; allocated with the first data */
    size_t memory_size;
};

/* Begins a file at path (temporary until gguf_commit). */
int gguf_create(struct gguf_writer *w, const char *path, mgpt_error *err);

/* Begins a file in memory, for gguf_commit_memory. */
void gguf_create_memory(struct gguf_writer *w);

/* Metadata. Errors are sticky; gguf_commit returns them. */
void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_put_f32(struct gguf_writer *w, const char *key, float v);
void gguf_put_bool(struct gguf_writer *w, const char *key, int v);
void gguf_put_string(struct gguf_writer *w, const char *key, const char *p, size_t n);
void gguf_put_strings(struct gguf_writer *w, const char *key, const struct gguf_str *v, size_t n);
void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *v, size_t n);
void gguf_put_bools(struct gguf_writer *w, const char *key, const uint8_t *v, size_t n);
void gguf_put_f32s(struct gguf_writer *w, const char *key, const float *v, size_t n);
void gguf_put_f64s(struct gguf_writer *w, const char *key, const double *v, size_t n);
void gguf_put_bytes(struct gguf_writer *w, const char *key, const void *v, size_t n); /* u8 */

void gguf_put_kv(struct gguf_writer *w, const struct gguf_kv *kv);

/* Declares the next tensor; dims[0] is the row length. */
void gguf_put_tensor(struct gguf_writer *w, const char *name, const struct dtype *type,
                     uint32_t n_dims, const uint64_t *dims);

/* Data of the declared tensors, in order: encoded bytes, in pieces of any size; padded here. */
void gguf_data(struct gguf_writer *w, const void *bytes, size_t n);

/* Finishes the file: every declared tensor must be complete. Atomic; releases the writer. */
int gguf_commit(struct gguf_writer *w, mgpt_error *err);

/* Finishes a file that gguf_create_memory began: *bytes is the file; the caller frees it. One block of
 * exactly the file's size is allocated, with the first data. */
int gguf_commit_memory(struct gguf_writer *w, void **bytes, size_t *n_bytes, mgpt_error *err);
void gguf_discard(struct gguf_writer *w);

#endif
