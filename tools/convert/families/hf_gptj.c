/* Hugging Face families of 2021 to 2023 around GPT-2: OPT, BioGPT, XGLM, GPT-J, CodeGen,
 * GPTBigCode (StarCoder), BLOOM, MPT, Falcon. See hf.h.
 *
 * OPT is a GPT-2 with ReLU, q, k, v apart, and positions whose first two rows are never used. BioGPT
 * and XGLM multiply embeddings by the root of their width; XGLM computes its positions. GPT-J
 * and CodeGen rotate adjacent components and have parallel branches with one norm. GPTBigCode is a
 * GPT-2 with plain matrices and one KV head, or one per head. BLOOM and MPT have ALiBi instead of
 * position embeddings.
 */
#include "base/error.h"
#include "convert/families/hf.h"

#include <math.h>

/* clang-format off */
#define OPT_ROWS(final)                                                                            \
    {"embed_tokens", "token_embd", 'V', 'E', HF_WHOLE_ROWS},                                       \
    {"layers.N.self_attn_layer_norm", "blk.N.attn_norm", 0, 'E', STATE_BIAS | HF_USUAL},           \
    {"layers.N.self_attn_layer_norm", "blk.N.attn_output_norm", 0, 'E', STATE_BIAS | HF_VARIANT},  \
    {"layers.N.self_attn.q_proj", "blk.N.attn_q", 'Q', 'E', HF_ENABLE_BIAS},                       \
    {"layers.N.self_attn.k_proj", "blk.N.attn_k", 'K', 'E', HF_ENABLE_BIAS},                       \
    {"layers.N.self_attn.v_proj", "blk.N.attn_v", 'K', 'E', HF_ENABLE_BIAS},                       \
    {"layers.N.self_attn.out_proj", "blk.N.attn_output", 'E', 'Q', HF_ENABLE_BIAS},                \
    {"layers.N.final_layer_norm", "blk.N.ffn_norm", 0, 'E', STATE_BIAS | HF_USUAL},                \
    {"layers.N.final_layer_norm", "blk.N.layer_output_norm", 0, 'E', STATE_BIAS | HF_VARIANT},     \
    {"layers.N.fc1", "blk.N.ffn_up", 'F', 'E', HF_ENABLE_BIAS},                                    \
    {"layers.N.fc2", "blk.N.ffn_down", 'E', 'F', HF_ENABLE_BIAS},                                  \
    {final, "output_norm", 0, 'E', STATE_BIAS | HF_USUAL}
/* clang-format on */

static const struct state_row opt_rows[] = {OPT_ROWS("final_layer_norm")};
static const struct state_row biogpt_rows[] = {OPT_ROWS("layer_norm")};

/* clang-format off */
#define GPTJ_BLOCK                                                                                 \
    {"h.N.ln_1", "blk.N.attn_norm", 0, 'E', STATE_BIAS},                                           \
    {"h.N.attn.out_proj", "blk.N.attn_output", 'E', 'Q', 0},                                       \
    {"h.N.mlp.fc_in", "blk.N.ffn_up", 'F', 'E', STATE_BIAS},                                       \
    {"h.N.mlp.fc_out", "blk.N.ffn_down", 'E', 'F', STATE_BIAS},                                    \
    {"ln_f", "output_norm", 0, 'E', STATE_BIAS},                                                   \
    {"lm_head.bias", "output.bias", 0, 'V', STATE_BARE}
/* clang-format on */

static const struct state_row gptj_rows[] = {{"wte", "token_embd", 'V', 'E', 0},
                                             {"h.N.attn.q_proj", "blk.N.attn_q", 'Q', 'E', 0},
                                             {"h.N.attn.k_proj", "blk.N.attn_k", 'K', 'E', 0},
                                             {"h.N.attn.v_proj", "blk.N.attn_v", 'K', 'E', 0},
                                             GPTJ_BLOCK};

static const struct state_row codegen_rows[] = {{"wte", "token_embd", 'V', 'E', 0}, GPTJ_BLOCK};

#define BIGCODE_QKV(which)                                                                         \
    {                                                                                              \
        "h.N.attn.c_attn", "blk.N.attn_qkv", 'P', 'E',                                             \
            STATE_GROUPED | STATE_BIAS | HF_VARIANT | (which)                                      \
    }

