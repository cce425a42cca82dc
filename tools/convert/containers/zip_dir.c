/* The directory of a zip archive. See zip_dir.h.
 *
 *     end record    "PK\5\6", 22 bytes and a comment, found from the end of the file
 *     zip64 locator "PK\6\7", 20 bytes before it; the zip64 end record "PK\6\6" is where it says
 *     directory     one "PK\1\2" entry of 46 bytes, name, extra fields, comment for each member
 *     local header  "PK\3\4", 30 bytes, name, extra field, then the member's data
 */
#include "convert/containers/zip_dir.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define LOCAL 0x04034b50u
#define ENTRY 0x02014b50u
#define END 0x06054b50u
#define END64 0x06064b50u
#define LOCATOR64 0x07064b50u

enum {
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    MAX_COMMENT = 65535,
    ENCRYPTED = 1,
    MAX_RATIO = 1032 /* what deflate makes of a byte at most */
};

struct zip_entry {
    uint16_t flags, method;
    uint32_t crc;
    uint64_t size, stored, offset;
    struct gguf_str name;
    struct span extra;
};

static int zip_dir_bad(size_t at, const char *what, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, at, "zip: %s", what);
}

static struct cursor cursor_at(struct span bytes, uint64_t at)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    cursor_take(&c, at);
    return c;
}

/* ---- the end of the archive ------------------------------------------------------------------ */

/* The last end record whose comment reaches exactly to the end of the file. */
static int find_end(struct span bytes, size_t *at)
{
    if (bytes.size < END_BYTES)
        return 0;
    for (size_t back = 0; back <= MAX_COMMENT && back <= bytes.size - END_BYTES; back++) {
        struct cursor c = cursor_at(bytes, bytes.size - END_BYTES - back);
        *at = c.pos;
        if (cursor_u32(&c) == END && cursor_take(&c, 16) && cursor_u16(&c) == back)
            return 1;
    }
    return 0;
}

