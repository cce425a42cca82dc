/* The oracle's attention, from the normed residual to the heads' outputs. See oracle_impl.h. */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

size_t oracle_position(const struct oracle *o, size_t t)
{
    int64_t at = (int64_t)(o->s->places ? (size_t)o->s->places[t] : t) + o->s->shift;
    return at < 0 ? 0 : (size_t)at;
}

/* The components of pair i in a row of a tensor. */
static void rope_pair(const struct oracle *o, const struct oracle_layer *l, int layer, size_t i,
                      size_t pair[2])
{
    int stored = l->stored == ORACLE_PAIRS && !l->halves,
        halves = (l->halves || stored) && !l->adjacent;
    size_t apart = o->s->rot_apart ? o->s->rot_apart : o->n_rot / 2;
    pair[0] = o->s->rot_first + (halves ? i : 2 * i);
    pair[1] = pair[0] + (halves ? apart : 1);
    for (int k = 0; k < 2 && stored; k++)
        pair[k] = oracle_stored(o, layer, pair[k]);
}

/* Cosine and sine of each component of pair i at a position, times a factor. */
static void rope_turn(const struct oracle *o, const struct oracle_layer *l, int64_t pos, size_t i,
                      double turn[4])
{
    const struct oracle_spec *s = o->s;
    size_t half = o->n_rot / 2, at[2] = {i, i};
    int halves = l->halves || l->stored == ORACLE_PAIRS;
    for (size_t k = 0; k < 2 && s->rot_mixed; k++)
        at[k] = halves ? (i + k * half) / 2 : (2 * i + k) % half;
    for (size_t k = 0; k < 4; k++) {
        if (k > 1 && at[1] == at[0]) {
            turn[k] = turn[k - 2];
            continue;
        }
        double f = l->freq[at[k / 2]];
        f = s->rounded == ORACLE_FREQUENCIES ? math_rounded(s, f) : f;
        double angle = (double)pos * f;
        angle = s->rounded == ORACLE_ANGLES ? math_rounded(s, angle) : angle;
        turn[k] = (k % 2 ? sin(angle) : cos(angle)) * l->rope_scale;
        turn[k] = s->rounded == ORACLE_TURNS ? math_rounded(s, turn[k]) : turn[k];
    }
    math_round(s, turn, 4);
}

/* What one value of a pair is multiplied with: by two bits, the cosine or the sine, with either
 * sign. */
static double turned_by(unsigned form, double cosine, double sine)
{
    double x = form & 1 ? sine : cosine;
    return form & 2 ? -x : x;
}

/* (a, b) becomes (a cos - b sin, a sin + b cos), or by turn_form something else: two bits for each of
 * the four factors, of which those of 0, -sin, sin and 0 are set here. */
static void rope_turn_pair(const struct oracle_spec *s, const double turn[4], double *a, double *b)
{
    unsigned form = s->turn_form ^ (3u << 2 | 1u << 4);
    double parts[4] = {*a * turned_by(form & 3, turn[0], turn[1]),
                       *b * turned_by(form >> 2 & 3, turn[0], turn[1]),
                       *a * turned_by(form >> 4 & 3, turn[2], turn[3]),
                       *b * turned_by(form >> 6 & 3, turn[2], turn[3])};
    math_round(s, parts, 4);
    *a = parts[0] + parts[1];
    *b = parts[2] + parts[3];
}

/* The position that a row of [T][heads] turns by; with a shift it may be below 0. */
static int64_t turn_position(const struct oracle *o, size_t row, size_t heads, int shift)
{
    return o->s->turn_by_head ? (int64_t)(row % heads)
                              : (int64_t)oracle_position(o, row / heads) + shift;
}

/* n_rot components of every head turn in pairs: (a, b) by pos * frequency. `shift` is added to each
 * position. */
