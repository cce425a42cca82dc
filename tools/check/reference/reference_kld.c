/* llama.cpp's file of log-probabilities (llama-perplexity --kl-divergence-base FILE):
 *
 *     "_logits_", int32 n_ctx, n_vocab, n_chunk, int32 tokens[n_chunk][n_ctx],
 *     for each chunk and each position from n_ctx/2 up to and without n_ctx - 1:
 *         float32 step, float32 least, uint16 q[n_vocab] (and one more where n_vocab is odd)
 *
 * A log-probability is least + step * q, rounded to the nearest, and least also replaces smaller
 * values: those more than 16 below the top one are cut off. In the place of each chunk's first
 * token the model had BOS, if it wants one.
 */
#include "base/check.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"

#include <math.h>

enum { HEAD = 20, ROW_HEAD = 8 };

/* The range of a row is at most 16, in 65535 steps; some room for rounding. */
static const double max_step = 16.001 / 65535;

static uint64_t row_bytes(const struct reference *ref)
{
    return ROW_HEAD + 2 * ((uint64_t)ref->n_vocab + (ref->n_vocab & 1));
}

static size_t first_row(size_t n_ctx)
{
    return n_ctx / 2;
}

/* Checks the sizes against each other and the file's; stores where the rows begin. */
static int reference_kld_measure(struct reference *ref, int32_t n_ctx, int32_t n_vocab,
                                 int32_t n_chunk, mgpt_error *err)
{
    uint64_t n_tokens, n_rows, size;
    if (n_ctx < 3 || n_ctx > REF_MAX_TOKENS || n_chunk < 1)
        return err_set(err, MGPT_EFILE, 8,
                       "%d chunks of %d tokens, expected 1 or more of 3 or more", (int)n_chunk,
                       (int)n_ctx);
    if (n_vocab < 1 || (size_t)n_vocab != ref->n_vocab)
        return err_set(err, MGPT_EFILE, 12, "%d log-probabilities a row, the model has %zu",
                       (int)n_vocab, ref->n_vocab);
    uint64_t rows = (uint64_t)n_ctx - 1 - first_row((size_t)n_ctx);
    if (!ck_mul((uint64_t)n_ctx, (uint64_t)n_chunk, &n_tokens) ||
        !ck_mul(rows, (uint64_t)n_chunk, &n_rows) || !ck_mul(n_rows, row_bytes(ref), &size) ||
        !ck_add(size, HEAD + 4 * n_tokens, &size) || size != ref->file.size)
        return err_set(
            err, MGPT_EFILE, HEAD,
            "%zu bytes, but %d chunks of %d tokens need another number (was it finished?)",
            ref->file.size, (int)n_chunk, (int)n_ctx);
    ref->logits.offset = HEAD + 4 * n_tokens;
    return MGPT_OK;
}

int reference_kld_open(struct reference *ref, mgpt_error *err)
{
    struct cursor c = cursor_over(ref->file.data, ref->file.size < HEAD ? ref->file.size : HEAD);
    cursor_take(&c, 8);
    int32_t n_ctx = cursor_i32(&c), n_vocab = cursor_i32(&c), n_chunk = cursor_i32(&c);
    if (c.failed)
        return err_set(err, MGPT_EFILE, c.where, "the file ends inside its header");
    int status = reference_kld_measure(ref, n_ctx, n_vocab, n_chunk, err);
    if (status == MGPT_OK)
        status = reference_add_texts(ref, (size_t)n_chunk, (size_t)n_ctx, HEAD,
                                     (size_t)n_ctx - 1 - first_row((size_t)n_ctx), err);
    for (size_t k = 0; k < arr_len(ref->items) && status == MGPT_OK && ref->options.add_bos; k++)
        ref->items[k].ids[0] = ref->options.bos;
    return status;
}

int reference_kld_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    uint8_t head[ROW_HEAD] = {0};
    const size_t n_ctx = arr_len(ref->items[i].ids), first = first_row(n_ctx);
    ref->about.logprobs = 1;
    if (row < first || row + 1 >= n_ctx) {
        ref->about.n = 0;
        return MGPT_OK;
    }
    uint64_t at = ref->logits.offset + row_bytes(ref) * (ref->items[i].first_row + row - first);
    int status = reference_bytes(ref, at, sizeof head, head, err);
    struct cursor c = cursor_over(head, sizeof head);
    float step = cursor_f32(&c), least = cursor_f32(&c);
    if (status < 0)
        return status;
    if (!isfinite(least) || !(step >= 0 && (double)step <= max_step))
        return err_set(err, MGPT_EFILE, at,
                       "sequence %zu, position %zu: no step from 0 to 16/65535 and finite minimum",
                       i, row);
    /* Half a step, and what llama.cpp's own float32 arithmetic (the sum of exp, the difference to
     * it, the quotient) may be off: a few roundings of numbers of the size of `least` or 65535
     * steps. */
    ref->about.slack = 0.51 * (double)step + 0x1p-22 * (16 + fabs((double)least));
    ref->about.floor = (double)least;
    struct ref_array steps = {.offset = at + ROW_HEAD, .npy = {.kind = 'u', .width = 2}};
    status = ref_array_reals(ref, &steps, 0, ref->n_vocab, out, err);
    for (size_t k = 0; k < ref->n_vocab && status == MGPT_OK; k++)
        out[k] = (double)step * out[k] + (double)least;
    return status;
}
