/* Tests of tools/engine/hooks.h: which hooks a model has, in which shape; patterns; suggestions. And where --check-finite says
 * that a value is. */
#include "engine/engine.h"
#include "engine/hooks.h"
#include "support/unit.h"

#include "base/mem.h"
#include "support/toy_zoo.h"
#include "support/trace.h"

#include <math.h>

static struct hook *list_of(size_t zoo, struct toy_spec *spec)
{
    struct toy *m = toy_build(&toy_zoo[zoo]);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_error err;
    struct hook *hooks = hooks_list(model, &err);
    assert_non_null(hooks);
    *spec = m->spec;
    mgpt_close(model);
    toy_free(m);
    return hooks;
}

static void check_shape(const struct hook *hooks, const char *name, unsigned n_dims, int a, int b,
                        int c)
{
    const int dims[3] = {a, b, c};
    for (size_t i = 0; i < arr_len(hooks); i++) {
        if (strcmp(hooks[i].name, name) != 0)
            continue;
        assert_int_equal(hooks[i].n_dims, n_dims);
        for (unsigned j = 0; j < n_dims; j++)
            assert_int_equal(hooks[i].dims[j], dims[j]);
        return;
    }
    fail_msg("no hook %s", name);
}

TEST(shapes)
{
    struct toy_spec s;
    struct hook *hooks = list_of(ZOO_QWEN3, &s);
    int d = s.head_dim;
    assert_true(s.n_head != s.n_head_kv && s.n_head * d != s.n_embd); /* all told apart */
    check_shape(hooks, "hook_embed", 2, 0, s.n_embd, 0);
    check_shape(hooks, "blocks.1.hook_resid_pre", 2, 0, s.n_embd, 0);
    check_shape(hooks, "blocks.0.attn.hook_q", 3, 0, s.n_head, d);
    check_shape(hooks, "blocks.0.attn.hook_k", 3, 0, s.n_head_kv, d);
    check_shape(hooks, "blocks.0.attn.hook_v", 3, 0, s.n_head_kv, d);
    check_shape(hooks, "blocks.0.attn.hook_rot_q", 3, 0, s.n_head, d);
    check_shape(hooks, "blocks.0.attn.hook_rot_k", 3, 0, s.n_head_kv, d);
    check_shape(hooks, "blocks.0.attn.hook_attn_scores", 3, s.n_head, 0, 0);
    check_shape(hooks, "blocks.0.attn.hook_pattern", 3, s.n_head, 0, 0);
    check_shape(hooks, "blocks.0.attn.hook_z", 3, 0, s.n_head, d);
    check_shape(hooks, "blocks.0.mlp.hook_pre_linear", 2, 0, s.n_ff, 0);
    check_shape(hooks, "logits", 2, 0, s.n_vocab, 0);
    arr_free(hooks);
}

/* The list is what fires, each once, in the order of the enum within a layer. */
static void check_hook_list(size_t zoo)
{
    struct toy *m = toy_build(&toy_zoo[zoo]);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = mgpt_session_new(model, NULL, NULL);
    struct trace *t = trace_new(m->spec.n_layer, 2);
    const int32_t tokens[2] = {1, 0};
    struct hook *hooks = hooks_list(model, NULL);
    size_t n_fired = 0;
    mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, trace_tap, t, NULL);
    assert_int_equal(mgpt_feed(session, tokens, 2, NULL), MGPT_OK);
    for (int p = 0; p < MGPT_N_POINTS; p++)
        for (int layer = -1; layer < m->spec.n_layer; layer++) {
            const struct trace_value *v = trace_at(t, (mgpt_point)p, layer);
            const struct hook *hook = hooks_find(hooks, (mgpt_point)p, layer);
            uint64_t dims[4], n;
            assert_int_equal(v->data != NULL, hook != NULL);
            n_fired += hook != NULL;
            if (hook) {
                assert_true(hook_shape(hook, 2, dims, &n));
                assert_int_equal(n, 2 * v->cols); /* heads * T * T at attention */
            }
        }
    assert_int_equal(arr_len(hooks), n_fired);
    for (size_t i = 1; i < n_fired; i++)
        assert_true(hooks[i - 1].layer != hooks[i].layer || hooks[i - 1].point < hooks[i].point);
    arr_free(hooks);
    trace_free(t);
    mgpt_session_free(session);
    mgpt_close(model);
    toy_free(m);
}

TEST(complete)
{
    for (size_t i = 0; i < ZOO_SIZE; i++)
        check_hook_list(i);
}

