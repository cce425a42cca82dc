/* Mapping: LitGPT's lit_model.pth with model_config.yaml next to it.
 *
 *     norm_class_name RMSNorm,   mlp_class_name LLaMAMLP      architecture llama
 *     norm_class_name LayerNorm, mlp_class_name GptNeoxMLP    architecture gptneox
 *
 * q, k, v are one matrix: "attn.qkv" stacks all heads of q, of k, of v; "attn.attn" (until December
 * 2024) has for each group of query heads its queries, its key and its value. Rotation is in
 * halves. What the configuration says beyond that is refused by its key.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/torch_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "transformer.h.N."
/* clang-format off */
#define ALL(norm_bias)                                                                             \
    {"transformer.wte", "token_embd", 'V', 'E', 0},                                                \
    {LAYER "norm_1", "blk.N.attn_norm", 0, 'E', norm_bias},                                        \
    {LAYER "attn.proj", "blk.N.attn_output", 'E', 'Q', STATE_BIAS_OPTIONAL},                       \
    {LAYER "norm_2", "blk.N.ffn_norm", 0, 'E', norm_bias},                                         \
    {LAYER "mlp.proj", "blk.N.ffn_down", 'E', 'F', STATE_BIAS_OPTIONAL},                           \
    {"transformer.ln_f", "output_norm", 0, 'E', norm_bias},                                        \
    {"lm_head", "output", 'V', 'E', STATE_OPTIONAL | STATE_BIAS_OPTIONAL}
/* clang-format on */

static const struct state_row llama_rows[] = {
    ALL(STATE_BIAS_OPTIONAL),
    {LAYER "mlp.fc_1", "blk.N.ffn_gate", 'F', 'E', STATE_BIAS_OPTIONAL},
    {LAYER "mlp.fc_2", "blk.N.ffn_up", 'F', 'E', STATE_BIAS_OPTIONAL},
};

static const struct state_row neox_rows[] = {
    ALL(STATE_BIAS),
    {LAYER "mlp.fc", "blk.N.ffn_up", 'F', 'E', STATE_BIAS_OPTIONAL},
};

/* clang-format off */
#define QKV(from, q, k, v, flags, how)                                                             \
    {                                                                                              \
        {LAYER from, q, 'P', 'E', STATE_Q | STATE_BIAS_OPTIONAL | (flags) | (how)},                \
        {LAYER from, k, 'P', 'E', STATE_K | STATE_BIAS_OPTIONAL | (flags) | (how)},                \
        {LAYER from, v, 'P', 'E', STATE_V | STATE_BIAS_OPTIONAL | (how)},                          \
    }
#define TOGETHER(from, how) QKV(from, "blk.N.attn_qkv", "blk.N.attn_qkv", "blk.N.attn_qkv", 0, how)
#define APART(from, how) QKV(from, "blk.N.attn_q", "blk.N.attn_k", "blk.N.attn_v", STATE_PAIRS, how)
/* clang-format on */

enum { N_QKV_ROWS = 3 };

/* By architecture, and by whether the name is the one until December 2024. */
static const struct state_row qkv_rows[2][2][N_QKV_ROWS] = {
    {TOGETHER("attn.qkv", 0), TOGETHER("attn.attn", STATE_GROUPED)},
    {APART("attn.qkv", 0), APART("attn.attn", STATE_GROUPED)}};

/* ---- model_config.yaml ----------------------------------------------------------------------- */

enum { MAX_VALUE = 63, MAX_HEADS = 1024 };

/* The value after "key:" at the start of a line, without quotes; "" when absent, null, or
 * nested. */
static void yaml_get(struct span yaml, const char *key, char value[MAX_VALUE + 1])
{
    size_t n = strlen(key), kept = 0;
    value[0] = 0;
    for (size_t at = 0; at + n < yaml.size;) {
        const char *line = (const char *)yaml.data + at;
        const char *end = memchr(line, '\n', yaml.size - at);
        size_t length = end ? (size_t)(end - line) : yaml.size - at;
        if (length > n && memcmp(line, key, n) == 0 && line[n] == ':') {
            for (size_t i = n + 1; i < length && kept < MAX_VALUE; i++)
                if (!strchr(" '\"\r", line[i]))
                    value[kept++] = line[i];
            break;
        }
        at += length + 1;
    }
    value[kept] = 0;
    if (strcmp(value, "null") == 0 || strcmp(value, "~") == 0)
        value[0] = 0;
}

static int bad_value(const char *key, const char *value, const char *what, mgpt_error *err)
{
    return ckpt_refuse(err, "side file model_config.yaml: %s is %.40s%s", key,
                       *value ? value : "absent", what);
}

