/* Circuits. See circuit.h. */
#include "engine/circuit.h"

#include "base/error.h"
#include "base/mem.h"
#include "engine/layers.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 }; /* tokens that run together */

/* ---- what the model makes of a token alone --------------------------------------------------- */

/* A factor's rows: the columns from `col` on of a layer's value at one of these points. */
struct circuit_side {
    uint64_t points;
    size_t col;
    float *to; /* [n][stride] */
};

struct circuit_run {
    struct circuit *c;
    const mgpt_model *model;
    mgpt_info info;
    enum circuit_kind kind;
    int32_t layer, index;
    struct circuit_side sides[2];
    size_t n_sides;
    mgpt_point last;         /* nothing is wanted after it */
    size_t n, first, n_here; /* tokens or positions in all; those of this feed */
    float *x;                /* [n_here][E] the residuals that they begin with */
    int seen, done;
    mgpt_error *err;
};

static int go_on(const struct circuit_run *r)
{
    return r->c->stopped && r->c->stopped() ? err_set(r->err, MGPT_ESTOP, MGPT_NO_OFFSET, "stopped")
                                            : MGPT_OK;
}

static int no_such_part(const struct circuit_run *r)
{
    return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET, "layer %d has no such part", (int)r->layer);
}

static void copy_rows(const mgpt_value *v, float *x, int to_model)
{
    size_t n = (size_t)v->cols;
    for (size_t i = 0; i < (size_t)v->rows; i++) {
        float *row = v->data + i * v->stride, *kept = x + ((size_t)v->pos + i) * n;
        memcpy(to_model ? row : kept, to_model ? kept : row, n * sizeof *row);
    }
}

static void clear_rows(const mgpt_value *v)
{
    for (size_t i = 0; i < (size_t)v->rows; i++)
        memset(v->data + i * v->stride, 0, (size_t)v->cols * sizeof *v->data);
}

static void take_side(struct circuit_run *r, const struct circuit_side *side, const mgpt_value *v)
{
    for (size_t i = 0; i < (size_t)v->rows; i++)
        memcpy(side->to + (r->first + (size_t)v->pos + i) * r->c->stride,
               v->data + i * v->stride + side->col, r->c->width * sizeof *side->to);
    r->seen = 1;
}

/* Takes the place or the token away, keeps the residual, gives it to the layer, takes what is wanted. */
static int circuit_tap(const mgpt_value *v, void *user)
{
    struct circuit_run *r = user;
    int here = v->layer == r->layer, first = v->point == MGPT_RESID_PRE && v->layer == 0;
    if (v->point == (r->kind == CIRCUIT_PLACES ? MGPT_EMBD : MGPT_POS_EMBD))
        clear_rows(v);
    if (v->point == MGPT_EMBD || v->point == MGPT_EMBD_NORM || first)
        copy_rows(v, r->x, 0);
    else if (here && (v->point == MGPT_RESID_PRE || v->point == MGPT_RESID_MID))
        copy_rows(v, r->x, 1);
    for (size_t i = 0; i < r->n_sides; i++)
        if (here && MGPT_POINT_BIT(v->point) & r->sides[i].points &&
            r->sides[i].col + r->c->width <= (size_t)v->cols)
            take_side(r, &r->sides[i], v);
    r->done = here && v->point == r->last && (size_t)v->pos + (size_t)v->rows == r->n_here;
    return r->done;
}

/* FINAL: otherwise the last layer goes on with the last row alone. */
static uint64_t points_of(const struct circuit_run *r)
{
    uint64_t points = MGPT_POINT_BIT(MGPT_EMBD) | MGPT_POINT_BIT(MGPT_POS_EMBD) |
                      MGPT_POINT_BIT(MGPT_EMBD_NORM) | MGPT_POINT_BIT(MGPT_RESID_PRE) |
                      MGPT_POINT_BIT(MGPT_RESID_MID) | MGPT_POINT_BIT(r->last) |
                      MGPT_POINT_BIT(MGPT_FINAL);
    for (size_t i = 0; i < r->n_sides; i++)
        points |= r->sides[i].points;
    return points;
}

static int32_t token_of_row(const struct circuit *c, size_t i)
{
    return c->ids ? c->ids[i] : (int32_t)i;
}

