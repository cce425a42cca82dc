/* The constants of xIELU: a list of one number per layer, or one for all, for each of four keys,
 * whose names are llama.cpp's, without the architecture. */
#include "base/dmath.h"
#include "base/error.h"
#include "model/model.h"

/* Number `layer` of a key. */
static int xielu_number(const mgpt_model *m, const char *key, size_t layer, double min, double max,
                        double *to, mgpt_error *err)
{
    const struct gguf_kv *kv = gguf_find(&m->gguf, key), *list = NULL;
    if (!kv)
        return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf), "key %s: missing", key);
    if (kv->type != GGUF_ARRAY) {
        if (gguf_float(&m->gguf, key, to, err) < 0)
            return MGPT_EFILE;
    } else {
        if (gguf_array(&m->gguf, key, GGUF_F32, &list, err) < 0)
            return MGPT_EFILE;
        if (list->n != m->shape.n_layer)
            return err_set(err, MGPT_EFILE, kv->offset, "key %s: %llu entries for %zu layers", key,
                           (unsigned long long)list->n, m->shape.n_layer);
        struct cursor c = cursor_over(list->value + layer * sizeof(float), sizeof(float));
        *to = (double)cursor_f32(&c);
    }
    if (!(*to >= min && *to <= max))
        return err_set(err, MGPT_EFILE, kv->offset, "key %s: %g in layer %zu, expected %g to %g",
                       key, *to, layer, min, max);
    return MGPT_OK;
}

static double softplus(double x)
{
    return d_log(1 + d_exp(x));
}

/* Files have the weights of training: p is softplus(alpha_p), n is beta + softplus(alpha_n). */
int model_activation(mgpt_model *m, mgpt_error *err)
{
    for (size_t i = 0; m->act == ACT_XIELU && i < m->shape.n_layer; i++) {
        double p, n, beta, eps;
        if (xielu_number(m, "xielu.alpha_p", i, -80, 80, &p, err) < 0 ||
            xielu_number(m, "xielu.alpha_n", i, -80, 80, &n, err) < 0 ||
            xielu_number(m, "xielu.beta", i, -80, 80, &beta, err) < 0 ||
            xielu_number(m, "xielu.eps", i, -1, 0, &eps, err) < 0)
            return MGPT_EFILE;
        m->layers[i].xielu = (struct xielu){.p = (float)softplus(p),
                                            .n = (float)(beta + softplus(n)),
                                            .beta = (float)beta,
                                            .eps = (float)eps};
    }
    return MGPT_OK;
}
