/* The layout of compressed panels: BF16 in 12.25 bits, without loss. Included only by kernels and
 * packing.
 *
 * The high byte of a weight, its sign and seven bits of its exponent, has few values in a trained
 * matrix. It is stored as a 4-bit index into a table of 16, one for each span of 64 columns of a
 * panel.
 *
 * A panel: for each 256 columns a line with the tables of their spans, then their groups of 8
 * columns; at the end the patches.
 *
 *   group   64 bytes of indices: the low nibbles are those of columns 0 to 3, the high ones of 4 to
 *           7; 64 low bytes of columns 0 to 3, 64 of 4 to 7. In each, row r of column k is at
 *           r / 4 * 16 + k % 4 * 4 + r % 4. So interleaving 16 low bytes with 16 high bytes gives
 *           four rows of each column.
 *   patch   column << 12 | row << 8 | high byte, as uint32_t, in the order of groups: a weight whose
 *           high byte is not in its table. Unused ones are UINT32_MAX.
 *
 * A table is ascending; if its span has patches, the first two entries are exchanged.
 */
#ifndef MGPT_KERNELS_FLOAT_COMPRESSED_H
#define MGPT_KERNELS_FLOAT_COMPRESSED_H

#include "base/float_bits.h"
#include "kernels/kernels.h"

enum {
    GROUP = 8,      /* columns of a group */
    SPAN = 64,      /* columns that share a table */
    LINE_SPANS = 4, /* tables of a line */
    PLANE = 64,     /* bytes: one for each weight of four columns, or a line */
    GROUP_BYTES = 3 * PLANE,
    TABLE = 16, /* entries, bytes */
    PATCH = 4   /* bytes */
};

/* Byte offsets in a panel: of the group of column k, of its table, of the patches. */
static inline size_t compressed_group_at(size_t k)
{
    return (k / (LINE_SPANS * SPAN) + 1) * PLANE + k / GROUP * GROUP_BYTES;
}

static inline size_t compressed_table_at(size_t k)
{
    size_t spans = k / SPAN, line = spans / LINE_SPANS;
    return line * (PLANE + LINE_SPANS * SPAN / GROUP * GROUP_BYTES) + spans % LINE_SPANS * TABLE;
}

static inline size_t compressed_patches_at(size_t n_in)
{
    size_t columns = LINE_SPANS * SPAN, lines = (n_in + columns - 1) / columns;
    return lines * PLANE + n_in / GROUP * GROUP_BYTES;
}

/* Two patches for each span. */
static inline size_t compressed_panel_bytes(size_t n_in)
{
    return compressed_patches_at(n_in) + (n_in / GROUP + PLANE - 1) / PLANE * PLANE;
}

static inline int compressed_has_patches(const uint8_t *table)
{
    return table[0] > table[1];
}

/* Row r of column k, without its patch. */
static inline float compressed_at(const uint8_t *panel, size_t k, size_t r)
{
    size_t at = r / 4 * 16 + k % 4 * 4 + r % 4, half = k % GROUP / 4;
    const uint8_t *group = panel + compressed_group_at(k);
    uint32_t high = panel[compressed_table_at(k) + (group[at] >> 4 * half & 15)];
    return f32_from_bits(high << 24 | (uint32_t)group[(1 + half) * PLANE + at] << 16);
}

/* Corrects columns [k0, k0 + columns) of a panel, unpacked to wide[column - k0][row]. */
static inline void compressed_patch(float *wide, const uint8_t *panel, size_t n_in, size_t k0,
                                    size_t columns)
{
    const uint8_t *end = panel + compressed_panel_bytes(n_in);
    for (const uint8_t *at = panel + compressed_patches_at(n_in); at < end; at += PATCH) {
        uint32_t patch;
        memcpy(&patch, at, sizeof patch);
        size_t k = patch >> 12;
        if (k >= k0 + columns)
            return;
        if (k >= k0) {
            float *w = wide + (k - k0) * PANEL + (patch >> 8) % PANEL;
            *w = f32_from_bits((f32_bits(*w) & 0xFFFFFF) | patch << 24);
        }
    }
}

#endif
