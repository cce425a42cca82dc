/* What lane 0 does differently: edits of heads and MLPs, steering vectors, a patched site. Exports of a
 * lab page's module. See module.h. */
#include "lab/module_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "engine/layers.h"

#include <stdlib.h>

static struct lab_change change;

struct lab_change *lab_change(void)
{
    return &change;
}

void lab_change_open(const mgpt_model *model, const mgpt_info *info)
{
    size_t n_layer = (size_t)info->n_layer, n_embd = (size_t)info->n_embd;
    change.edits = (struct edits){.model = model, .n_embd = info->n_embd};
    change.steer = change.steering = (struct steer){.n_layer = n_layer, .n_embd = n_embd};
}

void lab_change_close(void)
{
    lab_edits_clear();
    steer_free(&change.steer);
    change = (struct lab_change){0};
}

uint64_t lab_change_points(const struct lab_change *c)
{
    uint64_t points = edits_points(&c->edits);
    if (c->steering.rows)
        points |= MGPT_POINT_BIT(MGPT_RESID_POST);
    return c->site.grid ? points | MGPT_POINT_BIT(c->site.grid->point) : points;
}

void lab_change_apply(const struct lab_change *c, const mgpt_value *value)
{
    if (c->steering.rows && value->point == MGPT_RESID_POST)
        steer_add(value, (void *)(uintptr_t)&c->steering);
    edits_apply(&c->edits, value);
    if (c->site.grid)
        sweep_change(value, (void *)(uintptr_t)&c->site);
}

void lab_edits_clear(void)
{
    edits_clear(&change.edits);
    free(change.steering.rows);
    change.steering.rows = NULL;
    change.site.grid = NULL;
    change.is_new = 1;
}

int lab_edit(int layer, int head, float factor, int mean)
{
    struct edits *edits = &change.edits;
    struct edit edit = {mean ? EDIT_MEAN : EDIT_SCALE, layer, head, factor, NULL};
    mgpt_info info;
    if (!mean && factor == 0)
        edit.kind = EDIT_ZERO;
    if (mgpt_get_info(lab_model(), &info, NULL) < 0 || layer < 0 || layer >= info.n_layer ||
        head < -1 || head >= engine_heads(lab_model(), layer))
        return lab_refuse("the model has no such head or MLP");
    if (mean && !(edit.mean = mem_new(edit_width(edits, &edit), sizeof *edit.mean)))
        return err_memory(lab_last_error(), "an edit",
                          edit_width(edits, &edit) * sizeof *edit.mean);
    if (!edits_set(edits, edit)) {
        free(edit.mean);
        return err_memory(lab_last_error(), "an edit", sizeof edit);
    }
    change.is_new = 1;
    return MGPT_OK;
}

int lab_steer_read(const uint8_t *bytes, size_t n, int layer)
{
    struct steer read = {.n_layer = change.steer.n_layer, .n_embd = change.steer.n_embd};
    if (layer >= (int)read.n_layer)
        return lab_refuse("the model has no such layer");
    int status = steer_parse(&read, layer, bytes, n, lab_last_error());
    if (status < 0) {
        steer_free(&read);
        return status;
    }
    steer_free(&change.steer);
    change.steer = read;
    return MGPT_OK;
}

int lab_steer(float scale)
{
    const struct steer *s = &change.steer;
    if (!s->rows)
        return lab_refuse("no steering vectors: choose a file or make one");
    if (!change.steering.rows)
        change.steering.rows = mem_new(s->n_layer * s->n_embd, sizeof *s->rows);
    if (!change.steering.rows)
        return err_memory(lab_last_error(), "the steering vectors",
                          s->n_layer * s->n_embd * sizeof *s->rows);
    steer_scale(s, scale, change.steering.rows);
    change.steering.has = s->has;
    change.is_new = 1;
    return MGPT_OK;
}
