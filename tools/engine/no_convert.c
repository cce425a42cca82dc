/* A build without tools/convert (-Dconvert=disabled): models are GGUF files only. */
#include "convert/core/in_memory.h"

int in_memory_convert(const char *path, const struct cli_many *lora, int vocab_only, void **bytes,
                      size_t *n_bytes)
{
    (void)lora;
    (void)vocab_only;
    (void)bytes;
    (void)n_bytes;
    cli_note(
        "%s: not GGUF, and this build has no converter (-Dconvert=enabled; on Windows use WSL)",
        path);
    return EXIT_REFUSED;
}
