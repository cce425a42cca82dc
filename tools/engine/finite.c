/* See finite.h. */
#include "engine/finite.h"

#include "base/error.h"
#include "engine/layers.h"

#include <math.h>

/* The first column from `from` on that is not finite; cols when all are. */
static int32_t first_bad(const float *row, int32_t from, int32_t cols)
{
    while (from < cols && isfinite(row[from]))
        from++;
    return from;
}

/* How many keys, from the oldest on, the query at value->pos must not see. */
static int32_t n_hidden(const struct finite *f, const mgpt_value *value)
{
    mgpt_layer layer;
    if (value->point != MGPT_SCORES ||
        mgpt_get_layer(f->model, (size_t)value->layer, &layer, NULL) < 0)
        return 0;
    return layer.window && value->cols > layer.window ? value->cols - layer.window : 0;
}

static int finite_check(const mgpt_value *value, void *user)
{
    struct finite *f = user;
    int32_t hidden = n_hidden(f, value);
    for (int32_t i = 0; i < value->rows; i++) {
        const float *row = value->data + (size_t)i * value->stride;
        int32_t col = first_bad(row, hidden, value->cols);
        if (col == value->cols)
            continue;
        f->found = 1;
        f->point = value->point;
        f->layer = value->layer;
        f->pos = value->pos;
        f->row = i;
        f->col = col;
        f->value = row[col];
        return 1;
    }
    return 0;
}

struct watcher finite_watcher(struct finite *f, const mgpt_model *model)
{
    *f = (struct finite){.model = model};
    return (struct watcher){MGPT_POINT_BIT(MGPT_N_POINTS) - 1, finite_check, f, NULL};
}

/* "head 1, position 3, key 2", as the point's rows and columns are to be read. */
static void say_where(const struct finite *f, char *buf, size_t cap)
{
    const int32_t d = engine_width(f->model, f->point, f->layer);
    switch (f->point) {
    case MGPT_SCORES:
    case MGPT_WEIGHTS:
        text_format(buf, cap, "head %d, position %d, key %d", f->row, f->pos, f->col);
        break;
    case MGPT_Q:
    case MGPT_K:
    case MGPT_V:
    case MGPT_ROT_Q:
    case MGPT_ROT_K:
    case MGPT_HEADS:
        text_format(buf, cap, "head %d, position %d, value %d", f->col / d, f->pos + f->row,
                    f->col % d);
        break;
    default:
        text_format(buf, cap, "position %d, %s %d", f->pos + f->row,
                    f->point == MGPT_LOGITS ? "id" : "value", f->col);
    }
}

int finite_told(struct finite *f, int status, mgpt_error *err)
{
    char name[64], where[80];
    if (status != MGPT_ESTOP || !f->found)
        return status;
    f->found = 0;
    f->n_told++;
    mgpt_point_name(f->point, f->layer, name, sizeof name);
    say_where(f, where, sizeof where);
    const char *sign = f->value < 0 ? "-inf" : "inf";
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%s, %s: %s, expected a finite number", name,
                   where, isnan(f->value) ? "nan" : sign);
}

int finite_logits(struct finite *f, const float *logits, size_t n, size_t pos, mgpt_error *err)
{
    size_t id = 0;
    if (finite_sum(logits, n))
        return MGPT_OK;
    while (id < n && isfinite(logits[id]))
        id++;
    if (id == n)
        return MGPT_OK;
    f->n_told++;
    return err_set(
        err, MGPT_EFILE, MGPT_NO_OFFSET,
        "logits after position %zu, id %zu: %g, expected a finite number; --check-finite "
        "finds where it begins",
        pos, id, (double)logits[id]);
}
