/* Hugging Face families of GPT-2's kind: LayerNorm, learned positions, a plain MLP. See hf.h.
 *
 * GPT-2 stores its matrices transposed ("Conv1D") and q, k, v as one. GPT-Neo has plain matrices,
 * q, k, v apart without biases, scores that are not scaled, and windows in some layers; in GGUF it
 * is a gpt2 with three more keys. GPT (2018) normalises the residual after each branch.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf.h"

#include <string.h>

#define TRANSPOSED (STATE_TRANSPOSED | STATE_BIAS)

static const struct state_row gpt2_rows[] = {
    {"wte", "token_embd", 'V', 'E', 0},
    {"wpe", "position_embd", 'T', 'E', 0},
    {"h.N.ln_1", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    {"h.N.attn.c_attn", "blk.N.attn_qkv", 'P', 'E', TRANSPOSED},
    {"h.N.attn.c_proj", "blk.N.attn_output", 'E', 'Q', TRANSPOSED},
    {"h.N.ln_2", "blk.N.ffn_norm", 0, 'E', STATE_BIAS},
    {"h.N.mlp.c_fc", "blk.N.ffn_up", 'F', 'E', TRANSPOSED},
    {"h.N.mlp.c_proj", "blk.N.ffn_down", 'E', 'F', TRANSPOSED},
    {"ln_f", "output_norm", 0, 'E', STATE_BIAS},
};

static const struct state_row gpt_neo_rows[] = {
    {"wte", "token_embd", 'V', 'E', 0},
    {"wpe", "position_embd", 'T', 'E', 0},
    {"h.N.ln_1", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    {"h.N.attn.attention.q_proj", "blk.N.attn_q", 'Q', 'E', 0},
    {"h.N.attn.attention.k_proj", "blk.N.attn_k", 'K', 'E', 0},
    {"h.N.attn.attention.v_proj", "blk.N.attn_v", 'K', 'E', 0},
    {"h.N.attn.attention.out_proj", "blk.N.attn_output", 'E', 'Q', STATE_BIAS},
    {"h.N.ln_2", "blk.N.ffn_norm", 0, 'E', STATE_BIAS},
    {"h.N.mlp.c_fc", "blk.N.ffn_up", 'F', 'E', STATE_BIAS},
    {"h.N.mlp.c_proj", "blk.N.ffn_down", 'E', 'F', STATE_BIAS},
    {"ln_f", "output_norm", 0, 'E', STATE_BIAS},
};

static const struct state_row gpt1_rows[] = {
    {"tokens_embed", "token_embd", 'V', 'E', 0},
    {"positions_embed", "position_embd", 'T', 'E', 0},
    {"h.N.attn.c_attn", "blk.N.attn_qkv", 'P', 'E', TRANSPOSED},
    {"h.N.attn.c_proj", "blk.N.attn_output", 'E', 'Q', TRANSPOSED},
    {"h.N.ln_1", "blk.N.attn_output_norm", 0, 'E', STATE_BIAS},
    {"h.N.mlp.c_fc", "blk.N.ffn_up", 'F', 'E', TRANSPOSED},
    {"h.N.mlp.c_proj", "blk.N.ffn_down", 'E', 'F', TRANSPOSED},
    {"h.N.ln_2", "blk.N.layer_output_norm", 0, 'E', STATE_BIAS},
};

/* ---- what only they have --------------------------------------------------------------------- */

static int gpt2(struct hf_model *m, mgpt_error *err)
{
    int scaled;
    if (hf_flag(m->cfg.text, "scale_attn_weights", 1, &scaled, err) < 0 ||
        hf_must_be_off(m->cfg.text, "scale_attn_by_inverse_layer_idx", err) < 0)
        return MGPT_EFILE;
    if (!scaled)
        m->c->hp.attn_scale = 1;
    return MGPT_OK;
}

