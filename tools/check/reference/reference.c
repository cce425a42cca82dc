/* References: the table of formats, what they have in common, and .npy. See reference.h. */
#include "check/reference/reference.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared by the readers ---- */

struct ref_item *reference_add_item(struct reference *ref, mgpt_error *err)
{
    struct ref_item item = {0};
    if (!arr_push(ref->items, item)) {
        err_memory(err, "a sequence", sizeof item);
        return NULL;
    }
    return &ref->items[arr_len(ref->items) - 1];
}

int reference_add_id(const struct reference *ref, struct ref_item *item, int64_t id,
                     mgpt_error *err)
{
    size_t n = arr_len(item->ids);
    char number[24];
    if (id < 0 || (uint64_t)id >= ref->n_vocab) {
        snprintf(number, sizeof number, "%lld", (long long)id);
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "token %zu is %s, the model has ids 0 to %zu", n, number, ref->n_vocab - 1);
    }
    if (n == REF_MAX_TOKENS)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "more than %d tokens", (int)REF_MAX_TOKENS);
    if (!arr_push(item->ids, (int32_t)id))
        return err_memory(err, "the tokens", n);
    return MGPT_OK;
}

int reference_match(struct ref_item *item, size_t n_rows, mgpt_error *err)
{
    size_t n_ids = arr_len(item->ids);
    if (n_ids == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no tokens");
    if (n_ids != n_rows && n_rows != 1)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%zu tokens, but %zu rows of logits", n_ids,
                       n_rows);
    item->skipped = n_ids - n_rows;
    return MGPT_OK;
}

const char *reference_shape_text(const struct ref_array *a, char *buf, size_t cap)
{
    size_t used = text_format(buf, cap, "%.60s: shape [", a->name ? a->name : "logits");
    for (unsigned i = 0; i < a->npy.n_dims; i++)
        used += text_format(buf + used, cap - used, "%s%llu", i > 0 ? ", " : "",
                            (unsigned long long)a->npy.dims[i]);
    text_format(buf + used, cap - used, "]");
    return buf;
}

/* Appends the ids from outside. */
static int add_given_ids(const struct reference *ref, struct ref_item *item, mgpt_error *err)
{
    const struct ref_options *o = &ref->options;
    int status = MGPT_OK;
    if (!o->ids)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "the reference has no tokens: give them with --ids or -p");
    for (size_t i = 0; i < o->n_ids && status == MGPT_OK; i++)
        status = reference_add_id(ref, item, o->ids[i], err);
    return status;
}

int reference_add_only(struct reference *ref, struct ref_array *tokens, size_t n_rows,
                       mgpt_error *err)
{
    struct ref_item *item = reference_add_item(ref, err);
    if (!item)
        return MGPT_EMEM;
    int status = tokens ? ref_array_ids(ref, tokens, item, err) : add_given_ids(ref, item, err);
    return status < 0 ? status : reference_match(item, n_rows, err);
}

int reference_add_generated(struct reference *ref, struct ref_array *tokens, size_t n_rows,
                            mgpt_error *err)
{
    struct ref_item *item = reference_add_item(ref, err);
    if (!item)
        return MGPT_EMEM;
    int status = ref_array_ids(ref, tokens, item, err);
    size_t n = arr_len(item->ids);
    if (status == MGPT_OK && n_rows > n)
        status =
            err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                    "%zu tokens in sequences, but %zu rows of logits, expected fewer", n, n_rows);
    if (status < 0 || n_rows == n) /* the same number: a pass over all of them */
        return status;
    arr_set_len(item->ids, n - 1); /* the last token was drawn and not run */
    item->skipped = n - 1 - n_rows;
    return MGPT_OK;
}

int reference_add_texts(struct reference *ref, size_t n, size_t n_ids, uint64_t offset, size_t rows,
                        mgpt_error *err)
{
    struct ref_array ids = {.offset = offset};
    ids.npy = (struct npy){.kind = 'i', .width = 4, .n_dims = 1, .dims = {n_ids}};
    int status = MGPT_OK;
    for (size_t i = 0; i < n && status == MGPT_OK; i++, ids.offset += 4 * (uint64_t)n_ids) {
        struct ref_item *item = reference_add_item(ref, err);
        if (!item)
            return MGPT_EMEM;
        item->first_row = i * rows;
        status = ref_array_ids(ref, &ids, item, err);
    }
    return status;
}

