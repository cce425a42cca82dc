/* Describing a model for the oracle. See oracle_model.h. */
#include "check/oracle/oracle_model.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "model/model.h"
#include "model/slots.h"

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

/* "blk.LAYER."; printf would take as long as the rest of a look-up. */
static size_t put_block(char *name, int layer)
{
    char digits[12];
    size_t n = 4, k = 0;
    memcpy(name, "blk.", n);
    do
        digits[k++] = (char)('0' + layer % 10);
    while ((layer /= 10) > 0);
    while (k > 0)
        name[n++] = digits[--k];
    name[n++] = '.';
    return n;
}

void oracle_name(char name[ORACLE_NAME], int layer, const char *stem, const char *kind)
{
    size_t n = layer < 0 ? 0 : put_block(name, layer);
    for (const char *part = stem; part; part = part == stem ? kind : NULL) /* for every row */
        for (const char *at = part; *at && n + 1 < ORACLE_NAME; at++)
            name[n++] = *at;
    name[n] = 0;
}

/* Whether a slot names the tensor of a role of the oracle's. */
static int is_slot_of(const struct tensor_slot *slot, int role)
{
    int shared = role >= ORACLE_SHARED_W_GATE, whole = role == ORACLE_W_QKV;
    int base = shared ? MGPT_W_GATE + role - ORACLE_SHARED_W_GATE : role;
    switch (slot->kind) {
    case BIAS:
    case QKV_BIAS:
    case EXPERT_BIASES:
        return 0;
    case QKV_MATRIX:
    case BCX_MATRIX:
        return whole;
    case GATE_UP:
        return base == MGPT_W_UP && shared == ((slot->where & SHARED_EXPERT) != 0);
    default:
        return (int)slot->role == base && shared == ((slot->where & SHARED_EXPERT) != 0);
    }
}

/* 1: a tensor of this architecture has the slot's name, in another role (Seed-OSS: post_attention_norm). */
static int is_taken(const struct tensor_slot *slots, size_t n, unsigned bit,
                    const struct tensor_slot *slot)
{
    for (size_t i = 0; i < n; i++)
        if (((slots[i].required | slots[i].optional) & bit) &&
            strcmp(slots[i].name, slot->name) == 0)
            return 1;
    return 0;
}

/* 0 for the one of two tensors with queries' matrix that the model does not have: latent attention reads
 * them from h (attn_q) or from a latent of theirs (attn_q_b). */
static int is_of_form(const mgpt_model *m, const struct tensor_slot *slot, int layer)
{
    char name[80];
    int from_latent = slot->in == D_QR;
    if (slot->out == D_2FX) /* gate and up of experts; both are called up */
        return slot->role == MGPT_EXPERTS_UP && bind_slot_tensor(m, slot, layer, name) != NULL;
    return !m->shape.n_latent || slot->role != MGPT_W_Q || from_latent == (m->shape.n_q_latent > 0);
}

/* The slot of this architecture, else one of another: a tensor that the model cannot have has a name
 * too, unless the model has another tensor of that name: NULL. */
static const struct tensor_slot *slot_of(const mgpt_model *m, int layer, int role)
{
    int in_layers = role_is_in_layers((mgpt_role)role);
    const struct tensor_slot *slots = in_layers ? bind_layer_slots : bind_model_slots, *any = NULL;
    size_t n = in_layers ? bind_n_layer_slots : bind_n_model_slots;
    int conv = layer >= 0 && model_keeps_rows(m, (size_t)layer);
    unsigned bit = conv ? ARCH_SHORTCONV : m->arch->bit;
    for (size_t i = 0; i < n; i++)
        if (is_slot_of(&slots[i], role)) {
            if (!any && !is_taken(slots, n, bit, &slots[i]))
                any = &slots[i];
            if (((slots[i].required | slots[i].optional) & bit) && is_of_form(m, &slots[i], layer))
                return &slots[i];
        }
    return any;
}

