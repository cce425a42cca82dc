/* mgpt.h's contract for looking inside: infos, tensors, the cache, the logit lens. Taps have
 * test_taps. */
#include "dtype/dtype.h"
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>

static const uint64_t all_points = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

/* ---- infos ---- */

static void check_sizes(const struct toy *m, const mgpt_info *info)
{
    const struct toy_spec *s = &m->spec;
    uint64_t n_params = 0;
    for (size_t i = 0; i < m->n_tensors; i++)
        n_params += m->tensors[i].n;
    assert_int_equal(info->n_vocab, s->n_vocab);
    assert_int_equal(info->n_ctx, s->n_ctx);
    assert_int_equal(info->n_embd, s->n_embd);
    assert_int_equal(info->n_layer, s->n_layer);
    assert_true(info->n_params == n_params);
    assert_true(info->file_bytes == m->size);
    assert_true(info->bytes_per_token > 0);
    assert_int_equal(info->tied, s->tied);
    assert_true(info->norm_eps == (float)s->eps);
    if (s->n_layer == 0) {
        assert_true(info->kv_bytes == 0);
        return;
    }
    assert_int_equal(info->n_head, s->n_head_w > s->n_head ? s->n_head_w : s->n_head);
    int heads = 0, width = 0, value = 0, n_ff = 0;
    for (int i = 0; i < s->n_layer; i++) {
        heads = toy_heads_kv(s, i) > heads ? toy_heads_kv(s, i) : heads;
        width = toy_head_dim(s, i) > width ? toy_head_dim(s, i) : width;
        value = toy_value_dim(s, i) > value ? toy_value_dim(s, i) : value;
        n_ff = toy_n_ff(s, i) > n_ff ? toy_n_ff(s, i) : n_ff;
    }
    assert_int_equal(info->n_head_kv, heads);
    assert_int_equal(info->head_dim, width);
    assert_int_equal(info->value_dim, value);
    assert_int_equal(info->n_latent, s->n_latent);
    assert_int_equal(info->n_ff, n_ff);
    assert_int_equal(info->gated, s->row->gated);
    size_t kv = 0;
    for (int i = 0; i < s->n_layer; i++)
        kv += (size_t)(toy_convolves(s, i) ? s->n_embd
                       : s->n_latent       ? 2 * (s->n_latent + s->rope_dims)
                       : toy_shares(s, i)
                           ? 0
                           : toy_heads_kv(s, i) * (toy_head_dim(s, i) + toy_value_dim(s, i)));
    assert_true(info->kv_bytes == kv * sizeof(float));
}

/* The type that most weights have. */
static const char *main_type(const struct toy *m)
{
    size_t n[DTYPE_N_IDS] = {0}, most = 0;
    for (size_t i = 0; i < m->n_tensors; i++)
        n[m->tensors[i].type] += m->tensors[i].n;
    for (size_t id = 1; id < DTYPE_N_IDS; id++)
        most = n[id] > n[most] ? id : most;
    return dtype_name((uint32_t)most);
}

static void check_words(const struct toy *m, const mgpt_info *info)
{
    const struct toy_spec *s = &m->spec;
    static const char *const places[] = {"learned", "alibi", "rope", "rope"};
    assert_string_equal(info->arch, s->arch);
    assert_string_equal(info->name, "toy");
    assert_string_equal(info->type, main_type(m));
    assert_string_equal(info->tokenizer, s->characters ? "char" : "none");
    assert_string_equal(info->norm, s->row->layer_norm ? "layernorm" : "rmsnorm");
    assert_string_equal(info->activation, s->activation ? s->activation : s->row->activation);
    if (s->n_layer > 0) /* without layers nothing rotates */
        assert_string_equal(info->position, places[s->row->place]);
    assert_int_equal(info->n_tokens, s->n_vocab); /* without a tokenizer no id is padding */
    assert_int_equal(info->bos, s->characters ? s->n_vocab - 1 : -1);
    assert_int_equal(info->eos, s->characters ? s->n_vocab - 1 : -1);
    assert_int_equal(info->add_bos, s->characters);
}

TEST_ZOO(info)
{
    const struct toy_spec *spec = &s->m->spec;
    mgpt_info info;
    assert_int_equal(mgpt_get_info(s->model, &info, NULL), MGPT_OK);
    check_sizes(s->m, &info);
    check_words(s->m, &info);
    if (spec->row->place > PLACE_ALIBI && spec->n_layer > 0)
        assert_true(info.rope_base == (float)spec->rope_base);
    double scale = spec->attn_scale;
    if (scale == 0)
        scale = spec->row->unscaled ? 1 : 1 / sqrt((double)info.head_dim);
    if (spec->n_latent && spec->yarn) {
        double all = 1 + (double)(float)spec->yarn_less * log((double)(float)spec->rope_factor);
        assert_true(fabs((double)info.attn_scale - scale * all * all) < 1e-7);
        return;
    }
    assert_true(info.attn_scale == (float)scale);
    assert_true(info.logit_softcap == (float)spec->logit_softcap);
}

