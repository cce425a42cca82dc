/* An .npz archive written in any order: a zip archive of stored .npy entries (PKWARE's APPNOTE
 * 6.3).
 *
 *     per array    local header, name, [zip64 sizes], .npy header, data
 *     at the end   a directory record per array, [zip64 end], end
 *
 * All of it but the checksums is known beforehand. Sizes and places that do not fit into 32 bits
 * are in zip64 records, as does the number of entries above 16 bits. The date is always the first
 * that a zip archive can have, so that the same trace has the same bytes. Libraries take each
 * entry whole and in order; here all arrays grow token by token. See trace_file.h.
 */
#include "trace/trace_file.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"

#include <string.h>

enum {
    LOCAL_BYTES = 30,
    LOCAL_ZIP64_BYTES = 20,
    ENTRY_BYTES = 46,
    ENTRY_ZIP64_BYTES = 28,
    END64_BYTES = 56 + 20, /* the record and its locator */
    END_BYTES = 22,
    COMMENT_BYTES = sizeof FILES_NPZ_COMMENT - 1, /* the mark of our files (files.h) */
    MAX_ENTRIES = 0xFFFE,
    VERSION = 20, /* plain, and with zip64 */
    VERSION_ZIP64 = 45,
    FIRST_DAY = 0x0021, /* 1980-01-01 */
    NPY_BYTES =
        256, /* most of an .npy header: 4 dimensions of 20 digits and 90 bytes around them */
    NPY_ALIGN = 64
};

/* ---- .npy ---- */

