/* Opens a model: bytes, structure, tokenizer, numbers, tensors, in that order. Answers questions
 * about it. An open model is immutable. */
#include "model/model.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "model/fused_model.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256, READ_PIECE = 1 << 13, FIRST_BYTES = 1 << 20 };

/* Copies a string of the file; "" if the key is absent. The model owns the copy. */
static int copy_string(const mgpt_model *m, const char *key, char **text, mgpt_error *err)
{
    struct gguf_str s = {"", 0};
    int found = gguf_string(&m->gguf, key, &s, err);
    if (found < 0)
        return found;
    *text = mem_new(s.n + 1, 1);
    if (!*text)
        return err_memory(err, key, s.n + 1);
    memcpy(*text, s.p, s.n);
    return MGPT_OK;
}

static int copy_strings(mgpt_model *m, mgpt_error *err)
{
    int status = copy_string(m, "general.name", &m->name, err);
    return status < 0 ? status : copy_string(m, "tokenizer.chat_template", &m->chat_template, err);
}

/* Refuses files whose general.type is not a model: adapters, projectors, vocabularies. */
static int check_type(const mgpt_model *m, const char *also, mgpt_error *err)
{
    struct gguf_str s;
    int found = gguf_string(&m->gguf, "general.type", &s, err);
    if (found <= 0)
        return found;
    if ((s.n == 5 && memcmp(s.p, "model", 5) == 0) ||
        (s.n == strlen(also) && memcmp(s.p, also, s.n) == 0))
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, gguf_find(&m->gguf, "general.type")->offset,
                   "general.type is '%.*s', expected 'model'", (int)(s.n < 40 ? s.n : 40), s.p);
}

static int choose_arch(mgpt_model *m, mgpt_error *err)
{
    struct gguf_str s;
    int found = gguf_string(&m->gguf, "general.architecture", &s, err);
    if (found == 0)
        return err_set(err, MGPT_EFILE, 0, "key general.architecture: missing");
    if (found < 0)
        return found;
    m->arch = arch_find(s.p, s.n);
    if (!m->arch)
        return err_set(err, MGPT_EFILE, gguf_find(&m->gguf, "general.architecture")->offset,
                       "architecture '%.*s' is not supported", (int)(s.n < 40 ? s.n : 40), s.p);
    return MGPT_OK;
}

/* The vocabulary may be shorter than the embedding (padding rows), but not longer. */
static int check_vocabulary(const mgpt_model *m, mgpt_error *err)
{
    size_t n_tokens = tok_count(m->tok);
    if (n_tokens > m->shape.n_vocab)
        return err_set(err, MGPT_EFILE, m->token_embd->offset,
                       "the tokenizer has %zu tokens, the embedding %zu rows", n_tokens,
                       m->shape.n_vocab);
    char key[96];
    uint64_t vocab_size = m->shape.n_vocab;
    text_format(key, sizeof key, "%s.vocab_size", m->arch->name);
    if (gguf_uint(&m->gguf, key, UINT64_MAX, &vocab_size, err) < 0)
        return MGPT_EFILE;
    if (vocab_size != m->shape.n_vocab)
        return err_set(err, MGPT_EFILE, gguf_find(&m->gguf, key)->offset,
                       "key %s: %llu, but the embedding has %zu rows", key,
                       (unsigned long long)vocab_size, m->shape.n_vocab);
    return MGPT_OK;
}

/* Reads what does not depend on the architecture: strings, type, tokenizer. */
static int model_open_vocabulary(mgpt_model *m, int vocab_only, mgpt_error *err)
{
    int status = copy_strings(m, err);
    if (status == MGPT_OK)
        status = check_type(m, vocab_only ? "vocab" : "model", err);
    if (status < 0)
        return status;
    m->tok = tok_open(&m->gguf, err);
    return m->tok ? MGPT_OK : err->status;
}

/* Reads the hyper-parameters and binds every tensor; nothing is packed yet. */
static int bind_model(mgpt_model *m, mgpt_error *err)
{
    int status = choose_arch(m, err);
    if (status == MGPT_OK)
        status = model_hyper(m, err);
    if (status == MGPT_OK)
        status = model_bind(m, err);
    return status == MGPT_OK ? check_vocabulary(m, err) : status;
}