static void rope(const struct oracle *o, int layer, enum oracle_of of, double *x, int shift)
{
    int other = o->s->turned && (int)of == o->s->turned_of;
    const struct oracle_layer *l = &(other ? o->s->turned : o->s->layers)[layer];
    size_t heads = of == ORACLE_OF_QUERIES ? o->H : o->G;
    for (size_t i = 0; l->freq && i < o->n_rot / 2; i++) {
        size_t pair[2];
        rope_pair(o, l, layer, i, pair);
        double turn[4];
        for (size_t row = 0; row < o->T * heads; row++) {
            double *v = x + row * o->d;
            if (row % heads == 0 || o->s->turn_by_head)
                rope_turn(o, l, turn_position(o, row, heads, shift), i, turn);
            if (o->s->turn_heads == 0 || row % heads < o->s->turn_heads)
                rope_turn_pair(o->s, turn, v + pair[0], v + pair[1]);
        }
    }
    math_round(o->s, x, o->T * heads * o->d);
}

/* ---- q, k and v -------------------------------------------------------------------------------- */

/* Norms of q or k. Gains are those of one head or of all; the statistics are of as many values,
 * unless qk_norm_other says otherwise. */
static void qk_norm(struct oracle *o, int layer, int role, double *x, size_t heads)
{
    const struct oracle_spec *s =
        oracle_norm_spec(o, role == MGPT_Q_NORM ? ORACLE_NORM_Q : ORACLE_NORM_K);
    int all = o->s->qk_norm == ORACLE_QK_WHOLE, over_all = all != o->s->qk_norm_other;
    size_t d = o->d, w = all ? heads * d : d, rows = over_all ? 1 : heads;
    if (o->s->qk_norm == ORACLE_QK_PLAIN)
        return;
    const float *gain = oracle_vector(o, layer, role, ".weight", w, o->gain);
    const float *bias = oracle_vector(o, layer, role, ".bias", w, o->bias);
    for (size_t i = w; i < heads * d; i++) {
        o->gain[i] = o->gain[i - w];
        o->bias[i] = o->bias[i - w];
    }
    for (size_t i = 0; i < o->T * rows; i++, x += heads * d / rows)
        math_norm(s, x, x, 1, heads * d / rows, gain ? gain + i % rows * d : NULL,
                  bias ? bias + i % rows * d : NULL);
}

static void clamp(const struct oracle *o, double *x, size_t cols)
{
    double limit = o->s->qkv_clamp;
    for (size_t i = 0; i < o->T * cols && limit != 0; i++)
        x[i] = fmax(-limit, fmin(limit, x[i]));
}

/* late: those that follow the rotation. The clamp of q and k follows their norms. */
static void qk_norms(struct oracle *o, int layer, int late)
{
    const struct oracle_spec *s = o->s;
    if (!s->no_norm_q && (s->qk_norm_late != s->norm_moved_q) == late)
        qk_norm(o, layer, MGPT_Q_NORM, o->q, o->H);
    if (!s->no_norm_k && !s->layers[layer].others_keys &&
        (s->qk_norm_late != s->norm_moved_k) == late)
        qk_norm(o, layer, MGPT_K_NORM, o->k, o->G);
    if (s->qk_norm == ORACLE_QK_PLAIN || s->qk_norm_late != late)
        return;
    clamp(o, o->q, o->qw);
    clamp(o, o->k, o->kw);
}

/* Takes the biases of q and k away, or (1) adds them. */
static void move_qk_biases(struct oracle *o, int layer, int fused, double times)
{
    double *x[2] = {o->q, o->k};
    size_t width[2] = {o->qw, o->kw}, first[2] = {0, fused ? o->qw : 0};
    for (size_t i = 0; i < 2 && o->s->qk_bias_late; i++) {
        const float *bias = oracle_vector(o, layer,
                                          fused ? ORACLE_W_QKV
                                          : i   ? MGPT_W_K
                                                : MGPT_W_Q,
                                          ".bias", first[i] + width[i], o->bias);
        for (size_t at = 0; bias && at < o->T * width[i]; at++)
            x[i][at] += times * (double)bias[first[i] + at % width[i]];
    }
}

