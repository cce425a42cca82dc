/* Every key of a GGUF file and every tensor: what a toy with another value, or without it, comes to.
 *
 * key_values.txt has a line for each toy of the zoo: LABEL: KEY=HASH... A hash is that of the error lines, or of the
 * logits of some tokens, with each value of the key, and without it. The first toy of an architecture has all keys that
 * there are, others those of their file; a tensor is left out in the first and in the last layer. A changed default,
 * limit, message or layer shows there. MGPT_SOURCE_ROOT=$PWD MGPT_WRITE=1 build/tests/test_key_values writes it again;
 * that the values are right is shown by test_forward. */
#include "base/xxh64.h"
#include "support/made_rows.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

enum { N_TOKENS = 14 };

static const char *const sizes[] = {"u32 %s 0", "u32 %s 1",    "u32 %s 2",
                                    "u32 %s 3", "u32 %s 1000", "f32 %s 2"};
static const char *const reals[] = {"f32 %s 0", "f32 %s 0.5", "f32 %s 3", "f32 %s -1", "u32 %s 2"};
static const char *const bools[] = {"bool %s 0", "bool %s 1", "u32 %s 1"};
static const char *const words[] = {"string %s none",     "string %s linear", "string %s yarn",
                                    "string %s longrope", "string %s silu",   "u32 %s 1"};

/* Names are separated by spaces; those that begin with a dot have the architecture in front. */
static const struct {
    const char *const *edits;
    size_t n;
    const char *names;
} groups[] = {
    {sizes, COUNT(sizes),
     ".block_count .context_length .embedding_length .feed_forward_length .vocab_size "
     ".attention.head_count "
     ".attention.head_count_kv .attention.key_length .attention.value_length "
     ".attention.sliding_window "
     ".attention.sliding_window_pattern .attention.temperature_length .shortconv.l_cache "
     ".rope.dimension_count "
     ".rope.scaling.original_context_length .expert_count .expert_used_count "
     ".expert_feed_forward_length "
     ".expert_shared_feed_forward_length .expert_gating_func .expert_group_count "
     ".expert_group_used_count "
     ".expert_shared_count .leading_dense_block_count .nextn_predict_layers "
     "mgpt.attention.no_rope_every"},
    {reals, COUNT(reals),
     ".attention.scale .attention.clamp_kqv .attention.value_gate_scale "
     ".attention.temperature_scale "
     ".attention.max_alibi_bias .swiglu_limit .swiglu_offset .embedding_scale .residual_scale "
     ".logit_scale "
     ".attn_logit_softcapping .final_logit_softcapping .attention.layer_norm_epsilon "
     ".attention.layer_norm_rms_epsilon .rope.freq_base .rope.freq_base_swa .rope.scale_linear "
     ".rope.scaling.factor "
     ".rope.scaling.attn_factor .rope.scaling.yarn_beta_fast .rope.scaling.yarn_beta_slow "
     ".rope.scaling.yarn_log_multiplier .rope.scaling.yarn_ext_factor "
     ".rope.scaling.yarn_attn_factor "
     ".rope.scaling.alpha .expert_weights_scale"},
    {bools, COUNT(bools),
     ".use_parallel_residual .attention.causal .rope.scaling.finetuned .expert_weights_norm "
     "mgpt.embedding_norm "
     "mgpt.final_norm mgpt.rope.yarn_truncate"},
    {words, COUNT(words), ".rope.scaling.type mgpt.activation general.architecture"},
};

/* ---- what a toy comes to ---- */

static void hash_last_logits(struct xxh64 *h, const struct toy *m, mgpt_model *model)
{
    mgpt_session *session = subject_session(model, 4, 1);
    int32_t tokens[N_TOKENS];
    size_t n = mgpt_n_ctx(session) < N_TOKENS ? mgpt_n_ctx(session) : N_TOKENS;
    toy_tokens(m, 1, tokens, n);
    subject_feed(session, tokens, n);
    for (int i = 0; i < m->spec.n_vocab; i++) {
        float x = mgpt_logits(session)[i];
        xxh64_add(h, isnan(x) ? &(float){-1e38f} : &x, sizeof x);
    }
    mgpt_session_free(session);
}

static void hash_toy(struct xxh64 *h, struct toy *m)
{
    mgpt_error err = {0};
    toy_encode(m);
    mgpt_model *model = mgpt_open_bytes(m->file, m->size, NULL, &err);
    if (model)
        hash_last_logits(h, m, model);
    xxh64_add(h, err.text, strlen(err.text) + 1);
    xxh64_add(h, &err.offset, sizeof err.offset);
    mgpt_close(model);
}

