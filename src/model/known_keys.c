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

static const struct known_key {
    const char *name; /* after the prefix */
    enum rule rule;
    double neutral;
    unsigned knows; /* ONLY: architectures with one of these bits (arch.h) read the key */
} arch_keys[] =
    {
        {"block_count", READ},
        {"context_length", READ},
        {"embedding_length", READ},
        {"embedding_length_out", ONLY, 0},
        {"embedding_length_per_layer_input", ONLY, 0},
        {"feed_forward_length", READ},
        {"vocab_size", READ},
        {"use_parallel_residual", READ},
        {"pooling_type", UNUSED},       /* of embedding models */
        {"tensor_data_layout", UNUSED}, /* where the weights came from */
        {"embedding_scale", ONLY, 1, KNOWS_SCALES},
        {"residual_scale", ONLY, 1, KNOWS_SCALES},
        {"logit_scale", ONLY, 1, KNOWS_SCALES},
        {"attn_logit_softcapping", ONLY, 0, KNOWS_SCORE_CAP},
        {"final_logit_softcapping", READ},
        {"router_logit_softcapping", ONLY, 0},
        {"nextn_predict_layers", ONLY, 0},
        {"n_deepstack_layers", ONLY, 0},
        {"swin_norm", ONLY, 0},
        {"rescale_every_n_layers", ONLY, 0},

        {"attention.head_count", READ},
        {"attention.head_count_kv", READ},
        {"attention.key_length", READ},
        {"attention.value_length", READ},
        {"attention.layer_norm_epsilon", READ}, /* of an architecture with the other norm: unused */
        {"attention.layer_norm_rms_epsilon", READ},
        {"attention.causal", ONLY, 1},
        {"attention.scale", READ},
        {"attention.clamp_kqv", READ},
        {"attention.max_alibi_bias", ONLY, 0, KNOWS_ALIBI},
        {"attention.sliding_window", READ},
        {"attention.sliding_window_pattern", READ},
        {"attention.value_gate_scale", ONLY, 0, KNOWS_VALUE_GATES},
        {"attention.q_lora_rank", ONLY, 0},
        {"attention.kv_lora_rank", ONLY, 0},
        {"attention.shared_kv_layers", ONLY, 0},
        {"attention.temperature_length", ONLY, 0},
        {"attention.temperature_scale", ONLY, 0},
        {"shortconv.l_cache", ONLY, 0, KNOWS_CONVOLUTIONS},

        {"rope.dimension_count", READ},
        {"rope.dimension_sections", ONLY, 0},
        {"rope.freq_base", READ},
        {"rope.freq_base_swa", READ},
        {"rope.scale_linear", READ},
        {"rope.scaling.type", READ},
        {"rope.scaling.factor", READ},
        {"rope.scaling.attn_factor", READ},
        {"rope.scaling.original_context_length", READ},
        {"rope.scaling.yarn_beta_fast", READ},
        {"rope.scaling.yarn_beta_slow", READ},
        {"rope.scaling.yarn_log_multiplier", ONLY, 0},
        {"rope.scaling.yarn_ext_factor", ONLY, 1},
        {"rope.scaling.yarn_attn_factor", ONLY, 1},
        {"rope.scaling.alpha", ONLY, 0},
        {"rope.scaling.finetuned", READ}, /* by Granite; else it says how the model was trained */

        /* Without experts the rest of these keys has no effect. Tensors say which layers have experts,
     * and which a shared one. */
        {"expert_count", ONLY, 0, KNOWS_EXPERTS},
        {"expert_used_count", READ},
        {"expert_feed_forward_length", READ},
        {"expert_shared_feed_forward_length", READ},
        {"expert_weights_scale", READ},
        {"expert_weights_norm", READ},
        {"expert_gating_func", READ},
        {"expert_group_count", READ},
        {"expert_group_used_count", UNUSED}, /* of 0 groups or 1 */
        {"expert_shared_count", UNUSED},
        {"leading_dense_block_count", UNUSED},
        {"swiglu_clamp_exp", ONLY, 0},
        {"swiglu_clamp_shexp", ONLY, 0},
},
  own_keys[] = {
      {"activation", READ},        {"embedding_norm", READ},          {"final_norm", READ},
      {"attention.windows", READ}, {"attention.no_rope_every", READ},
};

static const struct known_key *find_row(const struct known_key *rows, size_t n,
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

static int check_key(const mgpt_model *m, const struct gguf_kv *kv, mgpt_error *err)
{
    struct gguf_str name = kv->key;
    const struct known_key *row = NULL;
    if (strip_prefix(&name, m->arch->name))
        row = find_row(arch_keys, sizeof arch_keys / sizeof *arch_keys, name);
    else if (strip_prefix(&name, "mgpt") && !(name.n > 10 && !memcmp(name.p, "tokenizer.", 10)))
        row = find_row(own_keys, sizeof own_keys / sizeof *own_keys, name);
    else
        return MGPT_OK;
    if (!row)
        return err_set(err, MGPT_EFILE, kv->offset,
                       "key %.*s: unknown to architecture %s; it may change the results",
                       (int)(kv->key.n < 80 ? kv->key.n : 80), kv->key.p, m->arch->name);
    if (row->rule != ONLY || row->knows & m->arch->knows || is_only(kv, row->neutral))
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
