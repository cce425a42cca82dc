/* Reader: flax_model.msgpack of Hugging Face (JAX), next to its config.json.
 *
 * A tree of maps whose leaves are arrays: extension 1 of (shape, dtype, bytes). The words on the way to
 * an array are the module's name in PyTorch. "kernel", "scale" and "embedding" are PyTorch's "weight";
 * a kernel is its transpose, of GPT-2's Conv1D as of a Linear, so that the families of from_hf.c take
 * the tensors as they are. Arrays above 1 GiB are in chunks, which is refused.
 */
#include "base/cursor.h"
#include "base/error.h"
#include "convert/containers/msgpack.h"
#include "convert/families/hf.h"

#include <stdio.h>
#include <string.h>

enum { FLAX_NAME = 256, FLAX_DEPTH = 32, FLAX_ARRAY = 1 };

struct flax {
    struct cursor at;
    struct state state;
    char name[FLAX_NAME]; /* of the place in the tree: words and dots */
    size_t n_name;
};

static int flax_refuse(const struct flax *f, const char *what, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, f->at.failed ? f->at.where : f->at.pos, "%.*s%s%s",
                   CKPT_CLIP(f->name, f->n_name), f->n_name ? ": " : "", what);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static enum state_type flax_type(const struct msgpack_value *v)
{
    static const struct {
        const char *name;
        enum state_type type;
    } types[] = {{"float32", STATE_F32}, {"float16", STATE_F16}, {"bfloat16", STATE_BF16},
                 {"float64", STATE_F64}, {"int64", STATE_I64},   {"int32", STATE_I32},
                 {"int8", STATE_I8},     {"uint8", STATE_U8},    {"bool", STATE_BOOL}};
    for (size_t i = 0; i < HF_COUNT(types); i++)
        if (v->n == strlen(types[i].name) && memcmp(v->data, types[i].name, v->n) == 0)
            return types[i].type;
    return STATE_OTHER;
}

/* [shape, dtype, bytes], which fill the extension. */
static int flax_parse(struct flax *f, const struct msgpack_value *v, struct state_tensor *t,
                      mgpt_error *err)
{
    struct cursor c = cursor_over(v->data, (size_t)v->n);
    struct msgpack_value all = msgpack_next(&c), shape = msgpack_next(&c), next;
    if (all.kind != MSGPACK_ARRAY || all.n != 3 || shape.kind != MSGPACK_ARRAY)
        return flax_refuse(f, "expected an array of Flax's: (shape, dtype, bytes)", err);
    if (shape.n > STATE_MAX_DIMS)
        return flax_refuse(f, "more than 8 dimensions", err);
    t->n_dims = (uint32_t)shape.n;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        next = msgpack_next(&c);
        if (next.kind != MSGPACK_UINT)
            return flax_refuse(f, "a dimension is not a number", err);
        t->shape[i] = next.n;
    }
    next = msgpack_next(&c);
    if (next.kind != MSGPACK_TEXT)
        return flax_refuse(f, "its dtype is not text", err);
    t->type = flax_type(&next);
    next = msgpack_next(&c);
    if (next.kind != MSGPACK_BYTES || cursor_left(&c) > 0)
        return flax_refuse(f, "its values are not bytes", err);
    t->bytes = (struct span){next.data, (size_t)next.n};
    state_contiguous(t);
    return MGPT_OK;
}

/* The name in PyTorch: without "params." at the front, and the last word. */
static void flax_name(const struct flax *f, char to[FLAX_NAME], int *is_kernel)
{
    static const char *const weights[] = {"kernel", "scale", "embedding"};
    static const char front[] = "params.";
    size_t skip = strncmp(f->name, front, strlen(front)) == 0 ? strlen(front) : 0;
    snprintf(to, FLAX_NAME, "%s", f->name + skip);
    char *dot = strrchr(to, '.'), *word = dot ? dot + 1 : to;
    *is_kernel = strcmp(word, weights[0]) == 0;
    for (size_t i = 0; i < HF_COUNT(weights); i++)
        if (strcmp(word, weights[i]) == 0 && (size_t)(word - to) + 7 < FLAX_NAME)
            memcpy(word, "weight", 7);
}

