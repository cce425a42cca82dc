/* The float64 oracle. See oracle.h.
 *
 * T tokens, E n_embd, H heads, G key/value heads, d head_dim, F n_ff, V n_vocab. Matrices are
 * row-major, one row per position. The first error stays in oracle.status; what follows it does
 * nothing.
 */
#include "check/oracle/oracle_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/oracle/oracle_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------- */

static void tensor_name_of(const struct oracle *o, int layer, int role, const char *kind,
                           char name[ORACLE_NAME])
{
    o->s->source.name(o->s->source.user, layer, role, kind, name);
}

enum oracle_tensor oracle_find(const struct oracle *o, int layer, int role, const char *kind)
{
    char name[ORACLE_NAME];
    tensor_name_of(o, layer, role, kind, name);
    return o->s->source.find(o->s->source.user, name);
}

static void read_named_row(struct oracle *o, const char *name, size_t row, size_t n, float *out)
{
    if (o->status == MGPT_OK)
        o->status = o->s->source.read(o->s->source.user, name, row, n, out, o->err);
    int rounds = o->s->rounded == ORACLE_ALL || o->s->rounded == ORACLE_WEIGHTS;
    for (size_t i = 0; o->s->type != ORACLE_EXACT && rounds && i < n; i++)
        out[i] = (float)math_rounded(o->s, (double)out[i]);
}

void oracle_read_row(struct oracle *o, int layer, int role, const char *kind, size_t row, size_t n,
                     float *out)
{
    char name[ORACLE_NAME];
    tensor_name_of(o, layer, role, kind, name);
    read_named_row(o, name, row, n, out);
}

const float *oracle_vector(struct oracle *o, int layer, int role, const char *kind, size_t n,
                           float *buf)
{
    if (oracle_find(o, layer, role, kind) == ORACLE_ABSENT)
        return NULL;
    oracle_read_row(o, layer, role, kind, 0, n, buf);
    return o->status == MGPT_OK ? buf : NULL;
}

/* ---- points ------------------------------------------------------------------------------------ */

static int oracle_shows(const struct oracle *o, mgpt_point at)
{
    return o->fn && (!o->s->points || o->s->points & MGPT_POINT_BIT(at));
}

void oracle_fire(struct oracle *o, mgpt_point at, int layer, size_t pos, size_t head, double *row,
                 size_t n)
{
    if (o->status == MGPT_OK && oracle_shows(o, at) &&
        o->fn(at, layer, pos, head, row, n, o->user) != 0)
        o->status = MGPT_ESTOP;
}

size_t oracle_stored(const struct oracle *o, int layer, size_t i)
{
    size_t n_rot = o->s->n_stored ? o->s->n_stored : o->n_rot, half = n_rot / 2;
    enum oracle_components stored = o->s->layers[layer].stored;
    if (stored == ORACLE_AS_SHOWN || i >= n_rot)
        return i;
    if (stored == ORACLE_PAIRS)
        return i < half ? 2 * i : 2 * (i - half) + 1;
    return (i + half) % n_rot;
}

/* A row of heads to the order of the points, or back. */
static void reorder(const struct oracle *o, int layer, double *to, const double *from, size_t n,
                    int back)
{
    for (size_t i = 0; i < n; i++) {
        size_t place = i - i % o->d + oracle_stored(o, layer, i % o->d);
        to[back ? place : i] = from[back ? i : place];
    }
}

/* q and k are shown in the order of their points. */
void oracle_fire_rows(struct oracle *o, mgpt_point at, int layer, double *x, size_t cols)
{
    int qk = at == MGPT_Q || at == MGPT_K || at == MGPT_ROT_Q || at == MGPT_ROT_K;
    for (size_t t = 0; t < o->T && oracle_shows(o, at); t++, x += cols) {
        if (qk)
            reorder(o, layer, o->in, x, cols, 0);
        oracle_fire(o, at, layer, t, 0, qk ? o->in : x, cols);
        if (qk)
            reorder(o, layer, x, o->in, cols, 1);
    }
}

/* ---- operations --------------------------------------------------------------------------------- */

