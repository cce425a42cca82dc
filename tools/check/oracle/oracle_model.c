/* Describing a model for the oracle. See oracle_model.h. */
#include "check/oracle/oracle_model.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

static enum oracle_tensor oracle_model_find(void *user, const char *name)
{
    const mgpt_model *m = user;
    const struct gguf_tensor *t = gguf_tensor(&m->gguf, name);
    if (!t)
        return ORACLE_ABSENT;
    return weight_is_integer(t->type->weight) ? ORACLE_INTEGERS : ORACLE_FLOATS;
}

static int oracle_model_read_values(void *user, const char *name, size_t row, size_t n, float *out,
                                    mgpt_error *err)
{
    return mgpt_read_tensor(user, name, (uint64_t)row * n, n, out, err);
}

static enum oracle_components stored(const struct arch *arch)
{
    if (!arch->rope || arch->same_order)
        return ORACLE_AS_SHOWN;
    if (arch->pairs == ROPE_ADJACENT)
        return ORACLE_PAIRS;
    return arch->halves_exchanged ? ORACLE_EXCHANGED : ORACLE_AS_SHOWN;
}

static struct oracle_layer describe_layer(const mgpt_model *m, const struct layer *l)
{
    int side_by_side = m->branches == BRANCHES_PARALLEL;
    return (struct oracle_layer){.freq = l->rope ? l->rope->freq : NULL,
                                 .rope_scale = l->rope ? l->rope->scale : 1,
                                 .window = l->window,
                                 .conv = l->conv ? m->shape.n_conv : 0,
                                 .activation = act_name(m->act),
                                 .xielu = {(double)l->xielu.p, (double)l->xielu.n,
                                           (double)l->xielu.beta, (double)l->xielu.eps},
                                 .attn_scale = (double)m->attn_scale,
                                 .keep = (double)l->x_scale,
                                 .mix_in_x0 = (double)l->x0_scale,
                                 .value_gate = l->value_gate.n_in,
                                 .halves = m->arch->pairs == ROPE_HALVES,
                                 .stored = stored(m->arch),
                                 .attn_norm = l->attn_norm.kind != NORM_NONE,
                                 .mlp_norm = l->ffn_norm.kind != NORM_NONE,
                                 .shared_norm =
                                     side_by_side && l->ffn_norm.gain == l->attn_norm.gain,
                                 .parallel = side_by_side};
}

/* A gain for each head is one of the whole projection with the statistics of heads. */
static void describe_qk_norm(const mgpt_model *m, struct oracle_spec *spec)
{
    const struct norm *norm = NULL;
    for (size_t i = 0; i < m->shape.n_layer; i++)
        norm = m->layers[i].conv ? norm : &m->layers[i].q_norm;
    if (!norm || norm->kind == NORM_NONE)
        return;
    spec->qk_norm_other = norm->n_gains > 0;
    spec->qk_norm =
        norm->width == m->shape.head_dim && !norm->n_gains ? ORACLE_QK_PER_HEAD : ORACLE_QK_WHOLE;
}

#define NUMBER_OF_MODEL(field, ...) .field = (double)m->field,

int oracle_describe(const mgpt_model *m, struct oracle_spec *spec, struct oracle_layer **layers,
                    mgpt_error *err)
{
    const struct model_shape *s = &m->shape;
    *layers = mem_new(s->n_layer, sizeof **layers);
    if (!*layers)
        return err_memory(err, "a description of the layers", s->n_layer * sizeof **layers);
    for (size_t i = 0; i < s->n_layer; i++)
        (*layers)[i] = describe_layer(m, &m->layers[i]);
    *spec = (struct oracle_spec){
        .source = {oracle_model_find, oracle_model_read_values, (void *)(uintptr_t)m, NULL},
        .layers = *layers,
        .n_layer = s->n_layer,
        .n_embd = s->n_embd,
        .n_head = s->n_head,
        .n_head_kv = s->n_head_kv,
        .head_dim = s->head_dim,
        .n_ff = s->n_ff,
        .n_vocab = s->n_vocab,
        .n_rot = m->arch->rope ? s->n_rot : 0,
        .eps = (double)m->eps,
        MODEL_NUMBERS(NUMBER_OF_MODEL).n_expert = s->n_expert,
        .n_expert_used = s->n_expert_used,
        .n_ff_expert = s->n_ff_expert,
        .n_ff_shared = s->n_ff_shared,
        .expert_norm = m->expert_norm,
        .expert_sigmoid = m->expert_sigmoid,
        .expert_scale = (double)m->expert_scale,
        .smear_scale = (double)m->smear_scale,
        .smear_gate = m->smear_gate.n_in,
        .backout = (double)m->backout,
        .layer_norm = m->arch->norm == NORM_LAYER,
        .embd_norm = m->embd_norm.kind != NORM_NONE,
        .final_norm = m->final_norm.kind != NORM_NONE,
        .gated = s->n_layer > 0 && (m->layers[0].gate.w != NULL || m->layers[0].experts),
        .qk_norm_late = m->rope_first,
        .int8_inputs = 1};
    describe_qk_norm(m, spec);
    return MGPT_OK;
}

const uint32_t *oracle_qk_order(const mgpt_model *m, size_t *head_dim)
{
    *head_dim = m->shape.head_dim;
    return m->qk_order;
}

int oracle_final_norm(const mgpt_model *m)
{
    return m->final_norm.kind != NORM_NONE;
}

int oracle_tensor_find(const mgpt_model *m, const char *name, mgpt_tensor *tensor)
{
    return mgpt_find_tensor(m, name, tensor, NULL) == MGPT_OK;
}

int oracle_engine_pass(const mgpt_model *model, const int32_t *tokens, size_t n, uint64_t points,
                       mgpt_tap_fn *tap, void *user, mgpt_error *err)
{
    mgpt_session_params params = {.kv_type = MGPT_KV_F32}; /* references are not rounded */
    mgpt_session *session = mgpt_session_new(model, &params, err);
    mgpt_error failed;
    int status = session ? mgpt_tap(session, points, tap, user, err) : err->status;
    if (status == MGPT_OK) {
        interrupt_stops(session);
        status = mgpt_feed(session, tokens, n, &failed);
        interrupt_stops_end(session);
        if (status == MGPT_ESTOP && interrupted())
            status = err_set(err, MGPT_ESTOP, MGPT_NO_OFFSET, "interrupted");
        else if (status == MGPT_ESTOP)
            status = err->status; /* by the tap */
        else if (status < 0)
            *err = failed;
    }
    mgpt_session_free(session);
    return status;
}
