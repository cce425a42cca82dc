/* Suspects of which there is one for each part of a model, each position or each type. See
 * suspects_impl.h. */
#include "check/explain/suspects_impl.h"

#include "base/mem.h"
#include "dtype/dtype.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BIT(point) MGPT_POINT_BIT(MGPT_##point)

__attribute__((format(printf, 3, 4))) static void list_named(struct suspect_list *l,
                                                             struct suspect *s, const char *format,
                                                             ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->cause, sizeof s->cause, format, args);
    va_end(args);
    list_suspect(l, *s);
}

/* ---- norms --------------------------------------------------------------------------------------- */

static const struct {
    int where;
    uint64_t points;
    const char *text;
} norm_sets[] = {
    {ORACLE_NORM_ALL, BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL) | BIT(EMBD_NORM) | BIT(ROT_Q), ""},
    {ORACLE_NORM_ATTN | ORACLE_NORM_MLP | ORACLE_NORM_FINAL,
     BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL), " (not those of q and k)"},
    {ORACLE_NORM_FINAL, BIT(FINAL) | BIT(LOGITS), " (the final norm)"},
    {ORACLE_NORM_ATTN | ORACLE_NORM_MLP, BIT(ATTN_IN) | BIT(MLP_IN), " (norms of layers)"},
    {ORACLE_NORM_ATTN, BIT(ATTN_IN), " (the norm before attention)"},
    {ORACLE_NORM_MLP, BIT(MLP_IN), " (the norm before the MLP)"},
    {ORACLE_NORM_Q | ORACLE_NORM_K, BIT(ROT_Q) | BIT(ROT_K) | BIT(SCORES), " (norms of q and k)"},
    {ORACLE_NORM_Q, BIT(ROT_Q) | BIT(SCORES), " (norm of q)"},
    {ORACLE_NORM_K, BIT(ROT_K) | BIT(SCORES), " (norm of k)"},
    {ORACLE_NORM_POST_ATTN | ORACLE_NORM_POST_MLP, BIT(ATTN_OUT) | BIT(MLP_OUT),
     " (norms after branches)"},
    {ORACLE_NORM_POST_ATTN, BIT(ATTN_OUT), " (the norm after attention)"},
    {ORACLE_NORM_POST_MLP, BIT(MLP_OUT), " (the norm after the MLP)"},
    {ORACLE_NORM_EMBD, BIT(EMBD_NORM), " (the norm after the embedding)"}};

static void list_norms(struct suspect_list *l, const struct suspect_row *row)
{
    static const char *const hows[N_ORACLE_NORM_HOW] = {
        [ORACLE_NORM_OTHER] = "the mean subtracted (RMSNorm) or not (LayerNorm)",
        [ORACLE_NORM_UNBIASED] = "LayerNorm divides squares by n - 1, not n",
        [ORACLE_NORM_SUM] = "norms divide by the root of the sum of squares, not of their mean",
        [ORACLE_NORM_EPS_OUTSIDE] = "epsilon of norms added after the square root",
        [ORACLE_NORM_GAIN_FIRST] = "gains of norms multiplied before normalising",
        [ORACLE_NORM_GAIN_ONLY] = "norms only multiply by their gains, without normalising",
        [ORACLE_NORM_TWICE] = "norms are taken twice",
        [ORACLE_NORM_LEFT_OUT] = "norms are left out"};
    struct suspect s = {.edit = row->edit};
    for (size_t i = 0; i < sizeof norm_sets / sizeof *norm_sets; i++)
        for (int how = ORACLE_NORM_OTHER; how < N_ORACLE_NORM_HOW; how++) {
            s.points = norm_sets[i].points;
            s.edit.a = how;
            s.edit.b = norm_sets[i].where;
            list_named(l, &s, "%s%s", hows[how], norm_sets[i].text);
        }
}

