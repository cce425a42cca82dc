/* CRC-32, the checksum of zip archives (polynomial 0xEDB88320, reflected). A checksum of no bytes is 0. */
#ifndef MGPT_CRC32_H
#define MGPT_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* For each byte value, what it adds k bytes before the end of 8. */
struct crc_table {
    uint32_t at[8][256];
};
void crc_table_fill(struct crc_table *t);

/* The checksum of bytes with checksum `crc` and n more. */
uint32_t crc_append(const struct crc_table *t, uint32_t crc, const void *bytes, size_t n);

/* The checksum of two parts in order, of which the second has n bytes. */
uint32_t crc_join(uint32_t first, uint32_t second, uint64_t n);

#endif
