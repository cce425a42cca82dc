/* Suspects of which there is one for each part of a model, each position or each type. See
 * suspects_impl.h. */
#include "check/explain/suspects_impl.h"
#include "check/explain/suspects_rows.h"

#include "base/error.h"
#include "base/mem.h"
#include "dtype/dtype.h"

#include <math.h>
#include <string.h>

/* ---- parts, each in several variants ------------------------------------------------------------- */

/* A part of the model (number b of the edit) and where it shows; a variant of it (number a). */
struct suspect_part {
    const char *text; /* printf format for the text of the variant */
    uint64_t points;
    int b;
    unsigned variants; /* bits of the variants that exist; 0: all */
};
struct suspect_variant {
    int a;
    const char *text;
};

#define N_OF(table) (sizeof(table) / sizeof *(table))

static void list_variants(struct suspect_list *l, struct suspect s,
                          const struct suspect_part *parts, size_t n_parts,
                          const struct suspect_variant *variants, size_t n)
{
    for (size_t i = 0; i < n_parts; i++)
        for (size_t k = 0; k < n; k++) {
            s.points = parts[i].points;
            s.edit.a = variants[k].a;
            s.edit.b = parts[i].b;
            if (!parts[i].variants || parts[i].variants >> variants[k].a & 1)
                list_named(l, &s, parts[i].text, variants[k].text);
        }
}

/* ---- norms --------------------------------------------------------------------------------------- */

static const struct suspect_part norm_parts[] = {
    {"%s", BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL) | BIT(EMBD_NORM) | BIT(ROT_Q), ORACLE_NORM_ALL,
     0},
    {"%s (not those of q and k)", BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL),
     ORACLE_NORM_ATTN | ORACLE_NORM_MLP | ORACLE_NORM_FINAL, 0},
    {"%s (the final norm)", BIT(FINAL) | BIT(LOGITS), ORACLE_NORM_FINAL, 0},
    {"%s (norms of layers)", BIT(ATTN_IN) | BIT(MLP_IN), ORACLE_NORM_ATTN | ORACLE_NORM_MLP, 0},
    {"%s (the norm before attention)", BIT(ATTN_IN), ORACLE_NORM_ATTN, 0},
    {"%s (the norm before the MLP)", BIT(MLP_IN), ORACLE_NORM_MLP, 0},
    {"%s (norms of q and k)", BIT(ROT_Q) | BIT(ROT_K) | BIT(SCORES), ORACLE_NORM_Q | ORACLE_NORM_K,
     0},
    {"%s (norm of q)", BIT(ROT_Q) | BIT(SCORES), ORACLE_NORM_Q, 0},
    {"%s (norm of k)", BIT(ROT_K) | BIT(SCORES), ORACLE_NORM_K, 0},
    {"%s (norms after branches)", BIT(ATTN_OUT) | BIT(MLP_OUT),
     ORACLE_NORM_POST_ATTN | ORACLE_NORM_POST_MLP, 0},
    {"%s (the norm after attention)", BIT(ATTN_OUT), ORACLE_NORM_POST_ATTN, 0},
    {"%s (the norm after the MLP)", BIT(MLP_OUT), ORACLE_NORM_POST_MLP, 0},
    {"%s (the norm after the embedding)", BIT(EMBD_NORM), ORACLE_NORM_EMBD, 0}};

static const struct suspect_variant norm_variants[] = {
    {ORACLE_NORM_OTHER, "the mean subtracted (RMSNorm) or not (LayerNorm)"},
    {ORACLE_NORM_UNBIASED, "LayerNorm divides squares by n - 1, not n"},
    {ORACLE_NORM_SUM, "norms divide by the root of the sum of squares, not of their mean"},
    {ORACLE_NORM_EPS_OUTSIDE, "epsilon of norms added after the square root"},
    {ORACLE_NORM_GAIN_FIRST, "gains of norms multiplied before normalising"},
    {ORACLE_NORM_GAIN_ONLY, "norms only multiply by their gains, without normalising"},
    {ORACLE_NORM_TWICE, "norms are taken twice"},
    {ORACLE_NORM_LEFT_OUT, "norms are left out"}};

