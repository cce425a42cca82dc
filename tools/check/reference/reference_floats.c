/* References that are float32 after a known header: raw ones, whose shape or tokens the user gives, and
 * llm.c's debug_state.bin:
 *
 *     int32 header[256]: 20240327, version 2, B, T; int32 x[B][T], y[B][T]; float32 logits[B][T][V],
 *     loss, gradients
 */
#include "base/check.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"

enum { HEAD = 1024 };

/* The logits are `rows` times n_vocab floats at `offset`. Stores their end. */
static int place(struct reference *ref, uint64_t offset, uint64_t rows, uint64_t *end)
{
    ref->logits.offset = offset;
    ref->logits.npy.kind = 'f';
    ref->logits.npy.width = 4;
    return ck_mul(rows, ref->n_vocab, end) && ck_mul(*end, 4, end) && ck_add(*end, offset, end);
}

int reference_raw_open(struct reference *ref, mgpt_error *err)
{
    const uint64_t stated = ref->options.shape_rows, cols = ref->options.shape_cols;
    const uint64_t rows = stated ? stated : ref->file.size / 4 / ref->n_vocab;
    uint64_t end;
    if (stated && cols != ref->n_vocab)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "--shape: %llu logits a row, the model has %zu", (unsigned long long)cols,
                       ref->n_vocab);
    if (!place(ref, 0, rows, &end) || end != ref->file.size)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "%zu bytes, expected those of %llu x %llu float32", ref->file.size,
                       (unsigned long long)rows, (unsigned long long)ref->n_vocab);
    return reference_add_only(ref, NULL, (size_t)rows, err);
}

int reference_llmc_open(struct reference *ref, mgpt_error *err)
{
    struct cursor c = cursor_over(ref->file.data, ref->file.size < HEAD ? ref->file.size : HEAD);
    cursor_i32(&c);
    int32_t version = cursor_i32(&c), b = cursor_i32(&c), t = cursor_i32(&c);
    uint64_t n_tokens, end;
    if (c.failed || version < 1 || version > 2)
        return err_set(err, MGPT_EFILE, 4, "llm.c state of version %d, expected 1 or 2",
                       (int)version);
    if (b < 1 || t < 1 || t > REF_MAX_TOKENS)
        return err_set(err, MGPT_EFILE, 8, "%d texts of %d tokens, expected at least one of each",
                       (int)b, (int)t);
    n_tokens = (uint64_t)b * (uint64_t)t;
    if (!place(ref, HEAD + 8 * n_tokens, n_tokens, &end) || end > ref->file.size - 4 ||
        ref->file.size < 4)
        return err_set(
            err, MGPT_EFILE, MGPT_NO_OFFSET,
            "%zu bytes, too few for %d texts of %d tokens, %zu logits each, and the loss",
            ref->file.size, (int)b, (int)t, ref->n_vocab);
    return reference_add_texts(ref, (size_t)b, (size_t)t, HEAD, (size_t)t, err);
}
