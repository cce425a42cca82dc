/* Tests: tiny random models. See build_model.h. */
#include "support/build_model.h"

#include "support/byte_buffer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KV_U32 = 4, KV_I32 = 5, KV_F32 = 6, KV_BOOL = 7, KV_STRING = 8, KV_ARRAY = 9 };

/* ---- memory and numbers ---- */

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

void toy_tokens(const struct toy *m, uint64_t seed, int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(toy_random(&seed) % (uint64_t)m->spec.n_vocab);
}

/* ---- metadata ---- */

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Takes over the bytes of value. */
static void put_kv(struct toy *m, const char *key, uint32_t type, struct byte_buffer value)
{
    toy_drop_key(m, key);
    m->kv = grow(m->kv, m->n_kv + 1, sizeof *m->kv);
    struct toy_kv *kv = &m->kv[m->n_kv++];
    *kv = (struct toy_kv){.type = type, .bytes = value.p, .n = value.n};
    snprintf(kv->key, sizeof kv->key, "%s", key);
}

void toy_put_u32(struct toy *m, const char *key, uint32_t v)
{
    struct byte_buffer b = {0};
    buffer_uint(&b, v, 4);
    put_kv(m, key, KV_U32, b);
}

void toy_put_f32(struct toy *m, const char *key, float v)
{
    struct byte_buffer b = {0};
    buffer_uint(&b, float_bits(v), 4);
    put_kv(m, key, KV_F32, b);
}

void toy_put_bool(struct toy *m, const char *key, int v)
{
    struct byte_buffer b = {0};
    buffer_uint(&b, (uint64_t)(v != 0), 1);
    put_kv(m, key, KV_BOOL, b);
}

void toy_put_string(struct toy *m, const char *key, const char *v)
{
    struct byte_buffer b = {0};
    buffer_text(&b, v, strlen(v));
    put_kv(m, key, KV_STRING, b);
}

void toy_put_array(struct toy *m, const char *key, uint32_t element, uint64_t n, const void *data,
                   size_t n_bytes)
{
    struct byte_buffer b = {0};
    buffer_uint(&b, element, 4);
    buffer_uint(&b, n, 8);
    buffer_put(&b, data, n_bytes);
    put_kv(m, key, KV_ARRAY, b);
}

void toy_put_windows(struct toy *m, const int32_t *windows, size_t n)
{
    struct byte_buffer b = {0};
    for (size_t i = 0; i < n; i++)
        buffer_uint(&b, (uint32_t)windows[i], 4);
    toy_put_array(m, "mgpt.attention.windows", KV_I32, n, b.p, b.n);
    free(b.p);
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

/* ---- a character vocabulary ---- */

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
    struct byte_buffer texts = {0}, types = {0}, merges = {0};
    int n_vocab = m->spec.n_vocab;
    uint64_t n_merges = 0;
    for (int i = 0; i < n_vocab - 1; i++) {
        char utf8[4], letters[16];
        size_t n_utf8 = put_utf8(character(i), utf8), n = 0, split = 0;
        for (size_t j = 0; j < n_utf8; j++) {
            split = n;
            n += put_utf8(byte_letter((uint8_t)utf8[j]), letters + n);
        }
        buffer_text(&texts, letters, n);
        if (n_utf8 == 2) {
            char merge[16];
            int length = snprintf(merge, sizeof merge, "%.*s %.*s", (int)split, letters,
                                  (int)(n - split), letters + split);
            buffer_text(&merges, merge, (size_t)length);
            n_merges++;
        }
    }
    buffer_text(&texts, "<BOS>", 5);
    for (int i = 0; i < n_vocab; i++)
        buffer_uint(&types, i == n_vocab - 1 ? 3 : 1, 4);
    toy_put_string(m, "tokenizer.ggml.model", "gpt2");
    toy_put_string(m, "tokenizer.ggml.pre", "gpt-2");
    struct {
        const char *key;
        uint32_t type;
        uint64_t n;
        struct byte_buffer *items;
    } arrays[] = {{"tokenizer.ggml.tokens", KV_STRING, (uint64_t)n_vocab, &texts},
                  {"tokenizer.ggml.token_type", KV_I32, (uint64_t)n_vocab, &types},
                  {"tokenizer.ggml.merges", KV_STRING, n_merges, &merges}};
    for (size_t i = 0; i < 3; i++) {
        toy_put_array(m, arrays[i].key, arrays[i].type, arrays[i].n, arrays[i].items->p,
                      arrays[i].items->n);
        free(arrays[i].items->p);
    }
    toy_put_u32(m, "tokenizer.ggml.bos_token_id", (uint32_t)n_vocab - 1);
    toy_put_u32(m, "tokenizer.ggml.eos_token_id", (uint32_t)n_vocab - 1);
    toy_put_bool(m, "tokenizer.ggml.add_bos_token", 1);
    toy_put_bool(m, "tokenizer.ggml.add_eos_token", 0);
}

