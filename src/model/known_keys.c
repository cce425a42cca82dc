/* Keys of a file that can change logits: those under the architecture's prefix, which are the ones
 * that llama.cpp reads, and mgpt.*. All are listed here. A file with another key of them is refused:
 * what it changes is not known. Keys of other prefixes (general, tokenizer, split, quantize, another
 * architecture) never change the forward pass.
 */
#include "model/known_keys.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

/* Keys after the architecture's name with one value, which has no effect, in files of architectures that do not
 * read them. All numbers of another value are refused. */
static const struct only_key {
    const char *name;
    double neutral;
    unsigned knows; /* architectures with one of these bits (arch.h) read the key */
} only_keys[] = {
/* clang-format off */
#define ONLY_KEY(...) {__VA_ARGS__},
#define NUMBER_KEY(field, absent, kind, key, least, most, knows, ...) ONLY_KEY(key, NUMBER_NEUTRAL_##kind, knows)
    MODEL_NUMBERS(NUMBER_KEY)
    /* clang-format on */
    {"embedding_length_out", 0, 0},
    {"embedding_length_per_layer_input", 0, KNOWS_LAYER_INPUTS},
    {"router_logit_softcapping", 0, 0},
    {"nextn_predict_layers", 0, KNOWS_EXPERTS},
    {"n_deepstack_layers", 0, 0},
    {"swin_norm", 0, 0},
    {"rescale_every_n_layers", 0, 0},
    {"attention.causal", 1, 0},
    {"attention.q_lora_rank", 0, KNOWS_LATENT},
    {"attention.kv_lora_rank", 0, KNOWS_LATENT},
    {"attention.key_length_mla", 0, KNOWS_LATENT},
    {"attention.value_length_mla", 0, KNOWS_LATENT},
    {"attention.shared_kv_layers", 0, KNOWS_LAYER_INPUTS},
    {"attention.key_length_swa", -1, KNOWS_LAYER_SHAPES},
    {"attention.value_length_swa", -1, KNOWS_LAYER_SHAPES},
    {"rope.dimension_count_swa", -1, KNOWS_LAYER_SHAPES},
    {"attention.temperature_length", 0, 0},
    {"shortconv.l_cache", 0, KNOWS_CONVOLUTIONS},
    {"rope.dimension_sections", 0, 0},
    {"rope.scaling.yarn_log_multiplier", 0, KNOWS_QUERY_SCALE | KNOWS_LATENT},
    {"rope.scaling.yarn_attn_factor", 1, 0},
    {"rope.scaling.alpha", 0, 0},
    {"expert_count", 0, KNOWS_EXPERTS},
    {"swiglu_clamp_exp", 0, 0},
    {"swiglu_clamp_shexp", 0, 0},
};

/* Keys after the architecture's name that a reader checks, or that have no effect. */
static const char read_keys[] =
    /* Sizes, norms, windows. The eps of the norm that the architecture does not have is not used. */
    " block_count context_length embedding_length feed_forward_length vocab_size "
    "use_parallel_residual attention.head_count attention.head_count_kv attention.key_length "
    "attention.value_length attention.layer_norm_epsilon attention.layer_norm_rms_epsilon "
    "attention.sliding_window attention.sliding_window_pattern attention.rope_pattern "
    /* Positions. "finetuned" has a meaning in files of Granite only. */
    "rope.dimension_count rope.freq_base rope.freq_base_swa rope.scale_linear "
    "rope.scaling.type rope.scaling.factor rope.scaling.attn_factor "
    "rope.scaling.original_context_length rope.scaling.yarn_beta_fast "
    "rope.scaling.yarn_beta_slow rope.scaling.yarn_ext_factor rope.scaling.finetuned "
    /* Experts. Tensors say which layers have them, and which a shared one. */
    "expert_used_count expert_feed_forward_length expert_shared_feed_forward_length "
    "expert_weights_scale expert_weights_norm expert_gating_func expert_group_count "
    "expert_group_used_count expert_shared_count "
    /* Descriptions of the file, and of uses that mgpt does not have. */
    "pooling_type tensor_data_layout interleave_moe_layer_step leading_dense_block_count ";

/* After mgpt. */
static const char own_keys[] =
    " activation embedding_norm final_norm attention.windows attention.no_rope_every "
    "rope.yarn_truncate ";

/* After mgpt.tokenizer: those that the tokenizer reads, which change ids; map.NAME is a table of characters. */
static const char tokenizer_keys[] =
    " added after before byte_fallback decoders drops_space drops_unknown end_token_ids "
    "fuse_unknown "
    "graphemes literal lstrip merge_ids nfc normalized normalizers pre_tokenizers prefix ranked "
    "rstrip "
    "scores single_word space_alone space_first space_missing suffix user_pieces whole_pieces "
    "word_chars ";

static int is_only(const struct gguf_kv *kv, double neutral)
{
    double v;
    for (uint64_t i = 0; i < kv->n; i++)
        if (!gguf_number(kv, i, &v) || v != neutral)
            return 0;
    return kv->n > 0;
}

static int refuse_value(const struct gguf_kv *kv, const struct only_key *row, mgpt_error *err)
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

static int refuse_key(const struct gguf_kv *kv, const char *what, const char *of, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, kv->offset,
                   "key %.*s: unknown to %s%s; it may change the results",
                   (int)(kv->key.n < 80 ? kv->key.n : 80), kv->key.p, what, of);
}

/* A key of the architecture. */
static int check_arch_key(const mgpt_model *m, const struct gguf_kv *kv, struct gguf_str name,
                          mgpt_error *err)
{
    const struct only_key *row = only_keys, *end = row + sizeof only_keys / sizeof *only_keys;
    while (row < end && !gguf_str_is(name, row->name))
        row++;
    if (row == end)
        return gguf_str_in(name, read_keys) ? MGPT_OK
                                            : refuse_key(kv, "architecture ", m->arch->name, err);
    int reads = (row->knows & (m->arch->knows | KNOWS_ALL)) != 0;
    return reads || is_only(kv, row->neutral) ? MGPT_OK : refuse_value(kv, row, err);
}

static int check_key(const mgpt_model *m, const struct gguf_kv *kv, mgpt_error *err)
{
    struct gguf_str name = kv->key;
    if (strip_prefix(&name, m->arch->name))
        return check_arch_key(m, kv, name, err);
    if (!strip_prefix(&name, "mgpt"))
        return MGPT_OK;
    if (!strip_prefix(&name, "tokenizer"))
        return gguf_str_in(name, own_keys) ? MGPT_OK
                                           : refuse_key(kv, "architecture ", m->arch->name, err);
    int is_known = strip_prefix(&name, "map") || gguf_str_in(name, tokenizer_keys);
    return is_known ? MGPT_OK : refuse_key(kv, "the tokenizer", "", err);
}

int model_check_keys(const mgpt_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(m->gguf.kv); i++)
        if (check_key(m, &m->gguf.kv[i], err) < 0)
            return MGPT_EFILE;
    return MGPT_OK;
}
