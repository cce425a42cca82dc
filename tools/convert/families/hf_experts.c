/* Hugging Face families whose MLP is a mixture of experts. See hf.h.
 *
 * The matrices of a layer's experts become one tensor of three dimensions. Files have a tensor for
 * each expert, or one for all experts in which gate and up are stacked; both are read for every
 * family. A layer may have a plain MLP instead.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf_llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 256, EXPERTS_MOST = 1024 };

/* ---- rows besides the MLP -------------------------------------------------------------------- */

static const struct state_row mixtral_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(STATE_PAIRS, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), NORM(0)};

static const struct state_row olmoe_rows[] = {EMBD, PRE_NORMS,
                                              ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
                                              QK_NORMS('Q', 'K', 0), NORM(0)};

static const struct state_row qwen2_moe_rows[] = {EMBD, PRE_NORMS, ATTENTION(0, STATE_BIAS, 0),
                                                  NORM(0)};

static const struct state_row qwen3_moe_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), QK_NORMS('H', 'H', 0),
    NORM(0)};

/* ---- config.json ----------------------------------------------------------------------------- */

static int hf_expert_size(struct hf_model *m, const char *key, uint32_t most, uint32_t *to,
                          mgpt_error *err)
{
    if (hf_size(m->cfg.text, key, -1, to, err) < 0)
        return MGPT_EFILE;
    if (*to < 1 || *to > most)
        return ckpt_refuse(err, "config.json: %s is %u, expected 1 to %u", key, *to, most);
    return MGPT_OK;
}

/* Number of experts, of those that a token uses, and their width where `width` names a key. */
static int expert_sizes(struct hf_model *m, const char *width, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const char *key = hf_value(m->cfg.text, "num_experts") ? "num_experts" : "num_local_experts";
    if (hf_expert_size(m, key, EXPERTS_MOST, &hp->n_expert, err) < 0 ||
        hf_expert_size(m, "num_experts_per_tok", hp->n_expert, &hp->n_expert_used, err) < 0)
        return MGPT_EFILE;
    return width ? hf_expert_size(m, width, 1 << 23, &hp->n_ff_expert, err) : MGPT_OK;
}

/* norm_topk_prob; `usual` is what the architecture does without a key. */
static int expert_norm(struct hf_model *m, int usual, mgpt_error *err)
{
    int on;
    if (hf_flag(m->cfg.text, "norm_topk_prob", 0, &on, err) < 0)
        return MGPT_EFILE;
    if (on != usual)
        m->c->hp.expert_norm = on ? 1 : -1;
    return MGPT_OK;
}

static int mixtral(struct hf_model *m, mgpt_error *err)
{
    return expert_sizes(m, NULL, err) < 0 ? MGPT_EFILE : hf_one_window(m, err);
}

static int olmoe(struct hf_model *m, mgpt_error *err)
{
    if (hf_number(m, "clip_qkv", 0, &m->c->hp.qkv_clamp, err) < 0 || expert_sizes(m, NULL, err) < 0)
        return MGPT_EFILE;
    return expert_norm(m, 0, err);
}

/* 1 if the layer has a plain MLP. */
static int is_plain_layer(const struct hf_model *m, uint32_t layer, uint32_t step)
{
    const json_t *plain = hf_value(m->cfg.text, "mlp_only_layers");
    for (size_t i = 0; i < json_array_size(plain); i++)
        if (json_integer_value(json_array_get(plain, i)) == (json_int_t)layer)
            return 1;
    return (layer + 1) % step != 0;
}

static int sparse_step(const struct hf_model *m, uint32_t *step, mgpt_error *err)
{
    const json_t *plain = hf_value(m->cfg.text, "mlp_only_layers");
    if (plain && !json_is(plain, JSON_ARRAY))
        return hf_refuse("mlp_only_layers", "expected a list of layers", err);
    if (hf_size(m->cfg.text, "decoder_sparse_step", 1, step, err) < 0)
        return MGPT_EFILE;
    return *step ? MGPT_OK : hf_refuse("decoder_sparse_step", "expected 1 or more", err);
}

