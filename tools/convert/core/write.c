/* A described checkpoint to a GGUF file. See write.h.
 *
 * Metadata comes in a fixed order: general.*, the architecture's numbers, the dialect, the
 * tokenizer. Values go through a buffer of a few thousand, so memory does not grow with the model;
 * where nothing is to be changed the source's own bytes are written.
 */
#include "convert/core/write.h"
#include "convert/core/write_keys.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "model/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 16384 }; /* values: a whole number of blocks of any element type */

#define FILE_TYPE_KEY "general.file_type"
#define QUANTIZATION_KEY "general.quantization_version"

/* ---- metadata -------------------------------------------------------------------------------- */

static void put_text(struct gguf_writer *w, const char *key, const char *text)
{
    gguf_put_string(w, key, text, strlen(text));
}

static int is_arch(const struct ckpt_hparams *hp, const char *name)
{
    return strcmp(hp->arch, name) == 0;
}

/* A number of model/numbers.h: hp->field, whose default of architecture `a` is `absent`. */
#define PUT_NUMBER(field, absent, kind, name, ...)                                                 \
    PUT_##kind(arch_key(key, hp, name), hp->field, absent);
#define PUT_FACTOR(key, value, absent) put_some_f32(w, key, value)
#define PUT_SCALE(key, value, absent) put_some_f32(w, key, value)
#define PUT_LIMIT(key, value, absent) put_some_f32(w, key, value)
#define PUT_OWN(key, value, absent) put_some_f32(w, key, value)
#define PUT_CAP(key, value, absent)                                                                \
    if ((value) > 0 || (absent) > 0)                                                               \
    gguf_put_f32(w, key, value)

static void write_put_attention(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    char key[128];
    arch_key(key, hp, "attention.head_count");
    if (hp->heads)
        gguf_put_i32s(w, key, hp->heads, hp->n_layer);
    else
        gguf_put_u32(w, key, hp->n_head);
    if (hp->kv_heads)
        gguf_put_i32s(w, arch_key(key, hp, "attention.head_count_kv"), hp->kv_heads, hp->n_layer);
    else
        put_some_u32(w, arch_key(key, hp, "attention.head_count_kv"), hp->n_head_kv);
    put_some_u32(w, arch_key(key, hp, "shortconv.l_cache"), hp->n_conv);
    put_some_u32(w, arch_key(key, hp, "attention.key_length"), hp->head_dim);
    put_some_u32(w, arch_key(key, hp, "attention.value_length"),
                 hp->value_dim ? hp->value_dim : hp->head_dim);
    put_some_u32(w, arch_key(key, hp, "attention.kv_lora_rank"), hp->n_latent);
    put_some_u32(w, arch_key(key, hp, "attention.q_lora_rank"), hp->n_q_latent);
    put_some_u32(w, arch_key(key, hp, "attention.sliding_window"), hp->window);
    const struct arch *a = arch_find(hp->arch, strlen(hp->arch));
    ATTENTION_NUMBERS(PUT_NUMBER)
    gguf_put_f32(w, arch_key(key, hp, a->eps_key), hp->norm_eps);
}

static void put_rope(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    char key[128];
    put_some_u32(w, arch_key(key, hp, "rope.dimension_count"), hp->n_rot);
    put_some_f32(w, arch_key(key, hp, "rope.freq_base"), hp->rope_base);
    put_some_f32(w, arch_key(key, hp, "rope.freq_base_swa"), hp->rope_base_local);
    if (!hp->rope_scaling && (!(hp->rope_factor > 0) || hp->rope_factor == 1))
        return;
    put_text(w, arch_key(key, hp, "rope.scaling.type"),
             hp->rope_scaling ? hp->rope_scaling : "linear");
    put_some_f32(w, arch_key(key, hp, "rope.scaling.factor"), hp->rope_factor);
    put_some_u32(w, arch_key(key, hp, "rope.scaling.original_context_length"), hp->rope_context);
    put_some_f32(w, arch_key(key, hp, "rope.scaling.attn_factor"), hp->rope_attn_factor);
    put_some_f32(w, arch_key(key, hp, "rope.scaling.yarn_log_multiplier"), hp->yarn_log);
    put_some_f32(w, arch_key(key, hp, "rope.scaling.yarn_beta_fast"), hp->rope_beta_fast);
    put_some_f32(w, arch_key(key, hp, "rope.scaling.yarn_beta_slow"), hp->rope_beta_slow);
}

