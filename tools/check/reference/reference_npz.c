/* References in .npz: a zip archive of .npy arrays, stored or deflated.
 *
 * Sizes in an archive can be false, and a few bytes can inflate to many: what an entry's own header
 * says is compared with its expected shape and with the size the archive gives before anything is
 * allocated, and data are inflated piece by piece (convert/containers/zip_dir.h).
 *
 * The file is loaded whole, unless it is mapped.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "convert/containers/zip_dir.h"

#include <stdlib.h>
#include <string.h>

/* ---- entries ---- */

void reference_entry_close(struct ref_array *a)
{
    zip_stream_close(a->stream);
    a->stream = NULL;
}

int reference_entry_bytes(struct ref_array *a, uint64_t at, size_t n, void *to, mgpt_error *err)
{
    if (!a->stream)
        a->stream = zip_stream_open(a->member, err);
    if (!a->stream)
        return MGPT_EMEM;
    int status = zip_stream_read(a->stream, a->npy.header + at, n, to, err);
    if (status < 0)
        reference_entry_close(a);
    return status;
}

/* Reads an entry to its end, where the checksum of a deflated one is compared: before anything is said about
 * what is in it. Rows that are read alone never get there. */
static int check_entry(struct ref_array *a, mgpt_error *err)
{
    uint8_t bytes[REF_PIECE];
    int status = MGPT_OK;
    for (uint64_t at = 0; at < a->npy.n_bytes && status == MGPT_OK; at += REF_PIECE) {
        uint64_t left = a->npy.n_bytes - at;
        status =
            reference_entry_bytes(a, at, left < REF_PIECE ? (size_t)left : REF_PIECE, bytes, err);
    }
    return status;
}

/* ---- the archive ---- */

/* The name without .npy, malloc'ed; NULL when out of memory. *known: check compares an array of this name. */
static char *array_name(const struct zip_member *m, int *known)
{
    size_t n = m->n_name;
    char *name = calloc(1, n + 1);
    *known = n > 4 && !memchr(m->name, 0, n) && memcmp(m->name + n - 4, ".npy", 4) == 0;
    if (name && *known) {
        memcpy(name, m->name, n - 4);
        *known = ref_name_known(name);
    }
    return name;
}

/* The first n bytes of the entry, in which the header of the array is. */
static int parse_array(struct ref_array *a, const uint8_t *bytes, size_t n, mgpt_error *err)
{
    uint64_t size;
    int status = npy_header(&a->npy, bytes, n, err);
    if (status == MGPT_OK)
        status = reference_npy_type(&a->npy, err);
    if (status < 0 || (ck_add(a->npy.header, a->npy.n_bytes, &size) && size == a->member->size))
        return status;
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "%llu bytes, its header says %llu and %llu of data",
                   (unsigned long long)a->member->size, (unsigned long long)a->npy.header,
                   (unsigned long long)a->npy.n_bytes);
}

static int take_header(struct ref_array *a, mgpt_error *err)
{
    uint8_t bytes[NPY_MAX_HEADER];
    const struct zip_member *m = a->member;
    size_t n = m->size < sizeof bytes ? (size_t)m->size : sizeof bytes;
    mgpt_error why = {0};
    int status = MGPT_OK;
    if (m->packed == ZIP_STORED) /* the checksum is compared when the data are read */
        memcpy(bytes, m->bytes.data, n);
    else
        status = reference_entry_bytes(a, 0, n, bytes, err);
    if (status < 0)
        return status;
    status = parse_array(a, bytes, n, &why);
    if (status < 0)
        err_set(err, status, why.offset, "npz entry %.60s.npy: %s", a->name, why.text);
    return status;
}

static int add_member(struct ref_named *named, struct zip_member *m, mgpt_error *err)
{
    int known;
    struct ref_array a = {.name = array_name(m, &known), .member = m};
    if (!a.name)
        return err_memory(err, "a name", m->n_name);
    a.deflated = m->packed == ZIP_DEFLATED;
    int status = known ? take_header(&a, err) : MGPT_OK;
    reference_entry_close(&a);
    if (known && status == MGPT_OK)
        return ref_named_add(named, &a, err);
    ref_array_close(&a);
    return status;
}

void reference_npz_close(struct reference *ref)
{
    if (ref->zip)
        zip_dir_close(ref->zip);
    free(ref->zip);
    ref->zip = NULL;
}

int reference_npz_open(struct reference *ref, mgpt_error *err)
{
    struct ref_named named = {0};
    int status = file_load(&ref->file, 0, ref->file.size, err);
    ref->zip = calloc(1, sizeof *ref->zip);
    if (status == MGPT_OK && !ref->zip)
        return err_memory(err, "an archive", sizeof *ref->zip);
    if (status == MGPT_OK)
        status = zip_dir_open(ref->zip, (struct span){ref->file.data, ref->file.size}, err);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(ref->zip->members); i++)
        status = add_member(&named, &ref->zip->members[i], err);
    if (status == MGPT_OK)
        status = ref_named_use(ref, &named, err);
    else
        ref_named_free(&named);
    return status < 0 ? status : check_entry(&ref->logits, err);
}
