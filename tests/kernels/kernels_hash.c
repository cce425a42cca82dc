/* One hash per kernel entry, for comparison between machines.
 *
 *   kernels_hash LEVEL   prints a line per entry of the ISA level: its name and a hash of its results for
 *                        many random arguments, which are the same on every machine
 *   kernels_hash         hashes all ISA levels that run here and compares each with scalar
 *
 * It needs only the kernels and libm, so a cross compiler can build it alone
 * (tests/kernels/arm.sh). Arguments are finite, because the NaN that an operation returns differs
 * between machines.
 */
#include "base/fnv.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IN = 768, MOST_OUT = 160, MOST_TOKENS = 30, N_ENTRIES = 40, ROUNDS = 24 };

struct hashes {
    const char *name[N_ENTRIES];
    uint64_t hash[N_ENTRIES];
    size_t n;
};

static uint64_t hash_next(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = (*state ^ (*state >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    return z ^ (z >> 29);
}

static size_t hash_below(uint64_t *state, size_t n)
{
    return (size_t)(hash_next(state) >> 20) % n;
}

static void hash_fill(uint64_t *state, float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)(hash_next(state) >> 40) / 8388608.0f - 1.0f) * size;
}

static void hash_put(struct hashes *h, const char *name, uint64_t hash)
{
    if (h->n < N_ENTRIES) {
        h->name[h->n] = name;
        h->hash[h->n++] = hash;
    }
}