static void list_raw(struct suspect_list *l, const struct suspect_row *row)
{
    static const struct {
        int bits;
        const char *what;
    } sets[] = {{ORACLE_RAW_K | ORACLE_RAW_V, "k and v"},
                {ORACLE_RAW_Q, "q"},
                {ORACLE_RAW_K, "k"},
                {ORACLE_RAW_V, "v"},
                {ORACLE_RAW_Q | ORACLE_RAW_K, "q and k"},
                {ORACLE_RAW_Q | ORACLE_RAW_V, "q and v"},
                {ORACLE_RAW_GATE, "gate"},
                {ORACLE_RAW_UP, "up"},
                {ORACLE_RAW_ROUTER, "the router of experts"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct suspect s = suspect_unnamed(row, NULL);
        s.edit.a = sets[i].bits;
        list_named(l, &s, row->text, sets[i].what);
    }
}

/* ---- rotation ------------------------------------------------------------------------------------ */

/* All ways to mix the two values of a pair, each with a cosine or sine of either sign; those first that
 * leave the cosines as they are. */
static void list_forms(struct suspect_list *l, const struct suspect_row *row)
{
    static const char *const factors[4] = {"cos", "sin", "-cos", "-sin"};
    struct suspect s = suspect_unnamed(row, NULL);
    for (unsigned i = 1; i < 256; i++) {
        unsigned form = i % 16 << 2 | i / 16 % 4 | i / 64 << 6, f = form ^ (3u << 2 | 1u << 4);
        s.edit.a = (int)form;
        list_named(l, &s, "%s(a %s + b %s, a %s + b %s)", row->text, factors[f & 3],
                   factors[f >> 2 & 3], factors[f >> 4 & 3], factors[f >> 6 & 3]);
    }
}

static void list_turn_heads(struct suspect_list *l, const struct suspect_row *row)
{
    size_t n = l->w->spec.n_head, kv = l->w->spec.n_head_kv;
    const size_t counts[4] = {1, kv, n / 2, n - 1};
    struct suspect s = suspect_unnamed(row, NULL);
    for (size_t i = 0; i < 4; i++) {
        int before = counts[i] == 0 || counts[i] >= n;
        for (size_t k = 0; k < i; k++)
            before |= counts[k] == counts[i];
        s.edit.a = (int)counts[i];
        if (!before && counts[i] == 1)
            list_named(l, &s, "only head 0 of q and k turns");
        else if (!before)
            list_named(l, &s, row->text, (int)counts[i]);
    }
}

static void list_places(struct suspect_list *l, const struct suspect_row *row)
{
    static const char *const texts[N_WHATIF_PLACES] = {
        [PLACES_RESTART] = "positions begin again at every token that is a multiple of %d",
        [PLACES_DOUBLED] = "positions of chunks of %d tokens: those before count twice",

        [PLACES_SKIP] = "positions are one more from each multiple of %d on",
        [PLACES_REPEAT] = "positions are one less from each multiple of %d on"};
    struct suspect s = suspect_unnamed(row, NULL);
    int n = (int)l->first_bad;
    s.edit.a = PLACES_SHARED;
    for (s.edit.b = 2; s.edit.b <= 8; s.edit.b++)
        list_named(l, &s, "positions are one more at every multiple of %d only", s.edit.b);
    for (s.edit.a = 0; s.edit.a < PLACES_SHARED && n > 1; s.edit.a++)
        for (int b = n - 1; b <= n; b++) { /* rotation tells from the next token on */
            s.edit.b = b;
            for (int by = -32; by <= 32 && s.edit.a == PLACES_MOVED; by++) {
                s.edit.x = by;
                list_named(l, &s, "positions from token %d on are %d %s", b, by < 0 ? -by : by,
                           by < 0 ? "less" : "more");
            }
            if (s.edit.a == PLACES_STAY)
                list_named(l, &s, "positions from token %d on stay at %d", b, b - 1);
            else if (s.edit.a != PLACES_MOVED)
                list_named(l, &s, texts[s.edit.a], b);
        }
}

/* ---- masks --------------------------------------------------------------------------------------- */

/* Keys that a cache lost, from the first position that differs on. */
static void list_zero_keys(struct suspect_list *l, const struct suspect_row *row)
{
    struct suspect s = suspect_unnamed(row, NULL);
    s.edit.a = (int)l->first_bad;
    for (size_t n = 1; l->first_bad + n <= l->w->n; n = n < 64 ? n + 1 : 2 * n) {
        s.edit.b = (int)(l->first_bad + n);
        list_named(l, &s, row->text, s.edit.a, s.edit.b - 1);
    }
}

/* Windows and chunks of which the first bad position tells the length. */
static void list_window_all(struct suspect_list *l, const struct suspect_row *row)
{
    struct suspect s = suspect_unnamed(row, NULL);
    s.edit.a = (int)l->first_bad;
    if (l->first_bad > 0)
        list_named(l, &s, row->text, s.edit.a);
}

/* Numbers of keys at the beginning. */
static void list_first_keys(struct suspect_list *l, const struct suspect_row *row)
{
    struct suspect s = suspect_unnamed(row, NULL);
    for (size_t n = 1; n < l->w->n && n < 4096; n = n < 64 ? n + 1 : 2 * n) {
        s.edit.a = (int)n;
        list_named(l, &s, row->text, s.edit.a);
    }
}

/* ---- tensors ------------------------------------------------------------------------------------- */

/* One tensor of each layer is that of another one; of many layers, of a neighbour. */
static void list_of_layer(struct suspect_list *l, const struct suspect_row *row)
{
    int n = (int)l->w->spec.n_layer;
    for (size_t i = 0; i < row->n; i++)
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) {
                struct suspect s = suspect_unnamed(row, row->tensors[i]);
                int near = a - b == 1 || b - a == 1;
                s.edit.a = a, s.edit.b = b;
                if (a != b && (near || n <= 8))
                    list_named(l, &s, row->text, row->tensors[i], a, b);
            }
}

