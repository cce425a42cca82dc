/* Keys and values of the KV cache in Q8_0: x ~ scale * q, one scale (IEEE half) per 32 elements of a
 * token's head. q and the scale are those of quantize, the scale then rounded to a half. The last
 * block of a head is padded with zeros.
 *
 * A panel, 16 tokens, is a panel of Q8_0 weights (int_layout.h) whose rows are tokens, so scores are
 * the matmul of integer types. Values have the same heads; after a head, token after token, the
 * signed values of its columns (64, or 32 at the end), so a vector lane is a column.
 */
#include "kernels/pack/int_layout.h"

#include <string.h>

enum {
    FEW_QUERIES = 4, /* most rows of scores that are worth prefetching for */
    KEY_PANELS = 4   /* panels that are prefetched at a time */
};

static const struct layout *const q8 = &layouts[WEIGHT_Q8_0];

size_t kernels_kv_bytes(enum kv_type type, size_t d)
{
    if (type == KV_Q8_0)
        return quant_panel_bytes(q8, kv_padded(d));
    return PANEL * d * (type == KV_F16 ? sizeof(uint16_t) : sizeof(float));
}

/* quantize of one block of a row of d elements. */
static void quantize_kv_block(const struct kernels *k, struct x_block *to, const float *row,
                              size_t b, size_t d)
{
    float padded[BLOCK] = {0};
    size_t n = d - b * BLOCK;
    if (n < BLOCK)
        memcpy(padded, row + b * BLOCK, n * sizeof *row);
    k->quantize(to, n < BLOCK ? padded : row + b * BLOCK, BLOCK);
}

/* Writes block b of a token: its integers and the scale. */
static void store_kv_block(void *panel, size_t lane, int is_key, size_t b, size_t d,
                           const int8_t *q, uint16_t scale)
{
    uint8_t *lines = (uint8_t *)panel + lines_at(q8, b);
    ((uint16_t *)panel)[kv_scale_at(b, lane)] = scale;
    for (size_t j = 0; is_key && j < BLOCK_WORDS; j++)
        for (size_t i = 0; i < 4; i++)
            lines[j * LINE + 4 * lane + i] = (uint8_t)q[4 * j + i] ^ 128;
    if (!is_key)
        memcpy((uint8_t *)panel + kv_value_at(b * BLOCK, lane, d), q, BLOCK);
}

void kv_q8_put(const struct kernels *k, void *panel, size_t lane, int is_key, const float *x,
               size_t d)
{
    for (size_t b = 0; b * BLOCK < d; b++) {
        struct x_block block;
        uint16_t scale;
        quantize_kv_block(k, &block, x, b, d);
        k->to_f16(&scale, &block.scale, 1);
        store_kv_block(panel, lane, is_key, b, d, block.q, scale);
    }
}

void kv_q8_copy(void *to, const void *from, size_t lane, int is_key, size_t d)
{
    const uint8_t *lines = from;
    for (size_t b = 0; b * BLOCK < d; b++) {
        int8_t q[BLOCK];
        for (size_t j = 0; is_key && j < BLOCK; j++)
            q[j] = (int8_t)(lines[lines_at(q8, b) + j / 4 * LINE + 4 * lane + j % 4] ^ 128);
        if (!is_key)
            memcpy(q, lines + kv_value_at(b * BLOCK, lane, d), BLOCK);
        store_kv_block(to, lane, is_key, b, d, q, ((const uint16_t *)from)[kv_scale_at(b, lane)]);
    }
}

void kv_q8_clear(void *panel, size_t lane, int is_key, size_t d)
{
    static const int8_t zeros[BLOCK];
    for (size_t b = 0; b * BLOCK < d; b++)
        store_kv_block(panel, lane, is_key, b, d, zeros, 0);
}

float kv_q8_get(const void *panel, size_t lane, int is_key, size_t j, size_t d)
{
    const uint8_t *at = panel;
    uint8_t q = at[kv_value_at(j, lane, d)];
    if (is_key)
        q = at[lines_at(q8, j / BLOCK) + j % BLOCK / 4 * LINE + 4 * lane + j % 4] ^ 128;
    return half(at + sizeof(uint16_t) * kv_scale_at(j / BLOCK, lane)) * (float)(int8_t)q;
}

/* ---- scores ---------------------------------------------------------------------------------- */

size_t kernels_scores_work(size_t n, size_t d)
{
    return n * quant_x_bytes(kv_padded(d)) + kernels_work_bytes(n);
}

/* Quantises the queries, times the scale of the scores, to the scratch. */
static void quantize_queries(const struct scores *s, size_t stride)
{
    for (size_t i = 0; i < s->n; i++) {
        struct x_block *x = (struct x_block *)(void *)((char *)s->work + i * stride);
        for (size_t b = 0; b * BLOCK < s->d; b++) {
            quantize_kv_block(s->kernels, x + b, s->q[i], b, s->d);
            x[b].scale *= s->by;
        }
    }
}

/* Prefetches the keys of panels [p, p + n), which may be past the end. */
static void fetch_keys(const struct scores *s, size_t p, size_t n)
{
    size_t bytes = kernels_kv_bytes(KV_Q8_0, s->d);
    uintptr_t at = (uintptr_t)s->keys + p * bytes;
    for (size_t i = 0; i < n * bytes; i += LINE)
        __builtin_prefetch((const void *)(at + i), 0, 2);
}

/* Few rows are bound by memory. With one, matmul prefetches. */
void kernels_scores_q8_0(const struct scores *s)
{
    size_t stride = quant_x_bytes(kv_padded(s->d)), all = s->p1 - s->p0;
    int fetches = s->n > 1 && s->n <= FEW_QUERIES;
    size_t step = fetches && all > KEY_PANELS ? KEY_PANELS : all;
    quantize_queries(s, stride);
    for (size_t p = s->p0, end; p < s->p1; p = end) {
        end = s->p1 - p < step ? s->p1 : p + step;
        if (fetches && end < s->p1)
            fetch_keys(s, end, step);
        s->kernels->matmul[WEIGHT_Q8_0](&(struct matmul){
            .y = s->s,
            .ldy = s->lds,
            .w = s->keys,
            .x = s->work,
            .x_stride = stride,
            .n = s->n,
            .n_in = kv_padded(s->d),
            .n_out = end * PANEL,
            .p0 = p,
            .p1 = end,
            .work = (char *)s->work + s->n * stride,
            .streaming = __atomic_load_n(&s->kernels->streaming, __ATOMIC_RELAXED)});
    }
}