static int feed_tokens(struct circuit_run *r, mgpt_session *s, int32_t *tokens)
{
    for (size_t i = 0; i < r->n_here; i++)
        tokens[i] = r->kind == CIRCUIT_PLACES ? 0 : token_of_row(r->c, r->first + i);
    r->done = 0;
    int status = mgpt_feed(s, tokens, r->n_here, r->err);
    if (status == MGPT_OK || r->done)
        status = mgpt_rewind(s, 0, r->err);
    for (size_t i = 0; i < r->n_here && status == MGPT_OK && r->kind == CIRCUIT_DIRECT; i++)
        memcpy(r->c->rows + (r->first + i) * r->c->stride, r->x + i * r->c->width,
               r->c->width * sizeof *r->x);
    return status;
}

/* How many tokens may run together. Where queries and keys have norms, these come with rope, which only position 0 leaves
 * as it is; a smear adds the token before. */
static size_t n_together(const struct circuit_run *r)
{
    mgpt_layer l;
    mgpt_tensor t;
    if (r->kind == CIRCUIT_PLACES)
        return r->n;
    int normed = r->kind == CIRCUIT_QK &&
                 mgpt_get_layer(r->model, (size_t)r->layer, &l, NULL) == MGPT_OK &&
                 (l.q_norm != MGPT_NO_NORM || l.k_norm != MGPT_NO_NORM);
    if (normed || mgpt_find_role(r->model, MGPT_SMEAR_GATE, 0, MGPT_WEIGHT, &t, NULL) == MGPT_OK)
        return 1;
    return (size_t)r->info.n_ctx < CHUNK ? (size_t)r->info.n_ctx : CHUNK;
}

static int run_tokens(struct circuit_run *r)
{
    size_t chunk = n_together(r), n_bytes = chunk * (size_t)r->info.n_embd * sizeof *r->x;
    const mgpt_session_params params = {.n_ctx = (int32_t)chunk};
    mgpt_session *s = mgpt_session_new(r->model, &params, r->err);
    int32_t *tokens = mem_new(chunk, sizeof *tokens);
    r->x = mem_new(n_bytes, 1);
    int status = !s                 ? r->err->status
                 : !tokens || !r->x ? err_memory(r->err, "a circuit", n_bytes)
                                    : MGPT_OK;
    if (status == MGPT_OK)
        status = mgpt_tap(s, points_of(r), circuit_tap, r, r->err);
    for (; r->first < r->n && status == MGPT_OK; r->first += chunk) {
        r->n_here = r->n - r->first < chunk ? r->n - r->first : chunk;
        status = feed_tokens(r, s, tokens);
        if (status == MGPT_OK)
            status = go_on(r);
    }
    mgpt_session_free(s);
    free(tokens);
    free(r->x);
    return status == MGPT_OK && r->n_sides > 0 && !r->seen ? no_such_part(r) : status;
}

/* ---- the way to the logits ------------------------------------------------------------------- */

/* The gain of a norm, 1 everywhere when it has none. */
static int read_gain(const struct circuit_run *r, mgpt_role norm, float *gain)
{
    mgpt_tensor t;
    size_t E = (size_t)r->info.n_embd;
    if (mgpt_find_role(r->model, norm, r->layer, MGPT_WEIGHT, &t, NULL) == MGPT_OK)
        return mgpt_read_tensor(r->model, t.name, t.first, E, gain, r->err);
    for (size_t e = 0; e < E; e++)
        gain[e] = 1;
    return MGPT_OK;
}

/* way[E][width]: the columns of the head or neuron in a matrix that writes to the residual, times the gain of the norm after it. */
static int read_way(const struct circuit_run *r, mgpt_role matrix, mgpt_role norm, float *way)
{
    mgpt_tensor t;
    size_t E = (size_t)r->info.n_embd, width = r->c->width, col = (size_t)r->index * width;
    int status = mgpt_find_role(r->model, matrix, r->layer, MGPT_WEIGHT, &t, r->err);
    if (status != MGPT_OK)
        return status;
    size_t n_in = (size_t)t.dims[0];
    if (col + width > n_in) /* a shared expert is narrower than n_ff */
        return no_such_part(r);
    float *row = mem_new(n_in + E, sizeof *row), *gain = row + n_in;
    status = row ? read_gain(r, norm, gain) : err_memory(r->err, "a circuit", n_in * sizeof *row);
    for (size_t e = 0; e < E && status == MGPT_OK; e++) {
        status = mgpt_read_tensor(r->model, t.name, t.first + e * n_in, n_in, row, r->err);
        for (size_t i = 0; i < width; i++)
            way[e * width + i] = row[col + i] * gain[e] * r->info.residual_scale;
    }
    free(row);
    return status;
}