static const struct state_row bigcode_rows[] = {
    {"wte", "token_embd", 'V', 'E', 0},
    {"wpe", "position_embd", 'T', 'E', 0},
    {"h.N.ln_1", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    {"h.N.attn.c_attn", "blk.N.attn_qkv", 'P', 'E', STATE_BIAS | HF_USUAL},
    BIGCODE_QKV(STATE_Q),
    BIGCODE_QKV(STATE_K),
    BIGCODE_QKV(STATE_V),
    {"h.N.attn.c_proj", "blk.N.attn_output", 'E', 'Q', STATE_BIAS},
    {"h.N.ln_2", "blk.N.ffn_norm", 0, 'E', STATE_BIAS},
    {"h.N.mlp.c_fc", "blk.N.ffn_up", 'F', 'E', STATE_BIAS},
    {"h.N.mlp.c_proj", "blk.N.ffn_down", 'E', 'F', STATE_BIAS},
    {"ln_f", "output_norm", 0, 'E', STATE_BIAS},
};

#define BLOOM_QKV(which)                                                                           \
    {                                                                                              \
        "h.N.self_attention.query_key_value", "blk.N.attn_qkv", 'P', 'E',                          \
            STATE_GROUPED | STATE_BIAS | (which)                                                   \
    }

static const struct state_row bloom_rows[] = {
    {"word_embeddings", "token_embd", 'V', 'E', 0},
    {"word_embeddings_layernorm", "token_embd_norm", 0, 'E', STATE_BIAS},
    {"h.N.input_layernorm", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    BLOOM_QKV(STATE_Q),
    BLOOM_QKV(STATE_K),
    BLOOM_QKV(STATE_V),
    {"h.N.self_attention.dense", "blk.N.attn_output", 'E', 'Q', STATE_BIAS},
    {"h.N.post_attention_layernorm", "blk.N.ffn_norm", 0, 'E', STATE_BIAS},
    {"h.N.mlp.dense_h_to_4h", "blk.N.ffn_up", 'F', 'E', STATE_BIAS},
    {"h.N.mlp.dense_4h_to_h", "blk.N.ffn_down", 'E', 'F', STATE_BIAS},
    {"ln_f", "output_norm", 0, 'E', STATE_BIAS},
};

static const struct state_row mpt_rows[] = {
    {"wte", "token_embd", 'V', 'E', 0},
    {"blocks.N.norm_1", "blk.N.attn_norm", 0, 'E', 0},
    {"blocks.N.attn.Wqkv", "blk.N.attn_qkv", 'P', 'E', 0},
    {"blocks.N.attn.out_proj", "blk.N.attn_output", 'E', 'Q', 0},
    {"blocks.N.norm_2", "blk.N.ffn_norm", 0, 'E', 0},
    {"blocks.N.ffn.up_proj", "blk.N.ffn_up", 'F', 'E', 0},
    {"blocks.N.ffn.down_proj", "blk.N.ffn_down", 'E', 'F', 0},
    {"norm_f", "output_norm", 0, 'E', 0},
};

#define FALCON_QKV(which)                                                                          \
    {                                                                                              \
        "h.N.self_attention.query_key_value", "blk.N.attn_qkv", 'P', 'E',                          \
            STATE_GROUPED | HF_BIAS | (which)                                                      \
    }

static const struct state_row falcon_rows[] = {
    {"word_embeddings", "token_embd", 'V', 'E', 0},
    {"h.N.ln_mlp", "blk.N.attn_norm", 0, 'E', STATE_BIAS | HF_USUAL},
    {"h.N.ln_attn", "blk.N.attn_norm_2", 0, 'E', STATE_BIAS | HF_USUAL},
    {"h.N.input_layernorm", "blk.N.attn_norm", 0, 'E', STATE_BIAS | HF_VARIANT},
    FALCON_QKV(STATE_Q),
    FALCON_QKV(STATE_K),
    FALCON_QKV(STATE_V),
    {"h.N.self_attention.dense", "blk.N.attn_output", 'E', 'Q', HF_BIAS},
    {"h.N.mlp.dense_h_to_4h", "blk.N.ffn_up", 'F', 'E', HF_BIAS},
    {"h.N.mlp.dense_4h_to_h", "blk.N.ffn_down", 'E', 'F', HF_BIAS},
    {"ln_f", "output_norm", 0, 'E', STATE_BIAS},
};

/* ---- what only they have --------------------------------------------------------------------- */

/* OPT-350m normalises the residual after its branches, as GPT-1, and has narrower embeddings. */
static int opt(struct hf_model *m, mgpt_error *err)
{
    uint32_t width, n_embd = m->c->hp.n_embd;
    int before, gains;
    if (hf_flag(m->cfg.text, "do_layer_norm_before", 1, &before, err) < 0 ||
        hf_flag(m->cfg.text, "layer_norm_elementwise_affine", 1, &gains, err) < 0 ||
        hf_must_be_off(m->cfg.text, "_remove_final_layer_norm", err) < 0 ||
        hf_size(m->cfg.text, "word_embed_proj_dim", n_embd, &width, err) < 0)
        return MGPT_EFILE;
    if (!gains)
        return hf_refuse("layer_norm_elementwise_affine", "false is not supported", err);
    if (width == 0 || width > 1 << 20)
        return hf_refuse("word_embed_proj_dim", "expected 1 to 1048576", err);
    m->projected = width == n_embd ? 0 : width;
    m->variant = !before;
    if (!before)
        m->c->hp.arch = "gpt1";
    m->c->hp.norm_eps = 1e-5F; /* of the program: not in the file */
    return MGPT_OK;
}

/* Position i is row i + 2. */
static int opt_positions(struct hf_model *m, mgpt_error *err)
{
    static const char name[] = "embed_positions.weight";
    const struct ckpt_hparams *hp = &m->c->hp;
    const struct state_part part = {
        .tensor = state_find(&m->state, name), .first = 2, .n_rows = hp->n_ctx};
    if (!part.tensor)
        return state_missing(name, err);
    if (state_check_shape(part.tensor, (uint64_t)hp->n_ctx + 2, hp->n_embd, err) < 0)
        return MGPT_EFILE;
    return state_put(m->c, "position_embd.weight", hp->n_embd, &part, 1, 0, err);
}

static int opt_put(struct hf_model *m, mgpt_error *err)
{
    int status = opt_positions(m, err);
    return status == MGPT_OK && m->projected ? hf_put_projected(m, err) : status;
}

/* A program that names an epsilon and computes with LayerNorm's own. */
static int biogpt(struct hf_model *m, mgpt_error *err)
{
    int scaled;
    if (hf_flag(m->cfg.text, "scale_embedding", 1, &scaled, err) < 0)
        return MGPT_EFILE;
    if (!scaled)
        m->c->hp.embd_scale = 1;
    m->c->hp.norm_eps = 1e-5F;
    return MGPT_OK;
}

enum { MAX_SINUSOIDS = 1 << 26 };

/* XGLM's positions: the sines of all frequencies, then the cosines. Position i is the third of its
 * own counting, as in OPT. `source` is the width. */
static void sinusoid_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    uint64_t width = *(const uint64_t *)t->source, half = width / 2;
    for (size_t i = 0; i < n; i++) {
        uint64_t row = (first + i) / width, column = (first + i) % width;
        double turn = exp(-(double)(column % half) * log(10000) / (double)(half - 1));
        double angle = (double)(row + 2) * turn;
        out[i] = (float)(column < half ? sin(angle) : cos(angle));
        if (column == 2 * half)
            out[i] = 0;
    }
}

static int sinusoids(struct hf_model *m, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    if (hp->n_embd < 4 || (uint64_t)hp->n_embd * hp->n_ctx > MAX_SINUSOIDS)
        return hf_refuse("max_position_embeddings",
                         "a table of positions that large or narrow is "
                         "not supported",
                         err);
    uint64_t *width = ckpt_alloc(m->c, 1, sizeof *width);
    if (!width)
        return err_memory(err, "positions", sizeof *width);
    *width = hp->n_embd;
    struct ckpt_tensor from = {.values = sinusoid_values, .source = width};
    return ckpt_add(m->c, "position_embd.weight", hp->n_embd, hp->n_ctx, from, err);
}

/* The rotation has no settings but its width. */
static int gptj(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    if (hf_size(m->cfg.text, "rotary_dim", 64, &hp->n_rot, err) < 0)
        return MGPT_EFILE;
    if (json_object_get(m->cfg.text, "rotary_dim") && !hf_value(m->cfg.text, "rotary_dim"))
        return hf_refuse("rotary_dim", "null is not supported", err);
    if (hp->n_rot == 0 || hp->n_rot % 2 || hp->n_rot > state_size(hp, 'H'))
        return hf_refuse("rotary_dim", "expected an even number up to the width of a head", err);
    hp->rope_base = 10000;
    return MGPT_OK;
}

/* q, v and k of a fourth of the heads, then of the next: "attn.qkv_proj". */
static int codegen_qkv(struct hf_model *m, mgpt_error *err)
{
    static const char *const to[] = {"blk.N.attn_q.weight", "blk.N.attn_v.weight",
                                     "blk.N.attn_k.weight"};
    const struct ckpt_hparams *hp = &m->c->hp;
    static const char from[] = "h.N.attn.qkv_proj.weight";
    uint64_t width = hp->n_embd, fourth = width / 4;
    char name[CKPT_MAX_NAME + 1];
    if (hp->n_head % 4)
        return hf_refuse("n_head", "expected a multiple of 4", err);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct state_tensor *t = state_find_layer(&m->state, from, i);
        state_layer_name(name, sizeof name, from, i);
        if (!t)
            return state_missing(name, err);
        if (state_check_shape(t, 3 * width, width, err) < 0)
            return MGPT_EFILE;
        for (size_t part = 0; part < HF_COUNT(to); part++) {
            const struct state_part rows = {.tensor = t,
                                            .first = part * fourth,
                                            .n_rows = width,
                                            .block = fourth,
                                            .step = 3 * fourth};
            state_layer_name(name, sizeof name, to[part], i);
            int status = state_put(m->c, name, width, &rows, 1, 0, err);
            if (status < 0)
                return status;
        }
    }
    return MGPT_OK;
}

