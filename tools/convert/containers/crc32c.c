/* CRC-32C. See crc32c.h. */
#include "convert/containers/crc32c.h"

enum { CRC32C_WAYS = 8 }; /* bytes that one step takes */

/* table[k][b]: the sum of the byte b with k zero bytes after it. */
static void crc32c_fill(uint32_t table[CRC32C_WAYS][256])
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int bit = 0; bit < 8; bit++)
            r = r >> 1 ^ (r & 1 ? 0x82f63b78U : 0);
        table[0][b] = r;
    }
    for (uint32_t k = 1; k < CRC32C_WAYS; k++)
        for (uint32_t b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

int crc32c_matches(struct span bytes, uint32_t masked)
{
    uint32_t table[CRC32C_WAYS][256], r = ~0U;
    const uint8_t *p = bytes.data;
    size_t n = bytes.size;
    crc32c_fill(table);
    for (; n >= CRC32C_WAYS; n -= CRC32C_WAYS, p += CRC32C_WAYS) {
        r ^= p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        r = table[7][r & 255] ^ table[6][r >> 8 & 255] ^ table[5][r >> 16 & 255] ^
            table[4][r >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n > 0; n--, p++)
        r = r >> 8 ^ table[0][(r ^ *p) & 255];
    r = ~r;
    return (r >> 15 | r << 17) + 0xa282ead8U == masked;
}
