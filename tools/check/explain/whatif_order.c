/* Tensors and orders of rows that a model may be read in. See whatif_impl.h. */
#include "check/explain/whatif_impl.h"

#include <string.h>

/* ---- rows -------------------------------------------------------------------------------------- */

size_t whatif_permuted(size_t row, size_t b, size_t n)
{
    size_t j = row % b;
    return j < n ? row - j + j / 2 + j % 2 * (n / 2) : row;
}

size_t whatif_unpermuted(size_t row, size_t b, size_t n)
{
    size_t j = row % b, half = n / 2;
    if (j >= n)
        return row;
    return row - j + (j < half ? 2 * j : 2 * (j - half) + 1);
}

/* Grouped: heads are counted by group first. */
static size_t order_head(const struct whatif *w, size_t groups, size_t h, size_t n)
{
    size_t each = n / groups ? n / groups : 1;
    size_t a = (size_t)w->edit.a, b = (size_t)w->edit.b;
    switch (w->edit.change) {
    case ORDER_REVERSED:
        return n - 1 - h;
    case ORDER_ROLLED:
        return (h + a) % n;
    case ORDER_BY_TWOS:
        return (h ^ 1) < n ? h ^ 1 : h;
    case ORDER_GROUPED:
        return h % each * groups + h / each;
    case ORDER_UNGROUPED:
        return h % groups * each + h / groups;
    case ORDER_SWAPPED:
        return h == a ? b : h == b ? a : h;
    default:
        return h;
    }
}

/* Where row `row` is when a converter took heads for `block` wide: back to the checkpoint's order
 * in heads of the right width, and from there as the converter went. */
static size_t reblocked(const struct whatif *w, size_t d, size_t row, size_t b)
{
    if (w->layers[0].stored == ORACLE_EXCHANGED) {
        row = row - row % d + (row % d + d / 2) % d;
        return row - row % b + (row % b + b / 2) % b;
    }
    return whatif_unpermuted(whatif_permuted(row, d, d), b, b);
}

/* The stored row of row `row` if q, k and v were stored head by head. */
static size_t regrouped(const struct whatif *w, struct oracle_head_sizes heads, size_t row)
{
    size_t d = heads.width, n = heads.n * d, b = w->block;
    size_t at = (row % n / d * 3 + row / n) * d + row % d;
    return at % (3 * b) / b * n + at / (3 * b) * b + at % b;
}

/* Permuted, in heads of width `b` or of the right one; edit.b: once more. */
static size_t order_pairs(const struct whatif *w, struct oracle_head_sizes heads, size_t row,
                          size_t b)
{
    size_t n = b == heads.width ? heads.rot : b;
    for (int k = 0; k <= w->edit.b; k++)
        row = w->edit.change == ORDER_TO_PAIRS ? whatif_permuted(row, b, n)
                                               : whatif_unpermuted(row, b, n);
    return row;
}

/* The row of n_heads heads that an edit puts in place of row `row`. */
static size_t order_to(const struct whatif *w, struct oracle_head_sizes heads, size_t n_heads,
                       size_t row)
{
    size_t d = heads.width, b = w->block ? w->block : d;
    if (w->heads)
        b = n_heads * d / w->heads;
    switch (w->edit.change) {
    case ORDER_REBLOCKED:
        return reblocked(w, d, row, b);
    case ORDER_UNBLOCKED:
        return whatif_unpermuted(whatif_permuted(row, b, b), d, d);
    case ORDER_TO_PAIRS:
    case ORDER_FROM_PAIRS:
        return order_pairs(w, heads, row, b);
    case ORDER_COMPONENTS:
        return row % d * n_heads + row / d;
    case ORDER_HEADS:
        return row % n_heads * d + row / n_heads;
    default:
        return order_head(w, heads.kv, row / d, n_heads) * d + row % d;
    }
}

