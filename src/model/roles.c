/* Tensors by role: for the binder, and for tools that ask what a tensor does instead of its name. */
#include "model/slots.h"

#include "base/error.h"

#include <string.h>

uint64_t bind_dim(const struct model_shape *s, enum dim d)
{
    uint64_t nope = s->n_latent ? s->head_dim - s->n_rot : 0;
    const uint64_t sizes[] = {[D_NONE] = 1,
                              [D_E] = s->n_embd,
                              [D_3E] = 3 * s->n_embd,
                              [D_V] = s->n_vocab,
                              [D_T] = s->n_ctx,
                              [D_Q] = s->n_q,
                              [D_KV] = s->n_kv,
                              [D_VALUES] = s->n_v,
                              [D_QKV] = s->n_q + s->n_kv + s->n_v,
                              [D_F] = s->n_ff,
                              [D_2F] = 2 * s->n_ff,
                              [D_FX] = s->n_ff_expert,
                              [D_2FX] = 2 * s->n_ff_expert,
                              [D_FS] = s->n_ff_shared,
                              [D_2FS] = 2 * s->n_ff_shared,
                              [D_X] = s->n_expert,
                              [D_HEAD] = s->head_dim,
                              [D_H] = s->n_head,
                              [D_G] = s->n_head_kv,
                              [D_ROT2] = s->n_rot / 2,
                              [D_L] = s->n_layer,
                              [D_P] = s->n_input,
                              [D_LP] = s->n_inputs,
                              [D_CONV] = s->n_conv,
                              [D_ONE] = 1,
                              [D_R] = s->n_latent,
                              [D_KEPT] = s->kept_dim,
                              [D_QR] = s->n_q_latent,
                              [D_NOPE] = nope,
                              [D_VALUE] = s->value_dim,
                              [D_KV_UP] = s->n_head * (nope + s->value_dim),
                              [D_Z] = s->n_z,
                              [D_GATE] = s->n_gate,
                              [D_COLUMNS] = 0};
    _Static_assert(sizeof sizes / sizeof *sizes == N_DIMS, "a size for each dimension");
    return sizes[d];
}

const struct gguf_tensor *bind_slot_tensor(const mgpt_model *m, const struct tensor_slot *slot,
                                           int layer, char name[80])
{
    int conv = layer >= 0 && model_keeps_rows(m, (size_t)layer);
    unsigned bit = conv ? ARCH_SHORTCONV : m->arch->bit;
    if (!((slot->required | slot->optional) & bit))
        return NULL;
    if (layer >= 0)
        text_format(name, 80, "blk.%d.%s", layer, slot->name);
    else
        text_format(name, 80, "%s", slot->name);
    const struct gguf_tensor *t = gguf_tensor(&m->gguf, name);
    const struct model_shape *s = layer < 0 ? &m->shape : m->layers[layer].shape;
    int both = slot->out == D_2FS; /* llama.cpp's Granite: the tensor up has gate, too */
    int is_up = both || (slot->out == D_FS && slot->role == MGPT_W_UP);
    return t && is_up && (t->dims[1] == bind_dim(s, D_2FS)) != both ? NULL : t;
}

static int slot_holds(const struct tensor_slot *slot, mgpt_role role, mgpt_part part)
{
    size_t n, found = slot->role == role;
    const struct slot_part *parts = bind_parts(slot, &n);
    for (size_t i = 0; i < n; i++)
        found |= parts[i].role == role;
    return found && (part == MGPT_BIAS) == slot_is_bias(slot);
}

const struct gguf_tensor *bind_find_where(const mgpt_model *m, int layer, mgpt_role role,
                                          mgpt_part part, unsigned where,
                                          const struct tensor_slot **slot)
{
    const struct tensor_slot *slots = layer >= 0 ? bind_layer_slots : bind_model_slots;
    size_t n = layer >= 0 ? bind_n_layer_slots : bind_n_model_slots;
    const struct gguf_tensor *t = NULL;
    char name[80];
    for (size_t i = 0; i < n && !t; i++)
        if (!(slots[i].where & (MIXTURE | NOT_MIXTURE) & ~where) &&
            slot_holds(&slots[i], role, part)) {
            *slot = &slots[i];
            t = bind_slot_tensor(m, *slot, layer, name);
        }
    return t;
}

