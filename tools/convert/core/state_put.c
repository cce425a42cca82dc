/* Named tensors into a checkpoint: rows stacked, transposed, in another order. See state.h.
 *
 * What a tensor of the checkpoint is made of is a list of parts that the writer's calls walk row by
 * row. A row that is contiguous in the file is converted in one go; a transposed one element by
 * element, which reads each cache line of the file once, since the writer asks for many rows at a
 * time.
 */
#include "base/check.h"
#include "base/error.h"
#include "convert/core/state.h"

#include <string.h>

struct part {
    const uint8_t *data;               /* NULL: values are from `packed`, or zeros */
    const struct state_packed *packed; /* NULL: none */
    enum state_type type;
    uint64_t start, n_rows;            /* rows of the result */
    uint64_t row, column;              /* strides in bytes */
    uint64_t first, block, step, head; /* as in struct state_part */
    enum state_rows order;
};

struct stack {
    uint64_t width, n_rows;
    float plus;
    size_t n_parts;
    struct part parts[];
};

/* ---- reading --------------------------------------------------------------------------------- */

const struct dtype *state_dtype(enum state_type type)
{
    switch (type) {
    case STATE_F32:
        return dtype_find(DTYPE_F32);
    case STATE_F16:
        return dtype_find(DTYPE_F16);
    case STATE_BF16:
        return dtype_find(DTYPE_BF16);
    default:
        return NULL;
    }
}

static uint64_t source_row(const struct part *p, uint64_t r)
{
    uint64_t i = r % p->block % p->head, half = p->head / 2;
    uint64_t start = p->first + r / p->block * p->step + (r % p->block - i);
    if (p->order == STATE_ROWS_PAIRS)
        i = i / 2 + i % 2 * half;
    else if (p->order == STATE_ROWS_HALVES)
        i = i < half ? 2 * i : 2 * (i - half) + 1;
    else if (p->order == STATE_ROWS_SWAP)
        i = i < half ? i + half : i - half;
    return start + i;
}

/* n values of one row, from column `first` on. */
static void row_values(const struct part *p, uint64_t row, uint64_t first, size_t n, float *out)
{
    const struct dtype *type = state_dtype(p->type);
    if (p->packed) {
        p->packed->values(p->packed, source_row(p, row), first, n, out);
        return;
    }
    if (!p->data) {
        memset(out, 0, n * sizeof *out);
        return;
    }
    const uint8_t *at = p->data + source_row(p, row) * p->row + first * p->column;
    if (type && p->column == type->block_bytes) {
        type->to_float(at, out, n);
        return;
    }
    for (size_t i = 0; i < n; i++, at += p->column) {
        double wide;
        if (type) {
            type->to_float(at, &out[i], 1);
            continue;
        }
        memcpy(&wide, at, sizeof wide);
        out[i] = (float)wide;
    }
}

static void stack_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const struct stack *s = t->source;
    const struct part *p = s->parts;
    uint64_t row = (t->at + first) / s->width, column = (t->at + first) % s->width;
    for (size_t done = 0; done < n; row++, column = 0) {
        uint64_t left = s->width - column;
        size_t run = left < n - done ? (size_t)left : n - done;
        while (row - p->start >= p->n_rows)
            p++;
        row_values(p, row - p->start, column, run, out + done);
        done += run;
    }
    for (size_t i = 0; s->plus != 0 && i < n; i++)
        out[i] += s->plus;
}

/* All parts are packed, of one type with blocks, which rows are a whole number of. */
static void stack_blocks(const struct ckpt_tensor *t, uint64_t first, size_t n, uint8_t *out)
{
    const struct stack *s = t->source;
    const struct part *p = s->parts;
    uint64_t row = first / s->width, column = first % s->width;
    for (size_t done = 0; done < n; row++, column = 0) {
        uint64_t left = s->width - column;
        size_t run = left < n - done ? (size_t)left : n - done;
        while (row - p->start >= p->n_rows)
            p++;
        p->packed->blocks(p->packed, source_row(p, row - p->start), column, run, out);
        out += run / t->type->block * t->type->block_bytes;
        done += run;
    }
}

/* ---- checking -------------------------------------------------------------------------------- */

_Noreturn static void does_not_fit(struct checkpoint *c, const struct state_part *part,
                                   const char *gguf_name)
{
    const char *name = part->tensor ? part->tensor->name : gguf_name;
    ckpt_stop_tensor(c, name, "its shape does not give %s", gguf_name);
}

/* Every row that the part names exists, and has the width. n_rows is at least 1. */
static int rows_exist(const struct state_part *part, const struct part *p, uint64_t width,
                      int is_vector)
{
    const struct state_tensor *t = part->tensor;
    uint64_t blocks = (p->n_rows - 1) / p->block, last;
    int rows_at = part->transposed ? 1 : 0;
    if (t->n_dims != (is_vector ? 1 : 2) || (is_vector && part->transposed) ||
        (!is_vector && t->shape[1 - rows_at] != width))
        return 0;
    if (part->order != STATE_ROWS_KEEP &&
        (p->head % 2 || p->block % p->head || p->n_rows % p->head))
        return 0;
    if (p->step < p->block)
        return 0;
    return ck_mul(blocks, p->step, &last) && ck_add(last, p->first, &last) &&
           ck_add(last, p->n_rows - blocks * p->block, &last) && last <= t->shape[rows_at];
}

