/* The names that programs give to the tensors of a GPT-2. See gpt_names.h.
 *
 *     transformer.h.0.attn.c_attn.weight        blocks.3.sa.heads.1.key.weight        pos_emb
 *     [wrapper] [layer word] N [part] word [end]
 *
 * The words are those of public programs. One that could mean two things ("proj") is taken only inside
 * its part; query_key_value, whose rows GPT-NeoX mixes, and in_proj of nn.MultiheadAttention, which is
 * used in layers that normalise afterwards, are not among them.
 */
#include "convert/families/gpt_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 12, MAX_NAME = 255 };

struct word {
    const char *word;
    enum gpt_role role;
};

static const struct word global_words[] = {
    {"wte", GPT_TOKENS},
    {"tok_emb", GPT_TOKENS},
    {"token_emb", GPT_TOKENS},
    {"tok_embd", GPT_TOKENS},
    {"tok_embed", GPT_TOKENS},
    {"token_embed", GPT_TOKENS},
    {"embed_tokens", GPT_TOKENS},
    {"tok_embedding", GPT_TOKENS},
    {"tok_embeddings", GPT_TOKENS},
    {"token_embedding", GPT_TOKENS},
    {"token_embeddings", GPT_TOKENS},
    {"token_embedding_table", GPT_TOKENS},
    {"wpe", GPT_POSITIONS},
    {"pos_emb", GPT_POSITIONS},
    {"pos_embd", GPT_POSITIONS},
    {"pos_embed", GPT_POSITIONS},
    {"embed_positions", GPT_POSITIONS},
    {"pos_embedding", GPT_POSITIONS},
    {"pos_embeddings", GPT_POSITIONS},
    {"position_emb", GPT_POSITIONS},
    {"position_embed", GPT_POSITIONS},
    {"position_embedding", GPT_POSITIONS},
    {"position_embeddings", GPT_POSITIONS},
    {"positional_embedding", GPT_POSITIONS},
    {"position_embedding_table", GPT_POSITIONS},
    {"ln_f", GPT_FINAL_NORM},
    {"lnf", GPT_FINAL_NORM},
    {"ln", GPT_FINAL_NORM},
    {"norm", GPT_FINAL_NORM},
    {"norm_f", GPT_FINAL_NORM},
    {"ln_final", GPT_FINAL_NORM},
    {"final_ln", GPT_FINAL_NORM},
    {"final_norm", GPT_FINAL_NORM},
    {"layer_norm", GPT_FINAL_NORM},
    {"final_layer_norm", GPT_FINAL_NORM},
    {"head", GPT_HEAD},
    {"lm_head", GPT_HEAD},
    {"out_head", GPT_HEAD},
    {"output", GPT_HEAD},
    {"unembed", GPT_HEAD},
    {"to_logits", GPT_HEAD},
    {"fc_out", GPT_HEAD},
};

static const struct word layer_words[] = {
    {"ln_1", GPT_NORM_1},        {"ln1", GPT_NORM_1},          {"norm1", GPT_NORM_1},
    {"norm_1", GPT_NORM_1},      {"attn_norm", GPT_NORM_1},    {"ln_attn", GPT_NORM_1},
    {"layer_norm1", GPT_NORM_1}, {"layer_norm_1", GPT_NORM_1}, {"layernorm1", GPT_NORM_1},
    {"ln_2", GPT_NORM_2},        {"ln2", GPT_NORM_2},          {"norm2", GPT_NORM_2},
    {"norm_2", GPT_NORM_2},      {"mlp_norm", GPT_NORM_2},     {"ffn_norm", GPT_NORM_2},
    {"ln_mlp", GPT_NORM_2},      {"layer_norm2", GPT_NORM_2},  {"layer_norm_2", GPT_NORM_2},
    {"layernorm2", GPT_NORM_2},
};

static const struct word attention_words[] = {
    {"c_attn", GPT_QKV},   {"qkv", GPT_QKV},      {"qkv_proj", GPT_QKV}, {"to_qkv", GPT_QKV},
    {"query", GPT_Q},      {"q", GPT_Q},          {"q_proj", GPT_Q},     {"wq", GPT_Q},
    {"W_query", GPT_Q},    {"to_q", GPT_Q},       {"W_q", GPT_Q},        {"q_linear", GPT_Q},
    {"key", GPT_K},        {"k", GPT_K},          {"k_proj", GPT_K},     {"wk", GPT_K},
    {"W_key", GPT_K},      {"to_k", GPT_K},       {"W_k", GPT_K},        {"k_linear", GPT_K},
    {"value", GPT_V},      {"v", GPT_V},          {"v_proj", GPT_V},     {"wv", GPT_V},
    {"W_value", GPT_V},    {"to_v", GPT_V},       {"W_v", GPT_V},        {"v_linear", GPT_V},
    {"c_proj", GPT_O},     {"proj", GPT_O},       {"out_proj", GPT_O},   {"o_proj", GPT_O},
    {"wo", GPT_O},         {"out", GPT_O},        {"W_o", GPT_O},        {"to_out", GPT_O},
    {"out_linear", GPT_O}, {"projection", GPT_O},
};

