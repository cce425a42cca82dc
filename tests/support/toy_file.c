/* Tests: GGUF files of toys. The encoder is our own, so that reader and writer in src/ meet a third
 * party; toy_load reads foreign files (weights/) with src/gguf, for the oracle. */
#include "base/cursor.h"
#include "base/mem.h"
#include "gguf/gguf.h"
#include "kernels/activations.h"
#include "support/build_model.h"
#include "support/byte_buffer.h"
#include "support/unit.h"

#include <math.h>

/* ---- encoding ---- */

static void put_padding(struct byte_buffer *s, size_t alignment)
{
    while (s->n % alignment)
        buffer_uint(s, 0, 1);
}

/* The value is representable (toy_add saw to that), so this only rearranges bits. */
static uint32_t encode_value(enum toy_type type, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (type == TOY_F32)
        return bits;
    if (type == TOY_BF16)
        return bits >> 16;
    uint32_t sign = bits >> 16 & 0x8000;
    if ((bits & 0x7FFFFFFF) == 0)
        return sign;
    return sign | (((bits >> 23 & 255) - 127 + 15) << 10) | (bits >> 13 & 0x3FF);
}

/* The size in the file follows dims, also where a test has changed them: missing values are
 * zero. */
static uint64_t dims_values(const struct toy_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static uint64_t padded(uint64_t n, uint64_t alignment)
{
    return (n + alignment - 1) / alignment * alignment;
}

static void put_info(struct byte_buffer *s, const struct toy_tensor *t, uint64_t offset)
{
    buffer_text(s, t->name, strlen(t->name));
    buffer_uint(s, t->n_dims, 4);
    for (uint32_t i = 0; i < t->n_dims; i++)
        buffer_uint(s, t->dims[i], 8);
    buffer_uint(s, t->type, 4);
    buffer_uint(s, offset, 8);
}

static void put_data(struct byte_buffer *s, const struct toy_tensor *t)
{
    unsigned width = t->type == TOY_F32 ? 4 : 2;
    for (uint64_t i = 0; !t->blocks && i < dims_values(t); i++)
        buffer_uint(s, i < t->n ? encode_value(t->type, t->values[i]) : 0, width);
    for (uint64_t i = 0; t->blocks && i < toy_bytes(t->type, dims_values(t)); i++)
        buffer_uint(s, i < toy_bytes(t->type, t->n) ? t->blocks[i] : 0, 1);
}

static void put_file(struct byte_buffer *s, const struct toy *m)
{
    size_t alignment = m->spec.alignment ? m->spec.alignment : 32;
    buffer_put(s, "GGUF", 4);
    buffer_uint(s, 3, 4);
    buffer_uint(s, m->n_tensors, 8);
    buffer_uint(s, m->n_kv, 8);
    for (size_t i = 0; i < m->n_kv; i++) {
        buffer_text(s, m->kv[i].key, strlen(m->kv[i].key));
        buffer_uint(s, m->kv[i].type, 4);
        buffer_put(s, m->kv[i].bytes, m->kv[i].n);
    }
    uint64_t offset = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct toy_tensor *t = &m->tensors[i];
        put_info(s, t, offset);
        offset += padded(toy_bytes(t->type, dims_values(t)), alignment);
    }
    put_padding(s, alignment);
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct toy_tensor *t = &m->tensors[i];
        put_data(s, t);
        put_padding(s, alignment);
    }
}

void toy_encode(struct toy *m)
{
    struct byte_buffer s = {0};
    put_file(&s, m);
    free(m->file);
    m->file = toy_alloc(s.n, 1); /* exactly its size: a sanitizer sees a read past the end */
    m->size = s.n;
    memcpy(m->file, s.p, s.n);
    free(s.p);
}

mgpt_model *toy_open(struct toy *m, const mgpt_model_params *params)
{
    mgpt_error err = {0};
    toy_encode(m);
    mgpt_model *model = mgpt_open_bytes(m->file, m->size, params, &err);
    if (!model)
        fail_msg("%s: %s", m->spec.label, err.text);
    return model;
}

void toy_check_refused(struct toy *m, const char *a, const char *b, const char *c)
{
    const char *parts[3] = {a, b, c};
    mgpt_error err = {0};
    toy_encode(m);
    mgpt_model *model = mgpt_open_bytes(m->file, m->size, NULL, &err);
    if (model)
        fail_msg("a model was opened that should have been refused for %s", a);
    if (err.status != MGPT_EFILE)
        fail_msg("%s: status %d: %s", a, err.status, err.text);
    for (int i = 0; i < 3; i++)
        if (parts[i] && !strstr(err.text, parts[i]))
            fail_msg("'%s' does not say '%s'", err.text, parts[i]);
    if (strchr(err.text, '\n') || strlen(err.text) > 160)
        fail_msg("not one short line: '%s'", err.text);
    assert_null(mgpt_open_bytes(m->file, m->size, NULL, NULL)); /* err may be NULL */
    toy_free(m);
}

/* ---- loading ---- */

static uint8_t *read_toy_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long end = ftell(f);
    assert_true(end >= 0);
    rewind(f);
    uint8_t *data = toy_alloc((size_t)end, 1);
    assert_int_equal(fread(data, 1, (size_t)end, f), end);
    fclose(f);
    *size = (size_t)end;
    return data;
}

/* An integer entry <arch>.<key>, or its default. */
static int number(const struct gguf *g, const char *arch, const char *key, int fallback)
{
    char name[80];
    uint64_t v = 0;
    snprintf(name, sizeof name, "%s.%s", arch, key);
    return gguf_uint(g, name, 1 << 30, &v, NULL) == 1 ? (int)v : fallback;
}