static void put_dialect(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    if (hp->activation)
        put_text(w, "mgpt.activation", hp->activation);
    if (hp->windows)
        gguf_put_i32s(w, "mgpt.attention.windows", hp->windows, hp->n_layer);
    put_some_u32(w, "mgpt.attention.no_rope_every", hp->no_rope_every);
    if (hp->yarn_exact)
        gguf_put_bool(w, "mgpt.rope.yarn_truncate", 0);
    if (hp->no_embedding_norm)
        gguf_put_bool(w, "mgpt.embedding_norm", 0);
    if (hp->no_final_norm)
        gguf_put_bool(w, "mgpt.final_norm", 0);
    if (is_arch(hp, "gpt1") && hp->final_norm) /* gpt1's row of arch.c has none */
        gguf_put_bool(w, "mgpt.final_norm", 1);
    if (!is_arch(hp, "microgpt"))
        return;
    gguf_put_bool(w, "mgpt.embedding_norm", hp->embedding_norm);
    gguf_put_bool(w, "mgpt.final_norm", hp->final_norm);
}

static void write_put_xielu(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    for (size_t i = 0; i < 4 && hp->xielu[i]; i++)
        gguf_put_f32s(w, keys[i], hp->xielu[i], hp->n_layer);
}

static void put_experts(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    char key[128];
    if (!hp->n_expert && is_arch(hp, "deepseek2")) { /* llama.cpp needs them */
        gguf_put_u32(w, arch_key(key, hp, "expert_feed_forward_length"), hp->n_ff);
        gguf_put_u32(w, arch_key(key, hp, "expert_shared_count"), 0);
        gguf_put_u32(w, arch_key(key, hp, "leading_dense_block_count"), hp->n_layer);
    }
    if (!hp->n_expert)
        return;
    gguf_put_u32(w, arch_key(key, hp, "expert_count"), hp->n_expert);
    gguf_put_u32(w, arch_key(key, hp, "expert_used_count"), hp->n_expert_used);
    put_some_u32(w, arch_key(key, hp, "expert_feed_forward_length"), hp->n_ff_expert);
    put_some_u32(w, arch_key(key, hp, "expert_shared_feed_forward_length"), hp->n_ff_shared);
    put_some_u32(w, arch_key(key, hp, "expert_shared_count"), hp->n_shared);
    put_some_u32(w, arch_key(key, hp, "leading_dense_block_count"), hp->n_dense);
    put_some_u32(w, arch_key(key, hp, "interleave_moe_layer_step"), hp->expert_step);
    put_some_u32(w, arch_key(key, hp, "expert_group_count"), hp->expert_groups);
    put_some_u32(w, arch_key(key, hp, "expert_group_used_count"), hp->expert_groups_used);
    put_some_f32(w, arch_key(key, hp, "expert_weights_scale"), hp->expert_scale);
    put_some_u32(w, arch_key(key, hp, "expert_gating_func"), hp->expert_sigmoid);
    if (hp->expert_norm)
        gguf_put_bool(w, arch_key(key, hp, "expert_weights_norm"), hp->expert_norm > 0);
}

static void put_hparams(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    char key[128];
    gguf_put_u32(w, arch_key(key, hp, "context_length"), hp->n_ctx);
    gguf_put_u32(w, arch_key(key, hp, "embedding_length"), hp->n_embd);
    gguf_put_u32(w, arch_key(key, hp, "block_count"), hp->n_layer);
    write_put_layers(w, hp);
    write_put_attention(w, hp);
    put_rope(w, hp);
    write_put_xielu(w, hp);
    const struct arch *a = arch_find(hp->arch, strlen(hp->arch));
    MLP_NUMBERS(PUT_NUMBER)
    STREAM_NUMBERS(PUT_NUMBER)
    put_experts(w, hp);
    if ((is_arch(hp, "gptneox") || is_arch(hp, "stablelm")) && hp->parallel >= 0)
        gguf_put_bool(w, arch_key(key, hp, "use_parallel_residual"), hp->parallel);
    gguf_put_u32(w, arch_key(key, hp, "vocab_size"), hp->n_vocab);
    put_dialect(w, hp);
}