static const struct word mlp_words[] = {
    {"c_fc", GPT_UP},       {"fc1", GPT_UP},         {"fc_1", GPT_UP},      {"net.0", GPT_UP},
    {"0", GPT_UP},          {"layers.0", GPT_UP},    {"fc", GPT_UP},        {"linear1", GPT_UP},
    {"linear_1", GPT_UP},   {"up", GPT_UP},          {"up_proj", GPT_UP},   {"c_proj", GPT_DOWN},
    {"fc2", GPT_DOWN},      {"fc_2", GPT_DOWN},      {"net.2", GPT_DOWN},   {"2", GPT_DOWN},
    {"layers.2", GPT_DOWN}, {"proj", GPT_DOWN},      {"linear2", GPT_DOWN}, {"linear_2", GPT_DOWN},
    {"down", GPT_DOWN},     {"down_proj", GPT_DOWN},
};

static const char *const attention_parts[] = {
    "attn", "sa", "self_attn", "attention", "att", "mha", "self_attention", "sa_head", "sa_heads"};
static const char *const mlp_parts[] = {"mlp",          "ffwd",        "ffn",     "ff",
                                        "feed_forward", "feedforward", "feed_fwd"};
static const char *const layer_parts[] = {"h",
                                          "blocks",
                                          "layers",
                                          "block",
                                          "layer",
                                          "trf_blocks",
                                          "transformer_blocks",
                                          "decoder_layers"};
static const char *const wrappers[] = {"transformer", "model", "gpt", "decoder", "backbone"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int is_one_of(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], word) == 0)
            return 1;
    return 0;
}

static enum gpt_role role_of(const struct word *words, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].role;
    return GPT_NONE;
}

/* ---- a name taken apart ---------------------------------------------------------------------- */

struct words {
    char text[MAX_NAME + 1];
    const char *word[MAX_WORDS];
    size_t n, at; /* at: the first that is not used up */
};

/* 0: too long, or of too many words */
static int split(struct words *w, const char *name)
{
    size_t n = strlen(name);
    w->n = w->at = 0;
    if (n > MAX_NAME)
        return 0;
    memcpy(w->text, name, n + 1);
    for (char *p = w->text; p; w->n++) {
        if (w->n == MAX_WORDS)
            return 0;
        w->word[w->n] = p;
        p = strchr(p, '.');
        if (p)
            *p++ = 0;
    }
    return 1;
}

static int gpt_names_number(const char *text, uint32_t *v)
{
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 4)
        return 0;
    *v = (uint32_t)strtoul(text, &end, 10);
    return *end == 0;
}

/* What is left, with its dots. */
static const char *gpt_names_rest(struct words *w)
{
    for (size_t i = w->at; i + 1 < w->n; i++)
        w->text[(size_t)(w->word[i] - w->text) + strlen(w->word[i])] = '.';
    return w->at < w->n ? w->word[w->at] : "";
}

/* The word behind the last dot: of a norm or a matrix; a parameter of its own has none. */
static int take_end(struct words *w)
{
    static const char *const weights[] = {"weight", "scale", "gamma"};
    static const char *const biases[] = {"bias", "shift", "beta"};
    int is_bias = is_one_of(w->word[w->n - 1], biases, COUNT(biases));
    if (w->n > 1 && (is_bias || is_one_of(w->word[w->n - 1], weights, COUNT(weights))))
        w->n--;
    return is_bias;
}

/* "attn", "key": the role; "attn", "heads", "2", "key": of a head. */
static enum gpt_role in_layer(struct words *w, struct gpt_name *to)
{
    size_t left = w->n - w->at;
    if (left == 1)
        return role_of(layer_words, COUNT(layer_words), w->word[w->at]);
    int is_mlp = is_one_of(w->word[w->at], mlp_parts, COUNT(mlp_parts));
    if (!is_mlp && !is_one_of(w->word[w->at], attention_parts, COUNT(attention_parts)))
        return GPT_NONE;
    w->at++;
    if (is_mlp)
        return role_of(mlp_words, COUNT(mlp_words), gpt_names_rest(w));
    if (left == 4 && strcmp(w->word[w->at], "heads") == 0 &&
        gpt_names_number(w->word[w->at + 1], &to->head)) {
        to->is_head = 1;
        w->at += 2;
    }
    enum gpt_role role = role_of(attention_words, COUNT(attention_words), gpt_names_rest(w));
    return to->is_head && role != GPT_Q && role != GPT_K && role != GPT_V ? GPT_NONE : role;
}

int gpt_name_read(const char *name, struct gpt_name *to)
{
    struct words w;
    *to = (struct gpt_name){.role = GPT_NONE};
    if (!split(&w, name))
        return 0;
    while (w.n - w.at > 1 && is_one_of(w.word[w.at], wrappers, COUNT(wrappers)))
        w.at++;
    to->is_bias = take_end(&w);
    to->in_layer = w.n - w.at > 2 && is_one_of(w.word[w.at], layer_parts, COUNT(layer_parts)) &&
                   gpt_names_number(w.word[w.at + 1], &to->layer);
    if (to->in_layer) {
        w.at += 2;
        to->role = in_layer(&w, to);
    } else if (w.n > w.at) {
        to->role = role_of(global_words, COUNT(global_words), gpt_names_rest(&w));
    }
    return to->role != GPT_NONE;
}

int gpt_name_is_mask(const struct state_tensor *t)
{
    static const char *const words[] = {"mask",        "tril",        "bias",
                                        "masked_bias", "causal_mask", "attn_mask"};
    const char *dot = strrchr(t->name, '.'), *last = dot ? dot + 1 : t->name;
    int is_square = t->n_dims >= 2 && t->shape[t->n_dims - 1] == t->shape[t->n_dims - 2];
    int is_scalar = t->n_dims == 0; /* masked_bias */
    return (is_square || is_scalar) && is_one_of(last, words, COUNT(words));
}
