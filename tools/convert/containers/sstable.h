/* Sorted tables of keys and values, as LevelDB and the index of a TensorFlow checkpoint have them.
 *
 *     blocks        each followed by a byte, 0 for plain or 1 for snappy, and the masked CRC-32C of both
 *     footer        48 bytes: handles of a block that is empty here and of the index block (offset
 *                   and size, varints), zeros, the number db4775248b80fb57
 *     a block       entries, uint32 places of n entries with a whole key, uint32 n
 *     an entry      varints: bytes shared with the key before, bytes of its own, bytes of the value;
 *                   then these bytes. A value of the index block is a handle.
 */
#ifndef MGPT_CONVERT_SSTABLE_H
#define MGPT_CONVERT_SSTABLE_H

#include "convert/core/checkpoint.h"

enum { SSTABLE_MAX_KEY = 255 };

/* One entry; the key is NUL-terminated. Negative with *err ends the walk. */
typedef int sstable_fn(void *user, const char *key, size_t n_key, struct span value,
                       mgpt_error *err);

/* Whether the bytes end as a table does. */
int sstable_sniff(struct span bytes);

/* Calls fn for all entries in order. Errors: MGPT_EFILE, a snappy block among them; those of fn. */
int sstable_each(struct span bytes, sstable_fn *fn, void *user, mgpt_error *err);

#endif
