/* The cases of bench_cases.h: calls, buffers, sizes. */
#include "bench/bench_cases.h"

#include "base/mem.h"
#include "dtype/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROW = 4096,   /* values of entries without a matrix; columns of the large matrix */
    SIDE = 1024,  /* columns of the others, rows of the prompt's */
    PROMPT = 128, /* tokens of the prompt */
    KEYS = 1024,  /* tokens of the cache that scores and mix see */
    HEAD = 64,    /* values of a key */
    QUERIES = 16, /* queries of the prompt at a time */
};

static const size_t largest = (size_t)512 << 20;

/* ---- calls ---- */

static size_t x_stride(const struct kernel_case *c)
{
    return kernels_x_bytes((enum weight_type)c->index, c->n_in);
}

static void call_linear(const struct kernel_case *c)
{
    const void *x =
        weight_is_integer((enum weight_type)c->index) ? (void *)c->bank->rows : (void *)c->bank->x;
    c->k->matmul[c->index](&(struct matmul){.y = c->bank->y,
                                            .ldy = c->n_out,
                                            .w = c->matrix,
                                            .x = x,
                                            .x_stride = x_stride(c),
                                            .n = c->n,
                                            .n_in = c->n_in,
                                            .n_out = c->n_out,
                                            .p1 = panels_of(c->n_out),
                                            .work = c->bank->work,
                                            .streaming = c->streaming});
}

static void call_pack(const struct kernel_case *c)
{
    c->k->pack[c->index](c->matrix, c->bank->file, c->n_in, c->n_out, 0, panels_of(c->n_out));
}

static float *copy_row(float *y, const float *x, size_t n)
{
    return memcpy(y, x, n * sizeof *y);
}

/* The entries that work on a row of n values: what they are called, and the call. y stays near 1,
 * or gets a fresh copy of x, a few percent of all but relu, where a call would lead it to zero. */
#define ROWS(X)                                                                                    \
    X(QUANTIZE, "quantize", k->quantize(b->rows, x, n))                                            \
    X(TO_F16, "to_f16", k->to_f16((uint16_t *)(void *)b->rows, x, n))                              \
    X(RMSNORM, "rmsnorm", k->rmsnorm(y, x, ones, NULL, n, 1e-5f))                                  \
    X(LAYERNORM, "layernorm", k->layernorm(y, x, ones, ones, n, 1e-5f))                            \
    X(SOFTMAX, "softmax", k->softmax(y, n))                                                        \
    X(ADJACENT, "rope adjacent", k->rope(y, ones, n / HEAD, HEAD, HEAD, ROPE_ADJACENT))            \
    X(HALVES, "rope halves", k->rope(y, ones, n / HEAD, HEAD, HEAD, ROPE_HALVES))                  \
    X(SCALE, "scale", k->scale(y, 1, n))                                                           \
    X(ADD, "add", k->add(y, ones, n))                                                              \
    X(MUL, "mul", k->mul(y, ones, n))                                                              \
    X(AXPBY, "axpby", k->axpby(y, 0.5f, 0.5f, ones, n))                                            \
    X(CLAMP, "clamp", k->clamp(y, 10, n))                                                          \
    X(SOFTCAP, "softcap", k->softcap(copy_row(y, x, n), 30, n))

#define ROW_ID(id, name, call) ROW_##id,
#define ROW_NAME(id, name, call) name,
#define ROW_CASE(id, name, call)                                                                   \
    case ROW_##id:                                                                                 \
        call;                                                                                      \
        break;

enum { ROWS(ROW_ID) ROW_ACT, N_ROWS = ROW_ACT + ACT_N_KINDS };
_Static_assert((int)N_ROWS == (int)N_ROW_ENTRIES, "bench_cases.h counts the rows");

static void call_row(const struct kernel_case *c)
{
    const struct kernels *k = c->k;
    const struct bank *b = c->bank;
    float *y = b->y;
    const float *x = b->x, *ones = b->ones;
    size_t n = c->n;
    switch (c->index) {
        ROWS(ROW_CASE)
    default:
        k->act[c->index - ROW_ACT](copy_row(y, x, n), n);
    }
}

static void call_scores(const struct kernel_case *c)
{
    const float *q[QUERIES];
    for (size_t i = 0; i < c->n; i++)
        q[i] = c->bank->x + i * HEAD;
    c->k->scores[c->index](&(struct scores){c->bank->y, KEYS, c->bank->small, q, c->n, HEAD, 0.125f,
                                            0, panels_of(KEYS), c->k, c->bank->work, 0});
}

