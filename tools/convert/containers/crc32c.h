/* CRC-32C (Castagnoli: polynomial 1edc6f41, reflected), as LevelDB and TensorFlow store it. */
#ifndef MGPT_CONVERT_CRC32C_H
#define MGPT_CONVERT_CRC32C_H

#include "convert/core/checkpoint.h"

/* Whether the masked sum is that of the bytes: the sum rotated right by 15 bits, plus a282ead8. */
int crc32c_matches(struct span bytes, uint32_t masked);

#endif
