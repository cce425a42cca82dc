/* Arrays in a fixed order as tensors. See written.h. */
#include "convert/families/written.h"

#include <string.h>

static int is_of_layers(const struct written_row *row)
{
    return row->name && state_is_pattern(row->name);
}

uint64_t written_values(const struct ckpt_hparams *hp, const struct written_row *row)
{
    return state_size(hp, row->n_in) * (row->n_out ? state_size(hp, row->n_out) : 1);
}

uint64_t written_place(struct written *w, const struct ckpt_hparams *hp, uint64_t at)
{
    for (size_t k = 0; k < w->n_order; k++) {
        size_t i = w->order ? w->order[k] : k;
        const struct written_row *row = &w->rows[i];
        const struct dtype *type = row->is_norm ? w->norm_type : w->type;
        uint64_t n = written_values(hp, row);
        w->arrays[i].n_in = state_size(hp, row->n_in);
        w->arrays[i].n_out = row->n_out ? state_size(hp, row->n_out) : 0;
        w->arrays[i].start = at;
        w->arrays[i].each =
            w->group && row->n_out ? n + n / w->group * sizeof(float) : n * type->block_bytes;
        at += w->arrays[i].each * (is_of_layers(row) ? hp->n_layer : 1);
    }
    return at;
}

/* source: the int8 values, then the factors; at: values in a group. Groups may span rows. */
static void group_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const uint8_t *q = t->source, *factors = q + t->n_values;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        float factor;
        int8_t value;
        memcpy(&factor, factors + at / t->at * sizeof factor, sizeof factor);
        memcpy(&value, q + at, 1);
        out[i] = (float)value * factor;
    }
}

static void add_one(struct checkpoint *c, const struct written *w, struct span bytes, size_t i,
                    uint32_t layer)
{
    const struct written_row *row = &w->rows[i];
    const uint8_t *p = bytes.data + w->arrays[i].start + layer * w->arrays[i].each;
    struct ckpt_tensor from = {.type = row->is_norm ? w->norm_type : w->type, .bytes = p};
    char name[CKPT_MAX_NAME + 1];
    if (w->group && row->n_out)
        from = (struct ckpt_tensor){.values = group_values, .source = p, .at = w->group};
    state_layer_name(name, sizeof name, row->name, layer);
    ckpt_add(c, name, w->arrays[i].n_in, w->arrays[i].n_out, from);
}

void written_add(struct checkpoint *c, const struct written *w, struct span bytes)
{
    size_t first = 0, end;
    while (first < w->n_rows && !is_of_layers(&w->rows[first]))
        add_one(c, w, bytes, first++, 0);
    for (end = first; end < w->n_rows && is_of_layers(&w->rows[end]);)
        end++;
    for (uint32_t layer = 0; layer < c->hp.n_layer; layer++)
        for (size_t i = first; i < end; i++)
            add_one(c, w, bytes, i, layer);
    for (; end < w->n_rows; end++)
        if (w->rows[end].name)
            add_one(c, w, bytes, end, 0);
}