/* ---- building ---- */

void toy_put_arch_u32(struct toy *m, const char *key, int v)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", m->spec.arch, key);
    toy_put_u32(m, name, (uint32_t)v);
}

static void put_arch_f32(struct toy *m, const char *key, double v)
{
    char name[80];
    snprintf(name, sizeof name, "%s.%s", m->spec.arch, key);
    toy_put_f32(m, name, (float)v);
}

static void build_put_numbers(struct toy *m)
{
    const struct toy_spec *s = &m->spec;
    toy_put_arch_u32(m, "block_count", s->n_layer);
    toy_put_arch_u32(m, "context_length", s->n_ctx);
    toy_put_arch_u32(m, "embedding_length", s->n_embd);
    toy_put_arch_u32(m, "feed_forward_length", s->n_ff);
    toy_put_arch_u32(m, "attention.head_count", s->n_head);
    toy_put_arch_u32(m, "vocab_size", s->n_vocab);
    put_arch_f32(m,
                 s->row->layer_norm && !s->row->rms_key ? "attention.layer_norm_epsilon"
                                                        : "attention.layer_norm_rms_epsilon",
                 s->eps);
    int rotates = s->row->place > PLACE_ALIBI;
    if (s->kinds)
        toy_put_kinds(m);
    else if (rotates || s->n_head_kv != s->n_head)
        toy_put_arch_u32(m, "attention.head_count_kv", s->latent_apart ? 1 : s->n_head_kv);
    if (!rotates)
        return;
    if (s->n_latent) {
        int kept = s->n_latent + s->rope_dims;
        toy_put_arch_u32(m, "attention.kv_lora_rank", s->n_latent);
        if (s->n_q_latent)
            toy_put_arch_u32(m, "attention.q_lora_rank", s->n_q_latent);
        toy_put_arch_u32(m, "attention.key_length", s->latent_apart ? kept : s->head_dim);
        toy_put_arch_u32(m, "attention.value_length", s->latent_apart ? s->n_latent : s->value_dim);
        if (s->latent_apart) {
            toy_put_arch_u32(m, "attention.key_length_mla", s->head_dim);
            toy_put_arch_u32(m, "attention.value_length_mla", s->value_dim);
        }
    } else if (s->head_dim * s->n_head != s->n_embd || s->value_dim != s->head_dim) {
        toy_put_arch_u32(m, "attention.key_length", s->head_dim);
        toy_put_arch_u32(m, "attention.value_length", s->value_dim);
    }
    toy_put_arch_u32(m, "rope.dimension_count", s->rope_dims);
    put_arch_f32(m, "rope.freq_base", s->rope_base);
}

/* A bool for each layer: whether its letter is this one. NULL: no key. */
static void put_flags(struct toy *m, const char *key, const char *letters, char yes)
{
    size_t n = (size_t)m->spec.n_layer;
    char name[80];
    uint8_t flags[32];
    if (!letters)
        return;
    assert_true(strlen(letters) == n && n <= sizeof flags);
    for (size_t i = 0; i < n; i++)
        flags[i] = letters[i] == yes;
    snprintf(name, sizeof name, "%s.%s", m->spec.arch, key);
    toy_put_array(m, name, KV_BOOL, n, flags, n);
}

static void put_windows(struct toy *m)
{
    const struct toy_spec *s = &m->spec;
    if (s->window)
        toy_put_arch_u32(m, "attention.sliding_window", s->window);
    if (s->full_every)
        toy_put_arch_u32(m, "attention.sliding_window_pattern", s->full_every);
    if (s->no_rope_every)
        toy_put_u32(m, "mgpt.attention.no_rope_every", (uint32_t)s->no_rope_every);
    if (s->windows)
        toy_put_windows(m, s->windows, (size_t)s->n_layer);
    put_flags(m, "attention.sliding_window_pattern", s->pattern, 'w');
    put_flags(m, "attention.rope_pattern", s->roped, 'r');
}

