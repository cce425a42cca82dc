/* Mapping: nanoGPT's ckpt.pt, and its relatives of the same names.
 *
 *     {"model": state dict, "model_args": {n_layer, n_head, n_embd, block_size, bias, vocab_size},
 *      "config": {"dataset": ...}, "optimizer": ...}                          nanoGPT
 *     {"model": state dict, "config": GPTConfig object, ...}                  build-nanogpt
 *
 * Matrices lie as Linear has them. The head is tied. A model without biases gets zeros, which other
 * readers of GGUF ask for. nanoGPT's GELU is the exact one since May 2023; before, and in
 * build-nanogpt, it is the tanh form, and the file does not say which.
 */
#include "base/error.h"
#include "convert/families/torch_model.h"

#include <string.h>

#define GPT2_EPS 1e-5

static const struct state_row rows[] = {
    {"transformer.wte.weight", "token_embd.weight", 'V', 'E', 0},
    {"transformer.wpe.weight", "position_embd.weight", 'T', 'E', 0},
    {"transformer.h.N.ln_1.weight", "blk.N.attn_norm.weight", 0, 'E', 0},
    {"transformer.h.N.ln_1.bias", "blk.N.attn_norm.bias", 0, 'E', STATE_ZEROS},
    {"transformer.h.N.attn.c_attn.weight", "blk.N.attn_qkv.weight", 'P', 'E', 0},
    {"transformer.h.N.attn.c_attn.bias", "blk.N.attn_qkv.bias", 0, 'P', STATE_ZEROS},
    {"transformer.h.N.attn.c_proj.weight", "blk.N.attn_output.weight", 'E', 'E', 0},
    {"transformer.h.N.attn.c_proj.bias", "blk.N.attn_output.bias", 0, 'E', STATE_ZEROS},
    {"transformer.h.N.ln_2.weight", "blk.N.ffn_norm.weight", 0, 'E', 0},
    {"transformer.h.N.ln_2.bias", "blk.N.ffn_norm.bias", 0, 'E', STATE_ZEROS},
    {"transformer.h.N.mlp.c_fc.weight", "blk.N.ffn_up.weight", 'F', 'E', 0},
    {"transformer.h.N.mlp.c_fc.bias", "blk.N.ffn_up.bias", 0, 'F', STATE_ZEROS},
    {"transformer.h.N.mlp.c_proj.weight", "blk.N.ffn_down.weight", 'E', 'F', 0},
    {"transformer.h.N.mlp.c_proj.bias", "blk.N.ffn_down.bias", 0, 'E', STATE_ZEROS},
    {"transformer.ln_f.weight", "output_norm.weight", 0, 'E', 0},
    {"transformer.ln_f.bias", "output_norm.bias", 0, 'E', STATE_ZEROS},
};

static const struct state_row head[] = {{"lm_head.weight", "output.weight", 'V', 'E', 0}};

/* ---- what minGPT has, too -------------------------------------------------------------------- */

int nanogpt_sizes(struct torch_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, T, F = 0, E2;
    hp->arch = "gpt2";
    if (torch_layers(m, "transformer.h.N.ln_1.weight", err) < 0 ||
        torch_shape(m, "transformer.wte.weight", &V, &E, err) < 0 ||
        torch_shape(m, "transformer.wpe.weight", &T, &E2, err) < 0 ||
        (hp->n_layer && torch_shape(m, "transformer.h.0.mlp.c_fc.weight", &F, &E2, err) < 0))
        return MGPT_EFILE;
    const struct ckpt_wanted sizes[] = {{&hp->n_vocab, "vocab_size", V},
                                        {&hp->n_embd, "n_embd", E},
                                        {&hp->n_ctx, "block_size", T},
                                        {&hp->n_ff, "the hidden width", hp->n_layer ? F : 4 * E}};
    return ckpt_sizes(sizes, 4, err);
}

