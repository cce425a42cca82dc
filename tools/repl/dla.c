/* Direct logit attribution. See dla.h.
 *
 * Everything is pulled back: a direction in the space of logits (W_U[token] - W_U[other]) becomes,
 * norm by norm, a direction in the residual stream, and a component's part is its dot product
 * with it. */
#include "repl/dla.h"

#include "base/error.h"
#include "base/mem.h"
#include "engine/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct dla_work {
    struct dla *d;
    const mgpt_model *model;
    mgpt_info info;
    mgpt_error *err;
    double *direction;    /* [n_embd] of a residual that nothing comes after */
    double *pulled;       /* [n_embd] the same before some norm */
    double *sums;         /* [n_embd] of the heads and the bias of a layer */
    double *parts;        /* [n_embd][n_head] what each head adds to each number of the residual */
    double *keep, *blend; /* [n_layer] */
    double backout; /* factor of x after layer n_layer / 2, which is subtracted after the last */
    float *row, *vector, *gain; /* [widest row], [n_embd] */
};

/* ---- tensors --------------------------------------------------------------------------------- */

static int dla_find(const struct dla_work *w, mgpt_role role, size_t layer, mgpt_part part,
                    mgpt_tensor *t)
{
    return mgpt_find_role(w->model, role, (int32_t)layer, part, t, NULL) == MGPT_OK;
}

/* Reads n numbers of a role's tensor; `absent` everywhere when there is none. */
static int read_vector(const struct dla_work *w, mgpt_role role, size_t layer, mgpt_part part,
                       size_t n, float absent, float *out)
{
    mgpt_tensor t;
    if (dla_find(w, role, layer, part, &t))
        return mgpt_read_tensor(w->model, t.name, t.first, n, out, w->err);
    for (size_t i = 0; i < n; i++)
        out[i] = absent;
    return MGPT_OK;
}

/* The gain and bias of a norm, into w->gain and w->vector. */
static int read_norm(const struct dla_work *w, mgpt_role role, size_t layer)
{
    int status = read_vector(w, role, layer, MGPT_WEIGHT, w->d->n_embd, 1, w->gain);
    if (status == MGPT_OK)
        status = read_vector(w, role, layer, MGPT_BIAS, w->d->n_embd, 0, w->vector);
    return status;
}

static double dot(const double *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * (double)b[i];
    return sum;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* The direction before a norm of x whose scale is frozen: to' such that to . norm(x) = to' . x +
 * bias. `to` and `from` may be the same. */
static void pull_norm(const struct dla_work *w, const double *x, const float *gain,
                      const double *from, double *to)
{
    size_t n = w->d->n_embd;
    int layer_norm = strcmp(w->info.norm, "layernorm") == 0;
    double mean = 0, squares = 0, mean_to = 0;
    for (size_t i = 0; i < n && layer_norm; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean) / (double)n;
    double scale = 1 / sqrt(squares + (double)w->info.norm_eps);
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i] * (gain ? (double)gain[i] : 1) * scale;
        mean_to += to[i] / (double)n;
    }
    for (size_t i = 0; i < n && layer_norm; i++)
        to[i] -= mean_to;
}

/* ---- the head -------------------------------------------------------------------------------- */

static int add_head_row(const struct dla_work *w, const mgpt_tensor *head, size_t token,
                        double factor)
{
    size_t n = w->d->n_embd;
    int status = mgpt_read_tensor(w->model, head->name, token * n, n, w->row, w->err);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        w->direction[i] += factor * (double)w->row[i];
    return status;
}

static int add_head_bias(const struct dla_work *w, const mgpt_tensor *bias, size_t token,
                         double factor)
{
    float value;
    int status = mgpt_read_tensor(w->model, bias->name, token, 1, &value, w->err);
    if (status == MGPT_OK)
        w->d->biases += factor * (double)value;
    return status;
}

/* w->direction: from the normed residual to the difference of logits. */
static int head_direction(const struct dla_work *w, int32_t token, int32_t other, size_t n_choices)
{
    mgpt_tensor head, bias;
    int has_bias = dla_find(w, MGPT_W_U, 0, MGPT_BIAS, &bias);
    int status = mgpt_find_role(w->model, MGPT_W_U, 0, MGPT_WEIGHT, &head, w->err);
    size_t first = other == DLA_MEAN ? 0 : (size_t)other;
    size_t n = other == DLA_MEAN ? n_choices : other != DLA_NONE;
    for (size_t i = 0; i <= n && status == MGPT_OK; i++) { /* the token last */
        size_t row = i < n ? first + i : (size_t)token;
        double factor = (i < n ? -1 / (double)n : 1) * (double)w->info.logit_scale;
        status = add_head_row(w, &head, row, factor);
        if (status == MGPT_OK && has_bias)
            status = add_head_bias(w, &bias, row, factor);
    }
    return status;
}

