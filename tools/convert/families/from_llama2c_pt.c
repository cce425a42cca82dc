/* Mapping: llama2.c's ckpt.pt, and Meta's consolidated.00.pth with params.json, which it took its
 * names from.
 *
 *     {"model": state dict, "model_args": {dim, n_layers, n_heads, n_kv_heads, vocab_size,
 *      max_seq_len}, ...}
 *     params.json: {"dim", "n_layers", "n_heads", "n_kv_heads", "norm_eps", "rope_theta", ...}
 *
 * Rotary pairs are adjacent already, so no row moves. Meta's files do not say the context.
 */
#include "base/error.h"
#include "convert/families/llama2c.h"
#include "convert/families/torch_model.h"
#include "convert/vocab/hf_tokenizer.h"

#include <string.h>

#define EPS 1e-5
#define ROPE_BASE 10000.0

enum { META_CONTEXT = 2048, LLAMA3_VOCAB = 128256, LLAMA3_CONTEXT = 8192 };

static const struct state_row rows[] = {
    {"tok_embeddings", "token_embd", 'V', 'E', 0},
    {"layers.N.attention_norm", "blk.N.attn_norm", 0, 'E', 0},
    {"layers.N.attention.wq", "blk.N.attn_q", 'Q', 'E', 0},
    {"layers.N.attention.wk", "blk.N.attn_k", 'K', 'E', 0},
    {"layers.N.attention.wv", "blk.N.attn_v", 'K', 'E', 0},
    {"layers.N.attention.wo", "blk.N.attn_output", 'E', 'Q', 0},
    {"layers.N.ffn_norm", "blk.N.ffn_norm", 0, 'E', 0},
    {"layers.N.feed_forward.w1", "blk.N.ffn_gate", 'F', 'E', 0},
    {"layers.N.feed_forward.w2", "blk.N.ffn_down", 'E', 'F', 0},
    {"layers.N.feed_forward.w3", "blk.N.ffn_up", 'F', 'E', 0},
    {"norm", "output_norm", 0, 'E', 0},
};

static const struct state_row head[] = {{"output", "output", 'V', 'E', 0}};

/* ---- numbers --------------------------------------------------------------------------------- */

/* What is not in model_args is in params.json next to the file. */
static void find_facts(struct torch_model *m)
{
    static const char *const candidates[] = {"params.json"};
    const char *name;
    if (torch_member(m, "model_args"))
        return;
    const struct jval *root = torch_side_facts(m, candidates, 1, NULL, &name);
    if (!root)
        ckpt_note(m->c, "neither model_args in the file nor params.json next to it");
    if (jval_is(jval_get(root, "use_scaled_rope"), JVAL_TRUE))
        ckpt_stop(m->c,
                  "%s: use_scaled_rope does not say by how much; convert the model's "
                  "Hugging Face form instead",
                  name);
}

static void from_llama2c_pt_sizes(struct torch_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, F, E2, k_rows;
    hp->arch = "llama";
    torch_layers(m, "layers.N.attention_norm.weight");
    torch_shape(m, "tok_embeddings.weight", &V, &E);
    torch_shape(m, "layers.0.feed_forward.w1.weight", &F, &E2);
    torch_shape(m, "layers.0.attention.wk.weight", &k_rows, &E2);
    const struct ckpt_wanted wanted[] = {
        {&hp->n_vocab, "vocab_size", V}, {&hp->n_embd, "dim", E}, {&hp->n_ff, "hidden_dim", F}};
    ckpt_sizes(m->c, wanted, 3);
    torch_check_sizes(m, MG_LAYERS);
    hp->n_ctx = (uint32_t)torch_context(m, V == LLAMA3_VOCAB ? LLAMA3_CONTEXT : META_CONTEXT,
                                        "not in the file");
    torch_heads(m, 0, 0, "");
    torch_kv_heads(m, "wk", k_rows);
}

/* ---- tensors and tokens ---------------------------------------------------------------------- */

static void from_llama2c_pt_tensors(struct torch_model *m)
{
    state_map(m->state, rows, sizeof rows / sizeof *rows);
    if (!torch_tied(m, "output.weight", "tok_embeddings.weight"))
        state_map(m->state, head, 1);
    state_skip_suffix(m->state, "rope.freqs");
    state_skip_suffix(m->state, "freqs_cos");
    state_skip_suffix(m->state, "freqs_sin");
    hf_check_used(m->state, "llama2.c or Meta's Llama");
}

/* llama2.c's tokenizer.bin begins with the length of its longest token and has no magic number;
 * anything else, also given with --tokenizer, is for the readers of Hugging Face's files. */
static void from_llama2c_pt_vocabulary(struct torch_model *m)
{
    struct ckpt_side side;
    int found =
        !(m->in->options->given & OPT_NO_TOKENIZER) && llama2c_find_tokens(m->c, m->in, &side);
    const char *dot = found ? strrchr(side.name, '.') : NULL;
    if (!dot || strcmp(dot, ".bin") != 0) {
        torch_vocab(m, NULL);
        return;
    }
    ckpt_note_tokenizer(m->c, m->in, side.name);
    llama2c_vocabulary(m->c, side.bytes, side.name, m->c->hp.n_vocab);
}

static int from_llama2c_pt_match(const struct torch_model *m)
{
    return state_has(m->state, "tok_embeddings.weight") &&
           state_has(m->state, "layers.0.attention.wq.weight");
}

static void from_llama2c_pt_map(struct torch_model *m)
{
    find_facts(m);
    from_llama2c_pt_sizes(m);
    double base = m->parts->facts.rope_base;
    m->c->hp.rope_base =
        (float)torch_number(m, OPT_ROPE, m->in->options->rope_base, base > 0 ? base : -1,
                            "rope base", ROPE_BASE, "the program's");
    m->c->hp.norm_eps = torch_eps(m, EPS);
    from_llama2c_pt_tensors(m);
    from_llama2c_pt_vocabulary(m);
}

const struct torch_mapping llama2c_pt_mapping = {"llama2.c or Meta Llama",
                                                 OPT_HEADS | OPT_CONTEXT | OPT_EPS | OPT_ROPE |
                                                     OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                                 from_llama2c_pt_match, from_llama2c_pt_map};