static void list_scaled_tensors(struct suspect_list *l, const struct suspect_row *row)
{
    static const double times[] = {2, 0.5, -1};
    for (size_t i = 0; i < row->n; i++)
        for (size_t k = 0; k < 3; k++) {
            const char *shown = strchr(row->tensors[i], '=');
            struct suspect s = suspect_unnamed(row, row->tensors[i]);
            s.edit.x = times[k];
            list_named(l, &s, row->text, shown ? shown + 1 : row->tensors[i], times[k]);
        }
}

static void list_lost_heads(struct suspect_list *l, const struct suspect_row *row)
{
    struct suspect s = suspect_unnamed(row, NULL);
    for (s.edit.b = 0; s.edit.b < (int)l->w->spec.n_layer; s.edit.b++)
        for (s.edit.a = 0; s.edit.a < (int)l->w->spec.n_head && l->w->spec.n_head <= 32; s.edit.a++)
            list_named(l, &s, row->text, s.edit.a, s.edit.b);
    s.edit.b = -1;
    for (s.edit.a = 0; s.edit.a < (int)l->w->spec.n_head && l->w->spec.n_head <= 32; s.edit.a++)
        list_named(l, &s, "head %d of all layers is left out", s.edit.a);
}

static void list_layers_again(struct suspect_list *l, const struct suspect_row *row)
{
    struct suspect s = suspect_unnamed(row, NULL);
    for (s.edit.a = 0; s.edit.a < (int)l->w->spec.n_layer; s.edit.a++)
        list_named(l, &s, row->text, s.edit.a);
}

/* ALiBi where there is none, or with other slopes. */
static void list_alibi(struct suspect_list *l, const struct suspect_row *row)
{
    const struct oracle_spec *o = &l->w->spec;
    struct suspect s = suspect_unnamed(row, NULL);
    size_t heads[3] = {2 * o->n_head, o->n_head / 2, 4 * o->n_head};
    s.edit.x = o->alibi > 0 ? o->alibi : 8;
    if (!(o->alibi > 0))
        list_named(l, &s, "ALiBi, which the model here has not");
    for (size_t i = 0; i < 3; i++)
        if ((s.edit.a = (int)heads[i]) > 0)
            list_named(l, &s, "ALiBi's slopes are those of the first of %d heads", s.edit.a);
    s.edit.a = 0, s.edit.b = 1;
    list_named(l, &s, "ALiBi's slopes in reverse");
}

static void list_experts(struct suspect_list *l, const struct suspect_row *row)
{
    struct suspect s = suspect_unnamed(row, NULL);
    int n = (int)l->w->spec.n_expert;
    for (s.edit.a = 0; s.edit.a < n && n <= 16; s.edit.a++)
        for (s.edit.b = s.edit.a + 1; s.edit.b < n; s.edit.b++)
            list_named(l, &s, row->text, s.edit.a, s.edit.b);
}

/* ---- types --------------------------------------------------------------------------------------- */

#define AT_NORMS (BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL) | BIT(EMBD_NORM))
#define AT_ROPE (BIT(ROT_Q) | BIT(ROT_K))
#define ANYWHERE (MGPT_POINT_BIT(MGPT_N_POINTS) - 1)
enum {
    HALVES = 1 << ORACLE_BF16 | 1 << ORACLE_F16,
    EIGHTS = 1 << ORACLE_F8_E4M3 | 1 << ORACLE_F8_E5M2
};

