/* Models that are not. See whatif.h. */
#include "check/explain/whatif.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "blk.3.attn_q.weight": layer 3, stem "attn_q", kind ".weight". */
struct parts {
    int layer;
    const char *stem, *kind;
    size_t n_stem;
};

static struct parts split(const char *name)
{
    struct parts p = {-1, name, "", 0};
    if (strncmp(name, "blk.", 4) == 0) {
        p.layer = 0;
        for (p.stem = name + 4; *p.stem >= '0' && *p.stem <= '9'; p.stem++)
            p.layer = p.layer * 10 + (*p.stem - '0');
        p.stem += *p.stem == '.';
    }
    const char *dot = strchr(p.stem, '.');
    p.n_stem = dot ? (size_t)(dot - p.stem) : strlen(p.stem);
    p.kind = p.stem + p.n_stem;
    return p;
}

int whatif_lists(const char *list, const char *name, size_t n)
{
    for (const char *at = list; at && *at;) {
        size_t word = strcspn(at, " ");
        if (word == n && memcmp(at, name, n) == 0)
            return 1;
        at += word + (at[word] == ' ');
    }
    return 0;
}

static int concerns(const struct whatif *w, struct parts p)
{
    return w->layer < 0 || p.layer < 0 || p.layer == w->layer;
}

/* ---- names ------------------------------------------------------------------------------------- */

static int layer_read(const struct whatif *w, int layer)
{
    int n = (int)w->spec.n_layer;
    if (w->layer_step == -n)
        return n - 1 - layer;
    return ((layer + w->layer_step) % n + n) % n;
}

/* The name that stands in the file for what the pass calls `name`. */
static void file_name(const struct whatif *w, const char *name, char *out, size_t cap)
{
    struct parts p = split(name);
    const char *stem = p.stem;
    size_t n = p.n_stem;
    for (int i = 0; i < 2 && concerns(w, p); i++)
        if (w->swap[i] && whatif_lists(w->swap[i], p.stem, p.n_stem)) {
            stem = w->swap[!i];
            n = strlen(stem);
        }
    if (p.layer < 0)
        text_format(out, cap, "%.*s%s", (int)n, stem, p.kind);
    else
        text_format(out, cap, "blk.%d.%.*s%s", layer_read(w, p.layer), (int)n, stem, p.kind);
}

static int hidden(const struct whatif *w, const char *name)
{
    struct parts p = split(name);
    return w->hide && concerns(w, p) && strcmp(w->hide, p.stem) == 0;
}

