/* What nanochat of 2026 adds to the residual stream and to values besides the branches: tensors and
 * numbers of smear, value embeddings and backout. run/mix_in.c has the formulas.
 */
#include "base/error.h"
#include "base/mem.h"
#include "model/hyperparams.h"

/* The model's (layer < 0) or the layer's tensor, marked as used; NULL: absent. */
static const struct gguf_tensor *mix_in_tensor(const mgpt_model *m, uint8_t *used, int layer,
                                               const char *name)
{
    char full[80];
    if (layer < 0)
        text_format(full, sizeof full, "%s", name);
    else
        text_format(full, sizeof full, "blk.%d.%s", layer, name);
    const struct gguf_tensor *t = gguf_tensor(&m->gguf, full);
    if (t)
        used[t - m->gguf.tensors] = 1;
    return t;
}

/* Of two tensors that are only used together one is absent. */
static int refuse_half(const mgpt_model *m, const struct gguf_tensor *t, const char *missing,
                       mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                   "tensor %s: missing (%.60s is present)", missing, t->name);
}

/* A number in a tensor of its own. */
static int bind_number(mgpt_model *m, const struct gguf_tensor *t, float *to, mgpt_error *err)
{
    const uint64_t one = 1;
    if (bind_check_shape(t, &one, 1, err) < 0)
        return MGPT_EFILE;
    if (file_load(&m->file, t->offset, t->size, err) < 0)
        return MGPT_EIO;
    t->type->to_float(t->data, to, 1);
    if ((double)*to >= -1e6 && (double)*to <= 1e6)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, t->offset, "tensor %s: %g, expected -1e+06 to 1e+06", t->name,
                   (double)*to);
}

/* A gate reads the first values of its row, one for each column of its matrix. */
static int bind_gate(mgpt_model *m, struct linear *l, const struct gguf_tensor *t, size_t n_out,
                     mgpt_error *err)
{
    const uint64_t dims[2] = {t->dims[0], n_out};
    if (bind_check_shape(t, dims, 2, err) < 0)
        return MGPT_EFILE;
    if (t->dims[0] > m->shape.n_embd)
        return err_set(err, MGPT_EFILE, t->offset, "tensor %s: %llu columns, expected up to %zu",
                       t->name, (unsigned long long)t->dims[0], m->shape.n_embd);
    return pack_plan(m, l, t, 0, n_out, err);
}

static int bind_smear(mgpt_model *m, uint8_t *used, mgpt_error *err)
{
    const struct gguf_tensor *gate = mix_in_tensor(m, used, -1, "smear_gate.weight");
    const struct gguf_tensor *scale = mix_in_tensor(m, used, -1, "smear_lambda");
    if (!gate && !scale)
        return MGPT_OK;
    if (!gate || !scale)
        return refuse_half(m, gate ? gate : scale, gate ? "smear_lambda" : "smear_gate.weight",
                           err);
    int status = bind_gate(m, &m->smear_gate, gate, 1, err);
    return status < 0 ? status : bind_number(m, scale, &m->smear_scale, err);
}

static int bind_value_embd(mgpt_model *m, size_t layer, uint8_t *used, mgpt_error *err)
{
    const struct model_shape *s = &m->shape;
    struct layer *l = &m->layers[layer];
    const struct gguf_tensor *table = mix_in_tensor(m, used, (int)layer, "attn_value_embd.weight");
    const struct gguf_tensor *gate = mix_in_tensor(m, used, (int)layer, "attn_value_gate.weight");
    const uint64_t dims[2] = {s->n_kv, s->n_vocab};
    if (!table && !gate)
        return MGPT_OK;
    if (!table || !gate)
        return refuse_half(m, table ? table : gate,
                           table ? "attn_value_gate.weight" : "attn_value_embd.weight", err);
    if (bind_check_shape(table, dims, 2, err) < 0 ||
        bind_gate(m, &l->value_gate, gate, s->n_head_kv, err) < 0)
        return MGPT_EFILE;
    l->value_embd = table;
    return file_load(&m->file, table->offset, table->size, err) < 0 ? MGPT_EIO : MGPT_OK;
}

int bind_mix_in(mgpt_model *m, uint8_t *used, mgpt_error *err)
{
    double scale = 0;
    if (m->arch->bit != ARCH_NANOCHAT)
        return MGPT_OK;
    int status = bind_smear(m, used, err);
    const struct gguf_tensor *backout = mix_in_tensor(m, used, -1, "backout_lambda");
    if (status == MGPT_OK && backout)
        status = bind_number(m, backout, &m->backout, err);
    for (size_t i = 0; status == MGPT_OK && i < m->shape.n_layer; i++) {
        status = bind_value_embd(m, i, used, err);
        m->n_value_embd += m->layers[i].value_embd != NULL;
    }
    if (status < 0 || !m->n_value_embd)
        return status;
    if (hyper_real(m, "attention.value_gate_scale", 1e-6, 1e6, &scale, err) < 0)
        return MGPT_EFILE;
    m->value_gate_scale = (float)scale;
    if (scale > 0)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, 0, "key %s.attention.value_gate_scale: missing", m->arch->name);
}
