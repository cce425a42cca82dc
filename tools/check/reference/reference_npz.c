/* References in .npz: a zip archive of .npy arrays, read through libzip.
 *
 * Sizes in an archive can be false, and a few bytes can inflate to many: what an entry's own header
 * says is compared with its expected shape and with the size the archive gives before anything is
 * allocated, and data are inflated piece by piece.
 */
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "convert/containers/npz.h"

#include <stdlib.h>
#include <string.h>

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