/* Where the directory is, and how many entries it has. */
static int find_directory(struct span bytes, uint64_t *offset, uint64_t *size, uint64_t *n,
                          mgpt_error *err)
{
    size_t end;
    if (!find_end(bytes, &end))
        return zip_dir_bad(bytes.size, "there is no end record: the file is cut off, or not a zip",
                           err);
    struct cursor c = cursor_at(bytes, (uint64_t)end + 8);
    cursor_u16(&c);
    *n = cursor_u16(&c);
    *size = cursor_u32(&c);
    *offset = cursor_u32(&c);
    if (end < LOCATOR_BYTES)
        return MGPT_OK;
    c = cursor_at(bytes, end - LOCATOR_BYTES);
    if (cursor_u32(&c) != LOCATOR64)
        return MGPT_OK;
    cursor_u32(&c);
    c = cursor_at(bytes, cursor_u64(&c));
    if (cursor_u32(&c) != END64)
        return zip_dir_bad(end - LOCATOR_BYTES, "the zip64 end record is not where it should be",
                           err);
    cursor_take(&c, 20 + 8); /* size, versions, disks; entries on this disk */
    *n = cursor_u64(&c);
    *size = cursor_u64(&c);
    *offset = cursor_u64(&c);
    return c.failed ? zip_dir_bad(c.where, "the zip64 end record is cut off", err) : MGPT_OK;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Replaces sizes and offsets of 2^32 - 1 by those of the zip64 field. */
static void apply_zip64(struct zip_entry *e)
{
    struct cursor c = cursor_over(e->extra.data, e->extra.size);
    while (cursor_left(&c) >= 4) {
        uint16_t id = cursor_u16(&c), n = cursor_u16(&c);
        const uint8_t *p = cursor_take(&c, n);
        if (!p || id != 1)
            continue;
        struct cursor field = cursor_over(p, n);
        uint64_t *const wide[] = {&e->size, &e->stored, &e->offset};
        for (size_t i = 0; i < 3; i++)
            if (*wide[i] == UINT32_MAX)
                *wide[i] = cursor_u64(&field);
        return;
    }
}

static int zip_dir_read_entry(struct cursor *c, struct zip_entry *e)
{
    uint32_t magic = cursor_u32(c);
    *e = (struct zip_entry){0};
    cursor_u32(c); /* versions */
    e->flags = cursor_u16(c);
    e->method = cursor_u16(c);
    cursor_u32(c); /* time */
    e->crc = cursor_u32(c);
    e->stored = cursor_u32(c);
    e->size = cursor_u32(c);
    uint16_t n_name = cursor_u16(c), n_extra = cursor_u16(c), n_comment = cursor_u16(c);
    cursor_take(c, 8); /* disk, attributes */
    e->offset = cursor_u32(c);
    e->name = (struct gguf_str){(const char *)cursor_take(c, n_name), n_name};
    e->extra = (struct span){cursor_take(c, n_extra), n_extra};
    cursor_take(c, n_comment);
    if (c->failed || magic != ENTRY)
        return 0;
    apply_zip64(e);
    return 1;
}

/* Finds the data after the local header, whose name must be the directory's. */
static int locate(struct span bytes, const struct zip_entry *e, struct zip_member *m)
{
    struct cursor c = cursor_at(bytes, e->offset);
    uint32_t magic = cursor_u32(&c);
    cursor_take(&c, 22);
    uint16_t n_name = cursor_u16(&c), n_extra = cursor_u16(&c);
    const uint8_t *name = cursor_take(&c, n_name);
    cursor_take(&c, n_extra);
    const uint8_t *data = cursor_take(&c, e->stored);
    if (!data || magic != LOCAL || n_name != e->name.n || memcmp(name, e->name.p, n_name) != 0)
        return 0;
    m->crc = e->crc;
    m->packed = e->flags & ENCRYPTED ? ZIP_UNREADABLE
                : e->method == 0     ? ZIP_STORED
                : e->method == 8     ? ZIP_DEFLATED
                                     : ZIP_UNREADABLE;
    m->size = e->size;
    m->bytes = (struct span){data, (size_t)e->stored};
    return m->packed != ZIP_STORED || e->size == e->stored;
}

static int zip_dir_add_entry(struct zip_dir *z, struct span bytes, struct cursor *c,
                             mgpt_error *err)
{
    size_t at = c->pos;
    struct zip_entry e;
    if (!zip_dir_read_entry(c, &e))
        return zip_dir_bad(at, "the directory is damaged", err);
    struct zip_member m = {.name = e.name.p, .n_name = e.name.n, .offset = e.offset};
    if (!locate(bytes, &e, &m))
        return err_set(err, MGPT_EFILE, at, "zip: %.*s: its data are not where the directory says",
                       CKPT_CLIP(e.name.p, e.name.n));
    if (!arr_push(z->members, m))
        return err_memory(err, "the directory of a zip", sizeof m);
    return MGPT_OK;
}

/* ---- order ----------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const struct zip_member *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int compare_texts(const char *a, size_t na, const char *b, size_t nb)
{
    int order = memcmp(a, b, na < nb ? na : nb);
    return order ? order : (na > nb) - (na < nb);
}

static int by_name(const void *a, const void *b)
{
    const struct zip_member *x = a, *y = b;
    return compare_texts(x->name, x->n_name, y->name, y->n_name);
}

/* With members that share bytes or a name, two programs can read different contents from one
 * archive. */
static int check_order(struct zip_dir *z, struct span bytes, mgpt_error *err)
{
    struct zip_member *m = z->members;
    size_t n = arr_len(m);
    if (!n)
        return zip_dir_bad(0, "the archive is empty", err);
    qsort(m, n, sizeof *m, by_offset);
    for (size_t i = 1; i < n; i++)
        if ((uint64_t)(m[i - 1].bytes.data - bytes.data) + m[i - 1].bytes.size > m[i].offset)
            return err_set(err, MGPT_EFILE, m[i].offset, "zip: %.*s and %.*s overlap",
                           CKPT_CLIP(m[i - 1].name, m[i - 1].n_name),
                           CKPT_CLIP(m[i].name, m[i].n_name));
    qsort(m, n, sizeof *m, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&m[i - 1], &m[i]) == 0)
            return err_set(err, MGPT_EFILE, m[i].offset, "zip: %.*s occurs twice",
                           CKPT_CLIP(m[i].name, m[i].n_name));
    return MGPT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int zip_dir_sniff(struct span bytes)
{
    return bytes.size >= 4 && memcmp(bytes.data, "PK\3\4", 4) == 0;
}

int zip_dir_open(struct zip_dir *z, struct span bytes, mgpt_error *err)
{
    uint64_t offset = 0, size = 0, n = 0;
    *z = (struct zip_dir){0};
    int status = find_directory(bytes, &offset, &size, &n, err);
    if (status < 0)
        return status;
    struct cursor c = cursor_at(bytes, offset);
    if (!cursor_take(&c, size))
        return zip_dir_bad(bytes.size, "the directory does not fit into the file", err);
    c = cursor_at((struct span){bytes.data, c.pos}, offset);
    for (uint64_t i = 0; status == MGPT_OK && i < n; i++)
        status = zip_dir_add_entry(z, bytes, &c, err);
    if (status == MGPT_OK)
        status = check_order(z, bytes, err);
    if (status < 0)
        zip_dir_close(z);
    return status;
}

void zip_dir_close(struct zip_dir *z)
{
    arr_free(z->members);
    *z = (struct zip_dir){0};
}

struct zip_key {
    struct gguf_str prefix, name;
};

/* prefix + name against the member's name */
static int compare_key(const void *key, const void *member)
{
    const struct zip_key *k = key;
    const struct zip_member *m = member;
    size_t head = k->prefix.n < m->n_name ? k->prefix.n : m->n_name;
    int order = compare_texts(k->prefix.p, k->prefix.n, m->name, head);
    return order ? order : compare_texts(k->name.p, k->name.n, m->name + head, m->n_name - head);
}

struct zip_member *zip_dir_find(const struct zip_dir *z, struct gguf_str prefix,
                                struct gguf_str name)
{
    const struct zip_key key = {prefix, name};
    size_t n = arr_len(z->members);
    return n ? bsearch(&key, z->members, n, sizeof *z->members, compare_key) : NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static int compare_sums(const struct zip_member *m, uint32_t found, mgpt_error *err)
{
    if (found == m->crc)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, m->offset,
                   "zip: %.*s: its checksum is %x, the archive says %x: the file is damaged",
                   CKPT_CLIP(m->name, m->n_name), found, m->crc);
}

int zip_dir_check(struct zip_member *m, mgpt_error *err)
{
    if (m->packed != ZIP_STORED)
        return err_set(
            err, MGPT_EFILE, m->offset,
            "zip: %.*s is compressed or encrypted: unpack it and pack it again with zip -0",
            CKPT_CLIP(m->name, m->n_name));
    if (m->crc && compare_sums(m, (uint32_t)crc32_z(0, m->bytes.data, m->bytes.size), err) < 0)
        return MGPT_EFILE;
    m->crc = 0;
    return MGPT_OK;
}

static int zip_dir_bad_size(const struct zip_member *m, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, m->offset,
                   "zip: %.*s: its data do not inflate to %llu bytes: the file is damaged",
                   CKPT_CLIP(m->name, m->n_name), (unsigned long long)m->size);
}

