/* Arrays that grow side by side in one file: an .npz archive or a safetensors file.
 *
 * Every array's shape is known before the first number, so each has its place from the start, and
 * rows go to their place in any order. What is kept in memory does not depend on how large the
 * arrays are.
 *
 * An array may be cut along its first dimension into strands that are written side by side, each of
 * them in order: attention is [heads, queries, keys], and every query brings a row for each head.
 */
#ifndef MGPT_TRACE_FILE_H
#define MGPT_TRACE_FILE_H

#include "base/outfile.h"
#include "common/crc32.h"
#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

enum trace_format { TRACE_NPZ, TRACE_SAFETENSORS };
enum trace_type { TRACE_I64, TRACE_F32, TRACE_F16, TRACE_F64, TRACE_N_TYPES };

enum { TRACE_MAX_DIMS = 4 };

/* How a type is called and how many bytes it has. */
struct trace_kind {
    const char *numpy, *safetensors;
    unsigned width;
};
extern const struct trace_kind trace_kinds[]; /* [TRACE_N_TYPES] */

struct trace_strand {
    uint64_t done; /* bytes written */
    uint32_t crc;  /* checksum of these bytes */
};

struct trace_array {
    char name[64];
    enum trace_type type;
    unsigned n_dims;
    uint64_t dims[TRACE_MAX_DIMS];
    size_t strand, n_strands; /* the first of its strands */
    uint64_t n_bytes;
    uint64_t header_at, data_at; /* places in the file; header_at for .npz only */
};

struct trace_file {
    enum trace_format format;
    uint64_t zip32_max;           /* sizes and places above it are written as zip64 */
    struct trace_array *arrays;   /* stb_ds array */
    struct trace_strand *strands; /* stb_ds array */
    uint64_t size;                /* of the whole file, once planned */
    uint8_t *head;                /* safetensors: its header, n_head bytes */
    size_t n_head;
    uint8_t *buffer;
    struct crc_table crc; /* npz */
    struct outfile out;
};

/* Begins a file that has no arrays yet. trace_file_discard frees it in every case. */
void trace_file_new(struct trace_file *f, enum trace_format format);

/* Adds an array; its number is that of the calls before. n_strands divides dims[0], or is 1. */
int trace_file_add(struct trace_file *f, const char *name, enum trace_type type, unsigned n_dims,
                   const uint64_t *dims, size_t n_strands, mgpt_error *err);

/* Gives every array its place: f->size is known from here on. */
int trace_file_plan(struct trace_file *f, mgpt_error *err);

/* MGPT_OK when a trace may be written to path (files.h). */
int trace_file_may_write(const char *path, enum trace_format format, mgpt_error *err);

/* Opens the planned file and reserves all its room on the disk (outfile.h). */
int trace_file_open(struct trace_file *f, const char *path, mgpt_error *err);

/* Appends n numbers to a strand of an array of F32 or F16, or to an array of I64 or F64. Failures
 * to write are sticky: trace_file_failed tells, trace_file_commit reports. */
void trace_file_put(struct trace_file *f, size_t array, size_t strand, const float *values,
                    size_t n);
void trace_file_put_ids(struct trace_file *f, size_t array, const int32_t *ids, size_t n);
void trace_file_put_doubles(struct trace_file *f, size_t array, const double *values, size_t n);
int trace_file_failed(const struct trace_file *f);

/* When every strand is complete: headers, directory, and the file is in its place. */
int trace_file_commit(struct trace_file *f, mgpt_error *err);
void trace_file_discard(struct trace_file *f);

/* What a format does: places, what precedes the data (its checksum begins with that), what is
 * written at the end. trace_npz.c and trace_safetensors.c, for trace_file.c. */
int trace_npz_plan(struct trace_file *f, mgpt_error *err);
void trace_npz_begin(struct trace_file *f);
void trace_npz_end(struct trace_file *f);
int trace_safetensors_plan(struct trace_file *f, mgpt_error *err);
void trace_safetensors_begin(struct trace_file *f);

#endif
