/* The list of suspects for a model, from the table. See suspects.h. */
#include "check/explain/suspects_impl.h"
#include "check/explain/suspects_rows.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/explain/stages.h"
#include "check/explain/whatif_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- a suspect from a row ---------------------------------------------------------------------- */

/* The part of a text "A|B" that holds for the model. What is flipped is a number of the spec or of layers. */
static void choose_text(const struct suspect_row *row, const struct whatif *w, char *text,
                        size_t cap)
{
    const char *bar = strchr(row->text, '|');
    const void *base = row->edit.apply == flip_layers ? (const void *)w->layers : &w->spec;
    int there = base == &w->spec || w->spec.n_layer > 0;
    int set = bar && there && *(const int *)(const void *)((const char *)base + row->edit.member);
    if (set)
        text_format(text, cap, "%s", bar + 1);
    else
        text_format(text, cap, "%.*s", (int)(bar ? (size_t)(bar - row->text) : strlen(row->text)),
                    row->text);
}

struct suspect suspect_unnamed(const struct suspect_row *row, const char *tensors)
{
    struct suspect s = {.points = row->points, .per_layer = row->per_layer, .edit = row->edit};
    if (tensors)
        s.edit.names = tensors;
    if (!s.points)
        s.points = stage_points(s.edit.names) | stage_points(s.edit.other);
    if (!s.points)
        s.points = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    s.edit.x = 0;
    return s;
}

const char *suspect_shown(const struct whatif *w, const char *tensors, char text[SUSPECT_TEXT])
{
    const char *words = tensors, *shown = strchr(tensors, '=');
    size_t at = 0, n;
    if (shown)
        return shown + 1;
    text[0] = 0;
    for (; *words; words += n + (words[n] == ' ')) {
        char name[ORACLE_NAME], kind[ORACLE_NAME];
        n = strcspn(words, " ");
        size_t n_word = strcspn(words, " .");
        int role = oracle_role_of_word(words, n_word), layer = whatif_attention_layer(w);
        text_format(kind, sizeof kind, "%.*s", (int)(n - n_word), words + n_word);
        text_format(name, sizeof name, "%.*s", (int)n, words);
        at += text_format(text + at, SUSPECT_TEXT - at, "%s%s", at ? " " : "",
                          role < 0 ? name : oracle_stem(w->model, layer, role, kind, name));
    }
    return text;
}

struct suspect suspect_of(const struct suspect_row *row, const struct whatif *w, double x,
                          const char *tensors)
{
    struct suspect s = suspect_unnamed(row, tensors);
    char text[SUSPECT_TEXT], names[SUSPECT_TEXT];
    choose_text(row, w, text, sizeof text);
    s.edit.x = x;
    if (tensors)
        snprintf(s.cause, sizeof s.cause, text, suspect_shown(w, tensors, names));
    else
        snprintf(s.cause, sizeof s.cause, text, x, (double)w->info.rope_base);
    return s;
}

/* ---- the list ---------------------------------------------------------------------------------- */

void list_suspect(struct suspect_list *l, struct suspect s)
{
    if (!arr_push(l->rows, s))
        l->failed = 1;
}

void list_named(struct suspect_list *l, struct suspect *s, const char *cause, ...)
{
    va_list args;
    va_start(args, cause);
    vsnprintf(s->cause, sizeof s->cause, cause, args);
    va_end(args);
    list_suspect(l, *s);
}

int list_by(const struct lister *listers, size_t n, struct suspect_list *l,
            const struct suspect_row *row)
{
    for (size_t i = 0; i < n; i++)
        if (row->edit.apply == listers[i].apply && row->edit.change == listers[i].change) {
            listers[i].list(l, row);
            return 1;
        }
    return 0;
}

static size_t heads_text(char *text, size_t cap, size_t n, size_t n_kv, size_t width)
{
    size_t at = text_format(text, cap, "%zu head%s", n, n == 1 ? "" : "s");
    if (n_kv != n)
        at += text_format(text + at, cap - at, " (%zu KV)", n_kv);
    return at + text_format(text + at, cap - at, " of width %zu", width);
}

