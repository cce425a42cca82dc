/* Models with one thing changed. See whatif.h. */
#include "check/explain/whatif_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tensor_name split_name(const struct whatif *w, const char *name)
{
    struct tensor_name p = {.stem = name};
    p.layer = oracle_layer_of(name, &p.stem);
    const char *dot = strchr(p.stem, '.');
    p.n_stem = dot ? (size_t)(dot - p.stem) : strlen(p.stem);
    p.kind = p.stem + p.n_stem;
    p.role = oracle_role_of(w->model, p.layer, p.stem, p.n_stem);
    return p;
}

int whatif_lists(const char *list, const char *name, size_t n)
{
    for (const char *at = list; at && *at && *at != '=';) {
        size_t word = strcspn(at, " =");
        if (word == n && memcmp(at, name, n) == 0)
            return 1;
        at += word + (at[word] == ' ');
    }
    return 0;
}

static int is_weight(struct tensor_name p)
{
    return strcmp(p.kind, ".weight") == 0;
}

static int is_gain(struct tensor_name p)
{
    return p.n_stem > 5 && memcmp(p.stem + p.n_stem - 5, "_norm", 5) == 0 && is_weight(p);
}

int whatif_changes(const struct whatif *w, struct tensor_name p, enum whatif_change change)
{
    return w->edit.change == change && (w->layer < 0 || p.layer < 0 || p.layer == w->layer) &&
           (!w->edit.kind || strcmp(w->edit.kind, p.kind) == 0);
}

/* ---- names ------------------------------------------------------------------------------------- */

static int file_layer(const struct whatif *w, int layer)
{
    int n = (int)w->spec.n_layer;
    if (w->edit.change == LAYER_OTHER)
        return layer == w->edit.a ? w->edit.b : layer;
    if (w->edit.change == LAYERS_SWAPPED && (layer == w->edit.a || layer == w->edit.b))
        return w->edit.a + w->edit.b - layer;
    if (w->edit.change != LAYERS_MOVED)
        return layer;
    return w->edit.a ? (layer + w->edit.a + n) % n : n - 1 - layer;
}

/* The row of gate, or (from n on) of up, that row `row` of gate or up is read from: the one matrix
 * of both has their rows in turn, in the file or in the reference. */
static size_t interleaved_row(const struct whatif *w, int up, size_t row, size_t n)
{
    size_t at = row + (up ? n : 0);
    return w->edit.a ? at % 2 * n + at / 2 : row * 2 + (size_t)up;
}

/* The name of the tensor of another role, of experts where p is; `word` may be a list. */
static void role_name(const struct whatif *w, struct tensor_name p, int layer, const char *word,
                      char out[ORACLE_NAME])
{
    int role = oracle_role_of_word(word, strcspn(word, " ="));
    if (whatif_is_of_experts(p))
        role += MGPT_EXPERTS_GATE - MGPT_W_GATE;
    oracle_model_name(w->model, layer, role, p.kind, out);
}

/* The file's name of the tensor that the pass calls `name`. */
static void file_name(const struct whatif *w, const char *name, char out[ORACLE_NAME])
{
    const struct whatif_edit *e = &w->edit;
    struct tensor_name p = split_name(w, name);
    int named = e->names && whatif_is_listed(e->names, p), layer = file_layer(w, p.layer);
    int swapped = whatif_changes(w, p, TENSORS_SWAPPED) && !whatif_swaps_halves(w, p);
    const char *as = NULL;
    if (named && (swapped || whatif_changes(w, p, TENSORS_COPIED)))
        as = e->other;
    else if (swapped && whatif_is_listed(e->other, p))
        as = e->names;
    if (e->change == LAYERS_SHARED && named)
        layer = e->a < 0 ? (int)w->spec.n_layer - 1 : e->a;
    if (e->change == LAYERS_MOVED && e->names && !named)
        layer = p.layer;
    if (e->change == TENSOR_OF_LAYER && p.layer == e->a && named)
        layer = e->b;
    layer = p.layer < 0 ? -1 : layer;
    if (as)
        role_name(w, p, layer, as, out);
    else
        oracle_name(out, layer, p.stem, "");
}

