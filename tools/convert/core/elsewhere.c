/* What another program makes of the file: llama.cpp ignores keys that it does not know, and would
 * run the model wrongly without an error. See write.h.
 *
 * Architectures that llama.cpp does not know (names of ours) it refuses by itself. It reads
 * attention.scale for Granite only; for Gemma 3 of 62 layers and Gemma 2 of 46 it computes the same
 * number. A
 * tokenizer that normalises (mgpt.tokenizer.nfc) it never reproduces, in files of its own either:
 * no note.
 */
#include "base/mem.h"
#include "convert/core/write.h"
#include "model/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct names {
    char text[120];
    size_t n;
};

static void names_add(struct names *to, const char *key, size_t n)
{
    size_t left = sizeof to->text - to->n;
    int used = snprintf(to->text + to->n, left, "%s%.*s", to->n ? ", " : "", (int)n, key);
    if (used > 0)
        to->n += (size_t)used < left ? (size_t)used : left - 1;
}

static int is_known(const char *arch)
{
    return arch && !ckpt_is_one_of(arch, " microgpt nanochat gptj gpt1 biogpt ");
}

/* OLMo 3's pattern, which llama.cpp knows. */
static int is_olmo3(const struct ckpt_hparams *hp)
{
    int same = strcmp(hp->arch, "olmo2") == 0 && hp->window > 0;
    for (uint32_t i = 0; same && hp->windows && i < hp->n_layer; i++)
        same = hp->windows[i] == ((i + 1) % 4 ? (int32_t)hp->window : 0);
    return same;
}

static void names_of_model(struct names *to, const struct ckpt_hparams *hp,
                           const struct ckpt_vocab *v)
{
    const struct arch *arch = arch_find(hp->arch, strlen(hp->arch));
    float wide = hp->n_layer && hp->n_layer == arch->wide_scale
                     ? (float)(1 / sqrt((double)(hp->n_embd / hp->n_head)))
                     : 0;
    int computes_scale = strncmp(hp->arch, "granite", 7) == 0 || hp->attn_scale == wide;
    int has_window = strncmp(hp->arch, "gemma", 5) == 0 || strcmp(hp->arch, "cohere2") == 0;
    int has_local = strcmp(hp->arch, "gemma3") == 0 ||
                    (arch->local_unscaled && hp->rope_base_local == hp->rope_base);
    int has_cap = strcmp(hp->arch, "gemma2") == 0;
    const struct {
        const char *key;
        int written;
    } keys[] = {
        {"mgpt.activation", hp->activation != NULL},
        {"mgpt.final_norm", hp->no_final_norm},
        {"mgpt.attention.no_rope_every", hp->no_rope_every > 0},
        {"mgpt.attention.windows", hp->windows && !is_olmo3(hp)},
        {"attention.sliding_window", hp->window && !hp->windows && !has_window},
        {"attn_logit_softcapping", hp->attn_softcap > 0 && !has_cap},
        {"rope.freq_base_swa", hp->rope_base_local > 0 && !has_local},
        {"attention.scale", hp->attn_scale > 0 && !computes_scale},
        {"expert_weights_norm", hp->expert_norm != 0},
        {"mgpt.tokenizer.whole_pieces", v->whole_pieces >= 0},
        {"mgpt.tokenizer.ranked", v->ranked},
        {"mgpt.tokenizer.space_missing", v->space_missing},
        {"mgpt.tokenizer.space_first", v->space_first},
        {"mgpt.tokenizer.space_alone", v->space_alone},
        {"mgpt.tokenizer.user_pieces", v->user_pieces},
        {"mgpt.tokenizer.drops_unknown", v->drops_unknown},
        {"mgpt.tokenizer.scores", v->doubles != NULL},
        {"mgpt.tokenizer.graphemes", v->graphemes},
        {"mgpt.tokenizer.before", v->before != NULL},
        {"mgpt.tokenizer.after", v->after != NULL},
        {"mgpt.tokenizer.end_token_ids", v->ends != NULL},
        {"mgpt.tokenizer.lstrip", v->lstrip != NULL},
        {"mgpt.tokenizer.rstrip", v->rstrip != NULL},
        {"mgpt.tokenizer.literal", v->literal != NULL},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].written)
            names_add(to, keys[i].key, strlen(keys[i].key));
}

static void names_of_copy(struct names *to, const struct gguf *g)
{
    static const char own[] = "mgpt.", harmless[] = "mgpt.tokenizer.nfc";
    for (size_t i = 0; i < arr_len(g->kv); i++) {
        const struct gguf_str *key = &g->kv[i].key;
        if (key->n >= sizeof own && memcmp(key->p, own, sizeof own - 1) == 0 &&
            !(key->n == sizeof harmless - 1 && memcmp(key->p, harmless, key->n) == 0))
            names_add(to, key->p, key->n);
    }
}

/* A tokenizer.ggml.model that llama.cpp refuses. */
static int has_own_tokenizer(const struct checkpoint *c)
{
    struct gguf_str model = {"", 0};
    if (!c->metadata)
        return c->vocab.model && strncmp(c->vocab.model, "mgpt-", 5) == 0;
    return gguf_string(c->metadata, "tokenizer.ggml.model", &model, NULL) > 0 && model.n > 5 &&
           memcmp(model.p, "mgpt-", 5) == 0;
}

void ckpt_note_elsewhere(struct checkpoint *c)
{
    struct names names = {"", 0};
    if (!is_known(c->hp.arch) || has_own_tokenizer(c))
        return;
    if (c->metadata)
        names_of_copy(&names, c->metadata);
    else
        names_of_model(&names, &c->hp, &c->vocab);
    if (names.n)
        ckpt_note(c, "llama.cpp ignores %s and would run this file wrongly without an error",
                  names.text);
}
