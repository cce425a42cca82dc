/* Finds the tensors of quantised matrices. See hf_quant.h.
 *
 * A matrix X.weight is stored as X.qweight, X.qzeros, X.scales and X.g_idx (GPTQ, AWQ), or as X.weight
 * of words, X.scales and X.biases (MLX). hf_unpack checks the parts and puts X.weight in the place of the
 * first one, so that what follows sees a matrix of floats.
 */
#include "convert/families/hf_quant.h"

#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_BASE = 255, MAX_SIDE = 1 << 24 /* rows, columns */ };

struct quant {
    enum hf_scheme scheme;
    unsigned bits;
    uint64_t group; /* 0: the whole row */
    unsigned plus;
    const json_t *settings; /* of MLX: matrices have their own by name */
};

static const char *const scheme_names[] = {"GPTQ", "AWQ", "MLX"};

/* ---- settings -------------------------------------------------------------------------------- */

static int refuse_setting(const char *key, const char *found, const char *expected, mgpt_error *err)
{
    return ckpt_refuse(err, "config.json: quantization_config: %s %.24s is not read, %s", key,
                       found, expected);
}

static int setting_is(const json_t *settings, const char *key, const char *word, int absent)
{
    const char *text = json_string_value(hf_value(settings, key));
    return text ? strcasecmp(text, word) == 0 : absent;
}

/* The integer of the first of two keys that is there, or `absent`. */
static json_int_t setting_number(const json_t *settings, const char *key, const char *old,
                                 json_int_t absent)
{
    const json_t *v = hf_value(settings, key);
    v = v ? v : hf_value(settings, old);
    return json_is(v, JSON_INTEGER) ? json_integer_value(v) : absent;
}

/* Bits and group; `allowed` has a 1 for each number of bits. */
static int read_numbers(const json_t *settings, unsigned allowed, struct quant *q, mgpt_error *err)
{
    json_int_t bits = setting_number(settings, "bits", "w_bit", 0);
    json_int_t group = setting_number(settings, "group_size", "q_group_size", 0);
    static const char *const expected[] = {[HF_GPTQ] = "expected 2 to 8, not 5 to 7",
                                           [HF_AWQ] = "expected 4",
                                           [HF_MLX] = "expected 2 to 8, not 7"};
    char found[32];
    if (bits < 1 || bits > 8 || !(allowed >> bits & 1)) {
        snprintf(found, sizeof found, "%lld", (long long)bits);
        return refuse_setting("bits", found, expected[q->scheme], err);
    }
    if (group != -1 && (group < 1 || group > MAX_SIDE)) {
        snprintf(found, sizeof found, "%lld", (long long)group);
        return refuse_setting("group_size", found, "expected -1 or the columns of a group", err);
    }
    q->bits = (unsigned)bits;
    q->group = group == -1 ? 0 : (uint64_t)group;
    return MGPT_OK;
}

static int read_gptq(const json_t *settings, struct quant *q, mgpt_error *err)
{
    const json_t *dynamic = hf_value(settings, "dynamic");
    int version_2 = setting_is(settings, "checkpoint_format", "gptq_v2", 0);
    if (!version_2 && !setting_is(settings, "checkpoint_format", "gptq", 1))
        return refuse_setting("checkpoint_format",
                              json_string_value(hf_value(settings, "checkpoint_format")),
                              "gptq and gptq_v2 are", err);
    if (json_object_size(dynamic) > 0)
        return refuse_setting("dynamic", "(settings per matrix)", "one setting for all is", err);
    q->plus = version_2 ? 0 : 1;
    return read_numbers(settings, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8, q, err);
}

static int read_awq(const json_t *settings, struct quant *q, mgpt_error *err)
{
    if (!setting_is(settings, "version", "gemm", 1))
        return refuse_setting("version", json_string_value(hf_value(settings, "version")),
                              "gemm is", err);
    if (json_is(hf_value(settings, "zero_point"), JSON_FALSE))
        return refuse_setting("zero_point", "false", "true is", err);
    return read_numbers(settings, 1 << 4, q, err);
}

