/* A build without tools/convert (-Dconvert=disabled): references in .npz, .safetensors and .pt are known
 * by their first bytes, and refused. */
#include "base/error.h"
#include "check/reference/reference_impl.h"

static int has_byte(const struct reference *ref, size_t at, uint8_t value)
{
    return ref->file.size > at && ref->file.data[at] == value;
}

/* A pickle; what is in a zip archive goes to reference_npz_open. */
int reference_is_torch(const struct reference *ref)
{
    return has_byte(ref, 0, 0x80) && has_byte(ref, 1, 2);
}

/* The length of a JSON object, which is not in gigabytes, and the object. */
int reference_is_st(const struct reference *ref)
{
    return has_byte(ref, 7, 0) && has_byte(ref, 8, '{');
}

static int refuse_reference(mgpt_error *err)
{
    return err_set(
        err, MGPT_EFILE, MGPT_NO_OFFSET,
        "a reference in .npz, .safetensors or .pt: this build has no converter, which reads "
        "them (meson setup -Dconvert=enabled)");
}

int reference_npz_open(struct reference *ref, mgpt_error *err)
{
    (void)ref;
    return refuse_reference(err);
}

int reference_st_open(struct reference *ref, mgpt_error *err)
{
    (void)ref;
    return refuse_reference(err);
}

int reference_torch_open(struct reference *ref, mgpt_error *err)
{
    (void)ref;
    return refuse_reference(err);
}

int reference_entry_bytes(struct ref_array *a, uint64_t at, size_t n, void *to, mgpt_error *err)
{
    (void)a;
    (void)at;
    (void)n;
    (void)to;
    return refuse_reference(err);
}

void reference_entry_close(struct ref_array *a)
{
    (void)a;
}

void reference_npz_close(struct reference *ref)
{
    (void)ref;
}
