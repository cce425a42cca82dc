/* The KV cache. See kv.h. */
#include "run/kv.h"

#include "base/error.h"
#include "base/mem.h"
#include "dtype/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, SOME = 64 /* elements converted to f16 at a time */ };

/* ---- stores ---- */

static size_t heads_of(const struct kv *kv)
{
    return kv->n_layer * kv->n_head_kv;
}

static struct kv_store *store_new(const struct kv *kv, mgpt_error *err)
{
    size_t n = heads_of(kv), bytes = 4 * n * sizeof(uint8_t *);
    struct kv_store *s = mem_new(1, sizeof *s + bytes);
    if (!s) {
        err_memory(err, "the KV cache", sizeof *s + bytes);
        return NULL;
    }
    atomic_init(&s->n_users, 1);
    s->k = (uint8_t **)(s + 1);
    s->v = s->k + n;
    s->arrays = s->v + n;
    return s;
}

/* One user less; the last one frees it. */
static void store_leave(struct kv_store *s, size_t n_heads)
{
    if (!s || atomic_fetch_sub(&s->n_users, 1) > 1)
        return;
    for (size_t i = 0; i < 2 * n_heads; i++)
        arr_free(s->arrays[i]);
    free(s);
}

/* One more, who reads the first n tokens. */
static struct kv_store *store_join(struct kv_store *s, size_t n)
{
    atomic_fetch_add(&s->n_users, 1);
    size_t before = atomic_load(&s->n_shared);
    while (before < n && !atomic_compare_exchange_weak(&s->n_shared, &before, n))
        continue;
    return s;
}

int kv_init(struct kv *kv, size_t n_layer, size_t n_head_kv, size_t head_dim, enum kv_type type,
            const struct kv_shape *shapes, mgpt_error *err)
{
    size_t panel = kernels_kv_bytes(type, head_dim);
    *kv = (struct kv){n_layer, n_head_kv, head_dim, type, panel, shapes, NULL, 0, NULL, 0};
    kv->own = store_new(kv, err);
    return kv->own ? MGPT_OK : MGPT_EMEM;
}

void kv_free(struct kv *kv)
{
    store_leave(kv->prefix, heads_of(kv));
    store_leave(kv->own, heads_of(kv));
    *kv = (struct kv){0};
}

/* Floats of a row of the layer of head i; 0: it has keys and values. */
static size_t row_floats(const struct kv *kv, size_t i)
{
    return kv->shapes ? kv->shapes[i / kv->n_head_kv].rows : 0;
}

/* The width of the keys, or values, of head i; 0: its layer has not as many heads, or keeps rows. */
static size_t width_of(const struct kv *kv, size_t i, int is_key)
{
    const struct kv_shape *s = kv->shapes ? &kv->shapes[i / kv->n_head_kv] : NULL;
    if (!s)
        return kv->head_dim;
    if (s->rows || i % kv->n_head_kv >= s->n_head)
        return 0;
    return is_key ? s->head_dim : s->value_dim;
}

/* Bytes of the keys, or values, of 16 tokens of head i. */
static size_t panel_of(const struct kv *kv, size_t i, int is_key)
{
    size_t d = width_of(kv, i, is_key);
    return d == kv->head_dim ? kv->panel : kernels_kv_bytes(kv->type, d);
}

/* Bytes of the keys of n tokens of head i: whole panels. */
static size_t key_bytes(const struct kv *kv, size_t i, size_t n)
{
    return panels_of(n) * panel_of(kv, i, 1);
}

static size_t value_bytes(const struct kv *kv, size_t i, size_t n)
{
    size_t panel = panel_of(kv, i, 0);
    if (row_floats(kv, i))
        return i % kv->n_head_kv == 0 ? n * row_floats(kv, i) * sizeof(float) : 0;
    return kv->type == KV_Q8_0 ? panels_of(n) * panel : panel / PANEL * n;
}