static int read_mlx(const json_t *settings, struct quant *q, mgpt_error *err)
{
    if (!setting_is(settings, "mode", "affine", 1))
        return refuse_setting("mode", json_string_value(hf_value(settings, "mode")), "affine is",
                              err);
    q->settings = settings;
    return read_numbers(settings, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8, q, err);
}

/* 1: the settings are read; 0: the model is not quantised; negative. */
static int read_quant(const struct hf_model *m, const json_t *side, struct quant *q,
                      mgpt_error *err)
{
    const json_t *settings = hf_value(m->cfg.root, "quantization_config");
    const json_t *mlx = hf_value(m->cfg.root, "quantization");
    settings = settings ? settings : hf_value(m->cfg.text, "quantization_config");
    settings = settings ? settings : side;
    const char *method = json_string_value(hf_value(settings, "quant_method"));
    if (!method && side) /* written by AutoAWQ, or AutoGPTQ */
        method = hf_value(side, "w_bit") ? "awq" : "gptq";
    *q = (struct quant){.scheme = HF_MLX};
    if (json_is(mlx, JSON_OBJECT) && !method)
        return read_mlx(mlx, q, err) < 0 ? MGPT_EFILE : 1;
    if (!settings)
        return 0;
    q->scheme = method && strcasecmp(method, "awq") == 0 ? HF_AWQ : HF_GPTQ;
    const char *algorithm = json_string_value(hf_value(settings, "quant_algo"));
    if (!method || (q->scheme == HF_GPTQ && strcasecmp(method, "gptq") != 0))
        return ckpt_refuse(
            err,
            "config.json: quantization_config: quant_method %.24s%s%.24s is not read, "
            "gptq, awq and MLX are: save the model dequantised, or take the original",
            method ? method : "(none)", algorithm ? " with quant_algo " : "",
            algorithm ? algorithm : "");
    return (q->scheme == HF_AWQ ? read_awq : read_gptq)(settings, q, err) < 0 ? MGPT_EFILE : 1;
}

/* Whether a name ends so; *base is what is before it. */
static int ends_with(const char *name, const char *end, char base[MAX_BASE + 1])
{
    size_t n = strlen(name), n_end = strlen(end);
    if (n <= n_end || n - n_end > MAX_BASE - 16 || strcmp(name + n - n_end, end) != 0)
        return 0;
    memcpy(base, name, n - n_end);
    base[n - n_end] = 0;
    return 1;
}

static int has_packed_names(const struct state *s)
{
    char base[MAX_BASE + 1];
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (ends_with(s->tensors[i].name, ".qweight", base))
            return 1;
    return 0;
}

/* ---- the parts of a matrix ------------------------------------------------------------------- */

static int is_words(const struct state_tensor *t)
{
    return t->type == STATE_I32 || t->type == STATE_U32;
}

static int is_real(const struct state_tensor *t)
{
    return state_dtype(t->type) != NULL;
}

/* Two dimensions of 1 to MAX_SIDE, in order and without gaps. */
static int is_matrix(const struct state_tensor *t)
{
    return t->n_dims == 2 && t->shape[0] && t->shape[1] && t->shape[0] <= MAX_SIDE &&
           t->shape[1] <= MAX_SIDE && t->strides[1] == 1 && t->strides[0] == t->shape[1];
}

/* The part BASE.NAME, [rows, columns] of words or of floats. */
static const uint8_t *find_part(struct state *s, const char *base, const char *name, uint64_t rows,
                                uint64_t columns, int (*has_type)(const struct state_tensor *t),
                                mgpt_error *err)
{
    char full[MAX_BASE + 32];
    snprintf(full, sizeof full, "%s.%s", base, name);
    const struct state_tensor *t = state_find(s, full);
    if (!t) {
        state_missing(full, err);
        return NULL;
    }
    if (!has_type(t) || !is_matrix(t)) {
        ckpt_refuse_tensor(err, full,
                           "element type %s and %u dimensions, not those of a quantised matrix",
                           state_type_name(t->type), t->n_dims);
        return NULL;
    }
    return state_check_shape(t, rows, columns, err) < 0 ? NULL : t->bytes.data;
}

