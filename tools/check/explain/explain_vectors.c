/* Biases and gains of a stage, solved for. See explain_impl.h.
 *
 * In y = W (n g + b) + c, where n is the normalised residual, y is linear in each of the vectors g,
 * b and c. A difference that is the same at every position is c's, or W b for one b; for g (or g
 * and b) the differences at all positions are solved in least squares: the normal equations need
 * only W'W, the n of every position and W' times its differences.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "check/explain/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS_WANTED = 32, LEAST = 3, WIDEST = 4096 };

/* The share of the squared differences that a solution may leave; then it is tried, and the pass
 * decides. */
static const double small = 1e-5;

/* ---- the bias of a product ---------------------------------------------------------------------- */

/* The mean difference, 0 when it is not the same at every position. */
static int same_everywhere(const struct search_view *view, double *mean)
{
    double all = 0, left = 0;
    for (size_t i = 0; i < view->cols; i++) {
        mean[i] = 0;
        for (size_t t = 0; t < view->n; t++)
            mean[i] += view->diff[t * view->cols + i] / (double)view->n;
        for (size_t t = 0; t < view->n; t++) {
            double d = view->diff[t * view->cols + i];
            all += d * d;
            left += (d - mean[i]) * (d - mean[i]);
        }
    }
    return view->n >= LEAST && left <= small * all;
}

/* Finds the matrix product whose bias is part of a point's values. After a branch was added to the
 * residual it is the branch's last product. Returns 0 if there is none. */
static int product_of(const struct search *s, struct ref_hook hook, struct stage_product *p)
{
    if (hook.point == MGPT_RESID_MID)
        hook.point = MGPT_ATTN_OUT;
    else if (hook.point == MGPT_RESID_POST)
        hook.point = MGPT_MLP_OUT;
    return stage_product(p, s->model, hook);
}

/* What one hook says of its part of the bias. */
static int explain_vectors_add_part(struct search *s, size_t hook, struct whatif_tensor *given)
{
    struct search_view view;
    struct stage_product p;
    if (!product_of(s, answer_hook(s->a, hook), &p))
        return MGPT_OK;
    size_t n = search_positions(s, POSITIONS_WANTED);
    int status = search_look(s, hook, MGPT_N_POINTS, 0, n, NULL, &view);
    if (status != MGPT_OK)
        return status;
    double *mean = search_new(s, view.cols, sizeof *mean);
    if (!mean)
        status = MGPT_EMEM;
    for (size_t i = 0; mean && same_everywhere(&view, mean) && i < view.cols; i++)
        if (stage_product_row(&p, i) < given->n)
            given->values[stage_product_row(&p, i)] += (float)mean[i];
    view_free(&view);
    return status;
}

/* q, k and v of one tensor have one bias. */
static int add_parts(struct search *s, int layer, struct whatif_tensor *given)
{
    int status = MGPT_OK;
    for (int p = MGPT_Q; p <= MGPT_V && status == MGPT_OK; p++) {
        int64_t hook = answer_find(s->a, (mgpt_point)p, layer);
        if (hook >= 0)
            status = explain_vectors_add_part(s, (size_t)hook, given);
    }
    return status;
}

static int solve_bias(struct search *s, struct ref_hook hook)
{
    struct stage_product p;
    char name[80];
    if (!product_of(s, hook, &p))
        return MGPT_OK;
    size_t stem = strlen(p.name) - strlen(".weight");
    int head = hook.point == MGPT_LOGITS;
    text_format(name, sizeof name, "%.*s.bias", head ? 6 : (int)stem, head ? "output" : p.name);
    struct whatif_tensor *given = given_new(s, name, (size_t)p.tensor.dims[1]);
    if (!given)
        return s->err->status;
    int fused = p.role == ORACLE_W_QKV;
    int status =
        fused ? add_parts(s, hook.layer, given) : explain_vectors_add_part(s, s->target, given);
    return status == MGPT_OK ? given_propose(s, given, 1) : status;
}

/* ---- a norm ------------------------------------------------------------------------------------- */

struct norm_stage {
    char gain[80], bias[80];
    mgpt_point at;     /* the point of its output */
    int layer, direct; /* the target is the norm itself, not a product of it */
    size_t D, n;
    double *G, *P, *N; /* W'W [D][D], W' times the differences [n][D], n [n][D] */
    double squares;    /* of the differences */
};

static int has_norm(const struct whatif *w, const struct norm_stage *st)
{
    const struct oracle_layer *l = st->layer >= 0 ? &w->layers[st->layer] : NULL;
    mgpt_tensor t;
    if (st->at == MGPT_FINAL)
        return w->spec.final_norm;
    if (st->at == MGPT_ATTN_IN)
        return l->attn_norm;
    return st->at == MGPT_MLP_IN ? l->mlp_norm : oracle_tensor_find(w->model, st->gain, &t);
}