/* Queries grow by the logarithm of their position; in layers without rope by a power of it. */
static void grow_queries(const struct oracle *o, int layer)
{
    int grows = o->s->query_power != 0 && !o->s->layers[layer].freq;
    for (size_t i = 0; grows && i < o->T * o->qw; i++)
        o->q[i] *= pow(((double)oracle_position(o, i / o->qw) + 1) / 2048 + 1, o->s->query_power);
    for (size_t i = 0; o->s->query_beta != 0 && i < o->T * o->qw; i++) {
        size_t turns = oracle_position(o, i / o->qw) / o->s->query_context;
        o->q[i] *= 1 + o->s->query_beta * log1p((double)turns);
    }
}

/* q, k and v of h, from one tensor or three. */
static void project_each(struct oracle *o, int layer, int fused)
{
    size_t qw = o->qw, kw = o->kw, vw = o->vw;
    int raw = o->s->layers[layer].raw, own = !o->s->layers[layer].others_keys;
    oracle_matmul(o, layer, fused ? ORACLE_W_QKV : MGPT_W_Q, 0, raw & ORACLE_RAW_Q ? o->x : o->h,
                  o->E, qw, o->q);
    if (own)
        oracle_matmul(o, layer, fused ? ORACLE_W_QKV : MGPT_W_K, fused ? qw : 0,
                      raw & ORACLE_RAW_K ? o->x : o->h, o->E, kw, o->k);
    int keys_only = !fused && oracle_find(o, layer, MGPT_W_V, ".weight") == ORACLE_ABSENT;
    if (own && !keys_only)
        oracle_matmul(o, layer, fused ? ORACLE_W_QKV : MGPT_W_V, fused ? qw + kw : 0,
                      raw & ORACLE_RAW_V ? o->x : o->h, o->E, vw, o->v);
    move_qk_biases(o, layer, fused, -1);
    if (o->s->qk_norm == ORACLE_QK_PLAIN) {
        clamp(o, o->q, qw);
        clamp(o, o->k, kw);
    }
    if (own && keys_only)
        memcpy(o->v, o->k, o->T * kw * sizeof *o->v);
    if (own && o->s->v_norm)
        math_norm(&o->plain, o->v, o->v, o->T * o->G, o->d, NULL, NULL);
    clamp(o, o->v, own ? vw : 0);
    if (own)
        oracle_token_values(o, layer);
}

static void project(struct oracle *o, int layer)
{
    size_t qw = o->qw, kw = o->kw;
    int fused = oracle_find(o, layer, ORACLE_W_QKV, ".weight") != ORACLE_ABSENT;
    int own = !o->s->layers[layer].others_keys;
    if (o->s->n_latent)
        oracle_latent(o, layer);
    else
        project_each(o, layer, fused);
    oracle_fire_rows(o, MGPT_Q, layer, o->q, qw);
    if (own) {
        oracle_fire_rows(o, MGPT_K, layer, o->k, kw);
        oracle_fire_rows(o, MGPT_V, layer, o->v, o->vw);
    }
    qk_norms(o, layer, 0);
    if (o->s->n_rot == 0)
        return;
    for (int i = o->s->no_rope_q; i <= o->s->rope_again_q; i++)
        rope(o, layer, ORACLE_OF_QUERIES, o->q, 0);
    for (int i = o->s->no_rope_k; i <= o->s->rope_again_k && own; i++)
        rope(o, layer, ORACLE_OF_KEYS, o->k, o->s->shift_k);
    if (o->s->rope_v && o->vd == o->d)
        rope(o, layer, ORACLE_OF_VALUES, o->v, 0);
    move_qk_biases(o, layer, fused, 1);
    qk_norms(o, layer, 1);
    grow_queries(o, layer);
    oracle_fire_rows(o, MGPT_ROT_Q, layer, o->q, qw);
    if (own)
        oracle_fire_rows(o, MGPT_ROT_K, layer, o->k, kw);
}

