/* Sizes of a layer's heads. Outside of the layers they are those of the first one. */
#ifndef MGPT_ENGINE_LAYERS_H
#define MGPT_ENGINE_LAYERS_H

#include "mgpt.h"

static inline mgpt_layer engine_layer(const mgpt_model *model, int32_t layer)
{
    mgpt_layer l = {.n_head = 1, .n_head_kv = 1, .head_dim = 1, .value_dim = 1};
    mgpt_get_layer(model, layer < 0 ? 0 : (size_t)layer, &l, NULL);
    return l;
}

static inline int32_t engine_head_dim(const mgpt_model *model, int32_t layer)
{
    return engine_layer(model, layer).head_dim;
}

static inline int32_t engine_value_dim(const mgpt_model *model, int32_t layer)
{
    return engine_layer(model, layer).value_dim;
}

/* The width of a head at a point: V and HEADS have values. */
static inline int32_t engine_width(const mgpt_model *model, mgpt_point point, int32_t layer)
{
    int values = point == MGPT_V || point == MGPT_HEADS;
    return values ? engine_value_dim(model, layer) : engine_head_dim(model, layer);
}

static inline int32_t engine_heads(const mgpt_model *model, int32_t layer)
{
    return engine_layer(model, layer).n_head;
}

/* Heads of queries that share a KV head. */
static inline int32_t engine_group(const mgpt_model *model, int32_t layer)
{
    mgpt_layer l = engine_layer(model, layer);
    return l.n_head / l.n_head_kv;
}

static inline int32_t engine_kv_heads(const mgpt_model *model, int32_t layer)
{
    return engine_layer(model, layer).n_head_kv;
}

#endif