/* What a converter with the wrong number of heads does to rows of q and k. */
static enum whatif_change head_order(const struct whatif *w)
{
    if (w->spec.n_rot == 0)
        return TENSORS_AS_THEY_ARE;
    if (w->layers[0].stored != ORACLE_AS_SHOWN)
        return ORDER_REBLOCKED;
    int fused = whatif_has_matrix(w, "W_QKV");
    return fused && w->spec.n_head == w->spec.n_head_kv ? ORDER_REGROUPED : TENSORS_AS_THEY_ARE;
}

/* Every number of heads that the rows of q and k allow. */
static void list_head_widths(struct suspect_list *l, const struct suspect_row *row)
{
    const struct oracle_spec *o = &l->w->spec;
    size_t was = o->head_dim, n_q = o->n_head * was, n_kv = o->n_head_kv * was;
    enum whatif_change order = head_order(l->w);
    struct suspect s = {.points = row->points, .edit = row->edit};
    s.edit.names = "W_Q W_K";
    if (order)
        s.points |= AT_QKV;
    for (size_t d = n_kv; d > 0; d--) {
        if (n_q % d || n_kv % d || d == was)
            continue;
        size_t cap = sizeof s.cause, at = heads_text(s.cause, cap, n_q / d, n_kv / d, d);
        at += text_format(s.cause + at, cap - at, ", not ");
        at += heads_text(s.cause + at, cap - at, o->n_head, o->n_head_kv, was);
        s.edit.a = (int)d;
        s.edit.change = TENSORS_AS_THEY_ARE;
        list_suspect(l, s);
        text_format(s.cause + at, cap - at, " (q and k were reordered for those)");
        s.edit.change = order;
        if (order)
            list_suspect(l, s);
    }
}

static int64_t n_heads_of(const struct suspect_list *l, uint64_t points)
{
    const struct oracle_spec *o = &l->w->spec;
    return (int64_t)(points & (BIT(K) | BIT(V)) ? o->n_head_kv : o->n_head);
}

/* Every two heads of one projection. */
static void list_head_swaps(struct suspect_list *l, const struct suspect_row *row,
                            const char *tensors)
{
    struct suspect s = suspect_unnamed(row, tensors);
    int n = (int)n_heads_of(l, s.points);
    s.per_layer = n <= 4;
    for (int a = 0; a < n && n <= 12; a++)
        for (int b = a + 1; b < n; b++) {
            s.edit.a = a, s.edit.b = b;
            list_named(l, &s, row->text, a, b, strchr(tensors, '=') + 1);
        }
}

/* All rotations of the heads of a projection; of many, by one and by half. */
static void list_head_rolls(struct suspect_list *l, const struct suspect_row *row,
                            const char *tensors)
{
    struct suspect s = suspect_unnamed(row, tensors);
    int n = (int)n_heads_of(l, s.points);
    for (int a = 1; a < n; a++) {
        s.edit.a = a;
        s.per_layer = a == 1 || a == n - 1;
        snprintf(s.cause, sizeof s.cause, row->text, strchr(tensors, '=') + 1, a);
        if (n <= 16 || s.per_layer || a == n / 2)
            list_suspect(l, s);
    }
}

/* Adds the suspect, and where there are biases also without them. */
static void list_with_biases(struct suspect_list *l, struct suspect s)
{
    list_suspect(l, s);
    if (!whatif_has(l->w, "W_Q", 3, ".bias"))
        return;
    s.edit.kind = ".weight";
    size_t n = strlen(s.cause);
    text_format(s.cause + n, sizeof s.cause - n, " (but not their biases)");
    list_suspect(l, s);
}