/* ---- the vocabulary: vocab_keys.h ------------------------------------------------------------ */

#define PUT_KEY(kind, type, field, none, key, note) PUT_##kind(key, v->field)
#define PUT_ID(key, v)                                                                             \
    if ((v) >= 0)                                                                                  \
        gguf_put_u32(w, key, (uint32_t)(v));
#define PUT_REAL(key, v)                                                                           \
    if ((v) >= 0)                                                                                  \
        gguf_put_f32(w, key, v);
#define PUT_CHOICE(key, v)                                                                         \
    if ((v) >= 0)                                                                                  \
        gguf_put_bool(w, key, v);
#define PUT_SWITCH(key, v)                                                                         \
    if (v)                                                                                         \
        gguf_put_bool(w, key, 1);
#define PUT_FLAG(key, v) gguf_put_bool(w, key, v);
#define PUT_TEXT(key, v)                                                                           \
    if ((v).n > 0)                                                                                 \
        gguf_put_string(w, key, (v).p, (v).n);
#define PUT_BYTES(key, v)                                                                          \
    if ((v).n > 0)                                                                                 \
        gguf_put_bytes(w, key, (v).p, (v).n);
#define PUT_TEXTS(key, v) gguf_put_strings(w, key, v, arr_len(v));
#define PUT_IDS(key, v)                                                                            \
    if (v)                                                                                         \
        gguf_put_i32s(w, key, v, arr_len(v));
#define PUT_DOUBLES(key, v)                                                                        \
    if (v)                                                                                         \
        gguf_put_f64s(w, key, v, arr_len(v));

