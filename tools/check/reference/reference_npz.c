/* References in .npz: a zip archive of .npy arrays, read through libzip.
 *
 * Sizes in an archive can be false, and a few bytes can inflate to many: what an entry's own header
 * says is compared with its expected shape and with the size the archive gives before anything is
 * allocated, and data are inflated piece by piece.
 *
 * A stored entry can be read anywhere. A deflated one is a stream: to skip forward is to inflate
 * what is skipped, to go back is to inflate from the beginning.
 */
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "convert/containers/npz.h"

#include <stdlib.h>
#include <string.h>

/* ---- entries ---- */

void reference_entry_close(struct ref_array *a)
{
    if (a->stream)
        zip_fclose(a->stream);
    a->stream = NULL;
}

static int open_stream(struct reference *ref, struct ref_array *a, mgpt_error *err)
{
    struct npy npy; /* as it was read before: the archive is open all the time */
    reference_entry_close(a);
    a->stream = npz_open(ref->zip, (zip_uint64_t)a->entry, &npy, err);
    a->at = 0;
    return a->stream ? MGPT_OK : npz_status(err);
}

static int skip_to(struct ref_array *a, uint64_t at, mgpt_error *err)
{
    uint8_t waste[REF_PIECE];
    if (a->at != at && a->seekable) {
        a->at = at;
        if (zip_fseek(a->stream, (zip_int64_t)(a->npy.header + at), SEEK_SET) == 0)
            return MGPT_OK;
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz entry %.60s: %s", a->name,
                       zip_file_strerror(a->stream));
    }
    int status = MGPT_OK;
    while (a->at < at && status == MGPT_OK) {
        size_t n = at - a->at < sizeof waste ? (size_t)(at - a->at) : sizeof waste;
        status = npz_take(a->stream, waste, n, a->name, err);
        a->at += n;
    }
    return status;
}

int reference_entry_bytes(struct reference *ref, struct ref_array *a, uint64_t at, size_t n,
                          void *to, mgpt_error *err)
{
    int status = MGPT_OK;
    if (!a->stream || (at < a->at && !a->seekable))
        status = open_stream(ref, a, err);
    if (status == MGPT_OK)
        status = skip_to(a, at, err);
    if (status == MGPT_OK)
        status = npz_take(a->stream, to, n, a->name, err);
    a->at += n;
    if (status == MGPT_OK && a->at == a->npy.n_bytes)
        status = npz_end(a->stream, a->name, err);
    if (status < 0)
        reference_entry_close(a);
    return status;
}

int ref_array_check(struct reference *ref, struct ref_array *a, mgpt_error *err)
{
    uint8_t bytes[REF_PIECE];
    int status = MGPT_OK;
    for (uint64_t at = 0; at < a->npy.n_bytes && status == MGPT_OK; at += REF_PIECE) {
        uint64_t left = a->npy.n_bytes - at;
        status = reference_entry_bytes(ref, a, at, left < REF_PIECE ? (size_t)left : REF_PIECE,
                                       bytes, err);
    }
    return status;
}

/* ---- the archive ---- */

/* The name without .npy, malloc'ed: *known says whether we want it. NULL when out of memory. */
static char *array_name(const char *entry, int *known)
{
    size_t n = strlen(entry);
    char *name = calloc(1, n + 1);
    *known = n > 4 && strcmp(entry + n - 4, ".npy") == 0;
    if (name && *known) {
        memcpy(name, entry, n - 4);
        *known = ref_name_known(name);
    }
    return name;
}

/* Reads the header of entry i. */
static int reference_npz_describe(zip_t *zip, zip_uint64_t i, struct ref_array *a, mgpt_error *err)
{
    zip_stat_t st;
    a->entry = (zip_int64_t)i;
    a->stream = npz_open(zip, i, &a->npy, err);
    int status = a->stream ? reference_npy_type(&a->npy, err) : npz_status(err);
    if (status == MGPT_OK)
        a->seekable = zip_stat_index(zip, i, 0, &st) == 0 && (st.valid & ZIP_STAT_COMP_METHOD) &&
                      st.comp_method == ZIP_CM_STORE;
    if (a->stream)
        zip_fclose(a->stream);
    a->stream = NULL;
    return status;
}

static int reference_npz_add_entry(struct reference *ref, struct ref_named *named, zip_uint64_t i,
                                   mgpt_error *err)
{
    const char *entry = zip_get_name(ref->zip, i, ZIP_FL_ENC_RAW);
    int known;
    if (!entry)
        return MGPT_OK; /* deleted */
    struct ref_array a = {.name = array_name(entry, &known)};
    if (!a.name)
        return err_memory(err, "a name", strlen(entry));
    int status = known ? reference_npz_describe(ref->zip, i, &a, err) : MGPT_OK;
    if (known && status == MGPT_OK)
        return ref_named_add(named, &a, err);
    ref_array_close(&a);
    return status;
}

void reference_npz_close(struct reference *ref)
{
    if (ref->zip)
        zip_discard(ref->zip);
    ref->zip = NULL;
}

int reference_npz_open(struct reference *ref, mgpt_error *err)
{
    struct ref_named named = {0};
    ref->zip = npz_archive_file(ref->path, err);
    if (!ref->zip)
        return npz_status(err);
    int status = MGPT_OK;
    zip_int64_t n = zip_get_num_entries(ref->zip, 0);
    for (zip_int64_t i = 0; i < n && status == MGPT_OK; i++)
        status = reference_npz_add_entry(ref, &named, (zip_uint64_t)i, err);
    if (status == MGPT_OK)
        status = ref_named_use(ref, &named, err);
    else
        ref_named_free(&named);
    return status < 0 ? status : ref_array_check(ref, &ref->logits, err);
}
