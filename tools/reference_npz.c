/* References in .npz: a zip archive of .npy arrays, read through libzip.
 *
 * Sizes in an archive can lie, and a few bytes can inflate to many: what an entry's own header says
 * is compared with the vocabulary and with the size the archive gives before anything is allocated,
 * the ids are capped, and the logits are inflated one row at a time.
 */
#include "ck.h"
#include "error.h"
#include "mem.h"
#include "reference_impl.h"

#include <stdlib.h>
#include <string.h>

/* Exactly n bytes from an entry. */
static int take(zip_file_t *stream, void *to, size_t n, const char *name, mgpt_error *err)
{
    uint8_t *at = to;
    while (n > 0) {
        zip_int64_t got = zip_fread(stream, at, n);
        if (got < 0)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz entry %s: %s", name,
                           zip_file_strerror(stream));
        if (got == 0)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "npz entry %s: ends %zu bytes before its size", name, n);
        at += got;
        n -= (size_t)got;
    }
    return MGPT_OK;
}

/* The header of an entry, which is read up to the first byte of the data: first the part that tells
 * the length of the rest. */
static int take_header(zip_file_t *stream, const char *name, struct npy *npy, mgpt_error *err)
{
    uint8_t bytes[NPY_MAX_HEADER];
    int status = take(stream, bytes, 10, name, err);
    if (status < 0)
        return status;
    int wide = bytes[6] > 1; /* from version 2 on the length has four bytes */
    if (wide && (status = take(stream, bytes + 10, 2, name, err)) < 0)
        return status;
    size_t begin = wide ? 12 : 10;
    uint64_t length = (uint64_t)bytes[8] | (uint64_t)bytes[9] << 8;
    if (wide)
        length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (memcmp(bytes, "\x93NUMPY", 6) != 0 || length > sizeof bytes - begin)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "npz entry %s: not a .npy array with a header under %d bytes", name,
                       (int)NPY_MAX_HEADER);
    status = take(stream, bytes + begin, (size_t)length, name, err);
    return status < 0 ? status : npy_parse(npy, bytes, begin + (size_t)length, err);
}

/* Opens an entry and reads its header; NULL with *err. */
static zip_file_t *open_entry(zip_t *zip, const char *name, struct npy *npy, mgpt_error *err)
{
    zip_stat_t st;
    if (zip_stat(zip, name, 0, &st) < 0 || !(st.valid & ZIP_STAT_SIZE)) {
        err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz entry %s: no size", name);
        return NULL;
    }
    zip_file_t *stream = zip_fopen(zip, name, 0);
    if (!stream) {
        err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz entry %s: %s", name, zip_strerror(zip));
        return NULL;
    }
    uint64_t size;
    if (take_header(stream, name, npy, err) == MGPT_OK) {
        if (ck_add(npy->header, npy->n_bytes, &size) && size == st.size)
            return stream;
        err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                "npz entry %s: %llu bytes, its header says %llu and %llu of data", name,
                (unsigned long long)st.size, (unsigned long long)npy->header,
                (unsigned long long)npy->n_bytes);
    }
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
        int status = take(stream, bytes, npy->width, name, err);
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
    zip_error_t failed;
    zip_error_init(&failed);
    zip_source_t *source = zip_source_buffer_create(ref->file.data, ref->file.size, 0, &failed);
    if (source)
        ref->zip = zip_open_from_source(source, ZIP_RDONLY, &failed);
    if (!ref->zip) {
        err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz: %s", zip_error_strerror(&failed));
        zip_source_free(source);
        zip_error_fini(&failed);
        return MGPT_EFILE;
    }
    zip_error_fini(&failed);
    size_t rows;
    int status = open_logits(ref, &rows, err);
    if (status == MGPT_OK)
        status = find_ids(ref, err);
    return status < 0 ? status : reference_match(arr_len(ref->items[0].ids), rows, err);
}

/* Behind the last byte libzip compares the checksum: one more read makes it do so. */
static int check_end(struct reference *ref, mgpt_error *err)
{
    uint8_t more;
    if (zip_fread(ref->stream, &more, 1) == 0)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz entry logits.npy: bad checksum or end");
}

int reference_npz_row(struct reference *ref, size_t row, double *out, mgpt_error *err)
{
    size_t n_bytes = ref->n_vocab * ref->logits.width; /* fitted when the row was allocated */
    if (row != ref->next)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "rows of an .npz are read in order");
    int status = take(ref->stream, ref->row, n_bytes, "logits.npy", err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < ref->n_vocab; i++)
        out[i] = npy_real(&ref->logits, ref->row, i);
    ref->next++;
    return ref->next == arr_len(ref->items[0].ids) ? check_end(ref, err) : MGPT_OK;
}
