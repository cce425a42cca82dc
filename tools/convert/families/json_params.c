/* Parameter lists in JSON: all numbers in one list, or a list of matrices. See json_model.h. */
#include "base/error.h"
#include "convert/families/json_model.h"

static int json_params_add_cut(struct mg_parts *m, const char *name, const void *list, uint64_t at,
                               uint64_t rows, uint64_t cols)
{
    return json_add_flat(m, name, list, at, rows, cols);
}

static int add_matrix_list(struct mg_parts *m, const json_t *list)
{
    char name[32];
    size_t n = json_array_size(list);
    if (mg_check_order(m, n) < 0)
        return MGPT_EFILE;
    for (size_t i = 0; i < n; i++) {
        mg_name_in_order(m, i, n, name);
        int status = json_add_matrices(m, name, json_array_get(list, i));
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

int json_add_params(struct mg_parts *m, const json_t *list)
{
    if (json_array_size(list) == 0)
        return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET, "parameter list: it is empty");
    if (!json_is_numeric(json_array_get(list, 0)))
        return add_matrix_list(m, list);
    int status = json_check_numbers(m, "params", list);
    return status < 0 ? status : mg_add_params(m, json_array_size(list), json_params_add_cut, list);
}