/* ---- heads -------------------------------------------------------------------------------------- */

static size_t kv_head(const struct oracle *o, const struct oracle_layer *l, enum oracle_of of,
                      size_t h)
{
    enum oracle_kv kv = l->kv_of && l->kv_of != (int)of ? ORACLE_KV_GROUPED : l->kv;
    const size_t read[] = {[ORACLE_KV_GROUPED] = h / (o->H / o->G),
                           [ORACLE_KV_INTERLEAVED] = h % o->G,
                           [ORACLE_KV_FIRST] = 0,
                           [ORACLE_KV_SAME] = h,
                           [ORACLE_KV_BY_NUMBER] = h / o->G};
    return read[kv] < o->G ? read[kv] : o->G - 1;
}

/* ALiBi's slope of a head: 2^-alibi to the powers 1/n, 2/n, ... for n heads, n a power of two; of
 * other numbers of heads those beyond n have the odd powers of half the step. */
static double alibi_slope(const struct oracle *o, size_t h)
{
    if (!(o->s->alibi > 0))
        return 0;
    size_t all = o->s->alibi_heads ? o->s->alibi_heads : o->H;
    size_t n = o->s->alibi_even ? all : (size_t)1 << (size_t)floor(log2((double)all));
    h = o->s->alibi_back ? o->H - 1 - h : h;
    double power = h < n ? (double)h + 1 : ((double)(h - n) * 2 + 1) / 2;
    double times = o->s->alibi_times != 0 ? o->s->alibi_times : 1;
    return times * exp2(-o->s->alibi * power / (double)n);
}

/* The keys that the query at t sees end before this one. */
static size_t visible_end(const struct oracle *o, size_t t)
{
    const size_t ends[] = {[ORACLE_CAUSAL] = t + 1,        [ORACLE_NEXT_KEY] = t + 2,
                           [ORACLE_ALL_KEYS] = o->T,       [ORACLE_NOT_OWN_KEY] = t > 0 ? t : 1,
                           [ORACLE_NOT_FIRST_KEY] = t + 1, [ORACLE_CHUNKS] = t + 1,
                           [ORACLE_BOTH_SIDES] = t + 1,    [ORACLE_LATER_KEYS] = o->T};
    return ends[o->s->mask] < o->T ? ends[o->s->mask] : o->T;
}

/* The first key that the query at t sees in a layer with window w; the last before `end`. */
static size_t visible_begin(const struct oracle *o, size_t t, size_t w, size_t end)
{
    if (o->s->mask == ORACLE_NOT_FIRST_KEY && t > 0 && (!w || end <= w))
        return 1;
    if (o->s->mask == ORACLE_CHUNKS && w)
        return t / w * w;
    if (o->s->mask == ORACLE_LATER_KEYS)
        return t;
    return w && end > w ? end - w : 0;
}

/* A query in a layer with window w, and what it sees. */
struct seen_by {
    size_t t, first, end, w;
};

static struct seen_by seen_at(const struct oracle *o, int layer, size_t t)
{
    struct seen_by q = {.t = t, .end = visible_end(o, t), .w = o->s->layers[layer].window};
    q.first = visible_begin(o, t, q.w, q.end);
    return q;
}

static int sees(const struct oracle *o, const struct seen_by *q, size_t j)
{
    const struct oracle_spec *s = o->s;
    if (j < q->end && j >= q->first)
        return 1;
    if (s->mask == ORACLE_BOTH_SIDES && q->w && j >= q->t)
        return j - q->t < q->w;
    return (j <= q->t && j < s->first_keys) || (q->t < s->prefix && j < s->prefix);
}