/* The input of a product in blocks of MATH_ROWS positions, into o->in. */
static void block_input(struct oracle *o, const double *x, size_t n_in, int to_int8)
{
    for (size_t t = 0; t < o->T; t += MATH_ROWS) {
        size_t n = o->T - t < MATH_ROWS ? o->T - t : MATH_ROWS;
        memcpy(o->rows, x + t * n_in, n * n_in * sizeof *x);
        for (size_t i = 0; to_int8 && i < n; i++)
            math_to_int8(o->rows + i * n_in, n_in);
        for (size_t i = 0; i < n * n_in && o->s->rounded == ORACLE_PRODUCTS; i++)
            o->rows[i] = math_rounded(o->s, o->rows[i]);
        if (o->T > 1)
            math_transpose(o->in + t * n_in, o->rows, n_in, n);
    }
}

/* Rows of a matrix as the source keeps them, or NULL: they are read and rounded one by one. */
static const float *kept_rows(const struct oracle *o, const char *name, size_t first, size_t n_rows,
                              size_t n)
{
    const struct oracle_source *from = &o->s->source;
    enum oracle_rounded where = o->s->rounded;
    int rounds = where == ORACLE_ALL || where == ORACLE_WEIGHTS || where == ORACLE_PRODUCTS;
    if (!from->rows || (o->s->type != ORACLE_EXACT && rounds))
        return NULL;
    return from->rows(from->user, name, first, n_rows, n);
}

/* n columns of y, which is n_out wide: n rows w times o->in, plus their biases. */
static void multiply_rows(const struct oracle *o, const float *w, size_t n, const float *bias,
                          size_t n_in, double *y, size_t n_out)
{
    for (size_t k = 0; k < n && o->T == 1; k++)
        y[k] = bias ? (double)bias[k] : 0;
    if (o->T == 1)
        math_dots_with_one(w, n, o->rows, n_in, y);
    for (size_t t = 0; t < o->T && o->T > 1; t += MATH_ROWS) {
        double sum[MATH_COLS][MATH_ROWS];
        for (size_t i = 0; i < n * MATH_ROWS; i++)
            sum[i / MATH_ROWS][i % MATH_ROWS] = bias ? (double)bias[i / MATH_ROWS] : 0;
        math_dots(w, n, o->in + t * n_in, n_in, o->T - t, sum);
        for (size_t i = 0; i < MATH_ROWS && t + i < o->T; i++)
            for (size_t k = 0; k < n; k++)
                y[(t + i) * n_out + k] = sum[k][i];
    }
}

/* The biases of rows [first, first + n_out) of a matrix, or NULL; an expert's are a row of their tensor. */
static const float *biases_of(struct oracle *o, int layer, int role, size_t first, size_t n_out)
{
    int of_expert = role >= MGPT_EXPERTS_GATE && role <= MGPT_EXPERTS_DOWN;
    if (oracle_find(o, layer, role, ".bias") == ORACLE_ABSENT)
        return NULL;
    oracle_read_row(o, layer, role, ".bias", of_expert ? first / n_out : 0,
                    of_expert ? n_out : first + n_out, o->bias);
    if (o->status != MGPT_OK)
        return NULL;
    return of_expert ? o->bias : o->bias + first;
}

void oracle_matmul(struct oracle *o, int layer, int role, size_t first, const double *x,
                   size_t n_in, size_t n_out, double *y)
{
    enum oracle_tensor kind = oracle_find(o, layer, role, ".weight");
    const float *bias = biases_of(o, layer, role, first, n_out);
    char name[ORACLE_NAME];
    tensor_name_of(o, layer, role, ".weight", name);
    block_input(o, x, n_in, kind == ORACLE_INTEGERS && o->s->int8_inputs && role != MGPT_W_KV_UP);
    const float *kept = o->status == MGPT_OK ? kept_rows(o, name, first, n_out, n_in) : NULL;
    for (size_t r = 0, n; r < n_out && o->status == MGPT_OK; r += n) {
        n = kept && o->T == 1 ? n_out : kept && n_out - r >= MATH_COLS ? MATH_COLS : 1;
        if (!kept)
            read_named_row(o, name, first + r, n_in, o->row);
        for (size_t i = 0; i < n_in && o->s->rounded == ORACLE_PRODUCTS && !kept; i++)
            o->row[i] = (float)math_rounded(o->s, (double)o->row[i]);
        multiply_rows(o, kept ? kept + r * n_in : o->row, n, bias ? bias + r : NULL, n_in, y + r,
                      n_out);
    }
    math_round(o->s, y, o->T * n_out);
}

