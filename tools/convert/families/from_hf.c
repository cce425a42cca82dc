/* Reader: Hugging Face models, that is config.json, safetensors files and tokenizer files in a
 * directory.
 *
 * The input may be config.json, model.safetensors or its index; the rest is next to it. What a
 * model_type means is data (models.txt). A value of config.json that changes
 * the forward pass in a way that cannot be expressed is refused by its key, and so is every tensor
 * that is not accounted for: what is written runs as the original does.
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

static int find_family(struct hf_model *m, mgpt_error *err)
{
    char names[100] = "";
    const struct hf_family *f;
    size_t at = 0, room = sizeof names - 4; /* 4: the end of a list that is cut */
    for (size_t i = 0; (f = hf_family_at(i)); i++) {
        if (strcmp(f->model_type, m->cfg.model_type) == 0) {
            m->family = f;
            return MGPT_OK;
        }
        if (at < room)
            at += (size_t)snprintf(names + at, room - at, " %s", f->model_type);
    }
    if (at >= room) /* at a whole name: a line has no room for all */
        memcpy(strrchr(names, ' '), " ...", 5);
    const char *why = arch_why_refused(m->cfg.model_type, strlen(m->cfg.model_type));
    return ckpt_refuse(err, "config.json: model_type %.24s is not supported%s%s", m->cfg.model_type,
                       why ? ": " : "; these are:", why ? why : names);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int read_activation(struct hf_model *m, mgpt_error *err)
{
    static const struct {
        const char *hf, *ours;
    } names[] = {
        {"relu", "relu"},          {"relu2", "relu2"},         {"silu", "silu"},
        {"swish", "silu"},         {"gelu", "gelu_erf"},       {"gelu_python", "gelu_erf"},
        {"gelu_new", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
        {"xielu", "xielu"}};
    const char *key = m->family->keys->activation, *name;
    if (!key)
        return MGPT_OK;
    if (hf_text(m->cfg.text, key, m->family->keys->activation_absent, &name, err) < 0)
        return MGPT_EFILE;
    for (size_t i = 0; i < HF_COUNT(names); i++)
        if (strcmp(names[i].hf, name) == 0) {
            int usual = strcmp(names[i].ours, m->family->activation) == 0;
            if (!usual && strcmp(name, "xielu") == 0)
                break; /* it has weights */
            m->c->hp.activation = usual ? NULL : names[i].ours;
            return MGPT_OK;
        }
    return ckpt_refuse(err, "config.json: %s: %.40s is not supported", key, name);
}

static int read_sizes(struct hf_model *m, mgpt_error *err)
{
    const struct hf_keys *k = m->family->keys;
    const json_t *cfg = m->cfg.text;
    struct ckpt_hparams *hp = &m->c->hp;
    const struct {
        const char *key;
        uint32_t *to;
        int64_t absent;
        uint32_t min, max;
    } sizes[] = {
        {"vocab_size", &hp->n_vocab, -1, 1, INT32_MAX},
        {k->n_ctx, &hp->n_ctx, k->n_ctx_absent ? (int64_t)k->n_ctx_absent : -1, 1, 1 << 30},
        {k->n_embd, &hp->n_embd, -1, 1, 1 << 20},
        {k->n_layer, &hp->n_layer, -1, 0, CKPT_MAX_LAYERS},
        {k->n_head, &hp->n_head, -1, 1, 1 << 16},
        {k->n_head_kv, &hp->n_head_kv, 0, 1, 1 << 16},
        {k->head_dim, &hp->head_dim, 0, 1, 1 << 20},
        {k->n_ff, &hp->n_ff, k->n_ff_absent ? 0 : -1, 1, 1 << 23},
    };
    for (size_t i = 0; i < HF_COUNT(sizes); i++) {
        if (!sizes[i].key)
            continue;
        if (hf_size(cfg, sizes[i].key, sizes[i].absent, sizes[i].to, err) < 0)
            return MGPT_EFILE;
        if (hf_value(cfg, sizes[i].key) &&
            (*sizes[i].to < sizes[i].min || *sizes[i].to > sizes[i].max))
            return ckpt_refuse(err, "config.json: %s is %u, expected %u to %u", sizes[i].key,
                               *sizes[i].to, sizes[i].min, sizes[i].max);
    }
    if (!hp->n_ff)
        hp->n_ff = k->n_ff_absent * hp->n_embd;
    return MGPT_OK;
}

/* The sizes against each other; head_dim stays 0 where the other two give it and no key is
 * needed. */
static int check_heads(struct hf_model *m, mgpt_error *err)
{
    const struct hf_keys *k = m->family->keys;
    struct ckpt_hparams *hp = &m->c->hp;
    if (!hp->n_head_kv)
        hp->n_head_kv = hp->n_head;
    if (hp->n_head % hp->n_head_kv)
        return ckpt_refuse(err, "config.json: %s %u does not divide %s %u", k->n_head_kv,
                           hp->n_head_kv, k->n_head, hp->n_head);
    if (!hp->head_dim && hp->n_embd % hp->n_head)
        return ckpt_refuse(err, "config.json: %s %u does not divide %s %u", k->n_head, hp->n_head,
                           k->n_embd, hp->n_embd);
    if (!hp->head_dim)
        hp->head_dim = hp->n_embd / hp->n_head;
    if (!m->family->states_head_dim && (uint64_t)hp->head_dim * hp->n_head == hp->n_embd)
        hp->head_dim = 0;
    return MGPT_OK;
}

static int read_eps(struct hf_model *m, mgpt_error *err)
{
    const char *key = m->family->keys->eps;
    double eps;
    if (!key)
        return MGPT_OK;
    if (hf_real(m->cfg.text, key, NAN, &eps, err) < 0)
        return MGPT_EFILE;
    if (!(eps >= 0 && eps < 1))
        return hf_refuse(key, "expected a number from 0 to 1", err);
    m->c->hp.norm_eps = (float)eps;
    return MGPT_OK;
}

static int configure(struct hf_model *m, mgpt_error *err)
{
    m->c->hp.arch = m->family->arch;
    if (read_sizes(m, err) < 0 || check_heads(m, err) < 0 || read_activation(m, err) < 0 ||
        read_eps(m, err) < 0 || hf_rope(m, err) < 0)
        return MGPT_EFILE;
    int status = hf_run(m, hf_take_steps, err);
    return status < 0 ? status : hf_check_switches(m, err);
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

/* The rows, with the biases that config.json says there are, and the head. */
static int choose_rows(struct hf_model *m, struct state_row **rows, mgpt_error *err)
{
    const struct {
        unsigned flag;
        const char *key;
    } keys[] = {{HF_ATTENTION_BIAS, "attention_bias"},
                {HF_OUT_BIAS, "attention_out_bias"},
                {HF_MLP_BIAS, "mlp_bias"},
                {HF_USE_BIAS, "use_bias"},
                {HF_QKV_BIAS, "use_qkv_bias"},
                {HF_ENABLE_BIAS, "enable_bias"},
                {HF_BIAS, "bias"}};
    for (size_t i = 0; i < m->family->n_rows; i++) {
        struct state_row row = m->family->rows[i];
        if ((row.flags & HF_SEQUENTIAL && m->c->hp.parallel > 0) ||
            row.flags & (m->variant ? HF_USUAL : HF_VARIANT) ||
            (row.flags & HF_WHOLE_ROWS && m->projected))
            continue;
        for (size_t k = 0; k < HF_COUNT(keys); k++) {
            int on = 0, absent = (m->family->biases & keys[k].flag) != 0;
            if (row.flags & keys[k].flag && hf_flag(m->cfg.text, keys[k].key, absent, &on, err) < 0)
                return MGPT_EFILE;
            if (on)
                row.flags |= STATE_BIAS;
        }
        if (!arr_push(*rows, row))
            return err_memory(err, "the list of tensors", sizeof row);
    }
    return hf_put_head(m, rows, err);
}

static int put_tensors(struct hf_model *m, mgpt_error *err)
{
    struct state_row *rows = NULL;
    char what[48];
    strip_prefixes(m);
    int status = state_seal(&m->state, err);
    if (status == MGPT_OK)
        status = hf_name_tied(m, err);
    if (status == MGPT_OK)
        status = choose_rows(m, &rows, err);
    if (status == MGPT_OK)
        status = state_map(&m->state, rows, arr_len(rows), err);
    arr_free(rows);
    if (status == MGPT_OK)
        status = hf_put_rope(m, err);
    if (status == MGPT_OK && m->family->put.call)
        status = hf_run(m, m->family->put.call, err);
    hf_skip_buffers(&m->state);
    hf_skip_other_parts(m);
    hf_skip_zero_biases(&m->state);
    snprintf(what, sizeof what, "%s of %u layers", m->family->model_type, m->c->hp.n_layer);
    if (status == MGPT_OK)
        status = state_check_used(&m->state, what, err);
    if (status == MGPT_EFILE)
        hf_name_programs(&m->state, m->family, err);
    return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

static const char *format_of(const struct hf_model *m)
{
    char text[100];
    int n = snprintf(text, sizeof text, "Hugging Face %s", m->family->model_type);
    if (m->wrapper)
        n += snprintf(text + n, sizeof text - (size_t)n, ", the text part of a %s",
                      hf_wrapper_name(m->wrapper));
    return ckpt_text(m->c, text, (size_t)n);
}

/* What the input is: one of them, or `state`. */
struct parts {
    struct span config, tensors, index;
    struct state *state;
};

static int from_hf_read_model(struct hf_model *m, const struct parts *parts, mgpt_error *err)
{
    if (hf_wrapper(m, err) < 0 || find_family(m, err) < 0)
        return MGPT_EFILE;
    m->c->model_type = m->family->model_type;
    m->c->format = format_of(m);
    if (!m->c->format)
        return err_memory(err, "the name of the format", 1);
    int status = hf_spellings(m, err);
    if (status == MGPT_OK)
        status = hf_defaults(m, err);
    if (status == MGPT_OK)
        status = configure(m, err);
    if (status == MGPT_OK && parts->index.data)
        status = hf_weights_sharded(m, parts->index, err);
    else if (status == MGPT_OK && !parts->state)
        status = hf_weights(m, parts->tensors, err);
    if (status == MGPT_OK)
        status = hf_unpack(m, err);
    if (status == MGPT_OK)
        status = put_tensors(m, err);
    if (status < 0 || m->in->options->given & OPT_NO_TOKENIZER)
        return status;
    return hf_tokenizer_read(m->c, m->in, m->c->hp.n_vocab, err);
}

static int read_parts(struct checkpoint *c, const struct ckpt_input *in, const struct parts *parts,
                      mgpt_error *err)
{
    struct hf_model m = {.c = c, .in = in};
    struct ckpt_side side = {.bytes = parts->config};
    static const char *const name = "config.json";
    int found = parts->config.data ? 1 : in->side(in->user, 0, &name, 1, &side, err);
    if (found < 0)
        return found;
    if (!found)
        return ckpt_refuse(
            err, "side file config.json: not next to the input; it has the model's numbers");
    if (in->directory && *in->directory)
        c->name = in->directory;
    state_init(&m.state, c);
    if (parts->state)
        m.state = *parts->state;
    int status = hf_config_read(&m.cfg, side.bytes, err);
    if (status == MGPT_OK)
        status = from_hf_read_model(&m, parts, err);
    hf_config_free(&m.cfg);
    if (parts->state)
        *parts->state = m.state;
    else
        state_free(&m.state);
    return status;
}

/* ---- the input ------------------------------------------------------------------------------- */

enum ckpt_match hf_safetensors_sniff(struct span bytes)
{
    return st_sniff(bytes) ? MATCH_YES : MATCH_NO;
}

int hf_safetensors_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    const struct parts parts = {.tensors = in->bytes};
    return read_parts(c, in, &parts, err);
}

int hf_json_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct parts parts = {.config = in->bytes};
    if (hf_is_index(in->bytes))
        parts = (struct parts){.index = in->bytes};
    return read_parts(c, in, &parts, err);
}

/* Without model_type, as early files are: what transformers writes, and programs of people do not. */
static int is_untyped(const struct hf_config *cfg)
{
    return hf_value(cfg->text, "architectures") || hf_value(cfg->text, "transformers_version") ||
           (hf_value(cfg->text, "initializer_range") && hf_value(cfg->text, "layer_norm_epsilon"));
}

int hf_is_beside(const struct ckpt_input *in, mgpt_error *err)
{
    static const char *const name = "config.json";
    struct ckpt_side side;
    struct hf_config cfg;
    mgpt_error local = {0};
    int found = in->side(in->user, 0, &name, 1, &side, err);
    if (found <= 0)
        return found;
    if (hf_config_read(&cfg, side.bytes, &local) == MGPT_OK) {
        int is_ours = cfg.model_type || cfg.whole_type || is_untyped(&cfg);
        hf_config_free(&cfg);
        return is_ours;
    }
    if (local.status == MGPT_EMEM && err)
        *err = local;
    return local.status == MGPT_EMEM ? MGPT_EMEM : 0;
}

int hf_read_state(struct checkpoint *c, const struct ckpt_input *in, struct state *s,
                  mgpt_error *err)
{
    const struct parts parts = {.state = s};
    return read_parts(c, in, &parts, err);
}
