/* Mapping: GPTModel of "Build a Large Language Model (From Scratch)", a bare state dict or one
 * under "model_state_dict".
 *
 * Queries, keys and values are three matrices, stacked here as GPT-2 has them; their biases are
 * optional. The head is a tensor of its own. The number of heads is not in the file.
 */
#include "base/error.h"
#include "convert/families/torch_model.h"

#include <stdio.h>

#define GPT2_EPS 1e-5

static const struct state_row before[] = {
    {"tok_emb.weight", "token_embd.weight", 'V', 'E', 0},
    {"pos_emb.weight", "position_embd.weight", 'T', 'E', 0},
};

static const struct state_row layer_rows[] = {
    {"trf_blocks.N.norm1.scale", "blk.N.attn_norm.weight", 0, 'E', 0},
    {"trf_blocks.N.norm1.shift", "blk.N.attn_norm.bias", 0, 'E', 0},
    {"trf_blocks.N.att.out_proj.weight", "blk.N.attn_output.weight", 'E', 'E', 0},
    {"trf_blocks.N.att.out_proj.bias", "blk.N.attn_output.bias", 0, 'E', STATE_ZEROS},
    {"trf_blocks.N.norm2.scale", "blk.N.ffn_norm.weight", 0, 'E', 0},
    {"trf_blocks.N.norm2.shift", "blk.N.ffn_norm.bias", 0, 'E', 0},
    {"trf_blocks.N.ff.layers.0.weight", "blk.N.ffn_up.weight", 'F', 'E', 0},
    {"trf_blocks.N.ff.layers.0.bias", "blk.N.ffn_up.bias", 0, 'F', STATE_ZEROS},
    {"trf_blocks.N.ff.layers.2.weight", "blk.N.ffn_down.weight", 'E', 'F', 0},
    {"trf_blocks.N.ff.layers.2.bias", "blk.N.ffn_down.bias", 0, 'E', STATE_ZEROS},
};

static const struct state_row after[] = {
    {"final_norm.scale", "output_norm.weight", 0, 'E', 0},
    {"final_norm.shift", "output_norm.bias", 0, 'E', 0},
    {"out_head.weight", "output.weight", 'V', 'E', STATE_OPTIONAL},
};

/* q, k, v on top of each other; absent biases are zeros. */
static int from_scratch_put_qkv(struct torch_model *m, uint32_t layer, int is_bias, mgpt_error *err)
{
    static const char *const names[] = {"W_query", "W_key", "W_value"};
    uint64_t E = m->c->hp.n_embd;
    struct state_part parts[3];
    char to[CKPT_MAX_NAME + 1];
    for (size_t i = 0; i < 3; i++) {
        char from[CKPT_MAX_NAME + 1];
        snprintf(from, sizeof from, "trf_blocks.%u.att.%s.%s", layer, names[i],
                 is_bias ? "bias" : "weight");
        parts[i] = (struct state_part){.tensor = state_find(&m->state, from), .n_rows = E};
        if (!parts[i].tensor && !is_bias)
            return state_missing(from, err);
        if (parts[i].tensor && state_check_shape(parts[i].tensor, is_bias ? 0 : E, E, err) < 0)
            return MGPT_EFILE;
    }
    snprintf(to, sizeof to, "blk.%u.attn_qkv.%s", layer, is_bias ? "bias" : "weight");
    return state_put(m->c, to, is_bias ? 0 : E, parts, 3, 0, err);
}

static int from_scratch_sizes(struct torch_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, T, F = 0, E2;
    hp->arch = "gpt2";
    if (torch_layers(m, "trf_blocks.N.norm1.scale", err) < 0 ||
        torch_shape(m, "tok_emb.weight", &V, &E, err) < 0 ||
        torch_shape(m, "pos_emb.weight", &T, &E2, err) < 0 ||
        (hp->n_layer && torch_shape(m, "trf_blocks.0.ff.layers.0.weight", &F, &E2, err) < 0))
        return MGPT_EFILE;
    const struct ckpt_wanted wanted[] = {{&hp->n_vocab, "vocab_size", V},
                                         {&hp->n_embd, "emb_dim", E},
                                         {&hp->n_ctx, "context_length", T},
                                         {&hp->n_ff, "the hidden width", hp->n_layer ? F : 4 * E}};
    return ckpt_sizes(wanted, 4, err);
}

static int from_scratch_tensors(struct torch_model *m, mgpt_error *err)
{
    int status = state_map(&m->state, before, sizeof before / sizeof *before, err);
    for (uint32_t i = 0; status == MGPT_OK && i < m->c->hp.n_layer; i++) {
        status = from_scratch_put_qkv(m, i, 0, err);
        if (status == MGPT_OK)
            status = from_scratch_put_qkv(m, i, 1, err);
    }
    if (status == MGPT_OK)
        status = state_map(&m->state, layer_rows, sizeof layer_rows / sizeof *layer_rows, err);
    if (status == MGPT_OK)
        status = state_map(&m->state, after, sizeof after / sizeof *after, err);
    state_skip_suffix(&m->state, ".att.mask");
    return status == MGPT_OK ? state_check_used(&m->state, "LLMs-from-scratch GPTModel", err)
                             : status;
}

static int from_scratch_match(const struct torch_model *m)
{
    return state_has(&m->state, "tok_emb.weight") && state_has(&m->state, "final_norm.scale");
}

static int from_scratch_map(struct torch_model *m, mgpt_error *err)
{
    int status = from_scratch_sizes(m, err);
    if (status == MGPT_OK)
        status = torch_check_sizes(m, err);
    if (status == MGPT_OK)
        status = torch_heads(m, 0, torch_gpt2_heads(m), "GPT-2 of these sizes", err);
    if (status == MGPT_OK)
        status = torch_activation(m, "gelu_tanh", "gelu_tanh", "the book's", err);
    m->c->hp.norm_eps = torch_eps(m, GPT2_EPS);
    if (status == MGPT_OK)
        status = from_scratch_tensors(m, err);
    return status == MGPT_OK ? torch_vocab(m, NULL, err) : status;
}

const struct torch_mapping scratch_mapping = {"LLMs-from-scratch GPTModel",
                                              OPT_HEADS | OPT_ACTIVATION | OPT_EPS | OPT_TOKENIZER |
                                                  OPT_NO_TOKENIZER,
                                              from_scratch_match, from_scratch_map};
