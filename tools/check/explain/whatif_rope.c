/* Rotation and positions of a model with one thing changed. See whatif.h. */
#include "check/explain/whatif_impl.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int edit_pairs(struct whatif *w, const struct whatif_edit *e, int layer)
{
    EACH_LAYER(w, l, layer)
    {
        whatif_negate(l, e);
        if (l->stored == ORACLE_PAIRS)
            l->stored = ORACLE_AS_SHOWN; /* rows that rotate as halves are stored as halves */
    }
    return w->spec.n_rot > 2;
}

int edit_as_stored(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = w->spec.n_rot > 2 && w->layers[0].stored == ORACLE_PAIRS;
    (void)e;
    EACH_LAYER(w, l, layer) l->stored = ORACLE_AS_SHOWN;
    return changed;
}

/* Halves for adjacent pairs of what is shown, or the reverse. */
static int turn_shown(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)e;
    EACH_LAYER(w, l, layer)
    if (l->halves || l->stored == ORACLE_PAIRS)
        l->adjacent = 1;
    else
        l->halves = 1;
    return w->spec.n_rot > 2;
}

int edit_shown_pairs(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return w->layers[0].stored == ORACLE_PAIRS && turn_shown(w, e, layer);
}

/* The layers become those of the base again, and turn q or k alone as they were changed. */
int edit_turn_one(struct whatif *w, const struct whatif_edit *e, int layer)
{
    size_t n = w->spec.n_layer;
    whatif_fn *edit = e->b ? edit_rope_factor : turn_shown;
    w->turned = mem_new(n, sizeof *w->turned);
    if (n == 0 || !w->turned || !edit(w, e, layer))
        return 0;
    memcpy(w->turned, w->layers, n * sizeof *w->turned);
    memcpy(w->layers, w->base->layers, n * sizeof *w->turned);
    w->spec.turned = w->turned;
    w->spec.turned_of = e->a;
    return 1;
}

/* ---- frequencies -------------------------------------------------------------------------------- */

/* A layer's frequencies. */
struct freq_table {
    const struct whatif *w;
    const struct whatif_edit *e;
    const double *was;  /* [n_rot / 2] */
    double base, other; /* of layers like this one, and with or without windows unlike it */
};

/* New frequency of pair i. */
typedef double freq_fn(const struct freq_table *t, size_t i);

static int is_mixed(const struct whatif *w)
{
    size_t windows = 0;
    for (size_t i = 0; i < w->spec.n_layer; i++)
        windows += w->layers[i].window > 0;
    return windows > 0 && windows < w->spec.n_layer;
}

/* The base of layers with windows, where only some have them, is seen from their frequencies. */
static double base_of(const struct whatif *w, int windowed)
{
    for (size_t i = 0; i < w->spec.n_layer && w->spec.n_rot > 2 && windowed && is_mixed(w); i++)
        if (w->layers[i].window && w->layers[i].freq)
            return pow(w->layers[i].freq[0] / w->layers[i].freq[1], (double)w->spec.n_rot / 2);
    return (double)w->info.rope_base;
}

static int is_in(const struct whatif *w, const struct whatif_edit *e, const struct oracle_layer *l)
{
    if (e->layers == LAYERS_ALL)
        return 1;
    return is_mixed(w) && (l->window > 0) == (e->layers == LAYERS_WINDOWED);
}

/* Each frequency of the edit's layers becomes what `fn` makes of it; heads have n_rot rotated
 * components from now on. */
static int edit_freq(struct whatif *w, const struct whatif_edit *e, int layer, size_t n_rot,
                     freq_fn *fn)
{
    int changed = n_rot != w->spec.n_rot;
    double *freq = mem_new(w->spec.n_layer * n_rot / 2, sizeof *freq), *to = freq;
    double bases[2] = {base_of(w, 0), base_of(w, 1)};
    if (!freq)
        return 0;
    EACH_LAYER(w, l, layer)
    {
        struct freq_table t = {w, e, l->freq, bases[l->window > 0], bases[l->window == 0]};
        for (size_t i = 0; l->freq && i < n_rot / 2; i++) {
            to[i] = is_in(w, e, l) ? fn(&t, i) : t.was[i];
            changed |= !(i < w->spec.n_rot / 2 && fabs(to[i] - t.was[i]) <= 1e-9 * fabs(t.was[i]));
        }
        l->freq = l->freq ? to : NULL;
        to += n_rot / 2;
    }
    if (layer < 0) {
        free(w->freq);
        w->freq = freq;
    } else {
        double *at = w->freq + (size_t)layer * n_rot / 2;
        memcpy(at, freq, n_rot / 2 * sizeof *freq);
        w->layers[layer].freq = w->layers[layer].freq ? at : NULL;
        free(freq);
    }
    w->spec.n_rot = n_rot;
    return changed;
}