/* A number from 0 to max; absent < 0: it must be there, and be 1 or more. */
static int yaml_number(struct span yaml, const char *key, double absent, double max, double *to,
                       mgpt_error *err)
{
    char value[MAX_VALUE + 1], *end;
    yaml_get(yaml, key, value);
    *to = absent;
    if (!*value && absent >= 0)
        return MGPT_OK;
    double v = strtod(value, &end);
    if (!*value || *end || !(v >= (absent < 0 ? 1 : 0) && v <= max))
        return bad_value(key, value, ", expected a number in range", err);
    *to = v;
    return MGPT_OK;
}

static int yaml_flag(struct span yaml, const char *key, int absent)
{
    char value[MAX_VALUE + 1];
    yaml_get(yaml, key, value);
    return *value ? strcmp(value, "true") == 0 : absent;
}

/* A key that is stated with a block below it ("rope_adjustments:") has no value on its line. */
static int yaml_has(struct span yaml, const char *key)
{
    char value[MAX_VALUE + 1];
    size_t n = strlen(key);
    yaml_get(yaml, key, value);
    if (*value)
        return strcmp(value, "false") != 0 && strcmp(value, "0") != 0;
    for (size_t at = 0; at + n + 2 < yaml.size; at++)
        if ((at == 0 || yaml.data[at - 1] == '\n') && memcmp(yaml.data + at, key, n) == 0 &&
            yaml.data[at + n] == ':' && (yaml.data[at + n + 1] == '\n'))
            return 1;
    return 0;
}