static int build_model(mgpt_model *m, const mgpt_model_params *params, mgpt_error *err)
{
    int status = model_open_vocabulary(m, params->vocab_only, err);
    if (status == MGPT_OK && params->vocab_only) {
        m->shape.n_vocab = tok_count(m->tok);
        return MGPT_OK;
    }
    if (status == MGPT_OK)
        status = bind_model(m, err);
    if (status == MGPT_OK)
        status = model_pack(m, params->n_threads, err);
    if (status == MGPT_OK && !params->no_fused)
        status = fused_init(m, err);
    return status;
}

/* Parses the structure of a file. A partly opened file is loaded up to the end of the structure:
 * while the structure exceeds the loaded bytes, loads more and parses again. */
static int parse_structure(mgpt_model *m, const void *data, size_t size, mgpt_error *err)
{
    size_t loaded = m->file.partly ? FIRST_BYTES : size;
    for (;;) {
        int status = gguf_parse(&m->gguf, data, size, err);
        int complete = arr_len(m->gguf.tensors) && m->gguf.tensors[0].offset <= loaded;
        if (loaded == size || status == MGPT_EMEM || complete)
            return status;
        gguf_free(&m->gguf);
        size_t more = size - loaded < 3 * loaded ? size - loaded : 3 * loaded;
        if (file_load(&m->file, loaded, more, err) < 0)
            return MGPT_EIO;
        loaded += more;
    }
}

int model_refuse_isa(const char *isa, mgpt_error *err)
{
    char here[128] = "";
    const char *name;
    int runs;
    for (size_t i = 0, n = 0; (name = kernels_isa_level(i, &runs)); i++)
        if (runs && n + strlen(name) + 2 <= sizeof here) {
            here[n] = ' ';
            memcpy(here + n + 1, name, strlen(name) + 1);
            n += strlen(name) + 1;
        }
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                   "instruction set '%.20s' is unknown or not present on this machine, which has%s",
                   isa, here);
}

/* Opens m, which it owns. Returns m, or frees it and its file and returns NULL. */
static mgpt_model *open_span(mgpt_model *m, const void *data, size_t size,
                             const mgpt_model_params *params, mgpt_error *err)
{
    static const mgpt_model_params defaults;
    mgpt_error local;
    params = params ? params : &defaults;
    int status = MGPT_OK;
    if (!kernels_init(&m->kernels, params->isa))
        status = model_refuse_isa(params->isa, &local);
    if (status == MGPT_OK && (params->n_threads < 0 || params->n_threads > THREADS_MAX))
        status = err_set(&local, MGPT_EARG, MGPT_NO_OFFSET, "%d threads, allowed are 1 to %d",
                         params->n_threads, THREADS_MAX);
    if (status == MGPT_OK)
        status = parse_structure(m, data, size, &local);
    if (status == MGPT_OK)
        status = build_model(m, params, &local);
    if (status == MGPT_OK)
        return m;
    if (err)
        *err = local;
    mgpt_close(m);
    return NULL;
}

static mgpt_model *model_new(mgpt_error *err)
{
    mgpt_model *m = mem_new(1, sizeof *m);
    if (!m)
        err_memory(err, "a model", sizeof *m);
    return m;
}

int model_check(const struct gguf *gguf, mgpt_error *err)
{
    mgpt_error local;
    mgpt_model *m = model_new(&local);
    int status = m ? MGPT_OK : MGPT_EMEM;
    if (m) {
        m->gguf = *gguf;
        kernels_init(&m->kernels, NULL);
        status = model_open_vocabulary(m, 0, &local);
    }
    if (status == MGPT_OK)
        status = bind_model(m, &local);
    if (m)
        m->gguf = (struct gguf){0}; /* the caller owns it */
    mgpt_close(m);
    if (status < 0 && err)
        *err = local;
    return status;
}

mgpt_model *mgpt_open(const char *path, const mgpt_model_params *params, mgpt_error *err)
{
    if (!path) {
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_open: path is NULL");
        return NULL;
    }
    mgpt_model *m = model_new(err);
    if (!m)
        return NULL;
    if (file_open_partly(&m->file, path, FIRST_BYTES, err) < 0) {
        mgpt_close(m);
        return NULL;
    }
    return open_span(m, m->file.data, m->file.size, params, err);
}