/* Keys of which some may take part. */
static size_t keys_at(const struct oracle *o, size_t t)
{
    const struct oracle_spec *s = o->s;
    int causal = s->mask == ORACLE_CAUSAL && s->softmax < ORACLE_OVER_HEADS && t >= s->prefix &&
                 s->cap_at < ORACLE_CAP_MASKED;
    return causal ? t + 1 : o->T;
}

/* The score of a query and key of head h before it is masked. */
static double score_of(const struct oracle *o, int layer, size_t t, size_t h, size_t j)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    size_t d = o->d, g = kv_head(o, l, ORACLE_OF_KEYS, h), at = j - (l->kv_late && j > 0);
    double cap = o->s->attn_softcap, x = 0;
    for (size_t i = 0; i < d; i++)
        x += o->q[(t * o->H + h) * d + i] * o->k[(at * o->G + g) * d + i];
    math_round(o->s, &x, 1);
    if (o->s->cap_at == ORACLE_CAP_FIRST && cap != 0)
        return math_cap(x, cap) * l->attn_scale;
    x = math_cap(x * l->attn_scale - alibi_slope(o, h) * ((double)t - (double)j), cap);
    int rounds = o->s->rounded == ORACLE_SCORES || o->s->rounded == ORACLE_SOFTMAX;
    return rounds ? math_rounded(o->s, x) : x;
}

/* The largest of the scores of a key that weights add up to 1 over, those of heads or of the queries
 * that see it, and the sum of their exponentials, less the largest. */
static void sum_over(const struct oracle *o, int layer, size_t t, size_t h, size_t j, double sum[2])
{
    int heads = o->s->softmax == ORACLE_OVER_HEADS;
    sum[0] = -INFINITY, sum[1] = 0;
    for (size_t i = 0; i < (heads ? o->H : o->T); i++) {
        struct seen_by q = seen_at(o, layer, i);
        if (!heads && !sees(o, &q, j))
            continue;
        double x = score_of(o, layer, heads ? t : i, heads ? i : h, j), most = fmax(sum[0], x);
        sum[1] = sum[1] * exp(sum[0] - most) + exp(x - most);
        sum[0] = most;
    }
}

/* Weights of n keys that add up to 1 over the heads or over the queries. The sums serve all heads of a
 * query, or all queries of a head. */
static void softmax_over(struct oracle *o, int layer, size_t t, size_t h, double *row, size_t n)
{
    int heads = o->s->softmax == ORACLE_OVER_HEADS;
    double *sum = o->sums + (heads ? 0 : h * o->T * 2);
    for (size_t j = 0; j < n; j++, sum += 2) {
        if (heads ? h == 0 : t == 0)
            sum_over(o, layer, t, h, j, sum);
        row[j] = !isinf(row[j]) ? exp(row[j] - sum[0]) / sum[1] : heads ? 1 / (double)o->H : 0;
    }
}