static int bigcode(struct hf_model *m, mgpt_error *err)
{
    int one, scaled;
    if (hf_flag(m->cfg.text, "multi_query", 1, &one, err) < 0 ||
        hf_flag(m->cfg.text, "scale_attn_weights", 1, &scaled, err) < 0)
        return MGPT_EFILE;
    m->variant = !one;
    m->c->hp.n_head_kv = one ? 1 : m->c->hp.n_head;
    if (!scaled)
        m->c->hp.attn_scale = 1;
    return MGPT_OK;
}

/* The length that texts may have is not a number of the model. */
static int bloom(struct hf_model *m, mgpt_error *err)
{
    return hf_must_be_off(m->cfg.text, "apply_residual_connection_post_layernorm", err);
}

/* transformers computes ALiBi with slopes to 2^-8, GELU and an MLP of four times the width whatever
 * attn_config says; other models of the original program are refused. */
static int mpt(struct hf_model *m, mgpt_error *err)
{
    static const char *const off[] = {"prefix_lm", "qk_ln"};
    const json_t *attn = hf_value(m->cfg.text, "attn_config");
    struct ckpt_hparams *hp = &m->c->hp;
    double largest, clip, scale;
    int alibi;
    if (hf_must_be_off(m->cfg.text, "logit_scale", err) < 0)
        return MGPT_EFILE;
    for (size_t i = 0; i < HF_COUNT(off); i++)
        if (hf_must_be_off(attn, off[i], err) < 0)
            return MGPT_EFILE;
    if (hf_flag(attn, "alibi", 1, &alibi, err) < 0 ||
        hf_real(attn, "alibi_bias_max", 8, &largest, err) < 0 ||
        hf_real(attn, "clip_qkv", 0, &clip, err) < 0 ||
        hf_real(attn, "softmax_scale", 0, &scale, err) < 0)
        return MGPT_EFILE;
    if (!alibi || largest != 8)
        return hf_refuse(alibi ? "alibi_bias_max" : "alibi", "this value is not supported", err);
    if (!(clip >= 0 && clip < 1e30 && scale >= 0 && scale < 1e6))
        return hf_refuse("attn_config", "clip_qkv or softmax_scale is out of range", err);
    hp->alibi = (float)largest;
    hp->qkv_clamp = (float)clip;
    hp->attn_scale = (float)scale;
    return MGPT_OK;
}

