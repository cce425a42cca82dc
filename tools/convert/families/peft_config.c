/* adapter_config.json of PEFT. See peft.h. */
#include "convert/families/peft.h"

#include <math.h>
#include <string.h>

#define PEFT_FILE "adapter_config.json"

_Noreturn static void peft_refuse(struct checkpoint *c, const char *key, const char *what)
{
    ckpt_stop(c, PEFT_FILE ": %.60s: %.120s", key, what);
}

/* null, false, 0, [] and {}. */
static int is_off(const json_t *v)
{
    return !v || json_is(v, JSON_NULL) || json_is(v, JSON_FALSE) ||
           (json_is(v, JSON_INTEGER) && json_integer_value(v) == 0) ||
           (json_is(v, JSON_ARRAY) && json_array_size(v) == 0) ||
           (json_is(v, JSON_OBJECT) && json_object_size(v) == 0);
}

/* Refuses adapters whose weights are not W + s B A. */
static void refuse_variants(struct checkpoint *c, const json_t *root)
{
    static const char *const keys[] = {
        "lora_bias",         "use_qalora",   "layer_replication", "target_parameters",
        "use_bdlora",        "arrow_config", "velora_config",     "trainable_token_indices",
        "monteclora_config", "kasa_config",  "megatron_config",   "alora_invocation_tokens"};
    const char *type = json_string_value(json_object_get(root, "peft_type"));
    if (!type || strcmp(type, "LORA") != 0)
        ckpt_stop(c, PEFT_FILE ": peft_type is %.20s, expected LORA", type ? type : "missing");
    for (size_t i = 0; i < HF_COUNT(keys); i++)
        if (!is_off(json_object_get(root, keys[i])))
            peft_refuse(c, keys[i], "not supported; merge the adapter with PEFT");
}

/* Initialisations that take B A out of the base's weights before the training. */
static void refuse_initialisation(struct checkpoint *c, const json_t *root)
{
    static const char good[] = " true false gaussian eva orthogonal ";
    const json_t *v = json_object_get(root, "init_lora_weights");
    const char *name = json_string_value(v);
    if (is_off(v) || json_is(v, JSON_TRUE) || (name && ckpt_is_one_of(name, good)))
        return;
    ckpt_stop(c,
              PEFT_FILE ": init_lora_weights: %.24s changes the base's weights, which the "
                        "base's files do not have; merge the adapter with PEFT",
              name ? name : "this value");
}

static double peft_number(struct checkpoint *c, const json_t *root, const char *key, double min)
{
    const json_t *v = json_object_get(root, key);
    double number = json_number_value(v);
    if (!json_is_numeric(v) || !(number >= min && number <= 1e9))
        peft_refuse(c, key, v ? "expected a number from 0 to 1e9 (r: from 1)" : "missing");
    return number;
}

static int peft_flag(struct checkpoint *c, const json_t *root, const char *key)
{
    const json_t *v = json_object_get(root, key);
    if (v && !json_is_boolean(v) && !json_is(v, JSON_NULL))
        peft_refuse(c, key, "expected true or false");
    return json_is(v, JSON_TRUE);
}

/* PEFT takes the keys for regular expressions that match the end of a name. Here names are read,
 * and ^ at the front. */
static void check_pattern(struct checkpoint *c, const json_t *root, const char *key)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *name;
    json_t *map = json_object_get(root, key), *v;
    if (is_off(map))
        return;
    if (!json_is(map, JSON_OBJECT))
        peft_refuse(c, key, "expected an object of names and numbers");
    json_object_foreach(map, name, v)
    {
        const char *start = name + (*name == '^');
        if (strspn(start, plain) != strlen(start))
            ckpt_stop(c, PEFT_FILE ": %s: %.60s is a regular expression, expected a name", key,
                      name);
        if (!json_is_numeric(v) || !(json_number_value(v) >= 0 && json_number_value(v) <= 1e9))
            ckpt_stop(c, PEFT_FILE ": %s: %.60s: expected a number from 0 to 1e9", key, name);
    }
}

void peft_config_read(struct checkpoint *c, struct peft_config *cfg, struct span bytes)
{
    const json_t *root = hf_json(c, bytes, PEFT_FILE);
    refuse_variants(c, root);
    refuse_initialisation(c, root);
    *cfg = (struct peft_config){.root = root};
    cfg->rank = peft_number(c, root, "r", 1);
    cfg->alpha = peft_number(c, root, "lora_alpha", 0);
    cfg->is_rslora = peft_flag(c, root, "use_rslora");
    cfg->is_dora = peft_flag(c, root, "use_dora");
    check_pattern(c, root, "rank_pattern");
    check_pattern(c, root, "alpha_pattern");
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

double peft_scale(const struct peft *p, const char *module, uint64_t rank)
{
    double r = pattern_value(p->cfg.root, "rank_pattern", module, p->cfg.rank);
    double alpha = pattern_value(p->cfg.root, "alpha_pattern", module, p->cfg.alpha);
    if (r != (double)rank)
        ckpt_stop_tensor(p->c, module, "rank %llu, " PEFT_FILE " says %g", (unsigned long long)rank,
                         r);
    return alpha / (p->cfg.is_rslora ? sqrt(r) : r);
}