mgpt_model *mgpt_open_bytes(const void *data, size_t size, const mgpt_model_params *params,
                            mgpt_error *err)
{
    if (!data) {
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_open_bytes: data is NULL");
        return NULL;
    }
    mgpt_model *m = model_new(err);
    return m ? open_span(m, data, size, params, err) : NULL;
}

void mgpt_close(mgpt_model *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < arr_len(m->owned); i++)
        free(m->owned[i]);
    arr_free(m->owned);
    arr_free(m->plans);
    for (int i = 0; i < N_ROPES; i++)
        free(m->ropes[i].freq);
    free(m->name);
    free(m->chat_template);
    tok_free(m->tok);
    gguf_free(&m->gguf);
    file_close(&m->file);
    free(m);
}

const struct tok *model_tok(const mgpt_model *m)
{
    return m->tok;
}

enum { N_TYPE_IDS = 64 }; /* more than the largest id of a type in dtype.c */

/* The element type of most weights, or NULL without tensors. */
static const struct dtype *main_type(const mgpt_model *m)
{
    uint64_t values[N_TYPE_IDS] = {0}, most = 0;
    const struct dtype *best = NULL;
    for (size_t i = 0; i < arr_len(m->gguf.tensors); i++) {
        const struct gguf_tensor *t = &m->gguf.tensors[i];
        uint64_t *n = &values[t->type->id % N_TYPE_IDS];
        *n += t->n_values;
        if (*n > most) {
            most = *n;
            best = t->type;
        }
    }
    return best;
}

/* `each` is the bytes per element. */
static uint64_t kv_bytes_per_position(const mgpt_model *m, size_t each)
{
    return (uint64_t)m->shape.n_layer * m->shape.n_kv * 2 * each;
}

enum { KV_F16_FROM = 32768 }; /* bytes per position in F32 */

enum kv_type model_kv_type(const mgpt_model *m)
{
    const struct dtype *type = main_type(m);
    int below_f32 = type && type->id != DTYPE_F32;
    return below_f32 && kv_bytes_per_position(m, sizeof(float)) >= KV_F16_FROM ? KV_F16 : KV_F32;
}

static uint64_t count_values(const mgpt_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < arr_len(m->gguf.tensors); i++)
        n += m->gguf.tensors[i].n_values;
    return n;
}

static void numbers_info(const mgpt_model *m, mgpt_info *info)
{
    const struct model_shape *s = &m->shape;
    info->n_ctx = (int32_t)s->n_ctx;
    info->n_embd = (int32_t)s->n_embd;
    info->n_layer = (int32_t)s->n_layer;
    info->n_head = (int32_t)s->n_head;
    info->n_head_kv = (int32_t)s->n_head_kv;
    info->head_dim = (int32_t)s->head_dim;
    info->n_ff = (int32_t)s->n_ff;
    info->norm_eps = m->eps;
    info->rope_base = (float)m->rope_base;
    info->attn_scale = m->attn_scale;
    info->logit_softcap = m->logit_softcap;
    info->gated = s->n_layer > 0 && m->layers[0].gate.w != NULL;
    info->tied = m->tied;
    info->norm = m->arch->norm == NORM_RMS ? "rmsnorm" : "layernorm";
    info->activation = act_name(m->act);
    info->position = "none";
    if (m->position_embd)
        info->position = "learned";
    else if (s->n_rot)
        info->position = "rope";
    info->kv_bytes =
        kv_bytes_per_position(m, model_kv_type(m) == KV_F16 ? sizeof(uint16_t) : sizeof(float));
    uint64_t row = m->token_embd->size / s->n_vocab;
    info->bytes_per_token = m->packed_bytes + row * (m->position_embd ? 2 : 1);
}

