/* Gives one tensor to the field that its slot names: values are converted to float32, matrices are
 * planned. bind.c has checked the shape. */
#include "base/error.h"
#include "model/hyperparams.h"
#include "model/slots.h"

#include <string.h>

static const float *floats_of(mgpt_model *m, const struct gguf_tensor *t, mgpt_error *err)
{
    float *v = bind_own(m, (size_t)t->n_values, sizeof *v, t->name, err);
    if (v && t->data) /* model_check of a header: absent */
        t->type->to_float(t->data, v, (size_t)t->n_values);
    return v;
}

static int check_value(const struct gguf_tensor *t, size_t i, float v, double min, double max,
                       mgpt_error *err)
{
    if ((double)v >= min && (double)v <= max)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, t->offset, "tensor %s: value %zu is %g, expected %g to %g",
                   t->name, i, (double)v, min, max);
}

static int bind_divisors(mgpt_model *m, mgpt_role role, const struct gguf_tensor *t,
                         mgpt_error *err)
{
    const float *divisor = floats_of(m, t, err);
    int used = role == MGPT_ROPE_DIVISORS || (role == MGPT_ROPE_SHORT) == m->rope_short;
    if (!divisor)
        return MGPT_EMEM;
    for (size_t i = 0; used && i < m->shape.n_rot / 2; i++) {
        double *freq = &m->ropes[ROPE_GLOBAL].freq[i]; /* llama.cpp: 1e30 for pairs that rest */
        if (check_value(t, i, divisor[i], rope_least_divisor(m, *freq), 1e31, err) < 0)
            return MGPT_EFILE;
        *freq /= (double)divisor[i];
    }
    return MGPT_OK;
}

/* A tensor of several matrices and one of these are both present. */
static int given_twice(const struct gguf_tensor *t, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, t->offset, "tensor %.60s: present together with %s", t->name,
                   strstr(t->name, ".attn_") ? "attn_q, attn_k or attn_v"
                                             : "another one of its rows");
}

static void *field_of(char *base, mgpt_role role)
{
    return base + bind_roles[role].field;
}

static const struct model_shape *shape_at(const char *layer)
{
    return ((const struct layer *)(const void *)layer)->shape;
}

/* Plans the matrices whose rows are in one tensor. */
static int bind_part_rows(mgpt_model *m, const struct tensor_slot *slot, char *base,
                          const struct gguf_tensor *t, mgpt_error *err)
{
    size_t n, row = 0;
    const struct slot_part *parts = bind_parts(slot, &n);
    for (size_t i = 0; i < n; i++) {
        struct linear *l = field_of(base, parts[i].role);
        size_t rows = (size_t)bind_dim(shape_at(base), parts[i].rows);
        if (l->n_out)
            return given_twice(t, err);
        int status = pack_plan(m, l, t, row, rows, err);
        if (status < 0)
            return status;
        row += rows;
    }
    return MGPT_OK;
}

static int bind_part_biases(mgpt_model *m, const struct tensor_slot *slot, char *base,
                            const struct gguf_tensor *t, mgpt_error *err)
{
    size_t n;
    const struct slot_part *parts = bind_parts(slot, &n);
    for (size_t i = 0; i < n; i++)
        if (((struct linear *)field_of(base, parts[i].role))->bias)
            return given_twice(t, err);
    const float *bias = floats_of(m, t, err);
    for (size_t i = 0; bias && i < n; i++) {
        ((struct linear *)field_of(base, parts[i].role))->bias = bias;
        bias += bind_dim(shape_at(base), parts[i].rows);
    }
    return bias ? MGPT_OK : MGPT_EMEM;
}

/* The bias of a matrix, or of a norm that has a gain. */
static int bind_bias(mgpt_model *m, const struct tensor_slot *slot, void *field,
                     const struct gguf_tensor *t, mgpt_error *err)
{
    int of_norm = bind_roles[slot->role].type == NORM;
    struct norm *norm = field;
    struct linear *linear = field;
    if (of_norm && !norm->gain)
        return err_set(err, MGPT_EFILE, t->offset, "tensor %.*s.weight: missing, %s is present",
                       (int)(strlen(t->name) - strlen(".bias")), t->name, t->name);
    const float **to = of_norm ? &norm->bias : &linear->bias;
    *to = floats_of(m, t, err);
    return *to ? MGPT_OK : MGPT_EMEM;
}

/* A vector of its own, or the gain of a norm. Of norms of q and k, a gain of head_dim values applies
 * to each head, a longer one to the whole projection; a matrix has one of head_dim values for each
 * head. */
static int bind_vector(mgpt_model *m, const struct tensor_slot *slot, void *field,
                       const struct gguf_tensor *t, mgpt_error *err)
{
    int of_norm = bind_roles[slot->role].type == NORM;
    struct norm *norm = field;
    const float **to = of_norm ? &norm->gain : field;
    *to = floats_of(m, t, err);
    if (slot->kind == GAINS) {
        norm->width = (size_t)t->dims[0];
        norm->n_gains = t->n_dims > 1 ? (size_t)t->dims[1] : 0;
    }
    return *to ? MGPT_OK : MGPT_EMEM;
}

