/* Models of other programs in JSON: llm-viz's file of a minGPT, and the like. See json_model.h. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/json_model.h"
#include "convert/families/torch_model.h"

#include <string.h>

int json_is_other(const struct mg_parts *m)
{
    for (size_t i = 0; i < arr_len(m->matrices); i++)
        if (strstr(m->matrices[i].name, "c_attn"))
            return 1;
    return 0;
}

/* Numbers in JSON have no bytes in the file that a tensor could point to: they are decoded. */
static int json_state_add_tensor(struct mg_parts *m, struct state *s, const struct mg_matrix *from)
{
    int is_matrix = from->rows > 0;
    struct ckpt_tensor source = {.n_dims = is_matrix ? 2 : 1,
                                 .dims = {from->cols, is_matrix ? from->rows : 1, 1, 1},
                                 .n_values = from->cols * (is_matrix ? from->rows : 1),
                                 .type = from->type ? from->type : dtype_find(DTYPE_F32),
                                 .bytes = from->bytes,
                                 .values = from->values,
                                 .source = from->source,
                                 .at = from->at};
    size_t n = (size_t)source.n_values;
    float *values = ckpt_alloc(m->c, n, sizeof *values);
    if (!values)
        return err_memory(m->err, "a matrix", n * sizeof *values);
    ckpt_values(&source, 0, n, values);
    struct state_tensor t = {.type = STATE_F32,
                             .n_dims = source.n_dims,
                             .shape = {is_matrix ? from->rows : from->cols, from->cols},
                             .bytes = {(const uint8_t *)values, n * sizeof *values}};
    state_contiguous(&t);
    return state_add(s, from->name, strlen(from->name), t, m->err);
}

int json_map_other(struct mg_parts *m)
{
    struct state s;
    int status = MGPT_OK;
    state_init(&s, m->c);
    m->first_wins = 1;
    for (size_t i = 0; status == MGPT_OK && i < arr_len(m->matrices); i++)
        status = json_state_add_tensor(m, &s, &m->matrices[i]);
    if (status == MGPT_OK)
        status = state_seal(&s, m->err);
    if (status == MGPT_OK)
        status = torch_map_state(&s, m, "JSON", m->err);
    if (status == 0)
        status = mg_refuse(m, m->matrices[0].name, "JSON of a model that mgpt does not know");
    state_free(&s);
    return status < 0 ? status : MGPT_OK;
}