unsigned bind_layer_is(const mgpt_model *m, int layer)
{
    const struct tensor_slot *slot;
    if (layer < 0 || !m->shape.n_expert)
        return NOT_MIXTURE;
    int routed = bind_find_where(m, layer, MGPT_W_ROUTER, MGPT_WEIGHT, MIXTURE, &slot) != NULL;
    return routed || !bind_find_where(m, layer, MGPT_W_UP, MGPT_WEIGHT, NOT_MIXTURE, &slot)
               ? MIXTURE
               : NOT_MIXTURE;
}

const struct gguf_tensor *bind_find(const mgpt_model *m, int layer, mgpt_role role, mgpt_part part,
                                    const struct tensor_slot **slot)
{
    return bind_find_where(m, layer, role, part, bind_layer_is(m, layer), slot);
}

/* ---- for tools ---- */

const char *mgpt_role_name(mgpt_role role)
{
    return role >= 0 && role < MGPT_N_ROLES ? bind_roles[role].name : NULL;
}

/* The role whose tensor a role of this model has: of a tied head, of one norm for both branches, and
 * where files have the two norms in the other order. */
static mgpt_role stored_role(const mgpt_model *m, int layer, mgpt_role role)
{
    const struct tensor_slot *slot;
    if (role == MGPT_LN1 || role == MGPT_LN2) {
        int has_second = bind_find(m, layer, MGPT_LN2, MGPT_WEIGHT, &slot) != NULL;
        if (has_second && m->arch->norm_2_first)
            return role == MGPT_LN1 ? MGPT_LN2 : MGPT_LN1;
        return !has_second && m->branches == BRANCHES_PARALLEL ? MGPT_LN1 : role;
    }
    return role;
}

/* Narrows a tensor to the rows of one of its roles. */
static void narrow_to_part(const struct model_shape *s, const struct tensor_slot *slot,
                           mgpt_role role, const struct dtype *type, mgpt_tensor *t)
{
    size_t n, i = 0;
    uint64_t row = 0;
    const struct slot_part *parts = bind_parts(slot, &n);
    for (; i < n && parts[i].role != role; i++)
        row += bind_dim(s, parts[i].rows);
    if (n == 0)
        return;
    uint64_t rows = bind_dim(s, parts[i].rows), each = t->n_dims > 1 ? t->dims[0] : 1;
    t->dims[t->n_dims - 1] = rows;
    t->first = row * each;
    t->offset += t->first / type->block * type->block_bytes;
    t->n_bytes = rows * each / type->block * type->block_bytes;
}

int mgpt_find_role(const mgpt_model *m, mgpt_role role, int32_t layer, mgpt_part part,
                   mgpt_tensor *tensor, mgpt_error *err)
{
    const char *name = mgpt_role_name(role);
    int in_layers = name && role_is_in_layers(role), is_part = part >= 0 && part <= MGPT_BIAS;
    if (!m || !tensor || !m->token_embd || !name || !is_part ||
        (in_layers && (layer < 0 || (size_t)layer >= m->shape.n_layer)))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_find_role: no %s in layer %d",
                       name ? name : "such role", (int)layer);
    const struct tensor_slot *slot;
    layer = in_layers ? layer : -1;
    mgpt_role stored = stored_role(m, layer, role);
    if (role == MGPT_W_U && part == MGPT_WEIGHT && m->tied)
        stored = MGPT_W_E;
    const struct gguf_tensor *t = bind_find(m, layer, stored, part, &slot);
    if (!t || slot->out == D_2FX) /* rows of which are not together */
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       in_layers ? "mgpt_find_role: the model has no %s of %s in layer %d"
                                 : "mgpt_find_role: the model has no %s of %s",
                       part == MGPT_BIAS ? "bias" : "weight", name, (int)layer);
    model_describe_tensor(t, tensor);
    narrow_to_part(layer < 0 ? &m->shape : m->layers[layer].shape, slot, stored, t->type, tensor);
    return MGPT_OK;
}