static void oracle_attend(struct oracle *o, int layer, size_t t, size_t h, double sink)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    size_t d = o->vd, g = kv_head(o, l, ORACLE_OF_VALUES, h), shown = t + 1, n = keys_at(o, t);
    double *row = o->scores, *out = o->z + (t * o->H + h) * d,
           *values = o->s->v_is_k && d == o->d ? o->k : o->v;
    const double masks[] = {-INFINITY, -INFINITY, -o->s->attn_softcap, 0, 0};
    double unseen = masks[o->s->cap_at];
    int every = o->s->softmax == ORACLE_OVER_HEADS || o->s->cap_at >= ORACLE_CAP_MASKED;
    int adds = o->s->cap_at == ORACLE_MASK_ADDS, all = o->s->softmax == ORACLE_OF_ALL_KEYS || adds;
    struct seen_by q = seen_at(o, layer, t);
    for (size_t j = 0; j < n; j++)
        row[j] = all || sees(o, &q, j) ? score_of(o, layer, t, h, j) : unseen;
    for (size_t j = 0; j < n && adds; j++)
        row[j] += sees(o, &q, j) ? 0 : o->s->mask_adds;
    math_round(o->s, row, shown);
    oracle_fire(o, MGPT_SCORES, layer, t, h, row, shown);
    for (size_t j = 0; j < n && !every && !all; j++)
        row[j] = sees(o, &q, j) ? row[j] : -INFINITY;
    if (o->s->softmax == ORACLE_OVER_HEADS || o->s->softmax == ORACLE_OVER_QUERIES)
        softmax_over(o, layer, t, h, row, n);
    else
        math_softmax(row, n, sink, (enum oracle_softmax)o->s->softmax);
    math_round(o->s, row, shown);
    int rounds = o->s->rounded == ORACLE_PATTERN || o->s->rounded == ORACLE_SOFTMAX;
    for (size_t j = 0; j < n && rounds; j++)
        row[j] = math_rounded(o->s, row[j]);
    oracle_fire(o, MGPT_WEIGHTS, layer, t, h, row, shown);
    memset(out, 0, d * sizeof *out);
    n = l->lost_head == h + 1 ? 0 : n;
    for (size_t j = 0; j < n; j++) {
        size_t at = j - (l->kv_late && j > 0);
        for (size_t i = every || sees(o, &q, j) ? 0 : d; i < d; i++)
            out[i] += row[j] * values[(at * o->G + g) * d + i];
    }
    math_round(o->s, out, d);
}

/* [H][T][d] read as [T][H d]. */
static void take_heads_first(struct oracle *o)
{
    size_t n = o->T * o->zw, d = o->vd;
    for (size_t i = 0; i < n; i++)
        o->in[i] = o->z[(i / d % o->T * o->H + i / d / o->T) * d + i % d];
    memcpy(o->z, o->in, n * sizeof *o->z);
}

/* Keys or values as a cache of a shorter type has them. */
static void round_cache(const struct oracle *o, double *x, size_t d)
{
    int whole = o->s->type >= ORACLE_INT8;
    size_t n = o->s->type == ORACLE_Q8_0 && d % 32 == 0 ? 32 : d, all = o->T * o->G * d;
    struct oracle_spec half = {.type = ORACLE_F16};
    for (size_t i = 0; i < all && !whole; i++)
        x[i] = math_rounded(o->s, x[i]);
    for (size_t i = 0; i < all && whole; i += n) {
        double largest = 0;
        for (size_t k = i; k < i + n; k++)
            largest = fmax(largest, fabs(x[k]));
        double each = largest / 127,
               by = o->s->type == ORACLE_Q8_0 ? math_rounded(&half, each) : each;
        for (size_t k = i; k < i + n && each > 0; k++)
            x[k] = rint(x[k] / each) * by;
    }
}

void oracle_heads(struct oracle *o, int layer)
{
    project(o, layer);
    oracle_share_keys(o, layer);
    if (o->s->rounded == ORACLE_CACHE) {
        round_cache(o, o->k, o->d);
        round_cache(o, o->v, o->vd);
    }
    for (size_t i = o->s->zero_from * o->kw; i < o->s->zero_to * o->kw && i < o->T * o->kw; i++)
        o->k[i] = 0;
    for (size_t i = o->s->zero_from * o->vw; i < o->s->zero_to * o->vw && i < o->T * o->vw; i++)
        o->v[i] = 0;
    const float *sinks = oracle_vector(o, layer, MGPT_SINKS, ".weight", o->H, o->gain);
    for (size_t t = 0; t < o->T && o->status == MGPT_OK; t++)
        for (size_t head = 0; head < o->H; head++)
            oracle_attend(o, layer, t, head, sinks ? (double)sinks[head] : -INFINITY);
    if (o->s->heads_first)
        take_heads_first(o);
    for (size_t i = 0; i < o->T * o->zw && o->s->heads_times != 0; i++)
        o->z[i] *= o->s->heads_times;
    oracle_gate_heads(o, layer);
    oracle_fire_rows(o, MGPT_HEADS, layer, o->z, o->zw);
}