/* Weights in the file's layout: blocks of `bytes` bytes for `columns` columns, with halves at `at`. */
#define FLOAT_BLOCK(NAME, ...)                                                                     \
    [WEIGHT_##NAME] = {"linear " #NAME, 1, NAME##_BYTES, 0, WEIGHT_##NAME == WEIGHT_F16},
#define INT_BLOCK(NAME, ID, ACCESS, BLOCK, BYTES, FILE_TYPE, INSTEAD, BITS, OFFSET, MINIMUM, SUBS, \
                  D_AT, TABLE)                                                                     \
    [WEIGHT_##NAME] = {"linear " #NAME, BLOCK, BYTES, D_AT, 1 + MINIMUM},
enum { BF16_COMPRESSED_BYTES = BF16_BYTES }; /* before it is compressed */
static const struct {
    const char *name;
    size_t columns, bytes, at, halves;
} types[] = {FLOAT_TYPES(FLOAT_BLOCK) INT_TYPES(INT_BLOCK) FLOAT_BLOCK(BF16_COMPRESSED, )};

/* A random matrix in the file's layout: random bytes, but finite floats. `extreme`: the bytes of a
 * block are equal, for integers of the largest size. */
static void fill_weights(uint64_t *state, unsigned char *raw, enum weight_type type, size_t n,
                         int extreme)
{
    static const unsigned char ends[] = {0x80, 0x7F, 0xFF, 0};
    size_t bytes = types[type].bytes;
    for (size_t b = 0; b < n / types[type].columns; b++, raw += bytes) {
        for (size_t i = 0; i < bytes; i++)
            raw[i] = (unsigned char)hash_next(state);
        if (extreme)
            memset(raw, ends[raw[0] % 4], bytes);
        for (size_t i = 0; i < types[type].halves; i++)
            raw[types[type].at + 2 * i + 1] &= 0xBB; /* below 1 in size, some subnormal */
        if (type == WEIGHT_F32 || type == WEIGHT_BF16)
            raw[bytes - 1] = (unsigned char)((raw[bytes - 1] & 0x80) | 0x3D); /* 2^-5 to 2^-3 */
        if (type == WEIGHT_BF16_COMPRESSED && hash_below(state, 1024)) /* others become patches */
            raw[bytes - 1] = (unsigned char)((raw[bytes - 1] & 0x87) | 0x38);
        if (type == WEIGHT_BF16_COMPRESSED)
            raw[bytes - 1] &= 0xBF;
    }
}

/* Memory for the largest case of any type: at most 4.5 bytes per packed weight. */
struct room {
    unsigned char *raw, *packed, *x, *work;
    float *row, *y;
};

/* Packs a matrix. Compressed panels are written before the plain ones that they are made from. */
static void pack_weights(const struct kernels *k, const struct room *room, enum weight_type type,
                         size_t n_in, size_t n_out)
{
    size_t panels = panels_of(n_out), plain = kernels_panel_bytes(WEIGHT_BF16, n_in);
    memset(room->packed, 0, panels * PANEL * n_in * sizeof(float));
    if (type != WEIGHT_BF16_COMPRESSED) {
        k->pack[type](room->packed, room->raw, n_in, n_out, 0, panels);
        return;
    }
    unsigned char *from = room->packed + panels * plain;
    k->pack[WEIGHT_BF16](from, room->raw, n_in, n_out, 0, panels);
    for (size_t p = 0; p < panels; p++)
        k->compress(room->packed + p * kernels_panel_bytes(type, n_in), from + p * plain, n_in);
}

static void hash_linear(const struct kernels *k, struct hashes *h, const struct room *room,
                        enum weight_type type)
{
    uint64_t state = (uint64_t)type + 1, hash = FNV_START;
    for (int round = 0; round < ROUNDS; round++) {
        size_t columns = weight_is_integer(type) ? 256 : 1;
        size_t n_in =
            columns * (1 + hash_below(&state, (round % 2 ? MOST_IN : MOST_IN / 8) / columns + 1));
        size_t n_out = 1 + hash_below(&state, round % 3 ? MOST_OUT : NARROW);
        size_t n = 1 + (round % 4 ? hash_below(&state, round % 4 == 1 ? MOST_TOKENS : 4) : 0);
        n_in = n_in > MOST_IN ? MOST_IN : n_in;
        if (type == WEIGHT_BF16_COMPRESSED) {
            n_in = (n_in + 63) / 8 * 8 > MOST_IN ? MOST_IN : (n_in + 63) / 8 * 8;
            n_out = n_out > NARROW ? n_out : n_out + NARROW;
        }
        size_t panels = panels_of(n_out), p0 = hash_below(&state, panels);
        size_t p1 = p0 + 1 + hash_below(&state, panels - p0), x_stride = n_in * sizeof(float);
        int extreme = round % 8 == 7;
        fill_weights(&state, room->raw, type, n_in * n_out, extreme);
        pack_weights(k, room, type, n_in, n_out);
        for (size_t i = 0; i < n; i++) {
            hash_fill(&state, room->row, n_in, 3);
            for (size_t j = 0; extreme && j < n_in; j++)
                room->row[j] = j / 8 % 3 ? 3.0f : -3.0f;
            if (weight_is_integer(type))
                k->quantize(room->x + i * x_stride, room->row, n_in);
            else
                memcpy(room->x + i * x_stride, room->row, x_stride);
        }
        memset(room->y, 0, n * n_out * sizeof(float));
        k->matmul[type](&(struct matmul){room->y, n_out, room->packed, room->x, x_stride, n, n_in,
                                         n_out, p0, p1, room->work, 0});
        hash = fnv1a(hash, room->y, n * n_out * sizeof(float));
    }
    hash_put(h, types[type].name, hash);
}

typedef void row_fn(const struct kernels *k, float *x, const float *other, size_t n);

static void do_rmsnorm(const struct kernels *k, float *x, const float *other, size_t n)
{
    k->rmsnorm(x, x, other, NULL, n, 1e-5f);
}

static void do_layernorm(const struct kernels *k, float *x, const float *other, size_t n)
{
    k->layernorm(x, x, other, other, n, 1e-5f);
}

static void do_rope(const struct kernels *k, float *x, const float *other, size_t n)
{
    k->rope(x, other, 1, n, n / 2 * 2, ROPE_ADJACENT);
    k->rope(x, other, 1, n, n / 3 * 2, ROPE_HALVES);
}

static void do_softmax(const struct kernels *k, float *x, const float *other, size_t n)
{
    (void)other;
    k->softmax(x, n);
}

/* The elementwise entries. */
static void do_numbers(const struct kernels *k, float *x, const float *other, size_t n)
{
    k->scale(x, 0.37f, n);
    k->add(x, other, n);
    k->mul(x, other, n);
    k->axpby(x, 0.9f, -0.3f, other, n);
    k->softcap(x, 15, n);
    k->clamp(x, 7.5f, n);
}

static void do_act(const struct kernels *k, float *x, const float *other, size_t n)
{
    for (size_t act = 0; act < ACT_N_KINDS; act++) {
        k->act[act](x, n);
        k->add(x, other, n);
    }
    k->xielu(x, &(struct xielu){0.8f, 1.3f, 0.5f, -1e-6f}, n);
}

static void hash_rows(const struct kernels *k, struct hashes *h)
{
    static const struct {
        const char *name;
        row_fn *fn;
    } entries[] = {{"rmsnorm", do_rmsnorm}, {"layernorm", do_layernorm}, {"rope", do_rope},
                   {"softmax", do_softmax}, {"numbers", do_numbers},     {"act", do_act}};
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
        uint64_t state = 1, hash = FNV_START;
        for (int round = 0; round < 100; round++) {
            float x[300], other[300];
            size_t n = 1 + hash_below(&state, 300);
            hash_fill(&state, x, n, 20);
            hash_fill(&state, other, n, 2);
            entries[e].fn(k, x, other, n);
            hash = fnv1a(hash, x, n * sizeof *x);
        }
        hash_put(h, entries[e].name, hash);
    }
}

