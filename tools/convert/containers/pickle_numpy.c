/* numpy's arrays and scalars inside pickles. See pickle.h.
 *
 *     array:  _reconstruct(ndarray, (0,), b'b') with the state (1, shape, dtype, fortran, bytes)
 *             _frombuffer(bytes, dtype, shape, 'C' or 'F')                           protocol 5
 *     dtype:  dtype('f4', False, True) with the state (3, '<', None, None, None, -1, -1, 0)
 *     scalar: pickle_numpy_scalar(dtype, bytes)
 *
 * Protocol 2 has no bytes: Python 3 writes _codecs.encode(text, 'latin1'), two bytes of text for
 * each byte above 127, which is decoded into the checkpoint's memory.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "convert/containers/pickle_words.h"

#include <string.h>

/* ---- element types --------------------------------------------------------------------------- */

int pickle_dtype(const char *text, size_t n, enum state_type *type)
{
    static const struct {
        char name[3];
        enum state_type type;
    } types[] = {
        {"f4", STATE_F32}, {"f2", STATE_F16}, {"f8", STATE_F64},
        {"i8", STATE_I64}, {"i4", STATE_I32}, {"i2", STATE_I16},
        {"i1", STATE_I8},  {"u1", STATE_U8},  {"b1", STATE_BOOL},
    };
    if (n == 3 && (text[0] == '<' || text[0] == '|' || text[0] == '='))
        text++;
    else if (n != 2)
        return 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (memcmp(text, types[i].name, 2) == 0) {
            *type = types[i].type;
            return 1;
        }
    return 0;
}

