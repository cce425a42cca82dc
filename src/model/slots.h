/* Slots: what each tensor of a file means. See bind.c, which reads the tables.
 *
 * A slot states a tensor's name, its destination, its shape, and the architectures that require or
 * allow it.
 */
#ifndef MGPT_SLOTS_H
#define MGPT_SLOTS_H

#include <stddef.h>

enum dim {
    D_NONE,
    D_E,
    D_3E,
    D_V,
    D_T,
    D_Q,
    D_KV,
    D_QKV,
    D_F,
    D_2F,
    D_HEAD,
    D_H,
    D_G,
    D_ROT2,
    D_L,
    D_CONV
};

enum slot_kind {
    VECTOR,     /* const float *: converted to float32 */
    MATRIX,     /* struct linear: packed later */
    QKV_MATRIX, /* rows of q, k, v in one tensor: three consecutive struct linear */
    GATE_UP,    /* rows of gate and up in one tensor: two consecutive struct linear */
    BCX_MATRIX, /* rows of B, C, x of a short convolution: the layer's k, q, v */
    QKV_VECTOR, /* the biases of q, k, v in one tensor */
    QK_NORM,    /* struct norm: a gain for one head, one for each, or for the whole projection */
    LOOKUP,     /* const struct gguf_tensor *: rows are looked up in the file */
    DIVISORS,   /* divisors of the rope frequencies */
    PER_LAYER   /* one float per layer: the field of struct layer at `where` */
};

struct tensor_slot {
    const char *name; /* without "blk.N." */
    enum slot_kind kind;
    size_t where; /* offset in struct layer or struct mgpt_model */
    enum dim in, out;
    unsigned required, optional; /* sets of architectures */
};

/* `where` of divisors: the texts that they are for (mgpt_model.rope_short). */
enum { LONG, SHORT, ANY };

extern const struct tensor_slot bind_model_slots[], bind_layer_slots[];
extern const size_t bind_n_model_slots, bind_n_layer_slots;

#endif