static void put_hash(FILE *to, const char *name, const struct xxh64 *h)
{
    fprintf(to, " %s=%04x", name, (unsigned)(xxh64_end(h) >> 48));
}

/* ---- keys ---- */

static struct toy_kv *find_key(const struct toy *m, const char *key)
{
    for (size_t i = 0; i < m->n_kv; i++)
        if (strcmp(m->kv[i].key, key) == 0)
            return &m->kv[i];
    return NULL;
}

/* The entry is as it was; without bytes: there was none. */
static void restore_key(struct toy *m, const char *key, const struct toy_kv *old)
{
    struct toy_kv *kv = find_key(m, key);
    if (!old->bytes) {
        toy_drop_key(m, key);
        return;
    }
    assert_non_null(kv);
    free(kv->bytes);
    *kv = *old;
    kv->bytes = toy_alloc(old->n, 1);
    memcpy(kv->bytes, old->bytes, old->n);
}

/* The file without the entry: under a name that no reader asks for. */
static void hash_without(struct xxh64 *h, struct toy *m, const char *key)
{
    struct toy_kv *kv = find_key(m, key);
    char name[sizeof kv->key];
    memcpy(name, kv->key, sizeof name);
    snprintf(kv->key, sizeof kv->key, "general.none");
    hash_toy(h, m);
    memcpy(kv->key, name, sizeof name);
}

/* The toy with each value of a key. One that lacks the key has the one without it already. */
static void try_key(FILE *to, struct toy *m, size_t group, const char *key, const char *name)
{
    struct xxh64 h;
    struct toy_kv old = {0};
    xxh64_begin(&h);
    if (find_key(m, key)) {
        hash_without(&h, m, key);
        old = *find_key(m, key);
        old.bytes = toy_alloc(old.n, 1);
        memcpy(old.bytes, find_key(m, key)->bytes, old.n);
    }
    for (size_t i = 0; i < groups[group].n; i++) {
        char edit[120];
        snprintf(edit, sizeof edit, groups[group].edits[i], key);
        toy_edit(m, edit);
        hash_toy(&h, m);
        restore_key(m, key, &old);
    }
    free(old.bytes);
    put_hash(to, name, &h);
}

/* Keys of a group: all, or those of the toy. */
static void try_group(FILE *to, struct toy *m, size_t group, int all)
{
    char name[80], key[160];
    int n;
    for (const char *at = groups[group].names; sscanf(at, "%79s%n", name, &n) == 1; at += n) {
        snprintf(key, sizeof key, "%s%s", name[0] == '.' ? m->spec.arch : "", name);
        if (all || find_key(m, key))
            try_key(to, m, group, key, name);
    }
}

/* ---- tensors ---- */

static void try_tensors(FILE *to, const struct toy_spec *spec, const struct toy *whole)
{
    char first[] = "blk.0.", last[24];
    snprintf(last, sizeof last, "blk.%d.", spec->n_layer - 1);
    for (size_t i = 0; i < whole->n_tensors; i++) {
        const char *name = whole->tensors[i].name;
        struct xxh64 h;
        if (strncmp(name, "blk.", 4) == 0 && strncmp(name, first, strlen(first)) != 0 &&
            strncmp(name, last, strlen(last)) != 0)
            continue;
        struct toy *m = toy_build(spec);
        xxh64_begin(&h);
        toy_drop_tensor(m, name);
        hash_toy(&h, m);
        toy_free(m);
        put_hash(to, name, &h);
    }
}

/* ---- the file ---- */

static int is_first_of_arch(size_t zoo)
{
    for (size_t i = 0; i < zoo; i++)
        if (strcmp(toy_zoo[i].arch, toy_zoo[zoo].arch) == 0)
            return 0;
    return 1;
}

static void try_toy(FILE *to, size_t zoo)
{
    struct toy_spec spec = toy_zoo[zoo];
    spec.seed = 7000 + zoo;
    struct toy *whole = toy_build(&spec);
    fprintf(to, "%s:", spec.label);
    for (size_t i = 0; i < COUNT(groups); i++)
        try_group(to, whole, i, is_first_of_arch(zoo));
    try_tensors(to, &spec, whole);
    fprintf(to, "\n");
    toy_free(whole);
}

TEST(key_values)
{
    FILE *made = made_begin();
    for (size_t zoo = 0; zoo < ZOO_SIZE; zoo++)
        try_toy(made, zoo);
    made_end(made, "tests/model/key_values.txt");
}
