/* What a Hugging Face directory has that its model_type does not explain: switches of config.json
 * and names of another program's tensors. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf_special.h"
#include "convert/families/torch_model.h"

#include <string.h>

/* ---- switches -------------------------------------------------------------------------------- */

/* Keys that mean another forward pass in any model. */
static const char *const refused[] = {
    "add_cross_attention",         "is_encoder_decoder",     "attention_sinks",
    "use_bidirectional_attention", "attn_logit_softcapping",
};
static const char *const expert_keys[] = {"num_experts", "num_local_experts", "n_routed_experts"};

static void refuse_features(struct hf_model *m)
{
    const char *known = m->family->knows ? m->family->knows : "";
    for (size_t i = 0; i < HF_COUNT(refused); i++)
        if (strcmp(refused[i], known) != 0)
            hf_off(m, refused[i]);
    for (size_t i = 0; !m->c->hp.n_expert && i < HF_COUNT(expert_keys); i++)
        if (json_number_value(hf_get(m, expert_keys[i])) != 1) /* one is none */
            hf_off(m, expert_keys[i]);
}

/* Switches that change no logits: they say how sums are computed, or which tensors there are, which the
 * file itself tells. */
static const char harmless_switches[] =
    " add_bias_linear attention_bias attention_out_bias attention_softmax_in_fp32 bias conv_bias "
    "do_layer_norm_before enable_bias layer_norm_elementwise_affine mlp_bias no_bias "
    "norm_topk_prob "
    "qkv_bias reorder_and_upcast_attn scale_attention_softmax_in_fp32 scale_embedding "
    "slow_but_exact "
    "tie_embedding tie_embeddings tie_word_embeddings use_bias use_qkv_bias ";

/* Switches of rope: true is right for a model that has rope. */
static const char rotations[] = " rotary use_rope use_rotary_pos_emb ";

/* Settings that change the logits of any model that has them. A factor of 1 changes nothing. */
static const char factors[] =
    " embedding_multiplier embedding_scale lm_head_multiplier logit_scale logits_scaling "
    "mup_width_multiplier output_multiplier_scale partial_rotary_factor residual_multiplier "
    "residual_scale rope_pct rotary_pct scale_emb ";
static const char settings[] =
    " attention_chunk_size attention_multiplier attn_scale attn_softcap clip_qkv "
    "final_logit_softcapping logit_softcap no_rope_layer_interval no_rope_layers "
    "num_kv_shared_layers query_pre_attn_scalar rope_scaling scale_depth ";
static const char needed_switches[] = " rotary scale_attn_weights use_rope ";
static const char usual_positions[] = " absolute learned rope rotary ";

static int has_other_layers(const json_t *types)
{
    int others = 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        others |= !type || strcmp(type, "full_attention") != 0;
    }
    return others;
}

static int is_other_switch(const struct hf_model *m, const char *key)
{
    if (ckpt_is_one_of(key, rotations))
        return m->c->hp.n_rot == 0;
    return key[0] != '_' && !hf_is_base_key(key) && !ckpt_is_one_of(key, harmless_switches) &&
           !ckpt_is_one_of(key, needed_switches);
}

/* 1 for a value that would mean another forward pass if the model's class read it. */
static int is_other_pass(const struct hf_model *m, const char *key, const json_t *v)
{
    double x = json_number_value(v);
    if (json_is(v, JSON_FALSE))
        return ckpt_is_one_of(key, needed_switches);
    if (json_is(v, JSON_TRUE))
        return is_other_switch(m, key);
    if (strcmp(key, "layer_types") == 0)
        return has_other_layers(v);
    if (strcmp(key, "position_embedding_type") == 0)
        return json_is(v, JSON_STRING) && !ckpt_is_one_of(json_string_value(v), usual_positions);
    if (json_is(v, JSON_NULL) || (json_is_numeric(v) && x == 0))
        return 0;
    if (ckpt_is_one_of(key, factors))
        return !json_is_numeric(v) || x != 1;
    return ckpt_is_one_of(key, settings);
}

/* Whether the class does not read it: true of a switch that no class reads, and of the family's own. */
static int is_ignored(const struct hf_model *m, const char *key, const json_t *v)
{
    if (m->family->ignores && strcmp(m->family->ignores, key) == 0)
        return 1;
    return json_is(v, JSON_TRUE) && !ckpt_is_one_of(key, rotations) && hf_key_is_unread(m, key);
}

_Noreturn static void refuse_key(struct hf_model *m, const char *key, const json_t *v)
{
    const char *type = m->family->program ? m->family->program : m->cfg.model_type;
    if (json_is(v, JSON_TRUE))
        hf_stop(
            m,
            "%.60s: true is not a switch of %s that mgpt knows; if it changes no logits, set it to "
            "false",
            key, type);
    hf_stop(m, "%.60s is not a setting of %s that mgpt knows; if it changes no logits, take it out",
            key, type);
}

void hf_check_switches(struct hf_model *m)
{
    char line[140] = "";
    int n = 0, more = 0;
    const char *key;
    json_t *v;
    refuse_features(m);
    json_object_foreach((json_t *)(uintptr_t)m->cfg.text, key, v)
    {
        if (!hf_unread(m->cfg.text, key) || !is_other_pass(m, key, v))
            continue;
        if (!is_ignored(m, key, v))
            refuse_key(m, key, v);
        if (n < 80)
            n += snprintf(line + n, sizeof line - (size_t)n, "%s%.48s", n ? ", " : "", key);
        else
            more++;
    }
    if (n > 0)
        ckpt_note(m->c, "ignored: %s%s (%s does not read %s)", line, more ? ", ..." : "",
                  m->family->class.name, strchr(line, ',') ? "them" : "it");
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

/* The model_type or program that has the name; NULL: none, or the model's own family has it. */
static const char *other_program(const struct hf_family *own, const char *name)
{
    static const char *const before[] = {"transformer.", "model.", NULL};
    static const struct {
        const char *begin, *program;
    } programs[] = {{"trf_blocks.N.", "LLMs-from-scratch"},
                    {"layers.N.attention.w", "Meta's Llama and llama2.c"},
                    {"layers.N.feed_forward.w", "Meta's Llama and llama2.c"},
                    {"blocks.N.sa.", "ng-video-lecture"},
                    {"blocks.N.attn.W_", "TransformerLens"},
                    {"blocks.N.mlp.W_", "TransformerLens"}};
    const struct hf_family *f;
    if (own && has_name(own, name))
        return NULL;
    for (size_t i = 0; (f = hf_family_at(i)); i++)
        if (has_name(f, name))
            return f->program ? f->program : f->model_type;
    for (size_t i = 0; i < HF_COUNT(programs); i++)
        if (after_pattern(without_prefixes(name, before), programs[i].begin))
            return programs[i].program;
    return NULL;
}

void hf_name_programs(const struct state *s, const struct hf_family *own, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i];
        const char *program = t->used ? NULL : other_program(own, t->name);
        mgpt_error was = *err;
        if (program) {
            ckpt_refuse(err, "%.90s; %.60s is a name of %s", was.text, t->name, program);
            return;
        }
    }
}

void hf_check_used(const struct state *s, const char *what)
{
    const struct state_tensor *t = state_unused(s);
    if (!t)
        return;
    ckpt_refuse_tensor(s->c->err, t->name, "no %s has it", what);
    hf_name_programs(s, NULL, s->c->err);
    ckpt_leave(s->c, MGPT_EFILE);
}