static int from_litgpt_refuse(struct span yaml, mgpt_error *err)
{
    static const char *const keys[] = {"rope_adjustments",
                                       "norm_qk",
                                       "post_attention_norm",
                                       "post_mlp_norm",
                                       "attention_scores_scalar",
                                       "sliding_window_size",
                                       "attention_logit_softcapping",
                                       "final_logit_softcapping",
                                       "scale_embeddings",
                                       "n_expert",
                                       "latent_attention",
                                       "rope_interleave",
                                       "rope_local_base_freq",
                                       "shared_attention_norm"};
    char name[MAX_VALUE + 1];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (yaml_has(yaml, keys[i]))
            return bad_value(keys[i], "set", ", which is not supported for LitGPT", err);
    yaml_get(yaml, "name", name);
    if (strstr(name, "emma") || !yaml_flag(yaml, "norm_1", 1) || !yaml_flag(yaml, "norm_2", 1))
        return bad_value("name", name, ": its norms are not supported for LitGPT", err);
    return MGPT_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

struct lit {
    struct torch_model *m;
    struct span yaml;
    int is_llama;
};

static int choose_arch(struct lit *l, mgpt_error *err)
{
    char norm[MAX_VALUE + 1], mlp[MAX_VALUE + 1], gelu[MAX_VALUE + 1];
    struct ckpt_hparams *hp = &l->m->c->hp;
    yaml_get(l->yaml, "norm_class_name", norm);
    yaml_get(l->yaml, "mlp_class_name", mlp);
    yaml_get(l->yaml, "gelu_approximate", gelu);
    int parallel = yaml_flag(l->yaml, "parallel_residual", 1);
    l->is_llama = strcmp(norm, "RMSNorm") == 0 && strcmp(mlp, "LLaMAMLP") == 0 && !parallel;
    int is_neox = strcmp(norm, "LayerNorm") == 0 && strcmp(mlp, "GptNeoxMLP") == 0;
    if (!l->is_llama && !is_neox)
        return bad_value("mlp_class_name", mlp,
                         ": only RMSNorm with LLaMAMLP (not parallel) and LayerNorm with "
                         "GptNeoxMLP are supported",
                         err);
    hp->arch = l->is_llama ? "llama" : "gptneox";
    hp->parallel = l->is_llama ? -1 : parallel;
    hp->activation = is_neox && strcmp(gelu, "tanh") == 0 ? "gelu_tanh" : NULL;
    return MGPT_OK;
}

static int bad_rope(const struct lit *l, mgpt_error *err)
{
    char value[MAX_VALUE + 1];
    yaml_get(l->yaml, "rotary_percentage", value);
    return bad_value("rotary_percentage", value,
                     ": this or another setting of rope is not supported", err);
}

static int read_rope(struct lit *l, uint64_t hd, mgpt_error *err)
{
    struct ckpt_hparams *hp = &l->m->c->hp;
    double base, part, ratio;
    if (yaml_number(l->yaml, "rope_base", 10000, 1e12, &base, err) < 0 ||
        yaml_number(l->yaml, "rotary_percentage", 0.25, 1, &part, err) < 0 ||
        yaml_number(l->yaml, "rope_condense_ratio", 1, 1e6, &ratio, err) < 0)
        return MGPT_EFILE;
    hp->n_rot = (uint32_t)(part * (double)hd);
    if (hp->n_rot == 0 || hp->n_rot % 2 || (l->is_llama && hp->n_rot != hd) || base < 1e-3 ||
        ratio < 1)
        return bad_rope(l, err);
    hp->rope_base = (float)base;
    hp->rope_factor = ratio > 1 ? (float)ratio : 0;
    return MGPT_OK;
}

static int read_heads(struct lit *l, mgpt_error *err)
{
    struct ckpt_hparams *hp = &l->m->c->hp;
    double heads, groups, hd, context, eps;
    if (yaml_number(l->yaml, "n_head", -1, MAX_HEADS, &heads, err) < 0 ||
        yaml_number(l->yaml, "n_query_groups", heads, MAX_HEADS, &groups, err) < 0 ||
        yaml_number(l->yaml, "head_size", (double)hp->n_embd / heads, 65536, &hd, err) < 0 ||
        yaml_number(l->yaml, "block_size", 4096, 1e9, &context, err) < 0 ||
        yaml_number(l->yaml, "norm_eps", 1e-5, 1, &eps, err) < 0)
        return MGPT_EFILE;
    const struct ckpt_wanted wanted[] = {{&hp->n_head, "n_head", (uint64_t)heads},
                                         {&hp->n_head_kv, "n_query_groups", (uint64_t)groups},
                                         {&hp->head_dim, "head_size", (uint64_t)hd},
                                         {&hp->n_ctx, "block_size", (uint64_t)context}};
    if (ckpt_sizes(wanted, 4, err) < 0)
        return MGPT_EFILE;
    if (hp->n_head % hp->n_head_kv || (double)hp->head_dim < hd)
        return ckpt_refuse(
            err,
            "side file model_config.yaml: n_query_groups %u and head_size %u do not fit "
            "n_head %u and n_embd %u",
            hp->n_head_kv, hp->head_dim, hp->n_head, hp->n_embd);
    uint64_t width = hp->head_dim;
    hp->norm_eps = (float)eps;
    if (width * hp->n_head == hp->n_embd)
        hp->head_dim = 0;
    return read_rope(l, width, err);
}

static int from_litgpt_sizes(struct lit *l, mgpt_error *err)
{
    struct torch_model *m = l->m;
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, F, E2;
    const char *up =
        l->is_llama ? "transformer.h.0.mlp.fc_1.weight" : "transformer.h.0.mlp.fc.weight";
    if (torch_layers(m, LAYER "norm_1.weight", err) < 0 ||
        torch_shape(m, "transformer.wte.weight", &V, &E, err) < 0 ||
        torch_shape(m, up, &F, &E2, err) < 0)
        return MGPT_EFILE;
    const struct ckpt_wanted wanted[] = {{&hp->n_vocab, "padded_vocab_size", V},
                                         {&hp->n_embd, "n_embd", E},
                                         {&hp->n_ff, "intermediate_size", F}};
    return ckpt_sizes(wanted, 3, err) < 0 ? MGPT_EFILE : read_heads(l, err);
}

/* ---- the mapping ----------------------------------------------------------------------------- */

static int from_litgpt_tensors(const struct lit *l, mgpt_error *err)
{
    struct state *s = &l->m->state;
    int old = state_has(s, "transformer.h.0.attn.attn.weight");
    int status = state_map(s, qkv_rows[l->is_llama][old], N_QKV_ROWS, err);
    if (status == MGPT_OK)
        status = l->is_llama ? state_map(s, llama_rows, sizeof llama_rows / sizeof *llama_rows, err)
                             : state_map(s, neox_rows, sizeof neox_rows / sizeof *neox_rows, err);
    return status == MGPT_OK ? hf_check_used(s, "LitGPT model of these classes", err) : status;
}

static int from_litgpt_match(const struct torch_model *m)
{
    return state_has(&m->state, "transformer.wte.weight") &&
           state_has(&m->state, "transformer.h.0.norm_1.weight") &&
           (state_has(&m->state, "transformer.h.0.attn.qkv.weight") ||
            state_has(&m->state, "transformer.h.0.attn.attn.weight"));
}

static int from_litgpt_map(struct torch_model *m, mgpt_error *err)
{
    static const char *const name = "model_config.yaml";
    struct ckpt_side side;
    struct lit l = {.m = m};
    int status = m->in->side(m->in->user, 0, &name, 1, &side, err);
    if (status < 0)
        return status;
    if (!status)
        return ckpt_refuse(err,
                           "side file model_config.yaml: not next to the input; it has the model's "
                           "numbers");
    l.yaml = side.bytes;
    status = from_litgpt_refuse(l.yaml, err);
    if (status == MGPT_OK)
        status = choose_arch(&l, err);
    if (status == MGPT_OK)
        status = from_litgpt_sizes(&l, err);
    if (status == MGPT_OK)
        status = from_litgpt_tensors(&l, err);
    return status == MGPT_OK ? torch_vocab(m, NULL, err) : status;
}

const struct torch_mapping litgpt_mapping = {"LitGPT", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                             from_litgpt_match, from_litgpt_map};