/* ---- streams --------------------------------------------------------------------------------- */

struct zip_stream {
    struct zip_member *member;
    z_stream z;   /* of a deflated member */
    uint64_t at;  /* bytes that have been inflated */
    uint32_t sum; /* their checksum */
};

struct zip_stream *zip_stream_open(struct zip_member *m, mgpt_error *err)
{
    struct zip_stream *s = calloc(1, sizeof *s);
    if (!s || (m->packed == ZIP_DEFLATED && inflateInit2(&s->z, -MAX_WBITS) != Z_OK)) {
        err_memory(err, "the state of zlib", 32768);
        free(s);
        return NULL;
    }
    s->member = m;
    s->z.next_in = (Bytef *)(uintptr_t)m->bytes.data;
    return s;
}

void zip_stream_close(struct zip_stream *s)
{
    if (s && s->member->packed == ZIP_DEFLATED)
        inflateEnd(&s->z);
    free(s);
}

/* Inflates up to n bytes; returns their number. *state is what zlib says. */
static size_t inflate_next(struct zip_stream *s, uint8_t *out, size_t n, int *state)
{
    const struct span packed = s->member->bytes;
    size_t left = n;
    s->z.next_out = out;
    for (*state = Z_OK; *state == Z_OK && left > 0;) {
        size_t in = packed.size - (size_t)(s->z.next_in - packed.data);
        uInt room = left < UINT_MAX ? (uInt)left : UINT_MAX;
        s->z.avail_in = in < UINT_MAX ? (uInt)in : UINT_MAX;
        s->z.avail_out = room;
        *state = inflate(&s->z, Z_NO_FLUSH);
        left -= room - s->z.avail_out;
    }
    s->z.next_out = NULL; /* out may end before s */
    return n - left;
}