/* Layer, window and rotated components of models that have layers of two kinds. */
TEST(layers)
{
    static const struct {
        size_t model, layer;
        int32_t window, n_rot;
    } want[] = {{ZOO_LLAMA_PATTERN, 1, 16, 8}, {ZOO_LLAMA_PATTERN, 2, 0, 8},
                {ZOO_GPTNEOX, 1, 0, 4},        {ZOO_GPT2_NEO, 2, 33, 0},
                {ZOO_SMOLLM3, 2, 0, 4},        {ZOO_SMOLLM3, 3, 0, 0}};
    for (size_t i = 0; i < COUNT(want); i++) {
        struct subject s = subject_zoo(want[i].model);
        mgpt_layer got;
        assert_int_equal(mgpt_get_layer(s.model, want[i].layer, &got, NULL), MGPT_OK);
        assert_int_equal(got.window, want[i].window);
        assert_int_equal(got.n_rot, want[i].n_rot);
        assert_int_equal(mgpt_get_layer(s.model, (size_t)s.m->spec.n_layer, &got, NULL), MGPT_EARG);
        assert_int_equal(mgpt_get_layer(s.model, 0, NULL, NULL), MGPT_EARG);
        subject_free(&s);
    }
}

/* The first instruction set runs everywhere; a model opens on those that run here and on no other. */
TEST(instruction_sets)
{
    struct subject s = subject_zoo(ZOO_MICROGPT);
    const char *isa;
    int runs = 0;
    assert_string_equal(mgpt_isa(0, &runs), "scalar");
    assert_true(runs);
    for (size_t i = 0; (isa = mgpt_isa(i, &runs)); i++) {
        const mgpt_model_params params = {.isa = isa};
        mgpt_model *model = mgpt_open_bytes(s.m->file, s.m->size, &params, NULL);
        assert_int_equal(model != NULL, runs);
        assert_ptr_equal(mgpt_isa(i, NULL), isa);
        mgpt_close(model);
    }
    assert_null(mgpt_isa(SIZE_MAX, NULL));
    subject_free(&s);
}

/* The vocabulary of a toy: newline, space, '!', '"', ... in order of code point, BOS last. */
TEST(characters)
{
    struct subject s = subject_zoo(ZOO_MICROGPT);
    const mgpt_model *model = s.model;
    mgpt_error err = {0};
    int32_t tokens[8];
    size_t n;
    assert_int_equal(mgpt_encode(model, "!\n \"", 4, 0, tokens, 8, &err), 5);
    const int32_t expected[5] = {26, 2, 0, 1, 3};
    assert_memory_equal(tokens, expected, sizeof expected);
    assert_int_equal(mgpt_encode(model, "!", 1, MGPT_NO_SPECIAL_TOKENS, NULL, 0, &err), 1);
    const char *piece = mgpt_piece(model, 2, &n);
    assert_int_equal(n, 1);
    assert_int_equal(piece[0], '!');
    mgpt_piece(model, 26, &n);
    assert_int_equal(n, 0);
    assert_int_equal(mgpt_is_end(model, 26), 1);
    assert_int_equal(mgpt_is_end(model, 2), 0);
    assert_int_equal(mgpt_encode(model, "!~", 2, 0, tokens, 8, &err), MGPT_ETEXT);
    assert_true(err.offset == 1);
    assert_non_null(strchr(err.text, '~'));
    subject_free(&s);
}

/* ---- tensors ---- */

static void check_tensor(const mgpt_model *model, const struct toy *m, size_t i)
{
    const struct toy_tensor *t = &m->tensors[i];
    mgpt_tensor got, found;
    assert_int_equal(mgpt_get_tensor(model, i, &got, NULL), MGPT_OK);
    assert_int_equal(mgpt_find_tensor(model, t->name, &found, NULL), MGPT_OK);
    assert_ptr_equal(found.name, got.name);
    assert_true(found.offset == got.offset && found.n_bytes == got.n_bytes);
    assert_string_equal(got.name, t->name);
    assert_int_equal(got.n_dims, t->n_dims);
    assert_memory_equal(got.dims, t->dims, sizeof got.dims);
    size_t block = toy_block(t->type).n_values;
    assert_true(got.n_bytes == toy_bytes(t->type, t->n));
    assert_true(got.offset % (m->spec.alignment ? m->spec.alignment : 32) == 0);
    assert_true(got.offset + got.n_bytes <= m->size);
    if (t->type == TOY_F32)
        assert_memory_equal(m->file + got.offset, t->values, got.n_bytes);
    float *values = toy_alloc(t->n, sizeof *values);
    assert_int_equal(mgpt_read_tensor(model, t->name, 0, t->n, values, NULL), MGPT_OK);
    assert_memory_equal(values, t->values, t->n * sizeof *values);
    size_t last = t->n - block;
    assert_int_equal(mgpt_read_tensor(model, t->name, last, block, values, NULL), MGPT_OK);
    assert_memory_equal(values, t->values + last, block * sizeof *values);
    if (block > 1)
        assert_int_equal(mgpt_read_tensor(model, t->name, last, 1, values, NULL), MGPT_EARG);
    if (block > 1 && last > 0)
        assert_int_equal(mgpt_read_tensor(model, t->name, 1, block, values, NULL), MGPT_EARG);
    free(values);
}

