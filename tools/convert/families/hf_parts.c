/* The tensors that belong to a matrix of codes: its scales, zeros and the like. See hf_coded.h. */
#include "convert/families/hf_coded.h"

#include "convert/families/hf_quant.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PART = HF_MAX_BASE + 80 /* bytes of a name */ };

const struct state_tensor *hf_part_peek(const struct state *s, const char *base, const char *part)
{
    char full[MAX_PART];
    snprintf(full, sizeof full, "%s.%s", base, part);
    return state_peek(s, full);
}

const struct state_tensor *hf_part(struct state *s, const char *base, const char *part,
                                   enum state_type type)
{
    char full[MAX_PART];
    snprintf(full, sizeof full, "%s.%s", base, part);
    const struct state_tensor *t = state_find(s, full);
    if (!t)
        state_missing(s->c, full);
    struct state_tensor plain = *t;
    state_contiguous(&plain);
    if (t->type != type || memcmp(plain.strides, t->strides, t->n_dims * sizeof *t->strides) != 0)
        ckpt_stop_tensor(s->c, full, "element type %s, expected %s", state_type_name(t->type),
                         state_type_name(type));
    return t;
}

uint64_t hf_part_size(const struct state_tensor *t)
{
    uint64_t n = 1; /* state_add has checked that it is small enough for its bytes */
    for (uint32_t i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

int hf_is_vector(const struct state_tensor *t, uint64_t n)
{
    return t->n_dims == 1 && t->shape[0] == n;
}

float *hf_part_floats(struct state *s, const char *base, const char *part,
                      const struct state_tensor **tensor)
{
    const struct state_tensor *seen = hf_part_peek(s, base, part);
    const struct dtype *type = seen ? state_dtype(seen->type) : NULL;
    const struct state_tensor *t = hf_part(s, base, part, type ? seen->type : STATE_F32);
    uint64_t n = hf_part_size(t);
    float *to = ckpt_new(s->c, n + 1, sizeof *to);
    state_dtype(t->type)->to_float(t->bytes.data, to, n);
    *tensor = t;
    return to;
}