/* ---- the pass ---------------------------------------------------------------------------------- */

/* Adds to the residual, unless the branch is left out. */
static void oracle_add(const struct oracle *o, int left_out, double more, const double *y)
{
    for (size_t i = 0; i < o->T * o->E && !left_out; i++)
        o->x[i] = (1 + more) * o->x[i] + y[i];
    math_round(o->s, o->x, o->T * o->E);
}

/* What attention adds to the residual, into a. Returns the norm of the sum, or NO_NORM. */
static int attention(struct oracle *o, int layer)
{
    int conv = o->s->layers[layer].conv > 0;
    struct oracle_branch b =
        oracle_branch_norms(o, layer, MGPT_LN1, o->s->layers[layer].attn_norm, MGPT_LN1_POST);
    oracle_branch_input(o, layer, 1, b.before);
    oracle_fire_rows(o, MGPT_ATTN_IN, layer, o->h, o->E);
    if (conv)
        oracle_convolution(o, layer);
    else
        oracle_heads(o, layer);
    oracle_matmul(o, layer, MGPT_W_O, 0, o->z, conv ? o->E : o->zw, o->E, o->a);
    oracle_branch_output(o, layer, b.after, o->s->attn_times, o->a);
    oracle_fire_rows(o, MGPT_ATTN_OUT, layer, o->a, o->E);
    return b.sum;
}

/* What the MLP adds, into h. The same. */
static int mlp(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    int apart = oracle_find(o, layer, MGPT_W_GATE, ".weight") != ORACLE_ABSENT;
    const struct oracle_mlp plain = {
        apart ? MGPT_W_GATE : MGPT_W_UP, MGPT_W_UP, MGPT_W_DOWN, o->F, 0, 1};
    struct oracle_branch b =
        oracle_branch_norms(o, layer, oracle_mlp_norm(o, layer), l->mlp_norm, MGPT_LN2_POST);
    oracle_branch_input(o, layer, 2, b.before);
    oracle_fire_rows(o, MGPT_MLP_IN, layer, o->h, o->E);
    if (oracle_find(o, layer, MGPT_W_ROUTER, ".weight") != ORACLE_ABSENT)
        oracle_mixture(o, layer);
    else
        oracle_mlp(o, layer, &plain, o->h);
    oracle_branch_output(o, layer, b.after, o->s->mlp_times, o->h);
    oracle_fire_rows(o, MGPT_MLP_OUT, layer, o->h, o->E);
    return b.sum;
}

/* Normalises the residual where norms are those of sums. */
static void norm_of_sum(struct oracle *o, int layer, int role)
{
    if (role != NO_NORM)
        oracle_norm(o, layer, role, o->x, o->x);
}

static void add_attention(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    int sum = attention(o, layer);
    if (l->parallel)
        return;
    oracle_add(o, l->no_attention, l->attn_more, o->a);
    norm_of_sum(o, layer, sum);
    oracle_residual_norm(o, layer, MGPT_LN_MID);
    oracle_fire_rows(o, MGPT_RESID_MID, layer, o->x, o->E);
}

static void add_mlp(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    int sum = mlp(o, layer);
    if (l->mlp_from_start)
        memcpy(o->x, o->start, o->T * o->E * sizeof *o->x);
    oracle_add(o, l->no_mlp, l->mlp_more, o->h);
    if (l->parallel)
        oracle_add(o, l->no_attention, l->attn_more, o->a);
    norm_of_sum(o, layer, sum);
}

