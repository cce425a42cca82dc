/* Repl: one query of one head. /qk takes a score apart by dimensions, /v takes the head's output
 * apart by keys. Sums are in float64; the engine's own numbers are printed with them. */
#include "base/mem.h"
#include "engine/layers.h"
#include "repl/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct query {
    struct view view;
    int32_t layer, head;
    size_t d, v_dim, i, j;   /* widths of keys and of values, query, key */
    float *q, *z;            /* [d], [v_dim] */
    float *scores, *weights; /* [i + 1] */
    float *k, *v;            /* [n_pos][d], [n_pos][v_dim] */
    size_t n_gate;           /* gates of the head: one, v_dim, or none */
    float *gate;             /* [v_dim] */
};

/* ---- values ---------------------------------------------------------------------------------- */

static struct query query_of(struct repl *r, const struct repl_args *args)
{
    return (struct query){.view = view_of(r, args),
                          .layer = args->layer,
                          .head = args->head,
                          .d = (size_t)engine_head_dim(r->engine.model, args->layer),
                          .v_dim = (size_t)engine_value_dim(r->engine.model, args->layer),
                          .i = args->pos,
                          .j = args->key};
}

/* Keys and values as the engine uses them: from the cache, which may hold halves. */
static int read_cache(struct query *p, mgpt_session *s)
{
    const struct engine *e = &p->view.repl->engine;
    mgpt_error err;
    int32_t group = engine_group(e->model, p->layer);
    if (mgpt_read_kv(s, p->layer, p->head / group, 0, p->view.n_pos, p->k, p->v, &err) == MGPT_OK)
        return 1;
    repl_failed(&err);
    return 0;
}

/* How many gates a head of the layer has. */
static size_t gates_of(const struct query *p)
{
    const struct engine *e = &p->view.repl->engine;
    mgpt_tensor t;
    int has = mgpt_find_role(e->model, MGPT_HEAD_GATE, p->layer, MGPT_WEIGHT, &t, NULL) == MGPT_OK;
    return has ? (size_t)t.dims[1] / (size_t)engine_heads(e->model, p->layer) : 0;
}

/* Values become what the query's gates leave of them. */
static void gate_values(struct query *p)
{
    for (size_t i = 0; p->n_gate && i < p->view.n_pos * p->v_dim; i++)
        p->v[i] *= p->gate[p->n_gate == 1 ? 0 : i % p->v_dim];
}

static int view_head_gather(struct query *p)
{
    size_t d = p->d, dv = p->v_dim, n = p->view.n_pos, at = (size_t)p->head * d;
    if (!view_is_attention(&p->view, p->layer))
        return 0;
    p->q = view_new((n + 1) * (d + dv) + 2 * (p->i + 1) + dv, sizeof *p->q);
    if (!p->q)
        return 0;
    p->z = p->q + d;
    p->scores = p->z + dv;
    p->weights = p->scores + p->i + 1;
    p->k = p->weights + p->i + 1;
    p->v = p->k + n * d;
    p->gate = p->v + n * dv;
    p->n_gate = gates_of(p);
    struct view_want wants[] = {
        {MGPT_Q, p->layer, p->i, 1, at, d, p->q, 0},
        {MGPT_ROT_Q, p->layer, p->i, 1, at, d, p->q, 0}, /* after Q: where it exists it counts */
        {MGPT_SCORES, p->layer, p->i, 1, (size_t)p->head, 0, p->scores, 0},
        {MGPT_WEIGHTS, p->layer, p->i, 1, (size_t)p->head, 0, p->weights, 0},
        {MGPT_GATES, p->layer, p->i, 1, (size_t)p->head * p->n_gate, p->n_gate, p->gate, 0},
        {MGPT_HEADS, p->layer, p->i, 1, (size_t)p->head * dv, dv, p->z, 0},
    };
    struct view_wants all = {wants, sizeof wants / sizeof *wants};
    mgpt_session *s = repl_replay_kept(p->view.repl, view_points(&all), view_gather, &all);
    int done = s && read_cache(p, s);
    if (done)
        gate_values(p);
    mgpt_session_free(s);
    return done;
}

