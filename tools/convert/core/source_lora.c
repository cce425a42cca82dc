/* Opening adapters: a directory of PEFT, a file of one, or GGUF. See source.h, lora.h. */
#include "base/error.h"
#include "base/mem.h"
#include "common/adapter_spec.h"
#include "convert/core/lora.h"
#include "convert/core/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LORA_CONFIG "adapter_config.json"

/* `name` in the folder `path`, n_folder bytes of it; 0: there is none. */
static int find_in(struct ckpt_source *s, const char *path, size_t n_folder, const char *name,
                   struct span *bytes, mgpt_error *err)
{
    struct stat st;
    char *file = malloc(n_folder + strlen(name) + 2);
    if (!file)
        return err_memory(err, "a file name", n_folder);
    sprintf(file, "%.*s%s%s", (int)n_folder, path, n_folder && path[n_folder - 1] != '/' ? "/" : "",
            name);
    int found = stat(file, &st) == 0 ? source_open_side(s, file, bytes, err) : 0;
    free(file);
    return found;
}

static int open_directory(struct ckpt_source *s, struct lora_adapter *adapter, size_t n_folder,
                          mgpt_error *err)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapter_model.bin"};
    const char *path = adapter->path;
    int found = find_in(s, path, n_folder, LORA_CONFIG, &adapter->config, err);
    if (found == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "adapter %.200s: no " LORA_CONFIG, path);
    for (size_t i = 0; found >= 0 && !adapter->weights.data && i < 2; i++)
        found = find_in(s, path, n_folder, names[i], &adapter->weights, err);
    if (found < 0)
        return found;
    return adapter->weights.data ? MGPT_OK
                                 : err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                                           "adapter %.200s: no %s or %s", path, names[0], names[1]);
}

static int open_adapter(struct ckpt_source *s, struct lora_adapter *adapter, mgpt_error *err)
{
    struct stat st;
    const char *path = adapter->path, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n_folder = (size_t)(name - path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_directory(s, adapter, strlen(path), err);
    if (strcmp(name, LORA_CONFIG) == 0)
        return open_directory(s, adapter, n_folder, err);
    int status = source_open_side(s, path, &adapter->weights, err);
    if (status >= 0 && gguf_sniff(adapter->weights) != MATCH_YES)
        status = find_in(s, path, n_folder, LORA_CONFIG, &adapter->config, err);
    return status < 0 ? status : MGPT_OK;
}

static int apply_one(struct ckpt_source *s, const char *text, mgpt_error *err)
{
    struct adapter_spec spec;
    int status = adapter_spec_read(text, &spec, err);
    if (status < 0)
        return status;
    struct lora_adapter adapter = {.path = spec.path, .scale = spec.scale};
    status = open_adapter(s, &adapter, err);
    if (status == MGPT_OK)
        status = lora_apply(&s->checkpoint, &adapter, err);
    free(spec.path);
    return status;
}

int source_apply_lora(struct ckpt_source *s, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < s->lora.n; i++)
        status = apply_one(s, s->lora.values[i], err);
    return status;
}
