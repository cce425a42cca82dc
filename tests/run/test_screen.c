/* Models opened with top_k: the k likeliest tokens and their logits are those of a model that
 * computes all logits, to the bit, for every type of head, instruction set and number of threads. */
#include "kernels/pack/int_layout.h"
#include "model/model.h"
#include "support/isa_levels.h"
#include "support/place.h"
#include "support/toy_zoo.h"

#include <math.h>

enum { V = 3001, E = 256, UNSCREENED = 16, STEPS = UNSCREENED + 10 };

static const struct toy_spec wide = {.label = "wide head",
                                     .arch = "llama",
                                     .n_layer = 1,
                                     .n_embd = E,
                                     .n_head = 4,
                                     .n_ff = 64,
                                     .n_ctx = 64,
                                     .n_vocab = V,
                                     .tied = 1,
                                     .seed = 4};

static mgpt_model *screen_open(const struct toy *m, const mgpt_model_params *params)
{
    mgpt_error err;
    mgpt_model *model = mgpt_open_bytes(m->file, m->size, params, &err);
    if (!model)
        fail_msg("%s", err.text);
    return model;
}

/* The k likeliest of both rows are the same, with the same bits. Returns the logits that differ,
 * which must be estimates below the k-th. */
static size_t check_row(const float *all, const float *some, size_t n, size_t k, const char *what)
{
    mgpt_candidate want[64], got[64];
    size_t n_estimates = 0, bytes = sizeof *all;
    mgpt_top(all, n, want, k);
    mgpt_top(some, n, got, k);
    for (size_t i = 0; i < k; i++)
        if (got[i].token != want[i].token || memcmp(&got[i].logit, &want[i].logit, bytes) != 0)
            fail_msg("%s: candidate %zu of %zu is %d with %g, expected %d with %g", what, i, k,
                     got[i].token, (double)got[i].logit, want[i].token, (double)want[i].logit);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&all[i], &some[i], bytes) != 0) {
            assert_true(some[i] < want[k - 1].logit);
            n_estimates++;
        }
    return n_estimates;
}

/* Steps through tokens with both; returns the number of estimates. */
static size_t check_steps(const mgpt_model *whole, const mgpt_model *screened, size_t k,
                          int n_threads, const char *what)
{
    mgpt_session *a = subject_session(whole, 0, 1), *b = subject_session(screened, 0, n_threads);
    size_t n = 0;
    for (int32_t i = 0; i < STEPS; i++) {
        const float *all = mgpt_step(a, i * 241 % V, NULL), *some = mgpt_step(b, i * 241 % V, NULL);
        assert_true(all && some);
        n += check_row(all, some, V, k, what);
    }
    mgpt_session_free(a);
    mgpt_session_free(b);
    return n;
}

/* Every instruction set, k and number of threads. */
static size_t check_toy(struct toy *m, const char *what)
{
    static const int32_t ks[] = {1, 3, 23};
    const char *isa;
    size_t n = 0;
    int runs;
    toy_encode(m);
    mgpt_model *whole = screen_open(m, NULL);
    for (size_t i = 0; (isa = mgpt_isa(i, &runs)); i++)
        for (size_t j = 0; runs && j < COUNT(ks); j++) {
            mgpt_model *model = screen_open(m, &(mgpt_model_params){.isa = isa, .top_k = ks[j]});
            n += check_steps(whole, model, (size_t)ks[j], 1 + (int)(j % 2) * 2, what);
            mgpt_close(model);
        }
    mgpt_close(whole);
    return n;
}

TEST(types_of_heads)
{
    static const enum toy_type types[] = {TOY_F32, TOY_F16, TOY_BF16};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct toy_spec spec = wide;
        spec.type = types[i];
        struct toy *m = toy_build(&spec);
        assert_true(check_toy(m, "type") > 0);
        toy_free(m);
    }
}

/* ---- heads that are hard to bound ---- */

static void set_row(float *head, size_t row, float value)
{
    for (size_t i = 0; i < E; i++)
        head[row * E + i] = value;
}

static void copy_rows(float *head, size_t from, size_t to, size_t n)
{
    memcpy(head + to * E, head + from * E, n * E * sizeof *head);
}

static void scale_rows(float *head, size_t from, size_t n, float by)
{
    for (size_t i = from * E; i < (from + n) * E; i++)
        head[i] *= by;
}

