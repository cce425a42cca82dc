/* Writing GGUF version 3. See gguf.h.
 *
 * Metadata and tensor infos are collected in memory. The header is written with the first tensor
 * data (or at commit), after our own reader has accepted it, so every written file can be read.
 * Data is streamed to a file or to one block of memory. The same calls give the same bytes. All
 * errors are sticky, so callers check once, at gguf_commit. The writer itself sets
 * general.alignment.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "gguf/gguf_impl.h"

/* The default of the format. llama.cpp's quantizer copies the key but always aligns to 32. */
#define ALIGNMENT 32u

static int writer_failed(const struct gguf_writer *w)
{
    return w->failed.status < 0 || w->out.failed.status < 0;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static void append_bytes(struct gguf_writer *w, uint8_t **to, const void *bytes, size_t n)
{
    size_t len = arr_len(*to);
    if (n == 0 || writer_failed(w))
        return;
    if (n > SIZE_MAX - len || !arr_reserve(*to, len + n)) {
        err_memory(&w->failed, "the GGUF header", n);
        return;
    }
    memcpy(*to + len, bytes, n);
    arr_set_len(*to, len + n);
}

static void append_uint(struct gguf_writer *w, uint8_t **to, uint64_t v, unsigned n_bytes)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    append_bytes(w, to, bytes, n_bytes);
}

static void append_f32(struct gguf_writer *w, uint8_t **to, float v)
{
    append_uint(w, to, f32_bits(v), 4);
}

