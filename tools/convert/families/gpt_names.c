/* The names that programs give to the tensors of a GPT-2. See gpt_names.h.
 *
 *     transformer.h.0.attn.c_attn.weight        blocks.3.sa.heads.1.key.weight        pos_emb
 *     [wrapper] [layer word] N [part] word [end]
 *
 * The words are those of public programs. One that could mean two things ("proj") is taken only
 * inside its part; query_key_value, whose rows GPT-NeoX mixes, is not among them. "w1", "w2", "w3"
 * are Llama's: gate, down, up.
 */
#include "convert/families/gpt_names.h"

#include "common/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 12, MAX_NAME = 255 };

/* The words of each role, between spaces. */
typedef const char *const word_table[GPT_N_ROLES];

static word_table global_words = {
    [GPT_TOKENS] =
        " wte tok tok_emb token_emb tok_embd tok_embed token_embd token_embed embed_tokens "
        "tok_embedding tok_embeddings token_embedding token_embeddings token_embedding_table "
        "embedding_token_table embedding embeddings embed word_embedding word_embeddings "
        "embedding_table embd tokens_embed ",
    [GPT_POSITIONS] =
        " wpe pos pos_emb pos_embd pos_embed pos_enc.pe pe.pe pe embed_positions pos_embedding "
        "pos_embeddings pos_embedding_table pos_encoder.pe pos_encoding pos_encoding.pe "
        "position_emb position_embed position_embedding position_embeddings "
        "position_encoding.position_table position_encoding.pe positional_embedding "
        "positional_embeddings positional_encoding positional_encoding.pe positions_embed "
        "position_embedding_table embedding_position_table ",
    [GPT_FINAL_NORM] = " ln_f lnf ln norm norm_f f_norm ln_final final_ln final_norm layer_norm "
                       "layernorm final_layer_norm norm_final ",
    [GPT_HEAD] = " head lm_head out_head output output_head output_proj output_projection "
                 "output_layer out_proj unembed to_logits fc_out fc final_layer linear lm ",
};

static word_table layer_words = {
    [GPT_NORM_1] = " ln_1 ln1 norm1 norm_1 n1 attn_norm norm_attn ln_attn attention_norm "
                   "layer_norm1 layer_norm_1 layernorm1 layernorm_1 input_layernorm ",
    [GPT_NORM_2] = " ln_2 ln2 norm2 norm_2 n2 mlp_norm ffn_norm ff_norm norm_ff norm_mlp norm_ffn "
                   "ln_mlp ln_ff ln_ffn layer_norm2 layer_norm_2 layernorm2 layernorm_2 "
                   "post_attention_layernorm ",
    [GPT_QKV] = " c_attn qkv qkv_proj to_qkv ",
    [GPT_Q] = " query q q_proj wq query_proj ",
    [GPT_K] = " key k k_proj wk key_proj ",
    [GPT_V] = " value v v_proj wv value_proj ",
    [GPT_O] = " proj out_proj o_proj wo attn_proj ",
    [GPT_UP] = " linear1 fc1 ",
    [GPT_DOWN] = " linear2 fc2 ",
};

static word_table attention_words = {
    [GPT_QKV] = " c_attn qkv qkv_proj to_qkv in_proj ",
    [GPT_Q] = " query q q_proj wq Wq w_q W_query to_q W_q q_linear query_proj get_queries queries "
              "q_lin W_Q query_layer ",
    [GPT_K] = " key k k_proj wk Wk w_k W_key to_k W_k k_linear key_proj get_keys keys k_lin W_K "
              "key_layer ",
    [GPT_V] = " value v v_proj wv Wv w_v W_value to_v W_v v_linear value_proj get_values values "
              "v_lin W_V value_layer ",
    [GPT_O] = " c_proj proj out_proj o_proj wo Wo w_o out W_o to_out out_linear projection fc_out "
              "output_proj output o_lin out_lin W_O fc linear ",
};

static word_table mlp_words = {
    [GPT_UP] = " c_fc fc1 fc_1 net.0 fc.0 0 layers.0 layer.0 fc linear1 linear_1 up up_proj lin1 "
               "network.0 w_up w1 W1 ff.0 mlp.0 ffn.0 ",
    [GPT_DOWN] =
        " c_proj fc2 fc_2 net.2 fc.2 2 layers.2 layer.2 proj linear2 linear_2 down down_proj "
        "lin2 network.2 w_down w2 W2 ff.2 mlp.2 ffn.2 ",
    [GPT_GATE] = " gate gate_proj w_gate w3 W3 ",
};

static const char attention_parts[] =
    " attn sa self_attn attention att mha self_attention sa_head sa_heads multi_head_attention "
    "multihead_attention multi_head_attn self_att sa_heads msa atten causal_attn csa masked_attn "
    "multi_head attention_block attn_block ";