/* The header as NumPy writes it, spaces up to a multiple of 64; returns its length. */
static size_t npy_header_of(const struct trace_array *a, uint8_t out[NPY_BYTES])
{
    char *text = (char *)out + 10;
    size_t n =
        text_format(text, NPY_BYTES - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                    trace_kinds[a->type].numpy);
    for (unsigned i = 0; i < a->n_dims; i++)
        n += text_format(text + n, NPY_BYTES - 10 - n,
                         i + 1 == a->n_dims && i > 0 ? "%llu" : "%llu, ",
                         (unsigned long long)a->dims[i]);
    if (a->n_dims == 1)
        n--; /* (5,) */
    n += text_format(text + n, NPY_BYTES - 10 - n, "), }");
    size_t total = (10 + n + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
    memset(text + n, ' ', total - 10 - n);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (uint8_t)((total - 10) & 0xFF);
    out[9] = (uint8_t)((total - 10) >> 8);
    out[total - 1] = '\n';
    return total;
}

/* ---- records ---- */

/* A record being made: little-endian numbers, sequentially. */
struct tensor_record {
    uint8_t bytes[128];
    size_t n;
};

static void trace_npz_put(struct tensor_record *r, unsigned width, uint64_t value)
{
    for (unsigned i = 0; i < width; i++)
        r->bytes[r->n++] = (uint8_t)(value >> 8 * i);
}

static int is_large(const struct trace_file *f, const struct trace_array *a)
{
    return a->n_bytes > f->zip32_max - NPY_BYTES;
}

/* Bytes of an array's local header in the zip, before its .npy. */
static size_t local_bytes(const struct trace_file *f, const struct trace_array *a)
{
    return LOCAL_BYTES + strlen(a->name) + strlen(".npy") +
           (is_large(f, a) ? LOCAL_ZIP64_BYTES : 0);
}

/* The size of the entry: .npy header and data. */
static uint64_t stored_bytes(const struct trace_file *f, const struct trace_array *a)
{
    return a->data_at + a->n_bytes - (a->header_at + local_bytes(f, a));
}

/* From the version on, what a local header and a directory record have in common. */
static void put_common(struct tensor_record *r, const struct trace_array *a, int zip64,
                       uint64_t size, uint32_t crc, size_t extra)
{
    trace_npz_put(r, 2, zip64 ? VERSION_ZIP64 : VERSION);
    trace_npz_put(r, 2, 0); /* flags */
    trace_npz_put(r, 2, 0); /* stored */
    trace_npz_put(r, 2, 0); /* midnight */
    trace_npz_put(r, 2, FIRST_DAY);
    trace_npz_put(r, 4, crc);
    trace_npz_put(r, 4, size); /* compressed */
    trace_npz_put(r, 4, size);
    trace_npz_put(r, 2, strlen(a->name) + strlen(".npy"));
    trace_npz_put(r, 2, extra);
}

static uint64_t put_name(struct trace_file *f, const struct trace_array *a, uint64_t at)
{
    size_t n = strlen(a->name);
    outfile_put(&f->out, at, a->name, n);
    outfile_put(&f->out, at + n, ".npy", strlen(".npy"));
    return at + n + strlen(".npy");
}

static uint64_t put_record(struct trace_file *f, const struct tensor_record *r, uint64_t at)
{
    outfile_put(&f->out, at, r->bytes, r->n);
    return at + r->n;
}

static void put_local(struct trace_file *f, const struct trace_array *a, uint32_t crc)
{
    int large = is_large(f, a);
    uint64_t size = stored_bytes(f, a);
    struct tensor_record r = {.n = 0}, extra = {.n = 0};
    trace_npz_put(&r, 4, 0x04034B50);
    put_common(&r, a, large, large ? UINT32_MAX : size, crc, large ? LOCAL_ZIP64_BYTES : 0);
    if (large) {
        trace_npz_put(&extra, 2, 1);
        trace_npz_put(&extra, 2, LOCAL_ZIP64_BYTES - 4);
        trace_npz_put(&extra, 8, size);
        trace_npz_put(&extra, 8, size);
    }
    put_record(f, &extra, put_name(f, a, put_record(f, &r, a->header_at)));
}

/* zip64 has all three numbers as soon as one of them needs it. */
static int is_far(const struct trace_file *f, const struct trace_array *a)
{
    return is_large(f, a) || a->header_at > f->zip32_max;
}

static uint64_t put_entry(struct trace_file *f, const struct trace_array *a, uint32_t crc,
                          uint64_t at)
{
    int far = is_far(f, a);
    uint64_t size = stored_bytes(f, a);
    struct tensor_record r = {.n = 0}, extra = {.n = 0};
    trace_npz_put(&r, 4, 0x02014B50);
    trace_npz_put(&r, 2, far ? VERSION_ZIP64 : VERSION); /* made by */
    put_common(&r, a, far, far ? UINT32_MAX : size, crc, far ? ENTRY_ZIP64_BYTES : 0);
    trace_npz_put(&r, 2, 0); /* no comment */
    trace_npz_put(&r, 2, 0); /* on disk 0 */
    trace_npz_put(&r, 2, 0); /* bytes, not text */
    trace_npz_put(&r, 4, 0); /* no permissions: the user's default */
    trace_npz_put(&r, 4, far ? UINT32_MAX : a->header_at);
    if (far) {
        trace_npz_put(&extra, 2, 1);
        trace_npz_put(&extra, 2, ENTRY_ZIP64_BYTES - 4);
        trace_npz_put(&extra, 8, size);
        trace_npz_put(&extra, 8, size);
        trace_npz_put(&extra, 8, a->header_at);
    }
    return put_record(f, &extra, put_name(f, a, put_record(f, &r, at)));
}

/* ---- the end ---- */

static uint64_t directory_at(const struct trace_file *f)
{
    const struct trace_array *last = &f->arrays[arr_len(f->arrays) - 1];
    return last->data_at + last->n_bytes;
}

static uint64_t directory_bytes(const struct trace_file *f)
{
    uint64_t n = 0;
    for (size_t i = 0; i < arr_len(f->arrays); i++) {
        const struct trace_array *a = &f->arrays[i];
        n += ENTRY_BYTES + strlen(a->name) + strlen(".npy");
        n += is_far(f, a) ? ENTRY_ZIP64_BYTES : 0;
    }
    return n;
}

static int end_is_far(const struct trace_file *f)
{
    return arr_len(f->arrays) > MAX_ENTRIES || directory_at(f) > f->zip32_max ||
           directory_bytes(f) > f->zip32_max;
}

static void put_end64(struct tensor_record *r, uint64_t n, uint64_t size, uint64_t directory)
{
    trace_npz_put(r, 4, 0x06064B50);
    trace_npz_put(r, 8, 44); /* bytes that follow in this record */
    trace_npz_put(r, 2, VERSION_ZIP64);
    trace_npz_put(r, 2, VERSION_ZIP64);
    trace_npz_put(r, 4, 0);
    trace_npz_put(r, 4, 0);
    trace_npz_put(r, 8, n);
    trace_npz_put(r, 8, n);
    trace_npz_put(r, 8, size);
    trace_npz_put(r, 8, directory);
    trace_npz_put(r, 4, 0x07064B50); /* the locator of this record */
    trace_npz_put(r, 4, 0);
    trace_npz_put(r, 8, directory + size);
    trace_npz_put(r, 4, 1);
}

static void put_end(struct trace_file *f, uint64_t at)
{
    uint64_t n = arr_len(f->arrays), directory = directory_at(f), size = at - directory;
    struct tensor_record r = {.n = 0};
    int far = end_is_far(f);
    if (far)
        put_end64(&r, n, size, directory);
    trace_npz_put(&r, 4, 0x06054B50);
    trace_npz_put(&r, 2, 0);
    trace_npz_put(&r, 2, 0);
    trace_npz_put(&r, 2, far ? UINT16_MAX : n);
    trace_npz_put(&r, 2, far ? UINT16_MAX : n);
    trace_npz_put(&r, 4, far ? UINT32_MAX : size);
    trace_npz_put(&r, 4, far ? UINT32_MAX : directory);
    trace_npz_put(&r, 2, COMMENT_BYTES);
    outfile_put(&f->out, put_record(f, &r, at), FILES_NPZ_COMMENT, COMMENT_BYTES);
}

/* The checksum of all strands in order. That of the first began with the .npy header. */
static uint32_t checksum(const struct trace_file *f, const struct trace_array *a)
{
    const struct trace_strand *s = &f->strands[a->strand];
    uint32_t crc = s[0].crc;
    for (size_t i = 1; i < a->n_strands; i++)
        crc = crc_join(crc, s[i].crc, s[i].done);
    return crc;
}

/* ---- what trace_file.c calls ---- */

int trace_npz_plan(struct trace_file *f, mgpt_error *err)
{
    uint8_t header[NPY_BYTES];
    uint64_t at = 0;
    int fits = 1;
    for (size_t i = 0; i < arr_len(f->arrays) && fits; i++) {
        struct trace_array *a = &f->arrays[i];
        a->header_at = at;
        fits = ck_add(at, local_bytes(f, a) + npy_header_of(a, header), &a->data_at) &&
               ck_add(a->data_at, a->n_bytes, &at);
    }
    if (!fits ||
        !ck_add(at,
                directory_bytes(f) + (end_is_far(f) ? END64_BYTES : 0) + END_BYTES + COMMENT_BYTES,
                &f->size))
        return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "the trace is too large for any file");
    return MGPT_OK;
}

void trace_npz_begin(struct trace_file *f)
{
    uint8_t header[NPY_BYTES];
    for (size_t i = 0; i < arr_len(f->arrays); i++) {
        const struct trace_array *a = &f->arrays[i];
        size_t n = npy_header_of(a, header);
        outfile_put(&f->out, a->data_at - n, header, n);
        f->strands[a->strand].crc = crc_append(&f->crc, 0, header, n);
    }
}

void trace_npz_end(struct trace_file *f)
{
    uint64_t at = directory_at(f);
    for (size_t i = 0; i < arr_len(f->arrays); i++) {
        const struct trace_array *a = &f->arrays[i];
        uint32_t crc = checksum(f, a);
        put_local(f, a, crc);
        at = put_entry(f, a, crc, at);
    }
    put_end(f, at);
}