/* The norm that the target shows, by itself or through a product. 0: none that could be changed. */
static int find_norm(struct search *s, struct norm_stage *st, struct ref_hook hook)
{
    const struct whatif *w = &s->as_is;
    struct stage_product p;
    mgpt_tensor t;
    st->direct = stage_norm(hook.point) >= 0;
    if (!st->direct && !stage_product(&p, s->model, hook))
        return 0;
    st->at = st->direct ? hook.point : p.input;
    st->layer = hook.layer;
    st->D = w->spec.n_embd;
    int shared = st->at == MGPT_MLP_IN && w->layers[hook.layer].shared_norm;
    int role = shared ? MGPT_LN1 : stage_norm(st->at);
    if (role < 0)
        return 0;
    stage_tensor(s->model, st->layer, role, ".weight", st->gain, &t);
    stage_tensor(s->model, st->layer, role, ".bias", st->bias, &t);
    int64_t recorded = answer_find(s->a, st->at, hook.layer);
    int fed = !st->direct && s->feed && recorded >= 0 && !s->l->hooks[recorded].elsewhere;
    int capped = hook.point == MGPT_LOGITS && w->spec.logit_softcap != 0;
    return has_norm(w, st) && !fed && !capped && st->D <= WIDEST;
}

/* The normalised residual: what the norm gives with gains of one and no bias. */
static int look_normalised(struct search *s, struct norm_stage *st)
{
    struct whatif_tensor *ones = given_new(s, st->gain, st->D);
    struct whatif_tensor *zeros = given_new(s, st->bias, st->D);
    struct search_view view;
    if (!ones || !zeros)
        return s->err->status;
    for (size_t i = 0; i < st->D; i++)
        ones->values[i] = 1, zeros->values[i] = 0;
    ones->next = zeros;
    struct whatif_edit plain = given_edit(ones);
    int status = search_look(s, s->target, st->at, st->direct ? 0 : st->D, st->n, &plain, &view);
    if (status != MGPT_OK)
        return status;
    memcpy(st->N, st->direct ? view.ours : view.in, st->n * st->D * sizeof *st->N);
    view_free(&view);
    return MGPT_OK;
}

/* Some rows of the product at one hook: at most about twice as many as there are unknowns. */
static int add_product(struct search *s, struct norm_stage *st, size_t hook)
{
    struct search_view view;
    struct stage_product p;
    size_t D = st->D;
    if (!stage_product(&p, s->model, answer_hook(s->a, hook)) || p.n_in != D)
        return MGPT_OK;
    float *row = search_new(s, D, sizeof *row);
    int status = row ? search_look(s, hook, MGPT_N_POINTS, 0, st->n, NULL, &view) : MGPT_EMEM;
    if (status != MGPT_OK)
        return status;
    size_t step = view.cols / (2 * D) + 1;
    for (size_t r = 0; r < view.cols && status == MGPT_OK; r += step) {
        uint64_t first = (uint64_t)stage_product_row(&p, r) * D;
        status = mgpt_read_tensor(s->model, p.name, first, D, row, s->err);
        for (size_t i = 0; i < D && status == MGPT_OK; i++)
            for (size_t j = 0; j <= i; j++)
                st->G[i * D + j] += (double)row[i] * (double)row[j];
        for (size_t t = 0; t < st->n && status == MGPT_OK; t++) {
            double d = view.diff[t * view.cols + r];
            st->squares += d * d;
            for (size_t i = 0; i < D; i++)
                st->P[t * D + i] += (double)row[i] * d;
        }
    }
    view_free(&view);
    return status;
}

/* The norm itself is the target: W is one. */
static int add_norm(struct search *s, struct norm_stage *st)
{
    struct search_view view;
    int status = search_look(s, s->target, MGPT_N_POINTS, 0, st->n, NULL, &view);
    for (size_t i = 0; i < st->D && status == MGPT_OK; i++)
        st->G[i * st->D + i] = 1;
    for (size_t i = 0; i < st->n * st->D && status == MGPT_OK; i++) {
        st->P[i] = view.diff[i];
        st->squares += view.diff[i] * view.diff[i];
    }
    if (status == MGPT_OK)
        view_free(&view);
    return status;
}

static int add_products(struct search *s, struct norm_stage *st)
{
    int status = MGPT_OK;
    if (st->direct)
        return add_norm(s, st);
    for (int point = 0; point < MGPT_N_POINTS && status == MGPT_OK; point++) {
        struct stage_product p;
        int64_t hook = answer_find(s->a, (mgpt_point)point, st->layer);
        struct ref_hook at = {.point = (mgpt_point)point, .layer = st->layer};
        if (hook >= 0 && stage_product(&p, s->model, at) && p.input == st->at)
            status = add_product(s, st, (size_t)hook);
    }
    for (size_t i = 0; i < st->D; i++)
        for (size_t j = i + 1; j < st->D; j++)
            st->G[i * st->D + j] = st->G[j * st->D + i];
    return status;
}

/* ---- its normal equations ----------------------------------------------------------------------- */

