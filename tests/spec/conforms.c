/* The kernels of every ISA level against the conformance vectors.
 *
 *     vectors | conforms      fails at the first case of a level that differs
 */
#include "base/fnv.h"
#include "dtype/dtype.h"
#include "kernels/kernels.h"
#include "spec/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the operations with the library's kernels: each returns the number of results in y ---- */

/* 64-aligned and as large as any case needs. */
struct spec_room {
    _Alignas(64) uint8_t packed[SPEC_IN * SPEC_OUT * 8];
    _Alignas(64) uint8_t x[SPEC_IN * 8], work[1 << 18], values[SPEC_KEYS * 2 * SPEC_WIDTH * 8];
};

static size_t conforms_matmul(const struct kernels *k, const struct spec_case *c,
                              struct spec_room *room, float *y)
{
    enum weight_type type = dtype_find((uint32_t)spec_ops[c->op].type)->weight;
    const void *x = c->x;
    k->pack[type](room->packed, c->w, c->n_in, c->n_out, 0, panels_of(c->n_out));
    if (weight_is_integer(type)) {
        k->quantize(room->x, c->x, c->n_in);
        x = room->x;
    }
    k->matmul[type](&(struct matmul){.y = y,
                                     .ldy = c->n_out,
                                     .w = room->packed,
                                     .x = x,
                                     .n = 1,
                                     .n_in = c->n_in,
                                     .n_out = c->n_out,
                                     .p1 = panels_of(c->n_out),
                                     .work = room->work});
    return c->n_out;
}

/* Writes token t's key to its lane of a panel, its value to a row or a lane. */
static void conforms_append(const struct kernels *k, const struct spec_case *c, enum kv_type type,
                            struct spec_room *room, size_t t)
{
    size_t d = c->n_in, bytes = kernels_kv_bytes(type, d), lane = t % PANEL;
    uint8_t *keys = room->packed + t / PANEL * bytes, *values = room->values + t / PANEL * bytes;
    uint16_t key[SPEC_WIDTH], value[SPEC_WIDTH];
    if (type == KV_Q8_0) {
        kv_q8_put(k, keys, lane, 1, c->k[t], d);
        kv_q8_put(k, values, lane, 0, c->v[t], d);
        return;
    }
    k->to_f16(key, c->k[t], d);
    k->to_f16(value, c->v[t], d);
    for (size_t j = 0; j < d && type == KV_F32; j++) {
        ((float *)(void *)keys)[j * PANEL + lane] = c->k[t][j];
        ((float *)(void *)room->values)[t * d + j] = c->v[t][j];
    }
    for (size_t j = 0; j < d && type == KV_F16; j++) {
        ((uint16_t *)(void *)keys)[j * PANEL + lane] = key[j];
        ((uint16_t *)(void *)room->values)[t * d + j] = value[j];
    }
}

static size_t conforms_attend(const struct kernels *k, const struct spec_case *c,
                              struct spec_room *room, float *y)
{
    enum kv_type type = c->op == SPEC_attend_F32   ? KV_F32
                        : c->op == SPEC_attend_F16 ? KV_F16
                                                   : KV_Q8_0;
    size_t n = c->n_out, panels = panels_of(n);
    float scores[SPEC_KEYS + PANEL], *o = y + 2 * n;
    const float *q = c->x;
    memset(room->packed, 0, panels * kernels_kv_bytes(type, c->n_in));
    for (size_t t = 0; t < n; t++)
        conforms_append(k, c, type, room, t);
    k->scores[type](&(struct scores){scores, SPEC_KEYS + PANEL, room->packed, &q, 1, c->n_in,
                                     0.125f, 0, panels, k, room->work, 1});
    memcpy(y, scores, n * sizeof *y);
    memcpy(y + n, scores, n * sizeof *y);
    k->softmax(y + n, n);
    memset(o, 0, c->n_in * sizeof *o);
    k->mix[type](&(struct mix){&o, y + n, n, room->values, c->n_in, 1, n, c->n_in, 0, 0, 1});
    return 2 * n + c->n_in;
}

static size_t conforms_rope(const struct kernels *k, const struct spec_case *c, float *y)
{
    size_t n_rot = c->n_in / 2 * 2;
    float cs[SPEC_IN];
    for (size_t i = 0; i < n_rot / 2; i++) {
        cs[2 * i] = c->a[i];
        cs[2 * i + 1] = c->b[i];
    }
    memcpy(y, c->x, c->n_in * sizeof *y);
    k->rope(y, cs, 1, c->n_in, n_rot, c->op == SPEC_rope_pairs ? ROPE_ADJACENT : ROPE_HALVES);
    return c->n_in;
}

