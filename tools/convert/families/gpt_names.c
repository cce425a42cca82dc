/* The names that programs give to the tensors of a GPT-2. See gpt_names.h.
 *
 *     transformer.h.0.attn.c_attn.weight        blocks.3.sa.heads.1.key.weight        pos_emb
 *     [wrapper] [layer word] N [part] word [end]
 *
 * The words are those of public programs. One that could mean two things ("proj") is taken only
 * inside its part; query_key_value, whose rows GPT-NeoX mixes, and in_proj of
 * nn.MultiheadAttention, which is used in layers that normalise afterwards, are not among them.
 */
#include "convert/families/gpt_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 12, MAX_NAME = 255 };

/* The words of each role, between spaces. */
typedef const char *const word_table[GPT_N_ROLES];

static word_table global_words = {
    [GPT_TOKENS] =
        " wte tok_emb token_emb tok_embd tok_embed token_embed embed_tokens tok_embedding "
        "tok_embeddings token_embedding token_embeddings token_embedding_table ",
    [GPT_POSITIONS] =
        " wpe pos_emb pos_embd pos_embed embed_positions pos_embedding pos_embeddings "
        "position_emb position_embed position_embedding position_embeddings "
        "positional_embedding position_embedding_table ",
    [GPT_FINAL_NORM] =
        " ln_f lnf ln norm norm_f ln_final final_ln final_norm layer_norm final_layer_norm ",
    [GPT_HEAD] = " head lm_head out_head output unembed to_logits fc_out ",
};

static word_table layer_words = {
    [GPT_NORM_1] = " ln_1 ln1 norm1 norm_1 attn_norm ln_attn layer_norm1 layer_norm_1 layernorm1 ",
    [GPT_NORM_2] = " ln_2 ln2 norm2 norm_2 mlp_norm ffn_norm ln_mlp layer_norm2 layer_norm_2 "
                   "layernorm2 ",
};

static word_table attention_words = {
    [GPT_QKV] = " c_attn qkv qkv_proj to_qkv ",
    [GPT_Q] = " query q q_proj wq W_query to_q W_q q_linear ",
    [GPT_K] = " key k k_proj wk W_key to_k W_k k_linear ",
    [GPT_V] = " value v v_proj wv W_value to_v W_v v_linear ",
    [GPT_O] = " c_proj proj out_proj o_proj wo out W_o to_out out_linear projection ",
};

static word_table mlp_words = {
    [GPT_UP] = " c_fc fc1 fc_1 net.0 0 layers.0 fc linear1 linear_1 up up_proj ",
    [GPT_DOWN] = " c_proj fc2 fc_2 net.2 2 layers.2 proj linear2 linear_2 down down_proj ",
};

static const char attention_parts[] =
    " attn sa self_attn attention att mha self_attention sa_head sa_heads ";
static const char mlp_parts[] = " mlp ffwd ffn ff feed_forward feedforward feed_fwd ";
static const char layer_parts[] =
    " h blocks layers block layer trf_blocks transformer_blocks decoder_layers ";
static const char wrappers[] = " transformer model gpt decoder backbone ";

static enum gpt_role role_of(word_table words, const char *word)
{
    for (enum gpt_role role = GPT_NONE; role < GPT_N_ROLES; role++)
        if (ckpt_is_one_of(word, words[role]))
            return role;
    return GPT_NONE;
}

/* ---- a name taken apart ---------------------------------------------------------------------- */

struct words {
    char text[MAX_NAME + 1];
    const char *word[MAX_WORDS];
    size_t n, at; /* at: the first that is not used up */
};

/* 0: too long, or of too many words */
static int split_name(struct words *w, const char *name)
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

/* Takes the word after the last dot off: "weight", "bias". A bare parameter has none. */
static int take_end(struct words *w)
{
    static const char weights[] = " weight scale gamma ";
    static const char biases[] = " bias shift beta ";
    int is_bias = ckpt_is_one_of(w->word[w->n - 1], biases);
    if (w->n > 1 && (is_bias || ckpt_is_one_of(w->word[w->n - 1], weights)))
        w->n--;
    return is_bias;
}

/* "attn", "key": the role; "attn", "heads", "2", "key": of a head. */
static enum gpt_role in_layer(struct words *w, struct gpt_name *to)
{
    size_t left = w->n - w->at;
    if (left == 1)
        return role_of(layer_words, w->word[w->at]);
    int is_mlp = ckpt_is_one_of(w->word[w->at], mlp_parts);
    if (!is_mlp && !ckpt_is_one_of(w->word[w->at], attention_parts))
        return GPT_NONE;
    w->at++;
    if (is_mlp)
        return role_of(mlp_words, gpt_names_rest(w));
    if (left == 4 && strcmp(w->word[w->at], "heads") == 0 &&
        gpt_names_number(w->word[w->at + 1], &to->head)) {
        to->is_head = 1;
        w->at += 2;
    }
    enum gpt_role role = role_of(attention_words, gpt_names_rest(w));
    return to->is_head && role != GPT_Q && role != GPT_K && role != GPT_V ? GPT_NONE : role;
}

int gpt_name_read(const char *name, struct gpt_name *to)
{
    struct words w;
    *to = (struct gpt_name){.role = GPT_NONE};
    if (!split_name(&w, name))
        return 0;
    while (w.n - w.at > 1 && ckpt_is_one_of(w.word[w.at], wrappers))
        w.at++;
    to->is_bias = take_end(&w);
    to->in_layer = w.n - w.at > 2 && ckpt_is_one_of(w.word[w.at], layer_parts) &&
                   gpt_names_number(w.word[w.at + 1], &to->layer);
    if (to->in_layer) {
        w.at += 2;
        to->role = in_layer(&w, to);
    } else if (w.n > w.at) {
        to->role = role_of(global_words, gpt_names_rest(&w));
    }
    return to->role != GPT_NONE;
}

void gpt_name_alias(const struct gpt_name *name, char buf[64])
{
    static const char *const parts[GPT_N_ROLES] = {[GPT_TOKENS] = "token_embd",
                                                   [GPT_POSITIONS] = "position_embd",
                                                   [GPT_FINAL_NORM] = "output_norm",
                                                   [GPT_HEAD] = "output",
                                                   [GPT_NORM_1] = "attn_norm",
                                                   [GPT_QKV] = "attn_qkv",
                                                   [GPT_Q] = "attn_q",
                                                   [GPT_K] = "attn_k",
                                                   [GPT_V] = "attn_v",
                                                   [GPT_O] = "attn_output",
                                                   [GPT_NORM_2] = "ffn_norm",
                                                   [GPT_UP] = "ffn_up",
                                                   [GPT_DOWN] = "ffn_down"};
    char layer[16] = "", head[16] = "";
    if (name->in_layer)
        snprintf(layer, sizeof layer, "blk.%u.", name->layer);
    if (name->is_head)
        snprintf(head, sizeof head, ".%u", name->head);
    snprintf(buf, 64, "%s%s%s.%s", layer, parts[name->role], head,
             name->is_bias ? "bias" : "weight");
}

int gpt_name_is_mask(const struct state_tensor *t)
{
    static const char words[] = " mask tril bias masked_bias causal_mask attn_mask ";
    const char *dot = strrchr(t->name, '.'), *last = dot ? dot + 1 : t->name;
    int is_square = t->n_dims >= 2 && t->shape[t->n_dims - 1] == t->shape[t->n_dims - 2];
    int is_scalar = t->n_dims == 0; /* masked_bias */
    return (is_square || is_scalar) && ckpt_is_one_of(last, words);
}