/* The type of the scales; STATE_OTHER when there are none. */
static enum state_type scale_type(const struct state *s, const char *base)
{
    char full[MAX_BASE + 32];
    snprintf(full, sizeof full, "%s.scales", base);
    const struct state_tensor *t = state_peek(s, full);
    return t ? t->type : STATE_OTHER;
}

static int read_g_idx(struct state *s, const char *base, struct hf_packed *p, mgpt_error *err)
{
    char full[MAX_BASE + 32];
    snprintf(full, sizeof full, "%s.g_idx", base);
    const struct state_tensor *t = state_find(s, full);
    if (!t || t->n_dims == 0 || t->shape[0] == 0)
        return MGPT_OK;
    if (t->type != STATE_I32 || t->strides[0] != 1)
        return ckpt_refuse_tensor(err, full, "element type %s, expected I32",
                                  state_type_name(t->type));
    if (state_check_shape(t, 0, p->n_in, err) < 0)
        return MGPT_EFILE;
    for (uint64_t i = 0; i < p->n_in; i++) {
        uint32_t group = hf_packed_word(t->bytes.data, i);
        if (group >= p->n_groups)
            return ckpt_refuse_tensor(err, full, "column %llu has group %d of %llu",
                                      (unsigned long long)i, (int32_t)group,
                                      (unsigned long long)p->n_groups);
    }
    p->g_idx = t->bytes.data;
    return MGPT_OK;
}

/* Sizes of the matrix from those of its words. */
static int set_sizes(struct hf_packed *p, const struct state_tensor *words, const struct quant *q,
                     mgpt_error *err)
{
    int down = p->scheme == HF_GPTQ;
    uint64_t packed = words->shape[down ? 0 : 1], other = words->shape[down ? 1 : 0];
    uint64_t numbers = packed * 32 / q->bits;
    if (packed * 32 % q->bits)
        return ckpt_refuse_tensor(err, words->name, "%llu words are not whole numbers of %u bits",
                                  (unsigned long long)packed, q->bits);
    p->n_in = p->scheme == HF_AWQ ? other : numbers;
    p->n_out = p->scheme == HF_AWQ ? numbers : other;
    p->group = q->group ? q->group : p->n_in;
    p->n_groups = (p->n_in + p->group - 1) / p->group;
    if (p->scheme != HF_MLX && p->n_out * q->bits % 32)
        return ckpt_refuse_tensor(err, words->name, "%llu columns of %u bits are not whole words",
                                  (unsigned long long)p->n_out, q->bits);
    return MGPT_OK;
}

static int find_parts(struct state *s, const char *base, struct hf_packed *p, mgpt_error *err)
{
    uint64_t rows = p->n_groups, columns = p->n_out;
    p->scale_type = scale_type(s, base);
    if (p->scheme == HF_MLX) {
        rows = p->n_out;
        columns = p->n_groups;
    }
    p->scales = find_part(s, base, "scales", rows, columns, is_real, err);
    if (!p->scales)
        return MGPT_EFILE;
    if (p->scheme == HF_MLX)
        p->zeros = find_part(s, base, "biases", rows, columns, is_real, err);
    else
        p->zeros = find_part(s, base, "qzeros", rows, p->n_out * p->bits / 32, is_words, err);
    if (!p->zeros)
        return MGPT_EFILE;
    if (p->scheme == HF_MLX) {
        char full[MAX_BASE + 32];
        snprintf(full, sizeof full, "%s.biases", base);
        if (state_peek(s, full)->type != p->scale_type)
            return ckpt_refuse_tensor(err, full, "its element type is not that of the scales");
    }
    return p->scheme == HF_GPTQ ? read_g_idx(s, base, p, err) : MGPT_OK;
}

/* The settings of one matrix of MLX, which may be its own. */
static int own_settings(const struct quant *all, const char *base, struct quant *q, mgpt_error *err)
{
    *q = *all;
    const json_t *own = all->settings ? hf_value(all->settings, base) : NULL;
    return json_is(own, JSON_OBJECT) ? read_mlx(own, q, err) : MGPT_OK;
}

