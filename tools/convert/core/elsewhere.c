/* What another program makes of the file: llama.cpp ignores keys that it does not know, or reads for other
 * architectures only, and would run the model wrongly without an error. See write.h.
 *
 * Architectures that llama.cpp does not know it refuses by itself. A tokenizer that normalises
 * (mgpt.tokenizer.nfc) it never reproduces, in files of its own either: no note.
 */
#include "base/mem.h"
#include "convert/core/write.h"
#include "model/arch.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct names {
    char text[240];
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
    return arch && !ckpt_is_one_of(arch, " microgpt nanochat gptj gpt1 biogpt helium vaultgemma "
                                         "persimmon hyperclovax flint kolibri1 lfm3 beam "
                                         "cohere_compass modernbert-decoder ");
}

/* llama.cpp's period of layers with a window, the last one without, where it is its own and no key; 0:
 * there is none. */
static uint32_t own_period(const struct ckpt_hparams *hp)
{
    if (strcmp(hp->arch, "exaone4") == 0)
        return hp->n_layer == 64 ? 4 : 0;
    return strcmp(hp->arch, "olmo2") == 0 && hp->window > 0 ? 4 : 0;
}

static int has_own_windows(const struct ckpt_hparams *hp)
{
    const uint32_t period = own_period(hp);
    int same = period > 0;
    for (uint32_t i = 0; same && hp->windows && i < hp->n_layer; i++)
        same = hp->windows[i] == ((i + 1) % period ? (int32_t)hp->window : 0);
    return same;
}

/* What llama.cpp computes for Gemma 3 of 62 layers and Gemma 2 of 46 without a key; 0: what it does
 * for all. */
static float own_scale(const struct ckpt_hparams *hp, const struct arch *a)
{
    if (hp->n_layer == 0 || hp->n_head == 0 || hp->n_layer != a->wide_scale)
        return 0;
    return (float)(1 / sqrt((double)(hp->n_embd / hp->n_head)));
}

/* The factors that llama.cpp has for MiniCPM3 in place of keys, those of the published model. */
static int has_own_factors(const struct ckpt_hparams *hp)
{
    return strcmp(hp->arch, "minicpm3") == 0 && hp->embd_scale == 12 &&
           fabsf(hp->residual_scale - 1.4F / sqrtf((float)hp->n_layer)) < 1e-6F &&
           hp->logit_scale == (float)hp->n_embd / 256;
}

/* Groups of experts count by their largest softmax, as in DeepSeek-V2; llama.cpp adds up the two largest. */
static int has_softmax_groups(const struct ckpt_hparams *hp, const struct arch *a)
{
    enum { SIGMOID = 2 };
    int by_default = hp->expert_sigmoid == 0 && a && a->expert_sigmoid;
    return hp->expert_groups > 1 && hp->expert_sigmoid != SIGMOID && !by_default;
}

/* A row for each key that changes logits and that llama.cpp reads for some of its architectures only, tried
 * with its release b11739: those; whether the file has the key, with a value that has an effect. */
