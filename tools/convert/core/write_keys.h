/* Keys under the architecture's name, for write.c. */
#ifndef MGPT_CONVERT_WRITE_KEYS_H
#define MGPT_CONVERT_WRITE_KEYS_H

#include "convert/core/checkpoint.h"

#include <stdio.h>

static inline const char *arch_key(char buf[128], const struct ckpt_hparams *hp, const char *name)
{
    snprintf(buf, 128, "%s.%s", hp->arch, name);
    return buf;
}

/* A number that the architecture does without. */
static inline void put_some_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    if (v)
        gguf_put_u32(w, key, v);
}

static inline void put_some_f32(struct gguf_writer *w, const char *key, float v)
{
    if (v > 0 || v < 0)
        gguf_put_f32(w, key, v);
}

#endif