static size_t conforms_row(const struct kernels *k, const struct spec_case *c, float *y)
{
    size_t n = c->n_in;
    memcpy(y, c->x, n * sizeof *y);
    if (c->op == SPEC_rmsnorm)
        k->rmsnorm(y, y, c->a, c->b, n, 1e-5f);
    else if (c->op == SPEC_layernorm)
        k->layernorm(y, y, c->a, c->b, n, 1e-5f);
    else if (c->op == SPEC_softmax)
        k->softmax(y, n);
    else if (c->op == SPEC_softcap)
        k->softcap(y, 15, n);
    else if (c->op == SPEC_clamp)
        k->clamp(y, 2, n);
    else if (c->op == SPEC_xielu)
        k->xielu(y, &(struct xielu){c->a[0], c->a[1], c->a[2], -fabsf(c->a[3])}, n);
    else if (c->op == SPEC_axpby)
        k->axpby(y, c->a[0], c->b[0], c->a, n);
    else if (c->op == SPEC_relu)
        k->act[ACT_RELU](y, n);
    else if (c->op == SPEC_gelu_quick)
        k->act[ACT_GELU_QUICK](y, n);
    else
        k->act[ACT_RELU2 + (c->op - SPEC_relu2)](y, n);
    return n;
}

/* As in run/experts.c: the first of a softmax of two. */
static size_t conforms_sigmoid(const struct kernels *k, const struct spec_case *c, float *y)
{
    for (size_t i = 0; i < c->n_in; i++) {
        float two[2] = {c->x[i], 0};
        k->softmax(two, 2);
        y[i] = two[0];
    }
    return c->n_in;
}

static size_t conforms_to_f16(const struct kernels *k, const struct spec_case *c, float *y)
{
    uint16_t halves[SPEC_IN];
    k->to_f16(halves, c->x, c->n_in);
    for (size_t i = 0; i < c->n_in; i++)
        y[i] = f16_to_f32(halves[i]);
    return c->n_in;
}

static size_t conforms_run(const struct kernels *k, const struct spec_case *c,
                           struct spec_room *room, float *y)
{
    if (c->op <= SPEC_matmul_TQ2_0)
        return conforms_matmul(k, c, room, y);
    if (c->op == SPEC_rope_pairs || c->op == SPEC_rope_halves)
        return conforms_rope(k, c, y);
    if (c->op >= SPEC_attend_F32 && c->op <= SPEC_attend_Q8_0)
        return conforms_attend(k, c, room, y);
    if (c->op == SPEC_sigmoid)
        return conforms_sigmoid(k, c, y);
    return c->op == SPEC_to_f16 ? conforms_to_f16(k, c, y) : conforms_row(k, c, y);
}

/* ---- comparing ---- */

/* Cases that differ from what `vectors` printed; the first is told. */
static size_t compare_level(const char *isa, const uint64_t *expected)
{
    static struct spec_case c;
    static struct spec_room room;
    static float y[SPEC_IN + 2 * SPEC_KEYS + SPEC_OUT];
    struct kernels k;
    size_t bad = !kernels_init(&k, isa);
    for (size_t i = 0; !bad && i < SPEC_CASES; i++) {
        spec_case(&c, i);
        size_t n = conforms_run(&k, &c, &room, y);
        bad = fnv1a(FNV_START, y, n * sizeof *y) != expected[i];
        if (bad)
            printf("%s: case %zu, %s of %zu and %zu: not the bits of the specification\n", isa, i,
                   spec_ops[c.op].name, c.n_in, c.n_out);
    }
    if (!bad)
        printf("%s: %d cases\n", isa, (int)SPEC_CASES);
    return bad;
}

int main(void)
{
    static uint64_t expected[SPEC_CASES];
    size_t n = 0, bad = 0;
    char line[128];
    for (; n < SPEC_CASES && fgets(line, sizeof line, stdin); n++)
        expected[n] = strtoull(strrchr(line, ' ') + 1, NULL, 16);
    const char *isa;
    int runs_here;
    for (size_t i = 0; (isa = kernels_isa_level(i, &runs_here)) != NULL; i++)
        bad += runs_here ? compare_level(isa, expected) : 0;
    return n != SPEC_CASES || bad > 0;
}
