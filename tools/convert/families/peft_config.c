/* adapter_config.json of PEFT. See peft.h. */
#include "convert/families/peft.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

#define PEFT_FILE "adapter_config.json"

static int peft_refuse(const char *key, const char *what, mgpt_error *err)
{
    return ckpt_refuse(err, PEFT_FILE ": %.60s: %.120s", key, what);
}

/* null, false, 0, [] and {}. */
static int is_off(const json_t *v)
{
    return !v || json_is(v, JSON_NULL) || json_is(v, JSON_FALSE) ||
           (json_is(v, JSON_INTEGER) && json_integer_value(v) == 0) ||
           (json_is(v, JSON_ARRAY) && json_array_size(v) == 0) ||
           (json_is(v, JSON_OBJECT) && json_object_size(v) == 0);
}

/* What is more than W + s B A. */
static int refuse_variants(const json_t *root, mgpt_error *err)
{
    static const char *const keys[] = {
        "lora_bias",         "use_qalora",   "layer_replication", "target_parameters",
        "use_bdlora",        "arrow_config", "velora_config",     "trainable_token_indices",
        "monteclora_config", "kasa_config",  "megatron_config",   "alora_invocation_tokens"};
    const char *type = json_string_value(json_object_get(root, "peft_type"));
    if (!type || strcmp(type, "LORA") != 0)
        return ckpt_refuse(err, PEFT_FILE ": peft_type is %.20s, expected LORA",
                           type ? type : "missing");
    for (size_t i = 0; i < HF_COUNT(keys); i++)
        if (!is_off(json_object_get(root, keys[i])))
            return peft_refuse(keys[i], "not supported; merge the adapter with PEFT", err);
    return MGPT_OK;
}

/* Initialisations that take B A out of the base's weights before the training. */
static int refuse_initialisation(const json_t *root, mgpt_error *err)
{
    static const char good[] = " true false gaussian eva orthogonal ";
    const json_t *v = json_object_get(root, "init_lora_weights");
    const char *name = json_string_value(v);
    if (is_off(v) || json_is(v, JSON_TRUE) || (name && ckpt_is_one_of(name, good)))
        return MGPT_OK;
    return ckpt_refuse(err,
                       PEFT_FILE ": init_lora_weights: %.24s changes the base's weights, which the "
                                 "base's files do not have; merge the adapter with PEFT",
                       name ? name : "this value");
}

static int peft_number(const json_t *root, const char *key, double min, double *to, mgpt_error *err)
{
    const json_t *v = json_object_get(root, key);
    *to = json_number_value(v);
    if (!json_is_numeric(v) || !(*to >= min && *to <= 1e9))
        return peft_refuse(key, v ? "expected a number from 0 to 1e9 (r: from 1)" : "missing", err);
    return MGPT_OK;
}

static int peft_flag(const json_t *root, const char *key, int *to, mgpt_error *err)
{
    const json_t *v = json_object_get(root, key);
    *to = json_is(v, JSON_TRUE);
    if (v && !json_is_boolean(v) && !json_is(v, JSON_NULL))
        return peft_refuse(key, "expected true or false", err);
    return MGPT_OK;
}

/* PEFT takes the keys for regular expressions that match the end of a name. Here names are read,
 * and ^ at the front. */
static int check_pattern(const json_t *root, const char *key, mgpt_error *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *name;
    json_t *map = json_object_get(root, key), *v;
    if (is_off(map))
        return MGPT_OK;
    if (!json_is(map, JSON_OBJECT))
        return peft_refuse(key, "expected an object of names and numbers", err);
    json_object_foreach(map, name, v)
    {
        const char *start = name + (*name == '^');
        if (strspn(start, plain) != strlen(start))
            return ckpt_refuse(
                err, PEFT_FILE ": %s: %.60s is a regular expression, expected a name", key, name);
        if (!json_is_numeric(v) || !(json_number_value(v) >= 0 && json_number_value(v) <= 1e9))
            return ckpt_refuse(err, PEFT_FILE ": %s: %.60s: expected a number from 0 to 1e9", key,
                               name);
    }
    return MGPT_OK;
}

int peft_config_read(struct peft_config *cfg, struct span bytes, mgpt_error *err)
{
    *cfg = (struct peft_config){.root = hf_json(bytes, PEFT_FILE, err)};
    if (!cfg->root)
        return err->status;
    int status = refuse_variants(cfg->root, err);
    if (status == MGPT_OK)
        status = refuse_initialisation(cfg->root, err);
    if (status == MGPT_OK)
        status = peft_number(cfg->root, "r", 1, &cfg->rank, err);
    if (status == MGPT_OK)
        status = peft_number(cfg->root, "lora_alpha", 0, &cfg->alpha, err);
    if (status == MGPT_OK)
        status = peft_flag(cfg->root, "use_rslora", &cfg->is_rslora, err);
    if (status == MGPT_OK)
        status = peft_flag(cfg->root, "use_dora", &cfg->is_dora, err);
    if (status == MGPT_OK)
        status = check_pattern(cfg->root, "rank_pattern", err);
    if (status == MGPT_OK)
        status = check_pattern(cfg->root, "alpha_pattern", err);
    if (status < 0)
        peft_config_free(cfg);
    return status;
}

void peft_config_free(struct peft_config *cfg)
{
    json_decref(cfg->root);
    *cfg = (struct peft_config){0};
}

/* Whether n bytes of text are the pattern's, whose '.' is any byte. */
static int is_match(const char *pattern, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pattern[i] != '.' && pattern[i] != text[i])
            return 0;
    return 1;
}

/* The number of the first key that is the module's name, or words at its end; else `absent`. */
static double pattern_value(const json_t *root, const char *key, const char *module, double absent)
{
    const char *name;
    json_t *v;
    size_t n_module = strlen(module);
    json_object_foreach(json_object_get(root, key), name, v)
    {
        int is_whole = *name == '^';
        const char *words = name + is_whole;
        size_t n = strlen(words);
        if (n > n_module || (n < n_module && (is_whole || module[n_module - n - 1] != '.')))
            continue;
        if (is_match(words, module + n_module - n, n))
            return json_number_value(v);
    }
    return absent;
}

int peft_scale(const struct peft_config *cfg, const char *module, uint64_t rank, double *scale,
               mgpt_error *err)
{
    double r = pattern_value(cfg->root, "rank_pattern", module, cfg->rank);
    double alpha = pattern_value(cfg->root, "alpha_pattern", module, cfg->alpha);
    if (r != (double)rank)
        return ckpt_refuse_tensor(err, module, "rank %llu, " PEFT_FILE " says %g",
                                  (unsigned long long)rank, r);
    *scale = alpha / (cfg->is_rslora ? sqrt(r) : r);
    return MGPT_OK;
}
