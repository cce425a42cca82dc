/* What a Hugging Face directory has that its model_type does not explain: switches of config.json
 * and names of another program's tensors. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf.h"

#include <string.h>

/* ---- switches -------------------------------------------------------------------------------- */

/* Keys that mean another forward pass in any model. */
static const char *const refused[] = {
    "n_routed_experts", "add_cross_attention",         "is_encoder_decoder",     "use_qk_norm",
    "attention_sinks",  "use_bidirectional_attention", "attn_logit_softcapping",
};
static const char *const expert_keys[] = {"num_experts", "num_local_experts"};

static int refuse_features(const struct hf_model *m, mgpt_error *err)
{
    int status = MGPT_OK;
    const char *known = m->family->knows ? m->family->knows : "";
    for (size_t i = 0; status == MGPT_OK && i < HF_COUNT(refused); i++)
        if (strcmp(refused[i], known) != 0)
            status = hf_must_be_off(m->cfg.text, refused[i], err);
    for (size_t i = 0; status == MGPT_OK && !m->family->experts && i < HF_COUNT(expert_keys); i++)
        status = hf_must_be_off(m->cfg.text, expert_keys[i], err);
    return status;
}

/* Those that are read, and those that change no logits. */
static const char known_switches[] =
    " add_bos_token add_classification_head add_cross_attention add_eos_token alibi "
    "apply_residual_connection_post_layernorm attention_bias attention_out_bias "
    "attention_softmax_in_fp32 bias bias_dropout_fusion block_auto_adjust_ff_dim block_use_swiglu "
    "block_use_xavier_init conv_bias conv_use_xavier_init do_layer_norm_before do_sample "
    "early_stopping enable_bias flash_attn flash_rotary fused_dense fuse_rope "
    "gradient_checkpointing is_decoder is_encoder_decoder is_llama_config "
    "layer_norm_elementwise_affine learned_pos_emb legacy low_cpu_mem_usage "
    "masked_softmax_fusion mlp_bias multi_query new_decoder_architecture no_bias norm_topk_prob "
    "offload_state_dict output_attentions output_hidden_states output_router_logits output_scores "
    "parallel_attn qk_layernorm qkv_bias remove_invalid_values reorder_and_upcast_attn "
    "return_dict return_dict_in_generate rope_is_neox_style rotary "
    "scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx scale_attn_weights "
    "scale_embedding slow_but_exact summary_proj_to_labels summary_use_proj tf_legacy_loss "
    "tie_embedding tie_embeddings tie_encoder_decoder tie_word_embeddings torchscript "
    "unsloth_fixed use_bfloat16 "
    "use_bias use_cache use_embedding_sharing use_flash_attention use_flash_attn "
    "use_gated_activation use_parallel_block use_parallel_residual use_pos_enc use_qk_norm "
    "use_qkv_bias "
    "use_rmsnorm use_rotary_pos_emb use_sliding_window use_unsloth_gradient_checkpointing "
    "word_embed_proj_prefix ";

int hf_check_switches(const struct hf_model *m, mgpt_error *err)
{
    const char *key;
    json_t *v;
    if (refuse_features(m, err) < 0)
        return MGPT_EFILE;
    json_object_foreach((json_t *)(uintptr_t)m->cfg.text, key, v)
    {
        if (json_is(v, JSON_TRUE) && key[0] != '_' && !ckpt_is_one_of(key, known_switches))
            return ckpt_refuse(
                err,
                "config.json: %.60s: true is not a switch of %s that mgpt knows; if it "
                "changes no logits, set it to false",
                key, m->cfg.model_type);
    }
    return MGPT_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The rest of the name after the row's pattern, in which N is any number; NULL: another name. */
static const char *after_pattern(const char *name, const char *pattern)
{
    for (; *pattern; pattern++) {
        size_t n = strspn(name, "0123456789");
        int is_number = *pattern == 'N' && n > 0;
        if (!is_number && *name != *pattern)
            return NULL;
        name += is_number ? n : 1;
    }
    return name;
}

static const char *without_prefixes(const char *name, const char *const *prefixes)
{
    for (const char *const *p = prefixes; *p; p++) {
        size_t n = strlen(*p);
        if (strncmp(name, *p, n) == 0 && name[n]) {
            name += n;
            p = prefixes - 1;
        }
    }
    return name;
}

static int has_name(const struct hf_family *f, const char *name)
{
    name = without_prefixes(name, f->prefixes);
    for (size_t i = 0; i < f->n_rows; i++) {
        const char *rest = after_pattern(name, f->rows[i].from);
        if (rest && (*rest == 0 || strcmp(rest, ".weight") == 0 || strcmp(rest, ".bias") == 0))
            return 1;
    }
    return 0;
}

/* A family that has the name; NULL: none, or the model's own has it. */
static const struct hf_family *other_family(const struct hf_model *m, const char *name)
{
    const struct hf_family *f;
    for (size_t i = 0; !has_name(m->family, name) && (f = hf_family_at(i)); i++)
        if (has_name(f, name))
            return f;
    return NULL;
}

void hf_name_programs(const struct hf_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(m->state.tensors); i++) {
        const struct state_tensor *t = &m->state.tensors[i];
        const struct hf_family *f = t->used ? NULL : other_family(m, t->name);
        mgpt_error was = *err;
        if (f) {
            ckpt_refuse(err, "%.90s; %.60s is a name of %s", was.text, t->name, f->model_type);
            return;
        }
    }
}