static void call_mix(const struct kernel_case *c)
{
    float *o[QUERIES];
    for (size_t i = 0; i < c->n; i++)
        o[i] = c->bank->y + i * HEAD;
    c->k->mix[c->index](
        &(struct mix){o, c->bank->x, KEYS, c->bank->small, HEAD, c->n, KEYS, HEAD, 0, 0, 0});
}

/* ---- buffers ---- */

static void fill_matrix(uint8_t *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) /* halves near 0.1, floats near 1e-11 */
        p[i] = (uint8_t)(0x28 + (i * 7 + i / 64) % 8);
}

static void fill_values(float *x, size_t n, float from, float to)
{
    for (size_t i = 0; i < n; i++)
        x[i] = from + (to - from) * (float)(i * 37 % 101) / 100;
}

static void *filled(size_t n_bytes)
{
    uint8_t *p = mem_large(n_bytes, 1); /* on the pages that weights are on */
    if (p)
        fill_matrix(p, n_bytes);
    return p;
}

static float *values(float from, float to)
{
    float *x = aligned_alloc(64, (size_t)PROMPT * ROW * sizeof *x);
    if (x)
        fill_values(x, (size_t)PROMPT * ROW, from, to);
    return x;
}

void bank_free(struct bank *b)
{
    void *const all[] = {b->large, b->small, b->prompt, b->file, b->x,
                         b->y,     b->ones,  b->rows,   b->work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int bank_open(struct bank *b, const struct machine *m)
{
    *b = (struct bank){.n_large = 4 * m->l3 < largest ? 4 * m->l3 : largest, .n_small = m->l2 / 2};
    size_t panel = kernels_panel_bytes(WEIGHT_F32, ROW); /* the widest type */
    b->n_small = b->n_small > 2 * panel ? b->n_small : 2 * panel;
    b->large = filled(b->n_large + panel);
    b->small = filled(b->n_small + panel);
    b->prompt = filled((size_t)SIDE * SIDE * sizeof(float));
    b->file = filled((size_t)SIDE * SIDE * sizeof(float) + (size_t)PANEL * ROW * sizeof(float));
    b->x = values(-4, 4);
    b->y = values(1, 2);
    b->ones = values(1, 1);
    b->rows = filled((size_t)PROMPT * ROW * sizeof(float));
    b->work = filled(kernels_work_bytes(PROMPT));
    return b->large && b->small && b->prompt && b->file && b->x && b->y && b->ones && b->rows &&
           b->work;
}

void bank_refresh(struct bank *b)
{
    fill_values(b->y, ROW, 1, 2);
}

/* ---- cases ---- */

static struct kernel_case *bench_cases_add(struct case_list *list, const struct kernel_case *like,
                                           const char *name)
{
    struct kernel_case *c = &list->c[list->n++];
    *c = *like;
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

/* A matrix of about n_bytes, packed panel by panel from the first rows of `file`. */
static void linear_case(struct case_list *list, const struct kernel_case *like, const char *name,
                        uint8_t *matrix, size_t n_bytes, size_t n, size_t n_in)
{
    struct kernel_case *c = bench_cases_add(list, like, name);
    size_t panel = kernels_panel_bytes((enum weight_type)c->index, n_in);
    size_t panels = n == 1 ? n_bytes / panel : panels_of(SIDE);
    *c = (struct kernel_case){.call = call_linear,
                              .k = like->k,
                              .bank = like->bank,
                              .index = like->index,
                              .streaming = like->streaming,
                              .matrix = matrix,
                              .n = n,
                              .n_in = n_in,
                              .n_out = panels * PANEL,
                              .bytes = n == 1 ? (double)(panels * panel) : 0,
                              .peak = like->peak,
                              .read = like->read};
    c->ops = 2.0 * (double)n * (double)n_in * (double)c->n_out;
    snprintf(c->name, sizeof c->name, "linear %s", name);
    snprintf(c->shape, sizeof c->shape, "%zu token%s, %zu to %zu", n, n == 1 ? "" : "s", n_in,
             c->n_out);
    for (size_t p = 0; p < panels; p++)
        c->k->pack[c->index](matrix + p * panel, c->bank->file, n_in, PANEL, 0, 1);
    for (size_t i = 0; i < n && weight_is_integer((enum weight_type)c->index); i++)
        c->k->quantize(c->bank->rows + i * x_stride(c), c->bank->x + i * n_in, n_in);
}

/* The first case in the other ways to read weights. */
static void streaming_cases(struct case_list *list, const struct kernel_case *like,
                            const char *type)
{
    char name[16];
    struct kernel_case c = *like;
    for (c.streaming = 1; c.streaming < N_STREAMINGS; c.streaming++) {
        snprintf(name, sizeof name, "%.8s:%zu", type, c.streaming);
        if (streaming_differs((enum weight_type)c.index, c.streaming))
            linear_case(list, &c, name, c.bank->large, c.bank->n_large, 1, ROW);
    }
}

void cases_linear(struct case_list *list, const struct kernels *k, struct bank *bank,
                  const struct limits *l, int type, const char *word)
{
    const struct dtype *d = dtype_of_weight((enum weight_type)type);
    char names[48];
    int integer = weight_is_integer((enum weight_type)type);
    struct kernel_case like = {
        .k = k, .bank = bank, .index = type, .peak = integer ? &l->int8 : &l->fma};
    list->n = 0;
    if (!k->matmul[type] || !k->pack[type])
        return;
    snprintf(names, sizeof names, "linear %s|pack %s", d->name, d->name);
    if (word && !strstr(names, word)) /* large matrices take a while to pack */
        return;
    like.read = &l->dram;
    linear_case(list, &like, d->name, bank->large, bank->n_large, 1, ROW);
    streaming_cases(list, &like, d->name);
    like.read = &l->read;
    linear_case(list, &like, d->name, bank->small, bank->n_small, 1, SIDE);
    like.read = NULL;
    linear_case(list, &like, d->name, bank->prompt, 0, PROMPT, SIDE);
    struct kernel_case *pack = bench_cases_add(list, &list->c[list->n - 1], "");
    pack->call = call_pack;
    pack->peak = NULL;
    pack->ops = 0;
    pack->bytes = (double)SIDE * SIDE / d->block * d->block_bytes;
    snprintf(pack->name, sizeof pack->name, "pack %s", d->name);
    snprintf(pack->shape, sizeof pack->shape, "%d to %d", SIDE, SIDE);
}

/* Attention over a cache of one type, of one query or a prompt's. */
void cases_attention(struct case_list *list, const struct kernels *k, struct bank *bank,
                     const struct limits *l, int type)
{
    static const char *const types[] = {[KV_F32] = "F32", [KV_F16] = "F16", [KV_Q8_0] = "Q8_0"};
    const double bytes = (double)(KEYS / PANEL * kernels_kv_bytes((enum kv_type)type, HEAD));
    list->n = 0;
    fill_matrix(bank->small, (size_t)KEYS * HEAD * sizeof(float));
    for (int mixes = 0; mixes < 2; mixes++)
        for (size_t n = 1; n <= QUERIES; n += QUERIES - 1) {
            if (mixes ? !k->mix[type] : !k->scores[type])
                continue;
            struct kernel_case *c =
                bench_cases_add(list, &(struct kernel_case){.k = k, .bank = bank}, "");
            c->call = mixes ? call_mix : call_scores;
            c->index = type;
            c->n = n;
            c->ops = 2.0 * (double)n * KEYS * HEAD;
            c->bytes = n == 1 ? bytes : 0;
            c->peak = &l->fma;
            c->read = n == 1 ? &l->read : NULL;
            snprintf(c->name, sizeof c->name, "%s %s", mixes ? "mix" : "scores", types[type]);
            snprintf(c->shape, sizeof c->shape, "%zu quer%s, %d keys of %d", n,
                     n == 1 ? "y" : "ies", KEYS, HEAD);
        }
}

static const char *const row_names[] = {ROWS(ROW_NAME) ACTIVATIONS(ACTIVATION_NAME)};

void cases_row(struct case_list *list, const struct kernels *k, struct bank *bank, size_t *at)
{
    list->n = 0;
    for (; *at < N_ROW_ENTRIES && list->n < MAX_CASES; ++*at) {
        const struct kernel_case like = {
            .call = call_row, .k = k, .bank = bank, .index = (int)*at, .n = ROW, .ops = ROW};
        struct kernel_case *c = bench_cases_add(list, &like, row_names[*at]);
        snprintf(c->shape, sizeof c->shape, "%d values", ROW);
    }
}