/* Three layouts of q, k, v that are one: for each KV head its queries, its key, its value. */
static int falcon(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int alibi, is_new, one, parallel;
    uint32_t n_norms;
    if (hf_flag(m->cfg.text, "alibi", 0, &alibi, err) < 0 ||
        hf_flag(m->cfg.text, "new_decoder_architecture", 0, &is_new, err) < 0 ||
        hf_flag(m->cfg.text, "multi_query", 1, &one, err) < 0 ||
        hf_flag(m->cfg.text, "parallel_attn", 1, &parallel, err) < 0 ||
        hf_size(m->cfg.text, "num_ln_in_parallel_attn", is_new ? 2 : 1, &n_norms, err) < 0)
        return MGPT_EFILE;
    if (alibi)
        return hf_refuse("alibi",
                         "true is not supported: transformers rounds slope times position to "
                         "bfloat16",
                         err);
    if (!parallel)
        return hf_refuse("parallel_attn", "false is not supported", err);
    if (n_norms != 1 && !(is_new && n_norms == 2))
        return hf_refuse("num_ln_in_parallel_attn", "this value is not supported", err);
    if (!is_new)
        hp->n_head_kv = one ? 1 : hp->n_head;
    m->variant = n_norms == 1;
    return MGPT_OK;
}

/* ---- the families ---------------------------------------------------------------------------- */