/* An edit for the layer with the most heads may name rows that others do not have: those stay. */
static size_t order_row(const struct whatif *w, struct oracle_head_sizes heads, int of_keys,
                        size_t row)
{
    size_t n_heads = of_keys ? heads.kv : heads.n, to = order_to(w, heads, n_heads, row);
    return to < n_heads * heads.width ? to : row;
}

size_t whatif_head_column(const struct whatif *w, int layer, size_t column)
{
    return order_row(w, oracle_head_sizes(&w->spec, layer), 0, column);
}

/* ---- q, k and v in one matrix ------------------------------------------------------------------- */

static const char *const qkv[3] = {"W_Q", "W_K", "W_V"};

/* The part of attn_qkv that is exchanged with part `part`, or `part` itself. */
static size_t swapped_part(const struct whatif *w, size_t part)
{
    const char *names[2] = {w->edit.names, w->edit.other};
    for (size_t i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            if (strcmp(names[j], qkv[part]) == 0 && strcmp(names[!j], qkv[i]) == 0)
                return i;
    return part;
}

/* The axes of attn_qkv are part, head, component. The reference read its rows in order `a`; the
 * converter that wrote this file read them in order `b`. */
static size_t axes_row(const struct whatif *w, struct oracle_head_sizes heads, size_t row)
{
    static const unsigned char orders[N_QKV_AXES][3] = {
        [QKV_PARTS] = {0, 1, 2}, {1, 0, 2}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {2, 1, 0}};
    const unsigned char *order[4] = {orders[QKV_PARTS], orders[w->edit.a], orders[w->edit.b],
                                     orders[QKV_PARTS]};
    size_t size[3] = {3, heads.n, heads.width}, at[3] = {0};
    for (size_t step = 0; step < 4; step += 2) { /* apart in one order, together in the next */
        for (size_t k = 3; k > 0 && k--; row /= size[order[step][k]])
            at[order[step][k]] = row % size[order[step][k]];
        for (size_t k = 0; k < 3; k++)
            row = row * size[order[step + 1][k]] + at[order[step + 1][k]];
    }
    return row;
}

void whatif_qkv_parts(const struct whatif *w, int layer, size_t first[4])
{
    struct oracle_head_sizes heads = oracle_head_sizes(&w->spec, layer);
    size_t kv = heads.kv * heads.width;
    first[0] = 0;
    first[1] = heads.n * heads.width;
    first[2] = first[1] + kv;
    first[3] = first[2] + kv;
}

/* Heads [group][H / G of q, one of k, one of v], and the same as all of q, of k, of v. */
static size_t heads_as_parts(size_t H, size_t G, size_t head)
{
    size_t each = H / G;
    size_t group = head / (each + 2), in = head % (each + 2);
    return in < each ? group * each + in : H + (in - each) * G + group;
}

static size_t heads_as_groups(size_t H, size_t G, size_t head)
{
    size_t each = H / G;
    if (head < H)
        return head / each * (each + 2) + head % each;
    return (head - H) % G * (each + 2) + each + (head - H) / G;
}

size_t whatif_grouped_row(const struct whatif *w, int layer, size_t *part, size_t row)
{
    struct oracle_head_sizes heads = oracle_head_sizes(&w->spec, layer);
    size_t d = heads.width, H = heads.n, G = heads.kv;
    int pairs = w->layers[0].stored == ORACLE_PAIRS;
    size_t i = row % d, head = row / d + (*part > 0 ? H : 0) + (*part > 1 ? G : 0);
    i = pairs && *part < 2 ? whatif_permuted(i, d, heads.rot) : i;
    head = w->edit.a ? heads_as_groups(H, G, head) : heads_as_parts(H, G, head);
    *part = head < H ? 0 : head < H + G ? 1 : 2;
    head -= *part == 0 ? 0 : *part == 1 ? H : H + G;
    i = pairs && *part < 2 ? whatif_unpermuted(i, d, heads.rot) : i;
    return head * d + i;
}

size_t whatif_expert_row(const struct whatif *w, size_t row, size_t n)
{
    size_t X = w->spec.n_expert, each = n / X, e = row / each;
    size_t a = (size_t)w->edit.a, b = (size_t)w->edit.b;
    if (w->edit.change == EXPERTS_SWAPPED)
        e = e == a ? b : e == b ? a : e;
    else
        e = a ? (size_t)((int64_t)(e + X) + w->edit.a) % X : X - 1 - e;
    return e * each + row % each;
}

/* Row `row` of attn_qkv. */
static size_t fused_row(const struct whatif *w, int layer, size_t row)
{
    struct oracle_head_sizes heads = oracle_head_sizes(&w->spec, layer);
    size_t first[4], part = 0, in_part;
    int equal = heads.n == heads.kv;
    whatif_qkv_parts(w, layer, first);
    while (part < 2 && row >= first[part + 1])
        part++;
    in_part = row - first[part];
    switch (w->edit.change) {
    case ORDER_QKV_ROLLED:
        return equal ? first[(part + (size_t)w->edit.a) % 3] + in_part : row;
    case ORDER_QKV_AXES:
        return equal ? axes_row(w, heads, row) : row;
    case ORDER_REGROUPED:
        return regrouped(w, heads, row);
    case TENSORS_SWAPPED:
        return first[swapped_part(w, part)] + in_part;
    case QKV_GROUPED:
        in_part = whatif_grouped_row(w, layer, &part, in_part);
        return first[part] + in_part;
    default:
        if (!whatif_lists(w->edit.names, qkv[part], strlen(qkv[part])))
            return row;
        return first[part] + order_row(w, heads, part > 0, in_part);
    }
}

/* ---- all tensors -------------------------------------------------------------------------------- */

int whatif_moves_rows(const struct whatif *w)
{
    return w->edit.change == TENSORS_SWAPPED || w->edit.change == QKV_GROUPED ||
           (w->edit.change >= ORDER_TO_PAIRS && w->edit.change < ORDER_ROW_NEXT);
}

/* What was exchanged before the rows of q or k were permuted, with what is not permuted. */
static size_t early_row(const struct whatif *w, struct tensor_name p, size_t row)
{
    struct oracle_head_sizes heads = oracle_head_sizes(&w->spec, p.layer);
    size_t d = heads.width, n = heads.rot;
    if (!whatif_is_listed(w->edit.names, p) && !whatif_is_listed(w->edit.other, p))
        return row;
    return whatif_is_listed("W_Q W_K", p) ? whatif_permuted(row, d, n)
                                          : whatif_unpermuted(row, d, n);
}

size_t whatif_projection_row(const struct whatif *w, struct tensor_name p, size_t row)
{
    enum whatif_change change = w->edit.change;
    if (!whatif_moves_rows(w) || !whatif_changes(w, p, change) || p.layer < 0)
        return row;
    if (whatif_is_listed("W_QKV", p))
        return fused_row(w, p.layer, row);
    if (change == TENSORS_SWAPPED && w->edit.b)
        return early_row(w, p, row);
    if (change == TENSORS_SWAPPED || change == QKV_GROUPED || change >= ORDER_QKV_AXES ||
        !whatif_is_listed(w->edit.names, p) || whatif_is_listed("W_O", p))
        return row;
    return order_row(w, oracle_head_sizes(&w->spec, p.layer), !whatif_is_listed("W_Q", p), row);
}

int whatif_has_matrix(const struct whatif *w, const char *words)
{
    return whatif_has(w, words, strcspn(words, " ="), ".weight");
}

int whatif_mlp_is_fused(const struct whatif *w)
{
    return w->spec.gated && whatif_has_matrix(w, "W_up") && !whatif_has_matrix(w, "W_gate");
}

int whatif_swaps_halves(const struct whatif *w, struct tensor_name p)
{
    return whatif_changes(w, p, TENSORS_SWAPPED) && strcmp(w->edit.names, "W_gate") == 0 &&
           whatif_is_listed("W_gate W_up", p) && whatif_mlp_is_fused(w);
}

/* Row `row` of a matrix of n rows, whose order is changed. */
static size_t moved_row(const struct whatif *w, struct tensor_name p, size_t row, size_t n)
{
    if (whatif_changes(w, p, ORDER_ROW_NEXT))
        return (row + 1) % n;
    if (whatif_changes(w, p, ORDER_ROW_PREVIOUS))
        return (row + n - 1) % n;
    if (whatif_changes(w, p, ORDER_HALVES) || whatif_swaps_halves(w, p))
        return (row + n / 2) % n;
    if (whatif_changes(w, p, ROWS_INTERLEAVED) && whatif_mlp_is_fused(w))
        return w->edit.a ? row % 2 * (n / 2) + row / 2 : row < n / 2 ? 2 * row : 2 * row + 1 - n;
    if (whatif_changes(w, p, ORDER_ROW_OTHER))
        return row == (size_t)w->edit.a ? (size_t)w->edit.b : row;
    return whatif_changes(w, p, ORDER_BACKWARDS) ? n - 1 - row : row;
}

size_t whatif_matrix_row(const struct whatif *w, struct tensor_name p, size_t row, size_t n)
{
    int weight = strcmp(p.kind, ".weight") == 0, of_experts = whatif_is_of_experts(p);
    if (of_experts &&
        (whatif_changes(w, p, EXPERTS_MOVED) || whatif_changes(w, p, EXPERTS_SWAPPED)))
        return whatif_expert_row(w, row, n);
    if (weight && (whatif_is_listed(w->edit.names, p) || whatif_swaps_halves(w, p))) {
        size_t each = of_experts ? n / w->spec.n_expert : n, at = row % each;
        size_t moved = moved_row(w, p, at, each);
        if (moved != at)
            return row - at + moved;
    }
    return whatif_projection_row(w, p, row);
}

/* ---- edits ------------------------------------------------------------------------------------- */

static int part_of_qkv(const char *word)
{
    return whatif_lists("W_Q W_K W_V", word, strlen(word));
}

/* Whether the hidden tensors are all there; of a fused bias, its parts are. */
static int is_hidden(const struct whatif *w, const char *names)
{
    int fused = whatif_has(w, "W_QKV.bias", 10, "");
    for (const char *at = names; *at && *at != '='; at += strcspn(at, " ="), at += *at == ' ') {
        size_t n = strcspn(at, " =");
        int part = n == 8 && whatif_lists("W_Q.bias W_K.bias W_V.bias", at, n);
        if (!whatif_has(w, at, n, "") && !(fused && part))
            return 0;
    }
    return 1;
}

static int has_first(const struct whatif *w, const struct whatif_edit *e, const char *kind)
{
    return whatif_has(w, e->names, strcspn(e->names, " ="), kind);
}

static int has_both(const struct whatif *w, const struct whatif_edit *e, const char *kind)
{
    return has_first(w, e, kind) && whatif_has(w, e->other, strlen(e->other), kind);
}

/* Whether `names` and `other` are tensors, or parts of one matrix. */
static int swap_applies(const struct whatif *w, const struct whatif_edit *e, const char *kind)
{
    int equal = w->spec.n_head == w->spec.n_head_kv || strcmp(e->names, "W_Q") != 0;
    if (e->b && !(w->spec.n_layer && w->layers[0].stored == ORACLE_PAIRS))
        return 0;
    if (equal && whatif_has(w, "W_QKV", 5, kind) && part_of_qkv(e->names) && part_of_qkv(e->other))
        return 1;
    if (!e->kind && strcmp(e->names, "W_gate") == 0 && whatif_mlp_is_fused(w))
        return 1;
    return has_both(w, e, kind);
}

/* Whether an ORDER_ edit has rows or heads to reorder. */
static int order_applies(const struct whatif *w, const struct whatif_edit *e)
{
    switch (e->change) {
    case ORDER_BY_TWOS: /* of two, the reverse is the same */
        return (whatif_lists(e->names, "W_Q", 3) || whatif_lists(e->names, "W_O", 3)
                    ? w->spec.n_head
                    : w->spec.n_head_kv) > 2;
    case ORDER_ROW_NEXT:
    case ORDER_ROW_PREVIOUS:
    case ORDER_HALVES:
    case ORDER_BACKWARDS:
    case ORDER_ROW_OTHER:
        return whatif_has_matrix(w, e->names);
    case ORDER_QKV_AXES:
    case ORDER_QKV_ROLLED:
        return whatif_has_matrix(w, "W_QKV") && w->spec.n_head == w->spec.n_head_kv;
    case ORDER_TO_PAIRS:
    case ORDER_FROM_PAIRS:
    case ORDER_REBLOCKED:
    case ORDER_UNBLOCKED:
        return w->spec.n_layer > 0 && w->spec.n_rot > 2 &&
               (!e->kind || has_first(w, e, e->kind) || whatif_has(w, "W_QKV", 5, e->kind));
    default:
        return w->spec.n_layer > 0 && w->spec.n_head > 1;
    }
}

/* Whether the tensors of the edit exist. */
static int edit_applies(const struct whatif *w, const struct whatif_edit *e)
{
    const char *kind = e->kind ? e->kind : ".weight";
    switch (e->change) {
    case TENSORS_SWAPPED:
        return swap_applies(w, e, kind);
    case TENSOR_HIDDEN:
        return is_hidden(w, e->names);
    case LAYERS_SHARED:
        return w->spec.n_layer > 1 && whatif_has_matrix(w, e->names);
    case ROWS_INTERLEAVED:
        return whatif_mlp_is_fused(w) ||
               (whatif_has_matrix(w, "W_gate") && whatif_has_matrix(w, "W_up") &&
                (w->spec.n_ff > 1 || w->spec.n_ff_expert > 1));
    case TENSORS_QUANTISED:
        return w->spec.n_layer > 0;
    case LAYERS_MOVED:
        return w->spec.n_layer > 1 && (!e->names || whatif_has_matrix(w, e->names));
    case TENSORS_COPIED:
        return has_both(w, e, kind);
    case TENSORS_ZERO:
    case TENSORS_SCALED:
        return !*e->names || has_first(w, e, kind);
    case TENSOR_OF_LAYER:
        return whatif_has_matrix(w, e->names);
    case QKV_GROUPED:
        return whatif_has_matrix(w, "W_Q") ||
               (whatif_has_matrix(w, "W_QKV") && w->spec.n_head != w->spec.n_head_kv);
    case EXPERTS_MOVED:
    case EXPERTS_SWAPPED:
        return w->spec.n_expert > 1;
    case LAYERS_SWAPPED:
    case LAYER_OTHER:
        return 1;
    case GAINS_SHIFTED:
        return e->names ? whatif_has_matrix(w, e->names)
                        : whatif_has_matrix(w, "ln1") || whatif_has_matrix(w, "ln_final");
    case TENSORS_TRANSPOSED:
        return whatif_has_matrix(w, e->names) &&
               (!e->b || (w->spec.n_layer > 0 && w->layers[0].stored == ORACLE_PAIRS));
    default:
        return order_applies(w, e);
    }
}

int edit_tensors(struct whatif *w, const struct whatif_edit *e, int layer)
{
    int from_a = e->change == TENSOR_OF_LAYER || e->change == LAYER_OTHER;
    w->begins = from_a ? e->a : 0;
    w->edit = *e;
    w->layer = layer;
    w->heads = e->change >= ORDER_TO_PAIRS && e->change <= ORDER_UNBLOCKED ? (size_t)e->a : 0;
    return edit_applies(w, e);
}
