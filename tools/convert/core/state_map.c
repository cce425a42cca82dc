/* Mapping named tensors by a table. See state.h. */
#include "base/error.h"
#include "convert/core/state.h"

#include <string.h>

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
    case 'A':
        return heads;
    case 'G':
        return hp->n_head_kv ? hp->n_head_kv : heads;
    case 'L':
        return hp->n_layer;
    case 'B':
        return 3 * (uint64_t)hp->n_embd;
    case 'C':
        return hp->n_latent;
    case 'D':
        return (uint64_t)hp->n_latent + hp->n_rot;
    case 'U':
        return hp->n_q_latent;
    case 'W':
        return heads * (hd - hp->n_rot + hp->value_dim);
    case 'Z':
        return heads * hp->value_dim;
    case 'M':
        return (uint64_t)hp->n_head_kv * hp->value_dim;
    case 'I':
        return hp->n_input;
    case 'J':
        return (uint64_t)hp->n_input * hp->n_layer;
    case 'O':
        return 1;
    default:
        return hp->n_embd;
    }
}

/* The numbers of a layer, or of the model for a row that is not of layers. */
static struct ckpt_hparams hparams_of(const struct ckpt_hparams *hp, const struct state_row *row,
                                      uint32_t layer)
{
    struct ckpt_hparams own = *hp;
    if (!state_is_pattern(row->from))
        return own;
    own.n_head = hp->heads ? (uint32_t)hp->heads[layer] : hp->n_head;
    if (!hp->windowed)
        return own;
    if (hp->windowed[layer] && hp->head_dim_swa)
        own.head_dim = hp->head_dim_swa;
    own.n_head_kv = hp->kv_heads ? (uint32_t)hp->kv_heads[layer] : hp->n_head_kv;
    own.n_ff = hp->ff_widths ? (uint32_t)hp->ff_widths[layer] : hp->n_ff;
    return own;
}

static void check_part(struct checkpoint *c, const struct state_tensor *t,
                       const struct state_row *row, uint64_t n_out, uint64_t n_in)
{
    if (row->flags & STATE_FIRST_ROWS && t->n_dims == 2 && t->shape[0] > n_out)
        n_out = t->shape[0];
    if (n_out && row->flags & STATE_TRANSPOSED && !t->packed) /* packed: as [n_out, n_in] */
    {
        state_check_shape(c, t, n_in, n_out);
        return;
    }
    state_check_shape(c, t, n_out, n_in);
}

/* The rows of q, of k or of v in a tensor of all three. */
static void split_qkv(struct state_part *part, unsigned flags, const struct ckpt_hparams *hp)
{
    uint64_t hd = state_size(hp, 'H'), q = state_size(hp, 'Q'), k = state_size(hp, 'K');
    uint64_t each = q / k * hd; /* rows of the queries of a group */
    int grouped = (flags & STATE_GROUPED) != 0;
    part->n_rows = flags & STATE_Q ? q : k;
    if (flags & STATE_K)
        part->first = grouped ? each : q;
    if (flags & STATE_V)
        part->first = grouped ? each + hd : q + k;
    if (grouped) {
        part->block = flags & STATE_Q ? each : hd;
        part->step = each + 2 * hd;
    }
}

void state_row_name(char buf[STATE_MAX_ROW_NAME], const char *pattern, const struct state_row *row,
                    uint32_t layer, int is_bias)
{
    const char *end = is_bias ? ".bias" : ".weight";
    state_layer_name(buf, STATE_MAX_ROW_NAME - 8, pattern, layer);
    if (!(row->flags & STATE_BARE))
        memcpy(buf + strlen(buf), end, strlen(end) + 1);
}

void state_row_part(const struct state_row *row, const struct ckpt_hparams *hp,
                    struct state_part *part)
{
    if (row->flags & (STATE_Q | STATE_K | STATE_V))
        split_qkv(part, row->flags, hp);
    if (row->flags & (STATE_GATE | STATE_UP))
        part->n_rows = hp->n_ff;
    if (row->flags & STATE_UP)
        part->first = hp->n_ff;
    if (row->flags & (STATE_PAIRS | STATE_HALVES | STATE_SWAP)) {
        part->head = state_size(hp, 'H');
        part->order = row->flags & STATE_PAIRS    ? STATE_ROWS_PAIRS
                      : row->flags & STATE_HALVES ? STATE_ROWS_HALVES
                                                  : STATE_ROWS_SWAP;
    }
}

