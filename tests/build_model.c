/* Tests: tiny random models. See build_model.h. */
#include "build_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KV_U32 = 4, KV_I32 = 5, KV_F32 = 6, KV_BOOL = 7, KV_STRING = 8, KV_ARRAY = 9 };

/* ---- memory and numbers ------------------------------------------------------------------------
 */

void *toy_alloc(size_t n, size_t each)
{
    void *p = calloc(n ? n : 1, each);
    assert_non_null(p);
    return p;
}

static void *grow(void *p, size_t n, size_t each)
{
    void *grown = realloc(p, n * each);
    assert_non_null(grown);
    return grown;
}

uint64_t toy_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Four uniform numbers, variance 1: near enough to a normal distribution, and no libm, so that the
 * models are the same everywhere. */
static double random_normal(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(toy_random(state) >> 11) * 0x1p-53;
    return (sum - 2) * 1.7320508075688772;
}

/* The nearest value that the type can hold. Subnormal halves are flushed: encode_value stays short. */
static float round_to(enum toy_type type, double v)
{
    int e, digits = type == TOY_F16 ? 11 : 8;
    if (type == TOY_F32)
        return (float)v;
    double m = frexp(v, &e);
    if (fabs(v) < 0x1p-14)
        return 0;
    return (float)ldexp(rint(ldexp(m, digits)), e - digits);
}

void toy_tokens(const struct toy *m, uint64_t seed, int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(toy_random(&seed) % (uint64_t)m->spec.n_vocab);
}

/* ---- metadata ----------------------------------------------------------------------------------
 */

struct bytes {
    uint8_t *p;
    size_t n;
};

static void put_bytes(struct bytes *b, const void *p, size_t n)
{
    b->p = grow(b->p, b->n + n + 1, 1);
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void put_uint(struct bytes *b, uint64_t v, unsigned n_bytes)
{
    for (unsigned i = 0; i < n_bytes; i++) {
        uint8_t byte = (uint8_t)(v >> (8 * i));
        put_bytes(b, &byte, 1);
    }
}

static void put_text(struct bytes *b, const char *p, size_t n)
{
    put_uint(b, n, 8);
    put_bytes(b, p, n);
}

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Takes over the bytes of value. */
static void put_kv(struct toy *m, const char *key, uint32_t type, struct bytes value)
{
    toy_drop_key(m, key);
    m->kv = grow(m->kv, m->n_kv + 1, sizeof *m->kv);
    struct toy_kv *kv = &m->kv[m->n_kv++];
    *kv = (struct toy_kv){.type = type, .bytes = value.p, .n = value.n};
    snprintf(kv->key, sizeof kv->key, "%s", key);
}

void toy_put_u32(struct toy *m, const char *key, uint32_t v)
{
    struct bytes b = {0};
    put_uint(&b, v, 4);
    put_kv(m, key, KV_U32, b);
}

void toy_put_f32(struct toy *m, const char *key, float v)
{
    struct bytes b = {0};
    put_uint(&b, float_bits(v), 4);
    put_kv(m, key, KV_F32, b);
}

void toy_put_bool(struct toy *m, const char *key, int v)
{
    struct bytes b = {0};
    put_uint(&b, (uint64_t)(v != 0), 1);
    put_kv(m, key, KV_BOOL, b);
}

void toy_put_string(struct toy *m, const char *key, const char *v)
{
    struct bytes b = {0};
    put_text(&b, v, strlen(v));
    put_kv(m, key, KV_STRING, b);
}

void toy_drop_key(struct toy *m, const char *key)
{
    for (size_t i = 0; i < m->n_kv; i++) {
        if (strcmp(m->kv[i].key, key) == 0) {
            free(m->kv[i].bytes);
            memmove(m->kv + i, m->kv + i + 1, (--m->n_kv - i) * sizeof *m->kv);
            return;
        }
    }
}

/* ---- a character vocabulary --------------------------------------------------------------------
 */

static size_t put_utf8(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
}

/* GPT-2's printable stand-in of a byte. */
static uint32_t byte_letter(uint8_t byte)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < 256; b++) {
        int own = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return own ? b : 256 + n;
        n += !own;
    }
    return 0;
}

/* The i-th character in order of code point: newline, printable ASCII, then two-byte characters. */
static uint32_t character(int i)
{
    if (i == 0)
        return '\n';
    return (uint32_t)(i <= 95 ? 31 + i : 0xA1 - 96 + i);
}