/* Bytes of the values of n tokens and of the rest of their last panel: interleaved values fill it. */
static size_t value_room(const struct kv *kv, size_t i, size_t n)
{
    return value_bytes(kv, i, panels_of(n) * PANEL);
}

/* Moves the first `used` bytes from *at to a new array with room for n. From 2 MiB on they begin at a
 * huge page: reading keys from small ones misses the TLB for every 4 KiB of a head. */
static int kv_grow(uint8_t **array, uint8_t **at, size_t used, size_t n)
{
    uintptr_t align = n < MEM_HUGE_PAGE ? ALIGN : MEM_HUGE_PAGE;
    uint8_t *to = NULL;
    if (!arr_reserve(to, n + align))
        return 0;
    uint8_t *first = to + (align - (uintptr_t)to % align) % align;
    mem_hint_huge(first, n);
    if (used)
        memcpy(first, *at, used);
    arr_free(*array);
    *array = to;
    *at = first;
    return 1;
}

static int store_reserve(const struct kv *kv, struct kv_store *s, size_t n, mgpt_error *err)
{
    if (n <= s->cap)
        return MGPT_OK;
    int is_large = panels_of(s->cap) * kv->panel >= MEM_HUGE_PAGE / 2; /* little of a page unused */
    size_t more = s->cap + (is_large ? s->cap / 8 : s->cap), want = n > more ? n : more;
    for (size_t i = 0, heads = heads_of(kv); i < heads; i++) {
        size_t n_k = key_bytes(kv, i, want), n_v = value_room(kv, i, want);
        if (!kv_grow(&s->arrays[i], &s->k[i], key_bytes(kv, i, s->cap), n_k) ||
            !kv_grow(&s->arrays[heads + i], &s->v[i], value_room(kv, i, s->cap), n_v))
            return err_memory(err, "the KV cache", n_k + n_v);
    }
    s->cap = want;
    return MGPT_OK;
}

/* Copies tokens [first, end) to the own store of `to`, which has room; first is a multiple of
 * PANEL. */
static void copy_tokens(struct kv *to, const struct kv *from, size_t first, size_t end)
{
    for (size_t i = 0; i < heads_of(to); i++)
        for (size_t t = first, next; t < end; t = next) {
            struct kv_run run = kv_run_at(from, i / to->n_head_kv, i % to->n_head_kv, t);
            size_t at = t - to->n_prefix, of = t - run.first;
            next = end < run.end ? end : run.end;
            memcpy(to->own->k[i] + key_bytes(to, i, at), run.keys + key_bytes(to, i, of),
                   key_bytes(to, i, next - t));
            memcpy(to->own->v[i] + value_bytes(to, i, at), run.values + value_bytes(to, i, of),
                   value_room(to, i, next - t));
        }
}

/* The tokens from pos on are to be written, which is within the prefix: it becomes shorter. */
static int shorten_prefix(struct kv *kv, size_t pos, mgpt_error *err)
{
    const struct kv before = *kv;
    size_t whole = pos / PANEL * PANEL;
    if (store_reserve(kv, kv->own, pos - whole, err) < 0)
        return MGPT_EMEM;
    kv->n_prefix = whole;
    copy_tokens(kv, &before, whole, pos);
    if (whole == 0) {
        store_leave(kv->prefix, heads_of(kv));
        kv->prefix = NULL;
    }
    return MGPT_OK;
}

/* Zeros the panels that begin with one of tokens [pos, pos + n), where there is room. */
static void clear_panels(struct kv *kv, size_t pos, size_t n)
{
    size_t first = panels_of(pos - kv->n_prefix), end = panels_of(pos + n - kv->n_prefix);
    for (size_t i = 0; first < end && i < heads_of(kv); i++) {
        size_t keys = panel_of(kv, i, 1), values = panel_of(kv, i, 0);
        memset(kv->own->k[i] + first * keys, 0, (end - first) * keys);
        if (kv->type == KV_Q8_0)
            memset(kv->own->v[i] + first * values, 0, (end - first) * values);
    }
}

