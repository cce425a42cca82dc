/* Mixtures of element types, as llama-quantize makes them. See mixtures.h.
 *
 * A rule says which type the matrices of one kind get in one mixture, and which other one those of
 * some layers get. Values, second projections of MLPs and the output are rounded less.
 */
#include "convert/core/mixtures.h"

#include "base/mem.h"
#include "convert/core/write.h"
#include "tokenizer/tok_regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { Q2 = DTYPE_Q2_K, Q3 = DTYPE_Q3_K, Q4 = DTYPE_Q4_K, Q5 = DTYPE_Q5_K, Q6 = DTYPE_Q6_K };

enum kind { KIND_V, KIND_K, KIND_O, KIND_DOWN, KIND_HEAD, KIND_TOKENS, KIND_OTHER };

/* Layers, of n, whose matrices get the second type of a rule. */
enum layers {
    NO_LAYER,
    FIRST_2,
    FIRST_4,
    FIRST_8TH,
    FIRST_16TH,
    MORE_BITS,  /* the first and the last eighth, and each third between */
    IF_GROUPED, /* all, if a KV head has four query heads or more */
};

enum mixture_id { Q2_K, Q2_K_S, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M };

static const struct ckpt_mixture mixtures[] = {
    [Q2_K] = {"q2_k", 10, Q2, 0},     [Q2_K_S] = {"q2_k_s", 21, Q2, 1},
    [Q3_K_S] = {"q3_k_s", 11, Q3, 0}, [Q3_K_M] = {"q3_k_m", 12, Q3, 0},
    [Q3_K_L] = {"q3_k_l", 13, Q3, 0}, [Q4_K_S] = {"q4_k_s", 14, Q4, 0},
    [Q4_K_M] = {"q4_k_m", 15, Q4, 0}, [Q5_K_S] = {"q5_k_s", 16, Q5, 0},
    [Q5_K_M] = {"q5_k_m", 17, Q5, 0},
};
enum { N_MIXTURES = sizeof mixtures / sizeof *mixtures };

/* The first rule that fits counts; without one it is the mixture's base. `of`: all models, those of
 * eight experts, Falcon, or the rest. */
enum of_models { OF_ALL, OF_8_EXPERTS, OF_FALCON, OF_OTHERS };
static const struct rule {
    enum mixture_id mixture;
    enum kind kind;
    enum of_models of;
    uint32_t type, other;
    enum layers layers; /* that get the other */
} rules[] = {
    {Q2_K, KIND_V, OF_ALL, Q3, Q4, IF_GROUPED},
    {Q2_K_S, KIND_V, OF_ALL, Q2, Q4, IF_GROUPED},
    {Q3_K_M, KIND_V, OF_ALL, Q4, Q5, FIRST_2},
    {Q3_K_L, KIND_V, OF_ALL, Q5, Q5, NO_LAYER},
    {Q4_K_S, KIND_V, OF_ALL, Q4, Q5, FIRST_4},
    {Q4_K_M, KIND_V, OF_ALL, Q4, Q6, MORE_BITS},
    {Q5_K_M, KIND_V, OF_ALL, Q5, Q6, MORE_BITS},
    {Q2_K, KIND_DOWN, OF_ALL, Q3, Q3, NO_LAYER},
    {Q2_K_S, KIND_DOWN, OF_ALL, Q2, Q4, FIRST_8TH},
    {Q3_K_M, KIND_DOWN, OF_FALCON, Q3, Q4, MORE_BITS},
    {Q3_K_M, KIND_DOWN, OF_ALL, Q4, Q5, FIRST_16TH},
    {Q3_K_L, KIND_DOWN, OF_FALCON, Q4, Q4, NO_LAYER},
    {Q3_K_L, KIND_DOWN, OF_ALL, Q5, Q5, NO_LAYER},
    {Q4_K_S, KIND_DOWN, OF_FALCON, Q4, Q4, NO_LAYER},
    {Q4_K_S, KIND_DOWN, OF_ALL, Q4, Q5, FIRST_8TH},
    {Q4_K_M, KIND_DOWN, OF_FALCON, Q4, Q5, MORE_BITS},
    {Q4_K_M, KIND_DOWN, OF_ALL, Q4, Q6, MORE_BITS},
    {Q5_K_M, KIND_DOWN, OF_ALL, Q5, Q6, MORE_BITS},
    {Q2_K, KIND_O, OF_8_EXPERTS, Q5, Q5, NO_LAYER},
    {Q3_K_S, KIND_O, OF_8_EXPERTS, Q5, Q5, NO_LAYER},
    {Q3_K_M, KIND_O, OF_8_EXPERTS, Q5, Q5, NO_LAYER},
    {Q4_K_S, KIND_O, OF_8_EXPERTS, Q5, Q5, NO_LAYER},
    {Q4_K_M, KIND_O, OF_8_EXPERTS, Q5, Q5, NO_LAYER},
    {Q2_K, KIND_O, OF_OTHERS, Q3, Q3, NO_LAYER},
    {Q3_K_M, KIND_O, OF_OTHERS, Q4, Q4, NO_LAYER},
    {Q3_K_L, KIND_O, OF_OTHERS, Q5, Q5, NO_LAYER},
    {Q3_K_L, KIND_O, OF_FALCON, Q4, Q4, NO_LAYER},
};

