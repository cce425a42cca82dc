/* The names that programs give to the tensors of a GPT-2. See gpt_names.h.
 *
 *     transformer.h.0.attn.c_attn.weight     blocks.3.sa.heads.1.key.weight     pos_emb
 *     [list] N [part] word [end]
 *
 * Parts between dots are taken apart into words at underscores, digits and capitals: "W_query" is
 * "w query", "layerNorm1" is "layer norm 1". A role is known by words that public programs use,
 * whatever is around them. A word that could mean two things ("proj") counts only inside
 * attention or the MLP. A name with words of two roles means nothing here, and the file is refused
 * by it; so is query_key_value, whose rows GPT-NeoX mixes.
 */
#include "convert/families/gpt_names.h"

#include "common/cli.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 12, MAX_NAME = 255 };

/* Words, between spaces. */
static const char norm_words[] = " norm norms ln lnf lnorm rms rmsnorm layernorm ";
static const char first_words[] = " 1 first attn attention att sa input ";
static const char second_words[] = " 2 second mlp ffn ff ffwd feed post ";
static const char attention_part[] =
    " attn attention att atten sa msa mha csa mmha mhsa mh multihead selfattention selfattn ";
static const char mlp_part[] = " mlp ffn ff ffw ffwd ffd feed feedforward fcn ";
static const char query_words[] = " q query queries wq ";
static const char key_words[] = " k key keys wk ";
static const char value_words[] = " v value values wv ";
static const char output_words[] =
    " proj projection projections project out output o wo fc linear dense ";
static const char position_words[] =
    " pos position positions positional positon positionals wpe pe p ";
static const char head_words[] =
    " head lm out output outputs unembed unembedding logits pred predict classifier ";
static const char token_words[] =
    " wte tok token tokens word words emb embd embed embedding embeddings embedder ";

/* ---- a name taken apart ---------------------------------------------------------------------- */

struct name_part {
    char words[2 * MAX_NAME + 2 * MAX_PARTS + 2]; /* " w query " */
};

struct name_parts {
    struct name_part part[MAX_PARTS];
    size_t n;
};

/* The text of n bytes as words. */
static void to_words(struct name_part *to, const char *text, size_t n)
{
    char *out = to->words;
    *out++ = ' ';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i], before = i ? (unsigned char)text[i - 1] : '_';
        int starts = (isupper(c) && islower(before)) ||
                     (!isdigit(c) != !isdigit(before) && isalnum(c) && isalnum(before));
        if ((starts || !isalnum(c)) && out[-1] != ' ')
            *out++ = ' ';
        if (isalnum(c))
            *out++ = (char)tolower(c);
    }
    if (out[-1] != ' ')
        *out++ = ' ';
    *out = 0;
}

/* 0: too long, or of too many parts */
static int split_name(struct name_parts *to, const char *name)
{
    to->n = 0;
    if (strlen(name) > MAX_NAME)
        return 0;
    for (const char *at = name;; to->n++) {
        size_t n = strcspn(at, ".");
        if (to->n == MAX_PARTS)
            return 0;
        to_words(&to->part[to->n], at, n);
        at += n;
        if (!*at++)
            break;
    }
    to->n++;
    return 1;
}

/* Whether a word of the list is in the part. */
static int has_word(const struct name_part *part, const char *list)
{
    char word[MAX_NAME + 1];
    for (const char *at = part->words + 1; *at; at++) {
        size_t n = strcspn(at, " ");
        memcpy(word, at, n);
        word[n] = 0;
        if (n && ckpt_is_one_of(word, list))
            return 1;
        at += n;
    }
    return 0;
}

static int part_is(const struct name_part *part, const char *words)
{
    return strcmp(part->words, words) == 0;
}

/* Whether all of the part is a number. */
static int part_is_number(const struct name_part *part, uint32_t *v)
{
    const char *text = part->words + 1;
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 4 || strcmp(text + n, " ") != 0)
        return 0;
    *v = (uint32_t)strtoul(text, NULL, 10);
    return 1;
}

/* Takes the part after the last dot off: "weight", "bias"; "in_proj_weight" is the fused matrix of
 * PyTorch's attention. A bare parameter has none. */
