/* A described checkpoint to a GGUF file. See write.h.
 *
 * Metadata comes in a fixed order: general.*, the architecture's numbers, the dialect, the tokenizer.
 * Values go through a buffer of a few thousand, so memory does not grow with the model; where nothing
 * is to be changed the source's own bytes are written.
 */
#include "write.h"

#include "ck.h"
#include "error.h"
#include "mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 16384 }; /* values: a whole number of blocks of any element type */

#define FILE_TYPE_KEY "general.file_type"
#define N_TOTALS 64 /* element type ids that are counted */

/* ---- element types ----------------------------------------------------------------------------- */

const struct dtype *ckpt_type_of(const struct ckpt_tensor *t, const struct dtype *type)
{
    if (!type)
        return t->type;
    int small = t->n_values == t->dims[0] || strcmp(t->name, "position_embd.weight") == 0;
    return small ? dtype_find(DTYPE_F32) : type;
}

void ckpt_measure(const struct checkpoint *c, const struct dtype *type, struct ckpt_written *w)
{
    uint64_t totals[N_TOTALS] = {0}, most = 0;
    *w = (struct ckpt_written){.type = type ? type->name : "F32"};
    for (size_t i = 0; i < arr_len(c->tensors); i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        const struct dtype *to = ckpt_type_of(t, type);
        uint64_t *total = &totals[to->id % N_TOTALS];
        *total += t->n_values;
        if (*total > most) {
            most = *total;
            w->type = to->name;
        }
        w->n_values += t->n_values;
        w->n_bytes += t->n_values / to->block * to->block_bytes;
    }
}

/* general.file_type of files whose weights are mostly of this type. */
static uint32_t file_type(const struct dtype *type)
{
    switch (type->id) {
    case DTYPE_F16:
        return 1;
    case DTYPE_BF16:
        return 32;
    default:
        return 0;
    }
}

/* ---- metadata ---------------------------------------------------------------------------------- */

static void put_text(struct gguf_writer *w, const char *key, const char *text)
{
    gguf_put_string(w, key, text, strlen(text));
}

static const char *arch_key(char buf[128], const struct ckpt_hparams *hp, const char *name)
{
    snprintf(buf, 128, "%s.%s", hp->arch, name);
    return buf;
}

static void put_hparams(struct gguf_writer *w, const struct ckpt_hparams *hp)
{
    char key[128];
    gguf_put_u32(w, arch_key(key, hp, "context_length"), hp->n_ctx);
    gguf_put_u32(w, arch_key(key, hp, "embedding_length"), hp->n_embd);
    gguf_put_u32(w, arch_key(key, hp, "block_count"), hp->n_layer);
    gguf_put_u32(w, arch_key(key, hp, "feed_forward_length"), hp->n_ff);
    gguf_put_u32(w, arch_key(key, hp, "attention.head_count"), hp->n_head);
    if (hp->n_head_kv)
        gguf_put_u32(w, arch_key(key, hp, "attention.head_count_kv"), hp->n_head_kv);
    gguf_put_f32(w, arch_key(key, hp, "attention.layer_norm_rms_epsilon"), hp->norm_eps);
    if (hp->n_rot)
        gguf_put_u32(w, arch_key(key, hp, "rope.dimension_count"), hp->n_rot);
    if (hp->rope_base > 0)
        gguf_put_f32(w, arch_key(key, hp, "rope.freq_base"), hp->rope_base);
    gguf_put_u32(w, arch_key(key, hp, "vocab_size"), hp->n_vocab);
    if (!hp->activation)
        return;
    put_text(w, "mgpt.activation", hp->activation);
    gguf_put_bool(w, "mgpt.embedding_norm", hp->embedding_norm);
    gguf_put_bool(w, "mgpt.final_norm", hp->final_norm);
}

static void put_id(struct gguf_writer *w, const char *key, int32_t id)
{
    if (id >= 0)
        gguf_put_u32(w, key, (uint32_t)id);
}

static void put_choice(struct gguf_writer *w, const char *key, int choice)
{
    if (choice >= 0)
        gguf_put_bool(w, key, choice);
}

static void put_vocab(struct gguf_writer *w, const struct ckpt_vocab *v)
{
    size_t n = arr_len(v->tokens);
    if (!v->model)
        return;
    put_text(w, "tokenizer.ggml.model", v->model);
    if (v->pre)
        put_text(w, "tokenizer.ggml.pre", v->pre);
    gguf_put_strings(w, "tokenizer.ggml.tokens", v->tokens, n);
    if (v->scores)
        gguf_put_f32s(w, "tokenizer.ggml.scores", v->scores, n);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", v->types, n);
    if (strcmp(v->model, "gpt2") == 0) /* llama.cpp asks for the key even when nothing merges */
        gguf_put_strings(w, "tokenizer.ggml.merges", v->merges, arr_len(v->merges));
    put_id(w, "tokenizer.ggml.bos_token_id", v->bos);
    put_id(w, "tokenizer.ggml.eos_token_id", v->eos);
    put_id(w, "tokenizer.ggml.unknown_token_id", v->unknown);
    put_choice(w, "tokenizer.ggml.add_bos_token", v->add_bos);
    put_choice(w, "tokenizer.ggml.add_eos_token", v->add_eos);
    put_choice(w, "tokenizer.ggml.add_space_prefix", v->add_space_prefix);
}