static const char mlp_parts[] = " mlp ffwd ffn ff feed_forward feedforward feed_fwd ";
static const char layer_parts[] =
    " h blocks layers block layer trf_blocks transformer_blocks decoder_layers decoder_blocks "
    "transformer_layers attn_blocks ";
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
    if (w->at + 1 == w->n)
        return w->word[w->at];
    for (size_t i = w->at; i + 1 < w->n; i++)
        w->text[(size_t)(w->word[i] - w->text) + strlen(w->word[i])] = '.';
    return w->at < w->n ? w->word[w->at] : "";
}

/* Takes the word after the last dot off: "weight", "bias"; "in_proj_weight" becomes "in_proj". A
 * bare parameter has none. */
static int take_end(struct words *w)
{
    static const char weights[] = " weight scale gamma ";
    static const char biases[] = " bias shift beta ";
    static const char fused_weight[] = "in_proj_weight", fused_bias[] = "in_proj_bias";
    const char *last = w->word[w->n - 1];
    int is_bias = ckpt_is_one_of(last, biases);
    if (strcmp(last, fused_weight) == 0 || strcmp(last, fused_bias) == 0) {
        w->word[w->n - 1] = "in_proj";
        return strcmp(last, fused_bias) == 0;
    }
    if (w->n > 1 && (is_bias || ckpt_is_one_of(last, weights)))
        w->n--;
    return is_bias;
}

/* "heads", "2", or "2" alone in a list of heads: skips them. */
static void take_head(struct words *w, struct gpt_name *to)
{
    size_t left = w->n - w->at, named = left == 3 && strcmp(w->word[w->at], "heads") == 0;
    if (left == 2 + named && gpt_names_number(w->word[w->at + named], &to->head)) {
        to->is_head = 1;
        w->at += named + 1;
    }
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
    take_head(w, to);
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
                                                   [GPT_DOWN] = "ffn_down",
                                                   [GPT_GATE] = "ffn_gate"};
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

int gpt_name_is_rotation(const char *name)
{
    static const char words[] = " inv_freq freqs_cis freqs_cos freqs_sin cos_cached sin_cached "
                                "rope_cos rope_sin cos_cache sin_cache ";
    const char *dot = strrchr(name, '.');
    return ckpt_is_one_of(dot ? dot + 1 : name, words);
}

/* ---- words like one that is not known -------------------------------------------------------- */

enum { MOST_NEAR = 64, MOST_LETTERS = 32 };

struct near_words {
    char text[MOST_NEAR][MOST_LETTERS];
    const char *word[MOST_NEAR];
    size_t n;
};

static void add_words(struct near_words *to, word_table table)
{
    for (enum gpt_role role = GPT_NONE; role < GPT_N_ROLES; role++)
        for (const char *at = table[role] ? table[role] + 1 : ""; *at && to->n < MOST_NEAR;) {
            size_t n = strcspn(at, " ");
            if (n > 2 && n < MOST_LETTERS) {
                memcpy(to->text[to->n], at, n);
                to->text[to->n][n] = 0;
                to->word[to->n] = to->text[to->n];
                to->n++;
            }
            at += n + (at[n] == ' ');
        }
}

const char *gpt_name_nearest(const char *name, char buf[64])
{
    const struct {
        const char *const *table;
    } all[] = {{attention_words}, {mlp_words}, {layer_words}, {global_words}};
    struct words w;
    if (!split_name(&w, name) || w.n == 0)
        return NULL;
    take_end(&w);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct near_words near = {.n = 0};
        add_words(&near, all[i].table);
        const char *found = cli_nearest(w.word[w.n - 1], near.word, near.n);
        if (found) {
            snprintf(buf, 64, "%s", found);
            return buf;
        }
    }
    return NULL;
}

const char *gpt_name_what(const char *part)
{
    static const struct {
        const char *part, *what;
    } rows[] = {
        {"token_embd.", "the token embedding"},
        {"position_embd.", "the table of positions"},
        {"output_norm.bias", "the bias of the norm before the head"},
        {"output_norm.", "the norm before the head"},
        {"output.", "the head"},
        {"attn_norm.bias", "the bias of the first norm"},
        {"attn_norm.", "the first norm"},
        {"ffn_norm.bias", "the bias of the second norm"},
        {"ffn_norm.", "the second norm"},
        {"attn_q", "the queries"},
        {"attn_k", "the keys"},
        {"attn_v", "the values"},
        {"attn_output.", "the projection of attention"},
        {"ffn_up.", "the first matrix of the MLP"},
        {"ffn_down.", "the second matrix of the MLP"},
        {"ffn_gate.", "the gate of the MLP"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(part, rows[i].part, strlen(rows[i].part)) == 0)
            return rows[i].what;
    return part;
}