static void names_of_facts(struct names *to, const struct ckpt_hparams *hp)
{
    const struct arch *a = arch_find(hp->arch, strlen(hp->arch));
    const int norm = a && a->expert_norm, factors = has_own_factors(hp);
    const struct {
        const char *key, *read_for;
        int written;
    } facts[] = {
        {"mgpt.attention.windows", "", hp->windows && !has_own_windows(hp)},
        {"attention.sliding_window",
         " afmoe cohere2 cohere2moe exaone-moe gemma2 gemma3 gemma4 gpt-oss granite_swa "
         "laguna lfm2 mellum mimo2 olmo2 ",
         hp->window && !hp->windows && !has_own_windows(hp)},
        {"attention.scale", " granite granite_swa granitemoe ",
         hp->attn_scale > 0 && a && hp->attn_scale != own_scale(hp, a)},
        {"attention.clamp_kqv", " dbrx mpt olmo ", hp->qkv_clamp > 0},
        {"attention.max_alibi_bias", " mpt ", hp->alibi > 0 && a && hp->alibi != (float)a->alibi},
        {"attn_logit_softcapping", " gemma2 ", hp->attn_softcap > 0},
        {"final_logit_softcapping", " gemma2 gemma3 gemma4 ", hp->logit_softcap > 0},
        {"embedding_scale", " granite granite_swa granitemoe minicpm ",
         hp->embd_scale > 0 && !factors},
        {"residual_scale", " granite granite_swa granitemoe minicpm ",
         hp->residual_scale > 0 && !factors},
        {"logit_scale", " cohere2 cohere2moe command-r granite granite_swa granitemoe minicpm ",
         hp->logit_scale > 0 && !factors},
        {"rope.freq_base_swa", " afmoe exaone-moe gemma2 gemma3 gemma4 laguna mellum mimo2 ",
         hp->rope_base_local > 0 &&
             !(a && a->local_unscaled && hp->rope_base_local == hp->rope_base)},
        {"rope.dimension_count_swa", " gemma4 laguna ", hp->n_rot_swa > 0},
        {"rope.scaling.yarn_beta_fast", "", hp->rope_beta_fast > 0 && hp->rope_beta_fast != 32},
        {"rope.scaling.yarn_beta_slow", "", hp->rope_beta_slow > 0 && hp->rope_beta_slow != 1},
        {"swiglu_limit", "", hp->glu_limit > 0 && a && hp->glu_limit != (float)a->glu_limit},
        {"expert_weights_scale",
         " afmoe bailingmoe bailingmoe2 cohere2moe deepseek2 dots1 exaone-moe glm4moe hunyuan-moe "
         "hy_v3 laguna ",
         hp->expert_scale > 0 && hp->expert_scale != 1},
        {"expert_jitter", "", hp->expert_jitter > 0},
        {"that expert groups count by their maximum", "", has_softmax_groups(hp, a)},
        {"expert_weights_norm",
         " afmoe bailingmoe bailingmoe2 cohere2moe deepseek2 dots1 exaone-moe glm4moe hy_v3 "
         "laguna ",
         hp->expert_norm != 0 && (hp->expert_norm > 0) != norm},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i].written && !ckpt_is_one_of(hp->arch, facts[i].read_for))
            names_add(to, facts[i].key, strlen(facts[i].key));
}

/* Rows of vocab_keys.h that are IGNORED. */
#define IGNORED_KEY(kind, type, field, none, key, note) IGNORED_ROW_##note(kind, field, key)
#define IGNORED_ROW_(kind, field, key)
#define IGNORED_ROW_IGNORED(kind, field, key) {key, IGNORED_##kind(v->field)},
#define IGNORED_CHOICE(v) (v) >= 0
#define IGNORED_SWITCH(v) (v)
#define IGNORED_IDS(v) (v) != NULL
#define IGNORED_DOUBLES(v) (v) != NULL

static void names_of_model(struct names *to, const struct ckpt_hparams *hp,
                           const struct ckpt_vocab *v)
{
    const struct {
        const char *key;
        int written;
    } keys[] = {{"mgpt.activation", hp->activation != NULL},
                {"mgpt.final_norm", hp->no_final_norm},
                {"mgpt.attention.no_rope_every", hp->no_rope_every > 0},
                {"mgpt.rope.yarn_truncate", hp->yarn_exact},
                VOCAB_KEYS(IGNORED_KEY)};
    names_of_facts(to, hp);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].written)
            names_add(to, keys[i].key, strlen(keys[i].key));
}

/* ---- a GGUF file that is copied ------------------------------------------------------------------ */