int reference_shape(const struct reference *ref, const struct ref_array *logits, size_t *rows,
                    mgpt_error *err)
{
    const uint64_t *dims = logits->npy.dims;
    unsigned n = logits->npy.n_dims;
    char shape[160];
    if (!ref_array_is_real(logits))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "logits are integers, expected floats");
    if (n == 3 && dims[0] == 1) {
        dims++;
        n--;
    }
    int transposed = n == 2 && dims[0] == ref->n_vocab && dims[1] != ref->n_vocab;
    if (n < 1 || n > 2 || transposed)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%s, expected [tokens, %zu] of one text%s",
                       reference_shape_text(logits, shape, sizeof shape), ref->n_vocab,
                       transposed ? ": transposed" : "");
    if (dims[n - 1] != ref->n_vocab)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%llu logits a row, the model has %zu",
                       (unsigned long long)dims[n - 1], ref->n_vocab);
    uint64_t n_rows = n == 2 ? dims[0] : 1;
    if (n_rows > REF_MAX_TOKENS)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%llu rows of logits, the limit is %d",
                       (unsigned long long)n_rows, (int)REF_MAX_TOKENS);
    *rows = (size_t)n_rows;
    return MGPT_OK;
}

int reference_npy_open(struct reference *ref, mgpt_error *err)
{
    struct ref_array *a = &ref->logits;
    size_t head = ref->file.size < NPY_MAX_HEADER ? ref->file.size : NPY_MAX_HEADER, rows;
    int status = npy_header(&a->npy, ref->file.data, head, err);
    if (status == MGPT_OK)
        status = reference_npy_type(&a->npy, err);
    if (status == MGPT_OK)
        status = reference_shape(ref, a, &rows, err);
    if (status < 0)
        return status;
    a->offset = a->npy.header;
    if (a->npy.n_bytes != ref->file.size - a->offset)
        return err_set(err, MGPT_EFILE, a->offset, "%zu bytes of data, the header says %llu",
                       ref->file.size - (size_t)a->offset, (unsigned long long)a->npy.n_bytes);
    return reference_add_only(ref, NULL, rows, err);
}

/* ---- formats ---- */

static int is_raw(const struct reference *ref)
{
    return ref->options.shape_rows > 0;
}

/* Nothing but float32 for the tokens that are given, or for the last of them. */
static int is_logits(const struct reference *ref)
{
    const uint64_t row = 4 * (uint64_t)ref->n_vocab;
    return ref->options.ids &&
           (ref->file.size == row || ref->file.size == row * ref->options.n_ids);
}

/* Whether the first thing in what has been loaded is a bracket. */
static int is_json(const struct reference *ref)
{
    const uint8_t *data = ref->file.data;
    size_t at = 0, n = ref->file.size < NPY_MAX_HEADER ? ref->file.size : NPY_MAX_HEADER;
    while (at < n && strchr(" \t\r\n", data[at]) && data[at])
        at++;
    return at < n && (data[at] == '{' || data[at] == '[');
}

struct ref_format {
    const char *magic; /* first bytes; NULL: `is` says */
    int (*is)(const struct reference *ref);
    ref_open_fn *open;
    ref_row_fn *row;
    int has_tokens; /* always: none may be given */
};

static const struct ref_format formats[] = {
    {NULL, is_raw, reference_raw_open, reference_array_row, 0},
    {"\x93NUMPY", NULL, reference_npy_open, reference_array_row, 0},
    {NULL, reference_is_torch, reference_torch_open, reference_array_row, 0},
    {"PK\3\4", NULL, reference_npz_open, reference_array_row, 0},
    {"PK\5\6", NULL, reference_npz_open, reference_array_row, 0},
    {NULL, reference_is_st, reference_st_open, reference_array_row, 0},
    {"_logits_", NULL, reference_kld_open, reference_kld_row, 1},
    {"\xc7\xd7\x34\x01", NULL, reference_llmc_open, reference_array_row, 1}, /* 20240327 */
    {NULL, is_logits, reference_raw_open, reference_array_row, 0},
    {NULL, is_json, reference_json_open, reference_json_row, 0},
};

