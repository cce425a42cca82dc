/* Values of matrices while they are written: changes of low rank of rows that are longer than a tile, and the importance
 * of columns, of one matrix and of those of experts. And the types that are chosen for them. */
#include "convert/core/importance.h"
#include "convert/core/lora.h"
#include "convert/core/mixtures.h"
#include "convert/core/write.h"
#include "support/unit.h"

#include "base/mem.h"
#include "gguf/gguf.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 600, ROWS = 4, FIRST = 1, CHANGED = 2, RANK = 2 };

/* A row is asked for whole, and in pieces that begin anywhere. */
static void assert_changed(const struct ckpt_tensor *t, const double want[ROWS * WIDTH])
{
    static const size_t pieces[] = {ROWS * WIDTH, 7, 256, 599};
    static float found[ROWS * WIDTH];
    for (size_t k = 0; k < COUNT(pieces); k++) {
        for (size_t at = 0, n; at < ROWS * WIDTH; at += n) {
            n = ROWS * WIDTH - at < pieces[k] ? ROWS * WIDTH - at : pieces[k];
            ckpt_values(t, at, n, found + at);
        }
        for (size_t i = 0; i < ROWS * WIDTH; i++)
            assert_float_equal(found[i], (float)want[i], 1e-6F * (1 + fabsf((float)want[i])));
    }
}

/* The base gives no blocks: nothing of it is written as it is. */
static void no_blocks(const struct ckpt_tensor *t, uint64_t first, size_t n, uint8_t *out)
{
    fail_msg("blocks %s %d %d %p", t->name, (int)first, (int)n, (void *)out);
}

static void assert_low_rank(int is_dora)
{
    static float w[ROWS * WIDTH], a[RANK * WIDTH];
    static double want[ROWS * WIDTH];
    const float b[CHANGED * RANK] = {1, -2, 0.5F, 3}, magnitude[CHANGED] = {2, 5};
    struct checkpoint c;
    ckpt_init(&c);
    for (size_t i = 0; i < COUNT(w); i++)
        want[i] = w[i] = (float)(i % 37) - 11;
    for (size_t i = 0; i < COUNT(a); i++)
        a[i] = (float)(i % 41) / 8;
    for (size_t r = 0; r < CHANGED; r++) {
        double *row = want + (FIRST + r) * WIDTH, squares = 0;
        for (size_t i = 0; i < WIDTH; i++) {
            row[i] += 0.25 * ((double)b[RANK * r] * a[i] + (double)b[RANK * r + 1] * a[WIDTH + i]);
            squares += row[i] * row[i];
        }
        for (size_t i = 0; i < WIDTH && is_dora; i++)
            row[i] *= magnitude[r] / sqrt(squares);
    }
    struct ckpt_tensor t = {.n_dims = 2,
                            .dims = {WIDTH, ROWS, 1, 1},
                            .n_values = WIDTH * ROWS,
                            .type = dtype_find(DTYPE_F32),
                            .bytes = (const uint8_t *)w,
                            .blocks = no_blocks};
    lora_change(
        &c, &t,
        &(struct lora_change){FIRST, CHANGED, RANK, a, b, is_dora ? magnitude : NULL, 0.25});
    assert_null(t.blocks);
    assert_changed(&t, want);
    ckpt_free(&c);
}

TEST(long_rows)
{
    assert_low_rank(0);
    assert_low_rank(1);
}

enum { COLUMNS = 64, EXPERTS = 3, OF_EXPERT = 4, N = COLUMNS * OF_EXPERT * EXPERTS };

/* The file of llama-imatrix, of two tensors; free it. */
static struct span importance_file(const float sums[COLUMNS * EXPERTS], const float *counts,
                                   uint64_t n_counts)
{
    struct gguf_writer w;
    struct span file;
    void *bytes;
    const uint64_t dims[] = {COLUMNS, EXPERTS};
    gguf_create_memory(&w);
    gguf_put_tensor(&w, "m.weight.in_sum2", dtype_find(DTYPE_F32), 2, dims);
    gguf_put_tensor(&w, "m.weight.counts", dtype_find(DTYPE_F32), 1, &n_counts);
    gguf_data(&w, sums, COLUMNS * EXPERTS * sizeof *sums);
    gguf_data(&w, counts, n_counts * sizeof *counts);
    assert_int_equal(gguf_commit_memory(&w, &bytes, &file.size, NULL), MGPT_OK);
    file.data = bytes;
    return file;
}

static struct ckpt_tensor *experts(struct checkpoint *c)
{
    struct ckpt_tensor t = {.name = "m.weight",
                            .n_dims = 3,
                            .dims = {COLUMNS, OF_EXPERT, EXPERTS, 1},
                            .n_values = N,
                            .type = dtype_find(DTYPE_F32)};
    ckpt_init(c);
    assert_true(arr_push(c->tensors, t));
    return c->tensors;
}

/* Each expert has sums and a count of its own; of one that no token chose all columns are equal. A count
 * below 1 is 1. */
