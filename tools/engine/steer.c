/* See steer.h. */
#include "engine/steer.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/cli.h"
#include "common/files.h"
#include "common/npy.h"
#include "convert/core/checkpoint.h"

#include <stdlib.h>
#include <string.h>

/* The parts of the option. */
struct steer_spec {
    char *path; /* malloc'ed */
    double scale;
    int32_t layer; /* -1: not given */
};

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

static int read_gguf(struct steer *s, const struct steer_spec *spec, const struct file *file,
                     mgpt_error *err)
{
    struct gguf g;
    int status = gguf_parse(&g, file->data, file->size, err);
    if (status < 0)
        return status;
    if (spec->layer >= 0)
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

static int steer_read_npy(struct steer *s, const struct steer_spec *spec, const struct file *file,
                          mgpt_error *err)
{
    struct npy npy;
    uint64_t total;
    int status = npy_parse(&npy, file->data, file->size, err);
    if (status == MGPT_OK)
        status = check_steer_shape(s, &npy, spec->layer, err);
    if (status < 0)
        return status;
    if (!ck_add(npy.header, npy.n_bytes, &total) || total != file->size)
        return err_set(err, MGPT_EFILE, npy.header, "%zu bytes of data, the shape needs %llu",
                       file->size - npy.header, (unsigned long long)npy.n_bytes);
    size_t first = spec->layer < 0 ? 0 : (size_t)spec->layer;
    for (size_t i = 0; i < (npy.n_dims == 2 ? s->n_layer : 1); i++) {
        float *row = steer_row(s, first + i);
        for (size_t j = 0; j < s->n_embd; j++)
            row[j] = (float)npy_real(&npy, file->data + npy.header, i * s->n_embd + j);
    }
    return MGPT_OK;
}

/* ---- the option ---- */

/* Cuts a number in the range off the end of the path, after a colon; 0: there is none. */
static int cut_number(char *path, enum cli_kind kind, void *to, double min, double max)
{
    const struct cli_option row = {.kind = kind, .to = to, .min = min, .max = max};
    char *colon = strrchr(path, ':');
    if (!colon || colon == path || !cli_set_number(&row, colon + 1))
        return 0;
    *colon = 0;
    return 1;
}

/* The last number is a layer if there is one before it. */
static int read_spec(const char *text, int32_t n_layer, struct steer_spec *spec, mgpt_error *err)
{
    double last = 1, scale;
    *spec = (struct steer_spec){.path = strdup(text), .scale = 1, .layer = -1};
    if (!spec->path)
        return err_memory(err, "a name", strlen(text));
    if (!cut_number(spec->path, CLI_REAL, &last, -1e30, 1e30))
        return MGPT_OK;
    spec->scale = last;
    if (!cut_number(spec->path, CLI_REAL, &scale, -1e30, 1e30))
        return MGPT_OK;
    spec->scale = scale;
    spec->layer = last >= 0 && last < n_layer ? (int32_t)last : -1;
    return (double)spec->layer == last
               ? MGPT_OK
               : err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "layer %g: expected 0 to %d", last,
                         (int)n_layer - 1);
}

char *steer_path(const char *text)
{
    struct steer_spec spec;
    read_spec(text, INT32_MAX, &spec, NULL);
    return spec.path;
}

static int read_vectors(struct steer *s, const struct steer_spec *spec, mgpt_error *err)
{
    struct file file;
    int status = files_open(&file, spec->path, err);
    if (status < 0)
        return status;
    status = steer_room(s, err);
    if (status == MGPT_OK)
        status = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0
                     ? read_gguf(s, spec, &file, err)
                     : steer_read_npy(s, spec, &file, err);
    for (size_t i = 0; i < s->n_layer * s->n_embd && status == MGPT_OK; i++)
        s->rows[i] *= (float)spec->scale;
    file_close(&file);
    return status;
}

int steer_read(struct steer *s, const char *text)
{
    struct steer_spec spec;
    mgpt_error err;
    int status = read_spec(text, (int32_t)s->n_layer, &spec, &err);
    if (status == MGPT_OK)
        status = read_vectors(s, &spec, &err);
    free(spec.path);
    return status == MGPT_OK ? EXIT_OK : cli_fail(text, &err);
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