/* A table of characters. */
static void put_map(struct gguf_writer *w, const struct ckpt_map *map)
{
    char key[64];
    size_t n = arr_len(map->words);
    uint8_t *bytes = mem_new(n, 4);
    if (!bytes) {
        err_memory(&w->failed, "a table of characters", 4 * n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < 4; b++)
            bytes[4 * i + b] = (uint8_t)(map->words[i] >> (8 * b));
    text_format(key, sizeof key, "mgpt.tokenizer.map.%s", map->name);
    const struct gguf_kv kv = {.key = {key, strlen(key)},
                               .type = GGUF_ARRAY,
                               .element = GGUF_U32,
                               .n = n,
                               .value = bytes,
                               .value_bytes = 4 * n};
    gguf_put_kv(w, &kv);
    free(bytes);
}

static void put_steps(struct gguf_writer *w, const struct ckpt_vocab *v)
{
    VOCAB_STEP_LISTS(PUT_KEY)
    for (size_t i = 0; i < arr_len(v->maps); i++)
        put_map(w, &v->maps[i]);
    VOCAB_STEP_KEYS(PUT_KEY)
}

static void put_vocab(struct gguf_writer *w, const struct ckpt_vocab *v)
{
    size_t n = arr_len(v->tokens);
    put_text(w, "tokenizer.ggml.model", v->model ? v->model : "none"); /* llama.cpp asks for it */
    if (!v->model)
        return;
    if (v->pre)
        put_text(w, "tokenizer.ggml.pre", v->pre);
    gguf_put_strings(w, "tokenizer.ggml.tokens", v->tokens, n);
    if (v->scores)
        gguf_put_f32s(w, "tokenizer.ggml.scores", v->scores, n);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", v->types, n);
    if (v->ranked ||
        strcmp(v->model, "gpt2") == 0) /* llama.cpp asks for the key even when nothing merges */
        gguf_put_strings(w, "tokenizer.ggml.merges", v->merges, arr_len(v->merges));
    VOCAB_KEYS(PUT_KEY)
    if (v->has_steps)
        put_steps(w, v);
}

static int is_key(const struct gguf_str *key, const char *name)
{
    return key->n == strlen(name) && memcmp(key->p, name, key->n) == 0;
}

/* How the blocks of quantised types are laid out: version 2, as ggml has it. */
static void put_quantization(struct gguf_writer *w, const struct ckpt_written *totals)
{
    if (totals->is_quantised)
        gguf_put_u32(w, QUANTIZATION_KEY, 2);
}

/* The entries of another GGUF file, in order; only what the element types change is changed. */
static void put_copy(struct gguf_writer *w, const struct gguf *g, int is_changed,
                     const struct ckpt_written *totals)
{
    int has_type = 0, has_version = 0;
    for (size_t i = 0; i < arr_len(g->kv); i++) {
        const struct gguf_str *key = &g->kv[i].key;
        int is_type = is_key(key, FILE_TYPE_KEY);
        if (key->n > 6 && memcmp(key->p, "split.", 6) == 0)
            continue; /* the parts become one file */
        has_type |= is_type;
        has_version |= is_key(key, QUANTIZATION_KEY);
        if (is_type && is_changed)
            gguf_put_u32(w, FILE_TYPE_KEY, totals->file_type);
        else
            gguf_put_kv(w, &g->kv[i]);
    }
    if (is_changed && !has_type)
        gguf_put_u32(w, FILE_TYPE_KEY, totals->file_type);
    if (is_changed && !has_version)
        put_quantization(w, totals);
}

static void put_metadata(struct gguf_writer *w, const struct checkpoint *c,
                         const struct dtype *type)
{
    struct ckpt_written totals;
    ckpt_measure(c, type, &totals);
    if (c->metadata) {
        put_copy(w, c->metadata, type || c->is_retyped, &totals);
        return;
    }
    put_text(w, "general.architecture", c->hp.arch);
    put_text(w, "general.name", c->name);
    gguf_put_u32(w, FILE_TYPE_KEY, totals.file_type);
    put_quantization(w, &totals);
    put_hparams(w, &c->hp);
    put_vocab(w, &c->vocab);
}

/* ---- values ---------------------------------------------------------------------------------- */

struct stream {
    struct gguf_writer w;
    float *values;          /* CHUNK values of the source */
    uint8_t *encoded;       /* these values in the type that is written */
    float *decoded;         /* `encoded` as floats */
    uint64_t n_bad;         /* values of this tensor that are not finite in the source */
    uint64_t n_lost;        /* values of this tensor that are finite, but not after rounding */
    uint64_t n_done, n_all; /* values of the model */
};

static uint64_t count_bad(const float *v, size_t n)
{
    uint64_t n_bad = 0;
    for (size_t i = 0; i < n; i++)
        n_bad += isfinite(v[i]) ? 0 : 1;
    return n_bad;
}

static void write_chunk(struct stream *s, const struct ckpt_tensor *t, const struct dtype *to,
                        uint64_t first, size_t n)
{
    size_t n_bytes = n / to->block * to->block_bytes;
    if (t->blocks && to == t->type) {
        t->blocks(t, first, n, s->encoded);
        gguf_data(&s->w, s->encoded, n_bytes);
        to->to_float(s->encoded, s->values, n);
        s->n_bad += count_bad(s->values, n);
        return;
    }
    ckpt_values(t, first, n, s->values);
    uint64_t n_bad = count_bad(s->values, n);
    s->n_bad += n_bad;
    if (t->bytes && to == t->type) {
        gguf_data(&s->w, t->bytes + first / to->block * to->block_bytes, n_bytes);
        return;
    }
    ckpt_encode(t, to, first, n, s->values, s->encoded);
    gguf_data(&s->w, s->encoded, n_bytes);
    if (to->id == DTYPE_F32)
        return;
    to->to_float(s->encoded, s->decoded, n);
    uint64_t n_now = count_bad(s->decoded, n);
    s->n_lost += n_now > n_bad ? n_now - n_bad : 0;
}

static void write_tensor(struct stream *s, struct checkpoint *c, const struct ckpt_tensor *t,
                         const struct dtype *to)
{
    s->n_bad = s->n_lost = 0;
    for (uint64_t first = 0; first < t->n_values; first += CHUNK) {
        uint64_t left = t->n_values - first;
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        write_chunk(s, t, to, first, n);
        s->n_done += n;
        if (interrupted()) {
            err_set(&c->failed, MGPT_ESTOP, MGPT_NO_OFFSET, "interrupted");
            return;
        }
        if (c->progress)
            c->progress(c->progress_user, s->n_done, s->n_all);
    }
    if (s->n_bad)
        ckpt_note(c, "warning: tensor %s: %llu of %llu values are NaN or infinite", t->name,
                  (unsigned long long)s->n_bad, (unsigned long long)t->n_values);
    if (s->n_lost)
        ckpt_note(c, "warning: tensor %s: %llu values are too large for %s and became infinite",
                  t->name, (unsigned long long)s->n_lost, to->name);
}

/* path NULL: in memory. */
static int stream_open(struct stream *s, const char *path, mgpt_error *err)
{
    *s = (struct stream){.values = mem_new(CHUNK, sizeof(float)),
                         .encoded = mem_new(CHUNK, sizeof(float)),
                         .decoded = mem_new(CHUNK, sizeof(float))};
    if (!s->values || !s->encoded || !s->decoded)
        return err_memory(err, "buffers", CHUNK * sizeof(float));
    if (path)
        return gguf_create(&s->w, path, err);
    gguf_create_memory(&s->w);
    return MGPT_OK;
}

static void stream_close(struct stream *s)
{
    free(s->values);
    free(s->encoded);
    free(s->decoded);
}

/* Errors come out of gguf_commit; this only saves reading a model that will not be written. */
static int has_failed(const struct gguf_writer *w)
{
    return w->failed.status < 0 || w->out.failed.status < 0;
}

/* A source that broke leaves no file. memory: as for ckpt_write_memory, or NULL. */
static int finish(struct gguf_writer *w, const struct checkpoint *c, struct ckpt_memory *memory,
                  mgpt_error *err)
{
    if (c->failed.status == MGPT_OK)
        return memory ? gguf_commit_memory(w, &memory->bytes, &memory->size, err)
                      : gguf_commit(w, err);
    gguf_discard(w);
    if (err)
        *err = c->failed;
    return c->failed.status;
}

static int write_all(struct checkpoint *c, const char *path, const struct dtype *type,
                     struct ckpt_memory *memory, mgpt_error *err)
{
    struct stream s;
    ckpt_note_types(c, type);
    if (c->lost_notes)
        return err_memory(err, "the notes", arr_len(c->notes) * sizeof *c->notes);
    int status = stream_open(&s, path, err);
    if (status == MGPT_OK) {
        if (path && !c->metadata && arr_len(c->tensors)) { /* else opened before, or next */
            s.w.check = ckpt_check_header;
            s.w.check_user = c;
        }
        put_metadata(&s.w, c, type);
        for (size_t i = 0; i < arr_len(c->tensors); i++) {
            const struct ckpt_tensor *t = &c->tensors[i];
            gguf_put_tensor(&s.w, t->name, ckpt_type_of(t, type), t->n_dims, t->dims);
            s.n_all += t->n_values;
        }
        for (size_t i = 0; i < arr_len(c->tensors) && !has_failed(&s.w) && !c->failed.status; i++)
            write_tensor(&s, c, &c->tensors[i], ckpt_type_of(&c->tensors[i], type));
        status = finish(&s.w, c, memory, err);
    }
    stream_close(&s);
    return status;
}

int ckpt_write(struct checkpoint *c, const char *path, const struct dtype *type, mgpt_error *err)
{
    return write_all(c, path, type, NULL, err);
}

int ckpt_write_memory(struct checkpoint *c, const struct dtype *type, struct ckpt_memory *memory,
                      mgpt_error *err)
{
    return write_all(c, NULL, type, memory, err);
}