static double real(const struct gguf *g, const char *arch, const char *key, double fallback)
{
    char name[80];
    double v;
    snprintf(name, sizeof name, "%s.%s", arch, key);
    return gguf_float(g, name, &v, NULL) == 1 ? v : fallback;
}

static enum toy_choice choice(const struct gguf *g, const char *key)
{
    int v;
    if (gguf_bool(g, key, &v, NULL) != 1)
        return TOY_DEFAULT;
    return v ? TOY_YES : TOY_NO;
}

/* The activation is one of these texts, which outlive the file; NULL: the architecture's. */
static const char *read_activation(const struct gguf *g)
{
    static const char *const names[] = {ACTIVATIONS(ACTIVATION_NAME)};
    struct gguf_str v;
    if (gguf_string(g, "mgpt.activation", &v, NULL) != 1)
        return NULL;
    for (size_t i = 0; i < COUNT(names); i++)
        if (v.n == strlen(names[i]) && memcmp(v.p, names[i], v.n) == 0)
            return names[i];
    fail_msg("mgpt.activation is unknown to the oracle: %.*s", (int)v.n, v.p);
    return NULL;
}

static void read_words(struct toy_spec *s, const struct gguf *g)
{
    struct gguf_str name = {0};
    char arch[80], parallel[80];
    gguf_string(g, "general.architecture", &name, NULL);
    snprintf(arch, sizeof arch, "%.*s", (int)name.n, name.n ? name.p : "");
    s->row = toy_arch(arch);
    if (!s->row)
        fail_msg("general.architecture is unknown to the oracle: %s", arch);
    s->arch = s->row->name;
    s->activation = read_activation(g);
    s->embedding_norm = choice(g, "mgpt.embedding_norm");
    s->final_norm = choice(g, "mgpt.final_norm");
    snprintf(parallel, sizeof parallel, "%s.use_parallel_residual", s->arch);
    s->parallel = choice(g, parallel);
}

static void read_numbers(struct toy_spec *s, const struct gguf *g)
{
    s->n_layer = number(g, s->arch, "block_count", 0);
    s->n_ctx = number(g, s->arch, "context_length", 0);
    s->n_embd = number(g, s->arch, "embedding_length", 0);
    s->n_ff = number(g, s->arch, "feed_forward_length", 0);
    s->n_head = number(g, s->arch, "attention.head_count", 1);
    s->n_head_kv = number(g, s->arch, "attention.head_count_kv", s->n_head);
    s->head_dim = number(g, s->arch, "attention.key_length", s->n_embd / s->n_head);
    s->rope_dims = number(g, s->arch, "rope.dimension_count", s->head_dim);
    s->rope_base = real(g, s->arch, "rope.freq_base", 10000);
    s->window = number(g, s->arch, "attention.sliding_window", 0);
    s->full_every = number(g, s->arch, "attention.sliding_window_pattern", 0);
    s->window_base = real(g, s->arch, "rope.freq_base_swa", 0);
    s->rope_factor = real(g, s->arch, "rope.scaling.factor", 0);
    s->n_expert = number(g, s->arch, "expert_count", 0);
    s->n_expert_used = number(g, s->arch, "expert_used_count", 0);
    s->n_ff_expert = number(g, s->arch, "expert_feed_forward_length", s->n_ff);
    s->n_ff_shared = number(g, s->arch, "expert_shared_feed_forward_length", 0);
#define NUMBER_FROM_FILE(field, absent, kind, key, ...) s->field = real(g, s->arch, key, 0);
    MODEL_NUMBERS(NUMBER_FROM_FILE)
    s->eps = real(g, s->arch,
                  s->row->layer_norm && !s->row->rms_key ? "attention.layer_norm_epsilon"
                                                         : "attention.layer_norm_rms_epsilon",
                  1e-5);
    const struct gguf_tensor *embd = gguf_tensor(g, "token_embd.weight");
    assert_non_null(embd);
    s->n_vocab = (int)embd->dims[1];
}

static void read_windows(struct toy *m, const struct gguf *g)
{
    const struct gguf_kv *kv;
    if (gguf_array(g, "mgpt.attention.windows", GGUF_I32, &kv, NULL) != 1)
        return;
    assert_int_equal(kv->n, m->spec.n_layer);
    m->windows = toy_alloc((size_t)kv->n, sizeof *m->windows);
    struct cursor c = cursor_over(kv->value, kv->value_bytes);
    for (uint64_t i = 0; i < kv->n; i++)
        m->windows[i] = cursor_i32(&c);
    m->spec.windows = m->windows;
}

static void copy_tensor(struct toy_tensor *to, const struct gguf_tensor *t)
{
    snprintf(to->name, sizeof to->name, "%s", t->name);
    to->n_dims = t->n_dims;
    memcpy(to->dims, t->dims, sizeof to->dims);
    to->n = (size_t)t->n_values;
    to->values = toy_alloc(to->n, sizeof *to->values);
    t->type->to_float(t->data, to->values, to->n);
}

struct toy *toy_load(const char *path)
{
    size_t size;
    uint8_t *data = read_toy_file(path, &size);
    if (!data)
        return NULL;
    struct gguf g;
    mgpt_error err;
    if (gguf_parse(&g, data, size, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    struct toy *m = toy_alloc(1, sizeof *m);
    m->spec.label = path;
    read_words(&m->spec, &g);
    read_numbers(&m->spec, &g);
    read_windows(m, &g);
    m->n_tensors = arr_len(g.tensors);
    m->tensors = toy_alloc(m->n_tensors, sizeof *m->tensors);
    for (size_t i = 0; i < m->n_tensors; i++)
        copy_tensor(&m->tensors[i], &g.tensors[i]);
    gguf_free(&g);
    free(data);
    return m;
}