/* Writes value i to layer i's field at offset `field`. */
static int bind_per_layer(mgpt_model *m, size_t field, const struct gguf_tensor *t, mgpt_error *err)
{
    const float *v = floats_of(m, t, err);
    for (size_t i = 0; v && i < m->shape.n_layer; i++) {
        if (check_value(t, i, v[i], -1e6, 1e6, err) < 0)
            return MGPT_EFILE;
        memcpy((char *)&m->layers[i] + field, &v[i], sizeof *v);
    }
    m->mixes_x0 = 1;
    return v ? MGPT_OK : MGPT_EMEM;
}

static int bind_number(float *to, const struct gguf_tensor *t, mgpt_error *err)
{
    if (t->data) /* model_check of a header: absent */
        t->type->to_float(t->data, to, 1);
    if ((double)*to >= -1e6 && (double)*to <= 1e6)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, t->offset, "tensor %s: %g, expected -1e+06 to 1e+06", t->name,
                   (double)*to);
}

static int bind_gate(mgpt_model *m, struct linear *l, const struct gguf_tensor *t, mgpt_error *err)
{
    if (t->dims[0] > m->shape.n_embd)
        return err_set(err, MGPT_EFILE, t->offset, "tensor %s: %llu columns, expected up to %zu",
                       t->name, (unsigned long long)t->dims[0], m->shape.n_embd);
    return pack_plan(m, l, t, 0, (size_t)t->dims[1], err);
}

/* Plans a matrix of each expert. The tensor's shape has been checked, so the number of experts is
 * bounded by the size of the file. */
static int bind_each_expert(mgpt_model *m, struct layer *l, const struct tensor_slot *slot,
                            const struct gguf_tensor *t, mgpt_error *err)
{
    size_t n = m->shape.n_expert, step = (size_t)t->dims[1];
    size_t n_out = slot->out == D_2FX ? step / 2 : step;
    size_t first = slot->role == MGPT_EXPERTS_UP ? step - n_out : 0;
    if (!l->experts)
        l->experts = bind_own(m, n, sizeof *l->experts, "experts", err);
    int status = l->experts ? MGPT_OK : MGPT_EMEM;
    for (size_t i = 0; status == MGPT_OK && i < n; i++) {
        struct linear *matrix = field_of((char *)&l->experts[i], slot->role);
        status = matrix->n_out ? given_twice(t, err)
                               : pack_plan(m, matrix, t, i * step + first, n_out, err);
    }
    return status;
}

static int bind_expert_biases(mgpt_model *m, const struct layer *l, mgpt_role role,
                              const struct gguf_tensor *t, mgpt_error *err)
{
    const float *biases = floats_of(m, t, err);
    for (size_t i = 0; biases && i < m->shape.n_expert; i++)
        ((struct linear *)field_of((char *)&l->experts[i], role))->bias = biases + i * t->dims[0];
    return biases ? MGPT_OK : MGPT_EMEM;
}

int bind_tensor(mgpt_model *m, const struct tensor_slot *slot, char *base,
                const struct gguf_tensor *t, mgpt_error *err)
{
    const unsigned later = 1u << MATRIX | 1u << QKV_MATRIX | 1u << BCX_MATRIX | 1u << GATE_UP |
                           1u << EXPERTS | 1u << GATE | 1u << LOOKUP;
    void *field = field_of(base, slot->role);
    if (!(later >> slot->kind & 1) && file_load(&m->file, t->offset, t->size, err) < 0)
        return MGPT_EIO;
    switch (slot->kind) {
    case VECTOR:
    case GAINS:
        return bind_vector(m, slot, field, t, err);
    case BIAS:
        return bind_bias(m, slot, field, t, err);
    case MATRIX:
        if (((struct linear *)field)->n_out)
            return given_twice(t, err);
        return pack_plan(m, field, t, 0, (size_t)t->dims[1], err);
    case QKV_MATRIX:
    case BCX_MATRIX:
    case GATE_UP:
        return bind_part_rows(m, slot, base, t, err);
    case QKV_BIAS:
        return bind_part_biases(m, slot, base, t, err);
    case EXPERTS:
        return bind_each_expert(m, (struct layer *)(void *)base, slot, t, err);
    case EXPERT_BIASES:
        return bind_expert_biases(m, (struct layer *)(void *)base, slot->role, t, err);
    case LATENT_UP:
        return bind_latent_up(m, (struct layer *)(void *)base, slot->role, t, err);
    case GATE:
        return bind_gate(m, field, t, err);
    case LOOKUP:
        *(const struct gguf_tensor **)field = t;
        return MGPT_OK;
    case NUMBER:
        return bind_number(field, t, err);
    case DIVISORS:
        return bind_divisors(m, slot->role, t, err);
    case PER_LAYER:
        return bind_per_layer(m, bind_roles[slot->role].field, t, err);
    }
    return MGPT_EFILE;
}