int nanogpt_tensors(struct torch_model *m, mgpt_error *err)
{
    int tied = !state_has(&m->state, "lm_head.weight") ||
               torch_same(m, "lm_head.weight", "transformer.wte.weight");
    int status = state_map(&m->state, rows, sizeof rows / sizeof *rows, err);
    if (status == MGPT_OK && !tied)
        status = state_map(&m->state, head, 1, err);
    if (tied) {
        state_find(&m->state, "lm_head.weight");
        ckpt_note(m->c, "inferred: the head is the token embedding (tied)");
    }
    state_skip_suffix(&m->state, ".attn.bias"); /* causal masks */
    state_skip_suffix(&m->state, ".attn.masked_bias");
    return status == MGPT_OK ? state_check_used(&m->state, "nanoGPT or minGPT", err) : status;
}

/* ---- nanoGPT --------------------------------------------------------------------------------- */

/* model_args, or an object with such attributes; 0: neither, or a bare state dict. */
static pickle_id config_of(const struct torch_model *m)
{
    static const char *const names[] = {"model_args", "config", "model_config", "gpt_config"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pickle_id id = torch_member(m, names[i]);
        if (pickle_get(&m->file.pickle, id, "n_head"))
            return id;
    }
    return 0;
}

/* A linear layer is stored [out, in]; GPT-2's own files (Conv1D) have it the other way round. */
static int is_linear(const struct torch_model *m)
{
    uint64_t rows_of, columns;
    if (torch_shape(m, "transformer.h.0.mlp.c_fc.weight", &rows_of, &columns, NULL) < 0)
        return 1;
    return rows_of >= columns;
}

static int is_tied(const struct torch_model *m)
{
    return !state_has(&m->state, "lm_head.weight") ||
           torch_same(m, "lm_head.weight", "transformer.wte.weight");
}

/* nanoGPT and build-nanogpt tie the head; model_args is nanoGPT's own word for the facts. */
static int from_nanogpt_match(const struct torch_model *m)
{
    if (!state_has(&m->state, "transformer.wte.weight") ||
        !state_has(&m->state, "transformer.wpe.weight") || !is_linear(m))
        return 0;
    return torch_member(m, "model_args") || is_tied(m);
}

/* config["dataset"], where it is a plain name; NULL otherwise. It will be part of a file's name. */
static const char *dataset(struct torch_model *m)
{
    const struct pickle *p = &m->file.pickle;
    const struct pickle_node *n = pickle_at(p, pickle_get(p, torch_member(m, "config"), "dataset"));
    if (n->kind != PICKLE_TEXT || n->n == 0 || n->n > 64 || n->as.text[0] == '.')
        return NULL;
    for (uint32_t i = 0; i < n->n; i++) {
        char c = n->as.text[i];
        int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-' || c == '.';
        if (!plain)
            return NULL;
    }
    return ckpt_text(m->c, n->as.text, n->n);
}

static int from_nanogpt_map(struct torch_model *m, mgpt_error *err)
{
    pickle_id config = config_of(m);
    int is_object = pickle_at(&m->file.pickle, config)->kind == PICKLE_OBJECT;
    int status = nanogpt_sizes(m, err);
    if (status == MGPT_OK)
        status = torch_check_sizes(m, err);
    if (status == MGPT_OK)
        status = torch_heads(m, 0, 0, "", err);
    if (status < 0)
        return status;
    if (is_object)
        status = torch_activation(m, "gelu_tanh", "gelu_tanh", "build-nanogpt's", err);
    else if (!is_tied(m))
        status =
            torch_activation(m, NULL, "gelu_tanh", "nanoGPT ties the head, this does not", err);
    else
        status = torch_activation(
            m, "gelu_erf", "gelu_tanh",
            "nanoGPT's since May 2023; before, and for imported GPT-2: gelu_tanh", err);
    m->c->hp.norm_eps = torch_eps(m, GPT2_EPS);
    if (status == MGPT_OK)
        status = nanogpt_tensors(m, err);
    return status == MGPT_OK ? torch_vocab(m, dataset(m), err) : status;
}

const struct torch_mapping nanogpt_mapping = {
    "nanoGPT", OPT_HEADS | OPT_ACTIVATION | OPT_EPS | OPT_TOKENIZER | OPT_NO_TOKENIZER,
    from_nanogpt_match, from_nanogpt_map};
