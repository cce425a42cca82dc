/* Where check says that two passes part, and when it says that the reference ran in a shorter type. */
#include "base/mem.h"
#include "check/compare/locate.h"
#include "check/explain/explain_impl.h"
#include "check/oracle/oracle_math.h"
#include "check/oracle/oracle_model.h"
#include "support/build_model.h"
#include "support/unit.h"

#include <math.h>

enum { N = 4, LAYERS = 3 };

/* ---- positions ---------------------------------------------------------------------------------- */

/* Locates one hook, and logits that agree, with these squares at N positions. */
static struct locate judged(struct locate_hook hooks[2], struct locate_at at[2][N])
{
    struct locate l = {.hooks = hooks, .n_hooks = 1, .n = N, .bound = 1e-9};
    l.first_bad = l.last_good = -1;
    for (size_t i = 0; i < 2; i++) {
        hooks[i] = (struct locate_hook){.own = at[i], .fired = 1};
        hooks[i].hook =
            (struct ref_hook){.point = i ? MGPT_LOGITS : MGPT_MLP_OUT, .layer = i ? -1 : 0};
    }
    locate_judge(&l);
    return l;
}

/* What rounding leaves where a position is nearly zero is no difference: the hook's average counts. */
TEST(a_position_that_is_nearly_zero)
{
    struct locate_hook hooks[2];
    struct locate_at at[2][N] = {{{0, 1, 0, 0, 0, 0, 0},
                                  {0, 1, 0, 0, 0, 0, 0},
                                  {1e-14, 1e-9, 1e-7, 0, 0, 0, 0},
                                  {0, 1, 0, 0, 0, 0, 0}}};
    struct locate l = judged(hooks, at);
    assert_int_equal(l.first_bad, -1);
    assert_int_equal(l.last_good, 1);
    at[0][2].square = 1e-12; /* 1e-12 of a ten-thousandth of 3/4 */
    l = judged(hooks, at);
    assert_int_equal(l.first_bad, 0);
    assert_int_equal(hooks[0].pos, 2);
    assert_true(fabs(hooks[0].nmse / (1e-12 / (1e-4 * 3.000000001 / 4)) - 1) < 1e-12);
}

TEST(the_first_bad_position_and_the_worst_error)
{
    struct locate_hook hooks[2];
    struct locate_at at[2][N] = {{{1e-12, 1, 1e-6, 0, 0, 0, 0},
                                  {1e-7, 1, 1e-3, 0, 0, 0, 0},
                                  {1e-3, 1, 1e-1, 0, 0, 0, 0},
                                  {1e-8, 1, 1e-4, 0, 0, 0, 0}}};
    struct locate l = judged(hooks, at);
    assert_int_equal(l.first_bad, 0);
    assert_int_equal(hooks[0].pos, 1);
    assert_true(hooks[0].nmse == 1e-3);
}

/* A value that is not finite is the worst of its row, whatever follows it. Keys that both sides mask agree. */
TEST(rows_that_are_not_finite)
{
    static const struct {
        float ours[3];
        double theirs[3];
        int bad; /* the index, -1: none */
    } rows[] = {{{NAN, 1, 5}, {0, 1, 2}, 0},
                {{1, INFINITY, 1}, {1, -1e9, 1}, 1},
                {{1, -INFINITY, 1}, {1, -1e9, 1}, -1},
                {{1, -INFINITY, 1}, {1, -10, 1}, 1},
                {{1, 2, 1}, {1, NAN, 9}, 1}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct locate_at at = {0};
        struct locate_hook hook = {.own = &at};
        struct locate l = {.hooks = &hook, .n = 1};
        locate_row(&l, 0, 0, 0, rows[i].theirs, rows[i].ours, 3);
        assert_int_equal(isnan(at.worst), rows[i].bad >= 0);
        if (rows[i].bad >= 0)
            assert_int_equal(at.index, rows[i].bad);
        else
            assert_true(at.worst == 0);
    }
}

/* A norm that differs was recorded at another place if what it gives agrees, but not where it is not finite or nothing
 * was compared after it. */
TEST(recorded_at_another_place)
{
    static const struct {
        double square, worst;
        int fired, first_bad;
    } rows[] = {{1, 1, 1, -1}, {1, (double)NAN, 1, 0}, {1, 1, 0, 0}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct locate_at at[3][N] = {{{0}}};
        struct locate_hook hooks[3];
        struct locate l = {.hooks = hooks, .n_hooks = 2, .n = N, .bound = 1e-9, .first_bad = -1};
        for (size_t k = 0; k < 3; k++) {
            for (size_t t = 0; t < N; t++)
                at[k][t].ref_square = 1;
            hooks[k] = (struct locate_hook){.own = at[k], .fired = k != 1 || rows[i].fired};
            hooks[k].hook.point = k == 0 ? MGPT_ATTN_IN : k == 1 ? MGPT_Q : MGPT_LOGITS;
        }
        at[0][1].square = rows[i].square;
        at[0][1].worst = rows[i].worst;
        locate_judge(&l);
        assert_int_equal(hooks[0].elsewhere, rows[i].first_bad < 0);
        assert_int_equal(l.first_bad, rows[i].first_bad);
    }
}