/* Another epsilon for the final norm or those of q and k. */
static void list_epsilons(struct suspect_list *l, const struct suspect_row *row)
{
    static const double numbers[] = {1e-5, 1e-6, 1e-8, 1e-3};
    struct suspect s = suspect_unnamed(row, NULL);
    s.edit.a = ORACLE_NORM_EPS;
    for (size_t i = 0; i < 2 * N_OF(numbers); i++) {
        int final = i % 2 == 0;
        s.edit.x = numbers[i / 2];
        s.edit.b = final ? ORACLE_NORM_FINAL : ORACLE_NORM_Q | ORACLE_NORM_K;
        s.points = final ? BIT(FINAL) | BIT(LOGITS) : AT_ROPE;
        if (fabs(s.edit.x / l->w->spec.eps - 1) > 1e-3)
            list_named(l, &s, "epsilon %.6g of %s", s.edit.x,
                       final ? "the final norm" : "norms of q and k");
    }
}

static void list_norms(struct suspect_list *l, const struct suspect_row *row)
{
    list_variants(l, suspect_unnamed(row, NULL), norm_parts, N_OF(norm_parts), norm_variants,
                  N_OF(norm_variants));
    list_epsilons(l, row);
}

static void list_raw(struct suspect_list *l, const struct suspect_row *row)
{
    static const struct suspect_variant products[] = {{ORACLE_RAW_K | ORACLE_RAW_V, "k and v"},
                                                      {ORACLE_RAW_Q, "q"},
                                                      {ORACLE_RAW_K, "k"},
                                                      {ORACLE_RAW_V, "v"},
                                                      {ORACLE_RAW_Q | ORACLE_RAW_K, "q and k"},
                                                      {ORACLE_RAW_Q | ORACLE_RAW_V, "q and v"},
                                                      {ORACLE_RAW_GATE, "gate"},
                                                      {ORACLE_RAW_UP, "up"},
                                                      {ORACLE_RAW_ROUTER, "the router of experts"}};
    struct suspect s = suspect_unnamed(row, NULL);
    struct suspect_part all = {row->text, s.points, 0, 0};
    list_variants(l, s, &all, 1, products, N_OF(products));
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

/* Layers n with n % a = b (a 0: n >= b) have a window and the others none, or RoPE; and the reverse. */
static void list_kind(struct suspect_list *l, const struct suspect_row *row, int a, int b)
{
    struct suspect s = suspect_unnamed(row, NULL);
    int windows = 0;
    char which[24];
    for (size_t i = 0; i < l->w->spec.n_layer; i++)
        windows |= l->w->layers[i].window > 0;
    text_format(which, sizeof which, ">= %d", b);
    if (a)
        text_format(which, sizeof which, "%% %d = %d", a, b);
    s.edit.a = a, s.edit.b = b;
    for (int reverse = 0; reverse < 2; reverse++) {
        int have = reverse == windows;
        s.edit.layers = reverse ? LAYERS_WINDOWED : LAYERS_GLOBAL;
        if (a != 2 || reverse) /* of every second layer, one is the other's reverse */
            list_named(l, &s, row->text, which, have ? "" : "do not ",
                       windows ? "a window (and its RoPE)" : "RoPE", have ? "do not" : "do");
    }
}

static void list_kinds(struct suspect_list *l, const struct suspect_row *row)
{
    int n = (int)l->w->spec.n_layer;
    for (int a = 2; a <= n && a <= 8; a++)
        for (int b = 0; b < a; b++)
            list_kind(l, row, a, b);
    for (int b = 1; b < n; b++)
        list_kind(l, row, 0, b);
}

/* ---- tensors ------------------------------------------------------------------------------------- */

/* One tensor of each layer is that of another one; of many layers, of a neighbour. */
static void list_of_layer(struct suspect_list *l, const struct suspect_row *row)
{
    int n = (int)l->w->spec.n_layer;
    char text[SUSPECT_TEXT];
    for (size_t i = 0; i < row->n; i++)
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) {
                struct suspect s = suspect_unnamed(row, row->tensors[i]);
                int near = a - b == 1 || b - a == 1;
                s.edit.a = a, s.edit.b = b;
                if (a != b && (near || n <= 8))
                    list_named(l, &s, row->text, suspect_shown(l->w, row->tensors[i], text), a, b);
            }
}

