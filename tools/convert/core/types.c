/* Which element type each tensor of a GGUF file gets. See write.h.
 *
 * The type asked for is not that of all tensors: vectors, the position table, routers, short
 * convolutions, biases of experts and gains of each head stay F32, and a row that is not a whole number of blocks gets
 * the type that llama.cpp's converters put in its place.
 * Of a K type, the two tables of the vocabulary, which every token goes through, are Q6_K.
 * Mixtures of types are in mixtures.c.
 */
#include "convert/core/write.h"

#include "base/mem.h"

#include <string.h>

static int is_vocabulary(const struct ckpt_tensor *t)
{
    return strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0;
}

/* A router stays F32, since rounded scores could choose other experts. The other tensors have few weights,
 * also the biases of experts. llama.cpp leaves the same ones F32. */
static int is_left_f32(const struct ckpt_tensor *t)
{
    static const char *const ends[] = {".ffn_gate_inp.weight", ".shortconv.conv.weight",
                                       ".attn_q_norm.weight", ".attn_k_norm.weight", ".bias"};
    size_t n = strlen(t->name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && strcmp(t->name + n - strlen(ends[i]), ends[i]) == 0)
            return 1;
    return 0;
}

int ckpt_has_choice(const struct ckpt_tensor *t)
{
    return t->n_values != t->dims[0] && strcmp(t->name, "position_embd.weight") != 0 &&
           !is_left_f32(t);
}

/* What is asked for a matrix; NULL: nothing. */
static const struct dtype *meant(const struct ckpt_tensor *t, const struct dtype *type)
{
    if (t->asked || !type)
        return t->asked;
    int is_k = type->block == Q6_K_BLOCK && type->from_float;
    return is_k && is_vocabulary(t) ? dtype_find(DTYPE_Q6_K) : type;
}

const struct dtype *ckpt_type_of(const struct ckpt_tensor *t, const struct dtype *type)
{
    type = meant(t, type);
    if (!type && t->exact)
        return t->type;
    if (!ckpt_has_choice(t))
        return dtype_find(DTYPE_F32);
    if (!type)
        return t->type;
    while (t->dims[0] % type->block)
        type = dtype_find(type->instead);
    return type;
}

void ckpt_note_types(struct checkpoint *c, const struct dtype *type)
{
    const struct ckpt_tensor *example = NULL;
    size_t n = 0;
    for (size_t i = 0; i < arr_len(c->tensors); i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        const struct dtype *to = ckpt_type_of(t, type);
        if (to->id == DTYPE_F32 || !meant(t, type) || to == meant(t, type))
            continue;
        example = n++ ? example : t;
    }
    if (n)
        ckpt_note(c, "%zu tensors have rows that do not fit %s: %s, rows of %llu, is written as %s",
                  n, type ? type->name : meant(example, type)->name, example->name,
                  (unsigned long long)example->dims[0], ckpt_type_of(example, type)->name);
}

void ckpt_measure(const struct checkpoint *c, const struct dtype *type, struct ckpt_written *w)
{
    uint64_t totals[DTYPE_N_IDS] = {0}, most = 0;
    *w = (struct ckpt_written){.type = type ? type->name : "F32",
                               .file_type = type ? type->file_type : 0};
    for (size_t i = 0; i < arr_len(c->tensors); i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        const struct dtype *to = ckpt_type_of(t, type);
        uint64_t *total = &totals[to->id % DTYPE_N_IDS];
        *total += t->n_values;
        if (*total > most) {
            most = *total;
            w->type = to->name;
            w->file_type = to->file_type;
        }
        w->is_quantised |= to->block > 1;
        w->n_values += t->n_values;
        w->n_bytes += t->n_values / to->block * to->block_bytes;
    }
    w->file_type = c->file_type ? c->file_type : w->file_type;
}
