/* Compression of panels of BF16 (float_compressed.h). Any bytes are valid weights, so the only failure
 * is a panel with more patches than it has room for. */
#include "kernels/pack/float_compressed.h"

#include <string.h>

/* Columns [k, k + 4 * n_quads) of a panel, with one table; four are a quad. */
struct table_span {
    uint8_t high[SPAN * PANEL]; /* a plane of high bytes for each quad, later of indices */
    size_t k, n_quads;
    uint8_t table[TABLE];
};

typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint32_t words __attribute__((vector_size(16)));

#define EVEN_BYTES(a, b)                                                                           \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_BYTES(a, b)                                                                            \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)

/* Four columns of bytes become a plane: a transposition of words. */
static inline void put_plane(uint8_t *plane, const bytes column[4])
{
    words a[4], b[4];
    for (size_t i = 0; i < 4; i++)
        a[i] = (words)column[i];
    for (size_t i = 0; i < 2; i++) {
        b[2 * i] = __builtin_shufflevector(a[i], a[i + 2], 0, 4, 1, 5);
        b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 6, 3, 7);
    }
    for (size_t i = 0; i < 2; i++) {
        a[2 * i] = __builtin_shufflevector(b[i], b[i + 2], 0, 4, 1, 5);
        a[2 * i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 6, 3, 7);
    }
    memcpy(plane, a, sizeof a);
}

/* Splits four columns into their high and low bytes. */
static inline void split_quad(uint8_t *high, uint8_t *low, const uint8_t *from)
{
    bytes h[4], l[4];
    for (size_t k = 0; k < 4; k++) {
        bytes column[2];
        memcpy(column, from + k * sizeof column, sizeof column);
        h[k] = ODD_BYTES(column[0], column[1]);
        l[k] = EVEN_BYTES(column[0], column[1]);
    }
    put_plane(high, h);
    put_plane(low, l);
}

/* High bytes to indices, if they are 8 adjacent magnitudes with either sign, as in nine of ten spans of
 * Gaussian weights. This takes a tenth of the time of index_any. */
static int index_range(struct table_span *s)
{
    uint8_t *h = s->high, least = 127, most = 0;
    size_t n = s->n_quads * PLANE;
    for (size_t i = 0; i < n; i++) {
        uint8_t magnitude = h[i] & 127;
        least = magnitude < least ? magnitude : least;
        most = magnitude > most ? magnitude : most;
    }
    if (most - least >= TABLE / 2)
        return 0;
    least = least > 127 - 7 ? 127 - 7 : least;
    for (size_t i = 0; i < TABLE; i++)
        s->table[i] = (uint8_t)(least + i % 8 + i / 8 * 128);
    for (size_t i = 0; i < n; i++)
        h[i] = (uint8_t)((h[i] & 127) - least + (h[i] >> 7) * 8);
    return 1;
}

/* Removes the rarest high bytes until a table holds the others. */
static void drop_rare(const struct table_span *s, uint8_t *seen, size_t distinct)
{
    size_t count[256] = {0};
    for (size_t i = 0; i < s->n_quads * PLANE; i++)
        count[s->high[i]]++;
    for (; distinct > TABLE; distinct--) {
        size_t rarest = 0, least = SIZE_MAX;
        for (size_t h = 0; h < 256; h++)
            if (seen[h] && count[h] < least) {
                least = count[h];
                rarest = h;
            }
        seen[rarest] = 0;
    }
}

/* Fills the table from the high bytes of a span. seen[h]: the table has h. */
static void make_table(struct table_span *s, uint8_t *seen)
{
    size_t distinct = 0, n = 0;
    for (size_t i = 0; i < s->n_quads * PLANE; i++)
        seen[s->high[i]] = 1;
    for (size_t h = 0; h < 256; h++)
        distinct += seen[h];
    if (distinct > TABLE)
        drop_rare(s, seen, distinct);
    for (size_t h = 0; h < 256; h++)
        if (seen[h])
            s->table[n++] = (uint8_t)h;
    for (; n < TABLE; n++)
        s->table[n] = s->table[n - 1];
    if (distinct > TABLE) {
        uint8_t first = s->table[0];
        s->table[0] = s->table[1];
        s->table[1] = first;
    }
}

/* Writes a patch for high byte i. */
static void put_patch(uint8_t *to, const struct table_span *s, size_t i)
{
    size_t k = s->k + i / PLANE * 4 + i / 4 % 4, r = i % PLANE / 16 * 4 + i % 4;
    uint32_t patch = (uint32_t)(k << 12 | r << 8 | s->high[i]);
    memcpy(to, &patch, sizeof patch);
}

/* High bytes to indices, for any span. Moves *patches; returns 0 if there is no room for more. */
static int index_any(struct table_span *s, uint8_t **patches, const uint8_t *end)
{
    uint8_t seen[256] = {0}, map[256] = {0};
    make_table(s, seen);
    for (size_t i = 0; i < TABLE; i++)
        map[s->table[i]] = (uint8_t)i;
    for (size_t i = 0; i < s->n_quads * PLANE; i++) {
        uint8_t h = s->high[i];
        if (!seen[h] && *patches == end)
            return 0;
        if (!seen[h]) {
            put_patch(*patches, s, i);
            *patches += PATCH;
        }
        s->high[i] = map[h];
    }
    return 1;
}

int kernels_compress(void *to, const void *panel, size_t n_in)
{
    uint8_t *patches = (uint8_t *)to + compressed_patches_at(n_in);
    uint8_t *end = (uint8_t *)to + compressed_panel_bytes(n_in);
    memset(patches, 0xFF, (size_t)(end - patches));
    memset((uint8_t *)to + compressed_table_at(n_in - 1), 0, PLANE);
    for (size_t k = 0; k < n_in; k += SPAN) {
        struct table_span s = {.k = k, .n_quads = (n_in - k < SPAN ? n_in - k : SPAN) / 4};
        uint8_t *groups = (uint8_t *)to + compressed_group_at(k);
        for (size_t q = 0; q < s.n_quads; q++)
            split_quad(s.high + q * PLANE, groups + q / 2 * GROUP_BYTES + (1 + q % 2) * PLANE,
                       (const uint8_t *)panel + (k + 4 * q) * PANEL * sizeof(uint16_t));
        if (!index_range(&s) && !index_any(&s, &patches, end))
            return 0;
        for (size_t q = 0; q < s.n_quads; q += 2)
            for (size_t i = 0; i < PLANE; i++)
                groups[q / 2 * GROUP_BYTES + i] =
                    (uint8_t)(s.high[q * PLANE + i] | s.high[(q + 1) * PLANE + i] << 4);
        memcpy((uint8_t *)to + compressed_table_at(k), s.table, TABLE);
    }
    return 1;
}

int kernels_compressible(size_t n_in, size_t n_out)
{
    return n_in % GROUP == 0 && n_in >= SPAN && n_in < 1 << 20 && n_out > NARROW;
}
