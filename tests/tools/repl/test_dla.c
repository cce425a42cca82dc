/* Tests of direct logit attribution on every kind of model. */
#include "repl/dla.h"
#include "support/toy_oracle.h"
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>

enum { N = 7, POS = 5 };

struct attributed {
    struct toy *m;
    mgpt_model *model;
    mgpt_info info;
    struct dla dla;
    int32_t tokens[N];
    float *logits; /* of the engine, at POS */
};

static struct attributed attribute(size_t zoo, int32_t token, int32_t other)
{
    struct attributed a;
    struct toy_spec spec = toy_zoo[zoo];
    spec.seed = 90 + zoo;
    a.m = toy_build(&spec);
    a.model = toy_open(a.m, NULL);
    mgpt_session *session = mgpt_session_new(a.model, NULL, NULL);
    assert_int_equal(mgpt_get_info(a.model, &a.info, NULL), MGPT_OK);
    size_t n_vocab = (size_t)a.info.n_vocab;
    a.logits = toy_alloc(n_vocab, sizeof *a.logits);
    toy_tokens(a.m, 3, a.tokens, N);
    assert_int_equal(dla_new(&a.dla, &a.info, POS, NULL), MGPT_OK);
    assert_int_equal(mgpt_tap(session, dla_points(), dla_tap, &a.dla, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed(session, a.tokens, N, NULL), MGPT_OK);
    assert_int_equal(mgpt_sync(session, a.tokens, POS + 1, NULL), MGPT_OK);
    memcpy(a.logits, mgpt_logits(session), n_vocab * sizeof *a.logits);
    assert_int_equal(dla_run(&a.dla, a.model, token, other, n_vocab, NULL), MGPT_OK);
    mgpt_session_free(session);
    return a;
}

static void attributed_free(struct attributed *a)
{
    dla_free(&a->dla);
    free(a->logits);
    mgpt_close(a->model);
    toy_free(a->m);
}

/* The engine's logit before its cap; NaN where the cap leaves too little of it to tell. */
static double uncapped(const struct attributed *a, int32_t token)
{
    double x = (double)a->logits[token], cap = (double)a->info.logit_softcap;
    if (cap > 0 && fabs(x) > 0.9 * cap)
        return NAN;
    return cap > 0 ? cap * atanh(x / cap) : x;
}

/* Float32 rounds each of some hundred additions by 6e-8 of numbers near 1: 1e-5 of the sum of sizes
 * leaves room, and a wrong component is wrong by per cents. Integer types quantise what they
 * multiply to 8 bits, the values before the output matrix and the input of the head: per cents
 * of single products. */
static double tolerance(const struct attributed *a, double sizes)
{
    return (a->m->spec.type >= TOY_Q4_0 && a->m->spec.type != TOY_BF16 ? 0.03 : 1e-5) * (sizes + 1);
}

/* 1 when the engine's logits were compared, too. */
static int check_sum(size_t zoo, int32_t token, int32_t other)
{
    struct attributed a = attribute(zoo, token, other);
    const struct dla *d = &a.dla;
    double sum = d->token_part + d->position_part + d->biases, against = 0;
    double sizes = fabs(d->token_part) + fabs(d->position_part) + fabs(d->biases);
    for (size_t i = 0; i < d->n_layer; i++) {
        sum += d->mlps[i];
        sizes += fabs(d->mlps[i]);
        for (size_t h = 0; h < d->n_head; h++) {
            sum += d->heads[i * d->n_head + h];
            sizes += fabs(d->heads[i * d->n_head + h]);
        }
    }
    for (int32_t t = 0; other == DLA_MEAN && t < a.info.n_vocab; t++)
        against += uncapped(&a, t) / a.info.n_vocab;
    double logit = uncapped(&a, token) - (other == DLA_MEAN ? against : uncapped(&a, other));
    double most = tolerance(&a, sizes);
    if (!(fabs(sum - d->total) <= most) || !(fabs(d->total - logit) <= most || isnan(logit)) ||
        !(fabs(sum + d->rest - d->total) <= 1e-9 * (1 + sizes)))
        fail_msg("%s: parts %.9g, total %.9g, engine %.9g, rest %.3g, allowed %.3g",
                 a.m->spec.label, sum, d->total, logit, d->rest, most);
    attributed_free(&a);
    return !isnan(logit);
}

/* Models whose residual is more than the sum of what their parts add, or whose logits are no products with it. */
static const char *why_refused(size_t zoo)
{
    const char *arch = toy_zoo[zoo].arch;
    if (toy_zoo[zoo].out_scales || strcmp(arch, "beam") == 0)
        return "change the residual stream besides adding to it";
    if (strcmp(arch, "modernbert-decoder") == 0)
        return "a matrix and an activation are before this model's head";
    return strcmp(arch, "gpt1") == 0 ? "normalises the residual stream itself" : NULL;
}

/* The parts add up to the engine's logits: every architecture and dialect, tied and untied heads,
 * no final norm, norms after the branches, residuals with x0 mixed in, no layers at all. */
TEST(parts_add_up)
{
    size_t n_compared = 0;
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        if (why_refused(i))
            continue;
        n_compared += (size_t)check_sum(i, 1, 0);
        n_compared += (size_t)check_sum(i, toy_zoo[i].n_vocab - 1, DLA_MEAN);
    }
    assert_true(n_compared > 2 * ZOO_SIZE - 30); /* ten are left out, five cap their logits */
}

/* y = gain * (c - mean c) / deviation of x: a norm of x with its scale frozen, of a part c of x. In
 * place. */