static void run_layer(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    oracle_enter_layer(o, l);
    oracle_mix_in_x0(o, layer);
    oracle_fire_rows(o, MGPT_RESID_PRE, layer, o->x, o->E);
    if (l->mlp_from_start)
        memcpy(o->start, o->x, o->T * o->E * sizeof *o->x);
    for (int part = 0; part < 2; part++)
        (part == l->mlp_first ? add_attention : add_mlp)(o, layer);
    for (size_t i = 0; i < o->T * o->E && o->s->rounded == ORACLE_RESIDUAL; i++)
        o->x[i] = math_rounded(o->s, o->x[i]);
    oracle_residual_norm(o, layer, MGPT_LN_POST);
    oracle_add_input(o, layer);
    oracle_back_out(o, layer);
    oracle_fire_rows(o, MGPT_RESID_POST, layer, o->x, o->E);
}

static void embed(struct oracle *o)
{
    int learned = oracle_find(o, -1, MGPT_W_POS, ".weight") != ORACLE_ABSENT;
    for (size_t t = 0; t < o->T; t++) {
        oracle_read_row(o, -1, MGPT_W_E, ".weight", (size_t)o->tokens[t], o->E, o->row);
        for (size_t i = 0; i < o->E; i++)
            o->x[t * o->E + i] = o->s->embd_scale * (double)o->row[i];
    }
    math_round(o->s, o->x, o->T * o->E);
    oracle_fire_rows(o, MGPT_EMBD, -1, o->x, o->E);
    if (!learned)
        return;
    for (size_t t = 0; t < o->T; t++) {
        oracle_read_row(o, -1, MGPT_W_POS, ".weight", oracle_position(o, t), o->E, o->row);
        for (size_t i = 0; i < o->E; i++)
            o->h[t * o->E + i] =
                (double)o->row[i] * (o->s->position_times != 0 ? o->s->position_times : 1);
    }
    oracle_fire_rows(o, MGPT_POS_EMBD, -1, o->h, o->E);
    oracle_add(o, 0, 0, o->h);
}

static void unembed(struct oracle *o)
{
    oracle_make_head_input(o);
    int untied = oracle_find(o, -1, MGPT_W_U, ".weight") != ORACLE_ABSENT;
    oracle_matmul(o, -1, untied ? MGPT_W_U : MGPT_W_E, 0, o->x, o->E, o->V, o->logits);
    const float *bias = untied ? NULL : oracle_vector(o, -1, MGPT_W_U, ".bias", o->V, o->bias);
    for (size_t i = 0; i < o->T * o->V; i++) {
        double x = (o->logits[i] + (bias ? (double)bias[i % o->V] : 0)) * o->s->logit_scale;
        o->logits[i] = math_cap(x, o->s->logit_softcap);
        if (o->s->cap_of_x && o->s->logit_softcap > 0)
            o->logits[i] *= x / o->s->logit_softcap;
    }
    math_round(o->s, o->logits, o->T * o->V);
    for (size_t i = 0; i < o->T * o->V && o->s->rounded == ORACLE_LOGITS; i++)
        o->logits[i] = math_rounded(o->s, o->logits[i]);
    oracle_fire_rows(o, MGPT_LOGITS, -1, o->logits, o->V);
}

