/* Compression of panels of BF16 (float_compressed.h). Any bytes are valid weights, so the only failure
 * is a panel with more patches than it has room for. Included by float_tmpl.h: compiled for each ISA
 * level, longer vectors take a quarter of its time away. */
#include "kernels/pack/float_compressed.h"
#include "kernels/pack/transpose.h"
#include "kernels/simd/vec.h"

#include <string.h>

/* Columns [k, k + 4 * n_quads) of a panel, with one table; four are a quad. */
struct table_span {
    uint8_t high[SPAN * PANEL]; /* a plane of high bytes for each quad, later of indices */
    size_t k, n_quads;
    uint8_t table[TABLE];
};

typedef uint8_t bytes_16 __attribute__((vector_size(16)));
typedef words_4 words_at __attribute__((aligned(1), may_alias));

#define EVEN_BYTES(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_BYTES(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)

/* Four columns of bytes become a plane: a transposition of words. */
static inline void put_plane(uint8_t *plane, const bytes_16 column[4])
{
    words_4 a[4];
    UNROLL for (size_t i = 0; i < 4; i++) a[i] = (words_4)column[i];
    transpose_words(a);
    /* No memcpy: with _FORTIFY_SOURCE gcc calls a function for each. */
    UNROLL for (size_t i = 0; i < 4; i++)((words_at *)plane)[i] = a[i];
}

/* Splits four columns into their high and low bytes. */
static inline void split_quad(uint8_t *high, uint8_t *low, const uint8_t *from)
{
    bytes_16 h[4], l[4];
    UNROLL for (size_t k = 0; k < 4; k++)
    {
        bytes_16 first, second;
        memcpy(&first, from + 2 * k * sizeof first, sizeof first);
        memcpy(&second, from + (2 * k + 1) * sizeof first, sizeof second);
        h[k] = ODD_BYTES(first, second);
        l[k] = EVEN_BYTES(first, second);
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

/* Removes the rarest high bytes until a table holds the others. Four counters for each byte: equal
 * bytes in sequence do not wait for each other. */
static void drop_rare(const uint8_t *high, size_t n, uint8_t *seen, size_t distinct)
{
    uint16_t count[4][256] = {{0}};
    for (size_t i = 0; i < n; i += 4)
        for (size_t j = 0; j < 4; j++)
            count[j][high[i + j]]++;
    for (size_t h = 0; h < 256; h++)
        count[0][h] = (uint16_t)(count[0][h] + count[1][h] + count[2][h] + count[3][h]);
    for (; distinct > TABLE; distinct--) {
        size_t rarest = 0, least = SIZE_MAX;
        for (size_t h = 0; h < 256; h++)
            if (seen[h] && count[0][h] < least) {
                least = count[0][h];
                rarest = h;
            }
        seen[rarest] = 0;
    }
}

/* Fills the table from n high bytes. seen[h] becomes 1 if the table has h. Returns 1 if it does not
 * have all of them. */
static int make_table(uint8_t *table, const uint8_t *high, size_t n, uint8_t *seen)
{
    size_t distinct = 0, entries = 0;
    for (size_t i = 0; i < n; i++)
        seen[high[i]] = 1;
    for (size_t h = 0; h < 256; h++)
        distinct += seen[h];
    if (distinct > TABLE)
        drop_rare(high, n, seen, distinct);
    for (size_t h = 0; h < 256; h++)
        if (seen[h])
            table[entries++] = (uint8_t)h;
    for (; entries < TABLE; entries++)
        table[entries] = table[entries - 1];
    if (distinct <= TABLE)
        return 0;
    uint8_t first = table[0];
    table[0] = table[1];
    table[1] = first;
    return 1;
}

/* Writes patches of the high bytes that the table does not have. Returns 0 without room for them. */
static int put_patches(const struct table_span *s, const uint8_t *seen, uint8_t **patches,
                       const uint8_t *end)
{
    for (size_t i = 0; i < s->n_quads * PLANE; i++) {
        if (seen[s->high[i]])
            continue;
        size_t k = s->k + i / PLANE * 4 + i / 4 % 4, r = i % PLANE / 16 * 4 + i % 4;
        uint32_t patch = (uint32_t)(k << 12 | r << 8 | s->high[i]);
        if (*patches == end)
            return 0;
        memcpy(*patches, &patch, PATCH);
        *patches += PATCH;
    }
    return 1;
}

/* High bytes to indices, for any span. Moves *patches; returns 0 if there is no room for more. */
static int index_any(struct table_span *s, uint8_t **patches, const uint8_t *end)
{
    uint8_t seen[256] = {0}, map[256] = {0}, *high = s->high;
    size_t n = s->n_quads * PLANE;
    if (make_table(s->table, high, n, seen) && !put_patches(s, seen, patches, end))
        return 0;
    for (size_t i = 0; i < TABLE; i++)
        map[s->table[i]] = (uint8_t)i;
    for (size_t i = 0; i < n; i++)
        high[i] = map[high[i]];
    return 1;
}

static int compress_panel(void *to, const void *panel, size_t n_in)
{
    uint8_t *patches = (uint8_t *)to + compressed_patches_at(n_in);
    uint8_t *end = (uint8_t *)to + compressed_panel_bytes(n_in);
    memset(patches, 0xFF, (size_t)(end - patches));
    memset((uint8_t *)to + compressed_table_at(n_in - 1), 0, PLANE);
    for (size_t k = 0; k < n_in; k += SPAN) {
        struct table_span s; /* not cleared: that would take as long as the range */
        s.k = k;
        s.n_quads = (n_in - k < SPAN ? n_in - k : SPAN) / 4;
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
