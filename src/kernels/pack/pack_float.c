/* Packing of float types into the panels of kernels.h.
 *
 * A panel is split into squares of side x side elements, where side elements are a 16-byte vector.
 * A square is transposed in log2(side) stages, each interleaving row i with row i + side / 2. All
 * rows use up one cache line before the next, because rows a power of two apart share few sets of
 * L1. 16-byte vectors exist on every supported machine, so one version serves all ISA levels.
 */
#include "kernels/kernels.h"
#include "kernels/pack/float_compressed.h"
#include "kernels/pack/int_layout.h"
#include "kernels/pack/transpose.h"

#include <string.h>

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef uint16_t halves __attribute__((vector_size(16)));

enum { LINE_BYTES = 64 };

/* Four rows of four columns, `stride` bytes apart, become four columns of a panel. */
static inline void transpose_32(char *dst, const char *src, size_t stride)
{
    words_4 a[4];
    UNROLL for (size_t i = 0; i < 4; i++) memcpy(&a[i], src + i * stride, sizeof *a);
    transpose_words(a);
    UNROLL for (size_t k = 0; k < 4; k++) memcpy(dst + k * PANEL * 4, &a[k], sizeof *a);
}

/* Transposes eight rows of eight 16-bit elements into columns of a panel. */
static inline void transpose_16(char *dst, const char *src, size_t stride)
{
    halves a[8], b[8];
    UNROLL for (size_t i = 0; i < 8; i++) memcpy(&a[i], src + i * stride, sizeof *a);
    UNROLL for (int stage = 0; stage < 3; stage++)
    {
        UNROLL for (size_t i = 0; i < 4; i++)
        {
            b[2 * i] = SHUFFLE(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            b[2 * i + 1] = SHUFFLE(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        UNROLL for (size_t i = 0; i < 8; i++) a[i] = b[i];
    }
    UNROLL for (size_t k = 0; k < 8; k++) memcpy(dst + k * PANEL * 2, &a[k], sizeof *a);
}

/* The columns from k0 on, element by element. Missing rows become zeros. */
static inline void pack_rest(char *dst, const char *src, size_t each, size_t n_in, size_t rows,
                             size_t k0)
{
    for (size_t k = k0; k < n_in; k++)
        for (size_t r = 0; r < PANEL; r++) {
            char *to = dst + (k * PANEL + r) * each;
            if (r < rows)
                memcpy(to, src + (r * n_in + k) * each, each);
            else
                memset(to, 0, each);
        }
}

/* A panel of 16 rows; `each`, the bytes of an element, is a constant. */
static inline void pack_float_panel(char *dst, const char *src, size_t each, size_t n_in)
{
    size_t side = 16 / each, line = LINE_BYTES / each, stride = n_in * each, k0 = 0;
    for (; k0 + line <= n_in; k0 += line)
        for (size_t r = 0; r < PANEL; r += side)
            for (size_t k = k0; k < k0 + line; k += side) {
                char *to = dst + (k * PANEL + r) * each;
                if (each == 4)
                    transpose_32(to, src + r * stride + k * each, stride);
                else
                    transpose_16(to, src + r * stride + k * each, stride);
            }
    pack_rest(dst, src, each, n_in, PANEL, k0);
}

static inline void pack_floats(char *dst, const char *src, size_t each, size_t n_in, size_t n_out,
                               size_t p0, size_t p1)
{
    size_t bytes = PANEL * n_in * each;
    for (size_t p = p0; p < p1; p++)
        if (p * PANEL + PANEL <= n_out)
            pack_float_panel(dst + p * bytes, src + p * bytes, each, n_in);
        else
            pack_rest(dst + p * bytes, src + p * bytes, each, n_in, n_out - p * PANEL, 0);
}

static void pack_32(void *dst, const void *src, size_t n_in, size_t n_out, size_t p0, size_t p1)
{
    pack_floats(dst, src, 4, n_in, n_out, p0, p1);
}

static void pack_16(void *dst, const void *src, size_t n_in, size_t n_out, size_t p0, size_t p1)
{
    pack_floats(dst, src, 2, n_in, n_out, p0, p1);
}

/* ---- rows ---- */

static void unpack_compressed_row(const uint8_t *panel, size_t n_in, size_t r, float *to)
{
    for (size_t k = 0; k < n_in; k++)
        to[k] = compressed_at(panel, k, r);
    const uint8_t *end = panel + compressed_panel_bytes(n_in);
    for (const uint8_t *at = panel + compressed_patches_at(n_in); at < end; at += PATCH) {
        uint32_t patch;
        memcpy(&patch, at, sizeof patch);
        if (patch != UINT32_MAX && (patch >> 8) % PANEL == r)
            to[patch >> 12] = f32_from_bits((f32_bits(to[patch >> 12]) & 0xFFFFFF) | patch << 24);
    }
}

void kernels_unpack_row(enum weight_type type, const void *w, size_t n_in, size_t row, float *to)
{
    const uint8_t *panel = (const uint8_t *)w + row / PANEL * kernels_panel_bytes(type, n_in);
    size_t at = row / PANEL * PANEL * n_in + row % PANEL;
    if (weight_is_integer(type)) {
        kernels_unpack_int_row(&layouts[type], panel, n_in, row % PANEL, to);
        return;
    }
    if (type == WEIGHT_BF16_COMPRESSED) {
        unpack_compressed_row(panel, n_in, row % PANEL, to);
        return;
    }
    for (size_t k = 0; k < n_in; k++, at += PANEL)
        if (type == WEIGHT_F32)
            to[k] = ((const float *)w)[at];
        else if (type == WEIGHT_F16)
            to[k] = half((const uint8_t *)w + 2 * at);
        else
            to[k] = f32_from_bits((uint32_t)((const uint16_t *)w)[at] << 16);
}

void kernels_pack_floats_init(struct kernels *k)
{
    k->pack[WEIGHT_F32] = pack_32;
    k->pack[WEIGHT_F16] = k->pack[WEIGHT_BF16] = pack_16;
}