/* Does the query see the key? */
static int sees(const struct query *p, size_t key)
{
    return key <= p->i && p->scores[key] != -INFINITY;
}

static void view_head_token_at(const struct query *p, size_t pos, char *out)
{
    view_token_label(&p->view, pos, 10, out);
}

/* ---- /qk ------------------------------------------------------------------------------------- */

static const struct view_column dot_columns[] = {
    {"q", 10, 6}, {"k", 10, 6}, {"product", 10, 6}, {"share %", 8, 2}};

/* The score, and why it is not the scaled product: ALiBi, a cap, or a query that is rounded to 8 bits. */
static void print_score(const struct query *p, double scaled)
{
    const struct engine *e = &p->view.repl->engine;
    double score = (double)p->scores[p->j], cap = (double)e->info.attn_softcap;
    int has_alibi = strcmp(e->info.position, "alibi") == 0;
    int is_q8 = strcmp(engine_kv_type(e), "q8_0") == 0;
    const char *q8 = is_q8 ? "   (with a query of 8 bits)" : "";
    char label[40];
    snprintf(label, sizeof label, "ALiBi, %zu back", p->i - p->j);
    if (has_alibi && p->j < p->i)
        printf("%-19s %.6f%s\n", label, view_fixed(score - scaled, 6), q8);
    printf("engine's score      %.6f", score);
    if (cap > 0)
        printf("   (after the model's cap of %g)", cap);
    puts(q8);
}

static void print_scaling(const struct query *p, double sum)
{
    double scale = (double)p->view.repl->engine.info.attn_scale;
    int root = fabs(scale * sqrt((double)p->d) - 1) < 1e-6;
    printf("q . k               %.6f\n", sum);
    if (root)
        printf("/ sqrt(%zu)%*s %.6f\n", p->d, p->d < 10 ? 10 : (p->d < 100 ? 9 : 8), "",
               sum * scale);
    else
        printf("* %-17.6g %.6f   (the model's own scale)\n", scale, sum * scale);
    if (sees(p, p->j)) {
        print_score(p, sum * scale);
        printf("softmax weight      %.4f\n", (double)p->weights[p->j]);
    } else
        printf("softmax weight      ·   (query %zu does not see key %zu)\n", p->i, p->j);
}

static void print_dot(struct query *p)
{
    const float *k = p->k + p->j * p->d;
    double sum = 0, *products = view_new(p->d, sizeof *products);
    char label[32], query[HEAT_LABEL], key[HEAT_LABEL];
    uint8_t *shown = NULL;
    for (size_t e = 0; products && e < p->d; e++)
        sum += products[e] = (double)p->q[e] * (double)k[e];
    view_head_token_at(p, p->i, query);
    view_head_token_at(p, p->j, key);
    if (products && !p->view.path)
        printf("layer %d, head %d: query %zu %s, key %zu %s\n", (int)p->layer, (int)p->head, p->i,
               query, p->j, key);
    if (products)
        shown = view_strongest(&p->view, products, p->d, "dimensions");
    if (shown && view_table_open(&p->view, "dimension", dot_columns, 4)) {
        for (size_t e = 0; e < p->d; e++) {
            double share = sum != 0 ? 100 * products[e] / sum : NAN;
            snprintf(label, sizeof label, "%zu", e);
            if (shown[e])
                view_table_row(&p->view, label, dot_columns,
                               (double[]){(double)p->q[e], (double)k[e], products[e], share}, 4);
        }
        view_table_close(&p->view);
        if (!p->view.path)
            print_scaling(p, sum);
    }
    free(shown);
    free(products);
}

void view_dot(struct repl *r, struct repl_args *args)
{
    struct query p = query_of(r, args);
    if (view_head_gather(&p))
        print_dot(&p);
    free(p.q);
}

/* ---- /v -------------------------------------------------------------------------------------- */

enum { MIX_FIXED = 4 };

static double length_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t e = 0; e < n; e++)
        sum += (double)x[e] * (double)x[e];
    return sqrt(sum);
}

