/* Records of check --self, which another machine can verify: --attest writes one, --attested reads
 * it. A record is JSON:
 *
 *   {"format": "mgpt attest", "version": 1, "spec": SPEC_VERSION (kernels.h),
 *    "model": {"xxh64": 16 hexadecimal digits over all bytes of the GGUF file, "bytes": its size},
 *    "kv": "chosen" or as --kv takes it, "tokens": [ids],
 *    "logits": 16 hexadecimal digits, FNV-1a over the logits of all tokens,
 *    "by": {"mgpt": its version, "compiler": text, "isa": [instruction sets that gave this hash]}}
 */
#ifndef MGPT_ATTEST_H
#define MGPT_ATTEST_H

#include "check/self/self.h"
#include "engine/engine.h"

struct attest {
    uint64_t model, n_bytes; /* hash and size of the GGUF file */
    uint64_t logits;
    char kv[8];
    int32_t *tokens; /* malloc'ed, n of them */
    size_t n;
    char by[64]; /* who wrote it, for a message: "mgpt 0.2.0, gcc 12.2.0"; printable */
};

/* Reads a record. On failure *a needs no freeing. MGPT_EIO, MGPT_EMEM, or MGPT_EFILE: not a record,
 * damaged, or of another version of the specification. */
int attest_read(const char *path, struct attest *a, mgpt_error *err);

/* Writes one, whole or not at all. a->by is not used. */
int attest_write(const char *path, const struct attest *a, const struct self_bits *bits,
                 mgpt_error *err);

#endif
