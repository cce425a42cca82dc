/* Opening adapters: a directory of PEFT, a file of one, or GGUF. See source.h, lora.h. */
#include "base/error.h"
#include "base/mem.h"
#include "common/adapter_spec.h"
#include "convert/core/lora.h"
#include "convert/core/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LORA_CONFIG "adapter_config.json"

static void open_directory(struct ckpt_source *s, struct lora_adapter *adapter, size_t n_folder)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapter_model.bin"};
    struct checkpoint *c = &s->checkpoint;
    const char *path = adapter->path;
    int found = source_find_in(s, path, n_folder, LORA_CONFIG, &adapter->config, c->err);
    ckpt_must(c, found);
    if (!found)
        ckpt_stop(c, "adapter %.200s: no " LORA_CONFIG, path);
    for (size_t i = 0; !adapter->weights.data && i < 2; i++)
        ckpt_must(c, source_find_in(s, path, n_folder, names[i], &adapter->weights, c->err));
    if (!adapter->weights.data)
        ckpt_stop(c, "adapter %.200s: no %s or %s", path, names[0], names[1]);
}

static void open_adapter(struct ckpt_source *s, struct lora_adapter *adapter)
{
    struct stat st;
    mgpt_error *err = s->checkpoint.err;
    const char *path = adapter->path, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n_folder = (size_t)(name - path);
    int is_directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (is_directory || strcmp(name, LORA_CONFIG) == 0) {
        open_directory(s, adapter, is_directory ? strlen(path) : n_folder);
        return;
    }
    ckpt_must(&s->checkpoint, source_open_side(s, path, &adapter->weights, err));
    if (gguf_sniff(adapter->weights) != MATCH_YES)
        ckpt_must(&s->checkpoint,
                  source_find_in(s, path, n_folder, LORA_CONFIG, &adapter->config, err));
}

void source_apply_lora(struct ckpt_source *s)
{
    struct checkpoint *c = &s->checkpoint;
    for (size_t i = 0; i < s->lora.n; i++) {
        struct adapter_spec spec;
        ckpt_must(c, adapter_spec_read(s->lora.values[i], &spec, c->err));
        ckpt_own(c, spec.path, free);
        struct lora_adapter adapter = {.path = spec.path, .scale = spec.scale};
        open_adapter(s, &adapter);
        ckpt_must(c, lora_apply(c, &adapter, c->err));
    }
}
