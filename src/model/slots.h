/* Roles and slots: what each tensor of a file means. bind.c reads the tables at open, and roles.c
 * when a tool asks for a role.
 *
 * A role (mgpt.h) is what a tensor does in the forward pass, and the field of the model that it
 * fills. A slot is a tensor's name in files, its role, its shape, and the architectures that require
 * or allow it.
 */
#ifndef MGPT_SLOTS_H
#define MGPT_SLOTS_H

#include "mgpt.h"
#include "model/model.h"

#include <stddef.h>

enum dim {
    D_NONE,
    D_E,
    D_3E,
    D_V,
    D_T,
    D_Q,
    D_KV,
    D_VALUES,
    D_QKV,
    D_F,
    D_2F,
    D_FX, /* width of an expert */
    D_2FX,
    D_FS, /* width of the shared expert */
    D_2FS,
    D_X, /* experts */
    D_HEAD,
    D_H,
    D_G,
    D_ROT2,
    D_L,
    D_P, /* width of a layer's input, of those of all layers */
    D_LP,
    D_CONV,
    D_ONE,
    D_R, /* the latent; with the rotated part of keys; of queries; its products */
    D_KEPT,
    D_QR,
    D_NOPE,
    D_VALUE,
    D_KV_UP,
    D_Z,
    D_GATE,
    D_COLUMNS, /* as many as the tensor has, up to E: a gate reads the first values of its row */
    N_DIMS
};

enum slot_kind {
    VECTOR,        /* const float *, or a norm's gain: converted to float32 */
    BIAS,          /* the bias of a norm or of a struct linear */
    MATRIX,        /* struct linear: packed later */
    QKV_MATRIX,    /* rows of q, k, v in one tensor: three consecutive struct linear */
    QKV_BIAS,      /* the biases of q, k, v in one tensor */
    BCX_MATRIX,    /* rows of B, C, x of a short convolution: the layer's k, q, v */
    GATE_UP,       /* rows of gate and up in one tensor: two consecutive struct linear */
    EXPERTS,       /* three dimensions: a matrix for each expert; of 2FX rows: gate, then up */
    EXPERT_BIASES, /* a row for each expert: the bias of its matrix */
    LATENT_UP,     /* matrices of heads, in two dimensions or three: layer.k_up, v_up, heads */
    GATE,          /* struct linear that reads the first values of its row */
    GAINS,         /* struct norm: a gain for one head, one for each, or for the whole projection */
    LOOKUP,        /* const struct gguf_tensor *: rows are looked up in the file */
    NUMBER,        /* a float */
    DIVISORS,      /* divisors of the rope frequencies */
    PER_LAYER      /* one float per layer: a field of struct layer */
};

/* In which layers a slot's tensor may be: in all, or in these. */
enum {
    MIXTURE = 1,       /* mixtures of experts */
    NOT_MIXTURE = 2,   /* others */
    SHARED_EXPERT = 4, /* mixtures with a shared expert, which needs it */
    WITH_NEXT = 8,     /* all; it and the tensor of the next slot are both present or both absent */
    INPUTS = 16,       /* models whose layers have inputs, which need it; in others it is refused */
    SINKS = 32,        /* architectures with sinks */
    HEAD_GATES = 64,   /* with gates of heads */
    SANDWICH = 128,    /* with norms after branches, too, which the others of their bit lack */
    DENSE_HEAD = 256   /* with a matrix and a norm before the head, which these lack, too */
};

struct tensor_slot {
    const char *name; /* without its layer */
    enum slot_kind kind;
    mgpt_role role; /* the first one, if rows of several roles are in one tensor */
    enum dim in, out;
    unsigned required, optional; /* sets of architectures */
    unsigned where;
};

/* The type of the field that a role's tensor is bound to. */
enum role_type { PLAIN, NORM, LINEAR };

struct role {
    const char *name;
    enum role_type type;
    size_t field; /* offset in struct mgpt_model, or of roles in layers in struct layer; of experts
                     in struct expert */
};

/* Rows of a tensor that holds several roles. */
struct slot_part {
    mgpt_role role;
    enum dim rows;
};

static inline int slot_is_bias(const struct tensor_slot *slot)
{
    return slot->kind == BIAS || slot->kind == QKV_BIAS || slot->kind == EXPERT_BIASES;
}

extern const struct role bind_roles[]; /* [MGPT_N_ROLES] */
extern const struct tensor_slot bind_model_slots[], bind_layer_slots[];
extern const size_t bind_n_model_slots, bind_n_layer_slots;

static inline int role_is_in_layers(mgpt_role role)
{
    return role >= MGPT_LN1;
}

/* The *n parts of a slot's tensor in the order of its rows, or NULL: it holds one role. */
const struct slot_part *bind_parts(const struct tensor_slot *slot, size_t *n);

/* The size of a dimension; 1 for D_NONE. roles.c. */
uint64_t bind_dim(const struct model_shape *s, enum dim d);

/* The tensor of a slot in a layer, or outside (-1), and its name; NULL: absent, or not of this
 * architecture. roles.c. */
const struct gguf_tensor *bind_slot_tensor(const mgpt_model *m, const struct tensor_slot *slot,
                                           int layer, char name[80]);

/* MIXTURE or NOT_MIXTURE: a layer is a mixture if it has a router, or no MLP of its own. roles.c. */
unsigned bind_layer_is(const mgpt_model *m, int layer);

/* The tensor in the file that gives a role its weight or bias, and its slot; NULL: absent. layer is
 * -1 outside the layers. The tables are searched, so it works before and after binding.
 * bind_find_where takes only slots for layers that are MIXTURE or NOT_MIXTURE, as `where` says. Both
 * are in roles.c. */
const struct gguf_tensor *bind_find(const mgpt_model *m, int layer, mgpt_role role, mgpt_part part,
                                    const struct tensor_slot **slot);
const struct gguf_tensor *bind_find_where(const mgpt_model *m, int layer, mgpt_role role,
                                          mgpt_part part, unsigned where,
                                          const struct tensor_slot **slot);

/* Gives a tensor of latent attention to a layer. bind_latent.c. */
int bind_latent_up(mgpt_model *m, struct layer *l, mgpt_role role, const struct gguf_tensor *t,
                   mgpt_error *err);

/* Gives a tensor to its field of `base`, the model or the layer. bind_tensor.c. */
int bind_tensor(mgpt_model *m, const struct tensor_slot *slot, char *base,
                const struct gguf_tensor *t, mgpt_error *err);

#endif
