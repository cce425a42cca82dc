/* The bytes of an .lzma file, for pages: boot.js' unlzma() as a module of its own, which a browser runs several times
 * as fast while it starts. Files are those of tools/lab/embed.py: lp = pb = 0, lc at most 4, the size in the header.
 * Format: the LZMA SDK's lzma-specification.txt. The caller lays file and output into memory past the module's own.
 */
#include <stdint.h>

/* Where the chances of each choice begin. A length has 2, then 8 of 128, 8 of 128 and 256. */
enum {
    IS_MATCH = 0,
    IS_REP = 192,
    IS_REP0 = 204,
    IS_REP1 = 216,
    IS_REP2 = 228,
    IS_LONG = 240,
    SLOTS = 432,
    NEAR = 688,
    LOW = 803,
    NEW_LENGTH = 819,
    REP_LENGTH = 1333,
    LITERALS = 1847,
    HEADER = 13
};

static uint16_t chances[LITERALS + (768 << 4)];
static const uint8_t *coded; /* the next byte */
static uint32_t range, code;

static void take_byte(void)
{
    if (range >= 1U << 24)
        return;
    range <<= 8;
    code = code << 8 | *coded++;
}

/* Appends bits to m, each by the chance at first + m, until m is `end` or more. */
static uint32_t take_bits(uint32_t first, uint32_t m, uint32_t end)
{
    while (m < end) {
        uint16_t *chance = &chances[first + m];
        uint32_t bound = (range >> 11) * *chance;
        m *= 2;
        if (code < bound) {
            range = bound;
            *chance = (uint16_t)(*chance + ((2048 - *chance) >> 5));
        } else {
            range -= bound;
            code -= bound;
            *chance = (uint16_t)(*chance - (*chance >> 5));
            m++;
        }
        take_byte();
    }
    return m;
}

static uint32_t take_bit(uint32_t chance)
{
    return take_bits(chance - 1, 1, 2) - 2;
}

static uint32_t take_tree(uint32_t first, uint32_t n)
{
    return take_bits(first, 1, 1U << n) - (1U << n);
}

/* Takes n bits of a tree, the lowest bit first. */
static uint32_t take_reversed(uint32_t first, uint32_t n)
{
    uint32_t m = take_tree(first, n), sum = 0;
    for (; n > 0; n--, m >>= 1)
        sum = 2 * sum + (m & 1);
    return sum;
}

/* n bits of even chance. */
static uint32_t take_even(uint32_t n)
{
    uint32_t sum = 0;
    for (; n > 0; n--) {
        range >>= 1;
        uint32_t one = code >= range;
        code -= one * range;
        sum = 2 * sum + one;
        take_byte();
    }
    return sum;
}

static uint32_t take_length(uint32_t first)
{
    if (!take_bit(first))
        return 2 + take_tree(first + 2, 3);
    if (!take_bit(first + 1))
        return 10 + take_tree(first + 130, 3);
    return 18 + take_tree(first + 258, 8);
}

/* How far back a new match begins, less 1. */
static uint32_t take_distance(uint32_t length)
{
    uint32_t slot = take_tree(SLOTS + 64 * (length < 5 ? length - 2 : 3), 6);
    if (slot < 4)
        return slot;
    uint32_t n = (slot >> 1) - 1, least = (2 + (slot & 1)) << n;
    if (slot < 14)
        return least + take_reversed(NEAR + least - slot, n);
    uint32_t high = take_even(n - 4);
    return least + 16 * high + take_reversed(LOW, 4);
}

/* One byte. last: the byte before; other: after a match, the byte that would have gone on with it, else -1. */
static uint8_t take_literal(uint32_t lc, uint32_t last, int other)
{
    uint32_t first = LITERALS + 768 * (last >> (8 - lc)), m = 1;
    for (int same = other >= 0; m < 256 && same; other <<= 1) {
        uint32_t want = (uint32_t)other >> 7 & 1, one = take_bit(first + ((1 + want) << 8) + m);
        m = 2 * m + one;
        same = one == want;
    }
    return (uint8_t)take_bits(first, m, 256);
}

/* One of the distances before the last becomes the last. */
static void repeat_distance(uint32_t back[4], uint32_t state)
{
    uint32_t i = take_bit(IS_REP1 + state) ? 2 + take_bit(IS_REP2 + state) : 1, again = back[i];
    for (; i > 0; i--)
        back[i] = back[i - 1];
    back[0] = again;
}

/* The length of a match; back[0] is how far back it begins, less 1. */
static uint32_t take_match(uint32_t back[4], uint32_t *state)
{
    uint32_t before = *state, old = before >= 7, length;
    if (!take_bit(IS_REP + before)) {
        for (int i = 3; i > 0; i--)
            back[i] = back[i - 1];
        *state = old ? 10 : 7;
        length = take_length(NEW_LENGTH);
        back[0] = take_distance(length);
        return length;
    }
    if (take_bit(IS_REP0 + before)) {
        repeat_distance(back, before);
    } else if (!take_bit(IS_LONG + 16 * before)) {
        *state = old ? 11 : 9;
        return 1;
    }
    *state = old ? 11 : 8;
    return take_length(REP_LENGTH);
}

static void begin_file(const uint8_t *file, uint32_t lc)
{
    for (uint32_t i = 0; i < LITERALS + (768U << lc); i++)
        chances[i] = 1024;
    range = UINT32_MAX;
    code = (uint32_t)file[HEADER + 1] << 24 | (uint32_t)file[HEADER + 2] << 16 |
           (uint32_t)file[HEADER + 3] << 8 | file[HEADER + 4];
    coded = file + HEADER + 5;
}

/* Writes `size` bytes to `to`. 0: the file is damaged. */
__attribute__((export_name("unlzma"))) int unlzma(const uint8_t *file, uint8_t *to, uint32_t size)
{
    uint32_t lc = file[0], n = 0, state = 0, back[4] = {0};
    if (lc > 4)
        return 0;
    begin_file(file, lc);
    while (n < size) {
        if (!take_bit(IS_MATCH + 16 * state)) {
            uint32_t last = n > 0 ? to[n - 1] : 0;
            to[n] = take_literal(lc, last, state < 7 ? -1 : to[n - back[0] - 1]);
            n++;
            state = state < 4 ? 0 : state - (state < 10 ? 3 : 6);
            continue;
        }
        uint32_t length = take_match(back, &state);
        if (back[0] >= n)
            return 0;
        for (; length > 0 && n < size; length--, n++)
            to[n] = to[n - back[0] - 1];
    }
    return 1;
}