/* A number of the file; 0: the key is not there, or is no number that a float can be near. */
static double copied(const struct gguf *g, const char *arch, const char *name)
{
    char key[128];
    double v;
    snprintf(key, sizeof key, "%s.%s", arch, name);
    const struct gguf_kv *kv = gguf_find(g, key);
    return kv && gguf_number(kv, 0, &v) > 0 && fabs(v) <= (double)FLT_MAX ? v : 0;
}

static uint32_t copied_count(const struct gguf *g, const char *arch, const char *name)
{
    const double v = copied(g, arch, name), most = 1e9;
    return v >= 0 && v <= most ? (uint32_t)v : 0;
}

/* mgpt.attention.windows, where it is a list of numbers for all layers. NULL: it is not, or there is no
 * memory. */
static const int32_t *copied_windows(struct checkpoint *c, const struct gguf *g, uint32_t n_layer)
{
    const struct gguf_kv *kv = gguf_find(g, "mgpt.attention.windows");
    int32_t *windows = kv && kv->n == n_layer ? ckpt_alloc(c, n_layer, sizeof *windows) : NULL;
    for (uint32_t i = 0; windows && i < n_layer; i++) {
        double v;
        if (!gguf_number(kv, i, &v) || !(fabs(v) <= INT32_MAX))
            return NULL;
        windows[i] = (int32_t)v;
    }
    return windows;
}

/* What names_of_facts looks at. */
static struct ckpt_hparams copied_hparams(struct checkpoint *c, const struct gguf *g)
{
#define COPY_NUMBER(field, absent, kind, key, ...) .field = (float)copied(g, arch, key),
    const char *arch = c->hp.arch;
    const struct gguf_kv *norm;
    char key[128];
    struct ckpt_hparams hp = {
        .arch = arch,
        .n_layer = copied_count(g, arch, "block_count"),
        .n_embd = copied_count(g, arch, "embedding_length"),
        .n_head = copied_count(g, arch, "attention.head_count"),
        .window = copied_count(g, arch, "attention.sliding_window"),
        .n_rot_swa = copied_count(g, arch, "rope.dimension_count_swa"),
        .expert_groups = copied_count(g, arch, "expert_group_count"),
        .expert_sigmoid = copied_count(g, arch, "expert_gating_func"),
        .expert_scale = (float)copied(g, arch, "expert_weights_scale"),
        .rope_base = (float)copied(g, arch, "rope.freq_base"),
        .rope_base_local = (float)copied(g, arch, "rope.freq_base_swa"),
        .rope_beta_fast = (float)copied(g, arch, "rope.scaling.yarn_beta_fast"),
        .rope_beta_slow = (float)copied(g, arch, "rope.scaling.yarn_beta_slow"),
        MODEL_NUMBERS(COPY_NUMBER)};
    snprintf(key, sizeof key, "%s.expert_weights_norm", arch);
    norm = gguf_find(g, key);
    if (norm)
        hp.expert_norm = copied(g, arch, "expert_weights_norm") > 0 ? 1 : -1;
    hp.windows = copied_windows(c, g, hp.n_layer);
    return hp;
}

static void names_of_copy(struct names *to, struct checkpoint *c, const struct gguf *g)
{
    static const char own[] = "mgpt.";
    const struct ckpt_hparams hp = copied_hparams(c, g);
    names_of_facts(to, &hp);
    for (size_t i = 0; i < arr_len(g->kv); i++) {
        const struct gguf_str *key = &g->kv[i].key;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(key->n < 60 ? key->n : 60), key->p);
        int known = ckpt_is_one_of(name, hp.windows ? " mgpt.tokenizer.nfc mgpt.attention.windows "
                                                    : " mgpt.tokenizer.nfc ");
        if (strncmp(name, own, sizeof own - 1) == 0 && !known)
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
        names_of_copy(&names, c, c->metadata);
    else
        names_of_model(&names, &c->hp, &c->vocab);
    if (names.n)
        ckpt_note(c, "llama.cpp ignores %s and would run this file wrongly without an error",
                  names.text);
}