/* Random keys or values of n tokens. */
static void fill_cache(const struct kernels *k, uint64_t *state, const struct room *room,
                       enum kv_type type, size_t n, size_t d, int is_key)
{
    size_t bytes = kernels_kv_bytes(type, d);
    hash_fill(state, room->row, MOST_IN, 1);
    for (size_t t = 0; type == KV_Q8_0 && t < n; t++)
        kv_q8_put(k, room->packed + t / PANEL * bytes, t % PANEL, is_key, room->row + t * 7, d);
    for (size_t i = 0; type != KV_Q8_0 && i < n * d; i += MOST_IN / 2)
        if (type == KV_F16)
            k->to_f16((uint16_t *)(void *)room->packed + i, room->row, MOST_IN / 2);
        else
            memcpy(room->packed + i * sizeof(float), room->row, MOST_IN / 2 * sizeof(float));
}

/* Scores and mix over keys and values of random floats. */
static void hash_attend(const struct kernels *k, struct hashes *h, const struct room *room,
                        enum kv_type type)
{
    static const char *const names[] = {"attention F32", "attention F16", "attention Q8_0"};
    enum { ROWS = 8, WIDTH = 80, PANELS = 5 };
    uint64_t state = 1, hash = FNV_START;
    float rows[ROWS][WIDTH], *at[ROWS];
    for (int round = 0; round < 40; round++) {
        size_t n = 1 + hash_below(&state, ROWS), d = 1 + hash_below(&state, WIDTH);
        size_t p1 = 1 + hash_below(&state, PANELS), keys = p1 * PANEL;
        for (size_t i = 0; i < ROWS; i++)
            hash_fill(&state, at[i] = rows[i], WIDTH, 1);
        fill_cache(k, &state, room, type, keys, d, 1);
        memset(room->y, 0, n * keys * sizeof(float));
        k->scores[type](&(struct scores){room->y, keys, room->packed, (const float *const *)at, n,
                                         d, 0.125f, hash_below(&state, p1), p1, k, room->work,
                                         round % 2});
        fill_cache(k, &state, room, type, keys, d, 0);
        k->mix[type](&(struct mix){at, room->y, keys, room->packed, d, n,
                                   keys - hash_below(&state, PANEL), d, 0, 0, round % 2});
        hash = fnv1a(fnv1a(hash, room->y, n * keys * sizeof(float)), rows, sizeof rows);
    }
    hash_put(h, names[type], hash);
}