/* Whether a row, or its bias, is there; it must be, where it may not be absent. */
static int part_of(struct state *s, const struct state_row *row, uint32_t layer, int is_bias,
                   struct state_part *part)
{
    const struct ckpt_hparams own = hparams_of(&s->c->hp, row, layer), *hp = &own;
    uint64_t n_out = row->n_out ? state_size(hp, row->n_out) : 0, n_in = state_size(hp, row->n_in);
    char from[STATE_MAX_ROW_NAME];
    state_row_name(from, row->from, row, layer, is_bias);
    n_in = is_bias && n_out ? n_out : n_in;
    n_out = is_bias ? 0 : n_out;
    *part = (struct state_part){.tensor = state_find(s, from), .n_rows = n_out ? n_out : n_in};
    if (!part->tensor &&
        row->flags & (is_bias ? STATE_BIAS_OPTIONAL | STATE_OPTIONAL : STATE_OPTIONAL))
        return 0;
    if (!part->tensor && !(is_bias && row->flags & STATE_BIAS_ZEROS))
        state_missing(s->c, from);
    if (part->tensor)
        check_part(s->c, part->tensor, row, n_out, n_in);
    part->transposed = n_out && row->flags & STATE_TRANSPOSED && !part->tensor->packed;
    state_row_part(row, hp, part);
    return 1;
}

/* n rows of one tensor, stacked, or their biases. */
static void map_tensor(struct state *s, const struct state_row *rows, size_t n, uint32_t layer,
                       int is_bias)
{
    char to[STATE_MAX_ROW_NAME];
    struct state_part *parts = ckpt_temp(s->c, n, sizeof *parts);
    for (size_t i = 0; i < n; i++)
        if (!part_of(s, &rows[i], layer, is_bias, &parts[i]))
            return;
    state_row_name(to, rows->to, rows, layer, is_bias);
    float plus = rows->flags & STATE_PLUS_ONE && !is_bias ? 1.0f : 0.0f;
    const struct ckpt_hparams own = hparams_of(&s->c->hp, rows, layer);
    uint64_t n_in = rows->n_out && !is_bias ? state_size(&own, rows->n_in) : 0;
    state_put(s->c, to, n_in, parts, n, plus);
}

static void map_rows(struct state *s, const struct state_row *rows, size_t n, uint32_t layer)
{
    map_tensor(s, rows, n, layer, 0);
    if (rows->flags & (STATE_BIAS | STATE_BIAS_OPTIONAL | STATE_BIAS_ZEROS))
        map_tensor(s, rows, n, layer, 1);
}

/* The number of rows from the first on that make one tensor. */
static size_t same_tensor(const struct state_row *rows, size_t n)
{
    size_t i = 1;
    while (i < n && strcmp(rows[i].to, rows->to) == 0)
        i++;
    return i;
}

/* The layer has the tensor. */
static int is_of_layer(const struct state_row *row, const struct ckpt_hparams *hp, uint32_t layer)
{
    unsigned other = hp->kv_heads && !hp->kv_heads[layer] ? STATE_ATTENTION : STATE_CONVOLUTION;
    return state_is_pattern(row->from) && !(row->flags & other);
}

static void map_layers(struct state *s, const struct state_row *rows, size_t n_rows)
{
    for (uint32_t layer = 0; layer < s->c->hp.n_layer; layer++)
        for (size_t i = 0, n; i < n_rows; i += n) {
            n = same_tensor(&rows[i], n_rows - i);
            if (is_of_layer(&rows[i], &s->c->hp, layer))
                map_rows(s, &rows[i], n, layer);
        }
}

void state_map(struct state *s, const struct state_row *rows, size_t n_rows)
{
    int layers_done = 0;
    for (size_t i = 0, n; i < n_rows; i += n) {
        n = same_tensor(&rows[i], n_rows - i);
        if (!state_is_pattern(rows[i].from)) {
            map_rows(s, &rows[i], n, 0);
        } else if (!layers_done) {
            map_layers(s, rows, n_rows);
            layers_done = 1;
        }
    }
}