/* Rows permuted as if there were another number of heads: that of queries instead of keys, say. */
static void list_widths(struct suspect_list *l, const struct suspect_row *row, const char *tensors)
{
    const struct oracle_spec *o = &l->w->spec;
    struct suspect s = suspect_unnamed(row, tensors);
    size_t right = (size_t)n_heads_of(l, s.points), n = right * o->head_dim;
    const size_t heads[7] = {o->n_head,     o->n_head_kv,    1, 2 * o->n_head, 2 * o->n_head_kv,
                             o->n_head / 2, o->n_head_kv / 2};
    int stored = row->edit.change == ORDER_REBLOCKED || row->edit.change == ORDER_UNBLOCKED;
    int both = whatif_lists(tensors, "W_Q", 3) && whatif_lists(tensors, "W_K", 3);
    if (o->n_layer == 0 || (stored && l->w->layers[0].stored != ORACLE_PAIRS))
        return;
    for (size_t i = 0; i < 7; i++) {
        size_t width = heads[i] && n % heads[i] == 0 ? n / heads[i] : 0, before = 0;
        while (before < i && heads[before] != heads[i])
            before++;
        if (width % 2 || width < 4 || before < i ||
            (heads[i] == right && (stored || !both || right == o->n_head)) ||
            (stored && both && heads[i] == o->n_head))
            continue;
        s.edit.a = (int)heads[i];
        snprintf(s.cause, sizeof s.cause, row->text, strchr(tensors, '=') + 1, (int)heads[i],
                 heads[i] == 1 ? "" : "s");
        list_with_biases(l, s);
    }
}

/* Every order of a fused matrix that can be taken for another. */
static void list_axes(struct suspect_list *l, const struct suspect_row *row)
{
    static const char *const orders[] = {[QKV_PARTS] = "all of q, all of k, all of v",
                                         "q, k, v of head 0, of head 1, ...",
                                         "components of q, k, v of head 0 in turn, of head 1, ...",
                                         "component 0 of all heads of q, 1, ..., of k, of v",
                                         "component 0 of q, k, v of all heads, 1, ...",
                                         "component 0 of all heads of q, k, v, 1, ..."};
    _Static_assert(sizeof orders / sizeof *orders == N_QKV_AXES, "a row each");
    struct suspect s = suspect_unnamed(row, NULL);
    char name[ORACLE_NAME];
    const char *qkv = oracle_stem(l->w->model, 0, ORACLE_W_QKV, "", name);
    for (int i = 0; i < N_QKV_AXES * N_QKV_AXES; i++) {
        s.edit.a = i / N_QKV_AXES;
        s.edit.b = i % N_QKV_AXES;
        snprintf(s.cause, sizeof s.cause, row->text, qkv, orders[s.edit.a], orders[s.edit.b]);
        if (s.edit.a != s.edit.b)
            list_suspect(l, s);
    }
}

/* Llama 3.1's scaling with other values of high_freq_factor, by the file's factor if it has one. */
static void list_llama3_highs(struct suspect_list *l, const struct suspect_row *row)
{
    static const int highs[] = {8, 2, 16, 32, 3, 64};
    double own = whatif_rope_divisor(l->w);
    size_t n = own > 1.0001 ? 1 : row->n;
    struct suspect s = suspect_unnamed(row, NULL);
    for (size_t i = 0; i < n * 6; i++)
        for (int bits = 13; bits >= 5; bits--) {
            s.edit.x = n == 1 ? own : row->numbers[i / 6];
            s.edit.a = highs[i % 6];
            s.edit.b = 1 << bits;
            list_named(l, &s, row->text, s.edit.x, s.edit.b, s.edit.a);
        }
}

/* Tokens that pad or begin a text; of a small vocabulary all. */
static void list_tokens(struct suspect_list *l, const struct suspect_row *row)
{
    int32_t last = (int32_t)l->w->spec.n_vocab - 1;
    const int32_t special[] = {0, 1, 2, l->w->info.bos, l->w->info.eos, last};
    int most = row->edit.apply == edit_padded ? PADDING_MOST : 1, all = last < 128;
    struct suspect s = suspect_unnamed(row, NULL);
    for (int32_t i = 0; i < (all && most == 1 ? 0 : 6); i++) {
        int before = 0;
        while (special[before] != special[i])
            before++;
        s.edit.b = special[i];
        for (s.edit.a = 1; s.edit.a <= most && before == i; s.edit.a++)
            list_named(l, &s, row->text, s.edit.b, s.edit.a, s.edit.a > 1 ? "s" : "");
    }
    s.edit.a = 1;
    for (s.edit.b = 0; s.edit.b <= last && all; s.edit.b++)
        list_named(l, &s, row->text, s.edit.b, 1, "");
}