/* Replaces kv->own, which other sessions read, by a copy of its first pos tokens. */
static int leave_shared(struct kv *kv, size_t pos, size_t n, mgpt_error *err)
{
    const struct kv before = *kv;
    struct kv_store *own = store_new(kv, err);
    if (!own)
        return MGPT_EMEM;
    if (store_reserve(kv, own, n, err) < 0) {
        store_leave(own, heads_of(kv));
        return MGPT_EMEM;
    }
    kv->own = own;
    copy_tokens(kv, &before, 0, pos);
    store_leave(before.own, heads_of(kv));
    return MGPT_OK;
}

int kv_reserve(struct kv *kv, size_t pos, size_t n, mgpt_error *err)
{
    if (pos < kv->n_prefix && shorten_prefix(kv, pos, err) < 0)
        return MGPT_EMEM;
    size_t need = pos + n - kv->n_prefix;
    int leaves = 0;
    if (atomic_load(&kv->own->n_users) == 1)
        atomic_store(&kv->own->n_shared, 0);
    else
        leaves = need > kv->own->cap || pos < atomic_load(&kv->own->n_shared);
    if ((leaves ? leave_shared(kv, pos, need, err) : store_reserve(kv, kv->own, need, err)) < 0)
        return MGPT_EMEM;
    clear_panels(kv, pos, n);
    return MGPT_OK;
}

int kv_fork(struct kv *to, const struct kv *from, size_t n, int shares, mgpt_error *err)
{
    struct kv_store *store = from->prefix ? from->prefix : from->own;
    size_t whole = from->prefix ? from->n_prefix : n / PANEL * PANEL;
    if (shares && whole > 0 && n >= whole) {
        to->prefix = store_join(store, whole);
        to->n_prefix = whole;
    }
    if (store_reserve(to, to->own, n - to->n_prefix, err) < 0)
        return MGPT_EMEM;
    to->interleaved = from->interleaved;
    copy_tokens(to, from, to->n_prefix, n);
    return MGPT_OK;
}

/* Exchanges four floats. */
static void swap_quads(uint8_t *a, uint8_t *b)
{
    uint8_t was[16];
    memcpy(was, a, sizeof was);
    memcpy(a, b, sizeof was);
    memcpy(b, was, sizeof was);
}

void kv_interleave(struct kv *kv, size_t n, int interleaved)
{
    size_t bytes = interleaved == kv->interleaved ? 0 : panels_of(n) * kv->panel;
    for (uint8_t **four = kv->own->k; bytes > 0 && four < kv->own->arrays; four += 4)
        for (size_t line = 0; line < bytes; line += PANEL * sizeof(float))
            for (size_t h = 0; h < 4; h++)
                for (size_t q = 0; q < h; q++)
                    swap_quads(four[h] + line + 16 * q, four[q] + line + 16 * h);
    kv->interleaved = interleaved;
}

/* Writes one token's key, d elements, to its lane of a panel. */
static void put_key(const struct kv *kv, const struct kernels *kernels, void *panel, size_t lane,
                    const float *key, size_t d)
{
    if (kv->type == KV_Q8_0) {
        kv_q8_put(kernels, panel, lane, 1, key, d);
        return;
    }
    if (kv->type == KV_F32) {
        float *to = (float *)panel + lane;
        for (size_t j = 0; j < d; j++)
            to[j * PANEL] = key[j];
        return;
    }
    for (size_t j = 0; j < d; j += SOME) {
        uint16_t halves[SOME], *to = (uint16_t *)panel + j * PANEL + lane;
        size_t n = d - j < SOME ? d - j : SOME;
        kernels->to_f16(halves, key + j, n);
        for (size_t i = 0; i < n; i++)
            to[i * PANEL] = halves[i];
    }
}

