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
#include "convert/families/hf_coded.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct quant {
    enum hf_scheme scheme;
    unsigned bits;
    uint64_t group; /* 0: the whole row */
    unsigned plus;
    int coded;              /* 1: hf_coded.c reads it */
    const json_t *settings; /* of coded ones; of MLX: matrices have their own by name */
};

static const char *const scheme_names[] = {"GPTQ", "AWQ", "MLX"};

/* ---- settings -------------------------------------------------------------------------------- */

_Noreturn static void refuse_setting(struct checkpoint *c, const char *key, const char *found,
                                     const char *expected)
{
    ckpt_stop(c, "config.json: quantization_config: %s %.24s is not read, %s", key, found,
              expected);
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
static void read_numbers(struct checkpoint *c, const json_t *settings, unsigned allowed,
                         struct quant *q)
{
    json_int_t bits = setting_number(settings, "bits", "w_bit", 0);
    json_int_t group = setting_number(settings, "group_size", "q_group_size", 0);
    static const char *const expected[] = {[HF_GPTQ] = "expected 2 to 8, not 5 to 7",
                                           [HF_AWQ] = "expected 4",
                                           [HF_MLX] = "expected 2 to 8, not 7"};
    char found[32];
    if (bits < 1 || bits > 8 || !(allowed >> bits & 1)) {
        snprintf(found, sizeof found, "%lld", (long long)bits);
        refuse_setting(c, "bits", found, expected[q->scheme]);
    }
    if (group != -1 && (group < 1 || group > HF_MAX_SIDE)) {
        snprintf(found, sizeof found, "%lld", (long long)group);
        refuse_setting(c, "group_size", found, "expected -1 or the columns of a group");
    }
    q->bits = (unsigned)bits;
    q->group = group == -1 ? 0 : (uint64_t)group;
}

static void read_gptq(struct checkpoint *c, const json_t *settings, struct quant *q)
{
    const json_t *dynamic = hf_value(settings, "dynamic");
    int version_2 = setting_is(settings, "checkpoint_format", "gptq_v2", 0);
    if (!version_2 && !setting_is(settings, "checkpoint_format", "gptq", 1))
        refuse_setting(c, "checkpoint_format",
                       json_string_value(hf_value(settings, "checkpoint_format")),
                       "gptq and gptq_v2 are");
    if (json_object_size(dynamic) > 0)
        refuse_setting(c, "dynamic", "(settings per matrix)", "one setting for all is");
    q->plus = version_2 ? 0 : 1;
    read_numbers(c, settings, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8, q);
}

static void read_awq(struct checkpoint *c, const json_t *settings, struct quant *q)
{
    if (!setting_is(settings, "version", "gemm", 1))
        refuse_setting(c, "version", json_string_value(hf_value(settings, "version")), "gemm is");
    if (json_is(hf_value(settings, "zero_point"), JSON_FALSE))
        refuse_setting(c, "zero_point", "false", "true is");
    read_numbers(c, settings, 1 << 4, q);
}

static void read_mlx(struct checkpoint *c, const json_t *settings, struct quant *q)
{
    if (!setting_is(settings, "mode", "affine", 1))
        refuse_setting(c, "mode", json_string_value(hf_value(settings, "mode")), "affine is");
    q->settings = settings;
    read_numbers(c, settings, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8, q);
}

/* Whether the model is quantised, with its settings. `side`: of quantize_config.json; NULL: none. */
static int read_quant(const struct hf_model *m, const json_t *side, struct quant *q)
{
    const json_t *settings = hf_value(m->cfg.root, "quantization_config");
    const json_t *mlx = hf_value(m->cfg.root, "quantization");
    settings = settings ? settings : hf_value(m->cfg.text, "quantization_config");
    settings = settings ? settings : side;
    const char *method = json_string_value(hf_value(settings, "quant_method"));
    if (!method && side) /* written by AutoAWQ, or AutoGPTQ */
        method = hf_value(side, "w_bit") ? "awq" : "gptq";
    *q = (struct quant){.scheme = HF_MLX};
    if (json_is(mlx, JSON_OBJECT) && !method) {
        read_mlx(m->c, mlx, q);
        return 1;
    }
    if (!settings || (method && strcasecmp(method, "mxfp4") == 0 &&
                      strcmp(m->family->model_type, "gpt_oss") == 0)) /* of its experts alone */
        return 0;
    q->settings = settings;
    q->coded = hf_is_coded(method);
    if (q->coded)
        return 1;
    q->scheme = method && strcasecmp(method, "awq") == 0 ? HF_AWQ : HF_GPTQ;
    const char *algorithm = json_string_value(hf_value(settings, "quant_algo"));
    if (!method || (q->scheme == HF_GPTQ && strcasecmp(method, "gptq") != 0))
        ckpt_stop(
            m->c,
            "config.json: quantization_config: quant_method %.24s%s%.24s is not read, "
            "gptq, awq, fp8, compressed-tensors, bitsandbytes, hqq and MLX are: save the model "
            "dequantised, or take the original",
            method ? method : "(none)", algorithm ? " with quant_algo " : "",
            algorithm ? algorithm : "");
    (q->scheme == HF_AWQ ? read_awq : read_gptq)(m->c, settings, q);
    return 1;
}

int hf_ends_with(const char *name, const char *end, char base[HF_MAX_BASE + 1])
{
    size_t n = strlen(name), n_end = strlen(end);
    if (n <= n_end || n - n_end > HF_MAX_BASE - 16 || strcmp(name + n - n_end, end) != 0)
        return 0;
    memcpy(base, name, n - n_end);
    base[n - n_end] = 0;
    return 1;
}

static int has_packed_names(const struct state *s)
{
    char base[HF_MAX_BASE + 1];
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (hf_ends_with(s->tensors[i].name, ".qweight", base))
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

int hf_is_matrix(struct checkpoint *c, const struct state_tensor *t)
{
    if (t->n_dims != 2 || !t->shape[0] || !t->shape[1] || t->shape[0] > HF_MAX_SIDE ||
        t->shape[1] > HF_MAX_SIDE)
        return 0;
    if (t->strides[1] != 1 || t->strides[0] != t->shape[1])
        ckpt_stop_tensor(c, t->name, "a view that is not contiguous: save it with .contiguous()");
    return 1;
}

/* The part BASE.NAME, [rows, columns] of words or of floats. */
static const uint8_t *find_part(struct state *s, const char *base, const char *name, uint64_t rows,
                                uint64_t columns, int (*has_type)(const struct state_tensor *t))
{
    char full[HF_MAX_BASE + 32];
    snprintf(full, sizeof full, "%s.%s", base, name);
    const struct state_tensor *t = state_find(s, full);
    if (!t)
        state_missing(s->c, full);
    if (!has_type(t) || !hf_is_matrix(s->c, t))
        ckpt_stop_tensor(s->c, full,
                         "element type %s and %u dimensions, not those of a quantised matrix",
                         state_type_name(t->type), t->n_dims);
    state_check_shape(s->c, t, rows, columns);
    return t->bytes.data;
}

/* The type of the scales; STATE_OTHER when there are none. */
static enum state_type scale_type(const struct state *s, const char *base)
{
    char full[HF_MAX_BASE + 32];
    snprintf(full, sizeof full, "%s.scales", base);
    const struct state_tensor *t = state_peek(s, full);
    return t ? t->type : STATE_OTHER;
}

const uint8_t *hf_column_groups(struct state *s, const char *base, const char *part, uint64_t n_in,
                                uint64_t n_groups)
{
    char full[HF_MAX_BASE + 32];
    snprintf(full, sizeof full, "%s.%s", base, part);
    const struct state_tensor *t = state_find(s, full);
    if (!t || t->n_dims == 0 || t->shape[0] == 0)
        return NULL;
    if (t->type != STATE_I32 || t->strides[0] != 1)
        ckpt_stop_tensor(s->c, full, "element type %s, expected I32", state_type_name(t->type));
    state_check_shape(s->c, t, 0, n_in);
    for (uint64_t i = 0; i < n_in; i++) {
        uint32_t group = hf_packed_word(t->bytes.data, i);
        if (group >= n_groups)
            ckpt_stop_tensor(s->c, full, "column %llu has group %d of %llu", (unsigned long long)i,
                             (int32_t)group, (unsigned long long)n_groups);
    }
    return t->bytes.data;
}

/* Sizes of the matrix from those of its words. */
static void set_sizes(struct checkpoint *c, struct hf_packed *p, const struct state_tensor *words,
                      const struct quant *q)
{
    int down = p->scheme == HF_GPTQ;
    uint64_t packed = words->shape[down ? 0 : 1], other = words->shape[down ? 1 : 0];
    uint64_t numbers = packed * 32 / q->bits;
    if (packed * 32 % q->bits)
        ckpt_stop_tensor(c, words->name, "%llu words are not whole numbers of %u bits",
                         (unsigned long long)packed, q->bits);
    p->n_in = p->scheme == HF_AWQ ? other : numbers;
    p->n_out = p->scheme == HF_AWQ ? numbers : other;
    p->group = q->group ? q->group : p->n_in;
    p->n_groups = (p->n_in + p->group - 1) / p->group;
    if (p->scheme != HF_MLX && p->n_out * q->bits % 32)
        ckpt_stop_tensor(c, words->name, "%llu columns of %u bits are not whole words",
                         (unsigned long long)p->n_out, q->bits);
}

static void find_parts(struct state *s, const char *base, struct hf_packed *p)
{
    int is_mlx = p->scheme == HF_MLX;
    uint64_t rows = is_mlx ? p->n_out : p->n_groups, columns = is_mlx ? p->n_groups : p->n_out;
    p->scale_type = scale_type(s, base);
    p->scales = find_part(s, base, "scales", rows, columns, is_real);
    if (is_mlx) {
        char full[HF_MAX_BASE + 32];
        snprintf(full, sizeof full, "%s.biases", base);
        p->zeros = find_part(s, base, "biases", rows, columns, is_real);
        if (state_peek(s, full)->type != p->scale_type)
            ckpt_stop_tensor(s->c, full, "its element type is not that of the scales");
        return;
    }
    p->zeros = find_part(s, base, "qzeros", rows, p->n_out * p->bits / 32, is_words);
    if (p->scheme == HF_GPTQ)
        p->g_idx = hf_column_groups(s, base, "g_idx", p->n_in, p->n_groups);
}

/* The settings of one matrix of MLX, which may be its own. */
static void own_settings(struct checkpoint *c, const struct quant *all, const char *base,
                         struct quant *q)
{
    *q = *all;
    const json_t *own = all->settings ? hf_value(all->settings, base) : NULL;
    if (json_is(own, JSON_OBJECT))
        read_mlx(c, own, q);
}

void hf_put_packed(struct checkpoint *c, struct state_tensor *t, const char *base, uint64_t n_out,
                   uint64_t n_in, const struct state_packed *packed)
{
    char name[HF_MAX_BASE + 32];
    int n = snprintf(name, sizeof name, "%s.weight", base);
    *t = (struct state_tensor){.name = ckpt_copy(c, name, (size_t)n),
                               .type = STATE_OTHER,
                               .n_dims = 2,
                               .shape = {n_out, n_in},
                               .bytes = t->bytes,
                               .packed = packed};
    state_contiguous(t);
}

/* Puts the matrix in the place of its words. */
static void unpack_matrix(struct state *s, size_t i, const char *base, const struct quant *all)
{
    struct state_tensor *t = &s->tensors[i];
    struct hf_packed *p = ckpt_new(s->c, 1, sizeof *p);
    struct quant q;
    own_settings(s->c, all, base, &q);
    if (!is_words(t) || !hf_is_matrix(s->c, t))
        ckpt_stop_tensor(s->c, t->name,
                         "element type %s and %u dimensions, expected a matrix of I32 or U32",
                         state_type_name(t->type), t->n_dims);
    *p = (struct hf_packed){.scheme = q.scheme, .bits = q.bits, .plus = q.plus, .q = t->bytes.data};
    set_sizes(s->c, p, t, &q);
    find_parts(s, base, p);
    hf_packed_seal(p);
    hf_put_packed(s->c, t, base, p->n_out, p->n_in, &p->base);
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

static void unpack_all(struct hf_model *m, const struct quant *q)
{
    struct state *s = &m->state;
    char base[HF_MAX_BASE + 1], scales[HF_MAX_BASE + 32];
    const char *end = q->scheme == HF_MLX ? ".weight" : ".qweight";
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        if (!hf_ends_with(s->tensors[i].name, end, base))
            continue;
        snprintf(scales, sizeof scales, "%s.scales", base);
        if (q->scheme != HF_MLX || state_has(s, scales))
            unpack_matrix(s, i, base, q);
    }
    note_types(m->c, s, q);
}

void hf_unpack(struct hf_model *m)
{
    static const char *const names[] = {"quantize_config.json", "quant_config.json"};
    struct ckpt_side side;
    struct quant q;
    int found = read_quant(m, NULL, &q);
    if (!found && !has_packed_names(&m->state))
        return;
    if (!found && ckpt_side(m->c, m->in, 0, names, HF_COUNT(names), &side))
        found = read_quant(m, hf_json(m->c, side.bytes, side.name), &q);
    if (!found)
        ckpt_stop(m->c, "config.json: quantization_config: missing; the tensors are those of a "
                        "quantised model");
    state_seal(&m->state);
    if (q.coded)
        hf_unpack_coded(m, q.settings);
    else
        unpack_all(m, &q);
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
    char base[HF_MAX_BASE + 1], weight[HF_MAX_BASE + 32];
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        struct state_tensor *t = &s->tensors[i];
        if (t->used || !hf_ends_with(t->name, ".bias", base))
            continue;
        snprintf(weight, sizeof weight, "%s.weight", base);
        const struct state_tensor *matrix = state_peek(s, weight);
        t->used = matrix && matrix->packed && is_zeros(t->bytes);
    }
}