static int qwen_experts(struct hf_model *m, int normed, mgpt_error *err)
{
    uint32_t step;
    if (expert_sizes(m, "moe_intermediate_size", err) < 0 || sparse_step(m, &step, err) < 0)
        return MGPT_EFILE;
    return expert_norm(m, normed, err);
}

/* A window that is used is that of all layers, whatever layer_types states. */
static int qwen3_moe(struct hf_model *m, mgpt_error *err)
{
    int windowed;
    if (qwen_experts(m, 1, err) < 0 ||
        hf_flag(m->cfg.text, "use_sliding_window", 0, &windowed, err) < 0)
        return MGPT_EFILE;
    return windowed ? hf_one_window(m, err) : MGPT_OK;
}

static int qwen2_moe(struct hf_model *m, mgpt_error *err)
{
    int biased, windowed;
    if (hf_flag(m->cfg.text, "qkv_bias", 1, &biased, err) < 0 ||
        hf_flag(m->cfg.text, "use_sliding_window", 0, &windowed, err) < 0)
        return MGPT_EFILE;
    if (!biased)
        return hf_refuse("qkv_bias", "only true is supported", err);
    if (windowed && !hf_value(m->cfg.text, "layer_types"))
        return hf_refuse("use_sliding_window", "only with layer_types", err);
    if (hf_expert_size(m, "shared_expert_intermediate_size", 1 << 23, &m->c->hp.n_ff_shared, err) <
            0 ||
        qwen_experts(m, 0, err) < 0)
        return MGPT_EFILE;
    return hf_used_windows(m, err);
}

static int granitemoe(struct hf_model *m, mgpt_error *err)
{
    return expert_sizes(m, NULL, err) < 0 ? MGPT_EFILE : hf_granite(m, err);
}

