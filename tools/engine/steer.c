/* Steering vectors in memory. See steer.h. */
#include "engine/steer.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/cli.h"
#include "common/npy.h"
#include "gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static int steer_room(struct steer *s, mgpt_error *err)
{
    uint64_t n;
    if (!ck_mul(s->n_layer, s->n_embd, &n) || !(s->rows = mem_new((size_t)n, sizeof *s->rows)) ||
        !(s->has = mem_new(s->n_layer, 1)))
        return err_memory(err, "the steering vectors", SIZE_MAX);
    return MGPT_OK;
}

/* The row of a layer, which has one from now on. */
static float *steer_row(struct steer *s, size_t layer)
{
    s->has[layer] = 1;
    return s->rows + layer * s->n_embd;
}

/* ---- GGUF ---- */

static int read_direction(struct steer *s, const struct gguf_tensor *t, mgpt_error *err)
{
    static const char prefix[] = "direction.";
    int32_t layer = 0;
    const struct cli_option number = {
        .kind = CLI_INT, .to = &layer, .min = 0, .max = (double)s->n_layer - 1};
    if (strncmp(t->name, prefix, strlen(prefix)) != 0 || s->n_layer < 2 ||
        !cli_set_number(&number, t->name + strlen(prefix)) || layer == 0)
        return err_set(err, MGPT_EFILE, t->offset,
                       "tensor %s: expected direction.1 to direction.%d of a control vector",
                       t->name, (int)s->n_layer - 1);
    if (t->n_values != s->n_embd)
        return err_set(err, MGPT_EFILE, t->offset,
                       "tensor %s: %llu values, the model has width %zu", t->name,
                       (unsigned long long)t->n_values, s->n_embd);
    t->type->to_float(t->data, steer_row(s, (size_t)layer), s->n_embd);
    return MGPT_OK;
}

static int read_gguf(struct steer *s, int32_t layer, const uint8_t *data, size_t n, mgpt_error *err)
{
    struct gguf g;
    int status = gguf_parse(&g, data, n, err);
    if (status < 0)
        return status;
    if (layer >= 0)
        status = err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "a layer goes with one row in .npy only");
    else if (arr_len(g.tensors) == 0)
        status = err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no tensors, expected direction.N");
    for (size_t i = 0; i < arr_len(g.tensors) && status == MGPT_OK; i++)
        status = read_direction(s, &g.tensors[i], err);
    gguf_free(&g);
    return status;
}

/* ---- .npy ---- */

/* Whether the shape is one that the layer asks for. */
static int check_steer_shape(const struct steer *s, const struct npy *npy, int32_t layer,
                             mgpt_error *err)
{
    if (layer >= 0 && npy->n_dims == 1 && npy->dims[0] == s->n_embd)
        return MGPT_OK;
    if (layer < 0 && npy->n_dims == 2 && npy->dims[0] == s->n_layer && npy->dims[1] == s->n_embd)
        return MGPT_OK;
    if (npy->n_dims == 1 && layer < 0 && npy->dims[0] == s->n_embd)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "one row: give its layer, FILE:SCALE:LAYER");
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "expected the shape [%zu, %zu], or [%zu] with a layer, found %u dimensions, the "
                   "first %llu",
                   s->n_layer, s->n_embd, s->n_embd, npy->n_dims,
                   (unsigned long long)(npy->n_dims ? npy->dims[0] : 0));
}

static int steer_read_npy(struct steer *s, int32_t layer, const uint8_t *data, size_t n,
                          mgpt_error *err)
{
    struct npy npy;
    uint64_t total;
    int status = npy_parse(&npy, data, n, err);
    if (status == MGPT_OK)
        status = check_steer_shape(s, &npy, layer, err);
    if (status < 0)
        return status;
    if (!ck_add(npy.header, npy.n_bytes, &total) || total != n)
        return err_set(err, MGPT_EFILE, npy.header, "%zu bytes of data, the shape needs %llu",
                       n - npy.header, (unsigned long long)npy.n_bytes);
    size_t first = layer < 0 ? 0 : (size_t)layer;
    for (size_t i = 0; i < (npy.n_dims == 2 ? s->n_layer : 1); i++) {
        float *row = steer_row(s, first + i);
        for (size_t j = 0; j < s->n_embd; j++)
            row[j] = (float)npy_real(&npy, data + npy.header, i * s->n_embd + j);
    }
    return MGPT_OK;
}

/* ---- any file ---- */

int steer_parse(struct steer *s, int32_t layer, const uint8_t *data, size_t n, mgpt_error *err)
{
    int status = steer_room(s, err);
    if (status < 0)
        return status;
    return n >= 4 && memcmp(data, "GGUF", 4) == 0 ? read_gguf(s, layer, data, n, err)
                                                  : steer_read_npy(s, layer, data, n, err);
}

void steer_scale(const struct steer *s, float scale, float *to)
{
    for (size_t i = 0; i < s->n_layer * s->n_embd; i++)
        to[i] = s->rows[i] * scale;
}

void steer_free(struct steer *s)
{
    free(s->rows);
    free(s->has);
    s->rows = NULL;
    s->has = NULL;
}

int steer_add(const mgpt_value *value, void *user)
{
    const struct steer *s = user;
    const float *add = s->rows + (size_t)value->layer * s->n_embd;
    for (size_t i = 0; s->has[value->layer] && i < (size_t)value->rows; i++)
        for (size_t j = 0; j < s->n_embd; j++)
            value->data[i * value->stride + j] += add[j];
    return 0;
}