/* A row of the head as the residual sees it: with the gain of the last norm and, of LayerNorm, its mean. */
static int read_head(const struct circuit_run *r, const mgpt_tensor *head, size_t token,
                     const float *gain, float *u)
{
    size_t E = (size_t)r->info.n_embd;
    double mean = 0;
    int status = mgpt_read_tensor(r->model, head->name, token * E, E, u, r->err);
    for (size_t e = 0; e < E; e++) {
        u[e] *= gain[e] * r->info.logit_scale;
        mean += (double)u[e] / (double)E;
    }
    for (size_t e = 0; e < E && r->info.ln_final == MGPT_LAYERNORM; e++)
        u[e] -= (float)mean;
    return status;
}

/* The columns: rows of the head, along `way` if there is one. */
static int read_logits_of(const struct circuit_run *r, const float *way)
{
    struct circuit *c = r->c;
    mgpt_tensor head;
    size_t E = (size_t)r->info.n_embd;
    if (mgpt_find_role(r->model, MGPT_W_HEAD, 0, MGPT_WEIGHT, &head, NULL) == MGPT_OK)
        return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET,
                       "logits: a matrix and an activation are before this model's head (%s), "
                       "which is not supported",
                       r->info.arch);
    float *u = mem_new(2 * E, sizeof *u), *gain = u + E;
    int status =
        u ? read_gain(r, MGPT_LN_FINAL, gain) : err_memory(r->err, "a circuit", E * sizeof *u);
    if (status == MGPT_OK)
        status = mgpt_find_role(r->model, MGPT_W_U, 0, MGPT_WEIGHT, &head, r->err);
    for (size_t j = 0; j < c->n_cols && status == MGPT_OK; j++) {
        float *to = c->cols + j * c->stride;
        status = read_head(r, &head, (size_t)token_of_row(c, j), gain, u);
        for (size_t e = 0; e < E; e++)
            for (size_t i = 0; way && i < c->width; i++)
                to[i] += u[e] * way[e * c->width + i];
        if (!way)
            memcpy(to, u, E * sizeof *u);
        if (status == MGPT_OK && j % CHUNK == 0)
            status = go_on(r);
    }
    free(u);
    return status;
}

/* ---- the kinds ------------------------------------------------------------------------------- */

static int check_part(const struct circuit_run *r)
{
    int neuron = r->kind == CIRCUIT_FIRES || r->kind == CIRCUIT_PROMOTES;
    mgpt_layer l = engine_layer(r->model, r->layer);
    int32_t n = neuron ? l.n_ff : l.n_head;
    if (r->kind == CIRCUIT_PLACES && strcmp(r->info.position, "learned") != 0)
        return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET,
                       "places: this model has no table of positions (%s)", r->info.position);
    for (size_t i = 0; r->c->ids && i < r->c->n_ids; i++)
        if (r->c->ids[i] < 0 || r->c->ids[i] >= r->info.n_tokens)
            return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET, "no token %d", (int)r->c->ids[i]);
    if (r->kind == CIRCUIT_DIRECT)
        return MGPT_OK;
    if (r->layer < 0 || r->layer >= r->info.n_layer)
        return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET, "layer %d: the model has %d",
                       (int)r->layer, (int)r->info.n_layer);
    if (r->index < 0 || r->index >= n)
        return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET, "%s %d: the layer has %d",
                       neuron ? "neuron" : "head", (int)r->index, (int)n);
    if (!neuron && l.n_conv > 0)
        return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET,
                       "layer %d is a short convolution and has no heads", (int)r->layer);
    if (!neuron && l.kv_from != r->layer)
        return err_set(r->err, MGPT_EARG, MGPT_NO_OFFSET, "layer %d has the keys of layer %d",
                       (int)r->layer, (int)l.kv_from);
    return MGPT_OK;
}

static int new_factors(const struct circuit_run *r)
{
    struct circuit *c = r->c;
    size_t V = c->ids ? c->n_ids : (size_t)r->info.n_tokens;
    c->n_rows = c->n_cols = r->kind == CIRCUIT_PLACES ? (size_t)r->info.n_ctx : V;
    c->width = (size_t)(r->kind == CIRCUIT_DIRECT ? r->info.n_embd
                        : r->kind == CIRCUIT_OV   ? engine_value_dim(r->model, r->layer)
                                                  : engine_head_dim(r->model, r->layer));
    if (r->kind == CIRCUIT_FIRES)
        c->n_cols = c->width = 1;
    else if (r->kind == CIRCUIT_PROMOTES)
        c->n_rows = c->width = 1;
    c->stride = (c->width + CIRCUIT_LANES - 1) / CIRCUIT_LANES * CIRCUIT_LANES;
    c->rows = mem_new(c->n_rows, c->stride * sizeof *c->rows);
    c->cols = mem_new(c->n_cols, c->stride * sizeof *c->cols);
    return c->rows && c->cols ? MGPT_OK
                              : err_memory(r->err, "a circuit",
                                           (c->n_rows + c->n_cols) * c->stride * sizeof *c->rows);
}