static int granitemoeshared(struct hf_model *m, mgpt_error *err)
{
    uint32_t *shared = &m->c->hp.n_ff_shared;
    if (hf_size(m->cfg.text, "shared_intermediate_size", 0, shared, err) < 0)
        return MGPT_EFILE;
    if (*shared > 1 << 23)
        return hf_refuse("shared_intermediate_size", "out of range", err);
    return granitemoe(m, err);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Spellings of a tensor's name after "layers.N.", the first of which is in messages. */
struct spellings {
    const char *names[5];
};

static const struct spellings routers = {{"mlp.gate.weight", "block_sparse_moe.gate.weight",
                                          "block_sparse_moe.router.layer.weight",
                                          "block_sparse_moe.router.weight"}};
static const struct spellings all_gate_up = {{"mlp.experts.gate_up_proj",
                                              "block_sparse_moe.experts.gate_up_proj",
                                              "block_sparse_moe.input_linear.weight"}};
static const struct spellings all_down = {{"mlp.experts.down_proj",
                                           "block_sparse_moe.experts.down_proj",
                                           "block_sparse_moe.output_linear.weight"}};

/* The tensor of a layer, NULL if there is none. `name` gets its name. */
static const struct state_tensor *find_spelling(struct hf_model *m, uint32_t layer,
                                                const struct spellings *s, char name[NAME_ROOM])
{
    for (size_t i = 0; s->names[i]; i++) {
        snprintf(name, NAME_ROOM, "layers.%u.%s", layer, s->names[i]);
        const struct state_tensor *t = state_find(&m->state, name);
        if (t)
            return t;
    }
    snprintf(name, NAME_ROOM, "layers.%u.%s", layer, s->names[0]);
    return NULL;
}

static const char *gguf_name(char name[CKPT_MAX_NAME + 1], uint32_t layer, const char *stem)
{
    snprintf(name, CKPT_MAX_NAME + 1, "blk.%u.%s.weight", layer, stem);
    return name;
}

/* Puts rows [first, first + n_out) of a matrix of n_rows rows. */
static int put_matrix(struct hf_model *m, uint32_t layer, const char *stem,
                      const struct state_tensor *t, const uint64_t shape[3], mgpt_error *err)
{
    char name[CKPT_MAX_NAME + 1];
    const uint64_t first = shape[2], n_out = shape[0], n_in = shape[1];
    const struct state_part part = {.tensor = t, .first = first, .n_rows = n_out};
    return state_put(m->c, gguf_name(name, layer, stem), n_in, &part, 1, 0, err);
}

/* The tensor "layers.N.FROM.weight" as it is. */
static int put_named(struct hf_model *m, uint32_t layer, const char *from, const char *stem,
                     const uint64_t shape[3], mgpt_error *err)
{
    char name[NAME_ROOM];
    snprintf(name, sizeof name, "layers.%u.%s.weight", layer, from);
    const struct state_tensor *t = state_find(&m->state, name);
    if (!t)
        return state_missing(name, err);
    if (state_check_shape(t, shape[0], shape[1], err) < 0)
        return MGPT_EFILE;
    return put_matrix(m, layer, stem, t, shape, err);
}

/* Puts parts that are the same matrix of all experts, and gives the tensor its third dimension. */
static int put_stack(struct hf_model *m, uint32_t layer, const char *stem, uint64_t n_in,
                     const struct state_part *parts, size_t n_parts, mgpt_error *err)
{
    char name[CKPT_MAX_NAME + 1];
    int status = state_put(m->c, gguf_name(name, layer, stem), n_in, parts, n_parts, 0, err);
    if (status < 0)
        return status;
    struct ckpt_tensor *t = &m->c->tensors[arr_len(m->c->tensors) - 1];
    t->n_dims = 3;
    t->dims[2] = m->c->hp.n_expert;
    t->dims[1] /= t->dims[2];
    return MGPT_OK;
}

/* One matrix of an expert: which rows of the tensor of all experts, or which tensor of its own. */
struct expert_matrix {
    const char *stem;
    const struct spellings *all;
    int first, of; /* part `first` of `of` parts of an expert's rows in that tensor */
    const char
        *each[2]; /* the expert's own, after "mlp.experts.E." or "block_sparse_moe.experts.E." */
    int is_down;
};

static const struct expert_matrix expert_matrices[] = {
    {"ffn_gate_exps", &all_gate_up, 0, 2, {"gate_proj.weight", "w1.weight"}, 0},
    {"ffn_up_exps", &all_gate_up, 1, 2, {"up_proj.weight", "w3.weight"}, 0},
    {"ffn_down_exps", &all_down, 0, 1, {"down_proj.weight", "w2.weight"}, 1}};

/* A tensor [n_expert, rows, n_in] as a matrix; 0 if it is not one. */
static int as_matrix(const struct state_tensor *t, const uint64_t shape[3],
                     struct state_tensor *matrix)
{
    if (t->n_dims != 3 || memcmp(t->shape, shape, 3 * sizeof *shape) != 0 ||
        t->strides[0] != t->strides[1] * shape[1])
        return 0;
    *matrix = *t;
    matrix->n_dims = 2;
    matrix->shape[0] = shape[0] * shape[1];
    matrix->shape[1] = shape[2];
    matrix->strides[0] = t->strides[1];
    matrix->strides[1] = t->strides[2];
    return 1;
}

static int put_all_experts(struct hf_model *m, uint32_t layer, const struct expert_matrix *x,
                           const struct state_tensor *t, const uint64_t shape[2], mgpt_error *err)
{
    struct state_tensor matrix;
    uint64_t n = m->c->hp.n_expert, rows = shape[0] * (uint64_t)x->of;
    const uint64_t expected[3] = {n, rows, shape[1]};
    if (!as_matrix(t, expected, &matrix))
        return ckpt_refuse_tensor(err, t->name, "expected a contiguous [%llu, %llu, %llu]",
                                  (unsigned long long)n, (unsigned long long)rows,
                                  (unsigned long long)shape[1]);
    const struct state_part part = {.tensor = &matrix,
                                    .first = (uint64_t)x->first * shape[0],
                                    .n_rows = n * shape[0],
                                    .block = shape[0],
                                    .step = rows};
    return put_stack(m, layer, x->stem, shape[1], &part, 1, err);
}

static const struct state_tensor *own_matrix(struct hf_model *m, uint32_t layer, uint32_t expert,
                                             const struct expert_matrix *x, char name[NAME_ROOM])
{
    const struct state_tensor *t = NULL;
    for (size_t i = 2; !t && i > 0; i--) {
        int n = snprintf(name, NAME_ROOM, "layers.%u.", layer);
        snprintf(name + n, (size_t)(NAME_ROOM - n), "%s.experts.%u.%s",
                 i > 1 ? "block_sparse_moe" : "mlp", expert, x->each[i - 1]);
        t = state_find(&m->state, name);
    }
    return t;
}

/* The parts of a matrix of all experts, each a tensor of its own. */
static int expert_parts(struct hf_model *m, uint32_t layer, const struct expert_matrix *x,
                        const uint64_t shape[2], struct state_part *parts, mgpt_error *err)
{
    for (uint32_t i = 0; i < m->c->hp.n_expert; i++) {
        char name[NAME_ROOM];
        const struct state_tensor *t = own_matrix(m, layer, i, x, name);
        if (!t)
            return state_missing(name, err);
        if (state_check_shape(t, shape[0], shape[1], err) < 0)
            return MGPT_EFILE;
        parts[i] = (struct state_part){.tensor = t, .n_rows = shape[0]};
    }
    return MGPT_OK;
}

static int put_each_expert(struct hf_model *m, uint32_t layer, const struct expert_matrix *x,
                           const uint64_t shape[2], mgpt_error *err)
{
    size_t n = m->c->hp.n_expert;
    struct state_part *parts = mem_new(n, sizeof *parts);
    if (!parts)
        return err_memory(err, "experts", n * sizeof *parts);
    int status = expert_parts(m, layer, x, shape, parts, err);
    if (status == MGPT_OK)
        status = put_stack(m, layer, x->stem, shape[1], parts, n, err);
    free(parts);
    return status;
}

static int put_experts_of(struct hf_model *m, uint32_t layer, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    uint64_t E = hp->n_embd, F = hp->n_ff_expert ? hp->n_ff_expert : hp->n_ff;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < HF_COUNT(expert_matrices); i++) {
        const struct expert_matrix *x = &expert_matrices[i];
        const uint64_t shape[2] = {x->is_down ? E : F, x->is_down ? F : E};
        char name[NAME_ROOM];
        const struct state_tensor *all = find_spelling(m, layer, x->all, name);
        status = all ? put_all_experts(m, layer, x, all, shape, err)
                     : put_each_expert(m, layer, x, shape, err);
    }
    return status;
}

