/* The reader's checks of a file that is about to be written: what the engine would not open is refused
 * with the engine's line, before a byte is written. See write.h.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/core/write.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 16384 }; /* values: a whole number of blocks of any element type */

/* 1: the reader looks at the values when it opens a file. */
static int is_looked_at(const struct gguf_tensor *t)
{
    return t->n_dims <= 1 || t->n_values <= CHUNK;
}

/* What is kept as it is may have a type that has no encoder. */
static void put_values(const struct ckpt_tensor *t, const struct dtype *type, float *values,
                       uint8_t *bytes)
{
    for (uint64_t first = 0; first < t->n_values; first += CHUNK) {
        size_t n = t->n_values - first < CHUNK ? (size_t)(t->n_values - first) : CHUNK;
        uint64_t at = first / type->block * type->block_bytes;
        if (t->blocks && type == t->type) {
            t->blocks(t, first, n, bytes + at);
        } else if (t->bytes && type == t->type) {
            memcpy(bytes + at, t->bytes + at, n / type->block * type->block_bytes);
        } else {
            ckpt_values(t, first, n, values);
            ckpt_encode(t, type, first, n, values, bytes + at);
        }
    }
}

int ckpt_check_header(void *user, struct gguf *header, mgpt_error *err)
{
    struct checkpoint *c = user;
    size_t n = arr_len(header->tensors), size = CHUNK * sizeof(float);
    for (size_t i = 0; i < n; i++)
        size += is_looked_at(&header->tensors[i]) ? header->tensors[i].size : 0;
    float *values = mem_new(size, 1);
    if (!values)
        return err_memory(err, "vectors", size);
    uint8_t *at = (uint8_t *)(values + CHUNK);
    for (size_t i = 0; i < n; i++) {
        struct gguf_tensor *t = &header->tensors[i];
        if (!is_looked_at(t))
            continue;
        put_values(&c->tensors[i], t->type, values, at);
        t->data = at;
        at += t->size;
    }
    int status = c->failed.status < 0 ? MGPT_OK : model_check(header, err);
    free(values);
    return status;
}
