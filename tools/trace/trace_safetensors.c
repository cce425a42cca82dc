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
#include "common/jtext.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* {name: {"dtype", "shape", "data_offsets"}} */
static struct jtext *describe_all(const struct trace_file *f)
{
    struct jtext *all =
        jtext("{s:{s:s, s:s}}", "__metadata__", FILES_WRITTEN_BY, FILES_WRITER, "format", "pt");
    for (size_t i = 0; i < arr_len(f->arrays); i++) {
        const struct trace_array *a = &f->arrays[i];
        jtext_add(all, "s:{s:s, s:o, s:[I, I]}", a->name, "dtype", trace_kinds[a->type].safetensors,
                  "shape", jtext_shape(a->dims, a->n_dims), "data_offsets", (int64_t)a->data_at,
                  (int64_t)(a->data_at + a->n_bytes));
    }
    return all;
}

/* The header: its length in 8 bytes, and JSON with spaces after it up to a multiple of 8. */
static int make_head(struct trace_file *f)
{
    size_t n = 0;
    struct jtext *all = describe_all(f);
    const char *json = jtext_end(all, 0, &n);
    size_t padded = (n + 7) / 8 * 8;
    f->n_head = LENGTH_BYTES + padded;
    f->head = json ? malloc(f->n_head) : NULL;
    if (f->head) {
        for (size_t i = 0; i < LENGTH_BYTES; i++)
            f->head[i] = (uint8_t)((uint64_t)padded >> 8 * i);
        memset(f->head + LENGTH_BYTES, ' ', padded);
        memcpy(f->head + LENGTH_BYTES, json, n);
    }
    jtext_free(all);
    return f->head != NULL;
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
