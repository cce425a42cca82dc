/* CRC-32, 8 bytes at a time. See crc32.h.
 *
 * A checksum is a polynomial over GF(2) modulo CRC_POLY; bit 31 is the coefficient of x^0.
 */
#include "common/crc32.h"

static const uint32_t CRC_POLY = 0xEDB88320, CRC_ONE = 0x80000000, CRC_X8 = 0x00800000;

static uint32_t times_x(uint32_t a)
{
    return a & 1 ? a >> 1 ^ CRC_POLY : a >> 1;
}

void crc_table_fill(struct crc_table *t)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        t->at[0][byte] = byte;
        for (int bit = 0; bit < 8; bit++)
            t->at[0][byte] = times_x(t->at[0][byte]);
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = t->at[k - 1][byte];
            t->at[k][byte] = before >> 8 ^ t->at[0][before & 0xFF];
        }
}

uint32_t crc_append(const struct crc_table *t, uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8)
        crc = t->at[7][(crc ^ p[0]) & 0xFF] ^ t->at[6][(crc >> 8 ^ p[1]) & 0xFF] ^
              t->at[5][(crc >> 16 ^ p[2]) & 0xFF] ^ t->at[4][crc >> 24 ^ p[3]] ^ t->at[3][p[4]] ^
              t->at[2][p[5]] ^ t->at[1][p[6]] ^ t->at[0][p[7]];
    for (; n > 0; n--, p++)
        crc = crc >> 8 ^ t->at[0][(crc ^ *p) & 0xFF];
    return ~crc;
}

static uint32_t product(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (uint32_t bit = CRC_ONE; bit; bit >>= 1, b = times_x(b))
        if (a & bit)
            sum ^= b;
    return sum;
}

/* first times x^(8 n), and second: the checksum is linear but for the inversions, which cancel. */
uint32_t crc_join(uint32_t first, uint32_t second, uint64_t n)
{
    for (uint32_t power = CRC_X8; n > 0; n >>= 1, power = product(power, power))
        if (n & 1)
            first = product(first, power);
    return first ^ second;
}
