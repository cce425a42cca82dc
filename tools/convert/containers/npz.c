/* .npz archives. See npz.h.
 *
 * Sizes in an archive can be wrong, and a few bytes can inflate to many. An entry is a stream, and
 * the size in its own header is compared with the archive's before anything is allocated.
 */
#include "convert/containers/npz.h"

#include "base/check.h"
#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

/* Maps libzip's error. A source that could not be allocated may have no error code. */
static int failed_as(const zip_error_t *failed)
{
    int code = zip_error_code_zip(failed);
    if (code == ZIP_ER_ZLIB && zip_error_code_system(failed) == Z_MEM_ERROR)
        return MGPT_EMEM;
    if (code == ZIP_ER_MEMORY || code == ZIP_ER_OK || zip_error_code_system(failed) == ENOMEM)
        return MGPT_EMEM;
    int io =
        code == ZIP_ER_NOENT || code == ZIP_ER_OPEN || code == ZIP_ER_READ || code == ZIP_ER_SEEK;
    return io ? MGPT_EIO : MGPT_EFILE;
}

static int set_failed(mgpt_error *err, const char *name, zip_error_t *failed)
{
    int status = failed_as(failed);
    const char *why =
        zip_error_code_zip(failed) == ZIP_ER_OK ? "out of memory" : zip_error_strerror(failed);
    return err_set(err, status, MGPT_NO_OFFSET, "npz%s%.60s: %s", *name ? " entry " : "", name,
                   why);
}

zip_t *npz_archive_file(const char *path, mgpt_error *err)
{
    zip_error_t failed;
    zip_error_init(&failed);
    zip_source_t *source = zip_source_file_create(path, 0, -1, &failed);
    zip_t *zip = source ? zip_open_from_source(source, ZIP_RDONLY, &failed) : NULL;
    if (!zip) {
        set_failed(err, "", &failed);
        zip_source_free(source);
    }
    zip_error_fini(&failed);
    return zip;
}

int npz_take(zip_file_t *stream, void *to, size_t n, const char *name, mgpt_error *err)
{
    uint8_t *at = to;
    while (n > 0) {
        zip_int64_t got = zip_fread(stream, at, n);
        if (got < 0)
            return set_failed(err, name, zip_file_get_error(stream));
        if (got == 0)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "npz entry %.60s: ends %zu bytes before its size", name, n);
        at += got;
        n -= (size_t)got;
    }
    return MGPT_OK;
}

/* libzip compares the checksum after the last byte: one more read triggers it. */
int npz_end(zip_file_t *stream, const char *name, mgpt_error *err)
{
    uint8_t more;
    if (zip_fread(stream, &more, 1) == 0)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz entry %.60s: bad checksum or end", name);
}

/* Reads the header of an entry up to the first byte of the data. The first part gives the length
 * of the rest. */
static int take_header(zip_file_t *stream, const char *name, struct npy *npy, mgpt_error *err)
{
    uint8_t bytes[NPY_MAX_HEADER];
    int status = npz_take(stream, bytes, 10, name, err);
    if (status < 0)
        return status;
    int wide = bytes[6] > 1; /* from version 2 on the length has four bytes */
    if (wide && (status = npz_take(stream, bytes + 10, 2, name, err)) < 0)
        return status;
    size_t begin = wide ? 12 : 10;
    uint64_t length = (uint64_t)bytes[8] | (uint64_t)bytes[9] << 8;
    if (wide)
        length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (memcmp(bytes, "\x93NUMPY", 6) != 0 || length > sizeof bytes - begin)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "npz entry %.60s: not a .npy array with a header under %d bytes", name,
                       (int)NPY_MAX_HEADER);
    status = npz_take(stream, bytes + begin, (size_t)length, name, err);
    return status < 0 ? status : npy_header(npy, bytes, begin + (size_t)length, err);
}

static int check_size(const char *name, const struct npy *npy, uint64_t found, mgpt_error *err)
{
    uint64_t size;
    int is_object = npy->kind == 'O';
    if (ck_add(npy->header, npy->n_bytes, &size) && (is_object ? size <= found : size == found))
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "npz entry %.60s: %llu bytes, its header says %llu and %llu of data", name,
                   (unsigned long long)found, (unsigned long long)npy->header,
                   (unsigned long long)npy->n_bytes);
}

zip_file_t *npz_open(zip_t *zip, zip_uint64_t index, struct npy *npy, mgpt_error *err)
{
    zip_stat_t st = {.name = ""}; /* libzip knows name and size of every entry it has opened */
    int known = zip_stat_index(zip, index, 0, &st) == 0;
    zip_file_t *stream = known ? zip_fopen_index(zip, index, 0) : NULL;
    if (!stream) {
        set_failed(err, st.name, zip_get_error(zip));
        return NULL;
    }
    if (take_header(stream, st.name, npy, err) == MGPT_OK &&
        check_size(st.name, npy, st.size, err) == MGPT_OK)
        return stream;
    zip_fclose(stream);
    return NULL;
}