const struct ckpt_mixture *ckpt_mixture_at(size_t i)
{
    return i < N_MIXTURES ? &mixtures[i] : NULL;
}

const struct ckpt_mixture *ckpt_mixture_named(const char *name)
{
    for (size_t i = 0; i < N_MIXTURES; i++)
        if (strcasecmp(mixtures[i].name, name) == 0)
            return &mixtures[i];
    return NULL;
}

/* ---- the model ------------------------------------------------------------------------------- */

struct shape {
    int is_falcon, is_70b, is_tied, is_grouped;
    size_t n_layer, n_expert, n_values; /* n_values: matrices of KIND_V */
};

/* A number of the model; the first of a list, `absent` if there is none. */
static uint64_t model_number(const struct checkpoint *c, const char *name, uint64_t stated,
                             uint64_t absent)
{
    char key[128];
    double v;
    if (!c->metadata)
        return stated ? stated : absent;
    snprintf(key, sizeof key, "%s.%s", c->hp.arch, name);
    const struct gguf_kv *kv = gguf_find(c->metadata, key);
    return kv && kv->n > 0 && gguf_number(kv, 0, &v) && v >= 0 && v < 1e9 ? (uint64_t)v : absent;
}

static int name_has(const struct ckpt_tensor *t, const char *part)
{
    return strstr(t->name, part) != NULL;
}

static enum kind kind_of(const struct ckpt_tensor *t)
{
    if (strcmp(t->name, "output.weight") == 0)
        return KIND_HEAD;
    if (strcmp(t->name, "token_embd.weight") == 0)
        return KIND_TOKENS;
    if (name_has(t, "attn_qkv.weight") || name_has(t, "attn_kv_b.weight") ||
        name_has(t, "attn_v.weight"))
        return KIND_V;
    return name_has(t, "attn_k.weight")        ? KIND_K
           : name_has(t, "attn_output.weight") ? KIND_O
           : name_has(t, "ffn_down")           ? KIND_DOWN
                                               : KIND_OTHER;
}

/* The number in blk.N., 0 elsewhere. */
static size_t layer_of(const struct ckpt_tensor *t)
{
    return strncmp(t->name, "blk.", 4) == 0 ? strtoul(t->name + 4, NULL, 10) : 0;
}

/* Matrices of KIND_V in layers before `layer`: its place among them. */
static size_t count_values(const struct checkpoint *c, size_t layer)
{
    size_t n = 0;
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        n += kind_of(&c->tensors[i]) == KIND_V && layer_of(&c->tensors[i]) < layer;
    return n;
}

static struct shape shape_of(const struct checkpoint *c)
{
    const struct ckpt_hparams *hp = &c->hp;
    uint64_t kv = hp->kv_heads ? (uint64_t)hp->kv_heads[0] : hp->n_head_kv;
    uint64_t most = hp->heads ? (uint64_t)hp->heads[0] : hp->n_head;
    uint64_t heads = model_number(c, "attention.head_count", most, 0);
    uint64_t kv_heads = model_number(c, "attention.head_count_kv", kv, hp->kv_heads ? 0 : heads);
    struct shape s = {.is_falcon = strcmp(hp->arch, "falcon") == 0,
                      .is_tied = 1,
                      .is_grouped = kv_heads > 0 && heads / kv_heads >= 4,
                      .n_layer = (size_t)model_number(c, "block_count", hp->n_layer, 0),
                      .n_expert = (size_t)model_number(c, "expert_count", hp->n_expert, 0),
                      .n_values = count_values(c, SIZE_MAX)};
    s.is_70b = strcmp(hp->arch, "llama") == 0 && s.n_layer == 80 && heads != kv_heads;
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        s.is_tied &= kind_of(&c->tensors[i]) != KIND_HEAD;
    return s;
}

