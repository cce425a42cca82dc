/* Reader: Hugging Face models, that is config.json, safetensors files and tokenizer files in a
 * directory.
 *
 * The input may be config.json, model.safetensors or its index; the rest is next to it. What a
 * model_type means is data (models.txt). A value of config.json that changes the forward pass in a
 * way that cannot be expressed is refused by its key, and so is every tensor that is not accounted
 * for: what is written runs as the original does.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/safetensors.h"
#include "convert/families/hf_special.h"
#include "convert/vocab/hf_tokenizer.h"
#include "model/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- families -------------------------------------------------------------------------------- */

static void find_family(struct hf_model *m)
{
    char names[100] = "";
    const struct hf_family *f;
    size_t at = 0, room = sizeof names - 4; /* 4: the end of a list that is cut */
    for (size_t i = 0; (f = hf_family_at(i)); i++) {
        if (!f->program != !m->parts->described)
            continue;
        if (strcmp(f->model_type, m->cfg.model_type) == 0) {
            m->family = f;
            return;
        }
        if (at < room)
            at += (size_t)snprintf(names + at, room - at, " %s", f->model_type);
    }
    if (at >= room) /* at a whole name: a line has no room for all */
        memcpy(strrchr(names, ' '), " ...", 5);
    const char *why = arch_why_refused(m->cfg.model_type, strlen(m->cfg.model_type));
    hf_stop(m, "model_type %.24s is not supported%s%s", m->cfg.model_type,
            why ? ": " : "; these are:", why ? why : names);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void read_activation(struct hf_model *m)
{
    static const struct {
        const char *hf, *ours;
    } names[] = {
        {"relu", "relu"},          {"relu2", "relu2"},         {"silu", "silu"},
        {"swish", "silu"},         {"gelu", "gelu_erf"},       {"gelu_python", "gelu_erf"},
        {"gelu_new", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
        {"xielu", "xielu"}};
    const struct hf_keys *k = m->family->keys;
    const char *name = k->activation ? hf_word(m, k->activation, k->activation_absent) : NULL;
    size_t i = 0;
    while (name && i < HF_COUNT(names) && strcmp(names[i].hf, name) != 0)
        i++;
    if (!name)
        return;
    int usual = i < HF_COUNT(names) && strcmp(names[i].ours, m->family->activation) == 0;
    if (i == HF_COUNT(names) || (!usual && strcmp(name, "xielu") == 0)) /* that has weights */
        hf_stop(m, "%s: %.40s is not supported", k->activation, name);
    m->c->hp.activation = usual ? NULL : names[i].ours;
}

/* Reads a size in [min, max]. Gives `absent` if the family has no such key, or the key is absent or null;
 * absent below 0: the key must be present. */
static uint32_t read_size(struct hf_model *m, const char *key, int64_t absent, uint32_t min,
                          uint32_t max)
{
    if (!key || (absent >= 0 && !hf_get(m, key)))
        return (uint32_t)absent;
    return hf_count(m, key, absent, min, max);
}

static void read_sizes(struct hf_model *m)
{
    const struct hf_keys *k = m->family->keys;
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_vocab = read_size(m, "vocab_size", -1, 1, INT32_MAX);
    hp->n_ctx = read_size(m, k->n_ctx, k->n_ctx_absent ? (int64_t)k->n_ctx_absent : -1, 1, 1 << 30);
    hp->n_embd = read_size(m, k->n_embd, -1, 1, 1 << 20);
    hp->n_layer = read_size(m, k->n_layer, -1, 0, CKPT_MAX_LAYERS);
    hp->n_head = read_size(m, k->n_head, -1, 1, 1 << 16);
    hp->n_head_kv = read_size(m, k->n_head_kv, hp->n_head, 1, 1 << 16);
    hp->head_dim = read_size(m, k->head_dim, 0, 1, 1 << 20);
    hp->n_ff = read_size(m, k->n_ff, k->n_ff_absent || !k->n_ff ? 0 : -1, 1, 1 << 23);
    if (!hp->n_ff)
        hp->n_ff = k->n_ff_absent * hp->n_embd;
    if (m->family->latent)
        hf_latent_sizes(m);
}

/* The sizes against each other; head_dim stays 0 where the other two give it and no key is
 * needed. */
static void check_heads(struct hf_model *m)
{
    const struct hf_keys *k = m->family->keys;
    struct ckpt_hparams *hp = &m->c->hp;
    if (hp->n_head % hp->n_head_kv)
        hf_stop(m, "%s %u does not divide %s %u", k->n_head_kv, hp->n_head_kv, k->n_head,
                hp->n_head);
    if (!hp->head_dim && hp->n_embd % hp->n_head)
        hf_stop(m, "%s %u does not divide %s %u", k->n_head, hp->n_head, k->n_embd, hp->n_embd);
    if (!hp->head_dim)
        hp->head_dim = hp->n_embd / hp->n_head;
    if (!m->family->states_head_dim && (uint64_t)hp->head_dim * hp->n_head == hp->n_embd)
        hp->head_dim = 0;
}

static void read_eps(struct hf_model *m)
{
    const char *key = m->family->keys->eps;
    if (!key)
        return;
    double eps = hf_any(m, key, NAN);
    if (!(eps >= 0 && eps < 1))
        hf_stop(m, "%s: expected a number from 0 to 1", key);
    m->c->hp.norm_eps = (float)eps;
}

static void read_config(struct hf_model *m)
{
    m->c->hp.arch = m->family->arch;
    hf_spellings(m);
    hf_defaults(m);
    read_sizes(m);
    check_heads(m);
    read_activation(m);
    read_eps(m);
    hf_rope(m);
    hf_take_steps(m);
    m->at = m->cfg.text;
    hf_check_switches(m);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int strip(const char **name, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(*name, prefix, n) != 0 || (*name)[n] == 0)
        return 0;
    *name += n;
    return 1;
}

/* Takes the family's prefixes off the names, in any order: "model.language_model.layers.0..." */
static void strip_prefixes(struct hf_model *m)
{
    for (size_t i = 0; i < arr_len(m->state.tensors); i++) {
        const char **name = &m->state.tensors[i].name;
        const char *const *prefix = m->family->prefixes;
        while (*prefix)
            prefix = strip(name, *prefix) ? m->family->prefixes : prefix + 1;
    }
}

/* The flag of a row that has a bias by config.json; 0: it has none. */
static unsigned row_bias(struct hf_model *m, unsigned flags)
{
    static const struct {
        unsigned flag;
        const char *key;
    } keys[] = {{HF_ATTENTION_BIAS, "attention_bias"},
                {HF_OUT_BIAS, "attention_out_bias"},
                {HF_MLP_BIAS, "mlp_bias"},
                {HF_USE_BIAS, "use_bias"},
                {HF_QKV_BIAS, "use_qkv_bias"},
                {HF_ENABLE_BIAS, "enable_bias"},
                {HF_BIAS, "bias"}};
    for (size_t k = 0; k < HF_COUNT(keys); k++)
        if (flags & keys[k].flag && hf_on(m, keys[k].key, (m->family->biases & keys[k].flag) != 0))
            return STATE_BIAS;
    return 0;
}

static void put_rows(struct hf_model *m)
{
    struct state_row *rows = ckpt_new(m->c, m->family->n_rows + 1, sizeof *rows); /* 1: the head */
    size_t n = 0;
    for (size_t i = 0; i < m->family->n_rows; i++) {
        rows[n] = m->family->rows[i];
        unsigned flags = rows[n].flags;
        if ((flags & HF_SEQUENTIAL && m->c->hp.parallel > 0) ||
            flags & (m->variant ? HF_USUAL : HF_VARIANT) || (flags & HF_WHOLE_ROWS && m->projected))
            continue;
        rows[n++].flags |= row_bias(m, flags);
    }
    n += (size_t)hf_head_row(m, &rows[n]);
    state_map(&m->state, rows, n);
}

/* Marks tensors that are no weights of the model. */
static void skip_others(struct hf_model *m)
{
    hf_skip_buffers(&m->state);
    hf_skip_other_parts(m);
    hf_skip_further(m);
    hf_skip_zero_biases(&m->state);
}

static void put_tensors(struct hf_model *m)
{
    char what[48];
    snprintf(what, sizeof what, "%s of %u layers", m->family->model_type, m->c->hp.n_layer);
    m->puts = 1;
    strip_prefixes(m);
    hf_number_layers(m);
    state_seal(&m->state);
    hf_name_tied(m);
    hf_check_table(m);
    put_rows(m);
    hf_put_rope(m);
    if (m->family->put.call)
        m->family->put.call(m);
    skip_others(m);
    state_check_used(&m->state, what);
    m->puts = 0;
}

/* ---- the model ------------------------------------------------------------------------------- */

static const char *format_of(struct hf_model *m)
{
    char text[100];
    int n = snprintf(text, sizeof text, "Hugging Face %s", m->family->model_type);
    if (m->wrapper)
        n += snprintf(text + n, sizeof text - (size_t)n, ", the text part of a %s",
                      m->wrapper->model_type);
    return ckpt_copy(m->c, text, (size_t)n);
}

static void read_model(void *arg)
{
    struct hf_model *m = arg;
    const struct hf_parts *parts = m->parts;
    struct ckpt_side side = {.bytes = parts->config};
    static const char *const name = "config.json";
    if (!side.bytes.data && !parts->facts && !ckpt_side(m->c, m->in, 0, &name, 1, &side))
        ckpt_stop(m->c, "side file config.json: not next to the input; it has the model's numbers");
    if (m->in->directory && *m->in->directory && !parts->described)
        m->c->name = m->in->directory;
    hf_config_read(m->c, &m->cfg, parts->facts ? parts->facts : hf_json(m->c, side.bytes, name));
    m->at = m->cfg.text;
    if (parts->described)
        m->cfg.model_type = parts->described;
    hf_wrapper(m);
    find_family(m);
    if (!parts->described) {
        m->c->model_type = m->family->model_type;
        m->c->format = format_of(m);
    }
    read_config(m);
    if (parts->index.data)
        hf_weights_sharded(m, parts->index);
    else if (!parts->state)
        hf_weights(m, parts->tensors);
    hf_unpack(m);
    put_tensors(m);
    if (!parts->described && !(m->in->options->given & OPT_NO_TOKENIZER))
        hf_tokenizer_read(m->c, m->in, m->n_rows ? m->n_rows : m->c->hp.n_vocab);
}

static void read_parts(struct checkpoint *c, const struct ckpt_input *in, struct hf_parts parts)
{
    struct hf_model m = {.c = c, .in = in, .parts = &parts};
    struct state *own = parts.state ? parts.state : state_new(c);
    m.state = *own;
    int status = ckpt_run(c, read_model, &m, c->err);
    *own = m.state;
    if (status == MGPT_EFILE && m.puts) { /* the tensors are not those of the model */
        skip_others(&m);
        hf_name_programs(&m.state, m.family, c->err);
    }
    ckpt_must(c, status);
}

/* ---- the input ------------------------------------------------------------------------------- */

enum ckpt_match hf_safetensors_sniff(struct span bytes)
{
    return st_sniff(bytes) ? MATCH_YES : MATCH_NO;
}

void hf_safetensors_read(struct checkpoint *c, const struct ckpt_input *in)
{
    read_parts(c, in, (struct hf_parts){.tensors = in->bytes});
}

void hf_json_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct hf_parts parts = {.config = in->bytes};
    if (hf_is_index(in->bytes))
        parts = (struct hf_parts){.index = in->bytes};
    read_parts(c, in, parts);
}

/* 1: a config.json without model_type that an early transformers wrote: it has keys that other programs do
 * not write. */
static int is_untyped(const struct hf_config *cfg)
{
    return hf_value(cfg->text, "architectures") || hf_value(cfg->text, "transformers_version") ||
           (hf_value(cfg->text, "initializer_range") && hf_value(cfg->text, "layer_norm_epsilon"));
}

struct beside_run {
    struct checkpoint *c;
    struct span bytes;
    int is_ours;
};

static void look_beside(void *arg)
{
    struct beside_run *r = arg;
    struct hf_config cfg;
    hf_config_read(r->c, &cfg, hf_json(r->c, r->bytes, "config.json"));
    r->is_ours = cfg.model_type || cfg.whole_type || is_untyped(&cfg);
}

int hf_is_beside(struct checkpoint *c, const struct ckpt_input *in)
{
    static const char *const name = "config.json";
    struct ckpt_side side;
    mgpt_error local;
    if (!ckpt_side(c, in, 0, &name, 1, &side))
        return 0;
    struct beside_run run = {.c = c, .bytes = side.bytes};
    if (ckpt_run(c, look_beside, &run, &local) ==
        MGPT_EMEM) { /* it must not be taken for another */
        *c->err = local;
        ckpt_leave(c, MGPT_EMEM);
    }
    return run.is_ours;
}

void hf_read_state(struct checkpoint *c, const struct ckpt_input *in, struct state *s)
{
    read_parts(c, in, (struct hf_parts){.state = s});
}

void hf_read_described(struct checkpoint *c, const struct ckpt_input *in, const char *family,
                       const char *source, json_t *facts, struct state *s)
{
    read_parts(
        c, in,
        (struct hf_parts){.facts = facts, .state = s, .described = family, .source = source});
}
