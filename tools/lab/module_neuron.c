/* What a neuron writes: an export of a lab page's module. See module.h. */
#include "lab/module_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "engine/layers.h"

#include <stdlib.h>

static float *neuron; /* [n_vocab] logits, [n_embd] its column, [n_ff] a row of the matrix */

void lab_neuron_close(void)
{
    free(neuron);
    neuron = NULL;
}

/* The columns of a quantised matrix are read by rows. */
static int neuron_column(const mgpt_info *info, int layer, int unit, float *column)
{
    float *row = column + info->n_embd;
    mgpt_tensor down;
    int status =
        mgpt_find_role(lab_model(), MGPT_W_DOWN, layer, MGPT_WEIGHT, &down, lab_last_error());
    size_t n_ff = status == MGPT_OK ? (size_t)down.dims[0] : 0;
    for (size_t i = 0; i < (size_t)info->n_embd && status == MGPT_OK; i++) {
        status = mgpt_read_tensor(lab_model(), down.name, i * n_ff, n_ff, row, lab_last_error());
        column[i] = row[unit];
    }
    return status;
}

const float *lab_neuron(int layer, int unit)
{
    mgpt_info info;
    if (mgpt_get_info(lab_model(), &info, NULL) < 0 || layer < 0 || layer >= info.n_layer ||
        unit < 0 || unit >= engine_layer(lab_model(), layer).n_ff) {
        lab_refuse("the model has no such neuron");
        return NULL;
    }
    size_t n = (size_t)info.n_vocab + (size_t)info.n_embd + (size_t)info.n_ff;
    lab_neuron_close();
    neuron = mem_new(n, sizeof *neuron);
    if (!neuron) {
        err_memory(lab_last_error(), "a neuron", n * sizeof *neuron);
        return NULL;
    }
    float *column = neuron + info.n_vocab;
    int status = neuron_column(&info, layer, unit, column);
    if (status == MGPT_OK)
        status = mgpt_unembed(lab_session(LAB_PLAIN), column, neuron, lab_last_error());
    return status == MGPT_OK ? neuron : NULL;
}