/* Without scaling or divisors. */
static double freq_plain(const struct freq_table *t, size_t i)
{
    return pow(t->base, -2 * (double)i / (double)t->w->spec.n_rot);
}

static double freq_base(const struct freq_table *t, size_t i)
{
    return t->was[i] * pow(t->e->x / t->base, -2 * (double)i / (double)t->w->spec.n_rot);
}

static double freq_other(const struct freq_table *t, size_t i)
{
    return pow(t->other, -2 * (double)i / (double)t->w->spec.n_rot);
}

static double freq_divided(const struct freq_table *t, size_t i)
{
    return t->was[i] / t->e->x;
}

static double freq_linear(const struct freq_table *t, size_t i)
{
    return freq_plain(t, i) / t->e->x;
}

/* The base grows so that the longest wave is x times as long. */
static double freq_ntk(const struct freq_table *t, size_t i)
{
    double n = (double)t->w->spec.n_rot, base = t->base * pow(t->e->x, n / (n - 2));
    return pow(base, -2 * (double)i / n);
}

/* Llama 3.1: wavelengths above the original length are divided by x, those below 1/high of it
 * stay, between them a mix. A low factor other than 1 is another length with another high factor. */
static double freq_llama3(const struct freq_table *t, size_t i)
{
    const double pi = acos(-1), context = t->e->b ? t->e->b : 8192, low = 1;
    const double high = t->e->a ? t->e->a : 4;
    double plain = freq_plain(t, i), mix = (context * plain / (2 * pi) - low) / (high - low);
    mix = fmin(1, fmax(0, mix));
    return plain * (mix + (1 - mix) / t->e->x);
}

/* YaRN with its beta_fast of 32 and beta_slow of 1: pairs that turn often in the original length stay,
 * those that do not turn once are divided by x, between them a mix. */
static double freq_yarn(const struct freq_table *t, size_t i)
{
    const double pi = acos(-1), n = (double)t->w->spec.n_rot, by = 2 * log(t->base);
    double low = n * log(t->e->b / (2 * pi * 32)) / by, high = n * log(t->e->b / (2 * pi)) / by;
    low = fmax(0, t->e->a ? low : floor(low));
    high = fmin(n - 1, t->e->a ? high : ceil(high));
    double mix = fmin(1, fmax(0, ((double)i - low) / fmax(1e-3, high - low)));
    return freq_plain(t, i) * (1 - mix + mix / t->e->x);
}

/* For edit_rotated. Pairs beyond those of the file go on as they do. */
static double freq_rotated(const struct freq_table *t, size_t i)
{
    const struct oracle_spec *o = &t->w->spec;
    size_t width = (size_t)t->e->a;
    if (t->e->b & ROTATED_AS_HEAD)
        width = o->head_dim;
    else if (t->e->b & ROTATED_AS_EMBD)
        width = o->n_embd;
    else if (t->e->b & ROTATED_AS_FILE)
        width = o->n_rot;
    i = t->e->b & ROTATED_BACKWARDS ? (size_t)t->e->a / 2 - 1 - i : i;
    return pow(t->base, -2 * (double)i / (double)width);
}

#define FREQ_EDIT(name, fn)                                                                        \
    int name(struct whatif *w, const struct whatif_edit *e, int layer)                             \
    {                                                                                              \
        return edit_freq(w, e, layer, w->spec.n_rot, fn);                                          \
    }
FREQ_EDIT(edit_rope_factor, freq_divided)

int edit_rope_other(struct whatif *w, const struct whatif_edit *e, int layer)
{
    return is_mixed(w) && edit_freq(w, e, layer, w->spec.n_rot, freq_other);
}

/* Another scaling, and its factor of cosines and sines. */
static int edit_scaling(struct whatif *w, const struct whatif_edit *e, int layer, double times,
                        freq_fn *fn)
{
    int changed = edit_freq(w, e, layer, w->spec.n_rot, fn);
    EACH_LAYER(w, l, layer)
    if (l->freq && is_in(w, e, l)) {
        changed |= fabs(l->rope_scale - times) > 1e-6;
        l->rope_scale = times;
    }
    return changed;
}

