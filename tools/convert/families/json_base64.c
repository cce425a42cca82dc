/* Matrices as base64 of their bytes. See tree.h.
 *
 * The whole text is checked once: its alphabet, its padding, its length against the shape. Values
 * are decoded from it when the writer asks for them, so nothing is stored twice.
 */
#include "base/check.h"
#include "base/error.h"
#include "common/base64.h"
#include "convert/families/tree.h"
#include "dtype/dtype.h"

#include <string.h>
#include <strings.h>

enum { MAX_WIDTH = 8 };

static const struct {
    const char *name;
    unsigned width; /* bytes of a value */
} types[] = {
    {"f32", 4}, {"float32", 4}, {"<f4", 4}, {"f4", 4},      {"f64", 8}, {"float64", 8},
    {"<f8", 8}, {"f8", 8},      {"f16", 2}, {"float16", 2}, {"<f2", 2}, {"f2", 2},
};

struct base64 {
    const char *text;
    unsigned width;
};

/* ---- decoding -------------------------------------------------------------------------------- */

static uint8_t byte_at(const char *text, uint64_t i)
{
    const char *p = text + i / 3 * 4 + i % 3;
    unsigned high = (unsigned)base64_digit(p[0]), low = (unsigned)base64_digit(p[1]);
    unsigned shift = 2 * (unsigned)(i % 3) + 2;
    return (uint8_t)(high << shift | low >> (6 - shift));
}

static float value_at(const struct base64 *b, uint64_t i)
{
    uint64_t bits = 0;
    for (unsigned k = 0; k < b->width; k++)
        bits |= (uint64_t)byte_at(b->text, i * b->width + k) << (8 * k);
    uint32_t single = (uint32_t)bits;
    double wide;
    float v;
    if (b->width == 2)
        return f16_to_f32((uint16_t)bits);
    memcpy(&wide, &bits, sizeof wide);
    memcpy(&v, &single, sizeof v);
    return b->width == 4 ? v : (float)wide;
}

static void base64_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = value_at(t->source, t->at + first + i);
}

/* ---- checking -------------------------------------------------------------------------------- */

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

static unsigned width_of(struct gguf_str name)
{
    size_t skip = name.n > 6 && memcmp(name.p, "torch.", 6) == 0 ? 6 : 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == name.n - skip &&
            strncasecmp(types[i].name, name.p + skip, name.n - skip) == 0)
            return types[i].width;
    return 0;
}

int base64_add(struct mg_parts *m, const char *name, struct gguf_str data, struct gguf_str dtype,
               uint64_t rows, uint64_t cols)
{
    unsigned width = width_of(dtype);
    uint64_t n, expected, found;
    if (!width)
        return ckpt_refuse_tensor(m->err, name,
                                  "base64 needs a dtype of f32, f64 or f16 (little-endian)");
    found = decoded_size(data.p, data.n);
    if (found == UINT64_MAX)
        return ckpt_refuse_tensor(m->err, name, "data: not base64");
    if (!ck_mul(rows ? rows : 1, cols, &n) || !ck_mul(n, width, &expected) || found != expected)
        return ckpt_refuse_tensor(
            m->err, name, "shape is [%llu, %llu], data has %llu bytes of %u each",
            (unsigned long long)rows, (unsigned long long)cols, (unsigned long long)found, width);
    struct base64 *b = ckpt_alloc(m->c, 1, sizeof *b);
    if (!b)
        return err_memory(m->err, "a matrix", sizeof *b);
    *b = (struct base64){data.p, width};
    struct mg_matrix matrix = {.rows = rows,
                               .cols = cols,
                               .type = dtype_find(width == 2 ? DTYPE_F16 : DTYPE_F32),
                               .values = base64_values,
                               .source = b};
    return mg_add(m, name, strlen(name), matrix);
}