/* The keys of xIELU: alpha_p and alpha_n for each layer, beta and eps for all. */
static void put_xielu_keys(struct toy *m)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n"};
    size_t n = (size_t)m->spec.n_layer;
    float alphas[32];
    assert_true(n <= 32);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < n; i++)
            alphas[i] = toy_xielu_alpha((int)i, k);
        toy_put_array(m, keys[k], KV_F32, n, alphas, n * sizeof *alphas);
    }
    toy_put_f32(m, "xielu.beta", TOY_XIELU_BETA);
    toy_put_f32(m, "xielu.eps", TOY_XIELU_EPS);
}

#define NUMBER_OF_SPEC(field, absent, kind, key, ...) {key, s->field},

/* Writes the keys that most models do not have. */
static void put_rarities(struct toy *m)
{
    const struct toy_spec *s = &m->spec;
    char name[80];
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"rope.freq_base_swa", s->window_base},
                   {"rope.scaling.factor", s->rope_factor},
                   {"rope.scaling.attn_factor", s->rope_attn},
                   {"rope.scaling.yarn_log_multiplier", s->yarn_less},
                   MODEL_NUMBERS(NUMBER_OF_SPEC){"expert_weights_scale", s->expert_scale}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value != 0)
            put_arch_f32(m, numbers[i].key, numbers[i].value);
    snprintf(name, sizeof name, "%s.rope.scaling.type", s->arch);
    if (s->rope_factor != 0)
        toy_put_string(m, name, s->yarn ? "yarn" : "linear");
    if (s->longrope)
        toy_put_string(m, name, "longrope");
    if (s->yarn_exact)
        toy_put_bool(m, "mgpt.rope.yarn_truncate", 0);
    if (s->yarn || s->longrope)
        toy_put_arch_u32(m, "rope.scaling.original_context_length", s->yarn + s->longrope);
    if (s->n_expert) {
        toy_put_arch_u32(m, "expert_count", s->n_expert);
        toy_put_arch_u32(m, "expert_used_count", s->n_expert_used);
    }
    if (s->n_expert && s->n_ff_expert != s->n_ff)
        toy_put_arch_u32(m, "expert_feed_forward_length", s->n_ff_expert);
    if (s->n_ff_shared)
        toy_put_arch_u32(m, "expert_shared_feed_forward_length", s->n_ff_shared);
    if (s->expert_sigmoid)
        toy_put_arch_u32(m, "expert_gating_func", 2);
    if (s->n_group) {
        toy_put_arch_u32(m, "expert_group_count", s->n_group);
        toy_put_arch_u32(m, "expert_group_used_count", s->n_group_used);
    }
    snprintf(name, sizeof name, "%s.expert_weights_norm", s->arch);
    if (s->expert_norm != TOY_DEFAULT)
        toy_put_bool(m, name, s->expert_norm == TOY_YES);
    snprintf(name, sizeof name, "%s.use_parallel_residual", s->arch);
    if (s->parallel != TOY_DEFAULT)
        toy_put_bool(m, name, s->parallel == TOY_YES);
    if (s->activation)
        toy_put_string(m, "mgpt.activation", s->activation);
    else if (strcmp(s->row->activation, "xielu") == 0)
        put_xielu_keys(m);
    if (s->embedding_norm != TOY_DEFAULT)
        toy_put_bool(m, "mgpt.embedding_norm", s->embedding_norm == TOY_YES);
    if (s->final_norm != TOY_DEFAULT)
        toy_put_bool(m, "mgpt.final_norm", s->final_norm == TOY_YES);
}

static void fill_defaults(struct toy_spec *s)
{
    if (!s->n_head_kv)
        s->n_head_kv = s->n_head;
    if (!s->head_dim)
        s->head_dim = s->n_embd / s->n_head;
    if (!s->value_dim)
        s->value_dim = s->head_dim;
    if (!s->rope_dims)
        s->rope_dims = s->head_dim;
    if (!s->n_ff_expert)
        s->n_ff_expert = s->n_ff;
    if (s->rope_base == 0)
        s->rope_base = 10000;
    if (s->eps == 0)
        s->eps = 1e-5;
    s->row = toy_arch(s->arch);
    assert_non_null(s->row);
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
    build_put_numbers(m);
    toy_put_layer_shapes(m);
    put_windows(m);
    put_rarities(m);
    if (spec->characters)
        put_vocabulary(m);
    toy_add_tensors(m);
    return m;
}

void toy_free(struct toy *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_kv; i++)
        free(m->kv[i].bytes);
    for (size_t i = 0; i < m->n_tensors; i++) {
        free(m->tensors[i].values);
        free(m->tensors[i].blocks);
    }
    free(m->kv);
    free(m->tensors);
    free(m->windows);
    free(m->file);
    free(m);
}