/* Writes one token's value to its lane of a panel. */
static void put_value(const struct kv *kv, const struct kernels *kernels, uint8_t *panel,
                      size_t lane, const float *v, size_t d)
{
    uint8_t *to = panel + kernels_kv_bytes(kv->type, d) / PANEL * lane;
    if (kv->type == KV_Q8_0)
        kv_q8_put(kernels, panel, lane, 0, v, d);
    else if (kv->type == KV_F16)
        kernels->to_f16((uint16_t *)(void *)to, v, d);
    else
        memcpy(to, v, d * sizeof *v);
}

/* The panels of token t of a head. */
static struct kv_run panels_at(const struct kv *kv, size_t layer, size_t head, size_t t)
{
    struct kv_run run = kv_run_at(kv, layer, head, t);
    size_t i = layer * kv->n_head_kv + head, n = (t - run.first) / PANEL;
    return (struct kv_run){run.keys + n * panel_of(kv, i, 1), run.values + n * panel_of(kv, i, 0),
                           t, t + 1};
}

void kv_put(struct kv *kv, const struct kernels *kernels, struct kv_part part, const float *k,
            const float *v)
{
    size_t head = part.layer * kv->n_head_kv + part.head;
    size_t n = kv->shapes ? kv->shapes[part.layer].n_head : kv->n_head_kv;
    size_t d = width_of(kv, head, 1), dv = width_of(kv, head, 0);
    for (size_t i = 0; i < part.n; i++) {
        size_t t = part.t + i, from = i * n + part.head;
        struct kv_run to = panels_at(kv, part.layer, part.head, t);
        put_key(kv, kernels, to.keys, t % PANEL, k + from * d, d);
        put_value(kv, kernels, to.values, t % PANEL, v + from * dv, dv);
    }
}

/* Copies the key and the value of a lane from panels to panels, of head i. */
static void copy_lane(const struct kv *kv, struct kv_run to, struct kv_run from, size_t lane,
                      size_t i)
{
    size_t d = width_of(kv, i, 1), panel = kernels_kv_bytes(kv->type, d);
    size_t dv = width_of(kv, i, 0), value = kernels_kv_bytes(kv->type, dv) / PANEL;
    size_t each = d ? panel / PANEL / d : 0;
    if (kv->type == KV_Q8_0) {
        kv_q8_copy(to.keys, from.keys, lane, 1, d);
        kv_q8_copy(to.values, from.values, lane, 0, dv);
        return;
    }
    for (size_t at = lane * each; at < panel; at += PANEL * each)
        if (kv->type == KV_F16)
            memcpy(to.keys + at, from.keys + at, sizeof(uint16_t));
        else
            memcpy(to.keys + at, from.keys + at, sizeof(float));
    memcpy(to.values + lane * value, from.values + lane * value, value);
}

/* Element j of the key or value of token t of a head of all layers, in a store's keys or values. */
static float kv_stored_element(const struct kv *kv, uint8_t *const *heads, size_t head, size_t t,
                               int is_key, size_t j)
{
    size_t d = width_of(kv, head, is_key);
    size_t i = is_key ? (t / PANEL * d + j) * PANEL + t % PANEL : t * d + j;
    size_t quad = i % PANEL / 4;
    if (kv->interleaved) {
        i = i - 4 * quad + 4 * (head % 4);
        head = head - head % 4 + quad;
    }
    const uint8_t *p = heads[head];
    if (kv->type == KV_Q8_0)
        return kv_q8_get(p + t / PANEL * panel_of(kv, head, is_key), t % PANEL, is_key, j, d);
    return kv->type == KV_F16 ? f16_to_f32(((const uint16_t *)(const void *)p)[i])
                              : ((const float *)(const void *)p)[i];
}