TEST(importance_of_experts)
{
    const struct dtype *q4 = dtype_find(DTYPE_Q4_0);
    const float counts[] = {4, 0, 0.5F};
    float sums[COLUMNS * EXPERTS], want[COLUMNS * EXPERTS], values[N];
    const size_t half = N / 2 + 32; /* in the middle of a row */
    uint8_t block[32], found[N];
    struct checkpoint c;
    struct ckpt_tensor *t = experts(&c);
    for (size_t i = 0; i < COUNT(sums); i++) {
        sums[i] = counts[i / COLUMNS] * (float)(1 + i % 7 * i % 11);
        want[i] = i / COLUMNS == 1 ? 1 : sums[i] / fmaxf(counts[i / COLUMNS], 1);
    }
    struct span file = importance_file(sums, counts, EXPERTS);
    assert_int_equal(ckpt_weigh(&c, file, NULL), MGPT_OK);
    assert_memory_equal(t->importance, want, sizeof want);
    for (size_t i = 0; i < N; i++)
        values[i] = sinf((float)i);
    ckpt_encode(t, q4, 0, half, values, found);
    ckpt_encode(t, q4, half, N - half, values + half, found + half / 32 * q4->block_bytes);
    for (size_t i = 0; i < N; i += 32) {
        const float *weights = want + i / COLUMNS / OF_EXPERT * COLUMNS + i % COLUMNS;
        q4->from_float_weighted(values + i, weights, block, 32);
        assert_memory_equal(found + i / 32 * q4->block_bytes, block, q4->block_bytes);
    }
    free((void *)(uintptr_t)file.data);
    ckpt_free(&c);
}

/* One count may be that of all experts; two are refused. */
TEST(counts_of_experts)
{
    const float counts[] = {2, 5};
    float sums[COLUMNS * EXPERTS];
    for (uint64_t n = 1; n <= COUNT(counts); n++) {
        struct checkpoint c;
        struct ckpt_tensor *t = experts(&c);
        mgpt_error err;
        for (size_t i = 0; i < COUNT(sums); i++)
            sums[i] = (float)i;
        struct span file = importance_file(sums, counts, n);
        int status = ckpt_weigh(&c, file, &err);
        if (n == 1)
            assert_float_equal(t->importance[COLUMNS * EXPERTS - 1], 191.0F / 2, 0);
        else
            assert_non_null(
                strstr(err.text, "192 sums and 2 counts, expected 64 columns of 3 matrices"));
        assert_int_equal(status, n == 1 ? MGPT_OK : MGPT_EFILE);
        free((void *)(uintptr_t)file.data);
        ckpt_free(&c);
    }
}

/* The type of most values is that of the file; of as many of two types, the first. */
TEST(type_of_the_file)
{
    static const uint32_t ids[] = {DTYPE_F16, DTYPE_F32};
    for (size_t i = 0; i < COUNT(ids); i++) {
        struct checkpoint c;
        struct ckpt_written w;
        ckpt_init(&c);
        for (size_t k = 0; k < COUNT(ids); k++) {
            const struct ckpt_tensor t = {.name = "x",
                                          .n_dims = 2,
                                          .dims = {2, 2, 1, 1},
                                          .n_values = 4,
                                          .type = dtype_find(ids[(i + k) % 2]),
                                          .exact = 1};
            assert_true(arr_push(c.tensors, t));
        }
        ckpt_measure(&c, NULL, &w);
        assert_string_equal(w.type, dtype_find(ids[i])->name);
        assert_int_equal(w.file_type, dtype_find(ids[i])->file_type);
        ckpt_free(&c);
    }
}

/* The values' matrices of every `step`-th layer, with the types of a mixture. */
static void mix_values(struct checkpoint *c, uint32_t n_layer, uint32_t step, uint32_t kv_heads,
                       const char *mixture)
{
    ckpt_init(c);
    c->hp = (struct ckpt_hparams){
        .arch = "llama", .n_layer = n_layer, .n_head = 8, .n_head_kv = kv_heads};
    for (uint32_t i = step - 1; i < n_layer; i += step) {
        struct ckpt_tensor t = {.n_dims = 2, .dims = {256, 256, 1, 1}, .n_values = 256 * 256};
        snprintf(t.name, sizeof t.name, "blk.%u.attn_v.weight", i);
        assert_true(arr_push(c->tensors, t));
    }
    ckpt_mix_types(c, ckpt_mixture_named(mixture));
}

/* As llama-quantize has it: layers without the matrix do not count. */
TEST(values_of_some_layers)
{
    static const char *const names[] = {"q3_k_m", "q4_k_s", "q4_k_m", "q5_k_m"};
    for (size_t k = 0; k < COUNT(names); k++) {
        struct checkpoint all, some;
        mix_values(&all, 8, 1, 8, names[k]);
        mix_values(&some, 16, 2, 8, names[k]);
        for (size_t i = 0; i < 8; i++)
            assert_ptr_equal(some.tensors[i].asked, all.tensors[i].asked);
        ckpt_free(&all);
        ckpt_free(&some);
    }
}

/* Llama of 80 layers gets more bits where heads share values (70B), not where each has its own (65B). */
TEST(values_of_80_layers)
{
    for (uint32_t kv_heads = 1; kv_heads <= 8; kv_heads += 7) {
        struct checkpoint c;
        mix_values(&c, 80, 1, kv_heads, "q4_k_s");
        assert_int_equal(c.tensors[79].asked->id, kv_heads == 8 ? DTYPE_Q4_K : DTYPE_Q5_K);
        ckpt_free(&c);
    }
}