#define SCALING_EDIT(name, times, fn)                                                              \
    int name(struct whatif *w, const struct whatif_edit *e, int layer)                             \
    {                                                                                              \
        return edit_scaling(w, e, layer, times, fn);                                               \
    }
SCALING_EDIT(edit_rope_linear, 1, freq_linear)
SCALING_EDIT(edit_rope_ntk, 1, freq_ntk)
SCALING_EDIT(edit_rope_llama3, 1, freq_llama3)
SCALING_EDIT(edit_rope_yarn, 1 + 0.1 * log(e->x), freq_yarn)
SCALING_EDIT(edit_rope_unscaled, 1, freq_plain)

double whatif_rope_divisor(const struct whatif *w)
{
    double most = 0, n = (double)w->spec.n_rot;
    for (size_t i = 0; i < w->spec.n_layer; i++) {
        const struct oracle_layer *l = &w->layers[i];
        double base = base_of(w, l->window > 0);
        for (size_t j = 0; l->freq && j < w->spec.n_rot / 2; j++)
            most = fmax(most, pow(base, -2 * (double)j / n) / l->freq[j]);
    }
    return most;
}

/* The scaling that gives a model's frequencies, and its factor and original length (2^5 to 2^17) in *e;
 * NULL: none of those that depend on the base. */
static freq_fn *scaling_of(const struct whatif *w, struct whatif_edit *e)
{
    static freq_fn *const scalings[] = {freq_llama3, freq_yarn};
    const struct oracle_layer *l = w->layers;
    size_t n = w->spec.n_rot / 2;
    double base = base_of(w, 0);
    e->x = whatif_rope_divisor(w);
    for (int i = 0; i < 26 && e->x > 1.0001 && l->freq; i++) {
        struct freq_table t = {w, e, l->freq, base, base};
        size_t same = 0;
        e->b = 1 << (5 + i / 2);
        while (same < n && fabs(scalings[i % 2](&t, same) - t.was[same]) <= 1e-6 * t.was[same])
            same++;
        if (same == n)
            return scalings[i % 2];
    }
    return NULL;
}

/* Where layers have two bases, one of them is meant. What is scaled is scaled by the new base. */
int edit_rope_base(struct whatif *w, const struct whatif_edit *e, int layer)
{
    struct whatif_edit scaled = {.layers = e->layers};
    int mixed = is_mixed(w);
    freq_fn *scaling = mixed ? NULL : scaling_of(w, &scaled);
    if (e->layers == LAYERS_ALL && mixed)
        return 0;
    int changed = scaling ? 0 : edit_freq(w, e, layer, w->spec.n_rot, freq_base);
    if (!mixed)
        w->info.rope_base = (float)e->x; /* what is scaled is by this one */
    return scaling ? edit_freq(w, &scaled, layer, w->spec.n_rot, scaling) : changed;
}

/* Layers of the edit become like the others, of which there are some. */
int edit_layers_alike(struct whatif *w, const struct whatif_edit *e, int layer)
{
    const struct oracle_layer *other = NULL;
    EACH_LAYER(w, l, layer) other = is_in(w, e, l) ? other : l;
    EACH_LAYER(w, l, layer)
    if (other && is_in(w, e, l)) {
        l->freq = other->freq;
        l->window = other->window;
    }
    return other != NULL;
}

int edit_rope_factors(struct whatif *w, const struct whatif_edit *e, int layer)
{
    mgpt_tensor t;
    size_t half = w->spec.n_rot / 2;
    float *factors = mem_new(half, sizeof *factors);
    int changed = 0;
    char name[ORACLE_NAME];
    oracle_model_name(w->model, -1, oracle_role_of_word(e->names, strlen(e->names)), ".weight",
                      name);
    if (factors && oracle_tensor_find(w->model, name, &t) &&
        w->source.read(w->source.user, name, 0, half, factors, NULL) == MGPT_OK) {
        edit_freq(w, e, layer, 2 * half, freq_plain);
        EACH_LAYER(w, l, -1)
        for (size_t i = 0; l->freq && i < half; i++) {
            double *at = &w->freq[(size_t)(l - w->layers) * half + i];
            *at /= (double)factors[i];
            changed |= fabs(*at - w->base->layers[l - w->layers].freq[i]) > 1e-6 * *at;
        }
    }
    free(factors);
    return changed;
}