/* What is rounded, where it shows, and to which types (bits). */
static const struct {
    const char *text;
    uint64_t points;
    enum oracle_rounded where;
    int types;
} roundings[] = {{"weights rounded to %s", ANYWHERE, ORACLE_WEIGHTS, HALVES | EIGHTS},
                 {"cosines and sines of RoPE in %s", AT_ROPE, ORACLE_TURNS, HALVES},
                 {"frequencies of RoPE in %s", AT_ROPE, ORACLE_FREQUENCIES, HALVES},
                 {"angles of RoPE in %s", AT_ROPE, ORACLE_ANGLES, HALVES},
                 {"keys and values in %s", BIT(SCORES) | BIT(HEADS), ORACLE_CACHE, HALVES | EIGHTS},
                 {"the weights of attention in %s", BIT(WEIGHTS), ORACLE_PATTERN, HALVES},
                 {"norms' variances in %s", AT_NORMS, ORACLE_VARIANCE, HALVES},
                 {"norms' squares and variances in %s", AT_NORMS, ORACLE_SQUARES, HALVES},
                 {"norms in %s", AT_NORMS, ORACLE_NORMS, HALVES},
                 {"attention scores in %s", BIT(SCORES), ORACLE_SCORES, HALVES},
                 {"the residual in %s after each layer", BIT(RESID_POST), ORACLE_RESIDUAL, HALVES},
                 {"both sides of products in %s", ANYWHERE, ORACLE_PRODUCTS,
                  1 << ORACLE_BF16 | EIGHTS | 1 << ORACLE_TF32},
                 {"logits in %s", BIT(LOGITS), ORACLE_LOGITS, HALVES}};

static void list_quantised(struct suspect_list *l, const struct suspect_row *row)
{
    static const char *const types[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q6_K"};
    struct suspect s = suspect_unnamed(row, "");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (s.edit.b = 0; s.edit.b < 2; s.edit.b++) {
            s.edit.a = (int)dtype_named(types[i])->id;
            list_named(l, &s, row->text, s.edit.b ? "all matrices" : "the layers' matrices",
                       types[i]);
        }
}

static void list_roundings(struct suspect_list *l, const struct suspect_row *row)
{
    static const char *const types[] = {[ORACLE_BF16] = "bfloat16",
                                        [ORACLE_F16] = "float16",
                                        [ORACLE_F8_E4M3] = "float8 (E4M3)",
                                        [ORACLE_F8_E5M2] = "float8 (E5M2)",
                                        [ORACLE_TF32] = "TF32 or float16"};
    struct suspect s = {.edit = row->edit};
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
        for (int type = ORACLE_BF16; type <= ORACLE_TF32; type++) {
            s.points = roundings[i].points;
            s.edit.a = type;
            s.edit.b = (int)roundings[i].where;
            if (roundings[i].types >> type & 1)
                list_named(l, &s, roundings[i].text, types[type]);
        }
}

int list_parts(struct suspect_list *l, const struct suspect_row *row)
{
    static const struct {
        whatif_fn *apply;
        enum whatif_change change;
        void (*list)(struct suspect_list *l, const struct suspect_row *row);
    } lists[] = {{edit_norms, 0, list_norms},
                 {edit_raw, 0, list_raw},
                 {edit_turn_form, 0, list_forms},
                 {edit_turn_heads, 0, list_turn_heads},
                 {edit_places, 0, list_places},
                 {edit_zero_keys, 0, list_zero_keys},
                 {edit_window_all, 0, list_window_all},
                 {edit_first_keys, 0, list_first_keys},
                 {edit_prefix, 0, list_first_keys},
                 {edit_alibi, 0, list_alibi},
                 {edit_lost_head, 0, list_lost_heads},
                 {edit_layer_again, 0, list_layers_again},
                 {edit_tensors, TENSORS_QUANTISED, list_quantised},
                 {edit_tensors, TENSOR_OF_LAYER, list_of_layer},
                 {edit_tensors, TENSORS_SCALED, list_scaled_tensors},
                 {edit_tensors, EXPERTS_SWAPPED, list_experts},
                 {edit_rounded, 0, list_roundings}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (row->edit.apply == lists[i].apply && row->edit.change == lists[i].change) {
            lists[i].list(l, row);
            return 1;
        }
    return 0;
}
