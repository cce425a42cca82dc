/* The families of Hugging Face models, which models.py makes of models.txt, and the steps of their
 * "read" lines. See hf.h, hf_special.h.
 */
#include "base/error.h"
#include "convert/families/hf_special.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "convert/hf_models.inc"

const struct hf_family *hf_family_at(size_t i)
{
    return i < HF_COUNT(families) ? &families[i] : NULL;
}

const struct hf_wrapper *hf_wrapper_at(size_t i)
{
    return i < HF_COUNT(wrappers) ? &wrappers[i] : NULL;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void hf_stop(struct hf_model *m, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ckpt_stop(m->c, "%s: %s", m->parts->described ? m->parts->source : "config.json", text);
}

/* ---- keys ------------------------------------------------------------------------------------ */

const json_t *hf_get(struct hf_model *m, const char *key)
{
    return hf_value(m->at, key);
}

/* NULL: absent, which it may not be if it is `required`. */
static const json_t *key_value(struct hf_model *m, const char *key, int required)
{
    const json_t *v = hf_get(m, key);
    if (!v && required)
        hf_stop(m, "%.60s: missing", key);
    return v;
}

double hf_any(struct hf_model *m, const char *key, double absent)
{
    const json_t *v = key_value(m, key, isnan(absent));
    if (v && !json_is_numeric(v))
        hf_stop(m, "%.60s: expected a number", key);
    return v ? json_number_value(v) : absent;
}

double hf_num(struct hf_model *m, const char *key, double absent, double above, double below)
{
    double v = hf_any(m, key, absent);
    if (!(v > above && v < below))
        hf_stop(m, "%s: out of range", key);
    return v;
}

uint32_t hf_count(struct hf_model *m, const char *key, int64_t absent, uint32_t min, uint32_t max)
{
    const json_t *found = key_value(m, key, absent < 0);
    double x = found ? json_number_value(found) : (double)absent;
    if (found && (!json_is_numeric(found) || floor(x) != x))
        hf_stop(m, "%.60s: expected a whole number", key);
    if (!(x >= 0 && x <= INT32_MAX))
        hf_stop(m, "%.60s: expected a number from 0 to %d", key, INT32_MAX);
    uint32_t v = (uint32_t)x;
    if (v != min && min == max)
        hf_stop(m, "%s is %u, expected %u", key, v, min);
    if (v < min && max == INT32_MAX)
        hf_stop(m, "%s is %u, expected %u or more", key, v, min);
    if (v < min || v > max)
        hf_stop(m, "%s is %u, expected %u to %u", key, v, min, max);
    return v;
}

int hf_on(struct hf_model *m, const char *key, int absent)
{
    const json_t *v = key_value(m, key, absent < 0);
    if ((v && !json_is_boolean(v)) ||
        (absent == 1 && json_is_null(json_object_get(m->at, key)))) /* classes take null as false */
        hf_stop(m, "%.60s: expected true or false", key);
    return v ? json_is(v, JSON_TRUE) : absent;
}

const char *hf_word(struct hf_model *m, const char *key, const char *absent)
{
    const json_t *v = key_value(m, key, !absent);
    if (v && !json_is(v, JSON_STRING))
        hf_stop(m, "%.60s: expected a string", key);
    return v ? json_string_value(v) : absent;
}

static int is_off(const json_t *v)
{
    return !v || json_is(v, JSON_FALSE) || (json_is_numeric(v) && json_number_value(v) == 0);
}

void hf_off(struct hf_model *m, const char *key)
{
    const json_t *v = hf_get(m, key);
    if (!is_off(v))
        hf_stop(m, "%.60s: %s is not supported", key,
                json_is(v, JSON_TRUE) ? "true" : "this value");
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* 0 where the key is null: there is none. With a stated 0 nothing would be left. */
static float step_number(struct hf_model *m, const struct hf_step *s)
{
    double v = hf_any(m, s->key, json_object_get(m->at, s->key) ? 0 : s->value);
    if (!(v >= 0 && v < 1e30))
        hf_stop(m, "%s: out of range", s->key);
    if (v == 0 && s->kind == HF_POSITIVE)
        hf_stop(m, "%s: expected a number above 0", s->key);
    if (v == 0 && hf_get(m, s->key))
        hf_stop(m, "%s: expected a number above 0, or null", s->key);
    return (float)v;
}

static void step_check(struct hf_model *m, const struct hf_step *s)
{
    if (s->kind == HF_HAS && !hf_get(m, s->key))
        hf_stop(m, "%s: missing", s->key);
    if (s->kind == HF_ON && !hf_on(m, s->key, 1))
        hf_stop(m, "%s: false is not supported", s->key);
    if (s->kind == HF_OFF && s->why && !is_off(hf_get(m, s->key)))
        hf_stop(m, "%s: %s", s->key, s->why);
    if (s->kind == HF_OFF)
        hf_off(m, s->key);
    if (s->kind == HF_IS && hf_any(m, s->key, s->value) != s->value)
        hf_stop(m, "%s: this value is not supported", s->key);
}

static void step_experts(struct hf_model *m, const char *width)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const char *key = hf_get(m, "num_experts") ? "num_experts" : "num_local_experts";
    hp->n_expert = hf_count(m, key, -1, 1, 1024);
    hp->n_expert_used = hf_count(m, "num_experts_per_tok", -1, 1, hp->n_expert);
    if (width)
        hp->n_ff_expert = hf_count(m, width, -1, 1, 1 << 23);
    hf_plain_layers(m);
}

static void step_window(struct hf_model *m, const struct hf_step *s)
{
    uint32_t period = (uint32_t)s->value;
    if (s->kind == HF_WINDOW_USED)
        hf_used_windows(m);
    else if (s->kind == HF_WINDOW_LAYERS ||
             (s->kind == HF_WINDOW_LAYERS_OR_ONE && hf_get(m, "layer_types")))
        hf_layer_windows(m, s->key ? hf_count(m, s->key, period, 1, INT32_MAX) : period, 0);
    else if (s->kind != HF_WINDOW_ALL || hf_on(m, "use_sliding_window", 0))
        hf_one_window(m);
}

/* Sizes are above 0, but those of parts that a model may lack. */
static uint32_t step_size(struct hf_model *m, const struct hf_step *s)
{
    int is_used = s->at == offsetof(struct ckpt_hparams, n_expert_used),
        is_n = s->at == offsetof(struct ckpt_hparams, n_expert),
        may_be_none = s->at == offsetof(struct ckpt_hparams, n_ff_shared) ||
                      s->at == offsetof(struct ckpt_hparams, n_input);
    uint32_t most = is_used ? m->c->hp.n_expert : is_n ? 1024 : 1 << 23;
    return hf_count(m, s->key, (int64_t)s->value, !may_be_none, most);
}

/* Steps that set a member of the checkpoint's numbers, or the model's variant. */
static void step_set(struct hf_model *m, const struct hf_step *s)
{
    void *to = s->at == HF_TO_VARIANT ? (void *)&m->variant : (char *)&m->c->hp + s->at;
    if (s->kind == HF_SET || (s->kind == HF_UNLESS && !hf_on(m, s->key, 1)))
        *(float *)to = (float)s->value;
    else if (s->kind == HF_NUMBER || s->kind == HF_POSITIVE)
        *(float *)to = step_number(m, s);
    else if (s->kind == HF_SIZE)
        *(uint32_t *)to = step_size(m, s);
    else if (s->kind == HF_FLAG || s->kind == HF_FLAG_NOT)
        *(int *)to = hf_on(m, s->key, (int)s->value) != (s->kind == HF_FLAG_NOT);
}

static void take_step(struct hf_model *m, const struct hf_step *s)
{
    if (s->kind == HF_DO)
        s->call(m);
    else if (s->kind == HF_IN)
        m->at = hf_value(m->cfg.text, s->key);
    else if (s->kind >= HF_SET && s->kind <= HF_SIZE)
        step_set(m, s);
    else if (s->kind == HF_EXPERTS)
        step_experts(m, s->key);
    else if (s->kind == HF_EXPERT_NORM && hf_on(m, "norm_topk_prob", 0) != (int)s->value)
        m->c->hp.expert_norm = s->value != 0 ? -1 : 1;
    else if (s->kind >= HF_WINDOW_ONE)
        step_window(m, s);
    else if (s->kind <= HF_IS)
        step_check(m, s);
}

void hf_take_steps(struct hf_model *m)
{
    for (size_t i = 0; i < m->family->n_steps; i++)
        take_step(m, &m->family->steps[i]);
}
