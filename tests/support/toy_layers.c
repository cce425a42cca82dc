/* Tests: the keys of a model whose layers differ. See build_model.h. */
#include "gguf/gguf.h"
#include "support/build_model.h"
#include "support/byte_buffer.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list of a number for each layer. */
static void put_layer_list(struct toy *m, const char *key,
                           int of_layer(const struct toy_spec *, int))
{
    struct byte_buffer b = {0};
    char name[80];
    for (int i = 0; i < m->spec.n_layer; i++)
        buffer_uint(&b, (uint64_t)of_layer(&m->spec, i), 4);
    snprintf(name, sizeof name, "%s.%s", m->spec.arch, key);
    toy_put_array(m, name, GGUF_I32, (uint64_t)m->spec.n_layer, b.p, b.n);
    free(b.p);
}

static int heads_or_none(const struct toy_spec *s, int layer)
{
    return toy_convolves(s, layer) ? 0 : s->n_head_kv;
}

void toy_put_kinds(struct toy *m)
{
    assert_int_equal(strlen(m->spec.kinds), m->spec.n_layer);
    put_layer_list(m, "attention.head_count_kv", heads_or_none);
    toy_put_arch_u32(m, "shortconv.l_cache", m->spec.n_conv);
}

void toy_put_layer_shapes(struct toy *m)
{
    const struct toy_spec *s = &m->spec;
    const char *keys[] = {"attention.key_length", "attention.value_length",
                          "attention.key_length_swa", "attention.value_length_swa"};
    for (int i = 0; i < 4 && s->head_dim_w; i++)
        toy_put_arch_u32(m, keys[i], i < 2 ? s->head_dim : s->head_dim_w);
    if (s->rope_dims_w)
        toy_put_arch_u32(m, "rope.dimension_count_swa", s->rope_dims_w);
    if (s->n_head_w)
        put_layer_list(m, "attention.head_count", toy_heads);
    if (s->n_head_kv_w)
        put_layer_list(m, "attention.head_count_kv", toy_heads_kv);
    if (s->n_ff_shared_kv)
        put_layer_list(m, "feed_forward_length", toy_n_ff);
    if (s->n_shared)
        toy_put_arch_u32(m, "attention.shared_kv_layers", s->n_shared);
    if (s->n_input)
        toy_put_arch_u32(m, "embedding_length_per_layer_input", s->n_input);
}