/* ---- the rules ------------------------------------------------------------------------------- */

static int layer_is_in(enum layers layers, const struct shape *s, size_t i, size_t n)
{
    switch (layers) {
    case FIRST_2:
        return i < 2;
    case FIRST_4:
        return i < 4;
    case FIRST_8TH:
        return i < n / 8;
    case FIRST_16TH:
        return i < n / 16;
    case MORE_BITS:
        return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case IF_GROUPED:
        return s->is_grouped;
    default:
        return 0;
    }
}

static int is_of(enum of_models of, const struct shape *s)
{
    return of == OF_ALL || (of == OF_FALCON && s->is_falcon) ||
           (of == OF_8_EXPERTS && s->n_expert == 8 && !s->is_falcon) ||
           (of == OF_OTHERS && s->n_expert != 8 && !s->is_falcon);
}

/* By the first rule; layer i of n. */
static uint32_t ruled(const struct ckpt_mixture *m, const struct shape *s, enum kind kind, size_t i,
                      size_t n)
{
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        const struct rule *r = &rules[k];
        if (m != &mixtures[r->mixture] || kind != r->kind || !is_of(r->of, s))
            continue;
        int is_first = s->is_falcon && kind == KIND_DOWN && layer_is_in(FIRST_16TH, s, i, n);
        if (is_first && r->mixture == Q3_K_M) /* Falcon's first sixteenth has more than the rest */
            return Q5;
        if (is_first && r->mixture == Q4_K_M)
            return Q6;
        return layer_is_in(r->layers, s, i, n) ? r->other : r->type;
    }
    return m->base;
}

static uint32_t mixed(const struct checkpoint *c, const struct ckpt_mixture *m,
                      const struct shape *s, const struct ckpt_tensor *t)
{
    enum kind kind = kind_of(t);
    size_t i = kind == KIND_V ? count_values(c, layer_of(t)) : layer_of(t);
    if (kind == KIND_HEAD || (kind == KIND_TOKENS && s->is_tied))
        return s->is_falcon || t->dims[0] % Q6_K_BLOCK ? DTYPE_Q8_0 : Q6;
    if (s->n_expert == 8 && (kind == KIND_V || kind == KIND_K))
        return DTYPE_Q8_0;
    uint32_t type = ruled(m, s, kind, i, kind == KIND_V ? s->n_values : s->n_layer);
    return s->is_70b && kind == KIND_V && (type == Q3 || type == Q4) ? (uint32_t)Q5 : type;
}

void ckpt_mix_types(struct checkpoint *c, const struct ckpt_mixture *mixture)
{
    const struct shape s = shape_of(c);
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        c->tensors[i].asked = dtype_find(mixed(c, mixture, &s, &c->tensors[i]));
    c->file_type = mixture->file_type;
    c->is_retyped = 1;
}

/* ---- types by name --------------------------------------------------------------------------- */

int64_t ckpt_name_types(struct checkpoint *c, const char *pattern, const struct dtype *type,
                        mgpt_error *err)
{
    struct tok_regex *r = regex_open((struct gguf_str){pattern, strlen(pattern)}, err);
    struct span_part *parts = NULL;
    int64_t n = 0;
    if (!r)
        return MGPT_EFILE;
    for (size_t i = 0; i < arr_len(c->tensors) && n >= 0; i++) {
        struct ckpt_tensor *t = &c->tensors[i];
        int status = regex_parts(r, t->name, strlen(t->name), &parts, err), is_found = 0;
        for (size_t k = 0; status == MGPT_OK && k < arr_len(parts); k++)
            is_found |= parts[k].is_match;
        if (status < 0)
            n = status;
        if (!is_found || !ckpt_has_choice(t))
            continue;
        n++;
        if (!t->is_named)
            t->asked = type;
        t->is_named = 1;
    }
    arr_free(parts);
    regex_close(r);
    c->is_retyped |= n > 0;
    return n;
}