static void put_vocabulary(struct toy *m)
{
    struct bytes texts = {0}, types = {0}, merges = {0};
    int n_vocab = m->spec.n_vocab;
    uint64_t n_merges = 0;
    for (int i = 0; i < n_vocab - 1; i++) {
        char utf8[4], letters[16];
        size_t n_utf8 = put_utf8(character(i), utf8), n = 0, split = 0;
        for (size_t j = 0; j < n_utf8; j++) {
            split = n;
            n += put_utf8(byte_letter((uint8_t)utf8[j]), letters + n);
        }
        put_text(&texts, letters, n);
        if (n_utf8 == 2) {
            char merge[16];
            int length = snprintf(merge, sizeof merge, "%.*s %.*s", (int)split, letters,
                                  (int)(n - split), letters + split);
            put_text(&merges, merge, (size_t)length);
            n_merges++;
        }
    }
    put_text(&texts, "<BOS>", 5);
    for (int i = 0; i < n_vocab; i++)
        put_uint(&types, i == n_vocab - 1 ? 3 : 1, 4);
    toy_put_string(m, "tokenizer.ggml.model", "gpt2");
    toy_put_string(m, "tokenizer.ggml.pre", "gpt-2");
    struct {
        const char *key;
        uint32_t type;
        uint64_t n;
        struct bytes *items;
    } arrays[] = {{"tokenizer.ggml.tokens", KV_STRING, (uint64_t)n_vocab, &texts},
                  {"tokenizer.ggml.token_type", KV_I32, (uint64_t)n_vocab, &types},
                  {"tokenizer.ggml.merges", KV_STRING, n_merges, &merges}};
    for (size_t i = 0; i < 3; i++) {
        struct bytes value = {0};
        put_uint(&value, arrays[i].type, 4);
        put_uint(&value, arrays[i].n, 8);
        put_bytes(&value, arrays[i].items->p, arrays[i].items->n);
        put_kv(m, arrays[i].key, KV_ARRAY, value);
        free(arrays[i].items->p);
    }
    toy_put_u32(m, "tokenizer.ggml.bos_token_id", (uint32_t)n_vocab - 1);
    toy_put_u32(m, "tokenizer.ggml.eos_token_id", (uint32_t)n_vocab - 1);
    toy_put_bool(m, "tokenizer.ggml.add_bos_token", 1);
    toy_put_bool(m, "tokenizer.ggml.add_eos_token", 0);
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

struct toy_tensor *toy_find(const struct toy *m, const char *name)
{
    for (size_t i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return &m->tensors[i];
    return NULL;
}

struct toy_tensor *toy_add(struct toy *m, const char *name, enum toy_type type, int n_in, int n_out,
                           double mean, double scale)
{
    m->tensors = grow(m->tensors, m->n_tensors + 1, sizeof *m->tensors);
    struct toy_tensor *t = &m->tensors[m->n_tensors++];
    uint64_t rows = n_out ? (uint64_t)n_out : 1;
    *t = (struct toy_tensor){
        .type = type, .n_dims = n_out ? 2 : 1, .dims = {(uint64_t)n_in, rows, 1, 1}};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n = (size_t)(t->dims[0] * t->dims[1]);
    t->values = toy_alloc(t->n, sizeof *t->values);
    for (size_t i = 0; i < t->n; i++)
        t->values[i] = round_to(type, mean + scale * random_normal(&m->rng));
    return t;
}

void toy_drop_tensor(struct toy *m, const char *name)
{
    struct toy_tensor *t = toy_find(m, name);
    assert_non_null(t);
    free(t->values);
    size_t after = m->n_tensors - 1 - (size_t)(t - m->tensors);
    memmove(t, t + 1, after * sizeof *t);
    m->n_tensors--;
}

/* A matrix y = Wx whose output has `gain` times the size of its input, and its bias. */
static void add_linear(struct toy *m, int layer, const char *role, int n_in, int n_out, double gain)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, role);
    toy_add(m, name, m->spec.type, n_in, n_out, 0, gain / sqrt(n_in));
    if (!m->spec.biases)
        return;
    snprintf(name, sizeof name, "blk.%d.%s.bias", layer, role);
    toy_add(m, name, TOY_F32, n_out, 0, 0, 0.2);
}

/* Gain and, for LayerNorm with biases, bias. microgpt has neither. */
static void add_norm(struct toy *m, const char *stem)
{
    char name[80];
    if (strcmp(m->spec.arch, "microgpt") == 0)
        return;
    snprintf(name, sizeof name, "%s.weight", stem);
    toy_add(m, name, TOY_F32, m->spec.n_embd, 0, 1, 0.2);
    if (strcmp(m->spec.arch, "gpt2") != 0 || !m->spec.biases)
        return;
    snprintf(name, sizeof name, "%s.bias", stem);
    toy_add(m, name, TOY_F32, m->spec.n_embd, 0, 0, 0.2);
}

