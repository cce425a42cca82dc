/* Matrices from text, .npy and names. See attend_matrix.h. */
#include "attend/attend_matrix.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/cli.h"
#include "common/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int matrix_new(struct matrix *m, size_t rows, size_t cols, mgpt_error *err)
{
    m->v = mem_new(rows * cols, sizeof *m->v);
    if (!m->v)
        return err_memory(err, "a matrix", rows * cols * sizeof *m->v);
    m->rows = rows;
    m->cols = cols;
    return MGPT_OK;
}

void matrix_free(struct matrix *m)
{
    free(m->v);
    *m = (struct matrix){0};
}

/* ---- text ---- */

static int too_large(mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "more than %d rows or columns",
                   (int)MATRIX_MAX);
}

/* Appends the numbers of one line. */
static int parse_line(float **values, const char *at, const char *end, size_t line, mgpt_error *err)
{
    while (at < end) {
        size_t n = strcspn(at, " \t,\r\n#");
        char *stop;
        if (n == 0 && *at == '#')
            return MGPT_OK;
        if (n == 0) {
            at++;
            continue;
        }
        if ((size_t)(end - at) < n)
            n = (size_t)(end - at);
        float value = (float)strtod(at, &stop);
        if (strspn(at, "+-.eE0123456789") < n || stop != at + n)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "line %zu: expected a number, found '%.*s'", line,
                           (int)(n < 40 ? n : 40), at);
        if (!isfinite(value))
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "line %zu: '%.*s' is too large for float32", line,
                           (int)(n < 40 ? n : 40), at);
        if (!arr_push(*values, value))
            return err_memory(err, "a matrix", arr_len(*values) * sizeof **values);
        at = stop;
    }
    return MGPT_OK;
}

/* Adds a line to what is there: its row is as long as the others, or it is empty. */
static int add_line(struct matrix *m, float **values, const char *at, const char *end, size_t line,
                    mgpt_error *err)
{
    size_t before = arr_len(*values);
    int status = parse_line(values, at, end, line, err);
    size_t n = arr_len(*values) - before;
    if (status < 0 || n == 0)
        return status;
    if (m->rows > 0 && n != m->cols)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "line %zu: a row of %zu numbers, those before have %zu", line, n, m->cols);
    m->cols = n;
    m->rows++;
    return m->rows > MATRIX_MAX || m->cols > MATRIX_MAX ? too_large(err) : MGPT_OK;
}

static int parse_text(struct matrix *m, const char *bytes, size_t n, mgpt_error *err)
{
    struct matrix size = {0};
    float *values = NULL;
    const char *end = bytes + n;
    int status = MGPT_OK;
    for (size_t line = 1; bytes < end && status == MGPT_OK; line++) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        stop = stop ? stop : end;
        if (memchr(bytes, 0, (size_t)(stop - bytes)))
            status = err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "line %zu: not text", line);
        else
            status = add_line(&size, &values, bytes, stop, line, err);
        bytes = stop + 1;
    }
    if (status == MGPT_OK && size.rows == 0)
        status = err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no numbers");
    if (status == MGPT_OK)
        status = matrix_new(m, size.rows, size.cols, err);
    if (status == MGPT_OK)
        memcpy(m->v, values, size.rows * size.cols * sizeof *values);
    arr_free(values);
    return status;
}

/* ---- .npy ---- */

static int parse_npy(struct matrix *m, const uint8_t *bytes, size_t n, mgpt_error *err)
{
    struct npy npy;
    uint64_t total;
    int status = npy_parse(&npy, bytes, n, err);
    if (status < 0)
        return status;
    if (npy.n_dims < 1 || npy.n_dims > 2 || npy.dims[0] == 0 || npy.dims[npy.n_dims - 1] == 0)
        return err_set(
            err, MGPT_EFILE, MGPT_NO_OFFSET,
            "an array of %u dimensions%s, expected rows and columns, at least one of each",
            npy.n_dims, npy.n_dims > 0 && npy.n_dims <= 2 ? ", one of size 0" : "");
    if (npy.dims[0] > MATRIX_MAX || npy.dims[npy.n_dims - 1] > MATRIX_MAX)
        return too_large(err);
    if (!ck_add(npy.header, npy.n_bytes, &total) || total != n)
        return err_set(err, MGPT_EFILE, npy.header, "%zu bytes of data, the shape needs %llu",
                       n - npy.header, (unsigned long long)npy.n_bytes);
    size_t cols = (size_t)npy.dims[npy.n_dims - 1];
    status = matrix_new(m, npy.n_dims == 2 ? (size_t)npy.dims[0] : 1, cols, err);
    for (size_t i = 0; status == MGPT_OK && i < m->rows * m->cols; i++) {
        m->v[i] = (float)npy_real(&npy, bytes + npy.header, i);
        if (!isfinite(m->v[i]))
            status =
                err_set(err, MGPT_EFILE, npy.header + i * npy.width,
                        "row %zu, column %zu: not a finite float32", i / cols + 1, i % cols + 1);
    }
    return status;
}

int matrix_parse(struct matrix *m, const char *bytes, size_t n, mgpt_error *err)
{
    *m = (struct matrix){0};
    int is_npy = n >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0;
    int status =
        is_npy ? parse_npy(m, (const uint8_t *)bytes, n, err) : parse_text(m, bytes, n, err);
    if (status < 0)
        matrix_free(m);
    return status;
}

int matrix_read(struct matrix *m, const char *path, mgpt_error *err)
{
    size_t n;
    const struct cli_limits limits = {.all = (size_t)MATRIX_MAX * MATRIX_MAX * 32};
    char *bytes = cli_read_limited(path, limits, &n, err);
    *m = (struct matrix){0};
    if (!bytes)
        return err ? err->status : MGPT_EIO;
    int status = matrix_parse(m, bytes, n, err);
    free(bytes);
    return status;
}

/* ---- by name ---- */

/* Makes the projection dim:K, which has only dimension K. */
static int one_dimension(struct matrix *m, const char *text, size_t n, mgpt_error *err)
{
    char *end;
    unsigned long k = strtoul(text, &end, 10);
    if (!*text || strspn(text, "0123456789") != strlen(text) || k < 1 || k > n)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "dim:%.20s: expected dim:1 to dim:%zu", text,
                       n);
    if (matrix_new(m, n, n, err) < 0)
        return MGPT_EMEM;
    m->v[(k - 1) * n + (k - 1)] = 1;
    return 1;
}

int matrix_preset(struct matrix *m, const char *name, size_t n, mgpt_error *err)
{
    static const char *const names[] = {"zero", "identity", "negate", "flip"};
    size_t which = 0;
    *m = (struct matrix){0};
    if (strncmp(name, "dim:", 4) == 0)
        return one_dimension(m, name + 4, n, err);
    while (which < 4 && strcmp(name, names[which]) != 0)
        which++;
    if (which == 4)
        return 0;
    if (matrix_new(m, n, n, err) < 0)
        return MGPT_EMEM;
    for (size_t i = 0; i < n && which > 0; i++)
        m->v[i * n + (which == 3 ? n - 1 - i : i)] = which == 2 ? -1.0f : 1.0f;
    return 1;
}