static int flax_add(struct flax *f, const struct msgpack_value *v, mgpt_error *err)
{
    struct state_tensor t = {.n_dims = 0};
    char name[FLAX_NAME];
    int is_kernel, status = flax_parse(f, v, &t, err);
    if (status < 0)
        return status;
    flax_name(f, name, &is_kernel);
    if (is_kernel && t.n_dims == 2) {
        uint64_t rows = t.shape[0], stride = t.strides[0];
        t.shape[0] = t.shape[1];
        t.strides[0] = t.strides[1];
        t.shape[1] = rows;
        t.strides[1] = stride;
    }
    return state_add(&f->state, name, strlen(name), t, err);
}

/* ---- the tree -------------------------------------------------------------------------------- */

static int flax_walk(struct flax *f, int depth, mgpt_error *err);

static int flax_entry(struct flax *f, int depth, mgpt_error *err)
{
    static const char chunked[] = "__msgpack_chunked_array__";
    const size_t before = f->n_name;
    struct msgpack_value key = msgpack_next(&f->at);
    if (key.kind != MSGPACK_TEXT || key.n == 0 || memchr(key.data, 0, (size_t)key.n))
        return flax_refuse(f, "expected a name", err);
    if (key.n == strlen(chunked) && memcmp(key.data, chunked, (size_t)key.n) == 0)
        return flax_refuse(f, "in chunks, as Flax writes arrays above 1 GiB: not supported", err);
    if (key.n > sizeof f->name - 2 - f->n_name)
        return flax_refuse(f, "a name of more than 255 bytes", err);
    if (f->n_name)
        f->name[f->n_name++] = '.';
    memcpy(f->name + f->n_name, key.data, (size_t)key.n);
    f->n_name += (size_t)key.n;
    f->name[f->n_name] = 0;
    int status = flax_walk(f, depth + 1, err);
    f->n_name = before;
    f->name[before] = 0;
    return status;
}

static int flax_walk(struct flax *f, int depth, mgpt_error *err)
{
    struct msgpack_value v = msgpack_next(&f->at);
    int status = MGPT_OK;
    if (v.kind == MSGPACK_EXTENSION && v.type == FLAX_ARRAY && depth > 0)
        return flax_add(f, &v, err);
    if (v.kind == MSGPACK_BAD)
        return flax_refuse(f, "the file ends, or is damaged", err);
    if (v.kind != MSGPACK_MAP)
        return flax_refuse(f, "expected a map or an array of numbers", err);
    if (depth == FLAX_DEPTH)
        return flax_refuse(f, "maps nested deeper than 32", err);
    for (uint64_t i = 0; status == MGPT_OK && i < v.n; i++)
        status = flax_entry(f, depth, err);
    return status;
}

/* ---- the reader ------------------------------------------------------------------------------ */

/* A map of few entries whose first key is a short word. No pickle: there a protocol below 6 follows
 * 0x80. */
enum ckpt_match flax_sniff(struct span b)
{
    size_t n = b.size > 1 ? b.data[1] & 31U : 0;
    if (b.size < 64 || b.data[0] <= 0x80 || b.data[0] >= 0x90 || b.data[1] >> 5 != 5 || n == 0)
        return MATCH_NO;
    for (size_t i = 0; i < n; i++)
        if (b.data[2 + i] < 32 || b.data[2 + i] > 126)
            return MATCH_NO;
    return MATCH_YES;
}

int flax_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct flax f = {.at = cursor_over(in->bytes.data, in->bytes.size)};
    state_init(&f.state, c);
    int status = flax_walk(&f, 0, err);
    if (status == MGPT_OK && cursor_left(&f.at) > 0)
        status = flax_refuse(&f, "bytes follow the tree", err);
    if (status == MGPT_OK)
        status = hf_read_state(c, in, (struct span){NULL, 0}, &f.state, err);
    state_free(&f.state);
    return status;
}