int edit_rope_everywhere(struct whatif *w, const struct whatif_edit *e, int layer)
{
    const struct oracle_layer *other = NULL;
    int changed = 0;
    (void)e;
    EACH_LAYER(w, l, layer) other = l->freq ? l : other;
    EACH_LAYER(w, l, layer)
    if (other && !l->freq) {
        l->freq = other->freq;
        l->rope_scale = other->rope_scale;
        changed = 1;
    }
    return changed;
}

int edit_rotated(struct whatif *w, const struct whatif_edit *e, int layer)
{
    size_t n_rot = (size_t)e->a, d = w->spec.head_dim;
    (void)layer;
    if (n_rot > d) /* heads are narrower by another edit */
        return 0;
    if (e->b & ROTATED_HALVES && (w->layers[0].halves || w->layers[0].stored == ORACLE_PAIRS))
        return 0;
    w->spec.n_stored = w->spec.n_rot;
    w->spec.rot_first = e->b & ROTATED_LAST ? d - n_rot : 0;
    w->spec.rot_mixed = (e->b & ROTATED_MIXED) != 0;
    w->spec.rot_apart = e->b & ROTATED_ACROSS ? d / 2 : 0;
    int changed = edit_freq(w, e, -1, n_rot, freq_rotated);
    EACH_LAYER(w, l, -1)
    if (e->b & ROTATED_ADJACENT) {
        l->halves = 0;
        l->stored = ORACLE_AS_SHOWN;
    } else if (e->b & ROTATED_HALVES) {
        l->halves = 1;
    }
    return changed || e->b & (ROTATED_LAST | ROTATED_ACROSS | ROTATED_ADJACENT | ROTATED_MIXED);
}

int edit_no_rope(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int changed = 0;
    EACH_LAYER(w, l, layer)
    if (is_in(w, e, l)) {
        changed |= l->freq != NULL;
        l->freq = NULL;
    }
    return changed;
}

int edit_turn_form(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->spec.turn_form = (unsigned)e->a;
    return w->spec.n_rot > 0;
}

int edit_turn_heads(struct whatif *w, const struct whatif_edit *e, int layer)
{
    (void)layer;
    w->spec.turn_heads = (size_t)e->a;
    return w->spec.n_rot > 0;
}

/* The position of token t, of which n is the first that another program counts otherwise. */
static int32_t token_place(const struct whatif_edit *e, int32_t t)
{
    int32_t n = e->b, chunk = t / n;
    switch ((enum whatif_places)e->a) {
    case PLACES_RESTART:
        return t % n;
    case PLACES_DOUBLED:
        return t + chunk * n;
    case PLACES_MOVED:
        return t < n ? t : t + (int32_t)e->x;
    case PLACES_STAY:
        return t < n ? t : n - 1;
    case PLACES_SKIP:
        return t + chunk;
    case PLACES_SHARED:
        return chunk;
    default:
        return t - chunk;
    }
}

static int find_positions(const struct whatif *w, mgpt_tensor *t)
{
    char name[ORACLE_NAME];
    oracle_model_name(w->model, -1, MGPT_W_POS, ".weight", name);
    return oracle_tensor_find(w->model, name, t);
}

int edit_places(struct whatif *w, const struct whatif_edit *e, int layer)
{
    mgpt_tensor t;
    int learned = find_positions(w, &t);
    (void)layer;
    free(w->places);
    w->places = mem_new(w->n + w->n_more + PADDING_MOST, sizeof *w->places);
    if (!w->places || e->b < 1 || !(learned || w->spec.n_rot))
        return 0;
    for (size_t i = 0; i < w->n + w->n_more + PADDING_MOST; i++) {
        w->places[i] = token_place(e, (int32_t)i);
        if (w->places[i] < 0 || (learned && (size_t)w->places[i] >= t.dims[1] && i < w->n))
            return 0;
    }
    w->spec.places = w->places;
    return (size_t)e->b < w->n;
}

int edit_positions(struct whatif *w, const struct whatif_edit *e, int layer)
{
    mgpt_tensor t;
    (void)layer;
    w->spec.shift = e->a + (int)e->x;
    if (!find_positions(w, &t))
        return w->spec.shift <
               0; /* RoPE sees distances only: all but the positions that stay at 0 */
    return w->spec.shift < 0 || w->n + (size_t)w->spec.shift <= t.dims[1];
}