static void edit_head(float *head, size_t edit)
{
    switch (edit) {
    case 0: /* the same rows again and again: ties in other panels */
        for (size_t i = 1; i < 7; i++)
            copy_rows(head, 0, i * 401, 401);
        break;
    case 1: /* all logits are equal */
        set_row(head, 0, 0.5f);
        for (size_t i = 1; i < V; i++)
            copy_rows(head, 0, i, 1);
        break;
    case 2: /* rows that are not finite, also the last */
        head[5 * E + 3] = NAN;
        head[1000 * E] = INFINITY;
        set_row(head, V - 1, -INFINITY);
        set_row(head, 77, NAN);
        break;
    case 3: /* products that overflow, scales that overflow, huge and tiny rows */
        scale_rows(head, 100, 1, 1e37f);
        scale_rows(head, 200, 1, 1e9f);
        scale_rows(head, 300, 500, 1e-30f);
        scale_rows(head, 900, 20, 1e-44f);
        break;
    case 4: /* only zeros */
        for (size_t i = 0; i < V; i++)
            set_row(head, i, 0);
        break;
    case 5: /* one column decides, and takes the others' bits */
        for (size_t i = 0; i < V; i++)
            head[i * E + 17] = 1e4f * (float)(i % 13);
        break;
    case 6: /* the copy is exact: only the rounding of the input is left */
        for (size_t i = 0; i < V * E; i++)
            head[i] =
                (float)(i % 32 ? (i * i * 2654435761u >> 24) % 255 : 254) / 128 - 127.0f / 128;
        break;
    default: /* every row nearly the same */
        for (size_t i = 1; i < V; i++)
            for (size_t k = 0; k < E; k++)
                head[i * E + k] = head[k] * (1 + (float)((i * 7 + k) % 5) * 0x1p-22f);
        break;
    }
}

TEST(hard_heads)
{
    for (size_t edit = 0; edit < 8; edit++) {
        struct toy *m = toy_build(&wide);
        char what[16];
        snprintf(what, sizeof what, "edit %zu", edit);
        edit_head(toy_find(m, "token_embd.weight")->values, edit);
        check_toy(m, what);
        toy_free(m);
    }
}

/* ---- an embedding with more rows than tokens ---- */

/* The embedding has more rows than there are tokens, with the largest logits. The panel that has tokens and
 * padding is one of those with the largest bounds: of a row and its negative, one has a logit above 0. */
static struct toy *toy_with_padding(int n_tokens, size_t n_rows)
{
    struct toy_spec spec = wide;
    spec.n_vocab = n_tokens;
    spec.characters = 1;
    struct toy *m = toy_build(&spec);
    struct toy_tensor *head = toy_find(m, "token_embd.weight");
    float *values = toy_alloc(n_rows * E, sizeof *values);
    for (size_t i = 0; i < n_rows * E; i++)
        values[i] = i < (size_t)n_tokens * E ? head->values[i] : 40 * head->values[i % (64 * E)];
    for (size_t i = (size_t)(n_tokens - 2) * E, k = 0; k < 16 * E; k++)
        values[i + k] =
            (k < 2 * E ? 30.0f : 99.0f) * (k / E % 2 ? -1.0f : 1.0f) * head->values[k % E];
    free(head->values);
    head->values = values;
    head->dims[1] = n_rows;
    head->n = n_rows * E;
    toy_put_u32(m, "llama.vocab_size", (uint32_t)n_rows);
    return m;
}

TEST(padding_is_not_looked_for)
{
    enum { TOKENS = 1890, ROWS = TOKENS + 100, K = 9 };
    struct toy *m = toy_with_padding(TOKENS, ROWS);
    size_t n_estimates = 0;
    toy_encode(m);
    mgpt_model *whole = screen_open(m, NULL);
    mgpt_model *model = screen_open(m, &(mgpt_model_params){.top_k = K});
    assert_non_null(model->screen.w);
    mgpt_session *a = subject_session(whole, 0, 1), *b = subject_session(model, 0, 1);
    for (int32_t i = 0; i < STEPS; i++) {
        const float *all = mgpt_step(a, i * 241 % TOKENS, NULL);
        const float *some = mgpt_step(b, i * 241 % TOKENS, NULL);
        mgpt_candidate top;
        assert_true(mgpt_top(all, ROWS, &top, 1) == 1 && top.token >= TOKENS);
        n_estimates += check_row(all, some, TOKENS, K, "padding");
    }
    assert_true(n_estimates > 0);
    mgpt_session_free(a);
    mgpt_session_free(b);
    mgpt_close(whole);
    mgpt_close(model);
    toy_free(m);
}

