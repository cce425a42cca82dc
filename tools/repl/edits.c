/* See edits.h. A value of a tap may be one row or a chunk of them: every row is changed alike, so
 * that the chunks do not show in the result. */
#include "repl/edits.h"

#include "base/mem.h"
#include "engine/layers.h"

#include <stdlib.h>
#include <string.h>

mgpt_point edit_point(const struct edit *e)
{
    return e->head < 0 ? MGPT_MLP_OUT : MGPT_HEADS;
}

size_t edit_first(const struct edits *edits, const struct edit *e)
{
    return e->head < 0 ? 0 : (size_t)e->head * edit_width(edits, e);
}

size_t edit_width(const struct edits *edits, const struct edit *e)
{
    return (size_t)(e->head < 0 ? edits->n_embd : engine_value_dim(edits->model, e->layer));
}

uint64_t edits_points(const struct edits *edits)
{
    uint64_t points = 0;
    for (size_t i = 0; i < arr_len(edits->list); i++)
        points |= MGPT_POINT_BIT(edit_point(&edits->list[i]));
    return points;
}

static void change_row(const struct edit *e, float *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (e->kind == EDIT_SCALE)
            row[i] *= e->factor;
        else
            row[i] = e->kind == EDIT_MEAN ? e->mean[i] : 0;
    }
}

void edits_apply(const struct edits *edits, const mgpt_value *value)
{
    for (size_t i = 0; i < arr_len(edits->list); i++) {
        const struct edit *e = &edits->list[i];
        if (e->layer != value->layer || edit_point(e) != value->point)
            continue;
        float *at = value->data + edit_first(edits, e);
        for (int32_t row = 0; row < value->rows; row++, at += value->stride)
            change_row(e, at, edit_width(edits, e));
    }
}

/* The place of the edit of a head or MLP; the length of the list when there is none. */
static size_t edits_find(const struct edits *edits, int32_t layer, int32_t head)
{
    size_t i = 0;
    while (i < arr_len(edits->list) &&
           (edits->list[i].layer != layer || edits->list[i].head != head))
        i++;
    return i;
}

int edits_set(struct edits *edits, struct edit edit)
{
    size_t at = edits_find(edits, edit.layer, edit.head);
    if (at == arr_len(edits->list))
        return arr_push(edits->list, edit);
    free(edits->list[at].mean);
    edits->list[at] = edit;
    return 1;
}

int edits_remove(struct edits *edits, int32_t layer, int32_t head)
{
    size_t at = edits_find(edits, layer, head);
    if (at == arr_len(edits->list))
        return 0;
    free(edits->list[at].mean);
    stbds_arrdel(edits->list, at);
    return 1;
}

int edits_copy(struct edits *to, const struct edits *from)
{
    *to = (struct edits){.model = from->model, .n_embd = from->n_embd};
    for (size_t i = 0; i < arr_len(from->list); i++) {
        struct edit e = from->list[i];
        size_t n = edit_width(from, &e);
        if (e.mean) {
            e.mean = mem_new(n, sizeof *e.mean);
            if (e.mean)
                memcpy(e.mean, from->list[i].mean, n * sizeof *e.mean);
        }
        if ((!e.mean && from->list[i].mean) || !edits_set(to, e)) {
            free(e.mean);
            edits_clear(to);
            return 0;
        }
    }
    return 1;
}

void edits_clear(struct edits *edits)
{
    for (size_t i = 0; i < arr_len(edits->list); i++)
        free(edits->list[i].mean);
    arr_free(edits->list);
    edits->list = NULL;
}