/* ---- layers ------------------------------------------------------------------------------------- */

struct layers_case {
    mgpt_point good, bad;
    int good_layer, bad_layer; /* good_layer -2: nothing is good */
    int from, to;
};

/* The layers after the last good value whose work the first bad one shows. */
TEST(layers_that_may_be_wrong)
{
    static const struct layers_case cases[] = {
        {MGPT_RESID_POST, MGPT_RESID_POST, 0, 1, 1, 1},
        {MGPT_RESID_POST, MGPT_RESID_PRE, 0, 2, 1, 1},
        {MGPT_RESID_PRE, MGPT_RESID_PRE, 0, 1, 0, 0},
        {MGPT_RESID_PRE, MGPT_RESID_PRE, 0, 2, 0, 1},
        {MGPT_Q, MGPT_HEADS, 1, 1, 1, 1},
        {MGPT_EMBD, MGPT_RESID_PRE, -1, 0, 0, -1},
        {MGPT_RESID_POST, MGPT_FINAL, 1, -1, 2, 2},
        {MGPT_FINAL, MGPT_LOGITS, -1, -1, 3, 2},
        {MGPT_EMBD, MGPT_EMBD, -2, -1, 0, -1},
        {MGPT_EMBD, MGPT_LOGITS, -2, -1, 0, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct layers_case *c = &cases[i];
        struct locate_hook hooks[2] = {{.hook = {.point = c->good, .layer = c->good_layer}},
                                       {.hook = {.point = c->bad, .layer = c->bad_layer}}};
        struct locate l = {.hooks = hooks, .n_hooks = 2, .first_bad = 1};
        l.last_good = c->good_layer == -2 ? -1 : 0;
        struct locate_layers found = locate_layers(&l, LAYERS);
        if (found.from != c->from || found.to != c->to)
            fail_msg("case %zu: layers %d to %d, expected %d to %d", i, found.from, found.to,
                     c->from, c->to);
    }
}

/* ---- precision ---------------------------------------------------------------------------------- */

static const struct toy_spec spec = {.label = "llama",
                                     .arch = "llama",
                                     .n_layer = 2,
                                     .n_embd = 32,
                                     .n_head = 4,
                                     .n_head_kv = 2,
                                     .n_ff = 48,
                                     .n_ctx = 40,
                                     .n_vocab = 60,
                                     .seed = 11};

enum { TOKENS = 14 };

/* To 7 bits after the point, as bfloat16 has them. */
static double to_bfloat16(double x)
{
    int e;
    double m = frexp(x, &e);
    return isfinite(x) ? ldexp(nearbyint(m * 256) / 256, e) : x;
}

static struct oracle_source exact;

static int read_short(void *user, const char *name, size_t row, size_t n, float *out,
                      mgpt_error *err)
{
    int status = exact.read(user, name, row, n, out, err);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        out[i] = (float)to_bfloat16((double)out[i]);
    return status;
}

static double as_it_is(mgpt_point point, double x)
{
    (void)point;
    return x;
}

/* What happens to a row at a point. */
typedef double row_fn(mgpt_point point, double x);

static double in_bfloat16(mgpt_point point, double x)
{
    return point == MGPT_LOGITS ? x : to_bfloat16(x);
}

static double bent(mgpt_point point, double x)
{
    return point == MGPT_MLP_OUT ? x + 0.02 * sin(7 * x) : x;
}

struct other_program {
    row_fn *row;
    double logits[TOKENS][60];
};

static int program_row(mgpt_point point, int layer, size_t pos, size_t head, double *row, size_t n,
                       void *user)
{
    struct other_program *p = user;
    (void)layer, (void)head;
    for (size_t i = 0; i < n; i++)
        row[i] = p->row(point, row[i]);
    if (point == MGPT_LOGITS)
        memcpy(p->logits[pos], row, n * sizeof *row);
    return 0;
}

static int give(void *user, size_t row, double *out, mgpt_error *err)
{
    const struct other_program *p = user;
    (void)err;
    memcpy(out, p->logits[row], sizeof p->logits[row]);
    return MGPT_OK;
}

/* What explain says of a file and of the logits of a program that does `row` everywhere, with the weights of
 * `of`, which short_weights rounds. */
static struct explain_precision precision_of(row_fn *row, const struct toy_spec *of,
                                             int short_weights, const struct toy_spec *of_file)
{
    int32_t tokens[TOKENS];
    struct locate l;
    struct explain e = {.bound = 1e-9};
    struct oracle_spec pass;
    struct oracle_layer *layers;
    mgpt_error err;
    struct other_program program = {.row = row};
    struct toy *toy = toy_build(of), *file = toy_build(of_file);
    toy_tokens(toy, 3, tokens, TOKENS);
    mgpt_model *told = toy_open(toy, NULL), *model = toy_open(file, NULL);
    assert_int_equal(oracle_describe(told, &pass, &layers, &err), MGPT_OK);
    exact = pass.source;
    if (short_weights)
        pass.source.read = read_short;
    assert_int_equal(oracle_pass(&pass, tokens, TOKENS, program_row, &program, &err), MGPT_OK);
    struct answer a = {.tokens = tokens,
                       .n = TOKENS,
                       .n_vocab = 60,
                       .logits = give,
                       .n_rows = TOKENS,
                       .user = &program};
    assert_int_equal(locate_run(&l, model, &a, 1e-9, &err), MGPT_OK);
    assert_int_equal(l.first_bad, 0);
    struct search s = {.e = &e, .model = model, .a = &a, .l = &l, .base = &s.as_is, .err = &err};
    assert_int_equal(whatif_open(&s.as_is, model, tokens, TOKENS, &err), MGPT_OK);
    assert_int_equal(solve_precision(&s), MGPT_OK);
    whatif_close(&s.as_is);
    for (size_t i = 0; i < arr_len(s.owned); i++)
        free(s.owned[i]);
    arr_free(s.owned);
    locate_free(&l);
    free(layers);
    mgpt_close(told);
    mgpt_close(model);
    toy_free(toy);
    toy_free(file);
    return e.precision;
}

/* The median of its differences is that of a pass in bfloat16, but for what rounding the logits adds. */
TEST(a_reference_in_bfloat16)
{
    struct explain_precision p = precision_of(in_bfloat16, &spec, 1, &spec);
    assert_string_equal(p.type, "bfloat16");
    assert_int_equal(p.fits, 1);
    assert_true(fabs(p.error / p.noise - 1) < 0.1);
    p = precision_of(bent, &spec, 0, &spec);
    assert_int_equal(p.fits, 0);
    assert_null(p.file);
}

/* The reference has the weights before they were rounded. */
TEST(a_file_in_bfloat16)
{
    struct toy_spec in_short = spec;
    in_short.type = TOY_BF16;
    struct explain_precision p = precision_of(as_it_is, &spec, 0, &in_short);
    assert_string_equal(p.file, "bfloat16");
    assert_true(fabs(log(p.error / p.file_noise)) < log(2));
    p = precision_of(bent, &in_short, 0, &in_short);
    assert_null(p.file);
}

/* ---- mixed rotations ---------------------------------------------------------------------------- */

enum { HEADS = 4, HEAD_DIM = 8, AT = 3 };

struct rotated {
    double q[HEADS * HEAD_DIM], rot[HEADS * HEAD_DIM];
};

static int take_rotated(mgpt_point point, int layer, size_t pos, size_t head, double *row, size_t n,
                        void *user)
{
    struct rotated *r = user;
    (void)head;
    if (layer == 0 && pos == AT && (point == MGPT_Q || point == MGPT_ROT_Q))
        memcpy(point == MGPT_Q ? r->q : r->rot, row, n * sizeof *row);
    return 0;
}

/* The cosine and the sine of a component of halves are those of adjacent pairs: component i of a pair (i, i + half)
 * turns by frequency i / 2, the other one by (i + half) / 2. */
TEST(halves_that_turn_as_pairs)
{
    int32_t tokens[TOKENS];
    struct oracle_spec pass;
    struct oracle_layer *layers;
    struct rotated r = {.q = {0}, .rot = {0}};
    mgpt_error err;
    struct toy *toy = toy_build(&spec);
    toy_tokens(toy, 3, tokens, TOKENS);
    mgpt_model *model = toy_open(toy, NULL);
    assert_int_equal(oracle_describe(model, &pass, &layers, &err), MGPT_OK);
    pass.rot_mixed = 1;
    assert_int_equal(oracle_pass(&pass, tokens, TOKENS, take_rotated, &r, &err), MGPT_OK);
    for (size_t at = 0; at < HEADS * HEAD_DIM; at++) {
        size_t i = at % HEAD_DIM, half = HEAD_DIM / 2, other = i < half ? at + half : at - half;
        double angle = AT * layers[0].freq[i / 2];
        double sine = i < half ? -sin(angle) : sin(angle);
        assert_true(fabs(r.rot[at] - (r.q[at] * cos(angle) + r.q[other] * sine)) < 1e-12);
    }
    free(layers);
    mgpt_close(model);
    toy_free(toy);
}

/* ---- a rounded variance ------------------------------------------------------------------------- */

/* The number that a norm divides by is rounded where the variance is said to be, and only there. */
TEST(variances_in_bfloat16)
{
    static const enum oracle_rounded rounded[] = {ORACLE_VARIANCE, ORACLE_TURNS};
    static const double x[4] = {1, 1.1, 0.9, -1.3};
    double y[4], square = (1 + 1.21 + 0.81 + 1.69) / 4;
    for (size_t k = 0; k < COUNT(rounded); k++) {
        struct oracle_spec s = {.type = ORACLE_BF16, .rounded = rounded[k]};
        math_norm(&s, y, x, 1, 4, NULL, NULL);
        double by = sqrt(k == 0 ? to_bfloat16(square) : square);
        for (size_t i = 0; i < 4; i++)
            assert_true(fabs(y[i] - x[i] / by) < 1e-12);
    }
    assert_true(fabs(to_bfloat16(square) / square - 1) > 1e-3);
}