/* ---- the bound ---- */

/* The copy of a row, from products with unit vectors, which quantize keeps. */
static void copied_row(const struct kernels *k, struct matmul copy, size_t r, float *v)
{
    float unit[E] = {0}, y[PANEL];
    copy.y = y;
    for (size_t i = 0; i < E; i++) {
        unit[i] = 127;
        k->quantize((void *)(uintptr_t)copy.x, unit, E);
        k->matmul[WEIGHT_Q8_0](&copy);
        v[i] = y[r] / 127;
        unit[i] = 0;
    }
}

/* Inputs along w - v, for which the bound is nearly reached, and along w. */
static void check_bound(const struct kernels *k, const struct int8_screen *s, const float *w,
                        const float *packed, float share)
{
    uint8_t *qx = toy_alloc(quant_x_bytes(E) + 64, 1), *at = qx + (64 - (uintptr_t)qx % 64);
    struct matmul exact = {.w = packed, .n = 1, .n_in = E, .n_out = PANEL, .p1 = 1}, copy = exact;
    float v[E], x[E], y[PANEL], z[PANEL];
    copy.w = s->w;
    copy.x = at;
    exact.x = x;
    exact.y = y;
    for (size_t r = 0; r < PANEL; r++) {
        double whole = 0, left = 0; /* norm and rest must not be below their roots */
        copied_row(k, copy, r, v);
        for (size_t i = 0; i < E; i++) {
            whole += (double)w[r * E + i] * (double)w[r * E + i];
            left += ((double)w[r * E + i] - (double)v[i]) * ((double)w[r * E + i] - (double)v[i]);
        }
        assert_true((double)s->norm[r] >= sqrt(whole) && (double)s->rest[r] >= sqrt(left));
        for (size_t i = 0; i < E; i++)
            x[i] = (w[r * E + i] - v[i]) * (1 - share) + w[r * E + i] * share;
        k->quantize(at, x, E);
        struct screen_x bound = kernels_screen_x(x, at, E);
        whole = 0;
        for (size_t i = 0; i < E; i++)
            whole += (double)x[i] * (double)x[i];
        assert_true((double)bound.norm >= sqrt(whole));
        copy.y = z;
        k->matmul[WEIGHT_Q8_0](&copy);
        k->matmul[WEIGHT_F32](&exact);
        float error = s->rest[r] * bound.rest_by + s->norm[r] * bound.norm_by + SCREEN_TINY;
        if (!(fabsf(y[r] - z[r]) <= error))
            fail_msg("%s: row %zu: %g and %g, bound %g", k->isa, r, (double)y[r], (double)z[r],
                     (double)error);
        if (share == 0) /* the estimate is close */
            assert_true(fabsf(y[r] - z[r]) > 0.5f * s->rest[r] * bound.rest_by);
    }
    free(qx);
}

TEST(bounds_hold)
{
    struct kernels levels[ISA_LEVELS_MOST];
    size_t n = isa_levels_here(levels), bytes = kernels_panel_bytes(WEIGHT_Q8_0, E);
    uint64_t rng = 1;
    float w[PANEL * E], packed[PANEL * E], rest[2][PANEL], norm[2][PANEL];
    uint8_t *screens = toy_alloc(2 * bytes, 1);
    for (size_t round = 0; round < 5 * n; round++) {
        const struct kernels *k = &levels[round % n];
        for (size_t i = 0; round % n == 0 && i < PANEL * E; i++)
            w[i] = ldexpf((float)toy_normal(&rng), (int)(i / E) * 2 - 20);
        k->pack[WEIGHT_F32](packed, w, E, PANEL, 0, 1);
        const struct matmul m = {.w = packed, .n_in = E, .n_out = PANEL};
        size_t at = round % n > 0;
        struct int8_screen s = {screens + at * bytes, rest[at], norm[at]};
        k->screen(&s, WEIGHT_F32, &m, 0);
        check_bound(k, &s, w, packed, 0);
        check_bound(k, &s, w, packed, 1);
        check_bound(k, &s, w, packed, 1e-3f);
        if (at && (memcmp(screens, s.w, bytes) || memcmp(rest[0], s.rest, sizeof *rest) ||
                   memcmp(norm[0], s.norm, sizeof *norm)))
            fail_msg("%s: another screen", k->isa);
    }
    free(screens);
}