void kv_get(const struct kv *kv, struct kv_part part, const uint32_t *order, float *k, float *v)
{
    size_t head = part.layer * kv->n_head_kv + part.head;
    size_t d = width_of(kv, head, 1), dv = width_of(kv, head, 0);
    for (size_t i = 0; i < part.n; i++) {
        int shared = part.t + i < kv->n_prefix;
        const struct kv_store *s = shared ? kv->prefix : kv->own;
        size_t t = part.t + i - (shared ? 0 : kv->n_prefix);
        for (size_t j = 0; k && j < d; j++)
            k[i * d + j] = kv_stored_element(kv, s->k, head, t, 1, order ? order[j] : j);
        for (size_t j = 0; v && j < dv; j++)
            v[i * dv + j] = kv_stored_element(kv, s->v, head, t, 0, j);
    }
}

/* Copies a token of a head that is interleaved in `from`. */
static void copy_interleaved(const struct kv *kv, struct kv_run to, const struct kv *from,
                             struct kv_part part)
{
    float k[NARROW / 4], v[NARROW / 4];
    kv_get(from, part, NULL, k, v);
    put_key(kv, NULL, to.keys, part.t % PANEL, k, kv->head_dim);
    put_value(kv, NULL, to.values, part.t % PANEL, v, kv->head_dim);
}

void kv_copy(struct kv *to, const struct kv *from, size_t n_layers, size_t t, size_t n)
{
    for (size_t i = 0; i < n_layers * to->n_head_kv; i++)
        for (size_t end = t + n, at = t; at < end; at++) {
            size_t layer = i / to->n_head_kv, head = i % to->n_head_kv;
            if (row_floats(to, i))
                memcpy(kv_row(to, layer, at), kv_row(from, layer, at), value_bytes(to, i, 1));
            else if (from->interleaved)
                copy_interleaved(to, panels_at(to, layer, head, at), from,
                                 (struct kv_part){layer, head, at, 1});
            else
                copy_lane(to, panels_at(to, layer, head, at), panels_at(from, layer, head, at),
                          at % PANEL, i);
        }
}

size_t kv_n_blocks(const struct kv *kv)
{
    return 2 * kv->n_layer * kv->n_head_kv;
}

size_t kv_block_bytes(const struct kv *kv, size_t i, size_t n)
{
    return i % 2 == 0 ? key_bytes(kv, i / 2, n) : value_bytes(kv, i / 2, n);
}

struct kv_block kv_block(const struct kv *kv, size_t i, size_t t, size_t n)
{
    struct kv_run run = kv_run_at(kv, i / 2 / kv->n_head_kv, i / 2 % kv->n_head_kv, t);
    size_t end = n < run.end ? n : run.end;
    uint8_t *at = i % 2 == 0 ? run.keys : run.values;
    return (struct kv_block){at, kv_block_bytes(kv, i, end - run.first), end};
}

/* Zeros the lanes of a panel of keys of width d from `first` on. */
static void clear_keys(const struct kv *kv, uint8_t *panel, size_t first, size_t d)
{
    size_t line = kernels_kv_bytes(kv->type, 1), each = line / PANEL;
    for (size_t j = 0; j < d; j++)
        memset(panel + j * line + first * each, 0, (PANEL - first) * each);
}

void kv_clear_lanes(struct kv *kv, size_t n)
{
    for (size_t i = 0; n % PANEL > 0 && i < heads_of(kv); i++) {
        size_t d = width_of(kv, i, 1), at = (n - kv->n_prefix) / PANEL;
        uint8_t *keys = kv->own->k[i] + at * panel_of(kv, i, 1);
        uint8_t *values = kv->own->v[i] + at * panel_of(kv, i, 0);
        if (d == 0)
            continue;
        if (kv->type != KV_Q8_0)
            clear_keys(kv, keys, n % PANEL, d);
        for (size_t lane = n % PANEL; kv->type == KV_Q8_0 && lane < PANEL; lane++) {
            kv_q8_clear(keys, lane, 1, d);
            kv_q8_clear(values, lane, 0, width_of(kv, i, 0));
        }
    }
}
