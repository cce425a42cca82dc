/* See input_sums.h. */
#include "imatrix/input_sums.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>

/* What goes into experts, and into their last matrices. */
enum { INTO_EXPERTS = MGPT_N_POINTS, INTO_EXPERTS_DOWN };

/* clang-format off */
static const struct {
    mgpt_role role;
    int32_t point;
} rows[] = {
    {MGPT_W_Q, MGPT_ATTN_IN},
    {MGPT_W_Q_DOWN, MGPT_ATTN_IN},
    {MGPT_W_KV_DOWN, MGPT_ATTN_IN},
    {MGPT_W_K, MGPT_ATTN_IN},
    {MGPT_W_V, MGPT_ATTN_IN},
    {MGPT_HEAD_GATE, MGPT_ATTN_IN},
    {MGPT_W_O, MGPT_HEADS},
    {MGPT_W_ROUTER, MGPT_MLP_IN},
    {MGPT_W_GATE, MGPT_MLP_IN},
    {MGPT_W_UP, MGPT_MLP_IN},
    {MGPT_W_DOWN, MGPT_MLP_POST},
    {MGPT_EXPERTS_GATE, INTO_EXPERTS},
    {MGPT_EXPERTS_UP, INTO_EXPERTS},
    {MGPT_EXPERTS_DOWN, INTO_EXPERTS_DOWN},
};
/* clang-format on */
enum { N_ROWS = sizeof rows / sizeof *rows };

uint64_t input_sums_points(void)
{
    return MGPT_POINT_BIT(MGPT_ATTN_IN) | MGPT_POINT_BIT(MGPT_HEADS) | MGPT_POINT_BIT(MGPT_MLP_IN) |
           MGPT_POINT_BIT(MGPT_MLP_POST) | MGPT_POINT_BIT(MGPT_RESID_POST) |
           MGPT_POINT_BIT(MGPT_HEAD_IN) |
           MGPT_POINT_BIT(MGPT_FINAL); /* or the last layer drops rows */
}

/* The place's number, made if it is new; SIZE_MAX without memory. */
static size_t place_at(struct input_sums *s, int32_t layer, int32_t point, size_t n_cols,
                       size_t n_experts)
{
    for (size_t i = arr_len(s->places); i-- > 0 && s->places[i].layer == layer;)
        if (s->places[i].point == point)
            return i;
    struct sums_place p = {layer,
                           point,
                           n_cols,
                           n_experts,
                           mem_new(n_cols, n_experts * sizeof(double)),
                           mem_new(n_experts, sizeof(uint64_t))};
    if (p.sums && p.counts && arr_push(s->places, p))
        return arr_len(s->places) - 1;
    free(p.sums);
    free(p.counts);
    return SIZE_MAX;
}

static int add_entry(struct input_sums *s, const mgpt_tensor *t, int32_t layer, int32_t point,
                     mgpt_error *err)
{
    struct sums_entry entry;
    size_t n_experts = point >= INTO_EXPERTS ? (size_t)t->dims[2] : 1;
    for (size_t i = 0; i < arr_len(s->entries); i++)
        if (strcmp(s->entries[i].name, t->name) == 0) /* q, k and v in one */
            return MGPT_OK;
    text_format(entry.name, sizeof entry.name, "%s", t->name);
    entry.place = place_at(s, layer, point, (size_t)t->dims[0], n_experts);
    if (entry.place == SIZE_MAX || !arr_push(s->entries, entry))
        return err_memory(err, "the sums", (size_t)t->dims[0] * n_experts * sizeof(double));
    return MGPT_OK;
}

/* 1: what the matrix multiplies is at no point: queries of MLA that are made from a latent. */
static int is_unseen(const mgpt_model *model, mgpt_role role, int32_t layer)
{
    mgpt_tensor t;
    return role == MGPT_W_Q &&
           mgpt_find_role(model, MGPT_W_Q_DOWN, layer, MGPT_WEIGHT, &t, NULL) == MGPT_OK;
}