static const struct whatif_tensor *given(const struct whatif *w, const char *name)
{
    const struct whatif_tensor *t = w->given;
    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static enum oracle_tensor whatif_find(void *user, const char *name)
{
    const struct whatif *w = user;
    char other[80];
    file_name(w, name, other, sizeof other);
    if (given(w, name))
        return ORACLE_FLOATS;
    return hidden(w, name) ? ORACLE_ABSENT : w->source.find(w->source.user, other);
}

/* ---- order ------------------------------------------------------------------------------------- */

static size_t order_head(const struct whatif *w, size_t h, size_t n)
{
    size_t groups = w->spec.n_head_kv, each = n / groups ? n / groups : 1;
    switch (w->order) {
    case ORDER_REVERSED:
        return n - 1 - h;
    case ORDER_NEXT:
        return (h + 1) % n;
    case ORDER_PREVIOUS:
        return (h + n - 1) % n;
    case ORDER_GROUPED:
        return h % each * groups + h / each;
    case ORDER_UNGROUPED:
        return h % groups * each + h / groups;
    case ORDER_SWAPPED:
        if (h == (size_t)w->a)
            return (size_t)w->b;
        return h == (size_t)w->b ? (size_t)w->a : h;
    default:
        return h;
    }
}

/* Where row `row` is when a converter took heads for `block` wide: back to the checkpoint's order in heads of
 * the width that is tried, and from there as the converter went. */
static size_t reblocked(const struct whatif *w, size_t row)
{
    size_t d = w->spec.head_dim, b = w->block, j = row % d, i;
    if (w->layers[0].stored == ORACLE_EXCHANGED) {
        row = row - j + (j + d / 2) % d;
        return row - row % b + (row % b + b / 2) % b;
    }
    row = row - j + j / 2 + j % 2 * (d / 2);
    i = row % b;
    return row - i + (i < b / 2 ? 2 * i : 2 * (i - b / 2) + 1);
}

/* The same of rows of q, k and v that stood head by head. */
static size_t regrouped(const struct whatif *w, size_t row)
{
    size_t d = w->spec.head_dim, n = w->spec.n_head * d, b = w->block;
    size_t at = (row % n / d * 3 + row / n) * d + row % d;
    return at % (3 * b) / b * n + at / (3 * b) * b + at % b;
}

static size_t order_row(const struct whatif *w, size_t row, size_t n_heads)
{
    size_t d = w->spec.head_dim, half = w->spec.n_rot / 2, h = row / d, j = row % d;
    if (w->order == ORDER_REBLOCKED)
        return reblocked(w, row);
    if (w->order == ORDER_TO_PAIRS && j < 2 * half)
        j = j % 2 ? j / 2 + half : j / 2;
    else if (w->order == ORDER_FROM_PAIRS && j < 2 * half)
        j = j < half ? 2 * j : 2 * (j - half) + 1;
    return order_head(w, h, n_heads) * d + j;
}

/* Row `row` of q, k and v in one: the list says which of the three are ordered. */
static size_t order_fused(const struct whatif *w, size_t row)
{
    size_t d = w->spec.head_dim, H = w->spec.n_head, G = w->spec.n_head_kv;
    size_t first[4] = {0, H * d, (H + G) * d, (H + 2 * G) * d}, part = 0;
    static const char *const names[3] = {"attn_q", "attn_k", "attn_v"};
    static const size_t turns[2][3] = {{1, 2, 0}, {2, 0, 1}};
    if (w->order == ORDER_QKV_NEXT || w->order == ORDER_QKV_PREVIOUS)
        return H == G ? turns[w->order == ORDER_QKV_PREVIOUS][row / (H * d)] * H * d + row % (H * d)
                      : row;
    if (w->order == ORDER_REGROUPED)
        return regrouped(w, row);
    if (w->order == ORDER_QKV_BY_HEAD)
        return H == G ? (row % (H * d) / d * 3 + row / (H * d)) * d + row % d : row;
    while (part < 2 && row >= first[part + 1])
        part++;
    for (size_t i = 0; i < 3 && w->swap[0]; i++)
        for (int j = 0; j < 2; j++)
            if (strcmp(w->swap[j], names[part]) == 0 && strcmp(w->swap[!j], names[i]) == 0)
                return first[i] + row - first[part];
    if (!whatif_lists(w->ordered, names[part], strlen(names[part])))
        return row;
    return first[part] + order_row(w, row - first[part], part ? G : H);
}

/* Whether rows of projections stand elsewhere than they should: by heads, or q, k and v as a whole. */
static int moves_rows(const struct whatif *w)
{
    return (w->order != ORDER_SAME && w->order < ORDER_ROW_NEXT) || w->swap[0];
}

static size_t file_row(const struct whatif *w, struct parts p, size_t row)
{
    if (!moves_rows(w) || !concerns(w, p) || p.layer < 0)
        return row;
    if (p.n_stem == 8 && memcmp(p.stem, "attn_qkv", 8) == 0)
        return order_fused(w, row);
    if ((w->order >= ORDER_QKV_BY_HEAD && w->order <= ORDER_QKV_PREVIOUS) ||
        w->order == ORDER_REGROUPED || !whatif_lists(w->ordered, p.stem, p.n_stem))
        return row;
    int query = p.n_stem == 6 && memcmp(p.stem, "attn_q", 6) == 0;
    return order_row(w, row, query ? w->spec.n_head : w->spec.n_head_kv);
}

/* ---- values ------------------------------------------------------------------------------------ */

/* Row `row` of a matrix that stands in the file with its columns as rows. */
static int read_turned(struct whatif *w, const char *name, size_t row, size_t n, float *out,
                       mgpt_error *err)
{
    mgpt_tensor t;
    if (!oracle_tensor_find(w->model, name, &t) || t.dims[0] != n || row >= t.dims[1])
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%.60s cannot be turned", name);
    size_t n_rows = (size_t)t.dims[1];
    if (strcmp(w->matrix_name, name) != 0) {
        free(w->matrix);
        w->matrix_name[0] = 0;
        w->matrix = mem_new(n_rows * n, sizeof *w->matrix);
        if (!w->matrix)
            return err_memory(err, name, n_rows * n * sizeof *w->matrix);
        int status = mgpt_read_tensor(w->model, name, 0, n_rows * n, w->matrix, err);
        if (status < 0)
            return status;
        text_format(w->matrix_name, sizeof w->matrix_name, "%s", name);
    }
    for (size_t i = 0; i < n; i++)
        out[i] = w->matrix[i * n_rows + row];
    return MGPT_OK;
}

/* The first n values of a vector, each from where its row is. */
static int read_vector(struct whatif *w, const char *name, struct parts p, size_t n_all, size_t n,
                       float *out, mgpt_error *err)
{
    float *all = mem_new(n_all, sizeof *all);
    if (!all)
        return err_memory(err, name, n_all * sizeof *all);
    int status = w->source.read(w->source.user, name, 0, n_all, all, err);
    for (size_t i = 0; i < n && status == MGPT_OK; i++) {
        size_t at = file_row(w, p, i);
        out[i] = all[at < n_all ? at : i];
    }
    free(all);
    return status;
}

/* Attention's output takes the heads' columns in another order. */
static void order_columns(const struct whatif *w, size_t n, float *row)
{
    float *copy = mem_new(n, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        copy[i] = row[i];
    for (size_t i = 0; copy && i < n; i++)
        row[i] = copy[order_row(w, i, w->spec.n_head)];
    free(copy);
}

static int whatif_is_norm(struct parts p)
{
    return p.n_stem > 5 && memcmp(p.stem + p.n_stem - 5, "_norm", 5) == 0 &&
           strcmp(p.kind, ".weight") == 0;
}

static size_t next_row(enum whatif_order order, size_t row, size_t n)
{
    return order == ORDER_ROW_NEXT ? (row + 1) % n : (row + n - 1) % n;
}

struct moved {
    size_t row;
    double times;
};

static struct moved moved_row(const struct whatif *w, const char *name, size_t row)
{
    const struct whatif_columns *c = w->columns;
    if (!c || strcmp(c->tensor, name) != 0 || row < c->first || row - c->first >= c->n)
        return (struct moved){row, 1};
    return (struct moved){c->first + c->from[row - c->first], c->times[row - c->first]};
}

static int whatif_read_values(void *user, const char *called, size_t row, size_t n, float *out,
                              mgpt_error *err)
{
    struct whatif *w = user;
    struct parts p = split(called);
    char name[80];
    int status, weight = strcmp(p.kind, ".weight") == 0, mine = concerns(w, p);
    const struct whatif_tensor *instead = given(w, called);
    if (instead && (row + 1) * n > instead->n)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%.60s has another shape", called);
    if (instead) {
        memcpy(out, instead->values + row * n, n * sizeof *out);
        return MGPT_OK;
    }
    file_name(w, called, name, sizeof name);
    mgpt_tensor t;
    if (!oracle_tensor_find(w->model, name, &t) || n > t.dims[0] || (row && t.dims[0] != n))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%.60s has another shape", name);
    if (w->order >= ORDER_ROW_NEXT && weight && mine && t.n_dims > 1 &&
        whatif_lists(w->ordered, p.stem, p.n_stem))
        row = next_row(w->order, row, (size_t)t.dims[1]);
    struct moved moved = moved_row(w, called, row);
    row = moved.row;
    if (weight && mine && whatif_lists(w->turn, p.stem, p.n_stem))
        status = read_turned(w, name, file_row(w, p, row), n, out, err);
    else if (t.n_dims == 1 && moves_rows(w) && !whatif_is_norm(p))
        status = read_vector(w, name, p, (size_t)t.dims[0], n, out, err);
    else
        status = w->source.read(w->source.user, name, t.n_dims == 1 ? 0 : file_row(w, p, row), n,
                                out, err);
    if (status == MGPT_OK && weight && mine && w->order != ORDER_SAME &&
        w->order < ORDER_ROW_NEXT && p.layer >= 0 && p.n_stem == 11 &&
        whatif_lists(w->ordered, "attn_output", 11) && memcmp(p.stem, "attn_output", 11) == 0)
        order_columns(w, n, out);
    for (size_t i = 0; status == MGPT_OK && moved.times != 1 && i < n; i++)
        out[i] *= (float)moved.times;
    for (size_t i = 0; status == MGPT_OK && w->gain != 0 && whatif_is_norm(p) && i < n; i++)
        out[i] += (float)w->gain;
    if (w->patched && strcmp(w->patched, name) == 0 && w->patch_at / n == row)
        out[w->patch_at % n] = w->patch;
    return status;
}

/* ---- points ------------------------------------------------------------------------------------ */

static void log_softmax(double *row, size_t n)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, row[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp(row[i] - most);
    for (size_t i = 0; i < n; i++)
        row[i] -= most + log(sum);
}

void whatif_edit(const struct whatif *w, mgpt_point point, int layer, double *row, size_t n,
                 double *scratch)
{
    const struct whatif_columns *c = w->columns;
    if (!c || c->tensor[0] || c->point != point || c->layer != layer)
        return;
    if (c->log_softmax) {
        log_softmax(row, n);
        return;
    }
    if (c->n != n)
        return;
    memcpy(scratch, row, n * sizeof *row);
    for (size_t i = 0; i < n; i++)
        row[i] = c->times[i] * scratch[c->from[i]];
}

/* ---- life -------------------------------------------------------------------------------------- */

int whatif_open(struct whatif *w, const mgpt_model *model, const int32_t *tokens, size_t n,
                mgpt_error *err)
{
    *w = (struct whatif){.model = model, .layer = -1, .tokens = tokens, .n = n};
    int status = mgpt_get_info(model, &w->info, err);
    if (status == MGPT_OK)
        status = oracle_describe(model, &w->spec, &w->layers, err);
    if (status != MGPT_OK)
        return status;
    size_t half = w->spec.n_rot / 2;
    w->freq = mem_new(w->spec.n_layer * half, sizeof *w->freq);
    w->storage = mem_new(n + 1, sizeof *w->storage);
    if (!w->freq || !w->storage) {
        whatif_close(w);
        return err_memory(err, "a variant", w->spec.n_layer * half * sizeof *w->freq);
    }
    for (size_t i = 0; i < w->spec.n_layer; i++)
        if (w->layers[i].freq) {
            memcpy(w->freq + i * half, w->layers[i].freq, half * sizeof *w->freq);
            w->layers[i].freq = w->freq + i * half;
        }
    w->source = w->spec.source;
    w->spec.source = (struct oracle_source){whatif_find, whatif_read_values, w};
    w->spec.int8_inputs = 0; /* the reference has no such thing */
    return MGPT_OK;
}

void whatif_close(struct whatif *w)
{
    free(w->layers);
    free(w->freq);
    free(w->storage);
    free(w->matrix);
    w->layers = NULL;
    w->freq = NULL;
    w->storage = NULL;
    w->matrix = NULL;
}
