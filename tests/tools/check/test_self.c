/* Tests of mgpt check --self: every model of the zoo agrees with itself and with float64; kernels
 * that are wrong, put into the table of an open model, do not pass. */
#include "base/mem.h"
#include "check/self/self.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

/* Opens a toy; from the `from`-th opening on with `spoil` done to its kernels. */
struct opener {
    struct toy *m;
    void (*spoil)(struct kernels *k);
    int from, n_opened;
};

static mgpt_model *open_toy(void *user, const char *isa, mgpt_error *err)
{
    struct opener *o = user;
    mgpt_model_params params = {.isa = isa};
    mgpt_model *model = mgpt_open_bytes(o->m->file, o->m->size, &params, err);
    if (model && o->n_opened++ >= o->from && o->spoil)
        o->spoil(&model->kernels);
    return model;
}

static struct self_request request(struct opener *o, int32_t *tokens, size_t n)
{
    toy_tokens(o->m, 7, tokens, n);
    toy_encode(o->m);
    return (struct self_request){.open = open_toy, .user = o, .tokens = tokens, .n = n};
}

TEST(zoo)
{
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        enum { N = 8 };
        int32_t tokens[N];
        struct opener o = {.m = toy_build(&toy_zoo[i])};
        struct self_request q = request(&o, tokens, N);
        struct self_bits bits;
        struct self_stages stages;
        mgpt_error err;
        assert_int_equal(self_bits(&q, &bits, &err), MGPT_OK);
        assert_int_equal(self_stages(&q, &stages, &err), MGPT_OK);
        if (bits.differs || !stages.holds)
            fail_msg("%s: %s", toy_zoo[i].label, bits.differs ? "bits" : "numbers");
        assert_true(arr_len(bits.variants) == 24 * bits.n_isas);
        assert_true(stages.points[MGPT_LOGITS].fired);
        arr_free(bits.variants);
        toy_free(o.m);
    }
}

/* A matmul that adds the last column first. For wide matrices only: the toy has no others. */
static void backwards(const struct matmul *m)
{
    for (size_t i = 0; i < m->n; i++)
        for (size_t r = m->p0 * PANEL; r < m->p1 * PANEL && r < m->n_out; r++) {
            const float *panel = (const float *)m->w + r / PANEL * m->n_in * PANEL + r % PANEL;
            const float *in = matmul_x(m, i);
            float sum = 0;
            for (size_t k = m->n_in; k-- > 0;)
                sum = __builtin_fmaf(panel[k * PANEL], in[k], sum);
            m->y[i * m->ldy + r] = sum;
        }
}

static void spoil_order(struct kernels *k)
{
    k->matmul[WEIGHT_F32] = backwards;
}

