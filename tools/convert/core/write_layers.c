/* Keys of layers that differ (gemma4, laguna). See write.h. */
#include "convert/core/write.h"

#include <stdio.h>

static void put_layer_size(struct gguf_writer *w, const struct ckpt_hparams *hp, const char *name,
                           uint32_t v)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", hp->arch, name);
    gguf_put_u32(w, key, v);
}

/* A flag for each layer; NULL: no key. */
static void write_flags(struct gguf_writer *w, const struct ckpt_hparams *hp, const char *name,
                        const uint8_t *flags)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", hp->arch, name);
    if (flags)
        gguf_put_bools(w, key, flags, hp->n_layer);
}

void write_put_layers(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    char key[128];
    snprintf(key, sizeof key, "%s.feed_forward_length", hp->arch);
    if (hp->ff_widths)
        gguf_put_i32s(w, key, hp->ff_widths, hp->n_layer);
    else
        gguf_put_u32(w, key, hp->n_ff);
    write_flags(w, hp, "attention.sliding_window_pattern", hp->windowed);
    write_flags(w, hp, "attention.rope_pattern", hp->roped);
    if (hp->n_rot_swa)
        put_layer_size(w, hp, "rope.dimension_count_swa", hp->n_rot_swa);
    if (!hp->head_dim_swa)
        return;
    put_layer_size(w, hp, "attention.key_length_swa", hp->head_dim_swa);
    put_layer_size(w, hp, "attention.value_length_swa", hp->head_dim_swa);
    put_layer_size(w, hp, "attention.shared_kv_layers", hp->n_shared_kv);
    put_layer_size(w, hp, "embedding_length_per_layer_input", hp->n_input);
}
