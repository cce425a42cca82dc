/* References in .npz: a zip archive of .npy arrays, read through libzip.
 *
 * Sizes in an archive can lie, and a few bytes can inflate to many: what an entry's own header says
 * is compared with the vocabulary and with the size the archive gives before anything is allocated,
 * the ids are capped, and the logits are inflated one row at a time.
 */
#include "ck.h"
#include "error.h"
#include "mem.h"
#include "npz.h"
#include "reference_impl.h"

#include <stdlib.h>
#include <string.h>

/* Opens an entry of plain numbers and reads its header; NULL with *err. */
static zip_file_t *open_entry(zip_t *zip, const char *name, struct npy *npy, mgpt_error *err)
{
    zip_int64_t index = zip_name_locate(zip, name, 0); /* the caller has found it */
    zip_file_t *stream = npz_open(zip, (zip_uint64_t)index, npy, err);
    if (!stream || npy_plain(npy, err) == MGPT_OK)
        return stream;
    zip_fclose(stream);
    return NULL;
}

static int read_ids(struct reference *ref, zip_file_t *stream, const struct npy *npy,
                    const char *name, mgpt_error *err)
{
    uint8_t bytes[8];
    struct ref_item *item = reference_add_item(ref, err);
    unsigned n = npy->n_dims;
    if (!item)
        return MGPT_EMEM;
    if (npy->kind != 'i' || n < 1 || n > 2 || (n == 2 && npy->dims[0] != 1))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "npz entry %s: expected a list of <i4 or <i8", name);
    for (uint64_t i = 0; i < npy->dims[n - 1]; i++) {
        int status = npz_take(stream, bytes, npy->width, name, err);
        if (status == MGPT_OK)
            status = reference_add_id(ref, item, npy_integer(npy, bytes, 0), err);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

/* The entry of the ids goes by several names. */
static int find_ids(struct reference *ref, mgpt_error *err)
{
    static const char *const names[] = {"tokens.npy", "input_ids.npy", "input.npy", "ids.npy"};
    struct npy npy;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (zip_name_locate(ref->zip, names[i], 0) < 0)
            continue;
        zip_file_t *stream = open_entry(ref->zip, names[i], &npy, err);
        if (!stream)
            return MGPT_EFILE;
        int status = read_ids(ref, stream, &npy, names[i], err);
        zip_fclose(stream);
        return status;
    }
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "npz: no entry tokens.npy, input_ids.npy, input.npy or ids.npy");
}

static int open_logits(struct reference *ref, size_t *rows, mgpt_error *err)
{
    size_t bytes;
    if (zip_name_locate(ref->zip, "logits.npy", 0) < 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz: no entry logits.npy");
    ref->stream = open_entry(ref->zip, "logits.npy", &ref->logits, err);
    if (!ref->stream)
        return MGPT_EFILE;
    int status = reference_shape(ref, &ref->logits, rows, err);
    if (status < 0)
        return status;
    int fits = ck_bytes(ref->n_vocab, ref->logits.width, &bytes);
    ref->row = fits ? malloc(bytes) : NULL;
    return ref->row ? MGPT_OK : err_memory(err, "a row of logits", ref->n_vocab);
}

int reference_npz_open(struct reference *ref, mgpt_error *err)
{
    ref->zip = npz_archive(ref->file.data, ref->file.size, err);
    if (!ref->zip)
        return MGPT_EFILE;
    size_t rows;
    int status = open_logits(ref, &rows, err);
    if (status == MGPT_OK)
        status = find_ids(ref, err);
    return status < 0 ? status : reference_match(arr_len(ref->items[0].ids), rows, err);
}

int reference_npz_row(struct reference *ref, size_t row, double *out, mgpt_error *err)
{
    size_t n_bytes = ref->n_vocab * ref->logits.width; /* fitted when the row was allocated */
    if (row != ref->next)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "rows of an .npz are read in order");
    int status = npz_take(ref->stream, ref->row, n_bytes, "logits.npy", err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < ref->n_vocab; i++)
        out[i] = npy_real(&ref->logits, ref->row, i);
    ref->next++;
    return ref->next == arr_len(ref->items[0].ids) ? npz_end(ref->stream, "logits.npy", err)
                                                   : MGPT_OK;
}