/* ---- where all logits are computed ---- */

static void check_whole(struct toy *m, int32_t top_k, size_t n_vocab)
{
    toy_encode(m);
    mgpt_model *whole = screen_open(m, NULL);
    mgpt_model *model = screen_open(m, &(mgpt_model_params){.top_k = top_k});
    assert_null(model->screen.w);
    mgpt_session *a = subject_session(whole, 0, 1), *b = subject_session(model, 0, 1);
    for (int32_t i = 0; i < 3; i++)
        assert_memory_equal(mgpt_step(a, i, NULL), mgpt_step(b, i, NULL), n_vocab * sizeof(float));
    mgpt_session_free(a);
    mgpt_session_free(b);
    mgpt_close(whole);
    mgpt_close(model);
    toy_free(m);
}

TEST(heads_without_a_screen)
{
    struct toy_spec capped = wide, biased = wide, untied = wide, narrow = wide, odd = wide,
                    integers = wide;
    capped.logit_softcap = 3;
    biased.head_bias = 1;
    untied.tied = 0;
    narrow.n_vocab = 100;
    odd.n_embd = 240;
    integers.type = TOY_Q8_0;
    check_whole(toy_build(&capped), 1, V);
    check_whole(toy_build(&biased), 1, V);
    check_whole(toy_build(&untied), 1, V);
    check_whole(toy_build(&narrow), 1, 100);
    check_whole(toy_build(&odd), 1, V);
    check_whole(toy_build(&integers), 1, V);
    check_whole(toy_build(&wide), 24, V); /* too many of 188 panels */
    check_whole(toy_build(&wide), 0, V);
}

static int read_nothing(const mgpt_value *value, void *user)
{
    (void)value;
    (void)user;
    return 0;
}

/* With a tap of logits, in a batch, and by mgpt_unembed all logits are exact; a saved session has
 * none. */
TEST_IN_PLACE(other_logits)
{
    struct toy *m = toy_build(&wide);
    toy_encode(m);
    mgpt_model *whole = screen_open(m, NULL);
    mgpt_model *model = screen_open(m, &(mgpt_model_params){.top_k = 2});
    mgpt_session *a = subject_session(whole, 0, 1),
                 *b[2] = {subject_session(model, 0, 1), subject_session(model, 0, 1)};
    const float *all = mgpt_step(a, 3, NULL);
    const int32_t tokens[2] = {3, 3};
    float x[E] = {1, -2, 3}, want[V], got[V];
    size_t bytes = V * sizeof *all;
    assert_int_equal(mgpt_step_many(b, tokens, 2, NULL), MGPT_OK);
    assert_memory_equal(mgpt_logits(b[1]), all, bytes);
    assert_int_equal(mgpt_unembed(a, x, want, NULL), MGPT_OK);
    assert_int_equal(mgpt_unembed(b[0], x, got, NULL), MGPT_OK);
    assert_memory_equal(want, got, bytes);
    for (int i = 0; i < UNSCREENED; i++)
        assert_true(mgpt_step(a, 0, NULL) && mgpt_step(b[0], 0, NULL) && mgpt_step(b[1], 0, NULL));
    all = mgpt_step(a, 4, NULL);
    assert_true(check_row(all, mgpt_step(b[0], 4, NULL), V, 2, "step") > 0);
    assert_int_equal(mgpt_tap(b[1], MGPT_POINT_BIT(MGPT_FINAL), read_nothing, NULL, NULL), MGPT_OK);
    assert_memory_equal(mgpt_step(b[1], 4, NULL), all, bytes);
    assert_int_equal(mgpt_tap(b[1], MGPT_POINT_BIT(MGPT_LOGITS), read_nothing, NULL, NULL),
                     MGPT_OK);
    assert_memory_equal(mgpt_step(b[1], 5, NULL), mgpt_step(a, 5, NULL), bytes);
    assert_int_equal(mgpt_save_session(b[0], place.path, NULL), MGPT_OK);
    assert_int_equal(mgpt_load_session(a, place.path, NULL), MGPT_OK);
    assert_null(mgpt_logits(a));
    mgpt_session_free(a);
    mgpt_session_free(b[0]);
    mgpt_session_free(b[1]);
    mgpt_close(whole);
    mgpt_close(model);
    toy_free(m);
}