/* A call of numpy.dtype; its state may say big-endian. */
static int element_type(const struct pickle *p, pickle_id id, enum state_type *type)
{
    if (!pickle_is_call(p, id, "numpy", "dtype"))
        return 0;
    struct pickle_node name = pickle_at(p, pickle_arg(p, id, 0));
    if (pickle_is_text(p, pickle_item(p, pickle_at(p, id).state, 1), ">"))
        return 0;
    return name.kind == PICKLE_TEXT && pickle_dtype(name.as.text, name.n, type);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Decodes the text of a call, which becomes its bytes: a call with several users is decoded once. */
static int latin1(const struct pickle *p, pickle_id call, struct pickle_node text,
                  struct checkpoint *c, mgpt_error *err)
{
    char *out = ckpt_text(c, text.as.text, text.n);
    size_t n = 0, length;
    if (!out)
        return err_memory(err, "an array", text.n);
    for (size_t i = 0; i < text.n; i += length) {
        uint32_t code;
        length = utf8_next(text.as.text + i, text.n - i, &code);
        if (code > 255)
            return err_set(err, MGPT_EFILE, text.at, "pickle: bytes that are not latin1 (byte %u)",
                           text.at);
        out[n++] = (char)(uint8_t)code;
    }
    pickle_become_bytes(p, call, out, (uint32_t)n);
    return MGPT_OK;
}

/* bytes, a str of Python 2, bytearray(bytes), _codecs.encode(text, 'latin1'): 1, 0 or negative */
static int bytes_of(const struct pickle *p, pickle_id id, struct checkpoint *c, struct span *bytes,
                    mgpt_error *err)
{
    if (pickle_is_call(p, id, "_codecs", "encode")) {
        struct pickle_node text = pickle_at(p, pickle_arg(p, id, 0));
        int status = text.kind == PICKLE_TEXT && c ? latin1(p, id, text, c, err) : 0;
        if (status < 0)
            return status;
    }
    struct pickle_node n = pickle_at(p, id);
    if (pickle_is_call(p, id, "builtins", "bytearray"))
        n = pickle_at(p, pickle_arg(p, id, 0));
    if (n.kind != PICKLE_BYTES && n.kind != PICKLE_TEXT)
        return 0;
    *bytes = (struct span){(const uint8_t *)n.as.text, n.n};
    return 1;
}

/* ---- scalars and numbers --------------------------------------------------------------------- */

/* The bytes of a scalar, at most 8; their number, or 0 when there are more or none. */
static size_t scalar_bytes(const struct pickle *p, pickle_id id, uint8_t out[8])
{
    struct span bytes;
    size_t n = 0, length;
    struct pickle_node text = pickle_at(p, pickle_arg(p, id, 0));
    if (pickle_is_call(p, id, "_codecs", "encode") && text.kind == PICKLE_TEXT) {
        for (size_t i = 0; i < text.n; i += length) {
            uint32_t code;
            length = utf8_next(text.as.text + i, text.n - i, &code);
            if (code > 255 || n == 8)
                return 0;
            out[n++] = (uint8_t)code;
        }
        return n;
    }
    if (bytes_of(p, id, NULL, &bytes, NULL) <= 0 || bytes.size > 8)
        return 0;
    memcpy(out, bytes.data, bytes.size);
    return bytes.size;
}

/* The little-endian integer of a numpy scalar, or the bits of its float. */
static int pickle_numpy_scalar(const struct pickle *p, pickle_id id, enum state_type *type,
                               uint64_t *bits)
{
    uint8_t bytes[8];
    if (!pickle_is_call(p, id, NULL, "scalar") || !element_type(p, pickle_arg(p, id, 0), type) ||
        scalar_bytes(p, pickle_arg(p, id, 1), bytes) != state_type_bytes(*type))
        return 0;
    *bits = 0;
    for (size_t i = 0; i < state_type_bytes(*type); i++)
        *bits |= (uint64_t)bytes[i] << (8 * i);
    return 1;
}

int pickle_int(const struct pickle *p, pickle_id id, int64_t *v)
{
    struct pickle_node n = pickle_at(p, id);
    enum state_type type;
    uint64_t bits;
    if (n.kind == PICKLE_INT || n.kind == PICKLE_BOOL) {
        *v = n.as.integer;
        return 1;
    }
    if (!pickle_numpy_scalar(p, id, &type, &bits) || type < STATE_I64)
        return 0;
    unsigned unused = 64 - 8 * (unsigned)state_type_bytes(type);
    int64_t wide;
    bits <<= unused;
    memcpy(&wide, &bits, sizeof wide);
    *v = type == STATE_U8 || type == STATE_BOOL ? (int64_t)(bits >> unused) : wide >> unused;
    return 1;
}

int pickle_sizes(const struct pickle *p, pickle_id tuple, uint64_t v[STATE_MAX_DIMS], uint32_t *n)
{
    *n = 0;
    if (pickle_is_call(p, tuple, "torch", "Size"))
        tuple = pickle_arg(p, tuple, 0);
    if (pickle_at(p, tuple).kind != PICKLE_TUPLE)
        return 0;
    for (struct pickle_iter i = pickle_items(p, tuple); pickle_next(&i);) {
        int64_t value;
        if (*n == STATE_MAX_DIMS || !pickle_int(p, i.value, &value) || value < 0)
            return 0;
        v[(*n)++] = (uint64_t)value;
    }
    return 1;
}

int pickle_real(const struct pickle *p, pickle_id id, double *v)
{
    struct pickle_node n = pickle_at(p, id);
    enum state_type type;
    uint64_t bits;
    int64_t integer;
    if (n.kind == PICKLE_REAL) {
        *v = n.as.real;
        return 1;
    }
    if (pickle_numpy_scalar(p, id, &type, &bits) && (type == STATE_F32 || type == STATE_F64)) {
        uint32_t low = (uint32_t)bits;
        float f;
        memcpy(&f, &low, sizeof f);
        memcpy(v, &bits, sizeof *v);
        if (type == STATE_F32)
            *v = (double)f;
        return 1;
    }
    if (!pickle_int(p, id, &integer))
        return 0;
    *v = (double)integer;
    return 1;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Strides of an array whose first index is the fastest. */
static void fortran(struct state_tensor *t)
{
    uint64_t stride = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        t->strides[i] = stride;
        if (!ck_mul(stride, t->shape[i], &stride))
            stride = UINT64_MAX; /* state_add refuses it */
    }
}

int pickle_ndarray(const struct pickle *p, pickle_id id, struct checkpoint *c,
                   struct state_tensor *t, mgpt_error *err)
{
    struct pickle_node n = pickle_at(p, id);
    pickle_id shape, type, bytes;
    int64_t columns = 0;
    if (pickle_is_call(p, id, NULL, "_reconstruct")) {
        shape = pickle_item(p, n.state, 1);
        type = pickle_item(p, n.state, 2);
        pickle_int(p, pickle_item(p, n.state, 3), &columns);
        bytes = pickle_item(p, n.state, 4);
    } else if (pickle_is_call(p, id, NULL, "_frombuffer")) {
        bytes = pickle_arg(p, id, 0);
        type = pickle_arg(p, id, 1);
        shape = pickle_arg(p, id, 2);
        columns = pickle_is_text(p, pickle_arg(p, id, 3), "F");
    } else {
        return 0;
    }
    *t = (struct state_tensor){.name = ""};
    if (!pickle_sizes(p, shape, t->shape, &t->n_dims) || !element_type(p, type, &t->type))
        return err_set(err, MGPT_EFILE, n.at,
                       "pickle: a numpy array of a shape or type that is not supported (byte %u)",
                       n.at);
    int status = bytes_of(p, bytes, c, &t->bytes, err);
    if (status == 0)
        return err_set(err, MGPT_EFILE, n.at, "pickle: a numpy array without bytes (byte %u)",
                       n.at);
    if (columns)
        fortran(t);
    else
        state_contiguous(t);
    return status;
}
