/* Mapping named tensors by a table. See state.h. */
#include "base/error.h"
#include "convert/core/state.h"

#include <string.h>

enum { MAX_NAME = 256 };

uint64_t state_size(const struct ckpt_hparams *hp, char letter)
{
    uint64_t heads = hp->n_head ? hp->n_head : 1;
    uint64_t hd = hp->head_dim ? hp->head_dim : hp->n_embd / heads;
    uint64_t q = hp->n_head * hd, k = (hp->n_head_kv ? hp->n_head_kv : hp->n_head) * hd;
    switch (letter) {
    case 'V':
        return hp->n_vocab;
    case 'T':
        return hp->n_ctx;
    case 'F':
        return hp->n_ff;
    case 'R':
        return 2 * (uint64_t)hp->n_ff;
    case 'Q':
        return q;
    case 'K':
        return k;
    case 'P':
        return q + 2 * k;
    case 'H':
        return hd;
    case 'L':
        return hp->n_layer;
    default:
        return hp->n_embd;
    }
}

static int state_map_check(const struct state_tensor *t, const struct state_row *row,
                           uint64_t n_out, uint64_t n_in, mgpt_error *err)
{
    if (row->flags & STATE_FIRST_ROWS && t->n_dims == 2 && t->shape[0] > n_out)
        n_out = t->shape[0];
    if (row->flags & STATE_TRANSPOSED)
        return state_check_shape(t, n_in, n_out, err);
    return state_check_shape(t, n_out, n_in, err);
}

static int map_one(struct state *s, const struct state_row *row, uint32_t layer, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &s->c->hp;
    uint64_t n_out = row->n_out ? state_size(hp, row->n_out) : 0, n_in = state_size(hp, row->n_in);
    char to[MAX_NAME], from[MAX_NAME];
    state_layer_name(to, sizeof to, row->to, layer);
    state_layer_name(from, sizeof from, row->from, layer);
    struct state_part part = {.tensor = state_find(s, from), .n_rows = n_out ? n_out : n_in};
    if (!part.tensor && row->flags & STATE_OPTIONAL)
        return MGPT_OK;
    if (!part.tensor && !(row->flags & STATE_ZEROS))
        return state_missing(from, err);
    int status = part.tensor ? state_map_check(part.tensor, row, n_out, n_in, err) : MGPT_OK;
    if (status < 0)
        return status;
    part.transposed = (row->flags & STATE_TRANSPOSED) != 0;
    if (row->flags & (STATE_PAIRS | STATE_SWAP)) {
        part.block = state_size(hp, 'H');
        part.order = row->flags & STATE_PAIRS ? STATE_ROWS_PAIRS : STATE_ROWS_SWAP;
    }
    float plus = row->flags & STATE_PLUS_ONE ? 1.0f : 0.0f;
    return state_put(s->c, to, n_out ? n_in : 0, &part, 1, plus, err);
}

static int map_layers(struct state *s, const struct state_row *rows, size_t n_rows, mgpt_error *err)
{
    int status = MGPT_OK;
    for (uint32_t layer = 0; layer < s->c->hp.n_layer; layer++)
        for (size_t i = 0; status == MGPT_OK && i < n_rows; i++)
            if (state_is_pattern(rows[i].from))
                status = map_one(s, &rows[i], layer, err);
    return status;
}

int state_map(struct state *s, const struct state_row *rows, size_t n_rows, mgpt_error *err)
{
    int status = MGPT_OK, layers_done = 0;
    for (size_t i = 0; status == MGPT_OK && i < n_rows; i++) {
        if (!state_is_pattern(rows[i].from)) {
            status = map_one(s, &rows[i], 0, err);
        } else if (!layers_done) {
            status = map_layers(s, rows, n_rows, err);
            layers_done = 1;
        }
    }
    return status;
}
