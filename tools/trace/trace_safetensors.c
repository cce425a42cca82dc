/* A safetensors file written in any order: its header is known before any number is. See
 * trace_file.h.
 *
 * The widest type comes first, so that every array is aligned to its elements.
 */
#include "trace/trace_file.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"
#include "common/json_read.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* {"dtype", "shape", "data_offsets"}; NULL when out of memory. */
static json_t *trace_safetensors_describe(const struct trace_array *a, uint64_t begin)
{
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", trace_kinds[a->type].safetensors, "shape",
                     json_shape(a->dims, a->n_dims), "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + a->n_bytes));
}

static json_t *describe_all(const struct trace_file *f)
{
    json_t *all =
        json_pack("{s:{s:s, s:s}}", "__metadata__", FILES_WRITTEN_BY, FILES_WRITER, "format", "pt");
    for (size_t i = 0; all && i < arr_len(f->arrays); i++) {
        const struct trace_array *a = &f->arrays[i];
        if (json_object_set_new(all, a->name, trace_safetensors_describe(a, a->data_at)) < 0) {
            json_decref(all);
            all = NULL;
        }
    }
    return all;
}

/* The header: its length in 8 bytes, and JSON with spaces after it up to a multiple of 8. */
static int make_head(struct trace_file *f)
{
    json_t *all = describe_all(f);
    size_t n = all ? json_dumpb(all, NULL, 0, JSON_COMPACT) : 0;
    size_t padded = (n + 7) / 8 * 8;
    f->n_head = LENGTH_BYTES + padded;
    int written = 0;
    f->head = n ? malloc(f->n_head) : NULL;
    if (f->head) {
        for (size_t i = 0; i < LENGTH_BYTES; i++)
            f->head[i] = (uint8_t)((uint64_t)padded >> 8 * i);
        memset(f->head + LENGTH_BYTES, ' ', padded);
        /* It allocates to look for loops, so the second time may fail where the first did not. */
        written = json_dumpb(all, (char *)f->head + LENGTH_BYTES, n, JSON_COMPACT) == n &&
                  !json_has_lost();
    }
    json_decref(all);
    return written;
}

/* The places in the data, for the header, then those in the file, after the header. */
int trace_safetensors_plan(struct trace_file *f, mgpt_error *err)
{
    uint64_t at = 0;
    for (int type = 0; type < TRACE_N_TYPES; type++)
        for (size_t i = 0; i < arr_len(f->arrays); i++) {
            struct trace_array *a = &f->arrays[i];
            if ((int)a->type != type)
                continue;
            a->data_at = at;
            if (!ck_add(at, a->n_bytes, &at) || at > INT64_MAX)
                return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET,
                               "the trace is too large for any file");
        }
    if (!make_head(f))
        return err_memory(err, "the header of the trace", arr_len(f->arrays) * 128);
    for (size_t i = 0; i < arr_len(f->arrays); i++)
        f->arrays[i].data_at += f->n_head;
    f->size = f->n_head + at;
    return MGPT_OK;
}

void trace_safetensors_begin(struct trace_file *f)
{
    outfile_put(&f->out, 0, f->head, f->n_head);
}
