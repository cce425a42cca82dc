/* References: which kind of file it is, what all kinds have in common, and .npy. See reference.h;
 * JSON and .npz have files of their own. */
#include "reference.h"

#include "error.h"
#include "mem.h"
#include "reference_impl.h"
#include "text.h"

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

int reference_match(size_t n_ids, size_t n_rows, mgpt_error *err)
{
    if (n_ids == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no tokens");
    if (n_ids != n_rows)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%zu tokens, but %zu rows of logits", n_ids,
                       n_rows);
    return MGPT_OK;
}

int reference_shape(const struct reference *ref, const struct npy *npy, size_t *rows,
                    mgpt_error *err)
{
    const uint64_t *dims = npy->dims;
    unsigned n = npy->n_dims;
    if (n == 3 && dims[0] == 1) {
        dims++;
        n--;
    }
    if (npy->kind != 'f')
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "logits are integers, expected f2, f4 or f8");
    if (n < 1 || n > 2)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "logits of rank %u, expected [tokens, vocabulary]", npy->n_dims);
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

/* ---- .npy ---- */

static int read_list(struct reference *ref, struct ref_item *item, const char *ids, mgpt_error *err)
{
    const char *at = ids;
    int32_t id;
    int got, status = MGPT_OK;
    while (status == MGPT_OK && (got = text_next_id(&at, &id)) != 0)
        status = got > 0 ? reference_add_id(ref, item, id, err)
                         : err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                                   "--ids: expected a number at byte %zu", (size_t)(at - ids));
    return status;
}

static int open_npy(struct reference *ref, const char *ids, mgpt_error *err)
{
    struct npy *npy = &ref->logits;
    const uint8_t *data = ref->file.data;
    size_t head = ref->file.size < NPY_MAX_HEADER ? ref->file.size : NPY_MAX_HEADER, rows;
    if (!ids)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "a .npy file has no tokens: give them with --ids");
    int status = npy_parse(npy, data, head, err);
    if (status == MGPT_OK)
        status = reference_shape(ref, npy, &rows, err);
    if (status < 0)
        return status;
    if (npy->n_bytes != ref->file.size - npy->header)
        return err_set(err, MGPT_EFILE, npy->header, "%zu bytes of data, the header says %llu",
                       ref->file.size - npy->header, (unsigned long long)npy->n_bytes);
    ref->rows = data + npy->header;
    struct ref_item *item = reference_add_item(ref, err);
    if (!item)
        return MGPT_EMEM;
    status = read_list(ref, item, ids, err);
    return status < 0 ? status : reference_match(arr_len(item->ids), rows, err);
}

static void npy_row(const struct reference *ref, size_t row, double *out)
{
    for (size_t i = 0; i < ref->n_vocab; i++)
        out[i] = npy_real(&ref->logits, ref->rows, row * ref->n_vocab + i);
}

/* ---- the public functions ---- */

static int open_by_content(struct reference *ref, const char *ids, mgpt_error *err)
{
    const uint8_t *data = ref->file.data;
    size_t n = ref->file.size;
    if (n >= 6 && memcmp(data, "\x93NUMPY", 6) == 0)
        return open_npy(ref, ids, err);
    if (ids)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "--ids is for .npy files, this one has its own tokens");
    if (n >= 4 && (memcmp(data, "PK\3\4", 4) == 0 || memcmp(data, "PK\5\6", 4) == 0))
        return reference_npz_open(ref, err);
    size_t at = 0;
    while (at < n && strchr(" \t\r\n", data[at]) && data[at])
        at++;
    if (at < n && (data[at] == '{' || data[at] == '['))
        return reference_json_open(ref, err);
    return err_set(err, MGPT_EFILE, 0, "not a reference: expected .npz, .npy or JSON");
}

struct reference *reference_open(const char *path, const char *ids, int32_t n_vocab,
                                 mgpt_error *err)
{
    struct reference *ref = calloc(1, sizeof *ref);
    if (!ref || n_vocab < 1) {
        err_memory(err, "the reference", sizeof *ref);
        free(ref);
        return NULL;
    }
    ref->n_vocab = (size_t)n_vocab;
    if (file_open(&ref->file, path, err) < 0 || open_by_content(ref, ids, err) < 0) {
        reference_close(ref);
        return NULL;
    }
    return ref;
}

void reference_close(struct reference *ref)
{
    if (!ref)
        return;
    for (size_t i = 0; i < arr_len(ref->items); i++)
        arr_free(ref->items[i].ids);
    arr_free(ref->items);
    json_decref(ref->json);
    if (ref->stream)
        zip_fclose(ref->stream);
    if (ref->zip)
        zip_discard(ref->zip);
    free(ref->row);
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

int reference_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    if (ref->json)
        return reference_json_row(ref, i, row, out, err);
    if (ref->zip)
        return reference_npz_row(ref, row, out, err);
    npy_row(ref, row, out);
    return MGPT_OK;
}
