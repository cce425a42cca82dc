/* Matrices as base64 of their bytes, which are decoded into the checkpoint's memory. See tree.h. */
#include "base/check.h"
#include "base/error.h"
#include "common/base64.h"
#include "convert/families/tree.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    enum state_type type;
} types[] = {
    {"f32", STATE_F32}, {"float32", STATE_F32}, {"<f4", STATE_F32}, {"f4", STATE_F32},
    {"f64", STATE_F64}, {"float64", STATE_F64}, {"<f8", STATE_F64}, {"f8", STATE_F64},
    {"f16", STATE_F16}, {"float16", STATE_F16}, {"<f2", STATE_F16}, {"f2", STATE_F16},
};

/* n bytes, of a text that decoded_size has accepted. */
static void decode(const char *text, uint64_t n, uint8_t *out)
{
    for (uint64_t i = 0; i < n; i++) {
        const char *p = text + i / 3 * 4 + i % 3;
        unsigned high = (unsigned)base64_digit(p[0]), low = (unsigned)base64_digit(p[1]);
        unsigned shift = 2 * (unsigned)(i % 3) + 2;
        out[i] = (uint8_t)(high << shift | low >> (6 - shift));
    }
}

/* The number of bytes that the text encodes; UINT64_MAX when it is not base64. Padding may be
 * missing. */
static uint64_t decoded_size(const char *text, size_t n)
{
    size_t padding = 0;
    while (n > 0 && padding < 2 && text[n - 1] == '=') {
        n--;
        padding++;
    }
    if (n % 4 == 1 || (padding && (n + padding) % 4))
        return UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        if (base64_digit(text[i]) < 0)
            return UINT64_MAX;
    return (uint64_t)n / 4 * 3 + (n % 4 ? n % 4 - 1 : 0);
}

static enum state_type base64_type(struct gguf_str name)
{
    size_t skip = name.n > 6 && memcmp(name.p, "torch.", 6) == 0 ? 6 : 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == name.n - skip &&
            strncasecmp(types[i].name, name.p + skip, name.n - skip) == 0)
            return types[i].type;
    return STATE_OTHER;
}

void base64_add(struct mg_parts *m, const char *name, struct gguf_str data, struct gguf_str dtype,
                uint64_t rows, uint64_t cols)
{
    enum state_type type = base64_type(dtype);
    size_t width = state_type_bytes(type);
    uint64_t n, expected, found;
    if (!width)
        ckpt_stop_tensor(m->c, name, "base64 needs a dtype of f32, f64 or f16 (little-endian)");
    found = decoded_size(data.p, data.n);
    if (found == UINT64_MAX)
        ckpt_stop_tensor(m->c, name, "data: not base64");
    if (!ck_mul(rows ? rows : 1, cols, &n) || !ck_mul(n, width, &expected) || found != expected)
        ckpt_stop_tensor(m->c, name, "shape is [%llu, %llu], data has %llu bytes of %zu each",
                         (unsigned long long)rows, (unsigned long long)cols,
                         (unsigned long long)found, width);
    uint8_t *bytes = ckpt_new(m->c, (size_t)found, 1);
    decode(data.p, found, bytes);
    mg_add(m, name, mg_flat(bytes, rows, cols, type));
}