/* Qwen's shared expert with its gate, a matrix of one row. */
static int put_gated_shared(struct hf_model *m, uint32_t layer, mgpt_error *err)
{
    const uint64_t E = m->c->hp.n_embd, F = m->c->hp.n_ff_shared, wide[3] = {F, E, 0},
                   high[3] = {E, F, 0};
    char name[NAME_ROOM], to[CKPT_MAX_NAME + 1];
    int status = put_named(m, layer, "mlp.shared_expert.gate_proj", "ffn_gate_shexp", wide, err);
    if (status == MGPT_OK)
        status = put_named(m, layer, "mlp.shared_expert.up_proj", "ffn_up_shexp", wide, err);
    if (status == MGPT_OK)
        status = put_named(m, layer, "mlp.shared_expert.down_proj", "ffn_down_shexp", high, err);
    if (status < 0)
        return status;
    snprintf(name, sizeof name, "layers.%u.mlp.shared_expert_gate.weight", layer);
    const struct state_tensor *gate = state_find(&m->state, name);
    if (!gate)
        return state_missing(name, err);
    if (state_check_shape(gate, 1, E, err) < 0)
        return MGPT_EFILE;
    struct state_tensor row = *gate;
    row.n_dims = 1;
    row.shape[0] = E;
    row.strides[0] = gate->strides[1];
    const struct state_part part = {.tensor = &row, .n_rows = E};
    return state_put(m->c, gguf_name(to, layer, "ffn_gate_inp_shexp"), 0, &part, 1, 0, err);
}

int hf_put_gate_up(struct hf_model *m, uint32_t layer, uint64_t F, const char *const stems[2],
                   mgpt_error *err)
{
    const uint64_t E = m->c->hp.n_embd;
    char name[NAME_ROOM];
    snprintf(name, sizeof name, "layers.%u.shared_mlp.input_linear.weight", layer);
    const struct state_tensor *t = state_find(&m->state, name);
    if (!t)
        return state_missing(name, err);
    int status = state_check_shape(t, 2 * F, E, err);
    for (uint64_t i = 0; status == MGPT_OK && i < 2; i++)
        status = put_matrix(m, layer, stems[i], t, (const uint64_t[]){F, E, i * F}, err);
    return status;
}