static const struct hf_keys opt_keys = {.n_embd = "hidden_size",
                                        .n_layer = "num_hidden_layers",
                                        .n_head = "num_attention_heads",
                                        .n_ff = "ffn_dim",
                                        .n_ctx = "max_position_embeddings",
                                        .activation = "activation_function"};
static const struct hf_keys biogpt_keys = {.n_embd = "hidden_size",
                                           .n_layer = "num_hidden_layers",
                                           .n_head = "num_attention_heads",
                                           .n_ff = "intermediate_size",
                                           .n_ctx = "max_position_embeddings",
                                           .activation = "hidden_act"};
static const struct hf_keys xglm_keys = {.n_embd = "d_model",
                                         .n_layer = "num_layers",
                                         .n_head = "attention_heads",
                                         .n_ff = "ffn_dim",
                                         .n_ctx = "max_position_embeddings",
                                         .activation = "activation_function"};
static const struct hf_keys gptj_keys = {.n_embd = "n_embd",
                                         .n_layer = "n_layer",
                                         .n_head = "n_head",
                                         .n_ff = "n_inner",
                                         .n_ff_absent = 4,
                                         .n_ctx = "n_positions",
                                         .eps = "layer_norm_epsilon",
                                         .activation = "activation_function"};

static const struct hf_keys bloom_keys = {.n_embd = "hidden_size",
                                          .n_layer = "n_layer",
                                          .n_head = "n_head",
                                          .n_ff_absent = 4,
                                          .n_ctx = "seq_length",
                                          .n_ctx_absent = 2048,
                                          .eps = "layer_norm_epsilon"};
static const struct hf_keys mpt_keys = {.n_embd = "d_model",
                                        .n_layer = "n_layers",
                                        .n_head = "n_heads",
                                        .n_ff_absent = 4,
                                        .n_ctx = "max_seq_len",
                                        .eps = "layer_norm_epsilon"};

static const struct hf_keys falcon_keys = {.n_embd = "hidden_size",
                                           .n_layer = "num_hidden_layers",
                                           .n_head = "num_attention_heads",
                                           .n_head_kv = "num_kv_heads",
                                           .n_ff = "ffn_hidden_size",
                                           .n_ff_absent = 4,
                                           .n_ctx = "max_position_embeddings",
                                           .n_ctx_absent = 2048,
                                           .eps = "layer_norm_epsilon",
                                           .activation = "activation",
                                           .activation_absent = "gelu"};
static const struct hf_rope_keys falcon_rope = {"rope_theta", "partial_rotary_factor", 10000, 1};

static const char *const opt_prefixes[] = {"model.", "decoder.", NULL};
static const char *const biogpt_prefixes[] = {"biogpt.", "model.", NULL};
static const char *const gptj_prefixes[] = {"transformer.", NULL};

#define GPTJ(rows) gptj_prefixes, "lm_head.weight", HF_ROWS(rows)

const struct hf_family hf_gptj_families[] = {
    {"opt", "gpt2", &opt_keys, "gelu_tanh", opt_prefixes, "lm_head.weight", .tied = 1,
     HF_ROWS(opt_rows), .biases = HF_ENABLE_BIAS, .configure = opt, .put = opt_put},
    {"biogpt", "biogpt", &biogpt_keys, "gelu_erf", biogpt_prefixes, "output_projection.weight",
     .tied = 1, HF_ROWS(biogpt_rows), .biases = HF_ENABLE_BIAS, .configure = biogpt,
     .put = opt_positions},
    {"xglm", "biogpt", &xglm_keys, "gelu_erf", biogpt_prefixes, "lm_head.weight", .tied = 1,
     HF_ROWS(biogpt_rows), .biases = HF_ENABLE_BIAS, .configure = biogpt, .put = sinusoids},
    {"gptj", "gptj", &gptj_keys, "gelu_tanh", GPTJ(gptj_rows), .configure = gptj},
    {"codegen", "gptj", &gptj_keys, "gelu_tanh", GPTJ(codegen_rows), .configure = gptj,
     .put = codegen_qkv},
    {"gpt_bigcode", "starcoder", &gptj_keys, "gelu_tanh", GPTJ(bigcode_rows), .tied = 1,
     .configure = bigcode},
    {"bloom", "bloom", &bloom_keys, "gelu_tanh", GPTJ(bloom_rows), .tied = 1, .configure = bloom},
    {"mpt", "mpt", &mpt_keys, "gelu_erf", GPTJ(mpt_rows), .tied = 1, .configure = mpt},
    {"falcon", "falcon", &falcon_keys, "gelu_erf", GPTJ(falcon_rows), .tied = 1,
     .rope = &falcon_rope, .configure = falcon},
};
const size_t hf_n_gptj_families = HF_COUNT(hf_gptj_families);