/* Puts the matrix in the place of its words. */
static int unpack_matrix(struct state *s, size_t i, const char *base, const struct quant *all,
                         mgpt_error *err)
{
    struct state_tensor *t = &s->tensors[i];
    struct hf_packed *p = ckpt_alloc(s->c, 1, sizeof *p);
    char name[MAX_BASE + 32];
    struct quant q;
    int n = snprintf(name, sizeof name, "%s.weight", base);
    char *copy = ckpt_text(s->c, name, (size_t)n);
    if (!p || !copy)
        return err_memory(err, "a quantised matrix", sizeof *p);
    if (own_settings(all, base, &q, err) < 0)
        return MGPT_EFILE;
    if (!is_words(t) || !is_matrix(t))
        return ckpt_refuse_tensor(
            err, t->name, "element type %s and %u dimensions, expected a matrix of I32 or U32",
            state_type_name(t->type), t->n_dims);
    *p = (struct hf_packed){.scheme = q.scheme, .bits = q.bits, .plus = q.plus, .q = t->bytes.data};
    if (set_sizes(p, t, &q, err) < 0 || find_parts(s, base, p, err) < 0)
        return MGPT_EFILE;
    hf_packed_seal(p);
    *t = (struct state_tensor){.name = copy,
                               .type = STATE_OTHER,
                               .n_dims = 2,
                               .shape = {p->n_out, p->n_in},
                               .bytes = t->bytes,
                               .packed = &p->base};
    state_contiguous(t);
    return MGPT_OK;
}

/* ---- the model ------------------------------------------------------------------------------- */

static void note_types(struct checkpoint *c, const struct state *s, const struct quant *q)
{
    char text[120] = "";
    size_t at = 0, counts[DTYPE_N_IDS] = {0};
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (s->tensors[i].packed)
            counts[s->tensors[i].packed->type->id]++;
    for (uint32_t id = 0; id < DTYPE_N_IDS; id++)
        if (counts[id] && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%zu %s", at ? ", " : "",
                                   counts[id], dtype_find(id)->name);
    if (at)
        ckpt_note(c, "quantised by %s, %u bits: matrices have the exact values as %s",
                  scheme_names[q->scheme], q->bits, text);
}

static int unpack_all(struct hf_model *m, const struct quant *q, mgpt_error *err)
{
    struct state *s = &m->state;
    char base[MAX_BASE + 1], scales[MAX_BASE + 32];
    const char *end = q->scheme == HF_MLX ? ".weight" : ".qweight";
    int status = state_seal(s, err);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(s->tensors); i++) {
        if (!ends_with(s->tensors[i].name, end, base))
            continue;
        snprintf(scales, sizeof scales, "%s.scales", base);
        if (q->scheme != HF_MLX || state_has(s, scales))
            status = unpack_matrix(s, i, base, q, err);
    }
    if (status == MGPT_OK)
        note_types(m->c, s, q);
    return status;
}

int hf_unpack(struct hf_model *m, mgpt_error *err)
{
    static const char *const names[] = {"quantize_config.json", "quant_config.json"};
    struct ckpt_side side;
    struct quant q;
    json_t *settings = NULL;
    int status = read_quant(m, NULL, &q, err), has_names = has_packed_names(&m->state);
    if (status == 0 && has_names) {
        status = m->in->side(m->in->user, 0, names, HF_COUNT(names), &side, err);
        if (status > 0 && !(settings = hf_json(side.bytes, side.name, err)))
            return err->status;
        if (status > 0)
            status = read_quant(m, settings, &q, err);
        if (status == 0)
            status = ckpt_refuse(err, "config.json: quantization_config: missing; the tensors are "
                                      "those of a quantised model");
    }
    if (status > 0)
        status = unpack_all(m, &q, err);
    json_decref(settings);
    return status;
}

static int is_zeros(struct span bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        if (bytes.data[i])
            return 0;
    return 1;
}

void hf_skip_zero_biases(struct state *s)
{
    char base[MAX_BASE + 1], weight[MAX_BASE + 32];
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        struct state_tensor *t = &s->tensors[i];
        if (t->used || !ends_with(t->name, ".bias", base))
            continue;
        snprintf(weight, sizeof weight, "%s.weight", base);
        const struct state_tensor *matrix = state_peek(s, weight);
        t->used = matrix && matrix->packed && is_zeros(t->bytes);
    }
}