static void append_string(struct gguf_writer *w, uint8_t **to, const char *p, size_t n)
{
    append_uint(w, to, n, 8);
    append_bytes(w, to, p, n);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void begin_key(struct gguf_writer *w, struct gguf_str key, enum gguf_type type)
{
    if (w->out.offset > 0 && !writer_failed(w))
        err_set(&w->failed, MGPT_EARG, MGPT_NO_OFFSET, "key %.*s: put after tensor data",
                (int)key.n, key.p);
    w->n_kv++;
    append_string(w, &w->kv, key.p, key.n);
    append_uint(w, &w->kv, type, 4);
}

static void begin_kv(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    begin_key(w, (struct gguf_str){key, strlen(key)}, type);
}

static void begin_array(struct gguf_writer *w, const char *key, enum gguf_type element, size_t n)
{
    begin_kv(w, key, GGUF_ARRAY);
    append_uint(w, &w->kv, element, 4);
    append_uint(w, &w->kv, n, 8);
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    begin_kv(w, key, GGUF_U32);
    append_uint(w, &w->kv, v, 4);
}

void gguf_put_f32(struct gguf_writer *w, const char *key, float v)
{
    begin_kv(w, key, GGUF_F32);
    append_f32(w, &w->kv, v);
}

void gguf_put_bool(struct gguf_writer *w, const char *key, int v)
{
    begin_kv(w, key, GGUF_BOOL);
    append_uint(w, &w->kv, v != 0, 1);
}

void gguf_put_string(struct gguf_writer *w, const char *key, const char *p, size_t n)
{
    begin_kv(w, key, GGUF_STRING);
    append_string(w, &w->kv, p, n);
}

void gguf_put_strings(struct gguf_writer *w, const char *key, const struct gguf_str *v, size_t n)
{
    begin_array(w, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        append_string(w, &w->kv, v[i].p, v[i].n);
}

void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *v, size_t n)
{
    begin_array(w, key, GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        append_uint(w, &w->kv, (uint32_t)v[i], 4);
}

void gguf_put_bools(struct gguf_writer *w, const char *key, const uint8_t *v, size_t n)
{
    begin_array(w, key, GGUF_BOOL, n);
    for (size_t i = 0; i < n; i++)
        append_uint(w, &w->kv, v[i] != 0, 1);
}

void gguf_put_f32s(struct gguf_writer *w, const char *key, const float *v, size_t n)
{
    begin_array(w, key, GGUF_F32, n);
    for (size_t i = 0; i < n; i++)
        append_f32(w, &w->kv, v[i]);
}

void gguf_put_f64s(struct gguf_writer *w, const char *key, const double *v, size_t n)
{
    begin_array(w, key, GGUF_F64, n);
    for (size_t i = 0; i < n; i++)
        append_uint(w, &w->kv, d_bits(v[i]), 8);
}

void gguf_put_bytes(struct gguf_writer *w, const char *key, const void *v, size_t n)
{
    begin_array(w, key, GGUF_U8, n);
    append_bytes(w, &w->kv, v, n);
}

void gguf_put_kv(struct gguf_writer *w, const struct gguf_kv *kv)
{
    if (gguf_str_is(kv->key, GGUF_ALIGNMENT_KEY))
        return;
    begin_key(w, kv->key, kv->type);
    if (kv->type == GGUF_ARRAY) {
        append_uint(w, &w->kv, kv->element, 4);
        append_uint(w, &w->kv, kv->n, 8);
    }
    append_bytes(w, &w->kv, kv->value, kv->value_bytes);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Computes the bytes of a tensor and the padded size of the data section with it; 0 for a bad
 * shape. */
static int tensor_bytes(const struct gguf_writer *w, const struct dtype *type, uint32_t n_dims,
                        const uint64_t *dims, uint64_t *bytes, uint64_t *total)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < n_dims; d++)
        if (dims[d] == 0 || !ck_mul(n, dims[d], &n))
            return 0;
    return n % type->block == 0 && ck_mul(n / type->block, type->block_bytes, bytes) &&
           ck_add(w->data_size, *bytes, total) && ck_align(*total, w->alignment, total);
}

void gguf_put_tensor(struct gguf_writer *w, const char *name, const struct dtype *type,
                     uint32_t n_dims, const uint64_t *dims)
{
    const uint64_t scalar = 1;
    uint64_t bytes, total;
    if (n_dims == 0) {
        n_dims = 1;
        dims = &scalar;
    }
    while (n_dims > 1 && dims[n_dims - 1] == 1)
        n_dims--;
    if (writer_failed(w))
        return;
    if (w->out.offset > 0 || !type || n_dims > GGUF_MAX_DIMS ||
        !tensor_bytes(w, type, n_dims, dims, &bytes, &total)) {
        err_set(&w->failed, MGPT_EARG, MGPT_NO_OFFSET,
                "tensor %s: its type or shape cannot be stored, or it comes after data", name);
        return;
    }
    append_string(w, &w->infos, name, strlen(name));
    append_uint(w, &w->infos, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++)
        append_uint(w, &w->infos, dims[d], 8);
    append_uint(w, &w->infos, type->id, 4);
    append_uint(w, &w->infos, w->data_size, 8);
    if (!writer_failed(w) && !arr_push(w->tensor_sizes, bytes))
        err_memory(&w->failed, "the GGUF header", sizeof bytes);
    w->data_size = total;
    w->n_tensors++;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void reserve_memory(struct gguf_writer *w, size_t n_header)
{
    uint64_t all;
    int fits = ck_align(n_header, w->alignment, &all) && ck_add(all, w->data_size, &all) &&
               ck_size(all, &w->memory_size);
    w->memory = fits ? mem_large(w->memory_size, 1) : NULL;
    if (!w->memory)
        err_memory(&w->failed, "the GGUF file", fits ? w->memory_size : SIZE_MAX);
}

/* Appends to the file, or to the block, which has room for all declared tensors. */
static void emit_bytes(struct gguf_writer *w, const void *bytes, size_t n)
{
    if (!w->in_memory) {
        outfile_write(&w->out, bytes, n);
        return;
    }
    memcpy(w->memory + w->out.offset, bytes, n);
    w->out.offset += n;
}

static void pad_data(struct gguf_writer *w)
{
    static const uint8_t zeros[ALIGNMENT] = {0};
    size_t over = (size_t)(w->out.offset % w->alignment);
    if (over)
        emit_bytes(w, zeros, w->alignment - over);
}

/* Checks the header with our own reader, which enforces the limits. Clears the offset of an
 * error: it would point into bytes that were never written. */
static int header_accepted(struct gguf_writer *w, const uint8_t *header, size_t n)
{
    struct gguf check;
    int parsed = gguf_parse_header(&check, header, n, &w->failed) == MGPT_OK;
    int status = parsed && w->check ? w->check(w->check_user, &check, &w->failed) : MGPT_OK;
    if (parsed)
        gguf_free(&check);
    if (parsed && status == MGPT_OK)
        return 1;
    if (!parsed && w->failed.status == MGPT_EFILE)
        w->failed.status = MGPT_EARG;
    w->failed.offset = MGPT_NO_OFFSET;
    return 0;
}

static void write_header(struct gguf_writer *w)
{
    uint8_t *header = NULL;
    gguf_put_u32(w, GGUF_ALIGNMENT_KEY, w->alignment);
    append_bytes(w, &header, "GGUF", 4);
    append_uint(w, &header, GGUF_VERSION, 4);
    append_uint(w, &header, w->n_tensors, 8);
    append_uint(w, &header, w->n_kv, 8);
    append_bytes(w, &header, w->kv, arr_len(w->kv));
    append_bytes(w, &header, w->infos, arr_len(w->infos));
    if (!writer_failed(w) && header_accepted(w, header, arr_len(header)) && w->in_memory)
        reserve_memory(w, arr_len(header));
    if (!writer_failed(w)) {
        emit_bytes(w, header, arr_len(header));
        pad_data(w);
    }
    arr_free(header);
}

int gguf_create(struct gguf_writer *w, const char *path, mgpt_error *err)
{
    *w = (struct gguf_writer){.alignment = ALIGNMENT};
    return outfile_open(&w->out, path, err);
}

void gguf_create_memory(struct gguf_writer *w)
{
    *w = (struct gguf_writer){.alignment = ALIGNMENT, .in_memory = 1, .out.fd = -1};
}

void gguf_data(struct gguf_writer *w, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    if (!writer_failed(w) && w->out.offset == 0)
        write_header(w);
    while (n > 0 && !writer_failed(w)) {
        if (w->n_written == w->n_tensors) {
            err_set(&w->failed, MGPT_EARG, MGPT_NO_OFFSET,
                    "%zu bytes of data after the last of %llu tensors", n,
                    (unsigned long long)w->n_tensors);
            return;
        }
        uint64_t room = w->tensor_sizes[w->n_written] - w->in_tensor;
        size_t take = n < room ? n : (size_t)room;
        emit_bytes(w, p, take);
        w->in_tensor += take;
        p += take;
        n -= take;
        if (take == room) {
            pad_data(w);
            w->n_written++;
            w->in_tensor = 0;
        }
    }
}

static void writer_release(struct gguf_writer *w)
{
    free(w->memory);
    arr_free(w->kv);
    arr_free(w->infos);
    arr_free(w->tensor_sizes);
    *w = (struct gguf_writer){0};
}

/* Checks shared by both kinds of commit; returns a status with *err. */
static int finish_data(struct gguf_writer *w, mgpt_error *err)
{
    if (!writer_failed(w) && w->out.offset == 0)
        write_header(w);
    if (!writer_failed(w) && w->n_written != w->n_tensors)
        err_set(
            &w->failed, MGPT_EARG, MGPT_NO_OFFSET, "tensor %llu of %llu got %llu of its %llu bytes",
            (unsigned long long)w->n_written + 1, (unsigned long long)w->n_tensors,
            (unsigned long long)w->in_tensor, (unsigned long long)w->tensor_sizes[w->n_written]);
    if (w->failed.status < 0 && err)
        *err = w->failed;
    return w->failed.status;
}

int gguf_commit(struct gguf_writer *w, mgpt_error *err)
{
    int status = finish_data(w, err);
    if (status < 0)
        outfile_discard(&w->out);
    else
        status = outfile_commit(&w->out, err);
    writer_release(w);
    return status;
}

int gguf_commit_memory(struct gguf_writer *w, void **bytes, size_t *n_bytes, mgpt_error *err)
{
    int status = finish_data(w, err);
    if (status == MGPT_OK) {
        *bytes = w->memory;
        *n_bytes = w->memory_size;
        w->memory = NULL;
    }
    writer_release(w);
    return status;
}

void gguf_discard(struct gguf_writer *w)
{
    outfile_discard(&w->out);
    writer_release(w);
}