int input_sums_begin(struct input_sums *s, const mgpt_model *model, int with_head, mgpt_error *err)
{
    mgpt_info info;
    mgpt_tensor t, table;
    int status = mgpt_get_info(model, &info, err);
    for (int32_t layer = 0; status == MGPT_OK && layer < info.n_layer; layer++)
        for (size_t i = 0; i < N_ROWS && status == MGPT_OK; i++)
            if (mgpt_find_role(model, rows[i].role, layer, MGPT_WEIGHT, &t, NULL) == MGPT_OK &&
                !is_unseen(model, rows[i].role, layer))
                status = add_entry(s, &t, layer, rows[i].point, err);
    int dense = mgpt_find_role(model, MGPT_W_HEAD, 0, MGPT_WEIGHT, &table, NULL) == MGPT_OK;
    if (status == MGPT_OK && dense)
        status = add_entry(s, &table, -1, MGPT_FINAL, err);
    int has_head = mgpt_find_role(model, MGPT_W_U, 0, MGPT_WEIGHT, &t, NULL) == MGPT_OK &&
                   mgpt_find_role(model, MGPT_W_E, 0, MGPT_WEIGHT, &table, NULL) == MGPT_OK &&
                   strcmp(t.name, table.name) != 0;
    /* Without a final norm the head reads the last layer's output. */
    if (status == MGPT_OK && with_head && has_head)
        status = info.ln_final ? add_entry(s, &t, -1, dense ? MGPT_HEAD_IN : MGPT_FINAL, err)
                               : add_entry(s, &t, info.n_layer - 1, MGPT_RESID_POST, err);
    return status;
}

void input_sums_free(struct input_sums *s)
{
    for (size_t i = 0; i < arr_len(s->places); i++) {
        free(s->places[i].sums);
        free(s->places[i].counts);
    }
    arr_free(s->places);
    arr_free(s->entries);
}

static void sums_add_rows(struct sums_place *p, size_t expert, const float *x, size_t n,
                          size_t stride)
{
    double *sums = p->sums + expert * p->n_cols;
    for (size_t i = 0; i < n; i++, x += stride)
        for (size_t j = 0; j < p->n_cols; j++)
            sums[j] += (double)x[j] * (double)x[j];
    p->counts[expert] += n;
}

static struct sums_place *find_place(struct input_sums *s, int32_t layer, int32_t point)
{
    for (size_t i = 0; i < arr_len(s->places); i++)
        if (s->places[i].layer == layer && s->places[i].point == point)
            return &s->places[i];
    return NULL;
}

int input_sums_tap(const mgpt_value *value, void *sums)
{
    struct sums_place *p = find_place(sums, value->layer, (int32_t)value->point);
    if (p && p->n_cols == (size_t)value->cols)
        sums_add_rows(p, 0, value->data, (size_t)value->rows, value->stride);
    return 0;
}

void input_sums_experts(void *sums, size_t layer, size_t expert, const float *x, const float *f,
                        size_t n)
{
    struct sums_place *in = find_place(sums, (int32_t)layer, INTO_EXPERTS);
    struct sums_place *down = find_place(sums, (int32_t)layer, INTO_EXPERTS_DOWN);
    sums_add_rows(in, expert, x, n, in->n_cols);
    sums_add_rows(down, expert, f, n, down->n_cols);
}

/* ---- the file ---- */

static void put_float(struct gguf_writer *w, double value)
{
    float v = (float)value;
    gguf_data(w, &v, sizeof v);
}

void input_sums_write(const struct input_sums *s, struct gguf_writer *w)
{
    const struct dtype *f32 = dtype_find(DTYPE_F32);
    char name[96];
    for (size_t i = 0; i < arr_len(s->entries); i++) {
        const struct sums_place *p = &s->places[s->entries[i].place];
        text_format(name, sizeof name, "%s.in_sum2", s->entries[i].name);
        gguf_put_tensor(w, name, f32, 2, (uint64_t[2]){p->n_cols, p->n_experts});
        text_format(name, sizeof name, "%s.counts", s->entries[i].name);
        gguf_put_tensor(w, name, f32, 2, (uint64_t[2]){1, p->n_experts});
    }
    for (size_t i = 0; i < arr_len(s->entries); i++) {
        const struct sums_place *p = &s->places[s->entries[i].place];
        for (size_t k = 0; k < p->n_cols * p->n_experts; k++)
            put_float(w, p->sums[k]);
        for (size_t k = 0; k < p->n_experts; k++)
            put_float(w, (double)p->counts[k]);
    }
}