/* What key t brings: weight, |v|, |w v|, share of z (its part along z; shares add up to 100). */
static void mix_row(const struct query *p, size_t t, double *row)
{
    const float *v = p->v + t * p->v_dim;
    double w = (double)p->weights[t], along = 0, z2 = length_of(p->z, p->v_dim);
    for (size_t e = 0; e < p->v_dim; e++)
        along += w * (double)v[e] * (double)p->z[e];
    row[0] = w;
    row[1] = length_of(v, p->v_dim);
    row[2] = w * row[1];
    row[3] = z2 > 0 ? 100 * along / (z2 * z2) : NAN;
}

/* The largest difference between z and the sum of w v. */
static double mix_error(const struct query *p)
{
    double worst = 0;
    for (size_t e = 0; e < p->v_dim; e++) {
        double sum = 0;
        for (size_t t = 0; t <= p->i; t++)
            sum += (double)p->weights[t] * (double)p->v[t * p->v_dim + e];
        double error = fabs(sum - (double)p->z[e]);
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

static void print_vector(const char *label, const float *x, double factor, size_t n)
{
    view_print_label(label);
    for (size_t e = 0; e < n; e++)
        printf(" %9.4f", view_fixed(factor * (double)x[e], 4));
    putchar('\n');
}

/* Few dimensions: the vectors themselves. */
static void print_vectors(const struct query *p)
{
    char label[HEAT_LABEL + 32], token[HEAT_LABEL];
    puts("\nweight * value, by dimension");
    for (size_t t = 0; t <= p->i; t++) {
        view_head_token_at(p, t, token);
        snprintf(label, sizeof label, "%4zu %s", t, token);
        if (sees(p, t))
            print_vector(label, p->v + t * p->v_dim, (double)p->weights[t], p->v_dim);
    }
    print_vector("z", p->z, 1, p->v_dim);
}

static void print_mix(struct query *p, const uint8_t *shown)
{
    static const struct view_column columns[] = {
        {"weight", 9, 4}, {"|v|", 9, 4}, {"|w v|", 9, 4}, {"of z %", 9, 2}};
    _Static_assert(sizeof columns / sizeof *columns == MIX_FIXED, "a row each");
    char label[HEAT_LABEL + 32], token[HEAT_LABEL];
    double row[MIX_FIXED];
    if (!view_table_open(&p->view, "key", columns, MIX_FIXED))
        return;
    for (size_t t = 0; t <= p->i; t++) {
        mix_row(p, t, row);
        view_head_token_at(p, t, token);
        snprintf(label, sizeof label, "%4zu %s", t, token);
        if (shown[t] && (p->view.path || sees(p, t)))
            view_table_row(&p->view, label, columns, row, MIX_FIXED);
    }
    view_table_close(&p->view);
    if (p->view.path)
        return;
    printf("|z| %.4f; the sum of w v differs from z by at most %.1e%s%s\n",
           length_of(p->z, p->v_dim), mix_error(p), p->n_gate ? "; v is times the gate" : "",
           arr_len(p->view.repl->edits.list) > 0 ? " (edits are in force)" : "");
    if (p->i < SCREEN_LINES && 16 + 10 * p->v_dim <= p->view.screen.width)
        print_vectors(p);
}

void view_mix(struct repl *r, struct repl_args *args)
{
    struct query p = query_of(r, args);
    char token[HEAT_LABEL];
    double *sizes = view_head_gather(&p) ? view_new(p.i + 1, sizeof *sizes) : NULL;
    for (size_t t = 0; sizes && t <= p.i; t++)
        sizes[t] = (double)p.weights[t];
    view_head_token_at(&p, p.i, token);
    if (sizes && !p.view.path)
        printf("layer %d, head %d: what query %zu %s mixes\n", (int)p.layer, (int)p.head, p.i,
               token);
    uint8_t *shown = sizes ? view_strongest(&p.view, sizes, p.i + 1, "keys") : NULL;
    if (shown)
        print_mix(&p, shown);
    free(shown);
    free(sizes);
    free(p.q);
}