static void frozen_norm(const struct attributed *a, const char *name, const double *x, double *c)
{
    const struct toy_tensor *gain = toy_find(a->m, name);
    int layer_norm = a->m->spec.row->layer_norm, n = a->m->spec.n_embd;
    double mean_x = 0, mean_c = 0, squares = 0;
    for (int i = 0; i < n && layer_norm; i++) {
        mean_x += x[i] / n;
        mean_c += c[i] / n;
    }
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean_x) * (x[i] - mean_x) / n;
    for (int i = 0; i < n; i++)
        c[i] = (c[i] - mean_c) / sqrt(squares + (double)a->info.norm_eps) *
               (gain ? (double)gain->values[i] : 1);
}

/* What head h of a layer writes: W_O z, straight from the toy's weights and the oracle's z. */
static void write_of_head(const struct attributed *a, const struct trace *t, int layer, int head,
                          double *out)
{
    char name[80];
    int d = a->info.head_dim, n_q = d * a->info.n_head;
    const double *z = trace_at(t, MGPT_HEADS, layer)->data + (size_t)POS * (size_t)n_q;
    snprintf(name, sizeof name, "blk.%d.attn_output.weight", layer);
    const float *w = toy_find(a->m, name)->values;
    for (int i = 0; i < a->m->spec.n_embd; i++)
        for (int e = head * d; e < (head + 1) * d; e++)
            out[i] += (double)w[i * n_q + e] * z[e];
}

/* The part of a head in logit[3] - logit[1], forwards: through the norm after the branch, the
 * final norm and the head, all scales frozen. */
static double part_of_head(const struct attributed *a, const struct trace *t, int layer, int head)
{
    char name[80], bias[80];
    size_t n = (size_t)a->m->spec.n_embd;
    double *c = toy_alloc(n, sizeof *c), *all = toy_alloc(n, sizeof *all), sum = 0;
    snprintf(name, sizeof name, "blk.%d.post_attention_norm.weight", layer);
    snprintf(bias, sizeof bias, "blk.%d.attn_output.bias", layer);
    write_of_head(a, t, layer, head, c);
    for (int h = 0; h < a->info.n_head; h++)
        write_of_head(a, t, layer, h, all);
    for (size_t i = 0; toy_find(a->m, bias) && i < n; i++)
        all[i] += (double)toy_find(a->m, bias)->values[i];
    if (toy_find(a->m, name))
        frozen_norm(a, name, all, c);
    const struct toy_tensor *keep = toy_find(a->m, "resid_lambdas");
    const struct toy_tensor *backout = toy_find(a->m, "backout_lambda");
    int middle = a->m->spec.n_layer / 2;
    double to_end = 1, to_middle = layer <= middle ? 1 : 0;
    for (int l = layer + 1; keep && l < a->m->spec.n_layer; l++) {
        to_end *= (double)keep->values[l];
        to_middle *= l <= middle ? (double)keep->values[l] : 1;
    }
    for (size_t i = 0; i < n; i++)
        c[i] *= to_end - (backout ? (double)backout->values[0] * to_middle : 0);
    const double *last = trace_at(t, MGPT_RESID_POST, a->m->spec.n_layer - 1)->data + POS * n;
    if (trace_at(t, MGPT_FINAL, -1)->data)
        frozen_norm(a, "output_norm.weight", last, c);
    const struct toy_tensor *head_w = toy_find(a->m, "output.weight");
    const float *w = (head_w ? head_w : toy_find(a->m, "token_embd.weight"))->values;
    for (size_t i = 0; i < n; i++)
        sum += ((double)w[3 * n + i] - (double)w[n + i]) * c[i];
    free(c);
    free(all);
    return sum;
}

/* Each head's part, forwards and from the oracle's values. 1e-4: the engine's z is float32. */
TEST(heads_against_the_oracle)
{
    static const size_t kinds[] = {ZOO_MICROGPT_DEEP, ZOO_LLAMA_BIASES, ZOO_LLAMA_DIALECT,
                                   ZOO_GPT2,          ZOO_GEMMA3,       ZOO_OLMO,
                                   ZOO_OLMO2,         ZOO_GPTNEOX,      ZOO_NANOCHAT_2026,
                                   ZOO_NANOCHAT_SMEAR};
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct attributed a = attribute(kinds[k], 3, 1);
        struct trace *t = oracle_run(a.m, a.tokens, N, NULL, NULL);
        for (int l = 0; l < a.m->spec.n_layer; l++)
            for (int h = 0; h < a.info.n_head; h++) {
                double want = part_of_head(&a, t, l, h);
                double got = a.dla.heads[(size_t)l * a.dla.n_head + (size_t)h];
                if (!(fabs(got - want) <= 1e-4 * (1 + fabs(want))))
                    fail_msg("%s: head %d.%d: %.9g, expected %.9g", a.m->spec.label, l, h, got,
                             want);
            }
        trace_free(t);
        attributed_free(&a);
    }
}

TEST(no_plain_sum)
{
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        if (!why_refused(i))
            continue;
        struct toy *m = toy_build(&toy_zoo[i]);
        mgpt_model *model = toy_open(m, NULL);
        mgpt_info info;
        mgpt_error err;
        struct dla d;
        assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
        assert_int_equal(dla_new(&d, &info, 0, NULL), MGPT_OK);
        assert_int_equal(dla_run(&d, model, 1, 0, 2, &err), MGPT_EARG);
        assert_non_null(strstr(err.text, why_refused(i)));
        assert_non_null(strstr(err.text, toy_zoo[i].arch));
        dla_free(&d);
        mgpt_close(model);
        toy_free(m);
    }
}