static void hash_to_f16(const struct kernels *k, struct hashes *h)
{
    uint64_t state = 1, hash = FNV_START;
    for (int round = 0; round < 300; round++) {
        float x[37];
        uint16_t halves[37];
        for (size_t i = 0; i < 37; i++) {
            uint32_t bits = (uint32_t)hash_next(&state);
            memcpy(&x[i], &bits, sizeof bits); /* NaN too */
        }
        k->to_f16(halves, x, 37);
        hash = fnv1a(hash, halves, sizeof halves);
    }
    hash_put(h, "to_f16", hash);
}

static void hash_sample(const struct kernels *k, struct hashes *h)
{
    uint64_t state = 1, hash = FNV_START;
    for (int round = 0; round < 100; round++) {
        float x[200];
        uint64_t weights[208];
        size_t n = 1 + hash_below(&state, 200), few = n < SAMPLE_FEW ? n : SAMPLE_FEW;
        hash_fill(&state, x, n, 20);
        double most = (double)k->sample->biggest(x, n);
        double sum = k->sample->sum_exp(x, n, most);
        uint64_t all = k->sample->weigh(weights, x, n, (float)most, 0.7f, 1e-3f);
        uint64_t token = k->sample->few(x, few, 0.7f, 0, (double)hash_below(&state, 1000) / 1000);
        hash = fnv1a(fnv1a(hash, &most, sizeof most), &sum, sizeof sum);
        hash = fnv1a(fnv1a(hash, &all, sizeof all), &token, sizeof token);
        hash = fnv1a(hash, weights, n * sizeof *weights);
    }
    hash_put(h, "sample", hash);
}

static int hash_isa_level(const char *isa, struct hashes *h)
{
    struct kernels k;
    size_t most = (size_t)MOST_IN * MOST_OUT * 5, rows = MOST_IN * MOST_TOKENS * sizeof(float);
    struct room room = {malloc(most),
                        aligned_alloc(64, most),
                        aligned_alloc(64, rows),
                        aligned_alloc(64, kernels_work_bytes(MOST_TOKENS)),
                        malloc(MOST_IN * sizeof(float)),
                        malloc(MOST_OUT * MOST_TOKENS * sizeof(float))};
    int ok = kernels_init(&k, isa) && room.raw && room.packed && room.x && room.work && room.row &&
             room.y;
    h->n = 0;
    for (int type = 0; ok && type < WEIGHT_N_PACKED; type++)
        if (k.matmul[type])
            hash_linear(&k, h, &room, (enum weight_type)type);
    if (ok) {
        hash_rows(&k, h);
        for (int type = 0; type < KV_N_TYPES; type++)
            hash_attend(&k, h, &room, (enum kv_type)type);
        hash_to_f16(&k, h);
        hash_sample(&k, h);
    }
    free(room.raw);
    free(room.packed);
    free(room.x);
    free(room.work);
    free(room.row);
    free(room.y);
    return ok;
}

static int hash_compare(void)
{
    struct hashes base, h;
    int runs, bad = !hash_isa_level("scalar", &base);
    const char *isa;
    for (size_t i = 1; (isa = kernels_isa_level(i, &runs)) != NULL; i++) {
        if (!runs) {
            printf("%s: UNAVAILABLE on this machine\n", isa);
            continue;
        }
        bad |= !hash_isa_level(isa, &h) || h.n != base.n;
        for (size_t e = 0; e < h.n && e < base.n; e++)
            if (h.hash[e] != base.hash[e]) {
                printf("%s, %s: not the bits of the scalar ISA level\n", isa, h.name[e]);
                bad = 1;
            }
        printf("%s: %zu entries compared\n", isa, h.n);
    }
    return bad;
}

int main(int argc, char **argv)
{
    struct hashes h;
    if (argc < 2)
        return hash_compare();
    if (!hash_isa_level(argv[1], &h)) {
        fprintf(stderr, "no ISA level %s here\n", argv[1]);
        return 2;
    }
    for (size_t e = 0; e < h.n; e++)
        printf("%-12s %016llx\n", h.name[e], (unsigned long long)h.hash[e]);
    return 0;
}
