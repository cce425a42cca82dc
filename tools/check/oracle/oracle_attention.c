/* The oracle's rotation and attention. See oracle_impl.h. */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

size_t oracle_position(const struct oracle *o, size_t t)
{
    return o->s->shift < 0 && t < (size_t)-o->s->shift ? 0 : t + (size_t)o->s->shift;
}

/* The components of pair i in a row of a tensor. */
static void rope_pair(const struct oracle *o, int layer, size_t i, size_t pair[2])
{
    const struct oracle_layer *l = &o->s->layers[layer];
    int stored = l->stored == ORACLE_PAIRS && !l->halves, halves = l->halves || stored;
    size_t apart = o->s->rot_apart ? o->s->rot_apart : o->s->n_rot / 2;
    pair[0] = o->s->rot_first + (halves ? i : 2 * i);
    pair[1] = pair[0] + (halves ? apart : 1);
    for (int k = 0; k < 2 && stored; k++)
        pair[k] = oracle_stored(o, layer, pair[k]);
}

/* Cosine and sine of each component of pair i at a position, times a factor. */
static void rope_turn(const struct oracle *o, const struct oracle_layer *l, size_t t, size_t i,
                      double turn[4])
{
    const struct oracle_spec *s = o->s;
    size_t half = s->n_rot / 2, at[2] = {i, i};
    int halves = l->halves || l->stored == ORACLE_PAIRS;
    for (size_t k = 0; k < 2 && s->rot_mixed; k++)
        at[k] = halves ? (i + k * half) / 2 : (2 * i + k) % half;
    for (size_t k = 0; k < 4; k++) {
        double angle = (double)oracle_position(o, t) * l->freq[at[k / 2]];
        turn[k] = (k % 2 ? sin(angle) : cos(angle)) * l->rope_scale;
        turn[k] = s->rounded == ORACLE_TURNS ? math_rounded(s, turn[k]) : turn[k];
    }
    math_round(s, turn, 4);
}

/* n_rot components of every head turn in pairs: (a, b) by pos * frequency. */
void oracle_rope(const struct oracle *o, int layer, double *x, size_t heads)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    for (size_t i = 0; l->freq && i < o->s->n_rot / 2; i++) {
        size_t pair[2];
        rope_pair(o, layer, i, pair);
        for (size_t row = 0; row < o->T * heads; row++) {
            double *v = x + row * o->d, a = v[pair[0]], b = v[pair[1]], turn[4];
            rope_turn(o, l, row / heads, i, turn);
            double parts[4] = {a * turn[0], b * turn[1], a * turn[3], b * turn[2]};
            math_round(o->s, parts, 4);
            v[pair[0]] = parts[0] - parts[1];
            v[pair[1]] = parts[2] + parts[3];
        }
    }
    math_round(o->s, x, o->T * heads * o->d);
}

static size_t kv_head(const struct oracle *o, const struct oracle_layer *l, size_t h)
{
    const size_t read[] = {[ORACLE_KV_GROUPED] = h / (o->H / o->G),
                           [ORACLE_KV_INTERLEAVED] = h % o->G,
                           [ORACLE_KV_FIRST] = 0,
                           [ORACLE_KV_SAME] = h < o->G ? h : o->G - 1};
    return read[l->kv];
}

/* ALiBi's slope of a head: 2^-alibi to the powers 1/n, 2/n, ... for n heads, n a power of two; of
 * other numbers of heads those beyond n have the odd powers of half the step. */
static double alibi_slope(const struct oracle *o, size_t h)
{
    size_t n = (size_t)1 << (size_t)floor(log2((double)o->H));
    double power = h < n ? (double)h + 1 : ((double)(h - n) * 2 + 1) / 2;
    return o->s->alibi > 0 ? exp2(-o->s->alibi * power / (double)n) : 0;
}

void oracle_attend(struct oracle *o, int layer, size_t t, size_t h)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    size_t d = o->d, g = kv_head(o, l, h), w = l->window;
    size_t first = w && t + 1 > w ? t + 1 - w : 0;
    double *row = o->scores, *out = o->z + (t * o->H + h) * d, slope = alibi_slope(o, h);
    for (size_t j = 0; j <= t; j++) {
        row[j] = 0;
        for (size_t i = 0; i < d; i++)
            row[j] += o->q[(t * o->H + h) * d + i] * o->k[(j * o->G + g) * d + i];
        math_round(o->s, row + j, 1);
        row[j] = row[j] * l->attn_scale - slope * (double)(t - j);
        row[j] = j < first ? -INFINITY : math_cap(row[j], o->s->attn_cap);
    }
    math_round(o->s, row, t + 1);
    oracle_fire(o, MGPT_SCORES, layer, t, h, row, t + 1);
    for (size_t j = 0; j < first; j++)
        row[j] = 0;
    math_softmax(row + first, t + 1 - first);
    math_round(o->s, row, t + 1);
    oracle_fire(o, MGPT_WEIGHTS, layer, t, h, row, t + 1);
    memset(out, 0, d * sizeof *out);
    for (size_t j = first; j <= t; j++)
        for (size_t i = 0; i < d; i++)
            out[i] += row[j] * o->v[(j * o->G + g) * d + i];
    math_round(o->s, out, d);
}
