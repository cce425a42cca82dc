/* Mapping: LitGPT's lit_model.pth with model_config.yaml next to it.
 *
 *     norm_class_name RMSNorm,   mlp_class_name LLaMAMLP      litgpt_llama of models.txt
 *     norm_class_name LayerNorm, mlp_class_name GptNeoxMLP    litgpt_neox
 *
 * The lines of model_config.yaml become a config.json, to which the sizes of the tensors are added;
 * from_hf.c does the rest. What the configuration says beyond that is refused by its key.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf_special.h"
#include "convert/families/torch_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define YAML "model_config.yaml"

enum { MAX_LINE = 128 };

/* ---- model_config.yaml ----------------------------------------------------------------------- */

/* Reads a value without quotes. A key with an indented block has no value and reads as true. */
static json_t *yaml_value(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    int is_true = !*text || strcmp(text, "true") == 0;
    if (is_true || strcmp(text, "false") == 0)
        return json_boolean(is_true);
    if (strcmp(text, "~") == 0 || strcmp(text, "null") == 0)
        return json_null();
    return !*end && isfinite(number) ? json_real(number) : json_string(text);
}

/* A line "key: value", which is a member unless it is indented. The first line of a key counts.
 * Returns 0 when out of memory. */
static int take_line(json_t *config, const uint8_t *line, size_t n)
{
    char text[MAX_LINE];
    size_t kept = 0;
    for (size_t i = 0; i < n && kept < MAX_LINE - 1; i++)
        if (!memchr(" '\"\r", line[i], 4) || i == 0)
            text[kept++] = line[i] < 32 || line[i] > 126 ? '?' : (char)line[i];
    text[kept] = 0;
    char *value = strchr(text, ':');
    if (!value || *text == ' ' || *text == '#')
        return 1;
    *value++ = 0;
    return json_object_get(config, text) ||
           json_object_set_new(config, text, yaml_value(value)) == 0;
}

/* NULL: out of memory. */
static json_t *read_yaml(struct span yaml)
{
    json_t *config = json_object();
    int good = config != NULL;
    for (size_t at = 0, n; good && at < yaml.size; at += n + 1) {
        const uint8_t *line = yaml.data + at, *end = memchr(line, '\n', yaml.size - at);
        n = end ? (size_t)(end - line) : yaml.size - at;
        good = take_line(config, line, n);
    }
    if (good)
        return config;
    json_decref(config);
    return NULL;
}

/* ---- what it does not say -------------------------------------------------------------------- */

static int has_word(const json_t *config, const char *key, const char *word)
{
    const char *text = json_string_value(json_object_get(config, key));
    return text && strcmp(text, word) == 0;
}

/* The entry of models.txt for the configuration. */
static const char *choose_family(struct checkpoint *c, const json_t *config)
{
    const char *mlp = json_string_value(json_object_get(config, "mlp_class_name"));
    int serial = json_is(json_object_get(config, "parallel_residual"), JSON_FALSE);
    if (has_word(config, "norm_class_name", "RMSNorm") && mlp && strcmp(mlp, "LLaMAMLP") == 0 &&
        serial)
        return "litgpt_llama";
    if (has_word(config, "norm_class_name", "LayerNorm") && mlp && strcmp(mlp, "GptNeoxMLP") == 0)
        return "litgpt_neox";
    ckpt_stop(c,
              "side file " YAML ": mlp_class_name is %.40s: only RMSNorm with LLaMAMLP "
              "(not parallel) and LayerNorm with GptNeoxMLP are supported",
              mlp ? mlp : "absent");
}

/* The sizes that the tensors have, and LitGPT's defaults. */
static void add_sizes(struct torch_model *m, json_t *config, const char *up)
{
    uint64_t V, E, F, width;
    torch_layers(m, "transformer.h.N.norm_1.weight");
    torch_shape(m, "transformer.wte.weight", &V, &E);
    torch_shape(m, up, &F, &width);
    json_t *sizes = json_pack("{s:I, s:I, s:I, s:i, s:b}", "vocab_size", (json_int_t)V,
                              "hidden_size", (json_int_t)E, "intermediate_size", (json_int_t)F,
                              "num_hidden_layers", (int)m->c->hp.n_layer, "tie_word_embeddings",
                              !state_has(m->state, "lm_head.weight"));
    json_t *usual = json_pack("{s:f, s:f}", "norm_eps", 1e-5, "rotary_percentage", 0.25);
    int good = sizes && usual && json_object_update(config, sizes) == 0 &&
               json_object_update_missing(config, usual) == 0;
    json_decref(sizes);
    json_decref(usual);
    ckpt_pushed(m->c, good, json_object_size(config));
}

/* Members that models.txt has no words for. "attn.attn" is the name until December 2024. */
void hf_litgpt(struct hf_model *m)
{
    double ratio = hf_num(m, "rope_condense_ratio", 1, 0, 1e6);
    int is_llama = strcmp(m->c->hp.arch, "llama") == 0;
    static const char *const read[] = {"hf_config", "lm_head_bias", "attn_bias"};
    for (size_t i = 0; i < HF_COUNT(read); i++)
        hf_get(m, read[i]); /* a block about the origin; biases are seen in the file */
    if (ratio < 1)
        hf_stop(m, "rope_condense_ratio: out of range");
    m->c->hp.rope_factor = ratio > 1 ? (float)ratio : 0;
    m->variant = !state_has(&m->state, "transformer.h.0.attn.qkv.weight");
    if (strstr(hf_word(m, "name", ""), "emma"))
        hf_stop(m, "name: its norms are not supported for LitGPT");
    if (!is_llama && strcmp(hf_word(m, "gelu_approximate", "none"), "tanh") == 0)
        m->c->hp.activation = "gelu_tanh";
    if (is_llama)
        m->c->hp.parallel = -1;
}

/* ---- the mapping ----------------------------------------------------------------------------- */

static int from_litgpt_match(const struct torch_model *m)
{
    return state_has(m->state, "transformer.wte.weight") &&
           state_has(m->state, "transformer.h.0.norm_1.weight") &&
           (state_has(m->state, "transformer.h.0.attn.qkv.weight") ||
            state_has(m->state, "transformer.h.0.attn.attn.weight"));
}

static void free_config(void *config)
{
    json_decref(config);
}

static void from_litgpt_map(struct torch_model *m)
{
    static const char *const name = YAML;
    struct ckpt_side side;
    if (!ckpt_side(m->c, m->in, 0, &name, 1, &side))
        ckpt_stop(m->c, "side file " YAML ": not next to the input; it has the model's numbers");
    json_t *config = read_yaml(side.bytes);
    ckpt_pushed(m->c, config != NULL, side.bytes.size);
    ckpt_own(m->c, config, free_config);
    const char *family = choose_family(m->c, config);
    add_sizes(m, config,
              strcmp(family, "litgpt_llama") == 0 ? "transformer.h.0.mlp.fc_1.weight"
                                                  : "transformer.h.0.mlp.fc.weight");
    hf_read_described(m->c, m->in, family, "side file " YAML, config, m->state);
    torch_vocab(m, NULL);
}

const struct torch_mapping litgpt_mapping = {"LitGPT", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                             from_litgpt_match, from_litgpt_map};