TEST_ZOO(tensors)
{
    assert_int_equal(mgpt_n_tensors(s->model), s->m->n_tensors);
    for (size_t i = 0; i < s->m->n_tensors; i++)
        check_tensor(s->model, s->m, i);
}

TEST(tensors_out_of_range)
{
    struct subject s = subject_zoo(ZOO_MICROGPT);
    mgpt_error err = {0};
    mgpt_tensor tensor;
    float out[16];
    const char *name = "token_embd.weight"; /* 16 * 27 = 432 values */
    assert_int_equal(mgpt_get_tensor(s.model, s.m->n_tensors, &tensor, &err), MGPT_EARG);
    assert_int_equal(mgpt_get_tensor(s.model, SIZE_MAX, &tensor, &err), MGPT_EARG);
    assert_int_equal(mgpt_get_tensor(s.model, 0, NULL, &err), MGPT_EARG);
    assert_int_equal(mgpt_find_tensor(s.model, "no.other", &tensor, &err), MGPT_EARG);
    assert_non_null(strstr(err.text, "no.other"));
    assert_int_equal(mgpt_find_tensor(s.model, NULL, &tensor, &err), MGPT_EARG);
    assert_int_equal(mgpt_find_tensor(s.model, name, NULL, &err), MGPT_EARG);
    assert_int_equal(mgpt_read_tensor(s.model, "no.such", 0, 1, out, &err), MGPT_EARG);
    assert_non_null(strstr(err.text, "no.such"));
    assert_int_equal(mgpt_read_tensor(s.model, NULL, 0, 1, out, &err), MGPT_EARG);
    assert_int_equal(mgpt_read_tensor(s.model, name, 0, 1, NULL, &err), MGPT_EARG);
    const struct {
        uint64_t first;
        size_t n;
        int status;
    } ranges[] = {{432, 1, MGPT_EARG},      {420, 13, MGPT_EARG}, {UINT64_MAX, 2, MGPT_EARG},
                  {2, SIZE_MAX, MGPT_EARG}, {420, 12, MGPT_OK},   {432, 0, MGPT_OK}};
    for (size_t i = 0; i < COUNT(ranges); i++)
        assert_int_equal(mgpt_read_tensor(s.model, name, ranges[i].first, ranges[i].n, out, &err),
                         ranges[i].status);
    subject_free(&s);
}

/* ---- the cache and the lens ---- */

static void check_kv(const mgpt_session *session, const struct toy *m, const struct trace *t,
                     int layer, int head)
{
    size_t d = (size_t)toy_head_dim(&m->spec, layer), n = t->n_tokens;
    size_t w = (size_t)toy_value_dim(&m->spec, layer);
    int from = toy_source(&m->spec, layer);
    const struct trace_value *key = trace_at(t, MGPT_ROT_K, from);
    const struct trace_value *value = trace_at(t, MGPT_V, from);
    if (!key->data)
        key = trace_at(t, MGPT_K, from);
    float *k = toy_alloc(n * d, sizeof *k), *v = toy_alloc(n * w, sizeof *v);
    for (size_t pos = 0; pos < n; pos += 7) {
        size_t rows = n - pos < 9 ? n - pos : 9;
        assert_int_equal(mgpt_read_kv(session, layer, head, pos, rows, k, v, NULL), MGPT_OK);
        for (size_t i = 0; i < rows * d; i++) {
            size_t at = (pos + i / d) * key->cols + (size_t)head * d + i % d;
            assert_true((double)k[i] == key->data[at]);
        }
        for (size_t i = 0; i < rows * w; i++) {
            size_t at = (pos + i / w) * value->cols + (size_t)head * w + i % w;
            assert_true((double)v[i] == value->data[at]);
        }
    }
    assert_int_equal(mgpt_read_kv(session, layer, head, 0, n, NULL, v, NULL), MGPT_OK);
    assert_int_equal(mgpt_read_kv(session, layer, head, 0, n, k, NULL, NULL), MGPT_OK);
    assert_true((double)k[0] == key->data[(size_t)head * d]);
    free(k);
    free(v);
}