TEST(patterns)
{
    const char *pattern = "blocks.12.attn.hook_pattern";
    const char *const yes[] = {"*",
                               "**",
                               pattern,
                               "blocks.*.attn.hook_pattern",
                               "blocks.??.attn.hook_pattern",
                               "*pattern",
                               "*.hook_*t*rn",
                               "logits,*pattern",
                               "blocks.12.*,logits",
                               "nothing,,*n"};
    const char *const no[] = {
        "",          "blocks.?.attn.hook_pattern", "blocks.12",         "pattern", "*patter",
        "*pattern?", "blocks.*.hook_pattern.*",    "logits,hook_embed", "BLOCKS.*"};
    for (size_t i = 0; i < COUNT(yes); i++)
        if (!hooks_match(yes[i], pattern))
            fail_msg("'%s' should match %s", yes[i], pattern);
    for (size_t i = 0; i < COUNT(no); i++)
        if (hooks_match(no[i], pattern))
            fail_msg("'%s' should not match %s", no[i], pattern);
    /* Many stars take no exponential time. */
    assert_false(hooks_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
                             "blocks.aaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST(choice)
{
    struct toy_spec s;
    struct hook *hooks = list_of(ZOO_LLAMA_TIED, &s);
    struct hook *chosen = hooks_choose(hooks, "logits,blocks.*.attn.hook_pattern,logits", NULL);
    assert_int_equal(arr_len(chosen), s.n_layer + 1);
    assert_string_equal(chosen[0].name, "blocks.0.attn.hook_pattern");
    assert_string_equal(chosen[s.n_layer].name, "logits");
    assert_true(hooks_points(chosen) ==
                (MGPT_POINT_BIT(MGPT_WEIGHTS) | MGPT_POINT_BIT(MGPT_LOGITS)));
    arr_free(chosen);
    arr_free(hooks);
}

TEST(suggestions)
{
    struct toy_spec s;
    struct hook *hooks = list_of(ZOO_LLAMA, &s);
    const char *const cases[][2] = {
        {"hook_pattern", "'blocks.*.attn.hook_pattern'"},
        {"blocks.*.attn.hook_patern", "'blocks.*.attn.hook_pattern'"},
        {"blocks.0.hook_resid_port", "'blocks.0.hook_resid_post'"},
        {"logits,logit", "no hook is called 'logit', did you mean 'logits'?"},
        {"logits,", "no hook is called '' ("},
        {"blocks.0.attn.hook_pattern.and.a.tail.that.nobody.would.ever.write.in.a.name.of.a.hook",
         "--list"},
        {"xyz", "(mgpt trace MODEL --list prints them)"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        mgpt_error err = {0};
        assert_null(hooks_choose(hooks, cases[i][0], &err));
        assert_int_equal(err.status, MGPT_EARG);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("'%s' gives: %s", cases[i][0], err.text);
    }
    arr_free(hooks);
}

/* hook_shape returns 0 if the number of values overflows. */
TEST(overflow)
{
    struct hook hook = {.n_dims = 3, .dims = {32, 0, 0}};
    uint64_t dims[4], n;
    assert_true(hook_shape(&hook, 1000, dims, &n));
    assert_int_equal(n, 32000000);
    assert_false(hook_shape(&hook, UINT64_C(1) << 31, dims, &n));
}

/* ---- --check-finite ---- */

/* One value of the third token. */
struct put_value {
    mgpt_point point;
    int row, index;
    float value;
    const char *told;
};

static int put_third(const mgpt_value *v, void *user)
{
    const struct put_value *p = user;
    int one_query = v->point == MGPT_SCORES || v->point == MGPT_WEIGHTS;
    if (!one_query || v->pos == 2)
        v->data[(size_t)p->row * v->stride + (size_t)p->index] = p->value;
    return 0;
}

TEST(places_are_told)
{
    struct toy *m = toy_build(&toy_zoo[ZOO_QWEN3]);
    mgpt_model *model = toy_open(m, NULL);
    const int d = m->spec.head_dim;
    const int32_t tokens[] = {0, 1, 2};
    const struct put_value rows[] = {
        {MGPT_Q, 2, d + 1, INFINITY, "attn.hook_q, head 1, position 2, value 1: inf"},
        {MGPT_HEADS, 1, 2 * d + 2, -INFINITY, "attn.hook_z, head 2, position 1, value 2: -inf"},
        {MGPT_SCORES, 3, 1, NAN, "attn.hook_attn_scores, head 3, position 2, key 1: nan"},
        {MGPT_RESID_MID, 2, 5, -INFINITY, "hook_resid_mid, position 2, value 5: -inf"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        mgpt_error err;
        char want[160];
        struct put_value put = rows[i];
        struct watcher own = {MGPT_POINT_BIT(put.point), put_third, &put, NULL};
        struct engine e = {.model = model, .check_finite = 1};
        snprintf(want, sizeof want, "blocks.0.%s, expected a finite number", put.told);
        assert_int_equal(engine_session(&e), EXIT_OK);
        assert_int_equal(engine_feed(&e, e.session, tokens, 3, &own, &err), MGPT_EFILE);
        assert_string_equal(err.text, want);
        mgpt_session_free(e.session);
    }
    mgpt_close(model);
    toy_free(m);
}