static const struct whatif_tensor *given_tensor(const struct whatif *w, const char *name)
{
    const struct whatif_tensor *t = w->edit.given;
    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static enum oracle_tensor whatif_find(void *user, const char *name)
{
    const struct whatif *w = user;
    struct tensor_name p = split_name(w, name);
    char other[ORACLE_NAME], word[ORACLE_NAME];
    file_name(w, name, other);
    text_format(word, sizeof word, "%s%s", p.role < 0 ? "" : oracle_word(p.role), p.kind);
    if (given_tensor(w, name))
        return ORACLE_FLOATS;
    if (whatif_changes(w, p, TENSOR_HIDDEN) &&
        (!*w->edit.names || whatif_lists(w->edit.names, word, strlen(word))))
        return ORACLE_ABSENT;
    return w->source.find(w->source.user, other);
}

/* ---- values ------------------------------------------------------------------------------------ */

/* Row `row` of a matrix that the file has transposed. */
static int read_transposed(struct whatif *w, const char *name, struct tensor_name p, size_t row,
                           size_t n, float *out, mgpt_error *err)
{
    mgpt_tensor t;
    struct oracle_head_sizes heads = oracle_head_sizes(&w->spec, p.layer);
    size_t d = heads.width, n_rot = heads.rot;
    if (!oracle_tensor_find(w->model, name, &t) || t.dims[0] != n || row >= t.dims[1] ||
        (w->edit.b && (n % d || t.dims[1] % d)))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%.60s cannot be transposed", name);
    size_t n_rows = (size_t)t.dims[1];
    if (strcmp(w->matrix_name, name) != 0) {
        free(w->matrix);
        w->matrix_name[0] = 0;
        w->matrix = mem_new(n_rows * n, sizeof *w->matrix);
        if (!w->matrix)
            return err_memory(err, name, n_rows * n * sizeof *w->matrix);
        for (size_t r = 0; r < n_rows; r++) {
            int status = w->source.read(w->source.user, name, r, n, w->matrix + r * n, err);
            if (status < 0)
                return status;
        }
        text_format(w->matrix_name, sizeof w->matrix_name, "%s", name);
    }
    /* with `b`, transposed before a converter permuted the rows */
    row = w->edit.b ? whatif_permuted(row, d, n_rot) : row;
    for (size_t i = 0; i < n; i++)
        out[i] = w->matrix[(w->edit.b ? whatif_unpermuted(i, d, n_rot) : i) * n_rows + row];
    return MGPT_OK;
}

/* Reads the first n values of a vector. Each comes from the row that the edit moves to its place. */
static int read_vector(struct whatif *w, const char *name, struct tensor_name p, size_t n_all,
                       size_t n, float *out, mgpt_error *err)
{
    float *all = mem_new(n_all, sizeof *all);
    if (!all)
        return err_memory(err, name, n_all * sizeof *all);
    int status = w->source.read(w->source.user, name, 0, n_all, all, err);
    for (size_t i = 0; i < n && status == MGPT_OK; i++) {
        size_t at = whatif_projection_row(w, p, i);
        out[i] = all[at < n_all ? at : i];
    }
    free(all);
    return status;
}

/* Attention's output takes the heads' columns in another order. */
static void order_columns(const struct whatif *w, int layer, size_t n, float *row)
{
    float *copy = mem_new(n, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        copy[i] = row[i];
    for (size_t i = 0; copy && i < n; i++) {
        size_t at = whatif_head_column(w, layer, i);
        row[i] = copy[at < n ? at : i];
    }
    free(copy);
}

/* Row `row` of the file's tensor, or what takes its place. */
static int read_row_as(struct whatif *w, const char *name, struct tensor_name p, size_t row,
                       size_t n, float *out, mgpt_error *err)
{
    mgpt_tensor t;
    if (w->edit.change == TENSORS_AS_THEY_ARE)
        return w->source.read(w->source.user, name, row, n, out, err);
    if (!oracle_tensor_find(w->model, name, &t) || n > t.dims[0] || (row && t.dims[0] != n))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%.60s has another shape", name);
    if (whatif_changes(w, p, TENSORS_TRANSPOSED) && is_weight(p) &&
        whatif_is_listed(w->edit.names, p))
        return read_transposed(w, name, p, row, n, out, err);
    if (t.n_dims == 1 && whatif_moves_rows(w) && !is_gain(p))
        return read_vector(w, name, p, (size_t)t.dims[0], n, out, err);
    size_t at = t.n_dims == 1 ? 0 : whatif_matrix_row(w, p, row, (size_t)(t.dims[1] * t.dims[2]));
    int status = w->source.read(w->source.user, name, at, n, out, err);
    if (status == MGPT_OK && whatif_moves_rows(w) && whatif_changes(w, p, w->edit.change) &&
        is_weight(p) && whatif_is_listed("W_O", p) && whatif_is_listed(w->edit.names, p) &&
        w->edit.change != TENSORS_SWAPPED)
        order_columns(w, p.layer, n, out);
    return status;
}

/* q, k or v of a fused bias is zero where it is hidden. */
static void hide_parts(const struct whatif *w, int layer, size_t n, float *out)
{
    static const char *const biases[3] = {"W_Q.bias", "W_K.bias", "W_V.bias"};
    size_t first[4];
    whatif_qkv_parts(w, layer, first);
    for (size_t part = 0; part < 3; part++)
        if (whatif_lists(w->edit.names, biases[part], strlen(biases[part])))
            for (size_t i = first[part]; i < first[part + 1] && i < n; i++)
                out[i] = 0;
}

/* Row `row` of another tensor, where rows of tensors are mixed. 0: they are not. */
static int mixed_row(const struct whatif *w, struct tensor_name p, size_t *row,
                     char name[ORACLE_NAME])
{
    static const char *const qkv[3] = {"W_Q", "W_K", "W_V"};
    if (!is_weight(p))
        return 0;
    if (whatif_changes(w, p, ROWS_INTERLEAVED) && !whatif_mlp_is_fused(w) &&
        whatif_is_listed("W_gate W_up", p)) {
        int of = whatif_is_of_experts(p);
        size_t n = of ? w->spec.n_ff_expert : w->spec.n_ff;
        size_t at = interleaved_row(w, p.role == (of ? MGPT_EXPERTS_UP : MGPT_W_UP), *row % n, n);
        role_name(w, p, p.layer, at >= n ? "W_up" : "W_gate", name);
        *row += at % n - *row % n;
        return 1;
    }
    for (size_t part = 0; part < 3 && whatif_changes(w, p, QKV_GROUPED); part++)
        if (whatif_is_listed(qkv[part], p)) {
            *row = whatif_grouped_row(w, p.layer, &part, *row);
            role_name(w, p, p.layer, qkv[part], name);
            return 1;
        }
    return 0;
}

/* What the values of a tensor are multiplied with. */
static double tensor_times(const struct whatif *w, struct tensor_name p)
{
    if (!whatif_is_listed(w->edit.names, p) && !(w->edit.kind && w->edit.names && !*w->edit.names))
        return 1;
    if (whatif_changes(w, p, TENSORS_ZERO))
        return 0;
    return whatif_changes(w, p, TENSORS_SCALED) ? w->edit.x : 1;
}

/* The bit of TENSORS_QUANTISED that a matrix has. */
static int quantised_bit(struct tensor_name p)
{
    return p.layer >= 0 ? 0 : whatif_is_listed("W_U", p) ? 1 : whatif_is_listed("W_E", p) ? 2 : 3;
}

static int whatif_read(void *user, const char *called, size_t row, size_t n, float *out,
                       mgpt_error *err)
{
    struct whatif *w = user;
    const struct whatif_tensor *given = given_tensor(w, called);
    const struct whatif_columns *c = w->edit.columns;
    struct tensor_name p = split_name(w, called);
    int shifted = w->edit.change == GAINS_SHIFTED && is_gain(p) &&
                  (!w->edit.names || whatif_is_listed(w->edit.names, p));
    double times = tensor_times(w, p), more = shifted ? w->edit.x : 0;
    if (given && (row + 1) * n > given->n)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "%.60s has another shape", called);
    if (given) {
        memcpy(out, given->values + row * n, n * sizeof *out);
        return MGPT_OK;
    }
    if (c && strcmp(c->tensor, called) == 0 && row >= c->first && row - c->first < c->n) {
        times = c->times[row - c->first];
        row = c->first + c->from[row - c->first];
    }
    if (mixed_row(w, p, &row, w->file_name)) {
        w->called[0] = 0;
        return w->source.read(w->source.user, w->file_name, row, n, out, err);
    }
    if (strcmp(w->called, called) != 0) {
        file_name(w, called, w->file_name);
        oracle_name(w->called, -1, called, "");
    }
    int status = read_row_as(w, w->file_name, p, row, n, out, err);
    for (size_t i = 0; status == MGPT_OK && (times != 1 || more != 0) && i < n; i++)
        out[i] = out[i] * (float)times + (float)more;
    if (status == MGPT_OK && whatif_changes(w, p, TENSORS_QUANTISED) && is_weight(p) &&
        !is_gain(p) && w->edit.b >> quantised_bit(p) & 1)
        whatif_quantise(&w->edit, out, n);
    if (status == MGPT_OK && whatif_changes(w, p, TENSOR_HIDDEN) && p.role == ORACLE_W_QKV &&
        strcmp(p.kind, ".bias") == 0)
        hide_parts(w, p.layer, n, out);
    return status;
}

/* Whether a matrix's rows are those of the file's matrix of its name (file_name), in its order. */
static int has_its_rows(const struct whatif *w, struct tensor_name p)
{
    enum whatif_change change = w->edit.change;
    const char *unnamed =
        change == QKV_GROUPED ? "W_QKV W_Q W_K W_V" : "W_QKV experts_gate experts_up experts_down";
    switch (change) {
    case TENSORS_AS_THEY_ARE:
    case TENSOR_HIDDEN:
    case LAYERS_MOVED:
    case LAYERS_SWAPPED:
    case LAYER_OTHER:
    case LAYERS_SHARED:
    case TENSORS_COPIED:
    case TENSOR_OF_LAYER:
        return 1;
    case TENSORS_SWAPPED:
        return !w->edit.b && !whatif_is_listed(unnamed, p) && !whatif_swaps_halves(w, p);
    case TENSORS_QUANTISED:
        return 0;
    case TENSORS_ZERO:
    case TENSORS_SCALED:
        return tensor_times(w, p) == 1;
    default:
        return !whatif_changes(w, p, change) ||
               !(whatif_is_listed(w->edit.names, p) || whatif_is_listed(unnamed, p));
    }
}

static const float *whatif_rows(void *user, const char *called, size_t row, size_t n_rows, size_t n)
{
    const struct whatif *w = user;
    const struct whatif_columns *c = w->edit.columns;
    struct tensor_name p = split_name(w, called);
    char name[ORACLE_NAME];
    mgpt_tensor t;
    if (!w->source.rows || given_tensor(w, called) || (c && strcmp(c->tensor, called) == 0) ||
        !has_its_rows(w, p))
        return NULL;
    file_name(w, called, name);
    if (w->edit.change != TENSORS_AS_THEY_ARE &&
        (!oracle_tensor_find(w->model, name, &t) || t.dims[0] != n))
        return NULL;
    return w->source.rows(w->source.user, name, row, n_rows, n);
}

static void whatif_name(void *user, int layer, int role, const char *kind, char name[ORACLE_NAME])
{
    const struct whatif *w = user;
    oracle_model_name(w->model, layer, role, kind, name);
}

/* ---- life -------------------------------------------------------------------------------------- */

/* Copies the frequencies of `layers`, which are w's from now on. */
static int take_layers(struct whatif *w, size_t n, mgpt_error *err)
{
    size_t half = w->spec.n_rot / 2;
    w->freq = mem_new(w->spec.n_layer * half, sizeof *w->freq);
    w->storage = mem_new(n + PADDING_MOST, sizeof *w->storage);
    if (!w->freq || !w->storage)
        return err_memory(err, "a variant", w->spec.n_layer * half * sizeof *w->freq);
    for (size_t i = 0; i < w->spec.n_layer; i++)
        if (w->layers[i].freq) {
            memcpy(w->freq + i * half, w->layers[i].freq, half * sizeof *w->freq);
            w->layers[i].freq = w->freq + i * half;
        }
    w->spec.layers = w->layers;
    w->spec.source = (struct oracle_source){whatif_find, whatif_read, w, whatif_rows, whatif_name};
    return MGPT_OK;
}

int whatif_open(struct whatif *w, const mgpt_model *model, const int32_t *tokens, size_t n,
                mgpt_error *err)
{
    *w = (struct whatif){.model = model, .layer = -1, .tokens = tokens, .n = n};
    int status = mgpt_get_info(model, &w->info, err);
    if (status == MGPT_OK)
        status = oracle_describe(model, &w->spec, &w->layers, err);
    if (status != MGPT_OK)
        return status;
    w->spec.final_shown = w->spec.final_norm; /* where the reference has a value of it */
    w->spec.int8_inputs = 0;                  /* the reference does not quantise activations */
    w->memo = oracle_memo_new(model, w->spec.source, err);
    status = w->memo ? take_layers(w, n, err) : MGPT_EMEM;
    if (status == MGPT_OK)
        w->source = oracle_memo_source(w->memo);
    if (status != MGPT_OK)
        whatif_close(w);
    return status;
}

int whatif_over(struct whatif *w, const struct whatif *base, size_t n, mgpt_error *err)
{
    n = n < base->n ? n : base->n;
    *w = (struct whatif){.model = base->model,
                         .info = base->info,
                         .spec = base->spec,
                         .layer = -1,
                         .tokens = base->tokens,
                         .n = n,
                         .n_more = base->n - n + base->n_more,
                         .offset = base->offset,
                         .block = base->block,
                         .base = base};
    w->source = base->base ? base->spec.source : base->source;
    w->layers = mem_new(base->spec.n_layer, sizeof *w->layers);
    if (!w->layers)
        return err_memory(err, "a variant", base->spec.n_layer * sizeof *w->layers);
    if (base->spec.n_layer)
        memcpy(w->layers, base->layers, base->spec.n_layer * sizeof *w->layers);
    int status = take_layers(w, n, err);
    if (status != MGPT_OK)
        whatif_close(w);
    return status;
}

void whatif_close(struct whatif *w)
{
    oracle_memo_free(w->memo);
    free(w->layers);
    free(w->freq);
    free(w->storage);
    free(w->places);
    free(w->turned);
    free(w->matrix);
    *w = (struct whatif){0};
}