static void list_scaled_tensors(struct suspect_list *l, const struct suspect_row *row)
{
    static const double times[] = {2, 0.5, -1};
    for (size_t i = 0; i < row->n; i++)
        for (size_t k = 0; k < 3; k++) {
            struct suspect s = suspect_unnamed(row, row->tensors[i]);
            char text[SUSPECT_TEXT];
            s.edit.x = times[k];
            list_named(l, &s, row->text, suspect_shown(l->w, row->tensors[i], text), times[k]);
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
    s.edit.a = 0, s.edit.b = ALIBI_BACK;
    list_named(l, &s, "ALiBi's slopes in reverse");
    s.edit.b = ALIBI_NEGATIVE;
    list_named(l, &s, "ALiBi's slopes with the other sign");
    if (!(o->alibi > 0))
        return;
    s.edit.b = ALIBI_EVEN;
    if (o->n_head & (o->n_head - 1))
        list_named(
            l, &s,
            "ALiBi's slopes fall by one factor from head to head, though %zu is not a power of 2",
            o->n_head);
    s.edit.b = ALIBI_TIMES;
    s.edit.x = 1 / sqrt((double)o->head_dim);
    list_named(l, &s, "ALiBi before scores are scaled: slopes times 1/sqrt(d)");
    s.edit.x = exp2(o->alibi / (double)o->n_head);
    list_named(l, &s, "ALiBi's slopes begin with 1: head h has those of head h - 1");
    for (s.edit.x = 0.25; s.edit.x <= 4; s.edit.x *= 2)
        list_named(l, &s, "ALiBi's slopes times %.6g", s.edit.x);
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

enum {
    HALVES = 1 << ORACLE_BF16 | 1 << ORACLE_F16,
    EIGHTS = 1 << ORACLE_F8_E4M3 | 1 << ORACLE_F8_E5M2
};

/* Matrices, as bits of the edit, in words or by roles. */
static const struct quantised {
    int b;
    const char *text;
    int role, other; /* other: or 0 */
} quantised[] = {{1, "the layers' matrices", 0, 0},
                 {15, "all matrices", 0, 0},
                 {2, NULL, MGPT_W_U, 0},
                 {4, NULL, MGPT_W_E, 0},
                 {6, NULL, MGPT_W_E, MGPT_W_U}};

static const char *matrices_text(const mgpt_model *m, const struct quantised *q, char text[64])
{
    char name[ORACLE_NAME];
    if (q->text)
        return q->text;
    size_t n = text_format(text, 64, "%s", oracle_stem(m, -1, q->role, "", name));
    if (q->other)
        text_format(text + n, 64 - n, " and %s", oracle_stem(m, -1, q->other, "", name));
    return text;
}

static void list_quantised(struct suspect_list *l, const struct suspect_row *row)
{
    static const char *const types[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                        "Q4_K", "Q6_K", "BF16", "F16"};
    static const int groups[] = {0, 32, 64, 128};
    struct suspect s = suspect_unnamed(row, "");
    for (size_t i = 0; i < N_OF(types); i++)
        for (size_t k = 0; k < (i < 7 ? 2 : N_OF(quantised)); k++) {
            s.edit.a = (int)dtype_named(types[i])->id;
            char text[64];
            s.edit.b = quantised[k].b;
            list_named(l, &s, row->text, matrices_text(l->w->model, &quantised[k], text), types[i]);
        }
    for (size_t i = 0; i < 16; i++) {
        int group = groups[i / 4], bits = i / 2 % 2 ? 4 : 8;
        char type[48];
        s.edit.a = -bits, s.edit.b = quantised[i % 2].b, s.edit.x = group;
        text_format(type, sizeof type, "int%d, a factor for every %d values", bits, group);
        if (!group)
            text_format(type, sizeof type, "int%d, a factor for each row", bits);
        if (group < (int)l->w->spec.n_embd)
            list_named(l, &s, row->text, quantised[i % 2].text, type);
    }
}

/* What is rounded, where it shows, and to which types. */
static const struct suspect_part rounded_parts[] = {
    {"weights rounded to %s", ANYWHERE, ORACLE_WEIGHTS, HALVES | EIGHTS},
    {"cosines and sines of RoPE in %s", AT_ROPE, ORACLE_TURNS, HALVES},
    {"frequencies of RoPE in %s", AT_ROPE, ORACLE_FREQUENCIES, HALVES},
    {"angles of RoPE in %s", AT_ROPE, ORACLE_ANGLES, HALVES},
    {"keys and values in %s", BIT(SCORES) | BIT(HEADS), ORACLE_CACHE,
     HALVES | EIGHTS | 1 << ORACLE_INT8 | 1 << ORACLE_Q8_0},
    {"the weights of attention in %s", BIT(WEIGHTS), ORACLE_PATTERN, HALVES},
    {"norms' variances in %s", AT_NORMS, ORACLE_VARIANCE, HALVES},
    {"norms' squares and variances in %s", AT_NORMS, ORACLE_SQUARES, HALVES},
    {"norms in %s", AT_NORMS, ORACLE_NORMS, HALVES},
    {"attention scores in %s", BIT(SCORES), ORACLE_SCORES, HALVES},
    {"the residual in %s after each layer", BIT(RESID_POST), ORACLE_RESIDUAL, HALVES},
    {"both sides of products in %s", ANYWHERE, ORACLE_PRODUCTS,
     1 << ORACLE_BF16 | EIGHTS | 1 << ORACLE_TF32},
    {"logits in %s", BIT(LOGITS), ORACLE_LOGITS, HALVES},
    {"attention scores and their softmax in %s", BIT(SCORES), ORACLE_SOFTMAX, HALVES},
    {"results of norms in %s", AT_NORMS, ORACLE_NORM_RESULTS, HALVES}};

static void list_roundings(struct suspect_list *l, const struct suspect_row *row)
{
    static const struct suspect_variant types[] = {{ORACLE_BF16, "bfloat16"},
                                                   {ORACLE_F16, "float16"},
                                                   {ORACLE_F8_E4M3, "float8 (E4M3)"},
                                                   {ORACLE_F8_E5M2, "float8 (E5M2)"},
                                                   {ORACLE_TF32, "TF32 or float16"},
                                                   {ORACLE_INT8, "int8, a factor for each head"},
                                                   {ORACLE_Q8_0, "Q8_0"}};
    list_variants(l, suspect_unnamed(row, NULL), rounded_parts, N_OF(rounded_parts), types,
                  N_OF(types));
}

int list_parts(struct suspect_list *l, const struct suspect_row *row)
{
    static const struct lister lists[] = {{edit_norms, 0, list_norms},
                                          {edit_raw, 0, list_raw},
                                          {edit_turn_form, 0, list_forms},
                                          {edit_turn_heads, 0, list_turn_heads},
                                          {edit_places, 0, list_places},
                                          {edit_zero_keys, 0, list_zero_keys},
                                          {edit_layers_kinds, 0, list_kinds},
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
    return list_by(lists, N_OF(lists), l, row);
}