static void take_end(struct name_parts *p, struct gpt_name *to)
{
    const struct name_part *last = &p->part[p->n - 1];
    int is_fused = part_is(last, " in proj weight ") || part_is(last, " in proj bias ");
    to->is_bias = has_word(last, " bias shift beta ");
    if (is_fused)
        to_words(&p->part[p->n - 1], "qkv", 3);
    else if (p->n > 1 &&
             (part_is(last, " weight ") || part_is(last, " scale ") || part_is(last, " gamma ") ||
              part_is(last, " bias ") || part_is(last, " shift ") || part_is(last, " beta ")))
        p->n--;
    else
        to->is_bare = 1;
}

/* ---- roles ----------------------------------------------------------------------------------- */

/* Which of the norms of a layer. */
static enum gpt_role norm_role(const struct name_part *part)
{
    int second = has_word(part, second_words), first = !second && has_word(part, first_words);
    return second ? GPT_NORM_2 : first ? GPT_NORM_1 : GPT_NONE;
}

static enum gpt_role qkv_role(const struct name_part *part)
{
    int q = has_word(part, query_words), k = has_word(part, key_words),
        v = has_word(part, value_words);
    if (part_is(part, " c attn ") || part_is(part, " in proj ") || has_word(part, " qkv "))
        return q + k + v ? GPT_NONE : GPT_QKV;
    if (q + k + v > 1)
        return GPT_NONE;
    return q ? GPT_Q : k ? GPT_K : v ? GPT_V : GPT_NONE;
}

static enum gpt_role attention_role(const struct name_part *part)
{
    enum gpt_role role = qkv_role(part);
    if (has_word(part, norm_words))
        return GPT_NONE;
    return role == GPT_NONE && has_word(part, output_words) ? GPT_O : role;
}

/* A number is that of a layer in nn.Sequential: its shape says which; `by_shape` is set. */
static enum gpt_role mlp_role(const struct name_part *part, struct gpt_name *to)
{
    uint32_t n;
    if (has_word(part, norm_words))
        return GPT_NONE;
    if (part_is_number(part, &n)) {
        to->by_shape = 1;
        return n == 0 ? GPT_UP : GPT_DOWN;
    }
    if (has_word(part, " gate "))
        return GPT_GATE;
    if (part_is(part, " w 1 ") || part_is(part, " w 2 ") || part_is(part, " w 3 ")) {
        to->by_shape = 1;
        return part_is(part, " w 2 ") ? GPT_DOWN : GPT_UP;
    }
    if (part_is(part, " c fc ") || has_word(part, " up ") || has_word(part, " 1 "))
        return GPT_UP;
    if (part_is(part, " c proj ") || has_word(part, " down ") || has_word(part, " 2 "))
        return GPT_DOWN;
    to->by_shape = 1;
    return has_word(part, " fc in hidden expand ")                     ? GPT_UP
           : has_word(part, " proj out output projection contract l ") ? GPT_DOWN
                                                                       : GPT_NONE;
}

/* A word of the layer itself, without a part. */
static enum gpt_role direct_role(const struct name_part *part, struct gpt_name *to)
{
    enum gpt_role role = qkv_role(part);
    to->is_attention = to->by_shape = role == GPT_QKV;
    if (role != GPT_NONE)
        return role;
    if (has_word(part, mlp_part) || has_word(part, " up down gate ") ||
        part_is(part, " linear 1 ") || part_is(part, " fc 1 ") || part_is(part, " linear 2 ") ||
        part_is(part, " fc 2 "))
        return mlp_role(part, to);
    return has_word(part, " proj o wo ") ? GPT_O : GPT_NONE;
}

static int is_attention_part(const struct name_part *part)
{
    return has_word(part, attention_part) || has_word(part, " head heads self ");
}

/* "attn", "heads", "2", "key": n parts of which the first is attention. */
static enum gpt_role in_attention(const struct name_part *r, size_t n, struct gpt_name *to)
{
    uint32_t number;
    if (n > 2 && part_is_number(&r[n - 1], &number)) /* "to_out.0", in nn.Sequential */
        n--;
    for (size_t i = 0; i + 1 < n; i++)
        if (!is_attention_part(&r[i]) && !part_is_number(&r[i], &number))
            return GPT_NONE;
    enum gpt_role role = attention_role(&r[n - 1]);
    to->is_attention = 1;
    to->by_shape = role == GPT_QKV;
    to->is_head = n > 2 && part_is_number(&r[n - 2], &to->head);
    return to->is_head && role != GPT_Q && role != GPT_K && role != GPT_V ? GPT_NONE : role;
}

