/* Fuzz target: an importance matrix for a checkpoint of a plain matrix and one of three experts, each with
 * rows of 32. What is accepted has finite weights, and rounds. */
#include "base/mem.h"
#include "convert/core/importance.h"
#include "fuzz/fuzz.h"

#include <math.h>

enum { WIDTH = 32, ROWS = 2, EXPERTS = 3 };

static struct ckpt_tensor matrix(const char *name, uint64_t n_experts)
{
    struct ckpt_tensor t = {.n_dims = n_experts > 1 ? 3 : 2,
                            .dims = {WIDTH, ROWS, n_experts, 1},
                            .n_values = WIDTH * ROWS * n_experts};
    memcpy(t.name, name, strlen(name) + 1);
    return t;
}

static void round_by(const struct ckpt_tensor *t)
{
    static float x[WIDTH * ROWS * EXPERTS], y[WIDTH * ROWS * EXPERTS];
    uint8_t bytes[sizeof x];
    const struct dtype *type = dtype_named("Q4_0");
    size_t n_weights = (size_t)(WIDTH * t->dims[2]);
    for (size_t i = 0; i < t->n_values; i++)
        x[i] = (float)(int)(i % 17) - 8;
    for (size_t i = 0; t->importance && i < n_weights; i++)
        MUST(isfinite(t->importance[i]) && t->importance[i] >= 0);
    ckpt_encode(t, type, 0, (size_t)t->n_values, x, bytes);
    type->to_float(bytes, y, (size_t)t->n_values);
    fuzz_saw_floats(y, (size_t)t->n_values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint c;
    mgpt_error err = {0};
    ckpt_init(&c);
    MUST(arr_push(c.tensors, matrix("blk.0.attn_q.weight", 1)));
    MUST(arr_push(c.tensors, matrix("blk.0.ffn_down_exps.weight", EXPERTS)));
    int status = ckpt_weigh(&c, (struct span){data, size}, &err);
    if (status < 0) {
        MUST(err.status == status && err.text[0] && strlen(err.text) < sizeof err.text);
        fuzz_saw_error(&err);
    } else {
        round_by(&c.tensors[0]);
        round_by(&c.tensors[1]);
    }
    ckpt_free(&c);
    return 0;
}
