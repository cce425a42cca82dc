/* Keys of layers that differ (gemma4). See write.h. */
#include "convert/core/write.h"

#include <stdio.h>

static void put_layer_size(struct gguf_writer *w, const struct ckpt_hparams *hp, const char *name,
                           uint32_t v)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", hp->arch, name);
    gguf_put_u32(w, key, v);
}

void write_put_layers(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    char key[128];
    snprintf(key, sizeof key, "%s.feed_forward_length", hp->arch);
    if (hp->ff_widths)
        gguf_put_i32s(w, key, hp->ff_widths, hp->n_layer);
    else
        gguf_put_u32(w, key, hp->n_ff);
    if (!hp->windowed)
        return;
    put_layer_size(w, hp, "attention.key_length_swa", hp->head_dim_swa);
    put_layer_size(w, hp, "attention.value_length_swa", hp->head_dim_swa);
    put_layer_size(w, hp, "rope.dimension_count_swa", hp->n_rot_swa);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", hp->arch);
    gguf_put_bools(w, key, hp->windowed, hp->n_layer);
    put_layer_size(w, hp, "attention.shared_kv_layers", hp->n_shared_kv);
    put_layer_size(w, hp, "embedding_length_per_layer_input", hp->n_input);
}