/* Queries and keys of size 1.4 give scores of size 2: attention with preferences. */
static void add_layer(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    int E = s->n_embd, q_width = s->n_head * s->head_dim, kv_width = s->n_head_kv * s->head_dim;
    char stem[40];
    snprintf(stem, sizeof stem, "blk.%d.attn_norm", layer);
    add_norm(m, stem);
    if (strcmp(s->arch, "gpt2") == 0) {
        add_linear(m, layer, "attn_qkv", E, 3 * E, 1.4);
    } else {
        add_linear(m, layer, "attn_q", E, q_width, 1.4);
        add_linear(m, layer, "attn_k", E, kv_width, 1.4);
        add_linear(m, layer, "attn_v", E, kv_width, 1);
    }
    add_linear(m, layer, "attn_output", q_width, E, 1);
    snprintf(stem, sizeof stem, "blk.%d.ffn_norm", layer);
    add_norm(m, stem);
    if (strcmp(s->arch, "llama") == 0)
        add_linear(m, layer, "ffn_gate", E, s->n_ff, 1.4);
    add_linear(m, layer, "ffn_up", E, s->n_ff, 1);
    add_linear(m, layer, "ffn_down", s->n_ff, E, 1);
}

static void add_tensors(struct toy *m)
{
    const struct toy_spec *s = &m->spec;
    toy_add(m, "token_embd.weight", s->type, s->n_embd, s->n_vocab, 0, 1);
    if (strcmp(s->arch, "llama") != 0)
        toy_add(m, "position_embd.weight", TOY_F32, s->n_embd, s->n_ctx, 0, 0.5);
    for (int layer = 0; layer < s->n_layer; layer++)
        add_layer(m, layer);
    if (s->final_norm != TOY_NO)
        add_norm(m, "output_norm");
    if (!s->tied)
        toy_add(m, "output.weight", s->type, s->n_embd, s->n_vocab, 0, 1.5 / sqrt(s->n_embd));
}

/* ---- building ----------------------------------------------------------------------------------
 */

static void put_arch_u32(struct toy *m, const char *key, int v)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", m->spec.arch, key);
    toy_put_u32(m, name, (uint32_t)v);
}

static void put_numbers(struct toy *m)
{
    const struct toy_spec *s = &m->spec;
    char name[80];
    put_arch_u32(m, "block_count", s->n_layer);
    put_arch_u32(m, "context_length", s->n_ctx);
    put_arch_u32(m, "embedding_length", s->n_embd);
    put_arch_u32(m, "feed_forward_length", s->n_ff);
    put_arch_u32(m, "attention.head_count", s->n_head);
    put_arch_u32(m, "vocab_size", s->n_vocab);
    int layer_norm = strcmp(s->arch, "gpt2") == 0;
    snprintf(name, sizeof name, "%s.attention.%s", s->arch,
             layer_norm ? "layer_norm_epsilon" : "layer_norm_rms_epsilon");
    toy_put_f32(m, name, (float)s->eps);
    if (strcmp(s->arch, "llama") != 0)
        return;
    put_arch_u32(m, "attention.head_count_kv", s->n_head_kv);
    if (s->head_dim * s->n_head != s->n_embd) {
        put_arch_u32(m, "attention.key_length", s->head_dim);
        put_arch_u32(m, "attention.value_length", s->head_dim);
    }
    put_arch_u32(m, "rope.dimension_count", s->rope_dims);
    toy_put_f32(m, "llama.rope.freq_base", (float)s->rope_base);
}

static void fill_defaults(struct toy_spec *s)
{
    if (!s->n_head_kv)
        s->n_head_kv = s->n_head;
    if (!s->head_dim)
        s->head_dim = s->n_embd / s->n_head;
    if (!s->rope_dims)
        s->rope_dims = s->head_dim;
    if (s->rope_base == 0)
        s->rope_base = 10000;
    if (s->eps == 0)
        s->eps = 1e-5;
    if (!s->label)
        s->label = s->arch;
}

struct toy *toy_build(const struct toy_spec *spec)
{
    struct toy *m = toy_alloc(1, sizeof *m);
    m->spec = *spec;
    m->rng = spec->seed;
    fill_defaults(&m->spec);
    toy_put_string(m, "general.architecture", spec->arch);
    toy_put_string(m, "general.name", "toy");
    if (spec->alignment)
        toy_put_u32(m, "general.alignment", spec->alignment);
    put_numbers(m);
    if (spec->activation)
        toy_put_string(m, "mgpt.activation", spec->activation);
    if (spec->embedding_norm != TOY_DEFAULT)
        toy_put_bool(m, "mgpt.embedding_norm", spec->embedding_norm == TOY_YES);
    if (spec->final_norm != TOY_DEFAULT)
        toy_put_bool(m, "mgpt.final_norm", spec->final_norm == TOY_YES);
    if (spec->characters)
        put_vocabulary(m);
    add_tensors(m);
    return m;
}

void toy_free(struct toy *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_kv; i++)
        free(m->kv[i].bytes);
    for (size_t i = 0; i < m->n_tensors; i++)
        free(m->tensors[i].values);
    free(m->kv);
    free(m->tensors);
    free(m->file);
    free(m);
}