/* Which vectors are unknown. The unknown values of the gain come first, then those of the bias. */
struct unknown {
    const struct norm_stage *st;
    int gain, bias;
    size_t n;
    double *matrix, *x, *rest, *first_rest, *change;
};

/* What unknown vector `part` is multiplied with at position t, column i. */
static double feature(const struct unknown *u, size_t part, size_t t, size_t i)
{
    return u->gain && part == 0 ? u->st->N[t * u->st->D + i] : 1;
}

static void fill_matrix(struct unknown *u)
{
    const struct norm_stage *st = u->st;
    size_t D = st->D;
    for (size_t r = 0; r < u->n; r++)
        for (size_t c = 0; c <= r; c++) {
            double sum = 0;
            for (size_t t = 0; t < st->n; t++)
                sum += feature(u, r / D, t, r % D) * feature(u, c / D, t, c % D);
            u->matrix[r * u->n + c] = u->matrix[c * u->n + r] = sum * st->G[r % D * D + c % D];
        }
}

/* The right-hand side that is left with x. */
static void norm_rest(void *user, const double *x, double *rest)
{
    struct unknown *u = user;
    const struct norm_stage *st = u->st;
    size_t D = st->D;
    memset(rest, 0, u->n * sizeof *rest);
    for (size_t t = 0; t < st->n; t++) {
        for (size_t i = 0; i < D; i++) {
            u->change[i] = 0;
            for (size_t r = i; r < u->n; r += D)
                u->change[i] += feature(u, r / D, t, i) * x[r];
        }
        for (size_t i = 0; i < D; i++) {
            double left = st->P[t * D + i];
            for (size_t j = 0; j < D; j++)
                left -= st->G[i * D + j] * u->change[j];
            for (size_t r = i; r < u->n; r += D)
                rest[r] += feature(u, r / D, t, i) * left;
        }
    }
}

/* What the solution leaves of the squares of the differences: |d|^2 - x'b - x'(b - Ax), of
 * |d|^2. */
static double left_of(const struct unknown *u)
{
    double all = u->st->squares;
    double explained = solve_dot(u->x, u->first_rest, u->n) + solve_dot(u->x, u->rest, u->n);
    return (all - explained) / all;
}

static int try_unknown(struct search *s, const struct norm_stage *st, int gain, int bias)
{
    struct unknown u = {.st = st, .gain = gain, .bias = bias, .n = st->D * (size_t)(gain + bias)};
    struct whatif_tensor *given[2] = {NULL, NULL};
    u.matrix = search_new(s, u.n * u.n, sizeof *u.matrix);
    u.x = search_new(s, 3 * u.n + st->D, sizeof *u.x);
    if (!u.matrix || !u.x)
        return MGPT_EMEM;
    u.rest = u.x + u.n, u.first_rest = u.rest + u.n, u.change = u.first_rest + u.n;
    fill_matrix(&u);
    solve_factor(u.matrix, u.n);
    norm_rest(&u, u.x, u.first_rest);
    solve_refined(u.matrix, u.n, u.x, u.rest, norm_rest, &u);
    if (!(left_of(&u) <= small))
        return MGPT_OK;
    for (int part = 0; part < gain + bias; part++) {
        given[part] = given_new(s, gain && part == 0 ? st->gain : st->bias, st->D);
        if (!given[part])
            return s->err->status;
        for (size_t i = 0; i < st->D; i++)
            given[part]->values[i] += (float)u.x[(size_t)part * st->D + i];
    }
    given[0]->next = given[1];
    return given_propose(s, given[0], 1);
}

static int solve_norm(struct search *s, struct ref_hook hook)
{
    struct norm_stage st = {0};
    static const int kinds[3][2] = {{0, 1}, {1, 0}, {1, 1}}; /* bias, gain, both */
    if (!find_norm(s, &st, hook))
        return MGPT_OK;
    st.n = search_positions(s, POSITIONS_WANTED);
    st.G = search_new(s, st.D * st.D, sizeof *st.G);
    st.P = search_new(s, st.n * st.D, sizeof *st.P);
    st.N = search_new(s, st.n * st.D, sizeof *st.N);
    if (!st.G || !st.P || !st.N)
        return MGPT_EMEM;
    int status = look_normalised(s, &st);
    if (status == MGPT_OK)
        status = add_products(s, &st);
    for (int i = 0; i < 3 && status == MGPT_OK && !s->e->proved && st.n >= LEAST; i++)
        if (isfinite(st.squares) && st.squares > 0 && (i < 2 || st.D <= WIDEST / 4))
            status = try_unknown(s, &st, kinds[i][0], kinds[i][1]);
    return status;
}

int solve_vectors(struct search *s)
{
    struct ref_hook hook = answer_hook(s->a, s->target);
    if (answer_is_attention(hook.point))
        return MGPT_OK;
    int status = solve_norm(s, hook);
    if (status == MGPT_OK) /* also when a norm's bias would do: the logits decide */
        status = solve_bias(s, hook);
    return status;
}
