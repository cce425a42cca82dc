/* A checkpoint of another program as a GGUF file in memory, for commands that are given one as a
 * model. */
#ifndef MGPT_CONVERT_IN_MEMORY_H
#define MGPT_CONVERT_IN_MEMORY_H

#include "common/cli.h"
#include "mgpt.h"

#include <stddef.h>

/* Converts the model at `path`, without options but with the adapters of --lora, and says so on stderr. *bytes is a GGUF file, the
 * caller's to free; nothing of the input stays in memory. With vocab_only it has no tensors.
 * Returns an exit code; after a failure the user has been told, also how to call mgpt convert when
 * the conversion needs an option. */
int in_memory_convert(const char *path, const struct cli_many *lora, int vocab_only, void **bytes,
                      size_t *n_bytes);

#endif