/* The entries of another GGUF file, in order; only what the element types change is changed. */
static void put_copy(struct gguf_writer *w, const struct gguf *g, const struct dtype *type)
{
    int has_type = 0;
    for (size_t i = 0; i < arr_len(g->kv); i++) {
        const struct gguf_str *key = &g->kv[i].key;
        int is_type = key->n == strlen(FILE_TYPE_KEY) && memcmp(key->p, FILE_TYPE_KEY, key->n) == 0;
        has_type |= is_type;
        if (is_type && type)
            gguf_put_u32(w, FILE_TYPE_KEY, file_type(type));
        else
            gguf_put_kv(w, &g->kv[i]);
    }
    if (type && !has_type)
        gguf_put_u32(w, FILE_TYPE_KEY, file_type(type));
}

static void put_metadata(struct gguf_writer *w, const struct checkpoint *c,
                         const struct dtype *type)
{
    if (c->metadata) {
        put_copy(w, c->metadata, type);
        return;
    }
    struct ckpt_written totals;
    ckpt_measure(c, type, &totals);
    put_text(w, "general.architecture", c->hp.arch);
    put_text(w, "general.name", c->name);
    gguf_put_u32(w, FILE_TYPE_KEY, file_type(dtype_named(totals.type)));
    put_hparams(w, &c->hp);
    put_vocab(w, &c->vocab);
}

/* ---- values ------------------------------------------------------------------------------------ */

struct stream {
    struct gguf_writer w;
    float *values;          /* CHUNK of them, */
    uint8_t *encoded;       /* encoded, */
    float *decoded;         /* and read back */
    uint64_t n_bad, n_lost; /* of this tensor: not finite in the source; only after rounding */
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
    ckpt_values(t, first, n, s->values);
    uint64_t n_bad = count_bad(s->values, n);
    s->n_bad += n_bad;
    if (t->bytes && to == t->type) {
        gguf_data(&s->w, t->bytes + first / to->block * to->block_bytes, n_bytes);
        return;
    }
    to->from_float(s->values, s->encoded, n);
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
        write_chunk(s, t, to, first, left < CHUNK ? (size_t)left : CHUNK);
    }
    if (s->n_bad)
        ckpt_note(c, "warning: tensor %s: %llu of %llu values are NaN or infinite", t->name,
                  (unsigned long long)s->n_bad, (unsigned long long)t->n_values);
    if (s->n_lost)
        ckpt_note(c, "warning: tensor %s: %llu values are too large for %s and became infinite",
                  t->name, (unsigned long long)s->n_lost, to->name);
}

static int stream_open(struct stream *s, const char *path, mgpt_error *err)
{
    *s = (struct stream){.values = mem_new(CHUNK, sizeof(float)),
                         .encoded = mem_new(CHUNK, sizeof(float)),
                         .decoded = mem_new(CHUNK, sizeof(float))};
    if (!s->values || !s->encoded || !s->decoded)
        return err_memory(err, "buffers", CHUNK * sizeof(float));
    return gguf_create(&s->w, path, err);
}

static void stream_close(struct stream *s)
{
    free(s->values);
    free(s->encoded);
    free(s->decoded);
}

/* Errors come out of gguf_commit; this only saves reading a model that nobody will get. */
static int has_failed(const struct gguf_writer *w)
{
    return w->failed.status < 0 || w->out.failed.status < 0;
}

int ckpt_write(struct checkpoint *c, const char *path, const struct dtype *type, mgpt_error *err)
{
    struct stream s;
    int status = stream_open(&s, path, err);
    if (status == MGPT_OK) {
        put_metadata(&s.w, c, type);
        for (size_t i = 0; i < arr_len(c->tensors); i++) {
            const struct ckpt_tensor *t = &c->tensors[i];
            gguf_put_tensor(&s.w, t->name, ckpt_type_of(t, type), t->n_dims, t->dims);
        }
        for (size_t i = 0; i < arr_len(c->tensors) && !has_failed(&s.w); i++)
            write_tensor(&s, c, &c->tensors[i], ckpt_type_of(&c->tensors[i], type));
        status = gguf_commit(&s.w, err);
    }
    stream_close(&s);
    return status;
}