/* Goes before the final norm; the total is then direction . final + biases. */
static int pull_final(const struct dla_work *w)
{
    struct dla *d = w->d;
    if (d->has_final_norm) {
        int status = read_norm(w, MGPT_LN_FINAL, 0);
        if (status != MGPT_OK)
            return status;
        d->biases += dot(w->direction, w->vector, d->n_embd);
        for (size_t i = 0; i < d->n_embd; i++)
            w->sums[i] = (double)d->final[i];
        pull_norm(w, w->sums, w->gain, w->direction, w->direction);
    }
    d->total = d->biases + dot(w->direction, d->final, d->n_embd);
    return MGPT_OK;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* What each head adds to the residual (parts), and their sum with the bias (sums). */
static int split_heads(const struct dla_work *w, size_t layer)
{
    struct dla *d = w->d;
    mgpt_tensor o;
    const mgpt_layer l = engine_layer(w->model, (int32_t)layer);
    size_t each = (size_t)l.value_dim, n_head = (size_t)engine_heads(w->model, (int32_t)layer),
           n_z = n_head * each;
    const float *z = d->z + layer * d->n_z;
    int status = mgpt_find_role(w->model, MGPT_W_O, (int32_t)layer, MGPT_WEIGHT, &o, w->err);
    if (status == MGPT_OK)
        status = read_vector(w, MGPT_W_O, layer, MGPT_BIAS, d->n_embd, 0, w->vector);
    for (size_t i = 0; i < d->n_embd && status == MGPT_OK; i++) {
        status = mgpt_read_tensor(w->model, o.name, i * n_z, n_z, w->row, w->err);
        w->sums[i] = (double)w->vector[i];
        for (size_t h = 0; h < d->n_head; h++)
            w->parts[i * d->n_head + h] = 0;
        for (size_t h = 0; h < n_head; h++) {
            double sum = 0;
            for (size_t e = h * each; e < (h + 1) * each; e++)
                sum += (double)w->row[e] * (double)z[e];
            w->parts[i * d->n_head + h] = sum;
            w->sums[i] += sum;
        }
    }
    return status;
}

/* factor: what later layers make of this layer's output (1, or products of x_scales). */
static int attribute_layer(const struct dla_work *w, size_t layer, double factor)
{
    struct dla *d = w->d;
    mgpt_layer l;
    int status = split_heads(w, layer);
    if (status == MGPT_OK)
        status = mgpt_get_layer(w->model, layer, &l, w->err);
    if (status == MGPT_OK && l.ln1_post)
        status = read_vector(w, MGPT_LN1_POST, layer, MGPT_WEIGHT, d->n_embd, 1, w->gain);
    if (status != MGPT_OK)
        return status;
    for (size_t i = 0; i < d->n_embd; i++)
        w->pulled[i] = w->direction[i] * (double)w->info.residual_scale;
    if (l.ln1_post)
        pull_norm(w, w->sums, w->gain, w->pulled, w->pulled);
    for (size_t i = 0; i < d->n_embd; i++)
        for (size_t h = 0; h < d->n_head; h++)
            d->heads[layer * d->n_head + h] += factor * w->pulled[i] * w->parts[i * d->n_head + h];
    d->biases += factor * dot(w->pulled, w->vector, d->n_embd);
    d->mlps[layer] = factor * dot(w->direction, d->mlp_out + layer * d->n_embd, d->n_embd);
    return MGPT_OK;
}

/* Without blending keep is 1, blend and backout are 0. */
static int read_blending(struct dla_work *w)
{
    size_t n = w->d->n_layer;
    float *v = mem_new(n, sizeof *v);
    if (!v)
        return err_memory(w->err, "blending", n * sizeof *v);
    int status = read_vector(w, MGPT_X_SCALES, 0, MGPT_WEIGHT, n, 1, v);
    for (size_t i = 0; i < n; i++)
        w->keep[i] = (double)v[i];
    if (status == MGPT_OK)
        status = read_vector(w, MGPT_X0_SCALES, 0, MGPT_WEIGHT, n, 0, v);
    for (size_t i = 0; i < n; i++)
        w->blend[i] = (double)v[i];
    if (status == MGPT_OK && n > 0)
        status = read_vector(w, MGPT_BACKOUT, 0, MGPT_WEIGHT, 1, 0, v);
    w->backout = status == MGPT_OK && n > 0 ? (double)v[0] : 0;
    free(v);
    return status;
}

/* middle: what later layers make of this layer's output in x after layer n_layer / 2. */
static int attribute_layers(struct dla_work *w)
{
    double factor = 1, middle = 0;
    int status = read_blending(w);
    for (size_t i = w->d->n_layer; i > 0 && status == MGPT_OK; i--) {
        middle = i - 1 == w->d->n_layer / 2 ? 1 : middle;
        status = attribute_layer(w, i - 1, factor - w->backout * middle);
        factor *= w->keep[i - 1];
        middle *= w->keep[i - 1];
    }
    return status;
}

/* ---- the embedding --------------------------------------------------------------------------- */

static int attribute_embedding(const struct dla_work *w)
{
    struct dla *d = w->d;
    double factor = 1, middle = 0;
    mgpt_tensor smear;
    int status = read_norm(w, MGPT_LN_EMBD, 0);
    if (status != MGPT_OK)
        return status;
    for (size_t i = 0; i < d->n_layer; i++) {
        factor = w->keep[i] * factor + w->blend[i];
        middle = i == d->n_layer / 2 ? factor : middle;
    }
    factor -= w->backout * middle;
    memcpy(w->pulled, w->direction, d->n_embd * sizeof *w->pulled);
    for (size_t i = 0; i < d->n_embd; i++)
        w->sums[i] = (double)d->embedding[i] + (d->has_position ? (double)d->position[i] : 0);
    if (d->has_embedding_norm)
        pull_norm(w, w->sums, w->gain, w->direction, w->pulled);
    d->biases += factor * dot(w->direction, w->vector, d->n_embd);
    d->token_part = factor * dot(w->pulled, d->embedding, d->n_embd);
    if (d->has_position)
        d->position_part = factor * dot(w->pulled, d->position, d->n_embd);
    d->has_smear = dla_find(w, MGPT_SMEAR_GATE, 0, MGPT_WEIGHT, &smear);
    if (d->has_smear)
        d->position_part = factor * dot(w->direction, d->x0, d->n_embd) - d->token_part;
    return MGPT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int dla_new(struct dla *d, const mgpt_info *info, size_t pos, mgpt_error *err)
{
    size_t E = (size_t)info->n_embd, L = (size_t)info->n_layer;
    *d = (struct dla){.n_layer = L,
                      .n_embd = E,
                      .n_head = (size_t)info->n_head,
                      .pos = pos,
                      .has_final_norm = info->ln_final != MGPT_NO_NORM};
    d->n_z = d->n_head * (size_t)info->value_dim;
    size_t n = 4 * E + L * (d->n_z + E);
    d->values = mem_new(n, sizeof(float));
    d->heads = mem_new(L * d->n_head, sizeof *d->heads);
    d->mlps = mem_new(L, sizeof *d->mlps);
    if (!d->values || !d->heads || !d->mlps)
        return err_memory(err, "an attribution", n * sizeof(float));
    d->embedding = d->values;
    d->position = d->embedding + E;
    d->x0 = d->position + E;
    d->final = d->x0 + E;
    d->z = d->final + E;
    d->mlp_out = d->z + L * d->n_z;
    return MGPT_OK;
}

void dla_free(struct dla *d)
{
    free(d->values);
    free(d->heads);
    free(d->mlps);
}

uint64_t dla_points(void)
{
    return MGPT_POINT_BIT(MGPT_EMBD) | MGPT_POINT_BIT(MGPT_POS_EMBD) |
           MGPT_POINT_BIT(MGPT_EMBD_NORM) | MGPT_POINT_BIT(MGPT_HEADS) |
           MGPT_POINT_BIT(MGPT_MLP_OUT) | MGPT_POINT_BIT(MGPT_RESID_POST);
}

/* Each write to the residual, outside the layers or at their ends, may be the last: final keeps
 * it. */
static void dla_keep(struct dla *d, const mgpt_value *value, const float *row)
{
    size_t n = d->n_embd, layer = value->layer < 0 ? 0 : (size_t)value->layer;
    float *to = d->final;
    if (value->point == MGPT_HEADS) {
        to = d->z + layer * d->n_z;
        n = (size_t)value->cols; /* heads that the layer has */
    } else if (value->point == MGPT_MLP_OUT) {
        to = d->mlp_out + layer * n;
    } else if (value->point == MGPT_EMBD) {
        memcpy(d->final, row, n * sizeof *row);
        to = d->embedding;
    } else if (value->point == MGPT_EMBD_NORM) {
        memcpy(d->x0, row, n * sizeof *row);
    } else if (value->point == MGPT_POS_EMBD) {
        for (size_t i = 0; i < n; i++)
            d->final[i] += row[i];
        to = d->position;
    }
    memcpy(to, row, n * sizeof *row);
    d->has_position |= value->point == MGPT_POS_EMBD;
    d->has_embedding_norm |= value->point == MGPT_EMBD_NORM;
}

int dla_tap(const mgpt_value *value, void *user)
{
    struct dla *d = user;
    size_t first = (size_t)value->pos, rows = (size_t)value->rows;
    if (MGPT_POINT_BIT(value->point) & dla_points() && d->pos >= first && d->pos < first + rows)
        dla_keep(d, value, value->data + (d->pos - first) * value->stride);
    return 0;
}

static int run_attribution(struct dla_work *w, int32_t token, int32_t other, size_t n_choices)
{
    struct dla *d = w->d;
    int status = head_direction(w, token, other, n_choices);
    if (status == MGPT_OK)
        status = pull_final(w);
    if (status == MGPT_OK)
        status = attribute_layers(w);
    if (status == MGPT_OK)
        status = attribute_embedding(w);
    if (status != MGPT_OK)
        return status;
    d->rest = d->total - d->token_part - d->position_part - d->biases;
    for (size_t i = 0; i < d->n_layer; i++)
        d->rest -= d->mlps[i];
    for (size_t i = 0; i < d->n_layer * d->n_head; i++)
        d->rest -= d->heads[i];
    return MGPT_OK;
}

int dla_run(struct dla *d, const mgpt_model *model, int32_t token, int32_t other, size_t n_choices,
            mgpt_error *err)
{
    struct dla_work w = {.d = d, .model = model, .err = err};
    size_t E = d->n_embd, widest = d->n_z > E ? d->n_z : E;
    int status = mgpt_get_info(model, &w.info, err);
    if (status != MGPT_OK)
        return status;
    mgpt_layer l;
    mgpt_tensor t;
    int scaled = mgpt_find_role(model, MGPT_OUT_SCALE, 0, MGPT_WEIGHT, &t, NULL) == MGPT_OK ||
                 mgpt_find_role(model, MGPT_INPUT_EMBD, 0, MGPT_WEIGHT, &t, NULL) == MGPT_OK ||
                 strcmp(w.info.arch, "beam") == 0;
    if (scaled)
        return err_set(
            err, MGPT_EARG, MGPT_NO_OFFSET,
            "attribution: layers of this model change the residual stream besides adding "
            "to it (%s), which is not supported",
            w.info.arch);
    if (mgpt_get_layer(model, 0, &l, NULL) == MGPT_OK && l.ln_mid)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "attribution: this model normalises the residual stream itself (%s), which "
                       "is not supported",
                       w.info.arch);
    if (mgpt_find_role(model, MGPT_W_HEAD, 0, MGPT_WEIGHT, &t, NULL) == MGPT_OK)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "attribution: a matrix and an activation are before this model's head (%s), "
                       "which is not supported",
                       w.info.arch);
    size_t n = E * (3 + d->n_head) + 2 * d->n_layer;
    double *memory = mem_new(n, sizeof *memory);
    float *rows = mem_new(widest + 2 * E, sizeof *rows);
    if (memory && rows) {
        w.direction = memory;
        w.pulled = w.direction + E;
        w.sums = w.pulled + E;
        w.parts = w.sums + E;
        w.keep = w.parts + E * d->n_head;
        w.blend = w.keep + d->n_layer;
        w.row = rows;
        w.vector = w.row + widest;
        w.gain = w.vector + E;
        d->biases = 0;
        memset(d->heads, 0, d->n_layer * d->n_head * sizeof *d->heads);
        status = run_attribution(&w, token, other, n_choices);
    } else {
        status = err_memory(err, "an attribution", n * sizeof *memory);
    }
    free(memory);
    free(rows);
    return status;
}