/* Llama 3.1's scaling, or YaRN's, by every factor and from every original length, its own first. */
static void list_scaled(struct suspect_list *l, const struct suspect_row *row)
{
    struct suspect s = suspect_unnamed(row, NULL);
    if (row->edit.a && row->edit.apply == edit_rope_llama3) {
        list_llama3_highs(l, row);
        return;
    }
    for (size_t i = 0; i < row->n; i++)
        for (int bits = 15; bits >= 5; bits--) {
            s.edit.x = row->numbers[i];
            s.edit.b = 1 << bits;
            list_named(l, &s, row->text, s.edit.x, s.edit.b);
        }
}

static void rotated_text(struct suspect *s, const struct oracle_spec *o)
{
    int n = s->edit.a, b = s->edit.b;
    size_t width = b & ROTATED_AS_HEAD ? o->head_dim : b & ROTATED_AS_EMBD ? o->n_embd : o->n_rot;
    size_t cap = sizeof s->cause, at = 0;
    at += text_format(s->cause, cap, "RoPE rotates %d of %zu components, not %zu", n, o->head_dim,
                      o->n_rot);
    if ((size_t)n == o->n_rot)
        at = text_format(s->cause, cap, "RoPE rotates %d components", n);
    if (b & ROTATED_LAST)
        at += text_format(s->cause + at, cap - at, ", the last ones");
    if (b & ROTATED_ACROSS)
        at += text_format(s->cause + at, cap - at, ", in pairs i and i + %zu", o->head_dim / 2);
    if (b & ROTATED_HALVES)
        at += text_format(s->cause + at, cap - at, ", in halves");
    if (b & ROTATED_ADJACENT)
        at += text_format(s->cause + at, cap - at, ", in adjacent pairs");
    if (b & ROTATED_MIXED)
        at += text_format(s->cause + at, cap - at, ", with the cosines of the other pairs");
    if (b & ROTATED_BACKWARDS)
        at +=
            text_format(s->cause + at, cap - at, ", the last pair with the frequency of the first");
    if (b & (ROTATED_AS_HEAD | ROTATED_AS_FILE | ROTATED_AS_EMBD))
        text_format(s->cause + at, cap - at, ", with the frequencies of width %zu", width);
}

/* Other parts of a head that are rotated, and other frequencies. */
static void list_rotated(struct suspect_list *l, const struct suspect_row *row)
{
    const struct oracle_spec *o = &l->w->spec;
    size_t d = o->head_dim;
    const size_t widths[] = {o->n_rot, d, d / 2, d / 4, 2 * o->n_rot, o->n_rot / 2, 3 * d / 4};
    static const int parts[] = {0,
                                ROTATED_LAST,
                                ROTATED_ACROSS,
                                ROTATED_ADJACENT,
                                ROTATED_MIXED,
                                ROTATED_BACKWARDS,
                                ROTATED_MIXED | ROTATED_ADJACENT,
                                ROTATED_MIXED | ROTATED_HALVES},
                     freqs[] = {0, ROTATED_AS_HEAD, ROTATED_AS_FILE, ROTATED_AS_EMBD};
    struct suspect s = {.points = row->points, .edit = row->edit};
    for (size_t i = 0; i < 7 * 8 * 4; i++) {
        size_t n = widths[i / 32];
        int part = parts[i / 4 % 8], freq = freqs[i % 4];
        int same = (part & (ROTATED_LAST | ROTATED_ACROSS) && n == d) ||
                   (part == 0 && freq == 0 && i < 32) || (freq == ROTATED_AS_HEAD && n == d) ||
                   (freq == ROTATED_AS_FILE && n == o->n_rot);
        for (size_t k = 0; k < i / 32; k++)
            same |= widths[k] == n;
        if (o->n_rot == 0 || n < 2 || n % 2 || n > d || same ||
            (part & (ROTATED_MIXED | ROTATED_BACKWARDS) && freq))
            continue;
        s.edit.a = (int)n;
        s.edit.b = part | freq;
        s.common = s.is_switch = n == d && !s.edit.b; /* partial_rotary_factor */
        rotated_text(&s, o);
        list_suspect(l, s);
    }
}