static void set_part(struct checkpoint *c, struct part *p, const struct state_part *part,
                     const char *gguf_name, uint64_t n_in, uint64_t start)
{
    const struct state_tensor *t = part->tensor;
    int rows_at = part->transposed ? 1 : 0, is_vector = n_in == 0;
    *p = (struct part){.start = start, .n_rows = part->n_rows, .first = part->first};
    if (t && !p->n_rows && t->n_dims > (uint32_t)rows_at && t->shape[rows_at] > p->first)
        p->n_rows = t->shape[rows_at] - p->first;
    p->block = part->block ? part->block : p->n_rows;
    p->step = part->step ? part->step : p->block;
    p->head = part->head ? part->head : p->block;
    p->order = part->order;
    if (!p->n_rows || (t && !rows_exist(part, p, n_in, is_vector)))
        does_not_fit(c, part, gguf_name);
    if (!t)
        return;
    p->packed = t->packed;
    if (p->packed)
        return;
    if (t->type > STATE_F64)
        ckpt_stop_tensor(c, t->name, "element type %s, expected F32, F16, BF16 or F64",
                         state_type_name(t->type));
    p->data = t->bytes.data;
    p->type = t->type;
    p->row = t->strides[rows_at] * state_type_bytes(t->type);
    p->column =
        is_vector ? state_type_bytes(t->type) : t->strides[1 - rows_at] * state_type_bytes(t->type);
}

/* ---- putting --------------------------------------------------------------------------------- */

/* Rows in order, without gaps. */
static int is_plain(const struct part *p, uint64_t width)
{
    size_t each = state_type_bytes(p->type);
    return p->data && p->order == STATE_ROWS_KEEP && p->step == p->block && p->column == each &&
           (p->n_rows == 1 || p->row == width * each);
}

/* The element type that all parts have. */
static const struct dtype *common_type(const struct stack *s)
{
    const struct dtype *type = NULL;
    for (size_t i = 0; i < s->n_parts; i++) {
        const struct part *p = &s->parts[i];
        if (!p->data && !p->packed && !s->parts->packed) /* zeros: of any type without blocks */
            continue;
        const struct dtype *own = p->packed ? p->packed->type : state_dtype(p->type);
        if (!own || (type && own != type))
            return dtype_find(DTYPE_F32);
        type = own;
    }
    return type && s->plus == 0 ? type : dtype_find(DTYPE_F32);
}

/* The parts with their places, in c's memory. */
static struct stack *stack_parts(struct checkpoint *c, const char *gguf_name, uint64_t n_in,
                                 const struct state_part *parts, size_t n_parts)
{
    size_t bytes = sizeof(struct stack) + n_parts * sizeof(struct part);
    struct stack *s = ckpt_new(c, bytes, 1);
    s->width = n_in ? n_in : 1;
    s->n_parts = n_parts;
    for (size_t i = 0; i < n_parts; i++) {
        set_part(c, &s->parts[i], &parts[i], gguf_name, n_in, s->n_rows);
        if (!ck_add(s->n_rows, s->parts[i].n_rows, &s->n_rows))
            does_not_fit(c, &parts[i], gguf_name);
    }
    return s;
}

/* Bytes where a single part has them in order, else the stack. */
static struct ckpt_tensor source_of(struct stack *s, float plus)
{
    const struct part *p = s->parts;
    const struct dtype *own = state_dtype(p->type);
    s->plus = plus;
    if (s->n_parts == 1 && plus == 0 && own && is_plain(p, s->width))
        return (struct ckpt_tensor){.type = own, .bytes = p->data + p->first * p->row};
    const struct dtype *type = common_type(s);
    return (struct ckpt_tensor){.type = type,
                                .values = stack_values,
                                .blocks = type->block > 1 ? stack_blocks : NULL,
                                .source = s};
}

void state_source(struct checkpoint *c, const struct state_tensor *t, struct ckpt_tensor *from)
{
    struct state_tensor whole = *t;
    if (t->n_dims == 0) {
        whole.n_dims = 1;
        whole.shape[0] = whole.strides[0] = 1;
    }
    struct state_part part = {.tensor = &whole, .n_rows = whole.shape[0]};
    ckpt_must(c, state_check_extent(t, c->err));
    *from = source_of(stack_parts(c, t->name, t->n_dims == 2 ? t->shape[1] : 0, &part, 1), 0);
}

void state_put(struct checkpoint *c, const char *gguf_name, uint64_t n_in,
               const struct state_part *parts, size_t n_parts, float plus)
{
    struct stack *s = stack_parts(c, gguf_name, n_in, parts, n_parts);
    struct ckpt_tensor from = source_of(s, plus);
    if (n_in)
        ckpt_add(c, gguf_name, n_in, s->n_rows, from);
    else
        ckpt_add(c, gguf_name, s->n_rows, 0, from);
}
