/* --steer: the file of steering vectors and its scale. See steer.h. */
#include "engine/steer.h"

#include "base/error.h"
#include "common/cli.h"
#include "common/files.h"

#include <stdlib.h>
#include <string.h>

/* The parts of the option. */
struct steer_spec {
    char *path; /* malloc'ed */
    double scale;
    int32_t layer; /* -1: not given */
};

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

int steer_open(struct steer *s, const char *path, double scale, int32_t layer, mgpt_error *err)
{
    struct file file;
    int status = files_open(&file, path, err);
    if (status < 0)
        return status;
    status = steer_parse(s, layer, file.data, file.size, err);
    if (status == MGPT_OK)
        steer_scale(s, (float)scale, s->rows);
    file_close(&file);
    return status;
}

int steer_read(struct steer *s, const char *text)
{
    struct steer_spec spec;
    mgpt_error err;
    int status = read_spec(text, (int32_t)s->n_layer, &spec, &err);
    if (status == MGPT_OK)
        status = steer_open(s, spec.path, spec.scale, spec.layer, &err);
    free(spec.path);
    return status == MGPT_OK ? EXIT_OK : cli_fail(text, &err);
}
