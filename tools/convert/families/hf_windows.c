/* Sliding windows of Hugging Face models: which layers have one. See hf.h.
 *
 * A window that is as long as the context, or longer, is none. Where the layers that have one are
 * not those of the architecture's period, a key of ours names each layer's.
 */
#include "base/error.h"
#include "convert/families/hf.h"

#include <string.h>

int32_t *hf_windows(struct hf_model *m, mgpt_error *err)
{
    int32_t *windows = ckpt_alloc(m->c, m->c->hp.n_layer + 1, sizeof *windows);
    if (!windows)
        err_memory(err, "windows", m->c->hp.n_layer * sizeof *windows);
    m->c->hp.windows = windows;
    return windows;
}

/* null means that there is none, unlike an absent key. */
static int read_window(struct hf_model *m, mgpt_error *err)
{
    int stated = json_object_get(m->cfg.text, "sliding_window") != NULL;
    uint32_t absent = stated ? 0 : m->family->window;
    return hf_size(m->cfg.text, "sliding_window", absent, &m->c->hp.window, err);
}

int hf_one_window(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    if (read_window(m, err) < 0)
        return MGPT_EFILE;
    if (hp->window >= hp->n_ctx)
        hp->window = 0;
    return MGPT_OK;
}

/* Whether layer i has a window by layer_types (NULL: there is no such list), else by `rule`. */
static int is_windowed(const json_t *types, uint32_t i, int rule, int *windowed, mgpt_error *err)
{
    const char *type = types ? json_string_value(json_array_get(types, i)) : NULL;
    *windowed = types ? type && strcmp(type, "sliding_attention") == 0 : rule;
    if (types && !*windowed && (!type || strcmp(type, "full_attention") != 0))
        return hf_refuse("layer_types", "expected sliding_attention or full_attention", err);
    return MGPT_OK;
}

int hf_layer_windows(struct hf_model *m, uint32_t period, uint32_t first, mgpt_error *err)
{
    const json_t *types = hf_value(m->cfg.text, "layer_types");
    struct ckpt_hparams *hp = &m->c->hp;
    uint32_t full_every = m->family->full_every;
    int usual = full_every > 0, some = full_every > 0;
    if (types && json_array_size(types) != hp->n_layer)
        return hf_refuse("layer_types", "does not fit the layers", err);
    if (read_window(m, err) < 0)
        return MGPT_EFILE;
    int32_t *windows = hf_windows(m, err);
    for (uint32_t i = 0; windows && i < hp->n_layer; i++) {
        int windowed, rule = i >= first && (period == 0 || (i + 1) % period);
        if (is_windowed(types, i, rule, &windowed, err) < 0)
            return MGPT_EFILE;
        windows[i] = windowed ? (int32_t)hp->window : 0;
        usual = usual && windowed == ((i + 1) % full_every != 0);
        some = some || windowed;
    }
    if (windows && some && hp->window == 0)
        return hf_refuse("sliding_window", "expected 1 or more", err);
    if (usual || !some)
        hp->windows = NULL;
    if (!some)
        hp->window = 0;
    return windows ? MGPT_OK : MGPT_EMEM;
}

/* Such files state a window that is in use only when another key says so. */
int hf_used_windows(struct hf_model *m, mgpt_error *err)
{
    uint32_t first, all = UINT32_MAX;
    int used;
    if (hf_flag(m->cfg.text, "use_sliding_window", 0, &used, err) < 0 ||
        hf_size(m->cfg.text, "max_window_layers", 28, &first, err) < 0 ||
        hf_layer_windows(m, 0, used ? first : all, err) < 0)
        return err->status;
    if (!used && m->c->hp.window)
        return hf_refuse("layer_types", "sliding_attention, but use_sliding_window is false", err);
    return MGPT_OK;
}
