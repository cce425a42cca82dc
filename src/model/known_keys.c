/* Keys of a file that can change logits: those under the architecture's prefix, which are the ones
 * that llama.cpp reads, and mgpt.*. Each has a row here. A file with a key that has no row is
 * refused: what it changes is not known. Keys of other prefixes (general, tokenizer, split,
 * quantize, another architecture) never change the forward pass.
 */
#include "model/known_keys.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum rule {
    READ,   /* its reader checks it */
    UNUSED, /* describes the file, or a use that mgpt does not have: the logits are the same */
    ONLY    /* refused unless all its numbers are `neutral`, which has no effect */
};

/* clang-format off */
#define READ_KEY(key) {.name = (key), .rule = READ}
#define UNUSED_KEY(key) {.name = (key), .rule = UNUSED}
#define ONLY_KEY(key, number, bits) {.name = (key), .rule = ONLY, .neutral = (number), .knows = (bits)}
#define NUMBER_KEY(field, absent, kind, key, least, most, knows, ...) ONLY_KEY(key, NUMBER_NEUTRAL_##kind, knows),
/* clang-format on */

static const struct known_key {
    const char *name; /* after the prefix */
    enum rule rule;
    double neutral;
    unsigned knows; /* ONLY: architectures with one of these bits (arch.h) read the key */
} arch_keys[] = {
    /* clang-format off */
    MODEL_NUMBERS(NUMBER_KEY)
    /* clang-format on */
    READ_KEY("block_count"),
    READ_KEY("context_length"),
    READ_KEY("embedding_length"),
    ONLY_KEY("embedding_length_out", 0, 0),
    ONLY_KEY("embedding_length_per_layer_input", 0, KNOWS_LAYER_INPUTS),
    READ_KEY("feed_forward_length"),
    READ_KEY("vocab_size"),
    READ_KEY("use_parallel_residual"),
    UNUSED_KEY("pooling_type"),       /* of embedding models */
    UNUSED_KEY("tensor_data_layout"), /* where the weights came from */
    ONLY_KEY("router_logit_softcapping", 0, 0),
    ONLY_KEY("nextn_predict_layers", 0, KNOWS_EXPERTS),
    ONLY_KEY("n_deepstack_layers", 0, 0),
    ONLY_KEY("swin_norm", 0, 0),
    ONLY_KEY("rescale_every_n_layers", 0, 0),

    READ_KEY("attention.head_count"),
    READ_KEY("attention.head_count_kv"),
    READ_KEY("attention.key_length"),
    READ_KEY("attention.value_length"),
    READ_KEY("attention.layer_norm_epsilon"), /* of an architecture with the other norm: unused */
    READ_KEY("attention.layer_norm_rms_epsilon"),
    ONLY_KEY("attention.causal", 1, 0),
    READ_KEY("attention.sliding_window"),
    READ_KEY("attention.sliding_window_pattern"),
    READ_KEY("attention.rope_pattern"),
    ONLY_KEY("attention.q_lora_rank", 0, KNOWS_LATENT),
    ONLY_KEY("attention.kv_lora_rank", 0, KNOWS_LATENT),
    ONLY_KEY("attention.key_length_mla", 0, KNOWS_LATENT),
    ONLY_KEY("attention.value_length_mla", 0, KNOWS_LATENT),
    ONLY_KEY("attention.shared_kv_layers", 0, KNOWS_LAYER_INPUTS),
    ONLY_KEY("attention.key_length_swa", -1, KNOWS_LAYER_SHAPES),
    ONLY_KEY("attention.value_length_swa", -1, KNOWS_LAYER_SHAPES),
    ONLY_KEY("rope.dimension_count_swa", -1, KNOWS_LAYER_SHAPES),
    ONLY_KEY("attention.temperature_length", 0, 0),
    ONLY_KEY("shortconv.l_cache", 0, KNOWS_CONVOLUTIONS),

    READ_KEY("rope.dimension_count"),
    ONLY_KEY("rope.dimension_sections", 0, 0),
    READ_KEY("rope.freq_base"),
    READ_KEY("rope.freq_base_swa"),
    READ_KEY("rope.scale_linear"),
    READ_KEY("rope.scaling.type"),
    READ_KEY("rope.scaling.factor"),
    READ_KEY("rope.scaling.attn_factor"),
    READ_KEY("rope.scaling.original_context_length"),
    READ_KEY("rope.scaling.yarn_beta_fast"),
    READ_KEY("rope.scaling.yarn_beta_slow"),
    ONLY_KEY("rope.scaling.yarn_log_multiplier", 0, KNOWS_QUERY_SCALE | KNOWS_LATENT),
    READ_KEY("rope.scaling.yarn_ext_factor"),
    ONLY_KEY("rope.scaling.yarn_attn_factor", 1, 0),
    ONLY_KEY("rope.scaling.alpha", 0, 0),
    READ_KEY("rope.scaling.finetuned"), /* by Granite; else it says how the model was trained */

    /* Without experts the rest of these keys has no effect. Tensors say which layers have experts,
     * and which a shared one. */
    ONLY_KEY("expert_count", 0, KNOWS_EXPERTS),
    READ_KEY("expert_used_count"),
    READ_KEY("expert_feed_forward_length"),
    READ_KEY("expert_shared_feed_forward_length"),
    READ_KEY("expert_weights_scale"),
    READ_KEY("expert_weights_norm"),
    READ_KEY("expert_gating_func"),
    READ_KEY("expert_group_count"),
    READ_KEY("expert_group_used_count"),
    READ_KEY("expert_shared_count"),
    UNUSED_KEY("interleave_moe_layer_step"),
    UNUSED_KEY("leading_dense_block_count"),
    ONLY_KEY("swiglu_clamp_exp", 0, 0),
    ONLY_KEY("swiglu_clamp_shexp", 0, 0),
};