/* From part `at` on: the role in a layer. */
static enum gpt_role in_layer(const struct name_parts *p, size_t at, struct gpt_name *to)
{
    const struct name_part *r = &p->part[at], *last = &p->part[p->n - 1];
    size_t n = p->n - at;
    int attends = 0, is_mlp = 0;
    if (has_word(r, norm_words) || part_is(r, " n 1 ") || part_is(r, " n 2 "))
        return n == 1 || (n == 2 && has_word(last, norm_words)) ? norm_role(r) : GPT_NONE;
    if (n == 1)
        return direct_role(r, to);
    for (size_t i = 0; i + 1 < n; i++) {
        attends |= is_attention_part(&r[i]);
        is_mlp |= has_word(&r[i], mlp_part);
    }
    if (attends == is_mlp)
        return GPT_NONE;
    return is_mlp ? mlp_role(last, to) : in_attention(r, n, to);
}

/* A tensor outside the layers. A matrix that is no embedding is the head. */
static enum gpt_role global_role(const struct name_parts *p, const struct state_tensor *t,
                                 struct gpt_name *end)
{
    struct name_part all = {" "};
    size_t n = 1;
    for (size_t i = 0; i < p->n; i++) {
        const char *words = p->part[i].words + 1;
        memcpy(all.words + n, words, strlen(words) + 1); /* no longer than the name's words */
        n += strlen(words);
    }
    const struct name_part *last = &p->part[p->n - 1];
    int is_norm = has_word(&all, norm_words), is_token = has_word(&all, token_words);
    int is_position =
        has_word(&all, position_words) && !has_word(last, " wte tok token tokens word ");
    if (has_word(&all, attention_part) || has_word(&all, mlp_part))
        return GPT_NONE;
    uint32_t number;
    if (p->n > 1 && part_is_number(last, &number)) /* of nn.Sequential: a norm, or the head */
        end->by_shape = 1;
    if (t->n_dims == 1 && !end->is_bias && end->by_shape)
        return GPT_FINAL_NORM;
    if (t->n_dims == 1 && is_norm)
        return is_token || is_position || has_word(&all, " pre in input ") ? GPT_NONE
                                                                           : GPT_FINAL_NORM;
    if (t->n_dims == 1)
        return end->is_bias && !is_position ? GPT_HEAD : GPT_NONE;
    if (is_position)
        return GPT_POSITIONS;
    if (t->n_dims != 2)
        return GPT_NONE;
    return is_token && !has_word(&all, head_words) ? GPT_TOKENS : GPT_HEAD;
}

/* A list of heads right after the blocks' place is no list of layers. */
static int is_layer_list(const struct name_parts *p, size_t number)
{
    const struct name_part *list = &p->part[number - 1];
    return p->n - number > 2 || has_word(&p->part[number + 1], norm_words) ||
           (!has_word(list, attention_part) && !has_word(list, " head heads "));
}

int gpt_name_read(const struct state_tensor *t, struct gpt_name *to)
{
    struct name_parts p;
    *to = (struct gpt_name){.role = GPT_NONE};
    if (!split_name(&p, t->name))
        return 0;
    take_end(&p, to);
    for (size_t i = 1; i + 1 < p.n && !to->in_layer; i++)
        if (part_is_number(&p.part[i], &to->layer) && is_layer_list(&p, i)) {
            to->in_layer = 1;
            to->role = in_layer(&p, i + 1, to);
        }
    if (!to->in_layer)
        to->role = global_role(&p, t, to);
    return to->role != GPT_NONE || to->by_shape;
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

const char *gpt_name_nearest(const char *name, char buf[64])
{
    static const char *const words[] = {
        "query", "key",      "value", "queries",   "keys",     "values", "qkv",
        "proj",  "out_proj", "attn",  "attention", "mlp",      "norm",   "gate",
        "up",    "down",     "token", "pos",       "position", "embed",  "embedding"};
    struct name_parts p;
    struct gpt_name end;
    if (!split_name(&p, name))
        return NULL;
    take_end(&p, &end);
    for (size_t i = p.n; i > 0 && i--;)
        for (const char *at = p.part[i].words + 1; *at;) {
            char word[32];
            size_t n = strcspn(at, " ");
            snprintf(word, sizeof word, "%.*s", (int)(n < 31 ? n : 31), at);
            const char *found =
                n > 2 ? cli_nearest(word, words, sizeof words / sizeof *words) : NULL;
            if (found && strcmp(found, word) != 0) {
                snprintf(buf, 64, "%s", found);
                return buf;
            }
            at += n + 1;
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
