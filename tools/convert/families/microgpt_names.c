/* What the names in microgpt files mean. See microgpt.h.
 *
 * Dots and underscores are the same. A layer's number is before the word ("layer0.attn_wq",
 * "layers.0.wq", "blocks.0.mlp.fc1") or after it ("attn_wq_0"). The words for one role are those
 * that ports and forks use; a word that could mean two roles ("w1") is not among them. An alias is
 * GGUF's name, so a tensor has the same pattern before and after.
 */
#include "convert/families/microgpt_impl.h"

#include <stdio.h>
#include <string.h>

#define OWN(name) name, name
#define OF_LAYER(name) "blk.N." name, "blk.N." name
const struct mg_role_row mg_roles[] = {
    [MG_WTE] = {"wte",
                " wte tok_emb token_emb token_embd token_embedding ",
                {OWN("token_embd"), 'V', 'E', 0}},
    [MG_WPE] = {"wpe",
                " wpe pos_emb position_emb position_embd position_embedding ",
                {OWN("position_embd"), 'T', 'E', STATE_OPTIONAL}},
    [MG_ATTN_NORM] = {"rms_1",
                      " rms_1 rms1 ln_1 ln1 norm_1 norm1 attn_norm rms_att rms_attn ",
                      {OF_LAYER("attn_norm"), 0, 'E', STATE_OPTIONAL}},
    [MG_WQ] = {"attn_wq", " attn_wq attn_q wq ", {OF_LAYER("attn_q"), 'E', 'E', 0}},
    [MG_WK] = {"attn_wk", " attn_wk attn_k wk ", {OF_LAYER("attn_k"), 'K', 'E', 0}},
    [MG_WV] = {"attn_wv", " attn_wv attn_v wv ", {OF_LAYER("attn_v"), 'K', 'E', 0}},
    [MG_WO] = {"attn_wo",
               " attn_wo attn_o attn_output wo ",
               {OF_LAYER("attn_output"), 'E', 'E', 0}},
    [MG_FFN_NORM] = {"rms_2",
                     " rms_2 rms2 ln_2 ln2 norm_2 norm2 ffn_norm mlp_norm rms_ffn rms_mlp ",
                     {OF_LAYER("ffn_norm"), 0, 'E', STATE_OPTIONAL}},
    [MG_GATE] = {"mlp_gate",
                 " mlp_gate ffn_gate gate ",
                 {OF_LAYER("ffn_gate"), 'F', 'E', STATE_OPTIONAL}},
    [MG_FC1] = {"mlp_fc1", " mlp_fc1 mlp_up ffn_up fc1 up ", {OF_LAYER("ffn_up"), 'F', 'E', 0}},
    [MG_FC2] = {"mlp_fc2",
                " mlp_fc2 mlp_down ffn_down fc2 down ",
                {OF_LAYER("ffn_down"), 'E', 'F', 0}},
    [MG_FINAL_NORM] = {"rms_final",
                       " rms_final rms_f ln_f norm_f final_norm norm_final output_norm norm ",
                       {OWN("output_norm"), 0, 'E', STATE_OPTIONAL}},
    [MG_LM_HEAD] = {"lm_head", " lm_head output ", {OWN("output"), 'V', 'E', STATE_OPTIONAL}},
};
_Static_assert(sizeof mg_roles / sizeof *mg_roles == MG_N_ROLES, "a row each");

enum { MAX_WORD = 63 };

static int role_of(const char *word)
{
    for (int role = 0; role < MG_N_ROLES; role++)
        if (ckpt_is_one_of(word, mg_roles[role].words))
            return role;
    return -1;
}

/* The digits at *p as a layer number, *p moved past them; -1 when there are none or too many. */
static int layer_number(const char **p)
{
    int v = 0, n = 0;
    for (; **p >= '0' && **p <= '9'; ++*p, n++)
        if (n < 4)
            v = 10 * v + (**p - '0');
    return n > 0 && n <= 4 && v < CKPT_MAX_LAYERS ? v : -1;
}

/* "layer0_attn_wq": what follows the number, or NULL. */
static const char *layer_first(const char *name, int *layer)
{
    static const char *const prefixes[] = {"layers", "layer", "blocks", "block", "h"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i]);
        const char *p = name + n;
        if (strncmp(name, prefixes[i], n) != 0)
            continue;
        if (*p == '_')
            p++;
        *layer = layer_number(&p);
        if (*layer >= 0 && *p == '_')
            return p + 1;
    }
    return NULL;
}

/* "attn_wq_0": cut before the number. */
static int cut_layer(char *name, int *layer)
{
    char *mark = strrchr(name, '_');
    const char *digits = mark ? mark + 1 : NULL;
    if (!mark)
        return 0;
    *layer = layer_number(&digits);
    if (*layer < 0 || *digits)
        return 0;
    *mark = 0;
    return 1;
}

/* Without ".weight" and what torch modules put in front, dots as underscores; 0 when too long. */
static int simplify(const char *name, char *out)
{
    static const char *const prefixes[] = {"transformer.", "model."};
    for (size_t i = 0; i < 2; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            name += strlen(prefixes[i]);
    size_t n = strlen(name), suffix = strlen(".weight");
    if (n > suffix && strcmp(name + n - suffix, ".weight") == 0)
        n -= suffix;
    if (n > MAX_WORD)
        return 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(name[i] == '.' ? '_' : name[i]);
    out[n] = 0;
    return 1;
}

int mg_recognise(const char *name, uint32_t *layer)
{
    char word[MAX_WORD + 1];
    int number = 0;
    *layer = 0;
    if (!simplify(name, word))
        return -1;
    int role = role_of(word);
    if (role >= 0)
        return mg_of_layer(role) ? -1 : role;
    const char *rest = layer_first(word, &number);
    if (!rest && cut_layer(word, &number))
        rest = word;
    role = rest ? role_of(rest) : -1;
    *layer = (uint32_t)number;
    return mg_of_layer(role) ? role : -1;
}

void mg_role_name(enum mg_role role, uint32_t layer, char buf[32])
{
    if (mg_of_layer((int)role))
        snprintf(buf, 32, "layer%u.%s", layer, mg_roles[role].name);
    else
        snprintf(buf, 32, "%s", mg_roles[role].name);
}
