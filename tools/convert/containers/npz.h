/* NumPy's .npz archives: .npy arrays in a zip archive, read in order through libzip. Untrusted. */
#ifndef MGPT_NPZ_H
#define MGPT_NPZ_H

#include "common/npy.h"

#include <zip.h>

/* Opens an archive in a file, which is read in pieces; NULL with *err. */
zip_t *npz_archive_file(const char *path, mgpt_error *err);

/* Opens an entry and reads its header (any that npy_header accepts); the data follows. The
 * header's size equals the entry's (objects excepted). NULL with *err. */
zip_file_t *npz_open(zip_t *zip, zip_uint64_t index, struct npy *npy, mgpt_error *err);

/* The status of a failed call; err may be NULL. */
static inline int npz_status(const mgpt_error *err)
{
    return err ? err->status : MGPT_EFILE;
}

/* Reads exactly n bytes of an entry; its name is for messages. */
int npz_take(zip_file_t *stream, void *to, size_t n, const char *name, mgpt_error *err);

/* Checks the checksum after the last byte. */
int npz_end(zip_file_t *stream, const char *name, mgpt_error *err);

#endif