/* Granite's shared expert. */
static int put_stacked_shared(struct hf_model *m, uint32_t layer, mgpt_error *err)
{
    static const char *const stems[] = {"ffn_gate_shexp", "ffn_up_shexp"};
    const uint64_t F = m->c->hp.n_ff_shared, down[3] = {m->c->hp.n_embd, F, 0};
    int status = hf_put_gate_up(m, layer, F, stems, err);
    if (status < 0)
        return status;
    return put_named(m, layer, "shared_mlp.output_linear", "ffn_down_shexp", down, err);
}

static int put_mixture(struct hf_model *m, uint32_t layer, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    const uint64_t shape[3] = {hp->n_expert, hp->n_embd, 0};
    char name[NAME_ROOM];
    const struct state_tensor *router = find_spelling(m, layer, &routers, name);
    if (!router)
        return state_missing(name, err);
    if (state_check_shape(router, shape[0], shape[1], err) < 0)
        return MGPT_EFILE;
    int status = put_matrix(m, layer, "ffn_gate_inp", router, shape, err);
    if (status == MGPT_OK)
        status = put_experts_of(m, layer, err);
    if (status < 0 || !hp->n_ff_shared)
        return status;
    return strcmp(hp->arch, "qwen2moe") == 0 ? put_gated_shared(m, layer, err)
                                             : put_stacked_shared(m, layer, err);
}

static int put_plain(struct hf_model *m, uint32_t layer, mgpt_error *err)
{
    const uint64_t E = m->c->hp.n_embd, F = m->c->hp.n_ff, wide[3] = {F, E, 0}, high[3] = {E, F, 0};
    int status = put_named(m, layer, "mlp.gate_proj", "ffn_gate", wide, err);
    if (status == MGPT_OK)
        status = put_named(m, layer, "mlp.up_proj", "ffn_up", wide, err);
    return status < 0 ? status : put_named(m, layer, "mlp.down_proj", "ffn_down", high, err);
}

static int put_mlps(struct hf_model *m, mgpt_error *err)
{
    uint32_t step;
    int status = sparse_step(m, &step, err);
    for (uint32_t i = 0; status == MGPT_OK && i < m->c->hp.n_layer; i++)
        status = is_plain_layer(m, i, step) ? put_plain(m, i, err) : put_mixture(m, i, err);
    return status;
}

/* ---- the families ---------------------------------------------------------------------------- */

#define MIXTURE COMMON, .experts = 1, .put = put_mlps

const struct hf_family hf_expert_families[] = {
    {"mixtral", "llama", &hf_llama_keys, "silu", MIXTURE, .rope = &hf_rope_1e6,
     HF_ROWS(mixtral_rows), .configure = mixtral},
    {"olmoe", "olmoe", &hf_llama_keys, "silu", MIXTURE, .rope = &hf_rope_10000, HF_ROWS(olmoe_rows),
     .configure = olmoe},
    {"qwen2_moe", "qwen2moe", &hf_llama_keys, "silu", MIXTURE, .rope = &hf_rope_10000,
     HF_ROWS(qwen2_moe_rows), .configure = qwen2_moe, .window = 4096},
    {"qwen3_moe", "qwen3moe", &hf_llama_keys, "silu", MIXTURE, .states_head_dim = 1,
     .rope = &hf_rope_10000, HF_ROWS(qwen3_moe_rows), .configure = qwen3_moe, .window = 4096},
    {"granitemoe", "granitemoe", &hf_llama_keys, "silu", MIXTURE, .rope = &hf_rope_10000,
     HF_ROWS(mixtral_rows), .configure = granitemoe},
    {"granitemoeshared", "granitemoe", &hf_llama_keys, "silu", MIXTURE, .rope = &hf_rope_10000,
     HF_ROWS(mixtral_rows), .configure = granitemoeshared},
};
const size_t hf_n_expert_families = HF_COUNT(hf_expert_families);