static float one_ulp(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= 1;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void add_nearly(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
    x[0] = one_ulp(x[0]);
}

static void spoil_add(struct kernels *k)
{
    k->add = add_nearly;
}

/* From the third position of a text on. */
static void add_late(float *x, const float *y, size_t n)
{
    static int n_calls;
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
    x[0] = ++n_calls > 8 ? one_ulp(x[0]) : x[0];
}

static void spoil_add_late(struct kernels *k)
{
    k->add = add_late;
}

static void relu_wrong(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > 0 ? x[i] * 1.0001F : 0;
}

static void spoil_silu(struct kernels *k)
{
    k->act[ACT_SILU] = relu_wrong;
}

static const struct toy_spec wide = {.label = "wide",
                                     .arch = "llama",
                                     .n_layer = 2,
                                     .n_embd = 96,
                                     .n_head = 2,
                                     .n_ff = 160,
                                     .n_ctx = 40,
                                     .n_vocab = 200,
                                     .seed = 3};

/* The logit that scalar kernels give. */
static float scalar_logit(struct opener *o, const int32_t *tokens, size_t pos, size_t id)
{
    struct opener plain = {.m = o->m};
    mgpt_model *model = open_toy(&plain, "scalar", NULL);
    mgpt_session *session = mgpt_session_new(model, NULL, NULL);
    assert_int_equal(mgpt_feed(session, tokens, pos + 1, NULL), MGPT_OK);
    float logit = mgpt_logits(session)[id];
    mgpt_session_free(session);
    mgpt_close(model);
    return logit;
}

/* A second instruction set whose sums run the other way: caught, and where is said. */
static void check_caught(void (*spoil)(struct kernels *k))
{
    enum { N = 9 };
    int32_t tokens[N];
    struct opener o = {.m = toy_build(&wide), .spoil = spoil, .from = 1};
    struct self_request q = request(&o, tokens, N);
    struct self_bits bits;
    mgpt_error err;
    assert_int_equal(self_bits(&q, &bits, &err), MGPT_OK);
    if (o.n_opened > 1) {
        const struct self_difference *d = &bits.difference;
        assert_int_equal(bits.differs, 1);
        assert_string_equal(d->first.isa, "scalar");
        assert_string_equal(d->variant.name, "stepped");
        assert_true(strcmp(d->variant.isa, "scalar") != 0);
        assert_true(d->variant.hash != d->first.hash);
        assert_true(d->pos < N && d->id < 200 && d->expected != d->found);
        assert_true(d->expected == scalar_logit(&o, tokens, d->pos, d->id));
        assert_true(spoil != spoil_add_late || d->pos > 0);
    }
    arr_free(bits.variants);
    toy_free(o.m);
}

/* Rows that went through the first layer's q, with scalar kernels: its first panel is computed once
 * for each. */
static size_t n_rows_run;
static void (*scalar_matmul)(const struct matmul *m);
static const void *q_weights;

static void counting(const struct matmul *m)
{
    if (m->w == q_weights && m->p0 == 0 && m->p1 > 0)
        __atomic_fetch_add(&n_rows_run, m->n, __ATOMIC_RELAXED);
    scalar_matmul(m);
}

static mgpt_model *open_counted(void *user, const char *isa, mgpt_error *err)
{
    mgpt_model *model = open_toy(user, isa, err);
    if (model) {
        q_weights = model->layers[0].q.w;
        scalar_matmul = model->kernels.matmul[WEIGHT_F32];
        model->kernels.matmul[WEIGHT_F32] = counting;
    }
    return model;
}

/* Each variant runs all that it is to compare: of 9 tokens, stepped, fed and tapped all; forked 5 more,
 * which it goes back from; synced another text of 8, all of this one, then of each beginning what was
 * taken back; three timelines of a batch, two of them ahead by 1 and 2, until one is full. */
static void check_all_is_run(int32_t n_ctx, size_t batched)
{
    enum { N = 9, STEPPED = N, FED = N, FORKED = N + 5, SYNCED = N - 1 + N + 5 * 4 + 3 + 2 + 1 };
    int32_t tokens[N];
    struct toy_spec spec = wide;
    spec.n_ctx = n_ctx;
    struct opener o = {.m = toy_build(&spec)};
    struct self_request q = request(&o, tokens, N);
    struct self_bits bits;
    mgpt_error err;
    q.open = open_counted;
    q.isa = "scalar";
    n_rows_run = 0;
    assert_int_equal(self_bits(&q, &bits, &err), MGPT_OK);
    assert_int_equal(bits.differs, 0);
    assert_int_equal(arr_len(bits.variants), 24);
    /* for 1 and 2 threads; what does not step also with two sizes of chunks more */
    assert_int_equal(n_rows_run, 2 * (STEPPED + FORKED + batched + 3 * (2 * FED + SYNCED)));
    arr_free(bits.variants);
    toy_free(o.m);
}

TEST(all_is_run)
{
    check_all_is_run(40, 3 * 9 + 1 + 2);
    check_all_is_run(9, 3 * 7 + 2 + 1 + 2);
}

TEST(changed_order)
{
    check_caught(spoil_order);
    check_caught(spoil_add);
    check_caught(spoil_add_late);
}

TEST(wrong_numbers)
{
    enum { N = 9 };
    int32_t tokens[N];
    struct opener o = {.m = toy_build(&wide), .spoil = spoil_silu};
    struct self_request q = request(&o, tokens, N);
    struct self_stages stages;
    mgpt_error err;
    assert_int_equal(self_stages(&q, &stages, &err), MGPT_OK);
    assert_int_equal(stages.holds, 0);
    for (int p = 0; p < MGPT_N_POINTS; p++)
        if (stages.points[p].fired)
            assert_int_equal(stages.points[p].nmse <= stages.bound, p != MGPT_MLP_POST);
    /* relu for silu: the mean is of all values */
    assert_true(stages.points[MGPT_MLP_POST].nmse > 0.05 && stages.points[MGPT_MLP_POST].nmse < 5);
    toy_free(o.m);
}

/* The bound grows with the widest sum: of the embedding, of all heads, of the MLP, and with latents. */
TEST(bounds)
{
    static const struct {
        int n_embd, head_dim, n_ff, n_latent;
        double bound;
    } rows[] = {
        {64, 32, 160, 0, 1e-11},      {256, 32, 160, 0, 1.5158e-11},  {64, 192, 160, 0, 2.2737e-11},
        {64, 32, 512, 0, 3.0316e-11}, {64, 40, 160, 100, 1.5395e-11},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int32_t tokens[2];
        struct toy_spec spec = wide;
        spec.arch = rows[i].n_latent ? "deepseek2" : "llama";
        spec.n_embd = rows[i].n_embd, spec.head_dim = rows[i].head_dim, spec.n_ff = rows[i].n_ff;
        if ((spec.n_latent = rows[i].n_latent))
            spec.rope_dims = 8, spec.value_dim = 30, spec.n_q_latent = 70;
        struct opener o = {.m = toy_build(&spec)};
        struct self_request q = request(&o, tokens, 2);
        struct self_stages stages;
        mgpt_error err;
        if (self_stages(&q, &stages, &err) != MGPT_OK)
            fail_msg("%zu: %s", i, err.text);
        assert_true(fabs(stages.bound / rows[i].bound - 1) < 1e-4);
        toy_free(o.m);
    }
}

/* NaN on both sides is not agreement. */
TEST(nan)
{
    enum { N = 4 };
    int32_t tokens[N];
    struct opener o = {.m = toy_build(&wide)};
    toy_find(o.m, "blk.1.ffn_up.weight")->values[5] = __builtin_nanf("");
    struct self_request q = request(&o, tokens, N);
    struct self_stages stages;
    mgpt_error err;
    assert_int_equal(self_stages(&q, &stages, &err), MGPT_OK);
    assert_int_equal(stages.holds, 0);
    assert_true(stages.points[MGPT_MLP_PRE].nmse <= stages.bound);
    assert_false(stages.points[MGPT_MLP_PRE_LINEAR].nmse <= stages.bound);
    assert_int_equal(stages.points[MGPT_MLP_PRE_LINEAR].layer, 1);
    assert_int_equal(stages.points[MGPT_MLP_PRE_LINEAR].col, 0);
    toy_free(o.m);
}