/* The next n bytes. After the last one there is nothing more, and the checksum is that of all. */
static int inflate_piece(struct zip_stream *s, uint8_t *out, size_t n, mgpt_error *err)
{
    const struct zip_member *m = s->member;
    uint8_t more;
    int state;
    size_t got = inflate_next(s, out, n, &state);
    s->sum = (uint32_t)crc32_z(s->sum, out, got);
    s->at += got;
    if (got == n && s->at == m->size) {
        size_t n_more = inflate_next(s, &more, 1, &state);
        if (n_more == 0 && state == Z_STREAM_END)
            return compare_sums(m, s->sum, err);
    }
    if (state == Z_MEM_ERROR)
        return err_memory(err, "the state of zlib", 32768);
    if (got == n && s->at < m->size)
        return MGPT_OK;
    return zip_dir_bad_size(m, err);
}

static void zip_stream_rewind(struct zip_stream *s)
{
    inflateReset(&s->z);
    s->z.next_in = (Bytef *)(uintptr_t)s->member->bytes.data;
    s->at = s->sum = 0;
}

int zip_stream_read(struct zip_stream *s, uint64_t at, size_t n, void *to, mgpt_error *err)
{
    uint8_t skipped[4096];
    int status = MGPT_OK;
    if (s->member->packed != ZIP_DEFLATED) {
        status = zip_dir_check(s->member, err);
        if (status == MGPT_OK && n > 0)
            memcpy(to, s->member->bytes.data + at, n);
        return status;
    }
    if (at < s->at)
        zip_stream_rewind(s);
    while (s->at < at && status == MGPT_OK) {
        uint64_t left = at - s->at;
        status =
            inflate_piece(s, skipped, left < sizeof skipped ? (size_t)left : sizeof skipped, err);
    }
    return status == MGPT_OK ? inflate_piece(s, to, n, err) : status;
}

int zip_dir_read(struct zip_member *m, struct checkpoint *c, struct span *bytes, mgpt_error *err)
{
    *bytes = m->bytes;
    if (m->packed != ZIP_DEFLATED)
        return zip_dir_check(m, err);
    if (m->size / MAX_RATIO > m->bytes.size)
        return zip_dir_bad_size(m, err);
    uint8_t *out = ckpt_alloc(c, (size_t)m->size, 1);
    if (!out)
        return err_memory(err, "an inflated member", (size_t)m->size);
    struct zip_stream *s = zip_stream_open(m, err);
    int status = s ? zip_stream_read(s, 0, (size_t)m->size, out, err) : MGPT_EMEM;
    zip_stream_close(s);
    *bytes = (struct span){out, (size_t)m->size};
    return status;
}