static const struct known_key own_keys[] = {
    READ_KEY("activation"),
    READ_KEY("embedding_norm"),
    READ_KEY("final_norm"),
    READ_KEY("attention.windows"),
    READ_KEY("attention.no_rope_every"),
    READ_KEY("rope.yarn_truncate"),
};

/* After mgpt.tokenizer: those that the tokenizer reads, which change ids. */
static const char tokenizer_keys[] =
    " added after before byte_fallback decoders drops_space drops_unknown end_token_ids "
    "fuse_unknown "
    "graphemes literal lstrip merge_ids nfc normalized normalizers pre_tokenizers prefix ranked "
    "rstrip "
    "scores single_word space_alone space_first space_missing suffix user_pieces whole_pieces "
    "word_chars ";

static const struct known_key *key_row_of(const struct known_key *rows, size_t n,
                                          struct gguf_str name)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(rows[i].name) == name.n && memcmp(rows[i].name, name.p, name.n) == 0)
            return &rows[i];
    return NULL;
}

static int is_only(const struct gguf_kv *kv, double neutral)
{
    double v;
    for (uint64_t i = 0; i < kv->n; i++)
        if (!gguf_number(kv, i, &v) || v != neutral)
            return 0;
    return kv->n > 0;
}

static int refuse_value(const struct gguf_kv *kv, const struct known_key *row, mgpt_error *err)
{
    char found[40] = "this value";
    double v;
    if (kv->type != GGUF_ARRAY && gguf_number(kv, 0, &v))
        text_format(found, sizeof found, "%g", v);
    return err_set(err, MGPT_EFILE, kv->offset, "key %.*s: %s is not supported, only %g",
                   (int)kv->key.n, kv->key.p, found, row->neutral);
}

/* Removes "prefix." from the front of a key; 0: it begins otherwise. */
static int strip_prefix(struct gguf_str *key, const char *prefix)
{
    size_t n = strlen(prefix);
    if (key->n <= n || memcmp(key->p, prefix, n) != 0 || key->p[n] != '.')
        return 0;
    key->p += n + 1;
    key->n -= n + 1;
    return 1;
}

/* 1 for map.NAME, a table of characters, and for a word of tokenizer_keys. */
static int is_tokenizer_key(struct gguf_str name)
{
    if (strip_prefix(&name, "map"))
        return 1;
    for (const char *p = tokenizer_keys + 1; *p; p += strcspn(p, " ") + 1)
        if (strcspn(p, " ") == name.n && memcmp(p, name.p, name.n) == 0)
            return 1;
    return 0;
}

static int refuse_key(const struct gguf_kv *kv, const char *what, const char *of, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, kv->offset,
                   "key %.*s: unknown to %s%s; it may change the results",
                   (int)(kv->key.n < 80 ? kv->key.n : 80), kv->key.p, what, of);
}

static int check_key(const mgpt_model *m, const struct gguf_kv *kv, mgpt_error *err)
{
    struct gguf_str name = kv->key;
    const struct known_key *row = NULL;
    if (strip_prefix(&name, m->arch->name))
        row = key_row_of(arch_keys, sizeof arch_keys / sizeof *arch_keys, name);
    else if (!strip_prefix(&name, "mgpt"))
        return MGPT_OK;
    else if (strip_prefix(&name, "tokenizer"))
        return is_tokenizer_key(name) ? MGPT_OK : refuse_key(kv, "the tokenizer", "", err);
    else
        row = key_row_of(own_keys, sizeof own_keys / sizeof *own_keys, name);
    if (!row)
        return refuse_key(kv, "architecture ", m->arch->name, err);
    if (row->rule != ONLY || row->knows & (m->arch->knows | KNOWS_ALL) || is_only(kv, row->neutral))
        return MGPT_OK;
    return refuse_value(kv, row, err);
}

int model_check_keys(const mgpt_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(m->gguf.kv); i++)
        if (check_key(m, &m->gguf.kv[i], err) < 0)
            return MGPT_EFILE;
    return MGPT_OK;
}