/* Which values of a token's pass the circuit is made of. */
static void choose_sides(struct circuit_run *r)
{
    struct circuit *c = r->c;
    size_t query = (size_t)r->index * c->width,
           shared = (size_t)(r->index / engine_group(r->model, r->layer)) * c->width;
    int turned = r->kind == CIRCUIT_PLACES || n_together(r) == 1;
    uint64_t q = MGPT_POINT_BIT(MGPT_Q), k = MGPT_POINT_BIT(MGPT_K);
    r->n_sides = 1;
    if (r->kind == CIRCUIT_FIRES) {
        r->sides[0] =
            (struct circuit_side){MGPT_POINT_BIT(MGPT_MLP_POST), (size_t)r->index, c->rows};
        r->last = MGPT_MLP_POST;
    } else if (r->kind == CIRCUIT_OV) {
        r->sides[0] = (struct circuit_side){MGPT_POINT_BIT(MGPT_V), shared, c->rows};
        r->last = MGPT_V;
    } else if (r->kind == CIRCUIT_DIRECT) {
        r->n_sides = 0;
        r->last = MGPT_RESID_PRE;
    } else {
        r->sides[0] =
            (struct circuit_side){turned ? q | MGPT_POINT_BIT(MGPT_ROT_Q) : q, query, c->rows};
        r->sides[1] =
            (struct circuit_side){turned ? k | MGPT_POINT_BIT(MGPT_ROT_K) : k, shared, c->cols};
        r->n_sides = 2;
        r->last = turned ? MGPT_HEADS : MGPT_V;
    }
}

/* The columns: logits along the head or neuron. */
static int read_logits_along(const struct circuit_run *r, mgpt_role matrix, mgpt_role norm)
{
    size_t n_bytes = (size_t)r->info.n_embd * r->c->width * sizeof(float);
    float *way = mem_new(n_bytes, 1);
    int status = way ? read_way(r, matrix, norm, way) : err_memory(r->err, "a circuit", n_bytes);
    if (status == MGPT_OK)
        status = read_logits_of(r, way);
    free(way);
    return status;
}

static int multiply_out(const struct circuit_run *r)
{
    struct circuit *c = r->c;
    switch (r->kind) {
    case CIRCUIT_QK:
    case CIRCUIT_PLACES:
        for (size_t i = 0; i < c->n_rows * c->stride; i++)
            c->rows[i] *= r->info.attn_scale;
        return MGPT_OK;
    case CIRCUIT_FIRES:
        c->cols[0] = 1;
        return MGPT_OK;
    case CIRCUIT_OV:
        return read_logits_along(r, MGPT_W_O, MGPT_LN1_POST);
    case CIRCUIT_PROMOTES:
        c->rows[0] = 1;
        return read_logits_along(r, MGPT_W_DOWN, MGPT_LN2_POST);
    case CIRCUIT_DIRECT:
        break;
    }
    return read_logits_of(r, NULL);
}

int circuit_read(struct circuit *c, const mgpt_model *model, enum circuit_kind kind, int32_t layer,
                 int32_t index, mgpt_error *err)
{
    struct circuit_run r = {
        .c = c, .model = model, .kind = kind, .layer = layer, .index = index, .err = err};
    *c = (struct circuit){.stopped = c->stopped, .ids = c->ids, .n_ids = c->n_ids};
    if (kind == CIRCUIT_DIRECT)
        r.layer = r.index = 0;
    int status = mgpt_get_info(model, &r.info, err);
    if (status == MGPT_OK)
        status = check_part(&r);
    if (status == MGPT_OK)
        status = new_factors(&r);
    if (status != MGPT_OK)
        return status;
    choose_sides(&r);
    r.n = kind == CIRCUIT_PROMOTES ? 0 : c->n_rows;
    if (r.n > 0)
        status = run_tokens(&r);
    return status == MGPT_OK ? multiply_out(&r) : status;
}

void circuit_free(struct circuit *c)
{
    free(c->rows);
    free(c->cols);
}