static void forward_pass(struct oracle *o)
{
    if (o->s->residual)
        memcpy(o->x, o->s->residual, o->T * o->E * sizeof *o->x);
    else
        embed(o);
    if (o->s->embd_norm && !o->s->residual) {
        oracle_norm(o, -1, MGPT_LN_EMBD, o->x, o->x);
        oracle_smear(o);
        oracle_fire_rows(o, MGPT_EMBD_NORM, -1, o->x, o->E);
    }
    oracle_make_inputs(o);
    for (size_t layer = o->s->first_layer; layer < o->s->n_layer && o->status == MGPT_OK; layer++)
        for (int i = 0; i <= o->s->layers[layer].again; i++)
            run_layer(o, (int)layer);
    for (int i = 0; i < o->s->final_norm && o->status == MGPT_OK; i++)
        oracle_norm(o, -1, MGPT_LN_FINAL, o->x, o->x);
    if ((o->s->final_norm || o->s->final_shown) && o->status == MGPT_OK)
        oracle_fire_rows(o, MGPT_FINAL, -1, o->x, o->E);
    if (o->status == MGPT_OK)
        unembed(o);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static size_t widest(size_t a, size_t b, size_t c)
{
    size_t ab = a > b ? a : b;
    return ab > c ? ab : c;
}

/* One block, which o->x begins: matrices of T rows, blocks of products, three rows of floats. */
static int take_buffers(struct oracle *o)
{
    size_t X = o->s->n_expert, F = widest(o->F, o->s->n_ff_expert, o->s->n_ff_shared);
    size_t conv = 0, inputs = (size_t)o->s->n_input * o->s->n_layer;
    int shares = 0;
    oracle_widen(o, &F, &conv, &shares);
    size_t q = conv ? widest(o->E, o->qw, 0) : o->qw, k = conv ? widest(o->E, o->kw, 0) : o->kw;
    k = widest(k, o->vw, 0), q = widest(q, o->zw, 0);
    size_t R = o->s->n_latent, latents = R ? widest(R + o->s->n_rot, o->s->n_q_latent, 0) : 0,
           up = R ? o->H * (o->d + o->vd) : 0;
    size_t wide = widest(widest(widest(o->E, q, F), widest(X, up, latents), conv), inputs, 0),
           bias = widest(wide, o->V, o->qw + 2 * o->kw), total = 0;
    struct {
        double **at;
        size_t cols;
    } matrices[] = {{&o->x, o->E},
                    {&o->x0, o->E},
                    {&o->middle, o->E},
                    {&o->start, o->E},
                    {&o->h, o->E},
                    {&o->q, q},
                    {&o->k, k},
                    {&o->v, k},
                    {&o->z, q},
                    {&o->a, o->E},
                    {&o->c, latents},
                    {&o->kv, widest(up, latents, 0)},
                    {&o->f, F},
                    {&o->up, F},
                    {&o->logits, o->V},
                    {&o->scores, 1},
                    {&o->gates, o->s->n_gate},
                    {&o->sums, o->s->softmax >= ORACLE_OVER_HEADS ? 2 * o->H : 0},
                    {&o->m, X ? o->E : 0},
                    {&o->y, X ? o->E : 0},
                    {&o->inputs, inputs},
                    {&o->kept[0][0], shares ? k : 0},
                    {&o->kept[0][1], shares ? k : 0},
                    {&o->kept[1][0], shares ? k : 0},
                    {&o->kept[1][1], shares ? k : 0},
                    {&o->weights, X},
                    {&o->probabilities, X},
                    {&o->in, wide}};
    enum { N = sizeof matrices / sizeof *matrices };
    for (size_t i = 0; i < N; i++)
        total += matrices[i].cols;
    size_t floats = 2 * wide + bias, blocks = 2 * MATH_ROWS * wide,
           room = total > 0 ? SIZE_MAX / 16 / total : 0, all = o->T * total + blocks + floats;
    double *block = o->T < room ? mem_new(all, sizeof *block) : NULL;
    if (!block)
        return err_memory(o->err, "a pass in float64", all * sizeof *block);
    for (size_t i = 0; i < N; block += o->T * matrices[i].cols, i++)
        *matrices[i].at = block;
    block += MATH_ROWS * wide; /* the last block of o->in may be longer than T */
    o->rows = block;
    block += MATH_ROWS * wide;
    o->row = (float *)(void *)block;
    o->gain = o->row + wide;
    o->bias = o->gain + wide;
    return MGPT_OK;
}

int oracle_pass(const struct oracle_spec *s, const int32_t *tokens, size_t n, oracle_point *fn,
                void *user, mgpt_error *err)
{
    struct oracle o = {.s = s,
                       .fn = fn,
                       .user = user,
                       .tokens = tokens,
                       .err = err,
                       .T = n,
                       .E = s->n_embd,
                       .H = s->n_head,
                       .G = s->n_head_kv,
                       .d = s->head_dim,
                       .F = s->n_ff,
                       .V = s->n_vocab,
                       .qw = s->n_head * s->head_dim,
                       .kw = s->n_head_kv * s->head_dim,
                       .n_rot = s->n_rot,
                       .plain = *s};
    o.vw = o.G * o.vd, o.zw = o.H * o.vd;
    o.plain.norm_how = ORACLE_NORM_AS_IS;
    o.status = take_buffers(&o);
    if (o.status == MGPT_OK)
        forward_pass(&o);
    free(o.x);
    return o.status;
}