/* Its "gelu" is what others call gelu_new. */
static int gpt1(struct hf_model *m, mgpt_error *err)
{
    const char *name;
    if (hf_text(m->cfg.text, "afn", "gelu", &name, err) < 0)
        return MGPT_EFILE;
    if (strcmp(name, "relu") == 0)
        m->c->hp.activation = "relu";
    else if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0)
        m->c->hp.activation = "silu";
    else if (strcmp(name, "gelu") != 0)
        return ckpt_refuse(err, "config.json: afn: %.40s is not supported", name);
    return MGPT_OK;
}

/* One entry [["global", "local"], n]: appends its kinds n times. */
static int add_kinds(const json_t *entry, int32_t window, int32_t *windows, uint32_t *n,
                     uint32_t n_layer)
{
    const json_t *kinds = json_array_get(entry, 0), *times = json_array_get(entry, 1);
    json_int_t n_times = json_integer_value(times);
    if (json_array_size(kinds) == 0 || !json_is(times, JSON_INTEGER) || n_times < 0)
        return 0;
    for (json_int_t i = 0; i < n_times; i++)
        for (size_t j = 0; j < json_array_size(kinds); j++) {
            const char *kind = json_string_value(json_array_get(kinds, j));
            int local = kind && strcmp(kind, "local") == 0;
            if (*n == n_layer || !kind || (!local && strcmp(kind, "global") != 0))
                return 0;
            windows[(*n)++] = local ? window : 0;
        }
    return 1;
}

static int gpt_neo(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *types = hf_value(m->cfg.text, "attention_types");
    uint32_t window, n = 0;
    if (hf_size(m->cfg.text, "window_size", 256, &window, err) < 0)
        return MGPT_EFILE;
    if (window == 0)
        return hf_refuse("window_size", "expected 1 or more", err);
    int32_t *windows = hf_windows(m, err);
    if (!windows)
        return MGPT_EMEM;
    hp->attn_scale = 1;
    for (size_t i = 0; i < json_array_size(types); i++)
        if (!add_kinds(json_array_get(types, i), (int32_t)window, windows, &n, hp->n_layer))
            return hf_refuse("attention_types", "expected [[[\"global\", \"local\"], n], ...]",
                             err);
    if (n != hp->n_layer)
        return ckpt_refuse(err, "config.json: attention_types: %u kinds for %u layers", n,
                           hp->n_layer);
    return MGPT_OK;
}

/* ---- the families ---------------------------------------------------------------------------- */

static const struct hf_keys gpt2_keys = {.n_embd = "n_embd",
                                         .n_layer = "n_layer",
                                         .n_head = "n_head",
                                         .n_ff = "n_inner",
                                         .n_ff_absent = 4,
                                         .n_ctx = "n_positions",
                                         .eps = "layer_norm_epsilon",
                                         .activation = "activation_function"};
static const struct hf_keys gpt1_keys = {.n_embd = "n_embd",
                                         .n_layer = "n_layer",
                                         .n_head = "n_head",
                                         .n_ff_absent = 4,
                                         .n_ctx = "n_positions",
                                         .eps = "layer_norm_epsilon"};
static const struct hf_keys gpt_neo_keys = {.n_embd = "hidden_size",
                                            .n_layer = "num_layers",
                                            .n_head = "num_heads",
                                            .n_ff = "intermediate_size",
                                            .n_ff_absent = 4,
                                            .n_ctx = "max_position_embeddings",
                                            .eps = "layer_norm_epsilon",
                                            .activation = "activation_function"};

static const char *const prefixes[] = {"transformer.", NULL};

const struct hf_family hf_gpt2_families[] = {
    {"gpt2", "gpt2", &gpt2_keys, "gelu_tanh", prefixes, "lm_head.weight", .tied = 1,
     HF_ROWS(gpt2_rows), .configure = gpt2},
    {"openai-gpt", "gpt1", &gpt1_keys, "gelu_tanh", prefixes, "lm_head.weight", .tied = 1,
     HF_ROWS(gpt1_rows), .configure = gpt1},
    {"gpt_neo", "gpt2", &gpt_neo_keys, "gelu_tanh", prefixes, "lm_head.weight", .tied = 1,
     HF_ROWS(gpt_neo_rows), .configure = gpt_neo},
};
const size_t hf_n_gpt2_families = HF_COUNT(hf_gpt2_families);