void oracle_model_name(const mgpt_model *m, int layer, int role, const char *kind,
                       char name[ORACLE_NAME])
{
    const struct tensor_slot *slot = NULL;
    if (m->arch->norm_2_first && (role == MGPT_LN1 || role == MGPT_LN2) &&
        bind_find(m, layer, MGPT_LN2, MGPT_WEIGHT, &slot))
        role = role == MGPT_LN1 ? MGPT_LN2 : MGPT_LN1;
    slot = slot_of(m, layer, role);
    if (!slot) {
        oracle_name(name, layer, oracle_word(role), kind);
        return;
    }
    size_t n = strlen(slot->name), all = n;
    n -= n > 7 && memcmp(slot->name + n - 7, ".weight", 7) == 0 ? 7 : 0;
    oracle_name(name, role_is_in_layers((mgpt_role)role) ? layer : -1, slot->name, "");
    size_t end = strlen(name) - (all - n);
    text_format(name + end, ORACLE_NAME - end, "%s", kind);
}

const char *oracle_stem(const mgpt_model *m, int layer, int role, const char *kind,
                        char name[ORACLE_NAME])
{
    const char *stem;
    oracle_model_name(m, layer, role, kind, name);
    oracle_layer_of(name, &stem);
    return stem;
}

/* ---- words and roles --------------------------------------------------------------------------- */

static const char *const own_words[] = {"W_QKV", "shared_W_gate", "shared_W_up", "shared_W_down"};

const char *oracle_word(int role)
{
    if (role >= ORACLE_W_QKV && role < N_ORACLE_ROLES)
        return own_words[role - ORACLE_W_QKV];
    return mgpt_role_name((mgpt_role)role);
}

int oracle_role_of_word(const char *word, size_t n)
{
    for (int role = 0; role < N_ORACLE_ROLES; role++)
        if (strlen(oracle_word(role)) == n && memcmp(oracle_word(role), word, n) == 0)
            return role;
    return -1;
}

int oracle_layer_of(const char *name, const char **stem)
{
    int layer = 0;
    *stem = name;
    if (strncmp(name, "blk.", 4) != 0)
        return -1;
    for (*stem = name + 4; **stem >= '0' && **stem <= '9'; ++*stem)
        layer = layer * 10 + (**stem - '0');
    *stem += **stem == '.';
    return layer;
}

/* Whether a slot's name is the stem and ".weight", or the stem alone. */
static int is_called(const struct tensor_slot *slot, const char *stem, size_t n)
{
    const char *end = slot->name + n;
    return strncmp(slot->name, stem, n) == 0 && (*end == 0 || strcmp(end, ".weight") == 0);
}

int oracle_role_of(const mgpt_model *m, int layer, const char *stem, size_t n)
{
    const struct tensor_slot *slots = layer >= 0 ? bind_layer_slots : bind_model_slots;
    size_t n_slots = layer >= 0 ? bind_n_layer_slots : bind_n_model_slots;
    const struct tensor_slot *found = NULL, *second;
    for (size_t i = 0; i < n_slots; i++)
        if (is_called(&slots[i], stem, n)) {
            int here = ((slots[i].required | slots[i].optional) & m->arch->bit) != 0;
            found = here || !found ? &slots[i] : found;
        }
    if (!found)
        return -1;
    if (found->kind == QKV_MATRIX)
        return ORACLE_W_QKV;
    if (found->kind == GATE_UP)
        return found->out == D_2FS ? (int)ORACLE_SHARED_W_UP : (int)MGPT_W_UP;
    if (found->where & SHARED_EXPERT)
        return (int)found->role - MGPT_W_GATE + ORACLE_SHARED_W_GATE;
    if (m->arch->norm_2_first && (found->role == MGPT_LN1 || found->role == MGPT_LN2) &&
        bind_find(m, layer, MGPT_LN2, MGPT_WEIGHT, &second))
        return found->role == MGPT_LN1 ? MGPT_LN2 : MGPT_LN1;
    return (int)found->role;
}