TEST_ZOO(cache_holds_what_the_taps_saw)
{
    const struct toy_spec *spec = &s->m->spec;
    mgpt_session *session = subject_session(s->model, 0, 0);
    size_t n = s->n < 45 ? s->n : 45;
    struct trace *t = trace_new(spec->n_layer, n);
    mgpt_tap(session, all_points, trace_tap, t, NULL);
    subject_feed(session, s->tokens, n);
    for (int layer = 0; layer < spec->n_layer; layer++)
        for (int head = 0; !toy_convolves(spec, layer) && head < toy_heads_kv(spec, layer); head++)
            check_kv(session, s->m, t, layer, head);
    trace_free(t);
    mgpt_session_free(session);
}

/* A short convolution has no keys and values to read; its layer says what it is. */
TEST(cache_of_a_convolution)
{
    struct subject s = subject_zoo(ZOO_LFM2);
    mgpt_session *session = subject_session(s.model, 0, 0);
    float k[6], v[6];
    mgpt_error err;
    mgpt_layer layer;
    subject_feed(session, s.tokens, 5);
    assert_int_equal(mgpt_read_kv(session, 2, 0, 4, 1, k, v, &err), MGPT_OK);
    assert_int_equal(mgpt_read_kv(session, 1, 0, 4, 1, k, v, &err), MGPT_EARG);
    assert_string_equal(err.text,
                        "mgpt_read_kv: layer 1 is a short convolution, without keys and values");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(mgpt_get_layer(s.model, i, &layer, &err), MGPT_OK);
        assert_int_equal(layer.n_conv, i == 2 ? 0 : 3);
        assert_int_equal(layer.n_rot, i == 2 ? 6 : 0);
    }
    mgpt_session_free(session);
    subject_free(&s);
}

TEST(cache_out_of_range)
{
    struct subject s = subject_zoo(ZOO_LLAMA_TIED); /* two layers, two KV heads of width 6 */
    mgpt_session *session = subject_session(s.model, 0, 0);
    const struct {
        int32_t layer, head;
        size_t pos, n;
        int status;
    } rows[] = {
        {1, 1, 0, 5, MGPT_OK},   {2, 0, 0, 1, MGPT_EARG},        {-1, 0, 0, 1, MGPT_EARG},
        {0, 2, 0, 1, MGPT_EARG}, {0, -1, 0, 1, MGPT_EARG},       {0, 0, 0, 6, MGPT_EARG},
        {0, 0, 5, 1, MGPT_EARG}, {0, 0, SIZE_MAX, 2, MGPT_EARG}, {0, 0, 2, SIZE_MAX, MGPT_EARG}};
    float k[30], v[30];
    assert_int_equal(mgpt_read_kv(session, 0, 0, 0, 0, k, v, NULL), MGPT_OK);
    assert_int_equal(mgpt_read_kv(session, 0, 0, 0, 1, k, v, NULL), MGPT_EARG);
    subject_feed(session, s.tokens, 5);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(
            mgpt_read_kv(session, rows[i].layer, rows[i].head, rows[i].pos, rows[i].n, k, v, NULL),
            rows[i].status);
    assert_int_equal(mgpt_rewind(session, 3, NULL), MGPT_OK);
    assert_int_equal(mgpt_read_kv(session, 0, 0, 3, 1, k, v, NULL), MGPT_EARG);
    mgpt_session_free(session);
    subject_free(&s);
}

static int count_calls(const mgpt_value *value, void *user)
{
    (void)value;
    ++*(int *)user;
    return 0;
}

/* The lens fires no tap and leaves position and logits alone. */
TEST(unembed_changes_nothing)
{
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP);
    mgpt_session *session = subject_session(s.model, 0, 0);
    float residual[20] = {1, -1, 2}, logits[27], before[27];
    assert_int_equal(mgpt_unembed(session, residual, before, NULL), MGPT_OK); /* empty: no matter */
    assert_null(mgpt_logits(session));
    assert_non_null(mgpt_step(session, 1, NULL));
    memcpy(before, mgpt_logits(session), sizeof before);
    int calls = 0;
    assert_int_equal(mgpt_tap(session, all_points, count_calls, &calls, NULL), MGPT_OK);
    assert_int_equal(mgpt_unembed(session, residual, logits, NULL), MGPT_OK);
    assert_int_equal(calls, 0);
    assert_int_equal(mgpt_pos(session), 1);
    assert_memory_equal(mgpt_logits(session), before, sizeof before);
    mgpt_session_free(session);
    subject_free(&s);
}
