/* The part of a trace file that both formats share: arrays, strands, numbers to bytes. See
 * trace_file.h.
 *
 * No library that we have writes an archive in any other order than entry
 * after entry from complete sources. A trace comes a few rows of every entry at a time, so the
 * frame of an archive, which is a few fixed records, is written here (trace_npz.c); checksums are
 * joined from those of strands, without reading the file again.
 */
#include "trace/trace_file.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"
#include "dtype/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_VALUES = 1 << 15 };

const struct trace_kind trace_kinds[] = {
    [TRACE_I64] = {"<i8", "I64", 8},
    [TRACE_F32] = {"<f4", "F32", 4},
    [TRACE_F16] = {"<f2", "F16", 2},
    [TRACE_F64] = {"<f8", "F64", 8},
};
_Static_assert(sizeof trace_kinds / sizeof *trace_kinds == TRACE_N_TYPES, "a row each");

void trace_file_new(struct trace_file *f, enum trace_format format)
{
    *f = (struct trace_file){.format = format, .zip32_max = UINT32_MAX - 1};
}

int trace_file_add(struct trace_file *f, const char *name, enum trace_type type, unsigned n_dims,
                   const uint64_t *dims, size_t n_strands, mgpt_error *err)
{
    struct trace_array array = {.type = type, .n_dims = n_dims, .n_strands = n_strands};
    text_format(array.name, sizeof array.name, "%s", name);
    array.n_bytes = trace_kinds[type].width;
    for (unsigned i = 0; i < n_dims; i++) {
        array.dims[i] = dims[i];
        if (!ck_mul(array.n_bytes, dims[i], &array.n_bytes))
            return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "%s is too large for any file", name);
    }
    array.strand = arr_len(f->strands);
    if (!arr_push(f->arrays, array) || !arr_reserve(f->strands, array.strand + n_strands))
        return err_memory(err, "the plan of the trace", sizeof array);
    for (size_t i = 0; i < n_strands; i++)
        arr_put(f->strands, (struct trace_strand){0});
    return MGPT_OK;
}

int trace_file_plan(struct trace_file *f, mgpt_error *err)
{
    return f->format == TRACE_NPZ ? trace_npz_plan(f, err) : trace_safetensors_plan(f, err);
}

int trace_file_may_write(const char *path, enum trace_format format, mgpt_error *err)
{
    return files_may_write(path, format == TRACE_NPZ ? FILES_NPZ : FILES_SAFETENSORS, err);
}

int trace_file_open(struct trace_file *f, const char *path, mgpt_error *err)
{
    f->buffer = malloc((size_t)BUFFER_VALUES * 8);
    if (!f->buffer)
        return err_memory(err, "an output buffer", (size_t)BUFFER_VALUES * 8);
    crc_table_fill(&f->crc);
    int status = trace_file_may_write(path, f->format, err);
    if (status == MGPT_OK)
        status = outfile_open(&f->out, path, err);
    if (status == MGPT_OK)
        status = outfile_reserve(&f->out, f->size, err);
    if (status < 0)
        return status;
    if (f->format == TRACE_NPZ)
        trace_npz_begin(f);
    else
        trace_safetensors_begin(f);
    return MGPT_OK;
}

/* Appends the buffer's first n bytes to a strand. */
static void trace_file_append(struct trace_file *f, const struct trace_array *a, size_t strand,
                              size_t n)
{
    struct trace_strand *s = &f->strands[a->strand + strand];
    uint64_t begin = a->data_at + a->n_bytes / a->n_strands * strand;
    outfile_put(&f->out, begin + s->done, f->buffer, n);
    if (f->format == TRACE_NPZ)
        s->crc = crc_append(&f->crc, s->crc, f->buffer, n);
    s->done += n;
}

void trace_file_put(struct trace_file *f, size_t array, size_t strand, const float *values,
                    size_t n)
{
    const struct trace_array *a = &f->arrays[array];
    const struct dtype *type = dtype_find(a->type == TRACE_F16 ? DTYPE_F16 : DTYPE_F32);
    for (size_t some; n > 0; values += some, n -= some) {
        some = n < BUFFER_VALUES ? n : BUFFER_VALUES;
        type->from_float(values, f->buffer, some);
        trace_file_append(f, a, strand, some * type->block_bytes);
    }
}

/* 8 bytes, the lowest first. */
static void store_u64(uint8_t *to, uint64_t value)
{
    for (size_t i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> i * 8);
}

void trace_file_put_ids(struct trace_file *f, size_t array, const int32_t *ids, size_t n)
{
    for (size_t some; n > 0; ids += some, n -= some) {
        some = n < BUFFER_VALUES ? n : BUFFER_VALUES;
        for (size_t i = 0; i < some; i++)
            store_u64(f->buffer + i * 8, (uint64_t)(int64_t)ids[i]);
        trace_file_append(f, &f->arrays[array], 0, some * 8);
    }
}

void trace_file_put_doubles(struct trace_file *f, size_t array, const double *values, size_t n)
{
    for (size_t some; n > 0; values += some, n -= some) {
        some = n < BUFFER_VALUES ? n : BUFFER_VALUES;
        for (size_t i = 0; i < some; i++) {
            uint64_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            store_u64(f->buffer + i * 8, bits);
        }
        trace_file_append(f, &f->arrays[array], 0, some * 8);
    }
}

int trace_file_failed(const struct trace_file *f)
{
    return f->out.failed.status < 0;
}

int trace_file_commit(struct trace_file *f, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(f->arrays) && !trace_file_failed(f); i++) {
        const struct trace_array *a = &f->arrays[i];
        for (size_t s = 0; s < a->n_strands; s++)
            if (f->strands[a->strand + s].done != a->n_bytes / a->n_strands)
                return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%s is not complete", a->name);
    }
    if (f->format == TRACE_NPZ && !trace_file_failed(f))
        trace_npz_end(f);
    return outfile_commit(&f->out, err);
}

void trace_file_discard(struct trace_file *f)
{
    outfile_discard(&f->out);
    arr_free(f->arrays);
    arr_free(f->strands);
    free(f->head);
    free(f->buffer);
    *f = (struct trace_file){0};
}