/* ---- the source -------------------------------------------------------------------------------- */

static void name_in_model(void *user, int layer, int role, const char *kind, char name[ORACLE_NAME])
{
    oracle_model_name(user, layer, role, kind, name);
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
    int side_by_side = m->branches == BRANCHES_PARALLEL, own = l->shape != &m->shape;
    return (struct oracle_layer){.freq = l->rope ? l->rope->freq : NULL,
                                 .rope_scale = l->rope ? l->rope->scale : 1,
                                 .window = l->window,
                                 .conv = l->conv ? m->shape.n_conv : 0,
                                 .activation = act_name(m->act),
                                 .xielu = {(double)l->xielu.p, (double)l->xielu.n,
                                           (double)l->xielu.beta, (double)l->xielu.eps},
                                 .attn_scale = (double)m->attn_scale,
                                 .n_head = own ? l->shape->n_head : 0,
                                 .n_gate = l->shape->n_gate,
                                 .n_head_kv = own ? l->shape->n_head_kv : 0,
                                 .head_dim = own ? l->shape->head_dim : 0,
                                 .value_dim = own ? l->shape->value_dim : 0,
                                 .n_rot = own && l->rope ? l->rope->n_rot : 0,
                                 .n_ff = own ? l->shape->n_ff : 0,
                                 .others_keys = l->kv_from != (size_t)(l - m->layers),
                                 .out_scale = (double)l->out_scale,
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
    const struct model_shape *last = &m->shape;
    for (size_t i = 0; i < m->shape.n_layer; i++)
        if (!m->layers[i].conv) {
            norm = &m->layers[i].q_norm;
            last = m->layers[i].shape;
        }
    if (!norm || norm->kind == NORM_NONE)
        return;
    spec->qk_norm_other = norm->n_gains > 0;
    spec->qk_norm =
        norm->width == last->head_dim && !norm->n_gains ? ORACLE_QK_PER_HEAD : ORACLE_QK_WHOLE;
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
    *spec = (struct oracle_spec){.source = {oracle_model_find, oracle_model_read_values,
                                            (void *)(uintptr_t)m, NULL, name_in_model},
                                 .layers = *layers,
                                 .n_layer = s->n_layer,
                                 .n_embd = s->n_embd,
                                 .n_head = s->n_head,
                                 .n_head_kv = s->n_head_kv,
                                 .head_dim = s->head_dim,
                                 .n_gate = s->n_gate,
                                 .softplus_gates = m->arch->gates_softplus,
                                 .value_dim = s->n_latent ? s->value_dim : 0,
                                 .n_latent = s->n_latent,
                                 .n_q_latent = s->n_q_latent,
                                 .rot_first = s->n_latent ? s->head_dim - s->n_rot : 0,
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
                                 .expert_more = m->arch->expert_more,
                                 .bias_of_scores = m->arch->bias_of_scores,
                                 .half_shared = m->arch->half_shared,
                                 .residual_by_depth = m->arch->residual_by_depth,
                                 .dense_head = m->head_dense.w != NULL,
                                 .head_act = act_name(m->act),
                                 .expert_groups = m->expert_groups,
                                 .expert_groups_used = m->expert_groups_used,
                                 .query_context = m->query_context,
                                 .smear_scale = (double)m->smear_scale,
                                 .smear_gate = m->smear_gate.n_in,
                                 .backout = (double)m->backout,
                                 .v_norm = m->arch->v_norm,
                                 .n_input = (int)s->n_input,
                                 .layer_norm = m->arch->norm == NORM_LAYER,
                                 .embd_norm = m->embd_norm.kind != NORM_NONE,
                                 .final_norm = m->final_norm.kind != NORM_NONE,
                                 .gated = s->n_layer > 0 &&
                                          (m->layers[0].gate.w != NULL || m->layers[0].experts),
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