int mgpt_get_info(const mgpt_model *m, mgpt_info *info, mgpt_error *err)
{
    if (!m || !info)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_get_info: NULL argument");
    memset(info, 0, sizeof *info);
    info->arch = info->norm = info->activation = info->position = "none";
    info->name = m->name;
    info->chat_template = m->chat_template;
    info->tokenizer = tok_kind(m->tok);
    info->isa = m->kernels.isa;
    info->type = main_type(m) ? main_type(m)->name : "none";
    info->n_vocab = (int32_t)m->shape.n_vocab;
    info->n_tokens = (int32_t)tok_count(m->tok);
    if (info->n_tokens == 0)
        info->n_tokens = info->n_vocab;
    info->bos = tok_bos(m->tok);
    info->eos = tok_eos(m->tok);
    info->add_bos = tok_adds_bos(m->tok);
    info->nfc = tok_wants_nfc(m->tok);
    info->n_params = count_values(m);
    info->file_bytes = m->gguf.size;
    if (m->arch) {
        info->arch = m->arch->name;
        numbers_info(m, info);
    }
    return MGPT_OK;
}

size_t mgpt_n_tensors(const mgpt_model *m)
{
    return m ? arr_len(m->gguf.tensors) : 0;
}

int mgpt_get_tensor(const mgpt_model *m, size_t i, mgpt_tensor *tensor, mgpt_error *err)
{
    if (!m || !tensor || i >= arr_len(m->gguf.tensors))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_get_tensor: no tensor %zu", i);
    const struct gguf_tensor *t = &m->gguf.tensors[i];
    *tensor = (mgpt_tensor){.name = t->name,
                            .type = t->type->name,
                            .n_dims = t->n_dims,
                            .offset = t->offset,
                            .n_bytes = t->size};
    memcpy(tensor->dims, t->dims, sizeof tensor->dims);
    return MGPT_OK;
}

/* Reads blocks [first, first + n) of a tensor, in pieces: the bytes may be only in the file. */
static int read_blocks(const mgpt_model *m, const struct gguf_tensor *t, size_t first, size_t n,
                       float *out, mgpt_error *err)
{
    uint8_t piece[READ_PIECE];
    size_t each = t->type->block_bytes, fits = sizeof piece / each;
    for (size_t done = 0; done < n;) {
        size_t some = n - done < fits ? n - done : fits;
        const uint8_t *bytes = t->data + (first + done) * each;
        if (m->file.partly) {
            int status =
                file_read(&m->file, t->offset + (first + done) * each, some * each, piece, err);
            if (status < 0)
                return status;
            bytes = piece;
        }
        t->type->to_float(bytes, out + done * t->type->block, some * t->type->block);
        done += some;
    }
    return MGPT_OK;
}

int mgpt_read_tensor(const mgpt_model *m, const char *name, uint64_t first, size_t n, float *out,
                     mgpt_error *err)
{
    const struct gguf_tensor *t = m && name ? gguf_tensor(&m->gguf, name) : NULL;
    if (!t || (!out && n))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_read_tensor: no tensor %.60s",
                       name ? name : "NULL");
    size_t block = t->type->block;
    if (first > t->n_values || n > t->n_values - first || first % block || n % block)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "mgpt_read_tensor: %.60s has %llu values in blocks of %zu", t->name,
                       (unsigned long long)t->n_values, block);
    return read_blocks(m, t, (size_t)first / block, n / block, out, err);
}

int64_t mgpt_encode(const mgpt_model *m, const char *text, size_t n_bytes, unsigned flags,
                    int32_t *tokens, size_t cap, mgpt_error *err)
{
    if (!m || (!text && n_bytes) || (!tokens && cap))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_encode: NULL argument");
    return tok_encode(m->tok, text, n_bytes, flags, tokens, cap, err);
}

const char *mgpt_piece(const mgpt_model *m, int32_t token, size_t *n_bytes)
{
    size_t ignored;
    n_bytes = n_bytes ? n_bytes : &ignored;
    *n_bytes = 0;
    return m ? tok_piece(m->tok, token, n_bytes) : "";
}

const char *mgpt_token_text(const mgpt_model *m, int32_t token, size_t *n_bytes)
{
    size_t ignored;
    n_bytes = n_bytes ? n_bytes : &ignored;
    *n_bytes = 0;
    return m ? tok_text(m->tok, token, n_bytes) : "";
}

int mgpt_is_end(const mgpt_model *m, int32_t token)
{
    return m && tok_is_end(m->tok, token);
}
