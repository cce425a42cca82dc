/* The model's GGUF file as bytes: of the file itself, or of what a checkpoint was converted to. */
#include "base/xxh64.h"
#include "common/files.h"
#include "engine/engine.h"

int engine_bytes(const struct engine *e, struct file *file, const uint8_t **bytes, size_t *n_bytes,
                 mgpt_error *err)
{
    *file = (struct file){0};
    int status = e->converted ? MGPT_OK : files_open_model(file, e->path, err);
    *bytes = e->converted ? e->converted : file->data;
    *n_bytes = e->converted ? e->n_converted : file->size;
    return status;
}

int engine_hash(const struct engine *e, uint64_t *hash, uint64_t *n_bytes, mgpt_error *err)
{
    struct file file;
    const uint8_t *bytes;
    size_t n;
    if (engine_bytes(e, &file, &bytes, &n, err) < 0)
        return err->status;
    *hash = xxh64(bytes, n);
    *n_bytes = n;
    file_close(&file);
    return MGPT_OK;
}
