/* Answers questions about an open model. */
#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"

#include <string.h>

enum { READ_PIECE = 1 << 13 }; /* bytes */

const char *mgpt_version(void)
{
    return MGPT_VERSION;
}

const char *mgpt_isa(size_t i, int *runs_here)
{
    int ignored;
    return kernels_isa_level(i, runs_here ? runs_here : &ignored);
}

/* The element type of most weights, or NULL without tensors. */
static const struct dtype *main_type(const mgpt_model *m)
{
    uint64_t values[DTYPE_N_IDS] = {0}, most = 0;
    const struct dtype *best = NULL;
    for (size_t i = 0; i < arr_len(m->gguf.tensors); i++) {
        const struct gguf_tensor *t = &m->gguf.tensors[i];
        uint64_t *n = &values[t->type->id % DTYPE_N_IDS];
        *n += t->n_values;
        if (*n > most) {
            most = *n;
            best = t->type;
        }
    }
    return best;
}

/* `each` is the bytes per element of keys and values. */
static uint64_t kv_bytes_per_position(const mgpt_model *m, size_t each)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->shape.n_layer; i++) {
        const struct model_shape *l = m->layers[i].shape;
        n += model_keeps_rows(m, i)      ? m->kept[i].rows * sizeof(float)
             : m->layers[i].kv_from == i ? l->n_kept * (l->kept_dim + l->kept_value) * each
                                         : 0;
    }
    return n;
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
    info->arch = m->arch->name;
#define INFO_SIZE(name) info->name = (int32_t)s->name
    INFO_SIZE(n_ctx), INFO_SIZE(n_embd), INFO_SIZE(n_layer), INFO_SIZE(n_further);
    INFO_SIZE(n_head), INFO_SIZE(n_head_kv), INFO_SIZE(head_dim), INFO_SIZE(value_dim);
    INFO_SIZE(n_latent), INFO_SIZE(n_ff), INFO_SIZE(n_expert), INFO_SIZE(n_expert_used);
    INFO_SIZE(n_ff_expert);
    info->norm_eps = m->eps;
    info->rope_base = (float)m->rope_base;
#define NUMBER_OF_(field)
#define NUMBER_OF_INFO(field) info->field = m->field;
#define NUMBER_TO_INFO(field, absent, kind, key, least, most, knows, info) NUMBER_OF_##info(field)
    MODEL_NUMBERS(NUMBER_TO_INFO)
    info->gated = s->n_layer > 0 && (m->layers[0].gate.w != NULL || m->layers[0].experts);
    info->tied = m->tied;
    info->ln_embd = (int32_t)m->embd_norm.kind;
    info->ln_final = (int32_t)m->final_norm.kind;
    info->norm = m->arch->norm == NORM_RMS ? "rmsnorm" : "layernorm";
    info->activation = act_name(m->act);
    info->position = "none";
    if (m->position_embd)
        info->position = "learned";
    else if (m->alibi > 0)
        info->position = "alibi";
    else if (s->n_rot)
        info->position = "rope";
    info->kv_bytes =
        kv_bytes_per_position(m, model_kv_type(m) == KV_F16 ? sizeof(uint16_t) : sizeof(float));
    uint64_t row = m->token_embd->size / s->n_vocab;
    uint64_t inputs = m->input_embd ? m->input_embd->size / s->n_vocab : 0;
    info->bytes_per_token = m->token_bytes + row * (m->position_embd ? 2 : 1) + inputs;
}

int mgpt_get_info(const mgpt_model *m, mgpt_info *info, mgpt_error *err)
{
    if (!m || !info)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_get_info: NULL argument");
    memset(info, 0, sizeof *info);
    info->arch = info->norm = info->activation = info->position = "none";
    info->name = m->name;
    info->chat_template = m->chat_template;
    info->ignored = tok_ignored(m->tok);
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
    info->steps = tok_has_steps(m->tok);
    info->n_params = count_values(m);
    info->file_bytes = m->gguf.size;
    for (size_t i = 0; i < m->file.n_parts; i++)
        info->file_bytes = (i ? info->file_bytes : 0) + m->file.parts[i].size;
    if (m->arch)
        numbers_info(m, info);
    return MGPT_OK;
}

size_t mgpt_n_tensors(const mgpt_model *m)
{
    return m ? arr_len(m->gguf.tensors) : 0;
}

void model_describe_tensor(const struct gguf_tensor *t, mgpt_tensor *tensor)
{
    *tensor = (mgpt_tensor){.name = t->name,
                            .type = t->type->name,
                            .n_dims = t->n_dims,
                            .offset = t->offset,
                            .n_bytes = t->size};
    memcpy(tensor->dims, t->dims, sizeof tensor->dims);
}

int mgpt_get_tensor(const mgpt_model *m, size_t i, mgpt_tensor *tensor, mgpt_error *err)
{
    if (!m || !tensor || i >= arr_len(m->gguf.tensors))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_get_tensor: no tensor %zu", i);
    model_describe_tensor(&m->gguf.tensors[i], tensor);
    return MGPT_OK;
}

int mgpt_find_tensor(const mgpt_model *m, const char *name, mgpt_tensor *tensor, mgpt_error *err)
{
    const struct gguf_tensor *t = m && name ? gguf_tensor(&m->gguf, name) : NULL;
    if (!t || !tensor)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_find_tensor: no tensor %.60s",
                       name ? name : "NULL");
    model_describe_tensor(t, tensor);
    return MGPT_OK;
}

int mgpt_get_layer(const mgpt_model *m, size_t i, mgpt_layer *layer, mgpt_error *err)
{
    if (!m || !layer || !m->layers || i >= m->shape.n_layer)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_get_layer: no layer %zu", i);
    const struct layer *l = &m->layers[i];
    *layer = (mgpt_layer){.window = (int32_t)l->window,
                          .n_rot = l->rope ? (int32_t)l->rope->n_rot : 0,
                          .n_conv = l->conv ? (int32_t)m->shape.n_conv : 0,
                          .ln1 = (int32_t)l->attn_norm.kind,
                          .q_norm = (int32_t)l->q_norm.kind,
                          .k_norm = (int32_t)l->k_norm.kind,
                          .ln1_post = (int32_t)l->post_attn_norm.kind,
                          .ln_mid = (int32_t)l->mid_norm.kind,
                          .ln2 = (int32_t)l->ffn_norm.kind,
                          .ln2_post = (int32_t)l->post_ffn_norm.kind,
                          .ln_post = (int32_t)l->end_norm.kind,
                          .n_head = (int32_t)l->shape->n_head,
                          .n_head_kv = (int32_t)l->shape->n_head_kv,
                          .head_dim = (int32_t)l->shape->head_dim,
                          .value_dim = (int32_t)l->shape->value_dim,
                          .n_ff = (int32_t)l->shape->n_ff,
                          .kv_from = (int32_t)l->kv_from};
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