/* Layers that are left out; neighbours that are exchanged, or used for each other. */
static void list_layers(struct suspect_list *l, const struct suspect_row *row)
{
    int n = (int)l->w->spec.n_layer, left_out = row->edit.apply != edit_tensors;
    struct suspect s = {.points = row->points, .edit = row->edit};
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b >= a - 1; b -= 2) {
            int twice = b < a && row->edit.change != LAYER_OTHER;
            if (twice || (!left_out && (b < 0 || b >= n)))
                continue;
            s.edit.a = a, s.edit.b = b;
            list_named(l, &s, row->text, a, b);
        }
}

/* Windows that begin to matter where passes are compared; of long ones, powers of 2. */
static void list_windows(struct suspect_list *l, const struct suspect_row *row)
{
    int some = 0;
    for (size_t i = 0; i < l->w->spec.n_layer; i++)
        some |= l->w->layers[i].window > 0;
    for (size_t n = 1; n < l->w->n && some; n = n < 64 ? n + 1 : 2 * n)
        list_suspect(l, suspect_of(row, l->w, (double)n, NULL));
}

/* One suspect for each number or list of tensors of the row, or more. */
static void list_each(struct suspect_list *l, const struct suspect_row *row, double x)
{
    static const struct {
        enum whatif_change change;
        void (*list)(struct suspect_list *l, const struct suspect_row *row, const char *tensors);
    } by_tensors[] = {{ORDER_SWAPPED, list_head_swaps}, {ORDER_ROLLED, list_head_rolls},
                      {ORDER_REBLOCKED, list_widths},   {ORDER_UNBLOCKED, list_widths},
                      {ORDER_TO_PAIRS, list_widths},    {ORDER_FROM_PAIRS, list_widths}};
    for (size_t i = 0; i < row->n; i++) {
        size_t k = 0;
        while (k < 6 && (row->edit.change != by_tensors[k].change ||
                         (by_tensors[k].list == list_widths && !strstr(row->text, "%d"))))
            k++;
        if (k < 6)
            by_tensors[k].list(l, row, row->tensors[i]);
        else
            list_suspect(l, suspect_of(row, l->w, row->numbers ? row->numbers[i] : x,
                                       row->tensors ? row->tensors[i] : NULL));
    }
}

static void list_row(struct suspect_list *l, const struct suspect_row *row)
{
    static const struct lister lists[] = {
        {edit_head_width, 0, list_head_widths},   {edit_rope_llama3, 0, list_scaled},
        {edit_rope_yarn, 0, list_scaled},         {edit_padded, 0, list_tokens},
        {edit_first_token, 0, list_tokens},       {edit_rotated, 0, list_rotated},
        {edit_window_size, 0, list_windows},      {edit_layer_skipped, 0, list_layers},
        {edit_layers_cut, 0, list_layers},        {edit_tensors, LAYERS_SWAPPED, list_layers},
        {edit_tensors, LAYER_OTHER, list_layers}, {edit_tensors, ORDER_QKV_AXES, list_axes}};
    const uint64_t inside = BIT(RESID_POST) * 2 - BIT(RESID_PRE);
    if (l->w->spec.n_layer == 0 && row->points && !(row->points & ~inside))
        return;
    if (list_parts(l, row) || list_by(lists, sizeof lists / sizeof *lists, l, row))
        return;
    const size_t *size = (const size_t *)(const void *)((const char *)&l->w->spec + row->size);
    double scale = row->power != 0 ? pow((double)*size, fabs(row->power)) : 1;
    double x = row->power < 0 ? row->edit.x / scale : row->edit.x * scale;
    if (row->n == 0 && row->starts[0] == 0)
        list_suspect(l, suspect_of(row, l->w, x, NULL));
    list_each(l, row, x);
}

struct suspect *suspects_list(const struct whatif *w, size_t first_bad, mgpt_error *err)
{
    struct suspect_list l = {.w = w, .first_bad = first_bad};
    for (size_t i = 0; i < n_suspect_rows; i++) {
        const struct suspect_row *row = &suspect_rows[i];
        size_t first = arr_len(l.rows);
        list_row(&l, row);
        for (size_t k = first; k < arr_len(l.rows); k++) {
            l.rows[k].common |= k < first + row->common;
            l.rows[k].is_switch |= k < first + row->switches;
        }
    }
    if (!l.failed)
        return l.rows;
    arr_free(l.rows);
    err_memory(err, "suspects", sizeof *l.rows);
    return NULL;
}
