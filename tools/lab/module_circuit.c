/* Weights multiplied out over tokens: exports of a lab page's module. See module.h. */
#include "lab/module_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "engine/circuit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 }; /* rows, columns */

/* The last one. */
static struct module_circuit {
    struct circuit c;
    int32_t *ids; /* [c.n_ids] a copy; or NULL: all tokens */
    float *cells;
    double *along;
} now;

void lab_circuit_close(void)
{
    circuit_free(&now.c);
    free(now.ids);
    free(now.cells);
    free(now.along);
    now = (struct module_circuit){0};
}

/* Pages show few tokens of a large vocabulary. */
static int take_cells(void)
{
    if (now.c.n_rows > MOST || now.c.n_cols > MOST)
        return lab_refuse("a table of all pairs is too large: name some tokens");
    size_t n = now.c.n_rows * now.c.n_cols;
    now.cells = mem_new(n, sizeof *now.cells);
    for (size_t i = 0; now.cells && i < n; i++)
        now.cells[i] = circuit_cell(&now.c, i / now.c.n_cols, i % now.c.n_cols);
    return now.cells ? MGPT_OK : err_memory(lab_last_error(), "a circuit", n * sizeof(float));
}

int lab_circuit(int kind, int layer, int index, const int32_t *ids, size_t n)
{
    lab_circuit_close();
    if (!lab_model() || kind < CIRCUIT_QK || kind > CIRCUIT_PROMOTES)
        return lab_refuse("no model is open, or no such circuit");
    if (n > 0 && !(now.ids = mem_new(n, sizeof *ids)))
        return err_memory(lab_last_error(), "a circuit", n * sizeof *ids);
    if (n > 0)
        memcpy(now.ids, ids, n * sizeof *ids);
    now.c.ids = now.ids;
    now.c.n_ids = n;
    int status =
        circuit_read(&now.c, lab_model(), (enum circuit_kind)kind, layer, index, lab_last_error());
    if (status == MGPT_OK)
        status = take_cells();
    return status < 0 ? status : (int)(now.c.n_rows * now.c.n_cols);
}

const float *lab_circuit_cells(void)
{
    return now.cells;
}

/* Tokens without text are of another kind. */
static void leave_out(unsigned char *skip, size_t n)
{
    for (size_t i = 0, length; i < n; i++) {
        mgpt_piece(lab_model(), now.ids ? now.ids[i] : (int32_t)i, &length);
        skip[i] = length == 0;
    }
}

const double *lab_circuit_order(int by_cols)
{
    size_t n = by_cols ? now.c.n_cols : now.c.n_rows;
    if (!now.cells || now.c.n_rows != now.c.n_cols) {
        lab_refuse("no square circuit");
        return NULL;
    }
    free(now.along);
    now.along = mem_new(n, sizeof *now.along);
    unsigned char *skip = mem_new(n, 1);
    int done = now.along && skip;
    if (done) {
        leave_out(skip, n);
        done = circuit_order(&now.c, by_cols, skip, now.along);
    }
    free(skip);
    if (!done)
        err_memory(lab_last_error(), "a circuit's order", n * sizeof *now.along);
    return done ? now.along : NULL;
}