static int is_format(const struct reference *ref, const struct ref_format *f)
{
    size_t n = f->magic ? strlen(f->magic) : 0;
    return f->magic ? ref->file.size >= n && memcmp(ref->file.data, f->magic, n) == 0 : f->is(ref);
}

static int open_by_content(struct reference *ref, mgpt_error *err)
{
    const struct ref_format *f = formats, *end = formats + sizeof formats / sizeof *formats;
    while (f < end && !is_format(ref, f))
        f++;
    if (f == end)
        return err_set(err, MGPT_EFILE, 0,
                       "not a reference: expected .npz, .npy, .safetensors, JSON, .pt or those of "
                       "llama.cpp and "
                       "llm.c (--shape for raw floats)");
    ref->format = f;
    if (f->has_tokens && ref->options.ids)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "the reference has tokens of its own");
    return f->open(ref, err);
}

/* ---- the public functions ---- */

struct reference *reference_open(const char *path, const struct ref_options *options,
                                 mgpt_error *err)
{
    struct reference *ref = calloc(1, sizeof *ref);
    if (!ref || options->n_vocab < 1) {
        err_memory(err, "the reference", sizeof *ref);
        free(ref);
        return NULL;
    }
    ref->n_vocab = (size_t)options->n_vocab;
    ref->options = *options;
    if (files_open_partly(&ref->file, path, NPY_MAX_HEADER, err) < 0 ||
        open_by_content(ref, err) < 0) {
        reference_close(ref);
        return NULL;
    }
    return ref;
}

void reference_close(struct reference *ref)
{
    if (!ref)
        return;
    for (size_t i = 0; i < arr_len(ref->items); i++) {
        arr_free(ref->items[i].ids);
        arr_free(ref->items[i].entries);
    }
    arr_free(ref->items);
    for (size_t i = 0; i < arr_len(ref->json); i++)
        jval_free(ref->json[i]);
    arr_free(ref->json);
    arr_free(ref->some);
    free(ref->seen);
    free(ref->pieces);
    ref_array_close(&ref->logits);
    for (size_t i = 0; i < arr_len(ref->hooks); i++)
        ref_array_close(&ref->hooks[i]);
    arr_free(ref->hooks);
    reference_npz_close(ref);
    free(ref->cache);
    file_close(&ref->file);
    free(ref);
}

size_t reference_count(const struct reference *ref)
{
    return arr_len(ref->items);
}

struct ref_sequence reference_sequence(const struct reference *ref, size_t i)
{
    const struct ref_item *item = &ref->items[i];
    return (struct ref_sequence){item->label, item->ids, arr_len(item->ids)};
}

/* Keeps the finite values of a row that has -inf next to them: a filter (top-k, suppressed tokens)
 * leaves others there. A row with NaN or +inf stays as it is. */
static int leave_out_masked(struct reference *ref, double *out, mgpt_error *err)
{
    size_t n = ref->about.n, n_masked = 0, kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(out[i]) || out[i] > DBL_MAX)
            return MGPT_OK;
        n_masked += out[i] < -DBL_MAX;
    }
    if (n_masked == 0 || n_masked == n)
        return MGPT_OK;
    if (!arr_reserve(ref->some, n - n_masked))
        return err_memory(err, "the tokens of a row", (n - n_masked) * sizeof *ref->some);
    arr_set_len(ref->some, n - n_masked);
    for (size_t i = 0; i < n; i++)
        if (out[i] >= -DBL_MAX) {
            ref->some[kept] = (int32_t)i;
            out[kept++] = out[i];
        }
    ref->about.n = kept;
    ref->about.ids = ref->some;
    ref->about.masked = n_masked;
    return MGPT_OK;
}

int reference_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    const size_t skipped = ref->items[i].skipped;
    ref->about = (struct ref_row){.n = row < skipped ? 0 : ref->n_vocab};
    if (row < skipped)
        return MGPT_OK;
    int status = ref->format->row(ref, i, row - skipped, out, err);
    int is_whole = !ref->about.ids && !ref->about.logprobs;
    return status == MGPT_OK && is_whole ? leave_out_masked(ref, out, err) : status;
}

struct ref_row reference_about(const struct reference *ref)
{
    return ref->about;
}

const char *reference_unread(const struct reference *ref)
{
    return ref->unread;
}
